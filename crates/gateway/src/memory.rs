//! The memory that requests and answers may take, shared fairly.
//!
//! All connections draw on one budget, and each has a small reserve of its own. A large request
//! waits for the budget before its bytes are received. A read or a page of a listing doesn't wait:
//! if the budget is used up, the gateway cuts the answer to the reserve. Clients allow that, since
//! only an empty read means the end of the file.
//!
//! The budget is a [`Pool`] of users and origins, so none of them has more than half. The answers of
//! one connection hold at most half of the user's share.
//!
//! While a request waits, clients that move their bytes too slowly lose their connections: see
//! [`crate::slow`]. So clients that don't take their answers, or send announced bytes slowly, don't keep
//! others waiting, and memory stays bounded.

use crate::config::Limits;
use crate::pool::{Grant, Holder, Key, Pool};
use crate::slow::{Cut, Flow, Flows};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Units of the pool are KiB.
const UNIT_BYTES: usize = 1 << 10;
/// Period of the search for slow clients while a request waits.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// The budget of all connections.
#[derive(Clone)]
pub struct Budget {
    pool: Arc<Pool>,
    flows: Arc<Flows>,
    reserve_bytes: usize,
}

/// One connection's part of the budget.
pub struct Account {
    budget: Budget,
    key: Key,
    /// The key's share.
    holder: Arc<Holder>,
    reserve_taken: Arc<AtomicBool>,
    /// Units of the budget that its answers hold.
    held: Arc<AtomicUsize>,
    flow: Arc<Flow>,
}

/// Memory held until dropped.
pub struct Permit {
    bytes: usize,
    source: Source,
}

enum Source {
    /// Units of the pool. Those for an answer also count in `held` of their account.
    Budget(Grant, Option<Arc<AtomicUsize>>),
    Reserve(Arc<AtomicBool>),
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}

impl Budget {
    /// A budget with these limits.
    pub fn new(limits: &Limits) -> Self {
        let flows = Arc::new(Flows::new(limits.min_rate_bytes_per_s, limits.rate_grace));
        let pool = Pool::new(units(limits.buffered_bytes));
        Self { pool, flows, reserve_bytes: limits.reserved_bytes }
    }

    /// `bytes` of the budget, if they are free now.
    pub fn try_take(&self, holder: &Arc<Holder>, bytes: usize) -> Option<Permit> {
        let grant = holder.try_take(units(bytes))?;
        Some(Permit { bytes, source: Source::Budget(grant, None) })
    }

    /// Waits for `bytes` of the budget, or for all of it if it has fewer, in the name of `holder`. A
    /// caller that drops this loses its place in the queue.
    pub fn wait(&self, holder: &Arc<Holder>, bytes: usize) -> impl Future<Output = Permit> + Send + use<> {
        let (this, holder) = (self.clone(), holder.clone());
        async move {
            let mut granted = std::pin::pin!(holder.take(units(bytes)));
            loop {
                tokio::select! {
                    biased;
                    grant = &mut granted => {
                        return Permit { bytes, source: Source::Budget(grant, None) };
                    }
                    () = this.look_for_slow_clients() => {}
                }
            }
        }
    }

    async fn look_for_slow_clients(&self) {
        self.flows.cut_slow(|| self.pool.needs());
        tokio::time::sleep(LOOK_PERIOD).await;
    }

    /// The part of the budget for a user or an origin.
    pub fn holder(&self, key: &Key) -> Arc<Holder> {
        self.pool.holder(key)
    }

    /// A new connection's account, and the signal that ends the connection.
    pub fn account(&self, key: &Key) -> (Account, Cut) {
        let (flow, cut) = self.flows.add();
        let account = Account {
            key: key.clone(),
            holder: self.holder(key),
            budget: self.clone(),
            reserve_taken: Arc::default(),
            held: Arc::default(),
            flow,
        };
        (account, cut)
    }

    /// Bytes that requests and answers hold.
    pub fn held_bytes(&self) -> usize {
        self.pool.held() * UNIT_BYTES
    }

    /// Requests that wait for memory.
    pub fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    /// Number of connections that were ended because they moved their bytes too slowly.
    pub fn connections_cut(&self) -> u64 {
        self.flows.connections_cut()
    }
}

impl Account {
    /// The budget of all connections.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The holder whose share it takes from.
    pub fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }

    /// Switches to this key's share.
    pub fn set_holder(&mut self, key: &Key) {
        if self.key != *key {
            self.holder = self.budget.holder(key);
            self.key = key.clone();
        }
    }

    /// Record of the connection's moved bytes.
    pub fn flow(&self) -> &Arc<Flow> {
        &self.flow
    }

    /// Bytes that a connection always has.
    pub fn reserve_bytes(&self) -> usize {
        self.budget.reserve_bytes
    }

    /// Memory for an answer of at most `bytes`, without waiting. It comes from the reserve if that is free
    /// and large enough, else from the budget. If the budget has too little, the answer gets the whole
    /// reserve instead, and is cut. None if the reserve is in use, too, or if this connection's answers
    /// already hold as much as their user may still take. Try again once an answer is sent.
    pub fn now(&self, bytes: usize) -> Option<Permit> {
        if bytes <= self.budget.reserve_bytes
            && let Some(permit) = self.reserve(bytes)
        {
            return Some(permit);
        }
        let (asked, own) = (units(bytes), self.held.load(Ordering::Acquire));
        if own > 0 && own + asked > self.holder.room() {
            return None;
        }
        match self.holder.try_take(asked) {
            Some(grant) => {
                self.held.fetch_add(asked, Ordering::AcqRel);
                Some(Permit { bytes, source: Source::Budget(grant, Some(self.held.clone())) })
            }
            None if own > 0 => None,
            None => self.reserve(self.budget.reserve_bytes),
        }
    }

    fn reserve(&self, bytes: usize) -> Option<Permit> {
        let free = !self.reserve_taken.swap(true, Ordering::AcqRel);
        free.then(|| Permit { bytes, source: Source::Reserve(self.reserve_taken.clone()) })
    }
}

impl Permit {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The part that other requests may wait for, in units of the pool.
    pub fn shared_units(&self) -> usize {
        match &self.source {
            Source::Budget(grant, _) => grant.units(),
            Source::Reserve(_) => 0,
        }
    }

    /// Takes `bytes` more, if they are free now. It doesn't wait: two requests that each hold some
    /// could wait for each other.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let Source::Budget(grant, held) = &mut self.source else { return false };
        if !grant.grow(units(bytes)) {
            return false;
        }
        if let Some(held) = held {
            held.fetch_add(units(bytes), Ordering::AcqRel);
        }
        self.bytes += bytes;
        true
    }

    /// Returns the bytes above `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
        if let Source::Budget(grant, held) = &mut self.source {
            let surplus = grant.units().saturating_sub(units(bytes));
            if let Some(held) = held {
                held.fetch_sub(surplus, Ordering::AcqRel);
            }
            grant.shrink(units(bytes));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        match &self.source {
            Source::Reserve(taken) => taken.store(false, Ordering::Release),
            Source::Budget(grant, Some(held)) => {
                held.fetch_sub(grant.units(), Ordering::AcqRel);
            }
            Source::Budget(_, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(bytes: usize, reserve: usize) -> Budget {
        Budget::new(&Limits { buffered_bytes: bytes, reserved_bytes: reserve, ..Limits::default() })
    }

    fn account(budget: &Budget, user: &str) -> Account {
        budget.account(&Key::User(user.into())).0
    }

    #[test]
    fn a_greedy_client_leaves_others_their_reserve() {
        let budget = budget(200 << 10, 10 << 10);
        let (greedy, modest) = (account(&budget, "ada"), account(&budget, "ada"));
        let large = greedy.now(100 << 10).unwrap();
        assert_eq!(large.bytes(), 100 << 10);
        let cut = modest.now(50 << 10).unwrap();
        assert_eq!(cut.bytes(), 10 << 10, "cut to the reserve");
        assert!(modest.now(50 << 10).is_none(), "which is there once");
        assert_eq!(account(&budget, "bob").now(50 << 10).unwrap().bytes(), 50 << 10, "others have theirs");
        drop(cut);
        assert!(modest.now(1).is_some());
        drop(large);
        assert_eq!(modest.now(50 << 10).unwrap().bytes(), 50 << 10);
    }

    #[test]
    fn shrinking_gives_the_rest_back() {
        let budget = budget(200 << 10, 1 << 10);
        let (first, other) = (account(&budget, "ada"), account(&budget, "ada"));
        let mut permit = first.now(100 << 10).unwrap();
        permit.shrink(5 << 10);
        assert_eq!(other.now(95 << 10).unwrap().bytes(), 95 << 10);
        assert_eq!(permit.bytes(), 5 << 10);
        drop(permit);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn readers_who_ask_for_more_than_there_is_come_to_equal_parts() {
        let (budget, answer) = (budget(128 << 20, 64 << 10), 1 << 20);
        let accounts: Vec<Account> = (0..20).map(|_| account(&budget, "ada")).collect();
        let mut held: Vec<Vec<Permit>> = accounts.iter().map(|_| Vec::new()).collect();
        // The first few take everything at first.
        for account in 0..4 {
            held[account].extend(std::iter::from_fn(|| accounts[account].now(answer)));
        }
        for _ in 0..200 {
            for (account, held) in accounts.iter().zip(&mut held) {
                // One of its answers is sent, and it asks for as many as it may.
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
    fn one_reader_alone_may_take_half_of_its_users_share() {
        let budget = budget(64 << 20, 64 << 10);
        let account = account(&budget, "ada");
        let taken: Vec<Permit> = std::iter::from_fn(|| account.now(1 << 20)).collect();
        assert_eq!(taken.len(), 16);
        let by_default = Budget::new(&Limits::default()).account(&Key::User("ada".into())).0;
        let taken: Vec<Permit> =
            std::iter::from_fn(|| by_default.now(strait_store::MAX_CHUNK_BYTES)).collect();
        assert_eq!(taken.len(), 6, "as Limits::buffered_bytes says");
    }
}
