//! The parts of Hadoop's RPC that a few calls need: version 9, protocol buffers, SIMPLE authentication
//! (the server trusts the user name that the client sends).
//!
//! ```text
//! connection:  "hrpc" 9 0 0, then frames
//! frame:       u32 length, then messages, each preceded by its length as a varint
//! call:        RpcRequestHeader RequestHeader request
//! answer:      RpcResponseHeader answer
//! ```

use super::wire::{
    ConnectionContext, RPC_SUCCESS, RequestHeader, RpcRequestHeader, RpcResponseHeader, UserInformation,
};
use bytes::Bytes;
use prost::Message;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The namenode's protocol for clients.
pub(super) const CLIENT_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
/// The datanode's protocol for clients.
pub(super) const DATANODE_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";

/// Time limit for a connection. A reachable machine accepts one within milliseconds, so a slower one is down.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for an answer. It is longer than a namenode's usual pause for garbage collection, but short
/// enough to try two namenodes within a caller's patience.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest answer accepted. For a file of 10,000 blocks (the namenode's own limit) with three replicas
/// each, the locations take less than 10 MB.
pub(super) const MAX_ANSWER_BYTES: u32 = 16 << 20;

/// Sent first: magic, version, service class, authentication (none).
const PREAMBLE: [u8; 7] = [b'h', b'r', b'p', b'c', 9, 0, 0];
/// `RpcKindProto.RPC_PROTOCOL_BUFFER`
const RPC_KIND: i32 = 2;
/// `OperationProto.RPC_FINAL_PACKET`
const RPC_OPERATION: i32 = 0;
/// Call id of the frame that carries the [`ConnectionContext`].
const CONTEXT_CALL_ID: i32 = -3;

/// The reason why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RpcError {
    /// No connection: the call wasn't sent.
    #[error("{0}")]
    NotSent(io::Error),
    /// The connection broke after the call was sent.
    #[error("{0}")]
    Broken(io::Error),
    /// The server's exception.
    #[error("{class}: {message}")]
    Java { class: String, message: String },
    /// The answer isn't Hadoop's RPC.
    #[error("the answer isn't Hadoop's RPC ({0})")]
    Malformed(String),
}

/// One connection, for one user, to one server; one call at a time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    client_id: [u8; 16],
    protocol: &'static str,
    next_call: i32,
}

impl Connection {
    /// Connects to `address` (`host:port`) as `user`.
    pub async fn open(address: &str, user: &str, protocol: &'static str) -> Result<Self, RpcError> {
        let client_id = *uuid::Uuid::new_v4().as_bytes();
        let stream = greet(address, user, protocol, &client_id).await?;
        Ok(Self { stream, client_id, protocol, next_call: 0 })
    }

    /// Calls `method`. After any error but [`RpcError::Java`] the connection can't be used again.
    pub async fn call<Q: Message, A: Message + Default>(
        &mut self,
        method: &'static str,
        request: &Q,
    ) -> Result<A, RpcError> {
        match timeout(ANSWER_TIMEOUT, self.exchange(method, request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(RpcError::Broken(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))),
        }
    }

    async fn exchange<Q: Message, A: Message + Default>(
        &mut self,
        method: &'static str,
        request: &Q,
    ) -> Result<A, RpcError> {
        let call_id = self.next_call;
        self.next_call = self.next_call.wrapping_add(1) & i32::MAX;
        let header = rpc_header(call_id, &self.client_id, 0);
        let call = frame(&[&header, &request_header(self.protocol, method), request]);
        let sent = self.stream.write_all(&call).await;
        // If the server has closed the connection, the reason may have arrived.
        let answer = read_frame(&mut self.stream).await;
        let mut answer = match sent {
            Ok(()) => answer?,
            Err(error) => answer.map_err(|_| RpcError::Broken(error))?,
        };
        let malformed = |error: prost::DecodeError| RpcError::Malformed(error.to_string());
        let header = RpcResponseHeader::decode_length_delimited(&mut answer).map_err(malformed)?;
        let answers_another = i64::from(header.call_id) != i64::from(call_id);
        let mut answer = decode_answer(header, answer)?;
        if answers_another {
            return Err(RpcError::Malformed("it has another call's number".to_owned()));
        }
        A::decode_length_delimited(&mut answer).map_err(malformed)
    }
}

/// Receives an answer with its header.
pub(super) async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> Result<Bytes, RpcError> {
    let length = stream.read_u32().await.map_err(RpcError::Broken)?;
    if length > MAX_ANSWER_BYTES {
        // In most cases, these bytes aren't a length.
        let why = match &length.to_be_bytes() {
            b"HTTP" => {
                "it speaks HTTP; the port for RPC is that of fs.defaultFS, often 8020 or 9000".to_owned()
            }
            _ => format!("{length} bytes long"),
        };
        return Err(RpcError::Malformed(why));
    }
    // The buffer grows with the received bytes, not with the claimed length.
    let mut bytes = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut bytes).await.map_err(RpcError::Broken)?;
    match bytes.len() == length as usize {
        true => Ok(bytes.into()),
        false => Err(RpcError::Broken(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Connects to `address` (`host:port`), and sends the preamble and the user's name.
pub(super) async fn greet(
    address: &str,
    user: &str,
    protocol: &'static str,
    client_id: &[u8; 16],
) -> Result<TcpStream, RpcError> {
    let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(address));
    let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, "connecting timed out");
    let stream = connecting.await.map_err(timed_out).and_then(|connected| connected);
    let mut stream = stream.map_err(RpcError::NotSent)?;
    stream.set_nodelay(true).map_err(RpcError::NotSent)?;
    let context = ConnectionContext {
        user: Some(UserInformation { effective_user: user.to_owned() }),
        protocol: protocol.to_owned(),
    };
    let mut greeting = PREAMBLE.to_vec();
    greeting.extend(frame(&[&rpc_header(CONTEXT_CALL_ID, client_id, 0), &context]));
    stream.write_all(&greeting).await.map_err(RpcError::NotSent)?;
    Ok(stream)
}

pub(super) fn rpc_header(call_id: i32, client_id: &[u8; 16], retry_count: i32) -> RpcRequestHeader {
    RpcRequestHeader {
        rpc_kind: RPC_KIND,
        rpc_op: Some(RPC_OPERATION),
        call_id,
        client_id: client_id.to_vec(),
        retry_count: Some(retry_count),
    }
}

pub(super) fn request_header(protocol: &'static str, method: &'static str) -> RequestHeader {
    RequestHeader { method: method.to_owned(), protocol: protocol.to_owned(), protocol_version: 1 }
}

/// The bytes after an answer's header, or the server's exception.
pub(super) fn decode_answer(header: RpcResponseHeader, answer: Bytes) -> Result<Bytes, RpcError> {
    match header.status {
        RPC_SUCCESS => Ok(answer),
        _ => Err(RpcError::Java { class: header.exception_class, message: header.error_message }),
    }
}

/// The messages as one frame.
pub(super) fn frame(messages: &[&dyn Encode]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for message in messages {
        message.append_to(&mut bytes);
    }
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// The part of [`Message`] that a list of different messages needs.
pub(super) trait Encode {
    fn append_to(&self, bytes: &mut Vec<u8>);
}

impl<M: Message> Encode for M {
    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.encode_length_delimited_to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Empty;
    use super::*;
    use tokio::net::TcpListener;

    /// Serves one connection: sends `answer` to any request.
    async fn call_answered_by(answer: Vec<u8>) -> RpcError {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut some = [0; 16];
            let _ = stream.read(&mut some).await;
            let _ = stream.write_all(&answer).await;
            // Wait until the client is done: a reset could arrive before the answer is read.
            let _ = stream.shutdown().await;
            while stream.read(&mut some).await.is_ok_and(|read| read > 0) {}
        });
        let mut connection = Connection::open(&address, "alice", CLIENT_PROTOCOL).await.unwrap();
        connection.call::<_, Empty>("getFsStats", &Empty {}).await.unwrap_err()
    }

    #[tokio::test]
    async fn an_answer_that_is_not_rpc_is_an_error_and_takes_no_memory() {
        for garbage in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0, 0, 0, 3, 9, 9, 9], &[0, 0, 0, 0]] {
            let error = call_answered_by(garbage.to_vec()).await;
            assert!(matches!(error, RpcError::Malformed(_)), "{garbage:?}: {error:?}");
        }
        let error = call_answered_by(vec![0, 0, 1, 0, 1, 2, 3]).await;
        assert!(matches!(error, RpcError::Broken(_)), "{error:?}");
    }
}
