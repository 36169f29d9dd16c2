//! Operations have a time limit as a whole, even if the gateway lives ([`Options::operation_timeout`]).

use bytes::Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strait_client::{Options, StraitStore};
use strait_store::{CreateOptions, Error, ErrorKind, FileSystem, Principal, Result, StorePath};
use strait_wire::{
    Encoded, Method, OpenFileReply, OpenSessionReply, OpenWriterReply, Protocol, Secret, ServerInfoReply,
    Wire, methods,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };
const LIMIT: Duration = Duration::from_secs(1);
/// Far longer than the limit. Only failing tests wait so long.
const DEADLINE: Duration = Duration::from_secs(20);
/// An i32 with the number 15, `deadline_ms`.
const DEADLINE_FIELD: [u8; 3] = [8, 0, 15];

/// The method and the frame of each request.
type Requests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A gateway that opens sessions and files, and says that it lives. All other requests it never answers.
struct Endless {
    address: String,
    requests: Requests,
}

impl Endless {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Requests::default();
        let received = requests.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer(socket, received.clone()));
            }
        });
        Self { address, requests }
    }

    async fn connect(&self, options: Options) -> StraitStore {
        StraitStore::connect(&self.address, options).await.unwrap()
    }

    /// The deadline of the latest request of a method, in milliseconds.
    fn deadline_ms(&self, method: &str) -> Option<i32> {
        let requests = self.requests.lock().unwrap();
        let (_, frame) = requests.iter().rev().find(|(name, _)| name == method).expect("no such request");
        let field = frame.windows(3).position(|bytes| bytes == DEADLINE_FIELD)?;
        Some(i32::from_be_bytes(frame[field + 3..field + 7].try_into().unwrap()))
    }
}

async fn answer(mut socket: TcpStream, requests: Requests) -> std::io::Result<()> {
    let mut is_silent = false;
    loop {
        let mut frame = vec![0; socket.read_u32().await? as usize];
        socket.read_exact(&mut frame).await?;
        // Strict binary: version, the name with its length, the number.
        let name_end = 8 + u32::from_be_bytes(frame[4..8].try_into().unwrap()) as usize;
        let number = i32::from_be_bytes(frame[name_end..name_end + 4].try_into().unwrap());
        let name = String::from_utf8(frame[8..name_end].to_vec()).unwrap();
        let reply = reply(&name, number).filter(|_| !is_silent);
        requests.lock().unwrap().push((name, frame));
        match reply {
            Some(reply) => socket.write_all(&reply.to_bytes()).await?,
            // Answers leave in order.
            None => is_silent = true,
        }
    }
}

fn reply(method: &str, number: i32) -> Option<Encoded> {
    Some(match method {
        "openSession" => {
            let token = Some(Secret("token".to_owned()));
            let opened = OpenSessionReply { token, incarnation: Some(1), ..Default::default() };
            methods::OpenSession::reply(WIRE, number, &Ok(opened))
        }
        "serverInfo" => methods::ServerInfo::reply(WIRE, number, &Ok(ServerInfoReply::default())),
        "createFile" => {
            let opened = OpenWriterReply { handle: Some(1), position: Some(0) };
            methods::CreateFile::reply(WIRE, number, &Ok(opened))
        }
        "openFile" => {
            let opened = OpenFileReply { handle: Some(1), length: Some(10), ..Default::default() };
            methods::OpenFile::reply(WIRE, number, &Ok(opened))
        }
        _ => return None,
    })
}

fn limited() -> Options {
    Options { operation_timeout: Some(LIMIT), ..Options::default() }
}

fn nobody() -> Principal {
    Principal::new("nobody")
}

fn path() -> StorePath {
    StorePath::parse("/file").unwrap()
}

/// The error of an operation whose limit passes.
async fn late<T>(operation: impl Future<Output = Result<T>>) -> Error {
    let done = tokio::time::timeout(DEADLINE, operation).await.expect("it has no limit");
    let error = done.err().expect("the gateway answered");
    assert!(error.message().contains("its time limit of 1 s"), "{error}");
    error
}

#[tokio::test]
async fn long_work_is_given_up_at_the_limit_while_the_gateway_lives() {
    let gateway = Endless::start().await;
    // The client asks in between whether the gateway lives.
    let store = gateway.connect(Options { timeout: Some(LIMIT / 4), ..limited() }).await;
    let removed = late(store.remove(&nobody(), &path(), true)).await;
    assert_eq!((removed.kind(), removed.path()), (ErrorKind::OutcomeUnknown, "/file"));
    let summed = late(store.checksum(&nobody(), &path())).await;
    assert_eq!((summed.kind(), summed.path()), (ErrorKind::TimedOut, "/file"));
    assert!(gateway.requests.lock().unwrap().iter().any(|(name, _)| name == "serverInfo"));
}

#[tokio::test]
async fn a_writers_operations_have_the_limit() {
    let gateway = Endless::start().await;
    // Each on connections of its own: this gateway executes nothing after a request without an answer.
    let create = async || {
        let store = gateway.connect(limited()).await;
        store.create(&nobody(), &path(), &CreateOptions::default()).await.unwrap()
    };
    let mut flushed = create().await;
    assert_eq!(late(flushed.flush()).await.kind(), ErrorKind::TimedOut);
    assert!(!flushed.goes_on());
    let mut closed = create().await;
    assert_eq!(late(closed.close()).await.kind(), ErrorKind::OutcomeUnknown);
    let mut appended = create().await;
    appended.append(Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(late(appended.sync()).await.kind(), ErrorKind::OutcomeUnknown);
    assert!(!appended.goes_on(), "another append could double its bytes");
}

#[tokio::test]
async fn requests_in_order_say_how_long_the_client_waits() {
    let gateway = Endless::start().await;
    let store = gateway.connect(limited()).await;
    late(store.remove(&nobody(), &path(), true)).await;
    let told = gateway.deadline_ms("removePath").expect("no deadline");
    assert!((1..=1_000).contains(&told), "{told} ms");
    // Of reads several are in flight, each with its own time.
    let store = gateway.connect(limited()).await;
    let reader = store.open(&nobody(), &path()).await.unwrap();
    assert_eq!(late(reader.read_at(0, 5)).await.kind(), ErrorKind::TimedOut);
    assert_eq!(gateway.deadline_ms("readRange"), None);
}

#[tokio::test]
async fn without_a_limit_requests_have_no_deadline() {
    let gateway = Endless::start().await;
    let store = gateway.connect(Options::default()).await;
    store.open(&nobody(), &path()).await.unwrap();
    assert_eq!(gateway.deadline_ms("openFile"), None);
}
