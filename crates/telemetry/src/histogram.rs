//! Durations, counted without a lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Number of buckets with an upper bound. The bounds are powers of two, from 1 µs to 67 s. One more
/// bucket takes longer durations. Finer bounds would tell little more, and cost memory for each operation.
pub(crate) const BOUNDED: usize = 27;
const BUCKETS: usize = BOUNDED + 1;
/// Number of copies of the counters, over which the threads are distributed. If all threads wrote to
/// one cache line, this would cost each call more than the rest of counting it.
const SHARDS: usize = 8;

/// Counts of durations, in buckets.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    shards: [Shard; SHARDS],
}

/// Aligned to two cache lines, since processors fetch two at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
    errors: AtomicU64,
}

/// A snapshot of the counts. Other threads count while it is taken, so `sum_us` may lack calls that
/// `buckets` has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) buckets: [u64; BUCKETS],
    pub(crate) sum_us: u64,
    pub(crate) errors: u64,
}

impl Histogram {
    pub(crate) fn add(&self, took: Duration, failed: bool) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let shard = &self.shards[shard()];
        shard.buckets[bucket(took_us)].fetch_add(1, Ordering::Relaxed);
        shard.sum_us.fetch_add(took_us, Ordering::Relaxed);
        if failed {
            shard.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for shard in &self.shards {
            for (sum, bucket) in counts.buckets.iter_mut().zip(&shard.buckets) {
                *sum += bucket.load(Ordering::Relaxed);
            }
            counts.sum_us = counts.sum_us.wrapping_add(shard.sum_us.load(Ordering::Relaxed));
            counts.errors += shard.errors.load(Ordering::Relaxed);
        }
        counts
    }
}

/// The first bucket whose upper bound is at least the duration.
fn bucket(took_us: u64) -> usize {
    let powers = u64::BITS - took_us.saturating_sub(1).leading_zeros();
    (powers as usize).min(BOUNDED)
}

/// The index of this thread's copy of the counters.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let mut shard = SHARD.get();
    if shard == usize::MAX {
        shard = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
        SHARD.set(shard);
    }
    shard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_doesnt_pass() {
        for (took_us, expected) in
            [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 26, 26), ((1 << 26) + 1, 27)]
        {
            assert_eq!(bucket(took_us), expected, "{took_us} µs");
        }
        assert_eq!(bucket(u64::MAX), BOUNDED);
    }

    #[test]
    fn what_all_threads_count_is_there_once() {
        let histogram = Histogram::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| {
                    (0..1_000).for_each(|n| histogram.add(Duration::from_micros(3), n % 10 == 0));
                });
            }
        });
        let counts = histogram.counts();
        assert_eq!(counts.buckets.iter().sum::<u64>(), 16_000);
        assert_eq!((counts.buckets[2], counts.sum_us, counts.errors), (16_000, 48_000, 1_600));
    }
}
