//! Files whose writer is gone, on a real HDFS: they become free, and nobody else's writer suffers.
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use strait_store::{
    CreateOptions, ErrorKind, FileSystem, FileSystemExt, FileWriter, Principal, SessionSecret, StorePath,
};
use strait_store_hdfs::HdfsStore;
use strait_testkit::wait::{eventually_task, pause_task};
use strait_testkit::{MiniHdfs, Options, current_user};

/// A relay to the namenode, which can lose answers.
struct Relay {
    at: SocketAddr,
    /// Answers end their connection while they don't pass.
    answers_pass: AtomicBool,
    lost_answers: AtomicUsize,
}

impl Relay {
    fn to(namenode: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Arc::new(Self {
            at: listener.local_addr().unwrap(),
            answers_pass: AtomicBool::new(true),
            lost_answers: AtomicUsize::new(0),
        });
        let of_threads = Arc::clone(&relay);
        // The threads end with the test's process.
        std::thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                let to = TcpStream::connect(namenode).unwrap();
                let ways = [(false, from.try_clone().unwrap(), to.try_clone().unwrap()), (true, to, from)];
                for (is_answer, from, to) in ways {
                    let relay = Arc::clone(&of_threads);
                    std::thread::spawn(move || relay.forward(is_answer, from, to));
                }
            }
        });
        relay
    }

    fn forward(&self, is_answer: bool, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 65_536];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if is_answer && !self.answers_pass.load(Ordering::SeqCst) {
                self.lost_answers.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }

    fn answers_pass(&self, pass: bool) {
        self.answers_pass.store(pass, Ordering::SeqCst);
    }

    /// Runs `calls` while the answer to their first one is lost.
    async fn losing_one<T: Send + 'static>(&self, calls: impl Future<Output = T> + Send + 'static) -> T {
        let before = self.lost_answers.load(Ordering::SeqCst);
        self.answers_pass(false);
        let calls = tokio::spawn(calls);
        eventually_task("a call", async || self.lost_answers.load(Ordering::SeqCst) > before).await;
        self.answers_pass(true);
        calls.await.unwrap()
    }
}

/// A store behind a relay.
async fn behind(hdfs: &MiniHdfs) -> (Arc<Relay>, HdfsStore) {
    let relay = Relay::to(hdfs.uri().trim_start_matches("hdfs://").parse().unwrap());
    let store = HdfsStore::connect(&format!("hdfs://{}", relay.at)).await.unwrap();
    (relay, store)
}

/// Appends to a file as soon as nobody has it open, and before the namenode's own soft limit (60 s).
async fn append_when_free(store: &HdfsStore, me: &Principal, path: &StorePath) -> Box<dyn FileWriter> {
    let deadline = Instant::now() + Duration::from_secs(50);
    loop {
        match store.append(me, path).await {
            Ok(writer) => return writer,
            Err(error) => {
                // Unavailable: a datanode that restarted hasn't reported the last block yet.
                let passes = matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable);
                assert!(passes && Instant::now() < deadline, "{error}");
            }
        }
        pause_task("until the next attempt", Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_its_file_back_at_another_process_and_nobody_else_does() {
    let hdfs = MiniHdfs::start().unwrap();
    let path = StorePath::parse(&hdfs.scratch("session")).unwrap();
    let of_session =
        |secret| Principal { session: Some(SessionSecret([secret; 32])), ..Principal::new(&current_user()) };
    // As in a process that is killed, its writers close nothing, and still renew their lease for a while.
    let gone = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let mut before = gone.create(&of_session(1), &path, &CreateOptions::default()).await.unwrap();
    before.append(Bytes::from_static(b"before, ")).await.unwrap();
    before.flush().await.unwrap();
    let others = ["-to-append", "-to-truncate"].map(|end| StorePath::parse(&format!("{path}{end}")).unwrap());
    let mut other_writers = Vec::new();
    for other in &others {
        let mut writer = gone.create(&of_session(1), other, &CreateOptions::default()).await.unwrap();
        writer.append(Bytes::from_static(b"flushed")).await.unwrap();
        writer.flush().await.unwrap();
        other_writers.push(writer);
    }
    let busy = gone.append(&of_session(1), &path).await.err().expect("this process has it open");
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    let busy = gone.truncate(&of_session(1), &path, 0).await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");

    let next = HdfsStore::connect(hdfs.uri()).await.unwrap();
    for who in [of_session(2), Principal::new(&current_user())] {
        let busy = next.append(&who, &path).await.err().expect("another session has it open");
        assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    }
    let begin = Instant::now();
    let mut after = next.append(&of_session(1), &path).await.unwrap();
    assert_eq!(after.position(), 8);
    after.append(Bytes::from_static(b"after")).await.unwrap();
    after.close().await.unwrap();
    let [to_append, to_truncate] = &others;
    next.append(&of_session(1), to_append).await.unwrap().close().await.unwrap();
    next.truncate(&of_session(1), to_truncate, 3).await.unwrap();
    assert_eq!(next.read_all(&of_session(1), to_truncate, 100).await.unwrap(), b"flu");
    // Without the session, the namenode would let each file go 60 s after the one before.
    assert!(begin.elapsed() < Duration::from_secs(50), "{:?}", begin.elapsed());
    let late = async {
        before.append(Bytes::from_static(b"late")).await?;
        before.close().await
    };
    late.await.expect_err("it isn't its file any more");
    assert_eq!(next.read_all(&of_session(1), &path, 100).await.unwrap(), b"before, after");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recovery_of_an_abandoned_file_leaves_its_next_writer_alone() {
    let hdfs = MiniHdfs::start().unwrap();
    let (relay, near) = behind(&hdfs).await;
    let far = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let me = Principal::new(&current_user());
    let path = StorePath::parse(&hdfs.scratch("next-writer")).unwrap();

    let mut abandoned = near.create(&me, &path, &CreateOptions::default()).await.unwrap();
    abandoned.append(Bytes::from_static(b"before, ")).await.unwrap();
    abandoned.flush().await.unwrap();
    // The namenode closes the file, but its answer is lost.
    relay.answers_pass(false);
    drop(abandoned);
    let mut next = append_when_free(&far, &me, &path).await;
    next.append(Bytes::from_static(b"and ")).await.unwrap();
    next.flush().await.unwrap();
    relay.answers_pass(true);
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
    let (relay, near) = behind(&hdfs).await;
    let far = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let me = Principal::new(&current_user());
    let dir = StorePath::parse(&hdfs.scratch("unknown")).unwrap();
    let [created, appended, open] = ["created", "appended", "open"].map(|name| dir.join(name).unwrap());
    let options = CreateOptions::default();
    far.write_all(&me, &appended, &options, Bytes::from_static(b"before")).await.unwrap();
    // The user's leases are renewed for as long as this is open.
    let mut open_all_along = near.create(&me, &open, &options).await.unwrap();

    relay.answers_pass(false);
    let (creation, append) = tokio::join!(near.create(&me, &created, &options), near.append(&me, &appended));
    for outcome in [creation, append] {
        let error = outcome.err().expect("the answer is lost");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    }
    relay.answers_pass(true);
    for path in [&created, &appended] {
        let mut writer = append_when_free(&far, &me, path).await;
        writer.append(Bytes::from_static(b", after")).await.unwrap();
        writer.close().await.unwrap();
    }
    assert_eq!(far.read_all(&me, &appended, 100).await.unwrap(), b"before, after");
    open_all_along.close().await.unwrap();
    far.remove(&me, &dir, true).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_to_a_writer_behind_a_full_block_do_no_harm() {
    const BLOCK_BYTES: usize = 1 << 20;
    let hdfs = MiniHdfs::start().unwrap();
    let (relay, near) = behind(&hdfs).await;
    let me = Principal::new(&current_user());
    let path = StorePath::parse(&hdfs.scratch("full")).unwrap();
    let options = CreateOptions { block_size: Some(BLOCK_BYTES as u64), ..CreateOptions::default() };
    let full = Bytes::from(vec![7; BLOCK_BYTES]);
    near.write_all(&me, &path, &options, full.clone()).await.unwrap();

    // To `addBlock`.
    let mut writer = near.append(&me, &path).await.unwrap();
    let mut writer = relay
        .losing_one(async move {
            writer.append(full).await.unwrap();
            writer.flush().await.unwrap();
            writer
        })
        .await;
    writer.close().await.unwrap();
    // To `complete`, of a file whose last block is full, and of one that got another block.
    for more in [0, 5] {
        let mut writer = near.append(&me, &path).await.unwrap();
        writer.append(Bytes::from(vec![7; more])).await.unwrap();
        writer.flush().await.unwrap();
        relay.losing_one(async move { writer.close().await }).await.unwrap();
    }
    let content = near.read_all(&me, &path, 4 * BLOCK_BYTES).await.unwrap();
    assert!(content == vec![7; 2 * BLOCK_BYTES + 5], "{} bytes", content.len());
    near.remove(&me, &path, false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_renamed_before_its_pipeline_broke_becomes_free() {
    let mut hdfs = MiniHdfs::start_own(&Options::default()).unwrap();
    let near = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let far = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let me = Principal::new(&current_user());
    let [path, renamed, open] = ["/f", "/renamed", "/open"].map(|path| StorePath::parse(path).unwrap());
    // The user's leases are renewed for as long as this is open.
    let mut open_all_along = near.create(&me, &open, &CreateOptions::default()).await.unwrap();
    let mut writer = near.create(&me, &path, &CreateOptions::default()).await.unwrap();
    writer.append(Bytes::from_static(b"before, ")).await.unwrap();
    writer.flush().await.unwrap();
    near.rename(&me, &path, &renamed, false).await.unwrap();
    hdfs.stop_datanode(0);
    drop(writer);
    tokio::task::block_in_place(|| hdfs.restart_datanode(0)).unwrap();
    let mut next = append_when_free(&far, &me, &renamed).await;
    next.append(Bytes::from_static(b"after")).await.unwrap();
    next.close().await.unwrap();
    assert_eq!(far.read_all(&me, &renamed, 100).await.unwrap(), b"before, after");
    open_all_along.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_its_owner_may_not_write_becomes_free_and_keeps_its_permission() {
    const PERMISSION: u32 = 0o444;
    let mut hdfs = MiniHdfs::start_own(&Options::default()).unwrap();
    let near = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let far = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let (alice, superuser) = (Principal::new("alice"), Principal::new(&current_user()));
    let [path, open] = ["/f", "/open"].map(|path| StorePath::parse(path).unwrap());
    // The user's leases are renewed for as long as this is open.
    let mut open_all_along = near.create(&alice, &open, &CreateOptions::default()).await.unwrap();
    let options = CreateOptions { permission: Some(PERMISSION), ..CreateOptions::default() };
    let mut writer = near.create(&alice, &path, &options).await.unwrap();
    writer.append(Bytes::from_static(b"before, ")).await.unwrap();
    writer.flush().await.unwrap();
    hdfs.stop_datanode(0);
    drop(writer);
    tokio::task::block_in_place(|| hdfs.restart_datanode(0)).unwrap();
    let mut next = append_when_free(&far, &superuser, &path).await;
    next.append(Bytes::from_static(b"after")).await.unwrap();
    next.close().await.unwrap();
    assert_eq!(far.read_all(&alice, &path, 100).await.unwrap(), b"before, after");
    assert_eq!(far.stat(&alice, &path).await.unwrap().permission, PERMISSION);
    open_all_along.close().await.unwrap();
}
