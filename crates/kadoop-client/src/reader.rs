//! A file open for reading.

use super::{Client, digester::visible_end, read_driver::ReadDriver};
use bytes::Bytes;
use std::sync::{Arc, Weak};
use strait_kadoop_core::{client::Holder, messages::Caller};
use strait_kadoop_wire::failure::Failure;

/// Reads one file, at the length that it had when opened, or longer.
pub struct Reader {
    driver: Arc<ReadDriver<Bytes>>,
    position: u64,
    /// The end of the visible bytes when it was opened, if the file was being written.
    end: u64,
}

impl Reader {
    pub(super) fn open(client: &Client, caller: &Caller, path: &str) -> Result<Self, Failure> {
        let budget = client.link.options.budgets.of(&caller.user);
        let driver = Arc::new(ReadDriver::open(client, caller, path, Arc::clone(&budget))?);
        let holder: Weak<dyn Holder> = Arc::<ReadDriver<Bytes>>::downgrade(&driver);
        budget.register(holder);
        let known = driver.core().length().unwrap_or(0);
        let end = if driver.open { visible_end(client, caller, path, driver.made, known) } else { known };
        Ok(Self { driver, position: 0, end })
    }

    /// Bytes from `offset` on: `length` of them, or fewer at the file's end. Any number of threads
    /// may read at a time.
    ///
    /// # Errors
    /// Unavailable: no replica of a part could be reached. Corrupt: all replicas are damaged.
    /// NotFound: the file was removed meanwhile.
    pub fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, Failure> {
        let first = self.driver.read(offset, length)?;
        if first.is_empty() || first.len() >= length {
            return Ok(first);
        }
        let left = usize::try_from(self.length().saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut all = self.driver.link.buffers.take(length.min(left.max(first.len())));
        let (mut filled, mut part) = (0, first);
        while !part.is_empty() {
            let end = filled + part.len();
            if end > all.bytes.len() {
                // The file has grown meanwhile.
                all.bytes.resize(end, 0);
            }
            all.bytes[filled..end].copy_from_slice(&part);
            filled = end;
            if filled >= length {
                break;
            }
            part = self.driver.read(offset + filled as u64, length - filled)?;
        }
        Ok(all.freeze(filled))
    }

    /// Some of the next bytes, at most `length`, as available; none at the file's end. Reads ahead.
    ///
    /// # Errors
    /// As [`Reader::read_at`].
    pub fn read(&mut self, length: usize) -> Result<Bytes, Failure> {
        // Pieces of one call are the fastest to fetch, and needn't be joined.
        let length = length.min(self.driver.config.read_bytes as usize);
        let bytes = self.driver.read(self.position, length)?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    /// From now on, fetches the bytes that are asked for, and no others.
    pub fn stop_reading_ahead(&self) {
        self.driver.core().stop_reading_ahead();
    }

    /// Sets the position of the next [`Reader::read`].
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// The number of the transaction that made the file. No other file of the cluster has it.
    pub fn made(&self) -> u64 {
        self.driver.made
    }

    /// The file's length in bytes, as known when it was last located. Of a file that is being written,
    /// all bytes count that were flushed before it was opened here.
    pub fn length(&self) -> u64 {
        self.driver.core().length().unwrap_or(0).max(self.end)
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.driver.path).finish_non_exhaustive()
    }
}
