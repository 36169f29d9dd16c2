//! One number for a request, in all servers that work for it.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies a client's request in the logs and records of all servers that work for it. It isn't
/// secret, and isn't always unique: clients choose it, and could use the same one twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub [u8; 16]);

thread_local! {
    static CURRENT: Cell<Option<RequestId>> = const { Cell::new(None) };
}

impl RequestId {
    /// A number that no other request of this or another process has: the process's random number,
    /// and a count. (Random bytes for each would cost a system call.)
    pub fn next() -> Self {
        static PROCESS: OnceLock<u64> = OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = PROCESS.get_or_init(|| {
            // If the system has no random numbers, processes on two hosts can draw the same number.
            getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
        });
        let number = (u128::from(*process) << 64) | u128::from(COUNT.fetch_add(1, Ordering::Relaxed));
        Self(number.to_be_bytes())
    }

    /// The request that this thread works for, if any.
    pub fn current() -> Option<Self> {
        CURRENT.get()
    }

    /// Sets the request that this thread works for, until the returned value is dropped.
    #[must_use]
    pub fn enter(request: Option<Self>) -> Entered {
        Entered { before: CURRENT.replace(request) }
    }

    /// Sets the request that a future works for, on any thread that polls it.
    pub async fn scope<F: Future>(request: Option<Self>, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let _entered = Self::enter(request);
            future.as_mut().poll(context)
        })
        .await
    }
}

/// The effect of [`RequestId::enter`], undone when dropped.
#[derive(Debug)]
pub struct Entered {
    before: Option<RequestId>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn no_two_requests_have_one_number() {
        let (first, second) = (RequestId::next(), RequestId::next());
        assert_ne!(first, second);
        assert_eq!(first.to_string().len(), 32);
    }

    #[test]
    fn a_thread_works_for_one_request_at_a_time_and_then_for_the_one_before() {
        let (outer, inner) = (RequestId::next(), RequestId::next());
        let entered = RequestId::enter(Some(outer));
        {
            let _inner = RequestId::enter(Some(inner));
            assert_eq!(RequestId::current(), Some(inner));
        }
        assert_eq!(RequestId::current(), Some(outer));
        drop(entered);
        assert_eq!(RequestId::current(), None);
    }

    #[test]
    fn a_future_takes_its_request_along_and_leaves_nothing_behind() {
        let request = RequestId::next();
        let mut polls = 0;
        let work = poll_fn(|_| {
            assert_eq!(RequestId::current(), Some(request));
            polls += 1;
            if polls == 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut scoped = pin!(RequestId::scope(Some(request), work));
        let mut context = Context::from_waker(Waker::noop());
        assert!(scoped.as_mut().poll(&mut context).is_pending());
        assert_eq!(RequestId::current(), None, "between polls the thread is others'");
        assert!(scoped.as_mut().poll(&mut context).is_ready());
    }
}
