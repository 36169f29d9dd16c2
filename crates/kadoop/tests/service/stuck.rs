//! What can't go on holds up nothing else.

use crate::support::{Cluster, client, pattern, superuser};
use std::{sync::mpsc, time::Duration};
use strait_kadoop::{Client, Error, service::CreateOptions};

/// Mutations of one client: several times those whose answers the namenode keeps.
const MUTATIONS: usize = 200;
/// What a writer has to have before it asks for a chunk.
const PIECE_BYTES: usize = 2 << 20;
/// Below the 45 s after which a writer gives up and lets go of whatever it holds.
const SOON: Duration = Duration::from_secs(20);

/// Other mutations of the client that a writer belongs to.
fn make_directories(client: &Client, within: &str) {
    for number in 0..MUTATIONS {
        client.mkdirs(&superuser(), &format!("/{within}/{number}"), 0o755).unwrap();
    }
}

/// Each of them once waited for the number that the writer's refused request kept.
#[test]
fn a_writer_without_datanodes_holds_up_no_other_mutation_of_its_client() {
    let cluster = Cluster::start(0);
    let client = client(&cluster.namenode);
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut stuck = client.create(&superuser(), "/stuck", &options).unwrap();
    // Enough to ask for a chunk at once.
    stuck.write(pattern(PIECE_BYTES)).unwrap();
    let (done, all_done) = mpsc::channel();
    let others = client.clone();
    std::thread::spawn(move || {
        make_directories(&others, "meanwhile");
        drop(stuck);
        make_directories(&others, "afterwards");
        // Whoever would have waited is gone if this came too late.
        let _ = done.send(());
    });
    all_done.recv_timeout(SOON).expect("mutations wait for a writer that can't go on");
}

/// After the 45 s in which others may come.
#[test]
fn a_writer_without_datanodes_is_told_that_there_are_none() {
    let cluster = Cluster::start(0);
    let client = client(&cluster.namenode);
    let mut stuck = client.create(&superuser(), "/stuck", &CreateOptions::default()).unwrap();
    stuck.write(pattern(PIECE_BYTES)).unwrap();
    let failure = stuck.flush().unwrap_err();
    assert!(failure.error == Error::Unavailable && failure.why.contains("strait datanodes"), "{failure}");
}
