//! Numbers that name things. Each has a type of its own, so the compiler catches mix-ups.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(to, concat!(stringify!($name), " {}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(to)
            }
        }
    };
}

number!(
    /// A chunk. The namenode issues rising numbers, and never reuses one.
    ChunkId(u64)
);
number!(
    /// A permission to change a chunk. The namenode issues rising stamps, whatever the chunk. For each
    /// chunk, a datanode refuses stamps below the highest that it has seen.
    Stamp(u64)
);
number!(
    /// A datanode. The namenode numbers it when it first joins.
    NodeId(u32)
);
number!(
    /// A datanode's own identity: random, drawn once, kept in its data directories.
    Identity(u64)
);
number!(
    /// One unbroken run of a datanode: random, drawn at its start and again when
    /// it loses a data directory.
    Incarnation(u64)
);
number!(
    /// One opening of a file for writing; never reused.
    FileId(u64)
);
number!(
    /// The holder of a file that is being written: a digest of its user and session.
    Holder(u128)
);
number!(
    /// A client, numbered by the namenode.
    ClientId(u64)
);
number!(
    /// A slot of the namenode's table of inodes, reused after a deletion.
    InodeNo(u32)
);

/// Milliseconds. Spans and deadlines use a clock that never runs backwards; a file's times use the
/// wall clock (since 1970).
pub type Millis = u64;

/// A member of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// The datanode.
    pub node: NodeId,
    /// The datanode's run that joined the pipeline.
    pub incarnation: Incarnation,
}
