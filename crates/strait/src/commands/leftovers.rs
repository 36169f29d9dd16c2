//! Temporary names: whatever is still under one when a command ends is removed.

use crate::context::Place;
use crate::failure::Failure;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use strait_store::ErrorKind;

/// Cleaning up doesn't hold up the end of a command for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Files under temporary names; cheap to clone.
#[derive(Clone, Default)]
pub struct Leftovers {
    files: Arc<Mutex<HashMap<u64, Leftover>>>,
    next: Arc<AtomicU64>,
}

/// A file under a temporary name.
#[derive(Clone)]
pub enum Leftover {
    /// In a store.
    Stored(Place),
    /// On this host.
    Local(PathBuf),
}

/// Stands for one leftover until it has its real name.
pub struct Ticket(u64);

impl Leftovers {
    /// A name that nobody else uses; short, so that it fits wherever a name
    /// does.
    pub fn name(&self, command: &str) -> Result<String, Failure> {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Failure::other(format!("the kernel gives no random bytes: {error}")))?;
        Ok(format!(".strait-{command}-{:016x}", u64::from_ne_bytes(random)))
    }

    /// To be removed, unless [`Leftovers::settled`] comes first.
    pub fn add(&self, leftover: Leftover) -> Ticket {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.files().insert(number, leftover);
        Ticket(number)
    }

    /// It has its real name.
    pub fn settled(&self, ticket: Ticket) {
        self.files().remove(&ticket.0);
    }

    /// Removes one, whose making has failed.
    pub async fn remove(&self, ticket: Ticket) {
        let leftover = self.files().remove(&ticket.0);
        if let Some(leftover) = leftover {
            leftover.remove().await;
        }
    }

    /// Removes all, after a command was interrupted.
    pub async fn clear(&self) {
        let all: Vec<_> = self.files().drain().map(|(_, leftover)| leftover).collect();
        let removing = futures::future::join_all(all.iter().map(Leftover::remove));
        if tokio::time::timeout(PATIENCE, removing).await.is_err() {
            eprintln!("strait: temporary files may be left: the store doesn't answer");
        }
    }

    fn files(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Leftover>> {
        // Every critical section is one call on the map.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leftover {
    async fn remove(&self) {
        match self {
            Self::Stored(place) => match place.fs.remove(&place.who, &place.path, false).await {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    eprintln!("strait: a temporary file is left: {error}");
                }
                _ => {}
            },
            Self::Local(path) => match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    eprintln!("strait: a temporary file is left: {}: {error}", path.display());
                }
                _ => {}
            },
        }
    }
}
