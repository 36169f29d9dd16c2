//! Writing a file at its end.

use super::attributes::clear_set_id_bits;
use super::root::from_errno;
use crate::work::blocking;
use crate::{Error, ErrorKind, FileWriter, MAX_CHUNK_BYTES, Result, StorePath, fail};
use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::task::JoinHandle;

/// Makes `file` this writer's alone until it is closed, in every process of
/// this host: flock(2), which the kernel takes back from a dead one.
pub(super) fn lock(file: &File) -> Result<()> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => fail(ErrorKind::Busy, "another writer has the file open"),
        Err(errno) => Err(from_errno(errno)),
    }
}

/// After so many bytes what was appended is sent to the disk beside the appends
/// that follow, so that there is little left for the close: a file of 1 GiB that
/// came at 1 Gbit/s made its client wait 0.6 s there.
const SYNC_EVERY_BYTES: u64 = 64 << 20;

/// The one writer of a file. What it has appended is in the page cache, so
/// visible to every reader; nothing is buffered here.
pub(super) struct Writer {
    target: Arc<Target>,
    path: StorePath,
    /// The call before, where its future was dropped: the next one waits for
    /// it, so that bytes never change places.
    in_flight: Option<JoinHandle<Result<()>>>,
    /// A sync beside appends, and where the next one is due.
    syncing: Option<JoinHandle<()>>,
    sync_at: u64,
}

struct Target {
    file: File,
    position: AtomicU64,
    /// What a sync beside appends failed with: the kernel tells it once.
    sync_failure: OnceLock<Errno>,
}

impl Writer {
    /// A writer at `position`, the end of the locked `file`, whose name is on
    /// stable storage.
    pub(super) fn new(file: File, path: StorePath, position: u64) -> Self {
        let target = Target { file, position: position.into(), sync_failure: OnceLock::new() };
        let sync_at = position + SYNC_EVERY_BYTES;
        Self { target: Arc::new(target), path, in_flight: None, syncing: None, sync_at }
    }

    /// Runs `work` on the blocking pool, after what was begun before.
    async fn run(
        &mut self,
        operation: &'static str,
        work: impl FnOnce(&Target) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.settle().await?;
        let target = self.target.clone();
        self.in_flight = Some(tokio::spawn(blocking(move || work(&target))));
        self.settle().await.map_err(|error| error.at(operation, &self.path))
    }

    fn sync_beside_appends(&mut self) {
        let position = self.position();
        let idle = self.syncing.as_ref().is_none_or(JoinHandle::is_finished);
        if position >= self.sync_at && idle {
            let target = self.target.clone();
            // A failure is kept for the next sync or close.
            self.syncing = Some(tokio::task::spawn_blocking(move || drop(target.sync())));
            self.sync_at = position + SYNC_EVERY_BYTES;
        }
    }

    /// Runs a sync after the one that may be under way: that one may be told of a
    /// failure in place of this.
    async fn sync_as(&mut self, operation: &'static str) -> Result<()> {
        self.settle().await?;
        if let Some(syncing) = &mut self.syncing {
            // It can't panic, and is cut off only with the process.
            let _ = syncing.await;
            self.syncing = None;
        }
        self.run(operation, Target::sync).await
    }

    async fn settle(&mut self) -> Result<()> {
        let Some(in_flight) = &mut self.in_flight else { return Ok(()) };
        let outcome = in_flight.await;
        self.in_flight = None;
        outcome.unwrap_or_else(|_| fail(ErrorKind::Unavailable, "cut off: the process is ending"))
    }
}

#[async_trait]
impl FileWriter for Writer {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        if data.len() > MAX_CHUNK_BYTES {
            return fail(ErrorKind::InvalidArgument, "an append is at most 4 MiB")
                .map_err(|error: Error| error.at("append", &self.path));
        }
        self.run("append", move |target| target.append(&data)).await?;
        self.sync_beside_appends();
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        self.settle().await.map_err(|error| error.at("flush", &self.path))
    }

    async fn sync(&mut self) -> Result<()> {
        self.sync_as("sync").await
    }

    async fn close(mut self: Box<Self>) -> Result<()> {
        self.sync_as("close").await
    }

    fn position(&self) -> u64 {
        self.target.position.load(Ordering::Acquire)
    }
}

impl Drop for Target {
    /// Closing would do, but for a child process that is just being started: it
    /// has a copy of the descriptor until it executes its program, and with it
    /// the lock.
    fn drop(&mut self) {
        // The lock goes with the descriptor at the latest.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Target {
    /// All of `data`, or nothing of it.
    fn append(&self, data: &[u8]) -> Result<()> {
        clear_set_id_bits(&self.file)?;
        let position = self.position.load(Ordering::Acquire);
        match self.file.write_all_at(data, position) {
            Ok(()) => {
                self.position.store(position + data.len() as u64, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                // A full disk takes a part: without it, position and file agree.
                if rustix::fs::ftruncate(&self.file, position).is_err()
                    && let Ok(stat) = rustix::fs::fstat(&self.file)
                {
                    self.position.store(stat.st_size.cast_unsigned(), Ordering::Release);
                }
                Err(error
                    .raw_os_error()
                    .map_or_else(|| error.into(), |n| from_errno(Errno::from_raw_os_error(n))))
            }
        }
    }

    fn sync(&self) -> Result<()> {
        let outcome = rustix::fs::fdatasync(&self.file);
        let failed = match outcome {
            Ok(()) => self.sync_failure.get().copied(),
            Err(errno) => Some(*self.sync_failure.get_or_init(|| errno)),
        };
        failed.map_or(Ok(()), |errno| Err(from_errno(errno)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_failed_fails_those_after_it() {
        let file = tempfile::tempfile().unwrap();
        let target = Target { file, position: 0.into(), sync_failure: OnceLock::new() };
        target.sync().unwrap();
        target.sync_failure.set(Errno::IO).unwrap();
        target.sync().unwrap_err();
        target.sync().unwrap_err();
    }
}
