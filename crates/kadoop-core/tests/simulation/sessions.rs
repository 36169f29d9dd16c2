//! A session that has a file open gets it back at another client; no other caller does.

use crate::{disk::SimDisk, namespace::someone, told::Cluster};
use strait_kadoop_core::{
    Config, Error,
    messages::{Answer, Caller, Mutation, NewChunk, ReplicaState, Session},
    namenode::{self, Namenode, State},
};

fn in_session(user: &str, number: u8) -> Caller {
    Caller { session: Some(Session([number; 32])), ..someone(user) }
}

fn create(path: &str) -> Mutation {
    let (path, overwrite, mode, chunk_bytes) = (path.to_owned(), false, 0o666, 1 << 26);
    Mutation::Create { path, overwrite, mode, replication: 2, chunk_bytes, min_replicas: 0 }
}

fn append(path: &str) -> Mutation {
    Mutation::Append { path: path.to_owned() }
}

/// A writer in session 1 has 10 bytes on two datanodes.
fn open() -> (Cluster, NewChunk) {
    let mut cluster = Cluster::new(2, None);
    let client = cluster.client;
    let opened = cluster.ask_as(&in_session("kadoop", 1), client, &create("/f"));
    let Ok(Answer::Opened { file, .. }) = opened else { panic!("{opened:?}") };
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.hold(&new, 1, 10, ReplicaState::Open);
    (cluster, new)
}

#[test]
fn the_same_session_gets_its_file_at_another_client_at_once() {
    let (mut cluster, new) = open();
    let (mine, other) = (in_session("kadoop", 1), cluster.namenode.join_client(cluster.now));
    assert_eq!(cluster.ask_as(&mine, other, &append("/f")), Err(Error::Unavailable), "not yet");
    // The first writer, which may still run, has lost it, though its lease is renewed.
    let file = *cluster.namenode.state().open.keys().next().unwrap();
    let more = Mutation::AddChunk { file, ends: Vec::new(), next: false, avoid: Vec::new() };
    assert_eq!(cluster.ask(more), Err(Error::LeaseLost));
    // The datanodes are fenced, and seal.
    cluster.pass(2_000, &[]);
    let opened = cluster.ask_as(&mine, other, &append("/f"));
    let Ok(Answer::Opened { length: 10, .. }) = opened else { panic!("{opened:?}") };
    let sealed = cluster.nodes[cluster.index(new.pipeline[0].node)].replicas[&new.chunk];
    assert!(sealed.stamp > new.stamp, "the chunk was fenced");
}

#[test]
fn nobody_else_gets_a_live_writers_file() {
    let (mut cluster, _) = open();
    let (first, other) = (cluster.client, cluster.namenode.join_client(cluster.now));
    cluster.ask_as(&someone("kadoop"), first, &Mutation::Mkdirs { path: "/d".into(), mode: 0o777 }).unwrap();
    let strangers = [
        (in_session("kadoop", 2), other, "another session"),
        (someone("kadoop"), other, "no session"),
        (in_session("ada", 1), other, "another user"),
        (in_session("kadoop", 1), first, "the client that has it open"),
    ];
    // Ada may write to it.
    let attributes = strait_kadoop_core::messages::Attributes { mode: Some(0o666), ..Default::default() };
    cluster.ask(Mutation::SetAttributes { path: "/f".into(), attributes }).unwrap();
    for (caller, client, which) in strangers {
        for mutation in [append("/f"), Mutation::Truncate { path: "/f".into(), length: 0 }] {
            assert_eq!(cluster.ask_as(&caller, client, &mutation), Err(Error::Busy), "{which}");
        }
        cluster.namenode.renew(first, cluster.now);
        cluster.pass(2_000, &[]);
        assert!(cluster.length().1, "{which} closed it");
    }
    // Nor do two callers without a session take files from each other.
    let opened = cluster.ask_as(&someone("kadoop"), first, &create("/g"));
    assert!(matches!(opened, Ok(Answer::Opened { .. })), "{opened:?}");
    assert_eq!(cluster.ask_as(&someone("kadoop"), other, &append("/g")), Err(Error::Busy));
}

#[test]
fn the_log_and_a_checkpoint_keep_the_holder_and_the_minimum_of_replicas() {
    let config = Config::default();
    let mut namenode = Namenode::new(config.clone(), State::new(&config), 0, 1);
    let client = namenode.join_client(0);
    let mut ask = |number, mutation| {
        let request = strait_kadoop_core::messages::RequestId { client, number, done_below: number };
        namenode.mutate(&in_session("kadoop", 1), request, &mutation, &[], 0, 0).unwrap();
    };
    let Mutation::Create { path, overwrite, mode, chunk_bytes, .. } = create("/f") else { return };
    ask(1, Mutation::Create { path, overwrite, mode, replication: 3, chunk_bytes, min_replicas: 2 });
    let (file, open) = namenode.state().open.first_key_value().unwrap();
    assert!(open.holder.is_some());
    assert_eq!(namenode.min_replicas(*file), 2);
    let mut replayed = State::new(&config);
    for transaction in &namenode.outbox {
        let decoded = namenode::Transaction::decode(&transaction.encode()).unwrap();
        replayed.apply(&decoded, &mut Vec::new()).unwrap();
    }
    assert_eq!(&replayed, namenode.state());
    let disk = SimDisk::default();
    namenode::save(&disk, 7, &config, namenode.state()).unwrap();
    let loaded = namenode::load(&disk, 7, &config).unwrap();
    assert_eq!(&loaded.state, namenode.state());
}
