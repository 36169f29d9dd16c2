//! The protocol under a seeded simulator: the state machines of [`crate::proto`] with a virtual
//! clock and a virtual network. The network loses, duplicates, reorders, delays and damages frames,
//! and cuts connections. Servers restart (at times with limits below every call's size), stall,
//! forget results and sessions, and change their forwarding rules. Some worlds have a key. There, a
//! stranger without it sends copies of the requests that it sees, altered or not, and replays the
//! answers.
//!
//! Every schedule is checked: no call is executed twice; a value is reported only if the call was
//! executed once; "not executed" is reported only if it never was. A failing seed prints and
//! reproduces: `FLEXRPC_SIM_SEED=… cargo test -p strait-flexrpc sim`. Longer runs:
//! `FLEXRPC_SIM_SEEDS=1000000 cargo test --release -p strait-flexrpc sim`.
//!
//! ```text
//!  schedule: takes the next event, runs it, checks the claims at the end
//!     ├── callers: the real call      ─┐
//!     ├── servers: the real admission  ├── world: clock, datagrams, streams
//!     └── relays: the real relay      ─┘      └── parts, frames, network: data
//! ```

mod callers;
mod frames;
mod network;
mod parts;
mod relays;
mod schedule;
mod servers;
mod world;

use crate::proto::planted::{Planted, plant};
use std::ops::Range;
use world::World;

/// Seeds of an ordinary test run.
const SEEDS: u64 = 2_000;

/// Number of seeds within which the simulator must notice a planted fault.
const SEEDS_TO_CATCH: u64 = 100_000;

/// Runs a seed's schedule, and returns the violation that it finds, if any.
fn violation(seed: u64) -> Option<String> {
    World::new(seed).run().err()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds() -> Range<u64> {
    match number("FLEXRPC_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FLEXRPC_SIM_SEEDS").unwrap_or(SEEDS),
    }
}

#[test]
fn nothing_is_executed_twice_and_what_is_said_of_outcomes_is_true() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let all = seeds();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let all = all.clone();
            scope.spawn(move || {
                for seed in all.skip(thread as usize).step_by(threads as usize) {
                    if let Some(violation) = violation(seed) {
                        panic!("seed {seed}: {violation}\nagain: FLEXRPC_SIM_SEED={seed}");
                    }
                }
            });
        }
    });
}

#[test]
fn a_seed_always_makes_the_same_schedule() {
    for seed in 0..20 {
        let trace = |seed| {
            let mut world = World::new(seed);
            let result = world.run();
            (result, world.events, world.now)
        };
        assert_eq!(trace(seed), trace(seed));
    }
}

#[test]
fn the_schedules_reach_what_they_are_for() {
    let mut reached = world::Reached::default();
    for seed in 0..2_000 {
        let mut world = World::new(seed);
        world.run().unwrap();
        reached += world.reached;
    }
    let world::Reached {
        values,
        refused,
        unknown,
        duplicates,
        evicted,
        sessions_lost,
        relayed,
        resent,
        forged,
        denied,
        pooled,
        unasked,
    } = reached;
    let calls = [values, refused, unknown, duplicates, evicted, sessions_lost];
    for count in calls.into_iter().chain([relayed, resent, forged, denied, pooled, unasked]) {
        assert!(count > 50, "{reached:?}");
    }
}

/// Each planted fault must lead to a violation. Otherwise the simulator is too weak.
fn is_caught(fault: Planted) {
    plant(Some(fault));
    let caught = (0..SEEDS_TO_CATCH).find_map(|seed| Some((seed, violation(seed)?)));
    plant(None);
    let (seed, violation) = caught.unwrap_or_else(|| panic!("{fault:?} isn't noticed"));
    println!("{fault:?}: seed {seed}: {violation}");
}

macro_rules! planted_faults {
    ($($name:ident: $fault:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            is_caught(Planted::$fault);
        }
    )*};
}

planted_faults! {
    catches_a_missing_incarnation_check: NoIncarnationCheck,
    catches_a_cache_keyed_without_session: CacheWithoutSession,
    catches_a_cache_that_isnt_asked: NoDuplicateCheck,
    catches_a_late_duplicate_of_an_older_call: OlderTransactionExecutes,
    catches_an_evicted_call_executed_again: EvictedExecutesAgain,
    catches_a_sweep_that_forgets_transactions: SweepForgetsHandles,
    catches_a_revocation_that_is_forgotten: RevokeForgets,
    catches_a_new_transaction_on_retry: NewTransactionOnRetry,
    catches_another_calls_answer_taken: AnyAnswerIsMine,
    catches_a_timeout_taken_for_not_executed: TimeoutIsNotExecuted,
    catches_a_lost_connection_taken_for_not_executed: LostConnectionIsNotExecuted,
    catches_a_lost_session_taken_for_not_executed: LostSessionIsNotExecuted,
    catches_an_unasked_refusal_taken_for_not_executed: UnaskedRefusalIsNotExecuted,
    catches_a_payload_executed_unchecked: NoChecksum,
    catches_a_refusal_signed_for_strangers: SignsForStrangers,
    catches_a_refusal_before_the_cache_is_asked: RefusesUnasked,
    catches_the_last_byte_passed_on_unverified: ForwardsUnverified,
    catches_forwarded_taken_for_executed: ForwardedIsExecuted,
    catches_a_lost_forward_taken_for_not_executed: LostForwardIsNotExecuted,
    catches_a_lost_resend_taken_for_not_executed: LostResendIsNotExecuted,
}
