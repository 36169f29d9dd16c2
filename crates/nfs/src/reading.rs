//! Files that are being read. NFS has no procedure to open a file, so readers stay open between reads.

use crate::fault::Answer;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strait_store::{FileReader, FileStatus, FileSystem, Principal, Result, StorePath};
use tokio::time::Instant;

/// Most open readers. The readers of some stores read ahead, which takes some megabytes each.
const MOST_READERS: usize = 128;
/// A reader that isn't used for this time is closed.
const IDLE: Duration = Duration::from_secs(10);
/// If a reader's last check is older than this, it is checked against the file's status. So a read can miss
/// changes of the last second, also a replacement of the file.
const TRUSTED: Duration = Duration::from_secs(1);

type Key = (StorePath, Arc<str>);

/// The readers.
pub struct Readings {
    store: Arc<dyn FileSystem>,
    open: Mutex<HashMap<Key, Open>>,
}

#[derive(Clone)]
struct Open {
    reader: Arc<dyn FileReader>,
    /// The file's version when it was opened.
    version: Version,
    checked: Instant,
    used: Instant,
}

impl Readings {
    /// Without any reader.
    pub fn new(store: Arc<dyn FileSystem>) -> Self {
        Self { store, open: Mutex::default() }
    }

    /// Reads up to `length` bytes from `offset`. Returns them, and whether they reach the file's end.
    ///
    /// # Errors
    /// The errors of the store's `stat`, `open` and reads.
    pub async fn read(
        &self,
        who: &Principal,
        path: &StorePath,
        offset: u64,
        length: usize,
    ) -> Answer<(Bytes, bool)> {
        let key = (path.clone(), who.user.clone());
        let (open, fresh) = self.reader(who, &key, TRUSTED).await?;
        let read = open.reader.read_at(offset, length).await;
        let end = offset + length as u64;
        let has_more = read.as_ref().is_ok_and(|it| it.len() == length && end < open.reader.length());
        let (open, bytes) = match read {
            Ok(bytes) if has_more || fresh => (open, bytes),
            Err(error) if fresh => return Err(error.into()),
            // The file may have grown, or another file may have its path now.
            read => {
                if read.is_err() {
                    self.lock().remove(&key);
                }
                let (again, _) = self.reader(who, &key, Duration::ZERO).await?;
                match read {
                    Ok(bytes) if Arc::ptr_eq(&again.reader, &open.reader) => (open, bytes),
                    _ => {
                        let bytes = again.reader.read_at(offset, length).await?;
                        (again, bytes)
                    }
                }
            }
        };
        let end = offset + bytes.len() as u64;
        let at_end = bytes.len() < length || end >= open.reader.length();
        Ok((bytes, at_end))
    }

    /// Checks, by opening a reader, that the user is allowed to read a file.
    ///
    /// # Errors
    /// The errors of the store's `stat` and `open`.
    pub async fn check(&self, who: &Principal, path: &StorePath) -> Answer<()> {
        Ok(self.reader(who, &(path.clone(), who.user.clone()), TRUSTED).await.map(drop)?)
    }

    /// The reader of a file, and whether this call opened it. Checks a known reader again if its last check
    /// is older than `trusted`.
    async fn reader(&self, who: &Principal, key: &Key, trusted: Duration) -> Result<(Open, bool)> {
        let known = self.lock().get(key).cloned();
        if let Some(mut open) = known {
            let now = Instant::now();
            if now - open.checked >= trusted {
                let status = self.store.stat(who, &key.0).await?;
                if version(&status) != open.version {
                    return self.open(who, key, &status).await;
                }
                open.checked = now;
            }
            open.used = now;
            self.lock().insert(key.clone(), open.clone());
            return Ok((open, false));
        }
        // Get the status before opening the file. So a later check notices a change in between.
        let status = self.store.stat(who, &key.0).await?;
        self.open(who, key, &status).await
    }

    async fn open(&self, who: &Principal, key: &Key, status: &FileStatus) -> Result<(Open, bool)> {
        let reader = self.store.open(who, &key.0).await?.into();
        let now = Instant::now();
        let open = Open { reader, version: version(status), checked: now, used: now };
        let mut readers = self.lock();
        if readers.len() >= MOST_READERS
            && let Some(oldest) = readers.iter().min_by_key(|(_, open)| open.used).map(|(key, _)| key.clone())
        {
            readers.remove(&oldest);
        }
        readers.insert(key.clone(), open.clone());
        Ok((open, true))
    }

    /// Closes the readers of the files at and below a path, because the files changed or were renamed.
    pub fn forget_below(&self, path: &StorePath) {
        self.lock().retain(|(open, _), _| !path.contains(open));
    }

    /// Closes readers that weren't used for a while.
    pub fn sweep(&self) {
        self.lock().retain(|_, open| open.used.elapsed() < IDLE);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file's modification time, its length, and the attributes that decide who can read it.
type Version = (i64, u64, u32, String, String);

fn version(status: &FileStatus) -> Version {
    let FileStatus { modified_ms, length, permission, owner, group, .. } = status;
    (*modified_ms, *length, *permission, owner.clone(), group.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_store::{CreateOptions, MemoryStore};

    async fn put(store: &MemoryStore, who: &Principal, path: &StorePath, text: &'static str) {
        let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
        let mut writer = store.create(who, path, &options).await.unwrap();
        writer.append(text.into()).await.unwrap();
        writer.close().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_changes_of_others_show_after_a_second() {
        let store = Arc::new(MemoryStore::new("root"));
        let (who, path) = (Principal::new("root"), StorePath::parse("/f").unwrap());
        let readings = Readings::new(store.clone());
        put(&store, &who, &path, "earlier").await;
        let read = async |length| readings.read(&who, &path, 0, length).await.unwrap();
        assert_eq!(read(4).await, ("earl".into(), false));
        put(&store, &who, &path, "the later one").await;
        tokio::time::advance(TRUSTED).await;
        assert_eq!(read(4).await, ("the ".into(), false));
        assert_eq!(read(100).await, ("the later one".into(), true));
        put(&store, &who, &path, "an even later one").await;
        assert_eq!(read(100).await, ("an even later one".into(), true), "the end is looked for at once");
    }
}
