//! Writers whose datanodes have all been restarted, and serve at other addresses.

use crate::support::{Cluster, DEADLINE, client, pattern, superuser};
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
    eventually("the file is closed with what is left", DEADLINE, || {
        let status = client.stat(&superuser(), "/file").unwrap();
        (status.open, status.length) == (false, 0)
    });
}
