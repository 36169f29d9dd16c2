//! An open plain file: read anywhere, written at its end.
//!
//! ```text
//!            written bytes in the file's order
//!   0 ────────── safe ─────────── pushed ───────── end
//!     flushed: in    │  accepted by   │  tail: here
//!     the store      │  the writer,   │  alone, may
//!                    │  copies here   │  be changed
//! ```
//!
//! The copies let a new writer go on where a lost one ended, when a gateway was restarted. A keeper has
//! copies of all bytes that aren't safe, for the next process if this one is killed.

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

/// Written bytes are collected up to this before they go to the store, 1 MiB: the largest write of the
/// kernel, and enough to hide a round trip.
const TAIL: usize = 1 << 20;
/// Bytes between two flushes, 16 MiB. A flush costs a round trip to each replica, so it should come
/// seldom; the copies cost memory.
const WINDOW: usize = 16 << 20;
/// Longest run of zeros that a write beyond the end, or a longer length, appends: 64 MiB.
const MOST_ZEROS: u64 = 64 << 20;
/// Writers that one flush or close goes through, if each fails.
const MOST_TRIES: u32 = 3;
/// The right to write, for a file's owner.
const OWNER_WRITES: u32 = 0o200;
/// Zeros appended at once.
const ZEROS: usize = 1 << 20;

/// The store as an open file sees it.
#[derive(Clone)]
pub struct Access {
    /// The store.
    pub store: Arc<dyn FileSystem>,
    /// Its abilities.
    pub capabilities: Capabilities,
    /// For whom the file was opened.
    pub who: Principal,
    /// How long to wait for the store.
    pub patience: Patience,
    /// Memory for written bytes.
    pub memory: Arc<Pool>,
    /// Notes for the next process, if this one is killed.
    pub note: Note,
}

/// An open file's path of the moment. A file asks for it once it holds its lock: while it waited, a
/// rename may have given it another one, and a new file may have the old one.
pub trait Place: Fn() -> Result<StorePath> + Send + Sync {}
impl<F: Fn() -> Result<StorePath> + Send + Sync> Place for F {}

/// How safe written bytes must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Visible to readers.
    Flushed,
    /// On stable storage.
    Synced,
    /// The store's writer is closed.
    Closed,
}

/// A file with bytes that its record in the store may lack.
#[derive(Debug, Clone, Copy)]
pub struct Unclosed {
    /// The open file's number.
    file: u64,
    /// How often its writers were closed.
    closes: u64,
    /// The length with all bytes written here.
    pub length: u64,
    /// When the last ones were, in milliseconds since 1970.
    pub written_ms: i64,
}

impl Unclosed {
    /// Whether no writer of the file was closed between the two looks.
    pub fn is_still(&self, earlier: &Self) -> bool {
        (self.file, self.closes) == (earlier.file, earlier.closes)
    }
}

/// A plain file that is open here, by any number of handles.
pub struct Plain {
    access: Access,
    writing: Arc<tokio::sync::Mutex<Writing>>,
    reader: Mutex<Option<Arc<dyn FileReader>>>,
    /// Of the file that an earlier process of the mount had open for reading.
    expected: Mutex<Option<Bytes>>,
}

/// The written part. Its lock is held while the file gets another path.
pub struct Writing {
    access: Access,
    writer: Option<Box<dyn FileWriter>>,
    /// Length of the file with all bytes written here; None before the first write.
    end: Option<u64>,
    tail: BytesMut,
    /// Accepted bytes since the last flush.
    copies: VecDeque<Bytes>,
    copied: usize,
    memory: Option<Reserved>,
    /// Something was written since the writer was closed.
    dirty: bool,
    /// How often that was.
    closes: u64,
    /// A killed process's writer may have the file open.
    orphaned: bool,
    /// This mount made the file, so its program may write it, whatever its permission.
    made_here: bool,
    /// Begin of the range that the note has.
    noted: Option<u64>,
    /// The last request that wrote.
    last: u64,
    /// When, in milliseconds since 1970.
    written_ms: i64,
    /// Written bytes were lost.
    failed: Option<Error>,
}

impl Plain {
    /// A file that exists.
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

    /// For a later process: the error that lost written bytes, and the identity of the file that is read.
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
            (writing.writer, writing.made_here) = (Some(writer), true);
            writing.end = Some(0);
            writing.touched();
            writing.note(0);
        }
        file
    }

    /// A file that a killed process had just created.
    pub async fn abandoned(access: Access) -> Self {
        let file = Self::open(access);
        {
            let mut writing = file.writing.lock().await;
            (writing.end, writing.orphaned, writing.made_here) = (Some(0), true, true);
            writing.touched();
            writing.note(0);
        }
        file
    }

    /// The file's note.
    pub fn note(&self) -> &Note {
        &self.access.note
    }

    /// The written part, for a change of the file's name or times.
    pub async fn lock(&self) -> tokio::sync::OwnedMutexGuard<Writing> {
        self.writing.clone().lock_owned().await
    }

    /// What was written since the store's writer was closed; None if nothing was.
    pub async fn unclosed(&self) -> Option<Unclosed> {
        let writing = self.writing.lock().await;
        let length = writing.end.filter(|_| writing.dirty)?;
        let Writing { written_ms, closes, .. } = *writing;
        Some(Unclosed { file: self.note().number(), closes, length, written_ms })
    }

    /// Up to `length` bytes from `offset`.
    pub async fn read(&self, path: impl Place, offset: u64, length: usize) -> Result<Bytes> {
        let mut recent = None;
        // What this mount wrote, a reader must see.
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
                // The rest is for a reader, which sees flushed bytes.
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
        // A reader from before the last bytes were flushed may not see them.
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
                    // Another host cut the file since it was closed here.
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

    /// Opens the file for reading, again if it is open.
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

    /// The next read opens the file again.
    pub fn forget_reader(&self) {
        self.access.note.reading(None);
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Writes at the end, or within the bytes that haven't left this process. The request's number is 0
    /// if it can't come again.
    pub async fn write(&self, path: impl Place, at: Option<u64>, data: Bytes, request: u64) -> Result<()> {
        let mut writing = self.writing.lock().await;
        writing.write(&path()?, at, data, request).await?;
        // Before another write changes the note.
        self.access.note.done(request);
        Ok(())
    }

    /// Makes `level` true of all bytes written before.
    pub async fn settle(&self, path: impl Place, level: Level) -> Result<()> {
        let mut writing = self.writing.lock().await;
        writing.settle(&path()?, level).await
    }

    /// Sets the file's length, for readers, too.
    pub async fn truncate(&self, path: impl Place, length: u64) -> Result<()> {
        let mut writing = self.writing.lock().await;
        let path = path()?;
        writing.truncate(&path, length).await?;
        self.forget_reader();
        writing.settle(&path, Level::Flushed).await
    }
}

impl Writing {
    /// Offset of the first byte that the store may not have.
    fn safe(&self) -> u64 {
        self.pushed() - self.copied as u64
    }

    /// Has the note say that the store has the bytes before `safe`.
    fn note(&mut self, safe: u64) {
        let (end, at_ms) = (self.end.unwrap_or(0), self.written_ms);
        let before = self.noted.replace(safe).unwrap_or(safe).min(safe);
        self.access.note.written(before, Written { safe, end, at_ms, last: self.last });
    }

    /// Takes the bytes that a killed process had accepted.
    fn recall(&mut self, written: &Written) {
        match self.access.note.recall(written) {
            Ok(bytes) => {
                self.copies = bytes.chunks(TAIL).map(Bytes::copy_from_slice).collect();
                self.copied = bytes.len();
                (self.end, self.noted, self.last) = (Some(written.end), Some(written.safe), written.last);
                (self.written_ms, self.dirty, self.orphaned) = (written.at_ms, true, true);
                // Whoever wrote these bytes might do so.
                self.made_here = true;
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
        // Another writer may have been here meanwhile.
        let Access { store, who, patience, .. } = &self.access;
        let end = patience.with(|| store.stat(who, path)).await?.length;
        self.end = Some(end);
        Ok(end)
    }

    /// Bytes that are still here, from `start` on; None if `start` is before them.
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
            tracing::warn!(
                "write {path}: at {offset}, before its end at {end}; plain files are only written at \
                 their end: mount with --plfs PATTERN for random writes"
            );
            return fail(ErrorKind::Unsupported, "plain files are only written at their end")
                .map_err(|error: Error| error.at("write", path));
        }
        if offset > end {
            self.zeros(path, offset - end).await?;
        }
        let end = self.end.unwrap_or(0);
        // Within the tail, bytes are replaced.
        let within = (end.min(offset + data.len() as u64).saturating_sub(offset)) as usize;
        let place = (offset - self.pushed()) as usize;
        self.access.note.bytes(offset, &data[..within]);
        self.tail[place..place + within].copy_from_slice(&data[..within]);
        self.append(path, data.slice(within..), request).await
    }

    async fn zeros(&mut self, path: &StorePath, count: u64) -> Result<()> {
        if count > MOST_ZEROS {
            tracing::warn!("write {path}: {count} bytes beyond its end; mount with --plfs PATTERN for holes");
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
        // Before the store may have a byte of it: its file is never longer than the next process expects.
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

    /// Gives bytes, which `end` counts already, to the store's writer.
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
        // Without memory for copies, each write is flushed.
        if self.copied >= WINDOW || self.memory.is_none() {
            let settled = self.settle_pushed(path, Level::Flushed).await;
            settled.map_err(|error| self.give_up(error))?;
        }
        Ok(())
    }

    /// Opens a writer, and appends the copies that the file lacks.
    async fn begin(&mut self, path: &StorePath) -> Result<()> {
        self.writer = None;
        let writer = match opened_at_end(&self.access, path).await {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && self.made_here => {
                opened_by_owner(&self.access, path, error).await?
            }
            opened => opened?,
        };
        let (found, safe, pushed) = (writer.position(), self.safe(), self.pushed());
        if found < safe || found > pushed {
            let message = format!("it has {found} bytes, not {safe} to {pushed}: another writer was there");
            return fail(ErrorKind::Busy, message).map_err(|error: Error| error.at("write", path));
        }
        (self.writer, self.orphaned) = (Some(writer), false);
        let resent = self.resend().await;
        if resent.is_err() {
            self.writer = None;
        }
        resent
    }

    /// Resends to the same writer as long as the mount is patient.
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

    /// Goes on after a writer's failure, if that is possible without losing or doubling a byte.
    async fn recover(&mut self, path: &StorePath, error: Error) -> Result<()> {
        let goes_on = self.writer.as_ref().is_some_and(|writer| writer.goes_on());
        if !may_be_reopened(&error) || error.kind() == ErrorKind::NotFound {
            return Err(error);
        }
        tracing::info!(%error, %path, "a writer failed; going on with another");
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

    /// After an error, the written bytes are gone. The close(2) that reported it may have been that of
    /// a child, so all further operations report it, too, until the file is opened again.
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

    /// Whether bytes were written that no closed writer has.
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

    /// Makes `level` true of all written bytes.
    ///
    /// # Errors
    /// If the store is away, the bytes stay here, and a later call may succeed.
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

    /// Keeps the written bytes if the store is away, and gives up otherwise.
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
        let end = self.known_end(path).await?;
        if length > end {
            self.zeros(path, length - end).await?;
            return self.settle(path, Level::Flushed).await;
        }
        if length == end {
            return Ok(());
        }
        if length >= self.pushed() {
            let safe = self.safe();
            self.tail.truncate((length - self.pushed()) as usize);
            self.end = Some(length);
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
            tracing::warn!("truncate {path}: this store can't; mount with --plfs PATTERN");
            return fail(ErrorKind::Unsupported, "this store can't cut files")
                .map_err(|error: Error| error.at("truncate", path));
        }
        self.end = None;
        Ok(())
    }
}

fn replaced(path: &StorePath) -> Error {
    Error::new(ErrorKind::NotFound, "the file was replaced while it was open").at("read", path)
}

/// Opens a file whose owner made it without the right to write it (0444): POSIX asks for that right at open(2)
/// alone. The owner has it for the moment of the opening.
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
        // Another program may have set another permission meanwhile.
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

/// Opens a file at its end. Waits for the lease of a writer that was lost.
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
