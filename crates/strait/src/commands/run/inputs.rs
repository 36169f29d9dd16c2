//! The inputs of `run`, and the hosts that hold them.

use super::cut;
use super::hosts::Hosts;
use crate::cli::{Run, Split};
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::tally::Tally;
use futures::StreamExt;
use std::collections::HashSet;
use std::io::Read;
use strait_dispatch::split::{hosts_of, most_pieces};
use strait_dispatch::{Block, Input, Schedule, Slice, finished, joblog, pieces};
use strait_store::{ErrorKind, StoreUri};

/// Number of files whose blocks are located at the same time.
const ASKED_AT_ONCE: usize = 16;
/// Largest number of inputs of one run. Each takes some hundred bytes of memory.
const MAX_INPUTS: u64 = 1_000_000;
/// Endings of names of compressed files, which can't be read from the middle.
const COMPRESSED: [&str; 9] = [".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".br", ".Z", ".snappy"];

/// The input of one command.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The file's URI.
    pub uri: String,
    /// The part of the file; `None` means the whole file.
    pub slice: Option<Slice>,
    /// Its place in the order of all inputs, from 1.
    pub sequence: usize,
}

impl Wanted {
    /// Its name in messages: the URI, and the byte range of a part.
    pub fn name(&self) -> String {
        match &self.slice {
            Some(slice) => format!("{}#{}-{}", self.uri, slice.start, slice.end),
            None => self.uri.clone(),
        }
    }

    /// Its title in the job log.
    pub fn title(&self, command: &[String]) -> String {
        joblog::title(command, &self.uri, self.slice.as_ref())
    }
}

/// Inputs and hosts, by their numbers.
#[derive(Default)]
pub struct Found {
    /// The inputs.
    pub wanted: Vec<Wanted>,
    /// Their sizes and hosts.
    pub inputs: Vec<Input>,
    /// The hosts' names.
    pub hosts: Vec<String>,
}

/// A part of a file (`None`: the whole file), its size, and its hosts.
type Part = (Option<Slice>, u64, Vec<String>);

/// Finds the inputs to process. Inputs that can't be located count as failures.
pub async fn find(context: &Context, flags: &Run, tally: &mut Tally) -> Result<Found, Failure> {
    let uris = named(context, flags, tally).await?;
    let log = match (&flags.joblog, flags.resume) {
        (Some(path), true) if path.exists() => {
            std::fs::read_to_string(path).map_err(|error| Failure::local(error, "read", path))?
        }
        _ => String::new(),
    };
    let done: HashSet<&str> = finished(&log);
    let is_done = |wanted: &Wanted| !done.is_empty() && done.contains(wanted.title(&flags.command).as_str());
    let whole = |(uri, sequence)| Wanted { uri, slice: None, sequence };
    let asked = uris.into_iter().zip(1..).map(whole);
    // Pieces are known only after their file is located.
    let asked: Vec<Wanted> = asked.filter(|wanted| flags.split.is_some() || !is_done(wanted)).collect();
    let located: Vec<_> = futures::stream::iter(asked)
        .map(|wanted| async move {
            let parts = locate(context, flags, &wanted.uri).await;
            (wanted, parts)
        })
        .buffered(ASKED_AT_ONCE)
        .collect()
        .await;
    let mut hosts = Hosts::of(context, flags, located.iter().map(|(wanted, _)| wanted.uri.as_str())).await?;
    let mut found = Found::default();
    let mut pieces = 0;
    for (wanted, parts) in located {
        let parts = match parts {
            Ok(parts) => parts,
            Err(failure) => {
                tally.add(Err(failure))?;
                continue;
            }
        };
        for (slice, bytes, names) in parts {
            pieces += 1;
            let sequence = if flags.split.is_some() { pieces } else { wanted.sequence };
            let wanted = Wanted { uri: wanted.uri.clone(), slice, sequence };
            if is_done(&wanted) {
                continue;
            }
            let places = names.iter().filter_map(|name| hosts.number(name, context)).collect();
            found.inputs.push(Input { bytes, hosts: places });
            found.wanted.push(wanted);
        }
        if found.wanted.len() as u64 > MAX_INPUTS {
            return Err(too_many());
        }
    }
    found.hosts = hosts.names(!found.wanted.is_empty())?;
    Ok(found)
}

fn too_many() -> Failure {
    Failure::usage(format!("more than {MAX_INPUTS} inputs: give larger pieces with --split, or fewer files"))
}

/// The URIs that the flags and standard input name.
async fn named(context: &Context, flags: &Run, tally: &mut Tally) -> Result<Vec<String>, Failure> {
    let mut uris = Vec::new();
    for uri in &flags.uris {
        match uri.as_str() {
            "-" => uris.extend(listed(flags.null)?),
            _ => uris.extend(context.expanded(std::slice::from_ref(uri), tally).await?),
        }
    }
    let absolute = |uri: String| {
        let text = context.absolute(&uri)?.into_owned();
        // The other hosts may have another Hadoop configuration, or none.
        let is_of_default_host = StoreUri::parse(&text).is_ok_and(|uri| uri.is_of_default_host());
        if !is_of_default_host {
            return Ok(text);
        }
        let slash = if text.ends_with('/') { "/" } else { "" };
        Ok(format!("{}{slash}", context.uri(&text)?.to_string().trim_end_matches('/')))
    };
    uris.into_iter().map(absolute).collect()
}

/// Prints where each command would run.
pub fn print_plan(context: &Context, found: &Found) -> Result<(), Failure> {
    let mut out = context.output();
    let schedule = Schedule::new(found.inputs.clone(), found.hosts.len());
    for (number, host) in found.hosts.iter().enumerate() {
        for input in schedule.queue(number) {
            let (bytes, wanted) = (found.inputs[input].bytes, &found.wanted[input]);
            if context.json {
                let part = |bytes: fn(&Slice) -> u64| wanted.slice.as_ref().map(bytes).into();
                let fields = [
                    ("host", host.as_str().into()),
                    ("bytes", bytes.into()),
                    ("uri", wanted.uri.as_str().into()),
                    ("start", part(|slice| slice.start)),
                    ("end", part(|slice| slice.end)),
                ];
                out.object(fields)?;
            } else {
                let name = wanted.name();
                let name = out.name(&name);
                out.line(format_args!("{host}\t{bytes}\t{name}"))?;
            }
        }
    }
    out.finish()
}

/// The URIs on standard input.
fn listed(by_nul: bool) -> Result<Vec<String>, Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        Failure::at(ErrorKind::InvalidArgument, "read", "standard input", error.to_string())
    })?;
    let end = if by_nul { '\0' } else { '\n' };
    Ok(text.split(end).filter(|uri| !uri.is_empty()).map(str::to_owned).collect())
}

/// A file's parts, their lengths, and the hosts that hold each part: first the host with the most bytes.
async fn locate(context: &Context, flags: &Run, uri: &str) -> Result<Vec<Part>, Failure> {
    let place = context.place(uri).await?;
    let status = place.stat().await?;
    if status.is_directory() {
        let why = "this is a directory; name its files, for example with /*";
        return Err(Failure::at(ErrorKind::IsADirectory, "run a command on", uri, why));
    }
    let blocks = place.fs.block_locations(&place.who, &place.path, 0..u64::MAX).await?;
    let block = |block: strait_store::BlockLocation| Block {
        offset: block.offset,
        length: block.length,
        hosts: block.hosts,
    };
    let blocks: Vec<Block> = blocks.into_iter().map(block).collect();
    let length = status.length;
    let is_compressed = COMPRESSED.iter().any(|end| place.path.name().ends_with(end));
    match flags.split {
        Some(split) if !is_compressed => cut_up(flags, split, &place, length, &blocks).await,
        _ => Ok(vec![(None, length, hosts_of(&(0..length), &blocks))]),
    }
}

async fn cut_up(
    flags: &Run,
    split: Split,
    place: &Place,
    length: u64,
    blocks: &[Block],
) -> Result<Vec<Part>, Failure> {
    let size = match split {
        Split::Chunk => None,
        Split::Size(bytes) => Some(bytes),
    };
    if most_pieces(length, blocks, size) > MAX_INPUTS {
        return Err(too_many());
    }
    let identity = cut::identity(place.fs.open(&place.who, &place.path).await?.as_ref());
    let part = |piece: strait_dispatch::Piece| {
        let (start, end) = (piece.range.start, piece.range.end);
        let slice = Slice { start, end, length, records: flags.records, identity: identity.clone() };
        (Some(slice), end - start, piece.hosts)
    };
    Ok(pieces(length, blocks, size).into_iter().map(part).collect())
}
