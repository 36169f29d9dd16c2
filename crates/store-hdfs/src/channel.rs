//! One connection to a namenode for many concurrent calls.

use super::rpc::{
    ANSWER_TIMEOUT, RpcError, decode_answer, frame, greet, read_frame, request_header, rpc_header,
};
use super::wire::{RPC_FATAL, RpcResponseHeader};
use bytes::Bytes;
use prost::Message;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A connection without calls is closed after this time, as Hadoop's own clients do
/// (`ipc.client.connection.maxidletime`).
const MAX_IDLE: Duration = Duration::from_secs(10);
/// The reader's buffer. An answer to a writer has some hundred bytes.
const READ_BYTES: usize = 4 << 10;
/// Time limit for receiving the server's reason after a call couldn't be sent. The reason is often there
/// already.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Identifies a call for the namenode, even if the call is repeated on another connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallId {
    pub client: [u8; 16],
    pub call: i32,
    /// 0 for the first attempt.
    pub retry: i32,
}

/// The connection. It closes when it is dropped.
#[derive(Debug)]
pub(super) struct Channel {
    writing: Arc<Writing>,
    calls: Arc<Calls>,
    reader: JoinHandle<()>,
}

/// The writing half. A call takes it while it sends. If the call is dropped in the middle of its frame, the
/// half is closed with it, so this stays None. It is also None after the end of the connection.
type Writing = tokio::sync::Mutex<Option<OwnedWriteHalf>>;

/// An answer without its header, or the reason why there is none.
type Answer = Result<Bytes, RpcError>;

/// The calls that wait for an answer, by number.
type Waiting = HashMap<i32, oneshot::Sender<Answer>>;

#[derive(Debug)]
struct Calls(Mutex<State>);

#[derive(Debug)]
enum State {
    Open(Waiting),
    /// The connection accepts no calls. Has the server's exception (class and message), if that ended it.
    Ended(Option<(String, String)>),
}

impl Channel {
    /// Connects to `address` (`host:port`) as `user`.
    pub async fn open(
        address: &str,
        user: &str,
        protocol: &'static str,
        client: &[u8; 16],
    ) -> Result<Self, RpcError> {
        let stream = greet(address, user, protocol, client).await?;
        let (read, half) = stream.into_split();
        let calls = Arc::new(Calls(Mutex::new(State::Open(HashMap::new()))));
        let writing = Arc::new(tokio::sync::Mutex::new(Some(half)));
        let reader = tokio::spawn({
            let (calls, writing) = (Arc::clone(&calls), Arc::clone(&writing));
            async move {
                receive_all(read, calls).await;
                // The reading half is dropped, too, so this closes the connection.
                *writing.lock().await = None;
            }
        });
        Ok(Self { writing, calls, reader })
    }

    /// Whether the connection accepts no more calls.
    pub fn has_ended(&self) -> bool {
        matches!(*self.calls.lock(), State::Ended(_))
    }

    /// Calls `method` of `protocol`. After a timeout, the connection accepts no further calls.
    pub async fn call<Q: Message, A: Message + Default>(
        &self,
        id: CallId,
        protocol: &'static str,
        method: &'static str,
        request: &Q,
    ) -> Result<A, RpcError> {
        let header = rpc_header(id.call, &id.client, id.retry);
        let call = frame(&[&header, &request_header(protocol, method), request]);
        let answer = self.calls.register(id.call)?;
        let exchange = async {
            if let Err(error) = self.send(&call).await {
                return match timeout(LAST_WORDS, answer).await {
                    Ok(Ok(Err(refusal @ RpcError::Java { .. }))) => Err(refusal),
                    _ => Err(error),
                };
            }
            answer.await.unwrap_or_else(|_| Err(RpcError::Broken(io::ErrorKind::ConnectionAborted.into())))
        };
        let outcome = timeout(ANSWER_TIMEOUT, exchange).await;
        let Ok(outcome) = outcome else {
            self.calls.end(&io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
            return Err(RpcError::Broken(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")));
        };
        A::decode_length_delimited(&mut outcome?).map_err(|error| RpcError::Malformed(error.to_string()))
    }

    async fn send(&self, call: &[u8]) -> Result<(), RpcError> {
        let mut writing = self.writing.lock().await;
        let Some(mut half) = writing.take() else {
            let closed = io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the connection has ended, or an earlier call was sent incompletely",
            );
            self.calls.end(&closed);
            return Err(RpcError::NotSent(closed));
        };
        half.write_all(call).await.map_err(RpcError::Broken)?;
        *writing = Some(half);
        Ok(())
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, call: i32) -> Result<oneshot::Receiver<Answer>, RpcError> {
        match &mut *self.lock() {
            State::Open(waiting) => {
                let (answer, expected) = oneshot::channel();
                waiting.insert(call, answer);
                Ok(expected)
            }
            State::Ended(Some((class, message))) => {
                Err(RpcError::Java { class: class.clone(), message: message.clone() })
            }
            State::Ended(None) => {
                let ended = io::Error::new(io::ErrorKind::NotConnected, "the connection has ended");
                Err(RpcError::NotSent(ended))
            }
        }
    }

    /// Ends the connection because of an error on it.
    fn end(&self, reason: &io::Error) {
        for answer in self.take(None) {
            // Its caller may have left.
            let _ = answer.send(Err(RpcError::Broken(io::Error::new(reason.kind(), reason.to_string()))));
        }
    }

    /// Ends the connection because the server refuses the user or the connection.
    fn refuse(&self, class: &str, message: &str) {
        for answer in self.take(Some((class.to_owned(), message.to_owned()))) {
            // Its caller may have left.
            let _ = answer.send(Err(RpcError::Java { class: class.to_owned(), message: message.to_owned() }));
        }
    }

    /// Ends the connection, and returns the calls that still wait. Keeps the first reason for the end.
    fn take(&self, refusal: Option<(String, String)>) -> Vec<oneshot::Sender<Answer>> {
        let mut state = self.lock();
        let State::Open(waiting) = &mut *state else { return Vec::new() };
        let answers = waiting.drain().map(|(_, answer)| answer).collect();
        *state = State::Ended(refusal);
        answers
    }
}

/// Passes each answer to its call, until the connection ends.
async fn receive_all(read: OwnedReadHalf, calls: Arc<Calls>) {
    let mut read = BufReader::with_capacity(READ_BYTES, read);
    let reason = loop {
        // Dropping the wait for bytes loses none of them.
        match timeout(MAX_IDLE, read.fill_buf()).await {
            Ok(Ok([])) => break io::ErrorKind::UnexpectedEof.into(),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => break error,
            Err(_) => {
                // Calls whose callers have left don't keep the connection open.
                let mut state = calls.lock();
                let State::Open(waiting) = &mut *state else { return };
                waiting.retain(|_, answer| !answer.is_closed());
                if waiting.is_empty() {
                    *state = State::Ended(None);
                    return;
                }
                continue;
            }
        }
        match timeout(ANSWER_TIMEOUT, receive(&mut read, &calls)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => break error,
            Err(elapsed) => break elapsed.into(),
        }
    };
    calls.end(&reason);
}

async fn receive(read: &mut BufReader<OwnedReadHalf>, calls: &Calls) -> io::Result<()> {
    let mut answer = read_frame(read).await.map_err(|error| match error {
        RpcError::Broken(error) => error,
        other => io::Error::other(other.to_string()),
    })?;
    let header = RpcResponseHeader::decode_length_delimited(&mut answer).map_err(io::Error::other)?;
    if header.status == RPC_FATAL {
        calls.refuse(&header.exception_class, &header.error_message);
        return Ok(());
    }
    let call = header.call_id as i32;
    let outcome = decode_answer(header, answer);
    let waiting = match &mut *calls.lock() {
        State::Open(waiting) => waiting.remove(&call),
        State::Ended(_) => None,
    };
    if let Some(waiting) = waiting {
        // Its caller may have left.
        let _ = waiting.send(outcome);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::rpc::CLIENT_PROTOCOL;
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn an_idle_connection_closes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let channel = Channel::open(&address, "alice", CLIENT_PROTOCOL, &[7; 16]).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        tokio::task::yield_now().await;
        tokio::time::pause();
        tokio::time::advance(MAX_IDLE + Duration::from_secs(1)).await;
        tokio::time::resume();
        let read = timeout(MAX_IDLE / 2, peer.read_to_end(&mut Vec::new())).await;
        read.expect("the connection stays open").unwrap();
        assert!(channel.has_ended());
    }
}
