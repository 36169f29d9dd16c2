//! Clusters that lose a datanode while a client writes through it.

mod hdfs;
mod kadoop;

pub use hdfs::{HdfsClient, HdfsRack};
pub use kadoop::KadoopRack;

use crate::Result;
use std::fmt;

/// One datanode more than a file has replicas, so that after a loss the file can have three again.
const DATANODES: usize = 4;
const REPLICATION: u16 = 3;
/// The way in which a datanode is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Its process is killed, as by `kill -9`.
    Killed,
    /// Its link is unplugged. No host gets an error for that.
    Unplugged,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "killed",
            Self::Unplugged => "unplugged",
        })
    }
}

/// Effects of a loss on a writer and its file.
#[derive(Debug, Clone, Copy)]
pub struct Suffered {
    /// The longest `write()` of 1 MiB.
    pub longest_write_s: f64,
    /// Seconds from the loss until every chunk has three replicas again and the file is closed.
    pub whole_again_s: f64,
}

/// A cluster that can lose datanodes.
pub trait Lossy {
    /// The system's name.
    fn name(&self) -> &'static str;
    /// Writes a file, loses a datanode of its pipeline half-way, waits until all chunks have three replicas
    /// again, and then restores the datanode.
    fn lose(&mut self, loss: Loss, path: &str, mib: usize) -> Result<Suffered>;
}
