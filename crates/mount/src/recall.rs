//! The mount of a killed process, as its [`Ledger`] recorded it.

use crate::handover::{Body, Failure, File, Handle, State, User};
use crate::ledger::{Counter, Entry, Kind, Ledger, Mounted, OpenFile, OpenHandle, Run, Step, Written};
use crate::nodes::Known;
use serde::de::DeserializeOwned;
use std::collections::{HashMap, HashSet};
use std::io;

/// Requests that an earlier process received. The kernel resends them.
#[derive(Debug, Default)]
pub struct Past {
    /// Changes that the store may have executed.
    pub begun: HashSet<u64>,
    /// Changes that were executed, or that failed, with their answers.
    pub done: HashMap<u64, Step>,
    /// Handles, by the requests that opened them.
    pub opened: HashMap<u64, u64>,
    /// Numbers of runs that were published already, or whose file was closed.
    pub stale: Vec<u64>,
}

/// A record's statement about a mount.
pub struct Found {
    /// The mount.
    pub mounted: Mounted,
    /// Its state.
    pub state: State,
    /// Its requests.
    pub past: Past,
}

impl Found {
    /// Reads the values of a record.
    ///
    /// # Errors
    /// The values can't be parsed, or the process was killed before it had mounted.
    pub fn read(ledger: &Ledger, values: &[Entry]) -> io::Result<Self> {
        let Some((_, mounted)) = all(values, Kind::Mount).next() else {
            return Err(io::Error::other("the process was killed before it had mounted"));
        };
        let mut past = Past::default();
        for (request, bytes) in all(values, Kind::Request) {
            match value(bytes)? {
                Step::Begun => drop(past.begun.insert(request)),
                step => drop(past.done.insert(request, step)),
            }
        }
        let files = files(values, &mut past)?;
        let handles = handles(values, &files, &mut past)?;
        let hidden = all(values, Kind::Hidden).map(|(node, bytes)| Ok((node, value::<User>(bytes)?)));
        let hidden = hidden.collect::<io::Result<Vec<_>>>()?;
        let nodes = Known::recorded(ledger.last(Counter::Node), all(values, Kind::Node))?;
        // 0 stands for a request without a number.
        past.opened.remove(&0);
        past.done.remove(&0);
        let last_handle = ledger.last(Counter::Handle);
        Ok(Self {
            mounted: value(mounted)?,
            state: State { nodes, files, handles, last_handle, hidden },
            past,
        })
    }
}

/// The values of a kind, by their numbers.
fn all(values: &[Entry], kind: Kind) -> impl Iterator<Item = (u64, &[u8])> {
    let of_kind = values.iter().filter(move |((its, _), _)| *its == kind as u8);
    of_kind.map(|((_, number), bytes)| (*number, bytes.as_slice()))
}

fn value<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(bytes)?)
}

fn files(values: &[Entry], past: &mut Past) -> io::Result<Vec<File>> {
    let by_file = |kind| all(values, kind).collect::<HashMap<u64, &[u8]>>();
    let [reading, written, failed] = [Kind::Reading, Kind::Written, Kind::Failed].map(by_file);
    let mut runs: HashMap<u64, Vec<Run>> = HashMap::new();
    for (number, bytes) in all(values, Kind::Run) {
        let (file, run) = (Run::file(number), value::<Run>(bytes)?);
        let written = written.get(&file).map(|bytes| value::<Written>(bytes)).transpose()?;
        match written.is_some_and(|written| written.safe == run.since) {
            true => runs.entry(file).or_default().push(run),
            false => past.stale.push(number),
        }
    }
    let mut files = Vec::new();
    for (number, bytes) in all(values, Kind::File) {
        let OpenFile { node, who, logical } = value::<OpenFile<User>>(bytes)?;
        let failed = failed.get(&number).map(|bytes| value::<Failure>(bytes)).transpose()?;
        let written = written.get(&number).map(|bytes| value::<Written>(bytes)).transpose()?;
        if let Some(written) = &written {
            past.done.insert(written.last, Step::Done);
        }
        let identity = reading.get(&number).map(|bytes| value::<Vec<u8>>(bytes)).transpose()?;
        let body = match (logical && failed.is_none(), written) {
            (false, written) => Body::Plain { failed, identity, written: written.filter(|_| !logical) },
            (true, None) => Body::Logical,
            (true, Some(_)) => {
                let runs = runs.remove(&number).unwrap_or_default();
                past.done.extend(runs.iter().map(|run| (run.request, Step::Done)));
                Body::Unpublished(runs)
            }
        };
        files.push(File { node, who, body, number });
    }
    Ok(files)
}

fn handles(values: &[Entry], files: &[File], past: &mut Past) -> io::Result<Vec<Handle>> {
    let places: HashMap<u64, usize> =
        files.iter().enumerate().map(|(place, file)| (file.number, place)).collect();
    let mut handles = Vec::new();
    for (number, bytes) in all(values, Kind::Handle) {
        let OpenHandle { mut handle, request } = value::<OpenHandle<Handle>>(bytes)?;
        if let Handle::File { file, .. } = &mut handle {
            // If the process was killed while it closed the handle, its file is closed already.
            let Some(place) = places.get(&(*file as u64)) else { continue };
            *file = *place;
        }
        past.opened.insert(request, number);
        handles.push(handle);
    }
    Ok(handles)
}
