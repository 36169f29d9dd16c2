//! Turns at the processors, for work that computes without waiting.
//!
//! The runtime runs tasks in the order in which they become ready. If the clients of one user make
//! many tasks ready at once, the tasks of others wait until all of them have computed. So each of
//! these tasks first takes a turn of its user and then yields: tasks that are ready by then run
//! before it computes. Tasks that wait for a turn cost next to nothing. A task holds its turn only
//! while it is ready or computes, so clients that stall hold none.

use crate::pool::{Holder, Pool};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::task::yield_now;

/// Requests of one user that compute or are ready to, for each processor. Each takes some 30 µs, so
/// another user's request waits for less than a millisecond. With fewer, processors would idle.
const READY_REQUESTS_A_PROCESSOR: usize = 8;

/// The turns of TLS handshakes. Each computes for 0.3 to 1 ms. Half of the processors are left to
/// other work.
pub fn for_handshakes(processors: usize) -> Arc<Pool> {
    Pool::new((processors / 2).max(1))
}

/// The turns of requests. No user has more than half of them.
pub fn for_requests(processors: usize) -> Arc<Pool> {
    Pool::new(2 * READY_REQUESTS_A_PROCESSOR * processors)
}

/// Whether this user's requests must take turns: more of its connections have running requests than it
/// may have turns. Idle connections make no tasks ready, so they don't count. If a user has few
/// connections, its requests are faster without turns.
pub fn needs_turns(holder: &Holder) -> bool {
    holder.engaged() > holder.most()
}

/// Runs `work`, each step of it in a turn of `holder`. A step ends when the work waits.
pub async fn in_turns<F: Future>(holder: Arc<Holder>, work: F) -> F::Output {
    let mut work = pin!(work);
    loop {
        let turn = holder.clone().take(1).await;
        yield_now().await;
        if let Poll::Ready(output) = futures::poll!(work.as_mut()) {
            return output;
        }
        drop(turn);
        woken().await;
    }
}

/// Returns when the task is polled again.
async fn woken() {
    let mut polled = false;
    std::future::poll_fn(|_| match std::mem::replace(&mut polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Key;
    use futures::FutureExt;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::oneshot;

    fn user(pool: &Arc<Pool>, name: &str) -> Arc<Holder> {
        pool.holder(&Key::User(name.into()))
    }

    /// Without turns, all of them would compute before the task that came last.
    #[tokio::test]
    async fn a_task_that_becomes_ready_passes_most_of_another_users() {
        let (pool, computed) = (Pool::new(8), Arc::new(AtomicUsize::new(0)));
        let step = |computed: Arc<AtomicUsize>| async move { computed.fetch_add(1, Ordering::SeqCst) };
        let many: Vec<_> =
            (0..500).map(|_| tokio::spawn(in_turns(user(&pool, "eve"), step(computed.clone())))).collect();
        let before = tokio::spawn(in_turns(user(&pool, "ada"), step(computed.clone()))).await.unwrap();
        assert!(before < 100, "after {before} of the other user's");
        for task in many {
            task.await.unwrap();
        }
        assert_eq!((computed.load(Ordering::SeqCst), pool.held()), (501, 0));
    }

    #[tokio::test]
    async fn work_that_waits_holds_no_turn_and_goes_on_when_woken() {
        let pool = Pool::new(1);
        let (wake, waits) = oneshot::channel();
        let stalled = tokio::spawn(in_turns(user(&pool, "eve"), waits));
        for _ in 0..10 {
            assert_eq!(in_turns(user(&pool, "eve"), async { 7 }).await, 7);
        }
        assert!(!stalled.is_finished());
        wake.send(8).unwrap();
        assert_eq!(stalled.await.unwrap(), Ok(8));
    }

    /// The work may wake its task while the task waits for a turn.
    #[tokio::test]
    async fn a_wake_during_the_wait_for_a_turn_is_not_lost() {
        let pool = Pool::new(1);
        let (first, waits_first) = oneshot::channel();
        let (second, waits_second) = oneshot::channel();
        let work = async move { (waits_first.await, waits_second.await) };
        let mut task = Box::pin(in_turns(user(&pool, "ada"), work));
        while pool.held() == 0 {
            assert!((&mut task).now_or_never().is_none());
        }
        while pool.held() > 0 {
            assert!((&mut task).now_or_never().is_none());
        }
        let held = user(&pool, "bob").try_take(1).unwrap();
        let task = tokio::spawn(task);
        yield_now().await;
        first.send(1).unwrap();
        yield_now().await;
        second.send(2).unwrap();
        yield_now().await;
        drop(held);
        assert_eq!(task.await.unwrap(), (Ok(1), Ok(2)));
    }

    #[test]
    fn only_a_user_with_many_busy_connections_needs_turns() {
        let pool = for_requests(1);
        let ada = user(&pool, "ada");
        let idle = vec![ada.clone(); 1_000];
        let mut busy: Vec<_> = (0..READY_REQUESTS_A_PROCESSOR).map(|_| ada.engage()).collect();
        assert!(!needs_turns(&idle[0]));
        busy.push(ada.engage());
        assert!(needs_turns(&idle[0]));
        busy.pop();
        assert!(!needs_turns(&idle[0]));
    }
}
