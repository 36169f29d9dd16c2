//! Counts a connection's unanswered requests. While one is unanswered, the time limit on the next head doesn't
//! apply.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The answers of one connection.
#[derive(Default)]
pub struct Answers {
    running: AtomicUsize,
    /// The client has to send a head, and hasn't for too long.
    pub overdue: AtomicBool,
}

impl Answers {
    /// Whether a request is being answered.
    pub fn are_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
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
