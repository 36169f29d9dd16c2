//! Containers of PLFS 2.5, the implementation from Los Alamos: import from them, and export to them.
//!
//! ```text
//! FILE/.plfsaccess113918400                               the mark of such a container
//! FILE/hostdir.N/dropping.data.SEC.USEC.HOST.ID           bytes in the order of their writes
//! FILE/hostdir.N/dropping.index.SEC.USEC.HOST.PID         records of 48 bytes
//! FILE/meta/LASTOFF.BYTES.SEC.USEC.HOST                   the file's length, after a close
//! ```
//!
//! A record: logical offset, physical offset, length (64 bits each), begin and end of the write (seconds,
//! doubles), ID (32 bits) of the data dropping that has the bytes, and 4 unused bytes; little-endian. Where
//! writes overlap, the one that ended last is visible.

use crate::block::{array, u64_at};
use crate::container::{Container, Options};
use crate::index::Piece;
use crate::layout::LogName;
use crate::pattern::{Change, MAX_LENGTH, Pattern};
use crate::reader::Reader;
use crate::view::{Building, View};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, btree_map, hash_map};
use std::sync::Arc;
use strait_store::random::random;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileReader, FileSystem, FileSystemExt, FileWriter, MAX_CHUNK_BYTES,
    Principal, Result, StorePath, append_all, fail,
};

const MARK: &str = ".plfsaccess113918400";
const DATA: &str = "dropping.data.";
const INDEX: &str = "dropping.index.";
const RECORD_BYTES: usize = 48;
/// Most records of each index dropping in memory. A merge reads all index droppings at once.
const RECORDS: usize = 4096;
/// Most entries of a directory.
const MOST_ENTRIES: usize = 100_000;
/// Most files that are written at once. If there are more writers, several share a file.
const MOST_FILES: usize = 256;
/// Bytes of the file whose pieces are in memory at once.
const WINDOW: u64 = 64 << 20;

/// The outcome of an import or export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Converted {
    /// The file's length.
    pub length: u64,
    /// Data droppings or logs that have bytes of the file.
    pub writers: usize,
}

/// A container of PLFS 2.5.
struct Droppings {
    fs: Arc<dyn FileSystem>,
    who: Principal,
    /// Data droppings, by their numbers in the view.
    data: Vec<StorePath>,
    /// The longest length that a close recorded; 0 if none did.
    length: u64,
}

struct Record {
    /// Times at which the write ended and began, as integers that compare like the times.
    order: (u64, u64),
    logical: u64,
    physical: u64,
    length: u64,
    id: i32,
}

/// An index dropping.
struct Records {
    path: StorePath,
    reader: Box<dyn FileReader>,
    at: u64,
    rest: std::collections::VecDeque<Record>,
}

impl Container {
    /// Imports a container of PLFS 2.5 as a logical file. Ranks are the ids of the data droppings, modulo
    /// 256. The old container stays as it is.
    ///
    /// # Errors
    /// InvalidArgument: `from` isn't such a container. Corrupt: a dropping is damaged; the error names it.
    /// AlreadyExists: something has the path `to`.
    pub async fn import(
        (from_fs, from): (Arc<dyn FileSystem>, &StorePath),
        (fs, to): (Arc<dyn FileSystem>, &StorePath),
        who: (&Principal, &Principal),
    ) -> Result<Converted> {
        let (old, view) = Droppings::open(from_fs, who.0, from).await?;
        let hidden = to.parent().unwrap_or_else(StorePath::root);
        let hidden = hidden.join(&crate::container::hidden_name(to.name(), &random()))?;
        if fs.exists(who.1, to).await? {
            return fail(ErrorKind::AlreadyExists, "it exists already")
                .map_err(|error: Error| error.at("import to", to));
        }
        let mut container = Self::create(fs, who.1, &hidden, &Options::default()).await?;
        let made = async {
            let writers = old.copy_to(&view, &container).await?;
            container.rename(to, false).await?;
            Ok(Converted { length: old.length.max(view.length()), writers })
        };
        let made = made.await;
        if made.is_err() {
            // If this fails, the file stays unused: no other program knows its name.
            let _ = container.fs.remove(&container.who, &hidden, true).await;
        }
        made
    }

    /// Exports the file as a container of PLFS 2.5. This container stays as it is.
    ///
    /// # Errors
    /// AlreadyExists: something has the path `to`.
    pub async fn export(
        &self,
        fs: Arc<dyn FileSystem>,
        who: &Principal,
        to: &StorePath,
    ) -> Result<Converted> {
        if fs.exists(who, to).await? {
            return fail(ErrorKind::AlreadyExists, "it exists already")
                .map_err(|error: Error| error.at("export to", to));
        }
        let reader = self.reader().await?;
        for directory in ["hostdir.0", "meta", "openhosts", "version"] {
            fs.mkdirs(who, &to.join(directory)?, None).await?;
        }
        let (mut files, mut ids) = (BTreeMap::<u32, Dropping>::new(), BTreeMap::<u32, ()>::new());
        for begin in (0..reader.length()).step_by(WINDOW as usize) {
            for piece in reader.pieces(begin..(begin + WINDOW).min(reader.length())).await? {
                let Some(source) = piece.source else { continue };
                ids.insert(source.log, ());
                let id = reader.rank(source.log) % MOST_FILES as u32;
                let file = match files.entry(id) {
                    btree_map::Entry::Occupied(known) => known.into_mut(),
                    btree_map::Entry::Vacant(new) => {
                        new.insert(Dropping::create(fs.as_ref(), who, to, id).await?)
                    }
                };
                file.write(&reader, &piece).await?;
            }
        }
        for file in files.values_mut() {
            file.close().await?;
        }
        let meta = format!("{}.{}.0.0.strait", reader.length(), reader.length());
        let options = CreateOptions::default();
        fs.write_all(who, &to.join("meta")?.join(&meta)?, &options, Bytes::new()).await?;
        // The mark comes last, since it makes the directory a container.
        fs.write_all(who, &to.join(MARK)?, &options, Bytes::new()).await?;
        Ok(Converted { length: reader.length(), writers: ids.len() })
    }
}

impl Droppings {
    async fn open(fs: Arc<dyn FileSystem>, who: &Principal, from: &StorePath) -> Result<(Self, View)> {
        let mut old = Self { fs, who: who.clone(), data: Vec::new(), length: 0 };
        let mut indexes = Vec::new();
        let mut hosts = 0;
        for entry in old.fs.list_all(who, from, MOST_ENTRIES).await? {
            if entry.is_directory() && entry.name().starts_with("hostdir.") {
                hosts += 1;
                let mut droppings = old.fs.list(who, &from.join(entry.name())?);
                while let Some(dropping) = droppings.next().await {
                    let dropping = dropping?;
                    if dropping.name().starts_with(INDEX) {
                        indexes.push(StorePath::parse(&dropping.path)?);
                    }
                }
            }
        }
        if hosts == 0 {
            return fail(ErrorKind::InvalidArgument, "it isn't a container of PLFS 2.5: it has no hostdir.N")
                .map_err(|error: Error| error.at("import", from));
        }
        old.length = old.kept_length(&from.join("meta")?).await?;
        indexes.sort_unstable();
        let view = old.merge(indexes).await?;
        Ok((old, view))
    }

    /// The longest length that a close recorded; 0 if none did.
    async fn kept_length(&self, meta: &StorePath) -> Result<u64> {
        let notes = match self.fs.list_all(&self.who, meta, MOST_ENTRIES).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            notes => notes?,
        };
        let length = |name: &str| name.split_once('.')?.0.parse::<u64>().ok();
        let lengths = notes.iter().filter_map(|note| length(note.name()));
        Ok(lengths.filter(|length| *length <= MAX_LENGTH).max().unwrap_or(0))
    }

    /// Builds the index of all records, in the order in which their writes ended.
    async fn merge(&mut self, indexes: Vec<StorePath>) -> Result<View> {
        let mut building = Building::empty();
        let mut numbers: HashMap<StorePath, u32> = HashMap::new();
        let (mut logs, mut waiting) = (Vec::new(), BinaryHeap::new());
        for path in indexes {
            let reader = self.fs.open(&self.who, &path).await?;
            let mut records = Records { path, reader, at: 0, rest: Default::default() };
            if let Some(first) = records.peek().await? {
                waiting.push(Reverse((first.order, logs.len())));
            }
            logs.push(records);
        }
        while let Some(Reverse((_, at))) = waiting.pop() {
            let log = &mut logs[at];
            let Some(record) = log.rest.pop_front() else { continue };
            if let Some(next) = log.peek().await? {
                waiting.push(Reverse((next.order, at)));
            }
            let Some(pattern) = Pattern::single(record.logical, record.length) else { continue };
            let path = data_of(&log.path, record.id)?;
            let number = match numbers.get(&path) {
                Some(number) => *number,
                None => {
                    let number = building.add_log(LogName { rank: record.id as u32, nonce: 0 });
                    numbers.insert(path.clone(), number);
                    self.data.push(path);
                    number
                }
            };
            building.apply(number, record.physical, &[Change::Write(pattern)]).await?;
        }
        building.finish().await
    }

    /// Writes all bytes to a container. Returns the number of data droppings that had some of them.
    async fn copy_to(&self, view: &View, container: &Container) -> Result<usize> {
        let mut readers: HashMap<u32, Box<dyn FileReader>> = HashMap::new();
        let mut writers = BTreeMap::new();
        for begin in (0..view.length()).step_by(WINDOW as usize) {
            for piece in view.pieces(begin..(begin + WINDOW).min(view.length())).await? {
                let Some(source) = piece.source else { continue };
                let path = &self.data[source.log as usize];
                let reader = match readers.entry(source.log) {
                    hash_map::Entry::Occupied(known) => known.into_mut(),
                    hash_map::Entry::Vacant(new) => new.insert(self.fs.open(&self.who, path).await?),
                };
                let rank = view.meta.logs[source.log as usize].0.rank % MOST_FILES as u32;
                let writer = writers.entry(rank).or_insert_with(|| container.writer(rank));
                let (mut at, mut from) = (piece.logical.start, source.offset);
                while at < piece.logical.end {
                    let wanted = (piece.logical.end - at).min(MAX_CHUNK_BYTES as u64) as usize;
                    let bytes = reader.read_at(from, wanted).await?;
                    if bytes.len() < wanted {
                        let message = format!(
                            "the dropping ends at byte {}, but its index describes more",
                            from + bytes.len() as u64
                        );
                        return Err(Error::new(ErrorKind::Corrupt, message).at("import", path));
                    }
                    writer.write_at(at, bytes).await?;
                    (at, from) = (at + wanted as u64, from + wanted as u64);
                }
            }
        }
        if self.length > view.length() {
            writers.entry(0).or_insert_with(|| container.writer(0)).truncate(self.length).await?;
        }
        for writer in writers.values_mut() {
            writer.close().await?;
        }
        Ok(readers.len())
    }
}

/// The data dropping of a record. Its name has the time and host of the index dropping, and the record's id.
fn data_of(index: &StorePath, id: i32) -> Result<StorePath> {
    let named = index.name().strip_prefix(INDEX).and_then(|rest| rest.rsplit_once('.'));
    let (Some((made_at, _)), Some(directory)) = (named, index.parent()) else {
        return fail(ErrorKind::Corrupt, "the name isn't dropping.index.SEC.USEC.HOST.PID")
            .map_err(|error: Error| error.at("import", index));
    };
    directory.join(&format!("{DATA}{made_at}.{id}"))
}

impl Records {
    /// The next record.
    async fn peek(&mut self) -> Result<Option<&Record>> {
        if self.rest.is_empty() {
            let mut bytes = BytesMut::new();
            while bytes.len() < RECORDS * RECORD_BYTES {
                let wanted = RECORDS * RECORD_BYTES - bytes.len();
                let more = self.reader.read_at(self.at, wanted).await?;
                self.at += more.len() as u64;
                bytes.extend_from_slice(&more);
                if more.len() < wanted {
                    break;
                }
            }
            // An incomplete record at the end is ignored: its writer crashed.
            let damaged = || {
                let message = "a record has a negative offset, or ends beyond 2^63 - 1 bytes";
                Error::new(ErrorKind::Corrupt, message).at("import", &self.path)
            };
            for record in bytes.chunks_exact(RECORD_BYTES) {
                self.rest.push_back(record_of(record).ok_or_else(damaged)?);
            }
        }
        Ok(self.rest.front())
    }
}

fn record_of(bytes: &[u8]) -> Option<Record> {
    let (logical, physical, length) = (u64_at(bytes, 0), u64_at(bytes, 8), u64_at(bytes, 16));
    let within = |begin: u64| begin.checked_add(length).is_some_and(|end| end <= MAX_LENGTH);
    if !within(logical) || !within(physical) {
        return None;
    }
    // Positive doubles, as times since 1970 are, compare like their bits.
    let time = |at| if f64::from_le_bytes(array(bytes, at)) > 0.0 { u64_at(bytes, at) } else { 0 };
    let id = i32::from_le_bytes(array(bytes, 40));
    Some(Record { order: (time(32), time(24)), logical, physical, length, id })
}

/// A data dropping with its index, being written.
struct Dropping {
    data: Box<dyn FileWriter>,
    index: Box<dyn FileWriter>,
    id: u32,
    at: u64,
    records: Vec<u8>,
}

impl Dropping {
    async fn create(fs: &dyn FileSystem, who: &Principal, container: &StorePath, id: u32) -> Result<Self> {
        let (directory, options) = (container.join("hostdir.0")?, CreateOptions::default());
        let path = |prefix: &str| directory.join(&format!("{prefix}1.0.strait.{id}"));
        let data = fs.create(who, &path(DATA)?, &options).await?;
        let index = fs.create(who, &path(INDEX)?, &options).await?;
        Ok(Self { data, index, id, at: 0, records: Vec::new() })
    }

    async fn write(&mut self, reader: &Reader, piece: &Piece) -> Result<()> {
        let length = piece.logical.end - piece.logical.start;
        let mut record = Vec::with_capacity(RECORD_BYTES);
        for number in [piece.logical.start, self.at, length] {
            record.extend_from_slice(&number.to_le_bytes());
        }
        // The records don't overlap, so all can have the same time.
        record.extend_from_slice(&1.0_f64.to_le_bytes());
        record.extend_from_slice(&1.0_f64.to_le_bytes());
        record.extend_from_slice(&u64::from(self.id).to_le_bytes());
        self.records.extend_from_slice(&record);
        if self.records.len() >= RECORDS * RECORD_BYTES {
            append_all(self.index.as_mut(), std::mem::take(&mut self.records).into()).await?;
        }
        let mut at = piece.logical.start;
        while at < piece.logical.end {
            let wanted = (piece.logical.end - at).min(MAX_CHUNK_BYTES as u64) as usize;
            self.data.append(reader.read_at(at, wanted).await?).await?;
            at += wanted as u64;
        }
        self.at += length;
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        append_all(self.index.as_mut(), std::mem::take(&mut self.records).into()).await?;
        self.data.close().await?;
        self.index.close().await.map(drop)
    }
}
