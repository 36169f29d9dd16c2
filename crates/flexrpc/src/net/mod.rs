//! Sockets: their buffers, the frames that arrive, and waiting. Both sides use this.

pub(crate) mod buffer;
pub(crate) mod clock;
pub(crate) mod origin;
pub(crate) mod owner;
pub(crate) mod pool;
pub(crate) mod reader;
pub(crate) mod socket;
pub(crate) mod spin;
pub(crate) mod tls;
pub(crate) mod wire;
