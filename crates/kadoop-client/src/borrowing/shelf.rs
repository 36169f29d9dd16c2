//! A cache of things that are costly to get, bounded in number and time.

use std::{
    collections::BTreeMap,
    ops::RangeBounds,
    sync::{Arc, OnceLock},
};
use strait_kadoop_core::Millis;

/// A thing, or the fact that it can't be had. The first thread that needs it gets it for all.
pub(super) type Slot<T> = Arc<OnceLock<Option<T>>>;

/// Limits on number and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Most things at a time. Things in use elsewhere may come on top.
    pub most: usize,
    /// Time after which a thing is fetched again.
    pub keep_ms: Millis,
    /// Time after which an unused thing is evicted.
    pub idle_ms: Millis,
    /// Time after which a failed fetch is retried.
    pub retry_ms: Millis,
    /// A thing used so recently isn't evicted for another. A user that cycles through more than fit
    /// would otherwise fetch each of them again each time.
    pub lively_ms: Millis,
}

/// Things by key.
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

    /// The slot of a thing, and whether it is new; None without room.
    pub(super) fn slot(&mut self, key: K, now: Millis) -> Option<(Slot<T>, bool)> {
        let limits = self.limits;
        if let Some(kept) = self.kept.get_mut(&key).filter(|kept| !kept.is_over(now, limits)) {
            kept.used = now;
            return Some((Arc::clone(&kept.slot), false));
        }
        self.kept.remove(&key);
        if self.kept.len() >= limits.most {
            // Evict empty slots first.
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

    /// Records that the thing can't be had, after a user has found out.
    pub(super) fn fail(&mut self, key: K, now: Millis) {
        let slot = Arc::new(OnceLock::from(None));
        self.kept.insert(key, Kept { slot, since: now, used: now });
    }

    /// Takes out things that were kept or idle for too long.
    pub(super) fn expire(&mut self, now: Millis) -> Vec<Slot<T>> {
        let limits = self.limits;
        let idle = |kept: &Kept<T>| now >= kept.used + limits.idle_ms;
        self.take(.., |_, kept| kept.is_over(now, limits) || idle(kept))
    }

    /// Takes out the things of a range that don't fit any more.
    pub(super) fn keep(&mut self, range: impl RangeBounds<K>, fits: impl Fn(&K) -> bool) -> Vec<Slot<T>> {
        self.take(range, |key, _| !fits(key))
    }

    /// Returns the things taken out, so that the caller drops them without a lock: closing a
    /// deleted file's last descriptor frees its space, which takes time.
    fn take(&mut self, range: impl RangeBounds<K>, goes: impl Fn(&K, &Kept<T>) -> bool) -> Vec<Slot<T>> {
        let gone = self.kept.range(range).filter(|(key, kept)| goes(key, kept));
        let gone: Vec<K> = gone.map(|(key, _)| *key).collect();
        gone.iter().filter_map(|key| self.kept.remove(key)).map(|kept| kept.slot).collect()
    }

    /// Number of things present.
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

    /// Puts a thing on the shelf; true if it had to be fetched.
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
