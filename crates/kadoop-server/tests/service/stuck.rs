//! A blocked operation blocks no other.

use crate::support::{Cluster, client, pattern, superuser};
use std::{sync::mpsc, time::Duration};
use strait_kadoop_client::{Client, CreateOptions};
use strait_kadoop_core::Error;

/// Mutations of one client: several times as many as the namenode keeps answers for.
const MUTATIONS: usize = 200;
/// Bytes that make a writer request a chunk.
const PIECE_BYTES: usize = 2 << 20;
/// Less than the 45 s after which a writer fails and releases its resources.
const SOON: Duration = Duration::from_secs(20);

/// Makes other mutations of the writer's client.
fn make_directories(client: &Client, within: &str) {
    for number in 0..MUTATIONS {
        client.mkdirs(&superuser(), &format!("/{within}/{number}"), 0o755).unwrap();
    }
}

/// Once, each of them waited for the request number that the writer's refused request kept.
#[test]
fn a_writer_without_datanodes_holds_up_no_other_mutation_of_its_client() {
    let cluster = Cluster::start(0);
    let client = client(&cluster.namenode);
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut stuck = client.create(&superuser(), "/stuck", &options).unwrap();
    // Enough bytes to request a chunk at once.
    stuck.write(pattern(PIECE_BYTES)).unwrap();
    let (done, all_done) = mpsc::channel();
    let others = client.clone();
    std::thread::spawn(move || {
        make_directories(&others, "meanwhile");
        drop(stuck);
        make_directories(&others, "afterwards");
        // If this comes too late, the receiver is gone.
        let _ = done.send(());
    });
    all_done.recv_timeout(SOON).expect("mutations wait for a writer that can't go on");
}

/// It fails after 45 s, since datanodes may join meanwhile.
#[test]
fn a_writer_without_datanodes_is_told_that_there_are_none() {
    let cluster = Cluster::start(0);
    let client = client(&cluster.namenode);
    let mut stuck = client.create(&superuser(), "/stuck", &CreateOptions::default()).unwrap();
    stuck.write(pattern(PIECE_BYTES)).unwrap();
    let failure = stuck.flush().unwrap_err();
    assert!(failure.error == Error::Unavailable && failure.why.contains("strait datanodes"), "{failure}");
}
