//! Decides which input a host gets next, as hosts join, work at different speeds, and leave.

use crate::plan::{Input, Plan, plan};
use std::collections::{HashMap, VecDeque};

/// A job for a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// The input's number.
    pub input: usize,
    /// The host holds the input, or it isn't known which hosts do.
    pub is_local: bool,
}

/// The queue of each host, and the inputs without a host.
#[derive(Debug)]
pub struct Schedule {
    inputs: Vec<Input>,
    hosts: Vec<Host>,
    /// Inputs whose hosts are all lost.
    homeless: VecDeque<usize>,
    /// By failed input: the host where it failed. That host doesn't take the input from another host's queue.
    avoided: HashMap<usize, usize>,
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
    /// Plans `inputs` for this many hosts.
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
        Self { inputs, hosts, homeless: VecDeque::new(), avoided: HashMap::new() }
    }

    /// The inputs queued at `host`, in order.
    pub fn queue(&self, host: usize) -> impl Iterator<Item = usize> + '_ {
        self.hosts[host].queue.iter().copied()
    }

    /// The next job for a free slot of `host`. First come inputs in its own queue, then inputs that it also
    /// holds, from the queue of the busiest other host, then inputs whose hosts are all lost. After `None`,
    /// call again when a host is lost or a job fails.
    pub fn next(&mut self, host: usize) -> Option<Given> {
        if self.hosts[host].is_lost {
            return None;
        }
        let input = self.own(host).or_else(|| self.of_others(host)).or_else(|| self.of_none(host))?;
        self.hosts[host].running.push(input);
        Some(Given { input, is_local: self.holds(host, input) })
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
            // Take from the end, since the owner takes from the front.
            let found = queue
                .iter()
                .rposition(|input| self.holds(host, *input) && self.avoided.get(input) != Some(&host));
            if let Some(at) = found
                && let Some(input) = self.hosts[other].queue.remove(at)
            {
                self.hosts[other].waiting_bytes -= self.inputs[input].bytes;
                return Some(input);
            }
        }
        None
    }

    /// An input that no host queues.
    fn of_none(&mut self, host: usize) -> Option<usize> {
        let at = self.homeless.iter().position(|input| self.avoided.get(input) != Some(&host))?;
        self.homeless.remove(at)
    }

    /// Whether an input is queued at a host.
    pub fn has_queued(&self) -> bool {
        self.hosts.iter().any(|host| !host.queue.is_empty())
    }

    /// Records that the host starts this input, which already runs on another host.
    pub fn also(&mut self, host: usize, input: usize) -> Given {
        self.hosts[host].running.push(input);
        Given { input, is_local: self.holds(host, input) }
    }

    /// Whether the host holds the input, or it isn't known which hosts do.
    pub fn holds(&self, host: usize, input: usize) -> bool {
        let places = &self.inputs[input].hosts;
        places.is_empty() || places.contains(&host)
    }

    /// Records that the host no longer runs this input.
    pub fn done(&mut self, host: usize, input: usize) {
        self.hosts[host].running.retain(|running| *running != input);
    }

    /// Records that the host is lost, and moves its queued inputs to other hosts. Returns the inputs that it
    /// was running.
    pub fn lost(&mut self, host: usize) -> Vec<usize> {
        let Host { queue, running, waiting_bytes, is_lost } = &mut self.hosts[host];
        (*waiting_bytes, *is_lost) = (0, true);
        let (waiting, begun) = (std::mem::take(queue), std::mem::take(running));
        // An input may have avoided another host because of this one.
        self.avoided.clear();
        waiting.into_iter().for_each(|input| self.again(input, None));
        begun
    }

    /// Queues an input again, at the least loaded of its hosts that aren't lost. Uses `avoid` only if there
    /// is no other such host.
    pub fn again(&mut self, input: usize, avoid: Option<usize>) {
        self.avoided.remove(&input);
        self.avoided.extend(avoid.map(|host| (input, host)));
        let left = self.inputs[input].hosts.iter().copied().filter(|host| !self.hosts[*host].is_lost);
        match left.min_by_key(|host| (Some(*host) == avoid, self.hosts[*host].waiting_bytes)) {
            Some(host) => {
                self.hosts[host].queue.push_back(input);
                self.hosts[host].waiting_bytes += self.inputs[input].bytes;
            }
            None => self.homeless.push_back(input),
        }
    }

    /// Whether at least one host isn't lost.
    pub fn has_hosts(&self) -> bool {
        self.hosts.iter().any(|host| !host.is_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        schedule.again(0, None);
        assert_eq!(schedule.next(0), None);
        assert_eq!(schedule.next(1), Some(Given { input: 1, is_local: true }));
        assert_eq!(schedule.next(1), Some(Given { input: 0, is_local: false }));
        schedule.done(1, 0);
        schedule.done(1, 1);
        schedule.again(1, Some(1));
        assert!(schedule.has_queued());
        assert_eq!(schedule.next(1), Some(Given { input: 1, is_local: true }), "no other host holds it");
        assert!(!schedule.has_queued() && schedule.has_hosts());
        schedule.lost(1);
        assert!(!schedule.has_hosts());
    }
}
