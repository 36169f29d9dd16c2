//! Containers on the stores that need no cluster.

use crate::sealed::Sealed;
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::Arc;
use strait_plfs::{Container, Options, Way};
use strait_store::{
    CreateOptions, ErrorKind, FileStore, FileSystem, FileSystemExt, MemoryStore, Principal, StorePath,
};

struct Scene {
    fs: Arc<dyn FileSystem>,
    who: Principal,
    path: StorePath,
    /// Whether few writes reach the limits.
    tiny: bool,
    _dir: Option<tempfile::TempDir>,
}

impl Scene {
    fn in_memory() -> Self {
        let fs = Arc::new(MemoryStore::new("tester"));
        Self {
            fs,
            who: Principal::new("tester"),
            path: StorePath::parse("/run/ckpt").unwrap(),
            tiny: false,
            _dir: None,
        }
    }

    /// A store that shows appended bytes even if the writer never flushed them.
    fn on_disk() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fs = Arc::new(FileStore::open(dir.path(), false).unwrap());
        Self { fs, _dir: Some(dir), ..Self::in_memory() }
    }

    /// A store on which logs have parts.
    fn sealed() -> Self {
        Self { fs: Arc::new(Sealed::new()), ..Self::in_memory() }
    }

    fn each() -> [Self; 2] {
        [Self::in_memory(), Self::sealed()]
    }

    async fn create(&self) -> Container {
        self.fs.mkdirs(&self.who, &self.path.parent().unwrap(), None).await.unwrap();
        self.limited(
            Container::create(self.fs.clone(), &self.who, &self.path, &Options::default()).await.unwrap(),
        )
    }

    fn limited(&self, container: Container) -> Container {
        if self.tiny { container.with_tiny_limits() } else { container }
    }

    async fn open(&self) -> Container {
        self.limited(Container::open(self.fs.clone(), &self.who, &self.path).await.unwrap())
    }

    async fn content(&self) -> Vec<u8> {
        let reader = self.open().await.reader().await.unwrap();
        reader.read_at(0, 1 << 20).await.unwrap().to_vec()
    }
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[tokio::test]
async fn an_epoch_mark_without_a_successor_is_an_error_that_names_it() {
    let scene = Scene::in_memory();
    let container = scene.create().await;
    let mark = scene.path.join("epochs").unwrap().join(&u64::MAX.to_string()).unwrap();
    scene.fs.write_all(&scene.who, &mark, &CreateOptions::default(), Bytes::new()).await.unwrap();
    let mut writer = container.writer(0);
    writer.write_at(0, bytes("text")).await.unwrap();
    let error = writer.sync().await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Corrupt, mark.as_str()));
}

#[tokio::test]
async fn unsynced_writes_of_a_writer_that_is_gone_are_older_than_later_synced_ones() {
    let scene = Scene::on_disk();
    let container = scene.create().await;
    // If two writers publish in the same epoch, the one with the higher rank counts as newer.
    let mut gone = container.writer(7);
    // More writes than one block of an index log has, without a pattern.
    for number in 0..10_000_u64 {
        gone.write_at(number * number % 100_003, bytes("old")).await.unwrap();
    }
    drop(gone);
    let mut next = container.writer(3);
    next.write_at(0, bytes("new")).await.unwrap();
    next.sync().await.unwrap();
    assert_eq!(scene.content().await[..3], *b"new");
}

#[tokio::test]
async fn logs_of_every_writer_have_the_replicas_that_the_maker_wanted() {
    let scene = Scene::in_memory();
    scene.fs.mkdirs(&scene.who, &scene.path.parent().unwrap(), None).await.unwrap();
    let logs = CreateOptions { replication: Some(2), ..CreateOptions::default() };
    let options = Options { logs, ..Options::default() };
    Container::create(scene.fs.clone(), &scene.who, &scene.path, &options).await.unwrap();
    let mut writer = scene.open().await.writer(1);
    writer.write_at(0, bytes("text")).await.unwrap();
    writer.close().await.unwrap();
    let logs = scene.fs.list_all(&scene.who, &scene.path.join("logs").unwrap(), 10).await.unwrap();
    assert_eq!(logs.iter().map(|log| log.replication).collect::<Vec<_>>(), [2, 2]);
}

#[tokio::test]
async fn many_writers_make_one_file() {
    for scene in Scene::each() {
        let container = scene.create().await;
        let mut writers: Vec<_> = (0..8).map(|rank| container.writer(rank)).collect();
        for round in 0..100_u64 {
            for (rank, writer) in writers.iter_mut().enumerate() {
                let at = (round * 8 + rank as u64) * 47;
                writer.write_at(at, vec![rank as u8 + 1; 47].into()).await.unwrap();
            }
        }
        for writer in &mut writers {
            writer.close().await.unwrap();
        }
        let expected: Vec<u8> = (0..800).flat_map(|block| vec![(block % 8) as u8 + 1; 47]).collect();
        assert!(scene.content().await == expected);
        assert_eq!(scene.open().await.length().await.unwrap(), 800 * 47);
    }
}

#[tokio::test]
async fn what_is_synced_is_visible_while_its_writer_is_open_and_nothing_else() {
    for scene in Scene::each() {
        let container = scene.create().await;
        let mut writer = container.writer(0);
        writer.write_at(3, bytes("synced")).await.unwrap();
        writer.sync().await.unwrap();
        writer.write_at(0, bytes("unsynced")).await.unwrap();
        assert_eq!(scene.content().await, b"\0\0\0synced");
        drop(writer);
        assert_eq!(scene.content().await, b"\0\0\0synced", "its crash takes nothing away");
    }
}

/// Two writers are open all the time, as two ranks of one program.
#[tokio::test]
async fn the_later_of_two_synced_writes_wins_whichever_rank_made_it() {
    for (first, scene) in Scene::each().into_iter().enumerate() {
        let container = scene.create().await;
        let mut writers = [container.writer(0), container.writer(1)];
        for writer in &mut writers {
            writer.write_at(0, bytes("before")).await.unwrap();
            writer.sync().await.unwrap();
        }
        for round in 0..5 {
            for (writer, text) in [(first, "AAAA"), (1 - first, "BB")] {
                writers[writer].write_at(round, bytes(text)).await.unwrap();
                writers[writer].sync().await.unwrap();
            }
            let expected = format!("{}BBAA", "B".repeat(round as usize));
            assert_eq!(&scene.content().await[..expected.len()], expected.as_bytes());
        }
    }
}

#[tokio::test]
async fn a_truncation_counts_for_what_others_synced_before_it_only() {
    for scene in Scene::each() {
        let container = scene.create().await;
        let (mut a, mut b) = (container.writer(0), container.writer(1));
        a.write_at(0, bytes("0123456789")).await.unwrap();
        a.sync().await.unwrap();
        b.truncate(4).await.unwrap();
        assert_eq!(scene.content().await, b"0123");
        a.write_at(6, bytes("after")).await.unwrap();
        a.sync().await.unwrap();
        assert_eq!(scene.content().await, b"0123\0\0after");
        b.truncate(0).await.unwrap();
        assert_eq!(scene.content().await, b"");
        b.truncate(3).await.unwrap();
        assert_eq!(scene.content().await, b"\0\0\0");
    }
}

#[tokio::test]
async fn only_one_of_two_creators_makes_the_file() {
    for scene in Scene::each() {
        scene.create().await;
        let again = Container::create(scene.fs.clone(), &scene.who, &scene.path, &Options::default()).await;
        assert_eq!(again.err().unwrap().kind(), ErrorKind::AlreadyExists);
        let entries = scene.fs.list_all(&scene.who, &scene.path.parent().unwrap(), 9).await.unwrap();
        assert_eq!(entries.len(), 1, "the other leaves nothing behind");
    }
}

/// Copies a container file by file, as a copy tool does.
async fn copy(from: &Scene, to: &Scene) {
    for directory in [".", "logs", "open", "epochs"] {
        let path = if directory == "." { from.path.clone() } else { from.path.join(directory).unwrap() };
        let Ok(entries) = from.fs.list_all(&from.who, &path, 999).await else { continue };
        to.fs.mkdirs(&to.who, &path, None).await.unwrap();
        for entry in entries.into_iter().filter(|entry| !entry.is_directory()) {
            let path = StorePath::parse(&entry.path).unwrap();
            let content = from.fs.read_all(&from.who, &path, 9_999).await.unwrap();
            to.fs.write_all(&to.who, &path, &CreateOptions::default(), content.into()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn logs_of_one_part_each_can_be_joined_on_a_store_that_joins_files() {
    let (from, to) = (Scene::sealed(), Scene::in_memory());
    let container = from.create().await;
    for rank in 0..3_u32 {
        let mut writer = container.writer(rank);
        writer.write_at(u64::from(rank) * 4, bytes("abcd")).await.unwrap();
        if rank == 1 {
            // Dead bytes at the log's end.
            writer.write_at(8, bytes("dead")).await.unwrap();
        }
        writer.close().await.unwrap();
    }
    copy(&from, &to).await;
    let container = to.open().await;
    assert_eq!(container.way().await.unwrap(), Way::Join { logs: 3 });
    let plain = to.path.parent().unwrap().join("plain").unwrap();
    let done = container.finalize(&plain).await.unwrap();
    assert_eq!((done.bytes, done.moved), (12, 0));
    assert_eq!(to.fs.read_all(&to.who, &plain, 99).await.unwrap(), b"abcdabcdabcd");
}

#[tokio::test]
async fn a_file_with_parts_that_was_removed_is_missing_and_not_empty() {
    let scene = Scene::sealed();
    let container = scene.create().await;
    let mut writer = container.writer(0);
    writer.write_at(0, bytes("abcd")).await.unwrap();
    writer.close().await.unwrap();
    scene.open().await.remove().await.unwrap();
    assert_eq!(container.reader().await.err().unwrap().kind(), ErrorKind::NotFound);
    let plain = scene.path.parent().unwrap().join("plain").unwrap();
    assert_eq!(container.finalize(&plain).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!scene.fs.exists(&scene.who, &plain).await.unwrap());
}

#[tokio::test]
async fn a_writer_of_parts_whose_file_was_renamed_fails() {
    let scene = Scene::sealed();
    let mut container = scene.create().await;
    let (mut begun, mut idle) = (container.writer(0), container.writer(1));
    begun.write_at(0, bytes("ab")).await.unwrap();
    begun.sync().await.unwrap();
    let other = scene.path.parent().unwrap().join("other").unwrap();
    container.rename(&other, false).await.unwrap();
    begun.moved(&other);
    idle.moved(&other);
    assert_eq!(begun.write_at(2, bytes("cd")).await.unwrap_err().kind(), ErrorKind::NotFound);
    idle.write_at(2, bytes("ef")).await.unwrap();
    idle.close().await.unwrap();
    assert!(!scene.fs.exists(&scene.who, &scene.path).await.unwrap());
    assert_eq!(&container.reader().await.unwrap().read_at(0, 9).await.unwrap()[..], b"abef");
}

/// Object stores reserve a name by an empty object.
#[tokio::test(start_paused = true)]
async fn a_mark_that_is_still_empty_is_waited_for() {
    let scene = Scene::sealed();
    let mark = scene.path.join(".plfs").unwrap();
    let write = async |text: &'static str| {
        let over = CreateOptions { overwrite: true, ..CreateOptions::default() };
        scene.fs.write_all(&scene.who, &mark, &over, bytes(text)).await.unwrap();
    };
    write("").await;
    let open = || Container::open(scene.fs.clone(), &scene.who, &scene.path);
    let complete = async {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        write("strait-plfs 2 000102030405060708090a0b0c0d0e0f\n").await;
    };
    let (opened, ()) = futures::join!(open(), complete);
    assert_eq!(opened.unwrap().id()[15], 15);
    write("").await;
    let error = open().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.message().contains("remove it by"), "{error}");
}

/// A directory lists its entries in no order.
#[tokio::test]
async fn a_file_whose_logs_have_parts_can_be_copied_to_another_store() {
    let (from, to) = (Scene::sealed(), Scene::on_disk());
    let mut writer = from.create().await.writer(0);
    for part in 0..40 {
        writer.write_at(part * 2, bytes("ab")).await.unwrap();
        writer.sync().await.unwrap();
    }
    writer.close().await.unwrap();
    copy(&from, &to).await;
    assert_eq!(to.content().await, b"ab".repeat(40));
    let mut writer = to.open().await.writer(1);
    writer.write_at(80, bytes("more")).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(to.content().await[78..], *b"abmore");
}

#[tokio::test]
async fn what_is_no_container_is_named_so() {
    let scene = Scene::in_memory();
    let open = async || Container::open(scene.fs.clone(), &scene.who, &scene.path).await.err().unwrap();
    assert_eq!(open().await.kind(), ErrorKind::NotFound);
    scene.fs.mkdirs(&scene.who, &scene.path, None).await.unwrap();
    let error = open().await;
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.to_string(), "open /run/ckpt: it isn't a PLFS container (InvalidArgument)");
    let mark = scene.path.join(".plfs").unwrap();
    for (text, kind) in [("strait-plfs 3 later\n", ErrorKind::Unsupported), ("nonsense", ErrorKind::Corrupt)]
    {
        let options = strait_store::CreateOptions { overwrite: true, ..Default::default() };
        scene.fs.write_all(&scene.who, &mark, &options, text.into()).await.unwrap();
        assert_eq!(open().await.kind(), kind);
    }
}

#[tokio::test]
async fn a_writer_of_a_removed_file_makes_no_directory_in_its_place() {
    for scene in Scene::each() {
        let container = scene.create().await;
        let mut writer = container.writer(0);
        writer.write_at(0, bytes("bytes")).await.unwrap();
        container.remove().await.unwrap();
        assert!(writer.sync().await.is_err());
        assert!(!scene.fs.exists(&scene.who, &scene.path).await.unwrap());
    }
}

#[tokio::test]
async fn damage_is_reported_with_the_file_that_has_it() {
    let scene = Scene::in_memory();
    let container = scene.create().await;
    let mut writer = container.writer(0);
    writer.write_at(0, bytes("0123456789")).await.unwrap();
    writer.close().await.unwrap();
    let logs = scene.path.join("logs").unwrap();
    let named = async |ending: &str| {
        let entries = scene.fs.list_all(&scene.who, &logs, 9).await.unwrap();
        let entry = entries.into_iter().find(|entry| entry.name().ends_with(ending)).unwrap();
        StorePath::parse(&entry.path).unwrap()
    };
    let (data, index) = (named(".data").await, named(".index").await);
    let replace = async |path: &StorePath, content: Vec<u8>| {
        let options = strait_store::CreateOptions { overwrite: true, ..Default::default() };
        scene.fs.write_all(&scene.who, path, &options, content.into()).await.unwrap();
    };

    replace(&data, b"01234".to_vec()).await;
    let reader = scene.open().await.reader().await.unwrap();
    let error = reader.read_at(0, 10).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Corrupt, data.as_str()));
    assert_eq!(error.message(), "the log ends at byte 5, but its index describes bytes up to 10");

    let sound = scene.fs.read_all(&scene.who, &index, 9999).await.unwrap();
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 4;
        replace(&index, damaged).await;
        let read = scene.open().await.reader().await;
        // A damaged payload of the last block can't be distinguished from an incomplete one.
        let error = match read {
            Ok(reader) => {
                assert!(at >= sound.len() - 8 && reader.length() == 0, "byte {at}");
                continue;
            }
            Err(error) => error,
        };
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "byte {at}: {error}");
        assert_eq!(error.path(), index.as_str());
    }
}

#[tokio::test]
async fn a_check_finds_each_damaged_log() {
    let scene = Scene::in_memory();
    let container = scene.create().await;
    for rank in 0..3 {
        let mut writer = container.writer(rank);
        writer.write_at(u64::from(rank) * 4, bytes("0123")).await.unwrap();
        writer.close().await.unwrap();
    }
    assert!(container.check().await.unwrap().is_empty());
    let entries = scene.fs.list_all(&scene.who, &scene.path.join("logs").unwrap(), 9).await.unwrap();
    let mut damaged: Vec<String> = Vec::new();
    for (entry, content) in [("00000000", "01x3"), ("00000002", "01")] {
        let is_it = |path: &&str| path.contains(entry) && path.ends_with(".data");
        let path = entries.iter().map(|entry| entry.path.as_str()).find(is_it).unwrap();
        let options = strait_store::CreateOptions { overwrite: true, ..Default::default() };
        scene
            .fs
            .write_all(&scene.who, &StorePath::parse(path).unwrap(), &options, content.into())
            .await
            .unwrap();
        damaged.push(path.into());
    }
    let found = container.check().await.unwrap();
    assert_eq!(found.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), damaged);
    assert!(found.iter().all(|problem| problem.error.kind() == ErrorKind::Corrupt));
}

#[tokio::test]
async fn recovery_ends_crashed_writers_and_keeps_what_they_synced() {
    for scene in Scene::each() {
        let container = scene.create().await;
        let mut crashed = container.writer(7);
        crashed.write_at(0, bytes("synced")).await.unwrap();
        crashed.sync().await.unwrap();
        crashed.write_at(6, bytes(" and not")).await.unwrap();
        drop(crashed);
        let recovery = container.recover().await.unwrap();
        assert_eq!(recovery.ended.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [7]);
        assert!(recovery.live.is_empty());
        assert!(container.recover().await.unwrap().ended.is_empty(), "there is nothing left to do");
        assert_eq!(scene.content().await, b"synced");
        let writers = container.writers().await.unwrap();
        assert_eq!((writers[0].rank, writers[0].bytes, writers[0].closed), (7, 6, false));
    }
}

#[tokio::test]
async fn a_flattened_file_is_plain_and_appears_only_whole() {
    for scene in Scene::each() {
        let container = scene.create().await;
        let mut writers = [0, 1].map(|rank| container.writer(rank));
        for block in 0..10 {
            let data = vec![block as u8 + 1; 1 << 20];
            writers[block % 2].write_at((block << 20) as u64 + 5, data.into()).await.unwrap();
        }
        for writer in &mut writers {
            writer.close().await.unwrap();
        }
        let plain = StorePath::parse("/run/plain").unwrap();
        assert_eq!(container.flatten(&plain).await.unwrap(), 5 + (10 << 20));
        let content = scene.fs.read_all(&scene.who, &plain, 11 << 20).await.unwrap();
        assert!(content[..5] == [0; 5]);
        assert!(
            (0..10)
                .all(|block| content[5 + (block << 20)..][..1 << 20].iter().all(|b| *b == block as u8 + 1))
        );
        let error = container.flatten(&plain).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let inside = scene.path.join("logs").unwrap().join("plain").unwrap();
        assert_eq!(container.flatten(&inside).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        let entries = scene.fs.list_all(&scene.who, &StorePath::parse("/run").unwrap(), 9).await.unwrap();
        assert_eq!(entries.len(), 2, "nothing else is left: {entries:?}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write {
        writer: usize,
        offset: u64,
        length: usize,
    },
    /// Equal writes at equal distances.
    Strided {
        writer: usize,
        offset: u64,
        count: u64,
    },
    Sync(usize),
    Truncate(usize, u64),
    Crash(usize),
    Reopen,
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    let writer = 0..3_usize;
    prop_oneof![
        6 => (writer.clone(), 0..400_u64, 1..60_usize)
            .prop_map(|(writer, offset, length)| Step::Write { writer, offset, length }),
        2 => (writer.clone(), 0..100_u64, 4..9_u64)
            .prop_map(|(writer, offset, count)| Step::Strided { writer, offset, count }),
        3 => writer.clone().prop_map(Step::Sync),
        1 => (writer.clone(), 0..400_u64).prop_map(|(writer, length)| Step::Truncate(writer, length)),
        1 => writer.prop_map(Step::Crash),
        1 => Just(Step::Reopen),
        2 => Just(Step::Read),
    ]
}

/// Each writer's unsynced changes. They become visible together, at the writer's sync.
#[derive(Default)]
struct Model {
    synced: Vec<u8>,
    pending: [Vec<(u64, Vec<u8>)>; 3],
}

impl Model {
    fn sync(&mut self, writer: usize) {
        for (offset, data) in self.pending[writer].drain(..) {
            let end = offset as usize + data.len();
            if self.synced.len() < end {
                self.synced.resize(end, 0);
            }
            self.synced[offset as usize..end].copy_from_slice(&data);
        }
    }
}

async fn plays(scene: Scene, steps: Vec<Step>) {
    let mut container = scene.create().await;
    let mut writers = [0, 1, 2].map(|rank| container.writer(rank));
    let (mut model, mut fill) = (Model::default(), 0_u8);
    for step in steps {
        match step {
            Step::Write { writer, offset, length } => {
                fill = fill.wrapping_add(1).max(1);
                let data = vec![fill; length];
                writers[writer].write_at(offset, data.clone().into()).await.unwrap();
                model.pending[writer].push((offset, data));
            }
            Step::Strided { writer, offset, count } => {
                fill = fill.wrapping_add(1).max(1);
                for at in (0..count).map(|k| offset + k * 30) {
                    let data = vec![fill; 20];
                    writers[writer].write_at(at, data.clone().into()).await.unwrap();
                    model.pending[writer].push((at, data));
                }
            }
            Step::Sync(writer) => {
                writers[writer].sync().await.unwrap();
                model.sync(writer);
            }
            Step::Truncate(writer, length) => {
                writers[writer].truncate(length).await.unwrap();
                model.sync(writer);
                model.synced.resize(length as usize, 0);
            }
            Step::Crash(writer) => {
                model.pending[writer].clear();
                writers[writer] = container.writer(writer as u32);
            }
            Step::Reopen => {
                for (rank, writer) in writers.iter_mut().enumerate() {
                    writer.close().await.unwrap();
                    model.sync(rank);
                }
                container = scene.open().await;
                writers = [0, 1, 2].map(|rank| container.writer(rank));
            }
            Step::Read => assert_eq!(scene.content().await, model.synced),
        }
    }
    assert_eq!(scene.content().await, model.synced);
    assert_eq!(container.length().await.unwrap(), model.synced.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn writers_syncs_crashes_and_reads_agree_with_a_plain_array(
        steps in prop::collection::vec(step(), 1..60),
        store in prop::sample::select(vec!["memory", "memory", "sealed", "sealed", "disk"]),
        tiny in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scene = match store {
                "memory" => Scene::in_memory(),
                "sealed" => Scene::sealed(),
                _ => Scene::on_disk(),
            };
            plays(Scene { tiny, ..scene }, steps).await;
        });
    }
}

/// As when the ranks of a program open one file, and the first of them makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_is_just_being_made_is_missing_or_there() {
    let scene = Scene::on_disk();
    for round in 0..200 {
        let path = StorePath::parse(&format!("/ckpt{round}")).unwrap();
        let (fs, who, made) = (scene.fs.clone(), scene.who.clone(), path.clone());
        let maker =
            tokio::spawn(async move { Container::create(fs, &who, &made, &Options::default()).await });
        loop {
            match Container::open(scene.fs.clone(), &scene.who, &path).await {
                Ok(_) => break,
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
            }
        }
        maker.await.unwrap().unwrap();
    }
}
