//! Tests of work that threads pass to each other, in any order of execution. Each claim is tried in
//! thousands of orders: random ones, and ones with few switches (probabilistic concurrency
//! testing). `SHUTTLE_ORDERS` sets their number. A failure prints the schedule, which
//! `shuttle::replay` repeats.

mod calling_workers;
mod chains;
mod datagrams;
mod handles;
mod service_workers;
mod sessions;
mod turns;

/// Default number of orders for each claim. All claims together take some seconds.
const ORDERS: usize = 2_000;

/// Number of switches between threads in the schedules with few of them: most bugs of this kind
/// need two or three.
const CHANGES: usize = 3;

/// Divisor of the number of orders for claims with real sockets: such an order takes 20 times as long.
const WITH_SOCKETS: usize = 10;

fn in_any_order(claim: impl Fn() + Send + Sync + 'static) {
    in_orders(1, claim);
}

fn in_any_order_with_sockets(claim: impl Fn() + Send + Sync + 'static) {
    in_orders(WITH_SOCKETS, claim);
}

/// Tries the requested number of orders, divided by `part`.
fn in_orders(part: usize, claim: impl Fn() + Send + Sync + 'static) {
    let orders = std::env::var("SHUTTLE_ORDERS").ok().and_then(|orders| orders.parse().ok());
    let orders = orders.unwrap_or(ORDERS) / part;
    let claim = std::sync::Arc::new(claim);
    let same = std::sync::Arc::clone(&claim);
    shuttle::check_random(move || same(), orders);
    shuttle::check_pct(move || claim(), orders, CHANGES);
}
