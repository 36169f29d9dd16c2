//! Clusters that lose a datanode while a file is written through it.

mod hdfs;
mod kadoop;

pub use hdfs::HdfsRack;
pub use kadoop::KadoopRack;

use crate::Result;
use std::fmt;
use strait_testkit::{LinkRate, Network};

/// One more than a file has replicas, so that they can be three again.
const DATANODES: usize = 4;
const REPLICATION: u16 = 3;
/// The paper's network.
const LINK: LinkRate = LinkRate::mbit(1_000);
/// Jumbo frames: the links are to be the limit, not the cores that carry them.
const PACKET_BYTES: u32 = 9_000;
/// Hosts: the client's, the namenode's, and then the datanodes'.
const CLIENT: usize = 0;
const NAMENODE: usize = 1;
const FIRST_DATANODE: usize = 2;

/// How a datanode is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Its process is, as by `kill -9`.
    Killed,
    /// Its link is pulled; nobody is told.
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

/// What a writer, and the file, went through.
#[derive(Debug, Clone, Copy)]
pub struct Suffered {
    /// The longest `write()` of 1 MiB.
    pub longest_write_s: f64,
    /// From the loss until every chunk had three replicas again, the file closed.
    pub whole_again_s: f64,
}

/// A cluster that can lose datanodes.
pub trait Lossy {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// Writes a file, loses a datanode of its pipeline half-way, and waits until all is well
    /// again; then the datanode is brought back.
    fn lose(&mut self, loss: Loss, path: &str, mib: usize) -> Result<Suffered>;
}

fn network() -> Result<Network> {
    let network = Network::start(FIRST_DATANODE + DATANODES, Some(LINK))?;
    network.set_packet_bytes(PACKET_BYTES)?;
    Ok(network)
}
