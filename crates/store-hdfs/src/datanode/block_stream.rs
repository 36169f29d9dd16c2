//! A stream of one range of one block from one datanode.

use super::super::block::Block;
use super::super::wire::{ClientOperationHeader, ClientReadStatus, OpReadBlock, status};
use super::Datanodes;
use super::packets::Packets;
use super::transfer::{OPERATION_TIMEOUT, Started, base_header, start};
use bytes::BytesMut;
use prost::Message;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

const OP_READ_BLOCK: u8 = 81;
/// This client's name in the datanode's log.
const CLIENT_NAME: &str = "strait";
/// Time limit for the end of an operation whose bytes have all arrived. The reader waits for a round trip to
/// keep the connection, but no longer than this.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// The stream. The datanode sends ahead as far as the connection allows. Dropping the stream stops it.
#[derive(Debug)]
pub(in super::super) struct BlockStream {
    stream: TcpStream,
    packets: Packets,
    address: Arc<str>,
    block_id: u64,
}

impl BlockStream {
    /// Requests `range` of the block from the datanode at `address`, which must answer within
    /// `patience`.
    pub async fn open(
        datanodes: &Datanodes,
        address: &Arc<str>,
        block: &Block,
        range: Range<u64>,
        patience: Duration,
    ) -> io::Result<Self> {
        let header = ClientOperationHeader { base: base_header(block), client_name: CLIENT_NAME.to_owned() };
        let message = OpReadBlock { header, offset: range.start, length: range.end - range.start };
        let Started { stream, answer, rest } =
            start(datanodes, address, OP_READ_BLOCK, &message, patience).await?;
        let checksum = answer.read_checksum.ok_or_else(|| io::Error::other("no checksum in the answer"))?;
        let packets = Packets::new(&checksum, range, rest)?;
        Ok(Self { stream, packets, address: Arc::clone(address), block_id: block.block.block_id })
    }

    /// Whether the next byte is the one at `offset` of `block`.
    pub fn is_at(&self, block: &Block, offset: u64) -> bool {
        self.block_id == block.block.block_id
            && self.packets.position() == offset
            && self.packets.remaining() > 0
    }

    /// The datanode.
    pub fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// Appends the next `wanted` bytes to `into`. After an error, `into` has the packets that were received
    /// completely. `patience` limits each silence of the datanode. However slowly bytes arrive, the call ends
    /// after [`OPERATION_TIMEOUT`].
    pub async fn read(&mut self, into: &mut BytesMut, wanted: usize, patience: Duration) -> io::Result<()> {
        self.packets.patience = patience;
        timeout(OPERATION_TIMEOUT, self.packets.read(&mut self.stream, into, wanted)).await?
    }

    /// The stream, if it has more bytes. Otherwise keeps its connection for the next operation.
    pub async fn unless_ended(mut self, datanodes: &Datanodes) -> Option<Self> {
        if self.packets.remaining() > 0 {
            return Some(self);
        }
        let end = async {
            self.packets.finish(&mut self.stream).await?;
            // After this message, the datanode counts the read as done, and waits for the next operation.
            let done = ClientReadStatus { status: status::CHECKSUM_OK }.encode_length_delimited_to_vec();
            self.stream.write_all(&done).await
        };
        if let Ok(Ok(())) = timeout(END_PATIENCE, end).await {
            datanodes.pool.keep(self.address, self.stream);
        }
        None
    }
}
