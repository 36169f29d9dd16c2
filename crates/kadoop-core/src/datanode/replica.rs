//! A replica that isn't sealed: until it is sealed, bytes are only added at its end, in order.

mod sealing;
mod syncing;
mod writing;

use super::{
    content::Content,
    failure::disk,
    names::{Kind, name},
    sealed::{Sealed, from_table, read_table},
    sums::{Claim, Unproven, length_before_table, provable},
};
use crate::{
    ChunkId, Config, Stamp,
    check::Sums,
    disk::{Disk, DiskFile},
    error::{Error, Result},
    faults::Fault,
    messages::{Digested, Piece, Read, ReplicaReport, ReplicaState},
};
pub(super) use sealing::Begun;
pub use sealing::{Sealing, Synced};
use std::{collections::BTreeMap, io};
use strait_crc::Appended;
use writing::Held;

/// A replica in one data directory, open or returned.
pub(super) struct Replica<D: Disk> {
    cluster: u64,
    pub chunk: ChunkId,
    pub stamp: Stamp,
    /// The replica refuses stamps below this one.
    pub fenced: Stamp,
    pub state: ReplicaState,
    pub directory: u16,
    pub published: u32,
    pub sums: Sums,
    /// The current name of the file with its bytes.
    file: String,
    /// Whether it was sealed except for its final name. Then its table is on disk, and must not change.
    tabled: bool,
    /// Number of the seal whose syncs are under way.
    sealing: Option<u64>,
    /// Whether a sync of it has failed, in this run or perhaps in an earlier one. Then bytes that can be
    /// read needn't be on disk.
    unsure: bool,
    /// Open files. None unless it is being written, and even then sometimes between two writes.
    files: Option<Files<D::File>>,
    /// Offset at which the records of its checksums end in their file. None: the records are only in
    /// memory. 0: all records have to be written again.
    records_end: Option<u64>,
    /// Number of the datanode's latest write to it, by which the least recently written is found.
    pub written: u64,
    name_synced: bool,
    /// Writes that arrived out of order, by offset, with their callers.
    held: BTreeMap<u32, (u64, Held)>,
    held_bytes: usize,
    /// Places that are being filled, by offset: the place's id, and the offset of its end.
    places: BTreeMap<u32, (u64, u32)>,
}

/// The open files of a replica that is being written.
#[derive(Clone)]
struct Files<F> {
    data: F,
    /// The file of checksum records. None while the records are only in memory.
    records: Option<F>,
}

/// A replica on disk. The inner error is another replica, to which the files belong.
pub(super) type Found<R> = io::Result<Result<R, Claim>>;

impl<D: Disk> Replica<D> {
    /// An empty replica, to be written.
    pub fn create(disk_: &D, directory: u16, claim: Claim) -> Result<Self> {
        let data = disk_.create(&name(claim.chunk, claim.stamp, Kind::Open)).map_err(disk)?;
        let files = Files { data, records: None };
        Ok(Self::of(directory, claim, ReplicaState::Open, Kind::Open, Sums::default(), Some(files)))
    }

    /// An empty replica into which a sealed one is copied. A start after a crash removes it.
    pub fn create_copy(disk_: &D, directory: u16, claim: Claim) -> Result<Self> {
        let data = disk_.create(&name(claim.chunk, claim.stamp, Kind::Copy)).map_err(disk)?;
        let files = Files { data, records: None };
        Ok(Self::of(directory, claim, ReplicaState::Open, Kind::Copy, Sums::default(), Some(files)))
    }

    fn of(
        directory: u16,
        claim: Claim,
        state: ReplicaState,
        kind: Kind,
        sums: Sums,
        files: Option<Files<D::File>>,
    ) -> Self {
        let Claim { cluster, chunk, stamp } = claim;
        Self {
            cluster,
            chunk,
            stamp,
            fenced: stamp,
            state,
            directory,
            published: 0,
            sums,
            file: name(chunk, stamp, kind),
            tabled: false,
            sealing: None,
            unsure: false,
            files,
            records_end: None,
            written: 0,
            name_synced: state != ReplicaState::Open,
            held: BTreeMap::new(),
            held_bytes: 0,
            places: BTreeMap::new(),
        }
    }

    /// Records the cluster, for a replica that was made before its datanode joined a cluster.
    pub fn join(&mut self, cluster: u64) {
        self.cluster = cluster;
    }

    /// The replica's identity with `stamp`, which may be its own stamp or its next one.
    fn claim(&self, stamp: Stamp) -> Claim {
        Claim { cluster: self.cluster, chunk: self.chunk, stamp }
    }

    /// A replica that was open when its datanode stopped.
    pub fn returned(disk_: &D, directory: u16, claim: Claim, config: &Config) -> Found<Self> {
        let data = disk_.open(&name(claim.chunk, claim.stamp, Kind::Open))?;
        match Self::tabled(disk_, directory, claim, &data, config) {
            Ok(tabled) => return Ok(Ok(tabled)),
            // The table is from a seal of this replica under another stamp, which a crash interrupted
            // before the rename. It doesn't count.
            Err(Unproven::Another(named)) if named == (Claim { stamp: named.stamp, ..claim }) => {}
            Err(Unproven::Another(named)) => return Ok(Err(named)),
            Err(Unproven::Invalid) => {}
        }
        let records = disk_.open(&name(claim.chunk, claim.stamp, Kind::Sums));
        let unit = config.unit_bytes;
        let sums = match &records {
            Ok(records) => match provable(&data, records, unit, claim)? {
                Err(named) if config.faults.has(Fault::ReplicaUnproven) => {
                    provable(&data, records, unit, named)?
                }
                sums => sums,
            },
            Err(_) => Ok(Sums::default()),
        };
        let sums = match sums {
            Ok(sums) => sums,
            Err(named) => return Ok(Err(named)),
        };
        let state = if config.faults.has(Fault::ReturnedReopened) {
            ReplicaState::Open
        } else {
            ReplicaState::Returned
        };
        let records_end = records.is_ok().then_some(0);
        let files = (state == ReplicaState::Open).then(|| Files { data, records: records.ok() });
        let replica = Self::of(directory, claim, state, Kind::Open, sums, files);
        Ok(Ok(Self { unsure: true, records_end, ..replica }))
    }

    /// A returned replica whose seal lacked only the final name.
    ///
    /// # Errors
    /// Invalid: there is no valid table, or the bytes don't match it. Another: the table belongs to
    /// another replica.
    fn tabled(
        disk_: &D,
        directory: u16,
        claim: Claim,
        data: &D::File,
        config: &Config,
    ) -> Result<Self, Unproven> {
        let sums = match read_table(disk_, claim, config) {
            Err(Unproven::Invalid) => table_behind(data, claim, config)?,
            // An earlier version wrote the table to a separate file.
            table => table?,
        };
        let replica = Self::of(directory, claim, ReplicaState::Returned, Kind::Open, sums, None);
        if !config.faults.has(Fault::TableTrusted) {
            replica.content(data).verify(0, u32::MAX, config).map_err(|_| Unproven::Invalid)?;
        }
        Ok(Self { tabled: true, unsure: true, records_end: Some(0), ..replica })
    }

    /// A replica that an earlier version sealed, and whose table is damaged. It stays on disk, but
    /// doesn't count.
    pub fn damaged(directory: u16, claim: Claim) -> Self {
        Self::of(directory, claim, ReplicaState::Returned, Kind::Split, Sums::default(), None)
    }

    /// A sealed replica that a planted fault is going to cut.
    pub fn unsealed(claim: Claim, sealed: &Sealed, sums: &Sums) -> Self {
        let kind = Kind::Sealed(sealed.length);
        Self::of(sealed.directory, claim, ReplicaState::Returned, kind, sums.clone(), None)
    }

    /// Whether the replica's files are open for writes.
    pub fn is_open_for_writes(&self) -> bool {
        self.files.is_some()
    }

    /// Whether the replica is being written, but its files are closed until the next write.
    pub fn is_closed(&self) -> bool {
        self.state == ReplicaState::Open && self.files.is_none() && self.sealing.is_none()
    }

    pub fn report(&self) -> ReplicaReport {
        let Self { chunk, stamp, state, .. } = *self;
        ReplicaReport { chunk, stamp, length: self.sums.length, state }
    }

    /// The open file of the replica's bytes. Opens it if it isn't open.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub fn open(&self, disk_: &D) -> io::Result<D::File> {
        match &self.files {
            Some(files) => Ok(files.data.clone()),
            None => disk_.open(&self.file),
        }
    }

    /// The names of all files that the replica may have.
    pub fn names(&self) -> Vec<String> {
        let kinds = [Kind::Open, Kind::Sums, Kind::Table, Kind::Split, Kind::Copy];
        let names = kinds.into_iter().map(|kind| name(self.chunk, self.stamp, kind));
        std::iter::once(self.file.clone()).chain(names.filter(|name| *name != self.file)).collect()
    }

    /// Opens the written files again, for syncs outside of this replica. The kernel reports a failed
    /// write-back once to each open descriptor, and these syncs must not use up the report to the
    /// replica's own descriptor.
    pub fn open_again(&self, disk_: &D) -> io::Result<Vec<D::File>> {
        if self.state != ReplicaState::Open {
            return Ok(Vec::new());
        }
        let Some(files) = &self.files else { return Ok(Vec::new()) };
        let records = files.records.as_ref().map(|_| name(self.chunk, self.stamp, Kind::Sums));
        std::iter::once(&self.file).chain(&records).map(|file| disk_.open(file)).collect()
    }

    /// Checks that all bytes up to `length` are here, and records that they are acknowledged. From now
    /// on, these bytes can be proven by their checksums even if the process is killed.
    pub fn publish(&mut self, disk_: &D, length: u32, config: &Config) -> Result<()> {
        if self.state != ReplicaState::Open {
            return Err(Error::NotOpen);
        }
        if length > self.sums.length {
            return Err(Error::BeyondEnd);
        }
        self.keep_records(disk_, config)?;
        self.published = self.published.max(length);
        Ok(())
    }

    /// Drops the held writes, and returns their callers.
    pub fn refuse_held(&mut self) -> Vec<u64> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held).into_values().map(|(caller, _)| caller).collect()
    }

    fn content<'a>(&'a self, data: &'a D::File) -> Content<'a, D::File> {
        Content { data, sums: &self.sums }
    }

    /// Number of bytes that a reader may see.
    fn visible(&self, read: &Read, config: &Config) -> Result<u32> {
        let length = self.sums.length;
        match self.state {
            ReplicaState::Open if config.faults.has(Fault::UnpublishedShown) => Ok(length),
            ReplicaState::Open => Ok(self.published.max(read.acknowledged.min(length))),
            ReplicaState::Sealed | ReplicaState::Returned => Err(Error::NotOpen),
        }
    }

    /// Reads visible bytes of its file.
    pub fn read(&self, data: &D::File, read: &Read, config: &Config) -> Result<Piece> {
        self.content(data).read(read, self.visible(read, config)?, config)
    }

    /// The digest of visible bytes.
    pub fn digest(&self, data: &D::File, read: &Read, units: &Appended, config: &Config) -> Result<Digested> {
        self.content(data).digest(read, self.visible(read, config)?, units, config)
    }
}

/// The table at the end of a file, if a seal has written one.
fn table_behind<F: DiskFile>(data: &F, claim: Claim, config: &Config) -> Result<Sums, Unproven> {
    let size = data.length().map_err(|_| Unproven::Invalid)?;
    let length = length_before_table(size, config.unit_bytes).ok_or(Unproven::Invalid)?;
    let bytes = (size - u64::from(length)) as usize;
    let table = data.read_vec(length.into(), bytes).map_err(|_| Unproven::Invalid)?;
    let sums = from_table(&table, claim, config)?;
    if sums.length == length { Ok(sums) } else { Err(Unproven::Invalid) }
}
