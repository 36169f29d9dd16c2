//! What a reader fetches: the bytes of ranges, or their digests.

use crate::{Config, messages::Digest};
use bytes::Bytes;
use std::fmt::Debug;

/// Bytes of a chunk that one digest is of: the usual chunk. Between two of them whoever asks may
/// have gone.
const DIGEST_BYTES: u32 = 64 << 20;

/// What there is at a range of a file.
pub trait Content: Debug + Clone + Send + Sized + 'static {
    /// What is behind the end.
    fn nothing() -> Self;

    /// How many bytes it is of.
    fn length(&self) -> u32;

    /// Of these of its bytes, which it has; none if it can't be divided so.
    fn part(&self, from: u32, to: u32) -> Option<Self>;

    /// How many bytes one call is about, where `asked` are asked for.
    fn call_bytes(asked: u32, config: &Config) -> u32;

    /// How many bytes are fetched that nobody has asked for yet.
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
