//! Messages between client, namenode and datanodes, as values.

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
    /// The session for which the request is made. It counts when a file is opened for writing: the
    /// same session gets a file back at another client.
    pub session: Option<Session>,
}

impl Caller {
    /// The holder of a file that this caller opens for writing: only this user can name it, by the
    /// same session. None without a session.
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
    /// Counts up from 1.
    pub number: u64,
    /// The client has received the answers of all requests below, so the namenode may forget them.
    pub done_below: u64,
}

/// A writer's claim of one chunk's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its length; 0 abandons the chunk.
    pub length: u32,
    /// Members that sealed it, and so have it on disk. Empty: not yet known.
    pub durable: Vec<NodeId>,
}

/// A request that changes the namespace or a file.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Makes a directory and its missing parents.
    Mkdirs { path: String, mode: u16 },
    /// Makes a file and opens it for writing. `min_replicas` raises the cluster's minimum.
    Create { path: String, overwrite: bool, mode: u16, replication: u16, chunk_bytes: u32, min_replicas: u16 },
    /// Opens a file for writing at its end.
    Append { path: String },
    /// Reports ends of chunks, and asks for the next chunk unless `next` is false.
    AddChunk { file: FileId, ends: Vec<End>, next: bool, avoid: Vec<NodeId> },
    /// Reports the last ends and closes the file.
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
    /// Has recovery seal a chunk at `length`. Its writer sends this, and keeps the lease, if it
    /// can't reach any member any more or all members refuse.
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
    /// The ends are logged. `durable`: each ended chunk of this writer has its minimum of replicas
    /// on disk.
    Chunk { next: Option<NewChunk>, durable: bool },
    /// Whether the file is closed; if not, a chunk has too few replicas yet.
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
    /// The chunk whose bytes it begins with.
    pub continues: Option<Source>,
}

/// Sealed bytes to copy from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its stamp.
    pub stamp: Stamp,
    /// Bytes to copy, from its beginning.
    pub length: u32,
    /// Datanodes that have it.
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
    /// In the order of their names' bytes.
    pub entries: Vec<Status>,
    /// More entries follow the last one.
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
    /// The number of the transaction that made the file. It tells this file from earlier and later
    /// ones of the same name.
    pub made: u64,
    /// The chunks of the requested range, in order.
    pub chunks: Vec<LocatedChunk>,
    /// The file's length, as far as the namenode knows it.
    pub length: u64,
    /// A writer has the file open.
    pub open: bool,
}

/// One chunk of a file, for readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedChunk {
    /// Offset in the file of the chunk's first byte that counts.
    pub offset: u64,
    /// Bytes of the chunk before that one.
    pub skip: u32,
    /// Number of bytes from there on, as known to the namenode. The last chunk of an open file may
    /// have more; its datanodes know.
    pub length: u32,
    /// More may have been written than `length`.
    pub growing: bool,
    /// The chunk.
    pub chunk: ChunkId,
    /// Its stamp.
    pub stamp: Stamp,
    /// Datanodes that have it.
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
    /// The datanode has the replica, in this state now.
    Has(ReplicaReport),
    /// The datanode doesn't have the replica, or never had it.
    Gone { chunk: ChunkId, stamp: Stamp },
    /// The replica's bytes are damaged on disk.
    Corrupt { chunk: ChunkId, stamp: Stamp },
    /// The answer to a fence: the replica as it is, or that there is none.
    Fenced { chunk: ChunkId, stamp: Stamp, replica: Option<ReplicaReport> },
}

/// Capacity and use of a datanode's directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the names say it
pub struct Space {
    /// 0: not reported.
    pub capacity_bytes: u64,
    pub used_bytes: u64,
}

impl Space {
    /// Whether so many bytes fit, as far as reported. Without a reported capacity the answer is
    /// yes: such a datanode has lost its directories, and notices that at the next write.
    pub fn has_room(self, bytes: u64) -> bool {
        self.capacity_bytes == 0 || self.capacity_bytes.saturating_sub(self.used_bytes) >= bytes
    }
}

/// A point of the namenode's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// Number of the last record.
    pub record: u64,
    /// The random number of the namenode's start that wrote it; 0: not known.
    pub start: u64,
}

/// A datanode's call to the namenode. It makes one at a time, so the namenode sees them in order.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The datanode.
    pub identity: Identity,
    /// Its current run.
    pub incarnation: Incarnation,
    /// The session that the namenode assigned. 0 asks for one, and for nothing else.
    pub session: u64,
    /// Rising within a session, so the namenode recognizes a late one.
    pub number: u64,
    /// Capacity and use of its directories.
    pub space: Space,
    /// The last point of the log that an answer has named, in this run or an earlier one.
    pub seen: Point,
    /// The highest chunk and the highest stamp on its disks; 0 without replicas.
    pub highest: (ChunkId, Stamp),
    /// All its replicas: at registration, and periodically.
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
    /// Orders to carry out. The namenode repeats them until the datanode reports the result.
    pub orders: Vec<Order>,
    /// The namenode wants all replicas in the next heartbeat.
    pub report: bool,
    /// Where the log ends; all of it is on disk.
    pub log: Point,
}

/// An order from the namenode to a datanode.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Delete the replica, if its stamp isn't higher.
    Delete { chunk: ChunkId, stamp: Stamp },
    /// Refuse lower stamps, and report the replica as it is.
    Fence { chunk: ChunkId, stamp: Stamp },
    /// Seal the replica at `length` under `stamp`.
    Seal { chunk: ChunkId, stamp: Stamp, length: u32 },
    /// Copy a sealed replica from another datanode.
    Copy(Source),
    /// Compare a replica with its checksums.
    Verify { chunk: ChunkId, stamp: Stamp },
}

/// A write, the same to every member of a pipeline.
#[derive(Debug, Clone)]
pub struct Write {
    /// The chunk.
    pub chunk: ChunkId,
    /// The stamp it is written under.
    pub stamp: Stamp,
    /// The pipeline. Each member finds itself in it, with its incarnation.
    pub pipeline: Vec<Member>,
    /// Offset in the chunk, in bytes.
    pub offset: u32,
    /// The bytes.
    pub bytes: Bytes,
}

/// Begins a chunk with a sealed chunk's bytes, at one member of its pipeline. The member answers
/// once it has applied the bytes; the first write follows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continue {
    /// The new chunk.
    pub chunk: ChunkId,
    /// The stamp it is written under.
    pub stamp: Stamp,
    /// Its pipeline.
    pub pipeline: Vec<Member>,
    /// The source of its first bytes.
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
    /// Unknown: the callee may or may not have executed it.
    Unknown,
}

/// A read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The chunk.
    pub chunk: ChunkId,
    /// The stamp under which the namenode named it.
    pub stamp: Stamp,
    /// Offset in the chunk, in bytes.
    pub offset: u32,
    /// Maximum number of bytes.
    pub length: u32,
    /// Acknowledged length, as known to the namenode, of a chunk that isn't sealed.
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
    /// Of fewer bytes than requested where the visible part ends.
    pub digest: Digest,
    /// Number of the chunk's visible bytes.
    pub visible: u32,
}

/// Bytes of a chunk and their checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The bytes; fewer than requested where the visible part ends.
    pub bytes: Bytes,
    /// CRC-32C of each part that lies within one unit of the chunk.
    pub sums: Vec<u32>,
    /// Number of the chunk's visible bytes.
    pub visible: u32,
}
