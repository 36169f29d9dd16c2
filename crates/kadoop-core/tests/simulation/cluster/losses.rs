//! Losses that no power failure explains: a log without its end, older copies of directories,
//! empty ones, a damaged checkpoint; and a namenode that is stopped for a minute. An operator
//! decides where the namenode can't.

use super::{
    client::Task,
    model::File,
    moments::Moment,
    network::{Host, NAMENODE},
    trouble::sealed_name,
    world::{DIRECTORIES, Event, HOSTS, NODES, World},
};
use crate::{disk::SimDisk, namespace::someone, random::Random};
use std::collections::{BTreeMap, BTreeSet};
use strait_kadoop_core::{
    ChunkId, Error, Identity, Millis, NodeId,
    disk::{Disk as _, read_whole},
    log::{checkpoints, segments},
    messages::{LocatedChunk, Mutation, ReplicaState, RequestId},
};

/// Longest pause before a loss.
const PAUSE_MS: Millis = 7_000;
/// Pause between two looks of the operator at what it mends.
const LOOK_MS: Millis = 500;
/// How long a namenode stops.
const MINUTE_MS: Millis = 60_000;
/// Time after which no call that asks for a session is under way any more.
const SETTLED_MS: Millis = 8_000;
/// Time within which admitted datanodes are back.
const MENDED_MS: Millis = 90_000;
/// Bytes of a segment's header.
const HEADER_BYTES: usize = 32;
/// The bits of a mood for rotten bytes and lost directories.
const REPLICAS_LOST: u64 = 1 << 10 | 1 << 11;

/// A loss in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The end of a killed namenode's log is lost or damaged. The namenode must refuse to start,
    /// and the operator puts the files back.
    Tail,
    /// The newest checkpoint is damaged. The namenode starts from the one before.
    Checkpoint,
    /// The namenode starts from an older copy of its directory. It must change nothing until the
    /// operator puts the newest files back, or gives up the lost records.
    OldNamenode,
    /// One datanode loses directories, or gets older copies of them. All files have a minimum of
    /// two replicas, so all bytes on disk survive.
    Datanode,
    /// The namenode is stopped, or its machine is off, for a minute.
    Minute,
}

/// A copy of the namenode's directory, and the files at that time.
struct Copy {
    disk: SimDisk,
    sequence: u64,
    files: BTreeMap<String, File>,
    touched: BTreeMap<String, u64>,
}

/// An older copy is in use.
struct Fork {
    copy: Copy,
    newest: SimDisk,
    logged: u64,
    gives_up: bool,
    /// When the operator decides.
    decides: Millis,
    decided: bool,
    behind: bool,
    /// Whether the namenode ends once more before that.
    ends: bool,
}

/// Has its own random numbers, so that runs without losses keep their schedules.
pub struct Losses {
    random: Random,
    kind: Option<Loss>,
    copy: Option<Copy>,
    fork: Option<Fork>,
    /// The files that a log's loss or damage has replaced.
    backup: Option<SimDisk>,
    /// Checkpoints damaged so far.
    damaged: BTreeSet<u64>,
    /// The datanode that loses files, older copies of its directories, and its former number.
    node: usize,
    older: Vec<SimDisk>,
    gone: Option<NodeId>,
    /// Chunks that may be gone with the lost datanode. Of their bytes, this many must be on another's disks.
    pub lost: BTreeMap<ChunkId, u32>,
    done: bool,
    /// Whether the operator admits each datanode that is refused.
    admits: bool,
}

impl Losses {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed.rotate_left(40) ^ 0x1055);
        let kinds = [Loss::Tail, Loss::Checkpoint, Loss::OldNamenode, Loss::Datanode, Loss::Minute];
        let drawn = random.below(15) as usize;
        // A minute takes long to simulate.
        let kind = match drawn {
            0..4 => Some(kinds[drawn]),
            4 => Some(kinds[2]),
            5 if random.one_in(2) => Some(Loss::Minute),
            _ => None,
        };
        let node = random.below(NODES as u64) as usize;
        Self {
            random,
            kind,
            copy: None,
            fork: None,
            backup: None,
            damaged: BTreeSet::new(),
            node,
            older: Vec::new(),
            gone: None,
            lost: BTreeMap::new(),
            done: false,
            admits: false,
        }
    }

    /// Whether the operator is about to mend a loss, so that nothing else happens.
    pub fn is_mending(&self) -> bool {
        self.fork.is_some()
    }

    /// Whether one datanode's replicas are the only ones that may be lost.
    pub fn is_single(&self) -> bool {
        self.kind == Some(Loss::Datanode)
    }

    /// Whether datanodes stay in service.
    pub fn excludes_operator(&self) -> bool {
        matches!(self.kind, Some(Loss::Datanode | Loss::OldNamenode))
    }

    /// Whether the log's mark must be exact. If its sync fails, it may be readable and gone later.
    pub fn needs_mark(&self) -> bool {
        self.kind == Some(Loss::Tail)
    }

    /// Least number of replicas of a file.
    pub fn least(&self) -> u16 {
        if self.is_single() { 2 } else { 1 }
    }

    /// How much longer the trouble lasts.
    pub fn longer(&self) -> Millis {
        if self.kind == Some(Loss::Minute) { MINUTE_MS } else { 0 }
    }
}

impl World {
    pub fn draw_losses(&mut self) {
        // In a stranding only one crash may go wrong.
        if self.moment == Some(Moment::Stranding) {
            self.losses.kind = None;
        }
        if self.losses.is_single() {
            self.mood &= !REPLICAS_LOST;
        }
    }

    pub fn begin_losses(&mut self) {
        if self.losses.kind.is_some() {
            let pause = 1 + self.losses.random.below(PAUSE_MS);
            self.at(self.now + pause, Event::Loss);
        }
    }

    /// The next loss, or the operator's next step.
    pub fn lose(&mut self) {
        if self.losses.fork.is_some() {
            self.mend();
            return self.at(self.now + LOOK_MS, Event::Loss);
        }
        if self.losses.admits {
            self.admit_all();
            self.at(self.now + 1_000, Event::Loss);
        }
        if let Some(gone) = self.losses.gone {
            let user = someone("kadoop");
            if !matches!(self.ask(|namenode| namenode.decommission(&user, gone, false)), Some(Ok(()))) {
                return self.at(self.now + 1_000, Event::Loss);
            }
            self.losses.gone = None;
        }
        if self.healed || self.losses.done {
            return;
        }
        match self.losses.kind {
            Some(Loss::Tail) => self.lose_tail(),
            Some(Loss::Checkpoint) => self.lose_checkpoint(),
            Some(Loss::OldNamenode) => self.put_older_back(),
            Some(Loss::Datanode) => self.lose_replicas(),
            Some(Loss::Minute) => self.stop_for_a_minute(),
            None => {}
        }
        let pause = 1 + self.losses.random.below(PAUSE_MS);
        let next = if self.losses.fork.is_some() { LOOK_MS } else { pause };
        self.at(self.now + next, Event::Loss);
    }

    fn stop_for_a_minute(&mut self) {
        self.losses.done = true;
        match self.losses.random.one_in(4) {
            true => self.crash_for(NAMENODE, MINUTE_MS),
            false => self.stalls[NAMENODE] = self.now + MINUTE_MS,
        }
    }

    /// Kills the namenode, and takes or damages the end of its log.
    fn lose_tail(&mut self) {
        if self.namenode.is_none() || !self.disk.is_sound() || self.losses.backup.is_some() {
            return;
        }
        self.end_process(NAMENODE);
        // The machine runs on until all is on disk, so the log's mark is exact.
        let backup = self.disk.copy();
        self.disk.put_back(&backup);
        self.losses.backup = Some(backup);
        let names = self.disk.list().unwrap_or_default();
        let Some(name) = segments(&names).last().map(|first| format!("log-{first:020}")) else { return };
        let Ok(mut bytes) = self.disk.open(&name).and_then(|file| read_whole(&file)) else { return };
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let random = &mut self.losses.random;
        let at = HEADER_BYTES + random.below(end.saturating_sub(HEADER_BYTES).max(1) as u64) as usize;
        let kind = random.below(5);
        if self.trace {
            eprintln!("{:>7} loss {kind} of the log's end at {at} of {end} in {name}", self.now);
        }
        match kind {
            0 => bytes[at.min(end)..].fill(0),
            1 => bytes[at.min(end - 1)] ^= 1 << random.below(8),
            2 => bytes.truncate(at.min(end - 1)),
            3 => bytes[HEADER_BYTES..].fill(0),
            _ => return self.disk.lose(&name),
        }
        self.disk.replace(&name, &bytes);
    }

    /// Puts the lost files back, if that is why the namenode doesn't start.
    pub fn put_files_back(&mut self) -> bool {
        let Some(backup) = self.losses.backup.take() else { return false };
        self.disk.put_back(&backup);
        self.at(self.now + 1_000, Event::Restart(NAMENODE));
        true
    }

    /// Handles a start of the namenode.
    pub fn on_namenode_started(&mut self) {
        self.losses.backup = None;
    }

    /// Kills the namenode and damages the newest checkpoint, unless the one before is damaged, too.
    fn lose_checkpoint(&mut self) {
        if self.namenode.is_none() || !self.disk.is_sound() {
            return;
        }
        self.checkpoint();
        let all = checkpoints(&self.disk.list().unwrap_or_default());
        let Some(newest) = all.last().copied() else { return };
        // With a single one, the log goes back to the first record.
        let kept = all.iter().rev().take(2);
        if self.namenode.is_none() || kept.into_iter().any(|of| self.losses.damaged.contains(of)) {
            return;
        }
        let name = format!("checkpoint-{newest:020}");
        let Ok(mut bytes) = self.disk.open(&name).and_then(|file| read_whole(&file)) else { return };
        self.end_process(NAMENODE);
        let random = &mut self.losses.random;
        let at = random.below(bytes.len().max(1) as u64) as usize;
        match random.below(4) {
            0 => bytes.truncate(at),
            _ => bytes[at] ^= 1 << random.below(8),
        }
        self.losses.damaged.insert(newest);
        self.disk.replace(&name, &bytes);
    }

    /// Copies the namenode's directory, or starts the namenode from the copy.
    fn put_older_back(&mut self) {
        let Some((namenode, _)) = &self.namenode else { return };
        let Some(copy) = self.losses.copy.take() else {
            let (disk, sequence) = (self.disk.copy(), namenode.sequence());
            let (files, touched) = (self.model.files.clone(), self.model.touched.clone());
            // A change under way may be in the copy.
            self.losses.copy = (!self.any_unsure()).then_some(Copy { disk, sequence, files, touched });
            return;
        };
        // On a full disk it couldn't start, and so notice nothing.
        if self.disk.is_full() || !self.know_more_than(copy.sequence) {
            self.losses.copy = Some(copy);
            return;
        }
        self.end_process(NAMENODE);
        (NODES + 1..HOSTS).for_each(|host| self.crash_for(host, 1_000));
        let newest = self.disk.copy();
        self.disk.put_back(&copy.disk);
        let logged = std::mem::take(&mut self.logged);
        let random = &mut self.losses.random;
        let (gives_up, ends) = (random.one_in(2), random.one_in(3));
        let decides = self.now + 3_000 + random.below(6_000);
        if self.trace {
            eprintln!("{:>7} an older copy of the namenode: {} of {logged}", self.now, copy.sequence);
        }
        let (decided, behind) = (false, false);
        self.losses.fork = Some(Fork { copy, newest, logged, gives_up, decides, decided, behind, ends });
    }

    fn any_unsure(&self) -> bool {
        self.clients
            .iter()
            .any(|client| client.unsure.is_some() || matches!(client.task, Task::Asking { .. }))
    }

    /// Whether each datanode has heard of later records, and will say so: none crashes, and no earlier
    /// call that asks for a session is under way.
    fn know_more_than(&self, sequence: u64) -> bool {
        let quiet = self.stalled(NAMENODE).is_none() && self.taken_from + SETTLED_MS < self.now;
        let sound = |disk: &SimDisk| disk.is_sound() && !disk.is_off();
        let nodes = self.nodes.iter().enumerate();
        quiet
            && self.disk.is_sound()
            && nodes.into_iter().all(|(at, node)| {
                node.running.is_some()
                    && node.heard > sequence
                    && node.joined + SETTLED_MS < self.now
                    && self.stalled(at + 1).is_none()
                    && node.disks.iter().all(sound)
            })
    }

    /// Watches a namenode that has lost records, and decides when it is time.
    fn mend(&mut self) {
        let Some(mut fork) = self.losses.fork.take() else { return };
        if fork.decided {
            if self.finish_admission(&fork) {
                return;
            }
            if self.now > fork.decides + MENDED_MS {
                self.fail("the admitted datanodes don't come back".to_owned());
            }
            self.losses.fork = Some(fork);
            return;
        }
        if std::mem::take(&mut fork.ends) && fork.behind {
            self.end_process(NAMENODE);
            fork.behind = false;
        }
        if self.change_is_accepted() {
            self.fail("a namenode that has lost records accepts a change".to_owned());
        }
        let behind = self.namenode.as_ref().is_some_and(|(namenode, _)| namenode.behind().is_some());
        if self.namenode.is_some() && fork.behind && !behind {
            self.fail("a namenode forgets that it has lost records".to_owned());
        }
        fork.behind |= behind;
        if self.now < fork.decides {
            self.losses.fork = Some(fork);
            return;
        }
        if !fork.behind {
            self.fail("a namenode hasn't noticed its lost records".to_owned());
        }
        if fork.gives_up {
            fork.decided = true;
            self.losses.fork = Some(fork);
            return;
        }
        self.end_process(NAMENODE);
        self.disk.put_back(&fork.newest);
        self.logged = fork.logged;
    }

    /// Tries a change as another client.
    fn change_is_accepted(&mut self) -> bool {
        let (user, now) = (someone("kadoop"), self.clock(NAMENODE));
        let mutation = Mutation::Mkdirs { path: "/early".to_owned(), mode: 0o755 };
        let answer = self.ask(|namenode| {
            let request = RequestId { client: namenode.join_client(now), number: 1, done_below: 1 };
            namenode.mutate(&user, request, &mutation, &[], now, 0)
        });
        matches!(answer, Some(Ok(_)))
    }

    fn admit_all(&mut self) {
        let user = someone("kadoop");
        let Some((namenode, _)) = &self.namenode else { return };
        let refused: Vec<Identity> = namenode.refused().map(|(identity, _)| identity).collect();
        for identity in refused {
            let admitted = self.ask(|namenode| namenode.admit(&user, identity));
            if let Some(Err(error)) = admitted.filter(|admitted| *admitted != Err(Error::NotFound)) {
                self.fail(format!("{identity:?} can't be admitted: {error}"));
            }
        }
    }

    /// Admits the datanodes. Once all are back, removes the files that have changed since the copy:
    /// of these only the operator knows what is lost. All others must be whole.
    fn finish_admission(&mut self, fork: &Fork) -> bool {
        self.admit_all();
        let Some((namenode, _)) = &self.namenode else { return false };
        if namenode.in_safe_mode() || self.nodes.iter().any(|node| namenode.run_of(node.identity).is_none()) {
            return false;
        }
        let (then, now) = (&fork.copy.files, &self.model.files);
        let same = |path: &String| {
            let (Some(then), Some(now)) = (then.get(path), now.get(path)) else { return false };
            let touches = fork.copy.touched.get(path).copied().unwrap_or(0);
            then.made == now.made
                && then.closed
                && now.closed
                && then.bytes == now.bytes
                && touches == self.model.touches(path)
                && !self.is_unsure(path)
        };
        let changed: BTreeSet<String> = then.keys().chain(now.keys()).cloned().collect();
        let changed: Vec<String> = changed.into_iter().filter(|path| !same(path)).collect();
        let user = someone("kadoop");
        for path in changed {
            let there = self.ask(|namenode| namenode.view(&user).stat(&path).is_ok());
            let delete = Mutation::Delete { path: path.clone(), recursive: false };
            if there.is_none() || there == Some(true) && !self.demand(delete) {
                return false;
            }
            self.model.touch(&path, self.now);
            self.model.files.remove(&path);
        }
        for (path, file) in &mut self.model.files {
            file.replication = fork.copy.files[path].replication;
        }
        for client in &mut self.clients {
            client.unsure = None;
        }
        // Echoes of calls may bring replicas of lost chunks.
        self.losses.admits = true;
        self.losses.done = true;
        true
    }

    /// Notes the chunks of which no other datanode has a sealed replica, behind the bytes that are
    /// certainly on disk: nobody was told that these are durable. So it is with a chunk whose first part
    /// alone was synced, at all members, if another failure left the others without the rest: they have
    /// that part, in replicas that can't stand in for the chunk.
    fn note_lost(&mut self, at: usize) {
        let Some((namenode, _)) = &self.namenode else { return };
        let sealed = |node: usize, chunk: ChunkId| {
            let replica = self.nodes[node].running.as_ref().and_then(|node| node.replica(chunk));
            replica.is_some_and(|replica| replica.state == ReplicaState::Sealed)
        };
        let elsewhere = |chunk: ChunkId| (0..NODES).any(|other| other != at && sealed(other, chunk));
        let user = someone("kadoop");
        let mut lost = BTreeMap::new();
        for (path, file) in &self.model.files {
            let located = namenode.locate(&user, path, 0, u64::MAX);
            let chunks = located.into_iter().flat_map(|located| located.chunks);
            let kept = |at: u64| file.kept.iter().any(|(from, to)| (*from..*to).contains(&at));
            // The chunks that a new one has replaced are kept, and stand in for its first bytes.
            let of_former = |chunk: ChunkId| {
                let former = namenode.state().kept.get(&chunk).into_iter().flatten();
                let former = former.filter(|former| elsewhere(**former));
                let used = former.filter_map(|former| Some(namenode.state().chunks.get(former)?.used));
                u64::from(used.max().unwrap_or(0))
            };
            let weak = |of: &LocatedChunk| {
                let end = of.offset + u64::from(of.length.max(1));
                of.offset + of_former(of.chunk) >= file.least || (of.offset..end).any(kept)
            };
            for of in chunks {
                let unsure = |at: &u64| *at >= file.least || kept(*at);
                if let Some(sure) = self.sure_of_shorter(at, &of, unsure) {
                    lost.insert(of.chunk, sure);
                } else if weak(&of) && !elsewhere(of.chunk) {
                    lost.insert(of.chunk, 0);
                }
            }
        }
        self.losses.lost = lost;
    }

    /// The first bytes of a chunk that are certainly on disk, if this datanode alone has sealed the chunk
    /// as it is, with `unsure` bytes behind these, and another datanode has all of these.
    fn sure_of_shorter(&self, at: usize, of: &LocatedChunk, unsure: impl Fn(&u64) -> bool) -> Option<u32> {
        let replica = |node: usize| self.nodes[node].running.as_ref()?.replica(of.chunk);
        let own = replica(at).filter(|own| own.state == ReplicaState::Sealed)?;
        let end = of.offset + u64::from(own.length.saturating_sub(of.skip));
        let sure = of.skip + (of.offset..end).find(unsure)?.saturating_sub(of.offset) as u32;
        let others: Vec<_> = (0..NODES).filter(|other| *other != at).filter_map(replica).collect();
        let alone = others.iter().all(|other| *other != own);
        (alone && others.iter().any(|other| other.length >= sure)).then_some(sure)
    }

    /// Whether the bytes that must be left of a lost chunk are on a datanode's disks, though the
    /// namenode can't use them.
    pub fn is_left(&self, of: &LocatedChunk, sure: u32, expected: &[u8]) -> bool {
        let from = (of.offset as usize).saturating_sub(of.skip as usize);
        let upto = from + sure.min(of.skip + of.length) as usize;
        let Some(expected) = expected.get(from..upto) else { return false };
        let there = |node: usize| {
            let Some(replica) = self.nodes[node].running.as_ref().and_then(|node| node.replica(of.chunk))
            else {
                return false;
            };
            let open = format!("{:016x}_{:016x}.open", replica.chunk.0, replica.stamp.0);
            [open, sealed_name(&replica)].iter().any(|name| {
                let files = self.nodes[node].disks.iter().filter_map(|disk| disk.open(name).ok());
                files.filter_map(|file| read_whole(&file).ok()).any(|bytes| bytes.starts_with(expected))
            })
        };
        sure == 0 || (0..NODES).any(there)
    }

    /// Takes a datanode's directories, or puts older copies in their place.
    fn lose_replicas(&mut self) {
        let at = self.losses.node;
        if self.losses.older.is_empty() {
            self.losses.older = self.nodes[at].disks.iter().map(SimDisk::copy).collect();
            return;
        }
        let all = self.nodes.iter().all(|node| node.running.is_some());
        if self.nodes[at].number.is_none() || !all || self.namenode.is_none() || self.losses.random.one_in(2)
        {
            return;
        }
        self.losses.done = true;
        self.note_lost(at);
        if self.trace {
            eprintln!("{:>7} may be lost: {:?}", self.now, self.losses.lost);
        }
        let random = &mut self.losses.random;
        let (kind, directory) = (random.below(5), random.below(DIRECTORIES as u64) as usize);
        if self.trace {
            eprintln!("{:>7} loss {kind} of datanode {}, directory {directory}", self.now, at + 1);
        }
        let host: Host = at + 1;
        self.crash(host);
        let older = std::mem::take(&mut self.losses.older);
        let node = &mut self.nodes[at];
        let empty = || (0..DIRECTORIES).map(|_| SimDisk::default()).collect();
        match kind {
            0 => node.disks = empty(),
            1 => node.disks[directory] = SimDisk::default(),
            2 => node.disks.iter().zip(&older).for_each(|(disk, older)| disk.put_back(older)),
            3 => node.disks[directory].put_back(&older[directory]),
            // Its identity was in its directories.
            _ => {
                node.disks = empty();
                node.cluster = 0;
                node.identity = Identity((HOSTS + at) as u64);
                self.losses.gone = node.number.take();
            }
        }
    }
}
