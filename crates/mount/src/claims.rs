//! Claims order two kinds of requests: those that need a file to keep its name, and those that change names.
//!
//! A removal checks whether the file is open, and then asks the store to remove it or to hide it. A rename
//! gives the open files beneath it their new paths. So an opening must not begin before such a change and end
//! after it: the file would lose its bytes, or its path. An opening claims that the names of its node and of
//! the directories above stay, until the mount knows the file as open. A change claims the names that it
//! takes or gives, with everything beneath them.
//!
//! A claim waits only for earlier claims, so claims can't wait for each other in a circle. A task that has a
//! claim must not wait for a second one.

use crate::nodes::Nodes;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A directory's node, and the name of an entry.
pub type Entry = (u64, Box<str>);

/// All claims that are held or waited for, in the order of their creation.
#[derive(Debug, Default)]
pub struct Claims {
    made: Mutex<Made>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Made {
    last: u64,
    /// Nodes whose paths must not change, by the claim's number.
    stays: BTreeMap<u64, u64>,
    /// Entries that a request changes, by the claim's number.
    changes: BTreeMap<u64, Vec<Entry>>,
}

/// A claim. Dropping it ends it.
#[derive(Debug)]
pub struct Claim<'a> {
    claims: &'a Claims,
    number: u64,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut made = self.claims.made();
        made.stays.remove(&self.number);
        made.changes.remove(&self.number);
        drop(made);
        self.claims.ended.notify_waiters();
    }
}

impl Claims {
    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no earlier claim changes the path of `node`. Later claims that change it wait for this
    /// one.
    pub async fn stay<'a>(&'a self, node: u64, nodes: &Mutex<Nodes>) -> Claim<'a> {
        let number = self.made().add(|made, number| _ = made.stays.insert(number, node));
        self.granted(number, nodes).await
    }

    /// Waits for earlier claims on these entries or on nodes beneath them: those that change them, and those
    /// that need them to stay.
    pub async fn change<'a>(&'a self, entries: Vec<Entry>, nodes: &Mutex<Nodes>) -> Claim<'a> {
        let number = self.made().add(|made, number| _ = made.changes.insert(number, entries));
        self.granted(number, nodes).await
    }

    async fn granted<'a>(&'a self, number: u64, nodes: &Mutex<Nodes>) -> Claim<'a> {
        let claim = Claim { claims: self, number };
        loop {
            // Register before the check, so that the end of a claim isn't missed.
            let ended = self.ended.notified();
            let waits = {
                let made = self.made();
                made.waits(number, &nodes.lock().unwrap_or_else(PoisonError::into_inner))
            };
            if !waits {
                return claim;
            }
            ended.await;
        }
    }
}

impl Made {
    fn add(&mut self, insert: impl FnOnce(&mut Self, u64)) -> u64 {
        self.last += 1;
        insert(self, self.last);
        self.last
    }

    fn waits(&self, number: u64, nodes: &Nodes) -> bool {
        let mut earlier = self.changes.range(..number).flat_map(|(_, entries)| entries);
        let Some(entries) = self.changes.get(&number) else {
            let node = self.stays.get(&number);
            return node.is_some_and(|node| earlier.any(|entry| nodes.is_at_or_beneath(*node, entry)));
        };
        let meet = |one: &Entry, other: &Entry| {
            one == other || nodes.is_at_or_beneath(one.0, other) || nodes.is_at_or_beneath(other.0, one)
        };
        earlier.any(|other| entries.iter().any(|own| meet(own, other)))
            || self
                .stays
                .range(..number)
                .any(|(_, node)| entries.iter().any(|entry| nodes.is_at_or_beneath(*node, entry)))
    }
}
