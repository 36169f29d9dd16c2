//! Operations on paths.

use crate::process::{Owned, Place, Process};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use strait_store::{
    BlockLocation, Checksum, Error, ErrorKind, FileStatus, Result, SetAttributes, StoreStatus,
};

/// Most entries that a listing takes from the store at once.
const ENTRIES: usize = 1000;

pub fn stat(uri: &str) -> Result<FileStatus> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.stat(&place.who, &place.path))
}

pub fn mkdirs(uri: &str, permission: Option<u32>) -> Result<()> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.mkdirs(&place.who, &place.path, permission))
}

pub fn rename(from: &str, to: &str, replace: bool) -> Result<()> {
    let (source, target) = Place::and_target(from, to, "rename to")?;
    source.process.wait(source.fs.rename(&source.who, &source.path, &target, replace))
}

pub fn remove(uri: &str, recursive: bool) -> Result<()> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.remove(&place.who, &place.path, recursive))
}

pub fn truncate(uri: &str, length: u64) -> Result<()> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.truncate(&place.who, &place.path, length))
}

pub fn concat(uri: &str, sources: &[&str]) -> Result<()> {
    let place = Place::of(uri)?;
    let path_of = |source: &&str| Ok(Place::and_target(uri, source, "concat")?.1);
    let sources = sources.iter().map(path_of).collect::<Result<Vec<_>>>()?;
    place.process.wait(place.fs.concat(&place.who, &place.path, &sources))
}

pub fn set_attributes(uri: &str, set: &SetAttributes) -> Result<()> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.set_attributes(&place.who, &place.path, set))
}

pub fn checksum(uri: &str) -> Result<Checksum> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.checksum(&place.who, &place.path))
}

/// The blocks of a range, and the process that asked.
pub fn locate(uri: &str, range: Range<u64>) -> Result<(&'static Process, Vec<BlockLocation>)> {
    let place = Place::of(uri)?;
    let blocks = place.process.wait(place.fs.block_locations(&place.who, &place.path, range))?;
    Ok((place.process, blocks))
}

pub fn status(uri: &str) -> Result<StoreStatus> {
    let place = Place::of(uri)?;
    place.process.wait(place.fs.status(&place.who))
}

/// Whether the store has the capability of that name.
pub fn can(uri: &str, capability: &str) -> Result<bool> {
    let flags = Place::of(uri)?.fs.capabilities().flags();
    let found = flags.into_iter().find(|(name, _)| *name == capability);
    found.map(|(_, has)| has).ok_or_else(|| {
        let names: Vec<&str> = flags.iter().map(|(name, _)| *name).collect();
        let message =
            format!("there is no capability {capability:?}; the capabilities are {}", names.join(", "));
        Error::new(ErrorKind::InvalidArgument, message)
    })
}

/// A directory's entries, one after the other.
pub struct Listing(Owned<Mutex<Entries>>);

struct Entries {
    arrived: VecDeque<FileStatus>,
    coming: BoxStream<'static, Vec<Result<FileStatus>>>,
    /// The error that ended the listing. Otherwise a program that asks again would take it for whole.
    failed: Option<Error>,
}

impl Listing {
    /// If the directory can't be listed, the caller learns it at once.
    pub fn begin(uri: &str) -> Result<Self> {
        let place = Place::of(uri)?;
        let coming = place.fs.list(&place.who, &place.path).ready_chunks(ENTRIES).boxed();
        let entries = Entries { arrived: VecDeque::new(), coming, failed: None };
        let listing = Self(Owned::new(place.process, Mutex::new(entries)));
        let first = listing.arrive()?;
        match &first.failed {
            Some(error) if first.arrived.is_empty() => Err(error.again()),
            _ => {
                drop(first);
                Ok(listing)
            }
        }
    }

    /// The next entry; None at the end.
    pub fn next(&self) -> Result<Option<FileStatus>> {
        let mut entries = self.arrive()?;
        match (entries.arrived.pop_front(), &entries.failed) {
            (None, Some(error)) => Err(error.again()),
            (entry, _) => Ok(entry),
        }
    }

    /// Waits until entries are there, unless there are no more.
    fn arrive(&self) -> Result<MutexGuard<'_, Entries>> {
        let (process, entries) = self.0.get()?;
        let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.arrived.is_empty() && entries.failed.is_none() {
            for entry in process.wait(entries.coming.next()).unwrap_or_default() {
                match entry {
                    Ok(entry) => entries.arrived.push_back(entry),
                    Err(error) => entries.failed = Some(error),
                }
            }
        }
        Ok(entries)
    }
}
