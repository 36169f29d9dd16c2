//! Threads that work periodically, and a signal to wake or stop them.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A signal that stops threads and wakes them.
#[derive(Clone, Default)]
pub struct Stop(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    stopped: bool,
    nudges: u64,
}

impl Stop {
    /// Sleeps for `time`, or until a nudge or the stop. True if the thread should end.
    pub fn sleep(&self, time: Duration) -> bool {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + time;
        while !state.stopped && state.nudges == 0 {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                break;
            };
            state = changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.nudges = 0;
        state.stopped
    }

    /// Ends the current or, if no thread sleeps, the next sleep early.
    pub fn nudge(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap_or_else(PoisonError::into_inner).nudges += 1;
        changed.notify_all();
    }

    /// Ends all sleeps, and tells the threads to end.
    pub fn stop(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        changed.notify_all();
    }
}

/// Threads to join.
#[derive(Default)]
pub struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    /// Starts a thread.
    ///
    /// # Errors
    /// The operating system can't start another thread.
    pub fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.0.push(std::thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }

    /// Waits for all threads to end. Stop them first.
    pub fn join(&mut self) {
        for thread in self.0.drain(..) {
            // A thread that panicked has ended, too.
            let _ = thread.join();
        }
    }
}
