//! Requests to datanodes: for the bytes of a block, which are checked; for its checksum; for the visible
//! length of a block under construction.

mod block_stream;
mod packets;
mod pool;
mod transfer;

pub(super) use block_stream::BlockStream;
pub(super) use transfer::{Limits, OPERATION_TIMEOUT, Started, accepted, ask, receive_message};

use super::block::Block;
use super::errors::from_java;
use super::rpc::{Connection, DATANODE_PROTOCOL, RpcError};
use super::wire::{
    BlockChecksumOptions, DatanodeId, GetReplicaVisibleLengthRequest, GetReplicaVisibleLengthResponse,
    LocatedBlock, OpBlockChecksum, OpBlockChecksumResponse,
};
use pool::Pool;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use strait_store::{Error, ErrorKind, Result, fail};
use transfer::{base_header, start};

const OP_BLOCK_CHECKSUM: u8 = 85;

/// Default of [`Datanodes::short_patience`]. A busy disk or a pause for garbage collection seldom takes longer.
const SHORT_PATIENCE: Duration = Duration::from_secs(4);

/// Options for calls to datanodes, and the connections to them.
#[derive(Debug)]
pub(super) struct Datanodes {
    by_hostname: bool,
    /// Longest permitted silence of a datanode if others have the block, too. If no other datanode gives the
    /// bytes, a silent one is tried again, with full patience.
    pub short_patience: Duration,
    pool: Pool,
}

impl Datanodes {
    /// With `by_hostname`, it calls them by name rather than by address.
    pub fn new(by_hostname: bool) -> Self {
        Self { by_hostname, short_patience: SHORT_PATIENCE, pool: Pool::default() }
    }

    fn host<'a>(&self, id: &'a DatanodeId) -> &'a str {
        if self.by_hostname { &id.host_name } else { &id.ip_addr }
    }

    /// A datanode's address for data.
    pub fn address(&self, id: &DatanodeId) -> String {
        format!("{}:{}", self.host(id), id.transfer_port)
    }

    /// Visible length of a block under construction: the bytes that every replica of the pipeline
    /// has acknowledged.
    ///
    /// # Errors
    /// Unavailable if no datanode knows the length at present. After a restart, the namenode may lack reports
    /// of the block. If the datanodes of all replicas restarted, the replicas wait for recovery.
    pub async fn visible_length(&self, user: &str, block: &LocatedBlock) -> Result<u64> {
        if block.locations.is_empty() && block.block.num_bytes > 0 {
            return fail(ErrorKind::Unavailable, "no datanode has reported the block being written");
        }
        let request = GetReplicaVisibleLengthRequest { block: block.block.clone() };
        let mut last = None;
        for location in &block.locations {
            let address = format!("{}:{}", self.host(&location.id), location.id.ipc_port);
            let answer: std::result::Result<GetReplicaVisibleLengthResponse, _> =
                match Connection::open(&address, user, DATANODE_PROTOCOL).await {
                    Ok(mut connection) => connection.call("getReplicaVisibleLength", &request).await,
                    Err(error) => Err(error),
                };
            match answer {
                Ok(answer) if answer.length <= i64::MAX as u64 => return Ok(answer.length),
                // -1 in Java (`ReplicaWaitingToBeRecovered.getVisibleLength`).
                Ok(_) => last = Some(Error::new(ErrorKind::Unavailable, waits_for_recovery(&address))),
                // The replica is allocated, but the writer hasn't sent a byte yet.
                Err(RpcError::Java { class, .. }) if class.ends_with("ReplicaNotFoundException") => {}
                Err(RpcError::Java { class, message }) => last = Some(from_java(&class, &message)),
                Err(error) => {
                    let message = format!("datanode {address}: {error}");
                    last = Some(Error::new(ErrorKind::Unavailable, message));
                }
            }
        }
        last.map_or(Ok(0), Err)
    }

    /// A block's checksum of this kind ([`super::wire::block_checksum_type`]), computed by a datanode.
    pub async fn checksum(&self, block: &Block, kind: i32) -> Result<OpBlockChecksumResponse> {
        let mut failures = Failures::of(block);
        for address in self.replicas(block) {
            match self.checksum_by(&address, block, kind).await {
                Ok(checksum) => return Ok(checksum),
                Err(error) => failures.add(self, &address, error),
            }
        }
        Err(failures.into_error())
    }

    async fn checksum_by(
        &self,
        address: &Arc<str>,
        block: &Block,
        kind: i32,
    ) -> io::Result<OpBlockChecksumResponse> {
        let options = Some(BlockChecksumOptions { kind: Some(kind) });
        let message = OpBlockChecksum { header: base_header(block), options };
        // The datanode closes the connection after this operation.
        let Started { answer, .. } =
            start(self, address, OP_BLOCK_CHECKSUM, &message, OPERATION_TIMEOUT).await?;
        answer.checksum.ok_or_else(|| io::Error::other("no checksum in the answer"))
    }

    /// The datanodes that have the block, the most promising first.
    pub fn replicas(&self, block: &Block) -> Vec<Arc<str>> {
        self.pool.trusted_first(&block.replicas)
    }
}

fn waits_for_recovery(address: &str) -> String {
    format!("the replica at {address} waits for the recovery of its block after a restart of the datanode")
}

/// The reasons why all of a block's replicas failed.
#[derive(Debug)]
pub(super) struct Failures {
    block_id: u64,
    all: Vec<(Arc<str>, io::Error)>,
}

impl Failures {
    /// No failures so far.
    pub fn of(block: &Block) -> Self {
        Self { block_id: block.block.block_id, all: Vec::new() }
    }

    /// Adds a failure, and moves the datanode to the end of the order for some time.
    pub fn add(&mut self, datanodes: &Datanodes, address: &Arc<str>, error: io::Error) {
        tracing::debug!(block = self.block_id, datanode = &**address, %error, "replica failed");
        // A damaged replica says nothing about the datanode's other replicas.
        if error.kind() != io::ErrorKind::InvalidData {
            datanodes.pool.suspect(address);
        }
        self.all.push((Arc::clone(address), error));
    }

    /// Corrupt if every replica contradicted its checksums; otherwise Unavailable.
    pub fn into_error(self) -> Error {
        let Self { block_id, all } = self;
        let Some((address, error)) = all.last() else {
            return Error::new(ErrorKind::Unavailable, format!("block {block_id} has no live replica"));
        };
        let corrupt = all.iter().all(|(_, error)| error.kind() == io::ErrorKind::InvalidData);
        let kind = if corrupt { ErrorKind::Corrupt } else { ErrorKind::Unavailable };
        let count = all.len();
        Error::new(
            kind,
            format!(
                "block {block_id}: all {count} reads of its replicas failed, the latest at {address}: {error}"
            ),
        )
    }
}
