//! A cache of values that are costly to fetch, with limits on their number and age.

use std::{
    collections::BTreeMap,
    ops::RangeBounds,
    sync::{Arc, OnceLock},
};
use strait_kadoop_core::Millis;

/// A value, or None if the fetch failed. The first thread that needs it fetches it for all threads.
pub(super) type Slot<T> = Arc<OnceLock<Option<T>>>;

/// Limits on number and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Most values in the cache. Evicted values that are still in use don't count.
    pub most: usize,
    /// Time after which a value is fetched again.
    pub keep_ms: Millis,
    /// Time after which an unused value is evicted.
    pub idle_ms: Millis,
    /// Time after which a failed fetch is retried.
    pub retry_ms: Millis,
    /// A value that was used within this time isn't evicted for another. Otherwise, a user that cycles
    /// through more values than fit would fetch each one again on each cycle.
    pub lively_ms: Millis,
}

/// The cached values, by key.
#[derive(Debug)]
pub(super) struct Shelf<K, T> {
    limits: Limits,
    kept: BTreeMap<K, Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    slot: Slot<T>,
    since: Millis,
    used: Millis,
}

impl<K: Ord + Copy, T> Shelf<K, T> {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, kept: BTreeMap::new() }
    }

    /// The slot for a value, and whether the slot is new. None: there is no room.
    pub(super) fn slot(&mut self, key: K, now: Millis) -> Option<(Slot<T>, bool)> {
        let limits = self.limits;
        if let Some(kept) = self.kept.get_mut(&key).filter(|kept| !kept.is_over(now, limits)) {
            kept.used = now;
            return Some((Arc::clone(&kept.slot), false));
        }
        self.kept.remove(&key);
        if self.kept.len() >= limits.most {
            // Evict slots without a value first.
            let first = self.kept.iter().min_by_key(|(_, kept)| (kept.is_there(), kept.used));
            let (first, kept) = first?;
            if kept.is_there() && now < kept.used + limits.lively_ms {
                return None;
            }
            let first = *first;
            self.kept.remove(&first);
        }
        let slot = Slot::default();
        self.kept.insert(key, Kept { slot: Arc::clone(&slot), since: now, used: now });
        Some((slot, true))
    }

    /// Replaces a value that turned out unusable by a failed fetch.
    pub(super) fn fail(&mut self, key: K, now: Millis) {
        let slot = Arc::new(OnceLock::from(None));
        self.kept.insert(key, Kept { slot, since: now, used: now });
    }

    /// Removes values that are too old or were unused for too long.
    pub(super) fn expire(&mut self, now: Millis) -> Vec<Slot<T>> {
        let limits = self.limits;
        let idle = |kept: &Kept<T>| now >= kept.used + limits.idle_ms;
        self.take(.., |_, kept| kept.is_over(now, limits) || idle(kept))
    }

    /// Removes the values of a range of keys for which `fits` is false.
    pub(super) fn keep(&mut self, range: impl RangeBounds<K>, fits: impl Fn(&K) -> bool) -> Vec<Slot<T>> {
        self.take(range, |key, _| !fits(key))
    }

    /// Removes values and returns them, so that the caller can drop them outside the lock: closing the last
    /// descriptor of a deleted file frees its space, which takes time.
    fn take(&mut self, range: impl RangeBounds<K>, goes: impl Fn(&K, &Kept<T>) -> bool) -> Vec<Slot<T>> {
        let gone = self.kept.range(range).filter(|(key, kept)| goes(key, kept));
        let gone: Vec<K> = gone.map(|(key, _)| *key).collect();
        gone.iter().filter_map(|key| self.kept.remove(key)).map(|kept| kept.slot).collect()
    }

    /// Number of slots with a value.
    pub(super) fn count(&self) -> usize {
        self.kept.values().filter(|kept| kept.is_there()).count()
    }
}

impl<T> Kept<T> {
    fn is_there(&self) -> bool {
        matches!(self.slot.get(), Some(Some(_)))
    }

    fn is_over(&self, now: Millis, limits: Limits) -> bool {
        let failed = matches!(self.slot.get(), Some(None));
        now >= self.since + if failed { limits.retry_ms } else { limits.keep_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { most: 3, keep_ms: 100, idle_ms: 50, retry_ms: 10, lively_ms: 5 };

    /// Gets a value; true if it had to be fetched, None without room.
    fn get(shelf: &mut Shelf<u32, u32>, key: u32, now: Millis) -> Option<bool> {
        let mut got = false;
        shelf.slot(key, now)?.0.get_or_init(|| {
            got = true;
            Some(key)
        });
        Some(got)
    }

    #[test]
    fn a_thing_is_got_once_and_again_when_its_time_is_over() {
        let mut shelf = Shelf::new(LIMITS);
        assert_eq!(get(&mut shelf, 1, 0), Some(true));
        assert_eq!(get(&mut shelf, 1, 99), Some(false));
        assert_eq!(get(&mut shelf, 1, 100), Some(true));
    }

    #[test]
    fn what_couldnt_be_had_is_tried_again_after_a_while() {
        let mut shelf = Shelf::<u32, u32>::new(LIMITS);
        shelf.slot(1, 0).unwrap().0.get_or_init(|| None);
        assert_eq!(get(&mut shelf, 1, 9), Some(false));
        assert_eq!(get(&mut shelf, 1, 10), Some(true));
        shelf.fail(1, 12);
        assert_eq!(shelf.count(), 0);
        assert_eq!(get(&mut shelf, 1, 21), Some(false));
        assert_eq!(get(&mut shelf, 1, 22), Some(true));
    }

    #[test]
    fn there_are_never_more_than_the_most_and_the_lively_ones_stay() {
        let mut shelf = Shelf::new(LIMITS);
        for key in 0..3 {
            assert_eq!(get(&mut shelf, key, u64::from(key)), Some(true));
        }
        assert_eq!(get(&mut shelf, 3, 4), None, "all were used just now");
        assert_eq!(get(&mut shelf, 0, 4), Some(false));
        assert_eq!(get(&mut shelf, 3, 6), Some(true), "1 wasn't used for five milliseconds");
        assert_eq!(get(&mut shelf, 1, 6), None);
        assert_eq!(shelf.count(), 3);
    }

    #[test]
    fn empty_places_give_way_first_and_a_new_one_is_said_to_be() {
        let mut shelf = Shelf::<u32, u32>::new(LIMITS);
        get(&mut shelf, 0, 0);
        assert!((1..10).all(|key| shelf.slot(key, 1).unwrap().1));
        assert!(!shelf.slot(9, 1).unwrap().1);
        assert_eq!((get(&mut shelf, 0, 1), shelf.count()), (Some(false), 1));
    }

    #[test]
    fn what_nobody_uses_goes_and_what_doesnt_fit_any_more() {
        let mut shelf = Shelf::new(LIMITS);
        for key in 0..3 {
            get(&mut shelf, key, u64::from(key) * 20);
        }
        assert_eq!(shelf.expire(49).len(), 0);
        assert_eq!(shelf.expire(50).len(), 1);
        assert_eq!(shelf.keep(..2, |key| *key != 1).len(), 1);
        assert_eq!((get(&mut shelf, 2, 50), shelf.count()), (Some(false), 1));
    }
}
