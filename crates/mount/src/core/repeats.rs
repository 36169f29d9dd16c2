//! Requests that the kernel resends because the process that had received them was killed.
//!
//! A change is recorded before the store can see it, and its answer is recorded before the kernel gets it. If
//! both records exist, a resent request gets the same answer. If only the first exists, the store's state
//! decides: the change counts as executed if its effect is visible.

use super::{Answer, Attributes, Body, Caller, Core, Fault, Handle, O_ACCMODE, O_RDONLY, Opened, lock};
use crate::ledger::{Kind, Step};
use strait_store::ErrorKind;

impl Core {
    /// Records that the store may see the change from now on.
    pub(super) fn begins(&self, caller: Caller) {
        if !self.is_again(caller) {
            self.ledger.request(caller.request, Step::Begun);
        }
    }

    /// Whether an earlier process began this change, so that the store may have executed it.
    pub(super) fn is_again(&self, caller: Caller) -> bool {
        self.past.begun.contains(&caller.request)
    }

    /// A removal's outcome. A missing file counts as success if an earlier process began the same request:
    /// that process may have removed it.
    pub(super) fn or_gone(&self, caller: Caller, removed: Answer<()>) -> Answer<()> {
        match removed {
            Err(Fault(errno)) if errno == ErrorKind::NotFound.row().errno && self.is_again(caller) => Ok(()),
            removed => removed,
        }
    }

    /// Executes a change whose answer is empty. If it was answered before, returns that answer.
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

    /// Executes a change whose answer is an entry. If it was answered before, returns that answer.
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

    /// Executes a creation. If it was answered before, returns that answer.
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
            // A success needn't be recorded: the handle's record shows it.
            self.answers(caller, Err(fault));
        }
        answer
    }

    fn answers(&self, caller: Caller, answer: Result<Step, &Fault>) {
        let step = answer.unwrap_or_else(|fault| Step::Fault(fault.0));
        self.ledger.request(caller.request, step);
    }

    /// The kernel has received the request's answer.
    pub fn answered(&self, request: u64) {
        self.ledger.answered(request);
    }

    /// Forgets runs of an earlier process that were published. Call this before this process writes runs:
    /// they use the same numbers.
    pub fn forget_stale(&self) {
        self.past.stale.iter().for_each(|run| self.ledger.forget(Kind::Run, *run));
    }

    /// Forgets the requests of an earlier process, after the kernel has resent them. Otherwise their values
    /// would stay in the record, and each kill would add more.
    pub fn forget_past(&self) {
        self.past.done.keys().for_each(|request| self.ledger.answered(*request));
    }

    /// The handle with which an earlier process answered this request.
    pub(super) fn opened_before(&self, caller: Caller, flags: i32) -> Option<Opened> {
        let handle = *self.past.opened.get(&caller.request)?;
        let Some(Handle::File { file, .. }) = lock(&self.handles).get(&handle).cloned() else {
            return None;
        };
        let direct = flags & O_ACCMODE != O_RDONLY && matches!(file.body, Body::Plain(_));
        Some(Opened { handle, direct, cached: false })
    }
}
