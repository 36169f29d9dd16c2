//! Records of the log. Add variants only at the end, and never change one: their order is the
//! format (postcard numbers them).

use crate::{
    ChunkId, ClientId, FileId, Holder, Identity, InodeNo, Member, Millis, NodeId, Stamp,
    messages::{Answer, Attributes, RequestId},
};
use compact_str::CompactString;
use serde::{Deserialize, Serialize, Serializer};

/// All changes of one operation: on disk as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// The request and its answer, for retries.
    pub request: Option<(RequestId, Answer)>,
    /// The changes, in order.
    pub records: Vec<Record>,
}

impl Transaction {
    /// The transaction's bytes in the log.
    pub fn encode(&self) -> Vec<u8> {
        // Writing to memory has no way to fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// The transaction of such bytes.
    ///
    /// # Errors
    /// If the bytes aren't a transaction.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        postcard::from_bytes(bytes).map_err(|_| "it isn't a record of this version")
    }
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The directory.
    pub parent: InodeNo,
    /// The name in it.
    pub name: CompactString,
}

/// Rights and times of a new file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
pub struct Ownership {
    pub mode: u16,
    pub owner: CompactString,
    pub group: CompactString,
    pub time_ms: Millis,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // fields are named for what they hold
pub enum Record {
    /// A client was given its number.
    ClientJoined { client: ClientId },
    /// A datanode was given its number, or moved to another rack.
    NodeJoined { node: NodeId, identity: Identity, rack: CompactString },
    /// A directory was made.
    DirectoryMade { at: Place, inode: InodeNo, by: Ownership },
    /// A file was made.
    FileMade { at: Place, inode: InodeNo, by: Ownership, replication: u16, chunk_bytes: u32 },
    /// A client got the lease.
    Opened { file: FileId, inode: InodeNo, client: ClientId },
    /// A chunk was begun. If it continues another, that is the file's last one before it.
    ChunkAdded { file: FileId, chunk: ChunkId, stamp: Stamp, pipeline: Vec<Member>, continues: bool },
    /// The writer claimed the chunk's end; no member has sealed it yet.
    ChunkClaimed { file: FileId, chunk: ChunkId, length: u32 },
    /// The chunk is sealed somewhere. If it is shorter than claimed, the file ends with it.
    ChunkEnded { file: FileId, chunk: ChunkId, stamp: Stamp, length: u32 },
    /// The chunk and all behind it were removed from the file.
    ChunkDropped { file: FileId, chunk: ChunkId },
    /// The writer lost the lease.
    RecoveryBegun { file: FileId },
    /// A stamp was handed out for the recovery of a chunk.
    StampTaken { file: FileId, chunk: ChunkId, stamp: Stamp },
    /// The file was closed and its lease ended.
    Closed { file: FileId, time_ms: Millis },
    /// A file, or a directory with all in it, was removed.
    Removed { at: Place, time_ms: Millis },
    /// A file or directory was moved or renamed.
    Moved { from: Place, to: Place, time_ms: Millis },
    /// A closed file was made shorter.
    Truncated { inode: InodeNo, length: u64, time_ms: Millis },
    /// Attributes were set.
    AttributesSet { inode: InodeNo, attributes: Attributes },
    /// The chunks that this one replaced were dropped.
    KeptDropped { chunk: ChunkId },
    /// The decommission of a datanode began.
    DecommissionBegun { node: NodeId },
    /// The decommission of a datanode was cancelled.
    DecommissionCancelled { node: NodeId },
    /// A namenode started, with this random number.
    Started { random: u64 },
    /// An operator admitted a datanode of another history, up to whose record all is given up. Its
    /// numbers are below `chunk` and `stamp`.
    Admitted { identity: Identity, record: u64, chunk: ChunkId, stamp: Stamp },
    /// A datanode that was admitted has nothing of another history any more.
    Settled { identity: Identity },
    /// A directory with all in it was removed. Its inodes are freed later, by [`Self::Swept`].
    Detached { at: Place, time_ms: Millis },
    /// This number of inodes of detached trees was freed, or all that were left.
    Swept { inodes: u32 },
    /// A file just opened has this holder.
    Held {
        file: FileId,
        #[serde(serialize_with = "hexadecimal_for_people")]
        holder: Holder,
    },
    /// A file just made has a minimum of replicas of its own.
    Secured { inode: InodeNo, min_replicas: u16 },
    /// The chunks of closed files, in order, were moved to the end of another, and these files removed.
    Concatenated { target: InodeNo, sources: Vec<Place>, time_ms: Millis },
}

/// JSON has no numbers of 128 bits.
fn hexadecimal_for_people<S: Serializer>(holder: &Holder, to: S) -> Result<S::Ok, S::Error> {
    match to.is_human_readable() {
        true => to.collect_str(&format_args!("{:032x}", holder.0)),
        false => holder.serialize(to),
    }
}
