//! Logs in numbered parts, for stores that show a file only once it is closed, as object stores do.
//!
//! Such a store promises nothing at a sync. So here each sync of a log closes a part, which is a file of its own:
//!
//! ```text
//!   RANK.NONCE.data            bytes up to the first sync
//!   RANK.NONCE.data.00000001   bytes from the first to the second sync
//! ```
//!
//! The rest of the crate sees one file: [`Parted`] puts the parts together. A log that was synced once is the same
//! as on any other store.

use crate::layout::LogName;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strait_store::{
    Capabilities, CreateOptions, Error, ErrorKind, FileReader, FileStatus, FileSystem, FileWriter, Principal,
    Result, SetAttributes, StorePath, fail,
};
use tokio::sync::Semaphore;

/// Digits of a part's number.
const DIGITS: usize = 8;
/// A longer part is closed without a sync. Object stores allow no file above some 100 GiB.
const MAX_PART_BYTES: u64 = 64 << 30;
/// Readers of one log's parts that are kept open. Each may read ahead.
const MOST_OPEN: usize = 2;
/// Concurrent reads of parts by one container's readers. After many syncs, an index log has many small parts.
const AT_ONCE: usize = 16;

/// A store of containers whose logs have parts.
#[derive(Clone)]
pub(crate) struct Parted {
    store: Arc<dyn FileSystem>,
    /// The lengths of each log's parts, as listed last.
    listed: Arc<Mutex<HashMap<StorePath, Vec<u64>>>>,
    /// The turns of reads of parts.
    turns: Arc<Semaphore>,
}

impl Parted {
    /// Whether the logs of a store need parts.
    pub fn is_needed(capabilities: &Capabilities) -> bool {
        !capabilities.visible_while_written
    }

    /// Puts the parts of `store` together.
    pub fn new(store: Arc<dyn FileSystem>) -> Self {
        Self { store, listed: Arc::default(), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    fn listed(&self) -> MutexGuard<'_, HashMap<StorePath, Vec<u64>>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the parts of a log anew when it is opened next.
    pub fn forget(&self, log: &StorePath) {
        self.listed().remove(log);
    }

    /// The lengths of a log's parts; none if there is no such log.
    pub async fn lengths(&self, who: &Principal, log: &StorePath) -> Result<Vec<u64>> {
        if let Some(lengths) = self.listed().get(log) {
            return Ok(lengths.clone());
        }
        let Some(directory) = log.parent() else { return Ok(Vec::new()) };
        self.list_logs(who, &directory).await?;
        Ok(self.listed().get(log).cloned().unwrap_or_default())
    }

    /// A container's logs, each as one entry, and other files of the directory.
    async fn list_logs(&self, who: &Principal, directory: &StorePath) -> Result<Vec<FileStatus>> {
        let mut logs = self.list_parts(who, directory).await?;
        if first_missing(&logs).is_some() {
            // A listing of several pages isn't taken at one moment.
            logs = self.list_parts(who, directory).await?;
        }
        if let Some((name, missing)) = first_missing(&logs) {
            let message = format!("part {missing} of the log is missing");
            return Err(Error::new(ErrorKind::Corrupt, message).at("list", directory.join(name)?));
        }
        let mut listed = self.listed();
        let mut statuses = Vec::with_capacity(logs.len());
        for (name, parts) in logs {
            listed.insert(directory.join(&name)?, parts.values().map(|part| part.length).collect());
            statuses.extend(parts.into_values().reduce(|first, part| FileStatus {
                length: first.length.saturating_add(part.length),
                modified_ms: first.modified_ms.max(part.modified_ms),
                ..first
            }));
        }
        Ok(statuses)
    }

    /// Of each log, its parts' statuses by their numbers. A store may list them in any order.
    async fn list_parts(&self, who: &Principal, directory: &StorePath) -> Result<Parts> {
        let mut logs = Parts::new();
        let mut entries = self.store.list(who, directory);
        while let Some(entry) = entries.next().await {
            let entry = match entry {
                // The store has no empty directories.
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                entry => entry?,
            };
            let (log, part) = part_of(entry.name()).unwrap_or((entry.name(), 0));
            let log = log.to_owned();
            logs.entry(log).or_default().insert(part, entry);
        }
        Ok(logs)
    }
}

type Parts = BTreeMap<String, BTreeMap<usize, FileStatus>>;

/// A log that has later parts, but not this one.
fn first_missing(logs: &Parts) -> Option<(&str, usize)> {
    logs.iter().find_map(|(name, parts)| {
        let missing = (0..parts.len()).find(|part| !parts.contains_key(part))?;
        Some((name.as_str(), missing))
    })
}

/// The log and the number of a further part with this name.
fn part_of(name: &str) -> Option<(&str, usize)> {
    let (log, number) = name.rsplit_once('.')?;
    let is_part = number.len() == DIGITS && is_log_name(log);
    Some((log, number.parse().ok().filter(|_| is_part)?))
}

fn is_log_name(name: &str) -> bool {
    name.strip_suffix(".data").or(name.strip_suffix(".index")).and_then(LogName::parse).is_some()
}

fn is_log(path: &StorePath) -> bool {
    is_log_name(path.name()) && path.parent().is_some_and(|parent| parent.name() == "logs")
}

fn part(log: &StorePath, number: usize) -> Result<StorePath> {
    match (number, log.parent()) {
        (0, _) | (_, None) => Ok(log.clone()),
        (_, Some(directory)) => directory.join(&format!("{}.{number:0DIGITS$}", log.name())),
    }
}

#[async_trait]
impl FileSystem for Parted {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        let status = self.store.stat(who, path).await?;
        if !is_log(path) {
            return Ok(status);
        }
        let length = self.lengths(who, path).await?.into_iter().fold(0, u64::saturating_add);
        Ok(FileStatus { length, ..status })
    }

    /// As the store lists, but a directory that is missing is empty.
    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        if path.name() != "logs" {
            let entries = self.store.list(who, path);
            let is_there = |entry: &Result<FileStatus>| {
                !entry.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
            };
            return entries.take_while(move |entry| std::future::ready(is_there(entry))).boxed();
        }
        let (this, who, path) = (self.clone(), who.clone(), path.clone());
        let listed = async move {
            let entries = this.list_logs(&who, &path).await?;
            Ok::<_, Error>(stream::iter(entries.into_iter().map(Ok)))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        if !is_log(path) {
            return self.store.open(who, path).await;
        }
        let lengths = self.lengths(who, path).await?;
        if lengths.len() < 2 {
            return self.store.open(who, path).await;
        }
        Ok(Box::new(PartedReader::new(self.clone(), who.clone(), path.clone(), &lengths)))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        if !is_log(path) {
            return self.store.create(who, path, options).await;
        }
        // A log's name is unique, so the store needn't reserve it.
        let options = CreateOptions { overwrite: true, ..options.clone() };
        Ok(Box::new(PartedWriter {
            store: self.store.clone(),
            who: who.clone(),
            log: path.clone(),
            options,
            part: None,
            number: 0,
            begin: 0,
        }))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        self.store.append(who, path).await
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        self.forget(path);
        self.store.truncate(who, path, length).await
    }

    async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        sources.iter().for_each(|log| self.forget(log));
        self.store.concat(who, target, sources).await
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.forget(from);
        self.store.rename(who, from, to, replace).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.store.remove(who, path, recursive).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.store.mkdirs(who, path, permission).await
    }

    async fn set_attributes(&self, who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        self.store.set_attributes(who, path, set).await
    }
}

/// Writes a log part by part.
struct PartedWriter {
    store: Arc<dyn FileSystem>,
    who: Principal,
    log: StorePath,
    options: CreateOptions,
    /// The part being written; none before its first byte.
    part: Option<Box<dyn FileWriter>>,
    /// The number of the part that is or will be written, and where it begins in the log.
    number: usize,
    begin: u64,
}

#[async_trait]
impl FileWriter for PartedWriter {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        if self.part.as_ref().is_some_and(|part| part.position() >= MAX_PART_BYTES) {
            self.sync().await?;
        }
        let part = match &mut self.part {
            Some(part) => part,
            none => {
                let path = part(&self.log, self.number)?;
                none.insert(self.store.create(&self.who, &path, &self.options).await?)
            }
        };
        part.append(data).await
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        self.sync().await
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        let Some(part) = &mut self.part else { return Ok(None) };
        let replicas = part.close().await?;
        self.begin += part.position();
        self.number += 1;
        self.part = None;
        Ok(replicas)
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        self.sync().await
    }

    fn position(&self) -> u64 {
        self.begin + self.part.as_ref().map_or(0, |part| part.position())
    }
}

/// Reads the parts of a log as one file.
struct PartedReader {
    parted: Parted,
    who: Principal,
    log: StorePath,
    /// The end of each part in the log.
    ends: Vec<u64>,
    /// The parts that were read last, the latest first.
    open: Mutex<Vec<(usize, Arc<dyn FileReader>)>>,
}

impl PartedReader {
    fn new(parted: Parted, who: Principal, log: StorePath, lengths: &[u64]) -> Self {
        let ends = lengths.iter().scan(0, |end, length| {
            *end = u64::saturating_add(*end, *length);
            Some(*end)
        });
        Self { parted, who, log, ends: ends.collect(), open: Mutex::default() }
    }

    /// Offset of a part's first byte in the log.
    fn begin(&self, number: usize) -> u64 {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// A range of the log that lies in one part.
    async fn read_part(&self, number: usize, range: Range<u64>) -> Result<Bytes> {
        let wanted = (range.end - range.start) as usize;
        // It is never closed.
        let _turn = self.parted.turns.acquire().await;
        let piece = self.part(number).await?.read_at(range.start - self.begin(number), wanted).await?;
        if piece.len() < wanted {
            return fail(ErrorKind::Corrupt, "it is shorter than it was listed")
                .map_err(|error: Error| error.at("read", &self.log));
        }
        Ok(piece)
    }

    async fn part(&self, number: usize) -> Result<Arc<dyn FileReader>> {
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, reader)) = open().iter().find(|(open, _)| *open == number) {
            return Ok(reader.clone());
        }
        let path = part(&self.log, number)?;
        let reader: Arc<dyn FileReader> = self.parted.store.open(&self.who, &path).await?.into();
        // The caller plans its own reads ahead.
        reader.stop_reading_ahead();
        if reader.length() != self.ends[number] - self.begin(number) {
            return fail(ErrorKind::Corrupt, "its length has changed")
                .map_err(|error: Error| error.at("read", path));
        }
        let mut open = open();
        open.insert(0, (number, reader.clone()));
        open.truncate(MOST_OPEN);
        Ok(reader)
    }
}

#[async_trait]
impl FileReader for PartedReader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let end = offset.saturating_add(length as u64).min(self.length());
        if offset >= end {
            return Ok(Bytes::new());
        }
        let first = self.ends.partition_point(|end| *end <= offset);
        if end <= self.ends[first] {
            return self.read_part(first, offset..end).await;
        }
        let last = self.ends.partition_point(|part| *part < end);
        let mut pieces = stream::iter(first..=last)
            .map(|number| self.read_part(number, offset.max(self.begin(number))..end.min(self.ends[number])))
            .buffered(AT_ONCE);
        let mut bytes = BytesMut::with_capacity((end - offset) as usize);
        while let Some(piece) = pieces.try_next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.freeze())
    }

    fn length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn identity(&self) -> Option<Bytes> {
        None
    }
}
