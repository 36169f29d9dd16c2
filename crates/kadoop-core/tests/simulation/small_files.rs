//! Small files: the first chunk begins with its file.

use crate::namespace::someone;
use bytes::Bytes;
use strait_kadoop_core::{
    ChunkId, ClientId, Config, Error, FileId, Identity, Incarnation, Member, NodeId, Stamp,
    client::{Core, Goal, Issue, WriteCall, WriterCore},
    messages::{Answer, End, Heartbeat, Mutation, NewChunk, Outcome, RequestId, Space},
    namenode::{Namenode, State},
};

fn config() -> Config {
    Config { unit_bytes: 16, write_bytes: 32, hold_bytes: 96, stage_bytes: 96, ..Config::default() }
}

fn chunk(number: u64) -> NewChunk {
    let member = |node| Member { node: NodeId(node), incarnation: Incarnation(u64::from(node)) };
    let pipeline = vec![member(1), member(2)];
    NewChunk { chunk: ChunkId(number), stamp: Stamp(number), pipeline, continues: None }
}

/// A writer of a new file with its first chunk, and with this many bytes.
fn writer(bytes: usize) -> WriterCore {
    let mut writer = WriterCore::new(config(), FileId(1), 1_000, 0, 0).with_first_chunk(chunk(1));
    if bytes > 0 {
        writer.append(&mut Bytes::from(vec![7; bytes]), 0).unwrap();
    }
    writer
}

fn calls(writer: &mut WriterCore) -> Vec<Issue<WriteCall>> {
    std::iter::from_fn(|| writer.next_call()).collect()
}

fn only(writer: &mut WriterCore) -> Issue<WriteCall> {
    let mut calls = calls(writer);
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.remove(0)
}

/// The ends that the writer closes the file with.
fn closing(writer: &mut WriterCore) -> Vec<End> {
    let issue = only(writer);
    let WriteCall::Namenode(Mutation::Complete { ends, .. }) = issue.call else { panic!("{:?}", issue.call) };
    writer.on_answer(issue.id, Ok(Answer::Completed(true)), 2);
    assert_eq!(writer.outcome(), Some(Ok(())));
    ends
}

#[test]
fn a_small_file_asks_the_namenode_only_to_close_it() {
    let mut writer = writer(20);
    writer.begin(Goal::Close, 1).unwrap();
    let issue = only(&mut writer);
    let WriteCall::Write(write) = &issue.call else { panic!("{:?}", issue.call) };
    assert_eq!((write.chunk, write.offset, write.bytes.len()), (ChunkId(1), 0, 20));
    writer.on_write(issue.id, &[Outcome::Value; 2], 1);
    for seal in calls(&mut writer) {
        assert!(matches!(seal.call, WriteCall::Seal { length: 20, .. }), "{:?}", seal.call);
        writer.on_member(seal.id, Outcome::Value, 1);
    }
    let sealed = End { chunk: ChunkId(1), length: 20, durable: vec![NodeId(1), NodeId(2)] };
    assert_eq!(closing(&mut writer), [sealed]);
    assert_eq!(writer.replicas(), Some(2));
}

#[test]
fn an_empty_file_gives_its_chunk_up_and_asks_no_datanode() {
    let mut writer = writer(0);
    for goal in [Goal::Flush, Goal::Sync] {
        writer.begin(goal, 0).unwrap();
        assert_eq!((calls(&mut writer).len(), writer.outcome()), (0, Some(Ok(()))), "{goal:?}");
    }
    writer.begin(Goal::Close, 0).unwrap();
    assert_eq!(closing(&mut writer), [End { chunk: ChunkId(1), length: 0, durable: Vec::new() }]);
}

#[test]
fn a_first_chunk_whose_members_are_gone_is_abandoned_for_another() {
    let mut writer = writer(20);
    writer.begin(Goal::Close, 1).unwrap();
    let write = only(&mut writer);
    writer.on_write(write.id, &[Outcome::Unknown, Outcome::Error(Error::WrongIncarnation)], 1);
    let probes = calls(&mut writer);
    assert_eq!(probes.len(), 2);
    probes.iter().for_each(|probe| writer.on_member(probe.id, Outcome::Unknown, 2));
    let ask = only(&mut writer);
    let WriteCall::Namenode(Mutation::AddChunk { ends, next: true, .. }) = &ask.call else {
        panic!("{:?}", ask.call)
    };
    assert_eq!(ends[..], [End { chunk: ChunkId(1), length: 0, durable: Vec::new() }]);
    writer.on_answer(ask.id, Ok(Answer::Chunk { next: Some(chunk(2)), durable: true }), 3);
    let again = only(&mut writer);
    let WriteCall::Write(write) = &again.call else { panic!("{:?}", again.call) };
    assert_eq!((write.chunk, write.offset, write.bytes.len()), (ChunkId(2), 0, 20));
}

/// A namenode with this many datanodes, and a client.
fn namenode(nodes: u64) -> (Namenode, ClientId) {
    let config = Config::default();
    let mut namenode = Namenode::new(config.clone(), State::new(&config), 0, 1);
    for number in 1..=nodes {
        let (identity, incarnation, space) = (Identity(number), Incarnation(number), Space::default());
        let (seen, highest) = Default::default();
        let (full, changes) = (None, Vec::new());
        let hello =
            Heartbeat { identity, incarnation, session: 0, number: 1, space, seen, highest, full, changes };
        let taken = namenode.heartbeat(&hello, "", 0).unwrap();
        let report = Heartbeat { session: taken.session, number: 2, full: Some(Vec::new()), ..hello };
        namenode.heartbeat(&report, "", 0).unwrap();
    }
    let client = namenode.join_client(0);
    (namenode, client)
}

fn create(replication: u16, min_replicas: u16) -> Mutation {
    let (path, overwrite, mode, chunk_bytes) = ("/f".to_owned(), false, 0o644, 1 << 26);
    Mutation::Create { path, overwrite, mode, replication, chunk_bytes, min_replicas }
}

fn request(client: ClientId, number: u64) -> RequestId {
    RequestId { client, number, done_below: 0 }
}

#[test]
fn a_creation_and_its_first_chunk_are_one_transaction_and_a_retry_gets_the_same() {
    let (mut namenode, client) = namenode(3);
    namenode.outbox.clear();
    let user = someone("kadoop");
    let mut begin =
        || namenode.mutate_and_begin(&user, request(client, 1), &create(2, 0), &[NodeId(2)], 0, 0).unwrap();
    let begun = begin();
    assert_eq!(begun, begin());
    assert_eq!(namenode.outbox.len(), 1);
    let Answer::Begun { file, first, .. } = begun else { panic!("{begun:?}") };
    assert_eq!((first.pipeline.len(), first.pipeline[0].node), (2, NodeId(2)), "the writer's own datanode");
    let sealed = End { chunk: first.chunk, length: 5, durable: vec![first.pipeline[0].node] };
    let complete = Mutation::Complete { file, ends: vec![sealed] };
    let closed = namenode.mutate(&user, request(client, 2), &complete, &[], 0, 0);
    assert_eq!(closed, Ok(Answer::Completed(true)));
    assert_eq!(namenode.view(&user).stat("/f").unwrap().length, 5);
}

#[test]
fn without_enough_datanodes_a_file_is_made_without_a_chunk() {
    for (nodes, replication, least, begins) in [(0, 1, 0, false), (1, 3, 0, true), (1, 3, 2, false)] {
        let (mut namenode, client) = namenode(nodes);
        let (user, create) = (someone("kadoop"), create(replication, least));
        let answer = namenode.mutate_and_begin(&user, request(client, 1), &create, &[], 0, 0).unwrap();
        assert_eq!(matches!(answer, Answer::Begun { .. }), begins, "{answer:?}");
        assert!(begins || matches!(answer, Answer::Opened { .. }));
        assert!(namenode.view(&user).stat("/f").unwrap().open);
    }
}

#[test]
fn a_file_whose_first_chunk_has_no_bytes_is_closed_empty() {
    let (mut namenode, client) = namenode(1);
    let user = someone("kadoop");
    let begun = namenode.mutate_and_begin(&user, request(client, 1), &create(1, 0), &[], 0, 0).unwrap();
    let Answer::Begun { file, first, .. } = begun else { panic!("{begun:?}") };
    let ends = vec![End { chunk: first.chunk, length: 0, durable: Vec::new() }];
    let closed = namenode.mutate(&user, request(client, 2), &Mutation::Complete { file, ends }, &[], 0, 0);
    assert_eq!(closed, Ok(Answer::Completed(true)));
    assert!(namenode.state().chunks.is_empty());
}
