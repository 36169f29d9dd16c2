//! The content that a reader fetches for a range: its bytes, or only their digest.

use crate::{Config, messages::Digest};
use bytes::Bytes;
use std::fmt::Debug;

/// Most bytes in one digest: those of a chunk of the usual size. With several digests, the program can
/// stop between two of them.
const DIGEST_BYTES: u32 = 64 << 20;

/// The content of a range of a file.
pub trait Content: Debug + Clone + Send + Sized + 'static {
    /// The empty content after the file's end.
    fn nothing() -> Self;

    /// Number of bytes that the content covers.
    fn length(&self) -> u32;

    /// The content of the bytes from `from` to `to`. None if this content can't be divided there.
    fn part(&self, from: u32, to: u32) -> Option<Self>;

    /// Number of bytes to request in one call, if the caller requests `asked`.
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
