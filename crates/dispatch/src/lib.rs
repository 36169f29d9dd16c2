//! Runs code where the data is: decides which host runs a command on which input, and defines the messages to
//! and from the hosts. Pure: it starts no process, opens no connection and reads no clock.
//!
//! ```text
//!   files ─ split ─→ inputs (bytes, hosts) ─ plan ─→ Work (a Schedule, and rules for failures)
//!                                                  │   ▲
//!                               Begin, Cancel, End ▼   │ ended, lost
//!                                                 frames ←──→ helpers
//! ```
//!
//! A *host* is a machine that runs commands. A *slot* is room for one command on a host. An input is *local*
//! to the hosts that hold its bytes.
//!
//! This room must never: use processes, sockets, files or clocks, which are the caller's; allocate memory for
//! a peer's message before checking its length.

pub mod frame;
pub mod joblog;
pub mod plan;
pub mod schedule;
pub mod split;
pub mod work;

pub use frame::{Frame, FrameError, Frames};
pub use joblog::{Entry, finished};
pub use plan::{Input, Plan, plan};
pub use schedule::{Given, Schedule};
pub use split::{Block, Piece, Records, Slice, pieces};
pub use work::{Act, Policy, Work};
