//! Reads every replica of a file and checks it, whereas a reader needs only one replica of each chunk.

use super::{Client, read_driver::ReadDriver};
use bytes::Bytes;
use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};
use strait_kadoop_core::{
    NodeId,
    client::{LOCATE_BYTES, Unbounded},
    error::Error,
    messages::{Caller, LocatedChunk, Read},
};
use strait_kadoop_wire::failure::Failure;

/// Most attempts to read a part of a replica while its datanode doesn't answer.
const ATTEMPTS: usize = 3;

/// A replica that has been read.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Offset in the file of the chunk's first byte.
    pub offset: u64,
    /// Number of the file's bytes in the chunk.
    pub length: u64,
    /// The datanode that has the replica.
    pub node: NodeId,
    /// The datanode's address, if the namenode knows it.
    pub address: Option<SocketAddr>,
    /// The reason why the replica couldn't be read to its end; None if it is whole. Corrupt: its bytes don't
    /// match their checksums, or it is too short.
    pub failure: Option<Failure>,
}

/// Reads the replicas of a file one after the other, and compares each with its checksums. Reports damaged
/// replicas to the namenode, which has them replaced.
#[derive(Debug)]
pub struct Verifier {
    driver: Arc<ReadDriver<Bytes>>,
    /// Replicas of located chunks that haven't been read yet.
    replicas: VecDeque<(LocatedChunk, NodeId)>,
    /// The end of the located chunks; None if all chunks are located.
    located: Option<u64>,
}

impl Verifier {
    pub(super) fn open(client: &Client, caller: &Caller, path: &str) -> Result<Self, Failure> {
        let driver = Arc::new(ReadDriver::open(client, caller, path, Arc::new(Unbounded))?);
        Ok(Self { driver, replicas: VecDeque::new(), located: Some(0) })
    }

    /// Reads one replica. None: all replicas were read. Nothing runs between steps, so a caller can stop
    /// after any step.
    ///
    /// # Errors
    /// As [`super::Reader::read_at`], if the file can't be located.
    pub fn step(&mut self) -> Result<Option<Verified>, Failure> {
        loop {
            if let Some((chunk, node)) = self.replicas.pop_front() {
                return Ok(Some(self.verify(&chunk, node)));
            }
            let Some(from) = self.located else { return Ok(None) };
            let (_, found) = self.driver.locate(from, LOCATE_BYTES, None)?;
            let chunks: Vec<_> = found.chunks.into_iter().filter(|chunk| chunk.offset >= from).collect();
            let end = chunks.last().map(|last| last.offset.saturating_add(last.length.into()));
            // A chunk that is being written is the file's last one.
            self.located = end.filter(|end| *end > from && !chunks.iter().any(|chunk| chunk.growing));
            for chunk in chunks {
                let nodes = chunk.nodes.clone();
                self.replicas.extend(nodes.into_iter().map(|node| (chunk.clone(), node)));
            }
        }
    }

    fn verify(&self, chunk: &LocatedChunk, node: NodeId) -> Verified {
        let failure = self.read(chunk, node).err();
        if failure.as_ref().is_some_and(|failure| failure.error == Error::Corrupt) {
            self.driver.suspect(node, chunk.chunk, chunk.stamp, None);
        }
        Verified {
            offset: chunk.offset,
            length: chunk.length.into(),
            node,
            address: self.driver.address(node),
            failure,
        }
    }

    /// Reads a replica up to the end that the namenode knows. For a chunk that is being written, reads all
    /// visible bytes.
    fn read(&self, chunk: &LocatedChunk, node: NodeId) -> Result<(), Failure> {
        let acknowledged = chunk.skip.saturating_add(chunk.length);
        let end = if chunk.growing { u32::MAX } else { acknowledged };
        let config = &self.driver.config;
        let within = Duration::from_millis(config.read_ms);
        let (mut offset, mut attempts) = (0, 0);
        while offset < end {
            let length = (end - offset).min(config.read_bytes);
            let read = Read { chunk: chunk.chunk, stamp: chunk.stamp, offset, length, acknowledged };
            match self.driver.fetch(node, &read, within, None) {
                Ok(part) if part.content().is_empty() && chunk.growing => return Ok(()),
                // The replica is shorter than the chunk in the namenode's log.
                Ok(part) if part.content().is_empty() => return Err(Error::Corrupt.into()),
                Ok(part) => (offset, attempts) = (offset + part.content().len() as u32, 0),
                Err(failure) if failure.error == Error::Unavailable && attempts + 1 < ATTEMPTS => {
                    attempts += 1
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}
