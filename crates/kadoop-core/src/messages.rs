//! Messages between client, namenode and datanodes, as plain values (kadoop-wire encodes them).

use crate::{ChunkId, ClientId, Error, FileId, Holder, Identity, Incarnation, Member, Millis, NodeId, Stamp};
use bytes::Bytes;
use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The user for whom a request is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub user: CompactString,
    /// The groups that the user is in.
    pub groups: Vec<CompactString>,
    /// The session for which the request is made. It matters when a file is opened for writing: the
    /// same session can take its file over at another client.
    pub session: Option<Session>,
}

impl Caller {
    /// The holder of a file that this caller opens for writing. Only the same user with the same
    /// session has it. None without a session.
    pub fn holder(&self) -> Option<Holder> {
        let Session(secret) = self.session?;
        let digest = Sha256::new().chain_update(secret).chain_update(self.user.as_bytes()).finalize();
        let (first, _) = digest.split_first_chunk()?;
        Some(Holder(u128::from_be_bytes(*first)))
    }
}

/// The secret of a session. Two callers with the same user and the same secret are the same writer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Session(pub [u8; 32]);

impl fmt::Debug for Session {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a session's secret")
    }
}

/// The identity of one mutation of one client, the same in all its retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestId {
    /// The client.
    pub client: ClientId,
    /// The client's number of the request, which counts up from 1.
    pub number: u64,
    /// The client has received the answers of all requests below this number, so the namenode can
    /// forget those answers.
    pub done_below: u64,
}

/// A chunk's end, as its writer reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its length; 0 abandons the chunk.
    pub length: u32,
    /// Members that sealed the chunk, and so have it on disk. Empty if none is known yet.
    pub durable: Vec<NodeId>,
}

/// A request that changes the namespace or a file.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Makes a directory and its missing parents.
    Mkdirs { path: String, mode: u16 },
    /// Makes a file and opens it for writing. `min_replicas` is the file's own minimum, if it is higher
    /// than the cluster's.
    Create { path: String, overwrite: bool, mode: u16, replication: u16, chunk_bytes: u32, min_replicas: u16 },
    /// Opens a file for writing at its end.
    Append { path: String },
    /// Reports ends of chunks. If `next` is true, asks for the next chunk, if possible on other datanodes
    /// than those in `avoid`.
    AddChunk { file: FileId, ends: Vec<End>, next: bool, avoid: Vec<NodeId> },
    /// Reports the ends of the remaining chunks and closes the file.
    Complete { file: FileId, ends: Vec<End> },
    /// Moves a file or directory.
    Rename { from: String, to: String, replace: bool },
    /// Removes a file or directory.
    Delete { path: String, recursive: bool },
    /// Makes a closed file shorter.
    Truncate { path: String, length: u64 },
    /// Moves the bytes of closed files, in order, to the end of another, and removes these files.
    Concat { target: String, sources: Vec<String> },
    /// Changes the given attributes of a file or directory.
    SetAttributes { path: String, attributes: Attributes },
    /// Makes recovery seal a chunk at `length`. The chunk's writer sends this if it can't reach any
    /// member, or if all members refuse. The writer keeps the lease.
    EndChunk { file: FileId, chunk: ChunkId, length: u32 },
    /// Asks the namenode to close a file whose writer is silent.
    RecoverLease { path: String },
}

/// Attributes to set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it; times in milliseconds since 1970
pub struct Attributes {
    pub mode: Option<u16>,
    pub owner: Option<CompactString>,
    pub group: Option<CompactString>,
    pub modified_ms: Option<Millis>,
    pub accessed_ms: Option<Millis>,
    pub replication: Option<u16>,
}

/// The answer to a mutation. The log keeps it for retries.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Done.
    Done,
    /// Whether the mutation changed anything.
    Changed(bool),
    /// A file is open for writing at `length`.
    Opened { file: FileId, length: u64, chunk_bytes: u32, replication: u16 },
    /// The ends are logged. `durable` says whether each ended chunk of this writer has its minimum of
    /// replicas on disk.
    Chunk { next: Option<NewChunk>, durable: bool },
    /// Whether the file is closed. If not, a chunk still has too few replicas.
    Completed(bool),
    /// A new file is open for writing, and its first chunk has begun.
    Begun { file: FileId, chunk_bytes: u32, replication: u16, first: NewChunk },
}

/// A chunk to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewChunk {
    /// The chunk.
    pub chunk: ChunkId,
    /// The stamp to write it under.
    pub stamp: Stamp,
    /// Its members, in writing order.
    pub pipeline: Vec<Member>,
    /// The chunk from which this one copies its first bytes.
    pub continues: Option<Source>,
}

/// A sealed chunk from which a datanode copies bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its stamp.
    pub stamp: Stamp,
    /// Number of bytes to copy, from the chunk's beginning.
    pub length: u32,
    /// Datanodes that have the chunk.
    pub nodes: Vec<NodeId>,
}

/// Attributes of a file or directory, for `stat` and `list`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it; times in milliseconds since 1970
pub struct Status {
    pub name: CompactString,
    /// As [`Located::made`]; 0 for a directory.
    pub made: u64,
    pub directory: bool,
    pub length: u64,
    pub mode: u16,
    pub owner: CompactString,
    pub group: CompactString,
    pub modified_ms: Millis,
    pub accessed_ms: Millis,
    pub replication: u16,
    pub chunk_bytes: u32,
    pub open: bool,
}

/// A page of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries, in the order of their names' bytes.
    pub entries: Vec<Status>,
    /// Whether the directory has more entries after these.
    pub more: bool,
}

/// Totals of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the names say it
pub struct Summary {
    pub directories: u64,
    pub files: u64,
    pub bytes: u64,
    /// Bytes times replication.
    pub space: u64,
}

/// Locations of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The number of the transaction that made the file. It distinguishes the file from earlier and
    /// later files of the same name.
    pub made: u64,
    /// The chunks of the requested range, in order.
    pub chunks: Vec<LocatedChunk>,
    /// The file's length, as far as the namenode knows it.
    pub length: u64,
    /// Whether a writer has the file open.
    pub open: bool,
}

/// One chunk of a file, for readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedChunk {
    /// Offset in the file of the chunk's first byte that belongs to the file.
    pub offset: u64,
    /// Number of the chunk's bytes before that first byte.
    pub skip: u32,
    /// Number of the chunk's bytes that belong to the file, as far as the namenode knows. In the last
    /// chunk of an open file there may be more; ask the chunk's datanodes.
    pub length: u32,
    /// Whether the chunk may have more bytes than `length`, since a writer has it open.
    pub growing: bool,
    /// The chunk.
    pub chunk: ChunkId,
    /// Its stamp.
    pub stamp: Stamp,
    /// Datanodes that have the chunk.
    pub nodes: Vec<NodeId>,
}

/// State of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaState {
    /// A writer is writing it, and its datanode has not stopped since.
    Open,
    /// Its datanode stopped while it was open. Only recovery uses it.
    Returned,
    /// Complete; its bytes never change.
    Sealed,
}

/// One replica in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it; the length in bytes
pub struct ReplicaReport {
    pub chunk: ChunkId,
    pub stamp: Stamp,
    pub length: u32,
    pub state: ReplicaState,
}

/// An event on a datanode.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The datanode has the replica, as described.
    Has(ReplicaReport),
    /// The datanode doesn't have the replica, or never had it.
    Gone { chunk: ChunkId, stamp: Stamp },
    /// The replica's bytes are damaged on disk.
    Corrupt { chunk: ChunkId, stamp: Stamp },
    /// The answer to a fence: the replica, or `None` if the datanode has none.
    Fenced { chunk: ChunkId, stamp: Stamp, replica: Option<ReplicaReport> },
}

/// Capacity and use of a datanode's directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the names say it
pub struct Space {
    /// 0 if it was not reported.
    pub capacity_bytes: u64,
    pub used_bytes: u64,
}

impl Space {
    /// Whether `bytes` more fit, according to the report. Without a reported capacity the answer is
    /// yes: such a datanode has lost its directories, and notices that at the next write.
    pub fn has_room(self, bytes: u64) -> bool {
        self.capacity_bytes == 0 || self.capacity_bytes.saturating_sub(self.used_bytes) >= bytes
    }
}

/// A point of the namenode's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// Number of the last record before this point.
    pub record: u64,
    /// The random number of the namenode's start that wrote the record; 0 if it isn't known.
    pub start: u64,
}

/// A datanode's periodic call to the namenode. A datanode waits for the answer or a failure before it makes
/// the next call. After a failure, the earlier call may still arrive, later than the next one.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The datanode.
    pub identity: Identity,
    /// Its current run.
    pub incarnation: Incarnation,
    /// The session that the namenode assigned. 0 asks for a session, and does nothing else.
    pub session: u64,
    /// The heartbeat's number, which rises within a session. So the namenode recognizes a late one.
    pub number: u64,
    /// Capacity and use of its directories.
    pub space: Space,
    /// The latest point of the log that a namenode's answer named, in this run or an earlier one.
    pub seen: Point,
    /// The highest chunk and the highest stamp on the datanode's disks; 0 without replicas.
    pub highest: (ChunkId, Stamp),
    /// All replicas of the datanode: sent at registration, and periodically.
    pub full: Option<Vec<ReplicaReport>>,
    /// Changes since the last heartbeat that was answered.
    pub changes: Vec<Change>,
}

/// The answer to a heartbeat. Only these answers carry orders.
#[derive(Debug, Clone)]
pub struct HeartbeatAnswer {
    /// The session.
    pub session: u64,
    /// The datanode's number.
    pub node: NodeId,
    /// Orders to carry out. The namenode repeats each until the datanode reports its result.
    pub orders: Vec<Order>,
    /// Whether the next heartbeat must report all replicas.
    pub report: bool,
    /// The end of the log. All records up to there are on disk.
    pub log: Point,
}

/// An order from the namenode to a datanode.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Delete the replica, unless its stamp is higher than `stamp`.
    Delete { chunk: ChunkId, stamp: Stamp },
    /// Refuse stamps below `stamp` from now on, and report the replica.
    Fence { chunk: ChunkId, stamp: Stamp },
    /// Seal the replica at `length` under `stamp`.
    Seal { chunk: ChunkId, stamp: Stamp, length: u32 },
    /// Copy a sealed replica from another datanode.
    Copy(Source),
    /// Compare a replica with its checksums.
    Verify { chunk: ChunkId, stamp: Stamp },
}

/// A write. Every member of a pipeline gets the same.
#[derive(Debug, Clone)]
pub struct Write {
    /// The chunk.
    pub chunk: ChunkId,
    /// The chunk's stamp, under which the bytes are written.
    pub stamp: Stamp,
    /// The pipeline. Each member checks that its own id and incarnation are in it.
    pub pipeline: Vec<Member>,
    /// Offset in the chunk, in bytes.
    pub offset: u32,
    /// The bytes.
    pub bytes: Bytes,
}

/// Begins a chunk with a sealed chunk's bytes, at one member of the new chunk's pipeline. The member
/// answers once it has applied the bytes. The first write begins at the end of these bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continue {
    /// The new chunk.
    pub chunk: ChunkId,
    /// The new chunk's stamp.
    pub stamp: Stamp,
    /// The new chunk's pipeline.
    pub pipeline: Vec<Member>,
    /// The sealed chunk whose bytes are copied.
    pub source: Source,
}

/// The outcome of a call at one of its callees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The callee executed it.
    Value,
    /// The callee refused it.
    Error(Error),
    /// The callee certainly did not execute it, and never will.
    NotExecuted,
    /// It is unknown whether the callee executed it.
    Unknown,
}

/// A read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The chunk.
    pub chunk: ChunkId,
    /// The chunk's stamp, as the namenode named it to the reader.
    pub stamp: Stamp,
    /// Offset in the chunk, in bytes.
    pub offset: u32,
    /// Maximum number of bytes.
    pub length: u32,
    /// For a chunk that isn't sealed: the acknowledged length that the reader knows of.
    pub acknowledged: u32,
}

/// The CRC-32C of a range, and the range's length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest {
    /// CRC-32C of the whole range.
    pub crc: u32,
    /// Number of bytes.
    pub length: u32,
}

/// A digest of a range of a chunk, in place of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digested {
    /// The digest. It covers fewer bytes than requested if the visible part ends before.
    pub digest: Digest,
    /// Number of the chunk's visible bytes.
    pub visible: u32,
}

/// Bytes of a chunk and their checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The bytes: fewer than requested if the visible part ends before.
    pub bytes: Bytes,
    /// CRC-32C of each part that lies within one unit of the chunk.
    pub sums: Vec<u32>,
    /// Number of the chunk's visible bytes.
    pub visible: u32,
}
