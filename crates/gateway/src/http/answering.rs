//! Counts a connection's unanswered requests. While one is unanswered, the time limit on the next head doesn't
//! apply.

use crate::pool::{Engaged, Holder};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The answers of one connection.
#[derive(Default)]
pub struct Answers {
    running: AtomicUsize,
    /// The client has to send a head, and hasn't for too long.
    pub overdue: AtomicBool,
    /// A request runs, or the client may have sent the next one already.
    engaged: Mutex<Option<Engaged>>,
}

impl Answers {
    /// Whether a request is being answered.
    pub fn are_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// The connection works for this holder, until [`Self::rest`] or the next call.
    pub fn engage(&self, holder: &Arc<Holder>) {
        *self.engaged() = Some(holder.engage());
    }

    /// The client has sent nothing more so far.
    pub fn rest(&self) {
        if !self.are_running() {
            *self.engaged() = None;
        }
    }

    fn engaged(&self) -> MutexGuard<'_, Option<Engaged>> {
        self.engaged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered, until this is dropped.
pub struct Answering(Arc<Answers>);

impl Answering {
    /// Begins to answer.
    pub fn new(answers: Arc<Answers>) -> Self {
        answers.overdue.store(false, Ordering::Relaxed);
        answers.running.fetch_add(1, Ordering::Relaxed);
        Self(answers)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
