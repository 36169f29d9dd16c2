//! The checksum of a whole file, made of those that its datanodes keep.

use super::{
    Client,
    reader::{Driver, Fetch},
};
use crate::{
    NodeId,
    client::{Checked, Unbounded},
    crc32c::{crc32c_append, crc32c_combine},
    error::Result as Judged,
    messages::{Caller, Digest, Digested, Read},
    service::failure::Failure,
};
use std::{sync::Arc, time::Duration};

/// Makes the CRC-32C (Castagnoli) of a file's bytes, whatever its chunks are, a step at a time. No
/// byte of it is read: datanodes combine the checksums beside their replicas. Of a datanode that
/// is too old for that the bytes are read, a call's at a time, and give the same.
#[derive(Debug)]
pub struct Digester {
    driver: Arc<Driver<Digest>>,
    length: u64,
    crc: u32,
}

impl Digester {
    pub(super) fn open(client: &Client, caller: &Caller, path: &str) -> Result<Self, Failure> {
        let driver = Driver::open(client, caller, path, Arc::new(Unbounded))?;
        Ok(Self { driver: Arc::new(driver), length: 0, crc: 0 })
    }

    /// Takes in the next 64 MiB, or what its chunk has of them; whether there may be more. Nothing
    /// is done between steps: whoever doesn't want the rest makes none.
    ///
    /// # Errors
    /// As [`super::Reader::read_at`].
    pub fn step(&mut self) -> Result<bool, Failure> {
        let Digest { crc, length } = self.driver.read(self.length, usize::MAX)?;
        self.crc = crc32c_combine(self.crc, crc, length.into());
        self.length += u64::from(length);
        Ok(length > 0)
    }

    /// Of all bytes that were taken in.
    pub fn crc32c(&self) -> u32 {
        self.crc
    }

    /// How many these are.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl Fetch for Digest {
    fn attempt(driver: &Driver<Self>, from: NodeId, read: &Read, within: Duration) -> Judged<Checked<Self>> {
        match driver.digest_piece(from, read, within)? {
            Some(digest) => Ok(digest),
            None => by_reading(driver, from, read, within),
        }
    }
}

/// The same from a datanode that makes no digests.
fn by_reading(
    driver: &Driver<Digest>,
    from: NodeId,
    read: &Read,
    within: Duration,
) -> Judged<Checked<Digest>> {
    let mut digest = Digest::default();
    loop {
        let length = (read.length - digest.length).min(driver.config.write_bytes);
        let piece = Read { offset: read.offset.saturating_add(digest.length), length, ..*read };
        let Checked { content, visible } = driver.read_piece(from, &piece, within)?;
        digest.crc = crc32c_append(digest.crc, &content);
        digest.length += content.len() as u32;
        if content.is_empty() || digest.length == read.length {
            return Checked::digest(read, &Digested { digest, visible });
        }
    }
}
