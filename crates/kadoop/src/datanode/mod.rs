//! The datanode: replicas in data directories.
//!
//! Open, returned, sealed: see `docs/kadoop-protocol.md`. All calls are answered at once, except
//! writes that arrive out of order: [`Datanode::settled`] names their callers later.

mod copies;
mod memory;
mod open_files;
mod places;
mod replica;
mod room;
mod scrub;
mod strangers;
mod sums;

pub use copies::Fetch;
pub use places::{Place, Placed};
pub use strangers::Stranger;
pub use sums::{Claim, Sums, Unproven, provable};

use crate::{
    ChunkId, Config, Identity, Incarnation, Member, Millis, NodeId, Stamp,
    config::MAX_FENCES,
    crc32c::Appended,
    disk::Disk,
    error::{Error, Result},
    faults::Fault,
    messages::{
        Change, Digested, Heartbeat, HeartbeatAnswer, Order, Piece, Read, ReplicaReport, ReplicaState, Space,
        Write,
    },
};
use copies::Copies;
use memory::Memory;
use open_files::OpenFiles;
use replica::{Failure, Replica, disk, name, parse_name};
use room::Room;
use scrub::Scrub;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::OnceLock,
};

/// A datanode.
pub struct Datanode<D: Disk> {
    config: Config,
    directories: Vec<Option<D>>,
    room: Room,
    replicas: BTreeMap<ChunkId, Replica<D>>,
    /// Files of replicas that nobody writes.
    open: OpenFiles<D::File>,
    /// Replicas whose files may be open for writes.
    open_for_writes: Vec<ChunkId>,
    /// Number of writes so far.
    writes: u64,
    /// Fences of chunks that aren't here. They last as long as the incarnation, and so do the
    /// writes that they reject.
    fences: BTreeMap<ChunkId, Stamp>,
    identity: Identity,
    /// 0 until it has joined its first namenode.
    cluster: u64,
    incarnation: Incarnation,
    node: Option<NodeId>,
    session: u64,
    number: u64,
    report: bool,
    memory: Memory<D::File>,
    /// Changes that the namenode doesn't know yet.
    changes: Vec<Change>,
    settled: Vec<(u64, Result<()>)>,
    last_place: u64,
    /// Files of removed replicas.
    discarded: Vec<D::File>,
    copies: Copies<D>,
    scrub: Scrub,
    /// Time of the next full report.
    report_at: Millis,
    unopened: Vec<(String, io::Error)>,
    strangers: Vec<Stranger>,
    /// Combines checksums of whole units; built for the first digest.
    units: OnceLock<Appended>,
}

impl<D: Disk> Datanode<D> {
    /// Opens the replicas in `directories`, which are of `cluster` (0: of none yet). `incarnation`
    /// must be a random number that no other run has had.
    ///
    /// # Errors
    /// The disks'.
    pub fn start(
        config: Config,
        directories: Vec<D>,
        identity: Identity,
        cluster: u64,
        incarnation: Incarnation,
    ) -> io::Result<Self> {
        let (mut replicas, mut strangers, mut unopened) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (index, directory) in directories.iter().enumerate() {
            // The run before may have been killed between a rename and its sync.
            directory.sync_names()?;
            scan(directory, (index, cluster), &config, &mut replicas, &mut strangers, &mut unopened)?;
        }
        Ok(Self {
            open: OpenFiles::new(config.open_replicas),
            open_for_writes: Vec::new(),
            writes: 0,
            config,
            room: Room::new(directories.len()),
            memory: Memory::open(&directories),
            directories: directories.into_iter().map(Some).collect(),
            replicas,
            fences: BTreeMap::new(),
            identity,
            cluster,
            incarnation,
            node: None,
            session: 0,
            number: 0,
            report: false,
            changes: Vec::new(),
            settled: Vec::new(),
            last_place: 0,
            discarded: Vec::new(),
            copies: Copies::default(),
            scrub: Scrub::default(),
            report_at: 0,
            unopened,
            strangers,
            units: OnceLock::new(),
        })
    }

    /// Files of replicas that the start couldn't open, with the errors. They are left as they are,
    /// and don't count.
    pub fn unopened(&self) -> &[(String, io::Error)] {
        &self.unopened
    }

    /// The cluster of the replicas; 0: none yet.
    pub fn cluster(&self) -> u64 {
        self.cluster
    }

    /// Records the cluster of the first namenode that the datanode has joined. Call this before
    /// [`Self::on_answer`]: replicas made from then on name the cluster.
    pub fn join(&mut self, cluster: u64) {
        if self.cluster == 0 {
            self.cluster = cluster;
            self.replicas.values_mut().for_each(|replica| replica.join(cluster));
        }
    }

    /// The current run.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The replica's report.
    pub fn replica(&self, chunk: ChunkId) -> Option<ReplicaReport> {
        self.replicas.get(&chunk).map(Replica::report)
    }

    /// All replicas' reports.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaReport> {
        self.replicas.values().map(Replica::report)
    }

    /// Takes a write. [`Self::settled`] names `caller`, now or when the bytes before it have
    /// arrived.
    pub fn write(&mut self, caller: u64, write: &Write) {
        let mut applied = Vec::new();
        let result = self.try_write(caller, write, &mut applied);
        self.settle(caller, result, applied);
    }

    fn settle(&mut self, caller: u64, result: Result<()>, applied: Vec<u64>) {
        self.settled.extend(applied.into_iter().map(|caller| (caller, Ok(()))));
        if let Err(error) = result {
            self.settled.push((caller, Err(error)));
        }
    }

    fn try_write(&mut self, caller: u64, write: &Write, applied: &mut Vec<u64>) -> Result<()> {
        self.demand_member(&write.pipeline)?;
        self.demand_stamp(write.chunk, write.stamp)?;
        self.make_ready(write)?;
        let replica = self.replicas.get_mut(&write.chunk).ok_or(Error::NoReplica)?;
        replica.write(caller, write.offset, write.bytes.clone(), &self.config, applied)
    }

    /// Makes the write's replica if it is missing, and reserves room for the bytes.
    fn make_ready(&mut self, write: &Write) -> Result<()> {
        let bytes = write.bytes.len();
        match self.replicas.get(&write.chunk) {
            Some(replica) => {
                let directory = replica.directory;
                self.reopen(write.chunk)?;
                self.room.take(directory, bytes)
            }
            None => self.create(write.chunk, write.stamp, bytes),
        }
    }

    /// Makes a replica in a directory with room for so many bytes, and reserves them.
    fn create(&mut self, chunk: ChunkId, stamp: Stamp, bytes: usize) -> Result<()> {
        self.make_way(chunk)?;
        self.close_one()?;
        let index = self.room.next(&self.directories)?;
        self.room.take(index, bytes)?;
        let directory = disk_of(&self.directories, index)?;
        let claim = Claim { cluster: self.cluster, chunk, stamp };
        self.writes += 1;
        let mut replica = Replica::create(directory, index, claim)?;
        replica.written = self.writes;
        self.replicas.insert(chunk, replica);
        self.open_for_writes.push(chunk);
        Ok(())
    }

    /// Whether this run of the datanode is a member of the pipeline.
    fn demand_member(&self, pipeline: &[Member]) -> Result<()> {
        let me = pipeline.iter().find(|member| Some(member.node) == self.node);
        let mine = me.is_some_and(|member| member.incarnation == self.incarnation);
        if mine || self.config.faults.has(Fault::IncarnationIgnored) {
            Ok(())
        } else {
            Err(Error::WrongIncarnation)
        }
    }

    /// Whether this is still the given member of a pipeline.
    ///
    /// # Errors
    /// WrongIncarnation, if it isn't.
    pub fn probe(&self, member: Member) -> Result<()> {
        self.demand_member(&[member])
    }

    /// Writes and beginnings of continued chunks that were settled since the last call, by their
    /// callers' numbers.
    pub fn settled(&mut self) -> Vec<(u64, Result<()>)> {
        std::mem::take(&mut self.settled)
    }

    /// Records that all bytes up to `length` are acknowledged.
    ///
    /// # Errors
    /// StaleStamp, NoReplica, NotOpen, BeyondEnd.
    pub fn publish(&mut self, chunk: ChunkId, stamp: Stamp, length: u32) -> Result<()> {
        self.demand_stamp(chunk, stamp)?;
        self.replicas.get_mut(&chunk).ok_or(Error::NoReplica)?.publish(length)
    }

    /// As [`Self::publish`], and syncs.
    ///
    /// # Errors
    /// As [`Self::publish`]; Disk.
    pub fn sync(&mut self, chunk: ChunkId, stamp: Stamp, length: u32) -> Result<()> {
        self.publish(chunk, stamp, length)?;
        let replica = self.replicas.get_mut(&chunk).ok_or(Error::NoReplica)?;
        let index = replica.directory;
        let synced = replica.sync(disk_of(&self.directories, index)?, &self.config);
        self.settle_sync(index, synced)
    }

    /// Handles a failed sync in a directory.
    fn settle_sync(&mut self, directory: usize, synced: Result<(), Failure>) -> Result<()> {
        if let Err(Failure::Names(_)) = synced {
            // The directory's next sync may succeed without these names.
            let there = |replica: &&mut Replica<D>| replica.directory == directory && replica.is_nameless();
            self.replicas.values_mut().filter(there).for_each(Replica::distrust);
        }
        synced.map_err(Failure::into_error)
    }

    /// Seals the replica at `length`, on disk. Not even a namenode's order changes a sealed
    /// replica's bytes.
    ///
    /// # Errors
    /// StaleStamp, NoReplica, NotOpen (sealed at another length), BeyondEnd, Disk.
    pub fn seal(&mut self, chunk: ChunkId, stamp: Stamp, length: u32) -> Result<()> {
        self.demand_stamp(chunk, stamp)?;
        self.make_way(chunk)?;
        let replica = self.replicas.get_mut(&chunk).ok_or(Error::NoReplica)?;
        let index = replica.directory;
        let directory = disk_of(&self.directories, index)?;
        let held = replica.refuse_held();
        self.settled.extend(held.into_iter().map(|caller| (caller, Err(Error::NotOpen))));
        let of = (chunk, replica.stamp);
        let sealed = replica.seal(directory, stamp, length, &self.config);
        // Also report that it has lost bytes, and can't be sealed at that length any more.
        if sealed.is_ok() || matches!(&sealed, Err(Failure::Refused(Error::Corrupt))) {
            self.changes.push(Change::Has(replica.report()));
        }
        // Sealing may have replaced the file.
        let old = self.open.close(of);
        self.discard(old);
        self.settle_sync(index, sealed)
    }

    /// Reads a replica's visible bytes.
    ///
    /// # Errors
    /// NoReplica; NotOpen, for a returned replica; StaleStamp if the namenode named another stamp;
    /// Corrupt; Disk.
    pub fn read(&self, read: &Read) -> Result<Piece> {
        let replica = self.readable(read)?;
        replica.read(&self.file(replica).map_err(disk)?, read, &self.config)
    }

    /// The digest of the bytes that [`Datanode::read`] would return, at any length and without
    /// reading them.
    ///
    /// # Errors
    /// As [`Datanode::read`].
    pub fn digest(&self, read: &Read) -> Result<Digested> {
        let units = self.units.get_or_init(|| Appended::of(self.config.unit_bytes.into()));
        let replica = self.readable(read)?;
        replica.digest(&self.file(replica).map_err(disk)?, read, units, &self.config)
    }

    fn readable(&self, read: &Read) -> Result<&Replica<D>> {
        let replica = self.replicas.get(&read.chunk).ok_or(Error::NoReplica)?;
        if replica.stamp != read.stamp {
            return Err(Error::StaleStamp);
        }
        Ok(replica)
    }

    /// The names of a sealed replica's bytes and of its table of checksums, for readers that may
    /// open them. Neither file is ever changed, cut or reused. A deletion removes the names, and a
    /// new stamp changes them.
    ///
    /// # Errors
    /// NoReplica; StaleStamp if the namenode named another stamp; Invalid: not sealed; Corrupt;
    /// Disk.
    pub fn sealed(&self, chunk: ChunkId, stamp: Stamp) -> Result<(&D, [String; 2])> {
        let replica = self.replicas.get(&chunk).ok_or(Error::NoReplica)?;
        if replica.stamp != stamp {
            return Err(Error::StaleStamp);
        }
        if replica.state != ReplicaState::Sealed {
            return Err(Error::Invalid("the replica isn't sealed"));
        }
        if replica.damaged {
            return Err(Error::Corrupt);
        }
        Ok((disk_of(&self.directories, replica.directory)?, replica.sealed_names()))
    }

    fn demand_stamp(&self, chunk: ChunkId, stamp: Stamp) -> Result<()> {
        let highest = match self.replicas.get(&chunk) {
            Some(replica) => Some(replica.fenced),
            None => self.fences.get(&chunk).copied(),
        };
        if highest.is_some_and(|highest| stamp < highest)
            && !self.config.faults.has(Fault::StaleStampAccepted)
        {
            return Err(Error::StaleStamp);
        }
        Ok(())
    }

    fn fence(&mut self, chunk: ChunkId, stamp: Stamp) {
        if let Some(replica) = self.replicas.get_mut(&chunk) {
            replica.fenced = replica.fenced.max(stamp);
            let held = replica.refuse_held();
            self.settled.extend(held.into_iter().map(|caller| (caller, Err(Error::StaleStamp))));
        } else if !self.config.faults.has(Fault::FenceForgotten) {
            let fence = self.fences.entry(chunk).or_default();
            *fence = stamp.max(*fence);
        }
        let replica = self.replica(chunk);
        self.changes.push(Change::Fenced { chunk, stamp, replica });
        if self.fences.len() > MAX_FENCES {
            self.begin_anew();
        }
    }

    /// Number of data directories that haven't failed. With none left the datanode is useless, and
    /// has to stop so that the namenode stops using it.
    pub fn directories(&self) -> usize {
        self.directories.iter().flatten().count()
    }

    /// Handles a failed data directory: its replicas are gone, and so is this incarnation.
    pub fn lose_directory(&mut self, index: usize) {
        if let Some(directory) = self.directories.get_mut(index) {
            *directory = None;
            for replica in self.replicas.values_mut().filter(|replica| replica.directory == index) {
                let held = replica.refuse_held();
                self.settled.extend(held.into_iter().map(|caller| (caller, Err(Error::Disk))));
            }
            self.replicas.retain(|_, replica| replica.directory != index);
            self.open.clear();
            self.drop_copies(|copy| copy.directory == index);
            self.begin_anew();
        }
    }

    /// Begins another incarnation, which isn't bound by promises of the one before.
    fn begin_anew(&mut self) {
        self.incarnation.0 = self.incarnation.0.wrapping_add(1);
        self.fences.clear();
        self.session = 0;
    }

    /// Sets the bytes that each data directory could take at the time of the previous call, or
    /// later. Bytes written since are subtracted. Without room, writes are refused.
    pub fn set_room(&mut self, bytes: &[u64]) {
        self.room.set(bytes);
    }

    /// Whether there is news that the namenode should get at once.
    pub fn has_news(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The files of a replica that is being written, opened again. The caller syncs them ahead of
    /// [`Datanode::sync`] and [`Datanode::seal`], so that other calls needn't wait. If its sync
    /// fails, it calls [`Datanode::distrust`]. Files that can't be opened aren't synced ahead.
    pub fn unsynced(&self, chunk: ChunkId) -> Vec<D::File> {
        let Some(replica) = self.replicas.get(&chunk) else { return Vec::new() };
        let directory = disk_of(&self.directories, replica.directory);
        directory.ok().and_then(|directory| replica.open_again(directory).ok()).unwrap_or_default()
    }

    /// Files to close outside of the lock. If one was unlinked, closing it frees its bytes, which takes
    /// time.
    pub fn discarded(&mut self) -> Vec<D::File> {
        std::mem::take(&mut self.discarded)
    }

    /// Handles a failed sync of the replica's files. A second sync that succeeds would prove
    /// nothing.
    pub fn distrust(&mut self, chunk: ChunkId) {
        if let Some(replica) = self.replicas.get_mut(&chunk) {
            replica.distrust();
        }
    }

    /// Does the periodic work; once a second is enough.
    pub fn tick(&mut self, now: Millis) {
        if now >= self.report_at {
            self.report_at = now + self.config.report_ms;
            self.report = true;
        }
        self.memory.tick(&self.directories, now);
        self.scrub(now);
    }

    /// The files that keep what was heard of the namenode's log, if they changed since the last call.
    /// The caller syncs them.
    pub fn unsynced_memory(&mut self) -> Vec<D::File> {
        self.memory.unsynced()
    }

    /// The next call to the namenode. One at a time: report its answer, or its failure, before the
    /// next.
    pub fn heartbeat(&mut self, space: Space) -> Heartbeat {
        self.number += 1;
        let registered = self.session != 0;
        let full: Option<Vec<ReplicaReport>> =
            (registered && self.report).then(|| self.replicas.values().map(Replica::report).collect());
        if full.is_some() {
            self.tell_damaged();
        }
        let changes = if registered { self.changes.clone() } else { Vec::new() };
        let Self { identity, incarnation, session, number, .. } = *self;
        let (seen, highest) =
            (self.memory.heard(), if registered { Default::default() } else { self.highest() });
        Heartbeat { identity, incarnation, session, number, space, seen, highest, full, changes }
    }

    /// The highest chunk and the highest stamp here.
    fn highest(&self) -> (ChunkId, Stamp) {
        let chunk = self.replicas.last_key_value().map(|(chunk, _)| *chunk);
        let stamp = self.replicas.values().map(|replica| replica.stamp).max();
        (chunk.unwrap_or_default(), stamp.unwrap_or_default())
    }

    /// Takes the answer to `beat` and obeys its orders.
    pub fn on_answer(&mut self, beat: &Heartbeat, answer: Result<HeartbeatAnswer>) {
        let Ok(answer) = answer else {
            // The session that ordered the copies is gone.
            self.session = 0;
            self.copies.ordered.clear();
            return;
        };
        // A directory was lost meanwhile, so the answer belongs to the run before.
        if beat.incarnation != self.incarnation && !self.config.faults.has(Fault::FormerRunBelieved) {
            return;
        }
        if beat.session == 0 {
            // The full report that follows includes these changes.
            self.changes.clear();
        } else {
            self.changes.drain(..beat.changes.len().min(self.changes.len()));
        }
        (self.session, self.node) = (answer.session, Some(answer.node));
        self.memory.hear(answer.log);
        self.report = answer.report || self.report && beat.full.is_none();
        for order in answer.orders {
            self.obey(order);
        }
    }

    /// Obeys an order of the namenode.
    pub fn obey(&mut self, order: Order) {
        match order {
            Order::Delete { chunk, stamp } => self.delete(chunk, stamp),
            Order::Fence { chunk, stamp } => self.fence(chunk, stamp),
            // The next round's fence reports a replica that can't be sealed.
            Order::Seal { chunk, stamp, length } => drop(self.seal(chunk, stamp, length)),
            Order::Copy(source) => self.order_copy(source),
            Order::Verify { chunk, stamp } => self.scrub.first(chunk, stamp),
        }
    }

    /// Drops the replica from the reports at once, even if the disk fails to remove it.
    fn delete(&mut self, chunk: ChunkId, stamp: Stamp) {
        self.drop_copies(|copy| copy.chunk == chunk && copy.stamp <= stamp);
        if self.replicas.get(&chunk).is_some_and(|replica| replica.stamp <= stamp)
            && let Some(mut replica) = self.replicas.remove(&chunk)
        {
            let held = replica.refuse_held();
            self.settled.extend(held.into_iter().map(|caller| (caller, Err(Error::NoReplica))));
            let cached = self.open.close((chunk, replica.stamp));
            self.spare_a_stranger(&replica);
            if self.make_way(chunk).is_ok()
                && let Some(directory) = &self.directories[replica.directory]
            {
                let large = cached.is_none() && replica.sums.length >= LARGE_BYTES;
                let opened = if large { replica.open(directory).ok() } else { None };
                remove_files(directory, chunk, replica.stamp);
                self.discard(opened);
            }
            self.discard(cached);
        }
        if !self.replicas.contains_key(&chunk) {
            self.changes.push(Change::Gone { chunk, stamp });
        }
    }
}

/// Length from which freeing a file's bytes takes noticeable time.
const LARGE_BYTES: u32 = 1 << 20;
/// The data directory, unless it has failed.
fn disk_of<D>(directories: &[Option<D>], index: usize) -> Result<&D> {
    directories.get(index).and_then(Option::as_ref).ok_or(Error::Disk)
}

/// Removes all files that a replica may have.
fn remove_files<D: Disk>(directory: &D, chunk: ChunkId, stamp: Stamp) {
    for kind in ["open", "sums", "data", "table", "copy"] {
        let _ = directory.remove(&name(chunk, stamp, kind));
    }
}

/// Whether a file name is a replica's.
pub(crate) fn is_replica(file: &str) -> bool {
    parse_name(file).is_some()
}

/// Opens a directory's replicas. Of two replicas of one chunk it keeps the one with the higher
/// stamp. It removes leftovers of an interrupted seal or copy.
fn scan<D: Disk>(
    directory: &D,
    (index, cluster): (usize, u64),
    config: &Config,
    replicas: &mut BTreeMap<ChunkId, Replica<D>>,
    strangers: &mut Vec<Stranger>,
    unopened: &mut Vec<(String, io::Error)>,
) -> io::Result<()> {
    let names = directory.list()?;
    let there: BTreeSet<(ChunkId, Stamp, &str)> = names.iter().filter_map(|name| parse_name(name)).collect();
    for (chunk, stamp, kind) in &there {
        let claim = Claim { cluster, chunk: *chunk, stamp: *stamp };
        let opened = match *kind {
            "data" => Replica::sealed(directory, index, claim, config),
            "open" => Replica::returned(directory, index, claim, config),
            "sums" if !there.contains(&(*chunk, *stamp, "open")) => {
                directory.remove(&name(*chunk, *stamp, kind))?;
                continue;
            }
            "copy" | "anew" => {
                directory.remove(&name(*chunk, *stamp, kind))?;
                continue;
            }
            "table" if !["data", "open"].iter().any(|kind| there.contains(&(*chunk, *stamp, *kind))) => {
                directory.remove(&name(*chunk, *stamp, kind))?;
                continue;
            }
            _ => continue,
        };
        let replica = match opened {
            Ok(Ok(replica)) => replica,
            Ok(Err(belongs)) => {
                let (file, chunk, stamp) = (name(*chunk, *stamp, kind), *chunk, *stamp);
                strangers.push(Stranger { file, belongs, directory: index, chunk, stamp });
                continue;
            }
            Err(error) if is_of_one_file(&error) => {
                unopened.push((name(*chunk, *stamp, kind), error));
                continue;
            }
            Err(error) => return Err(error),
        };
        // The leftover of a failed seal in one directory mustn't hide the result of the next in
        // another.
        let worth = |it: &Replica<D>| (it.stamp, it.state == ReplicaState::Sealed, it.sums.length);
        if replicas.get(chunk).is_none_or(|other| worth(other) < worth(&replica)) {
            replicas.insert(*chunk, replica);
        }
    }
    Ok(())
}

/// Whether the error concerns this file only. If descriptors or memory have run out, sound replicas
/// would look lost.
fn is_of_one_file(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let of_one_file = [Errno::IO, Errno::ACCESS, Errno::PERM, Errno::NOENT, Errno::ISDIR, Errno::UCLEAN];
    Errno::from_io_error(error).is_some_and(|error| of_one_file.contains(&error))
}
