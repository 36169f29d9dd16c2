//! The first distribution of inputs to hosts.
//!
//! Gives each input to a host that holds it, and keeps the load of the most loaded host low. First it assigns
//! the inputs in the order of their sizes, the largest first, each to the least loaded of its hosts. Then it
//! moves inputs along chains of hosts away from the most loaded host, and exchanges inputs of that host for
//! smaller ones. If neither lowers that host's load, the next host's turn makes room for it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The input of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its size. An empty input counts as one byte, so that empty inputs are spread, too.
    pub bytes: u64,
    /// The numbers of the hosts that hold it, best first. If empty, all hosts are equally good.
    pub hosts: Vec<usize>,
}

impl Input {
    fn cost(&self) -> u64 {
        self.bytes.max(1)
    }
}

/// Inputs by host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The numbers of each host's inputs, in their order.
    pub queues: Vec<Vec<usize>>,
}

/// Inputs to look at while a plan is improved, roughly. It bounds the time of planning, to some 50 ms.
const LOOKS: usize = 15_000_000;

/// An exchange of two inputs is worth a move if it lowers the highest load by more than one part in this many.
const LEAST_GAIN: u64 = 1_000;

/// Distributes `inputs` over `hosts` hosts of equal speed. An input that no host holds goes to the least
/// loaded host. Host numbers beyond `hosts` are ignored.
pub fn plan(inputs: &[Input], hosts: usize) -> Plan {
    let mut planner = Planner::new(inputs, hosts);
    if hosts > 0 {
        planner.spread();
        planner.improve();
    }
    let mut queues = planner.held;
    queues.iter_mut().for_each(|queue| queue.sort_unstable());
    Plan { queues }
}

struct Planner<'a> {
    inputs: &'a [Input],
    /// Each host's load: the bytes of its inputs.
    load: Vec<u64>,
    /// Each host's inputs.
    held: Vec<Vec<usize>>,
}

impl<'a> Planner<'a> {
    fn new(inputs: &'a [Input], hosts: usize) -> Self {
        Self { inputs, load: vec![0; hosts], held: vec![Vec::new(); hosts] }
    }

    fn places(&self, input: usize) -> impl Iterator<Item = usize> + use<'a> {
        let hosts = self.load.len();
        self.inputs[input].hosts.iter().copied().filter(move |host| *host < hosts)
    }

    fn give(&mut self, input: usize, host: usize) {
        self.load[host] += self.inputs[input].cost();
        self.held[host].push(input);
    }

    fn spread(&mut self) {
        let mut largest_first: Vec<usize> = (0..self.inputs.len()).collect();
        largest_first.sort_by_key(|input| Reverse(self.inputs[*input].cost()));
        let mut anywhere = Vec::new();
        for input in largest_first {
            match self.places(input).min_by_key(|host| self.load[*host]) {
                Some(host) => self.give(input, host),
                None => anywhere.push(input),
            }
        }
        let mut least_first: BinaryHeap<_> =
            self.load.iter().enumerate().map(|(host, load)| Reverse((*load, host))).collect();
        for input in anywhere {
            let Some(Reverse((_, host))) = least_first.pop() else { return };
            self.give(input, host);
            least_first.push(Reverse((self.load[host], host)));
        }
    }

    fn improve(&mut self) {
        let mut hosts: Vec<usize> = (0..self.load.len()).collect();
        // In a turn, each input is looked at once or twice.
        let mut turns = (LOOKS / self.inputs.len().max(1)).max(hosts.len());
        let mut next = 0;
        // The sorted loads decrease with each move, so this ends also without a limit.
        while next < hosts.len() && turns > 0 {
            if next == 0 {
                hosts.sort_unstable_by_key(|host| Reverse(self.load[*host]));
            }
            let has_moved = self.relieve(hosts[next]) || self.exchange(hosts[next]);
            next = if has_moved { 0 } else { next + 1 };
            turns -= 1;
        }
    }

    /// Moves an input away from `full`: either to a host whose load then stays below `full`'s, or along a
    /// chain in which each host takes one input and gives another to the next host. Returns whether there was
    /// such a move.
    fn relieve(&mut self, full: usize) -> bool {
        let top = self.load[full];
        // How each host was reached: from which host, and with which input.
        let mut reached: Vec<Option<(usize, usize)>> = vec![None; self.load.len()];
        let mut queue = VecDeque::from([full]);
        while let Some(host) = queue.pop_front() {
            // With the input that it takes, and without the input that it gives away, each host must stay
            // below `top`.
            let taken = reached[host].map_or(0, |(_, input)| self.inputs[input].cost());
            for &input in &self.held[host] {
                let cost = self.inputs[input].cost();
                if host != full && self.load[host] + taken - cost >= top {
                    continue;
                }
                for to in self.places(input) {
                    if to == full || reached[to].is_some() {
                        continue;
                    }
                    reached[to] = Some((host, input));
                    if self.load[to] + cost < top {
                        self.shift_along(to, full, &reached);
                        return true;
                    }
                    queue.push_back(to);
                }
            }
        }
        false
    }

    /// Gives another host an input of `full` for a smaller one. Returns whether that lowered the higher load of
    /// the two enough.
    fn exchange(&mut self, full: usize) -> bool {
        let top = self.load[full];
        let enough = top - top / LEAST_GAIN;
        for &given in &self.held[full] {
            let cost = self.inputs[given].cost();
            for other in self.places(given).filter(|other| *other != full) {
                let fits = |taken: &usize| {
                    let back = self.inputs[*taken].cost();
                    let lower = top - cost + back < enough && self.load[other] + cost - back < enough;
                    lower && self.places(*taken).any(|place| place == full)
                };
                if let Some(taken) = self.held[other].iter().copied().find(fits) {
                    self.shift(given, full, other);
                    self.shift(taken, other, full);
                    return true;
                }
            }
        }
        false
    }

    /// Moves the inputs along the chain from `full` to `end`.
    fn shift_along(&mut self, end: usize, full: usize, reached: &[Option<(usize, usize)>]) {
        let mut to = end;
        while to != full
            && let Some((from, input)) = reached[to]
        {
            self.shift(input, from, to);
            to = from;
        }
    }

    fn shift(&mut self, input: usize, from: usize, to: usize) {
        self.held[from].retain(|held| *held != input);
        self.load[from] -= self.inputs[input].cost();
        self.give(input, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn loads(inputs: &[Input], plan: &Plan) -> Vec<u64> {
        plan.queues.iter().map(|queue| queue.iter().map(|input| inputs[*input].cost()).sum()).collect()
    }

    /// The highest load of the best distribution if inputs could be divided, approached from above.
    /// Repeatedly divides each input so that its hosts' loads become as even as possible.
    fn ideal(inputs: &[Input], hosts: usize) -> f64 {
        let mut parts: Vec<Vec<f64>> = inputs
            .iter()
            .map(|input| vec![input.cost() as f64 / input.hosts.len() as f64; input.hosts.len()])
            .collect();
        let mut load = vec![0.0; hosts];
        for (input, parts) in inputs.iter().zip(&parts) {
            input.hosts.iter().zip(parts).for_each(|(host, part)| load[*host] += part);
        }
        for _ in 0..200 {
            for (input, parts) in inputs.iter().zip(&mut parts) {
                let places = &input.hosts;
                places.iter().zip(&*parts).for_each(|(host, part)| load[*host] -= part);
                // Raises the least loaded hosts to a common level.
                let mut order: Vec<usize> = (0..places.len()).collect();
                order.sort_by(|a, b| load[places[*a]].total_cmp(&load[places[*b]]));
                let mut rest = input.cost() as f64;
                parts.fill(0.0);
                for count in 1..=order.len() {
                    let level = load[places[order[count - 1]]];
                    let next = order.get(count).map_or(f64::INFINITY, |at| load[places[*at]]);
                    let step = ((next - level) * count as f64).min(rest);
                    for at in &order[..count] {
                        parts[*at] += step / count as f64;
                        load[places[*at]] += step / count as f64;
                    }
                    rest -= step;
                }
            }
        }
        load.into_iter().fold(0.0, f64::max)
    }

    fn inputs_of(hosts: usize) -> impl Strategy<Value = Vec<Input>> {
        let replicas = proptest::collection::vec(0..hosts * hosts, 1..4).prop_map(move |drawn| {
            // Draws low numbers more often, for a skewed distribution.
            let mut hosts: Vec<usize> = drawn.into_iter().map(|drawn| drawn.isqrt()).collect();
            hosts.sort_unstable();
            hosts.dedup();
            hosts
        });
        proptest::collection::vec((1u64..100, replicas), 200..400)
            .prop_map(|drawn| drawn.into_iter().map(|(bytes, hosts)| Input { bytes, hosts }).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn each_input_is_planned_once_on_a_host_that_holds_it_and_no_host_has_much_too_much(inputs in inputs_of(8)) {
            let plan = plan(&inputs, 8);
            let mut planned: Vec<usize> = plan.queues.concat();
            planned.sort_unstable();
            prop_assert_eq!(planned, (0..inputs.len()).collect::<Vec<_>>());
            for (host, queue) in plan.queues.iter().enumerate() {
                prop_assert!(queue.iter().all(|input| inputs[*input].hosts.contains(&host)));
            }
            let highest = loads(&inputs, &plan).into_iter().max().unwrap() as f64;
            let ideal = ideal(&inputs, 8);
            prop_assert!(highest <= 1.05 * ideal + 1.0, "{highest} beside {ideal}");
        }
    }

    #[test]
    fn inputs_without_a_host_fill_the_emptiest_ones_and_unknown_hosts_are_none() {
        let input = |bytes, hosts: &[usize]| Input { bytes, hosts: hosts.to_vec() };
        let inputs = [input(10, &[0]), input(0, &[]), input(4, &[7]), input(5, &[])];
        assert_eq!(plan(&inputs, 2).queues, [vec![0], vec![1, 2, 3]]);
        assert_eq!(plan(&inputs, 0).queues, Vec::<Vec<usize>>::new());
    }

    #[test]
    fn an_input_moves_along_a_chain_of_hosts() {
        // The first assignment gives host 0 the two inputs that only it holds, and also one that host 1 could
        // take after giving an input to host 2.
        let input = |bytes, hosts: &[usize]| Input { bytes, hosts: hosts.to_vec() };
        let inputs = [input(5, &[0, 1]), input(5, &[1, 2]), input(4, &[0]), input(4, &[0])];
        let plan = plan(&inputs, 3);
        assert_eq!(loads(&inputs, &plan).into_iter().max(), Some(8));
    }
}
