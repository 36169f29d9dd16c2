//! The published contract suite. Every sentence of [`FileSystem`]'s documentation is a case that
//! runs on every adapter and every wrapper.
//!
//! ```no_run
//! # async fn example(store: std::sync::Arc<dyn strait_store::FileSystem>) {
//! use strait_store::{Principal, StorePath, contract};
//! let root = StorePath::parse("/tmp/contract").expect("a plain path");
//! let fixture = contract::Fixture::new(store, root, Principal::new("hdfs"));
//! let report = contract::run("hdfs", &fixture).await;
//! eprintln!("{report}");
//! assert!(report.failed.is_empty());
//! # }
//! ```
//!
//! The suite skips a case only if the store declares that it lacks the capability. Then the inverse
//! case runs: the operation must answer `Unsupported`. The report counts and names each skip, and
//! never counts it as a pass.
//!
//! If a server or a library beneath a store breaks a promise, its test lists the case as a known failure, with
//! the reason. The case still runs. The report counts and names it, and fails once it passes.

mod support;

mod attributes;
mod concatenating;
mod concurrency;
mod creating;
mod declared;
mod directories;
mod listing;
mod locating;
mod names;
mod permissions;
mod reading;
mod removing;
mod renaming;
mod writing;

use crate::{Capabilities, FileSystem, FileSystemExt, Principal, StorePath};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use support::{Outcome, Scene};

/// Concurrent cases. With so many, even a store whose creates take half a second (HDFS) finishes in a
/// minute.
const CASES_AT_ONCE: usize = 8;
/// Time after which a case counts as hung. The slowest case writes some megabytes in hundreds of
/// pieces, perhaps on a loaded machine.
const CASE_DEADLINE: Duration = Duration::from_secs(300);

/// The store and parameters for the cases.
#[derive(Clone)]
pub struct Fixture {
    /// The store under test.
    pub fs: Arc<dyn FileSystem>,
    /// A directory that only the suite uses. The suite makes it, and the store's creator removes it. All
    /// users must be able to traverse it.
    pub root: StorePath,
    /// The principal of the cases. It needs all rights in `root`, and must be able to change owners if
    /// the store supports that.
    pub who: Principal,
    /// Data sizes of the larger cases.
    pub scale: Scale,
    /// Cases that fail because of something that the store can't change, each with the reason.
    pub known: &'static [(&'static str, &'static str)],
}

/// Data sizes of the larger cases, for stores of different speeds.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Entries of the large directory: more than one page of a listing.
    pub entries: usize,
    /// Bytes of the large file.
    pub file_bytes: usize,
}

impl Default for Scale {
    fn default() -> Self {
        // HDFS and WebHDFS list in pages of 1,000 (dfs.ls.limit); the file is
        // longer than one chunk.
        Self { entries: 1_500, file_bytes: 6_000_000 }
    }
}

impl Fixture {
    /// A fixture of the usual scale.
    pub fn new(fs: Arc<dyn FileSystem>, root: StorePath, who: Principal) -> Self {
        Self { fs, root, who, scale: Scale::default(), known: &[] }
    }
}

/// The outcome of a run. Prints as one line of counts, then one line per failure, known ones included.
#[derive(Debug, Clone)]
pub struct Report {
    /// The tested store.
    pub subject: String,
    /// Cases that ran, passed or not.
    pub run: usize,
    /// Cases that didn't run, each with the capability that the store lacks.
    pub skipped: Vec<(&'static str, &'static str)>,
    /// Cases that failed as [`Fixture::known`] says, each with the reason.
    pub known: Vec<(&'static str, &'static str)>,
    /// Cases that failed, each with the reason. Also those that [`Fixture::known`] wrongly lists.
    pub failed: Vec<(&'static str, String)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "contract {}: {} run, {} skipped", self.subject, self.run, self.skipped.len())?;
        let mut by_capability = BTreeMap::new();
        for (_, capability) in &self.skipped {
            *by_capability.entry(capability).or_insert(0) += 1;
        }
        for (index, (capability, count)) in by_capability.iter().enumerate() {
            write!(f, "{}{capability}: {count}", if index == 0 { " (" } else { ", " })?;
        }
        let close = if by_capability.is_empty() { "" } else { ")" };
        write!(f, "{close}, {} known to fail, {} failed", self.known.len(), self.failed.len())?;
        for (case, reason) in &self.known {
            write!(f, "\n  {case} (known): {reason}")?;
        }
        for (case, message) in &self.failed {
            write!(f, "\n  {case}: {message}")?;
        }
        Ok(())
    }
}

/// One case: a claim, and the capabilities that it needs.
struct Case {
    name: &'static str,
    needs: &'static [Need],
    run: fn(Scene) -> BoxFuture<'static, Outcome>,
}

/// A capability by name, or (for the inverse cases) its absence.
struct Need {
    name: &'static str,
    met: fn(&Capabilities) -> bool,
}

/// A table of cases: `name;` or `name needs capability, …;` or
/// `name lacks capability;`.
macro_rules! cases {
    ($($name:ident $(needs $($has:ident),+)? $(lacks $lacks:ident)?;)*) => {
        pub(super) const CASES: &[crate::contract::Case] = &[$(crate::contract::Case {
            name: stringify!($name),
            needs: &[
                $($(crate::contract::Need { name: stringify!($has), met: |store| store.$has },)+)?
                $(crate::contract::Need { name: concat!("no ", stringify!($lacks)), met: |store| !store.$lacks },)?
            ],
            run: |scene| Box::pin($name(scene)),
        }),*];
    };
}
use cases;

const SUITE: &[&[Case]] = &[
    listing::CASES,
    creating::CASES,
    reading::CASES,
    writing::CASES,
    concurrency::CASES,
    concatenating::CASES,
    renaming::CASES,
    removing::CASES,
    directories::CASES,
    attributes::CASES,
    permissions::CASES,
    locating::CASES,
    names::CASES,
];

/// Runs the whole suite; `subject` names the store in the report.
pub async fn run(subject: &str, fixture: &Fixture) -> Report {
    let capabilities = fixture.fs.capabilities();
    let mut report = Report {
        subject: subject.to_owned(),
        run: 0,
        skipped: Vec::new(),
        known: Vec::new(),
        failed: Vec::new(),
    };
    let mut due = Vec::new();
    for case in SUITE.iter().copied().flatten() {
        match case.needs.iter().find(|need| !(need.met)(&capabilities)) {
            Some(need) => report.skipped.push((case.name, need.name)),
            None => due.push(case),
        }
    }
    // An inverse case that doesn't apply isn't a skip, because another case tests the capability itself.
    due.extend(declared::CASES.iter().filter(|case| case.needs.iter().all(|need| (need.met)(&capabilities))));

    report.run = due.len();
    let mut outcomes = stream::iter(due)
        .map(|case| async move { (case.name, run_case(case, fixture).await) })
        .buffer_unordered(CASES_AT_ONCE);
    while let Some((name, outcome)) = outcomes.next().await {
        let known = fixture.known.iter().find(|(case, _)| *case == name);
        match (outcome, known) {
            (Ok(()), _) => {}
            (Err(_), Some(known)) => report.known.push(*known),
            (Err(failure), None) => report.failed.push((name, failure.to_string())),
        }
    }
    for &(case, _) in fixture.known {
        if report.known.iter().all(|(failed, _)| *failed != case) {
            report.failed.push((case, "it is listed as a known failure, but didn't fail".to_owned()));
        }
    }
    report.known.sort_unstable();
    report.failed.sort();
    report
}

/// Runs one case in a directory of its own.
async fn run_case(case: &Case, fixture: &Fixture) -> Outcome {
    let dir = fixture.root.join(case.name)?;
    fixture.fs.mkdirs(&fixture.who, &dir, None).await?;
    support::ensure!(
        fixture.fs.list_all(&fixture.who, &dir, 0).await.is_ok(),
        "{dir} isn't empty: the fixture's root was used before"
    );
    let scene = Scene { fs: fixture.fs.clone(), dir, who: fixture.who.clone(), scale: fixture.scale };
    match tokio::time::timeout(CASE_DEADLINE, (case.run)(scene)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(support::Failure::new(format!("didn't end within {} s", CASE_DEADLINE.as_secs()))),
    }
}
