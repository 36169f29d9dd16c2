//! The `strait://` adapter against a gateway with hostile answers.

use futures::TryStreamExt;
use std::time::Duration;
use strait_client::{Options, StraitStore};
use strait_store::{ErrorKind, FileSystem, Principal, StorePath};
use strait_wire::{
    FileInfo, FileType, ListDirectoryReply, Method, OpenSessionReply, Protocol, Secret, Wire, methods,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };
const DEADLINE: Duration = Duration::from_secs(20);

/// Accepts every login, and lists every directory by this page.
async fn lister(page: ListDirectoryReply) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket, page.clone()));
        }
    });
    address
}

async fn answer(mut socket: TcpStream, page: ListDirectoryReply) -> std::io::Result<()> {
    loop {
        let mut frame = vec![0; socket.read_u32().await? as usize];
        socket.read_exact(&mut frame).await?;
        // Strict binary: version, the name with its length, the number.
        let name_end = 8 + u32::from_be_bytes(frame[4..8].try_into().unwrap()) as usize;
        let number = i32::from_be_bytes(frame[name_end..name_end + 4].try_into().unwrap());
        let reply = match &frame[8..name_end] {
            b"openSession" => {
                let token = Some(Secret("token".to_owned()));
                let opened = OpenSessionReply { token, incarnation: Some(1), ..Default::default() };
                methods::OpenSession::reply(WIRE, number, &Ok(opened))
            }
            _ => methods::ListDirectory::reply(WIRE, number, &Ok(page.clone())),
        };
        socket.write_all(&reply.to_bytes()).await?;
    }
}

/// The kind of the error with which a listing of `path` ends.
async fn listed(page: ListDirectoryReply, path: &str) -> Option<ErrorKind> {
    let store = StraitStore::connect(&lister(page).await, Options::default()).await.unwrap();
    let path = StorePath::parse(path).unwrap();
    let entries = store.list(&Principal::new("nobody"), &path).try_collect::<Vec<_>>();
    let listed = tokio::time::timeout(DEADLINE, entries).await.expect("the listing has no end");
    listed.err().map(|error| error.kind())
}

#[tokio::test]
async fn a_directory_of_pages_without_entries_has_an_end() {
    let page = ListDirectoryReply { entries: Some(Vec::new()), cursor: Some(1) };
    assert_eq!(listed(page, "/").await, Some(ErrorKind::Internal));
}

#[tokio::test]
async fn entries_of_other_directories_are_refused() {
    for (directory, entry, is_refused) in [
        ("/d", "/d/x", false),
        ("/d", "/d/.x..", false),
        ("/", "/x", false),
        ("/d", "/d", true),
        ("/d", "/d/", true),
        ("/d", "/d/..", true),
        ("/d", "/d/../x", true),
        ("/d", "/d/x/y", true),
        ("/d", "/dx", true),
        ("/d", "/x", true),
        ("/d", "../x", true),
        ("/", "/", true),
        ("/", "//x", true),
        ("/", "/.", true),
    ] {
        let entry = FileInfo {
            path: Some(entry.to_owned()),
            file_type: Some(FileType::Directory),
            length: Some(0),
            ..Default::default()
        };
        let page = ListDirectoryReply { entries: Some(vec![entry.clone()]), cursor: None };
        let refused = is_refused.then_some(ErrorKind::Internal);
        assert_eq!(listed(page, directory).await, refused, "{entry:?} in {directory}");
    }
}

/// Each struct is a byte on the wire, and hundreds in memory.
#[tokio::test]
async fn a_reply_of_more_elements_than_a_page_has_is_refused() {
    let page = ListDirectoryReply { entries: Some(vec![FileInfo::default(); 1_000_000]), cursor: None };
    assert!(listed(page, "/").await.is_some());
}
