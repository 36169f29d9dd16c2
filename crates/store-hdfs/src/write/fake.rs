//! A namenode for tests, which answers each call as a function decides.

use super::super::wire::{RPC_SUCCESS, RequestHeader, RpcRequestHeader, RpcResponseHeader};
use bytes::Bytes;
use prost::Message;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// `RpcResponseHeaderProto.RpcStatusProto`: the call failed, and others go on.
const RPC_ERROR: i32 = 1;

/// The encoded answer, or the message of an `IOException`.
pub type Answer = Result<Vec<u8>, &'static str>;

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

async fn serve(mut stream: TcpStream, answer: Arc<impl Fn(&str, &[u8]) -> Answer>) -> io::Result<()> {
    stream.read_exact(&mut [0; 7]).await?;
    receive(&mut stream).await?;
    loop {
        let mut call = receive(&mut stream).await?;
        let id = RpcRequestHeader::decode_length_delimited(&mut call)?.call_id as u32;
        let method = RequestHeader::decode_length_delimited(&mut call)?.method;
        prost::decode_length_delimiter(&mut call)?;
        let answered = answer(&method, &call);
        let header = RpcResponseHeader {
            call_id: id,
            status: if answered.is_ok() { RPC_SUCCESS } else { RPC_ERROR },
            exception_class: "java.io.IOException".into(),
            error_message: answered.as_ref().err().copied().unwrap_or_default().into(),
        };
        let mut frame = header.encode_length_delimited_to_vec();
        if let Ok(answer) = answered {
            prost::encode_length_delimiter(answer.len(), &mut frame)?;
            frame.extend(answer);
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
