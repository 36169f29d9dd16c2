//! A directory store on two mounts of one GlusterFS volume, as on two gateways' hosts: locks, replaced files, and errors
//! that a client learns only at the close. `scripts/with-gluster.sh` makes the mounts.

use bytes::Bytes;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use strait_store::{
    CreateOptions, ErrorKind, FileStore, FileSystem, FileSystemExt, FileWriter, MAX_CHUNK_BYTES, Principal,
    StorePath,
};
use strait_testkit::wait::{eventually, eventually_task};
use tempfile::TempDir;

fn mount(variable: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} names a mount")).into()
}

/// A directory by two mounts of its volume.
struct Scene {
    here: Arc<dyn FileSystem>,
    there: Arc<dyn FileSystem>,
    who: Principal,
    path: StorePath,
    _directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir_in(mount("STRAIT_TEST_NETWORK_DIRECTORY")).unwrap();
        let other = mount("STRAIT_TEST_OTHER_MOUNT").join(directory.path().file_name().unwrap());
        eventually("the other mount shows the directory", || other.is_dir());
        Self {
            here: Arc::new(FileStore::open(directory.path(), false).unwrap()),
            there: Arc::new(FileStore::open(&other, false).unwrap()),
            who: Principal::new("root"),
            path: StorePath::parse("/f").unwrap(),
            _directory: directory,
        }
    }

    async fn create(&self) -> Box<dyn FileWriter> {
        self.here.create(&self.who, &self.path, &CreateOptions::default()).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs two mounts of a GlusterFS volume: scripts/with-gluster.sh"]
async fn a_file_has_one_writer_on_all_hosts() {
    let scene = Scene::new();
    let mut writer = scene.create().await;
    writer.append(Bytes::from_static(b"here")).await.unwrap();
    writer.flush().await.unwrap();
    let refused = scene.there.append(&scene.who, &scene.path).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    let overwrite = CreateOptions { overwrite: true, ..CreateOptions::default() };
    let refused = scene.there.create(&scene.who, &scene.path, &overwrite).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert_eq!(scene.there.read_all(&scene.who, &scene.path, 99).await.unwrap(), b"here");
    writer.close().await.unwrap();

    let mut writer = scene.there.append(&scene.who, &scene.path).await.unwrap();
    writer.append(Bytes::from_static(b" and there")).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(scene.here.read_all(&scene.who, &scene.path, 99).await.unwrap(), b"here and there");
}

/// The reader gets the bytes of the file that it opened, or an error, but none of the new file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs two mounts of a GlusterFS volume: scripts/with-gluster.sh"]
async fn a_reader_gets_no_bytes_of_a_file_that_another_host_put_in_place_of_its_own() {
    let scene = Scene::new();
    let old = vec![b'o'; 2 * MAX_CHUNK_BYTES];
    let new = vec![b'n'; 2 * MAX_CHUNK_BYTES];
    let options = CreateOptions::default();
    scene.here.write_all(&scene.who, &scene.path, &options, old.clone().into()).await.unwrap();
    let reader = scene.there.open(&scene.who, &scene.path).await.unwrap();
    let next = StorePath::parse("/next").unwrap();
    scene.here.write_all(&scene.who, &next, &options, new.clone().into()).await.unwrap();
    scene.here.rename(&scene.who, &next, &scene.path, true).await.unwrap();
    for offset in [0, MAX_CHUNK_BYTES] {
        match reader.read_at(offset as u64, MAX_CHUNK_BYTES).await {
            Ok(bytes) => assert!(bytes == old[offset..offset + MAX_CHUNK_BYTES], "bytes of another file"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
    let now = scene.there.open(&scene.who, &scene.path).await.unwrap();
    assert!(now.identity().is_none() || now.identity() != reader.identity());
    assert_eq!(now.read_at(0, 4).await.unwrap(), &new[..4]);
}

/// Puts `pieces` of 1 MiB in the place of a file: the first error.
async fn written(store: &FileStore, path: &StorePath, pieces: usize) -> strait_store::Result<()> {
    let overwrite = CreateOptions { overwrite: true, ..CreateOptions::default() };
    let mut writer = store.create(&Principal::new("root"), path, &overwrite).await?;
    for _ in 0..pieces {
        writer.append(vec![1; 1 << 20].into()).await?;
    }
    writer.close().await.map(drop)
}

/// The volume is small and, as GlusterFS does by default, accepts writes before it has stored them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a small GlusterFS volume: scripts/with-gluster.sh"]
async fn errors_that_come_late_fail_the_close_at_the_latest() {
    let store = FileStore::open(mount("STRAIT_TEST_SMALL_DIRECTORY"), false).unwrap();
    let (who, path) = (Principal::new("root"), StorePath::parse("/f").unwrap());
    let mut writer = store.create(&who, &path, &CreateOptions::default()).await.unwrap();
    writer.append(vec![1; 1 << 20].into()).await.unwrap();
    let volume = std::env::var("STRAIT_TEST_SMALL_VOLUME").expect("the small volume's name");
    let gluster = |action: &str| {
        let mut command = Command::new("gluster");
        command.args(["--mode=script", "volume", action, &volume, "force"]);
        assert!(command.status().unwrap().success(), "gluster volume {action}");
    };
    gluster("stop");
    let lost = async {
        writer.append(vec![2; 1 << 20].into()).await?;
        writer.close().await
    };
    let lost = lost.await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unavailable, "{lost}");
    drop(writer);
    gluster("start");
    eventually("the volume is back", || store_is_back(&store));

    let full = written(&store, &path, 96).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::NoSpace, "{full}");
    store.remove(&who, &path, false).await.unwrap();
    // A brick looks for free space every few seconds, and refuses writes until then.
    let is_written = async || match written(&store, &path, 4).await {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            false
        }
    };
    eventually_task("there is space again", is_written).await;
    assert_eq!(store.stat(&who, &path).await.unwrap().length, 4 << 20);
}

fn store_is_back(store: &FileStore) -> bool {
    let (runtime, who, root) = (tokio::runtime::Handle::current(), Principal::new("root"), StorePath::root());
    let listed = store.list_all(&who, &root, 99);
    tokio::task::block_in_place(|| runtime.block_on(listed)).is_ok()
}
