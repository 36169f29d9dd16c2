//! Requests that the kernel sends again, because the process that had them was killed.
//!
//! A change is recorded before the store may see it, and its answer before the kernel does. If both
//! are there, the answer is given again. If only the first is, the store's state decides: the change
//! counts as executed if it looks so.

use super::{Answer, Attributes, Body, Caller, Core, Fault, Handle, O_ACCMODE, O_RDONLY, Opened, lock};
use crate::ledger::{Kind, Step};
use strait_store::ErrorKind;

impl Core {
    /// The store may see the change from now on.
    pub(super) fn begins(&self, caller: Caller) {
        if !self.is_again(caller) {
            self.ledger.request(caller.request, Step::Begun);
        }
    }

    /// Whether the store may have seen this change before.
    pub(super) fn is_again(&self, caller: Caller) -> bool {
        self.past.begun.contains(&caller.request)
    }

    /// A removal's outcome: what is gone may have been removed by the same request.
    pub(super) fn or_gone(&self, caller: Caller, removed: Answer<()>) -> Answer<()> {
        match removed {
            Err(Fault(errno)) if errno == ErrorKind::NotFound.row().errno && self.is_again(caller) => Ok(()),
            removed => removed,
        }
    }

    /// Executes a change whose answer is empty, or gives its answer again.
    pub async fn once(&self, caller: Caller, change: impl Future<Output = Answer<()>>) -> Answer<()> {
        match self.past.done.get(&caller.request) {
            Some(Step::Fault(errno)) => return Err(Fault(*errno)),
            Some(_) => return Ok(()),
            None => {}
        }
        let answer = change.await;
        self.answers(caller, answer.as_ref().map(|()| Step::Done));
        answer
    }

    /// Executes a change whose answer is an entry, or gives its answer again.
    pub async fn once_made(
        &self,
        caller: Caller,
        change: impl Future<Output = Answer<Attributes>>,
    ) -> Answer<Attributes> {
        match self.past.done.get(&caller.request) {
            Some(Step::Fault(errno)) => return Err(Fault(*errno)),
            Some(Step::Entry(node)) => return self.getattr(caller, *node).await,
            _ => {}
        }
        let answer = change.await;
        self.answers(caller, answer.as_ref().map(|attributes| Step::Entry(attributes.node)));
        answer
    }

    /// Executes a creation, or gives its answer again.
    pub async fn once_created(
        &self,
        caller: Caller,
        change: impl Future<Output = Answer<(Attributes, Opened)>>,
    ) -> Answer<(Attributes, Opened)> {
        if let Some(Step::Fault(errno)) = self.past.done.get(&caller.request) {
            return Err(Fault(*errno));
        }
        let answer = change.await;
        if let Err(fault) = &answer {
            // Otherwise its handle shows that it was executed.
            self.answers(caller, Err(fault));
        }
        answer
    }

    fn answers(&self, caller: Caller, answer: Result<Step, &Fault>) {
        let step = answer.unwrap_or_else(|fault| Step::Fault(fault.0));
        self.ledger.request(caller.request, step);
    }

    /// The kernel has the request's answer.
    pub fn answered(&self, request: u64) {
        self.ledger.answered(request);
    }

    /// Published runs of an earlier process mean nothing. Before this one writes any: they have the same
    /// numbers.
    pub fn forget_stale(&self) {
        self.past.stale.iter().for_each(|run| self.ledger.forget(Kind::Run, *run));
    }

    /// The requests of an earlier process were sent again. Without this, their values would stay in the
    /// record: each kill would add to it.
    pub fn forget_past(&self) {
        self.past.done.keys().for_each(|request| self.ledger.answered(*request));
    }

    /// The handle that an earlier process gave this request.
    pub(super) fn opened_before(&self, caller: Caller, flags: i32) -> Option<Opened> {
        let handle = *self.past.opened.get(&caller.request)?;
        let Some(Handle::File { file, .. }) = lock(&self.handles).get(&handle).cloned() else {
            return None;
        };
        let direct = flags & O_ACCMODE != O_RDONLY && matches!(file.body, Body::Plain(_));
        Some(Opened { handle, direct, cached: false })
    }
}
