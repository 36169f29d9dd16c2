//! The memory that requests and answers may take, shared fairly.
//!
//! All connections draw on one budget, and each has a small reserve of its
//! own. A large request waits for the budget, in the order of asking, before
//! its bytes are received; a read or a page of a listing doesn't: if the
//! budget is out, the answer is cut to the reserve, which they may be (only an
//! empty read means the end of the file). For its answers a connection takes no
//! more than it leaves free to others ("dynamic thresholds", Choudhury and Hahne,
//! 1998): N that read as fast as they can have an N+1st part each, and their
//! requests wait for their own answers to leave. While somebody waits, those who hold
//! a part of the budget must move it (see `connection`). So clients that ask
//! and don't take their answers, or send what they claimed drop by drop, can
//! slow others, not stop them, and memory stays bounded whatever they do.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits are counted in KiB, as a semaphore counts in u32.
const UNIT_BYTES: usize = 1 << 10;

/// The budget of all connections.
#[derive(Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    total: u32,
    reserve_bytes: usize,
    /// How many wait for the budget.
    waiting: Arc<AtomicUsize>,
}

/// Counts one who waits, until dropped.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn new(count: Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One connection's part of it.
pub struct Account {
    budget: Budget,
    reserve_taken: Arc<AtomicBool>,
    /// Units of the budget that its answers hold.
    held: Arc<AtomicUsize>,
}

/// Memory held until dropped.
pub struct Permit {
    bytes: usize,
    source: Source,
}

enum Source {
    /// Its units, counted in its account's too if they are for an answer.
    Budget(OwnedSemaphorePermit, Option<Arc<AtomicUsize>>),
    Reserve(Arc<AtomicBool>),
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

impl Budget {
    /// A budget of `total_bytes`, and `reserve_bytes` more for each account.
    pub fn new(total_bytes: usize, reserve_bytes: usize) -> Self {
        let total = units(total_bytes);
        let units = Arc::new(Semaphore::new(total as usize));
        Self { units, total, reserve_bytes, waiting: Arc::default() }
    }

    /// Waits for `bytes` of the budget (all of it, if more is asked). Whoever
    /// drops this loses their place in the queue.
    pub fn wait(&self, bytes: usize) -> impl Future<Output = Permit> + Send + use<> {
        let (semaphore, units) = (self.units.clone(), units(bytes).min(self.total));
        let waiting = self.waiting.clone();
        async move {
            let _waiting = Waiting::new(waiting);
            match semaphore.acquire_many_owned(units).await {
                Ok(permit) => Permit { bytes, source: Source::Budget(permit, None) },
                // The semaphore is never closed.
                Err(_) => Permit { bytes: 0, source: Source::Reserve(Arc::default()) },
            }
        }
    }

    /// Whether somebody waits for what others hold.
    pub fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// A new connection's account.
    pub fn account(&self) -> Account {
        Account { budget: self.clone(), reserve_taken: Arc::default(), held: Arc::default() }
    }
}

impl Account {
    /// The budget of all.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What is always to be had.
    pub fn reserve_bytes(&self) -> usize {
        self.budget.reserve_bytes
    }

    /// Memory for an answer of at most `bytes`, at once: all from the budget, or what
    /// the reserve has. None if the reserve is in use, or if answers of this connection
    /// hold as much as is free: there is more when they have left.
    pub fn now(&self, bytes: usize) -> Option<Permit> {
        if bytes <= self.budget.reserve_bytes
            && let Some(permit) = self.reserve(bytes)
        {
            return Some(permit);
        }
        let (asked, held) = (units(bytes), self.held.load(Ordering::Acquire));
        if held > 0 && held + asked as usize > self.budget.units.available_permits() {
            return None;
        }
        match self.budget.units.clone().try_acquire_many_owned(asked) {
            Ok(permit) => {
                self.held.fetch_add(permit.num_permits(), Ordering::AcqRel);
                Some(Permit { bytes, source: Source::Budget(permit, Some(self.held.clone())) })
            }
            Err(_) if held > 0 => None,
            Err(_) => self.reserve(self.budget.reserve_bytes),
        }
    }

    fn reserve(&self, bytes: usize) -> Option<Permit> {
        let free = !self.reserve_taken.swap(true, Ordering::AcqRel);
        free.then(|| Permit { bytes, source: Source::Reserve(self.reserve_taken.clone()) })
    }
}

impl Permit {
    /// How much is held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether others may be waiting for it.
    pub fn is_shared(&self) -> bool {
        matches!(self.source, Source::Budget(..))
    }

    /// Takes `bytes` more, if they are to be had at once: whoever waited while
    /// holding some could wait for others who do the same.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let Source::Budget(permit, held) = &mut self.source else { return false };
        let Ok(more) = permit.semaphore().clone().try_acquire_many_owned(units(bytes)) else {
            return false;
        };
        if let Some(held) = held {
            held.fetch_add(more.num_permits(), Ordering::AcqRel);
        }
        permit.merge(more);
        self.bytes += bytes;
        true
    }

    /// Gives back what is above `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
        if let Source::Budget(permit, held) = &mut self.source {
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            drop(permit.split(surplus));
            if let Some(held) = held {
                held.fetch_sub(surplus, Ordering::AcqRel);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        match &self.source {
            Source::Reserve(taken) => taken.store(false, Ordering::Release),
            Source::Budget(permit, Some(held)) => {
                held.fetch_sub(permit.num_permits(), Ordering::AcqRel);
            }
            Source::Budget(_, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_the_budget_leaves_others_their_reserve() {
        let budget = Budget::new(100 << 10, 10 << 10);
        let (greedy, modest) = (budget.account(), budget.account());
        let large = greedy.now(100 << 10).unwrap();
        assert_eq!(large.bytes(), 100 << 10);
        let cut = modest.now(50 << 10).unwrap();
        assert_eq!(cut.bytes(), 10 << 10, "cut to the reserve");
        assert!(modest.now(50 << 10).is_none(), "which is there once");
        drop(cut);
        assert!(modest.now(1).is_some());
        drop(large);
        assert_eq!(modest.now(50 << 10).unwrap().bytes(), 50 << 10);
    }

    #[test]
    fn shrinking_gives_the_rest_back() {
        let budget = Budget::new(100 << 10, 1 << 10);
        let (account, other) = (budget.account(), budget.account());
        let mut permit = account.now(100 << 10).unwrap();
        permit.shrink(5 << 10);
        assert_eq!(other.now(95 << 10).unwrap().bytes(), 95 << 10);
        assert_eq!(permit.bytes(), 5 << 10);
    }

    #[test]
    fn readers_who_ask_for_more_than_there_is_come_to_equal_parts() {
        let (budget, answer) = (Budget::new(64 << 20, 64 << 10), 1 << 20);
        let accounts: Vec<Account> = (0..20).map(|_| budget.account()).collect();
        let mut held: Vec<Vec<Permit>> = accounts.iter().map(|_| Vec::new()).collect();
        // The first few have it all to themselves for a while.
        for account in 0..4 {
            held[account].extend(std::iter::from_fn(|| accounts[account].now(answer)));
        }
        for _ in 0..200 {
            for (account, held) in accounts.iter().zip(&mut held) {
                // One of its answers leaves, and it asks for as many as it may.
                held.pop();
                held.extend(std::iter::from_fn(|| account.now(answer)).take(8));
            }
        }
        for held in &held {
            assert!((2..=4).contains(&held.len()), "{} answers", held.len());
            assert!(held.iter().all(|permit| permit.bytes() == answer), "none is cut");
        }
    }

    #[test]
    fn one_reader_alone_may_take_half() {
        let budget = Budget::new(64 << 20, 64 << 10);
        let account = budget.account();
        let taken: Vec<Permit> = std::iter::from_fn(|| account.now(1 << 20)).collect();
        assert_eq!(taken.len(), 32);
    }
}
