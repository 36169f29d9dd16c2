//! The memory that the library's files share with all others of the process.

use crate::budget::{Pool, Share};
use std::sync::{Arc, Weak};
use strait_kadoop::client::{Budget, Budgets, Holder};

/// Half of it for each user.
#[derive(Debug)]
struct OfProcess(Arc<Pool>);

/// What a client gets whose files are a store's.
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
