//! Group commit: the first thread that waits for the log writes and syncs all queued records, for
//! every waiting thread.
//!
//! A separate log thread would cost a lone caller two thread switches of 10 to 20 µs each. A sync
//! takes 50 to 100 µs.

use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
};
use strait_kadoop_core::{
    disk::{Disk, DiskFile as _},
    error::{Error, Result},
    log::{self, Journal},
    namenode::Transaction,
};

/// The log's end, shared by all threads that change the namenode's state.
pub(crate) struct Commit<D: Disk> {
    queue: Mutex<Queue>,
    /// Number of the latest record on disk. A thread whose record is on disk reads only this.
    durable: AtomicU64,
    /// Number of records in the log since the latest checkpoint began.
    written: AtomicU64,
    /// Whether the disk lacks room for another segment.
    short_of_room: AtomicBool,
    journal: Mutex<Journal<D>>,
}

struct Queue {
    waiting: Vec<Transaction>,
    /// Number of the latest record that was queued.
    queued: u64,
    /// Whether a thread is writing to the log.
    led: bool,
    /// The waiting threads, each with the record that it waits for. Each is unparked singly: after a
    /// condition variable's wake-up, all of them would queue for the lock.
    sleepers: Vec<(u64, Thread)>,
    /// Whether the log has failed. Then it is unknown which records are on disk, so no call gets an
    /// answer.
    failed: bool,
}

/// If the leader panics, dropping this fails the log, so that no thread waits for the leader for ever.
struct Leading<'a, D: Disk>(&'a Commit<D>);

impl<D: Disk> Drop for Leading<'_, D> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

impl<D: Disk> Commit<D> {
    /// Continues a log that ends with record `sequence`. The last `replayed` records follow the
    /// latest checkpoint.
    pub(crate) fn new(journal: Journal<D>, sequence: u64, replayed: u64) -> Self {
        let queue =
            Queue { waiting: Vec::new(), queued: sequence, led: false, sleepers: Vec::new(), failed: false };
        Self {
            queue: Mutex::new(queue),
            durable: AtomicU64::new(sequence),
            written: AtomicU64::new(replayed),
            short_of_room: AtomicBool::new(false),
            journal: Mutex::new(journal),
        }
    }

    /// Queues the applied transactions in order. The caller must hold the state's lock for writing.
    pub(crate) fn push(&self, outbox: &mut Vec<Transaction>) {
        if !outbox.is_empty() {
            let mut queue = self.queue();
            queue.queued += outbox.len() as u64;
            queue.waiting.append(outbox);
        }
    }

    /// Waits until record `sequence` and all records before it are on disk.
    ///
    /// # Errors
    /// OutcomeUnknown: the log failed, now or before; the state is ahead of the disk.
    pub(crate) fn wait(&self, sequence: u64) -> Result<()> {
        loop {
            if self.durable.load(Ordering::Acquire) >= sequence {
                return Ok(());
            }
            let mut queue = self.queue();
            if queue.failed {
                return Err(Error::OutcomeUnknown);
            }
            if queue.led {
                queue.sleepers.push((sequence, thread::current()));
                drop(queue);
                // After a spurious wake-up, the loop checks again and parks again.
                thread::park();
                continue;
            }
            // A leader may have finished between the two checks.
            if self.durable.load(Ordering::Acquire) < sequence {
                queue.led = true;
                let (batch, last) = (std::mem::take(&mut queue.waiting), queue.queued);
                drop(queue);
                let leading = Leading(self);
                let written = self.write(&batch);
                std::mem::forget(leading);
                self.wake(written, last);
            }
        }
    }

    /// Ends a leader's turn. Wakes the threads whose records are on disk, and one other thread, which
    /// becomes the next leader.
    fn wake(&self, written: io::Result<()>, last: u64) {
        let mut queue = self.queue();
        queue.led = false;
        match written {
            Ok(()) if queue.failed => {}
            Ok(()) => self.durable.store(last, Ordering::Release),
            Err(error) => {
                tracing::error!(%error, "the log failed: the namenode stops answering");
                queue.failed = true;
                self.durable.store(0, Ordering::Release);
            }
        }
        let failed = queue.failed;
        let (done, mut left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut queue.sleepers).into_iter().partition(|(of, _)| failed || *of <= last);
        let next = left.pop();
        queue.sleepers = left;
        drop(queue);
        // Wake the next leader first, so that the disk needn't wait.
        next.into_iter().chain(done).for_each(|(_, thread)| thread.unpark());
    }

    fn write(&self, batch: &[Transaction]) -> io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        batch.iter().for_each(|transaction| journal.push(transaction.encode()));
        self.written.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let written = journal.commit().and_then(|()| self.look_ahead(&mut journal));
        if written.is_err() {
            // Fail the log before another thread gets the journal.
            self.fail();
        }
        written
    }

    /// Prepares the next segment before the current one is full.
    fn look_ahead(&self, journal: &mut Journal<D>) -> io::Result<()> {
        let short = match journal.look_ahead() {
            Err(error) if is_full(&error) => true,
            other => {
                other?;
                false
            }
        };
        if short != self.short_of_room.swap(short, Ordering::Relaxed) {
            match short {
                true => tracing::error!("the log's disk is full: changes are refused until there is room"),
                false => tracing::info!("the log's disk has room again"),
            }
        }
        Ok(())
    }

    /// Whether the log's disk has no room for another segment. New changes are then refused: the rest of
    /// the segment is for work that has begun, and for records that the cluster needs.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.short_of_room.load(Ordering::Relaxed)
    }

    /// Checks for room again, if the last check found none.
    pub(crate) fn look_for_room(&self) {
        if self.is_short_of_room() {
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = self.look_ahead(&mut journal) {
                tracing::warn!(%error, "can't create the log's next segment");
            }
        }
    }

    /// Syncs the log's mark outside the journal's lock, so that the log continues.
    pub(crate) fn sync_mark(&self) {
        let mark = self.journal.lock().unwrap_or_else(PoisonError::into_inner).mark_to_sync();
        if let Some(Err(error)) = mark.map(|mark| mark.sync_data()) {
            // No data is lost. After a power failure, the older mark detects fewer lost records.
            tracing::warn!(%error, "can't sync the log's mark");
        }
    }

    /// Stops all answers that depend on the log: the state can't be relied on any more.
    pub(crate) fn fail(&self) {
        let mut queue = self.queue();
        queue.failed = true;
        // Now each waiter locks the queue, and sees the failure.
        self.durable.store(0, Ordering::Release);
        queue.sleepers.drain(..).for_each(|(_, thread)| thread.unpark());
    }

    /// Whether the log has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.queue().failed
    }

    /// Records since the last call of [`Commit::roll`].
    pub(crate) fn records(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Ends the current segment and begins the next, whose number it returns. All records on disk are
    /// in earlier segments.
    ///
    /// # Errors
    /// An I/O error of the disk. The log has then failed, unless it only lacked room.
    pub(crate) fn roll(&self, disk: &D) -> io::Result<u64> {
        // This waits for a leader, which holds the lock until its records are on disk.
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_failed() {
            // A read now could return records that aren't on disk, but only in the page cache.
            return Err(io::Error::other("the log has failed"));
        }
        // Without room for a new segment, this fails, and the log continues in its segment.
        journal.take_room()?;
        if let Err(error) = journal.roll() {
            self.fail();
            return Err(error);
        }
        self.written.store(0, Ordering::Relaxed);
        let newest = log::segments(&disk.list()?).last().copied();
        newest.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Frees the preallocated rest of the segment. Call it when no more records will come.
    pub(crate) fn end(&self) {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.has_failed()
            && !journal.has_waiting()
            && let Err(error) = journal.trim()
        {
            tracing::warn!(%error, "can't free the unused end of the log's segment");
        }
        drop(journal);
        self.sync_mark();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::Cell,
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
    };
    use strait_kadoop_core::{
        ClientId, Config,
        disk::{DiskFile, RealDisk, RealFile},
        namenode::Record,
    };

    /// The function called before each sync; its error becomes the sync's.
    type Mood = Arc<Mutex<fn() -> io::Result<()>>>;

    thread_local! {
        /// Whether preallocating fails, as on a full disk.
        static FULL: Cell<bool> = const { Cell::new(false) };
    }

    /// A disk whose syncs call its mood first.
    #[derive(Clone)]
    struct Moody(RealDisk, Mood);

    #[derive(Clone)]
    struct MoodyFile(RealFile, Mood);

    impl Disk for Moody {
        type File = MoodyFile;

        fn create(&self, name: &str) -> io::Result<MoodyFile> {
            Ok(MoodyFile(self.0.create(name)?, Arc::clone(&self.1)))
        }

        fn open(&self, name: &str) -> io::Result<MoodyFile> {
            Ok(MoodyFile(self.0.open(name)?, Arc::clone(&self.1)))
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.0.remove(name)
        }

        fn list(&self) -> io::Result<Vec<String>> {
            self.0.list()
        }

        fn sync_names(&self) -> io::Result<()> {
            self.0.sync_names()
        }
    }

    impl DiskFile for MoodyFile {
        fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write_at(offset, bytes)
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read_at(offset, buffer)
        }

        fn length(&self) -> io::Result<u64> {
            self.0.length()
        }

        fn set_length(&self, length: u64) -> io::Result<()> {
            self.0.set_length(length)
        }

        fn preallocate(&self, length: u64) -> io::Result<()> {
            match FULL.get() {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => self.0.preallocate(length),
            }
        }

        fn sync_data(&self) -> io::Result<()> {
            let mood = *self.1.lock().unwrap_or_else(PoisonError::into_inner);
            mood()?;
            self.0.sync_data()
        }
    }

    fn push_one(commit: &Commit<Moody>) {
        let records = vec![Record::ClientJoined { client: ClientId(1) }];
        commit.push(&mut vec![Transaction { request: None, records }]);
    }

    fn with_log(test: impl FnOnce(&Moody, &Commit<Moody>)) {
        let directory = tempfile::tempdir().unwrap();
        let disk = Moody(RealDisk::open(directory.path()).unwrap(), Arc::new(Mutex::new(|| Ok(()))));
        let journal = Journal::start(disk.clone(), 1, 1, 1 << 16, Config::default().faults).unwrap();
        test(&disk, &Commit::new(journal, 0, 0));
    }

    #[test]
    fn a_log_that_failed_isnt_checkpointed_since_what_is_read_back_needs_not_be_on_disk() {
        with_log(|disk, commit| {
            push_one(commit);
            commit.wait(1).unwrap();
            *disk.1.lock().unwrap() = || Err(io::ErrorKind::Other.into());
            push_one(commit);
            assert_eq!(commit.wait(2), Err(Error::OutcomeUnknown));
            *disk.1.lock().unwrap() = || Ok(());
            assert!(commit.roll(disk).is_err());
            assert_eq!(log::segments(&disk.list().unwrap()), [1]);
            assert_eq!(commit.wait(1), Err(Error::OutcomeUnknown), "nothing is answered any more");
        });
    }

    #[test]
    fn a_full_disk_is_known_before_the_segment_is_and_forgotten_once_there_is_room() {
        with_log(|disk, commit| {
            FULL.set(true);
            let mut sequence = 0;
            while !commit.is_short_of_room() {
                push_one(commit);
                sequence += 1;
                commit.wait(sequence).unwrap();
            }
            assert!(commit.roll(disk).is_err(), "no checkpoint either");
            commit.look_for_room();
            assert!(commit.is_short_of_room() && !commit.has_failed());
            push_one(commit);
            commit.wait(sequence + 1).unwrap();
            FULL.set(false);
            commit.look_for_room();
            assert!(!commit.is_short_of_room());
            assert_eq!(log::segments(&disk.list().unwrap()), [1]);
            commit.roll(disk).unwrap();
            assert_eq!(log::segments(&disk.list().unwrap()), [1, sequence + 2]);
        });
    }

    #[test]
    fn nobody_waits_for_a_leader_that_panicked() {
        with_log(|disk, commit| {
            *disk.1.lock().unwrap() = || panic!("a defect");
            push_one(commit);
            assert!(catch_unwind(AssertUnwindSafe(|| commit.wait(1))).is_err());
            assert!(commit.has_failed());
            assert_eq!(commit.wait(1), Err(Error::OutcomeUnknown));
        });
    }
}
