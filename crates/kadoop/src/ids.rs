//! Numbers that name things, each a type of its own so that none stands in for
//! another.

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
    /// A chunk. Handed out by the namenode, rising, never used twice.
    ChunkId(u64)
);
number!(
    /// A permission to change a chunk. Handed out by the namenode, rising over
    /// all chunks; a datanode refuses any below the highest it has seen for a chunk.
    Stamp(u64)
);
number!(
    /// A datanode, numbered by the namenode when it first joins.
    NodeId(u32)
);
number!(
    /// What a datanode calls itself: random, drawn once, kept in its data directories.
    Identity(u64)
);
number!(
    /// One unbroken run of a datanode: random, drawn at its start and again when
    /// it loses a data directory.
    Incarnation(u64)
);
number!(
    /// One opening of a file for writing. Never used twice.
    FileId(u64)
);
number!(
    /// A client, as the namenode numbered it.
    ClientId(u64)
);
number!(
    /// A slot of the namenode's table of inodes; used again after a deletion.
    InodeNo(u32)
);

/// Milliseconds. Of a clock that doesn't run backwards where a span is meant, of
/// the wall's (since 1970) where a file's times are.
pub type Millis = u64;

/// One place in a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// The datanode.
    pub node: NodeId,
    /// The run of it that joined the pipeline.
    pub incarnation: Incarnation,
}
