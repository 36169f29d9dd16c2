//! Open files and listings of a session.

use crate::pool::{Grant, Holder, Key};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strait_store::random::random;
use strait_store::{
    Error, ErrorKind, FileReader, FileStatus, FileSystem, FileWriter, Principal, Result, StorePath, fail,
};
/// Bits of a cursor for its page: a repeated request comes at once, not 256 pages later.
const PAGE_BITS: u32 = 8;
/// Listings that a session remembers as ended early.
const ENDED_LISTINGS: usize = 256;

/// An open file or listing.
#[derive(Clone)]
pub enum Handle {
    /// A file, for reading, writing or both.
    File(Arc<OpenFile>),
    /// A directory, read page by page.
    Listing(Arc<tokio::sync::Mutex<Listing>>),
}

/// The rest of a directory. If the previous page had no room for an entry that was read already, `held`
/// keeps that entry.
pub struct Listing {
    /// Entries to come.
    pub entries: BoxStream<'static, Result<FileStatus>>,
    /// The entry kept for the next page.
    pub held: Option<FileStatus>,
    /// Number of pages begun so far. A cursor names the next one, since a repeated request would get the page
    /// after it.
    pub pages: u32,
    /// The store and the directory, if a cursor must name them again.
    pub of: Option<(String, StorePath)>,
    /// Its place within the limits.
    _place: Place,
}

impl Listing {
    /// A listing that begins with the first entry.
    pub fn new(entries: BoxStream<'static, Result<FileStatus>>, place: Place) -> Self {
        Self { entries, held: None, pages: 0, of: None, _place: place }
    }

    /// Ends the listing early: frees its entries, and makes the next page an error.
    pub fn end(&mut self) {
        self.entries = futures::stream::once(async { Err(ended_early()) }).boxed();
        self.held = None;
    }
}

/// An open file.
pub struct OpenFile {
    /// Its path.
    pub path: StorePath,
    /// For reading, if it was opened for that.
    pub reading: Option<Reading>,
    /// For writing, if it was opened for that; None inside once it is closed.
    pub writer: Option<tokio::sync::Mutex<Option<Box<dyn FileWriter>>>>,
    /// Its place within the limits, held until the last call on it has ended.
    _place: Place,
}

/// The reading side of an open file.
pub struct Reading {
    /// The reader. None if the file is written through the same handle: the first read opens a
    /// reader, and so does the first after each write.
    pub reader: tokio::sync::Mutex<Option<Arc<dyn FileReader>>>,
    /// Offset of the next read that names no offset.
    pub position: tokio::sync::Mutex<u64>,
}

impl OpenFile {
    /// A file that was opened for reading.
    pub fn reader(path: StorePath, reader: Box<dyn FileReader>, place: Place) -> Self {
        let reading = Reading { reader: Some(reader.into()).into(), position: 0.into() };
        Self { path, reading: Some(reading), writer: None, _place: place }
    }

    /// A file that was opened for writing, and for reading too if `readable`.
    pub fn writer(path: StorePath, writer: Box<dyn FileWriter>, readable: bool, place: Place) -> Self {
        let reading = readable.then(|| Reading { reader: None.into(), position: 0.into() });
        Self { path, reading, writer: Some(Some(writer).into()), _place: place }
    }

    /// The reader, up to date with all writes through this handle.
    pub async fn current_reader(&self, fs: &dyn FileSystem, who: &Principal) -> Result<Arc<dyn FileReader>> {
        let Some(reading) = &self.reading else {
            return Err(Error::new(ErrorKind::InvalidArgument, "the handle isn't open for reading")
                .at("read", &self.path));
        };
        let mut reader = reading.reader.lock().await;
        if let Some(reader) = &*reader {
            return Ok(reader.clone());
        }
        if let Some(writer) = &self.writer
            && let Some(writer) = writer.lock().await.as_mut()
        {
            writer.flush().await?;
        }
        let fresh: Arc<dyn FileReader> = fs.open(who, &self.path).await?.into();
        *reader = Some(fresh.clone());
        Ok(fresh)
    }

    /// Whether it's still open for writing.
    pub async fn is_written(&self) -> bool {
        match &self.writer {
            Some(writer) => writer.lock().await.is_some(),
            None => false,
        }
    }

    /// Drops the reader after a write, since the reader doesn't show that write.
    pub async fn written(&self) {
        if let (Some(reading), Some(_)) = (&self.reading, &self.writer) {
            *reading.reader.lock().await = None;
        }
    }

    /// Closes the writer, if there is one. After an error it stays open if it
    /// [can continue](FileWriter::goes_on).
    pub async fn close(&self) -> Result<Closed> {
        let nothing = Closed { length: 0, replicas: None };
        let Some(writer) = &self.writer else { return Ok(nothing) };
        let mut open = writer.lock().await;
        let Some(writer) = open.as_mut() else { return Ok(nothing) };
        let length = writer.position();
        let closed = writer.close().await.map_err(|e| e.at("close", &self.path));
        if closed.is_ok() || !writer.goes_on() {
            *open = None;
        }
        Ok(Closed { length, replicas: closed? })
    }
}

/// The outcome of a close.
#[derive(Debug, Clone, Copy)]
pub struct Closed {
    /// Its length; 0 if it wasn't open for writing.
    pub length: u64,
    /// At least this many replicas hold all bytes, if the store reports a number.
    pub replicas: Option<u32>,
}

/// A place for one handle, from before the gateway asks the store until the handle is closed.
pub struct Place {
    own: Arc<AtomicUsize>,
    /// Its place in the share of its user.
    _shared: Grant,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.own.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A session's handles, by unguessable number.
pub struct Handles {
    open: Mutex<HashMap<i64, Handle>>,
    /// Listings that were ended early, latest last.
    ended: Mutex<VecDeque<i64>>,
    own: Arc<AtomicUsize>,
    limit: usize,
    /// The share of its user in the handles of all sessions.
    share: Mutex<Arc<Holder>>,
}

impl Handles {
    /// At most `limit` at once, in this user's share.
    pub fn new(limit: usize, share: Arc<Holder>) -> Self {
        let (open, ended, share) = (Mutex::default(), Mutex::default(), Mutex::new(share));
        Self { open, ended, own: Arc::default(), limit, share }
    }

    /// Counts handles that are opened from now on for this user.
    pub fn count_for(&self, key: &Key) {
        let mut share = self.share();
        *share = share.other(key);
    }

    fn share(&self) -> MutexGuard<'_, Arc<Holder>> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Handle>> {
        // A poisoned lock is harmless: every critical section leaves the map consistent.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more handle. Take it before you call the store.
    ///
    /// # Errors
    /// Busy: the session has its maximum of open handles, or the user's share is used up.
    pub fn place(&self) -> Result<Place> {
        let enough = |own| (own < self.limit).then_some(own + 1);
        if self.own.fetch_update(Ordering::AcqRel, Ordering::Acquire, enough).is_err() {
            let limit = self.limit;
            let message = format!("the session has its maximum of {limit} open files; close some");
            return fail(ErrorKind::Busy, message);
        }
        let shared = self.share().try_take(1);
        let Some(shared) = shared else {
            self.own.fetch_sub(1, Ordering::AcqRel);
            return Err(too_many_files());
        };
        Ok(Place { own: self.own.clone(), _shared: shared })
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Adds a handle and gives its number, positive.
    pub fn add(&self, handle: Handle) -> i64 {
        let number = new_number();
        self.lock().insert(number, handle);
        number
    }

    /// The handle with this number.
    pub fn get(&self, number: i64) -> Result<Handle> {
        self.lock().get(&number_of(number)).cloned().ok_or_else(unknown)
    }

    /// The file with this number.
    pub fn file(&self, number: i64) -> Result<Arc<OpenFile>> {
        match self.get(number)? {
            Handle::File(file) => Ok(file),
            Handle::Listing(_) => fail(ErrorKind::InvalidArgument, "the handle is a listing's, not a file's"),
        }
    }

    /// The listing with this number.
    pub fn listing(&self, cursor: i64) -> Result<Arc<tokio::sync::Mutex<Listing>>> {
        match self.get(cursor) {
            Ok(Handle::Listing(listing)) => Ok(listing),
            Ok(Handle::File(_)) => fail(ErrorKind::InvalidArgument, "the cursor is a file's handle"),
            Err(_) if self.ended().contains(&number_of(cursor)) => Err(ended_early()),
            Err(unknown) => Err(unknown),
        }
    }

    /// Removes a listing early, and remembers that for a while.
    pub fn end_listing(&self, cursor: i64) {
        self.lock().remove(&number_of(cursor));
        let mut ended = self.ended();
        if ended.len() == ENDED_LISTINGS {
            ended.pop_front();
        }
        ended.push_back(number_of(cursor));
    }

    fn ended(&self) -> MutexGuard<'_, VecDeque<i64>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a handle.
    pub fn remove(&self, number: i64) -> Result<Handle> {
        self.lock().remove(&number_of(number)).ok_or_else(unknown)
    }

    /// Removes all handles.
    pub fn drain(&self) -> Vec<Handle> {
        self.lock().drain().map(|(_, handle)| handle).collect()
    }
}

/// A number for a handle, positive. Its lowest bits are free for a cursor's page.
fn new_number() -> i64 {
    number_of(i64::from_be_bytes(random()) & i64::MAX | 1 << PAGE_BITS)
}

/// The handle's number in a cursor, or in itself.
fn number_of(cursor: i64) -> i64 {
    cursor >> PAGE_BITS << PAGE_BITS
}

/// The cursor of a listing's page, by the number of pages before it.
pub fn cursor(number: i64, pages: u32) -> i64 {
    number_of(number) | i64::from(pages % (1 << PAGE_BITS))
}

/// The error for a user whose share of open files is used up.
pub fn too_many_files() -> Error {
    let message = "too many open files, of this user or of all users; close some, or try again later";
    Error::new(ErrorKind::Busy, message)
}

/// The error for a cursor whose page was begun before.
pub fn spent() -> Error {
    Error::new(ErrorKind::InvalidArgument, "this page was sent already; list the directory anew")
}

fn ended_early() -> Error {
    let message = "too many listings are unfinished, so the gateway ended this one, the least \
                   recently used; list anew";
    Error::new(ErrorKind::Busy, message)
}

fn unknown() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "no such open handle in this session: it was closed, or belongs to another session",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    fn session(pool: &Arc<Pool>, user: &str) -> Handles {
        Handles::new(100, pool.holder(&Key::User(user.into())))
    }

    fn all_for(session: &Handles) -> Vec<Place> {
        std::iter::from_fn(|| session.place().ok()).collect()
    }

    #[test]
    fn a_user_leaves_room_to_others_however_many_sessions_it_has() {
        let pool = Pool::new(100);
        let (greedy, again) = (session(&pool, "eve"), session(&pool, "eve"));
        let held = all_for(&greedy);
        assert_eq!((held.len(), all_for(&again).len()), (50, 0));
        assert_eq!(all_for(&session(&pool, "bob")).len(), 25, "half of the rest");
        drop(held);
        assert_eq!(all_for(&again).len(), 50, "all places come free");
    }

    #[test]
    fn a_session_counts_for_the_user_who_logs_in() {
        let pool = Pool::new(100);
        let session_of_2009 = session(&pool, "stranger");
        session_of_2009.count_for(&Key::User("eve".into()));
        let _held = all_for(&session_of_2009);
        assert!(all_for(&session(&pool, "eve")).is_empty());
        assert_eq!(all_for(&session(&pool, "stranger")).len(), 25);
    }
}
