//! The protocol as pure state machines: no sockets, threads or clocks.
//!
//! Inputs are frames, broken connections and the time. Outputs are the frames to send, the calls to
//! execute and the outcomes to report. `net`, `client` and `server` drive the machines with
//! sockets; the simulator in `sim` drives the same ones with a virtual network.

pub mod admission;
pub mod answer;
pub mod auth;
pub mod bond;
pub mod call;
pub mod chain;
pub mod extension;
pub mod frame;
pub mod ids;
pub mod limits;
pub mod onc;
pub(crate) mod planted;
pub mod reception;
pub mod relay;
pub mod status;

/// Microseconds since an origin that the driver chooses.
pub type Micros = u64;
