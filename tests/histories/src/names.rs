//! Clients that race for names.
//!
//! The names of one directory are few, so that clients meet. After a while the clients go on in
//! another directory: short histories are decided soon. A file's length is its number, so `stat` and
//! a read tell which file has the name.

use crate::history::{History, Line, is_told};
use crate::random::Random;
use crate::{AFTER_FAILURE, Outcome, path, who};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, Result};
use strait_testkit::wait::pause_task;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Directories in use at a time.
const DIRECTORIES: u64 = 2;
/// Time until the clients go on in other directories, in microseconds.
const PERIOD: u64 = 2_000_000;
/// Pause after an operation without an answer.
const PAUSE: Duration = Duration::from_millis(250);
/// Length above that of each file.
const LONG: usize = 1 << 20;

/// The names, and the clients' common record.
pub struct Names {
    history: Arc<History>,
    files: AtomicU64,
}

/// A file's bytes: none of another number has the same.
fn content(id: u64) -> Bytes {
    (0..id).map(|offset| (id.wrapping_mul(31) + offset * 7) as u8).collect()
}

impl Names {
    /// Recorded here.
    pub fn new(history: &Arc<History>) -> Self {
        Self { history: history.clone(), files: AtomicU64::new(1) }
    }

    /// Works on names until the end.
    pub async fn work(
        &self,
        client: u64,
        fs: Arc<dyn FileSystem>,
        mut random: Random,
        ends: impl Fn() -> bool,
    ) {
        while !ends() {
            let directory = format!("/names/{}-{}", self.history.now() / PERIOD, random.below(DIRECTORIES));
            let mut name = || format!("{directory}/{}", random.choose(&NAMES));
            let (first, second) = (name(), name());
            let replace = random.below(2) == 0;
            let answer = match random.below(10) {
                0..3 => self.put(client, &*fs, &first, replace).await,
                3 => self.remove(client, &*fs, &first).await,
                4..6 if first != second => self.rename(client, &*fs, &first, &second, replace).await,
                6..8 => self.read(client, &*fs, &first).await,
                _ => self.stat(client, &*fs, &first).await,
            };
            // Many unknown outcomes in one directory would make its history hard to decide.
            if answer.is_err_and(|error| !is_told(&error)) {
                pause_task("an unknown outcome", PAUSE).await;
            }
        }
    }

    /// A new file comes to the name in one step.
    async fn put(&self, client: u64, fs: &dyn FileSystem, name: &str, replace: bool) -> Result<()> {
        let id = self.files.fetch_add(1, Ordering::Relaxed);
        let new = path(&format!("/new/{id}"));
        fs.write_all(&who(), &new, &CreateOptions::default(), content(id)).await?;
        fs.mkdirs(&who(), &path(name).parent().expect("a directory"), None).await?;
        let line = Line { id, replace, ..Line::called(&self.history, client, "put", name) };
        let answer = fs.rename(&who(), &new, &path(name), replace).await;
        line.answered(&self.history, &answer);
        answer
    }

    async fn remove(&self, client: u64, fs: &dyn FileSystem, name: &str) -> Result<()> {
        let line = Line::called(&self.history, client, "remove", name);
        let answer = fs.remove(&who(), &path(name), false).await;
        line.answered(&self.history, &answer);
        answer
    }

    async fn rename(
        &self,
        client: u64,
        fs: &dyn FileSystem,
        from: &str,
        to: &str,
        replace: bool,
    ) -> Result<()> {
        let line = Line { to, replace, ..Line::called(&self.history, client, "move", from) };
        let answer = fs.rename(&who(), &path(from), &path(to), replace).await;
        line.answered(&self.history, &answer);
        answer
    }

    async fn stat(&self, client: u64, fs: &dyn FileSystem, name: &str) -> Result<()> {
        let line = Line::called(&self.history, client, "stat", name);
        let answer = fs.stat(&who(), &path(name)).await;
        let id = answer.as_ref().map_or(0, |status| status.length);
        Line { id, ..line }.answered(&self.history, &answer);
        answer.map(|_| ())
    }

    /// Reads the file that has the name at the moment of its opening.
    async fn read(&self, client: u64, fs: &dyn FileSystem, name: &str) -> Result<()> {
        let line = Line::called(&self.history, client, "stat", name);
        let opened = fs.open(&who(), &path(name)).await;
        let answer = match opened {
            Ok(reader) => match reader.read_at(0, LONG).await {
                Ok(bytes) => Ok(bytes),
                // Removed or replaced since it was opened: that tells nothing of the name.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let bytes = answer.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let id = bytes.len() as u64;
        Line { id, damaged: bytes != content(id), ..line }.answered(&self.history, &answer);
        answer.map(|_| ())
    }

    /// Reads every name that the clients may have used.
    pub async fn read_all(&self, client: u64, fs: &Arc<dyn FileSystem>, patience: Duration) -> Outcome<()> {
        let begun = Instant::now();
        let mut directories = Vec::new();
        for directory in fs.list_all(&who(), &path("/names"), 1 << 20).await? {
            directories.push(directory.path);
        }
        for directory in directories {
            for name in NAMES {
                let name = format!("{directory}/{name}");
                while let Err(error) = self.read(client, &**fs, &name).await {
                    if error.kind() == ErrorKind::NotFound {
                        break;
                    }
                    if begun.elapsed() > patience {
                        return Err(format!(
                            "{name} can't be read {patience:?} after the last fault: {error}"
                        )
                        .into());
                    }
                    pause_task("the fault may end meanwhile", AFTER_FAILURE).await;
                }
            }
        }
        Ok(())
    }
}
