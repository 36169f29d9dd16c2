//! Files' bytes, written and read over sockets.

use crate::{
    rack::skip,
    support::{Cluster, DEADLINE, client, client_over_tcp, namenode_options, pattern, superuser},
};
use std::{
    os::unix::fs::FileExt as _,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use strait_kadoop_client::CreateOptions;
use strait_kadoop_core::Error;
use strait_kadoop_server::NamenodeServer;
use strait_testkit::SmallDisk;
use strait_testkit::wait::{eventually, obtained, pause, stays};

fn replicated(replication: u16) -> CreateOptions {
    CreateOptions { replication, chunk_bytes: 3 << 20, ..CreateOptions::default() }
}

#[test]
fn what_is_written_is_read_with_one_replica_and_with_three() {
    let cluster = Cluster::start(3);
    let client = client(&cluster.namenode);
    for replication in [1, 3] {
        let (path, bytes) = (format!("/file-{replication}"), pattern(10_000_001));
        let mut writer = client.create(&superuser(), &path, &replicated(replication)).unwrap();
        for part in bytes.chunks(700_000) {
            writer.write(part.to_vec()).unwrap();
        }
        writer.close().unwrap();
        assert_eq!(writer.length(), bytes.len() as u64);
        let status = client.stat(&superuser(), &path).unwrap();
        assert_eq!((status.length, status.open), (bytes.len() as u64, false));
        let reader = client.open(&superuser(), &path).unwrap();
        assert_eq!(reader.length(), bytes.len() as u64);
        assert!(reader.read_at(0, bytes.len() + 5).unwrap() == bytes);
        assert!(reader.read_at(3_000_000, 200_000).unwrap() == bytes[3_000_000..3_200_000]);
        assert!(reader.read_at(bytes.len() as u64, 1).unwrap().is_empty());
        for location in client.locations(&superuser(), &path, 0, u64::MAX).unwrap() {
            assert_eq!(location.hosts.len(), replication.into());
        }
    }
}

#[test]
fn a_reader_in_sequence_gets_every_byte_in_order() {
    let cluster = Cluster::start(1);
    let client = client(&cluster.namenode);
    let bytes = pattern(9 << 20);
    let mut writer = client.create(&superuser(), "/file", &replicated(1)).unwrap();
    writer.write(bytes.clone()).unwrap();
    writer.close().unwrap();
    let mut reader = client.open(&superuser(), "/file").unwrap();
    let mut read = Vec::new();
    loop {
        let part = reader.read(64 << 10).unwrap();
        if part.is_empty() {
            break;
        }
        read.extend_from_slice(&part);
    }
    assert!(read == bytes);
}

#[test]
fn what_was_flushed_is_seen_and_what_was_appended_follows() {
    let cluster = Cluster::start(3);
    let client = client(&cluster.namenode);
    let mut writer = client.create(&superuser(), "/log", &replicated(3)).unwrap();
    writer.write("one ").unwrap();
    writer.flush().unwrap();
    let reader = client.open(&superuser(), "/log").unwrap();
    assert_eq!(reader.read_at(0, 99).unwrap(), "one ");
    let busy = client.append(&superuser(), "/log").unwrap_err();
    assert_eq!(busy.error, Error::Busy);
    writer.write("two ").unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    let mut again = client.append(&superuser(), "/log").unwrap();
    assert_eq!(again.length(), 8);
    again.write("three").unwrap();
    again.close().unwrap();
    let reader = client.open(&superuser(), "/log").unwrap();
    assert_eq!(reader.read_at(0, 99).unwrap(), "one two three");
}

#[test]
fn a_file_whose_writer_was_dropped_keeps_what_was_flushed_and_can_be_written_again() {
    let cluster = Cluster::start(2);
    let client = client(&cluster.namenode);
    let mut writer = client.create(&superuser(), "/log", &replicated(2)).unwrap();
    writer.write("kept").unwrap();
    writer.flush().unwrap();
    drop(writer);
    let mut again = obtained("another writer", || client.append(&superuser(), "/log").ok());
    again.write(", and more").unwrap();
    again.close().unwrap();
    let reader = client.open(&superuser(), "/log").unwrap();
    assert_eq!(reader.read_at(0, 99).unwrap(), "kept, and more");
}

#[test]
fn restarts_of_namenode_and_datanodes_find_all_data() {
    let mut cluster = Cluster::start(3);
    let bytes = pattern(5_000_000);
    {
        let client = client(&cluster.namenode);
        let mut writer = client.create(&superuser(), "/file", &replicated(2)).unwrap();
        writer.write(bytes.clone()).unwrap();
        writer.close().unwrap();
    }
    cluster.restart();
    let client = client(&cluster.namenode);
    let reader = client.open(&superuser(), "/file").unwrap();
    assert!(reader.read_at(0, bytes.len()).unwrap() == bytes);
}

#[test]
fn a_replica_that_cant_be_opened_keeps_no_datanode_from_starting_with_the_others() {
    let mut cluster = Cluster::start(1);
    let bytes = pattern(10_000);
    let write = |path: &str| {
        let mut writer = client(&cluster.namenode).create(&superuser(), path, &replicated(1)).unwrap();
        writer.write(bytes.clone()).unwrap();
        writer.close().unwrap();
    };
    write("/lost");
    let data = cluster.directory.path().join("datanode-0");
    let sealed = || {
        let entries = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "data")).collect::<Vec<_>>()
    };
    // The cluster's start has written and removed a file, whose replica may still be there.
    let lost = sealed().into_iter().max().unwrap();
    write("/kept");
    // Make a directory of that name, so that no file can be opened there.
    std::fs::remove_file(&lost).unwrap();
    std::fs::create_dir(&lost).unwrap();
    cluster.restart();
    let client = client(&cluster.namenode);
    let read = |path: &str| client.open(&superuser(), path)?.read_at(0, bytes.len());
    assert_eq!(read("/kept").unwrap(), bytes);
    assert_eq!(read("/lost").unwrap_err().error, Error::Unavailable);
}

/// Once, they were 0 bytes for some readers.
#[test]
fn what_was_flushed_counts_for_whoever_opens_or_looks_at_the_path_after_it() {
    let mut cluster = Cluster::start(2);
    let (client, other) = (client(&cluster.namenode), client_over_tcp(&cluster.namenode));
    let bytes = pattern(4_000_000);
    let mut writer = client.create(&superuser(), "/file", &replicated(2)).unwrap();
    for (end, sync) in [(700_000, true), (700_001, false), (4_000_000, true)] {
        writer.write(bytes.slice(writer.length() as usize..end)).unwrap();
        if sync { writer.sync() } else { writer.flush() }.unwrap();
        let reader = other.open(&superuser(), "/file").unwrap();
        assert_eq!(reader.length(), end as u64);
        assert_eq!(other.stat(&superuser(), "/file").unwrap().length, end as u64);
        assert!(reader.read_at(0, end + 1).unwrap() == bytes[..end]);
    }
    // Without datanodes, what the namenode knows of counts.
    cluster.datanode_addresses().into_iter().for_each(|address| cluster.stop(address));
    let began = Instant::now();
    assert_eq!(other.stat(&superuser(), "/file").unwrap().length, 3 << 20);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn a_look_at_a_file_ends_though_its_writer_goes_on_and_on() {
    let cluster = Cluster::start(1);
    let (client, other) = (client(&cluster.namenode), client_over_tcp(&cluster.namenode));
    let mut writer = client.create(&superuser(), "/file", &replicated(1)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                writer.write(pattern(1_000)).unwrap();
                writer.flush().unwrap();
            }
        });
        for _ in 0..5 {
            let began = Instant::now();
            other.stat(&superuser(), "/file").unwrap();
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn bytes_that_are_damaged_on_every_datanode_are_told_at_once_with_their_places() {
    let cluster = Cluster::start(2);
    let client = client_over_tcp(&cluster.namenode);
    let bytes = pattern(200_000);
    let mut writer = client.create(&superuser(), "/file", &replicated(2)).unwrap();
    writer.write(bytes.clone()).unwrap();
    writer.close().unwrap();
    for number in 0..2 {
        let data = cluster.directory.path().join(format!("datanode-{number}"));
        let entries = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| path.to_string_lossy().ends_with(&format!("_{:08x}.data", 200_000));
        let file = std::fs::File::options().write(true).open(entries.filter(is_it).last().unwrap()).unwrap();
        file.write_all_at(&[bytes[100_000] ^ 1], 100_000).unwrap();
    }
    let without_good = || client.locations(&superuser(), "/file", 0, 1).unwrap()[0].hosts.is_empty();
    // The first reader finds the damage; the next ones, that the namenode knows of it.
    for _ in 0..3 {
        let began = Instant::now();
        let reader = client.open(&superuser(), "/file").unwrap();
        let refused = reader.read_at(99_000, 2_000).unwrap_err();
        assert_eq!(refused.error, Error::Corrupt, "{refused}");
        for address in cluster.datanode_addresses() {
            assert!(refused.why.contains(&address.to_string()), "{refused}");
        }
        assert!(reader.read_at(0, 50_000).unwrap() == bytes[..50_000], "the other parts are sound");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        eventually("the namenode knows of the damage", without_good);
    }
}

#[test]
fn a_datanode_that_ends_is_replaced_under_the_writer_and_under_the_reader() {
    let mut cluster = Cluster::start(4);
    let client = client(&cluster.namenode);
    let bytes = pattern(12 << 20);
    let mut writer = client.create(&superuser(), "/file", &replicated(2)).unwrap();
    writer.write(bytes.slice(..5 << 20)).unwrap();
    writer.flush().unwrap();
    let holder = client.locations(&superuser(), "/file", 0, 1).unwrap()[0].hosts[0].address;
    cluster.stop(holder);
    writer.write(bytes.slice(5 << 20..)).unwrap();
    writer.close().unwrap();
    let reader = client.open(&superuser(), "/file").unwrap();
    assert!(reader.read_at(0, 6 << 20).unwrap() == bytes[..6 << 20]);
    let next = client.locations(&superuser(), "/file", 7 << 20, 1).unwrap()[0].hosts[0].address;
    eventually("the first chunks are copied", || {
        let there = client.locations(&superuser(), "/file", 0, u64::MAX).unwrap();
        there.iter().all(|part| part.hosts.iter().filter(|host| host.address != holder).count() >= 2)
    });
    cluster.stop(next);
    assert!(reader.read_at(0, bytes.len()).unwrap() == bytes);
}

#[test]
fn a_writer_keeps_its_file_when_the_client_that_it_came_from_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = namenode_options(directory.path());
    (options.config.lease_soft_ms, options.config.lease_hard_ms) = (2_000, 3_000);
    let namenode = NamenodeServer::start(options).unwrap();
    let mut writer = client(&namenode).create(&superuser(), "/file", &replicated(1)).unwrap();
    let other = client(&namenode);
    let is_kept = || other.append(&superuser(), "/file").unwrap_err().error == Error::Busy;
    stays("the writer keeps it beyond its lease's limits", Duration::from_secs(5), is_kept);
    writer.flush().unwrap();
}

#[test]
fn a_file_that_is_renamed_is_read_on_and_one_that_is_replaced_isnt_taken_for_it() {
    const TOKEN: Duration = Duration::from_millis(50);
    let mut cluster = Cluster::start(1);
    let mut options = namenode_options(&cluster.directory.path().join("namenode"));
    options.token_ms = TOKEN.as_millis() as u64;
    cluster.restart_with(options);
    let client = client_over_tcp(&cluster.namenode);
    let put = |bytes: &'static str| {
        let mut writer = client.create(&superuser(), "/f", &replicated(1)).unwrap();
        writer.write(bytes).unwrap();
        writer.close().unwrap();
    };
    put("what was opened");
    let reader = client.open(&superuser(), "/f").unwrap();
    client.rename(&superuser(), "/f", "/elsewhere", false).unwrap();
    // From then on the reader has to locate the file before each read.
    pause("until its token has expired", TOKEN);
    assert_eq!(reader.read_at(5, 3).unwrap(), "was");
    put("another");
    pause("until its tokens have expired", 2 * TOKEN);
    assert_eq!(reader.read_at(9, 6).unwrap(), "opened");
    client.delete(&superuser(), "/elsewhere", false).unwrap();
    eventually(
        "the reader learns that it is gone",
        || matches!(reader.read_at(0, 4), Err(failure) if failure.error == Error::NotFound),
    );
}

/// Once, the full one had the fewest replicas, and so got every new one.
#[test]
fn a_datanode_with_a_full_directory_writes_to_its_others() {
    const SMALL_DISK_BYTES: u64 = 4 << 20;
    if !rustix::process::geteuid().is_root() {
        return skip("a full directory beside another");
    }
    let mut cluster = Cluster::start(0);
    let disk = SmallDisk::new(SMALL_DISK_BYTES).unwrap();
    let mut options = cluster.datanode_options(0);
    options.directories.insert(0, disk.path().join("data"));
    // The reserve leaves no room on the small one.
    options.reserve_bytes = SMALL_DISK_BYTES;
    cluster.add(options);
    cluster.await_datanodes();
    let client = client(&cluster.namenode);
    let start = Instant::now();
    for number in 0..6 {
        let path = format!("/file-{number}");
        let mut writer = client.create(&superuser(), &path, &replicated(1)).unwrap();
        writer.write(pattern(100_000)).unwrap();
        writer.close().unwrap();
        assert_eq!(writer.length(), 100_000);
    }
    assert!(start.elapsed() < DEADLINE / 2, "{:?}", start.elapsed());
}
