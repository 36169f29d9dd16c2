//! The lease holders of a store, one for each user.

use super::super::namenode::Namenode;
use super::holder::LeaseHolder;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Holders kept: each may have a connection, which ends when it is idle. With more users at a time,
/// a new connection costs some hundred microseconds.
const MAX_HOLDERS: usize = 256;

/// The holders, by user.
#[derive(Debug, Default)]
pub struct Holders(Mutex<Cache>);

#[derive(Debug, Default)]
struct Cache {
    holders: HashMap<String, (Arc<LeaseHolder>, u64)>,
    /// Counts uses; the holder with the smallest count has been unused longest.
    clock: u64,
}

impl Holders {
    pub fn get(&self, namenode: &Arc<Namenode>, user: &str) -> Arc<LeaseHolder> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Cache { holders, clock } = &mut *cache;
        *clock += 1;
        if let Some((holder, used)) = holders.get_mut(user) {
            *used = *clock;
            return Arc::clone(holder);
        }
        if holders.len() >= MAX_HOLDERS {
            let oldest = holders.iter().min_by_key(|(_, (_, used))| *used).map(|(user, _)| user.clone());
            oldest.map(|user| holders.remove(&user));
        }
        let holder = Arc::new(LeaseHolder::new(Arc::clone(namenode), user));
        holders.insert(user.to_owned(), (Arc::clone(&holder), *clock));
        holder
    }
}
