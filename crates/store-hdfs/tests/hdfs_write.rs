//! The adapter's own writer on a real HDFS: the same blocks as Java's, readable by Java; errors by their
//! kinds; limits. `hdfs_journal` has its faults.
//!
//! `HDFS_IDLE_S`: seconds for which writers are idle, 1 by default; leases expire after 60.
use bytes::Bytes;
use futures::future::join_all;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rustix::process::Signal;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, FileWriter, Principal, StorePath};
use strait_store_hdfs::{HadoopConfig, HdfsStore};
use strait_testkit::wait::{eventually_task, obtained, pause_task};
use strait_testkit::{MiniHdfs, Options, current_user, http_request};

const MIB: usize = 1 << 20;

/// A cluster, and a directory on it.
struct Scene {
    hdfs: MiniHdfs,
    store: HdfsStore,
    dir: StorePath,
    me: Principal,
}

impl Scene {
    async fn new(hdfs: MiniHdfs, name: &str) -> Self {
        let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
        let dir = StorePath::parse(&hdfs.scratch(name)).unwrap();
        let me = Principal::new(&current_user());
        store.mkdirs(&me, &dir, Some(0o777)).await.unwrap();
        Self { hdfs, store, dir, me }
    }

    async fn shared(name: &str) -> Self {
        Self::new(MiniHdfs::start().unwrap(), name).await
    }

    async fn own(options: &Options, name: &str) -> Self {
        Self::new(MiniHdfs::start_own(options).unwrap(), name).await
    }

    fn at(&self, name: &str) -> StorePath {
        self.dir.join(name).unwrap()
    }

    async fn create(&self, path: &StorePath, block_size: usize) -> Box<dyn FileWriter> {
        let options = CreateOptions { block_size: Some(block_size as u64), ..CreateOptions::default() };
        self.store.create(&self.me, path, &options).await.unwrap()
    }

    async fn lengths_of_blocks(&self, path: &StorePath) -> Vec<usize> {
        let blocks = self.store.block_locations(&self.me, path, 0..u64::MAX).await.unwrap();
        blocks.iter().map(|block| block.length as usize).collect()
    }

    async fn content(&self, path: &StorePath) -> Vec<u8> {
        self.store.read_all(&self.me, path, 1 << 30).await.unwrap()
    }

    /// Runs Hadoop's shell, which must succeed.
    fn shell(&self, arguments: &[&str]) -> Vec<u8> {
        let output = tokio::task::block_in_place(|| self.hdfs.shell(arguments)).unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// The checksums that Hadoop's shell prints, by name.
    fn checksums(&self, paths: &[StorePath]) -> HashMap<String, String> {
        let arguments: Vec<&str> =
            ["-checksum"].into_iter().chain(paths.iter().map(|path| path.as_str())).collect();
        let printed = String::from_utf8(self.shell(&arguments)).unwrap();
        let fields = |line: &str| line.split_once('\t').map(|(path, sum)| (path.to_owned(), sum.to_owned()));
        printed.lines().filter_map(fields).collect()
    }

    async fn end(self) {
        self.store.remove(&self.me, &self.dir, true).await.unwrap();
    }
}

fn pattern(length: usize) -> Bytes {
    (0..length).map(|index| (index * 31 + index / 251) as u8).collect()
}

async fn append(writer: &mut Box<dyn FileWriter>, content: &Bytes) {
    for begin in (0..content.len()).step_by(4 * MIB) {
        writer.append(content.slice(begin..content.len().min(begin + 4 * MIB))).await.unwrap();
    }
}

/// Lengths around the borders of chunks (512 bytes), packets (64 KiB) and blocks (1 MiB).
const LENGTHS: [usize; 12] =
    [0, 1, 511, 512, 513, 64 << 10, (64 << 10) + 1, MIB - 1, MIB, MIB + 1, 3 * MIB, 5 * MIB + 12_345];

#[tokio::test(flavor = "multi_thread")]
async fn blocks_and_checksums_are_those_that_java_writes() {
    let scene = Scene::shared("as-java").await;
    let local = tempfile::tempdir().unwrap();
    let mut arguments = vec!["-D".to_owned(), format!("dfs.blocksize={MIB}"), "-put".to_owned()];
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for length in LENGTHS {
        let source = local.path().join(format!("java-{length}"));
        fs::write(&source, pattern(length)).unwrap();
        arguments.push(source.display().to_string());
        theirs.push(scene.at(&format!("java-{length}")));
        ours.push(scene.at(&format!("ours-{length}")));
    }
    arguments.push(scene.dir.to_string());
    scene.shell(&arguments.iter().map(String::as_str).collect::<Vec<_>>());

    for (length, path) in LENGTHS.into_iter().zip(&ours) {
        // With a flush after a third: within a chunk and a packet, for most lengths.
        let mut writer = scene.create(path, MIB).await;
        append(&mut writer, &pattern(length).slice(..length / 3)).await;
        writer.flush().await.unwrap();
        append(&mut writer, &pattern(length).slice(length / 3..)).await;
        writer.close().await.unwrap();
    }
    let sums = scene.checksums(&[ours.clone(), theirs.clone()].concat());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(sums[ours.as_str()], sums[theirs.as_str()], "{ours}");
        assert_eq!(scene.lengths_of_blocks(ours).await, scene.lengths_of_blocks(theirs).await, "{ours}");
        assert!(scene.content(ours).await == scene.content(theirs).await, "{ours}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_to_full_partial_and_truncated_blocks_give_javas_checksums() {
    let scene = Scene::shared("appends").await;
    let content = pattern(2 * MIB + 1_700);
    // Where the first writer ends: within a chunk, at its end, at a block's end, and nowhere.
    let ends = [0, 100, 512, 700, MIB - 1, MIB, MIB + 513, content.len()];
    let mut paths = vec![scene.at("whole")];
    let mut writer = scene.create(&paths[0], MIB).await;
    append(&mut writer, &content).await;
    writer.close().await.unwrap();
    for end in ends {
        let path = scene.at(&format!("appended-{end}"));
        let mut writer = scene.create(&path, MIB).await;
        append(&mut writer, &content.slice(..end)).await;
        writer.close().await.unwrap();
        let mut at = end;
        for step in [1, 10, 600, usize::MAX] {
            let mut writer = scene.store.append(&scene.me, &path).await.unwrap();
            assert_eq!(writer.position(), at as u64);
            if step == 10 {
                // The bytes of the writer before.
                writer.sync().await.unwrap();
            }
            let next = content.len().min(at.saturating_add(step));
            append(&mut writer, &content.slice(at..next)).await;
            writer.flush().await.unwrap();
            writer.close().await.unwrap();
            at = next;
        }
        paths.push(path);
    }
    // Cut within a chunk, at its end, and at a block's end.
    for end in [100, 1_024, MIB, MIB + 700] {
        let path = scene.at(&format!("cut-{end}"));
        let mut writer = scene.create(&path, MIB).await;
        append(&mut writer, &content).await;
        writer.close().await.unwrap();
        scene.store.truncate(&scene.me, &path, end as u64).await.unwrap();
        let mut writer = scene.store.append(&scene.me, &path).await.unwrap();
        append(&mut writer, &content.slice(end..)).await;
        writer.close().await.unwrap();
        paths.push(path);
    }
    let sums = scene.checksums(&paths);
    for path in &paths {
        assert_eq!(sums[path.as_str()], sums[paths[0].as_str()], "{path}");
        assert_eq!(scene.lengths_of_blocks(path).await, [MIB, MIB, 1_700], "{path}");
        assert!(scene.content(path).await == content, "{path}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn java_reads_the_flushed_and_synced_bytes_of_an_open_file() {
    let scene = Scene::shared("open").await;
    let content = pattern(MIB + 70_001);
    let path = scene.at("f");
    let mut writer = scene.create(&path, MIB).await;
    let mut written = 0;
    for (step, sync) in [(10, false), (700, true), (MIB - 710, false), (70_001, true)] {
        append(&mut writer, &content.slice(written..written + step)).await;
        written += step;
        if sync {
            writer.sync().await.unwrap();
        } else {
            writer.flush().await.unwrap();
        }
        let read = scene.shell(&["-cat", path.as_str()]);
        assert!(read == content[..written], "{} bytes of {written}", read.len());
    }
    writer.close().await.unwrap();
    scene.end().await;
}

/// Blocks of `block` bytes, filled by appends, each perhaps flushed.
#[derive(Debug)]
struct Cut {
    block: usize,
    appends: Vec<(usize, bool)>,
}

fn cuts() -> impl Strategy<Value = Cut> {
    // Whole chunks; smaller and larger than a packet.
    let block = prop_oneof![1usize..4, 120usize..140, Just(128)].prop_map(|chunks| chunks * 512);
    block.prop_flat_map(|block| {
        let around = move |most: usize| 1..most;
        let length = prop_oneof![around(600), around(2 * block), Just(block), Just(64usize << 10)];
        let appends = proptest::collection::vec((length, any::<bool>()), 1..6);
        appends.prop_map(move |appends| Cut { block, appends })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_may_end_anywhere_in_packets_chunks_and_appends() {
    let scene = Scene::shared("cuts").await;
    let mut runner = TestRunner::deterministic();
    let cuts: Vec<Cut> = (0..48).map(|_| cuts().new_tree(&mut runner).unwrap().current()).collect();
    // Eight at a time.
    for (group, cuts) in cuts.chunks(8).enumerate() {
        let write = |(index, cut): (usize, &'_ Cut)| {
            let (scene, path) = (&scene, scene.at(&format!("f-{group}-{index}")));
            let cut = Cut { block: cut.block, appends: cut.appends.clone() };
            async move {
                let content = pattern(cut.appends.iter().map(|(length, _)| length).sum());
                let mut writer = scene.create(&path, cut.block).await;
                let mut at = 0;
                for (length, flush) in &cut.appends {
                    append(&mut writer, &content.slice(at..at + length)).await;
                    at += length;
                    if *flush {
                        writer.flush().await.unwrap();
                        assert!(scene.content(&path).await == content[..at], "{at} bytes of {cut:?}");
                    }
                }
                writer.close().await.unwrap();
                let due: Vec<usize> = content.chunks(cut.block).map(<[u8]>::len).collect();
                assert_eq!(scene.lengths_of_blocks(&path).await, due, "{cut:?}");
                assert!(scene.content(&path).await == content, "{cut:?}");
            }
        };
        join_all(cuts.iter().enumerate().map(write)).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_ends_within_a_chunk_is_refused() {
    let scene = Scene::shared("chunks").await;
    let options = CreateOptions { block_size: Some(1_000), ..CreateOptions::default() };
    let refused = scene.store.create(&scene.me, &scene.at("f"), &options).await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert!(refused.message().contains("multiple of 512"), "{refused}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_writers_write_at_once() {
    let scene = Scene::shared("crowd").await;
    let write = |index: usize| {
        let (scene, path) = (&scene, scene.at(&format!("f-{index}")));
        async move {
            let content = pattern(300_000 + 1_000 * index);
            let mut writer = scene.create(&path, MIB / 4).await;
            for piece in 0..10 {
                let (begin, end) = (content.len() * piece / 10, content.len() * (piece + 1) / 10);
                writer.append(content.slice(begin..end)).await.unwrap();
                if piece == index % 10 {
                    writer.flush().await.unwrap();
                }
            }
            writer.close().await.unwrap();
            assert!(scene.content(&path).await == content, "{path}");
        }
    };
    join_all((0..64).map(write)).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_writer_leaves_a_file_that_can_be_appended_to_at_once() {
    let scene = Scene::shared("dropped").await;
    let mut waits = Vec::new();
    for (index, flush) in [true, false, true, false].into_iter().enumerate() {
        let path = scene.at(&format!("f-{index}"));
        let mut writer = scene.create(&path, MIB).await;
        writer.append(Bytes::from_static(b"before, ")).await.unwrap();
        if flush {
            writer.flush().await.unwrap();
        }
        drop(writer);
        let begin = Instant::now();
        let mut writer = scene.store.append(&scene.me, &path).await.unwrap();
        waits.push(begin.elapsed());
        assert_eq!(writer.position(), 8);
        writer.append(Bytes::from_static(b"and after")).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(scene.content(&path).await, b"before, and after");
    }
    // The machine may be busy, so only the shortest counts. A recovery by the namenode takes longer.
    assert!(waits.iter().min().unwrap() < &Duration::from_millis(500), "{waits:?}");
    // Its path has another file meanwhile: that one stays open.
    let path = scene.at("replaced");
    let mut old = scene.create(&path, MIB).await;
    old.append(Bytes::from_static(b"old")).await.unwrap();
    old.flush().await.unwrap();
    let overwrite = CreateOptions { overwrite: true, ..CreateOptions::default() };
    let mut new = scene.store.create(&scene.me, &path, &overwrite).await.unwrap();
    drop(old);
    new.append(Bytes::from_static(b"new")).await.unwrap();
    pause_task("time to close the wrong file", Duration::from_millis(500)).await;
    new.append(Bytes::from_static(b"er")).await.unwrap();
    new.close().await.unwrap();
    assert_eq!(scene.content(&path).await, b"newer");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_no_space_and_a_lost_file_is_not_found() {
    let scene = Scene::shared("errors").await;
    let dir = scene.at("small");
    scene.store.mkdirs(&scene.me, &dir, None).await.unwrap();
    let set = tokio::task::block_in_place(|| {
        scene.hdfs.dfsadmin(&["-setSpaceQuota", &(3 * MIB).to_string(), dir.as_str()])
    });
    assert!(set.unwrap().status.success());
    let mut writer = scene.create(&dir.join("f").unwrap(), MIB).await;
    let error = loop {
        if let Err(error) = writer.append(pattern(MIB)).await {
            break error;
        }
        assert!(writer.position() < 100 * MIB as u64);
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains("small/f"), "{error}");
    // Each later call fails with the same error.
    assert_eq!(writer.flush().await.unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(writer.close().await.unwrap_err().kind(), ErrorKind::NoSpace);

    let path = scene.at("removed");
    let mut writer = scene.create(&path, MIB).await;
    writer.append(Bytes::from_static(b"x")).await.unwrap();
    scene.store.remove(&scene.me, &path, false).await.unwrap();
    let error = writer.close().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Busy), "{error}");
    assert!(!error.retry_safe());
    scene.end().await;
}

/// The index of a datanode that the file's present block is written to.
async fn victim(scene: &Scene, path: &StorePath, round: usize) -> usize {
    let blocks = scene.store.block_locations(&scene.me, path, 0..u64::MAX).await.unwrap();
    let addresses = &blocks.last().unwrap().addresses;
    let wanted = &addresses[round % addresses.len()];
    (0..4).find(|index| scene.hdfs.datanode_address(*index) == *wanted).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_datanodes_are_left_out_and_replaced_after_a_flush() {
    let options = Options { datanodes: 4, replication: 3, ..Options::default() };
    let mut scene = Scene::own(&options, "replaced").await;
    let path = scene.at("f");
    let content = pattern(MIB);
    let mut writer = scene.create(&path, 8 * MIB).await;
    writer.append(content.clone()).await.unwrap();
    writer.flush().await.unwrap();
    // The second of the pipeline: the first one reports it.
    let victim = victim(&scene, &path, 1).await;
    scene.hdfs.stop_datanode(victim);
    writer.append(content.clone()).await.unwrap();
    writer.flush().await.unwrap();
    // Hadoop's default policy: a block of three replicas that was flushed gets another datanode.
    let dead = scene.hdfs.datanode_address(victim);
    let replaced = scene.store.block_locations(&scene.me, &path, 0..1).await.unwrap();
    assert_eq!(replaced[0].addresses.len(), 3, "{replaced:?}");
    assert!(!replaced[0].addresses.contains(&dead), "{replaced:?}");
    writer.append(content.clone()).await.unwrap();
    writer.close().await.unwrap();
    assert!(scene.content(&path).await == [&content[..], &content, &content].concat());

    // The namenode doesn't know yet that it is dead: new blocks go elsewhere all the same.
    let write = |index: usize| {
        let (scene, path) = (&scene, scene.at(&format!("f-{index}")));
        async move {
            let mut writer = scene.create(&path, MIB).await;
            writer.append(Bytes::from_static(b"content")).await.unwrap();
            writer.close().await.unwrap();
            assert_eq!(scene.content(&path).await, b"content");
        }
    };
    join_all((0..8).map(write)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_datanode_that_stalls_before_the_end_of_a_block_is_replaced() {
    // Long enough for the sound datanodes of a busy machine.
    let timeout = ("dfs.client.socket-timeout", "8000");
    // The namenode itself replicates no block meanwhile.
    let properties = vec![timeout, ("dfs.namenode.redundancy.interval.seconds", "3600")];
    let options = Options { datanodes: 4, replication: 3, properties, ..Options::default() };
    let mut scene = Scene::own(&options, "ended").await;
    let mut config = HadoopConfig::default();
    config.set(timeout.0, timeout.1);
    scene.store = HdfsStore::connect_by(scene.hdfs.uri(), config).await.unwrap();
    let path = scene.at("f");
    let mut writer = scene.create(&path, MIB).await;
    writer.append(pattern(100_000)).await.unwrap();
    writer.flush().await.unwrap();
    let victim = victim(&scene, &path, 1).await;
    scene.hdfs.signal_datanode(victim, Signal::STOP);
    // All bytes are acknowledged, so this sends the end of the block alone.
    writer.close().await.unwrap();
    let stalled = scene.hdfs.datanode_address(victim);
    eventually_task("three replicas without the stalled one", async || {
        let blocks = scene.store.block_locations(&scene.me, &path, 0..1).await.unwrap();
        assert!(!blocks[0].addresses.contains(&stalled), "{blocks:?}");
        blocks[0].addresses.len() == 3
    })
    .await;
    assert!(scene.content(&path).await == pattern(100_000));
    scene.hdfs.signal_datanode(victim, Signal::CONT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_safe_mode_waits_for_its_end() {
    let scene = Scene::own(&Options::default(), "safe").await;
    let order = |order: &str| {
        let ordered = tokio::task::block_in_place(|| scene.hdfs.dfsadmin(&["-safemode", order])).unwrap();
        assert!(ordered.status.success(), "{ordered:?}");
    };
    let mut open = scene.create(&scene.at("open"), MIB).await;
    order("enter");
    let (store, me, path) = (scene.store.clone(), scene.me.clone(), scene.at("f"));
    let creating = tokio::spawn(async move {
        store.write_all(&me, &path, &CreateOptions::default(), Bytes::from_static(b"late")).await
    });
    open.append(Bytes::from_static(b"opened before")).await.unwrap();
    let closing = tokio::spawn(async move { open.close().await });
    order("leave");
    creating.await.unwrap().unwrap();
    closing.await.unwrap().unwrap();
    assert_eq!(scene.content(&scene.at("f")).await, b"late");
    assert_eq!(scene.content(&scene.at("open")).await, b"opened before");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_writers_of_a_user_keep_their_files_and_pipelines() {
    let idle = env::var("HDFS_IDLE_S").map_or(1, |text| text.parse().unwrap());
    let scene = Scene::shared("idle").await;
    let mut writers = Vec::new();
    for index in 0..3 {
        let path = scene.at(&format!("f-{index}"));
        let mut writer = scene.create(&path, MIB).await;
        writer.append(Bytes::from_static(b"before, ")).await.unwrap();
        writer.flush().await.unwrap();
        writers.push((path, writer));
    }
    pause_task("the writers are idle", Duration::from_secs(idle)).await;
    // After its soft limit, another client would get the files.
    let other = HdfsStore::connect(scene.hdfs.uri()).await.unwrap();
    for (path, mut writer) in writers {
        let busy = other.append(&scene.me, &path).await.err().unwrap();
        assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
        writer.append(Bytes::from_static(b"and after")).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(scene.content(&path).await, b"before, and after");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_a_user_share_one_connection_to_the_namenode() {
    let scene = Scene::own(&Options::default(), "connections").await;
    // This user does nothing but write.
    let carol = Principal::new("carol");
    let write = |index: usize| {
        let (scene, carol, path) = (&scene, &carol, scene.at(&format!("f-{index}")));
        async move {
            let mut writer = scene.store.create(carol, &path, &CreateOptions::default()).await.unwrap();
            writer.append(pattern(1_000)).await.unwrap();
            writer.flush().await.unwrap();
            writer
        }
    };
    let mut writers = join_all((0..32).map(write)).await;
    let port = scene.hdfs.uri().rsplit(':').next().unwrap();
    let bean = format!("/jmx?qry=Hadoop:service=NameNode,name=RpcActivityForPort{port}");
    // {"root":2,"carol":1}, in a string. The namenode counts anew every 10 s.
    let connections_of_carol = || {
        let answer = http_request("GET", scene.hdfs.http_address(), &bean).ok()?;
        let (_, of_carol) = answer.body.split_once(r#"\"carol\":"#)?;
        of_carol.split([',', '}']).next()?.parse::<u32>().ok()
    };
    assert_eq!(obtained("the namenode's count", connections_of_carol), 1);
    join_all(writers.iter_mut().map(|writer| async { writer.close().await.unwrap() })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_while_its_bytes_are_on_their_way() {
    let mut scene = Scene::own(&Options::default(), "stopped").await;
    let path = scene.at("f");
    let mut writer = scene.create(&path, 64 * MIB).await;
    writer.append(pattern(10)).await.unwrap();
    writer.flush().await.unwrap();
    scene.hdfs.signal_datanode(0, Signal::STOP);
    let content = pattern(MIB);
    let mut due = 10;
    // The last append times out. It may have been accepted before.
    while tokio::time::timeout(Duration::from_secs(3), writer.append(content.clone())).await.is_ok() {
        due += MIB;
        assert!(due < 64 * MIB, "nothing bounds the writer");
    }
    // 4 MiB in its window, an append, and the bytes that the kernel and the stopped datanode hold.
    assert!(writer.position() <= 32 * MIB as u64, "{} bytes", writer.position());
    scene.hdfs.signal_datanode(0, Signal::CONT);
    let length = writer.position() as usize;
    writer.close().await.unwrap();
    let written: Vec<u8> = pattern(10).iter().chain(content.iter().cycle()).copied().take(length).collect();
    assert!(scene.content(&path).await == written);
}

/// The cluster's URI, for a child process of the test below.
const CHILD_URI: &str = "STRAIT_TEST_CHILD_URI";

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_datanode_is_left_out_after_the_configured_time() {
    let properties = vec![
        ("dfs.client.socket-timeout", "2000"),
        ("dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER"),
    ];
    let options = Options { datanodes: 3, replication: 3, properties, ..Options::default() };
    let mut scene = Scene::own(&options, "stalled").await;
    // In a process of its own: the environment determines Hadoop's configuration.
    let conf = scene.hdfs.configuration().to_owned();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "hdfs_write::child_writes_through_a_stall", "--ignored", "--nocapture"]);
    command.env(CHILD_URI, scene.hdfs.uri()).env("HADOOP_CONF_DIR", conf);
    let child = std::thread::spawn(move || command.output().unwrap());
    let path = StorePath::parse("/stalled-by-child").unwrap();
    eventually_task("the child writes", async || {
        scene.store.stat(&scene.me, &path).await.is_ok_and(|status| status.length > 0)
    })
    .await;
    let victim = victim(&scene, &path, 1).await;
    scene.hdfs.signal_datanode(victim, Signal::STOP);
    let output = tokio::task::block_in_place(|| child.join().unwrap());
    scene.hdfs.signal_datanode(victim, Signal::CONT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let content = scene.content(&path).await;
    assert!(content == pattern(100_000).repeat(100), "{} bytes", content.len());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a child process of the test above"]
async fn child_writes_through_a_stall() {
    let store = HdfsStore::connect(&env::var(CHILD_URI).unwrap()).await.unwrap();
    let (me, path) = (Principal::new(&current_user()), StorePath::parse("/stalled-by-child").unwrap());
    let mut writer = store.create(&me, &path, &CreateOptions::default()).await.unwrap();
    for _ in 0..100 {
        writer.append(pattern(100_000)).await.unwrap();
        writer.flush().await.unwrap();
        pause_task("so that the stall comes in mid-write", Duration::from_millis(50)).await;
    }
    writer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_beyond_the_memory_of_their_user_write_the_same_bytes() {
    let scene = Scene::shared("memory").await;
    let content = pattern(8 * MIB + 12_345);
    // More than the 32 MiB of one user: some appends wait for datanodes.
    let write = |index: usize| {
        let (scene, path, content) = (&scene, scene.at(&format!("f-{index}")), &content);
        async move {
            let mut writer = scene.create(&path, 3 * MIB).await;
            append(&mut writer, content).await;
            writer.append(content.slice(..100)).await.unwrap();
            writer.close().await.unwrap();
            assert!(scene.content(&path).await == [&content[..], &content[..100]].concat(), "{path}");
        }
    };
    join_all((0..12).map(write)).await;
    scene.end().await;
}
