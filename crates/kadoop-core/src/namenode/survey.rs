//! Surveys: the examination of a large tree that a user wants to remove. To remove it, the user needs all
//! rights on each directory in it that has entries. A survey proceeds in steps, so that other requests
//! needn't wait for the whole examination.
//!
//! Between two steps, the tree may change: directories that get entries, other rights or another place
//! are examined again. So once a survey is complete, the user may remove the tree in its current state.

use super::{
    Namenode,
    inodes::{Body, ROOT},
    path::{EXECUTE, READ, View, WRITE},
    record::{Record, Transaction},
    state::State,
};
use crate::{
    InodeNo,
    error::{Error, Result},
    faults::Fault,
    messages::Caller,
};
use compact_str::CompactString;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

/// A step examines this many entries for each inode that a step of a removal frees. Both kinds of steps
/// then take about a millisecond.
const ENTRIES_AN_INODE: usize = 10;
/// Most surveys at a time: each change of the namespace is compared with each of them.
const MAX_SURVEYS: usize = 64;

/// Identifies a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SurveyId(u64);

/// The surveys under way.
#[derive(Debug, Default)]
pub(super) struct Surveys {
    last: u64,
    all: BTreeMap<SurveyId, Survey>,
    /// The surveyed tree that the current mutation may remove without another examination.
    pub(super) complete: Option<InodeNo>,
}

#[derive(Debug)]
struct Survey {
    top: InodeNo,
    /// The directories from the one where the walk began down to the current one.
    levels: Vec<Level>,
    /// Directories to be examined again, without the directories below them.
    again: BTreeSet<InodeNo>,
    /// Directories to be examined with all directories below them.
    moved: BTreeSet<InodeNo>,
}

/// A directory, and the last examined name in it.
#[derive(Debug)]
struct Level {
    directory: InodeNo,
    after: Option<CompactString>,
}

impl Survey {
    /// Examines the next part. Returns true once the whole tree is examined.
    fn step(&mut self, view: &View<'_>) -> Result<bool> {
        self.leave_moved(view.state);
        let mut left = ENTRIES_AN_INODE * view.config.sweep_inodes as usize;
        while left > 0 {
            left -= 1;
            if let Some(again) = self.again.pop_first() {
                if is_below(view.state, again, self.top) {
                    demand_all(view, again)?;
                }
            } else if let Some(level) = self.levels.last_mut() {
                let (found, looked) = level.next_directory(view.state, left);
                left = left.saturating_sub(looked);
                match found {
                    Found::Directory(directory) => self.enter(view, directory)?,
                    Found::More => {}
                    Found::End => drop(self.levels.pop()),
                }
            } else if let Some(moved) = self.moved.pop_first() {
                if is_below(view.state, moved, self.top) {
                    self.enter(view, moved)?;
                }
            } else {
                return Ok(true);
            }
        }
        Ok(self.is_complete())
    }

    fn enter(&mut self, view: &View<'_>, directory: InodeNo) -> Result<()> {
        demand_all(view, directory)?;
        self.levels.push(Level { directory, after: None });
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.levels.is_empty() && self.again.is_empty() && self.moved.is_empty()
    }

    /// Ends the walk in directories that have moved or vanished: their numbers may be reused by now. If
    /// one moved within the tree, `moved` has it.
    fn leave_moved(&mut self, state: &State) {
        let mut above = None;
        let stays = |level: &Level| {
            let inode = state.inodes.get(level.directory).filter(|inode| inode.entries().is_some());
            let stays = inode.is_some_and(|inode| above.is_none_or(|above| inode.parent == above));
            above = Some(level.directory);
            stays
        };
        let sound = self.levels.iter().map(stays).take_while(|stays| *stays).count();
        self.levels.truncate(sound);
        if self.levels.first().is_some_and(|first| !is_below(state, first.directory, self.top)) {
            self.levels.clear();
        }
    }

    /// Notes a change below the top.
    fn note(&mut self, change: &Change) {
        self.again.extend(change.shallow);
        self.moved.extend(change.deep);
    }
}

/// The result of a search for the next directory among a directory's entries.
enum Found {
    Directory(InodeNo),
    More,
    End,
}

impl Level {
    /// Searches at most about `most` entries for the next directory in this one. Also returns the number
    /// of entries examined.
    fn next_directory(&mut self, state: &State, most: usize) -> (Found, usize) {
        let entries = state.inodes.get(self.directory).and_then(|inode| inode.entries());
        let Some(entries) = entries else { return (Found::End, 0) };
        let from = self.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut looked = 0;
        for (name, inode) in entries.range::<str, _>((from, Bound::Unbounded)) {
            looked += 1;
            let is_directory = state.inodes.get(*inode).is_some_and(|inode| inode.entries().is_some());
            if is_directory || looked > most {
                self.after = Some(name.clone());
                return (if is_directory { Found::Directory(*inode) } else { Found::More }, looked);
            }
        }
        (Found::End, looked)
    }
}

/// The directories whose rights a survey has to examine again after a record: `shallow` alone, and `deep`
/// with all directories below it.
#[derive(Debug, Default)]
struct Change {
    shallow: Option<InodeNo>,
    deep: Option<InodeNo>,
}

impl Change {
    fn of(record: &Record, state: &State) -> Self {
        match record {
            // The removal of an empty directory needs no rights on it, so its first entry matters.
            Record::DirectoryMade { at, .. } | Record::FileMade { at, .. } => {
                Self { shallow: Some(at.parent), deep: None }
            }
            Record::AttributesSet { inode, .. } => Self { shallow: Some(*inode), deep: None },
            Record::Moved { to, .. } => {
                let entries = state.inodes.get(to.parent).and_then(|inode| inode.entries());
                let moved = entries.and_then(|entries| entries.get(&to.name)).copied();
                let is_directory =
                    |at: &InodeNo| state.inodes.get(*at).is_some_and(|inode| inode.entries().is_some());
                Self { shallow: Some(to.parent), deep: moved.filter(is_directory) }
            }
            _ => Self::default(),
        }
    }
}

/// Whether the inode exists and is `top` or below it.
fn is_below(state: &State, inode: InodeNo, top: InodeNo) -> bool {
    above(state, inode).any(|at| at == top)
}

/// The inode and all directories above it, if the inode exists. In a detached tree, up to that tree's top.
fn above(state: &State, inode: InodeNo) -> impl Iterator<Item = InodeNo> {
    let first = state.inodes.get(inode).map(|_| inode);
    std::iter::successors(first, |at| {
        let parent = state.inodes.get(*at)?.parent;
        (*at != ROOT && parent != *at).then_some(parent)
    })
}

fn demand_all(view: &View<'_>, directory: InodeNo) -> Result<()> {
    if view.state.inode(directory)?.entries().is_some_and(|entries| !entries.is_empty()) {
        view.demand(directory, READ | WRITE | EXECUTE)?;
    }
    Ok(())
}

impl View<'_> {
    /// Checks that the caller has all rights on each directory of the tree that has entries, as its
    /// removal needs.
    pub(super) fn demand_whole_tree(&self, top: InodeNo) -> Result<()> {
        if self.is_super() {
            return Ok(());
        }
        let mut rest = vec![top];
        while let Some(number) = rest.pop() {
            if let Body::Directory(entries) = &self.state.inode(number)?.body {
                demand_all(self, number)?;
                rest.extend(entries.values());
            }
        }
        Ok(())
    }
}

impl Namenode {
    /// Begins to survey the tree at `path` for its removal by `caller`. Returns None if no survey is
    /// needed: the removal itself then takes only a moment, or is refused.
    ///
    /// # Errors
    /// Limit: too many surveys are under way.
    pub fn begin_survey(&mut self, caller: &Caller, path: &str) -> Result<Option<SurveyId>> {
        let view = self.view(caller);
        let top = view.walk(path).and_then(|walk| walk.target());
        let Some(top) = top.ok().filter(|top| !view.is_super() && view.is_large(*top) == Ok(true)) else {
            return Ok(None);
        };
        if self.surveys.all.len() >= MAX_SURVEYS {
            return Err(Error::Limit("removals of large trees at a time"));
        }
        self.surveys.last += 1;
        let id = SurveyId(self.surveys.last);
        let (again, moved) = (BTreeSet::new(), BTreeSet::from([top]));
        self.surveys.all.insert(id, Survey { top, levels: Vec::new(), again, moved });
        Ok(Some(id))
    }

    /// Examines the next part of the tree. Returns true once the whole tree is examined.
    ///
    /// # Errors
    /// PermissionDenied: the caller lacks a right on a directory of the tree. Internal: there is no such
    /// survey.
    pub fn survey(&mut self, id: SurveyId, caller: &Caller) -> Result<bool> {
        let mut survey = self.surveys.all.remove(&id).ok_or(Error::Internal("no such survey"))?;
        let complete = survey.step(&self.view(caller));
        self.surveys.all.insert(id, survey);
        complete
    }

    /// Whether the survey has examined the whole tree, including what changed since it began.
    ///
    /// # Errors
    /// NotFound: there is no such survey, or the path now leads to another directory.
    pub fn is_surveyed(&self, id: SurveyId, caller: &Caller, path: &str) -> Result<bool> {
        let survey = self.surveys.all.get(&id).ok_or(Error::NotFound)?;
        let at = self.view(caller).walk(path).and_then(|walk| walk.target());
        if at == Ok(survey.top) { Ok(survey.is_complete()) } else { Err(Error::NotFound) }
    }

    /// Lets the next removal of the surveyed tree skip the examination, if the survey is complete.
    pub(super) fn believe(&mut self, id: Option<SurveyId>) {
        let survey = id.and_then(|id| self.surveys.all.get(&id)).filter(|survey| survey.is_complete());
        self.surveys.complete = survey.map(|survey| survey.top);
    }

    /// Ends a survey, complete or not.
    pub fn end_survey(&mut self, id: SurveyId) {
        self.surveys.all.remove(&id);
    }

    /// Makes the surveys examine again the directories that a transaction changed.
    pub(super) fn note_for_surveys(&mut self, transaction: &Transaction) {
        if self.surveys.all.is_empty() || self.config.faults.has(Fault::SurveyedOnce) {
            return;
        }
        for record in &transaction.records {
            let change = Change::of(record, &self.state);
            let Some(at) = change.shallow else { continue };
            let above: BTreeSet<InodeNo> = above(&self.state, at).collect();
            let concerned = self.surveys.all.values_mut().filter(|survey| above.contains(&survey.top));
            concerned.for_each(|survey| survey.note(&change));
        }
    }
}
