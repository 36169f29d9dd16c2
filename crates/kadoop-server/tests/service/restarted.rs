//! Writers whose datanodes have been restarted, and serve at other addresses, or are lost.

use crate::{
    processes::{DatanodeProcess, NamenodeProcess, Site, WriterProcess},
    support::{Cluster, client, client_at, key, namenode_options, pattern, superuser},
};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};
use strait_kadoop_client::{Client, CreateOptions, Writer};
use strait_kadoop_core::Error;
use strait_kadoop_server::NamenodeOptions;
use strait_testkit::wait::{eventually, within};

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

/// Once, the client asked only once that the file be closed. It kept the lease, since it renews all of its
/// leases, and nobody could read the bytes.
#[test]
fn bytes_of_a_writer_that_was_dropped_while_the_namenode_started_are_read_soon() {
    let mut cluster = Cluster::start(REPLICATION);
    let listen = cluster.namenode.address();
    let client = client(&cluster.namenode);
    let bytes = pattern(100_000);
    let mut dropped = begin(&client, &bytes);
    dropped.sync().unwrap();
    let mut open = client.create(&superuser(), "/other", &CreateOptions::default()).unwrap();
    let options = namenode_options(&cluster.directory.path().join("namenode"));
    cluster.restart_slowly(NamenodeOptions { listen, ..options }, || {
        drop(dropped);
        // Until a datanode joins, the namenode lets each change wait for 3 s, and then refuses it. Another thread
        // sends the dropped writer's request, at about the time of the first call. So the namenode has refused
        // that request, too, before the second call ends.
        for _ in 0..2 {
            let refused = client.mkdirs(&superuser(), "/early", 0o755).map_err(|failure| failure.error);
            assert_eq!(refused, Err(Error::NoDatanodes));
        }
    });
    let start = Instant::now();
    let reader = client.open(&superuser(), "/file").unwrap();
    assert!(reader.read_at(0, bytes.len() + 1).unwrap() == bytes);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    open.write("goes on").unwrap();
    open.close().unwrap();
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
        eventually("the chunk has its replicas", || {
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
    eventually("the file is closed with what is left", || {
        let status = client.stat(&superuser(), "/file").unwrap();
        (status.open, status.length) == (false, 0)
    });
}

/// Cuts off unsynced bytes, as a power failure may.
fn cut_open_replicas(directory: &Path, length: usize) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "open") {
            fs::File::options().write(true).open(path).unwrap().set_len(length as u64).unwrap();
        }
    }
}

/// Once, they were unreadable until the writer's program closed the file: the failed writer kept its
/// lease.
#[test]
fn synced_bytes_are_read_soon_though_later_ones_are_lost_and_their_writer_is_idle() {
    const SYNCED: usize = 100_000;
    let mut cluster = Cluster::start(REPLICATION);
    let client = client(&cluster.namenode);
    let bytes = pattern(200_000);
    let mut writer = begin(&client, &bytes.slice(..SYNCED));
    writer.sync().unwrap();
    writer.write(bytes.slice(SYNCED..)).unwrap();
    writer.flush().unwrap();
    let root = cluster.directory.path().to_owned();
    cluster.restart_datanodes(|| {
        for number in 0..REPLICATION {
            cut_open_replicas(&root.join(format!("datanode-{number}")), SYNCED);
        }
    });
    within("the synced bytes are there", SOON, || {
        let read = client.open(&superuser(), "/file").and_then(|reader| reader.read_at(0, bytes.len()));
        read.is_ok_and(|read| read == bytes[..SYNCED])
    });
    assert_eq!(writer.close().unwrap_err().error, Error::BytesLost);
}

/// A namenode and datanodes as processes, all with this host's addresses.
struct Processes {
    namenode: NamenodeProcess,
    datanodes: Vec<DatanodeProcess>,
    client: Client,
    _scratch: tempfile::TempDir,
}

impl Processes {
    fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let namenode = NamenodeProcess::start(Site::new(&scratch.path().join("namenode")));
        let datanode = |number: usize| {
            let site = Site::new(&scratch.path().join(format!("datanode-{number}")));
            DatanodeProcess::start(site, &namenode.address)
        };
        let datanodes = (0..REPLICATION).map(datanode).collect();
        let client = client_at(&namenode.address);
        eventually("the datanodes are there", || {
            client.status().is_ok_and(|status| !status.safe_mode && status.nodes.len() == REPLICATION)
        });
        Self { namenode, datanodes, client, _scratch: scratch }
    }

    fn kill(&mut self) {
        self.namenode.kill();
        self.datanodes.iter_mut().for_each(DatanodeProcess::kill);
    }
}

#[test]
fn synced_bytes_are_read_soon_after_the_whole_cluster_has_restarted_without_later_ones() {
    const SYNCED: usize = 100_000;
    let mut cluster = Processes::start();
    let bytes = pattern(200_000);
    let mut writer = begin(&cluster.client, &bytes.slice(..SYNCED));
    writer.sync().unwrap();
    writer.write(bytes.slice(SYNCED..)).unwrap();
    writer.flush().unwrap();
    cluster.kill();
    cluster.datanodes.iter().for_each(|datanode| cut_open_replicas(datanode.data(), SYNCED));
    cluster.namenode.kill_and_start();
    cluster.datanodes.iter_mut().for_each(DatanodeProcess::kill_and_start);
    within("the synced bytes are there", SOON, || {
        let read = cluster.client.open(&superuser(), "/file");
        let read = read.and_then(|reader| reader.read_at(0, bytes.len()));
        read.is_ok_and(|read| read == bytes[..SYNCED])
    });
    assert_eq!(writer.close().unwrap_err().error, Error::BytesLost);
}

/// Once, the namenode did nothing about it and forgot it. A client that lost its writer then never
/// asked again, and kept the lease as long as it lived.
#[test]
fn a_lease_that_is_given_up_in_safe_mode_ends_though_nobody_asks_again() {
    let mut cluster = Processes::start();
    let writer = begin(&cluster.client, &pattern(100));
    cluster.kill();
    cluster.namenode.kill_and_start();
    let other = client_at(&cluster.namenode.address);
    // Before the first datanode is heard, the namenode refuses all changes.
    cluster.datanodes[0].kill_and_start();
    within("it takes changes", SOON, || other.recover_lease(&superuser(), "/file").is_ok());
    assert!(other.status().unwrap().safe_mode);
    cluster.datanodes[1].kill_and_start();
    within("the file is closed", SOON, || !other.stat(&superuser(), "/file").unwrap().open);
    drop(writer);
}
