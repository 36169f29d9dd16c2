//! Orders and the end of a namenode reach datanodes at once, though their next heartbeats are far off.

use crate::support::{Cluster, client, config, key, superuser};
use std::time::{Duration, Instant};
use strait_kadoop_client::{Client, CreateOptions};
use strait_kadoop_core::{Config, messages::Attributes};
use strait_kadoop_server::{DatanodeOptions, NamenodeOptions, NamenodeServer};
use strait_testkit::wait::eventually;

const SELDOM_MS: u64 = 60_000;
/// Far less than the time between two heartbeats; a tick of the namenode is a second.
const SOON: Duration = Duration::from_secs(10);

fn seldom() -> Config {
    Config { heartbeat_ms: SELDOM_MS, stale_ms: 2 * SELDOM_MS, dead_ms: 3 * SELDOM_MS, ..config() }
}

/// A namenode and this many datanodes with few heartbeats.
fn start(datanodes: usize) -> Cluster {
    let mut cluster =
        Cluster::start_with(0, key(), |options| NamenodeOptions { config: seldom(), ..options });
    for number in 0..datanodes {
        let options = cluster.datanode_options(number);
        cluster.add(DatanodeOptions { config: seldom(), ..options });
    }
    cluster.await_datanodes();
    cluster
}

fn write(client: &Client, path: &str, replication: u16) {
    let options = CreateOptions { replication, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), path, &options).unwrap();
    writer.write("bytes").unwrap();
    writer.close().unwrap();
}

fn replicas(client: &Client, path: &str) -> usize {
    let found = client.locations(&superuser(), path, 0, 1).unwrap();
    found.first().map_or(0, |part| part.hosts.len())
}

#[test]
fn copies_are_ordered_from_datanodes_whose_heartbeats_are_far_off() {
    let cluster = start(3);
    let client = cluster.client();
    write(&client, "/f", 1);
    let start = Instant::now();
    for wanted in [2, 3] {
        let more = Attributes { replication: Some(wanted), ..Attributes::default() };
        client.set_attributes(&superuser(), "/f", more).unwrap();
        eventually("it is copied", || replicas(&client, "/f") == usize::from(wanted));
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn datanodes_join_a_restarted_namenode_though_their_heartbeats_are_far_off() {
    let mut cluster = start(2);
    write(&cluster.client(), "/f", 2);
    let options = NamenodeOptions {
        config: seldom(),
        listen: cluster.namenode.address(),
        ..NamenodeOptions::new(cluster.directory.path().join("namenode"), key())
    };
    let start = Instant::now();
    cluster.restart_namenode(options);
    let client = client(&cluster.namenode);
    let reader = client.open(&superuser(), "/f").unwrap();
    assert_eq!(reader.read_at(0, 9).unwrap(), "bytes");
    write(&client, "/g", 2);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn an_end_of_namenode_and_datanodes_waits_for_no_watch() {
    let cluster = start(2);
    let begin = Instant::now();
    let directory = cluster.into_directory();
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    // The directories are free again.
    let options = NamenodeOptions::new(directory.path().join("namenode"), key());
    NamenodeServer::start(options).unwrap();
}
