//! Threads for the calls of writers and readers: one for each call under way. An idle thread ends after a
//! while.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use strait_telemetry::RequestId;

/// Idle time after which a thread ends.
const DORMANT: Duration = Duration::from_secs(10);
/// Most threads of one client: enough for 64 files with four calls each. Further calls wait for a thread.
const MOST: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs in parallel.
#[derive(Clone, Default)]
pub(super) struct Pool(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

impl Pool {
    /// Runs the job in another thread, which has this thread's request id. If the client has no thread and can't
    /// start one, the job waits for [`Pool::revive`]. It can't run here, since the caller may hold the lock of a
    /// core that the job needs.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let request = RequestId::current();
        let job = move || {
            let _working = RequestId::enter(request);
            job();
        };
        let mut state = self.state();
        state.jobs.push_back(Box::new(job));
        if state.idle >= state.jobs.len() || state.threads >= MOST {
            drop(state);
            self.0.1.notify_one();
            return;
        }
        self.start(state);
    }

    /// Starts a thread if there are jobs and no threads. Call this regularly.
    pub(super) fn revive(&self) {
        let state = self.state();
        if state.threads == 0 && !state.jobs.is_empty() {
            self.start(state);
        }
    }

    fn start(&self, mut state: MutexGuard<'_, State>) {
        state.threads += 1;
        drop(state);
        let pool = self.clone();
        let spawned = std::thread::Builder::new().name("kadoop-call".to_owned()).spawn(move || pool.work());
        if spawned.is_err() {
            self.state().threads -= 1;
        }
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state();
                continue;
            }
            state.idle += 1;
            let (woken, timeout) =
                self.0.1.wait_timeout(state, DORMANT).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_job_for_which_no_thread_could_start_runs_once_one_can() {
        let pool = Pool::default();
        let (done, is_done) = mpsc::channel();
        // As after a failed start.
        pool.state().jobs.push_back(Box::new(move || done.send(()).unwrap()));
        pool.revive();
        is_done.recv_timeout(Duration::from_secs(30)).unwrap();
    }
}
