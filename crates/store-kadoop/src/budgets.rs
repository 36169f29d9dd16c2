//! The memory that the library's files share with all other files of the process.

use std::sync::{Arc, Weak};
use strait_kadoop_core::client::{Budget, Budgets, Holder};
use strait_store::budget::{Pool, Share};

/// Grants at most half of the pool to each user.
#[derive(Debug)]
struct OfProcess(Arc<Pool>);

/// The budgets for the client of a store.
pub(super) fn of_process() -> Arc<dyn Budgets> {
    Arc::new(OfProcess(Pool::of_process()))
}

impl Budgets for OfProcess {
    fn of(&self, user: &str) -> Arc<dyn Budget> {
        Arc::new(OfUser(self.0.share(user)))
    }
}

/// One user's share of the pool.
#[derive(Debug)]
struct OfUser(Arc<Share>);

impl Budget for OfUser {
    fn take(&self, bytes: u64) -> bool {
        self.0.take(bytes)
    }

    fn give_back(&self, bytes: u64) {
        self.0.give_back(bytes);
    }

    fn register(&self, holder: Weak<dyn Holder>) {
        self.0.register(holder, |file: &(dyn Holder + 'static), idle| file.give_up(idle));
    }
}
