//! Operations on datanodes: one request and one answer, on a connection that is kept for the next
//! operation if the datanode allows it.

use super::super::rpc::CONNECT_TIMEOUT;
use super::super::wire::{BaseHeader, BlockOpResponse, status};
use super::{Block, Datanodes};
use bytes::{Buf, BufMut, BytesMut};
use prost::Message;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// `DataTransferProtocol.DATA_TRANSFER_VERSION`
const TRANSFER_VERSION: u16 = 28;

/// Time limit of one step of an operation, the 60 s of `dfs.client.socket-timeout`.
pub(in super::super) const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest answer accepted. An answer has some hundred bytes, and more with a Java exception's text.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Bytes of a message's length: 7 bits a byte, so [`MAX_ANSWER_BYTES`] takes three.
const MAX_LENGTH_BYTES: usize = 3;
/// Bytes of one read, which receives an answer and the head of the bytes after it.
const ANSWER_READ_BYTES: usize = 1 << 10;

/// After a request couldn't be sent completely: time limit for its answer, which gives the reason.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Time limits of an operation's start.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Limits {
    pub connect: Duration,
    pub answer: Duration,
}

impl Limits {
    /// Limits for a datanode that must answer within this time, because other datanodes can be tried instead.
    pub fn of(answer: Duration) -> Self {
        Self { connect: CONNECT_TIMEOUT.min(answer), answer }
    }
}

/// A datanode's answer to an operation that has started.
pub(in super::super) struct Started {
    pub stream: TcpStream,
    pub answer: BlockOpResponse,
    /// Bytes received after the answer.
    pub rest: BytesMut,
}

pub(super) fn base_header(block: &Block) -> BaseHeader {
    BaseHeader { block: block.block.clone(), token: Some(block.token.clone()) }
}

/// Sends one operation. Returns its answer if this arrives within `patience` and isn't a refusal.
pub(super) async fn start(
    datanodes: &Datanodes,
    address: &str,
    operation: u8,
    message: &impl Message,
    patience: Duration,
) -> io::Result<Started> {
    let started = ask(datanodes, address, operation, message, &[], Limits::of(patience)).await?;
    accepted(&started.answer).map(|()| started)
}

/// As [`start`], but also returns a refusal. `data` follows the request at once, so a datanode that agrees
/// has it without another round trip.
pub(in super::super) async fn ask(
    datanodes: &Datanodes,
    address: &str,
    operation: u8,
    message: &impl Message,
    data: &[u8],
    limits: Limits,
) -> io::Result<Started> {
    let mut request = TRANSFER_VERSION.to_be_bytes().to_vec();
    request.push(operation);
    request.extend(message.encode_length_delimited_to_vec());
    request.extend_from_slice(data);
    // The datanode may have closed a kept connection, which only its next use reveals.
    while let Some(stream) = datanodes.pool.take(address) {
        match exchange(stream, &request, limits.answer).await {
            Err(error) if error.kind() != io::ErrorKind::TimedOut => {}
            outcome => return outcome,
        }
    }
    let stream = timeout(limits.connect, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    exchange(stream, &request, limits.answer).await
}

async fn exchange(mut stream: TcpStream, request: &[u8], patience: Duration) -> io::Result<Started> {
    let mut rest = BytesMut::new();
    let answer = timeout(patience, async {
        let sent = stream.write_all(request).await;
        let answer = receive_message(&mut stream, &mut rest);
        match sent {
            Ok(()) => answer.await,
            // A datanode that refuses closes the connection before it has read everything.
            Err(error) => timeout(LAST_WORDS, answer).await.unwrap_or(Err(error)),
        }
    });
    let answer = answer.await??;
    Ok(Started { stream, answer, rest })
}

/// Returns an error if the datanode refuses.
pub(in super::super) fn accepted(answer: &BlockOpResponse) -> io::Result<()> {
    match answer.status {
        status::SUCCESS => Ok(()),
        status::ERROR_CHECKSUM => Err(damaged("the datanode's checksum doesn't match")),
        code => {
            let name = status::name(code);
            let line = answer.message.lines().next().filter(|line| !line.is_empty());
            let line = line.map(|line| format!(", {line}")).unwrap_or_default();
            Err(io::Error::other(format!("the datanode refused the operation: {name} ({code}){line}")))
        }
    }
}

/// Receives a message that is preceded by its length, from `buffer` and then from the stream. Bytes after
/// the message stay in `buffer`.
pub(in super::super) async fn receive_message<M: Message + Default>(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> io::Result<M> {
    let (length_bytes, length) = loop {
        if let Some(length) = message_length(buffer)? {
            break length;
        }
        receive_some(stream, buffer, ANSWER_READ_BYTES).await?;
    };
    while buffer.len() < length_bytes + length {
        receive_some(stream, buffer, ANSWER_READ_BYTES).await?;
    }
    buffer.advance(length_bytes);
    M::decode(buffer.split_to(length)).map_err(|error| strange(&error.to_string()))
}

/// The varint at the start of `bytes` as (its own length, its value). None if it isn't complete yet.
fn message_length(bytes: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let mut length = 0;
    for (index, byte) in bytes.iter().take(MAX_LENGTH_BYTES).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 && length <= MAX_ANSWER_BYTES {
            return Ok(Some((index + 1, length as usize)));
        }
    }
    match bytes.len() < MAX_LENGTH_BYTES && length <= MAX_ANSWER_BYTES {
        true => Ok(None),
        false => Err(strange("the length of an answer")),
    }
}

/// Receives the available bytes, at most `most`. Memory grows with the received bytes, not with the
/// claimed length: `into` grows only when it is full.
pub(super) async fn receive_some(
    stream: &mut (impl AsyncRead + Unpin),
    into: &mut BytesMut,
    most: usize,
) -> io::Result<()> {
    if into.capacity() == into.len() {
        into.reserve(most);
    }
    match stream.read_buf(&mut into.limit(most)).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// An error for bytes that contradict their checksum. Only these errors are InvalidData.
pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(super) fn strange(what: &str) -> io::Error {
    io::Error::other(format!("the datanode's answer makes no sense: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn receive(mut bytes: &[u8]) -> io::Result<BlockOpResponse> {
        receive_message(&mut bytes, &mut BytesMut::new()).await
    }

    #[tokio::test]
    async fn an_answer_leaves_the_bytes_after_it() {
        let answer = BlockOpResponse { message: "x".repeat(300), ..BlockOpResponse::default() };
        let mut bytes = answer.encode_length_delimited_to_vec();
        for length in 0..bytes.len() {
            assert!(receive(&bytes[..length]).await.is_err(), "{length}");
        }
        bytes.extend(b"packets");
        let (mut stream, mut rest) = (&bytes[..], BytesMut::new());
        let received: BlockOpResponse = receive_message(&mut stream, &mut rest).await.unwrap();
        assert_eq!(received, answer);
        assert_eq!([&rest, stream].concat(), b"packets");
    }

    #[tokio::test]
    async fn an_answer_without_bounds_is_refused_at_its_length() {
        for claimed in [&[0xff; 64][..], &[0x80, 0x80, 0x80, 0x80, 1], &[0xff, 0xff, 0x7f]] {
            let error = receive(claimed).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Other, "{claimed:?}");
        }
    }
}
