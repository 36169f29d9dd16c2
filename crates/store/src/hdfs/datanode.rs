//! Asking datanodes: how much of a block under construction can be seen, its
//! bytes (checked), and the checksum of a block.

use super::errors::from_java;
use super::rpc::{CONNECT_TIMEOUT, Connection, DATANODE_PROTOCOL, RpcError};
use super::wire::{
    BaseHeader, BlockOpResponse, ClientOperationHeader, ClientReadStatus, DatanodeId,
    GetReplicaVisibleLengthRequest, GetReplicaVisibleLengthResponse, LocatedBlock, OpBlockChecksum,
    OpBlockChecksumResponse, OpReadBlock, PacketHeader, ReadOpChecksumInfo, crc_type, status,
};
use crate::error::{Error, ErrorKind, Result, fail};
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use prost::Message;
use std::io;
use std::ops::Range;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// `DataTransferProtocol.DATA_TRANSFER_VERSION`
const TRANSFER_VERSION: u16 = 28;
const OP_READ_BLOCK: u8 = 81;
const OP_BLOCK_CHECKSUM: u8 = 85;

/// For one whole operation on one datanode, the 60 s of
/// `dfs.client.socket-timeout`.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);
/// `PacketReceiver.MAX_PACKET_SIZE`
const MAX_PACKET_BYTES: u32 = 16 << 20;
/// A packet header is 33 bytes at most, an answer's head some hundred.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// One packet's worth of small reads from the socket.
const SOCKET_BUFFER_BYTES: usize = 64 << 10;

/// How to talk to datanodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Datanodes {
    /// By host name rather than by address.
    pub by_hostname: bool,
}

impl Datanodes {
    fn host<'a>(&self, id: &'a DatanodeId) -> &'a str {
        if self.by_hostname { &id.host_name } else { &id.ip_addr }
    }

    /// Where a datanode serves data.
    pub fn address(&self, id: &DatanodeId) -> String {
        format!("{}:{}", self.host(id), id.transfer_port)
    }

    /// How much of a block under construction readers can see: what every
    /// replica of the pipeline has acknowledged.
    pub async fn visible_length(&self, user: &str, block: &LocatedBlock) -> Result<u64> {
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
                Ok(answer) => return Ok(answer.length),
                // Allocated, but the writer hasn't sent a byte yet.
                Err(RpcError::Java { class, .. }) if class.ends_with("ReplicaNotFoundException") => {}
                Err(error) => last = Some((address, error)),
            }
        }
        match last {
            None => Ok(0),
            Some((_, RpcError::Java { class, message })) => Err(from_java(&class, &message)),
            Some((address, error)) => fail(ErrorKind::Unavailable, format!("datanode {address}: {error}")),
        }
    }

    /// The bytes `range` of a block, checked against their checksums, from the
    /// first datanode that can give them.
    pub async fn read(&self, block: &LocatedBlock, range: Range<u64>) -> Result<Bytes> {
        self.first_of(block, |address| read_block(address, block, range.clone()).boxed()).await
    }

    /// A block's checksum, computed by a datanode.
    pub async fn checksum(&self, block: &LocatedBlock) -> Result<OpBlockChecksumResponse> {
        self.first_of(block, |address| block_checksum(address, block).boxed()).await
    }

    async fn first_of<'a, T>(
        &self,
        block: &'a LocatedBlock,
        operation: impl Fn(String) -> BoxFuture<'a, io::Result<T>>,
    ) -> Result<T> {
        let mut failures = Vec::new();
        for location in &block.locations {
            let address = self.address(&location.id);
            match timeout(OPERATION_TIMEOUT, operation(address.clone())).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => failures.push((address, error)),
                Err(_) => failures.push((address, io::ErrorKind::TimedOut.into())),
            }
        }
        let id = block.block.block_id;
        let Some((address, error)) = failures.last() else {
            return fail(ErrorKind::Unavailable, format!("block {id} has no live replica"));
        };
        let corrupt = failures.iter().all(|(_, error)| error.kind() == io::ErrorKind::InvalidData);
        let kind = if corrupt { ErrorKind::Corrupt } else { ErrorKind::Unavailable };
        let count = failures.len();
        Err(Error::new(kind, format!("block {id}, {count} replicas tried, last {address}: {error}")))
    }
}

fn base_header(block: &LocatedBlock) -> BaseHeader {
    BaseHeader { block: block.block.clone(), token: Some(block.token.clone()) }
}

/// Sends one operation and takes its first answer.
async fn start(
    address: &str,
    operation: u8,
    message: &impl Message,
) -> io::Result<(BufReader<TcpStream>, BlockOpResponse)> {
    let mut stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    let mut request = TRANSFER_VERSION.to_be_bytes().to_vec();
    request.push(operation);
    request.extend(message.encode_length_delimited_to_vec());
    stream.write_all(&request).await?;

    let mut stream = BufReader::with_capacity(SOCKET_BUFFER_BYTES, stream);
    let response: BlockOpResponse = read_message(&mut stream).await?;
    match response.status {
        status::SUCCESS => Ok((stream, response)),
        status::ERROR_CHECKSUM => Err(damaged("the datanode's checksum doesn't match")),
        code => {
            let line = response.message.lines().next().unwrap_or_default();
            Err(io::Error::other(format!("refused with status {code}: {line}")))
        }
    }
}

async fn block_checksum(address: String, block: &LocatedBlock) -> io::Result<OpBlockChecksumResponse> {
    let message = OpBlockChecksum { header: base_header(block) };
    let (_, response) = start(&address, OP_BLOCK_CHECKSUM, &message).await?;
    response.checksum.ok_or_else(|| io::Error::other("no checksum in the answer"))
}

async fn read_block(address: String, block: &LocatedBlock, range: Range<u64>) -> io::Result<Bytes> {
    let header = ClientOperationHeader { base: base_header(block), client_name: "strait".to_owned() };
    let message = OpReadBlock { header, offset: range.start, length: range.end - range.start };
    let (mut stream, response) = start(&address, OP_READ_BLOCK, &message).await?;
    let checksum = response.read_checksum.ok_or_else(|| io::Error::other("no checksum in the answer"))?;
    let bytes = read_packets(&mut stream, &checksum, range).await?;
    // A courtesy, so that the datanode counts the read as done.
    let done = ClientReadStatus { status: status::CHECKSUM_OK }.encode_length_delimited_to_vec();
    let _ = stream.get_mut().write_all(&done).await;
    Ok(bytes)
}

/// Takes packets until `range` of the block is whole.
async fn read_packets(
    stream: &mut (impl AsyncRead + Unpin),
    checksum: &ReadOpChecksumInfo,
    range: Range<u64>,
) -> io::Result<Bytes> {
    let mut bytes = BytesMut::new();
    let mut position = range.start;
    while position < range.end {
        let (header, data) = read_packet(stream, checksum).await?;
        let begin = u64::try_from(header.offset_in_block).map_err(|_| strange("a negative offset"))?;
        // The first packet begins at the chunk that holds the first byte.
        let skipped = position.checked_sub(begin).filter(|skipped| *skipped < data.len() as u64);
        let skipped = skipped.ok_or_else(|| strange("a packet out of order, or an early end"))?;
        let wanted = &data[skipped as usize..];
        let wanted = &wanted[..wanted.len().min((range.end - position) as usize)];
        bytes.extend_from_slice(wanted);
        position += wanted.len() as u64;
    }
    Ok(bytes.freeze())
}

/// One packet: u32 length of what follows the header (itself included), u16
/// length of the header, header, checksums, data.
async fn read_packet(
    stream: &mut (impl AsyncRead + Unpin),
    checksum: &ReadOpChecksumInfo,
) -> io::Result<(PacketHeader, Vec<u8>)> {
    let payload_length = stream.read_u32().await?;
    if !(4..=MAX_PACKET_BYTES).contains(&payload_length) {
        return Err(strange("a packet's length"));
    }
    let header_length = stream.read_u16().await?;
    let header = read_exactly(stream, u64::from(header_length)).await?;
    let header = PacketHeader::decode(header.as_slice()).map_err(|error| strange(&error.to_string()))?;
    let body_length = (payload_length - 4) as usize;
    let data_length = usize::try_from(header.data_length).ok().filter(|length| *length <= body_length);
    let data_length = data_length.ok_or_else(|| strange("a packet's data length"))?;

    let mut checksums = read_exactly(stream, body_length as u64).await?;
    let data = checksums.split_off(body_length - data_length);
    verify(checksum, &checksums, &data)?;
    Ok((header, data))
}

fn verify(info: &ReadOpChecksumInfo, checksums: &[u8], data: &[u8]) -> io::Result<()> {
    let algorithm = match info.checksum.crc_type {
        crc_type::NULL => return Ok(()),
        crc_type::CRC32 => crc32fast::hash,
        crc_type::CRC32C => crc32c::crc32c,
        other => return Err(strange(&format!("checksum type {other}"))),
    };
    let chunk = info.checksum.bytes_per_crc as usize;
    if chunk == 0 || checksums.len() != data.len().div_ceil(chunk) * 4 {
        return Err(strange("the number of checksums"));
    }
    let stored = checksums.chunks_exact(4);
    let matches =
        data.chunks(chunk).zip(stored).all(|(chunk, stored)| algorithm(chunk).to_be_bytes() == stored);
    if matches { Ok(()) } else { Err(damaged("the bytes don't match their checksum")) }
}

/// A message with its length before it.
async fn read_message<M: Message + Default>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<M> {
    let mut length = 0;
    for shift in (0..).step_by(7) {
        let byte = stream.read_u8().await?;
        length |= u64::from(byte & 0x7f) << shift;
        if length > MAX_HEAD_BYTES || shift > 21 {
            return Err(strange("the length of an answer"));
        }
        if byte & 0x80 == 0 {
            break;
        }
    }
    let bytes = read_exactly(stream, length).await?;
    M::decode(bytes.as_slice()).map_err(|error| strange(&error.to_string()))
}

/// Memory grows with what comes, not with what is claimed.
async fn read_exactly(stream: &mut (impl AsyncRead + Unpin), length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(length).read_to_end(&mut bytes).await?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// InvalidData marks bytes that contradict their checksum, nothing else.
fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn strange(what: &str) -> io::Error {
    io::Error::other(format!("the datanode's answer makes no sense: {what}"))
}

#[cfg(test)]
mod tests {
    use super::super::wire::ChecksumKind;
    use super::*;

    const INFO: ReadOpChecksumInfo = ReadOpChecksumInfo {
        checksum: ChecksumKind { crc_type: crc_type::CRC32C, bytes_per_crc: 4 },
        chunk_offset: 0,
    };

    fn packet(offset: i64, data: &[u8]) -> Vec<u8> {
        let header = PacketHeader {
            offset_in_block: offset,
            sequence: 0,
            last_packet_in_block: false,
            data_length: data.len() as i32,
        };
        let header = header.encode_to_vec();
        let checksums: Vec<u8> =
            data.chunks(4).flat_map(|chunk| crc32c::crc32c(chunk).to_be_bytes()).collect();
        let mut bytes = ((4 + checksums.len() + data.len()) as u32).to_be_bytes().to_vec();
        bytes.extend((header.len() as u16).to_be_bytes());
        bytes.extend(header);
        bytes.extend(checksums);
        bytes.extend(data);
        bytes
    }

    async fn read(bytes: &[u8], range: Range<u64>) -> io::Result<Bytes> {
        read_packets(&mut &bytes[..], &INFO, range).await
    }

    #[tokio::test]
    async fn packets_are_joined_and_cut_to_the_range() {
        let bytes = [packet(4, b"efghijkl"), packet(12, b"mnopq")].concat();
        assert_eq!(read(&bytes, 6..14).await.unwrap(), "ghijklmn");
    }

    #[tokio::test]
    async fn a_flipped_bit_is_damage_and_every_cut_is_an_error() {
        let whole = packet(0, b"abcdefgh");
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        assert_eq!(read(&flipped, 0..8).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        for length in 0..whole.len() {
            assert!(read(&whole[..length], 0..8).await.is_err(), "{length}");
        }
    }

    #[tokio::test]
    async fn no_packet_of_any_bytes_panics() {
        let whole = packet(0, b"abcdefgh");
        for index in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[index] = value;
                let _ = read(&changed, 0..8).await;
            }
        }
        let claimed = [&0xffff_ffff_u32.to_be_bytes()[..], &[0; 40]].concat();
        assert!(read(&claimed, 0..8).await.is_err());
        let mut endless = &[0xff; 64][..];
        assert!(read_message::<BlockOpResponse>(&mut endless).await.is_err());
    }
}
