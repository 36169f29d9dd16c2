//! Inspects a container, and repairs it after crashes.

use crate::block::Block;
use crate::block::Position;
use crate::container::Container;
use crate::layout::LogName;
use crate::logs::IndexLog;
use crate::plan::Opened;
use futures::{StreamExt, TryStreamExt, stream};
use std::ops::Range;
use strait_crc::crc32c_append;
use strait_store::{Error, ErrorKind, MAX_CHUNK_BYTES, Result, StorePath};

/// Data logs that are checked at once.
const AT_ONCE: usize = 4;

/// A writer, and what it published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterSummary {
    /// The writer's rank.
    pub rank: u32,
    /// Distinguishes writers with the same rank.
    pub nonce: u64,
    /// Host and process of the writer; empty if a crash left the head of its index log incomplete.
    pub note: String,
    /// Bytes that the writer published.
    pub bytes: u64,
    /// Entries of its index log: writes, patterns and truncations.
    pub entries: usize,
    /// The epoch of the writer's last sync; 0 if there was none.
    pub epoch: u64,
    /// Whether the writer closed its logs.
    pub closed: bool,
    /// Bytes of an incomplete block at the end of its index log, which a crash left.
    pub torn: u64,
}

/// A fault of a container.
#[derive(Debug)]
pub struct Problem {
    /// The faulty file.
    pub path: StorePath,
    /// The fault.
    pub error: Error,
}

/// The outcome of [`Container::recover`].
#[derive(Debug, Default)]
pub struct Recovery {
    /// Writers (rank and nonce) that had crashed, and whose logs are closed now.
    pub ended: Vec<(u32, u64)>,
    /// Writers whose logs are still being written.
    pub live: Vec<(u32, u64)>,
}

impl Container {
    /// All writers, by rank and nonce.
    pub async fn writers(&self) -> Result<Vec<WriterSummary>> {
        let summaries = stream::iter(self.log_names().await?).map(|name| self.summary(name));
        summaries.buffered(AT_ONCE).try_collect().await
    }

    /// Reads all data logs, compares them with the checksums in their index logs, and returns all
    /// faults.
    ///
    /// # Errors
    /// Only if the container itself can't be listed.
    pub async fn check(&self) -> Result<Vec<Problem>> {
        let names = self.log_names().await?;
        let checks = stream::iter(names).map(|name| self.check_log(name)).buffered(AT_ONCE);
        let problems: Vec<Vec<Problem>> = checks.try_collect().await?;
        Ok(problems.into_iter().flatten().chain(self.check_merged().await?).collect())
    }

    async fn summary(&self, name: LogName) -> Result<WriterSummary> {
        let mut log = IndexLog::open(self, name, Position::default()).await?;
        let (mut bytes, mut entries) = (0, 0);
        while let Some(block) = log.next().await? {
            bytes += block.data_length;
            entries += block.changes.len();
        }
        let Position { epoch, closed, .. } = log.position();
        let torn = log.torn();
        let note = log.head.map(|head| head.note).unwrap_or_default();
        Ok(WriterSummary { rank: name.rank, nonce: name.nonce, note, bytes, entries, epoch, closed, torn })
    }

    async fn check_log(&self, name: LogName) -> Result<Vec<Problem>> {
        let (index, data) = (self.layout.index(name)?, self.layout.data(name)?);
        let mut log = match IndexLog::open(self, name, Position::default()).await {
            Ok(log) => log,
            Err(error) => return Ok(vec![Problem { path: index, error }]),
        };
        let opened = match self.open_data(name).await {
            Ok(opened) => opened,
            Err(error) => return Ok(vec![Problem { path: data, error }]),
        };
        let mut problems = Vec::new();
        loop {
            let block = match log.next().await {
                Ok(Some(block)) => block,
                Ok(None) => return Ok(problems),
                Err(error) => {
                    problems.push(Problem { path: index, error });
                    return Ok(problems);
                }
            };
            if let Err(error) = verify(&opened, &block).await {
                let error = error.at("check", &opened.path);
                problems.push(Problem { path: opened.path.clone(), error });
            }
        }
    }

    /// Reads the latest merged index, all of it.
    async fn check_merged(&self) -> Result<Vec<Problem>> {
        let Some(path) = self.merged_names().await?.into_iter().next() else { return Ok(Vec::new()) };
        match self.verify_merged(&path).await {
            Ok(()) => Ok(Vec::new()),
            Err(error) => Ok(vec![Problem { path, error }]),
        }
    }

    /// Ends writers that crashed: closes their logs, so that their synced bytes are readable on any store,
    /// and removes their marks. Then stores a new merged index, if that pays. Call it only when no writer
    /// runs any more: a store without exclusive writers can't distinguish a slow writer from one that
    /// crashed.
    pub async fn recover(&self) -> Result<Recovery> {
        let mut marks: Vec<LogName> = Vec::new();
        let mut entries = self.fs.list(&self.who, &self.layout.open()?);
        while let Some(entry) = entries.next().await {
            marks.extend(LogName::parse(entry?.name()));
        }
        let mut recovery = Recovery::default();
        for name in marks {
            let key = (name.rank, name.nonce);
            match self.end(name).await {
                Ok(()) => recovery.ended.push(key),
                Err(error) if error.kind() == ErrorKind::Busy => recovery.live.push(key),
                Err(error) => return Err(error),
            }
        }
        if recovery.live.is_empty() && self.plan().await?.is_none() {
            self.renew_merged().await?;
        }
        Ok(recovery)
    }

    async fn end(&self, name: LogName) -> Result<()> {
        for path in [self.layout.data(name)?, self.layout.index(name)?] {
            // Opening for append takes the file over from the writer. The close then fixes its length.
            match self.fs.append(&self.who, &path).await {
                Ok(mut writer) => drop(writer.close().await?),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => {}
                Err(error) => return Err(error),
            }
        }
        self.fs.remove(&self.who, &self.layout.open_mark(name)?, false).await
    }
}

/// Compares a block's bytes in the data log with its checksum.
async fn verify(log: &Opened, block: &Block) -> Result<()> {
    let Range { mut start, end } = block.data_begin..block.data_begin + block.data_length;
    let mut crc = 0;
    while start < end {
        let length = (end - start).min(MAX_CHUNK_BYTES as u64) as usize;
        let bytes = log.reader.read_at(log.base + start, length).await?;
        if bytes.is_empty() {
            let message = format!("the log ends at byte {start}, but its index describes bytes up to {end}");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        crc = crc32c_append(crc, &bytes);
        start += bytes.len() as u64;
    }
    if crc == block.data_crc {
        return Ok(());
    }
    let message = format!("bytes {} to {end} don't match their checksum", block.data_begin);
    Err(Error::new(ErrorKind::Corrupt, message))
}
