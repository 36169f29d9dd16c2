//! Converts between times of the store and of the kernel.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The store's time as the kernel's.
pub fn time(ms: i64) -> SystemTime {
    let distance = Duration::from_millis(ms.unsigned_abs());
    if ms < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// The kernel's time as the store's.
pub fn milliseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_millis().try_into().unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    }
}
