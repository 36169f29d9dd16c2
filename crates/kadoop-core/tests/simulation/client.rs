//! The writer's and the reader's core, driven by hand.

use bytes::Bytes;
use strait_kadoop_core::{
    ChunkId, Config, Error, FileId, Incarnation, Member, NodeId, Stamp,
    client::{Checked, Core, Goal, Issue, ReadCall, ReaderCore, WriteCall, WriterCore},
    faults::{Fault, Faults},
    messages::{Answer, Located, LocatedChunk, Mutation, NewChunk, Outcome, Piece, Read},
};

fn config(fault: Option<Fault>) -> Config {
    let faults = fault.map_or(Faults::NONE, Faults::planted);
    Config { unit_bytes: 16, write_bytes: 32, hold_bytes: 96, stage_bytes: 96, faults, ..Config::default() }
}

fn writer(fault: Option<Fault>) -> WriterCore {
    WriterCore::new(config(fault), FileId(1), 1_000, 0, 0)
}

fn calls(writer: &mut WriterCore) -> Vec<Issue<WriteCall>> {
    std::iter::from_fn(|| writer.next_call()).collect()
}

fn new_chunk(chunk: u64) -> NewChunk {
    let member = |node| Member { node: NodeId(node), incarnation: Incarnation(u64::from(node)) };
    NewChunk {
        chunk: ChunkId(chunk),
        stamp: Stamp(chunk),
        pipeline: vec![member(1), member(2)],
        continues: None,
    }
}

/// Grants the requested chunk. Returns the request.
fn grant(writer: &mut WriterCore, chunk: u64, now: u64) -> Mutation {
    let issue = calls(writer).pop().expect("the namenode is asked");
    let WriteCall::Namenode(mutation) = issue.call else { panic!("{:?}", issue.call) };
    let next = Some(new_chunk(chunk));
    writer.on_answer(issue.id, Ok(Answer::Chunk { next, durable: false }), now);
    mutation
}

/// A writer with 32 bytes under way to chunk 1.
fn writing(fault: Option<Fault>) -> (WriterCore, Issue<WriteCall>) {
    let mut writer = writer(fault);
    writer.append(&mut Bytes::from_static(&[7; 32]), 0).unwrap();
    grant(&mut writer, 1, 0);
    let write = calls(&mut writer).pop().unwrap();
    (writer, write)
}

fn answer_all(writer: &mut WriterCore, outcome: Outcome, now: u64) -> usize {
    let calls = calls(writer);
    let members = calls.iter().filter(|issue| !matches!(issue.call, WriteCall::Namenode(_)));
    members.map(|issue| writer.on_member(issue.id, outcome, now)).count()
}

#[test]
fn what_wasnt_acknowledged_everywhere_goes_into_the_next_chunk() {
    for (fault, resent) in [(None, true), (Some(Fault::UnacknowledgedDropped), false)] {
        let (mut writer, write) = writing(fault);
        writer.on_write(write.id, &[Outcome::Value, Outcome::Unknown], 10);
        assert_eq!(answer_all(&mut writer, Outcome::Value, 20), 2, "both are asked whether they are there");
        writer.begin(Goal::Flush, 30).unwrap();
        let mutation = grant(&mut writer, 2, 30);
        let Mutation::AddChunk { ends, next: asked, avoid, .. } = mutation else { panic!() };
        assert_eq!((ends[0].length, asked), (0, resent));
        if resent {
            assert_eq!(avoid, [NodeId(2)], "the one that didn't answer");
            let WriteCall::Write(again) = calls(&mut writer).pop().unwrap().call else { panic!() };
            assert_eq!((again.chunk, again.offset, &again.bytes[..]), (ChunkId(2), 0, &[7; 32][..]));
        }
    }
}

/// Pursues the goal with this answer of each member. Returns the members asked, and the outcome.
fn pursue(
    writer: &mut WriterCore,
    goal: Goal,
    outcome: Outcome,
    now: u64,
) -> (usize, Option<Result<(), Error>>) {
    writer.begin(goal, now).unwrap();
    let (mut asked, mut under_way) = (0, calls(writer));
    while let Some(issue) = under_way.pop() {
        if matches!(issue.call, WriteCall::Namenode(_)) {
            writer.on_answer(issue.id, Ok(Answer::Chunk { next: None, durable: true }), now);
        } else {
            assert_eq!(writer.outcome(), None, "{goal:?}");
            writer.on_member(issue.id, outcome, now);
            asked += 1;
        }
        under_way.extend(calls(writer).into_iter().filter(|_| outcome == Outcome::Value));
    }
    (asked, writer.outcome())
}

/// Once, such a flush was answered at once, though the datanodes were gone with the bytes.
#[test]
fn a_flush_with_nothing_new_asks_the_members_again() {
    for goal in [Goal::Flush, Goal::Sync] {
        for (fault, asked) in [(None, 2), (Some(Fault::OldFlushBelieved), 0)] {
            let (mut writer, write) = writing(fault);
            writer.on_write(write.id, &[Outcome::Value; 2], 10);
            assert_eq!(pursue(&mut writer, goal, Outcome::Value, 10), (2, Some(Ok(()))));
            assert_eq!(pursue(&mut writer, goal, Outcome::Value, 20), (asked, Some(Ok(()))), "{goal:?}");
            if fault.is_none() {
                let restarted = Outcome::Error(Error::WrongIncarnation);
                assert_eq!(pursue(&mut writer, goal, restarted, 30), (2, None), "{goal:?}");
            }
        }
    }
}

/// Once, each chunk that it was granted counted as progress, and it never gave up.
#[test]
fn a_writer_whose_datanodes_are_full_gives_up_for_want_of_space() {
    let (mut writer, mut write) = writing(None);
    writer.begin(Goal::Flush, 0).unwrap();
    let (mut now, mut chunk) = (0, 1);
    let outcome = loop {
        now += 2_000;
        assert!(now < 60_000, "it never gives up");
        writer.on_write(write.id, &[Outcome::Error(Error::NoSpace); 2], now);
        answer_all(&mut writer, Outcome::Value, now);
        now += 3_500;
        writer.tick(now);
        if let Some(outcome) = writer.outcome() {
            break outcome;
        }
        chunk += 1;
        grant(&mut writer, chunk, now);
        write = calls(&mut writer).pop().unwrap();
    };
    assert_eq!(outcome, Err(Error::NoSpace));
    let Config { full_ms, give_up_ms, .. } = Config::default();
    assert!((full_ms..give_up_ms / 2).contains(&now), "after {now} ms");
}

/// A datanode that is lost may come back, so want of space before it isn't the reason.
#[test]
fn a_writer_waits_longer_if_not_every_attempt_fails_for_want_of_space() {
    let (mut writer, mut write) = writing(None);
    writer.begin(Goal::Flush, 0).unwrap();
    let (mut now, mut chunk) = (0, 1);
    let outcome = loop {
        now += 500;
        assert!(now < 60_000, "it never gives up");
        let outcome = if chunk % 2 == 1 { Outcome::Error(Error::NoSpace) } else { Outcome::Unknown };
        writer.on_write(write.id, &[outcome; 2], now);
        answer_all(&mut writer, Outcome::Value, now);
        now += 3_500;
        writer.tick(now);
        if let Some(outcome) = writer.outcome() {
            break outcome;
        }
        chunk += 1;
        grant(&mut writer, chunk, now);
        write = calls(&mut writer).pop().unwrap();
    };
    assert!(matches!(outcome, Err(Error::NoSpace | Error::Unavailable)));
    assert!(now >= Config::default().give_up_ms, "after {now} ms");
}

/// Once, the writer waited for these calls: one may hang on bytes that a lost datanode had.
#[test]
fn a_broken_pipeline_is_left_though_calls_hang_and_whatever_they_come_to_later() {
    let mut writer = writer(None);
    writer.append(&mut Bytes::from_static(&[7; 64]), 0).unwrap();
    grant(&mut writer, 1, 0);
    let first = calls(&mut writer);
    assert_eq!(first.len(), 2);
    writer.on_write(first[0].id, &[Outcome::Value, Outcome::Unknown], 10);
    assert_eq!(answer_all(&mut writer, Outcome::Value, 20), 2, "both are asked whether they are there");
    grant(&mut writer, 2, 30);
    let second = calls(&mut writer);
    assert_eq!(second.len(), 2, "all of it again");
    writer.on_write(first[1].id, &[Outcome::Value; 2], 40);
    writer.begin(Goal::Flush, 40).unwrap();
    assert!(calls(&mut writer).is_empty(), "what chunk 1 was given doesn't count for chunk 2");
    second.iter().for_each(|write| writer.on_write(write.id, &[Outcome::Value; 2], 50));
    let told = calls(&mut writer);
    let published = |issue: &Issue<WriteCall>| matches!(issue.call, WriteCall::Publish { chunk, length: 64, .. } if chunk == ChunkId(2));
    assert!(told.len() == 2 && told.iter().all(published), "{told:?}");
}

#[test]
fn a_broken_chunks_end_is_logged_before_a_flush_returns() {
    for (fault, early) in [(None, false), (Some(Fault::FlushedBeforeEnd), true)] {
        let (mut writer, write) = writing(fault);
        writer.on_write(write.id, &[Outcome::Value; 2], 10);
        writer.begin(Goal::Flush, 10).unwrap();
        // Telling the members fails, but they are alive.
        assert_eq!(answer_all(&mut writer, Outcome::Unknown, 20), 2);
        assert_eq!(answer_all(&mut writer, Outcome::Value, 30), 2);
        assert_eq!(writer.outcome().is_some(), early);
        if early {
            continue;
        }
        // Nor does the namenode learn it before a member has sealed the chunk.
        let seals = calls(&mut writer);
        assert!(seals.iter().all(|issue| matches!(issue.call, WriteCall::Seal { length: 32, .. })));
        writer.on_member(seals[0].id, Outcome::Value, 40);
        let Mutation::AddChunk { ends, .. } = grant_end(&mut writer, 40) else { panic!() };
        assert_eq!((ends[0].length, ends[0].durable.len()), (32, 1));
        assert_eq!(writer.outcome(), Some(Ok(())));
    }
}

fn grant_end(writer: &mut WriterCore, now: u64) -> Mutation {
    let issue = calls(writer).pop().expect("the namenode is told");
    let WriteCall::Namenode(mutation) = issue.call else { panic!("{:?}", issue.call) };
    writer.on_answer(issue.id, Ok(Answer::Chunk { next: None, durable: true }), now);
    mutation
}

#[test]
fn an_unanswered_request_is_repeated_as_the_same_one() {
    let mut writer = writer(None);
    writer.begin(Goal::Close, 0).unwrap();
    let first = calls(&mut writer).pop().unwrap();
    writer.on_answer(first.id, Err(Error::Unavailable), 100);
    assert!(calls(&mut writer).is_empty(), "not at once");
    let wake = writer.wake_at().unwrap();
    writer.tick(wake);
    assert_eq!(calls(&mut writer).pop().unwrap().id, first.id);
}

#[test]
fn a_seal_that_meets_a_higher_stamp_means_that_the_lease_is_lost() {
    let (mut writer, write) = writing(None);
    writer.on_write(write.id, &[Outcome::Value; 2], 10);
    writer.begin(Goal::Close, 10).unwrap();
    answer_all(&mut writer, Outcome::Error(Error::StaleStamp), 20);
    assert_eq!(writer.outcome(), Some(Err(Error::LeaseLost)));
    assert_eq!(writer.begin(Goal::Sync, 30), Err(Error::LeaseLost));
}

/// A writer with 32 acknowledged bytes in chunk 1, 32 further bytes, and members that were asked to
/// seal it. Their answers come next.
fn broken() -> (WriterCore, Vec<Issue<WriteCall>>) {
    let (mut writer, write) = writing(None);
    writer.on_write(write.id, &[Outcome::Value; 2], 10);
    writer.append(&mut Bytes::from_static(&[8; 32]), 10).unwrap();
    let write = calls(&mut writer).pop().unwrap();
    writer.on_write(write.id, &[Outcome::Error(Error::WrongIncarnation); 2], 20);
    assert_eq!(answer_all(&mut writer, Outcome::Error(Error::WrongIncarnation), 20), 2, "both are there");
    let seals = calls(&mut writer);
    assert!(seals.iter().all(|issue| matches!(issue.call, WriteCall::Seal { length: 32, .. })));
    (writer, seals)
}

/// Whether the call asks the namenode to end chunk 1.
fn demand(issue: &Issue<WriteCall>) -> bool {
    let (file, chunk, length) = (FileId(1), ChunkId(1), 32);
    let demand = Mutation::EndChunk { file, chunk, length };
    matches!(&issue.call, WriteCall::Namenode(asked) if *asked == demand)
}

/// Once, the writer tried for 45 s and then failed. A silent member, or one whose disk failed, may
/// recover in a moment.
#[test]
fn a_chunk_that_no_member_can_seal_any_more_is_left_to_the_namenode() {
    for (outcome, after) in [
        (Outcome::Error(Error::NoReplica), 20),
        (Outcome::Error(Error::BeyondEnd), 20),
        (Outcome::Error(Error::Disk), 2_020),
        (Outcome::NotExecuted, 2_020),
    ] {
        let (mut writer, mut issues) = broken();
        let mut now = 20;
        while !issues.iter().any(demand) {
            issues.iter().for_each(|seal| writer.on_member(seal.id, outcome, now));
            issues = calls(&mut writer);
            if issues.is_empty() {
                let wake = writer.wake_at().unwrap();
                assert!(wake > now, "woken for nothing at {now}");
                now = wake;
                writer.tick(now);
                issues = calls(&mut writer);
            }
        }
        assert_eq!((now, issues.len()), (after, 1), "{outcome:?}");
        writer.on_answer(issues[0].id, Err(Error::Unavailable), now);
        let wake = writer.wake_at().unwrap();
        writer.tick(wake);
        let again = calls(&mut writer).pop().filter(demand).unwrap();
        assert_eq!((again.id, wake), (issues[0].id, now + 200), "the same request");
        writer.on_answer(again.id, Ok(Answer::Done), wake);
        let Mutation::AddChunk { ends, next: true, .. } = grant(&mut writer, 2, wake) else { panic!() };
        assert_eq!(ends, [], "it has its end");
        let WriteCall::Write(write) = calls(&mut writer).pop().unwrap().call else { panic!() };
        assert_eq!((write.chunk, write.offset, &write.bytes[..]), (ChunkId(2), 0, &[8; 32][..]));
    }
}

/// A writer without anything under way, whose pipeline is examined: the second member answers so.
fn examined(second: Outcome) -> WriterCore {
    let (mut writer, write) = writing(None);
    writer.on_write(write.id, &[Outcome::Value; 2], 10);
    assert!(calls(&mut writer).is_empty());
    writer.examine(20);
    let probes = calls(&mut writer);
    assert!(probes.iter().all(|probe| matches!(probe.call, WriteCall::Probe { .. })), "{probes:?}");
    assert_eq!(probes.len(), 2);
    writer.append(&mut Bytes::from_static(&[8; 32]), 25).unwrap();
    assert!(calls(&mut writer).is_empty(), "nothing is sent meanwhile");
    writer.on_member(probes[0].id, Outcome::Value, 30);
    writer.on_member(probes[1].id, second, 30);
    writer
}

#[test]
fn a_pipeline_that_is_found_whole_is_written_on() {
    let mut writer = examined(Outcome::Value);
    let WriteCall::Write(write) = calls(&mut writer).pop().unwrap().call else { panic!() };
    assert_eq!((write.chunk, write.offset), (ChunkId(1), 32));
}

#[test]
fn a_pipeline_that_has_lost_a_member_ends_its_chunk_though_nothing_was_sent() {
    for lost in [Outcome::Unknown, Outcome::NotExecuted, Outcome::Error(Error::StaleStamp)] {
        let mut writer = examined(lost);
        let seals = calls(&mut writer);
        let sealed = |issue: &Issue<WriteCall>| {
            matches!(issue.call, WriteCall::Seal { to: NodeId(1), chunk: ChunkId(1), length: 32, .. })
        };
        assert!(seals.iter().any(sealed), "{seals:?}");
        for seal in seals {
            let outcome = if sealed(&seal) { Outcome::Value } else { Outcome::Error(Error::NotOpen) };
            writer.on_member(seal.id, outcome, 40);
        }
        let Mutation::AddChunk { ends, next: true, .. } = grant(&mut writer, 2, 40) else { panic!() };
        assert_eq!((ends[0].length, &ends[0].durable[..]), (32, &[NodeId(1)][..]));
    }
}

#[test]
fn the_end_of_an_idle_writers_broken_chunk_is_told_at_once() {
    let (mut writer, write) = writing(None);
    writer.on_write(write.id, &[Outcome::Value; 2], 10);
    writer.examine(20);
    let probes = calls(&mut writer);
    writer.on_member(probes[0].id, Outcome::Value, 30);
    writer.on_member(probes[1].id, Outcome::Unknown, 30);
    answer_all(&mut writer, Outcome::Value, 40);
    let told = calls(&mut writer).pop().unwrap();
    let WriteCall::Namenode(Mutation::AddChunk { ends, next: false, .. }) = &told.call else { panic!() };
    assert_eq!(ends[0].length, 32);
    writer.on_answer(told.id, Ok(Answer::Chunk { next: None, durable: false }), 50);
    assert!(calls(&mut writer).is_empty() && writer.wake_at().is_none(), "it is idle again");
}

#[test]
fn a_writer_is_told_at_once_that_acknowledged_bytes_are_lost() {
    let (mut writer, seals) = broken();
    seals.into_iter().for_each(|seal| writer.on_member(seal.id, Outcome::Error(Error::NoReplica), 30));
    let asked = calls(&mut writer).pop().filter(demand).unwrap();
    writer.on_answer(asked.id, Err(Error::BytesLost), 40);
    assert_eq!(writer.append(&mut Bytes::from_static(b"more"), 50), Err(Error::BytesLost));
    assert_eq!(writer.begin(Goal::Close, 50), Err(Error::BytesLost));
    assert!(calls(&mut writer).is_empty());
}

/// Once, the writer requested pipelines as fast as they broke.
#[test]
fn where_every_pipeline_breaks_the_namenode_is_asked_ever_more_slowly() {
    let (mut writer, mut write) = writing(None);
    let (mut now, mut asked) = (0, Vec::new());
    for chunk in 2..8 {
        writer.on_write(write.id, &[Outcome::Error(Error::Disk); 2], now);
        answer_all(&mut writer, Outcome::Value, now);
        while calls_peek(&mut writer, chunk, now).is_none() {
            let wake = writer.wake_at().unwrap();
            assert!(wake > now, "woken for nothing at {now}");
            now = wake;
            writer.tick(now);
        }
        asked.push(now);
        write = calls(&mut writer).pop().unwrap();
    }
    let pauses: Vec<u64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [200, 400, 800, 1_600, 3_200]);
}

fn calls_peek(writer: &mut WriterCore, chunk: u64, now: u64) -> Option<()> {
    let issue = calls(writer).pop()?;
    let WriteCall::Namenode(_) = issue.call else { panic!("{:?}", issue.call) };
    let next = Some(new_chunk(chunk));
    writer.on_answer(issue.id, Ok(Answer::Chunk { next, durable: false }), now);
    Some(())
}

#[test]
fn a_writer_that_gets_nowhere_gives_up() {
    let (mut writer, write) = writing(None);
    writer.begin(Goal::Sync, 0).unwrap();
    writer.on_write(write.id, &[Outcome::Value; 2], 0);
    let outcome = loop {
        let now = writer.wake_at().unwrap();
        answer_all(&mut writer, Outcome::Unknown, now);
        writer.tick(now);
        assert!(now < 120_000, "not within two minutes");
        if let Some(outcome) = writer.outcome() {
            break outcome;
        }
    };
    assert_eq!((outcome, writer.error()), (Err(Error::Unavailable), None), "it may try again");
}

/// Has the members refuse all writes for want of space, until the writer tells a caller. Returns the
/// last chunk and the time.
fn full_until_told(
    writer: &mut WriterCore,
    mut chunk: u64,
    mut now: u64,
    told: impl Fn(&mut WriterCore, u64) -> bool,
) -> (u64, u64) {
    let from = now;
    loop {
        now += 500;
        assert!(now < from + 60_000, "it never gives up");
        writer.tick(now);
        for issue in calls(writer) {
            match issue.call {
                WriteCall::Namenode(Mutation::AddChunk { next, .. }) => {
                    chunk += 1;
                    let next = next.then(|| new_chunk(chunk));
                    writer.on_answer(issue.id, Ok(Answer::Chunk { next, durable: false }), now);
                }
                WriteCall::Write(_) => writer.on_write(issue.id, &[Outcome::Error(Error::NoSpace); 2], now),
                _ => writer.on_member(issue.id, Outcome::Value, now),
            }
        }
        if told(writer, now) {
            return (chunk, now);
        }
    }
}

/// Serves all calls, at datanodes with room. Returns the bytes written.
fn serve(writer: &mut WriterCore, mut chunk: u64, from: u64) -> Vec<u8> {
    let mut written = Vec::new();
    for now in (from..from + 10_000).step_by(100) {
        writer.tick(now);
        for issue in calls(writer) {
            match issue.call {
                WriteCall::Namenode(Mutation::Complete { .. }) => {
                    writer.on_answer(issue.id, Ok(Answer::Completed(true)), now);
                }
                WriteCall::Namenode(Mutation::AddChunk { next, .. }) => {
                    chunk += 1;
                    let answer = Answer::Chunk { next: next.then(|| new_chunk(chunk)), durable: !next };
                    writer.on_answer(issue.id, Ok(answer), now);
                }
                WriteCall::Write(write) => {
                    written.extend_from_slice(&write.bytes);
                    writer.on_write(issue.id, &[Outcome::Value; 2], now);
                }
                _ => writer.on_member(issue.id, Outcome::Value, now),
            }
        }
    }
    written
}

#[test]
fn after_full_disks_a_writer_goes_on_with_all_its_bytes_once_there_is_room() {
    for goal in [Goal::Flush, Goal::Sync, Goal::Close] {
        let mut writer = writer(None);
        writer.append(&mut Bytes::from_static(&[7; 40]), 0).unwrap();
        writer.begin(goal, 0).unwrap();
        let told = |writer: &mut WriterCore, _| writer.outcome() == Some(Err(Error::NoSpace));
        let (chunk, now) = full_until_told(&mut writer, 0, 0, told);
        assert_eq!(writer.error(), None, "{goal:?}");
        writer.append(&mut Bytes::from_static(&[8; 10]), now).unwrap();
        writer.begin(goal, now).unwrap();
        let written = serve(&mut writer, chunk, now);
        assert_eq!(written, [[7; 40].as_slice(), &[8; 10]].concat(), "{goal:?}");
        assert_eq!((writer.outcome(), writer.replicas()), (Some(Ok(())), Some(2)), "{goal:?}");
        if goal == Goal::Close {
            writer.begin(Goal::Close, now).unwrap();
            assert_eq!(writer.outcome(), Some(Ok(())), "it is closed already");
        }
    }
}

#[test]
fn a_write_that_waits_in_vain_is_refused_as_a_whole_and_may_be_repeated() {
    let mut writer = writer(None);
    writer.append(&mut Bytes::from_static(&[7; 96]), 0).unwrap();
    writer.append(&mut Bytes::from_static(&[8; 60]), 0).unwrap();
    let mut waits = Bytes::from_static(&[9; 60]);
    writer.append(&mut waits, 0).unwrap();
    assert_eq!((waits.len(), writer.length()), (60, 156), "there is room for a part only");
    let told = |writer: &mut WriterCore, now| {
        writer.append(&mut Bytes::from_static(&[9; 60]), now) == Err(Error::NoSpace)
    };
    let (chunk, now) = full_until_told(&mut writer, 0, 0, told);
    assert_eq!(writer.length(), 156, "nothing of it was taken");
    let written = serve(&mut writer, chunk, now);
    writer.append(&mut waits, now + 10_000).unwrap();
    assert!(waits.is_empty());
    writer.begin(Goal::Close, now + 10_000).unwrap();
    let rest = serve(&mut writer, chunk + 100, now + 10_000);
    assert_eq!([written, rest].concat(), [[7; 96].as_slice(), &[8; 60], &[9; 60]].concat());
    assert_eq!(writer.outcome(), Some(Ok(())));
}

/// An answer that closes the file may still be on its way.
#[test]
fn after_a_close_in_doubt_a_write_waits_until_the_namenode_has_answered() {
    for closed in [false, true] {
        let mut writer = writer(None);
        writer.begin(Goal::Close, 0).unwrap();
        let complete = calls(&mut writer).pop().unwrap();
        writer.on_answer(complete.id, Err(Error::Unavailable), 0);
        writer.tick(Config::default().give_up_ms);
        let now = Config::default().give_up_ms;
        assert_eq!(writer.outcome(), Some(Err(Error::Unavailable)));
        let again = calls(&mut writer).pop().unwrap();
        assert_eq!(again.id, complete.id, "the same request");
        let mut bytes = Bytes::from_static(b"more");
        writer.append(&mut bytes, now).unwrap();
        assert_eq!(bytes.len(), 4, "it waits");
        writer.on_answer(again.id, Ok(Answer::Completed(closed)), now);
        let accepted = writer.append(&mut bytes, now);
        assert_eq!((accepted.is_err(), bytes.is_empty()), (closed, !closed));
    }
}

fn located(length: u32, growing: bool) -> Located {
    let (offset, skip, chunk, stamp) = (0, 0, ChunkId(1), Stamp(1));
    let nodes = vec![NodeId(1), NodeId(2)];
    let chunks = vec![LocatedChunk { offset, skip, length, growing, chunk, stamp, nodes }];
    Located { made: 5, chunks, length: length.into(), open: growing }
}

/// A reader that has requested bytes at `offset` and received `located`.
fn reading(offset: u64, located: Located, fault: Option<Fault>) -> ReaderCore {
    let mut reader = ReaderCore::new(config(fault));
    assert_eq!(reader.read(offset, 32, 0), Ok(None));
    let issue = reader.next_call().unwrap();
    assert!(matches!(issue.call, ReadCall::Locate { .. }));
    reader.on_located(issue.id, Ok(located), 0);
    reader
}

fn next_read(reader: &mut ReaderCore) -> (Issue<ReadCall>, NodeId, Read) {
    let issue = reader.next_call().expect("a replica is asked");
    let ReadCall::Read { from, read } = issue.call else { panic!("{:?}", issue.call) };
    (issue, from, read)
}

#[test]
fn a_damaged_replica_is_reported_and_the_next_one_read() {
    for (fault, noticed) in [(None, true), (Some(Fault::SumsNotChecked), false)] {
        let mut reader = reading(0, located(20, false), fault);
        let (issue, first, read) = next_read(&mut reader);
        let sums = vec![crc32c::crc32c(&[1; 16]), crc32c::crc32c(&[1; 4])];
        let bad = Piece { bytes: vec![9; 20].into(), sums: sums.clone(), visible: 20 };
        reader.on_read(issue.id, Checked::of(&read, bad, &config(fault)), 1);
        assert_eq!(reader.read(0, 32, 1).unwrap().is_none(), noticed);
        if !noticed {
            continue;
        }
        let suspect = ReadCall::Suspect { node: first, chunk: ChunkId(1), stamp: Stamp(1) };
        assert_eq!(reader.next_call().unwrap().call, suspect);
        let (issue, second, read) = next_read(&mut reader);
        assert_ne!(second, first);
        let good = Piece { bytes: vec![1; 20].into(), sums, visible: 20 };
        reader.on_read(issue.id, Checked::of(&read, good, &config(fault)), 2);
        assert_eq!(reader.read(0, 32, 2), Ok(Some(vec![1; 20].into())));
    }
}

/// Once, the reader waited for calls that it never issued.
#[test]
fn an_end_that_is_known_is_told_at_once() {
    let mut reader = reading(20, located(20, false), None);
    assert_eq!(reader.read(20, 32, 0), Ok(Some(Bytes::new())));
    assert_eq!(reader.read(25, 32, 0), Ok(Some(Bytes::new())));
}

/// Once, synced bytes seemed to be missing while all their datanodes restarted.
#[test]
fn an_open_chunk_ends_only_where_every_member_says_that_it_never_saw_it() {
    for (answers, fault, end) in [
        ([Error::NoReplica, Error::NoReplica], None, true),
        ([Error::NoReplica, Error::NotOpen], None, false),
        ([Error::NotOpen, Error::NotOpen], None, false),
        ([Error::NoReplica, Error::Unavailable], None, false),
        ([Error::NoReplica, Error::Unavailable], Some(Fault::AbsenceRead), true),
    ] {
        let mut reader = reading(0, located(0, true), fault);
        for error in answers {
            let (issue, ..) = next_read(&mut reader);
            reader.on_read(issue.id, Err(error), 1);
        }
        assert_eq!(reader.read(0, 32, 1).unwrap().is_some(), end, "{answers:?}");
    }
}

#[test]
fn another_file_of_the_same_name_isnt_read_on() {
    for (fault, error) in [(None, Err(Error::NotFound)), (Some(Fault::ReplacementRead), Ok(None))] {
        let mut reader = reading(0, located(20, false), fault);
        for _ in 0..2 {
            let (issue, ..) = next_read(&mut reader);
            reader.on_read(issue.id, Err(Error::NoReplica), 1);
        }
        reader.tick(reader.wake_at().unwrap());
        let issue = reader.next_call().unwrap();
        reader.on_located(issue.id, Ok(Located { made: 6, ..located(20, false) }), 300);
        assert_eq!(reader.read(0, 32, 300), error);
    }
}

#[test]
fn reading_ahead_goes_on_with_whichever_call_is_answered_first() {
    let config = Config { ahead_bytes: 320, reads_at_once: 3, ..config(None) };
    let mut reader: ReaderCore = ReaderCore::new(config.clone());
    reader.begin(located(1_000, false));
    let mut under_way = Vec::new();
    let mut look = |reader: &mut ReaderCore, answered: Option<usize>| {
        if let Some(at) = answered {
            let (issue, _, read): (Issue<ReadCall>, NodeId, Read) = under_way.remove(at);
            let bytes: Bytes = vec![3; read.length as usize].into();
            let sums = bytes.chunks(16).map(crc32c::crc32c).collect();
            let piece = Piece { bytes, sums, visible: 1_000 };
            reader.on_read(issue.id, Checked::of(&read, piece, &config), 1);
        }
        while let Some(issue) = reader.next_call() {
            let ReadCall::Read { from, read } = issue.call else { panic!("{:?}", issue.call) };
            under_way.push((issue, from, read));
        }
        under_way.len()
    };
    for at in (0..320).step_by(32) {
        while reader.read(at, 32, 1).unwrap().is_none() {
            look(&mut reader, None);
            look(&mut reader, Some(0));
        }
        assert!(look(&mut reader, None) <= 3);
    }
    // Without further requests, other calls still follow those under way.
    for answered in [2, 1, 0, 2] {
        assert_eq!(look(&mut reader, Some(answered)), 3);
        assert!(reader.wake_at().is_none(), "nothing is due until the next answer");
    }
    // A request doesn't wait for bytes read ahead.
    assert_eq!(reader.read(960, 32, 1), Ok(None));
    assert_eq!(look(&mut reader, None), 4);
}

#[test]
fn a_read_is_one_call_and_who_asks_for_little_at_a_time_gets_it_out_of_larger_pieces() {
    let config = Config { unit_bytes: 4, read_bytes: 16, reads_at_once: 3, ..config(None) };
    for (asked, fetched) in [(4, [4, 8, 12, 12]), (16, [16; 4]), (24, [24; 4]), (99, [32; 4])] {
        let mut reader: ReaderCore = ReaderCore::new(config.clone());
        reader.begin(located(1_000, false));
        let mut at = 0;
        let mut lengths = Vec::new();
        while lengths.len() < fetched.len() {
            let bytes = reader.read(at, asked, 1).unwrap();
            at += bytes.map_or(0, |bytes| bytes.len() as u64);
            while let Some(issue) = reader.next_call() {
                let ReadCall::Read { read, .. } = issue.call else { panic!("{:?}", issue.call) };
                lengths.push(read.length);
                let bytes: Bytes = vec![3; read.length as usize].into();
                let sums = bytes.chunks(4).map(crc32c::crc32c).collect();
                let piece = Piece { bytes, sums, visible: 1_000 };
                reader.on_read(issue.id, Checked::of(&read, piece, &config), 1);
            }
        }
        assert_eq!(lengths[..fetched.len()], fetched, "{asked} at a time");
    }
}

#[test]
fn a_sequential_reader_finds_what_comes_next_under_way() {
    let mut reader = reading(0, located(1_000, false), None);
    let mut at = 0;
    for _ in 0..4 {
        let (issue, _, read) = next_read(&mut reader);
        let bytes: Bytes = vec![3; read.length as usize].into();
        let sums = bytes.chunks(16).map(crc32c::crc32c).collect();
        let piece = Piece { bytes, sums, visible: 1_000 };
        reader.on_read(issue.id, Checked::of(&read, piece, &config(None)), 1);
        at += reader.read(at, 32, 1).unwrap().map_or(0, |bytes| bytes.len() as u64);
        if at < 64 {
            assert_eq!(reader.read(at, 32, 1), Ok(None));
        }
    }
    assert!(std::iter::from_fn(|| reader.next_call()).count() >= 2, "several are under way");
}
