//! What client, namenode and datanodes say to each other, as values.

use crate::{ChunkId, ClientId, Error, FileId, Identity, Incarnation, Member, Millis, NodeId, Stamp};
use bytes::Bytes;
use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// Who asks the namenode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub user: CompactString,
    /// The groups that the user is in.
    pub groups: Vec<CompactString>,
}

/// Names one mutation of one client, through all its repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestId {
    /// The client.
    pub client: ClientId,
    /// Rising, from 1.
    pub number: u64,
    /// The client has the answers of all requests below; they can be forgotten.
    pub done_below: u64,
}

/// Where a writer says that one of its chunks ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its length; 0 gives the chunk up.
    pub length: u32,
    /// Members that sealed it, and so have it on disk. None: not yet known.
    pub durable: Vec<NodeId>,
}

/// A request that changes the namespace or a file.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Makes a directory and those above it that are missing.
    Mkdirs { path: String, mode: u16 },
    /// Makes a file and opens it for writing.
    Create { path: String, overwrite: bool, mode: u16, replication: u16, chunk_bytes: u32 },
    /// Opens a file for writing at its end.
    Append { path: String },
    /// Tells ends of chunks, and asks for the next chunk unless `next` is false.
    AddChunk { file: FileId, ends: Vec<End>, next: bool, avoid: Vec<NodeId> },
    /// Tells the last ends and closes the file.
    Complete { file: FileId, ends: Vec<End> },
    /// Moves a file or directory.
    Rename { from: String, to: String, replace: bool },
    /// Removes a file or directory.
    Delete { path: String, recursive: bool },
    /// Makes a closed file shorter.
    Truncate { path: String, length: u64 },
    /// Changes a file's or directory's attributes, those that are given.
    SetAttributes { path: String, attributes: Attributes },
    /// Has a chunk sealed by recovery, at `length`: its writer, which keeps the lease, reaches
    /// none of its members any more, or all of them refuse.
    EndChunk { file: FileId, chunk: ChunkId, length: u32 },
    /// Asks that a file whose writer is silent be closed.
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

/// What a mutation answers. Kept in the log for repetitions.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Done.
    Done,
    /// Whether there was anything to do.
    Changed(bool),
    /// A file is open for writing at `length`.
    Opened { file: FileId, length: u64, chunk_bytes: u32, replication: u16 },
    /// The ends are logged. `durable`: each chunk of this writer that ended has its
    /// minimum of replicas on disk.
    Chunk { next: Option<NewChunk>, durable: bool },
    /// Whether the file is closed; if not, a chunk has too few replicas yet.
    Completed(bool),
}

/// A chunk to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewChunk {
    /// The chunk.
    pub chunk: ChunkId,
    /// The stamp to write it under.
    pub stamp: Stamp,
    /// Who writes it, in order.
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
    /// Who has it.
    pub nodes: Vec<NodeId>,
}

/// What `stat` and `list` tell of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it; times in milliseconds since 1970
pub struct Status {
    pub name: CompactString,
    /// As [`Located::made`]; 0 of a directory.
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
    /// More follow after the last one.
    pub more: bool,
}

/// What a tree holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the names say it
pub struct Summary {
    pub directories: u64,
    pub files: u64,
    pub bytes: u64,
    /// Bytes times replication.
    pub space: u64,
}

/// Where a file's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Tells the file from another that had or will have its name: the number of the
    /// transaction that made it.
    pub made: u64,
    /// The chunks of the range asked for, in order.
    pub chunks: Vec<LocatedChunk>,
    /// The file's length, as far as the namenode knows it.
    pub length: u64,
    /// A writer has the file.
    pub open: bool,
}

/// One chunk of a file, for readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedChunk {
    /// Where in the file its first byte that counts stands.
    pub offset: u64,
    /// Bytes of the chunk that come before that one.
    pub skip: u32,
    /// Bytes from there on, known to the namenode. The last chunk of an open file
    /// may have more, which its datanodes know.
    pub length: u32,
    /// More may have been written than `length`.
    pub growing: bool,
    /// The chunk.
    pub chunk: ChunkId,
    /// Its stamp.
    pub stamp: Stamp,
    /// Who has it.
    pub nodes: Vec<NodeId>,
}

/// How far a replica has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaState {
    /// Being written, by a datanode that hasn't stopped since.
    Open,
    /// Was open when its datanode stopped. Material for recovery, nothing else.
    Returned,
    /// Finished.
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

/// Something that happened on a datanode.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The replica is there, in this state now.
    Has(ReplicaReport),
    /// The replica is gone, or never was.
    Gone { chunk: ChunkId, stamp: Stamp },
    /// The replica's bytes are damaged on disk.
    Corrupt { chunk: ChunkId, stamp: Stamp },
    /// The answer to a fence: the replica as it is, or that there is none.
    Fenced { chunk: ChunkId, stamp: Stamp, replica: Option<ReplicaReport> },
}

/// How full a datanode's directories are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the names say it
pub struct Space {
    /// 0: not told.
    pub capacity_bytes: u64,
    pub used_bytes: u64,
}

impl Space {
    /// Whether so much can be written, as far as was told. One that tells of no capacity has
    /// lost its directories, and learns it by being written to.
    pub fn has_room(self, bytes: u64) -> bool {
        self.capacity_bytes == 0 || self.capacity_bytes.saturating_sub(self.used_bytes) >= bytes
    }
}

/// A datanode's call to the namenode; one at a time, so that they are seen in order.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The datanode.
    pub identity: Identity,
    /// Its run.
    pub incarnation: Incarnation,
    /// The registration that the namenode gave it; 0 asks for one, and nothing else.
    pub session: u64,
    /// Rising within a registration: one that comes late is known by it.
    pub number: u64,
    /// What its directories can hold.
    pub space: Space,
    /// All its replicas, when it registers and now and then.
    pub full: Option<Vec<ReplicaReport>>,
    /// What happened since the last heartbeat that was answered.
    pub changes: Vec<Change>,
}

/// The answer. Orders come in nothing else.
#[derive(Debug, Clone)]
pub struct HeartbeatAnswer {
    /// The registration.
    pub session: u64,
    /// What the namenode calls the datanode.
    pub node: NodeId,
    /// What to do. Repeated until the answer is reported.
    pub orders: Vec<Order>,
    /// The namenode wants all replicas in the next heartbeat.
    pub report: bool,
}

/// What the namenode tells a datanode to do.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Remove the replica, if its stamp isn't higher.
    Delete { chunk: ChunkId, stamp: Stamp },
    /// Refuse stamps below, and tell what is there.
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
    /// The pipeline: each member finds itself in it, with its incarnation.
    pub pipeline: Vec<Member>,
    /// Where in the chunk, in bytes.
    pub offset: u32,
    /// The bytes.
    pub bytes: Bytes,
}

/// Begins a chunk with bytes of a sealed one, at one member of its pipeline. Answered
/// once the bytes are applied; the first write goes behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continue {
    /// The new chunk.
    pub chunk: ChunkId,
    /// The stamp it is written under.
    pub stamp: Stamp,
    /// Its pipeline.
    pub pipeline: Vec<Member>,
    /// What it begins with.
    pub source: Source,
}

/// What became of a call at one of those it was meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was executed.
    Value,
    /// It was refused.
    Error(Error),
    /// It was not executed, for certain, and won't be.
    NotExecuted,
    /// Nobody can tell.
    Unknown,
}

/// A read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The chunk.
    pub chunk: ChunkId,
    /// The stamp under which the namenode named it.
    pub stamp: Stamp,
    /// Where in the chunk, in bytes.
    pub offset: u32,
    /// How many bytes at most.
    pub length: u32,
    /// What the namenode knows to be acknowledged of a chunk that isn't sealed.
    pub acknowledged: u32,
}

/// The CRC-32C of a range, and how many bytes it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest {
    /// Of them all.
    pub crc: u32,
    /// How many.
    pub length: u32,
}

/// A digest of a range of a chunk, in place of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digested {
    /// Of fewer bytes than asked for where the visible part ends.
    pub digest: Digest,
    /// How many bytes of the chunk are visible.
    pub visible: u32,
}

/// Bytes of a chunk and what they are checked by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The bytes; fewer than asked for where the visible part ends.
    pub bytes: Bytes,
    /// CRC-32C of each part that lies within one unit of the chunk.
    pub sums: Vec<u32>,
    /// How many bytes of the chunk are visible.
    pub visible: u32,
}
