//! Group commit: whoever waits for the log first puts on disk all that came
//! meanwhile, for everybody.
//!
//! A thread of its own would cost a lone caller two hand-offs, 10 to 20 µs each
//! beside a sync of 50 to 100.

use crate::{
    disk::Disk,
    error::{Error, Result},
    log::{self, Journal},
    namenode::Transaction,
};
use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Thread},
};

/// The log's end, shared by all who change the namenode's state.
pub(crate) struct Commit<D: Disk> {
    queue: Mutex<Queue>,
    /// The last record on disk: for those who needn't wait.
    durable: AtomicU64,
    /// Records in the log since the last checkpoint began.
    written: AtomicU64,
    journal: Mutex<Journal<D>>,
}

struct Queue {
    waiting: Vec<Transaction>,
    /// The last record that was queued.
    queued: u64,
    /// Somebody is writing to the log.
    led: bool,
    /// Who waits for which record. Each is woken by itself: a condition variable would
    /// have all of them queue up for the lock.
    sleepers: Vec<(u64, Thread)>,
    /// What is on disk isn't known any more; nothing is answered.
    failed: bool,
}

impl<D: Disk> Commit<D> {
    /// For a log that ends with record `sequence`, `replayed` of them after the
    /// checkpoint.
    pub(crate) fn new(journal: Journal<D>, sequence: u64, replayed: u64) -> Self {
        let queue =
            Queue { waiting: Vec::new(), queued: sequence, led: false, sleepers: Vec::new(), failed: false };
        Self {
            queue: Mutex::new(queue),
            durable: AtomicU64::new(sequence),
            written: AtomicU64::new(replayed),
            journal: Mutex::new(journal),
        }
    }

    /// Takes what was applied, in order: call it while nobody else can change the state.
    pub(crate) fn push(&self, outbox: &mut Vec<Transaction>) {
        if !outbox.is_empty() {
            let mut queue = self.queue();
            queue.queued += outbox.len() as u64;
            queue.waiting.append(outbox);
        }
    }

    /// Returns when record `sequence` and all before it are on disk.
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
                // Woken for another reason, it comes back and sleeps again.
                thread::park();
                continue;
            }
            // A leader may have ended between the two looks.
            if self.durable.load(Ordering::Acquire) < sequence {
                queue.led = true;
                let (batch, last) = (std::mem::take(&mut queue.waiting), queue.queued);
                drop(queue);
                let written = self.write(&batch);
                self.wake(written, last);
            }
        }
    }

    /// The leader is done: wakes those whose records are on disk, and one to lead next.
    fn wake(&self, written: io::Result<()>, last: u64) {
        let mut queue = self.queue();
        queue.led = false;
        match written {
            Ok(()) if queue.failed => {}
            Ok(()) => self.durable.store(last, Ordering::Release),
            Err(error) => {
                tracing::error!(%error, "the log failed: nothing is answered any more");
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
        // The disk mustn't wait.
        next.into_iter().chain(done).for_each(|(_, thread)| thread.unpark());
    }

    fn write(&self, batch: &[Transaction]) -> io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        batch.iter().for_each(|transaction| journal.push(transaction.encode()));
        self.written.fetch_add(batch.len() as u64, Ordering::Relaxed);
        journal.commit()
    }

    /// Nothing that changes is answered from now on: the state can't be relied on.
    pub(crate) fn fail(&self) {
        let mut queue = self.queue();
        queue.failed = true;
        // Nobody gets by without looking.
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

    /// Ends the segment: all that is on disk now lies in those before the one whose
    /// number is returned.
    ///
    /// # Errors
    /// The disk's; the log has failed then.
    pub(crate) fn roll(&self, disk: &D) -> io::Result<u64> {
        // Whoever leads has the journal until its records are on disk.
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = journal.roll() {
            self.fail();
            return Err(error);
        }
        self.written.store(0, Ordering::Relaxed);
        let newest = log::segments(&disk.list()?).last().copied();
        newest.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
