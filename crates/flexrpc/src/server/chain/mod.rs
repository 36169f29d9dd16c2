//! The forwarding of chain calls. A call arrives from its caller or from the previous callee; this
//! callee executes it and passes its bytes on to the next callee.
//!
//! ```text
//!  previous ── call ──▶ ┌──────────── ChainCall ───────────┐ ── call ──▶ Downstream ──▶ next
//!  callee  ◀ outcomes ─ └──▲──────────────▲──────────────▲─┘ ◀─ outcomes ──             callee
//!                          │ carries      │ keeps        │ keeps
//!                       a worker ─ lends ▶ Executing ─ late ▶ Forwarder
//!                          │    (while the service runs)    │    ▲
//!                          └─────── if others need it ──────┼────┘ Chains::adopted
//!                       any worker ◀── Job ── Chains::jobs ─┘
//! ```
//!
//! A call has one owner at a time, which advances it. Usually its worker does everything
//! (`carrier`). The last free service worker never waits for a callee behind this one. So chains
//! that cross each other (A→B→C and C→B→A) can't deadlock, though the number of workers is bounded.
//! The forwarder takes over the calls that would have to wait. Any worker executes the services of
//! such calls, as jobs.

mod call;
mod carrier;
mod downstream;
mod executing;
mod forwarder;
mod inbox;
mod job;
mod shared;

pub(crate) use carrier::{Carried, carry};
pub(crate) use forwarder::Forwarder;
#[cfg(all(test, shuttle))]
pub(crate) use job::Job;
pub(crate) use shared::{Adopted, Chains};
