//! Files under temporary names. A command removes those that it leaves when it ends.

use crate::context::Place;
use crate::failure::Failure;
use crate::messages::Messages;
use crate::random::random;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strait_store::ErrorKind;

/// Time limit for the cleanup at the end of a command: a user who pressed Ctrl-C shouldn't wait
/// longer, and a reachable store answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// Prefixes of the unfinished files of `put`, in every language, and of a gateway's copies for the 2009
/// service; a random number follows.
const PREFIXES: [&str; 2] = [".strait-put-", ".strait-copy-"];
/// Prefix of the unfinished files of `get`, which are on this host only.
const GET_PREFIX: &str = ".strait-get-";
/// Smallest number of digits in that number: so long a number is unlikely in a name that a person chose.
const MIN_RANDOM_DIGITS: usize = 16;

/// Files under temporary names.
pub struct Leftovers {
    files: Mutex<HashMap<u64, Leftover>>,
    next: AtomicU64,
    /// Warnings about files that couldn't be removed. They are printed at the end, after the errors that
    /// caused them.
    left: Mutex<Vec<String>>,
    messages: Messages,
}

/// A file under a temporary name.
#[derive(Clone)]
pub enum Leftover {
    /// In a store.
    Stored(Place),
    /// On this host.
    Local(PathBuf),
}

/// Identifies a registered file.
pub struct Ticket(u64);

/// Whether a file of this name is an unfinished file of `put`, or of a gateway's copy.
pub fn is_unfinished_put(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| has_random_number(name, prefix))
}

/// Whether a local file of this name is an unfinished file of `get`.
pub fn is_unfinished_get(name: &str) -> bool {
    has_random_number(name, GET_PREFIX)
}

fn has_random_number(name: &str, prefix: &str) -> bool {
    let random = name.strip_prefix(prefix).unwrap_or_default();
    random.len() >= MIN_RANDOM_DIGITS && random.bytes().all(|c| c.is_ascii_hexdigit() || c == b'-')
}

impl Leftovers {
    /// No files are registered yet.
    pub fn new(messages: Messages) -> Self {
        Self { files: Mutex::default(), next: AtomicU64::new(0), left: Mutex::default(), messages }
    }

    /// A unique name for a temporary file, short enough to be valid in every store.
    pub fn name(&self, command: &str) -> Result<String, Failure> {
        Ok(format!(".strait-{command}-{:016x}", u64::from_ne_bytes(random()?)))
    }

    /// Registers a file for removal by [`Leftovers::clear`], unless [`Leftovers::settled`] comes first.
    pub fn add(&self, leftover: Leftover) -> Ticket {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.files).insert(number, leftover);
        Ticket(number)
    }

    /// Unregisters a file that got its final name, or was never created.
    pub fn settled(&self, ticket: Ticket) {
        lock(&self.files).remove(&ticket.0);
    }

    /// Removes a file whose copy has failed.
    pub async fn remove(&self, ticket: Ticket) {
        let leftover = lock(&self.files).remove(&ticket.0);
        if let Some(leftover) = leftover {
            self.try_remove(&leftover).await;
        }
    }

    /// Removes the files that an interrupted command left, and reports those that it can't remove.
    /// Call it at the end.
    pub async fn clear(&self) {
        let all: Vec<_> = lock(&self.files).drain().map(|(_, leftover)| leftover).collect();
        let removing = futures::future::join_all(all.iter().map(|leftover| self.try_remove(leftover)));
        if tokio::time::timeout(PATIENCE, removing).await.is_err() {
            let names: Vec<String> = all.iter().map(Leftover::to_string).collect();
            self.messages.warn(&format!(
                "the store doesn't answer; temporary files may remain: {}; remove them with `strait rm`",
                names.join(", ")
            ));
        }
        lock(&self.left).drain(..).for_each(|left| self.messages.warn(&left));
    }

    async fn try_remove(&self, leftover: &Leftover) {
        if let Err(why) = leftover.remove().await {
            lock(&self.left).push(format!(
                "the temporary file {leftover} may remain: {why}; remove it with `{} {leftover}`",
                leftover.remover()
            ));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic can't leave the value half changed: every critical section is one call on it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leftover {
    /// The command that removes the file.
    fn remover(&self) -> &'static str {
        match self {
            Self::Stored(_) => "strait rm",
            Self::Local(_) => "rm",
        }
    }

    async fn remove(&self) -> Result<(), String> {
        match self {
            Self::Stored(place) => match place.fs.remove(&place.who, &place.path, false).await {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error.message().to_owned()),
                _ => Ok(()),
            },
            Self::Local(path) => match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
                _ => Ok(()),
            },
        }
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(place) => write!(f, "{}{}", place.store, place.path),
            Self::Local(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_put_names_so_is_an_unfinished_put() {
        for name in [
            ".strait-put-0123456789abcdef",
            ".strait-put-6f1c8b1e-6b0e-4d0b-9f58-6f4f0c7cb6a1",
            ".strait-copy-0123456789abcdef",
        ] {
            assert!(is_unfinished_put(name), "{name}");
        }
        for name in [".strait-put-", ".strait-put-notes", ".strait-get-0123456789abcdef", "x", ""] {
            assert!(!is_unfinished_put(name), "{name}");
        }
        assert!(is_unfinished_get(".strait-get-0123456789abcdef"));
        assert!(!is_unfinished_get(".strait-get-notes"));
    }
}
