//! Refuses connections beyond the gateway's limits. A client that is only disconnected, or never
//! accepted, can't learn the reason. So the gateway answers its first request.

use crate::config::Limits;
use crate::errors::Exception;
use crate::input::{Input, Received, Sender};
use crate::memory::Budget;
use crate::pool::Key;
use crate::request::{Body, Request};
use bytes::Bytes;
use futures::FutureExt;
use std::fs::File;
use std::io;
use std::time::Duration;
use strait_store::{Error, ErrorKind};
use strait_wire::{
    ApplicationError, ApplicationErrorKind, Call, DfsError, Encoded, Method, Sniff, methods as m, sniff,
};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Time for the client to send its first request, which clients do as soon as they are connected.
/// While descriptors are short, the gateway accepts no other client during this time.
const PATIENCE: Duration = Duration::from_millis(250);
/// The largest request that the gateway reads in order to refuse it; a login has some hundred bytes.
const MAX_REQUEST_BYTES: usize = 4 << 10;

/// The answer to HTTP clients.
const NO_PLACE_HTTP: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
    Content-Type: application/json\r\nContent-Length: 76\r\n\r\n\
    {\"error\":{\"kind\":\"Busy\",\"message\":\"too many connections; try again later\"}}\n";

/// Answers the first request of a connection with Busy, and closes it.
pub async fn refuse(mut stream: TcpStream, why: &'static str) {
    // A client that sends no request in time, or doesn't take the answer, gets none.
    let _ = timeout(PATIENCE, answer(&mut stream, why)).await;
}

async fn answer(stream: &mut TcpStream, why: &'static str) -> io::Result<()> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 || sniff(&first) == Sniff::Tls {
        return Ok(()); // before a TLS handshake the gateway can't answer
    }
    let (from, mut to) = stream.split();
    let limits = Limits {
        message_bytes: MAX_REQUEST_BYTES,
        stranger_message_bytes: MAX_REQUEST_BYTES,
        ..Limits::default()
    };
    let (account, _cut) = Budget::new(&limits).account(&Key::User("nobody".into()));
    let encoded = match Input::new(from, &limits).receive(&account, || Sender::Stranger).await? {
        Received::Request(request) => busy(&request, why),
        Received::Refused(refusal) => refusal.encoded,
        Received::Http => Encoded { segments: vec![Bytes::from_static(NO_PLACE_HTTP)] },
        Received::End | Received::Left => return Ok(()),
    };
    to.write_all(&encoded.to_bytes()).await?;
    to.shutdown().await
}

fn busy(request: &Request, why: &'static str) -> Encoded {
    match &request.body {
        Body::Call(Call::OpenSession(_)) => {
            let error = DfsError::of(&Error::new(ErrorKind::Busy, why));
            m::OpenSession::reply(request.wire, request.sequence, &Err(error))
        }
        _ => {
            let error =
                ApplicationError { kind: ApplicationErrorKind::InternalError, message: why.to_owned() };
            error.reply(request.wire, &request.name, request.sequence)
        }
    }
}

/// A spare descriptor. The gateway accepts and refuses connections with it when it has no
/// other descriptor left.
pub struct Reserve(Option<File>);

impl Reserve {
    /// Opens the spare descriptor now, while there are free ones.
    pub fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Refuses the next connection that waits, with the spare descriptor.
    pub async fn refuse_next(&mut self, listener: &TcpListener) {
        self.0 = None;
        let why = "the gateway has no file descriptors left; try again later, or ask its operator to \
                   raise its limit of open files";
        // Often no connection waits: the kernel reports the shortage before it looks for one.
        if let Some(Ok((stream, _))) = listener.accept().now_or_never() {
            refuse(stream, why).await;
        }
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_over_http_announces_its_bodys_length() {
        let (head, body) = std::str::from_utf8(NO_PLACE_HTTP).unwrap().split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
    }
}
