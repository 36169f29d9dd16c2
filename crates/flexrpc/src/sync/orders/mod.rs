//! Handing over between threads, in whatever order these run: of each claim some
//! thousand orders are tried, at random, and such as change seldom (probabilistic
//! concurrency testing). `SHUTTLE_ORDERS` sets how many. A failure prints the
//! schedule that `shuttle::replay` repeats.

mod calling_workers;
mod handles;
mod service_workers;
mod sessions;

/// Of each claim, by default: seconds in all.
const ORDERS: usize = 10_000;

/// Changes of who runs, in schedules with few of them: most bugs of this kind take
/// two or three.
const CHANGES: usize = 3;

fn in_any_order(claim: impl Fn() + Send + Sync + 'static) {
    let orders = std::env::var("SHUTTLE_ORDERS").ok().and_then(|orders| orders.parse().ok());
    let orders = orders.unwrap_or(ORDERS);
    let claim = std::sync::Arc::new(claim);
    let same = std::sync::Arc::clone(&claim);
    shuttle::check_random(move || same(), orders);
    shuttle::check_pct(move || claim(), orders, CHANGES);
}
