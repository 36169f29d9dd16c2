//! A file open for reading.

use super::{Client, digester::visible_end, driver::Driver, read_driver::ReadDriver};
use bytes::Bytes;
use std::{
    sync::{Arc, Weak},
    time::Instant,
};
use strait_kadoop_core::{Millis, client::Holder, messages::Caller};
use strait_kadoop_wire::failure::Failure;

/// How long an opening waits for the length of a file that is being written, if no datanode tells it. After a
/// restart, datanodes are back within 5 s.
const OPENING_PATIENCE_MS: Millis = 10_000;

/// Reads one file. [`Reader::length`] begins as the length at the opening, and rises when a later lookup finds
/// a longer file.
pub struct Reader {
    driver: Arc<ReadDriver<Bytes>>,
    position: u64,
    /// The visible length at the opening.
    end: u64,
}

impl Reader {
    pub(super) fn open(client: &Client, caller: &Caller, path: &str) -> Result<Self, Failure> {
        let budget = client.link.options.budgets.of(&caller.user);
        let driver = Arc::new(ReadDriver::open(client, caller, path, Arc::clone(&budget))?);
        let holder: Weak<dyn Holder> = Arc::<ReadDriver<Bytes>>::downgrade(&driver);
        budget.register(holder);
        let known = driver.core().length().unwrap_or(0);
        let mut end = known;
        if driver.open {
            let visible = visible_end(client, caller, path, (driver.made, known), OPENING_PATIENCE_MS)?;
            // With a length that is too short, a copy would lack the rest without an error.
            visible.doubt.map_or(Ok(()), Err)?;
            end = visible.end;
        }
        Ok(Self { driver, position: 0, end })
    }

    /// Reads `length` bytes from `offset` on, or fewer at the file's end. Any number of threads can read at a
    /// time.
    ///
    /// # Errors
    /// Unavailable: no replica of a part could be reached. Corrupt: all replicas of a part are damaged.
    /// NotFound: the file was removed after it was opened.
    pub fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, Failure> {
        self.read_at_until(offset, length, None)
    }

    /// As [`Reader::read_at`], but fails at the deadline, if there is one.
    ///
    /// # Errors
    /// As [`Reader::read_at`]. Unavailable: the deadline has passed.
    pub fn read_at_until(
        &self,
        offset: u64,
        length: usize,
        deadline: Option<Instant>,
    ) -> Result<Bytes, Failure> {
        let first = self.driver.read(offset, length, deadline)?;
        if first.is_empty() || first.len() >= length {
            return Ok(first);
        }
        let left = usize::try_from(self.length().saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut all = self.driver.link.buffers.take(length.min(left.max(first.len())));
        let (mut filled, mut part) = (0, first);
        while !part.is_empty() {
            let end = filled + part.len();
            if end > all.bytes.len() {
                // The file has grown during this call.
                all.bytes.resize(end, 0);
            }
            all.bytes[filled..end].copy_from_slice(&part);
            filled = end;
            if filled >= length {
                break;
            }
            part = self.driver.read(offset + filled as u64, length - filled, deadline)?;
        }
        Ok(all.freeze(filled))
    }

    /// Reads some of the next bytes, at most `length`; returns none at the file's end. Also reads ahead.
    ///
    /// # Errors
    /// As [`Reader::read_at`].
    pub fn read(&mut self, length: usize) -> Result<Bytes, Failure> {
        // Read at most one call's bytes: that is fastest, and the bytes needn't be copied together.
        let length = length.min(self.driver.config.read_bytes as usize);
        let bytes = self.driver.read(self.position, length, None)?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    /// From now on, fetches only the requested bytes.
    pub fn stop_reading_ahead(&self) {
        self.driver.core().stop_reading_ahead();
    }

    /// Sets the position of the next [`Reader::read`].
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// The number of the transaction that made the file. No other file of the cluster has the same number.
    pub fn made(&self) -> u64 {
        self.driver.made
    }

    /// The file's length in bytes, as of the latest lookup. For a file that is being written, it includes all
    /// bytes that were flushed before the file was opened here.
    pub fn length(&self) -> u64 {
        self.driver.core().length().unwrap_or(0).max(self.end)
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.driver.path).finish_non_exhaustive()
    }
}
