//! Which input a host gets next, as hosts come, work at different speeds, and leave.

use crate::plan::{Input, Plan, plan};
use std::collections::VecDeque;

/// A job for a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// The input's number.
    pub input: usize,
    /// The host holds the input, or nobody knows which host does.
    pub is_local: bool,
}

/// See the module. A host is *there* until it is [lost](Schedule::lost).
#[derive(Debug)]
pub struct Schedule {
    inputs: Vec<Input>,
    hosts: Vec<Host>,
    /// Inputs that no host which is there holds.
    homeless: VecDeque<usize>,
}

#[derive(Debug)]
struct Host {
    queue: VecDeque<usize>,
    running: Vec<usize>,
    /// Bytes in the queue.
    waiting_bytes: u64,
    is_lost: bool,
}

impl Schedule {
    /// Plans `inputs` for so many hosts.
    pub fn new(inputs: Vec<Input>, hosts: usize) -> Self {
        let Plan { queues } = plan(&inputs, hosts);
        let bytes = |queue: &[usize]| queue.iter().map(|input| inputs[*input].bytes).sum();
        let hosts = queues
            .into_iter()
            .map(|queue| Host {
                waiting_bytes: bytes(&queue),
                queue: queue.into(),
                running: Vec::new(),
                is_lost: false,
            })
            .collect();
        Self { inputs, hosts, homeless: VecDeque::new() }
    }

    /// The inputs that `host` hasn't begun, in their order.
    pub fn queue(&self, host: usize) -> impl Iterator<Item = usize> + '_ {
        self.hosts[host].queue.iter().copied()
    }

    /// The next job for a free slot of `host`: the first of its own; else one that it holds, too, from
    /// the host with the most left; else one whose hosts are all lost. None may change to some when a
    /// host is lost or a job fails.
    pub fn next(&mut self, host: usize) -> Option<Given> {
        if self.hosts[host].is_lost {
            return None;
        }
        let input = self.own(host).or_else(|| self.of_others(host)).or_else(|| self.homeless.pop_front())?;
        self.hosts[host].running.push(input);
        let places = &self.inputs[input].hosts;
        Some(Given { input, is_local: places.is_empty() || places.contains(&host) })
    }

    fn own(&mut self, host: usize) -> Option<usize> {
        let input = self.hosts[host].queue.pop_front()?;
        self.hosts[host].waiting_bytes -= self.inputs[input].bytes;
        Some(input)
    }

    fn of_others(&mut self, host: usize) -> Option<usize> {
        let mut busiest: Vec<usize> = (0..self.hosts.len()).filter(|other| *other != host).collect();
        busiest.sort_by_key(|other| std::cmp::Reverse(self.hosts[*other].waiting_bytes));
        for other in busiest {
            let queue = &self.hosts[other].queue;
            // From the end: the owner begins at the front.
            let found = queue.iter().rposition(|input| {
                let places = &self.inputs[*input].hosts;
                places.is_empty() || places.contains(&host)
            });
            if let Some(at) = found
                && let Some(input) = self.hosts[other].queue.remove(at)
            {
                self.hosts[other].waiting_bytes -= self.inputs[input].bytes;
                return Some(input);
            }
        }
        None
    }

    /// The job is over, and isn't repeated.
    pub fn done(&mut self, host: usize, input: usize) {
        self.hosts[host].running.retain(|running| *running != input);
    }

    /// Whether the host has begun this job and not ended it.
    pub fn runs(&self, host: usize, input: usize) -> bool {
        self.hosts[host].running.contains(&input)
    }

    /// An input that waits is not to be begun any more.
    pub fn given_up(&mut self, input: usize) {
        self.homeless.retain(|waiting| *waiting != input);
        for host in &mut self.hosts {
            let before = host.queue.len();
            host.queue.retain(|waiting| *waiting != input);
            if host.queue.len() < before {
                host.waiting_bytes -= self.inputs[input].bytes;
            }
        }
    }

    /// The job failed there, and is to be repeated: elsewhere if another host holds the input.
    pub fn failed(&mut self, host: usize, input: usize) {
        self.done(host, input);
        self.place(input, Some(host));
    }

    /// The host is gone. Its inputs, begun or not, go to others. Returns those that it had begun.
    pub fn lost(&mut self, host: usize) -> Vec<usize> {
        let Host { queue, running, waiting_bytes, is_lost } = &mut self.hosts[host];
        (*waiting_bytes, *is_lost) = (0, true);
        let (waiting, begun) = (std::mem::take(queue), std::mem::take(running));
        for input in begun.iter().copied().chain(waiting) {
            self.place(input, None);
        }
        begun
    }

    /// Queues an input at the least loaded of its hosts that are there, `but` only as the last choice.
    fn place(&mut self, input: usize, but: Option<usize>) {
        let there = self.inputs[input].hosts.iter().copied().filter(|host| !self.hosts[*host].is_lost);
        match there.min_by_key(|host| (Some(*host) == but, self.hosts[*host].waiting_bytes)) {
            Some(host) => {
                self.hosts[host].queue.push_back(input);
                self.hosts[host].waiting_bytes += self.inputs[input].bytes;
            }
            None => self.homeless.push_back(input),
        }
    }

    /// Whether nothing waits or runs.
    pub fn is_done(&self) -> bool {
        self.homeless.is_empty()
            && self.hosts.iter().all(|host| host.queue.is_empty() && host.running.is_empty())
    }

    /// Whether some host is there.
    pub fn has_hosts(&self) -> bool {
        self.hosts.iter().any(|host| !host.is_lost)
    }

    /// Everything that waits or runs, for a report when no host is left.
    pub fn left(&self) -> Vec<usize> {
        let of_host = |host: &Host| host.queue.iter().chain(&host.running).copied().collect::<Vec<_>>();
        let mut left: Vec<usize> = self.hosts.iter().flat_map(of_host).chain(self.homeless.clone()).collect();
        left.sort_unstable();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn input(bytes: u64, hosts: &[usize]) -> Input {
        Input { bytes, hosts: hosts.to_vec() }
    }

    #[test]
    fn an_idle_host_helps_a_slow_one_with_what_both_hold() {
        let inputs = vec![input(1, &[0]), input(1, &[0, 1]), input(1, &[0, 1]), input(1, &[0])];
        let mut schedule = Schedule::new(inputs, 2);
        let of_fast: Vec<_> = std::iter::from_fn(|| schedule.next(1)).collect();
        assert_eq!(of_fast.len(), 2);
        assert!(of_fast.iter().all(|given| given.is_local && [1, 2].contains(&given.input)), "{of_fast:?}");
        assert_eq!(schedule.next(0), Some(Given { input: 0, is_local: true }));
    }

    #[test]
    fn what_only_a_lost_host_held_is_read_from_afar_and_last() {
        let mut schedule = Schedule::new(vec![input(1, &[0]), input(1, &[1])], 2);
        assert_eq!(schedule.next(0), Some(Given { input: 0, is_local: true }));
        assert_eq!(schedule.lost(0), [0]);
        assert_eq!(schedule.next(0), None);
        assert_eq!(schedule.next(1), Some(Given { input: 1, is_local: true }));
        assert_eq!(schedule.next(1), Some(Given { input: 0, is_local: false }));
        schedule.done(1, 0);
        schedule.failed(1, 1);
        assert!(!schedule.is_done());
        assert_eq!(schedule.next(1), Some(Given { input: 1, is_local: true }), "no other host holds it");
        schedule.done(1, 1);
        assert!(schedule.is_done() && schedule.has_hosts());
        schedule.lost(1);
        assert!(!schedule.has_hosts());
    }

    proptest! {
        #[test]
        fn however_hosts_fail_each_input_is_done_once_while_one_is_left(
            places in proptest::collection::vec(proptest::collection::vec(0usize..4, 0..3), 0..40),
            steps in proptest::collection::vec((0usize..4, 0u8..10), 0..300),
        ) {
            let inputs: Vec<Input> = places.iter().map(|hosts| input(1, hosts)).collect();
            let mut schedule = Schedule::new(inputs, 4);
            let mut done = vec![0; places.len()];
            let mut running: Vec<Vec<usize>> = vec![Vec::new(); 4];
            let finish = |schedule: &mut Schedule, running: &mut Vec<Vec<usize>>, done: &mut Vec<i32>, host: usize| {
                if let Some(input) = running[host].pop() {
                    schedule.done(host, input);
                    done[input] += 1;
                }
            };
            for (host, step) in steps {
                match step {
                    // Host 3 never fails.
                    0 if host < 3 => {
                        let mut begun = schedule.lost(host);
                        begun.sort_unstable();
                        running[host].sort_unstable();
                        prop_assert_eq!(begun, std::mem::take(&mut running[host]));
                    }
                    1 => if let Some(input) = running[host].pop() { schedule.failed(host, input) },
                    2..=5 => finish(&mut schedule, &mut running, &mut done, host),
                    _ => running[host].extend(schedule.next(host).map(|given| given.input)),
                }
            }
            for host in (0..4).rev().chain([3]) {
                while !running[host].is_empty() { finish(&mut schedule, &mut running, &mut done, host) }
                if host < 3 { schedule.lost(host); }
            }
            while let Some(given) = schedule.next(3) {
                schedule.done(3, given.input);
                done[given.input] += 1;
            }
            prop_assert!(schedule.is_done() && schedule.left().is_empty());
            prop_assert!(done.iter().all(|times| *times == 1), "{:?}", done);
        }
    }
}
