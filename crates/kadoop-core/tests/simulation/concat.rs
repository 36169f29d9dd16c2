//! Files joined to another by one record of the log.

use crate::{disk::SimDisk, namespace::someone, told::Cluster};
use strait_kadoop_core::{
    Config, Error,
    faults::Faults,
    log::Journal,
    messages::{Answer, Attributes, Mutation, RequestId},
    namenode::{load, save},
};

const CLUSTER: u64 = 3;

fn concat(target: &str, sources: &[&str]) -> Mutation {
    let sources = sources.iter().map(|source| (*source).to_owned()).collect();
    Mutation::Concat { target: target.into(), sources }
}

/// Makes a file with chunks of these lengths.
fn file(cluster: &mut Cluster, path: &str, lengths: &[u32]) {
    cluster.write(1, lengths);
    let rename = Mutation::Rename { from: "/f".into(), to: path.into(), replace: false };
    assert_eq!(cluster.ask(rename), Ok(Answer::Done));
}

fn cluster(directories: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(3, None);
    for path in directories {
        cluster.ask(Mutation::Mkdirs { path: (*path).to_owned(), mode: 0o755 }).unwrap();
    }
    cluster
}

/// Offset and length of each chunk of a file.
fn chunks(cluster: &Cluster, path: &str) -> Vec<(u64, u32)> {
    let located = cluster.namenode.locate(&someone("kadoop"), path, 0, u64::MAX).unwrap();
    located.chunks.iter().map(|chunk| (chunk.offset, chunk.length)).collect()
}

fn ask_as(cluster: &mut Cluster, user: &str, mutation: &Mutation) -> Result<Answer, Error> {
    cluster.ask_as(&someone(user), cluster.client, mutation)
}

fn set(cluster: &mut Cluster, path: &str, attributes: Attributes) {
    cluster.ask(Mutation::SetAttributes { path: path.into(), attributes }).unwrap();
}

#[test]
fn sources_of_any_directory_follow_the_target_and_are_gone() {
    let mut cluster = cluster(&["/d", "/e"]);
    file(&mut cluster, "/d/a", &[10, 20]);
    file(&mut cluster, "/e/b", &[30]);
    file(&mut cluster, "/t", &[5]);
    assert_eq!(cluster.ask(concat("/t", &["/e/b", "/d/a"])), Ok(Answer::Done));
    assert_eq!(chunks(&cluster, "/t"), [(0, 5), (5, 30), (35, 10), (45, 20)]);
    for gone in ["/e/b", "/d/a"] {
        let status = cluster.namenode.view(&someone("kadoop")).stat(gone);
        assert_eq!(status.err(), Some(Error::NotFound));
    }
    // Its chunks aren't in the order of their ids.
    let truncate = Mutation::Truncate { path: "/t".into(), length: 36 };
    assert_eq!(cluster.ask(truncate), Ok(Answer::Changed(true)));
    assert_eq!(chunks(&cluster, "/t"), [(0, 5), (5, 30), (35, 1)]);
    cluster.pass(60_000, &[]);
    assert_eq!(cluster.sealed(), 3, "one replica each, and none of what was cut off");
}

#[test]
fn a_repeated_request_is_answered_and_not_executed() {
    let mut cluster = cluster(&[]);
    file(&mut cluster, "/t", &[10]);
    file(&mut cluster, "/a", &[10]);
    cluster.number += 1;
    let request = RequestId { client: cluster.client, number: cluster.number, done_below: cluster.number };
    for _ in 0..2 {
        let caller = someone("kadoop");
        let answer = cluster.namenode.mutate(&caller, request, &concat("/t", &["/a"]), &[], cluster.now, 0);
        assert_eq!(answer, Ok(Answer::Done));
        assert_eq!(chunks(&cluster, "/t"), [(0, 10), (10, 10)]);
    }
}

#[test]
fn open_empty_and_repeated_files_are_refused() {
    let mut cluster = cluster(&[]);
    for (path, lengths) in [("/t", &[10][..]), ("/a", &[10]), ("/b", &[10]), ("/empty", &[])] {
        file(&mut cluster, path, lengths);
    }
    cluster.ask(Mutation::Append { path: "/a".into() }).unwrap();
    assert_eq!(cluster.ask(concat("/t", &["/b", "/a"])), Err(Error::Busy));
    assert_eq!(cluster.ask(concat("/a", &["/b"])), Err(Error::Busy));
    for invalid in [&["/b", "/empty"][..], &["/b", "/b"], &["/t"], &[]] {
        let answer = cluster.ask(concat("/t", invalid));
        assert!(matches!(answer, Err(Error::Invalid(_))), "{invalid:?}: {answer:?}");
    }
    assert_eq!(cluster.ask(concat("/t", &["/b", "/none"])), Err(Error::NotFound));
    assert_eq!(cluster.ask(concat("/t", &["/"])), Err(Error::IsADirectory));
    assert_eq!(chunks(&cluster, "/t"), [(0, 10)]);
    assert_eq!(chunks(&cluster, "/b"), [(0, 10)]);
}

#[test]
fn each_right_that_is_missing_refuses_it() {
    let mut cluster = cluster(&["/d", "/e"]);
    file(&mut cluster, "/d/t", &[10]);
    file(&mut cluster, "/e/a", &[10]);
    let mode = |mode| Attributes { mode: Some(mode), ..Attributes::default() };
    let granted = [("/d/t", 0o666), ("/e/a", 0o644), ("/e", 0o777)];
    granted.iter().for_each(|(path, bits)| set(&mut cluster, path, mode(*bits)));
    // To write the target, read the source, change its directory, and be the owner in a sticky one.
    for (path, bits) in [("/d/t", 0o644), ("/e/a", 0o600), ("/e", 0o755), ("/e", 0o1777)] {
        set(&mut cluster, path, mode(bits));
        let answer = ask_as(&mut cluster, "stranger", &concat("/d/t", &["/e/a"]));
        assert_eq!(answer, Err(Error::PermissionDenied), "{path}: {bits:o}");
        granted.iter().for_each(|(path, bits)| set(&mut cluster, path, mode(*bits)));
    }
    assert_eq!(ask_as(&mut cluster, "stranger", &concat("/d/t", &["/e/a"])), Ok(Answer::Done));
}

#[test]
fn the_target_s_replication_applies_to_the_source_s_chunks() {
    for (of_target, replicas) in [(2, 4), (1, 2)] {
        let mut cluster = cluster(&[]);
        file(&mut cluster, "/t", &[10]);
        file(&mut cluster, "/a", &[10]);
        let replication = |wanted| Attributes { replication: Some(wanted), ..Attributes::default() };
        set(&mut cluster, "/t", replication(of_target));
        set(&mut cluster, "/a", replication(3 - of_target));
        cluster.pass(60_000, &[]);
        assert_eq!(cluster.sealed(), 3);
        cluster.ask(concat("/t", &["/a"])).unwrap();
        cluster.pass(60_000, &[]);
        assert_eq!(cluster.sealed(), replicas);
    }
}

/// The source's chunk was continued a moment ago, and has a single replica yet.
#[test]
fn what_an_append_replaced_in_a_source_stands_in_for_it_in_the_target() {
    let mut cluster = cluster(&[]);
    file(&mut cluster, "/t", &[10]);
    file(&mut cluster, "/a", &[10]);
    cluster.nodes.iter_mut().for_each(|node| node.copies_fail = true);
    let Ok(Answer::Opened { file, .. }) = cluster.ask(Mutation::Append { path: "/a".into() }) else {
        panic!("the append isn't granted");
    };
    let new = cluster.add(file, Vec::new());
    assert!(new.continues.is_some());
    cluster.hold(&new, 0, 15, strait_kadoop_core::messages::ReplicaState::Sealed);
    let ends = vec![strait_kadoop_core::messages::End {
        chunk: new.chunk,
        length: 15,
        durable: vec![new.pipeline[0].node],
    }];
    assert_eq!(cluster.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(true)));
    cluster.ask(concat("/t", &["/a"])).unwrap();
    assert_eq!(chunks(&cluster, "/t"), [(0, 10), (10, 15)]);
    let delete = Mutation::Delete { path: "/t".into(), recursive: false };
    assert_eq!(cluster.ask(delete), Ok(Answer::Changed(true)));
    cluster.pass(60_000, &[]);
    assert_eq!(cluster.sealed(), 0, "nothing of the source is left behind");
}

#[test]
fn a_joined_file_is_the_same_after_a_replay_and_after_a_checkpoint() {
    let mut cluster = cluster(&[]);
    for path in ["/t", "/a", "/b"] {
        file(&mut cluster, path, &[10, 3]);
    }
    cluster.ask(concat("/t", &["/b", "/a"])).unwrap();
    let (disk, config) = (SimDisk::default(), Config::default());
    let mut journal = Journal::start(disk.clone(), CLUSTER, 1, 1 << 20, Faults::NONE).unwrap();
    cluster.namenode.outbox.drain(..).for_each(|transaction| journal.push(transaction.encode()));
    journal.commit().unwrap();
    let replayed = load(&disk, CLUSTER, &config).unwrap().state;
    assert!(replayed == *cluster.namenode.state());
    journal.roll().unwrap();
    save(&disk, CLUSTER, &config, &replayed).unwrap();
    assert!(load(&disk, CLUSTER, &config).unwrap().state == replayed);
}
