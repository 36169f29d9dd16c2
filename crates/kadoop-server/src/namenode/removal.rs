//! Removals of trees. In a large tree, the rights to all directories are checked in steps. Other calls
//! get the lock between two steps.

use super::{SWEEP_PAUSE, Shared};
use std::thread;
use strait_kadoop_core::{
    error::{Error, Result},
    messages::{Answer, Caller, Mutation, RequestId},
    namenode::SurveyId,
};
use strait_kadoop_wire::clock::wall;

impl Shared {
    /// Executes `mutation`, a recursive deletion of `path`.
    pub(super) fn remove_tree(
        &self,
        caller: &Caller,
        request: RequestId,
        mutation: &Mutation,
        path: &str,
    ) -> Result<Answer> {
        loop {
            let mut survey = None;
            let removed = self.change(|namenode, now| {
                self.demand_room(namenode, request)?;
                if !namenode.has_answered(request) {
                    survey = namenode.begin_survey(caller, path)?;
                }
                match survey {
                    Some(_) => Err(Error::Busy),
                    None => namenode.mutate(caller, request, mutation, &[], now, wall()),
                }
            });
            let Some(survey) = survey else { return removed };
            let removed = self.remove_surveyed(survey, caller, request, mutation, path);
            self.write().end_survey(survey);
            if let Some(answer) = removed.transpose() {
                return answer;
            }
        }
    }

    /// Checks all rights, and removes the tree. None: `path` doesn't lead to the surveyed tree any more.
    fn remove_surveyed(
        &self,
        survey: SurveyId,
        caller: &Caller,
        request: RequestId,
        mutation: &Mutation,
        path: &str,
    ) -> Result<Option<Answer>> {
        loop {
            while !self.write().survey(survey, caller)? {
                thread::sleep(SWEEP_PAUSE);
            }
            // Another change may have come since the survey was complete: check again under the lock.
            let (mut elsewhere, mut complete) = (false, false);
            let removed = self.change(|namenode, now| {
                match namenode.is_surveyed(survey, caller, path) {
                    Ok(surveyed) => complete = surveyed,
                    Err(_) => elsewhere = true,
                }
                match complete {
                    true => namenode.remove_surveyed(survey, caller, request, mutation, now, wall()),
                    false => Err(Error::Busy),
                }
            });
            match (elsewhere, complete) {
                (true, _) => return Ok(None),
                (false, true) => return removed.map(Some),
                (false, false) => {}
            }
        }
    }
}
