//! The datanode: replicas in data directories.
//!
//! A replica is open, returned or sealed: see `docs/kadoop-protocol.md`. Calls return their results at
//! once. Exceptions are writes and the beginnings of continued chunks, which may have to wait for other
//! bytes: [`Datanode::settled`] returns their results.

mod content;
mod copies;
mod failure;
mod fences;
mod memory;
mod names;
mod open_files;
mod places;
mod replica;
mod room;
mod scan;
mod scrub;
mod sealed;
mod seals;
mod strangers;
mod sums;

pub use crate::check::Sums;
pub use copies::Fetch;
pub use places::{Place, Placed};
pub use replica::{Sealing, Synced};
pub use strangers::Stranger;
pub use sums::{Claim, Unproven, provable};

use crate::{
    ChunkId, Config, Identity, Incarnation, Member, Millis, NodeId, Stamp,
    disk::{Disk, Grouped},
    error::{Error, Result},
    faults::Fault,
    messages::{
        Change, Digested, Heartbeat, HeartbeatAnswer, Order, Piece, Read, ReplicaReport, Space, Write,
    },
};
use copies::Copies;
use failure::{Failure, disk};
use memory::Memory;
use names::parse_name;
use open_files::OpenFiles;
use replica::Replica;
use room::Room;
use scan::Scan;
use scrub::Scrub;
use sealed::{Opened, Sealed};
use std::{collections::BTreeMap, io, sync::OnceLock};
use strait_crc::Appended;

/// A datanode.
pub struct Datanode<D: Disk> {
    config: Config,
    directories: Vec<Option<Grouped<D>>>,
    room: Room,
    replicas: BTreeMap<ChunkId, Kept<D>>,
    /// Sealed replicas whose file has the name of a new stamp, since a failed change of the stamp couldn't
    /// be undone. The value has the stamp of the file's name.
    misnamed: BTreeMap<ChunkId, Sealed>,
    /// Open files of sealed replicas.
    open: OpenFiles<D::File>,
    /// Replicas whose files may be open for writes.
    open_for_writes: Vec<ChunkId>,
    /// Number of writes so far.
    writes: u64,
    /// Number of seals so far.
    seals: u64,
    /// Fences of chunks without an open or returned replica here. They last as long as the incarnation:
    /// after that, the writes that they reject are refused for naming an earlier incarnation.
    fences: BTreeMap<ChunkId, Stamp>,
    identity: Identity,
    /// The cluster's number; 0 until the datanode has joined its first namenode.
    cluster: u64,
    incarnation: Incarnation,
    node: Option<NodeId>,
    session: u64,
    number: u64,
    report: bool,
    memory: Memory<D::File>,
    /// Changes that the namenode hasn't confirmed yet.
    changes: Vec<Change>,
    settled: Vec<(u64, Result<()>)>,
    last_place: u64,
    /// Files that the caller has to close ([`Datanode::discarded`]).
    discarded: Vec<D::File>,
    copies: Copies<Grouped<D>>,
    scrub: Scrub,
    /// Time of the next full report.
    report_at: Millis,
    unopened: Vec<(String, io::Error)>,
    strangers: Vec<Stranger>,
    /// Combines checksums of whole units. Built when the first digest is requested.
    units: OnceLock<Appended>,
}

/// A replica that counts.
enum Kept<D: Disk> {
    Sealed(Sealed),
    /// Open or returned. There are few of these.
    Live(Box<Replica<Grouped<D>>>),
}

impl<D: Disk> Kept<D> {
    fn report(&self, chunk: ChunkId) -> ReplicaReport {
        match self {
            Self::Sealed(sealed) => sealed.report(chunk),
            Self::Live(replica) => replica.report(),
        }
    }

    fn stamp(&self) -> Stamp {
        match self {
            Self::Sealed(sealed) => sealed.stamp,
            Self::Live(replica) => replica.stamp,
        }
    }

    fn directory(&self) -> usize {
        match self {
            Self::Sealed(sealed) => sealed.directory.into(),
            Self::Live(replica) => replica.directory.into(),
        }
    }

    fn live(&mut self) -> Option<&mut Replica<Grouped<D>>> {
        match self {
            Self::Sealed(_) => None,
            Self::Live(replica) => Some(replica),
        }
    }
}

impl<D: Disk + Clone> Datanode<D> {
    /// Opens the replicas in `directories`, which belong to `cluster` (0: to none yet). `incarnation`
    /// must be a random number, never used by another run.
    ///
    /// # Errors
    /// A disk's I/O error that concerns more than one file, or more than 65,536 directories.
    pub fn start(
        config: Config,
        directories: Vec<D>,
        identity: Identity,
        cluster: u64,
        incarnation: Incarnation,
    ) -> io::Result<Self> {
        let memory = Memory::open(&directories);
        let directories: Vec<Grouped<D>> = directories.into_iter().map(Grouped::new).collect();
        let Scan { replicas, strangers, unopened, .. } = Scan::of(&directories, cluster, &config)?;
        Ok(Self {
            misnamed: BTreeMap::new(),
            open: OpenFiles::new(config.open_replicas),
            open_for_writes: Vec::new(),
            writes: 0,
            seals: 0,
            config,
            room: Room::new(directories.len()),
            memory,
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

    /// Files of replicas that the start couldn't open, with the errors. The datanode doesn't touch these
    /// files, and doesn't report the replicas.
    pub fn unopened(&self) -> &[(String, io::Error)] {
        &self.unopened
    }

    /// The cluster to which the replicas belong; 0 if there is none yet.
    pub fn cluster(&self) -> u64 {
        self.cluster
    }

    /// Records the cluster of the first namenode that the datanode has joined. Call this before
    /// [`Self::on_answer`]: replicas made from then on name the cluster.
    pub fn join(&mut self, cluster: u64) {
        if self.cluster == 0 {
            self.cluster = cluster;
            let live = self.replicas.values_mut().filter_map(Kept::live);
            live.for_each(|replica| replica.join(cluster));
        }
    }

    /// The current run.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The replica's report.
    pub fn replica(&self, chunk: ChunkId) -> Option<ReplicaReport> {
        self.replicas.get(&chunk).map(|kept| kept.report(chunk))
    }

    /// All replicas' reports.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaReport> {
        self.replicas.iter().map(|(chunk, kept)| kept.report(*chunk))
    }

    /// Handles a write. [`Self::settled`] returns its result with the number `caller`, at once or when the
    /// bytes before it have arrived.
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
        let replica = live(&mut self.replicas, write.chunk)?;
        replica.write(caller, write.offset, write.bytes.clone(), &self.config, applied)
    }

    /// Makes the write's replica if there is none, and reserves room for the bytes.
    fn make_ready(&mut self, write: &Write) -> Result<()> {
        let bytes = write.bytes.len();
        match self.replicas.get(&write.chunk) {
            Some(Kept::Sealed(_)) => Err(Error::NotOpen),
            Some(Kept::Live(replica)) => {
                let directory = replica.directory.into();
                self.reopen(write.chunk)?;
                self.room.take(directory, bytes)
            }
            None => self.create(write.chunk, write.stamp, bytes),
        }
    }

    /// Makes a replica in a directory with room for `bytes`, and reserves that room.
    fn create(&mut self, chunk: ChunkId, stamp: Stamp, bytes: usize) -> Result<()> {
        self.make_way(chunk)?;
        self.close_one()?;
        let index = self.room.next(&self.directories)?;
        self.room.take(index, bytes)?;
        let directory = disk_of(&self.directories, index)?;
        let claim = Claim { cluster: self.cluster, chunk, stamp };
        self.writes += 1;
        let mut replica = Replica::create(directory, number_of(index)?, claim)?;
        replica.written = self.writes;
        self.replicas.insert(chunk, Kept::Live(Box::new(replica)));
        self.open_for_writes.push(chunk);
        Ok(())
    }

    /// Checks that this run of the datanode is a member of the pipeline.
    fn demand_member(&self, pipeline: &[Member]) -> Result<()> {
        let me = pipeline.iter().find(|member| Some(member.node) == self.node);
        let mine = me.is_some_and(|member| member.incarnation == self.incarnation);
        if mine || self.config.faults.has(Fault::IncarnationIgnored) {
            Ok(())
        } else {
            Err(Error::WrongIncarnation)
        }
    }

    /// Checks that the datanode still has this member's number and incarnation.
    ///
    /// # Errors
    /// WrongIncarnation: it has another one.
    pub fn probe(&self, member: Member) -> Result<()> {
        self.demand_member(&[member])
    }

    /// The results of writes and of beginnings of continued chunks since the last call, with their
    /// callers' numbers.
    pub fn settled(&mut self) -> Vec<(u64, Result<()>)> {
        std::mem::take(&mut self.settled)
    }

    /// Records that all bytes up to `length` are acknowledged.
    ///
    /// # Errors
    /// StaleStamp: the chunk has a higher stamp here. NoReplica: there is no replica. NotOpen: the replica
    /// is returned. BeyondEnd: it is shorter. Disk, NoSpace: the records of its checksums couldn't be
    /// written.
    pub fn publish(&mut self, chunk: ChunkId, stamp: Stamp, length: u32) -> Result<()> {
        self.demand_stamp(chunk, stamp)?;
        match self.replicas.get_mut(&chunk).ok_or(Error::NoReplica)? {
            Kept::Sealed(sealed) if length <= sealed.length => Ok(()),
            Kept::Sealed(_) => Err(Error::BeyondEnd),
            Kept::Live(replica) => {
                let directory = disk_of(&self.directories, replica.directory.into())?;
                replica.publish(directory, length, &self.config)
            }
        }
    }

    /// As [`Self::publish`], and syncs the replica.
    ///
    /// # Errors
    /// As [`Self::publish`]. Disk: the sync failed.
    pub fn sync(&mut self, chunk: ChunkId, stamp: Stamp, length: u32) -> Result<()> {
        self.publish(chunk, stamp, length)?;
        let Some(Kept::Live(replica)) = self.replicas.get_mut(&chunk) else { return Ok(()) };
        let index = replica.directory.into();
        let synced = replica.sync(disk_of(&self.directories, index)?, &self.config);
        self.settle_sync(index, synced)
    }

    /// Returns the result of a sync in a directory, after handling its failure.
    fn settle_sync<T>(&mut self, directory: usize, synced: Result<T, Failure>) -> Result<T> {
        if let Err(Failure::Names(_)) = synced {
            // The directory's next sync may succeed although these names are lost. So the replicas with
            // such names don't count as open any more.
            let there = |replica: &&mut Replica<_>| {
                usize::from(replica.directory) == directory && replica.is_nameless()
            };
            let live = self.replicas.values_mut().filter_map(Kept::live);
            live.filter(there).for_each(Replica::distrust);
            if let Some(Some(directory)) = self.directories.get(directory) {
                directory.settle();
            }
        }
        synced.map_err(Failure::into_error)
    }

    /// Reads a replica's visible bytes.
    ///
    /// # Errors
    /// NoReplica: there is no replica. NotOpen: the replica is returned. StaleStamp: it has another
    /// stamp than the request. Corrupt: bytes or checksums are damaged. Disk: the disk failed.
    pub fn read(&self, read: &Read) -> Result<Piece> {
        match self.readable(read)? {
            Kept::Sealed(sealed) => {
                let opened = self.opened(read.chunk, sealed)?;
                opened.content().read(read, sealed.length, &self.config)
            }
            Kept::Live(replica) => replica.read(&self.file(replica).map_err(disk)?, read, &self.config),
        }
    }

    /// The digest of the bytes that [`Datanode::read`] would return, computed from their checksums. Unlike
    /// a read, it may have any length.
    ///
    /// # Errors
    /// As [`Datanode::read`].
    pub fn digest(&self, read: &Read) -> Result<Digested> {
        let units = self.units.get_or_init(|| Appended::of(self.config.unit_bytes as usize));
        match self.readable(read)? {
            Kept::Sealed(sealed) if sealed.damaged => Err(Error::Corrupt),
            Kept::Sealed(sealed) => {
                let opened = self.opened(read.chunk, sealed)?;
                opened.content().digest(read, sealed.length, units, &self.config)
            }
            Kept::Live(replica) => {
                replica.digest(&self.file(replica).map_err(disk)?, read, units, &self.config)
            }
        }
    }

    fn readable(&self, read: &Read) -> Result<&Kept<D>> {
        let kept = self.replicas.get(&read.chunk).ok_or(Error::NoReplica)?;
        if kept.stamp() != read.stamp {
            return Err(Error::StaleStamp);
        }
        Ok(kept)
    }

    /// A sealed replica's directory, the name of its file, which begins with the replica's bytes, and its
    /// table of checksums. A reader may keep the file open: the datanode never changes or cuts these
    /// bytes, and never reuses the file. A deletion removes the name, and a new stamp changes it.
    ///
    /// # Errors
    /// NoReplica: there is no replica. StaleStamp: it has another stamp. Invalid: it isn't sealed.
    /// Corrupt: it is damaged. Disk: the disk failed.
    pub fn sealed(&self, chunk: ChunkId, stamp: Stamp) -> Result<(&D, String, Vec<u8>)> {
        let kept = self.replicas.get(&chunk).ok_or(Error::NoReplica)?;
        if kept.stamp() != stamp {
            return Err(Error::StaleStamp);
        }
        let Kept::Sealed(sealed) = kept else { return Err(Error::Invalid("the replica isn't sealed")) };
        if sealed.damaged {
            return Err(Error::Corrupt);
        }
        let sums = self.opened(chunk, sealed)?.sums;
        let table = sums.table(self.config.unit_bytes, self.claim(chunk, stamp));
        Ok((disk_of(&self.directories, sealed.directory.into())?.disk(), sealed.file(chunk), table))
    }

    /// The identity of a replica of this datanode's cluster.
    fn claim(&self, chunk: ChunkId, stamp: Stamp) -> Claim {
        Claim { cluster: self.cluster, chunk, stamp }
    }

    /// Number of data directories that haven't failed. If none is left, the caller has to stop the
    /// datanode, so that the namenode doesn't use it any more.
    pub fn directories(&self) -> usize {
        self.directories.iter().flatten().count()
    }

    /// Handles the failure of a data directory: forgets its replicas, and begins another incarnation.
    pub fn lose_directory(&mut self, index: usize) {
        if let Some(directory) = self.directories.get_mut(index) {
            *directory = None;
            let live = self.replicas.values_mut().filter_map(Kept::live);
            for replica in live.filter(|replica| usize::from(replica.directory) == index) {
                let held = replica.refuse_held();
                self.settled.extend(held.into_iter().map(|caller| (caller, Err(Error::Disk))));
            }
            self.replicas.retain(|_, kept| kept.directory() != index);
            self.misnamed.retain(|_, named| usize::from(named.directory) != index);
            self.open.clear();
            self.drop_copies(|copy| copy.directory == index);
            self.begin_anew();
        }
    }

    /// Sets the number of bytes that each data directory can take. Measure it after the previous call of
    /// this function: bytes taken since that call are subtracted. Without room, writes are refused.
    pub fn set_room(&mut self, bytes: &[u64]) {
        self.room.set(bytes);
    }

    /// Whether there are changes that the namenode should get at once.
    pub fn has_news(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The files of a replica that is being written, opened again. The caller syncs them before
    /// [`Datanode::sync`] and [`Datanode::seal`], without the datanode's lock, so that the sync under the
    /// lock is short. If the caller's sync fails, it calls [`Datanode::distrust`]. Returns nothing if a
    /// file can't be opened.
    pub fn unsynced(&self, chunk: ChunkId) -> Vec<D::File> {
        let Some(Kept::Live(replica)) = self.replicas.get(&chunk) else { return Vec::new() };
        let directory = disk_of(&self.directories, replica.directory.into());
        directory.ok().and_then(|directory| replica.open_again(directory).ok()).unwrap_or_default()
    }

    /// Files that the caller has to close, without the datanode's lock: if a file was removed, closing it
    /// frees its bytes, which takes time.
    pub fn discarded(&mut self) -> Vec<D::File> {
        std::mem::take(&mut self.discarded)
    }

    /// Handles a failed sync of the replica's files: the replica becomes a returned one, since even a
    /// second sync that succeeds would prove nothing.
    pub fn distrust(&mut self, chunk: ChunkId) {
        if let Ok(replica) = live(&mut self.replicas, chunk) {
            replica.distrust();
        }
    }

    /// Does the periodic work. Once a second is enough.
    pub fn tick(&mut self, now: Millis) {
        if now >= self.report_at {
            self.report_at = now + self.config.report_ms;
            self.report = true;
        }
        self.memory.tick(&self.directories, now);
        self.keep_records();
        self.scrub(now);
    }

    /// The files that hold the last known point of the namenode's log, if they were written since the
    /// last call. The caller syncs them.
    pub fn unsynced_memory(&mut self) -> Vec<D::File> {
        self.memory.unsynced()
    }

    /// The next heartbeat for the namenode. Pass its answer or failure to [`Datanode::on_answer`] before
    /// you request another.
    pub fn heartbeat(&mut self, space: Space) -> Heartbeat {
        self.number += 1;
        let registered = self.session != 0;
        let full: Option<Vec<ReplicaReport>> = (registered && self.report).then(|| self.replicas().collect());
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
        let stamp = self.replicas.values().map(Kept::stamp).max();
        (chunk.unwrap_or_default(), stamp.unwrap_or_default())
    }

    /// Handles the answer to `beat`, and carries out its orders.
    pub fn on_answer(&mut self, beat: &Heartbeat, answer: Result<HeartbeatAnswer>) {
        let Ok(answer) = answer else {
            // The session in which the namenode ordered the copies has ended.
            self.session = 0;
            self.copies.ordered.clear();
            return;
        };
        // A directory was lost after the heartbeat, so the answer belongs to the previous incarnation.
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

    /// Carries out an order of the namenode.
    pub fn obey(&mut self, order: Order) {
        match order {
            Order::Delete { chunk, stamp } => self.delete(chunk, stamp),
            Order::Fence { chunk, stamp } => self.fence(chunk, stamp),
            // If the seal fails, the answer to the next round's fence reports the replica's state.
            Order::Seal { chunk, stamp, length } => drop(self.seal(chunk, stamp, length)),
            Order::Copy(source) => self.order_copy(source),
            Order::Verify { chunk, stamp } => self.scrub.first(chunk, stamp),
        }
    }

    /// Deletes a replica. It is not reported any more, even if the disk fails to remove its files.
    fn delete(&mut self, chunk: ChunkId, stamp: Stamp) {
        self.drop_copies(|copy| copy.chunk == chunk && copy.stamp <= stamp);
        if self.replicas.get(&chunk).is_some_and(|kept| kept.stamp() <= stamp)
            && let Some(kept) = self.replicas.remove(&chunk)
        {
            let cached = self.open.close((chunk, kept.stamp()));
            let (directory, length) = (kept.directory(), kept.report(chunk).length);
            let mut files = match kept {
                Kept::Sealed(sealed) => self.unless_a_strangers(chunk, &sealed, cached.is_some()),
                Kept::Live(mut replica) => {
                    let held = replica.refuse_held();
                    self.settled.extend(held.into_iter().map(|caller| (caller, Err(Error::NoReplica))));
                    replica.names()
                }
            };
            files.extend(self.misnamed.remove(&chunk).map(|named| named.file(chunk)));
            if self.make_way(chunk).is_ok()
                && let Ok(directory) = disk_of(&self.directories, directory)
            {
                let large = cached.is_none() && length >= LARGE_BYTES;
                let opened = files.first().filter(|_| large).and_then(|file| directory.open(file).ok());
                files.iter().for_each(|file| drop(directory.remove(file)));
                self.discard(opened);
            }
            self.discard(cached.map(|opened| opened.data));
        }
        if !self.replicas.contains_key(&chunk) {
            self.changes.push(Change::Gone { chunk, stamp });
        }
    }
}

/// From this length on, it takes noticeable time to free a file's bytes.
const LARGE_BYTES: u32 = 1 << 20;
/// The data directory.
///
/// # Errors
/// Disk: it has failed.
fn disk_of<D>(directories: &[Option<Grouped<D>>], index: usize) -> Result<&Grouped<D>> {
    directories.get(index).and_then(Option::as_ref).ok_or(Error::Disk)
}

/// The chunk's open or returned replica.
///
/// # Errors
/// NoReplica: there is no replica. NotOpen: the replica is sealed.
fn live<D: Disk>(
    replicas: &mut BTreeMap<ChunkId, Kept<D>>,
    chunk: ChunkId,
) -> Result<&mut Replica<Grouped<D>>> {
    replicas.get_mut(&chunk).ok_or(Error::NoReplica)?.live().ok_or(Error::NotOpen)
}

/// A directory's number in a replica.
fn number_of(directory: usize) -> Result<u16> {
    u16::try_from(directory).map_err(|_| Error::Disk)
}

/// Whether a file with this name belongs to a replica.
pub fn is_replica(file: &str) -> bool {
    parse_name(file).is_some()
}

/// Whether the error concerns only the file that was to be opened. Other errors, such as a lack of
/// descriptors or memory, must not make sound replicas look lost.
fn is_of_one_file(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let of_one_file = [Errno::IO, Errno::ACCESS, Errno::PERM, Errno::NOENT, Errno::ISDIR, Errno::UCLEAN];
    Errno::from_io_error(error).is_some_and(|error| of_one_file.contains(&error))
}
