//! One of the writers of a logical file.

use crate::block::{Block, Head};
use crate::container::Container;
use crate::layout::{Layout, LogName};
use crate::pattern::{MAX_LENGTH, Recorder};
use bytes::Bytes;
use futures::join;
use strait_crc::crc32c_append;
use strait_store::{Error, ErrorKind, FileSystemExt, FileWriter, Result, StorePath, append_all, fail};

/// Most changes that wait for the next sync: some 40 KB. At this number, a write syncs by itself.
const MOST_CHANGES: usize = 4096;

/// A writer of a logical file, at any offsets.
///
/// Its bytes are visible, and survive a crash of the writer, once [`Writer::sync`] or
/// [`Writer::close`] has returned. If a writer is dropped without a close, only its synced bytes remain.
pub struct Writer {
    container: Container,
    name: LogName,
    logs: Option<Logs>,
    recorder: Recorder,
    /// Bytes in the data log, and how many of them blocks describe.
    data_bytes: u64,
    described: u64,
    data_crc: u32,
    /// End of this writer's own bytes, and the file's length as it last read it since the last sync.
    own_end: u64,
    known_end: Option<u64>,
    /// A failure after which the data log and the index log may disagree.
    failed: Option<Error>,
    closed: bool,
}

struct Logs {
    data: Box<dyn FileWriter>,
    index: Box<dyn FileWriter>,
}

impl Writer {
    pub(crate) fn new(container: Container, name: LogName) -> Self {
        Self {
            container,
            name,
            logs: None,
            recorder: Recorder::default(),
            data_bytes: 0,
            described: 0,
            data_crc: 0,
            own_end: 0,
            known_end: None,
            failed: None,
            closed: false,
        }
    }

    /// Writes `data` at `offset`. Bytes before `offset` that were never written are a hole.
    ///
    /// # Errors
    /// InvalidArgument: the write would end beyond [`MAX_LENGTH`].
    pub async fn write_at(&mut self, offset: u64, data: Bytes) -> Result<()> {
        self.check_usable()?;
        let length = data.len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > MAX_LENGTH) {
            return self.refuse("write", "the file would be longer than 2^63 - 1 bytes");
        }
        if length == 0 {
            return Ok(());
        }
        let crc = crc32c_append(self.data_crc, &data);
        let logs = self.logs().await?;
        let appended = append_all(logs.data.as_mut(), data).await;
        self.kept(appended)?;
        self.data_crc = crc;
        self.data_bytes += length;
        self.recorder.write(offset, length);
        self.own_end = self.own_end.max(offset + length);
        if self.recorder.len() >= MOST_CHANGES { self.publish(false).await } else { Ok(()) }
    }

    /// Sets the file's length, and syncs.
    pub async fn truncate(&mut self, length: u64) -> Result<()> {
        self.check_usable()?;
        if length > MAX_LENGTH {
            return self.refuse("truncate", "the file would be longer than 2^63 - 1 bytes");
        }
        self.recorder.truncate(length);
        self.own_end = length;
        self.sync().await
    }

    /// Writes `data` at the file's end, and returns its offset. The end is that of this writer's own bytes,
    /// or the length that others had published at the writer's first append since its last sync, whichever is
    /// greater. If two writers append at once, their bytes can overlap.
    ///
    /// # Errors
    /// As [`Writer::write_at`].
    pub async fn append(&mut self, data: Bytes) -> Result<u64> {
        self.check_usable()?;
        let known = match self.known_end {
            Some(known) => known,
            None => self.container.length().await?,
        };
        self.known_end = Some(known);
        let offset = known.max(self.own_end);
        self.write_at(offset, data).await?;
        Ok(offset)
    }

    /// Gives the writer the new path of its renamed file. Its open logs stay usable, unless they have parts (see
    /// the crate's page): further parts would get the old path. Then the writer fails with NotFound.
    pub fn moved(&mut self, to: &StorePath) {
        self.container.layout = Layout::new(to.clone());
        if self.container.parts.is_some() && self.logs.is_some() && self.failed.is_none() {
            let message = "the file was renamed while it was written; what was synced is in the renamed file";
            self.failed = Some(Error::new(ErrorKind::NotFound, message).at("write", to));
        }
    }

    /// Makes all writes so far durable, and visible to readers that are opened afterwards. They count as
    /// newer than all bytes that other writers had synced before this call.
    pub async fn sync(&mut self) -> Result<()> {
        self.check_usable()?;
        self.known_end = None;
        self.publish(false).await
    }

    /// Syncs, and ends the writer. A second close does nothing.
    pub async fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.check_usable()?;
        if self.logs.is_some() || !self.recorder.is_empty() {
            self.publish(true).await?;
            let mark = self.container.layout.open_mark(self.name)?;
            self.container.fs.remove(&self.container.who, &mark, false).await?;
            self.closed = true;
            self.logs = None;
            // Ignore errors: the bytes are safe without a merged index, and `check` reports damaged logs of
            // other writers.
            let _ = self.container.merge().await;
            return Ok(());
        }
        self.closed = true;
        Ok(())
    }

    async fn publish(&mut self, close: bool) -> Result<()> {
        if self.recorder.is_empty() && self.described == self.data_bytes && !close {
            return Ok(());
        }
        // Sync the data first: an index must never describe bytes that a crash can lose.
        self.logs().await?;
        let Some(Logs { data, .. }) = &mut self.logs else { return no_logs() };
        let synced = async { if close { data.close().await } else { data.sync().await } };
        // If the file was removed or renamed, the epoch's mark would make a directory under its old name, and a new
        // part of a log would, too.
        let has_parts = self.container.parts.is_some();
        if has_parts {
            self.container.check_place("write").await?;
        }
        let place = async { if has_parts { Ok(()) } else { self.container.check_place("write").await } };
        let (last, is_here, synced) = join!(self.container.epoch(), place, synced);
        self.kept(synced)?;
        is_here?;
        // Publish the mark before the block: even if this process ends in between, later writers get a higher
        // epoch.
        let epoch = last? + 1;
        self.container.publish(epoch).await?;
        self.write_block(epoch, close).await?;
        let Some(Logs { index, .. }) = &mut self.logs else { return no_logs() };
        let synced = if close { index.close().await } else { index.sync().await };
        self.kept(synced.map(drop))
    }

    async fn write_block(&mut self, epoch: u64, closed: bool) -> Result<()> {
        let block = Block {
            epoch,
            closed,
            data_begin: self.described,
            data_length: self.data_bytes - self.described,
            data_crc: self.data_crc,
            changes: self.recorder.take(),
        };
        let mut bytes = Vec::new();
        block.encode(&mut bytes);
        let index = &mut self.logs().await?.index;
        let appended = append_all(index.as_mut(), bytes.into()).await;
        self.kept(appended)?;
        self.described = self.data_bytes;
        self.data_crc = 0;
        Ok(())
    }

    /// The logs. The first change creates them.
    async fn logs(&mut self) -> Result<&mut Logs> {
        if self.logs.is_none() {
            let Container { fs, who, layout, id, logs, .. } = &self.container;
            self.container.demand_synced()?;
            self.container.check_place("write").await?;
            let mark = layout.open_mark(self.name)?;
            fs.write_all(who, &mark, logs, Bytes::new()).await?;
            // A join writes its plan before it looks for marks, and a writer makes its mark before it looks
            // for a plan. So at least one of them notices the other.
            if fs.exists(who, &layout.plan()?).await? {
                fs.remove(who, &mark, false).await?;
                let error = Error::new(ErrorKind::Busy, "its logs are being joined to a plain file");
                return Err(error.at("write", self.container.path()));
            }
            let (data, index) = (layout.data(self.name)?, layout.index(self.name)?);
            // Wait for both, even if one fails: a cancelled creation may leave an open file.
            let (data, index) = join!(fs.create(who, &data, logs), fs.create(who, &index, logs));
            let (data, mut index) = (data?, index?);
            let head = Head { container: *id, rank: self.name.rank, nonce: self.name.nonce, note: note() };
            let mut bytes = Vec::new();
            head.encode(&mut bytes);
            append_all(index.as_mut(), bytes.into()).await?;
            self.logs = Some(Logs { data, index });
        }
        match &mut self.logs {
            Some(logs) => Ok(logs),
            None => no_logs(),
        }
    }

    /// Remembers a failure.
    fn kept<T>(&mut self, outcome: Result<T>) -> Result<T> {
        outcome.inspect_err(|error| self.failed = Some(error.again()))
    }

    fn check_usable(&self) -> Result<()> {
        match &self.failed {
            _ if self.closed => self.refuse("write", "the writer is closed"),
            Some(error) => Err(error.again()),
            None => Ok(()),
        }
    }

    fn refuse<T>(&self, operation: &'static str, message: &'static str) -> Result<T> {
        fail(ErrorKind::InvalidArgument, message)
            .map_err(|error: Error| error.at(operation, self.container.path()))
    }
}

fn no_logs<T>() -> Result<T> {
    fail(ErrorKind::Internal, "the writer has no logs")
}

/// Host and process, for people.
fn note() -> String {
    let host = rustix::system::uname();
    format!("{} {}", host.nodename().to_string_lossy(), std::process::id())
}
