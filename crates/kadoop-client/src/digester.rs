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

/// Timeout of one call to a datanode that asks for the visible end of a file that is being written.
const VISIBLE_CALL_MS: Millis = 1_000;
/// A file that a busy writer extends has no end that stays. The search ends after this time.
const GROWING: Duration = Duration::from_secs(2);

/// The visible end of a file that is being written.
pub(super) struct Visible {
    /// All bytes that were flushed before, if `doubt` is None.
    pub end: u64,
    /// Why more bytes may be visible: no datanode told.
    pub doubt: Option<Failure>,
}

/// Asks for the visible end of a file that is being written, for up to `patience_ms` for each answer. `known` is
/// the file's length at the namenode, which learns a chunk's length only when the chunk ends.
///
/// # Errors
/// Unavailable: the client's deadline has passed.
pub(super) fn visible_end(
    client: &Client,
    caller: &Caller,
    path: &str,
    (made, known): (u64, u64),
    patience_ms: Millis,
) -> Result<Visible, Failure> {
    let config = client.link.joined().config();
    let config = Config { give_up_ms: patience_ms, read_ms: VISIBLE_CALL_MS, ..config };
    let mut visible = Visible { end: known, doubt: None };
    match ReadDriver::<Digest>::with(config, client, caller, path, Arc::new(Unbounded)) {
        // Otherwise, the path has become another file.
        Ok(driver) if driver.made == made => follow(&Arc::new(driver), client.deadline, &mut visible),
        Ok(_) => {}
        Err(failure) => visible.doubt = Some(failure),
    }
    match within(Duration::MAX, client.deadline).is_zero() {
        true => Err(late()),
        false => Ok(visible),
    }
}

/// Moves the end over the bytes that datanodes tell of.
fn follow(driver: &Arc<ReadDriver<Digest>>, deadline: Option<Instant>, visible: &mut Visible) {
    let mut until = None;
    loop {
        match driver.read(visible.end, usize::MAX, deadline) {
            Ok(Digest { length: 0, .. }) => return,
            Ok(Digest { length, .. }) => visible.end += u64::from(length),
            Err(failure) => {
                visible.doubt = Some(failure);
                return;
            }
        }
        if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + GROWING) {
            return;
        }
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
