//! Streams at a gateway that answers no reads on its first connection.

use std::io::SeekFrom;
use std::sync::Arc;
use std::time::Duration;
use strait_client::{
    CreateOptions, Error, ErrorKind, FileSystem, Options, Principal, StorePath, StraitStore,
};
use strait_wire::{
    CloseFileReply, Encoded, Method, OpenFileReply, OpenSessionReply, OpenWriterReply, Protocol,
    ReadRangeReply, Secret, ServerInfoReply, Wire, methods,
};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };
/// Far longer than any answer takes. Only failing tests wait so long.
const DEADLINE: Duration = Duration::from_secs(20);
const READ: &str = "readRange";

/// The connection and the method of each request.
type Requests = Arc<watch::Sender<Vec<(usize, String)>>>;

async fn start() -> (StraitStore, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let requests = Requests::default();
    let received = requests.clone();
    tokio::spawn(async move {
        for connection in 0.. {
            let (socket, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(socket, connection, received.clone()));
        }
    });
    (StraitStore::connect(&address, Options::default()).await.unwrap(), requests)
}

async fn answer(mut socket: TcpStream, connection: usize, requests: Requests) -> std::io::Result<()> {
    let mut is_silent = false;
    loop {
        let mut frame = vec![0; socket.read_u32().await? as usize];
        socket.read_exact(&mut frame).await?;
        // Strict binary: version, the name with its length, the number.
        let name_end = 8 + u32::from_be_bytes(frame[4..8].try_into().unwrap()) as usize;
        let number = i32::from_be_bytes(frame[name_end..name_end + 4].try_into().unwrap());
        let name = String::from_utf8(frame[8..name_end].to_vec()).unwrap();
        // Answers leave in order.
        is_silent |= connection == 0 && name == READ;
        if !is_silent {
            socket.write_all(&reply(&name, number).to_bytes()).await?;
        }
        requests.send_modify(|requests| requests.push((connection, name)));
    }
}

fn reply(method: &str, number: i32) -> Encoded {
    match method {
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
        READ => {
            let read = ReadRangeReply { data: Some("0123456789".into()) };
            methods::ReadRange::reply(WIRE, number, &Ok(read))
        }
        "closeFile" => methods::CloseFile::reply(WIRE, number, &Ok(CloseFileReply::default())),
        other => panic!("unexpected {other}"),
    }
}

async fn soon<T>(operation: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, operation).await.expect("it waits for an answer that nobody wants")
}

/// A connection to a gateway that owes the answer to a read, whose caller has given up.
async fn with_a_stale_read() -> (StraitStore, Requests) {
    let (store, requests) = start().await;
    let mut reader = store.open_stream("/file").await.unwrap();
    let reading = tokio::spawn(async move { reader.read_u8().await });
    let is_read = |requests: &Vec<_>| requests.contains(&(0, READ.to_owned()));
    soon(requests.subscribe().wait_for(is_read)).await.unwrap();
    reading.abort();
    assert!(reading.await.unwrap_err().is_cancelled());
    // The request's own task ends.
    tokio::task::yield_now().await;
    (store, requests)
}

#[tokio::test]
async fn a_call_doesnt_wait_for_the_answers_to_reads_that_were_given_up() {
    let (store, requests) = with_a_stale_read().await;
    soon(store.about()).await.unwrap();
    assert!(requests.borrow().contains(&(1, "serverInfo".to_owned())));
}

#[tokio::test]
async fn a_read_doesnt_wait_for_the_answers_to_reads_that_were_given_up() {
    let (store, _) = start().await;
    let reader = store.open(&Principal::new(""), &StorePath::parse("/file").unwrap()).await.unwrap();
    let late = tokio::time::timeout(Duration::from_millis(100), reader.read_at(0, 10)).await;
    assert!(late.is_err());
    assert_eq!(soon(reader.read_at(0, 10)).await.unwrap(), "0123456789");
}

#[tokio::test]
async fn closing_a_file_takes_no_further_connection() {
    let (store, requests) = start().await;
    for _ in 0..20 {
        drop(soon(store.open_stream("/file")).await.unwrap());
        soon(store.about()).await.unwrap();
    }
    assert!(requests.borrow().iter().all(|(connection, _)| *connection == 0));
}

#[tokio::test]
async fn errors_of_a_streams_own_name_operation_and_path() {
    let (store, _) = start().await;
    let mut writer = store.create_stream("/file", &CreateOptions::default()).await.unwrap();
    writer.shutdown().await.unwrap();
    let late = Error::from(writer.write_all(b"more").await.unwrap_err());
    assert_eq!(
        late.to_string(),
        "write /file: the file was closed; open it again to append (InvalidArgument)"
    );
    let mut reader = store.open_stream("/file").await.unwrap();
    let before = Error::from(reader.seek(SeekFrom::Current(-1)).await.unwrap_err());
    assert_eq!(
        (before.kind(), before.operation(), before.path()),
        (ErrorKind::InvalidArgument, "seek", "/file")
    );
}
