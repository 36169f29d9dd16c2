//! Handing over between threads, in whatever order these run: of each claim some
//! thousand orders are tried, at random, and such as change seldom (probabilistic
//! concurrency testing). `SHUTTLE_ORDERS` sets how many. A failure prints the
//! schedule that `shuttle::replay` repeats.

mod calling_workers;
mod chains;
mod datagrams;
mod handles;
mod service_workers;
mod sessions;
mod turns;

/// Of each claim, by default: half a minute in all.
const ORDERS: usize = 10_000;

/// Changes of who runs, in schedules with few of them: most bugs of this kind take
/// two or three.
const CHANGES: usize = 3;

/// Of claims with real sockets in them so many times fewer: each order takes twice as many times
/// as long.
const WITH_SOCKETS: usize = 10;

fn in_any_order(claim: impl Fn() + Send + Sync + 'static) {
    in_orders(1, claim);
}

fn in_any_order_with_sockets(claim: impl Fn() + Send + Sync + 'static) {
    in_orders(WITH_SOCKETS, claim);
}

/// In one of `part` orders that are asked for.
fn in_orders(part: usize, claim: impl Fn() + Send + Sync + 'static) {
    let orders = std::env::var("SHUTTLE_ORDERS").ok().and_then(|orders| orders.parse().ok());
    let orders = orders.unwrap_or(ORDERS) / part;
    let claim = std::sync::Arc::new(claim);
    let same = std::sync::Arc::clone(&claim);
    shuttle::check_random(move || same(), orders);
    shuttle::check_pct(move || claim(), orders, CHANGES);
}
