//! The tests of this crate from outside, as one program, which is linked once.

mod at_most_once;
mod bad_input;
mod chain_limits;
mod chain_sessions;
mod chains;
mod common;
mod forged_frames;
mod hostile_callees;
mod hostile_callers;
mod multicasts;
mod onc;
mod onc_repeats;
mod other_incarnations;
mod own_keys;
mod paper;
mod requests;
mod rpc_with_tls;
mod silence;
mod single_calls;
mod tls;
