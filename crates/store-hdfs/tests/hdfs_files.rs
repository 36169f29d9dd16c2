//! The HDFS adapter's additions to the library, checked against Hadoop's own tools and its
//! namenode.
use bytes::Bytes;
use std::time::{Duration, Instant};
use strait_store::{
    CreateOptions, ErrorKind, FileSystem, FileSystemExt, FileWriter, Principal, SetAttributes, StorePath,
};
use strait_store_hdfs::HdfsStore;
use strait_testkit::wait::pause_task;
use strait_testkit::{MiniHdfs, current_user, free_port, http_request};

const MIB: usize = 1 << 20;

/// A directory of the test's own on the cluster, with access for all users.
struct Scene {
    hdfs: MiniHdfs,
    store: HdfsStore,
    dir: StorePath,
    superuser: Principal,
}

impl Scene {
    async fn new(name: &str) -> Self {
        let hdfs = MiniHdfs::start().unwrap();
        let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
        let dir = StorePath::parse(&hdfs.scratch(name)).unwrap();
        let superuser = Principal::new(&current_user());
        store.mkdirs(&superuser, &dir, Some(0o777)).await.unwrap();
        Self { hdfs, store, dir, superuser }
    }

    async fn create(&self, name: &str, block_size: usize) -> (StorePath, Box<dyn FileWriter>) {
        let path = self.dir.join(name).unwrap();
        let options = CreateOptions { block_size: Some(block_size as u64), ..CreateOptions::default() };
        let writer = self.store.create(&self.superuser, &path, &options).await.unwrap();
        (path, writer)
    }

    async fn end(self) {
        self.store.remove(&self.superuser, &self.dir, true).await.unwrap();
    }
}

fn pattern(length: usize) -> Bytes {
    (0..length).map(|index| (index * 31 + index / 251) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn locations_are_the_namenodes_own() {
    let scene = Scene::new("locations").await;
    let (path, mut writer) = scene.create("f", MIB).await;
    writer.append(pattern(2 * MIB + MIB / 2)).await.unwrap();
    writer.close().await.unwrap();

    let blocks = scene.store.block_locations(&scene.superuser, &path, 0..u64::MAX).await.unwrap();
    let spans: Vec<_> = blocks.iter().map(|block| (block.offset, block.length)).collect();
    let mib = MIB as u64;
    assert_eq!(spans, [(0, mib), (mib, mib), (2 * mib, mib / 2)]);
    let target = format!("/webhdfs/v1{path}?op=GETFILEBLOCKLOCATIONS&user.name={}", scene.superuser.user);
    let theirs = http_request("GET", scene.hdfs.http_address(), &target).unwrap().body;
    for block in &blocks {
        assert!(!block.corrupt);
        assert!(theirs.contains(&format!("\"offset\":{}", block.offset)), "{theirs}");
        for (host, address) in block.hosts.iter().zip(&block.addresses) {
            assert!(theirs.contains(&format!("\"{host}\"")) && theirs.contains(&format!("\"{address}\"")));
        }
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checksums_are_those_of_hadoops_shell() {
    let scene = Scene::new("checksums").await;
    let mut paths = Vec::new();
    for (name, length) in [("empty", 0), ("one-block", 1_000), ("three-blocks", 2 * MIB + 4_321)] {
        let (path, mut writer) = scene.create(name, MIB).await;
        writer.append(pattern(length).slice(..length.min(MIB))).await.unwrap();
        writer.append(pattern(length).slice(length.min(MIB)..)).await.unwrap();
        writer.close().await.unwrap();
        paths.push(path);
    }
    let mut arguments = vec!["-checksum"];
    arguments.extend(paths.iter().map(StorePath::as_str));
    let theirs = scene.hdfs.shell(&arguments).unwrap();
    let theirs = String::from_utf8(theirs.stdout).unwrap();
    for path in &paths {
        let ours = scene.store.checksum(&scene.superuser, path).await.unwrap();
        let hex = strait_store::hex::encode(&ours.value);
        let line = theirs.lines().find(|line| line.starts_with(path.as_str())).expect(&theirs);
        assert_eq!(line, format!("{path}\t{}\t{hex}", ours.algorithm));
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_flushed_part_of_a_block_under_construction_is_read_and_located() {
    let scene = Scene::new("tail").await;
    let content = pattern(2 * MIB + 100_001);
    let (path, mut writer) = scene.create("f", MIB).await;
    writer.append(content.clone()).await.unwrap();
    writer.flush().await.unwrap();

    let reader = scene.store.open(&scene.superuser, &path).await.unwrap();
    assert_eq!(reader.length(), content.len() as u64);
    // Across the border between finished and unfinished, and within each.
    for (offset, length) in [(0, 10), (2 * MIB - 7, 20), (2 * MIB, 1), (2 * MIB + 513, 70_000), (0, 3 * MIB)]
    {
        let read = reader.read_at(offset as u64, length).await.unwrap();
        let end = (offset + length).min(content.len());
        assert!(read == content[offset..end], "{length} bytes from {offset} differ");
    }
    let blocks = scene.store.block_locations(&scene.superuser, &path, 0..u64::MAX).await.unwrap();
    assert_eq!(blocks.iter().map(|block| block.length).sum::<u64>(), content.len() as u64);

    // An open reader doesn't see later bytes, and its own bytes stay readable when the block is
    // finished.
    writer.append(Bytes::from_static(b"later")).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(reader.length(), content.len() as u64);
    assert!(reader.read_at(2 * MIB as u64, MIB).await.unwrap() == content[2 * MIB..]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_principal_acts_with_its_own_rights() {
    let scene = Scene::new("principals").await;
    let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
    let private = scene.dir.join("private").unwrap();
    scene.store.mkdirs(&alice, &private, Some(0o750)).await.unwrap();
    let path = private.join("f").unwrap();
    let options = CreateOptions { permission: Some(0o640), ..CreateOptions::default() };
    scene.store.write_all(&alice, &path, &options, Bytes::from_static(b"hers")).await.unwrap();
    assert_eq!(scene.store.stat(&alice, &path).await.unwrap().owner, "alice");

    let denied = scene.store.open(&bob, &path).await.err().unwrap();
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
    let line = denied.to_string();
    assert!(line.contains("user=bob") && line.contains(path.as_str()) && !line.contains('\n'), "{line}");
    // alice and bob share group staff, carol doesn't: the namenode looks groups up.
    let share = SetAttributes { group: Some("staff".to_owned()), ..SetAttributes::default() };
    for path in [&private, &path] {
        scene.store.set_attributes(&scene.superuser, path, &share).await.unwrap();
    }
    assert_eq!(scene.store.read_all(&bob, &path, 10).await.unwrap(), b"hers");
    let carol = scene.store.open(&Principal::new("carol"), &path).await.err().unwrap();
    assert_eq!(carol.kind(), ErrorKind::PermissionDenied);
    let nobody = scene.store.stat(&Principal::new(""), &path).await.err().unwrap();
    assert_eq!(nobody.kind(), ErrorKind::Unauthenticated);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_file_is_free_within_seconds_and_a_held_one_is_not() {
    let scene = Scene::new("abandoned").await;
    let (path, mut writer) = scene.create("f", MIB).await;
    writer.append(Bytes::from_static(b"flushed")).await.unwrap();
    writer.flush().await.unwrap();
    let busy = scene.store.append(&scene.superuser, &path).await.err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    let busy = scene.store.append(&Principal::new("alice"), &path).await.err();
    assert!(busy.is_some_and(|error| matches!(error.kind(), ErrorKind::Busy | ErrorKind::PermissionDenied)));

    drop(writer);
    // Waits for the recovery, which is under way.
    let mut writer = scene.store.append(&scene.superuser, &path).await.unwrap();
    assert_eq!(writer.position(), 7);
    writer.append(Bytes::from_static(b", and more")).await.unwrap();
    writer.close().await.unwrap();
    let content = scene.store.read_all(&scene.superuser, &path, 100).await.unwrap();
    assert_eq!(content, b"flushed, and more");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_nobody_waits_for_leaves_no_locked_file() {
    let scene = Scene::new("cancelled").await;
    let path = scene.dir.join("f").unwrap();
    let options = CreateOptions::default();
    let mut create = scene.store.create(&scene.superuser, &path, &options);
    // One poll sends it; then its caller leaves. A timer, even of zero, may come after the answer.
    assert!(futures::poll!(create.as_mut()).is_pending());
    drop(create);
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut writer = loop {
        match scene.store.append(&scene.superuser, &path).await {
            Ok(writer) => break writer,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        pause_task("until the next attempt", Duration::from_millis(50)).await;
    };
    writer.close().await.unwrap();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namenode_that_is_not_there_is_one_clear_line_at_once() {
    let begin = Instant::now();
    let port = free_port();
    let error = HdfsStore::connect(&format!("hdfs://127.0.0.1:{port}")).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let line = error.to_string();
    assert!(line.contains(&format!("127.0.0.1:{port}")) && !line.contains('\n'), "{line}");
    // Far below the 30 s of patience that a running store has.
    assert!(begin.elapsed() < Duration::from_secs(20));

    let hdfs = MiniHdfs::start().unwrap();
    let error = HdfsStore::connect(&format!("hdfs://{}", hdfs.http_address())).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("isn't a namenode"), "{error}");

    for uri in ["hdfs://", "hdfs:///", "s3://bucket", "hdfs://host:1/dir", "hdfs://me@host:1"] {
        let error = HdfsStore::connect(uri).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{uri}");
    }
}
