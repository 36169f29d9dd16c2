//! The checksum of a whole file, combined from the checksums that its datanodes keep.

use super::{
    Client,
    driver::within,
    link::late,
    read_driver::{Fetch, ReadDriver},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use strait_crc::{crc32c_append, crc32c_combine};
use strait_kadoop_core::{
    Config, Millis, NodeId,
    client::{Checked, Unbounded},
    messages::{Caller, Digest, Digested, Read},
};
use strait_kadoop_wire::failure::Failure;

/// Computes the CRC-32C (Castagnoli) of a file's bytes step by step. The result doesn't depend on the file's
/// chunks. No bytes are read: each datanode combines the checksums that it stores with a replica. If a
/// datanode is too old for that, the client reads the bytes there and computes the same result.
#[derive(Debug)]
pub struct Digester {
    driver: Arc<ReadDriver<Digest>>,
    /// That of the client that began it.
    deadline: Option<Instant>,
    length: u64,
    crc: u32,
}

impl Digester {
    pub(super) fn open(client: &Client, caller: &Caller, path: &str) -> Result<Self, Failure> {
        let driver = ReadDriver::open(client, caller, path, Arc::new(Unbounded))?;
        Ok(Self { driver: Arc::new(driver), deadline: client.deadline, length: 0, crc: 0 })
    }

    /// Adds the next 64 MiB, or the rest of the current chunk if that is less. Returns false at the file's
    /// end. Nothing runs between steps, so a caller can stop after any step.
    ///
    /// # Errors
    /// As [`super::Reader::read_at`].
    pub fn step(&mut self) -> Result<bool, Failure> {
        let Digest { crc, length } = self.driver.read(self.length, usize::MAX, self.deadline)?;
        self.crc = crc32c_combine(self.crc, crc, length.into());
        self.length += u64::from(length);
        Ok(length > 0)
    }

    /// CRC-32C of all bytes added so far.
    pub fn crc32c(&self) -> u32 {
        self.crc
    }

    /// Number of bytes added so far.
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// How long the client asks for the visible end of a file that is being written. Without an answer, it uses
/// the length that the namenode knows.
const VISIBLE_PATIENCE_MS: Millis = 2_000;
/// Timeout of one such call to a datanode.
const VISIBLE_CALL_MS: Millis = 1_000;

/// The visible length of a file that is being written: all bytes that were flushed before. `known` is its
/// length at the namenode, which learns a chunk's length only when the chunk ends.
///
/// # Errors
/// Unavailable: the client's deadline has passed, so `known` may be too short.
pub(super) fn visible_end(
    client: &Client,
    caller: &Caller,
    path: &str,
    made: u64,
    known: u64,
) -> Result<u64, Failure> {
    let config = client.link.joined().config();
    let config = Config { give_up_ms: VISIBLE_PATIENCE_MS, read_ms: VISIBLE_CALL_MS, ..config };
    let driver = ReadDriver::<Digest>::with(config, client, caller, path, Arc::new(Unbounded));
    let driver = driver.ok().filter(|driver| driver.made == made).map(Arc::new);
    let mut end = known;
    // Stop after a time: a busy writer always adds more.
    let until = Instant::now() + Duration::from_millis(VISIBLE_PATIENCE_MS);
    while Instant::now() < until
        && let Some(driver) = &driver
        && let Ok(Digest { length: more @ 1.., .. }) = driver.read(end, usize::MAX, client.deadline)
    {
        end += u64::from(more);
    }
    match within(Duration::MAX, client.deadline).is_zero() {
        true => Err(late()),
        false => Ok(end),
    }
}

impl Fetch for Digest {
    fn attempt(
        driver: &ReadDriver<Self>,
        from: NodeId,
        read: &Read,
        within: Duration,
    ) -> Result<Checked<Self>, Failure> {
        match driver.digest_piece(from, read, within)? {
            Some(digest) => Ok(digest),
            None => by_reading(driver, from, read, within),
        }
    }
}

/// Computes the digest by reading the bytes, from a datanode that is too old for digests.
fn by_reading(
    driver: &ReadDriver<Digest>,
    from: NodeId,
    read: &Read,
    within: Duration,
) -> Result<Checked<Digest>, Failure> {
    let mut digest = Digest::default();
    loop {
        let length = (read.length - digest.length).min(driver.config.write_bytes);
        let piece = Read { offset: read.offset.saturating_add(digest.length), length, ..*read };
        let checked = driver.read_piece(from, &piece, within)?;
        let (content, visible) = (checked.content(), checked.visible());
        digest.crc = crc32c_append(digest.crc, content);
        digest.length += content.len() as u32;
        if content.is_empty() || digest.length == read.length {
            return Ok(Checked::digest(read, &Digested { digest, visible })?);
        }
    }
}
