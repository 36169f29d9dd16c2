//! An open directory: reads the store's listing in parts, as the kernel requests it, and can step back.

use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use strait_store::{FileStatus, FileSystem, Principal, Result, StorePath};

/// Number of entries kept for stepping back. The kernel repeats its last request if the program had no room
/// for all entries, and a request has at most about 200 entries.
const KEPT: usize = 1_024;

/// An open directory.
pub struct Listing {
    store: Arc<dyn FileSystem>,
    who: Principal,
    path: StorePath,
    stream: Option<BoxStream<'static, Result<FileStatus>>>,
    /// When the store began the listing.
    began: Instant,
    /// The latest entries. The first of them has the number `first`.
    kept: VecDeque<FileStatus>,
    first: u64,
    /// Number of the next entry to return.
    next: u64,
    /// The store has no further entries.
    ended: bool,
}

impl Listing {
    /// A listing of `path` that hasn't started.
    pub fn new(store: Arc<dyn FileSystem>, who: Principal, path: StorePath) -> Self {
        let (stream, began, kept) = (None, Instant::now(), VecDeque::new());
        Self { store, who, path, stream, began, kept, first: 0, next: 0, ended: false }
    }

    /// All entries were read after this time.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The user of the listing, and its path.
    pub fn of(&self) -> (&Principal, &StorePath) {
        (&self.who, &self.path)
    }

    /// Moves to the entry with this number. Moving to the start makes the store list the directory again.
    pub async fn seek(&mut self, number: u64) -> Result<()> {
        if number == 0 || number < self.first {
            self.begin_again();
        }
        self.next = self.next.min(number);
        while self.next < number && self.next().await?.is_some() {}
        Ok(())
    }

    fn begin_again(&mut self) {
        (self.stream, self.ended) = (None, false);
        self.kept.clear();
        (self.first, self.next) = (0, 0);
    }

    /// The next entry, and the number of the one after it. After an error, call [`Listing::seek`] for the
    /// same entry again.
    pub async fn next(&mut self) -> Result<Option<(u64, FileStatus)>> {
        let place = (self.next - self.first) as usize;
        if let Some(entry) = self.kept.get(place) {
            self.next += 1;
            return Ok(Some((self.next, entry.clone())));
        }
        if self.ended {
            return Ok(None);
        }
        let stream = self.stream.get_or_insert_with(|| {
            self.began = Instant::now();
            self.store.list(&self.who, &self.path)
        });
        let Some(entry) = stream.next().await else {
            self.ended = true;
            return Ok(None);
        };
        // A stream ends after its first error, so start a new one.
        let entry = entry.inspect_err(|_| self.begin_again())?;
        self.kept.push_back(entry.clone());
        if self.kept.len() > KEPT {
            self.kept.pop_front();
            self.first += 1;
        }
        self.next += 1;
        Ok(Some((self.next, entry)))
    }

    /// Steps back: the caller had no room for the latest entry.
    pub fn back(&mut self) {
        self.next = self.next.saturating_sub(1).max(self.first);
    }
}
