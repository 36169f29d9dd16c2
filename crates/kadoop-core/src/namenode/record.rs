//! Records of the log. Add variants only at the end, and never change one: their order is the
//! format (postcard numbers them).

use crate::{
    ChunkId, ClientId, FileId, Holder, Identity, InodeNo, Member, Millis, NodeId, Stamp,
    messages::{Answer, Attributes, RequestId},
};
use compact_str::CompactString;
use serde::{Deserialize, Serialize, Serializer};

/// All changes of one operation. A crash keeps all of them or none.
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

    /// The transaction that these bytes encode.
    ///
    /// # Errors
    /// The bytes aren't a transaction.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        postcard::from_bytes(bytes).map_err(|_| "it is invalid, or from a newer version of this program")
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
    /// A client got its number.
    ClientJoined { client: ClientId },
    /// A datanode got its number, or moved to another rack.
    NodeJoined { node: NodeId, identity: Identity, rack: CompactString },
    /// A directory was made.
    DirectoryMade { at: Place, inode: InodeNo, by: Ownership },
    /// A file was made.
    FileMade { at: Place, inode: InodeNo, by: Ownership, replication: u16, chunk_bytes: u32 },
    /// A client got the file's lease.
    Opened { file: FileId, inode: InodeNo, client: ClientId },
    /// A chunk was begun. If `continues`, it will replace the file's last chunk before it.
    ChunkAdded { file: FileId, chunk: ChunkId, stamp: Stamp, pipeline: Vec<Member>, continues: bool },
    /// The writer claimed the chunk's end; no member has sealed it yet.
    ChunkClaimed { file: FileId, chunk: ChunkId, length: u32 },
    /// The chunk is sealed somewhere. If it is shorter than claimed, the file ends with it.
    ChunkEnded { file: FileId, chunk: ChunkId, stamp: Stamp, length: u32 },
    /// The chunk and all later ones were removed from the file.
    ChunkDropped { file: FileId, chunk: ChunkId },
    /// The writer lost the lease.
    RecoveryBegun { file: FileId },
    /// A stamp was issued for the recovery of a chunk.
    StampTaken { file: FileId, chunk: ChunkId, stamp: Stamp },
    /// The file was closed and its lease ended.
    Closed { file: FileId, time_ms: Millis },
    /// A file, or a directory with its whole tree, was removed.
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
    /// A namenode started and drew this random number.
    Started { random: u64 },
    /// An operator admitted a datanode of another history, and so gave up lost records up to `record`.
    /// The numbers of the datanode's replicas are below `chunk` and `stamp`.
    Admitted { identity: Identity, record: u64, chunk: ChunkId, stamp: Stamp },
    /// An admitted datanode has no replicas of another history any more.
    Settled { identity: Identity },
    /// A directory with its whole tree was removed. [`Self::Swept`] frees its inodes later.
    Detached { at: Place, time_ms: Millis },
    /// This number of inodes of detached trees were freed, or all that were left if there were fewer.
    Swept { inodes: u32 },
    /// The file that the previous record opened has this holder.
    Held {
        file: FileId,
        #[serde(serialize_with = "hexadecimal_for_people")]
        holder: Holder,
    },
    /// The file that the previous record made has its own minimum of replicas.
    Secured { inode: InodeNo, min_replicas: u16 },
    /// The chunks of the source files, in order, were moved to the end of the target, and the sources
    /// were removed. All were closed.
    Concatenated { target: InodeNo, sources: Vec<Place>, time_ms: Millis },
}

/// Writes the holder as hexadecimal text in formats for people: JSON has no numbers of 128 bits.
fn hexadecimal_for_people<S: Serializer>(holder: &Holder, to: S) -> Result<S::Ok, S::Error> {
    match to.is_human_readable() {
        true => to.collect_str(&format_args!("{:032x}", holder.0)),
        false => holder.serialize(to),
    }
}
