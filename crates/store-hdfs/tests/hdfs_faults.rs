//! The HDFS adapter while a server is away: namenode, datanode, a writer's process, the first
//! namenode of a nameservice.
use bytes::Bytes;
use futures::TryStreamExt;
use rustix::process::Signal;
use std::env;
use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use strait_store::work::Work;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileSystem, FileSystemExt, Principal, Result, StorePath,
};
use strait_store_hdfs::HdfsStore;
use strait_testkit::wait::pause_task;
use strait_testkit::{MiniHdfs, Options, Process, current_user, free_port};

/// Variable with the cluster's URI for a child process of a test.
const CHILD_URI: &str = "STRAIT_TEST_CHILD_URI";
/// The child's output after its part is done.
const CHILD_READY: &str = "child is ready";

fn superuser() -> Principal {
    Principal::new(&current_user())
}

fn path(text: &str) -> StorePath {
    StorePath::parse(text).unwrap()
}

async fn write(store: &HdfsStore, at: &StorePath, content: &[u8]) {
    let content = Bytes::copy_from_slice(content);
    store.write_all(&superuser(), at, &CreateOptions::default(), content).await.unwrap();
}

/// Waits until the client knows that its connection to the namenode is broken. A call sent on it
/// before that has an unknown outcome for the client.
async fn notice_loss(store: &HdfsStore) {
    let (who, root) = (superuser(), path("/"));
    let asked = tokio::time::timeout(Duration::from_secs(2), store.stat(&who, &root));
    assert!(asked.await.is_err(), "nobody is there to ask");
}

/// This test program again, running only its (ignored) test `name`.
fn child(name: &str, uri: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    let name = format!("hdfs_faults::{name}");
    command.args(["--exact", &name, "--ignored", "--nocapture"]).env(CHILD_URI, uri);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_a_namenode_that_restarts_and_end_when_it_stays_away() {
    let mut hdfs = MiniHdfs::start_own(&Options::default()).unwrap();
    let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let (file, content) = (path("/f"), vec![7; 300_000]);
    write(&store, &file, &content).await;
    let reader = store.open(&superuser(), &file).await.unwrap();
    let mut writer = store.create(&superuser(), &path("/open"), &CreateOptions::default()).await.unwrap();
    writer.append(Bytes::from_static(b"before, ")).await.unwrap();
    writer.flush().await.unwrap();

    hdfs.stop_namenode();
    notice_loss(&store).await;
    assert!(reader.read_at(0, 300_000).await.unwrap() == content, "an open file needs no namenode");
    let is_up = Arc::new(AtomicBool::new(false));
    let waiting = {
        let (store, file, is_up) = (store.clone(), file.clone(), is_up.clone());
        tokio::spawn(async move {
            let (who, dir) = (superuser(), path("/made-meanwhile"));
            loop {
                let was_up = is_up.load(Ordering::SeqCst);
                let (stat, made, located) = tokio::join!(
                    store.stat(&who, &file),
                    store.mkdirs(&who, &dir, None),
                    store.block_locations(&who, &file, 0..10),
                );
                // On a busy machine the namenode may need more time than a call has.
                let has_failed = stat.is_err() || made.is_err() || located.is_err();
                if !has_failed || was_up {
                    return (stat.map(|status| status.length), made, located.map(|blocks| blocks.len()));
                }
            }
        })
    };
    // Blocks this thread until the namenode has started.
    tokio::task::block_in_place(|| hdfs.restart_namenode()).unwrap();
    is_up.store(true, Ordering::SeqCst);
    let (length, made, blocks) = waiting.await.unwrap();
    assert_eq!(length.unwrap(), 300_000);
    made.unwrap();
    assert_eq!(blocks.unwrap(), 1);
    writer.append(Bytes::from_static(b"and after")).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(store.read_all(&superuser(), &path("/open"), 100).await.unwrap(), b"before, and after");

    hdfs.stop_namenode();
    notice_loss(&store).await;
    let begin = Instant::now();
    let (who, gone) = (superuser(), path("/gone"));
    let (stat, made) = tokio::join!(store.stat(&who, &file), store.mkdirs(&who, &gone, None));
    assert!(begin.elapsed() < Duration::from_secs(45), "{:?}", begin.elapsed());
    for error in [stat.err().unwrap(), made.err().unwrap()] {
        // It was never sent: not OutcomeUnknown, even for the mutation.
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let address = hdfs.uri().trim_start_matches("hdfs://");
        assert!(error.to_string().contains(address), "{error}");
    }
}

/// Much shorter than the store's own limits.
const BRIEF: Duration = Duration::from_secs(1);
/// The same with the delays of a busy machine.
const SOON: Duration = Duration::from_secs(6);

/// Fails unless `call` ends at its caller's deadline. Returns its error.
async fn in_time<T>(what: &str, call: impl Future<Output = Result<T>>) -> Error {
    let begin = Instant::now();
    let error = Work::scope(Some(begin + BRIEF), call).await.err().expect("nobody answers");
    let took = begin.elapsed();
    assert!((BRIEF..SOON).contains(&took), "{what} took {took:?}: {error}");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_end_at_their_callers_deadline() {
    let mut hdfs = MiniHdfs::start_own(&Options::default()).unwrap();
    let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let (who, root, file, content) = (superuser(), path("/"), path("/f"), vec![7; 300_000]);
    write(&store, &file, &content).await;
    let reader = store.open(&who, &file).await.unwrap();

    hdfs.signal_namenode(Signal::STOP);
    in_time("stat", store.stat(&who, &file)).await;
    in_time("list", store.list(&who, &root).try_next()).await;
    in_time("open", store.open(&who, &file)).await;
    in_time("locate", store.block_locations(&who, &file, 0..9)).await;
    in_time("checksum", store.checksum(&who, &file)).await;
    in_time("status", store.status(&who)).await;
    hdfs.signal_namenode(Signal::CONT);
    assert_eq!(store.stat(&who, &file).await.unwrap().length, 300_000);

    hdfs.signal_datanode(0, Signal::STOP);
    in_time("read", reader.read_at(0, 300_000)).await;
    hdfs.signal_datanode(0, Signal::CONT);
    assert!(reader.read_at(0, 300_000).await.unwrap() == content);

    hdfs.stop_namenode();
    notice_loss(&store).await;
    // These changes are never sent. So a caller may repeat them.
    for error in [
        in_time("truncate", store.truncate(&who, &file, 0)).await,
        in_time("create", store.create(&who, &path("/new"), &CreateOptions::default())).await,
        in_time("append", store.append(&who, &file)).await,
    ] {
        assert!(error.retry_safe(), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_reader_survives_a_restart_of_its_only_datanode() {
    let mut hdfs = MiniHdfs::start_own(&Options::default()).unwrap();
    let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let file = path("/f");
    write(&store, &file, b"content").await;
    let reader = store.open(&superuser(), &file).await.unwrap();
    hdfs.stop_datanode(0);
    let error = reader.read_at(0, 7).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.retry_safe());
    tokio::task::block_in_place(|| hdfs.restart_datanode(0)).unwrap();
    assert_eq!(reader.read_at(0, 7).await.unwrap(), "content");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_block_waits_for_the_only_datanode() {
    let mut hdfs = MiniHdfs::start_own(&Options::default()).unwrap();
    let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let file = path("/f");
    hdfs.stop_datanode(0);
    let is_up = Arc::new(AtomicBool::new(false));
    let writing = {
        let (store, file, is_up) = (store.clone(), file.clone(), is_up.clone());
        tokio::spawn(async move {
            let (who, options) = (superuser(), CreateOptions { overwrite: true, ..CreateOptions::default() });
            loop {
                let (was_up, begin) = (is_up.load(Ordering::SeqCst), Instant::now());
                let written = store.write_all(&who, &file, &options, Bytes::from_static(b"content")).await;
                if written.is_ok() || was_up {
                    return written;
                }
                // On a busy machine the datanode may need more time than the writer waits.
                assert!(begin.elapsed() > Duration::from_secs(5), "it waits: {written:?}");
            }
        })
    };
    tokio::task::block_in_place(|| hdfs.restart_datanode(0)).unwrap();
    is_up.store(true, Ordering::SeqCst);
    writing.await.unwrap().unwrap();
    assert_eq!(store.read_all(&superuser(), &file, 100).await.unwrap(), b"content");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_safe_mode_not_all_is_known() {
    let hdfs = MiniHdfs::start_own(&Options::default()).unwrap();
    let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let anybody = Principal::new("somebody");
    for (order, settling) in [("enter", true), ("leave", false)] {
        let ordered = tokio::task::block_in_place(|| hdfs.dfsadmin(&["-safemode", order])).unwrap();
        assert!(ordered.status.success(), "{ordered:?}");
        assert_eq!(store.status(&anybody).await.unwrap().settling, settling, "{order}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flushed_bytes_of_a_killed_writer_survive_and_the_file_is_writable_again() {
    // The namenode's limits shortened: a dead writer's lease ends after 3 s.
    let properties = vec![("dfs.namenode.lease-hard-limit-sec", "3")];
    let hdfs = MiniHdfs::start_own(&Options { properties, ..Options::default() }).unwrap();
    let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let logs = tempfile::tempdir().unwrap();
    let mut writer =
        Process::spawn("writer", child("child_writes_and_waits", hdfs.uri()), logs.path()).unwrap();
    let log = writer.log().to_owned();
    let ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains(CHILD_READY));
    writer.wait_ready(Duration::from_secs(60), ready).unwrap();
    let file = path("/f");
    let busy = store.append(&superuser(), &file).await.err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    writer.kill();

    let deadline = Instant::now() + Duration::from_millis(store.capabilities().recovery_ms.into());
    let mut writer = loop {
        match store.append(&superuser(), &file).await {
            Ok(writer) => break writer,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                assert!(Instant::now() < deadline, "{error}");
            }
        }
        pause_task("until the next attempt", Duration::from_millis(200)).await;
    };
    writer.append(Bytes::from_static(b"|")).await.unwrap();
    writer.close().await.unwrap();
    let content = store.read_all(&superuser(), &file, 1_000_000).await.unwrap();
    assert!(content.starts_with(b"flushed"), "{} bytes", content.len());
    assert!(content.ends_with(b"|"));
}

#[tokio::test]
#[ignore = "a child process of the test above"]
async fn child_writes_and_waits() {
    let store = HdfsStore::connect(&env::var(CHILD_URI).unwrap()).await.unwrap();
    let mut writer = store.create(&superuser(), &path("/f"), &CreateOptions::default()).await.unwrap();
    writer.append(Bytes::from_static(b"flushed")).await.unwrap();
    writer.flush().await.unwrap();
    writer.append(Bytes::from_static(b", not flushed")).await.unwrap();
    println!("{CHILD_READY}");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_wait_for_recovery_show_no_length() {
    let options = Options { datanodes: 2, replication: 2, ..Options::default() };
    let mut hdfs = MiniHdfs::start_own(&options).unwrap();
    let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let logs = tempfile::tempdir().unwrap();
    let mut writer =
        Process::spawn("writer", child("child_writes_and_waits", hdfs.uri()), logs.path()).unwrap();
    let log = writer.log().to_owned();
    let ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains(CHILD_READY));
    writer.wait_ready(Duration::from_secs(60), ready).unwrap();
    let file = path("/f");
    let early = store.open(&superuser(), &file).await.unwrap();
    // It reads nothing until the end: bytes that a reader holds need no datanode.
    let unread = store.open(&superuser(), &file).await.unwrap();
    writer.kill();

    // Since its restart, one datanode doesn't tell the length of its replica. The other one does.
    hdfs.stop_datanode(0);
    tokio::task::block_in_place(|| hdfs.restart_datanode(0)).unwrap();
    for _ in 0..20 {
        let reader = store.open(&superuser(), &file).await.unwrap();
        assert_eq!(reader.length(), 7);
        assert_eq!(reader.read_at(0, 100).await.unwrap(), "flushed");
        let blocks = store.block_locations(&superuser(), &file, 0..u64::MAX).await.unwrap();
        assert_eq!(blocks.iter().map(|block| block.length).collect::<Vec<_>>(), [7]);
    }
    assert_eq!(early.read_at(0, 100).await.unwrap(), "flushed");

    // No datanode tells it, so the file isn't readable for now. The error isn't that of a truncated file.
    hdfs.stop_datanode(1);
    tokio::task::block_in_place(|| hdfs.restart_datanode(1)).unwrap();
    let late = store.open(&superuser(), &file).await.err().unwrap();
    for error in [late, unread.read_at(0, 7).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.retry_safe() && !error.to_string().contains("cut"), "{error}");
    }
}

#[test]
fn a_nameservice_is_served_by_whichever_namenode_answers() {
    let hdfs = MiniHdfs::start().unwrap();
    // One that refuses, and one that accepts connections and never answers.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = format!("127.0.0.1:{}", free_port());
    for away in [refusing, mute.local_addr().unwrap().to_string()] {
        let conf = tempfile::tempdir().unwrap();
        let property = |name: &str, value: &str| {
            format!("<property><name>{name}</name><value>{value}</value></property>")
        };
        let site = [
            property("dfs.ha.namenodes.prod", "nn1,nn2"),
            property("dfs.namenode.rpc-address.prod.nn1", &away),
            property("dfs.namenode.rpc-address.prod.nn2", hdfs.uri().trim_start_matches("hdfs://")),
        ];
        let site = format!("<configuration>{}</configuration>", site.concat());
        fs::write(conf.path().join("hdfs-site.xml"), site).unwrap();
        // In a process of its own: the environment determines Hadoop's configuration.
        let mut command = child("child_uses_a_nameservice", "hdfs://prod");
        let output = command.env("HADOOP_CONF_DIR", conf.path()).output().unwrap();
        assert!(output.status.success(), "{away} {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a child process of the test above"]
async fn child_uses_a_nameservice() {
    let store = HdfsStore::connect(&env::var(CHILD_URI).unwrap()).await.unwrap();
    let file = path(&format!("/nameservice-{}", std::process::id()));
    write(&store, &file, b"content").await;
    assert_eq!(store.read_all(&superuser(), &file, 100).await.unwrap(), b"content");
    assert_eq!(store.block_locations(&superuser(), &file, 0..7).await.unwrap().len(), 1);
    store.remove(&superuser(), &file, false).await.unwrap();
}
