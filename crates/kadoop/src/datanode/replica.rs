//! One replica: bytes that only grow in order, until it is sealed.

mod syncing;
mod writing;

use super::sums::{Claim, Sums, Unproven, provable};
use crate::{
    ChunkId, Config, Stamp,
    crc32c::{Appended, crc32c, crc32c_combine},
    disk::{Disk, DiskFile, read_whole},
    error::{Error, Result},
    faults::Fault,
    messages::{Digest, Digested, Piece, Read, ReplicaReport, ReplicaState},
};
use std::{collections::BTreeMap, io};
pub(super) use syncing::Failure;
use syncing::{sync_bytes, sync_names};
use writing::Held;

/// A replica in one data directory.
pub(super) struct Replica<D: Disk> {
    cluster: u64,
    pub chunk: ChunkId,
    pub stamp: Stamp,
    /// It refuses lower stamps.
    pub fenced: Stamp,
    pub state: ReplicaState,
    pub directory: usize,
    pub published: u32,
    pub sums: Sums,
    /// Whether damage was found since its datanode started.
    pub damaged: bool,
    /// The current name of its data.
    file: String,
    /// It was sealed except for its final name. Its table is on disk, and must not change.
    tabled: bool,
    /// A sync of it has failed, in this run or perhaps before, so bytes that can be read needn't be
    /// on disk.
    unsure: bool,
    /// None unless it is being written. Even then they may be closed until its next write.
    files: Option<Files<D::File>>,
    records_end: u64,
    /// When it was last written, as a number of writes to any replica.
    pub written: u64,
    name_synced: bool,
    /// Writes that arrived out of order, by offset, with their callers.
    held: BTreeMap<u32, (u64, Held)>,
    held_bytes: usize,
    /// Ranges behind the end that are being filled, by offset: the place's id, and the range's end.
    places: BTreeMap<u32, (u64, u32)>,
}

/// The open files of a replica that is being written.
#[derive(Clone)]
struct Files<F> {
    data: F,
    /// None for a copy.
    records: Option<F>,
}

/// A file's name: `ID_STAMP.kind`.
pub(super) fn name(chunk: ChunkId, stamp: Stamp, kind: &str) -> String {
    format!("{:016x}_{:016x}.{kind}", chunk.0, stamp.0)
}

pub(super) fn parse_name(name: &str) -> Option<(ChunkId, Stamp, &str)> {
    let (id, rest) = name.split_once('_')?;
    let (stamp, kind) = rest.split_once('.')?;
    Some((ChunkId(u64::from_str_radix(id, 16).ok()?), Stamp(u64::from_str_radix(stamp, 16).ok()?), kind))
}

pub(super) fn disk(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace,
        _ => Error::Disk,
    }
}

/// A replica on disk. Inner error: its files name this one instead.
pub(super) type Found<R> = io::Result<Result<R, Claim>>;

fn read_table<D: Disk>(disk_: &D, claim: Claim, config: &Config) -> Result<Sums, Unproven> {
    let table = disk_.open(&name(claim.chunk, claim.stamp, "table"));
    let table = table.and_then(|table| read_whole(&table)).map_err(|_| Unproven::Invalid)?;
    match Sums::from_table(&table, config.unit_bytes, claim) {
        Err(Unproven::Another(named)) if config.faults.has(Fault::ReplicaUnproven) => {
            Sums::from_table(&table, config.unit_bytes, named)
        }
        sums => sums,
    }
}

impl<D: Disk> Replica<D> {
    /// An empty replica, to be written.
    pub fn create(disk_: &D, directory: usize, claim: Claim) -> Result<Self> {
        let data = disk_.create(&name(claim.chunk, claim.stamp, "open")).map_err(disk)?;
        let records = disk_.create(&name(claim.chunk, claim.stamp, "sums")).map_err(disk)?;
        let files = Files { data, records: Some(records) };
        Ok(Self::of(directory, claim, ReplicaState::Open, "open", Sums::default(), Some(files)))
    }

    /// An empty replica for a copy of a sealed one. After a crash, nothing of it is used.
    pub fn create_copy(disk_: &D, directory: usize, claim: Claim) -> Result<Self> {
        let data = disk_.create(&name(claim.chunk, claim.stamp, "copy")).map_err(disk)?;
        let files = Files { data, records: None };
        Ok(Self::of(directory, claim, ReplicaState::Open, "copy", Sums::default(), Some(files)))
    }

    fn of(
        directory: usize,
        claim: Claim,
        state: ReplicaState,
        kind: &str,
        sums: Sums,
        files: Option<Files<D::File>>,
    ) -> Self {
        let Claim { cluster, chunk, stamp } = claim;
        let file = name(chunk, stamp, kind);
        let name_synced = state != ReplicaState::Open;
        let (fenced, published, records_end, held, held_bytes) = (stamp, 0, 0, BTreeMap::new(), 0);
        Self {
            cluster,
            chunk,
            stamp,
            fenced,
            state,
            directory,
            published,
            sums,
            damaged: false,
            tabled: false,
            unsure: false,
            file,
            files,
            records_end,
            written: 0,
            name_synced,
            held,
            held_bytes,
            places: BTreeMap::new(),
        }
    }

    /// Records the cluster of a replica that its datanode had before it joined.
    pub fn join(&mut self, cluster: u64) {
        self.cluster = cluster;
    }

    /// The replica's identity, under its own stamp or one that it gets.
    fn claim(&self, stamp: Stamp) -> Claim {
        Claim { cluster: self.cluster, chunk: self.chunk, stamp }
    }

    /// A replica that was open when its datanode stopped. It becomes sealed if its seal lacked only
    /// the final name.
    pub fn returned(disk_: &D, directory: usize, claim: Claim, config: &Config) -> Found<Self> {
        let data = disk_.open(&name(claim.chunk, claim.stamp, "open"))?;
        match Self::resume_seal(disk_, directory, claim, &data, config) {
            Ok(sealed) => return Ok(Ok(sealed)),
            Err(Unproven::Another(named)) => return Ok(Err(named)),
            Err(Unproven::Invalid) => {}
        }
        let records = disk_.open(&name(claim.chunk, claim.stamp, "sums"));
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
        let files = (state == ReplicaState::Open).then(|| Files { data, records: records.ok() });
        let replica = Self::of(directory, claim, state, "open", sums, files);
        Ok(Ok(Self { unsure: true, ..replica }))
    }

    /// Invalid unless all bytes of the table are there.
    fn resume_seal(
        disk_: &D,
        directory: usize,
        claim: Claim,
        data: &D::File,
        config: &Config,
    ) -> Result<Self, Unproven> {
        let sums = read_table(disk_, claim, config)?;
        let replica = Self::of(directory, claim, ReplicaState::Returned, "open", sums, None);
        let mut replica = Self { tabled: true, unsure: true, ..replica };
        if !config.faults.has(Fault::TableTrusted) {
            replica.verify(data, 0, u32::MAX, config).map_err(|_| Unproven::Invalid)?;
        }
        if replica.finish_seal(disk_, data, config).is_ok() {
            replica.state = ReplicaState::Sealed;
            let _ = disk_.remove(&name(claim.chunk, claim.stamp, "sums"));
        }
        Ok(replica)
    }

    /// A replica that was sealed. With an invalid table it doesn't count, but is kept.
    pub fn sealed(disk_: &D, directory: usize, claim: Claim, config: &Config) -> Found<Self> {
        let data = disk_.open(&name(claim.chunk, claim.stamp, "data"))?;
        let sums = match read_table(disk_, claim, config) {
            Ok(sums) => {
                Some(sums).filter(|sums| data.length().is_ok_and(|length| length >= sums.length.into()))
            }
            Err(Unproven::Invalid) => None,
            Err(Unproven::Another(named)) => return Ok(Err(named)),
        };
        let state = if sums.is_some() { ReplicaState::Sealed } else { ReplicaState::Returned };
        Ok(Ok(Self::of(directory, claim, state, "data", sums.unwrap_or_default(), None)))
    }

    /// The replica to which its files belong now, if it isn't this one.
    pub fn belongs_to_another(&self, disk_: &D, config: &Config) -> Option<Claim> {
        match read_table(disk_, self.claim(self.stamp), config) {
            Err(Unproven::Another(named)) => Some(named),
            _ => None,
        }
    }

    /// Whether its files are open for writes.
    pub fn is_open_for_writes(&self) -> bool {
        self.files.is_some()
    }

    /// Whether it is being written, but its files are closed for now.
    pub fn is_closed(&self) -> bool {
        self.state == ReplicaState::Open && self.files.is_none()
    }

    pub fn report(&self) -> ReplicaReport {
        let Self { chunk, stamp, state, .. } = *self;
        ReplicaReport { chunk, stamp, length: self.sums.length, state }
    }

    /// Opens the file of its bytes, or gives the one that is open.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(&self, disk_: &D) -> io::Result<D::File> {
        match &self.files {
            Some(files) => Ok(files.data.clone()),
            None => disk_.open(&self.file),
        }
    }

    /// The names of a sealed replica's bytes and of its table of checksums.
    pub fn sealed_names(&self) -> [String; 2] {
        [self.file.clone(), name(self.chunk, self.stamp, "table")]
    }

    /// Opens the written files again. The kernel reports a failed write-back to each opening of a
    /// file once, and other syncs mustn't take that report from the replica's own opening.
    pub fn open_again(&self, disk_: &D) -> io::Result<Vec<D::File>> {
        if self.state != ReplicaState::Open {
            return Ok(Vec::new());
        }
        let Some(files) = &self.files else { return Ok(Vec::new()) };
        let records = files.records.as_ref().map(|_| name(self.chunk, self.stamp, "sums"));
        std::iter::once(&self.file).chain(&records).map(|file| disk_.open(file)).collect()
    }

    /// Records that all bytes up to `length` are acknowledged.
    pub fn publish(&mut self, length: u32) -> Result<()> {
        if self.state == ReplicaState::Returned {
            return Err(Error::NotOpen);
        }
        if length > self.sums.length {
            return Err(Error::BeyondEnd);
        }
        self.published = self.published.max(length);
        Ok(())
    }

    /// Seals the replica at `length`, on disk; or gives a sealed one of that length the stamp. The
    /// caller has to refuse held writes.
    pub fn seal(&mut self, disk_: &D, stamp: Stamp, length: u32, config: &Config) -> Result<(), Failure> {
        let sealed = self.state == ReplicaState::Sealed;
        if sealed && length == self.sums.length && stamp == self.stamp {
            return Ok(());
        }
        if sealed && length != self.sums.length && !config.faults.has(Fault::SealedCut) {
            return Err(Error::NotOpen.into());
        }
        // It was sealed before a crash, except for its name. Writing the table again would risk
        // bytes that a crash now would leave sealed.
        let tabled = !sealed && self.tabled && stamp == self.stamp;
        if tabled && length != self.sums.length {
            return Err(Error::NotOpen.into());
        }
        // An earlier seal failed and couldn't be undone, so don't touch these files.
        if stamp != self.stamp && self.file == name(self.chunk, stamp, "data") {
            return Err(Error::Disk.into());
        }
        let least = if sealed { 0 } else { self.published };
        if length > self.sums.length || length < least {
            return Err(Error::BeyondEnd.into());
        }
        let unsure = self.unsure;
        let data = self.open(disk_)?;
        let data = self.renew(disk_, &data, config)?.unwrap_or(data);
        let unit = config.unit_bytes;
        let mut last = vec![0; (length % unit) as usize];
        data.read_at((length - length % unit).into(), &mut last)?;
        let mut sums = self.sums.clone();
        sums.cut(length, &last, unit);
        let before = self.file.clone();
        let done = match tabled {
            true => self.finish_seal(disk_, &data, config),
            false => self.seal_as(disk_, &data, stamp, &sums, config),
        };
        self.files = None;
        if let Err(failure) = done {
            if !tabled {
                self.undo_seal(disk_, stamp, before);
            }
            if !sealed {
                // The bytes behind `length` may be gone.
                (self.state, self.sums) = (ReplicaState::Returned, sums);
                self.tabled &= tabled;
                // New files whose names aren't on disk are as doubtful as the old ones.
                self.unsure |= unsure || !matches!(failure, Failure::Refused(_));
            }
            return Err(failure);
        }
        // The next start removes the leftover if this fails.
        let _ = disk_.remove(&name(self.chunk, self.stamp, if sealed { "table" } else { "sums" }));
        (self.stamp, self.fenced, self.state, self.sums) =
            (stamp, stamp.max(self.fenced), ReplicaState::Sealed, sums);
        Ok(())
    }

    fn seal_as(
        &mut self,
        disk_: &D,
        data: &D::File,
        stamp: Stamp,
        sums: &Sums,
        config: &Config,
    ) -> Result<(), Failure> {
        let sealed = self.state == ReplicaState::Sealed;
        let faults = config.faults;
        let sync_names = || if faults.has(Fault::SealNameNotSynced) { Ok(()) } else { sync_names(disk_) };
        // Its names already tell which bytes and which table belong together, so its final name
        // needn't be on disk: a start that finds the old name compares the bytes. That saves a
        // sync.
        let complete = !sealed && self.file == name(self.chunk, stamp, "open");
        let table = disk_.create(&name(self.chunk, stamp, "table"))?;
        table.write_at(0, &sums.table(config.unit_bytes, self.claim(stamp)))?;
        if sums.length != self.sums.length || !sealed {
            data.set_length(sums.length.into())?;
        }
        if !faults.has(Fault::SealNotSynced) {
            table.begin_sync();
            sync_bytes(data)?;
            sync_bytes(&table)?;
        }
        if complete {
            sync_names()?;
            return Ok(self.take_sealed_name(disk_, stamp)?);
        }
        self.take_sealed_name(disk_, stamp)?;
        sync_names()
    }

    /// Removes all traces of a failed seal that a start could mistake for a seal. If that fails
    /// too, nothing more can be done on that disk.
    fn undo_seal(&mut self, disk_: &D, stamp: Stamp, before: String) {
        if self.file != before && disk_.rename(&self.file, &before).is_ok() {
            self.file = before;
        }
        if self.file != name(self.chunk, stamp, "data") {
            let _ = disk_.remove(&name(self.chunk, stamp, "table"));
        }
    }

    /// The callers of held writes, which will never be applied.
    pub fn refuse_held(&mut self) -> Vec<u64> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held).into_values().map(|(caller, _)| caller).collect()
    }

    /// Number of bytes that a reader may see.
    fn visible(&self, read: &Read, config: &Config) -> Result<u32> {
        let length = self.sums.length;
        match self.state {
            ReplicaState::Sealed => Ok(length),
            ReplicaState::Open if config.faults.has(Fault::UnpublishedShown) => Ok(length),
            ReplicaState::Open => Ok(self.published.max(read.acknowledged.min(length))),
            ReplicaState::Returned => Err(Error::NotOpen),
        }
    }

    /// Reads visible bytes of its file. It checks parts of units here; the reader checks whole ones.
    pub fn read(&self, data: &D::File, read: &Read, config: &Config) -> Result<Piece> {
        let visible = self.visible(read, config)?;
        let unit = config.unit_bytes;
        let begin = read.offset.min(visible);
        let end = begin.saturating_add(read.length.min(config.write_bytes)).min(visible);
        let bytes = data.read_vec(begin.into(), (end - begin) as usize).map_err(disk)?;
        let mut sums = Vec::with_capacity(bytes.len() / unit as usize + 2);
        let mut at = begin;
        while at < end {
            let (stop, sum) = self.sum(data, at, end, unit)?;
            sums.push(sum);
            at = stop;
        }
        Ok(Piece { bytes: bytes.into(), sums, visible })
    }

    /// The checksum of the bytes from `at` to the end of their unit, or to `end`. Also returns
    /// where they end.
    fn sum(&self, data: &D::File, at: u32, end: u32, unit: u32) -> Result<(u32, u32)> {
        let first = at - at % unit;
        let whole = first.saturating_add(unit).min(self.sums.length);
        let stop = whole.min(end);
        let stored = *self.sums.units.get((at / unit) as usize).ok_or(Error::Corrupt)?;
        if at == first && stop == whole {
            return Ok((stop, stored));
        }
        let mut all = vec![0; (whole - first) as usize];
        data.read_at(first.into(), &mut all).map_err(disk)?;
        if crc32c(&all) != stored {
            return Err(Error::Corrupt);
        }
        Ok((stop, crc32c(&all[(at - first) as usize..(stop - first) as usize])))
    }

    /// The digest of visible bytes. It comes from the checksums alone, except for parts of units:
    /// the scrub compares the bytes on disk with them. `units` combines whole units.
    pub fn digest(&self, data: &D::File, read: &Read, units: &Appended, config: &Config) -> Result<Digested> {
        let visible = self.visible(read, config)?;
        if self.damaged {
            return Err(Error::Corrupt);
        }
        let begin = read.offset.min(visible);
        let end = begin.saturating_add(read.length).min(visible);
        let (mut at, mut crc) = (begin, 0);
        while at < end {
            let (stop, sum) = self.sum(data, at, end, config.unit_bytes)?;
            crc = match stop - at {
                bytes if bytes == config.unit_bytes => units.combine(crc, sum),
                bytes => crc32c_combine(crc, sum, bytes.into()),
            };
            at = stop;
        }
        Ok(Digested { digest: Digest { crc, length: end - begin }, visible })
    }

    /// Compares about `bytes` bytes of its file with their checksums, beginning with the unit at
    /// `from`. Returns where it stopped.
    ///
    /// # Errors
    /// Corrupt.
    pub fn verify(&self, data: &D::File, from: u32, bytes: u32, config: &Config) -> Result<u32> {
        let unit = config.unit_bytes;
        let mut buffer = vec![0; unit as usize];
        let mut at = from - from % unit;
        let end = from.saturating_add(bytes).min(self.sums.length);
        while at < end {
            let sum = self.sums.units.get((at / unit) as usize).ok_or(Error::Corrupt)?;
            let length = (self.sums.length - at).min(unit);
            let part = &mut buffer[..length as usize];
            let read = data.read_at(at.into(), part);
            if read.is_ok_and(|read| read == part.len()) && crc32c(part) == *sum {
                at += length;
            } else {
                return Err(Error::Corrupt);
            }
        }
        Ok(at)
    }
}
