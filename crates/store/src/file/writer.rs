//! Appends to a file.

use super::attributes::clear_set_id_bits;
use super::root::from_errno;
use crate::work;
use crate::{ErrorKind, FileWriter, Result, StorePath, arguments, fail};
use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::task::JoinHandle;

/// Reserves `file` for this writer until it is closed, in all processes of this host, by flock(2).
/// The kernel releases the lock of a dead process.
pub(super) fn lock(file: &File) -> Result<()> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => fail(ErrorKind::Busy, "another writer has the file open"),
        Err(errno) => Err(from_errno(errno)),
    }
}

/// After this many bytes, the writer starts a sync in parallel with the next appends, so that little is
/// left for the close. Without it, the close of a file of 1 GiB that arrived at 1 Gbit/s took 0.6 s.
const SYNC_EVERY_BYTES: u64 = 64 << 20;

/// The only writer of a file. Appended bytes are in the page cache, so every reader sees them;
/// nothing is buffered here.
pub(super) struct Writer {
    target: Arc<Target>,
    path: StorePath,
    /// The previous call, if its future was dropped. The next call waits for it, so that bytes stay in
    /// order.
    in_flight: Option<JoinHandle<Result<()>>>,
    /// A sync in parallel with appends, and the position at which the next one is due.
    syncing: Option<JoinHandle<()>>,
    sync_at: u64,
    closed: bool,
}

struct Target {
    file: File,
    position: AtomicU64,
    /// The error of such a sync. It is kept because the kernel reports it only once.
    sync_failure: OnceLock<Errno>,
}

impl Writer {
    /// A writer at `position`, the end of the locked `file`, whose name is on
    /// stable storage.
    pub(super) fn new(file: File, path: StorePath, position: u64) -> Self {
        let target = Target { file, position: position.into(), sync_failure: OnceLock::new() };
        let sync_at = position + SYNC_EVERY_BYTES;
        Self { target: Arc::new(target), path, in_flight: None, syncing: None, sync_at, closed: false }
    }

    /// Runs `step` on the blocking pool, after earlier calls.
    async fn run(
        &mut self,
        operation: &'static str,
        step: impl FnOnce(&Target) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.settle().await?;
        let target = self.target.clone();
        self.in_flight = Some(work::beside(move || step(&target)));
        self.settle().await.map_err(|error| error.at(operation, &self.path))
    }

    fn sync_beside_appends(&mut self) {
        let position = self.position();
        let idle = self.syncing.as_ref().is_none_or(JoinHandle::is_finished);
        if position >= self.sync_at && idle {
            let target = self.target.clone();
            // A failure is kept for the next sync or close. On a disk that hangs, the sync keeps the
            // append's turn, so that one user's files can't occupy all threads.
            self.syncing = Some(work::beside(move || drop(target.sync())));
            self.sync_at = position + SYNC_EVERY_BYTES;
        }
    }

    /// Waits for a running parallel sync, and then syncs: the kernel may report a failure to the former
    /// instead.
    async fn sync_as(&mut self, operation: &'static str) -> Result<()> {
        self.settle().await?;
        if let Some(syncing) = &mut self.syncing {
            // The task doesn't panic, and ends early only if the process ends.
            let _ = syncing.await;
            self.syncing = None;
        }
        self.run(operation, Target::sync).await
    }

    async fn settle(&mut self) -> Result<()> {
        let Some(in_flight) = &mut self.in_flight else { return Ok(()) };
        let outcome = work::outcome_of(in_flight).await;
        self.in_flight = None;
        outcome
    }
}

#[async_trait]
impl FileWriter for Writer {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        arguments::check_append(&data).map_err(|error| error.at("append", &self.path))?;
        self.run("append", move |target| target.append(&data)).await?;
        self.sync_beside_appends();
        Ok(())
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        self.settle().await.map_err(|error| error.at("flush", &self.path))?;
        Ok(None)
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        self.sync_as("sync").await?;
        Ok(None)
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        if !self.closed {
            self.sync_as("close").await?;
            self.target.unlock();
            self.closed = true;
        }
        Ok(None)
    }

    fn position(&self) -> u64 {
        self.target.position.load(Ordering::Acquire)
    }
}

impl Drop for Target {
    /// Releases the lock before closing the file. Otherwise a child process that is just being started,
    /// which has a copy of the descriptor, would keep the lock until it executes its program.
    fn drop(&mut self) {
        self.unlock();
    }
}

impl Target {
    fn unlock(&self) {
        // If this fails, closing the descriptor releases the lock.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }

    /// Appends all of `data`, or nothing.
    fn append(&self, data: &[u8]) -> Result<()> {
        clear_set_id_bits(&self.file)?;
        let position = self.position.load(Ordering::Acquire);
        match self.file.write_all_at(data, position) {
            Ok(()) => {
                self.position.store(position + data.len() as u64, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                // A full disk accepts only a part of the bytes. Cut this off, so that the file ends at
                // `position`.
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
