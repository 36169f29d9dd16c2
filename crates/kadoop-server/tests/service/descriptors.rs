//! Few descriptors, and many replicas.

use crate::support::{Cluster, client_over_tcp, pattern, superuser};
use std::{fs, path::Path};
use strait_kadoop_client::{Client, CreateOptions, Writer};
use strait_kadoop_core::Config;
use strait_testkit::wait::eventually;

/// Replicas that may be written, and read, at a time.
const OPEN: usize = 4;
const FILES: usize = 60;

/// Number of this process's descriptors for files in a directory. The directory itself, its lock
/// and its socket take some.
fn descriptors_below(directory: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|path| path.starts_with(directory)).count()
}

fn create(client: &Client, number: usize) -> Writer {
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    client.create(&superuser(), &format!("/file-{number}"), &options).unwrap()
}

/// Once, each replica took a descriptor.
#[test]
fn a_datanode_has_few_files_open_however_many_replicas_it_has_and_gets() {
    let mut cluster = Cluster::start(0);
    let mut options = cluster.datanode_options(0);
    options.config = Config { open_replicas: OPEN, ..options.config };
    cluster.add(options);
    cluster.await_datanodes();
    let directory = cluster.directory.path().join("datanode-0");
    // The datanode keeps this one open, too.
    eventually("the datanode has heard", || directory.join("heard").exists());
    let (client, before) = (client_over_tcp(&cluster.namenode), descriptors_below(&directory));
    let most = before + 3 * OPEN;
    let bytes = |number: usize| pattern(20_000 + number);
    let mut writers: Vec<_> = (0..FILES).map(|number| create(&client, number)).collect();
    for (from, to) in [(0, 10), (10, 9_000), (9_000, 20_000)] {
        for (number, writer) in writers.iter_mut().enumerate() {
            writer.write(bytes(number).slice(from..to)).unwrap();
            writer.flush().unwrap();
        }
        assert!(descriptors_below(&directory) <= most, "{} > {most}", descriptors_below(&directory));
    }
    for (number, mut writer) in writers.into_iter().enumerate() {
        writer.write(bytes(number).slice(20_000..)).unwrap();
        writer.close().unwrap();
    }
    let all_are_there = |client: &Client| {
        for number in 0..FILES {
            let reader = client.open(&superuser(), &format!("/file-{number}")).unwrap();
            assert!(reader.read_at(0, 30_000).unwrap() == bytes(number));
        }
    };
    all_are_there(&client);
    assert!(descriptors_below(&directory) <= most, "{} > {most}", descriptors_below(&directory));
    // A start keeps none of them open.
    cluster.restart_datanodes(|| ());
    assert!(descriptors_below(&directory) <= before, "{} > {before}", descriptors_below(&directory));
    cluster.await_datanodes();
    all_are_there(&client_over_tcp(&cluster.namenode));
}
