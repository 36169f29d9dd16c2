//! A blocked operation blocks no other, and tells its reason once it gives up.

use crate::{
    impostors::{Impostor, Lie},
    support::{Cluster, client, client_over_tcp, config, key, pattern, superuser},
};
use std::{sync::mpsc, thread, time::Duration};
use strait_kadoop_client::{Client, CreateOptions};
use strait_kadoop_core::{Config, Error};
use strait_kadoop_server::NamenodeOptions;
use strait_kadoop_wire::{Failure, wire};

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
    thread::spawn(move || {
        make_directories(&others, "meanwhile");
        drop(stuck);
        make_directories(&others, "afterwards");
        // If this comes too late, the receiver is gone.
        let _ = done.send(());
    });
    all_done.recv_timeout(SOON).expect("mutations wait for a writer that can't go on");
}

/// A cluster without datanodes, whose namenode has this configuration.
fn without_datanodes(config: Config) -> Cluster {
    Cluster::start_with(0, key(), |options| NamenodeOptions { config, ..options })
}

/// The failure of a writer of this cluster, which needs a chunk.
fn of_a_writer(cluster: &Cluster) -> Failure {
    let mut stuck = client(&cluster.namenode).create(&superuser(), "/f", &CreateOptions::default()).unwrap();
    stuck.write(pattern(PIECE_BYTES)).unwrap();
    stuck.flush().unwrap_err()
}

#[test]
fn a_writer_repeats_the_namenodes_words() {
    let cluster = without_datanodes(Config { max_file_chunks: 0, ..config() });
    let failure = of_a_writer(&cluster);
    assert!(matches!(failure.error, Error::Invalid(_)));
    assert_eq!(failure.to_string(), "the file has the maximum number of chunks: use larger chunks");
}

fn a_writer_without_datanodes() {
    let failure = of_a_writer(&without_datanodes(config()));
    assert_eq!(failure.error, Error::Unavailable);
    let told = failure.to_string();
    assert!(told.contains("not enough datanodes") && told.contains("`strait datanodes`"), "{told}");
}

fn a_writer_at_a_limit() {
    let failure = of_a_writer(&without_datanodes(Config { max_unended_chunks: 0, ..config() }));
    assert_eq!(failure.error, Error::Unavailable);
    let limit = "not available: limit reached: chunks of an open file without a durable end";
    assert_eq!(failure.to_string(), limit);
}

/// Makes a small file of one replica.
fn put(client: &Client, path: &str) {
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), path, &options).unwrap();
    writer.write("content").unwrap();
    writer.close().unwrap();
}

fn a_reader_whose_datanode_refuses_its_token() {
    let mut cluster = Cluster::start(1);
    let client = client_over_tcp(&cluster.namenode);
    put(&client, "/f");
    let reader = client.open(&superuser(), "/f").unwrap();
    let address = cluster.datanode_addresses()[0];
    cluster.stop(address);
    let unauthenticated = wire::Refusal::RefusedUnauthenticated as u32;
    let _impostor = Impostor::at(address, Lie::Fault(unauthenticated));
    let failure = reader.read_at(0, 7).unwrap_err();
    assert_eq!(failure.error, Error::Unavailable);
    let told = failure.to_string();
    let reason = format!("datanode {address}: not authenticated");
    assert!(told.contains(&reason) && told.contains("`strait datanodes`"), "{told}");
}

#[test]
fn a_replica_that_cant_be_read_has_the_reason() {
    let mut cluster = Cluster::start(1);
    let client = client_over_tcp(&cluster.namenode);
    put(&client, "/f");
    let mut verifier = client.verify(&superuser(), "/f").unwrap();
    let address = cluster.datanode_addresses()[0];
    cluster.stop(address);
    let failure = verifier.step().unwrap().unwrap().failure.unwrap();
    assert_eq!(failure.error, Error::Unavailable);
    let reason = format!("not available: datanode {address}: ");
    assert!(failure.to_string().starts_with(&reason), "{failure}");
}

/// They fail after 45 s, since datanodes may join meanwhile.
#[test]
fn an_operation_that_gives_up_has_its_peers_reason() {
    thread::scope(|scope| {
        scope.spawn(a_writer_without_datanodes);
        scope.spawn(a_writer_at_a_limit);
        scope.spawn(a_reader_whose_datanode_refuses_its_token);
    });
}
