//! The strait:// adapter when connections break and gateways die. Nothing is lost or executed
//! twice, and the adapter reports unknown outcomes as unknown.

use crate::support::{self, DEADLINE, Gateway};
use bytes::Bytes;
use futures::StreamExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use strait_client::{Options, StraitStore};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, Principal, StorePath};
use strait_testkit::wait::{pause, pause_task};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A proxy between clients and a gateway. It cuts each connection after this many bytes from the
/// gateway.
struct Cutter {
    address: String,
    cuts: Arc<AtomicUsize>,
}

impl Cutter {
    /// Cuts after each `bytes` answered, `times` times in all.
    async fn before(gateway: &Gateway, bytes: usize, times: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let cuts = Arc::new(AtomicUsize::new(0));
        let (counted, behind) = (cuts.clone(), gateway.address.clone());
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let left = if counted.load(Ordering::SeqCst) < times { bytes } else { usize::MAX };
                let server = TcpStream::connect(&behind).await.unwrap();
                pass(client, server, left).await;
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, cuts }
    }

    fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

/// Forwards until the budget of answered bytes is used up, or one side ends.
async fn pass(client: TcpStream, server: TcpStream, mut left: usize) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    };
    let answers = async {
        let mut buffer = vec![0; 64 << 10];
        while left > 0 {
            let most = left.min(buffer.len());
            let Ok(read @ 1..) = from_server.read(&mut buffer[..most]).await else { return };
            if to_client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
            left -= read;
        }
    };
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}

fn who() -> Principal {
    Principal::new("the session decides")
}

fn path(text: &str) -> StorePath {
    StorePath::parse(text).unwrap()
}

async fn connect(address: &str) -> StraitStore {
    StraitStore::connect(address, Options::default()).await.unwrap()
}

/// Bytes of which each piece identifies its position.
fn content(length: usize) -> Vec<u8> {
    (0..length as u32 / 4).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect()
}

#[tokio::test]
async fn a_read_goes_on_where_its_connection_broke() {
    let gateway = Gateway::over_files();
    let content = content(8 << 20);
    std::fs::write(gateway.data().join("f"), &content).unwrap();
    let cutter = Cutter::before(&gateway, 3_000_000, 2).await;
    let store = connect(&cutter.address).await;
    assert!(store.read_all(&who(), &path("/f"), 64 << 20).await.unwrap() == content);
    assert_eq!(cutter.cuts(), 2);
}

#[tokio::test]
async fn appends_in_flight_arrive_once_and_in_order() {
    let gateway = Gateway::over_files();
    // Each answer to an append has some 60 bytes, so this cuts many times among them.
    let cutter = Cutter::before(&gateway, 2_000, 5).await;
    let store = connect(&cutter.address).await;
    let mut writer = store.create(&who(), &path("/f"), &CreateOptions::default()).await.unwrap();
    let content = Bytes::from(content(1_000_000));
    for begin in (0..content.len()).step_by(5_000) {
        writer.append(content.slice(begin..(begin + 5_000).min(content.len()))).await.unwrap();
    }
    writer.flush().await.unwrap();
    assert_eq!(writer.position(), content.len() as u64);
    writer.close().await.unwrap();
    assert!(std::fs::read(gateway.data().join("f")).unwrap() == content);
    assert_eq!(cutter.cuts(), 5);
}

#[tokio::test]
async fn mutations_whose_answers_are_lost_happen_once() {
    let gateway = Gateway::over_files();
    // Directly after the answer to the login, whatever its length: the first answer to any other
    // call doesn't arrive.
    for extra in [1, 20] {
        let store = connect(&gateway.address).await;
        let cutter = Cutter::before(&gateway, login_bytes(&gateway).await + extra, 1).await;
        let through = connect(&cutter.address).await;
        let (from, to) = (path("/from"), path("/to"));
        store.write_all(&who(), &from, &CreateOptions::default(), Bytes::from_static(b"x")).await.unwrap();
        // If executed twice, it would fail with NotFound.
        through.rename(&who(), &from, &to, false).await.unwrap();
        assert_eq!(cutter.cuts(), 1);
        through.remove(&who(), &to, false).await.unwrap();
        assert_eq!(store.list_all(&who(), &StorePath::root(), 10).await.unwrap(), []);
    }
}

/// Length of the answer to a login.
async fn login_bytes(gateway: &Gateway) -> usize {
    use strait_wire::{Method, OpenSessionRequest, Protocol, Wire, methods};
    let wire = Wire { protocol: Protocol::Binary, framed: true };
    let request = OpenSessionRequest::default();
    let mut socket = TcpStream::connect(&gateway.address).await.unwrap();
    let call = methods::OpenSession::call(wire, 1, &request.into());
    socket.write_all(&call.to_bytes()).await.unwrap();
    4 + socket.read_u32().await.unwrap() as usize
}

#[tokio::test]
async fn a_writer_that_outlives_its_gateway_says_that_the_outcome_is_unknown() {
    let flags = ["--store".to_owned(), "memory:/".to_owned()];
    let mut gateway = Gateway::start(|_| flags.to_vec());
    let store = connect(&gateway.address).await;
    let mut writer = store.create(&who(), &path("/f"), &CreateOptions::default()).await.unwrap();
    writer.append(Bytes::from_static(b"one")).await.unwrap();
    writer.flush().await.unwrap();
    gateway.replace(&flags);
    writer.append(Bytes::from_static(b"two")).await.unwrap(); // told with the flush
    let error = writer.flush().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "the new gateway knows no such file: {error}");
    assert_eq!(writer.close().await.unwrap_err().kind(), error.kind(), "and it stays so");
    // The store itself works with the new gateway.
    assert_eq!(store.list_all(&who(), &StorePath::root(), 10).await.unwrap(), []);
}

#[tokio::test]
async fn a_read_goes_on_at_the_next_gateway_but_in_no_other_file() {
    let mut gateway = Gateway::over_files();
    let flags = ["--store".to_owned(), format!("file://{}", gateway.data().display())];
    let (file, content) = (gateway.data().join("f"), content(3 << 20));
    std::fs::write(&file, &content).unwrap();
    let store = connect(&gateway.address).await;
    let reader = store.open(&who(), &path("/f")).await.unwrap();
    let mut read = reader.read_at(0, 1 << 20).await.unwrap().to_vec();
    gateway.replace(&flags);
    read.extend(reader.read_at(1 << 20, 1 << 20).await.unwrap());
    assert!(read == content[..2 << 20]);
    std::fs::write(file.with_extension("new"), vec![0; content.len()]).unwrap();
    std::fs::rename(file.with_extension("new"), &file).unwrap();
    gateway.replace(&flags);
    let error = reader.read_at(2 << 20, 1 << 20).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("replaced"), "{error}");
}

/// A proxy before a gateway that is replaced at each of these reads, counted from 1, which then
/// don't arrive.
async fn replaced_at_reads(gateway: Gateway, flags: Vec<String>, at: &'static [usize]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let behind = gateway.address.clone();
    let state = Arc::new(tokio::sync::Mutex::new((gateway, 0)));
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let Ok(server) = TcpStream::connect(&behind).await else { continue };
            let (state, flags) = (state.clone(), flags.clone());
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let requests = async {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                        if buffer[..read].windows(9).any(|name| name == b"readRange") {
                            let (gateway, reads) = &mut *state.lock().await;
                            *reads += 1;
                            if at.contains(reads) {
                                return tokio::task::block_in_place(|| gateway.replace(&flags));
                            }
                        }
                        to_server.write_all(&buffer[..read]).await.unwrap_or_default();
                    }
                };
                let answers = tokio::io::copy(&mut from_server, &mut to_client);
                tokio::select! { () = requests => {} _ = answers => {} }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn one_read_goes_on_through_several_restarts() {
    let gateway = Gateway::over_files();
    let flags = vec!["--store".to_owned(), format!("file://{}", gateway.data().display())];
    let content = content(1 << 20);
    std::fs::write(gateway.data().join("f"), &content).unwrap();
    // The second read finds no handle. The third is by a new one, which the fourth doesn't find.
    let address = replaced_at_reads(gateway, flags, &[1, 3]).await;
    let reader = connect(&address).await.open(&who(), &path("/f")).await.unwrap();
    assert!(reader.read_at(0, 1 << 20).await.unwrap() == content);
}

#[tokio::test]
async fn a_gateway_that_is_back_within_seconds_is_found_again() {
    let root = tempfile::tempdir().unwrap();
    let flags = ["--store".to_owned(), format!("file://{}", root.path().display())];
    let mut gateway = Gateway::start(|_| flags.to_vec());
    let store = connect(&gateway.address).await;
    gateway.process.kill();
    let back = tokio::task::spawn_blocking(move || {
        pause("the client's later attempts follow one another by a second", Duration::from_millis(3_500));
        gateway.replace(&flags);
        gateway
    });
    store.stat(&who(), &StorePath::root()).await.unwrap();
    back.await.unwrap();
}

#[tokio::test]
async fn a_listing_that_outlives_its_gateway_says_to_list_anew() {
    let root = tempfile::tempdir().unwrap();
    for index in 0..3_000 {
        std::fs::write(root.path().join(index.to_string()), "").unwrap();
    }
    let flags = ["--store".to_owned(), format!("file://{}", root.path().display())];
    let mut gateway = Gateway::start(|_| flags.to_vec());
    let store = connect(&gateway.address).await;
    let mut entries = store.list(&who(), &StorePath::root());
    entries.next().await.unwrap().unwrap();
    gateway.replace(&flags);
    store.stat(&who(), &StorePath::root()).await.unwrap(); // by the new one
    let rest: Vec<_> = entries.collect().await;
    let error = rest.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("list anew"), "{error}");
    assert_eq!(store.list_all(&who(), &StorePath::root(), 3_000).await.unwrap().len(), 3_000);
}

#[tokio::test]
async fn a_call_that_nobody_polls_holds_up_no_other() {
    let mut gateway = Gateway::over_files();
    let flags = ["--store".to_owned(), format!("file://{}", gateway.data().display())];
    let store = connect(&gateway.address).await;
    gateway.replace(&flags);
    pause_task("nothing tells when the client has noticed the lost connection", Duration::from_millis(200))
        .await;
    let (who, root) = (who(), StorePath::root());
    let mut first = std::pin::pin!(store.stat(&who, &root));
    // It begins to connect, and isn't polled again.
    assert!(futures::poll!(&mut first).is_pending());
    let second = tokio::time::timeout(DEADLINE, store.stat(&who, &root)).await;
    second.expect("it waits for the first one").unwrap();
    first.await.unwrap();
}

#[tokio::test]
async fn many_reads_share_one_connection() {
    let gateway = Gateway::over_files();
    let content = content(4 << 20);
    std::fs::write(gateway.data().join("f"), &content).unwrap();
    let store = connect(&gateway.address).await;
    let reader = store.open(&who(), &path("/f")).await.unwrap();
    let reads = (0..500_usize).map(|n| {
        let (reader, content) = (&reader, &content);
        async move {
            let (offset, length) = (n * 7_919 % content.len(), 1 + n * 4_099 % 600_000);
            let expected = &content[offset..(offset + length).min(content.len())];
            assert!(reader.read_at(offset as u64, length).await.unwrap() == expected, "{offset} {length}");
        }
    });
    futures::future::join_all(reads).await;
}

#[tokio::test]
async fn small_reads_in_sequence_are_read_ahead_and_right() {
    let gateway = Gateway::over_files();
    let content = content(5 << 20);
    std::fs::write(gateway.data().join("f"), &content).unwrap();
    let store = connect(&gateway.address).await;
    let reader = store.open(&who(), &path("/f")).await.unwrap();
    for piece in [4_096, 10_007] {
        let mut read = Vec::new();
        loop {
            let bytes = reader.read_at(read.len() as u64, piece).await.unwrap();
            if bytes.is_empty() {
                break;
            }
            read.extend_from_slice(&bytes);
        }
        assert!(read == content, "in pieces of {piece}");
    }
}

#[tokio::test]
async fn more_open_files_than_there_is_memory_to_read_ahead_are_all_read_right() {
    // Three pieces of 1 MiB each would be 120 MiB: more than the limit of all files.
    const OPEN: usize = 40;
    const PIECE: usize = 100_000;
    let gateway = Gateway::over_files();
    let content = content(4 << 20);
    std::fs::write(gateway.data().join("f"), &content).unwrap();
    let store = connect(&gateway.address).await;
    let mut readers = Vec::new();
    for _ in 0..OPEN {
        readers.push(store.open(&who(), &path("/f")).await.unwrap());
    }
    for offset in (0..content.len()).step_by(PIECE) {
        let reads = readers.iter().map(|reader| reader.read_at(offset as u64, PIECE));
        for read in futures::future::join_all(reads).await {
            assert!(read.unwrap() == content[offset..(offset + PIECE).min(content.len())], "at {offset}");
        }
    }
}

/// A gateway that loses the request to rename with its process is asked again: the file's temporary
/// name shows that nothing has happened.
#[test]
fn a_put_whose_rename_is_lost_with_the_gateway_renames_again() {
    let mut gateway = Gateway::over_files();
    let flags = ["--store".to_owned(), format!("file://{}", gateway.data().display())];
    let (through, lost) = losing_a_rename(&gateway.address);
    let mut put = support::command(gateway.dir.path());
    put.args(["put", "-f", "-", &format!("strait://{through}/f")]);
    let put = std::thread::spawn(move || support::Run::of(put, b"content"));
    lost.recv().unwrap();
    gateway.replace(&flags);
    put.join().unwrap().ok();
    assert_eq!(std::fs::read(gateway.data().join("f")).unwrap(), b"content");
    assert_eq!(gateway.data().read_dir().unwrap().count(), 1, "no temporary file is left");
}

/// The address of a proxy that cuts the connection with the first request to rename, instead of
/// forwarding that, and then reports it.
fn losing_a_rename(gateway: &str) -> (String, mpsc::Receiver<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (gateway, lost, (report, reported)) =
        (gateway.to_owned(), Arc::new(AtomicBool::new(false)), mpsc::channel());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            // While the gateway is replaced, it accepts none.
            let Ok(server) = std::net::TcpStream::connect(&gateway) else { continue };
            let (lost, report) = (lost.clone(), report.clone());
            std::thread::spawn(move || forward(&client, &server, &lost, &report));
        }
    });
    (address, reported)
}

fn forward(
    client: &std::net::TcpStream,
    server: &std::net::TcpStream,
    lost: &Arc<AtomicBool>,
    report: &mpsc::Sender<()>,
) {
    use std::io::{Read, Write};
    let (mut to, mut from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let (mut from, mut to, mut buffer) = (client, server, vec![0; 64 << 10]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let renames = buffer[..count].windows(10).any(|part| part == b"renamePath");
        let is_lost = renames && !lost.swap(true, Ordering::SeqCst);
        if is_lost {
            report.send(()).unwrap();
        }
        if is_lost || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
    let _ = server.shutdown(std::net::Shutdown::Both);
}
