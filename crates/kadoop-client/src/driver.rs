//! Drives a core, a reader's or a writer's: makes its calls, several at a time, and reports their outcomes to
//! it.

use super::pool::Pool;
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use strait_kadoop_core::{
    Millis,
    client::{Core, Issue},
};
use strait_kadoop_wire::clock::Clock;

/// Longest sleep of an application's thread before it runs the core's periodic work.
const LOOK_MS: Millis = 1_000;

/// A call of the core of `D`.
pub(super) type IssueOf<D> = Issue<<<D as Driver>::Core as Core>::Call>;

/// A core, and what the threads that serve it share.
pub(super) struct Shared<C> {
    core: Mutex<C>,
    changed: Condvar,
    pool: Pool,
    clock: Clock,
}

impl<C> Shared<C> {
    /// Shares a core. Its calls are made in threads of `pool`.
    pub(super) fn new(core: C, pool: Pool, clock: Clock) -> Self {
        Self { core: Mutex::new(core), changed: Condvar::new(), pool, clock }
    }

    /// The core, unless another thread has it.
    pub(super) fn try_core(&self) -> Option<MutexGuard<'_, C>> {
        self.core.try_lock().ok()
    }

    /// The core.
    pub(super) fn core(&self) -> MutexGuard<'_, C> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, for the core.
    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Runs a job in another thread.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.pool.run(job);
    }
}

/// Makes the calls of one core.
pub(super) trait Driver: Sized + Send + Sync + 'static {
    type Core: Core;

    fn shared(&self) -> &Shared<Self::Core>;

    /// Makes a call, and reports its outcome to the core. `deadline` is that of the caller whose thread makes it.
    /// If others wait for the call, too, it fails for them as well, and is repeated.
    fn make(self: &Arc<Self>, issue: IssueOf<Self>, deadline: Option<Instant>);

    /// Looks at the core after its periodic work.
    fn look(self: &Arc<Self>, _core: &Self::Core) {}

    fn core(&self) -> MutexGuard<'_, Self::Core> {
        self.shared().core()
    }

    fn now(&self) -> Millis {
        self.shared().now()
    }

    /// Sleeps until something changes or is due, or until the deadline.
    fn wait<'c>(
        self: &'c Arc<Self>,
        core: MutexGuard<'c, Self::Core>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'c, Self::Core> {
        let due = core.wake_at().map_or(LOOK_MS, |at| at.saturating_sub(self.now())).clamp(1, LOOK_MS);
        let due = within(Duration::from_millis(due), deadline);
        let woken = self.shared().changed.wait_timeout(core, due);
        let (mut core, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            core.tick(self.now());
            self.look(&core);
        }
        core
    }

    /// Passes all due calls to other threads.
    fn submit(self: &Arc<Self>, core: &mut Self::Core) {
        while let Some(issue) = core.next_call() {
            let this = Arc::clone(self);
            self.shared().run(move || this.work(issue));
        }
    }

    /// Passes all due calls except the first to other threads. Returns the first, for this thread.
    fn submit_but_one(self: &Arc<Self>, core: &mut Self::Core) -> Option<IssueOf<Self>> {
        let first = core.next_call();
        self.submit(core);
        first
    }

    /// Makes a call, and wakes the threads that wait for its outcome.
    fn perform(self: &Arc<Self>, issue: IssueOf<Self>, deadline: Option<Instant>) {
        self.make(issue, deadline);
        self.shared().changed.notify_all();
    }

    /// Makes a call, and then one of the calls that become due by it, until none is due.
    fn work(self: &Arc<Self>, issue: IssueOf<Self>) {
        let mut next = Some(issue);
        while let Some(issue) = next {
            self.perform(issue, None);
            next = self.submit_but_one(&mut self.core());
        }
    }
}

/// The time, but at most until the deadline.
pub(super) fn within(time: Duration, deadline: Option<Instant>) -> Duration {
    deadline.map_or(time, |deadline| time.min(deadline.saturating_duration_since(Instant::now())))
}
