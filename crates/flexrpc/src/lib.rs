//! FlexRPC
pub mod proto;
