//! Runs with hosts that die, are slow, fail, or have no place: each input ends once, with the output of
//! a command that ended it.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use strait_dispatch::frame::Exit;
use strait_dispatch::{Act, Input, Policy, Work, plan};

const SEEDS: u64 = 1_000;

/// Numbers that look random, and are the same for the same seed (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

/// One run. Time passes from event to event.
struct Run {
    random: Random,
    work: Work,
    now: Duration,
    /// Commands that run, by host and input: when they end.
    commands: BTreeMap<(usize, usize), Duration>,
    is_dead: Vec<bool>,
    /// By input: its end, and whether a command succeeded on it, which might not have been heard.
    ends: HashMap<usize, Exit>,
    begun: Vec<u32>,
    tries: u32,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let hosts = 1 + random.below(8) as usize;
        let count = random.below(40) as usize;
        let inputs = (0..count).map(|_| Input {
            bytes: random.below(100),
            hosts: (0..random.below(4)).map(|_| random.below(hosts as u64) as usize).collect(),
        });
        let inputs = inputs.collect();
        let tries = 1 + random.below(3) as u32;
        let policy = Policy { tries, hosts_a_job: 3, duplicates: random.below(2) == 0 };
        let (commands, ends) = (BTreeMap::new(), HashMap::new());
        let (is_dead, begun) = (vec![false; hosts], vec![0; count]);
        Self {
            work: Work::new(inputs, hosts, policy),
            random,
            now: Duration::ZERO,
            commands,
            is_dead,
            ends,
            begun,
            tries,
        }
    }

    fn act(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Begin { host, input, attempt, .. } => {
                    assert!(!self.is_dead[host] && !self.ends.contains_key(&input));
                    self.begun[input] += 1;
                    assert_eq!(attempt, self.begun[input]);
                    let slow = if self.random.below(10) == 0 { 100_000 } else { 1_000 };
                    let ends = self.now + Duration::from_millis(1 + self.random.below(slow));
                    assert_eq!(self.commands.insert((host, input), ends), None, "twice on one host");
                }
                Act::Cancel { host, input } => {
                    assert!(self.ends.contains_key(&input));
                    // The command may end before it hears of that.
                    if let Some(end) = self.commands.get_mut(&(host, input)) {
                        *end = (*end).min(self.now + Duration::from_millis(1));
                    }
                }
                Act::Forget { host, input } => assert!(!self.commands.contains_key(&(host, input))),
                Act::End { input, exit, .. } => {
                    assert_eq!(self.ends.insert(input, exit), None, "input {input} ended twice");
                }
            }
        }
    }

    fn exit(&mut self) -> Exit {
        match self.random.below(10) {
            0 => Exit { code: 1, ..Exit::default() },
            1 => Exit { failure: Some("the store".into()), retry_elsewhere: true, ..Exit::default() },
            2 => Exit { failure: Some("no such command".into()), ..Exit::default() },
            _ => Exit::default(),
        }
    }

    fn go(mut self) -> u32 {
        let hosts = self.is_dead.len();
        let mut dead = 0;
        for host in 0..hosts {
            // Some never come.
            if self.random.below(8) > 0 {
                let slots = self.random.below(3) as usize;
                self.work.ready(host, slots);
            } else {
                self.is_dead[host] = true;
                let (acts, _) = self.work.lost(host);
                self.act(acts);
            }
        }
        while self.work.left() > 0 {
            let acts = self.work.give(self.now);
            self.act(acts);
            if self.random.below(12) == 0 {
                let host = self.random.below(hosts as u64) as usize;
                if !self.is_dead[host] {
                    (self.is_dead[host], dead) = (true, dead + 1);
                    self.commands.retain(|(other, _), _| *other != host);
                    let (acts, _) = self.work.lost(host);
                    self.act(acts);
                    continue;
                }
            }
            let next = self.commands.iter().min_by_key(|(_, end)| **end).map(|(key, end)| (*key, *end));
            let Some(((host, input), end)) = next else {
                assert_eq!(self.work.left(), 0, "inputs wait, and nothing runs");
                break;
            };
            self.commands.remove(&(host, input));
            self.now = self.now.max(end);
            let exit = self.exit();
            let acts = self.work.ended(host, input, exit, self.now);
            self.act(acts);
        }
        assert_eq!(self.ends.len(), self.begun.len());
        // Three for hosts and stores that failed, and at most four duplicates of forty inputs.
        assert!(self.begun.iter().all(|begun| *begun <= self.tries + 3 + 4), "{:?}", self.begun);
        dead
    }
}

#[test]
fn each_input_ends_once_however_hosts_die() {
    let dead: u32 = (0..SEEDS).map(|seed| Run::new(seed).go()).sum();
    assert!(dead > 1_000, "only {dead} hosts died");
}

#[test]
fn ten_thousand_inputs_are_planned_and_given_within_seconds() {
    let mut random = Random::new(1);
    let inputs: Vec<Input> = (0..10_000)
        .map(|_| Input {
            bytes: 1 + random.below(1 << 27),
            hosts: (0..3).map(|_| random.below(200) as usize).collect(),
        })
        .collect();
    let began = Instant::now();
    let queues = plan(&inputs, 200).queues;
    let planned = began.elapsed();
    let load = |queue: &Vec<usize>| queue.iter().map(|input| inputs[*input].bytes).sum::<u64>();
    let total: u64 = inputs.iter().map(|input| input.bytes).sum();
    let highest = queues.iter().map(load).max().unwrap();
    assert!(highest as f64 <= 1.05 * total as f64 / 200.0, "{highest} of {total}");
    let policy = Policy { tries: 1, hosts_a_job: 3, duplicates: false };
    let mut work = Work::new(inputs, 200, policy);
    (0..200).for_each(|host| work.ready(host, 2));
    let mut running: Vec<(usize, usize)> = Vec::new();
    while work.left() > 0 {
        for act in work.give(Duration::ZERO) {
            if let Act::Begin { host, input, .. } = act {
                running.push((host, input));
            }
        }
        let (host, input) = running.swap_remove(random.below(running.len() as u64) as usize);
        work.ended(host, input, Exit::default(), Duration::ZERO);
    }
    // No bound on a time, which a busy machine would break.
    println!("planned in {planned:?}, all in {:?}", began.elapsed());
}
