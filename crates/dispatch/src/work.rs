//! The rules of a run: which host starts which input, which failed inputs start again, and which command's
//! output counts. Each input [ends](Act::End) once.

use crate::frame::Exit;
use crate::plan::Input;
use crate::schedule::Schedule;
use std::collections::HashMap;
use std::time::Duration;

/// Number of commands that must succeed before a slower one counts as a straggler.
const ENOUGH_TO_COMPARE: usize = 3;
/// A straggler has run for longer than this multiple of the successful commands' median.
const TIMES_THE_MEDIAN: u32 = 2;
/// A command that has run for less than this gets no duplicate.
const LEAST_STRAGGLING: Duration = Duration::from_secs(1);
/// A run may start one duplicate per this many inputs, but at least one, as in Hadoop.
const INPUTS_A_DUPLICATE: usize = 10;

/// The limits for repetitions.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// An input fails after this many failures of its command.
    pub tries: u32,
    /// An input fails after this many failures of its hosts and its store.
    pub hosts_a_job: u32,
    /// Start a command a second time if it runs much longer than others.
    pub duplicates: bool,
}

/// An action for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Start the input on the host.
    Begin {
        /// The host.
        host: usize,
        /// The input.
        input: usize,
        /// The host holds the input, or it isn't known which hosts do.
        is_local: bool,
        /// The number of this attempt at the input, from 1.
        attempt: u32,
    },
    /// End the command on the host: another command completed the input.
    Cancel {
        /// The host.
        host: usize,
        /// The input.
        input: usize,
    },
    /// Drop the output of this host's command: it doesn't count.
    Forget {
        /// The host.
        host: usize,
        /// The input.
        input: usize,
    },
    /// The input ended. If a command ended it, that command ran on this host.
    End {
        /// The input.
        input: usize,
        /// The host.
        host: Option<usize>,
        /// How it ended.
        exit: Exit,
    },
}

/// The state of a run. Times are those of any monotonic clock.
#[derive(Debug)]
pub struct Work {
    schedule: Schedule,
    policy: Policy,
    /// By host: number of commands that it can start now.
    free: Vec<usize>,
    /// By host: whether it accepts commands.
    is_ready: Vec<bool>,
    /// By host: whether the schedule had no input for it, and no input was queued since.
    is_dry: Vec<bool>,
    inputs: Vec<State>,
    /// Start times of the running commands, by host and input.
    running: HashMap<(usize, usize), Duration>,
    /// Run times of the commands that succeeded.
    took: Vec<Duration>,
    duplicates: usize,
    left: usize,
}

#[derive(Debug, Default, Clone)]
struct State {
    attempts: u32,
    running: u32,
    /// Number of failures of its command.
    failed: u32,
    /// Number of failures of its hosts and its store.
    disturbed: u32,
    is_over: bool,
}

impl Work {
    /// No input has started, and no host is ready.
    pub fn new(inputs: Vec<Input>, hosts: usize, policy: Policy) -> Self {
        let left = inputs.len();
        Self {
            schedule: Schedule::new(inputs, hosts),
            policy,
            free: vec![0; hosts],
            is_ready: vec![false; hosts],
            is_dry: vec![false; hosts],
            inputs: vec![State::default(); left],
            running: HashMap::new(),
            took: Vec::new(),
            duplicates: 0,
            left,
        }
    }

    /// Number of inputs that haven't ended.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Records that the host can run this many commands at the same time.
    pub fn ready(&mut self, host: usize, slots: usize) {
        self.free[host] = slots.max(1);
        self.is_ready[host] = true;
    }

    /// Whether the host runs this input, so that its output may count.
    pub fn runs(&self, host: usize, input: usize) -> bool {
        self.running.contains_key(&(host, input))
    }

    /// Fills each free slot with a command. A host whose queue is empty takes inputs of others.
    pub fn give(&mut self, now: Duration) -> Vec<Act> {
        let mut acts = Vec::new();
        for host in 0..self.free.len() {
            while self.free[host] > 0 && !self.is_dry[host] {
                match self.schedule.next(host) {
                    Some(given) => acts.push(self.begin(host, given.input, given.is_local, now)),
                    None => self.is_dry[host] = true,
                }
            }
        }
        if self.policy.duplicates && !self.schedule.has_queued() {
            self.duplicate(now, &mut acts);
        }
        acts
    }

    fn begin(&mut self, host: usize, input: usize, is_local: bool, now: Duration) -> Act {
        let state = &mut self.inputs[input];
        (state.attempts, state.running) = (state.attempts + 1, state.running + 1);
        self.free[host] -= 1;
        self.running.insert((host, input), now);
        Act::Begin { host, input, is_local, attempt: state.attempts }
    }

    /// Starts a duplicate of each straggler on a free host, preferably one that holds the input.
    fn duplicate(&mut self, now: Duration, acts: &mut Vec<Act>) {
        let most = (self.inputs.len() / INPUTS_A_DUPLICATE).max(1);
        if self.took.len() < ENOUGH_TO_COMPARE || self.free.iter().all(|free| *free == 0) {
            return;
        }
        let middle = self.took.len() / 2;
        let median = *self.took.select_nth_unstable(middle).1;
        let straggles = LEAST_STRAGGLING.max(median * TIMES_THE_MEDIAN);
        let mut late: Vec<(Duration, usize, usize)> = self
            .running
            .iter()
            .filter(|((_, input), began)| {
                let state = &self.inputs[*input];
                now.saturating_sub(**began) > straggles && state.running == 1 && !state.is_over
            })
            .map(|((host, input), began)| (*began, *host, *input))
            .collect();
        late.sort_unstable();
        for (_, slow, input) in late {
            let free = (0..self.free.len()).filter(|host| *host != slow && self.free[*host] > 0);
            let Some(host) = free.min_by_key(|host| !self.schedule.holds(*host, input)) else { return };
            if self.duplicates >= most {
                return;
            }
            self.duplicates += 1;
            let given = self.schedule.also(host, input);
            acts.push(self.begin(host, input, given.is_local, now));
        }
    }

    /// Records that a command ended. Ignores the exit of a command that isn't running.
    pub fn ended(&mut self, host: usize, input: usize, exit: Exit, now: Duration) -> Vec<Act> {
        let Some(began) = self.running.remove(&(host, input)) else { return Vec::new() };
        self.schedule.done(host, input);
        self.free[host] += 1;
        let state = &mut self.inputs[input];
        state.running -= 1;
        if state.is_over {
            return vec![Act::Forget { host, input }];
        }
        let is_disturbed = exit.failure.is_some() && exit.retry_elsewhere;
        let again = match (is_disturbed, exit.is_success()) {
            (_, true) => false,
            (true, _) => {
                state.disturbed += 1;
                state.disturbed < self.policy.hosts_a_job
            }
            (false, _) => {
                state.failed += 1;
                state.failed < self.policy.tries
            }
        };
        if exit.is_success() {
            self.took.push(now.saturating_sub(began));
        } else if state.running > 0 {
            // A duplicate still runs, and its exit decides.
            return vec![Act::Forget { host, input }];
        } else if again {
            // Avoid this host if another ready host holds the input, or if none does, and another is ready.
            let ready = (0..self.is_ready.len()).filter(|ready| self.is_ready[*ready]);
            let (mut holders, mut others) = (Vec::new(), false);
            for ready in ready {
                others |= ready != host;
                holders.extend(self.schedule.holds(ready, input).then_some(ready));
            }
            let has_other = holders.iter().any(|holder| *holder != host) || (holders.is_empty() && others);
            self.repeat(input, has_other.then_some(host));
            return vec![Act::Forget { host, input }];
        }
        self.end(input, Some(host), exit)
    }

    fn repeat(&mut self, input: usize, avoid: Option<usize>) {
        self.schedule.again(input, avoid);
        self.is_dry.fill(false);
    }

    fn end(&mut self, input: usize, host: Option<usize>, exit: Exit) -> Vec<Act> {
        self.inputs[input].is_over = true;
        self.left -= 1;
        let mut others: Vec<usize> =
            self.running.keys().filter(|(_, other)| *other == input).map(|(host, _)| *host).collect();
        others.sort_unstable();
        let cancel = others.into_iter().map(|host| Act::Cancel { host, input });
        std::iter::once(Act::End { input, host, exit }).chain(cancel).collect()
    }

    /// Records that the host is lost, with its running commands. Returns the next actions, and the number of
    /// commands that start again.
    pub fn lost(&mut self, host: usize) -> (Vec<Act>, usize) {
        let mut acts = Vec::new();
        (self.free[host], self.is_ready[host]) = (0, false);
        let mut repeated = 0;
        for input in self.schedule.lost(host) {
            self.running.remove(&(host, input));
            acts.push(Act::Forget { host, input });
            let state = &mut self.inputs[input];
            (state.running, state.disturbed) = (state.running - 1, state.disturbed + 1);
            if state.is_over || state.running > 0 {
                continue;
            }
            if state.disturbed < self.policy.hosts_a_job {
                self.repeat(input, None);
                repeated += 1;
            } else {
                let failure = Some(format!("its host or its store failed {} times", state.disturbed));
                acts.extend(self.end(input, None, Exit { failure, ..Exit::default() }));
            }
        }
        // The host's queued inputs are now in other queues.
        self.is_dry.fill(false);
        if !self.schedule.has_hosts() {
            for input in 0..self.inputs.len() {
                if !self.inputs[input].is_over {
                    let failure = Some("no host is left".to_owned());
                    acts.extend(self.end(input, None, Exit { failure, ..Exit::default() }));
                }
            }
        }
        (acts, repeated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy { tries: 2, hosts_a_job: 3, duplicates: true };
    const OK: Exit = Exit { code: 0, signal: 0, failure: None, retry_elsewhere: false, input_bytes: 0 };

    fn work(inputs: usize, hosts: usize) -> Work {
        let input = |_| Input { bytes: 1, hosts: (0..hosts).collect() };
        let mut work = Work::new((0..inputs).map(input).collect(), hosts, POLICY);
        (0..hosts).for_each(|host| work.ready(host, 1));
        work
    }

    fn begun(acts: &[Act]) -> Vec<(usize, usize)> {
        let begun = |act: &Act| match act {
            Act::Begin { host, input, .. } => Some((*host, *input)),
            _ => None,
        };
        acts.iter().filter_map(begun).collect()
    }

    #[test]
    fn a_straggler_runs_twice_and_ends_once() {
        let mut work = work(5, 2);
        let second = Duration::from_secs;
        let mut now = second(0);
        let begins = begun(&work.give(now));
        let (slow, stuck) = begins[0];
        let fast = 1 - slow;
        let mut next = begins[1].1;
        for _ in 0..4 {
            now += second(1);
            work.ended(fast, next, OK, now);
            let given = begun(&work.give(now));
            if let Some((_, input)) = given.first() {
                next = *input;
            }
        }
        assert_eq!(next, stuck, "on the other host once it is late");
        assert!(work.runs(slow, stuck) && work.runs(fast, stuck) && work.left() == 1);
        let acts = work.ended(fast, stuck, OK, now);
        let cancel = Act::Cancel { host: slow, input: stuck };
        assert_eq!(acts, [Act::End { input: stuck, host: Some(fast), exit: OK }, cancel]);
        assert_eq!(work.left(), 0);
        assert_eq!(work.ended(slow, stuck, OK, now), [Act::Forget { host: slow, input: stuck }]);
        assert_eq!(work.ended(slow, stuck, OK, now), [], "it runs no more");
    }

    #[test]
    fn failures_are_repeated_as_often_as_allowed() {
        let mut work = work(1, 2);
        let failed = Exit { code: 1, ..OK };
        let (host, input) = begun(&work.give(Duration::ZERO))[0];
        assert_eq!(work.ended(host, input, failed.clone(), Duration::ZERO), [Act::Forget { host, input }]);
        let (other, _) = begun(&work.give(Duration::ZERO))[0];
        assert_ne!(other, host);
        let end = Act::End { input, host: Some(other), exit: failed.clone() };
        assert_eq!(work.ended(other, input, failed, Duration::ZERO), [end]);
    }
}
