//! Writers whose datanodes have been restarted, and serve at other addresses, or are lost.

use crate::{
    processes::{Site, WriterProcess},
    support::{Cluster, DEADLINE, client, key, pattern, superuser},
};
use std::{
    fs,
    time::{Duration, Instant},
};
use strait_kadoop::{
    Client, Error,
    service::{CreateOptions, Writer},
};
use strait_testkit::eventually;

const REPLICATION: usize = 2;
/// Time until datanodes have joined again and obeyed recovery's orders: far less than the 45 s
/// after which a writer fails.
const SOON: Duration = Duration::from_secs(10);

/// A writer with these bytes in the memory of all its datanodes.
fn begin(client: &Client, bytes: &bytes::Bytes) -> Writer {
    let options = CreateOptions { replication: REPLICATION as u16, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), "/file", &options).unwrap();
    writer.write(bytes.clone()).unwrap();
    writer.flush().unwrap();
    writer
}

/// Once, it tried for 45 s to have the chunk sealed at the datanodes' old addresses.
#[test]
fn a_writer_goes_on_behind_what_its_restarted_datanodes_have() {
    let mut cluster = Cluster::start(REPLICATION);
    let client = client(&cluster.namenode);
    let bytes = pattern(300_000);
    let mut writer = begin(&client, &bytes.slice(..100_000));
    cluster.restart_datanodes(|| ());
    let start = Instant::now();
    writer.write(bytes.slice(100_000..)).unwrap();
    writer.sync().unwrap();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    writer.close().unwrap();
    let reader = client.open(&superuser(), "/file").unwrap();
    assert!(reader.read_at(0, bytes.len() + 1).unwrap() == bytes);
}

/// Once, readers waited until the writer's lease was over.
#[test]
fn bytes_that_a_dead_writer_synced_are_read_soon_after_its_datanodes_have_restarted() {
    let mut cluster = Cluster::start(REPLICATION);
    let site = Site::new(&cluster.directory.path().join("writer"));
    let mut writer = WriterProcess::start(site, &cluster.namenode.address().to_string());
    writer.kill();
    cluster.restart_datanodes(|| ());
    let start = Instant::now();
    let reader = client(&cluster.namenode).open(&superuser(), WriterProcess::FILE).unwrap();
    assert_eq!(reader.read_at(0, 99).unwrap(), WriterProcess::SYNCED);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

/// Once, nothing was repaired before the writer's next call.
#[test]
fn flushed_bytes_of_an_idle_writer_get_their_replicas_again() {
    let mut cluster = Cluster::start_with(4, key(), |mut options| {
        options.config.dead_ms = 4_000;
        options
    });
    let client = client(&cluster.namenode);
    let bytes = pattern(300_000);
    let mut writer = begin(&client, &bytes.slice(..100_000));
    let holders = || {
        let found = client.locations(&superuser(), "/file", 0, 100_000).unwrap();
        let hosts = found.iter().flat_map(|chunk| chunk.hosts.iter().map(|host| host.address));
        hosts.collect::<Vec<_>>()
    };
    // One after the other, all that had the bytes when they were flushed.
    for lost in holders() {
        cluster.stop(lost);
        eventually("the chunk has its replicas", DEADLINE, || {
            let holders = holders();
            holders.len() == REPLICATION && !holders.contains(&lost)
        });
    }
    let reader = client.open(&superuser(), "/file").unwrap();
    assert!(reader.read_at(0, bytes.len()).unwrap() == bytes[..100_000]);
    writer.write(bytes.slice(100_000..)).unwrap();
    writer.close().unwrap();
    let reader = client.open(&superuser(), "/file").unwrap();
    assert!(reader.read_at(0, bytes.len() + 1).unwrap() == bytes);
}

#[test]
fn a_writer_is_told_at_once_and_of_which_file_that_its_datanodes_lost_what_it_flushed() {
    let mut cluster = Cluster::start(REPLICATION);
    let client = client(&cluster.namenode);
    let mut writer = begin(&client, &pattern(100_000));
    let root = cluster.directory.path().to_owned();
    // Removes unsynced names, as a power failure may.
    cluster.restart_datanodes(|| {
        for number in 0..REPLICATION {
            for entry in fs::read_dir(root.join(format!("datanode-{number}"))).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|kind| kind == "open" || kind == "sums") {
                    fs::remove_file(path).unwrap();
                }
            }
        }
    });
    let start = Instant::now();
    let failure = writer.write("more").and_then(|()| writer.flush()).unwrap_err();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert_eq!(failure.error, Error::BytesLost);
    assert!(failure.to_string().contains("/file"), "{failure}");
    assert_eq!(writer.close().unwrap_err().error, Error::BytesLost);
    drop(writer);
    eventually("the file is closed with what is left", DEADLINE, || {
        let status = client.stat(&superuser(), "/file").unwrap();
        (status.open, status.length) == (false, 0)
    });
}
