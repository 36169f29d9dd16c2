//! The merged index that the last close stores if that pays, and the sizes of indexes.

use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_plfs::{Container, Options};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, MemoryStore, Principal, StorePath};

const WRITERS: u64 = 64;
/// Number of writes of the measured files. The figures in the documentation are for a million
/// (`PLFS_WRITES`).
const WRITES: u64 = 64 << 10;

fn writes() -> u64 {
    std::env::var("PLFS_WRITES").ok().and_then(|writes| writes.parse().ok()).unwrap_or(WRITES)
}

struct Scene {
    fs: Arc<dyn FileSystem>,
    who: Principal,
}

impl Scene {
    async fn create() -> (Self, Container) {
        let scene = Self { fs: Arc::new(MemoryStore::new("tester")), who: Principal::new("tester") };
        let path = StorePath::parse("/ckpt").unwrap();
        let made = Container::create(scene.fs.clone(), &scene.who, &path, &Options::default()).await;
        (scene, made.unwrap())
    }

    async fn open(&self) -> Container {
        let path = StorePath::parse("/ckpt").unwrap();
        Container::open(self.fs.clone(), &self.who, &path).await.unwrap()
    }

    async fn files(&self, directory: &str) -> Vec<(StorePath, u64)> {
        let directory = StorePath::parse(directory).unwrap();
        let entries = self.fs.list_all(&self.who, &directory, 9_999).await.unwrap_or_default();
        entries.iter().map(|entry| (StorePath::parse(&entry.path).unwrap(), entry.length)).collect()
    }

    async fn index_logs(&self) -> Vec<(StorePath, u64)> {
        let mut logs = self.files("/ckpt/logs").await;
        logs.retain(|(path, _)| path.as_str().ends_with(".index"));
        logs
    }

    async fn replace(&self, path: &StorePath, content: Vec<u8>) {
        let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
        self.fs.write_all(&self.who, path, &options, content.into()).await.unwrap();
    }

    /// Bytes of index logs and merged indexes, and the time of opening the file.
    async fn measure(&self) -> (u64, u64, Duration) {
        let bytes = |files: Vec<(StorePath, u64)>| files.iter().map(|(_, length)| length).sum::<u64>();
        let begun = Instant::now();
        let reader = self.open().await.reader().await.unwrap();
        let took = begun.elapsed();
        drop(reader);
        (bytes(self.index_logs().await), bytes(self.files("/ckpt/merged").await), took)
    }
}

/// Strided blocks by many ranks: all closed, and all read back where it is checked.
#[tokio::test]
async fn regular_writes_take_a_small_index_that_opens_at_once() {
    let (scene, container) = Scene::create().await;
    let mut writers: Vec<_> = (0..WRITERS).map(|rank| container.writer(rank as u32)).collect();
    for round in 0..writes() / WRITERS {
        for (rank, writer) in (0..).zip(&mut writers) {
            writer.write_at((round * WRITERS + rank) * 16, Bytes::from(vec![rank as u8; 16])).await.unwrap();
        }
    }
    for writer in &mut writers {
        writer.close().await.unwrap();
    }
    let (logs, merged, took) = scene.measure().await;
    println!("{} regular writes: index logs {logs} B, merged {merged} B, opened in {took:?}", writes());
    assert!(logs + merged <= 64 << 10);
    assert!(took <= Duration::from_millis(50) || cfg!(debug_assertions));
    let read = scene.open().await.reader().await.unwrap().read_at(160, 16 * 64).await.unwrap();
    assert!(read.chunks(16).zip(10_u8..).all(|(block, rank)| block.iter().all(|byte| *byte == rank % 64)));
}

/// At random places of 4 KiB, many of which are written twice.
#[tokio::test]
async fn random_writes_take_few_bytes_each() {
    let (scene, container) = Scene::create().await;
    let mut writers: Vec<_> = (0..WRITERS).map(|rank| container.writer(rank as u32)).collect();
    let mut random = 88_172_645_463_325_252_u64;
    let mut last = Vec::new();
    for at in 0..writes() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let offset = random % writes() * 4096;
        let writer = (at % WRITERS) as usize;
        writers[writer].write_at(offset, Bytes::copy_from_slice(&at.to_le_bytes())).await.unwrap();
        last.push((offset, at));
    }
    for writer in &mut writers {
        writer.close().await.unwrap();
    }
    let (logs, merged, took) = scene.measure().await;
    let each = (logs + merged) as f64 / writes() as f64;
    println!(
        "{} random writes: index logs {logs} B, merged {merged} B, {each:.1} B a write, opened in {took:?}",
        writes()
    );
    assert!(each <= 24.0);
    assert!(took <= Duration::from_secs(1) || cfg!(debug_assertions));
    // Without the stored index, everything is read from the logs.
    let reader = scene.open().await.reader().await.unwrap();
    let path = StorePath::parse("/ckpt/merged").unwrap();
    scene.fs.remove(&scene.who, &path, true).await.unwrap();
    let begun = Instant::now();
    let from_logs = scene.open().await.reader().await.unwrap();
    println!("{} random writes: opened from the logs alone in {:?}", writes(), begun.elapsed());
    assert!(begun.elapsed() <= Duration::from_secs(1) || cfg!(debug_assertions));
    for (offset, _) in last.iter().rev().take(500) {
        let read = reader.read_at(*offset, 8).await.unwrap();
        assert_eq!(read, from_logs.read_at(*offset, 8).await.unwrap());
        // Without syncs in between, the writers' bytes have no order in time.
        let mut written = last.iter().filter(|(other, _)| other == offset);
        assert!(written.any(|(_, at)| read == at.to_le_bytes()[..]));
    }
}

/// Writers that end one after the other, so that each later one finds a merged index.
async fn filled() -> (Scene, Vec<u8>) {
    let (scene, container) = Scene::create().await;
    let container = container.with_tiny_limits();
    let mut whole = vec![0; 200];
    for rank in 0..5_u8 {
        let mut writer = container.writer(rank.into());
        for part in 0..6 {
            let at = (usize::from(rank) * 37 + part * 29) % 180;
            writer.write_at(at as u64, vec![rank * 8 + part as u8 + 1; 20].into()).await.unwrap();
            whole[at..at + 20].fill(rank * 8 + part as u8 + 1);
        }
        writer.close().await.unwrap();
    }
    whole.truncate(container.length().await.unwrap() as usize);
    (scene, whole)
}

#[tokio::test]
async fn a_file_is_opened_by_its_merged_index_alone() {
    let (scene, whole) = filled().await;
    assert_eq!(scene.files("/ckpt/merged").await.len(), 2, "the latest, and the one before");
    assert!(scene.files("/ckpt/epochs").await.len() <= 2, "marks of old epochs are gone");
    for (path, length) in scene.index_logs().await {
        scene.replace(&path, vec![b'x'; length as usize]).await;
    }
    let reader = scene.open().await.reader().await.unwrap();
    assert!(reader.read_at(0, 1 << 20).await.unwrap() == whole);
}

#[tokio::test]
async fn a_merged_index_that_doesnt_fit_the_logs_is_left_aside() {
    let (scene, whole) = filled().await;
    // As if a log had lost its end, and as if a log had vanished from the merged index's view.
    let (path, _) = scene.index_logs().await.pop().unwrap();
    let log = scene.fs.read_all(&scene.who, &path, 1 << 20).await.unwrap();
    scene.replace(&path, log[..log.len() - 60].to_vec()).await;
    let shorter = scene.open().await.reader().await.unwrap();
    let read = shorter.read_at(0, 1 << 20).await.unwrap();
    assert!(read != whole, "the cut log's writes are gone, as they are without a merged index");
    scene.replace(&path, log).await;
    assert!(scene.open().await.reader().await.unwrap().read_at(0, 1 << 20).await.unwrap() == whole);
}

#[tokio::test]
async fn damage_of_a_merged_index_is_noticed_or_harmless_and_recover_mends_it() {
    let (scene, whole) = filled().await;
    let (path, _) = scene.files("/ckpt/merged").await.into_iter().max().unwrap();
    let sound = scene.fs.read_all(&scene.who, &path, 1 << 20).await.unwrap();
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x10;
        scene.replace(&path, damaged).await;
        let container = scene.open().await;
        match container.reader().await.unwrap().read_at(0, 1 << 20).await {
            Ok(read) => assert!(read == whole, "byte {at}"),
            Err(error) => {
                assert_eq!((error.kind(), error.path()), (ErrorKind::Corrupt, path.as_str()), "byte {at}")
            }
        }
        assert_eq!(container.check().await.unwrap().len(), 1, "byte {at}");
    }
    for cut in 0..sound.len() {
        scene.replace(&path, sound[..cut].to_vec()).await;
        let read = scene.open().await.reader().await.unwrap().read_at(0, 1 << 20).await.unwrap();
        assert!(read == whole, "cut at {cut}");
    }
    scene.open().await.with_tiny_limits().recover().await.unwrap();
    assert!(scene.open().await.check().await.unwrap().is_empty());
    assert!(scene.open().await.reader().await.unwrap().read_at(0, 1 << 20).await.unwrap() == whole);
}
