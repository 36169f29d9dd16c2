//! The content of ranges that a reader fetches: bytes, or digests.

use crate::{Config, messages::Digest};
use bytes::Bytes;
use std::fmt::Debug;

/// Most bytes of a chunk in one digest: those of the usual chunk. Between two digests the caller
/// may have left.
const DIGEST_BYTES: u32 = 64 << 20;

/// The content of a range of a file.
pub trait Content: Debug + Clone + Send + Sized + 'static {
    /// The empty content behind the file's end.
    fn nothing() -> Self;

    /// Number of bytes that it covers.
    fn length(&self) -> u32;

    /// The content of a part of its bytes; None if it can't be divided so.
    fn part(&self, from: u32, to: u32) -> Option<Self>;

    /// Number of bytes of one call, if the caller requests `asked`.
    fn call_bytes(asked: u32, config: &Config) -> u32;

    /// Most bytes fetched before any caller requests them.
    fn ahead_bytes(config: &Config) -> u64;
}

impl Content for Bytes {
    fn nothing() -> Self {
        Self::new()
    }

    fn length(&self) -> u32 {
        self.len() as u32
    }

    fn part(&self, from: u32, to: u32) -> Option<Self> {
        Some(self.slice(from as usize..to as usize))
    }

    fn call_bytes(asked: u32, config: &Config) -> u32 {
        asked.max(config.read_bytes).min(config.write_bytes)
    }

    fn ahead_bytes(config: &Config) -> u64 {
        config.ahead_bytes.into()
    }
}

impl Content for Digest {
    fn nothing() -> Self {
        Self::default()
    }

    fn length(&self) -> u32 {
        self.length
    }

    fn part(&self, from: u32, to: u32) -> Option<Self> {
        ((from, to) == (0, self.length)).then_some(*self)
    }

    fn call_bytes(asked: u32, _: &Config) -> u32 {
        asked.min(DIGEST_BYTES)
    }

    fn ahead_bytes(_: &Config) -> u64 {
        0
    }
}
