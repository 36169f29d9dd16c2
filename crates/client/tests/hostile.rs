//! The `strait://` adapter against a gateway with hostile answers.

use futures::TryStreamExt;
use std::time::Duration;
use strait_client::{Options, StraitStore};
use strait_store::{ErrorKind, FileSystem, Principal, StorePath};
use strait_wire::{ListDirectoryReply, Method, OpenSessionReply, Protocol, Secret, Wire, methods};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };
const DEADLINE: Duration = Duration::from_secs(20);

/// Accepts every login, and lists every directory as endless pages without an entry.
async fn endless_lister() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket));
        }
    });
    address
}

async fn answer(mut socket: TcpStream) -> std::io::Result<()> {
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
            _ => {
                let page = ListDirectoryReply { entries: Some(Vec::new()), cursor: Some(1) };
                methods::ListDirectory::reply(WIRE, number, &Ok(page))
            }
        };
        socket.write_all(&reply.to_bytes()).await?;
    }
}

#[tokio::test]
async fn a_directory_of_pages_without_entries_has_an_end() {
    let store = StraitStore::connect(&endless_lister().await, Options::default()).await.unwrap();
    let entries = store.list(&Principal::new("nobody"), &StorePath::root()).try_collect::<Vec<_>>();
    let listed = tokio::time::timeout(DEADLINE, entries).await.expect("the listing has no end");
    assert_eq!(listed.unwrap_err().kind(), ErrorKind::Internal);
}
