//! The memory that the library's files share with all other files of the process.

use crate::budget::{Pool, Share};
use std::sync::{Arc, Weak};
use strait_kadoop::client::{Budget, Budgets, Holder};

/// Grants at most half of the pool to each user.
#[derive(Debug)]
struct OfProcess(Arc<Pool>);

/// The budgets for the client of a store.
pub(super) fn of_process() -> Arc<dyn Budgets> {
    Arc::new(OfProcess(Pool::of_process()))
}

impl Budgets for OfProcess {
    fn of(&self, user: &str) -> Arc<dyn Budget> {
        self.0.share(user)
    }
}

impl Budget for Share {
    fn take(&self, bytes: u64) -> bool {
        Self::take(self, bytes)
    }

    fn give_back(&self, bytes: u64) {
        Self::give_back(self, bytes);
    }

    fn register(&self, holder: Weak<dyn Holder>) {
        Self::register(self, holder, |file: &(dyn Holder + 'static), idle| file.give_up(idle));
    }
}
