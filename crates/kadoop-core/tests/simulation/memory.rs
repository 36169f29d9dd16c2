//! Readers and writers with little shared memory, and without any.

use crate::purse::Purse;
use bytes::Bytes;
use std::sync::Arc;
use strait_kadoop_core::{
    ChunkId, Config, Error, FileId, Incarnation, Member, NodeId, Stamp,
    client::{Budget, Checked, Core, Goal, Issue, ReadCall, ReaderCore, WriteCall, WriterCore},
    messages::{Answer, Digest, Digested, Located, LocatedChunk, NewChunk, Outcome, Piece, Read},
};

/// Size of the chunks of the file that is read, in bytes.
const CHUNK: u32 = 1_000;

fn config() -> Config {
    Config {
        unit_bytes: 16,
        write_bytes: 32,
        read_bytes: 32,
        hold_bytes: 96,
        stage_bytes: 96,
        ahead_bytes: 320,
        reads_at_once: 3,
        ..Config::default()
    }
}

fn located(chunks: u32) -> Located {
    let chunk = |at: u32| LocatedChunk {
        offset: u64::from(at * CHUNK),
        skip: 0,
        length: CHUNK,
        growing: false,
        chunk: ChunkId(u64::from(at)),
        stamp: Stamp(1),
        nodes: vec![NodeId(1), NodeId(2)],
    };
    let length = u64::from(chunks * CHUNK);
    Located { made: 5, chunks: (0..chunks).map(chunk).collect(), length, open: false }
}

fn reader(purse: &Arc<Purse>) -> ReaderCore {
    let budget: Arc<dyn Budget> = Arc::clone(purse) as _;
    let mut reader = ReaderCore::within(config(), budget);
    reader.begin(located(2));
    reader
}

/// Answers all calls under way; returns the reads.
fn answer(reader: &mut ReaderCore, now: u64) -> Vec<Read> {
    let mut answered = Vec::new();
    while let Some(issue) = reader.next_call() {
        let ReadCall::Read { read, .. } = issue.call else { panic!("{:?}", issue.call) };
        let bytes: Bytes = vec![3; read.length as usize].into();
        let sums = bytes.chunks(16).map(crc32c::crc32c).collect();
        let piece = Piece { bytes, sums, visible: CHUNK };
        reader.on_read(issue.id, Checked::of(&read, piece, &config()), now);
        answered.push(read);
    }
    answered
}

/// Reads in sequence, `length` bytes at a time; returns the reads at datanodes.
fn read_on(reader: &mut ReaderCore, from: u64, length: u32, times: u64, now: u64) -> Vec<Read> {
    let mut asked = Vec::new();
    for at in (0..times).map(|time| from + time * u64::from(length)) {
        let mut there = 0;
        while there < length {
            match reader.read(at + u64::from(there), length - there, now).unwrap() {
                Some(bytes) => there += bytes.len() as u32,
                None => asked.extend(answer(reader, now)),
            }
        }
    }
    asked
}

#[test]
fn a_reader_that_finds_no_memory_reads_what_is_asked_for_and_no_more() {
    let purse = Arc::new(Purse::of(15));
    let asked = read_on(&mut reader(&purse), 0, 16, 20, 1);
    assert_eq!(asked.len(), 20);
    assert!(asked.iter().all(|read| read.length == 16), "{asked:?}");
    assert_eq!(purse.taken(), 0);
}

#[test]
fn all_readers_together_hold_no_more_ahead_than_they_share() {
    let purse = Arc::new(Purse::of(400));
    let mut readers: Vec<ReaderCore> = (0..50).map(|_| reader(&purse)).collect();
    for from in (0..320).step_by(16) {
        for reader in &mut readers {
            read_on(reader, from, 16, 1, 1);
            answer(reader, 1);
        }
    }
    assert!(purse.taken() > 300, "{} are of use", purse.taken());
    drop(readers);
    assert_eq!(purse.taken(), 0);
}

#[test]
fn an_idle_reader_gives_up_what_was_read_ahead_and_reads_on_later() {
    let purse = Arc::new(Purse::of(1_000));
    let mut reader = reader(&purse);
    read_on(&mut reader, 0, 16, 10, 1_000);
    answer(&mut reader, 1_000);
    let held = purse.taken();
    assert!(held > 200, "{held}");
    reader.give_up(1_000, 1_999);
    assert_eq!(purse.taken(), held, "it isn't idle yet");
    reader.give_up(1_000, 2_000);
    assert_eq!(purse.taken(), 0);
    assert!(!read_on(&mut reader, 160, 16, 10, 3_000).is_empty());
}

/// Lets all calls under way fail, and those that follow.
fn refuse_all(reader: &mut ReaderCore, now: u64) {
    while let Some(issue) = reader.next_call() {
        match issue.call {
            ReadCall::Read { .. } => reader.on_read(issue.id, Err(Error::Unavailable), now),
            ReadCall::Locate { .. } => reader.on_located(issue.id, Err(Error::Unavailable), now),
            ReadCall::Suspect { .. } => {}
        }
    }
}

#[test]
fn requests_of_callers_who_left_do_not_pile_up() {
    let purse = Arc::new(Purse::of(1_000));
    let mut reader = reader(&purse);
    read_on(&mut reader, 0, 16, 2, 0);
    answer(&mut reader, 0);
    reader.give_up(0, 0);
    assert_eq!(reader.read(32, 16, 1), Ok(None));
    assert!(purse.taken() > 0, "more than the requested bytes are fetched");
    refuse_all(&mut reader, 1);
    assert!(reader.wake_at().is_some(), "the request is repeated for its caller");
    reader.leave(32);
    assert_eq!((reader.wake_at(), purse.taken()), (None, 0), "and for nobody else");
}

#[test]
fn bytes_that_arrive_after_their_caller_left_count_as_read_ahead() {
    let mut reader = reader(&Arc::new(Purse::of(0)));
    assert_eq!(reader.read(0, 16, 0), Ok(None));
    reader.leave(0);
    assert_eq!(answer(&mut reader, 1).len(), 1);
    assert_eq!(reader.read(0, 16, 2).unwrap().unwrap().len(), 16);
    assert!(reader.next_call().is_none());
}

#[test]
fn a_caller_has_its_whole_patience_after_an_earlier_one_left() {
    let mut reader = reader(&Arc::new(Purse::of(0)));
    assert_eq!(reader.read(0, 16, 0), Ok(None));
    // Its call is under way.
    reader.leave(0);
    refuse_all(&mut reader, 1_000);
    assert_eq!(reader.wake_at(), None, "it isn't repeated for nobody");
    let later = 2 * config().give_up_ms;
    assert_eq!(reader.read(0, 16, later), Ok(None));
    refuse_all(&mut reader, later);
    assert_eq!(reader.read(0, 16, later + 1), Ok(None), "the first failure is no reason to give up");
    let end = later + config().give_up_ms;
    reader.tick(end);
    refuse_all(&mut reader, end);
    assert_eq!(reader.read(0, 16, end), Err(Error::Unavailable));
}

fn writer(purse: &Arc<Purse>) -> WriterCore {
    let budget: Arc<dyn Budget> = Arc::clone(purse) as _;
    WriterCore::within(config(), budget, FileId(1), 1_000, 0, 0)
}

fn calls(writer: &mut WriterCore) -> Vec<Issue<WriteCall>> {
    std::iter::from_fn(|| writer.next_call()).collect()
}

/// Grants the requested chunk; returns the writes that follow.
fn begin_chunk(writer: &mut WriterCore, now: u64) -> Vec<Issue<WriteCall>> {
    let issue = calls(writer).pop().expect("the namenode is asked");
    let WriteCall::Namenode(_) = issue.call else { panic!("{:?}", issue.call) };
    let pipeline = vec![Member { node: NodeId(1), incarnation: Incarnation(1) }];
    let new = NewChunk { chunk: ChunkId(1), stamp: Stamp(1), pipeline, continues: None };
    writer.on_answer(issue.id, Ok(Answer::Chunk { next: Some(new), durable: false }), now);
    calls(writer)
}

fn lengths(writes: &[Issue<WriteCall>]) -> Vec<usize> {
    let length = |issue: &Issue<WriteCall>| match &issue.call {
        WriteCall::Write(write) => write.bytes.len(),
        other => panic!("{other:?}"),
    };
    writes.iter().map(length).collect()
}

#[test]
fn a_writer_without_memory_takes_one_write_at_a_time_and_sends_it_at_once() {
    let purse = Arc::new(Purse::of(0));
    let mut writer = writer(&purse);
    let mut bytes = Bytes::from_static(&[7; 50]);
    writer.append(&mut bytes, 0).unwrap();
    assert_eq!((bytes.len(), writer.is_covered()), (18, false), "its caller waits");
    let writes = begin_chunk(&mut writer, 0);
    assert_eq!(lengths(&writes), [32]);
    writer.append(&mut bytes, 0).unwrap();
    assert_eq!(bytes.len(), 18, "one after the other");
    writer.on_write(writes[0].id, &[Outcome::Value], 1);
    assert!(writer.is_covered());
    writer.append(&mut bytes, 1).unwrap();
    assert!(bytes.is_empty() && !writer.is_covered());
    let rest = calls(&mut writer);
    assert_eq!(lengths(&rest), [18], "it doesn't wait for more");
    writer.on_write(rest[0].id, &[Outcome::Value], 2);
    assert!(writer.is_covered());
}

#[test]
fn a_writer_gives_its_memory_back_as_its_bytes_are_acknowledged() {
    let purse = Arc::new(Purse::of(100));
    let mut writer = writer(&purse);
    let mut bytes = Bytes::from_static(&[7; 80]);
    writer.append(&mut bytes, 0).unwrap();
    assert!(bytes.is_empty() && writer.is_covered());
    assert_eq!(purse.taken(), 80);
    let writes = begin_chunk(&mut writer, 0);
    assert_eq!(lengths(&writes), [32, 32]);
    for write in &writes {
        writer.on_write(write.id, &[Outcome::Value], 1);
    }
    assert_eq!(purse.taken(), 16);
    writer.begin(Goal::Flush, 2).unwrap();
    let last = calls(&mut writer);
    assert_eq!(lengths(&last), [16]);
    writer.on_write(last[0].id, &[Outcome::Value], 3);
    assert_eq!(purse.taken(), 0);
}

#[test]
fn a_writer_that_is_idle_sends_what_it_has_and_then_holds_nothing() {
    let purse = Arc::new(Purse::of(100));
    let mut writer = writer(&purse);
    writer.append(&mut Bytes::from_static(&[7; 20]), 0).unwrap();
    assert!(calls(&mut writer).is_empty(), "more may come");
    assert_eq!(writer.wake_at(), Some(1_000));
    writer.tick(999);
    assert!(calls(&mut writer).is_empty());
    writer.tick(1_000);
    let writes = begin_chunk(&mut writer, 1_000);
    assert_eq!(lengths(&writes), [20]);
    writer.on_write(writes[0].id, &[Outcome::Value], 1_001);
    assert_eq!((purse.taken(), writer.wake_at()), (0, None));
}

/// A digester of a file of two chunks, with its next range requested.
fn digesting() -> ReaderCore<Digest> {
    let mut reader = ReaderCore::new(config());
    reader.begin(located(2));
    assert_eq!(reader.read(0, u32::MAX, 0), Ok(None));
    reader
}

fn next(reader: &mut ReaderCore<Digest>) -> (Issue<ReadCall>, NodeId, Read) {
    let issue = reader.next_call().expect("a replica is asked");
    let ReadCall::Read { from, read } = issue.call else { panic!("{:?}", issue.call) };
    (issue, from, read)
}

#[test]
fn a_files_digest_comes_a_chunk_at_a_time_and_nothing_is_fetched_before_it_is_asked_for() {
    let mut reader = digesting();
    for at in 0..2 {
        let (issue, _, read) = next(&mut reader);
        assert_eq!((read.chunk, read.offset, read.length), (ChunkId(at), 0, CHUNK));
        let digest = Digest { crc: 7, length: CHUNK };
        reader.on_read(issue.id, Checked::digest(&read, &Digested { digest, visible: CHUNK }), 1);
        assert_eq!(reader.read(at * u64::from(CHUNK), u32::MAX, 1), Ok(Some(digest)));
        assert!(reader.next_call().is_none(), "whoever stops here has asked for no more");
        assert_eq!(reader.read((at + 1) * u64::from(CHUNK), u32::MAX, 1).unwrap().is_some(), at == 1);
    }
}

#[test]
fn a_digest_of_more_than_was_asked_for_and_one_that_is_refused_come_from_another_replica() {
    for refusal in [None, Some(Error::NoReplica), Some(Error::Corrupt), Some(Error::Unavailable)] {
        let mut reader = digesting();
        let (issue, first, read) = next(&mut reader);
        let digest = Digest { crc: 7, length: CHUNK + 1 };
        let answer =
            refusal.map_or_else(|| Checked::digest(&read, &Digested { digest, visible: CHUNK + 1 }), Err);
        reader.on_read(issue.id, answer, 1);
        let issues: Vec<_> = std::iter::from_fn(|| reader.next_call()).collect();
        let others =
            issues.iter().filter(|issue| matches!(issue.call, ReadCall::Read { from, .. } if from != first));
        assert_eq!(others.count(), 1, "{refusal:?}");
    }
}
