//! Resources that clients share: bytes, places, turns.
//!
//! A pool has a number of units. A holder (a user or an origin) may have one request of any size.
//! Beyond it, a holder takes no more units than it leaves free ("dynamic thresholds", Choudhury and
//! Hahne, 1998), and never more than half of all. So N holders that want everything at the same time
//! get 1/(N+1) each. If they come one after the other, each gets half of the rest, and about
//! log2(units) holders fill the pool. A newcomer then waits until one of them returns units. The pool
//! serves waiting holders in turn, each in the order of its requests.
//!
//! If no request waits, taking and returning units are two atomic operations each.

use crate::peer::Origin;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::oneshot;

/// With fewer holders, the pool doesn't look for unused ones.
const FIRST_LOOK: usize = 64;

/// The user or origin whose share a unit is taken from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A user who logged in, from any address.
    User(Arc<str>),
    /// Clients without a login, by origin.
    Origin(Origin),
}

/// Units that clients share.
pub struct Pool {
    total: usize,
    free: AtomicUsize,
    /// Requests that wait, of all holders.
    waiting: AtomicUsize,
    table: Mutex<Table>,
}

struct Table {
    holders: HashMap<Key, Weak<Holder>>,
    /// With this many holders, the pool forgets unused ones.
    prune_at: usize,
    /// Holders with requests that wait. The first is served next.
    turns: VecDeque<Turn>,
    /// A holder without any units waits. No later request is served before it.
    short: bool,
    next_number: u64,
}

struct Turn {
    holder: Arc<Holder>,
    tickets: VecDeque<Ticket>,
}

struct Ticket {
    number: u64,
    units: usize,
    granted: oneshot::Sender<Grant>,
}

/// A user or an origin, with its units of a pool.
pub struct Holder {
    pool: Arc<Pool>,
    held: AtomicUsize,
    engaged: AtomicUsize,
}

/// A connection with running requests. Counts for its holder until dropped.
pub struct Engaged {
    holder: Arc<Holder>,
}

/// Units held until dropped.
pub struct Grant {
    holder: Arc<Holder>,
    units: usize,
}

/// A request that waits, and the units that it needs.
pub struct Need {
    /// The waiting holder.
    pub holder: Arc<Holder>,
    /// Units it waits for.
    pub units: usize,
    /// With this request, the holder would have more than half of the pool. So it must first return units of
    /// its own.
    pub own: bool,
}

impl Pool {
    /// A pool whose units are all free.
    pub fn new(units: usize) -> Arc<Self> {
        let table = Table {
            holders: HashMap::new(),
            prune_at: FIRST_LOOK,
            turns: VecDeque::new(),
            short: false,
            next_number: 0,
        };
        Arc::new(Self {
            total: units,
            free: AtomicUsize::new(units),
            waiting: AtomicUsize::new(0),
            table: Mutex::new(table),
        })
    }

    /// The holder with this key; the same one as long as anything refers to it.
    pub fn holder(self: &Arc<Self>, key: &Key) -> Arc<Holder> {
        let mut table = self.lock();
        if let Some(holder) = table.holders.get(key).and_then(Weak::upgrade) {
            return holder;
        }
        if table.holders.len() >= table.prune_at {
            table.holders.retain(|_, holder| holder.strong_count() > 0);
            table.prune_at = (2 * table.holders.len()).max(FIRST_LOOK);
        }
        let holder =
            Arc::new(Holder { pool: self.clone(), held: AtomicUsize::new(0), engaged: AtomicUsize::new(0) });
        table.holders.insert(key.clone(), Arc::downgrade(&holder));
        holder
    }

    /// Units that are held.
    pub fn held(&self) -> usize {
        self.total - self.free.load(Ordering::Relaxed).min(self.total)
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The first request of each holder that waits.
    pub fn needs(&self) -> Vec<Need> {
        let table = self.lock();
        let need = |turn: &Turn| {
            let (holder, units) = (turn.holder.clone(), turn.tickets.front()?.units);
            let own = holder.is_over_half_with(units);
            Some(Need { holder, units, own })
        };
        table.turns.iter().filter_map(need).collect()
    }

    /// The maximum of one holder.
    fn half(&self) -> usize {
        self.total.div_ceil(2)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A poisoned lock is harmless: every critical section leaves the table consistent.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves waiting requests, as far as units are free.
    fn serve(&self) {
        let mut granted = Vec::new();
        let mut table = self.lock();
        table.short = false;
        let mut next = 0;
        while let Some(turn) = table.turns.get_mut(next) {
            let Some(units) = turn.tickets.front().map(|ticket| ticket.units) else {
                table.turns.remove(next);
                continue;
            };
            if let Some(grant) = turn.holder.attempt(units) {
                if let Some(ticket) = turn.tickets.pop_front() {
                    granted.push((ticket.granted, grant));
                }
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                // Other holders come before this holder's next request.
                let served = table.turns.remove(next);
                table.turns.extend(served.filter(|turn| !turn.tickets.is_empty()));
                next = 0;
            } else if turn.holder.held.load(Ordering::SeqCst) == 0 {
                table.short = true;
                break;
            } else {
                next += 1;
            }
        }
        drop(table);
        for (waiter, grant) in granted {
            // If the waiter has left, the units return to the pool.
            let _ = waiter.send(grant);
        }
    }

    /// Returns units.
    fn give_back(&self, units: usize) {
        self.free.fetch_add(units, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.serve();
        }
    }
}

impl Holder {
    /// Units that it holds.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Units that it may have at most.
    pub fn most(&self) -> usize {
        self.pool.half()
    }

    /// Counts a connection that begins to work for this holder.
    pub fn engage(self: &Arc<Self>) -> Engaged {
        self.engaged.fetch_add(1, Ordering::Relaxed);
        Engaged { holder: self.clone() }
    }

    /// Connections with running requests.
    pub fn engaged(&self) -> usize {
        self.engaged.load(Ordering::Relaxed)
    }

    /// The holder with this key, of the same pool.
    pub fn other(&self, key: &Key) -> Arc<Self> {
        self.pool.holder(key)
    }

    /// Units that it may take now.
    pub fn room(&self) -> usize {
        let held = self.held();
        let free = self.pool.free.load(Ordering::SeqCst);
        self.pool.half().saturating_sub(held).min(free.saturating_sub(held))
    }

    /// Takes free units. None if they exceed the holder's share, or if earlier requests come first.
    pub fn try_take(self: &Arc<Self>, units: usize) -> Option<Grant> {
        if self.pool.waiting.load(Ordering::SeqCst) > 0 {
            let table = self.pool.lock();
            let waits = table.turns.iter().any(|turn| Arc::ptr_eq(&turn.holder, self));
            if table.short || waits {
                return None;
            }
        }
        let grant = self.attempt(units);
        // A failed attempt holds units for an instant, which may have kept another request waiting.
        if grant.is_none() && self.pool.waiting.load(Ordering::SeqCst) > 0 {
            self.pool.serve();
        }
        grant
    }

    /// Waits for `units`, or for the whole pool if that has fewer. A caller that drops this loses its
    /// place.
    pub async fn take(self: Arc<Self>, units: usize) -> Grant {
        let units = units.min(self.pool.total);
        if let Some(grant) = self.try_take(units) {
            return grant;
        }
        let (granted, wait) = oneshot::channel();
        let number = self.queue(units, granted);
        let _place = Place { holder: self.clone(), number };
        self.pool.serve();
        // The wait doesn't fail: a ticket leaves the queue with its grant, or when its place is dropped,
        // and this future holds the place.
        wait.await.unwrap_or_else(|_| Grant { holder: self.clone(), units: 0 })
    }

    fn queue(self: &Arc<Self>, units: usize, granted: oneshot::Sender<Grant>) -> u64 {
        let mut table = self.pool.lock();
        let number = table.next_number;
        table.next_number += 1;
        let ticket = Ticket { number, units, granted };
        match table.turns.iter_mut().find(|turn| Arc::ptr_eq(&turn.holder, self)) {
            Some(turn) => turn.tickets.push_back(ticket),
            None => table.turns.push_back(Turn { holder: self.clone(), tickets: [ticket].into() }),
        }
        self.pool.waiting.fetch_add(1, Ordering::SeqCst);
        number
    }

    /// Takes units if the rules allow it now. It takes them from the pool first, so a concurrent
    /// look at the holder never sees units that it doesn't get.
    fn attempt(self: &Arc<Self>, units: usize) -> Option<Grant> {
        let held = self.held();
        let fits = |free: usize| {
            let enough = units <= free && (held == 0 || held + units <= free);
            enough.then(|| free - units)
        };
        self.pool.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).ok()?;
        let share = |held: usize| {
            // A holder's only request may be larger than the share. Otherwise it could never be served.
            (held == 0 || held + units <= self.pool.half()).then_some(held + units)
        };
        match self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, share) {
            Ok(_) => Some(Grant { holder: self.clone(), units }),
            Err(_) => {
                self.pool.free.fetch_add(units, Ordering::SeqCst);
                None
            }
        }
    }

    fn is_over_half_with(&self, units: usize) -> bool {
        let held = self.held();
        held > 0 && held + units > self.pool.half()
    }
}

/// A place in a holder's queue, released when dropped.
struct Place {
    holder: Arc<Holder>,
    number: u64,
}

impl Drop for Engaged {
    fn drop(&mut self) {
        self.holder.engaged.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let pool = &self.holder.pool;
        let mut table = pool.lock();
        let own = table.turns.iter().position(|turn| Arc::ptr_eq(&turn.holder, &self.holder));
        let turn = own.and_then(|own| Some((own, table.turns.get_mut(own)?)));
        let mut found = false;
        if let Some((own, turn)) = turn {
            // The tickets are in the order of their numbers.
            if let Ok(at) = turn.tickets.binary_search_by_key(&self.number, |ticket| ticket.number) {
                turn.tickets.remove(at);
                found = true;
            }
            if turn.tickets.is_empty() {
                table.turns.remove(own);
            }
        }
        drop(table);
        if found {
            pool.waiting.fetch_sub(1, Ordering::SeqCst);
            // Requests behind it in the queue may fit now.
            pool.serve();
        }
    }
}

impl Grant {
    /// Units held.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Takes more, if the rules allow it at once.
    pub fn grow(&mut self, units: usize) -> bool {
        let Some(mut more) = self.holder.try_take(units) else { return false };
        self.units += std::mem::take(&mut more.units);
        true
    }

    /// Returns the units above `units`.
    pub fn shrink(&mut self, units: usize) {
        let surplus = self.units.saturating_sub(units);
        if surplus > 0 {
            self.units = units;
            self.holder.held.fetch_sub(surplus, Ordering::SeqCst);
            self.holder.pool.give_back(surplus);
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn user(pool: &Arc<Pool>, name: &str) -> Arc<Holder> {
        pool.holder(&Key::User(name.into()))
    }

    fn all_for(holder: &Arc<Holder>) -> Vec<Grant> {
        std::iter::from_fn(|| holder.try_take(1)).collect()
    }

    #[test]
    fn each_holder_leaves_as_much_to_others_as_it_has() {
        let pool = Pool::new(16);
        let (ada, bob, eve) = (user(&pool, "ada"), user(&pool, "bob"), user(&pool, "eve"));
        let first = all_for(&ada);
        assert_eq!(first.len(), 8);
        let second = all_for(&bob);
        assert_eq!(second.len(), 4);
        drop(first);
        assert_eq!(all_for(&eve).len(), 6, "units come back");
        drop(second);
        assert_eq!(pool.held(), 0);
    }

    #[test]
    fn one_key_is_one_holder_while_somebody_has_it_and_is_forgotten_later() {
        let pool = Pool::new(16);
        let ada = user(&pool, "ada");
        let _held = all_for(&ada);
        assert!(all_for(&user(&pool, "ada")).is_empty());
        for index in 0..1_000 {
            user(&pool, &index.to_string());
        }
        assert!(pool.lock().holders.len() <= FIRST_LOOK);
        assert_eq!(user(&pool, "ada").held(), 8, "and those who hold something are remembered");
    }

    #[test]
    fn a_request_larger_than_the_share_is_served_alone() {
        let pool = Pool::new(16);
        let ada = user(&pool, "ada");
        let large = ada.try_take(12).unwrap();
        assert!(ada.try_take(1).is_none());
        drop(large);
        let all = ada.clone().take(100).now_or_never().unwrap();
        assert_eq!(all.units(), 16, "all of it, where more is asked for");
    }

    #[test]
    fn holders_that_wait_are_served_in_turn_and_nobody_passes_them() {
        let pool = Pool::new(4);
        let (ada, bob, eve) = (user(&pool, "ada"), user(&pool, "bob"), user(&pool, "eve"));
        let mut held: Vec<Grant> = [&ada, &ada, &bob, &eve].iter().filter_map(|h| h.try_take(1)).collect();
        assert_eq!(held.len(), 4);
        let wait = |holder: &Arc<Holder>| {
            let mut wait = Box::pin(holder.clone().take(1));
            assert!((&mut wait).now_or_never().is_none());
            wait
        };
        let mut of_ada: Vec<_> = (0..3).map(|_| wait(&ada)).collect();
        let mut of_zoe = wait(&user(&pool, "zoe"));
        assert!(user(&pool, "amy").try_take(1).is_none(), "a newcomer waits, too");
        assert_eq!(pool.waiting(), 4);
        // The first unit returned is for the user without any.
        held.pop();
        assert!((&mut of_zoe).now_or_never().is_some());
        assert!((&mut of_ada[0]).now_or_never().is_none());
        held.clear();
        let served: Vec<Grant> = of_ada.iter_mut().filter_map(|wait| wait.now_or_never()).collect();
        assert_eq!((served.len(), pool.waiting()), (2, 1), "no more than half");
    }

    #[test]
    fn a_large_request_is_not_starved_by_small_ones() {
        let pool = Pool::new(16);
        let (ada, bob) = (user(&pool, "ada"), user(&pool, "bob"));
        let mut small: VecDeque<Grant> = all_for(&ada).into();
        let mut large = Box::pin(bob.clone().take(12));
        assert!((&mut large).now_or_never().is_none());
        for _ in 0..4 {
            drop(small.pop_front());
            small.extend(ada.try_take(1));
        }
        assert_eq!(large.now_or_never().unwrap().units(), 12);
    }

    #[test]
    fn a_dropped_waiter_leaves_the_queue() {
        let pool = Pool::new(4);
        let (ada, bob, eve) = (user(&pool, "ada"), user(&pool, "bob"), user(&pool, "eve"));
        let _held = ada.try_take(2).unwrap();
        let mut large = Box::pin(bob.take(4));
        assert!((&mut large).now_or_never().is_none());
        let mut behind = Box::pin(eve.take(1));
        assert!((&mut behind).now_or_never().is_none());
        drop(large);
        assert!(behind.now_or_never().is_some());
        assert_eq!(pool.waiting(), 0);
    }

    #[test]
    fn units_are_never_lost_or_doubled_by_many_threads() {
        let pool = Pool::new(8);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
        let tasks: Vec<_> = (0..64)
            .map(|task| {
                let holder = user(&pool, &(task % 5).to_string());
                let pool = pool.clone();
                runtime.spawn(async move {
                    for turn in 0..500 {
                        let grant = holder.clone().take(1 + (task + turn) % 6).await;
                        assert!(pool.held() <= 8);
                        tokio::task::yield_now().await;
                        drop(grant);
                        drop(holder.try_take(2));
                    }
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        assert_eq!((pool.held(), pool.waiting()), (0, 0));
    }
}
