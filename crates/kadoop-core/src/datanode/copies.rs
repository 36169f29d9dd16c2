//! Copies sealed bytes from other datanodes: whole replicas, if the namenode orders it, and for writers
//! the beginning of a chunk that continues a short one.
//!
//! [`Datanode::next_fetch`] returns the reads to make. The datanode compares bytes with their checksums
//! as they arrive, and reports a copy as a sealed replica when the whole copy is on disk.

use super::{
    Claim, Datanode, Failure, Kept, Replica, disk_of, live,
    names::{Kind, name},
    number_of,
    replica::Begun,
};
use crate::{
    ChunkId, NodeId, Stamp,
    check::Checked,
    disk::{Disk, Grouped},
    error::{Error, Result},
    faults::Fault,
    messages::{Change, Continue, Piece, Read, Source},
};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// Reads under way for one copy. With two, the network stays busy while the bytes of one are written.
const FETCHES: usize = 2;
/// Most beginnings of chunks under way, each of a few megabytes. Further ones are refused, and their
/// writers use other datanodes.
const MAX_BEGINNINGS: usize = 64;
/// Most copies that wait for their turn. The namenode repeats orders that were dropped.
const MAX_ORDERED: usize = 1_000;

/// A read from another datanode. Report its answer with [`Datanode::on_fetched`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    /// The read's id. Pass it along with the answer.
    pub id: u64,
    /// The datanode to ask.
    pub from: NodeId,
    /// The read to make there.
    pub read: Read,
}

/// All copies.
pub(super) struct Copies<D: Disk> {
    pub ordered: VecDeque<Source>,
    running: Vec<Copy<D>>,
    issues: VecDeque<Fetch>,
    last_fetch: u64,
}

impl<D: Disk> Default for Copies<D> {
    fn default() -> Self {
        Self { ordered: VecDeque::new(), running: Vec::new(), issues: VecDeque::new(), last_fetch: 0 }
    }
}

/// A copy under way.
pub(super) struct Copy<D: Disk> {
    pub chunk: ChunkId,
    pub stamp: Stamp,
    pub directory: usize,
    source: Source,
    into: Into<D>,
    /// Offset of the next read.
    next: u32,
    /// Reads under way, by offset in the chunk: the id and, if they arrived out of order, the bytes.
    fetches: BTreeMap<u32, (u64, Option<Bytes>)>,
    /// Number of the source's datanodes that have failed. They are asked in order.
    failed: usize,
}

enum Into<D: Disk> {
    /// A separate replica, which isn't reported before it is complete.
    Sealed(Box<Replica<D>>),
    /// The chunk's open replica. The number is the caller's.
    Open(u64),
}

impl<D: Disk + Clone> Datanode<D> {
    /// The next read to make at another datanode.
    pub fn next_fetch(&mut self) -> Option<Fetch> {
        self.copies.issues.pop_front()
    }

    /// Begins a chunk with bytes of another. [`Datanode::settled`] returns the result with the number
    /// `caller`.
    pub fn begin(&mut self, caller: u64, begin: &Continue) {
        match self.try_begin(caller, begin) {
            Ok(false) => {}
            Ok(true) => self.settled.push((caller, Ok(()))),
            Err(error) => self.settled.push((caller, Err(error))),
        }
    }

    /// Begins a chunk with bytes of another. Returns true if the bytes are already applied.
    fn try_begin(&mut self, caller: u64, begin: &Continue) -> Result<bool> {
        let Continue { chunk, stamp, pipeline, source } = begin;
        self.demand_member(pipeline)?;
        self.demand_stamp(*chunk, *stamp)?;
        let beginnings = self.copies.running.iter().filter(|copy| matches!(copy.into, Into::Open(_)));
        if self.replicas.contains_key(chunk) || beginnings.count() >= MAX_BEGINNINGS {
            return Err(Error::DatanodeBusy);
        }
        if source.length > self.config.continue_below_bytes {
            return Err(Error::Invalid("the chunk to continue is too long to be copied"));
        }
        let local = self.local(source);
        self.create(*chunk, *stamp, source.length as usize)?;
        let replica = live(&mut self.replicas, *chunk)?;
        if let Some(bytes) = local {
            replica.write(caller, 0, bytes, &self.config, &mut Vec::new())?;
            return Ok(true);
        }
        let (chunk, stamp, directory, source) =
            (*chunk, *stamp, usize::from(replica.directory), source.clone());
        self.run(Copy {
            chunk,
            stamp,
            directory,
            source,
            into: Into::Open(caller),
            next: 0,
            fetches: BTreeMap::new(),
            failed: 0,
        });
        Ok(false)
    }

    /// The source's bytes, if this datanode has them and they match their checksums.
    fn local(&self, source: &Source) -> Option<Bytes> {
        let Kept::Sealed(sealed) = self.replicas.get(&source.chunk)? else { return None };
        if sealed.stamp != source.stamp {
            return None;
        }
        let opened = self.opened(source.chunk, sealed).ok()?;
        let mut bytes = Vec::with_capacity(source.length.min(self.config.continue_below_bytes) as usize);
        while (bytes.len() as u32) < source.length {
            let read = read_of(source, bytes.len() as u32, self.config.write_bytes);
            let piece = opened.content().read(&read, sealed.length, &self.config).ok()?;
            let checked = Checked::of(&read, piece, &self.config).ok()?;
            if checked.content.is_empty() {
                return None;
            }
            bytes.extend_from_slice(&checked.content);
        }
        Some(bytes.into())
    }

    pub(super) fn order_copy(&mut self, source: Source) {
        let known = self.copies.ordered.contains(&source)
            || self.copies.running.iter().any(|copy| copy.source == source);
        if !known && self.copies.ordered.len() < MAX_ORDERED {
            self.copies.ordered.push_back(source);
        }
        self.start_copies();
    }

    /// Starts ordered copies, up to the limit.
    fn start_copies(&mut self) {
        loop {
            let running = self.copies.running.iter().filter(|copy| matches!(copy.into, Into::Sealed(_)));
            if running.count() >= self.config.copies_per_node {
                return;
            }
            let Some(source) = self.copies.ordered.pop_front() else { return };
            let (chunk, stamp) = (source.chunk, source.stamp);
            if self.replicas.contains_key(&chunk) {
                self.tell_abandoned(chunk, stamp);
                continue;
            }
            if self.copies.running.iter().any(|copy| copy.chunk == chunk) {
                continue;
            }
            let place = self.demand_stamp(chunk, stamp).and_then(|()| self.make_way(chunk));
            let place = place.and_then(|()| self.room.next(&self.directories));
            let place = place.and_then(|at| {
                self.room.take(at, source.length as usize)?;
                Ok((at, number_of(at)?, disk_of(&self.directories, at)?))
            });
            let Ok((directory, number, disk)) = place else {
                self.tell_abandoned(chunk, stamp);
                continue;
            };
            let claim = Claim { cluster: self.cluster, chunk, stamp };
            let Ok(replica) = Replica::create_copy(disk, number, claim) else {
                self.tell_abandoned(chunk, stamp);
                continue;
            };
            let into = Into::Sealed(Box::new(replica));
            let (next, fetches, failed) = (0, BTreeMap::new(), 0);
            self.run(Copy { chunk, stamp, directory, source, into, next, fetches, failed });
        }
    }

    fn run(&mut self, mut copy: Copy<Grouped<D>>) {
        copy.fetch(&mut self.copies.issues, &mut self.copies.last_fetch, self.config.write_bytes);
        if copy.fetches.is_empty() {
            return self.abandon(copy, Error::Unavailable);
        }
        self.copies.running.push(copy);
    }

    /// Handles another datanode's answer to a read. Pass Unavailable if there was no answer.
    pub fn on_fetched(&mut self, id: u64, answer: Result<Piece>) {
        let mine = |copy: &Copy<Grouped<D>>| copy.fetches.values().any(|(fetch, _)| *fetch == id);
        let Some(at) = self.copies.running.iter().position(mine) else { return };
        let mut copy = self.copies.running.swap_remove(at);
        match self.take_fetched(&mut copy, id, answer) {
            Ok(false) => self.run(copy),
            Ok(true) => self.complete(copy),
            Err(error) => self.abandon(copy, error),
        }
        self.start_copies();
    }

    /// Handles the answer to one of the copy's reads. Returns true if the copy is complete now.
    fn take_fetched(&mut self, copy: &mut Copy<Grouped<D>>, id: u64, answer: Result<Piece>) -> Result<bool> {
        let faults = self.config.faults;
        let found = copy.fetches.iter().find(|(_, (fetch, _))| *fetch == id);
        let Some(offset) = found.map(|(offset, _)| *offset) else { return Ok(false) };
        let read = read_of(&copy.source, offset, self.config.write_bytes);
        let checked = answer.and_then(|piece| {
            if faults.has(Fault::CopyNotVerified) {
                return Ok(piece.bytes);
            }
            Checked::of(&read, piece, &self.config).map(|checked| checked.content)
        });
        let bytes = match checked {
            Ok(bytes) if bytes.len() == read.length as usize || faults.has(Fault::CopyCutShort) => bytes,
            other => {
                copy.failed += 1;
                if copy.failed >= copy.source.nodes.len() {
                    return Err(other.err().unwrap_or(Error::BeyondEnd));
                }
                // Continue at the next datanode, from the offset where this one failed.
                copy.fetches.retain(|at, _| *at < offset);
                copy.next = offset;
                return Ok(false);
            }
        };
        copy.fetches.insert(offset, (id, Some(bytes)));
        self.demand_stamp(copy.chunk, copy.stamp)?;
        if matches!(copy.into, Into::Open(_)) {
            self.reopen(copy.chunk)?;
        }
        let replica = match &mut copy.into {
            Into::Sealed(replica) => replica,
            Into::Open(_) => live(&mut self.replicas, copy.chunk)?,
        };
        while let Some(first) = copy.fetches.first_entry()
            && let Some(bytes) = first.get().1.clone()
        {
            let offset = *first.key();
            first.remove();
            replica.write(id, offset, bytes, &self.config, &mut Vec::new())?;
        }
        let short = faults.has(Fault::CopyCutShort) && replica.sums.length > 0;
        Ok(replica.sums.length >= copy.source.length || short && copy.source.length > 1)
    }

    fn complete(&mut self, copy: Copy<Grouped<D>>) {
        // A late call of the chunk's pipeline may have made a replica. Its files may have the names that
        // the copy's files would get.
        if matches!(copy.into, Into::Sealed(_)) && self.replicas.contains_key(&copy.chunk) {
            return self.abandon(copy, Error::DatanodeBusy);
        }
        let Copy { chunk, stamp, directory, source, into, .. } = copy;
        match into {
            Into::Open(caller) => self.settled.push((caller, Ok(()))),
            Into::Sealed(mut replica) => {
                let length = replica.sums.length.min(source.length);
                let sealed = disk_of(&self.directories, directory).map_err(Failure::from);
                let sealed =
                    sealed.and_then(|disk| replica.begin_seal(disk, (0, stamp, length), &self.config));
                let sealed = self.settle_sync(directory, sealed);
                if let Ok(Begun::Sealed(sealed)) = sealed {
                    self.put_sealed(chunk, sealed);
                } else {
                    if let Ok(disk) = disk_of(&self.directories, directory) {
                        replica.names().iter().for_each(|file| drop(disk.remove(file)));
                    }
                    self.tell_abandoned(chunk, stamp);
                }
            }
        }
    }

    fn abandon(&mut self, copy: Copy<Grouped<D>>, error: Error) {
        match copy.into {
            // The open replica stays until the namenode orders its deletion, as for every unneeded
            // replica.
            Into::Open(caller) => self.settled.push((caller, Err(error))),
            Into::Sealed(_) => {
                if let Ok(disk) = disk_of(&self.directories, copy.directory) {
                    let _ = disk.remove(&name(copy.chunk, copy.stamp, Kind::Copy));
                }
                self.tell_abandoned(copy.chunk, copy.stamp);
            }
        }
    }

    /// Reports an abandoned copy, so that the namenode orders another one elsewhere. If this datanode has
    /// another replica of the chunk, which a pipeline may have left open, reports that one: the namenode
    /// doesn't know it.
    fn tell_abandoned(&mut self, chunk: ChunkId, stamp: Stamp) {
        self.changes.push(match self.replicas.get(&chunk) {
            Some(kept) => Change::Has(kept.report(chunk)),
            None => Change::Gone { chunk, stamp },
        });
    }

    /// Abandons the copies for which `which` is true.
    pub(super) fn drop_copies(&mut self, which: impl Fn(&Copy<Grouped<D>>) -> bool) {
        let (gone, kept) = std::mem::take(&mut self.copies.running).into_iter().partition(which);
        self.copies.running = kept;
        let gone: Vec<Copy<Grouped<D>>> = gone;
        gone.into_iter().for_each(|copy| self.abandon(copy, Error::NoReplica));
    }
}

impl<D: Disk> Copy<D> {
    /// Issues the next reads, up to the limit.
    fn fetch(&mut self, issues: &mut VecDeque<Fetch>, last: &mut u64, most: u32) {
        while self.fetches.len() < FETCHES && self.next < self.source.length {
            let Some(from) = self.source.nodes.get(self.failed).copied() else { return };
            *last += 1;
            let read = read_of(&self.source, self.next, most);
            issues.push_back(Fetch { id: *last, from, read });
            self.fetches.insert(self.next, (*last, None));
            self.next += read.length;
        }
    }
}

fn read_of(source: &Source, offset: u32, most: u32) -> Read {
    let length = source.length.saturating_sub(offset).min(most.max(1));
    Read { chunk: source.chunk, stamp: source.stamp, offset, length, acknowledged: 0 }
}
