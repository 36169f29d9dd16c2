//! FlexRPC
mod net;
pub mod proto;
