//! Clients that hold shared memory and move their bytes too slowly.
//!
//! A connection records when it began to receive a large request or to send an answer, and how many
//! bytes have moved since. While another request waits for memory, the gateway ends connections below
//! the minimum rate, the slowest first, until enough memory is free. For a waiting request, it ends only
//! connections of the same holder, or of holders that have more. If no request waits, it ends none.

use crate::pool::{Holder, Need};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Least time between two searches of all connections, for any number of waiting requests.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// With fewer connections, the list isn't searched for closed ones.
const FIRST_LOOK: usize = 64;

/// Direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the gateway: a request.
    In,
    /// From the gateway: answers.
    Out,
}

/// Fires when the connection has to end.
pub type Cut = oneshot::Receiver<()>;

/// Record of a connection's moved bytes.
pub struct Flow {
    /// Bytes in and out so far.
    moved: [AtomicU64; 2],
    /// A sample for each direction, while the client has to move bytes for which the connection holds
    /// memory.
    since: Mutex<[Option<Sample>; 2]>,
    end: Mutex<Option<oneshot::Sender<()>>>,
}

struct Sample {
    holder: Arc<Holder>,
    /// Units that the end of the connection frees.
    units: usize,
    at: Instant,
    moved: u64,
}

impl Flow {
    /// Adds moved bytes.
    pub fn moved(&self, way: Way, bytes: usize) {
        self.moved[way as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records that the client has to move bytes for which the connection holds `units`. With 0 units, it
    /// has to move none any more.
    pub fn holds(&self, way: Way, holder: &Arc<Holder>, units: usize) {
        let since = &mut self.lock()[way as usize];
        match since {
            _ if units == 0 => *since = None,
            Some(sample) => sample.units = units,
            None => {
                let moved = self.moved[way as usize].load(Ordering::Relaxed);
                *since = Some(Sample { holder: holder.clone(), units, at: Instant::now(), moved });
            }
        }
    }

    fn end(&self) {
        *self.lock() = [None, None];
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A closed connection needs no signal.
        let _ = end.map(|end| end.send(()));
    }

    fn lock(&self) -> MutexGuard<'_, [Option<Sample>; 2]> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The flows of all connections.
pub struct Flows {
    min_rate_bytes_per_s: u64,
    grace: Duration,
    known: Mutex<Known>,
    cut: AtomicU64,
}

#[derive(Default)]
struct Known {
    flows: Vec<Weak<Flow>>,
    full_at: usize,
    looked: Option<Instant>,
}

/// A connection that may be ended.
struct Candidate {
    flow: Arc<Flow>,
    holder: Arc<Holder>,
    units: usize,
    rate: f64,
}

impl Flows {
    /// No connections yet. Each client has to move `min_rate_bytes_per_s`, measured over at least `grace`.
    pub fn new(min_rate_bytes_per_s: u64, grace: Duration) -> Self {
        Self { min_rate_bytes_per_s, grace, known: Mutex::default(), cut: AtomicU64::new(0) }
    }

    /// Adds a new connection.
    pub fn add(&self) -> (Arc<Flow>, Cut) {
        let (end, cut) = oneshot::channel();
        let flow =
            Arc::new(Flow { moved: Default::default(), since: Mutex::default(), end: Mutex::new(Some(end)) });
        let mut known = self.lock();
        if known.flows.len() >= known.full_at {
            known.flows.retain(|flow| flow.strong_count() > 0);
            known.full_at = (2 * known.flows.len()).max(FIRST_LOOK);
        }
        known.flows.push(Arc::downgrade(&flow));
        (flow, cut)
    }

    /// Number of connections ended.
    pub fn connections_cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Ends slow connections in favour of waiting requests.
    pub fn cut_slow(&self, needs: impl FnOnce() -> Vec<Need>) {
        let mut slow = {
            let mut known = self.lock();
            if known.looked.is_some_and(|at| at.elapsed() < LOOK_PAUSE) {
                return;
            }
            known.looked = Some(Instant::now());
            let flows = known.flows.iter().filter_map(Weak::upgrade);
            flows.flat_map(|flow| self.slow(&flow)).collect::<Vec<Candidate>>()
        };
        slow.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        for need in needs() {
            let mut lacking = need.units;
            slow.retain(|candidate| {
                let own = Arc::ptr_eq(&candidate.holder, &need.holder);
                let helps = own || !need.own && candidate.holder.held() > need.holder.held();
                if lacking == 0 || !helps {
                    return true;
                }
                lacking = lacking.saturating_sub(candidate.units);
                candidate.flow.end();
                self.cut.fetch_add(1, Ordering::Relaxed);
                false
            });
        }
    }

    /// The directions in which a connection is below the minimum rate.
    fn slow(&self, flow: &Arc<Flow>) -> Vec<Candidate> {
        let mut since = flow.lock();
        let mut slow = Vec::new();
        for way in [Way::In, Way::Out] {
            let Some(sample) = &mut since[way as usize] else { continue };
            let (moved, lasted) = (flow.moved[way as usize].load(Ordering::Relaxed), sample.at.elapsed());
            if lasted < self.grace {
                continue;
            }
            let rate = (moved - sample.moved) as f64 / lasted.as_secs_f64();
            if rate < self.min_rate_bytes_per_s as f64 {
                let (holder, units) = (sample.holder.clone(), sample.units);
                slow.push(Candidate { flow: flow.clone(), holder, units, rate });
            } else if lasted >= 2 * self.grace {
                // Bytes moved long ago don't excuse a client that has stopped.
                (sample.at, sample.moved) = (Instant::now(), moved);
            }
        }
        slow
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Grant, Key, Pool};
    use tokio::time::advance;

    const GRACE: Duration = Duration::from_secs(1);

    struct Scene {
        pool: Arc<Pool>,
        flows: Flows,
    }

    /// A connection that receives a request.
    struct Client {
        flow: Arc<Flow>,
        holder: Arc<Holder>,
        cut: Cut,
        _held: Grant,
    }

    impl Client {
        fn is_cut(&mut self) -> bool {
            self.cut.try_recv().is_ok()
        }
    }

    impl Scene {
        fn new() -> Self {
            Self { pool: Pool::new(64), flows: Flows::new(1_000, GRACE) }
        }

        fn client(&self, user: &str) -> Client {
            let (flow, cut) = self.flows.add();
            let holder = self.pool.holder(&Key::User(user.into()));
            let held = holder.try_take(4).unwrap();
            flow.holds(Way::In, &holder, held.units());
            Client { flow, holder, cut, _held: held }
        }

        /// A user needs units.
        fn look(&self, user: &str, units: usize, own: bool) {
            let holder = self.pool.holder(&Key::User(user.into()));
            self.flows.cut_slow(|| vec![Need { holder, units, own }]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_go_first_and_no_more_than_are_needed() {
        let scene = Scene::new();
        let [mut slow, mut slower, mut fast] = [(); 3].map(|()| scene.client("ada"));
        advance(GRACE).await;
        slow.flow.moved(Way::In, 10);
        fast.flow.moved(Way::In, 1 << 30);
        scene.look("bob", 4, false);
        assert!(slower.is_cut() && !slow.is_cut() && !fast.is_cut());
        advance(LOOK_PAUSE).await;
        scene.look("bob", 100, false);
        assert!(slow.is_cut() && !fast.is_cut());
        assert_eq!(scene.flows.connections_cut(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_with_a_full_share_costs_nobody_else_a_connection() {
        let scene = Scene::new();
        let (mut own, mut other) = (scene.client("ada"), scene.client("bob"));
        advance(GRACE).await;
        scene.look("ada", 16, true);
        assert!(own.is_cut() && !other.is_cut());
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_holding_more_than_others_costs_them_no_connection() {
        let scene = Scene::new();
        let [mut first, mut second] = [(); 2].map(|()| scene.client("ada"));
        let mut other = scene.client("bob");
        advance(GRACE).await;
        scene.look("ada", 100, false);
        assert!(first.is_cut() && second.is_cut() && !other.is_cut());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_time_to_begin_and_none_to_rest_later() {
        let scene = Scene::new();
        let mut client = scene.client("ada");
        scene.look("bob", 4, false);
        assert!(!client.is_cut(), "it has just begun");
        client.flow.moved(Way::In, 1 << 30);
        advance(2 * GRACE).await;
        scene.look("bob", 4, false);
        assert!(!client.is_cut(), "it was fast");
        advance(GRACE).await;
        scene.look("bob", 4, false);
        assert!(client.is_cut(), "and has stopped");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_for_the_gateway_is_not_slow() {
        let scene = Scene::new();
        let mut client = scene.client("ada");
        advance(GRACE).await;
        client.flow.holds(Way::In, &client.holder, 0);
        scene.look("bob", 16, false);
        assert!(!client.is_cut());
    }
}
