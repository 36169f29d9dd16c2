//! Stops the threads that read requests from the kernel, and waits for the requests that they read.
//!
//! fuser's threads wait in read(2), and nothing can end that. So a closed gate keeps each thread in the
//! call that it makes for its next request, after that request became a task. Requests of the mount's
//! own ([`knock`]) make sure that each thread gets one.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Passed by each request.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    opened: Condvar,
    /// A thread was parked, or a request answered, at a closed gate.
    moved: Notify,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    parked: usize,
    /// Requests that were read and aren't answered.
    running: usize,
}

/// A request that isn't answered yet.
#[derive(Debug)]
pub struct Pass(Arc<Gate>);

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        if state.closed {
            self.0.moved.notify_one();
        }
    }
}

/// Keeps the gate closed.
#[derive(Debug)]
pub struct Closed(Arc<Gate>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.state().closed = false;
        self.0.opened.notify_all();
    }
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request was read. Dropped once it is answered.
    pub fn pass(self: &Arc<Self>) -> Pass {
        self.state().running += 1;
        Pass(self.clone())
    }

    /// Keeps the calling thread while the gate is closed.
    pub fn park(&self) {
        let mut state = self.state();
        if !state.closed {
            return;
        }
        state.parked += 1;
        self.moved.notify_one();
        while state.closed {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.parked -= 1;
    }

    /// Closes the gate, and waits until `threads` are parked and all requests are answered. Each call
    /// of `knock` must let a request arrive. Only one caller at a time.
    pub async fn close(self: &Arc<Self>, threads: usize, knock: impl Fn()) -> Closed {
        self.state().closed = true;
        let closed = Closed(self.clone());
        // A knock parks the thread that gets it. One that no thread gets stays in the kernel's queue.
        (0..threads).for_each(|_| knock());
        loop {
            {
                let state = self.state();
                if state.parked == threads && state.running == 0 {
                    return closed;
                }
            }
            self.moved.notified().await;
        }
    }
}

/// Sends a request through the mount on `directory`: the kernel caches no answer of statfs(2). A thread
/// waits for it, which may outlive the hand-over: then the next process answers.
pub fn knock(directory: &Path) {
    let directory = directory.to_owned();
    let knocking = std::thread::Builder::new().name("knock".to_owned()).spawn(move || {
        let _ = rustix::fs::statfs(&directory);
    });
    if let Err(error) = knocking {
        // Closing the gate times out then.
        tracing::warn!("no thread for a request: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_gate_is_closed_once_threads_are_parked_and_requests_answered() {
        let gate = Arc::new(Gate::default());
        let unanswered = gate.pass();
        let (requests, received) = mpsc::channel::<()>();
        let received = Arc::new(Mutex::new(received));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (gate, received) = (gate.clone(), received.clone());
                std::thread::spawn(move || {
                    while received.lock().unwrap().recv().is_ok() {
                        drop(gate.pass());
                        gate.park();
                    }
                })
            })
            .collect();
        let mut closing = Box::pin(gate.close(2, || requests.send(()).unwrap()));
        while gate.state().parked < 2 {
            assert!(futures::poll!(&mut closing).is_pending());
            tokio::task::yield_now().await;
        }
        assert!(futures::poll!(&mut closing).is_pending(), "a request isn't answered");
        drop(unanswered);
        let closed = closing.await;
        assert_eq!(gate.state().parked, 2);
        assert_eq!(gate.state().running, 0);
        drop(closed);
        drop(requests);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(gate.state().parked, 0);
    }

    #[tokio::test]
    async fn a_gate_opens_if_its_closing_is_abandoned() {
        let gate = Arc::new(Gate::default());
        let mut closing = Box::pin(gate.close(1, || {}));
        assert!(futures::poll!(&mut closing).is_pending());
        drop(closing);
        gate.park();
    }
}
