//! The file store's promises beyond the contract.

use crate::common::{Place, kind_of, me, path};
use bytes::Bytes;
use futures::FutureExt;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::time::Duration;
use strait_store::{
    CreateOptions, ErrorKind, FileStore, FileSystem, FileSystemExt, MAX_CHUNK_BYTES, SetAttributes,
    append_all,
};

#[test]
fn opening_a_root_that_cannot_be_one_says_so_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), b"").unwrap();
    let missing = directory.path().join("missing");
    let beneath_file = directory.path().join("file/root");
    for (root, create, kind, words) in [
        (missing.as_path(), false, ErrorKind::NotFound, "can't be opened"),
        (&directory.path().join("file"), false, ErrorKind::NotADirectory, "can't be opened"),
        (&beneath_file, true, ErrorKind::NotADirectory, "can't be made"),
    ] {
        let error = FileStore::open(root, create).err().expect("it can't be opened");
        assert_eq!(error.kind(), kind, "{error}");
        let line = error.to_string();
        assert!(
            line.contains(words) && line.contains(root.to_str().unwrap()) && !line.contains('\n'),
            "{line}"
        );
    }
    let made = FileStore::open(&missing, true).expect("it is made");
    made.check_writable().expect("it can be written");
    assert_eq!(std::fs::read_dir(missing).unwrap().count(), 0, "the probe leaves nothing behind");
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_can_be_read() {
    // Even the superuser can't make files there.
    let store = FileStore::open("/proc/self", false).unwrap();
    let error = store.check_writable().unwrap_err();
    assert!(error.message().contains("can't be written"), "{error}");
    assert!(!store.stat(&me(), &path("/status")).await.unwrap().is_directory());
}

#[tokio::test]
async fn special_files_are_listed_but_never_opened() {
    let place = Place::new();
    let (fs, me) = (&place.store, &me());
    let _socket = std::os::unix::net::UnixListener::bind(place.inside("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.inside("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let overwrite = CreateOptions { overwrite: true, ..Default::default() };
    // An open of the FIFO would wait for its other end.
    let all = async {
        assert_eq!(place.names("/").await.unwrap(), ["fifo", "socket"]);
        for name in ["/fifo", "/socket"] {
            let at = path(name);
            assert_eq!(fs.stat(me, &at).await.unwrap().length, 0);
            assert_eq!(kind_of(fs.open(me, &at).await), ErrorKind::InvalidArgument);
            assert_eq!(kind_of(fs.append(me, &at).await), ErrorKind::InvalidArgument);
            assert_eq!(kind_of(fs.truncate(me, &at, 0).await), ErrorKind::InvalidArgument);
            assert_eq!(kind_of(fs.create(me, &at, &overwrite).await), ErrorKind::InvalidArgument);
            assert_eq!(
                kind_of(fs.list_all(me, &path(&format!("{name}/x")), 9).await),
                ErrorKind::NotADirectory
            );
            fs.rename(me, &at, &path("/renamed"), false).await.unwrap();
            fs.remove(me, &path("/renamed"), false).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("nothing waits");
}

#[tokio::test]
async fn no_set_id_file_can_be_made() {
    let place = Place::new();
    place.write("/f", b"#!/bin/sh\n").await.unwrap();
    for permission in [0o4755, 0o2755, 0o6777] {
        let set = SetAttributes { permission: Some(permission), ..Default::default() };
        let changed = place.store.set_attributes(&me(), &path("/f"), &set).await;
        assert_eq!(kind_of(changed), ErrorKind::PermissionDenied);
        let options = CreateOptions { permission: Some(permission), overwrite: true, ..Default::default() };
        let created = place.store.create(&me(), &path("/g"), &options).await;
        assert_eq!(kind_of(created), ErrorKind::PermissionDenied);
    }
    assert_eq!(std::fs::metadata(place.inside("f")).unwrap().mode() & 0o7777, 0o644);
    assert!(!place.inside("g").exists());
    place.store.mkdirs(&me(), &path("/d"), Some(0o2775)).await.expect("on a directory it only sets groups");
}

/// As the kernel does for write(2) by a process without the right to keep them. Run as root this
/// shows the store's own work, otherwise the kernel's.
#[tokio::test]
async fn append_and_truncate_clear_set_id_bits() {
    let place = Place::new();
    let mode = |name: &str| std::fs::metadata(place.inside(name)).unwrap().mode() & 0o7777;
    for (name, before, after) in
        [("user", 0o4755, 0o755), ("group", 0o2755, 0o755), ("both", 0o6771, 0o771), ("lock", 0o2644, 0o2644)]
    {
        let set = || std::fs::set_permissions(place.inside(name), PermissionsExt::from_mode(before)).unwrap();
        let file = path(&format!("/{name}"));
        std::fs::write(place.inside(name), b"#!/bin/sh\n").unwrap();
        set();
        place.store.truncate(&me(), &file, 2).await.unwrap();
        assert_eq!(mode(name), after, "{name} after a truncate");
        set();
        let mut writer = place.store.append(&me(), &file).await.unwrap();
        assert_eq!(mode(name), before, "{name}: nothing was written yet");
        writer.append(Bytes::from_static(b"/bin/sh")).await.unwrap();
        assert_eq!(mode(name), after, "{name} after an append");
        set();
        writer.append(Bytes::from_static(b"\n")).await.unwrap();
        assert_eq!(mode(name), after, "{name}: the bits came back between two appends");
        writer.close().await.unwrap();
    }
}

#[test]
fn a_planted_pipe_or_link_does_not_disturb_the_probe_for_writing() {
    let place = Place::new();
    let root = place.inside("");
    // The path of a probe whose name others could predict.
    let planted = root.join(format!(".strait-probe-{}", std::process::id()));
    rustix::fs::mkfifoat(rustix::fs::CWD, &planted, rustix::fs::Mode::RWXU).unwrap();
    let (checked, told) = std::sync::mpsc::channel();
    let store = place.store.clone();
    std::thread::spawn(move || checked.send(store.check_writable()));
    told.recv_timeout(Duration::from_secs(20)).expect("it doesn't wait for a reader").unwrap();
    let names: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names, [planted], "what is planted stays, and the probe is gone");
}

#[tokio::test]
async fn a_writer_in_another_process_holds_the_file_until_it_dies() {
    let place = Place::new();
    place.write("/f", b"content").await.unwrap();
    // flock(1) of util-linux: the same lock as the store's.
    let mut other = Command::new("flock")
        .args(["--exclusive", place.inside("f").to_str().unwrap(), "sh", "-c", "echo locked; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut locked = String::new();
    let mut output = std::io::BufReader::new(other.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut locked).unwrap();
    assert_eq!(locked, "locked\n");
    assert_eq!(kind_of(place.store.append(&me(), &path("/f")).await), ErrorKind::Busy);
    other.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(other.wait().unwrap().success());
    place.store.append(&me(), &path("/f")).await.expect("the lock is gone").close().await.unwrap();
}

#[tokio::test]
async fn an_append_whose_future_is_dropped_keeps_the_order() {
    let place = Place::new();
    let mut writer = place.store.create(&me(), &path("/f"), &CreateOptions::default()).await.unwrap();
    for round in 0..100_u8 {
        let dropped = writer.append(Bytes::from(vec![round; 100_000])).now_or_never();
        assert!(dropped.is_none_or(|outcome| outcome.is_ok()));
        writer.append(Bytes::from(vec![round; 10])).await.unwrap();
        assert_eq!(writer.position(), (u64::from(round) + 1) * 100_010);
    }
    writer.close().await.unwrap();
    let content = std::fs::read(place.inside("f")).unwrap();
    assert!(
        content
            .chunks(100_010)
            .enumerate()
            .all(|(round, chunk)| chunk.iter().all(|&b| usize::from(b) == round))
    );
}

#[tokio::test]
async fn a_full_disk_is_no_space_and_leaves_the_position_true() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(directory.path()) else {
        return strait_testkit::skip("a full disk of a directory store", "root, for a tmpfs");
    };
    let store = FileStore::open(directory.path(), false).unwrap();
    let at = path("/f");
    let mut writer = store.create(&me(), &at, &CreateOptions::default()).await.unwrap();
    let chunk = Bytes::from(vec![7; 700_000]);
    writer.append(chunk.clone()).await.unwrap();
    assert_eq!(kind_of(writer.append(chunk.clone()).await), ErrorKind::NoSpace);
    assert_eq!(writer.position(), 700_000);
    assert_eq!(store.stat(&me(), &at).await.unwrap().length, 700_000, "the part that went in is cut off");
    append_all(writer.as_mut(), Bytes::from_static(b"fits")).await.unwrap();
    writer.close().await.unwrap();
    let content = store.read_all(&me(), &at, 1 << 20).await.unwrap();
    assert_eq!((content.len(), &content[700_000..]), (700_004, &b"fits"[..]));
}

/// A file system of one mebibyte.
struct SmallDisk<'a>(&'a std::path::Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a std::path::Path) -> Option<Self> {
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).output().ok()?;
        mount.status.success().then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[tokio::test]
async fn a_tree_deeper_than_any_path_is_removed() {
    let place = Place::new();
    // Moved into one another, trees become deeper than any path can name.
    let (fs, me) = (&place.store, &me());
    let branch = "/d".repeat(900);
    for _ in 0..5 {
        fs.mkdirs(me, &path(&format!("/new{branch}")), None).await.unwrap();
        if place.inside("old").exists() {
            fs.rename(me, &path("/old"), &path(&format!("/new{branch}/old")), false).await.unwrap();
        }
        fs.rename(me, &path("/new"), &path("/old"), false).await.unwrap();
    }
    fs.remove(me, &path("/old"), true).await.unwrap();
    assert_eq!(place.names("/").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_tree_wider_than_a_batch_is_removed() {
    let place = Place::new();
    for n in 0..700 {
        std::fs::create_dir_all(place.inside(&format!("wide/d{n}/e"))).unwrap();
        std::fs::write(place.inside(&format!("wide/d{n}/f")), b"").unwrap();
    }
    place.store.remove(&me(), &path("/wide"), true).await.unwrap();
    assert!(!place.inside("wide").exists());
}

#[tokio::test]
async fn a_name_that_is_no_text_is_listed_all_the_same() {
    let place = Place::new();
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"latin-\xe9");
    std::fs::write(place.inside("").join(name), b"").unwrap();
    assert_eq!(place.names("/").await.unwrap(), ["latin-\u{10fee9}"]);
}

#[tokio::test]
async fn a_reader_sees_what_is_appended_after_it_was_opened() {
    let place = Place::new();
    place.write("/f", b"begun").await.unwrap();
    let reader = place.store.open(&me(), &path("/f")).await.unwrap();
    let mut writer = place.store.append(&me(), &path("/f")).await.unwrap();
    append_all(writer.as_mut(), Bytes::from(vec![1; 200_000])).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(reader.read_at(5, 10).await.unwrap(), vec![1; 10]);
    assert_eq!(reader.read_at(5, MAX_CHUNK_BYTES).await.unwrap().len(), 200_000);
}

#[tokio::test]
async fn small_and_large_reads_agree_cached_or_not() {
    let place = Place::new();
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(place.inside("f"), &content).unwrap();
    let file = std::fs::File::open(place.inside("f")).unwrap();
    file.sync_all().unwrap();
    let reader = place.store.open(&me(), &path("/f")).await.unwrap();
    for cold in [true, false] {
        for (offset, length) in
            [(0, 100), (65_000, 262_144), (65_000, 262_145), (999_000, 5_000), (1, 999_999)]
        {
            if cold {
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            }
            let read = reader.read_at(offset as u64, length).await.unwrap();
            assert!(
                read == content[offset..(offset + length).min(content.len())],
                "{length} bytes from {offset}"
            );
        }
    }
}

#[tokio::test]
async fn permissions_are_exact_whatever_the_umask() {
    let place = Place::new();
    let options = CreateOptions { permission: Some(0o666), ..Default::default() };
    place.store.write_all(&me(), &path("/a/f"), &options, Bytes::new()).await.unwrap();
    place.store.mkdirs(&me(), &path("/d"), Some(0o777)).await.unwrap();
    let mode = |name| std::fs::metadata(place.inside(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("a"), mode("a/f"), mode("d")), (0o755, 0o666, 0o777));
}
