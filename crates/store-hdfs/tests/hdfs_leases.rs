//! Files whose writer is gone, on a real HDFS: they become free, and nobody else's writer suffers.
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, Principal, StorePath};
use strait_store_hdfs::HdfsStore;
use strait_testkit::wait::pause_task;
use strait_testkit::{MiniHdfs, current_user};

/// Forwards connections to the server at `to`. Answers end their connection while they don't pass.
fn relay(to: SocketAddr, answers_pass: &Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, answers_pass) = (listener.local_addr().unwrap(), Arc::clone(answers_pass));
    // The threads end with the test's process.
    std::thread::spawn(move || {
        for from in listener.incoming().map_while(Result::ok) {
            let to = TcpStream::connect(to).unwrap();
            let ways = [(false, from.try_clone().unwrap(), to.try_clone().unwrap()), (true, to, from)];
            for (is_answer, mut from, mut to) in ways {
                let answers_pass = Arc::clone(&answers_pass);
                std::thread::spawn(move || {
                    let mut buffer = [0; 65_536];
                    while let Ok(length @ 1..) = from.read(&mut buffer) {
                        let passes = !is_answer || answers_pass.load(Ordering::SeqCst);
                        if !passes || to.write_all(&buffer[..length]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Both);
                    let _ = from.shutdown(Shutdown::Both);
                });
            }
        }
    });
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recovery_of_an_abandoned_file_leaves_its_next_writer_alone() {
    let hdfs = MiniHdfs::start().unwrap();
    let namenode = hdfs.uri().trim_start_matches("hdfs://").parse().unwrap();
    let answers_pass = Arc::new(AtomicBool::new(true));
    let near = HdfsStore::connect(&format!("hdfs://{}", relay(namenode, &answers_pass))).await.unwrap();
    let far = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let me = Principal::new(&current_user());
    let path = StorePath::parse(&hdfs.scratch("next-writer")).unwrap();

    let mut abandoned = near.create(&me, &path, &CreateOptions::default()).await.unwrap();
    abandoned.append(Bytes::from_static(b"before, ")).await.unwrap();
    abandoned.flush().await.unwrap();
    // The namenode closes the file, but its answer is lost.
    answers_pass.store(false, Ordering::SeqCst);
    drop(abandoned);
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut next = loop {
        match far.append(&me, &path).await {
            Ok(writer) => break writer,
            Err(error) => assert!(error.kind() == ErrorKind::Busy && Instant::now() < deadline, "{error}"),
        }
        pause_task("until the next attempt", Duration::from_millis(20)).await;
    };
    next.append(Bytes::from_static(b"and ")).await.unwrap();
    next.flush().await.unwrap();
    answers_pass.store(true, Ordering::SeqCst);
    // This waits for the end of the recovery.
    let busy = near.append(&me, &path).await.err().expect("the next writer has the file");
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    next.append(Bytes::from_static(b"after")).await.unwrap();
    next.close().await.unwrap();
    assert_eq!(far.read_all(&me, &path, 100).await.unwrap(), b"before, and after");
    far.remove(&me, &path, false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_whose_opening_has_an_unknown_outcome_become_free() {
    let hdfs = MiniHdfs::start().unwrap();
    let namenode = hdfs.uri().trim_start_matches("hdfs://").parse().unwrap();
    let answers_pass = Arc::new(AtomicBool::new(true));
    let near = HdfsStore::connect(&format!("hdfs://{}", relay(namenode, &answers_pass))).await.unwrap();
    let far = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let me = Principal::new(&current_user());
    let dir = StorePath::parse(&hdfs.scratch("unknown")).unwrap();
    let [created, appended, open] = ["created", "appended", "open"].map(|name| dir.join(name).unwrap());
    let options = CreateOptions::default();
    far.write_all(&me, &appended, &options, Bytes::from_static(b"before")).await.unwrap();
    // The user's leases are renewed for as long as this is open.
    let mut open_all_along = near.create(&me, &open, &options).await.unwrap();

    answers_pass.store(false, Ordering::SeqCst);
    let (creation, append) = tokio::join!(near.create(&me, &created, &options), near.append(&me, &appended));
    for outcome in [creation, append] {
        let error = outcome.err().expect("the answer is lost");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    }
    answers_pass.store(true, Ordering::SeqCst);
    let deadline = Instant::now() + Duration::from_secs(25);
    for path in [&created, &appended] {
        let mut writer = loop {
            match far.append(&me, path).await {
                Ok(writer) => break writer,
                Err(error) => {
                    assert!(error.kind() == ErrorKind::Busy && Instant::now() < deadline, "{error}")
                }
            }
            pause_task("until the next attempt", Duration::from_millis(100)).await;
        };
        writer.append(Bytes::from_static(b", after")).await.unwrap();
        writer.close().await.unwrap();
    }
    assert_eq!(far.read_all(&me, &appended, 100).await.unwrap(), b"before, after");
    open_all_along.close().await.unwrap();
    far.remove(&me, &dir, true).await.unwrap();
}
