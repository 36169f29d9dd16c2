//! Orders that wait to be sent to a datanode, or to be carried out by it.

use crate::{
    ChunkId, Stamp,
    messages::{Order, Source},
};
use std::collections::BTreeMap;

/// Most waiting orders to one datanode to compare a replica with its checksums. Readers cause these
/// orders, so they need a bound.
const MAX_VERIFIES: usize = 1_000;

/// The kind of an order. Orders are sent in this sequence, so recoveries and their writers don't
/// wait behind thousands of deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Fence,
    Seal,
    Copy,
    Delete,
    Verify,
}

/// The orders for one datanode: at most one of each kind for each chunk, the one with the highest
/// stamp.
#[derive(Debug, Default)]
pub(super) struct Orders(BTreeMap<(Kind, ChunkId), Waiting>);

/// An order. `sent` says whether it, or an order that it replaced, was sent to the datanode.
#[derive(Debug)]
struct Waiting {
    order: Order,
    sent: bool,
}

impl Orders {
    /// Adds an order.
    pub(super) fn add(&mut self, order: Order) {
        let (kind, chunk, stamp) = parts(&order);
        let waiting = self.0.get(&(kind, chunk));
        if waiting.is_some_and(|waiting| parts(&waiting.order).2 > stamp) {
            return;
        }
        if kind == Kind::Verify
            && waiting.is_none()
            && self.0.range((kind, ChunkId(0))..).count() >= MAX_VERIFIES
        {
            return;
        }
        let sent = waiting.is_some_and(|waiting| waiting.sent);
        self.0.insert((kind, chunk), Waiting { order, sent });
    }

    /// Removes the order of this kind for the chunk, carried out or obsolete, if its stamp is at most
    /// `upto`.
    pub(super) fn end(&mut self, kind: Kind, chunk: ChunkId, upto: Stamp) {
        if self.0.get(&(kind, chunk)).is_some_and(|waiting| parts(&waiting.order).2 <= upto) {
            self.0.remove(&(kind, chunk));
        }
    }

    /// Removes an order that wasn't sent. Returns false if it was sent, or if there is none.
    pub(super) fn withdraw(&mut self, kind: Kind, chunk: ChunkId) -> bool {
        let unsent = self.0.get(&(kind, chunk)).is_some_and(|waiting| !waiting.sent);
        if unsent {
            self.0.remove(&(kind, chunk));
        }
        unsent
    }

    /// The next orders to send, at most `most`.
    pub(super) fn next(&mut self, most: usize) -> Vec<Order> {
        let next = self.0.values_mut().take(most).map(|waiting| {
            waiting.sent = true;
            waiting.order.clone()
        });
        let next: Vec<Order> = next.collect();
        for order in &next {
            // Send these kinds once: if the order is lost, a copy has a deadline, and the datanode's
            // own scrub compares the replica. Other orders stay, so the next answer repeats them.
            let (kind, chunk, _) = parts(order);
            if matches!(kind, Kind::Copy | Kind::Verify) {
                self.0.remove(&(kind, chunk));
            }
        }
        next
    }
}

fn parts(order: &Order) -> (Kind, ChunkId, Stamp) {
    match order {
        Order::Fence { chunk, stamp } => (Kind::Fence, *chunk, *stamp),
        Order::Seal { chunk, stamp, .. } => (Kind::Seal, *chunk, *stamp),
        Order::Copy(Source { chunk, stamp, .. }) => (Kind::Copy, *chunk, *stamp),
        Order::Delete { chunk, stamp } => (Kind::Delete, *chunk, *stamp),
        Order::Verify { chunk, stamp } => (Kind::Verify, *chunk, *stamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delete(chunk: u64, stamp: u64) -> Order {
        Order::Delete { chunk: ChunkId(chunk), stamp: Stamp(stamp) }
    }

    #[test]
    fn of_orders_for_one_chunk_the_one_with_the_highest_stamp_is_given_until_it_is_done() {
        let mut orders = Orders::default();
        [delete(1, 7), delete(1, 5)].into_iter().for_each(|order| orders.add(order));
        assert_eq!(orders.next(9), [delete(1, 7)]);
        orders.end(Kind::Delete, ChunkId(1), Stamp(6));
        assert_eq!(orders.next(9), [delete(1, 7)]);
        orders.end(Kind::Delete, ChunkId(1), Stamp(7));
        assert_eq!(orders.next(9), []);
    }

    #[test]
    fn only_an_order_that_was_never_sent_is_withdrawn() {
        let mut orders = Orders::default();
        orders.add(delete(1, 7));
        assert!(orders.withdraw(Kind::Delete, ChunkId(1)));
        assert!(!orders.withdraw(Kind::Delete, ChunkId(1)), "there is none");
        assert_eq!(orders.next(9), []);
        orders.add(delete(1, 7));
        assert_eq!(orders.next(9), [delete(1, 7)]);
        assert!(!orders.withdraw(Kind::Delete, ChunkId(1)));
        // The datanode may have the order that this one replaces.
        orders.add(delete(1, 8));
        assert!(!orders.withdraw(Kind::Delete, ChunkId(1)));
        assert_eq!(orders.next(9), [delete(1, 8)]);
    }

    #[test]
    fn recoveries_come_before_deletions() {
        let mut orders = Orders::default();
        (1..=500).for_each(|chunk| orders.add(delete(chunk, 1)));
        let (chunk, stamp) = (ChunkId(900), Stamp(9));
        let recovery = [Order::Fence { chunk, stamp }, Order::Seal { chunk, stamp, length: 5 }];
        recovery.iter().for_each(|order| orders.add(order.clone()));
        assert_eq!(orders.next(2), recovery);
        assert_eq!(orders.next(100).len(), 100);
    }
}
