//! Logs that lost their end, older copies put back, and datanodes that remember more.

use crate::{disk::SimDisk, random::Random};
use strait_kadoop_core::{
    ChunkId, Config, Error, Identity, Incarnation, NodeId, Result, Stamp,
    datanode::Datanode,
    faults::{Fault, Faults},
    messages::{
        Answer, Caller, End, Heartbeat, HeartbeatAnswer, Mutation, NewChunk, Point, ReplicaReport,
        ReplicaState, RequestId, Space,
    },
    namenode::{Namenode, State},
};

fn caller(user: &str) -> Caller {
    Caller { user: user.into(), groups: Vec::new(), session: None }
}

/// A datanode as a namenode sees it.
#[derive(Clone)]
struct Node {
    identity: u64,
    session: u64,
    number: u64,
    seen: Point,
    replicas: Vec<ReplicaReport>,
}

impl Node {
    fn new(identity: u64) -> Self {
        Self { identity, session: 0, number: 0, seen: Point::default(), replicas: Vec::new() }
    }

    fn beat(&mut self, namenode: &mut Namenode, full: bool) -> Result<HeartbeatAnswer> {
        self.number += 1;
        let highest = (
            self.replicas.iter().map(|replica| replica.chunk).max().unwrap_or_default(),
            self.replicas.iter().map(|replica| replica.stamp).max().unwrap_or_default(),
        );
        let beat = Heartbeat {
            identity: Identity(self.identity),
            incarnation: Incarnation(self.identity),
            session: self.session,
            number: self.number,
            space: Space::default(),
            seen: self.seen,
            highest: if self.session == 0 { highest } else { Default::default() },
            full: full.then(|| self.replicas.clone()),
            changes: Vec::new(),
        };
        let answer = namenode.heartbeat(&beat, "", 0)?;
        (self.session, self.seen) = (answer.session, answer.log);
        Ok(answer)
    }

    /// Asks for a session, and reports.
    fn join(&mut self, namenode: &mut Namenode) -> Result<HeartbeatAnswer> {
        self.session = 0;
        self.beat(namenode, false)?;
        self.beat(namenode, true)
    }
}

fn config() -> Config {
    Config { min_replicas: 1, safe_mode_extra_ms: 0, ..Config::default() }
}

fn start(state: State, random: u64, config: Config) -> Namenode {
    let mut namenode = Namenode::new(config, state, 0, random);
    namenode.begin(random);
    namenode
}

/// A client of one namenode.
struct Names {
    request: RequestId,
}

impl Names {
    fn of(namenode: &mut Namenode) -> Self {
        let client = namenode.join_client(0);
        Self { request: RequestId { client, number: 0, done_below: 0 } }
    }

    fn ask(&mut self, namenode: &mut Namenode, mutation: &Mutation) -> Result<Answer> {
        self.request.number += 1;
        namenode.mutate(&caller("kadoop"), self.request, mutation, &[], 0, 0)
    }

    fn mkdir(&mut self, namenode: &mut Namenode, path: &str) -> Result<Answer> {
        self.ask(namenode, &Mutation::Mkdirs { path: path.into(), mode: 0o755 })
    }

    /// A file of one chunk of 5 bytes, which the datanode has.
    fn file(&mut self, namenode: &mut Namenode, path: &str, node: &mut Node) -> NewChunk {
        let create = Mutation::Create {
            path: path.into(),
            overwrite: false,
            mode: 0o644,
            replication: 1,
            chunk_bytes: 64 << 20,
            min_replicas: 0,
        };
        let Answer::Opened { file, .. } = self.ask(namenode, &create).unwrap() else { panic!("not opened") };
        let add = Mutation::AddChunk { file, ends: Vec::new(), next: true, avoid: Vec::new() };
        let Answer::Chunk { next: Some(new), .. } = self.ask(namenode, &add).unwrap() else {
            panic!("no chunk")
        };
        let (chunk, stamp, state) = (new.chunk, new.stamp, ReplicaState::Sealed);
        node.replicas.push(ReplicaReport { chunk, stamp, length: 5, state });
        let ends = vec![End { chunk, length: 5, durable: vec![new.pipeline[0].node] }];
        let done = self.ask(namenode, &Mutation::Complete { file, ends }).unwrap();
        assert_eq!(done, Answer::Completed(true));
        node.beat(namenode, true).unwrap();
        new
    }
}

/// A namenode with a datanode, the state that is put back later, and what was done since.
struct Loss {
    old: State,
    node: Node,
    lost: Vec<NewChunk>,
}

fn lose(records: usize) -> Loss {
    let mut namenode = start(State::new(&config()), 7 << 40 | 7 << 20 | 7, config());
    let mut node = Node::new(1);
    node.join(&mut namenode).unwrap();
    namenode.tick(0);
    let mut names = Names::of(&mut namenode);
    names.file(&mut namenode, "/kept", &mut node);
    let old = namenode.state().clone();
    let lost = (0..records).map(|n| names.file(&mut namenode, &format!("/lost{n}"), &mut node)).collect();
    Loss { old, node, lost }
}

const ANEW: u64 = 9 << 40 | 9 << 20 | 9;

#[test]
fn after_lost_records_nothing_changes_until_an_operator_decides() {
    let Loss { old, mut node, lost } = lose(2);
    let mut namenode = start(old, ANEW, config());
    let mut names = Names::of(&mut namenode);
    assert!(namenode.waits_for_datanodes());
    assert_eq!(names.mkdir(&mut namenode, "/early"), Err(Error::NoDatanodes), "who knows what is lost");
    assert_eq!(node.join(&mut namenode).unwrap_err(), Error::LogBehind);
    assert_eq!(namenode.behind(), Some(node.seen.record));
    assert_eq!(names.mkdir(&mut namenode, "/late"), Err(Error::LogBehind));
    for now in [0, 1 << 40] {
        namenode.tick(now);
        assert!(namenode.in_safe_mode());
        assert_eq!(node.join(&mut namenode).unwrap_err(), Error::LogBehind, "it stays refused");
    }
    // Clients that join meanwhile don't make up for the lost records.
    while namenode.sequence() <= node.seen.record {
        Names::of(&mut namenode);
    }
    let mut namenode = start(namenode.state().clone(), ANEW + 1, config());
    assert_eq!(node.join(&mut namenode).unwrap_err(), Error::LogBehind);
    // Another datanode knows of no more than the log. It gets no orders.
    let mut other = Node::new(2);
    assert_eq!(other.join(&mut namenode).unwrap().orders, []);
    assert_eq!(names.mkdir(&mut namenode, "/late"), Err(Error::LogBehind));

    let identity = Identity(1);
    assert_eq!(namenode.refused().collect::<Vec<_>>(), [(identity, Error::LogBehind)]);
    assert_eq!(namenode.admit(&caller("ann"), identity), Err(Error::PermissionDenied));
    assert_eq!(namenode.admit(&caller("kadoop"), Identity(2)), Err(Error::NotFound));
    namenode.admit(&caller("kadoop"), identity).unwrap();
    assert_eq!(namenode.behind(), None);
    assert_eq!(node.join(&mut namenode).unwrap().log.record, namenode.sequence());
    assert_eq!(names.mkdir(&mut namenode, "/late"), Ok(Answer::Done));
    let new = names.file(&mut namenode, "/new", &mut other);
    for lost in &lost {
        assert!(new.chunk > lost.chunk && new.stamp > lost.stamp, "numbers go on above the highest known");
    }
}

/// Whether the numbers after an admission are above those of the lost records.
fn numbers_rise(fault: Option<Fault>) -> bool {
    let Loss { old, mut node, lost } = lose(2);
    let faults = fault.map_or(Faults::NONE, Faults::planted);
    let mut namenode = start(old, ANEW, Config { faults, ..config() });
    node.join(&mut namenode).unwrap_err();
    namenode.admit(&caller("kadoop"), Identity(1)).unwrap();
    node.join(&mut namenode).unwrap();
    namenode.tick(0);
    let mut other = Node::new(2);
    other.join(&mut namenode).unwrap();
    let new = Names::of(&mut namenode).file(&mut namenode, "/new", &mut other);
    lost.iter().all(|lost| new.chunk > lost.chunk && new.stamp > lost.stamp)
}

#[test]
fn numbers_rise_above_those_of_an_admitted_datanode() {
    assert!(numbers_rise(None));
    assert!(!numbers_rise(Some(Fault::AdmittedBelow)));
}

#[test]
fn a_new_cluster_waits_for_no_datanode() {
    let mut namenode = start(State::new(&config()), ANEW, config());
    let mut names = Names::of(&mut namenode);
    assert_eq!(names.mkdir(&mut namenode, "/first"), Ok(Answer::Done));
    Node::new(1).join(&mut namenode).unwrap();
    assert_eq!(names.mkdir(&mut namenode, "/second"), Ok(Answer::Done));
}

#[test]
fn datanodes_that_are_gone_for_good_are_decommissioned_and_waited_for_no_more() {
    let Loss { old, .. } = lose(0);
    let mut namenode = start(old, ANEW, config());
    let mut names = Names::of(&mut namenode);
    Node::new(2).join(&mut namenode).unwrap();
    assert_eq!(names.mkdir(&mut namenode, "/new"), Err(Error::NoDatanodes), "it knows nothing");
    namenode.decommission(&caller("kadoop"), NodeId(1), false).unwrap();
    assert_eq!(names.mkdir(&mut namenode, "/new"), Ok(Answer::Done));
}

#[test]
fn a_restart_knows_whom_an_operator_has_admitted() {
    let Loss { old, mut node, .. } = lose(2);
    let mut namenode = start(old, ANEW, config());
    assert_eq!(node.join(&mut namenode).unwrap_err(), Error::LogBehind);
    let mut late = Node { identity: 3, ..node.clone() };
    namenode.admit(&caller("kadoop"), Identity(1)).unwrap();
    let mut namenode = start(namenode.state().clone(), ANEW + 1, config());
    node.join(&mut namenode).unwrap();
    // Another datanode of the lost records concerns itself alone: they were given up.
    assert_eq!(late.join(&mut namenode).unwrap_err(), Error::OtherHistory);
    assert_eq!(namenode.behind(), None);
    assert_eq!(Names::of(&mut namenode).mkdir(&mut namenode, "/new"), Ok(Answer::Done));
    // Without replicas of lost files, an admitted datanode is one as any other.
    node.replicas.truncate(1);
    node.beat(&mut namenode, true).unwrap();
    node.replicas.push(late.replicas[1]);
    assert_eq!(node.beat(&mut namenode, true).unwrap_err(), Error::ForeignData);
}

/// The records that were lost have been made up for in number, so only the starts differ.
#[test]
fn a_datanode_of_another_history_is_refused_however_far_the_log_has_gone_on() {
    let Loss { old, mut node, lost } = lose(2);
    let mut namenode = start(old, ANEW, config());
    let mut other = Node::new(1);
    other.join(&mut namenode).unwrap();
    namenode.tick(0);
    let mut names = Names::of(&mut namenode);
    for n in 0..9 {
        let new = names.file(&mut namenode, &format!("/new{n}"), &mut other);
        for lost in &lost {
            assert!(new.chunk != lost.chunk && new.stamp != lost.stamp, "no number comes twice");
        }
    }
    assert!(namenode.sequence() > node.seen.record);
    node.identity = 2;
    assert_eq!(node.join(&mut namenode).unwrap_err(), Error::OtherHistory);
    // It may have forgotten what it had heard. Then its replicas show it.
    node.seen = Point::default();
    assert_eq!(node.join(&mut namenode).unwrap_err(), Error::ForeignData);
    // The highest ones are this history's, but not all.
    let highest = ReplicaReport { length: 1, ..*other.replicas.last().unwrap() };
    node.replicas.push(highest);
    assert_eq!(node.join(&mut namenode).unwrap_err(), Error::ForeignData);
    assert_eq!(node.beat(&mut namenode, true).unwrap_err(), Error::NotRegistered, "its session is over");
    assert_eq!(names.mkdir(&mut namenode, "/on"), Ok(Answer::Done), "it concerns no other");
}

#[test]
fn numbers_that_no_namenode_gives_cant_be_admitted() {
    let mut namenode = start(State::new(&config()), ANEW, config());
    let mut node = Node::new(1);
    let (chunk, stamp, state) = (ChunkId(u64::MAX), Stamp(1), ReplicaState::Sealed);
    node.replicas.push(ReplicaReport { chunk, stamp, length: 5, state });
    assert_eq!(node.join(&mut namenode).unwrap_err(), Error::ForeignData);
    let refused = namenode.admit(&caller("kadoop"), Identity(1));
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

#[test]
fn a_namenode_that_ignores_what_datanodes_have_heard_is_noticed() {
    let Loss { old, mut node, .. } = lose(2);
    let faulty = Config { faults: Faults::planted(Fault::HistoryIgnored), ..config() };
    let mut namenode = start(old, ANEW, faulty);
    node.join(&mut namenode).unwrap_err();
    assert_eq!(Names::of(&mut namenode).mkdir(&mut namenode, "/forked"), Ok(Answer::Done), "the fault");
}

#[test]
fn a_datanode_remembers_what_it_has_heard_through_crashes() {
    let (disks, mut random) = ([SimDisk::default(), SimDisk::default()], Random(1));
    let mut heard = Point::default();
    for round in 1..200 {
        let incarnation = Incarnation(round);
        let mut datanode = Datanode::start(config(), disks.to_vec(), Identity(1), 11, incarnation).unwrap();
        let beat = datanode.heartbeat(Space::default());
        assert_eq!(beat.seen, heard, "round {round}");
        // An operator may have had records given up, so it need not rise.
        let log = Point { record: random.below(100), start: 1 + round / 3 };
        let answer = HeartbeatAnswer { session: 1, node: NodeId(1), orders: Vec::new(), report: false, log };
        datanode.on_answer(&beat, Ok(answer));
        datanode.tick(round * 10_000);
        let written = datanode.unsynced_memory();
        if random.one_in(2) {
            written.iter().for_each(|file| strait_kadoop_core::disk::DiskFile::sync_data(file).unwrap());
            disks.iter().for_each(|disk| strait_kadoop_core::disk::Disk::sync_names(disk).unwrap());
            disks.iter().for_each(|disk| disk.crash(&mut random));
        }
        heard = log;
    }
}
