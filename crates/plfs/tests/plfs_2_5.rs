//! Importing and exporting containers of PLFS 2.5.

use bytes::Bytes;
use std::sync::Arc;
use strait_plfs::{Container, Options};
use strait_store::{
    CreateOptions, ErrorKind, FileSystem, FileSystemExt, MemoryStore, Principal, Result, StorePath,
};

fn at(path: &str) -> StorePath {
    StorePath::parse(path).unwrap()
}

struct Scene {
    fs: Arc<dyn FileSystem>,
    who: Principal,
}

impl Scene {
    fn new() -> Self {
        Self { fs: Arc::new(MemoryStore::new("tester")), who: Principal::new("tester") }
    }

    async fn file(&self, path: &str, content: Vec<u8>) {
        let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
        self.fs.write_all(&self.who, &at(path), &options, content.into()).await.unwrap();
    }

    async fn import(&self) -> Result<Vec<u8>> {
        let to = at("/new");
        let _ = self.fs.remove(&self.who, &to, true).await;
        Container::import((self.fs.clone(), &at("/old")), (self.fs.clone(), &to), (&self.who, &self.who))
            .await?;
        let container = Container::open(self.fs.clone(), &self.who, &to).await?;
        let read = container.reader().await?.read_at(0, 1 << 20).await?;
        Ok(read.to_vec())
    }
}

/// A record, with the seconds at which the write ended.
fn record(logical: i64, physical: i64, length: u64, end: f64, id: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&logical.to_le_bytes());
    bytes.extend_from_slice(&physical.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&(end - 0.5).to_le_bytes());
    bytes.extend_from_slice(&end.to_le_bytes());
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&[0xee; 4]);
    bytes
}

/// Two hosts, of which one has two processes with one index dropping.
async fn two_hosts(scene: &Scene) {
    scene.file("/old/.plfsaccess113918400", Vec::new()).await;
    scene.file("/old/hostdir.7/dropping.data.1290.5.node.a.lan.41", b"AAAABBBB".to_vec()).await;
    scene.file("/old/hostdir.7/dropping.data.1290.5.node.a.lan.42", b"cccc".to_vec()).await;
    let index = [record(0, 0, 4, 10.0, 41), record(2, 0, 4, 12.0, 42), record(8, 4, 4, 13.0, 41)].concat();
    scene.file("/old/hostdir.7/dropping.index.1290.5.node.a.lan.41", index).await;
    scene.file("/old/hostdir.2/dropping.data.1291.0.b.9", b"zz".to_vec()).await;
    // This write ended after the first one of the other host, and before its second one. A crash left the
    // next record incomplete.
    let index = [record(1, 0, 2, 11.0, 9), record(0, 0, 2, 20.0, 9)[..47].to_vec()].concat();
    scene.file("/old/hostdir.2/dropping.index.1291.0.b.9", index).await;
}

#[tokio::test]
async fn the_write_that_ended_last_counts_and_torn_records_do_not() {
    let scene = Scene::new();
    two_hosts(&scene).await;
    assert_eq!(scene.import().await.unwrap(), b"Azcccc\0\0BBBB");
    // The length that a close recorded.
    scene.file("/old/meta/15.14.1292.0.b", Vec::new()).await;
    assert_eq!(scene.import().await.unwrap(), b"Azcccc\0\0BBBB\0\0\0");
}

#[tokio::test]
async fn damage_is_named_and_leaves_nothing_behind() {
    let scene = Scene::new();
    let index = "/old/hostdir.2/dropping.index.1291.0.b.9";
    for (record, path) in [
        (record(-1, 0, 2, 11.0, 9), index),
        (record(0, i64::MAX, 2, 11.0, 9), index),
        (record(0, 1, 2, 11.0, 9), "/old/hostdir.2/dropping.data.1291.0.b.9"),
        (record(0, 0, 2, 11.0, 8), "/old/hostdir.2/dropping.data.1291.0.b.8"),
    ] {
        two_hosts(&scene).await;
        scene.file(index, record).await;
        let error = scene.import().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound), "{error}");
        assert_eq!(error.path(), path);
        let left = scene.fs.list_all(&scene.who, &at("/"), 9).await.unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
    }
    scene.fs.mkdirs(&scene.who, &at("/old/hostdir.3"), None).await.unwrap();
    scene.fs.remove(&scene.who, &at("/old"), true).await.unwrap();
    scene.fs.mkdirs(&scene.who, &at("/old"), None).await.unwrap();
    assert_eq!(scene.import().await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn what_was_exported_is_imported_the_same() {
    let scene = Scene::new();
    let made =
        Container::create(scene.fs.clone(), &scene.who, &at("/ckpt"), &Options::default()).await.unwrap();
    for rank in 0..5_u32 {
        let mut writer = made.writer(rank);
        for part in 0..40_u64 {
            let offset = (u64::from(rank) * 7 + part * 31) % 900;
            writer.write_at(offset, Bytes::from(vec![rank as u8 + 1; 10])).await.unwrap();
        }
        writer.close().await.unwrap();
    }
    let whole = made.reader().await.unwrap().read_at(0, 1 << 20).await.unwrap();
    let done = made.export(scene.fs.clone(), &scene.who, &at("/old")).await.unwrap();
    assert_eq!((done.length, done.writers), (whole.len() as u64, 5));
    assert_eq!(scene.import().await.unwrap(), whole);
    let again = made.export(scene.fs.clone(), &scene.who, &at("/old")).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
}
