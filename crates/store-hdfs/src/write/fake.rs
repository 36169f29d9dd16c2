//! Servers for tests: a namenode, which answers each call as a function decides, and hosts that are down.

use super::super::wire::{RPC_FATAL, RPC_SUCCESS, RequestHeader, RpcRequestHeader, RpcResponseHeader};
use bytes::Bytes;
use prost::Message;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// `RpcResponseHeaderProto.RpcStatusProto`: the call failed, but the connection accepts others.
const RPC_ERROR: i32 = 1;

/// A namenode's reaction to a call.
#[derive(Debug, Clone)]
pub enum Answer {
    /// An encoded message.
    Message(Vec<u8>),
    /// An exception's class and message.
    Exception(&'static str, String),
    /// No answer, ever. The connection accepts other calls.
    Silence,
    /// No answer: the connection closes.
    HangUp,
}

impl Answer {
    /// An answer with this message.
    pub fn of(message: &impl Message) -> Self {
        Self::Message(message.encode_to_vec())
    }

    /// An `IOException`.
    pub fn failure(message: &str) -> Self {
        Self::Exception("java.io.IOException", message.to_owned())
    }
}

/// Serves on loopback, and returns the address. `answer` gets each call's method and encoded request.
pub async fn namenode(answer: impl Fn(&str, &[u8]) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&answer)));
        }
    });
    address
}

/// A host that is down: it never answers a connection.
pub struct Down {
    pub address: SocketAddr,
    _listener: TcpListener,
    /// Connections that fill the listener's queue.
    _queued: Vec<TcpStream>,
}

/// An address on loopback at which nothing answers.
pub async fn host_that_is_down() -> Down {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        queued.push(connected.unwrap());
    }
    Down { address, _listener: listener, _queued: queued }
}

/// Serves on loopback as a namenode that refuses all users with this exception
/// (`Server.Connection.authorizeConnection`), and returns the address.
pub async fn refusing_namenode(class: &'static str, message: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let header = RpcResponseHeader {
        // The call id of the connection's context.
        call_id: -3_i32 as u32,
        status: RPC_FATAL,
        exception_class: class.to_owned(),
        error_message: message.to_owned(),
    };
    let header = header.encode_length_delimited_to_vec();
    let frame = [&(header.len() as u32).to_be_bytes()[..], &header].concat();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _: io::Result<usize> = stream.read_exact(&mut [0; 7]).await;
            let _: io::Result<Bytes> = receive(&mut stream).await;
            let _: io::Result<()> = stream.write_all(&frame).await;
        }
    });
    address
}

async fn serve(mut stream: TcpStream, answer: Arc<impl Fn(&str, &[u8]) -> Answer>) -> io::Result<()> {
    stream.read_exact(&mut [0; 7]).await?;
    receive(&mut stream).await?;
    loop {
        let mut call = receive(&mut stream).await?;
        let call_id = RpcRequestHeader::decode_length_delimited(&mut call)?.call_id as u32;
        let method = RequestHeader::decode_length_delimited(&mut call)?.method;
        prost::decode_length_delimiter(&mut call)?;
        let mut header = RpcResponseHeader { call_id, status: RPC_SUCCESS, ..RpcResponseHeader::default() };
        let message = match answer(&method, &call) {
            Answer::Message(message) => Some(message),
            Answer::Exception(class, message) => {
                (header.status, header.exception_class, header.error_message) =
                    (RPC_ERROR, class.to_owned(), message);
                None
            }
            Answer::Silence => continue,
            Answer::HangUp => return Ok(()),
        };
        let mut frame = header.encode_length_delimited_to_vec();
        if let Some(message) = message {
            prost::encode_length_delimiter(message.len(), &mut frame)?;
            frame.extend(message);
        }
        stream.write_u32(frame.len() as u32).await?;
        stream.write_all(&frame).await?;
    }
}

async fn receive(stream: &mut TcpStream) -> io::Result<Bytes> {
    let mut frame = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut frame).await?;
    Ok(frame.into())
}
