//! Reading from HDFS while a replica is bad: killed, corrupted, cut short. Also files without
//! replicas.
use bytes::Bytes;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use strait_store::{
    CreateOptions, ErrorKind, FileReader, FileSystem, FileSystemExt, Principal, Result, SetAttributes,
    StorePath,
};
use strait_store_hdfs::HdfsStore;
use strait_testkit::wait::eventually_task;
use strait_testkit::{MiniHdfs, Options, current_user, http_request};

const MIB: usize = 1 << 20;
/// Sizes with different read paths: small reads use windows read ahead, large ones don't.
const PIECES: [usize; 2] = [100_000, MIB];

/// A cluster of two datanodes that both have the one file.
struct Scene {
    hdfs: MiniHdfs,
    store: HdfsStore,
    content: Bytes,
}

impl Scene {
    async fn new(length: usize) -> Self {
        let options = Options { datanodes: 2, replication: 2, ..Options::default() };
        let hdfs = MiniHdfs::start_own(&options).unwrap();
        let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
        let content: Bytes = (0..length).map(|index| (index * 31 + index / 251) as u8).collect();
        store.write_all(&me(), &file(), &CreateOptions::default(), content.clone()).await.unwrap();
        Self { hdfs, store, content }
    }

    async fn open(&self) -> Box<dyn FileReader> {
        self.store.open(&me(), &file()).await.unwrap()
    }

    /// The block's replicas, as files on disk. The cluster has no other blocks.
    fn replicas(&self) -> Vec<PathBuf> {
        let conf = self.hdfs.configuration();
        let mut found = Vec::new();
        let mut directories = vec![conf.parent().unwrap().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                if path.is_dir() {
                    directories.push(path);
                } else if name.starts_with("blk_") && !name.ends_with(".meta") {
                    found.push(path);
                }
            }
        }
        assert_eq!(found.len(), 2, "{found:?}");
        found
    }
}

fn me() -> Principal {
    Principal::new(&current_user())
}

fn file() -> StorePath {
    StorePath::parse("/f").unwrap()
}

/// Reads from `offset` to the end.
async fn read_on(reader: &dyn FileReader, mut offset: usize, piece: usize) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let bytes = reader.read_at(offset as u64, piece).await?;
        if bytes.is_empty() {
            return Ok(content);
        }
        offset += bytes.len();
        content.extend_from_slice(&bytes);
    }
}

fn flip(replica: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(replica).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_when_its_datanode_is_killed() {
    // More than the sockets hold, so that most of it isn't sent yet.
    let mut scene = Scene::new(64 * MIB).await;
    for (index, piece) in [(0, PIECES[0]), (1, PIECES[0]), (0, PIECES[1]), (1, PIECES[1])] {
        // A datanode that restarts reports its replicas some seconds later.
        eventually_task("both replicas are reported", async || {
            let blocks = scene.store.block_locations(&me(), &file(), 0..1).await.unwrap();
            blocks[0].hosts.len() == 2
        })
        .await;
        let reader = scene.open().await;
        let mut offset = 0;
        while offset < 3 * MIB {
            offset += reader.read_at(offset as u64, piece).await.unwrap().len();
        }
        // One of the two is sending.
        scene.hdfs.stop_datanode(index);
        let rest = read_on(reader.as_ref(), offset, piece).await.unwrap();
        assert!(rest == scene.content[offset..], "datanode {index}, {piece} bytes at a time");
        tokio::task::block_in_place(|| scene.hdfs.restart_datanode(index)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupted_replica_gives_way_to_the_next_and_the_last_is_an_error() {
    let scene = Scene::new(6 * MIB).await;
    let replicas = scene.replicas();
    let at = 5 * MIB as u64 / 2;
    for replica in &replicas {
        flip(replica, at);
        for piece in PIECES {
            let content = read_on(scene.open().await.as_ref(), 0, piece).await.unwrap();
            assert!(content == scene.content, "{piece} bytes at a time");
        }
        assert_eq!(scene.open().await.read_at(at, 10).await.unwrap(), scene.content[at as usize..][..10]);
        flip(replica, at);
    }

    replicas.iter().for_each(|replica| flip(replica, at));
    for piece in PIECES {
        let error = read_on(scene.open().await.as_ref(), 0, piece).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("/f"), "{error}");
    }
    // The chunks beside it are still good.
    let reader = scene.open().await;
    assert_eq!(reader.read_at(at + 1024, 10).await.unwrap(), scene.content[at as usize + 1024..][..10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_cut_short_gives_way_to_the_next_and_the_last_is_an_error() {
    let scene = Scene::new(6 * MIB).await;
    let replicas = scene.replicas();
    let cut =
        |replica: &PathBuf| OpenOptions::new().write(true).open(replica).unwrap().set_len(4_000_000).unwrap();
    let whole = fs::read(&replicas[0]).unwrap();
    for replica in &replicas {
        cut(replica);
        for piece in PIECES {
            let content = read_on(scene.open().await.as_ref(), 0, piece).await.unwrap();
            assert!(content == scene.content, "{piece} bytes at a time");
        }
        fs::write(replica, &whole).unwrap();
    }

    replicas.iter().for_each(cut);
    let reader = scene.open().await;
    assert_eq!(reader.read_at(0, 10).await.unwrap(), scene.content[..10]);
    let error = read_on(reader.as_ref(), 0, MIB).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Corrupt), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_coded_file_is_read_by_the_library() {
    const POLICY: &str = "XOR-2-1-1024k";
    // Only the default policy is enabled.
    let properties = vec![("dfs.namenode.ec.system.default.policy", POLICY)];
    let hdfs = MiniHdfs::start_own(&Options { datanodes: 3, properties, ..Options::default() }).unwrap();
    let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let dir = StorePath::parse("/coded").unwrap();
    store.mkdirs(&me(), &dir, None).await.unwrap();
    let target = format!("/webhdfs/v1{dir}?op=SETECPOLICY&ecpolicy={POLICY}&user.name={}", me().user);
    let answer = http_request("PUT", hdfs.http_address(), &target).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);

    let path = dir.join("f").unwrap();
    let content: Bytes = (0..5 * MIB + 4_321).map(|index| (index * 31 + index / 251) as u8).collect();
    store.write_all(&me(), &path, &CreateOptions::default(), content.clone()).await.unwrap();
    let reader = store.open(&me(), &path).await.unwrap();
    assert_eq!(reader.length(), content.len() as u64);
    for piece in PIECES {
        let read = read_on(reader.as_ref(), 0, piece).await.unwrap();
        assert!(read == content, "{piece} bytes at a time");
    }
    assert_eq!(reader.read_at(3_333_333, 10).await.unwrap(), content[3_333_333..][..10]);
    let error = store.checksum(&me(), &path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");

    let mut writer = store.append(&me(), &path).await.unwrap();
    writer.append(Bytes::from_static(b"x")).await.unwrap();
    let error = writer.flush().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    writer.close().await.unwrap();

    // The namenode lets its owner create this file, but not replace it. It doesn't stay open.
    let alice = Principal::new("alice");
    store
        .set_attributes(&me(), &dir, &SetAttributes { permission: Some(0o777), ..Default::default() })
        .await
        .unwrap();
    let path = dir.join("read-only").unwrap();
    let options = CreateOptions { permission: Some(0o444), ..CreateOptions::default() };
    let error = store.create(&alice, &path, &options).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    store.append(&me(), &path).await.unwrap().close().await.unwrap();
}
