//! An open plain file: programs read it at any offset, and write it at its end.
//!
//! ```text
//!            written bytes in the order of their offsets
//!   0 ────────── safe ─────────── pushed ───────── end
//!     flushed: in    │  accepted by   │  tail: only
//!     the store      │  the writer,   │  here, can be
//!                    │  copied here   │  overwritten
//! ```
//!
//! With the copies, a new writer can continue where a lost one ended, for example when a gateway was
//! restarted. The keeper has copies of all bytes that aren't safe, for the next process if this one is
//! killed.

use crate::handover::Failure;
use crate::ledger::{Note, Written};
use crate::patience::{Patience, is_away, may_be_reopened};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use strait_store::budget::{Pool, Reserved};
use strait_store::{
    Capabilities, CreateOptions, Error, ErrorKind, FileReader, FileSystem, FileWriter, Principal, Result,
    SetAttributes, StorePath, fail,
};
use strait_telemetry::seldom;

/// Written bytes are collected up to this size (1 MiB) before they go to the store. It is the kernel's
/// largest write, and enough to hide a round trip.
const TAIL: usize = 1 << 20;
/// Bytes between two flushes, 16 MiB. A flush costs a round trip to each replica, so it should be rare, but
/// the copies cost memory.
const WINDOW: usize = 16 << 20;
/// Largest number of zeros that a write beyond the end, or an extension, appends: 64 MiB.
const MOST_ZEROS: u64 = 64 << 20;
/// Largest number of writers that one flush or close tries, if each fails.
const MOST_TRIES: u32 = 3;
/// The permission bit with which a file's owner may write.
const OWNER_WRITES: u32 = 0o200;
/// Number of zeros in one append.
const ZEROS: usize = 1 << 20;

/// Access to the store, for an open file.
#[derive(Clone)]
pub struct Access {
    /// The store.
    pub store: Arc<dyn FileSystem>,
    /// The store's capabilities.
    pub capabilities: Capabilities,
    /// The user for whom the file was opened.
    pub who: Principal,
    /// How long to wait for the store.
    pub patience: Patience,
    /// Memory for written bytes.
    pub memory: Arc<Pool>,
    /// The record for the next process, if this one is killed.
    pub note: Note,
}

/// Returns an open file's current path. A file calls it only while it holds its lock. While it waited for the
/// lock, a rename may have given it another path, and a new file may have the old path.
pub trait Place: Fn() -> Result<StorePath> + Send + Sync {}
impl<F: Fn() -> Result<StorePath> + Send + Sync> Place for F {}

/// How safe written bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Visible to readers.
    Flushed,
    /// On stable storage.
    Synced,
    /// The store's writer is closed.
    Closed,
}

/// A file with written bytes that its status in the store may not show yet.
#[derive(Debug, Clone, Copy)]
pub struct Unclosed {
    /// The open file's number.
    file: u64,
    /// Number of times that its writers were closed.
    closes: u64,
    /// The length with all bytes written here.
    pub length: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub written_ms: i64,
}

impl Unclosed {
    /// Whether no writer of the file was closed between the two values.
    pub fn is_still(&self, earlier: &Self) -> bool {
        (self.file, self.closes) == (earlier.file, earlier.closes)
    }
}

/// A plain file that is open here, with any number of handles.
pub struct Plain {
    access: Access,
    writing: Arc<tokio::sync::Mutex<Writing>>,
    reader: Mutex<Option<Arc<dyn FileReader>>>,
    /// The identity of the file that an earlier process of the mount had open for reading.
    expected: Mutex<Option<Bytes>>,
}

/// The state of writing. Its lock is held while the file's path changes.
pub struct Writing {
    access: Access,
    writer: Option<Box<dyn FileWriter>>,
    /// Length of the file with all bytes written here; `None` before the first write.
    end: Option<u64>,
    tail: BytesMut,
    /// Bytes that the writer accepted since the last flush.
    copies: VecDeque<Bytes>,
    copied: usize,
    memory: Option<Reserved>,
    /// Something was written since the writer was last closed.
    dirty: bool,
    /// Number of times that the writer was closed.
    closes: u64,
    /// The writer of a killed process may still have the file open.
    orphaned: bool,
    /// A writer was opened since the last close. It may have written some of the copies before it was lost.
    had_writer: bool,
    /// This mount created the file, so its program may write it, whatever the file's permission.
    made_here: bool,
    /// Start of the range that the note has.
    noted: Option<u64>,
    /// The last request that wrote to the file.
    last: u64,
    /// Time of the last write, in milliseconds since 1970.
    written_ms: i64,
    /// The error that lost written bytes, if there was one.
    failed: Option<Error>,
}

impl Plain {
    /// An existing file.
    pub fn open(access: Access) -> Self {
        let writing = Writing {
            access: access.clone(),
            writer: None,
            end: None,
            tail: BytesMut::new(),
            copies: VecDeque::new(),
            copied: 0,
            memory: None,
            dirty: false,
            closes: 0,
            orphaned: false,
            had_writer: false,
            made_here: false,
            noted: None,
            last: 0,
            written_ms: 0,
            failed: None,
        };
        let (reader, expected) = (Mutex::new(None), Mutex::new(None));
        Self { access, writing: Arc::new(tokio::sync::Mutex::new(writing)), reader, expected }
    }

    /// A file that an earlier process of the mount had open: with the error that lost its written bytes,
    /// the identity of the file that was read, and the range that the store may lack.
    pub async fn again(
        access: Access,
        failed: Option<Error>,
        identity: Option<Bytes>,
        written: Option<Written>,
    ) -> Self {
        let file = Self::open(access);
        {
            let mut writing = file.writing.lock().await;
            writing.failed = failed;
            if let (None, Some(written)) = (&writing.failed, written) {
                writing.recall(&written);
            }
        }
        *file.expected.lock().unwrap_or_else(PoisonError::into_inner) = identity;
        file
    }

    /// For the next process: the error that lost written bytes, and the identity of the file that is open for
    /// reading.
    pub async fn known(&self) -> (Option<Error>, Option<Bytes>) {
        let failed = self.writing.lock().await.failed.as_ref().map(Error::again);
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (failed, self.reader().map_or(expected, |reader| reader.identity()))
    }

    /// A file that `writer` has just created.
    pub async fn created(access: Access, writer: Box<dyn FileWriter>) -> Self {
        let file = Self::open(access);
        {
            let mut writing = file.writing.lock().await;
            (writing.writer, writing.had_writer, writing.made_here) = (Some(writer), true, true);
            writing.end = Some(0);
            writing.touched();
            writing.note(0);
        }
        file
    }

    /// A file that a killed process had just created, and whose writer may still be open.
    pub async fn abandoned(access: Access) -> Self {
        let file = Self::open(access);
        {
            let mut writing = file.writing.lock().await;
            (writing.end, writing.orphaned) = (Some(0), true);
            (writing.had_writer, writing.made_here) = (true, true);
            writing.touched();
            writing.note(0);
        }
        file
    }

    /// The file's note.
    pub fn note(&self) -> &Note {
        &self.access.note
    }

    /// Locks the state of writing, for a change of the file's name or times.
    pub async fn lock(&self) -> tokio::sync::OwnedMutexGuard<Writing> {
        self.writing.clone().lock_owned().await
    }

    /// The bytes written since the store's writer was last closed; `None` if there are none.
    pub async fn unclosed(&self) -> Option<Unclosed> {
        let writing = self.writing.lock().await;
        let length = writing.end.filter(|_| writing.dirty)?;
        let Writing { written_ms, closes, .. } = *writing;
        Some(Unclosed { file: self.note().number(), closes, length, written_ms })
    }

    /// Reads up to `length` bytes from `offset`.
    pub async fn read(&self, path: impl Place, offset: u64, length: usize) -> Result<Bytes> {
        let mut recent = None;
        // A read must show at least the bytes that this mount wrote.
        let least;
        {
            let mut writing = self.writing.lock().await;
            least = writing.end.unwrap_or(0).min(offset.saturating_add(length as u64));
            if writing.dirty {
                let end = writing.end.unwrap_or(0);
                let wanted = offset..end.min(offset.saturating_add(length as u64));
                if wanted.is_empty() {
                    return Ok(Bytes::new());
                }
                match writing.recent(wanted.start, wanted.end) {
                    Some(bytes) if bytes.len() as u64 == wanted.end - wanted.start => return Ok(bytes),
                    _ => {}
                }
                // Flush the remaining bytes, so that a reader of the store sees them.
                writing.settle(&path()?, Level::Flushed).await?;
                recent = Some(wanted);
            }
        }
        let (offset, length) = match &recent {
            Some(range) => (range.start, (range.end - range.start) as usize),
            None => (offset, length),
        };
        let mut fresh = false;
        let reader = self.reader();
        // A reader that was opened before the last flush may not see all bytes.
        let mut reader = match reader.filter(|reader| reader.length() >= least) {
            Some(reader) => reader,
            None => {
                fresh = true;
                let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let reader = self.reopen(&path).await?;
                if expected.is_some() && reader.identity() != expected {
                    self.forget_reader();
                    *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = expected;
                    return Err(replaced(&path()?));
                }
                if reader.length() < least {
                    // Another host truncated the file after it was closed here.
                    let mut writing = self.writing.lock().await;
                    writing.end = writing.end.filter(|_| writing.dirty);
                }
                reader
            }
        };
        loop {
            let read = self.access.patience.with(|| reader.read_at(offset, length)).await;
            match read {
                Err(error) if !fresh && may_be_reopened(&error) => {
                    tracing::debug!(%error, "opening the file again");
                    fresh = true;
                    let before = reader.identity();
                    reader = self.reopen(&path).await?;
                    if before.is_some() && reader.identity() != before {
                        return Err(replaced(&path()?));
                    }
                }
                read => return read,
            }
        }
    }

    fn reader(&self) -> Option<Arc<dyn FileReader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the file for reading, even if it is open already.
    pub async fn reopen(&self, path: impl Place) -> Result<Arc<dyn FileReader>> {
        let _held = self.writing.lock().await;
        let (access, path) = (&self.access, path()?);
        let open = || access.store.open(&access.who, &path);
        let reader: Arc<dyn FileReader> = access.patience.with(open).await?.into();
        access.note.reading(reader.identity().as_deref());
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader.clone());
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(reader)
    }

    /// Makes the next read open the file again.
    pub fn forget_reader(&self) {
        self.access.note.reading(None);
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Writes at the end, or overwrites bytes that are still in this process only. `request` is the request's
    /// number, or 0 if the kernel can't resend it.
    pub async fn write(&self, path: impl Place, at: Option<u64>, data: Bytes, request: u64) -> Result<()> {
        let mut writing = self.writing.lock().await;
        writing.write(&path()?, at, data, request).await?;
        // Record this before another write changes the note.
        self.access.note.done(request);
        Ok(())
    }

    /// Brings all bytes written before to `level`.
    pub async fn settle(&self, path: impl Place, level: Level) -> Result<()> {
        let mut writing = self.writing.lock().await;
        writing.settle(&path()?, level).await
    }

    /// Sets the file's length. As with written bytes, other hosts see it after a sync or close.
    pub async fn truncate(&self, path: impl Place, length: u64) -> Result<()> {
        let mut writing = self.writing.lock().await;
        writing.truncate(&path()?, length).await?;
        self.forget_reader();
        Ok(())
    }
}

impl Writing {
    /// Offset of the first byte that the store may lack.
    fn safe(&self) -> u64 {
        self.pushed() - self.copied as u64
    }

    /// Records in the note that the store has the bytes before `safe`.
    fn note(&mut self, safe: u64) {
        let (end, at_ms) = (self.end.unwrap_or(0), self.written_ms);
        let before = self.noted.replace(safe).unwrap_or(safe).min(safe);
        self.access.note.written(before, Written { safe, end, at_ms, last: self.last });
    }

    /// Takes over the bytes that a killed process had accepted.
    fn recall(&mut self, written: &Written) {
        match self.access.note.recall(written) {
            Ok(bytes) => {
                self.copies = bytes.chunks(TAIL).map(Bytes::copy_from_slice).collect();
                self.copied = bytes.len();
                (self.end, self.noted, self.last) = (Some(written.end), Some(written.safe), written.last);
                (self.written_ms, self.dirty, self.orphaned) = (written.at_ms, true, true);
                // The killed process could write the file, so this one may, too.
                (self.made_here, self.had_writer) = (true, true);
            }
            Err(error) => {
                let message = format!("written bytes were lost when the mount's process was killed: {error}");
                self.failed = Some(Error::new(ErrorKind::Internal, message));
            }
        }
    }

    fn touched(&mut self) {
        self.dirty = true;
        self.written_ms = crate::times::milliseconds(SystemTime::now());
    }

    fn pushed(&self) -> u64 {
        self.end.unwrap_or(0) - self.tail.len() as u64
    }

    async fn known_end(&mut self, path: &StorePath) -> Result<u64> {
        if let (Some(end), true) = (self.end, self.dirty) {
            return Ok(end);
        }
        // Another host may have written since.
        let Access { store, who, patience, .. } = &self.access;
        let end = patience.with(|| store.stat(who, path)).await?.length;
        self.end = Some(end);
        Ok(end)
    }

    /// Bytes from `start` to `end` that are still in this process; `None` if `start` is before them.
    fn recent(&self, start: u64, end: u64) -> Option<Bytes> {
        if start < self.safe() {
            return None;
        }
        let mut bytes = BytesMut::with_capacity((end - start) as usize);
        let mut at = self.safe();
        for piece in self.copies.iter().map(|piece| &piece[..]).chain([&self.tail[..]]) {
            let (from, to) = (start.max(at), end.min(at + piece.len() as u64));
            if from < to {
                bytes.extend_from_slice(&piece[(from - at) as usize..(to - at) as usize]);
            }
            at += piece.len() as u64;
        }
        Some(bytes.freeze())
    }

    async fn write(&mut self, path: &StorePath, at: Option<u64>, data: Bytes, request: u64) -> Result<()> {
        self.check_usable()?;
        let end = self.known_end(path).await?;
        let offset = at.unwrap_or(end);
        let pushed = self.pushed();
        if offset < pushed {
            seldom!(
                warn,
                "write {path}: at {offset}, before its end at {end}; programs can write plain files only at \
                 their end: mount with --plfs PATTERN for random writes"
            );
            return fail(ErrorKind::Unsupported, "plain files are only written at their end")
                .map_err(|error: Error| error.at("write", path));
        }
        if offset > end {
            self.zeros(path, offset - end).await?;
        }
        let end = self.end.unwrap_or(0);
        // The write overwrites bytes of the tail.
        let within = (end.min(offset + data.len() as u64).saturating_sub(offset)) as usize;
        let place = (offset - self.pushed()) as usize;
        self.access.note.bytes(offset, &data[..within]);
        self.tail[place..place + within].copy_from_slice(&data[..within]);
        self.append(path, data.slice(within..), request).await
    }

    async fn zeros(&mut self, path: &StorePath, count: u64) -> Result<()> {
        if count > MOST_ZEROS {
            seldom!(warn, "write {path}: {count} bytes beyond its end; mount with --plfs PATTERN for holes");
            return fail(ErrorKind::Unsupported, "the hole is longer than 64 MiB")
                .map_err(|error: Error| error.at("write", path));
        }
        let zeros = Bytes::from(vec![0; ZEROS.min(count as usize)]);
        let mut left = count as usize;
        while left > 0 {
            let piece = zeros.slice(..left.min(zeros.len()));
            left -= piece.len();
            self.append(path, piece, 0).await?;
        }
        Ok(())
    }

    async fn append(&mut self, path: &StorePath, data: Bytes, request: u64) -> Result<()> {
        self.touched();
        let (safe, end) = (self.safe(), self.end.unwrap_or(0));
        self.access.note.bytes(end, &data);
        self.end = Some(end + data.len() as u64);
        // Note the bytes before the store can get any: its file is then never longer than the next process
        // expects.
        if request != 0 {
            self.last = request;
        }
        self.note(safe);
        if self.tail.is_empty() && data.len() >= TAIL {
            return self.push(path, data).await;
        }
        self.tail.extend_from_slice(&data);
        while self.tail.len() >= TAIL {
            let piece = self.tail.split_to(TAIL).freeze();
            self.push(path, piece).await?;
        }
        Ok(())
    }

    /// Appends bytes, which `end` already counts, with the store's writer.
    async fn push(&mut self, path: &StorePath, data: Bytes) -> Result<()> {
        self.copied += data.len();
        self.copies.push_back(data.clone());
        if self.memory.is_none() {
            self.memory = self.access.memory.share(&self.access.who.user).reserve((WINDOW + TAIL) as u64);
        }
        let outcome = match &mut self.writer {
            Some(writer) => match writer.append(data).await {
                Err(error) => self.recover(path, error).await,
                Ok(()) => Ok(()),
            },
            None => self.begin(path).await,
        };
        outcome.map_err(|error| self.give_up(error))?;
        // Without reserved memory for copies, flush after each write.
        if self.copied >= WINDOW || self.memory.is_none() {
            let settled = self.settle_pushed(path, Level::Flushed).await;
            settled.map_err(|error| self.give_up(error))?;
        }
        Ok(())
    }

    /// Opens a writer, and appends the copies that the store's file lacks.
    async fn begin(&mut self, path: &StorePath) -> Result<()> {
        self.writer = None;
        let writer = match opened_at_end(&self.access, path).await {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && self.made_here => {
                opened_by_owner(&self.access, path, error).await?
            }
            opened => opened?,
        };
        // Only a writer that was lost can have written some of the copies.
        let (found, safe) = (writer.position(), self.safe());
        let most = if self.had_writer { self.pushed() } else { safe };
        if found < safe || found > most {
            let message = format!("it has {found} bytes, not {safe} to {most}: another writer wrote it");
            return fail(ErrorKind::Busy, message).map_err(|error: Error| error.at("write", path));
        }
        (self.writer, self.orphaned, self.had_writer) = (Some(writer), false, true);
        let resent = self.resend().await;
        if resent.is_err() {
            self.writer = None;
        }
        resent
    }

    /// Resends to the same writer until the mount's patience ends.
    async fn resume(&mut self) -> Result<()> {
        let mut pauses = self.access.patience.pauses();
        loop {
            match self.resend().await {
                Err(error) if is_away(&error) && self.writer.as_ref().is_some_and(|it| it.goes_on()) => {
                    pauses.pause(error).await?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Continues after a writer's failure, if no byte is lost or doubled by that.
    async fn recover(&mut self, path: &StorePath, error: Error) -> Result<()> {
        let goes_on = self.writer.as_ref().is_some_and(|writer| writer.goes_on());
        if !may_be_reopened(&error) || error.kind() == ErrorKind::NotFound {
            return Err(error);
        }
        tracing::info!(%error, %path, "a writer failed; resending its bytes");
        if goes_on && self.resume().await.is_ok() {
            return Ok(());
        }
        self.begin(path).await
    }

    /// Appends the copies that the writer hasn't accepted.
    async fn resend(&mut self) -> Result<()> {
        let mut at = self.safe();
        let Some(writer) = &mut self.writer else {
            return fail(ErrorKind::Internal, "the file has no writer");
        };
        for copy in &self.copies {
            let accepted = writer.position().saturating_sub(at).min(copy.len() as u64) as usize;
            if accepted < copy.len() {
                writer.append(copy.slice(accepted..)).await?;
            }
            at += copy.len() as u64;
        }
        Ok(())
    }

    /// Drops the written bytes after an error. Perhaps only a child's close(2) reported the error. So all
    /// further operations report it, too, until the file is opened again.
    fn give_up(&mut self, error: Error) -> Error {
        self.writer = None;
        self.end = None;
        self.tail.clear();
        self.copies.clear();
        self.copied = 0;
        self.dirty = false;
        self.memory = None;
        self.failed = Some(error.again());
        self.noted = None;
        self.access.note.failed(&Failure::from(&error));
        error
    }

    /// Whether there are written bytes that no closed writer has.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether written bytes were lost.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn check_usable(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(error.again()))
    }

    /// Brings all written bytes to `level`.
    ///
    /// # Errors
    /// If the store can't be reached, the bytes stay here, and a later call may succeed.
    pub async fn settle(&mut self, path: &StorePath, level: Level) -> Result<()> {
        self.check_usable()?;
        if !self.dirty {
            return Ok(());
        }
        if !self.tail.is_empty() {
            let tail = self.tail.split().freeze();
            self.copied += tail.len();
            self.copies.push_back(tail.clone());
            let pushed = match &mut self.writer {
                Some(writer) => writer.append(tail).await,
                None => Ok(()), // the next writer gets all copies
            };
            if let Err(error) = pushed {
                let recovered = self.recover(path, error).await;
                recovered.map_err(|error| self.keep(error))?;
            }
        }
        self.settle_pushed(path, level).await.map_err(|error| self.keep(error))
    }

    /// Keeps the written bytes if the store can't be reached; otherwise drops them.
    fn keep(&mut self, error: Error) -> Error {
        if !is_away(&error) {
            return self.give_up(error);
        }
        self.writer = None;
        error
    }

    async fn settle_pushed(&mut self, path: &StorePath, level: Level) -> Result<()> {
        if self.writer.is_none() && (self.copied > 0 || level == Level::Synced || self.orphaned) {
            self.begin(path).await?;
        }
        let mut tries = 0;
        loop {
            let outcome = match (&mut self.writer, level) {
                (None, _) => Ok(None),
                (Some(writer), Level::Flushed) => writer.flush().await,
                (Some(writer), Level::Synced) => writer.sync().await,
                (Some(writer), Level::Closed) => writer.close().await,
            };
            match outcome {
                Ok(_) => break,
                Err(error) if tries == MOST_TRIES => return Err(error),
                Err(error) => self.recover(path, error).await?,
            }
            tries += 1;
        }
        self.copies.clear();
        self.copied = 0;
        if level == Level::Closed {
            self.writer = None;
            self.memory = None;
            self.dirty = false;
            self.had_writer = false;
            self.closes += 1;
            self.tail = BytesMut::new();
            self.noted = None;
            self.access.note.clean();
        } else {
            self.note(self.safe());
        }
        Ok(())
    }

    async fn truncate(&mut self, path: &StorePath, length: u64) -> Result<()> {
        self.check_usable()?;
        let end = self.known_end(path).await?;
        if length > end {
            // Programs may set the length first, and then write from the former end on.
            return self.zeros(path, length - end).await;
        }
        if length == end {
            return Ok(());
        }
        if length >= self.pushed() {
            let safe = self.safe();
            self.tail.truncate((length - self.pushed()) as usize);
            self.end = Some(length);
            self.touched();
            self.note(safe);
            return Ok(());
        }
        self.settle(path, Level::Closed).await?;
        let Access { store, who, capabilities, patience, .. } = self.access.clone();
        if capabilities.truncate {
            patience.with(|| store.truncate(&who, path, length)).await?;
        } else if length == 0 {
            let status = store.stat(&who, path).await?;
            let permission = Some(status.permission);
            let options = CreateOptions { overwrite: true, permission, ..CreateOptions::default() };
            let mut writer = patience.with(|| store.create(&who, path, &options)).await?;
            writer.close().await?;
        } else {
            seldom!(warn, "truncate {path}: this store can't truncate files; mount with --plfs PATTERN");
            return fail(ErrorKind::Unsupported, "this store can't truncate files")
                .map_err(|error: Error| error.at("truncate", path));
        }
        self.end = None;
        Ok(())
    }
}

fn replaced(path: &StorePath) -> Error {
    Error::new(ErrorKind::NotFound, "the file was replaced while it was open").at("read", path)
}

/// Opens a file that its owner created without the right to write it (0444). POSIX checks that right only at
/// open(2). This grants the owner the right while the writer is opened.
async fn opened_by_owner(access: &Access, path: &StorePath, refusal: Error) -> Result<Box<dyn FileWriter>> {
    let Access { store, who, patience, .. } = access;
    let status = patience.with(|| store.stat(who, path)).await?;
    let (without, with) = (status.permission, status.permission | OWNER_WRITES);
    if status.owner != *who.user || without == with {
        return Err(refusal);
    }
    let set = async |permission| {
        let set = SetAttributes { permission: Some(permission), ..SetAttributes::default() };
        patience.with(|| store.set_attributes(who, path, &set)).await
    };
    set(with).await?;
    let opened = opened_at_end(access, path).await;
    let restored = async {
        // Restore the permission only if no other program has changed it since.
        match patience.with(|| store.stat(who, path)).await?.permission == with {
            true => set(without).await,
            false => Ok(()),
        }
    };
    if let Err(error) = restored.await {
        tracing::warn!("{error}; its owner may still write it");
    }
    opened
}

/// Opens a writer at the file's end. Waits until the lease of a lost writer ends.
async fn opened_at_end(access: &Access, path: &StorePath) -> Result<Box<dyn FileWriter>> {
    let Access { store, who, patience, capabilities, .. } = access;
    let until = tokio::time::Instant::now() + Duration::from_millis(capabilities.recovery_ms.into());
    loop {
        match patience.with(|| store.append(who, path)).await {
            Err(error) if error.kind() == ErrorKind::Busy && tokio::time::Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            opened => return opened,
        }
    }
}
