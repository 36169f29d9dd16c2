//! Lists directories in pages, with cookies that stay valid.
//!
//! A cookie is a digest of the entry's name, and pages are in the order of cookies. So the next page starts
//! in the right place even if entries came and went, or the server was restarted. A store lists a directory
//! in its own order. Each pass over the directory keeps the entries with the lowest cookies above the
//! client's. A few such runs of entries are remembered for the next pages.

use crate::fault::Answer;
use crate::handle::digest;
use futures::StreamExt;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strait_store::{FileStatus, FileSystem, Principal, StorePath};
use tokio::sync::Semaphore;

/// Cookies of `.` and `..`. Entries have larger ones.
pub const OWN: u64 = 1;
/// See [`OWN`].
pub const PARENT: u64 = 2;
/// Most entries that one pass over a directory keeps: some 20 MB.
const RUN_ENTRIES: usize = 65_536;
/// Most passes at once, of all users and of one user.
const MOST_PASSES: usize = 4;
const MOST_PASSES_OF_USER: usize = 2;
/// Most remembered runs. Together they have at most the entries of two full runs.
const MOST_RUNS: usize = 64;
/// How long a run is remembered.
const LIFETIME: Duration = Duration::from_secs(5);

/// Entries of a directory in the order of their cookies.
pub struct Run {
    directory: StorePath,
    user: Arc<str>,
    after: u64,
    made: Instant,
    /// The entries, by cookie.
    pub entries: BTreeMap<u64, FileStatus>,
    /// Whether the directory has no entries after these.
    pub at_end: bool,
}

/// The runs that are remembered.
pub struct Listings {
    runs: Mutex<VecDeque<Arc<Run>>>,
    passes: Semaphore,
    of_users: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

impl Default for Listings {
    fn default() -> Self {
        Self { runs: Mutex::default(), passes: Semaphore::new(MOST_PASSES), of_users: Mutex::default() }
    }
}

impl Listings {
    /// Entries of a directory after `cookie`. A listing from the start never uses a remembered run.
    ///
    /// # Errors
    /// The errors of the store's `list`.
    pub async fn after(
        &self,
        store: &dyn FileSystem,
        who: &Principal,
        directory: &StorePath,
        cookie: u64,
    ) -> Answer<Arc<Run>> {
        let serves = |run: &Run| {
            let reaches = run.at_end || run.entries.last_key_value().is_some_and(|(last, _)| *last > cookie);
            let same = run.directory == *directory && run.user == who.user;
            same && run.after <= cookie && reaches && run.made.elapsed() < LIFETIME
        };
        if cookie > PARENT
            && let Some(run) = self.lock().iter().find(|run| serves(run))
        {
            return Ok(run.clone());
        }
        // A user with many passes waits here first, without delaying other users.
        let of_user = self.of_user(&who.user);
        let _turns = (of_user.acquire().await, self.passes.acquire().await);
        let (mut entries, mut at_end) = (BTreeMap::new(), true);
        let mut listing = store.list(who, directory);
        while let Some(entry) = listing.next().await {
            let entry = entry?;
            let number = cookie_of(entry.name());
            if number > cookie {
                entries.insert(number, entry);
            }
            if entries.len() > RUN_ENTRIES {
                entries.pop_last();
                at_end = false;
            }
        }
        let (directory, user) = (directory.clone(), who.user.clone());
        let run = Arc::new(Run { directory, user, after: cookie, made: Instant::now(), entries, at_end });
        let mut runs = self.lock();
        runs.push_front(run.clone());
        runs.truncate(MOST_RUNS);
        while runs.iter().map(|run| run.entries.len()).sum::<usize>() > 2 * RUN_ENTRIES {
            runs.pop_back();
        }
        Ok(run)
    }

    fn of_user(&self, user: &Arc<str>) -> Arc<Semaphore> {
        let mut users = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
        users.entry(user.clone()).or_insert_with(|| Arc::new(Semaphore::new(MOST_PASSES_OF_USER))).clone()
    }

    /// Forgets a directory's runs, because its entries changed.
    pub fn forget(&self, directory: &StorePath) {
        self.lock().retain(|run| run.directory != *directory);
    }

    /// Drops runs that are too old to be used.
    pub fn sweep(&self) {
        self.lock().retain(|run| run.made.elapsed() < LIFETIME);
        let mut users = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, passes| Arc::strong_count(passes) > 1);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cookie of an entry. It is at most `i64::MAX`, for clients that use signed numbers.
fn cookie_of(name: &str) -> u64 {
    (u64::from_be_bytes(digest(&[name.as_bytes()])) >> 1).max(PARENT + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_store::{CreateOptions, MemoryStore};

    #[tokio::test]
    async fn pages_go_on_though_entries_come_and_go() {
        let (store, who, root) = (MemoryStore::new("root"), Principal::new("root"), StorePath::root());
        let names: Vec<String> = (0..100).map(|number| format!("file{number}")).collect();
        for name in &names {
            let path = root.join(name).unwrap();
            store.create(&who, &path, &CreateOptions::default()).await.unwrap().close().await.unwrap();
        }
        let (mut cookie, mut seen) = (0, Vec::new());
        loop {
            // A new `Listings` each time, as after a restart: nothing is remembered.
            let run = Listings::default().after(&store, &who, &root, cookie).await.unwrap();
            let Some((next, entry)) = run.entries.first_key_value() else { break };
            seen.push(entry.name().to_owned());
            store.remove(&who, &StorePath::parse(&entry.path).unwrap(), false).await.unwrap();
            cookie = *next;
        }
        seen.sort();
        let mut names = names;
        names.sort();
        assert_eq!(seen, names);
    }

    #[tokio::test]
    async fn a_change_through_the_server_is_seen_by_the_next_page() {
        let (store, who, root) = (MemoryStore::new("root"), Principal::new("root"), StorePath::root());
        for name in ["a", "b", "c"] {
            store.mkdirs(&who, &root.join(name).unwrap(), None).await.unwrap();
        }
        let listings = Listings::default();
        let first = listings.after(&store, &who, &root, 0).await.unwrap();
        let (cookie, _) = first.entries.first_key_value().unwrap();
        let (_, last) = first.entries.last_key_value().unwrap();
        store.remove(&who, &StorePath::parse(&last.path).unwrap(), false).await.unwrap();
        let next = listings.after(&store, &who, &root, *cookie).await.unwrap();
        assert_eq!(next.entries.len(), 3, "remembered");
        listings.forget(&root);
        let next = listings.after(&store, &who, &root, *cookie).await.unwrap();
        assert_eq!(next.entries.len(), 1);
    }
}
