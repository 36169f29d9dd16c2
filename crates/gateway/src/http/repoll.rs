//! Polls a future again at once if it woke its own task.
//!
//! hyper wakes its task when a service asks for the bytes of a body, though it has them already. The
//! runtime would queue the task behind the others, and wake another thread to take it over. That costs
//! more than a small call.

use futures::task::AtomicWaker;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Most polls in a row. A request with a body takes three.
const POLLS: usize = 4;

/// No poll runs.
const RESTS: u8 = 0;
/// A poll runs, and nothing has woken the task since it began.
const POLLED: u8 = 1;
/// A poll runs, and the task was woken meanwhile.
const WOKEN: u8 = 2;

/// The wakes of one future.
pub struct Repoll {
    wakes: Arc<Wakes>,
    waker: Waker,
}

struct Wakes {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Repoll {
    /// The state for one future.
    pub fn new() -> Self {
        let wakes = Arc::new(Wakes { state: AtomicU8::new(RESTS), task: AtomicWaker::new() });
        Self { waker: wakes.clone().into(), wakes }
    }

    /// Does the future's work. The caller can drop this call, and call again.
    pub async fn run<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        poll_fn(|cx| self.poll(future.as_mut(), cx)).await
    }

    fn poll<F: Future>(&self, mut future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Wakes { state, task } = &*self.wakes;
        task.register(cx.waker());
        for _ in 0..POLLS {
            state.store(POLLED, Ordering::SeqCst);
            let polled = future.as_mut().poll(&mut Context::from_waker(&self.waker));
            let woken = state.swap(RESTS, Ordering::SeqCst) == WOKEN;
            if polled.is_ready() || !woken {
                return polled;
            }
        }
        // Let other tasks run first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.state.compare_exchange(POLLED, WOKEN, Ordering::SeqCst, Ordering::SeqCst);
        if noted == Err(RESTS) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::oneshot;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Wakes itself this many times.
    async fn restless(times: usize) {
        for _ in 0..times {
            let mut woke = false;
            poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::replace(&mut woke, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    #[test]
    fn a_future_that_wakes_itself_goes_on_without_its_task() {
        let (task, repoll, mut future) = (Arc::new(Counted::default()), Repoll::new(), pin!(restless(3)));
        let waker = task.clone().into();
        assert!(repoll.poll(future.as_mut(), &mut Context::from_waker(&waker)).is_ready());
        assert_eq!(task.0.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn one_that_never_rests_lets_others_run() {
        let (task, repoll, mut future) = (Arc::new(Counted::default()), Repoll::new(), pin!(restless(100)));
        let waker = task.clone().into();
        let mut polls = 1;
        while repoll.poll(future.as_mut(), &mut Context::from_waker(&waker)).is_pending() {
            assert_eq!(task.0.load(Ordering::SeqCst), polls, "it asks for its next turn");
            polls += 1;
        }
        assert_eq!(polls, 100_usize.div_ceil(POLLS) + usize::from(100 % POLLS == 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_from_another_thread_is_lost() {
        for _ in 0..2_000 {
            let (answer, waits) = oneshot::channel();
            let other = tokio::spawn(async move { answer.send(7) });
            let repoll = Repoll::new();
            assert_eq!(repoll.run(pin!(waits)).await, Ok(7));
            other.await.unwrap().unwrap();
        }
    }
}
