//! Three processes in a delivery chain, with a service written in the RPC language. One of them is
//! killed, cut off or stopped at every point of a long stream of calls. The outcome that the caller
//! gets of each callee agrees with that callee's own log, which it writes before it answers.
//!
//! `FLEXRPC_BYTES_APART=1` tries every byte of the calls and answers, on each of the three links;
//! by default one in some twenty. At each byte, one callee suffers one fault. The faults take
//! turns, and `FLEXRPC_FIRST_FAULT=…`, below 15, selects the first.

use crate::faults::{Callee, Direction, Link};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use strait_flexrpc::stub::{Callees, Pattern, StubError};
use strait_flexrpc::{CallError, CallOptions, Client, ClientOptions, ClusterKey, MulticastOptions};
use strait_idl_tests::ledger::*;

const CALLEES: usize = 3;

/// One fits a segment. The other travels in many pieces, which a callee passes on as they arrive.
const NOTES: [usize; 2] = [100, 1 << 20];

/// Points tried in a large call: most bytes of its note resemble the next.
const POINTS_OF_A_LARGE_CALL: usize = 4;

/// Timeout of an unhindered call.
const PATIENCE: Duration = Duration::from_secs(10);

/// Timeout of a call that waits for a silent peer.
const SHORT: Duration = Duration::from_millis(300);

fn number(variable: &str, unless: usize) -> usize {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(unless)
}

/// A fault of a callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// It restarts after the call is over.
    Killed,
    /// It restarts before the next byte.
    KilledAndRestarted,
    /// Its process stops until the call is over, then continues.
    Stopped,
    /// Nothing arrives of the bytes between it and its callers until the call is over. Neither side
    /// gets an error.
    Silenced,
    /// All connections to it break; new ones work. The caller asks it over a new one.
    CutOff,
}

const FAULTS: [Fault; 5] =
    [Fault::Killed, Fault::KilledAndRestarted, Fault::Stopped, Fault::Silenced, Fault::CutOff];

impl Fault {
    fn strike(self, callee: &Mutex<Callee>, link: &Link) {
        let mut callee = callee.lock().unwrap();
        match self {
            Self::Killed => callee.kill(),
            Self::KilledAndRestarted => {
                callee.kill();
                callee.revive();
                link.mend(callee.address);
            }
            Self::Stopped => callee.stop(),
            Self::Silenced => link.silence(),
            Self::CutOff => link.cut(),
        }
    }

    /// The caller's timeout.
    fn timeout(self) -> Duration {
        if matches!(self, Self::Stopped | Self::Silenced) { SHORT } else { PATIENCE }
    }
}

/// The caller's outcome for a callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Executed,
    NotExecuted,
    Unknown,
}

struct Cluster {
    callees: [Arc<Mutex<Callee>>; CALLEES],
    links: [Arc<Link>; CALLEES],
    logs: tempfile::TempDir,
    client: Client,
    /// The outcomes of each call, by its number.
    told: Vec<[Told; CALLEES]>,
}

impl Cluster {
    fn start(key: Option<&'static str>) -> Self {
        let logs = tempfile::tempdir().expect("a directory");
        let callees = std::array::from_fn(|number| {
            let log = logs.path().join(number.to_string());
            Arc::new(Mutex::new(Callee::start(number, log, key)))
        });
        let links = callees.each_ref().map(|callee| Link::to(callee.lock().unwrap().address));
        let key = key.map(|key| ClusterKey::new(key.as_bytes()).expect("long enough"));
        let client = Client::new(ClientOptions { key, connect_timeout: SHORT, ..ClientOptions::default() });
        Self { callees, links, logs, client, told: Vec::new() }
    }

    /// Makes the next call.
    fn call(&mut self, note: usize, timeout: Duration) -> [Told; CALLEES] {
        let call = CallOptions { timeout: Some(timeout), ..CallOptions::default() };
        let callees = Callees {
            client: self.client.clone(),
            addresses: self.links.iter().map(|link| link.address).collect(),
            pattern: Pattern::Serial,
            options: MulticastOptions { call, ..MulticastOptions::default() },
        };
        let number = self.told.len() as i64;
        let entry = Entry { number, note: vec![number as u8; note].into() };
        let outcomes = LedgerV1Callees { callees }.ledger_enter(&entry).expect("it can be sent");
        let told: Vec<Told> =
            (0..).zip(outcomes).map(|(callee, outcome)| tell(callee, number, outcome)).collect();
        let told = told.try_into().expect("an outcome of each");
        self.told.push(told);
        told
    }

    /// Restores the struck callee, and waits until calls succeed again.
    fn mend(&mut self, note: usize) {
        for (callee, link) in self.callees.iter().zip(&self.links) {
            let mut callee = callee.lock().unwrap();
            callee.revive();
            link.mend(callee.address);
        }
        let begun = Instant::now();
        while self.call(note, PATIENCE) != [Told::Executed; CALLEES] {
            assert!(begun.elapsed() < 2 * PATIENCE, "calls get through no more");
        }
    }

    /// Bytes of a call or an answer on a link.
    fn length(&mut self, note: usize, link: usize, direction: Direction) -> usize {
        let mut measure = || {
            let before = self.links[link].passed(direction);
            self.mend(note);
            self.links[link].passed(direction) - before
        };
        // One may include a handshake, and the rest of a broken connection.
        measure().min(measure())
    }

    /// How often each callee has executed each call. Kills the callees first.
    fn logs(&self) -> [HashMap<usize, usize>; CALLEES] {
        std::array::from_fn(|number| {
            self.callees[number].lock().unwrap().kill();
            let log = std::fs::read_to_string(self.logs.path().join(number.to_string())).unwrap();
            let mut executions = HashMap::new();
            log.lines().for_each(|line| *executions.entry(line.parse().unwrap()).or_default() += 1);
            executions
        })
    }
}

fn tell(callee: i32, number: i64, outcome: Result<Receipt, StubError>) -> Told {
    match outcome {
        Ok(receipt) => {
            assert_eq!(receipt, Receipt { callee, number }, "its own, of this call");
            Told::Executed
        }
        Err(StubError::Call(CallError::NotExecuted(_))) => Told::NotExecuted,
        Err(StubError::Call(CallError::Unknown(_))) => Told::Unknown,
        Err(error) => panic!("{number} at {callee}: {error}"),
    }
}

/// Every `apart` bytes: the first, the one before the last, and the last.
fn points(length: usize, apart: usize) -> impl Iterator<Item = usize> {
    let rest = (0..length.saturating_sub(1)).step_by(apart);
    rest.chain([length.saturating_sub(1), length])
}

fn what_is_told_agrees_with_the_logs(key: Option<&'static str>) {
    let mut cluster = Cluster::start(key);
    // Each fault with each callee, again and again.
    let faults = FAULTS.iter().flat_map(|fault| (0..CALLEES).map(move |victim| (*fault, victim))).cycle();
    let bytes_apart = number("FLEXRPC_BYTES_APART", 23);
    let mut faults = faults.skip(number("FLEXRPC_FIRST_FAULT", 0));
    let (mut struck, mut missed) = (0, 0);
    let mut outcomes: HashMap<(Fault, Told), usize> = HashMap::new();
    for note in NOTES {
        for link in 0..CALLEES {
            for direction in [Direction::There, Direction::Back] {
                cluster.mend(note);
                let length = cluster.length(note, link, direction);
                let large = length >= NOTES[1];
                let apart = if large { length / POINTS_OF_A_LARGE_CALL } else { bytes_apart };
                for point in points(length, apart) {
                    let (fault, victim) = faults.next().expect("they go round");
                    let hit = (Arc::clone(&cluster.callees[victim]), Arc::clone(&cluster.links[victim]));
                    cluster.links[link].arm(direction, point, move || fault.strike(&hit.0, &hit.1));
                    let told = cluster.call(note, fault.timeout());
                    if cluster.links[link].disarm() {
                        struck += 1;
                        told.iter().for_each(|told| *outcomes.entry((fault, *told)).or_default() += 1);
                    } else {
                        missed += 1;
                    }
                    cluster.mend(note);
                }
            }
        }
    }
    let logs = cluster.logs();
    for (number, told) in cluster.told.iter().enumerate() {
        for (callee, told_of_it) in told.iter().enumerate() {
            let times = logs[callee].get(&number).copied().unwrap_or(0);
            let holds = match told_of_it {
                Told::Executed => times == 1,
                Told::NotExecuted => times == 0,
                Told::Unknown => times <= 1,
            };
            assert!(holds, "call {number}, callee {callee}: executed {times} times, told {told:?}");
        }
    }
    println!("{} calls, {struck} faults, {missed} missed: {outcomes:?}", cluster.told.len());
    // On a busy machine a short deadline may pass before the fault.
    assert!(missed * 10 <= struck, "{missed} faults of {struck} didn't happen");
    let times = |fault, told| outcomes.get(&(fault, told)).copied().unwrap_or(0);
    for fault in FAULTS {
        assert!(times(fault, Told::Executed) > 0, "{fault:?} strikes one: {outcomes:?}");
        let hindered = times(fault, Told::NotExecuted) + times(fault, Told::Unknown);
        assert!(hindered > 0 || fault == Fault::CutOff, "{fault:?} hinders: {outcomes:?}");
    }
    // A caller that asks a running callee learns the call's outcome.
    assert_eq!(times(Fault::CutOff, Told::Unknown), 0, "{outcomes:?}");
}

#[test]
fn whoever_is_struck_whenever_each_callees_outcome_agrees_with_its_log() {
    what_is_told_agrees_with_the_logs(None);
}

#[test]
fn the_same_with_a_cluster_key() {
    what_is_told_agrees_with_the_logs(Some("a key that is long enough to be one"));
}
