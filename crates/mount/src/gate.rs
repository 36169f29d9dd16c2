//! Stops the threads that read requests from the kernel, and waits until the requests that they read are
//! answered.
//!
//! fuser's threads block in read(2), which can't be interrupted. So a closed gate blocks each thread in the
//! call that it makes before it reads its next request, after the last request became a task. The mount sends
//! requests to itself ([`knock`]) to make sure that each thread receives one.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Each request passes through the gate.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    opened: Condvar,
    /// A thread was parked at the closed gate, or a request was answered.
    moved: Notify,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    parked: usize,
    /// Requests that were read and aren't answered yet.
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

/// Keeps the gate closed until it is dropped.
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

    /// Counts a request that was read. Drop the result when the request is answered.
    pub fn pass(self: &Arc<Self>) -> Pass {
        self.state().running += 1;
        Pass(self.clone())
    }

    /// Blocks the calling thread while the gate is closed.
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

    /// Closes the gate, and waits until `threads` threads are parked and all requests are answered. Each call
    /// of `knock` must cause a request to arrive. There may be only one caller at a time.
    pub async fn close(self: &Arc<Self>, threads: usize, knock: impl Fn()) -> Closed {
        self.state().closed = true;
        let closed = Closed(self.clone());
        // Each knock parks the thread that receives it. A knock that no thread receives stays in the kernel's
        // queue.
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

/// Sends a request through the mount on `directory` with statfs(2), whose answers the kernel doesn't cache. A
/// new thread waits for the answer. It may outlive the hand-over: then the next process answers.
pub fn knock(directory: &Path) {
    let directory = directory.to_owned();
    let knocking = std::thread::Builder::new().name("knock".to_owned()).spawn(move || {
        let _ = rustix::fs::statfs(&directory);
    });
    if let Err(error) = knocking {
        // Then closing the gate times out.
        tracing::warn!(
            "can't start a thread: {error}; so a hand-over of the mount may fail; raise the limit of threads"
        );
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
