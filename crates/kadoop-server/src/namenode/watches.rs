//! Watches: calls with which datanodes wait for orders. The namenode answers such a call when it has orders
//! for the datanode.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, Thread},
    time::{Duration, Instant},
};
use strait_kadoop_core::{
    NodeId,
    error::{Error, Result},
};

/// Most datanodes that wait at a time. Each holds a worker. Further datanodes get their orders with their
/// next heartbeats.
pub(super) const MAX_WATCHES: usize = 256;

/// The datanodes that wait.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<NodeId, Watch>,
    /// Datanodes for which orders came while they had no watch. Their next watch returns at once.
    missed: BTreeSet<NodeId>,
    last: u64,
    ended: bool,
}

#[derive(Debug)]
struct Watch {
    number: u64,
    thread: Thread,
}

impl Watches {
    /// Waits at most `time` for orders for the datanode. Returns false if the time is over. Returns true if
    /// orders came, a later watch of the same datanode replaced this one, or the namenode stops.
    ///
    /// # Errors
    /// Limit: too many datanodes wait.
    pub(super) fn wait(&self, node: NodeId, time: Duration) -> Result<bool> {
        let until = Instant::now() + time;
        let mut state = self.state();
        if state.missed.remove(&node) || state.ended {
            return Ok(true);
        }
        if state.waiting.len() >= MAX_WATCHES && !state.waiting.contains_key(&node) {
            return Err(Error::Limit("datanodes that wait for orders"));
        }
        state.last += 1;
        let number = state.last;
        if let Some(before) = state.waiting.insert(node, Watch { number, thread: thread::current() }) {
            before.thread.unpark();
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.waiting.get(&node).is_none_or(|watch| watch.number != number) {
                return Ok(true);
            }
            if left.is_zero() {
                state.waiting.remove(&node);
                return Ok(false);
            }
            drop(state);
            thread::park_timeout(left);
            state = self.state();
        }
    }

    /// Ends these datanodes' watches, since there are orders for them.
    pub(super) fn rouse(&self, nodes: BTreeSet<NodeId>) {
        if nodes.is_empty() {
            return;
        }
        let mut state = self.state();
        for node in nodes {
            match state.waiting.remove(&node) {
                Some(watch) => watch.thread.unpark(),
                None => drop(state.missed.insert(node)),
            }
        }
    }

    /// Ends all watches. Later ones return at once.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        std::mem::take(&mut state.waiting).into_values().for_each(|watch| watch.thread.unpark());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, thread::JoinHandle};
    use strait_testkit::wait::eventually;

    const LONG: Duration = Duration::from_secs(60);
    const NODE: NodeId = NodeId(1);

    fn begin(watches: &Arc<Watches>, node: NodeId) -> JoinHandle<Result<bool>> {
        let (this, before) = (Arc::clone(watches), watches.state().last);
        let thread = thread::spawn(move || this.wait(node, LONG));
        eventually("it waits", || watches.state().last > before);
        thread
    }

    #[test]
    fn a_watch_ends_with_orders_with_another_watch_of_the_same_datanode_and_in_time() {
        let watches = Arc::new(Watches::default());
        let (one, other) = (begin(&watches, NODE), begin(&watches, NodeId(2)));
        watches.rouse(BTreeSet::from([NODE]));
        assert_eq!(one.join().unwrap(), Ok(true));
        let earlier = begin(&watches, NODE);
        let later = begin(&watches, NODE);
        assert_eq!(earlier.join().unwrap(), Ok(true));
        assert!(!later.is_finished() && !other.is_finished());
        assert_eq!(watches.wait(NodeId(3), Duration::from_millis(1)), Ok(false));
        watches.end();
        assert_eq!([later, other].map(|watch| watch.join().unwrap()), [Ok(true), Ok(true)]);
        assert_eq!(watches.wait(NODE, LONG), Ok(true), "nobody waits any more");
    }

    #[test]
    fn orders_that_come_between_two_watches_arent_missed() {
        let watches = Watches::default();
        watches.rouse(BTreeSet::from([NODE]));
        assert_eq!(watches.wait(NODE, LONG), Ok(true));
        assert_eq!(watches.wait(NODE, Duration::from_millis(1)), Ok(false));
    }

    #[test]
    fn only_so_many_datanodes_hold_workers() {
        let watches = Arc::new(Watches::default());
        let all: Vec<_> = (1..=MAX_WATCHES as u32).map(|node| begin(&watches, NodeId(node))).collect();
        assert!(matches!(watches.wait(NodeId(0), LONG), Err(Error::Limit(_))));
        let again = begin(&watches, NODE);
        watches.end();
        assert!(all.into_iter().chain([again]).all(|watch| watch.join().unwrap() == Ok(true)));
    }
}
