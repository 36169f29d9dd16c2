//! Writes one file: `docs/kadoop-protocol.md`, "The write pipeline" and "A datanode lost in
//! mid-write".
//!
//! ```text
//!            append            write, all answered           seal          add_chunk, complete
//!   bytes ──────────→ staged ─────────────────────→ open ─────────→ ended ──────────────→ logged
//!                       ↑   sent, not acknowledged  chunk            chunks
//!                       └──────── broken ─────────────┘
//! ```
//!
//! The next step follows from the state alone: every input changes the state, and then
//! [`WriterCore::advance`] examines all of it.

mod ended;
mod open;
mod outcomes;
mod staging;

use super::{
    CallId, Core, Issue,
    memory::{Budget, Taken, Unbounded},
};
use crate::{
    ChunkId, Config, FileId, Member, Millis, NodeId, Stamp,
    error::{Error, Result},
    faults::Fault,
    messages::{Continue, End, Mutation, NewChunk, Write},
};
use bytes::Bytes;
use ended::Ended;
use open::{Open, Phase, Telling};
use staging::Staging;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Most ended chunks that no datanode has sealed yet: without a bound, a writer would get far ahead of
/// the disks.
const MAX_UNSEALED: usize = 4;

/// Most doublings of the pause before another pipeline. The longest pause is then 3.2 s.
const MOST_DOUBLINGS: u32 = 4;

/// A goal that a writer pursues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// All bytes are in the memory of every member, and visible to readers that open the file afterwards.
    Flush,
    /// All bytes are on disk, in at least the minimum of replicas.
    Sync,
    /// As `Sync`, and the file is closed.
    Close,
}

/// A call that a writer needs.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone)]
pub enum WriteCall {
    /// Call the namenode, then [`WriterCore::on_answer`].
    Namenode(Mutation),
    /// Call all members of the pipeline, in its order, then [`WriterCore::on_write`].
    Write(Write),
    /// Ask whether the datanode still runs in this incarnation, then [`WriterCore::on_member`]. Call that
    /// after all following kinds of calls, too.
    Probe {
        to: Member,
    },
    Continue {
        to: NodeId,
        begin: Continue,
    },
    Publish {
        to: NodeId,
        chunk: ChunkId,
        stamp: Stamp,
        length: u32,
    },
    Sync {
        to: NodeId,
        chunk: ChunkId,
        stamp: Stamp,
        length: u32,
    },
    Seal {
        to: NodeId,
        chunk: ChunkId,
        stamp: Stamp,
        length: u32,
    },
}

/// The purpose of a call under way.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Ask,
    Write { chunk: ChunkId, end: u32 },
    Continue { chunk: ChunkId, to: NodeId },
    Tell { chunk: ChunkId, to: NodeId },
    Probe { chunk: ChunkId, to: NodeId },
    Seal { chunk: ChunkId, to: NodeId },
}

/// A request to the namenode, one at a time.
#[derive(Debug)]
struct Ask {
    id: CallId,
    mutation: Mutation,
    /// Time of the next attempt. None while an attempt is under way.
    again_at: Option<Millis>,
}

/// Writes one file.
#[derive(Debug)]
pub struct WriterCore {
    config: Config,
    file: FileId,
    chunk_bytes: u32,
    length: u64,
    staged: Staging,
    /// Memory for accepted but unacknowledged bytes. Further bytes stay in the caller's own memory, and
    /// the caller waits until they are acknowledged.
    memory: Taken,
    /// Time of the latest append.
    appended: Millis,
    /// Whether to send all staged bytes, even if they don't fill a write.
    pressed: bool,
    open: Option<Open>,
    ended: Vec<Ended>,
    /// Whether each ended chunk has its minimum of replicas, according to the namenode's answer.
    durable: bool,
    /// Of all chunks with a logged end that the writer has forgotten: the least number of replicas.
    logged: Option<usize>,
    ask: Option<Ask>,
    /// Earliest time of the next request, after an answer that demands a pause.
    ask_at: Millis,
    goal: Option<Goal>,
    /// Whether every member has confirmed the bytes since the goal was set. An earlier confirmation
    /// doesn't count, since a member may have lost the bytes after it.
    confirmed: bool,
    outcome: Option<Result<()>>,
    closed: bool,
    failed: Option<Error>,
    /// Whether an append waits until its bytes are accepted or acknowledged.
    waiting: bool,
    /// The reason why an append waited for too long. The next append returns it.
    stuck: Option<Error>,
    /// Lost datanodes, each with the time until which to avoid it.
    avoid: BTreeMap<NodeId, Millis>,
    /// Number of pipelines that broke since the latest acknowledgement.
    broken: u32,
    /// Time of the latest progress.
    progress: Millis,
    /// If the latest attempt failed for lack of space: the time of the first in a row of such failures.
    full_since: Option<Millis>,
    calls: BTreeMap<CallId, Pending>,
    last_call: u64,
    issues: VecDeque<Issue<WriteCall>>,
}

impl Core for WriterCore {
    type Call = WriteCall;

    fn next_call(&mut self) -> Option<Issue<WriteCall>> {
        self.issues.pop_front()
    }

    fn wake_at(&self) -> Option<Millis> {
        let again = self.ask.as_ref().and_then(|ask| ask.again_at);
        let seals = self.ended.iter().filter(|ended| ended.waits());
        let waiting = (self.busy() && self.ask.is_none() && self.ask_at > 0).then_some(self.ask_at);
        let idle = (self.staged.has_part() && !self.pressed)
            .then(|| self.appended.saturating_add(self.config.idle_ms));
        let give_up = self.busy().then(|| self.gives_up_at().0);
        let times = again.into_iter().chain(seals.map(|ended| ended.next_try)).chain(waiting).chain(give_up);
        let times = times.chain(idle);
        if self.failed.is_some() { None } else { times.min() }
    }

    fn tick(&mut self, now: Millis) {
        self.advance(now);
    }
}

impl WriterCore {
    /// A writer of a file that the namenode has opened at `length`
    /// ([`crate::messages::Answer::Opened`]).
    pub fn new(config: Config, file: FileId, chunk_bytes: u32, length: u64, now: Millis) -> Self {
        Self::within(config, Arc::new(Unbounded), file, chunk_bytes, length, now)
    }

    /// As [`WriterCore::new`], with memory from `budget` for unacknowledged bytes.
    pub fn within(
        config: Config,
        budget: Arc<dyn Budget>,
        file: FileId,
        chunk_bytes: u32,
        length: u64,
        now: Millis,
    ) -> Self {
        Self {
            staged: Staging::new(config.write_bytes),
            memory: Taken::nothing(budget),
            appended: now,
            pressed: false,
            config,
            file,
            chunk_bytes,
            length,
            open: None,
            ended: Vec::new(),
            durable: true,
            logged: None,
            ask: None,
            ask_at: 0,
            goal: None,
            confirmed: true,
            outcome: None,
            closed: false,
            failed: None,
            waiting: false,
            stuck: None,
            avoid: BTreeMap::new(),
            broken: 0,
            progress: now,
            full_since: None,
            calls: BTreeMap::new(),
            last_call: 0,
            issues: VecDeque::new(),
        }
    }

    /// As [`WriterCore::within`], for a new file whose first chunk has begun
    /// ([`crate::messages::Answer::Begun`]).
    #[must_use]
    pub fn with_first_chunk(mut self, first: NewChunk) -> Self {
        self.begin_chunk(first);
        self
    }

    /// The number of the opening with which this writer writes.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// The file's length in bytes, including all accepted bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The reason for this writer's failure, if it has failed.
    pub fn error(&self) -> Option<Error> {
        self.failed
    }

    /// Number of accepted but unacknowledged bytes.
    fn held(&self) -> usize {
        self.staged.bytes() + self.open.as_ref().map_or(0, Open::under_way)
    }

    /// Whether the budget gave memory for all accepted but unacknowledged bytes. Otherwise, the caller
    /// counts them as its own memory, and waits until they are acknowledged.
    pub fn is_covered(&self) -> bool {
        self.held() as u64 <= self.memory.bytes()
    }

    /// Accepts as many of the first `bytes` as there is room for, and leaves the rest in `bytes`. Accepts
    /// all or none of at most `stage_bytes` bytes, unless the budget lacks memory for them.
    ///
    /// # Errors
    /// The writer's failure. Invalid: a goal is pursued, or the file is closed. Unavailable, NoSpace:
    /// there was no progress for too long since an earlier call left bytes. The writer keeps the bytes
    /// that it has accepted, and continues to write them.
    pub fn append(&mut self, bytes: &mut Bytes, now: Millis) -> Result<()> {
        self.demand_free()?;
        if let Some(error) = self.stuck.take() {
            return Err(error);
        }
        let accepted = bytes.split_to(self.accepts(bytes.len()));
        if !accepted.is_empty() {
            self.appended = now;
        }
        self.length += accepted.len() as u64;
        self.staged.push(accepted);
        self.await_room(!bytes.is_empty() || !self.is_covered(), now);
        self.advance(now);
        Ok(())
    }

    /// Notes whether an append waits. The time after which it gives up counts from now.
    fn await_room(&mut self, waiting: bool, now: Millis) {
        if waiting && !self.waiting {
            self.progress = now;
        }
        self.waiting = waiting;
    }

    /// Number of bytes to accept of `wanted`, by the room and the memory for them. Without memory, only
    /// one write's bytes at a time. 0 while it isn't known whether the file is already closed.
    fn accepts(&mut self, wanted: usize) -> usize {
        if self.ask.as_ref().is_some_and(|ask| matches!(ask.mutation, Mutation::Complete { .. })) {
            return 0;
        }
        let held = self.held();
        let limit = self.config.stage_bytes as usize + self.config.hold_bytes as usize;
        let room = limit.saturating_sub(held);
        let most =
            if wanted > room && wanted <= self.config.stage_bytes as usize { 0 } else { wanted.min(room) };
        let one = most.min(self.config.write_bytes as usize);
        match [most, one].into_iter().find(|some| self.memory.grow_to((held + some) as u64)) {
            Some(some) => some,
            None if held == 0 => one,
            None => 0,
        }
    }

    /// Begins to pursue `goal` for all appended bytes; [`WriterCore::outcome`] returns the result. If that
    /// is Unavailable or NoSpace, the writer still has all bytes, and the caller can begin the same or
    /// another goal. To close a closed file succeeds.
    ///
    /// # Errors
    /// The writer's failure. Invalid: a goal is pursued, or the file is closed.
    pub fn begin(&mut self, goal: Goal, now: Millis) -> Result<()> {
        if self.closed && goal == Goal::Close {
            self.outcome = Some(Ok(()));
            return Ok(());
        }
        self.demand_free()?;
        (self.goal, self.outcome) = (Some(goal), None);
        (self.stuck, self.waiting, self.progress) = (None, false, now);
        self.confirmed = self.config.faults.has(Fault::OldFlushBelieved);
        if goal == Goal::Sync && self.open.is_none() && self.length > 0 {
            // Ask the namenode again whether the ended chunks still have their replicas.
            self.durable &= self.confirmed;
        }
        self.advance(now);
        Ok(())
    }

    fn demand_free(&self) -> Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None if self.goal.is_some() => Err(Error::Invalid("the writer is flushing")),
            None if self.closed => Err(Error::Invalid("the file is closed")),
            None => Ok(()),
        }
    }

    /// The result of the latest goal, once there is one. Returns it only once.
    pub fn outcome(&mut self) -> Option<Result<()>> {
        self.outcome.take()
    }

    /// The least number of replicas that any of this writer's bytes have: in memory after a flush, on
    /// disk after a sync or close. None if it has written nothing.
    pub fn replicas(&self) -> Option<usize> {
        let open = self.open.as_ref().filter(|open| open.acknowledged > open.start);
        self.replicas_of_ended().into_iter().chain(open.map(|open| open.new.pipeline.len())).min()
    }

    fn replicas_of_ended(&self) -> Option<usize> {
        let ended = self.ended.iter().filter(|ended| ended.length > 0).map(Ended::replicas);
        ended.chain(self.logged).min()
    }

    /// Whether ended chunks have too few replicas, as far as the writer knows. An open chunk has enough:
    /// the namenode gives no pipeline with fewer members than the minimum.
    fn is_short(&self) -> bool {
        self.replicas_of_ended().is_some_and(|replicas| replicas < self.config.min_replicas)
    }

    /// Probes each member of the pipeline, unless other calls are under way. For the case that the
    /// namenode says that members are lost. If a probe fails, the writer ends the chunk at the other
    /// members. So the chunk gets its replicas again, even while this writer is idle.
    pub fn examine(&mut self, now: Millis) {
        if self.failed.is_none()
            && let Some(open) = self.open.as_mut().filter(|open| open.settled())
        {
            open.suspects.clear();
            self.probe(Phase::Examining);
            self.advance(now);
        }
    }

    fn busy(&self) -> bool {
        let unsealed = self.ended.iter().any(|ended| !ended.is_durable());
        let under_way = self.open.as_ref().is_some_and(|open| open.under_way() > 0);
        let waiting = self.staged.is_full() || self.pressed || under_way;
        self.goal.is_some() || self.ask.is_some() || unsealed || waiting || !self.calls.is_empty()
    }

    /// Takes all steps that the state allows.
    fn advance(&mut self, now: Millis) {
        if self.failed.is_some() {
            return;
        }
        self.press(now);
        if !self.busy() {
            self.progress = now;
        } else if let (at, error) = self.gives_up_at()
            && now >= at
        {
            self.give_up(error, now);
        }
        self.retire_ended();
        self.advance_open(now);
        self.seal_ended(now);
        self.advance_namenode(now);
        self.advance_goal();
        self.memory.shrink_to(self.held() as u64);
    }

    /// Decides whether to send bytes that don't fill a write. They wait for more bytes, but only for a
    /// short time, so that an idle open file holds no memory. Without memory for them, they don't wait.
    fn press(&mut self, now: Millis) {
        let idle = now.saturating_sub(self.appended) >= self.config.idle_ms;
        self.pressed = self.staged.has_part() && (self.pressed || idle || !self.is_covered());
    }

    /// Whether to send a write that isn't full.
    fn sends_all(&self) -> bool {
        self.goal.is_some() || self.pressed
    }

    /// The time at which to give up if there is no progress until then, and the error. A lack of space
    /// may last, so a caller waits less long for it than for lost datanodes, which may soon return.
    fn gives_up_at(&self) -> (Millis, Error) {
        let at = self.progress + self.config.give_up_ms;
        match self.full_since {
            Some(since) => (at.min(since.max(self.progress) + self.config.full_ms), Error::NoSpace),
            None => (at, Error::Unavailable),
        }
    }

    /// Ends the wait of a caller with an error, if one waits. The writer keeps the bytes and continues to
    /// try to write them: there may be space, or datanodes, later.
    fn give_up(&mut self, error: Error, now: Millis) {
        if self.goal.take().is_some() {
            self.outcome = Some(Err(error));
        } else if std::mem::take(&mut self.waiting) {
            self.stuck = Some(error);
        }
        self.progress = now;
    }

    /// Notes the failure of an attempt to write.
    fn note_failure(&mut self, for_space: bool, now: Millis) {
        self.full_since = for_space.then(|| self.full_since.unwrap_or(now));
    }

    fn fail(&mut self, error: Error) {
        self.failed = Some(error);
        if self.goal.take().is_some() {
            self.outcome = Some(Err(error));
        }
        (self.open, self.ask) = (None, None);
        self.ended.clear();
        self.staged.clear();
        self.memory.shrink_to(0);
        self.issues.clear();
        self.calls.clear();
    }

    fn advance_open(&mut self, now: Millis) {
        let Some(open) = &self.open else { return };
        match open.phase {
            Phase::Copying => {}
            Phase::Writing => {
                self.send();
                self.tell();
                let closing = self.goal == Some(Goal::Close) && self.staged.bytes() == 0;
                let full = |open: &Open| open.acknowledged == self.chunk_bytes || closing;
                if self.open.as_ref().is_some_and(|open| open.settled() && full(open)) {
                    self.end_open(false, now);
                }
            }
            // Don't wait for the calls under way: members may hold them until earlier bytes arrive, which
            // may be lost. Their outcomes don't matter, since the members seal at the acknowledged length.
            Phase::Broken => self.probe(Phase::Probing),
            Phase::Examining if open.probes == 0 && open.suspects.is_empty() => {
                if let Some(open) = &mut self.open {
                    open.phase = Phase::Writing;
                }
                self.advance_open(now);
            }
            Phase::Probing | Phase::Examining if open.probes == 0 => self.end_open(true, now),
            Phase::Probing | Phase::Examining => {}
        }
    }

    /// Sends staged bytes, up to the datanodes' window and the chunk's end.
    fn send(&mut self) {
        let all = self.sends_all();
        loop {
            let Some(open) = &mut self.open else { return };
            let room = (self.chunk_bytes - open.sent_end) as usize;
            let Some(next) = self.staged.next(all) else { return };
            let length = next.min(room);
            if length == 0 || open.under_way() + length > self.config.hold_bytes as usize {
                return;
            }
            let Some(bytes) = self.staged.take(length) else { return };
            let offset = open.sent_end;
            open.sent_end += bytes.len() as u32;
            open.sent.push_back(bytes.clone());
            open.calls += 1;
            let (chunk, stamp, pipeline) = (open.new.chunk, open.new.stamp, open.new.pipeline.clone());
            let write = Write { chunk, stamp, pipeline, offset, bytes };
            let end = open.sent_end;
            self.issue(Pending::Write { chunk, end }, self.config.write_ms, WriteCall::Write(write));
        }
    }

    /// Sends every member the acknowledged length, if the goal needs that.
    fn tell(&mut self) {
        let Some(goal) = self.goal.filter(|_| self.staged.bytes() == 0) else { return };
        // The members of a chunk without bytes don't know it yet.
        let Some(open) = self.open.as_mut().filter(|open| open.settled() && !open.is_empty()) else { return };
        let sync = match goal {
            Goal::Flush if open.published < open.acknowledged || !self.confirmed => false,
            Goal::Sync if open.synced < open.acknowledged || !self.confirmed => true,
            _ => return,
        };
        let (chunk, stamp, length) = (open.new.chunk, open.new.stamp, open.acknowledged);
        let members = members(&open.new.pipeline);
        open.telling = Some(Telling { sync, length, left: members.len() });
        open.calls = members.len();
        for to in members {
            let (call, within) = if sync {
                (WriteCall::Sync { to, chunk, stamp, length }, self.config.disk_ms)
            } else {
                (WriteCall::Publish { to, chunk, stamp, length }, self.config.write_ms)
            };
            self.issue(Pending::Tell { chunk, to }, within, call);
        }
    }

    fn probe(&mut self, phase: Phase) {
        let Some(open) = &mut self.open else { return };
        open.phase = phase;
        open.there.clear();
        open.probes = open.new.pipeline.len();
        let chunk = open.new.chunk;
        for to in open.new.pipeline.clone() {
            let probe = Pending::Probe { chunk, to: to.node };
            self.issue(probe, self.config.probe_ms, WriteCall::Probe { to });
        }
    }

    /// Ends the open chunk at the acknowledged length; later bytes go into the next chunk.
    fn end_open(&mut self, broken: bool, now: Millis) {
        let Some(open) = self.open.take() else { return };
        let faults = self.config.faults;
        if broken {
            let lost = open.new.pipeline.iter().map(|member| member.node);
            let mut lost: Vec<NodeId> = lost.filter(|node| !open.there.contains(node)).collect();
            if lost.is_empty() {
                lost = open.suspects;
            }
            // A single break may be chance. After several, pause, so that the namenode gets fewer requests.
            self.broken += 1;
            if self.broken > 1 {
                let pause = self.config.retry_ms << (self.broken - 2).min(MOST_DOUBLINGS);
                self.ask_at = self.ask_at.max(now + pause);
            }
            self.avoid.extend(lost.into_iter().map(|node| (node, now + self.config.dead_ms)));
            if !faults.has(Fault::UnacknowledgedDropped) {
                self.staged.put_back(open.sent.into_iter());
            }
        }
        // Abandon a chunk without new bytes: at most it has those of the chunk that it continues.
        let whole = if faults.has(Fault::SealedAtPublished) { open.published } else { open.acknowledged };
        let length = if whole > open.start { whole } else { 0 };
        let mut ended = Ended {
            ask: open.there,
            new: open.new,
            length,
            broken,
            durable: Vec::new(),
            calls: 0,
            next_try: now,
            since: now,
            refused: BTreeSet::new(),
            handed_over: false,
            claimed: false,
            logged: false,
            assured: 0,
        };
        if ended.ask.is_empty() {
            ended.ask = ended.everyone();
        }
        self.ended.push(ended);
        self.durable = false;
    }

    fn seal_ended(&mut self, now: Millis) {
        let mut seals = Vec::new();
        for ended in &mut self.ended {
            // A member that only restarts is usually back within this time.
            ended.handed_over |= ended.is_hopeless(now, self.config.write_ms);
        }
        for ended in self.ended.iter_mut().filter(|ended| ended.needs_seal(now)) {
            let everyone = ended.everyone();
            let ask = std::mem::replace(&mut ended.ask, everyone);
            ended.calls = ask.len();
            ended.next_try = now + self.config.retry_ms;
            let (chunk, stamp, length) = (ended.new.chunk, ended.new.stamp, ended.length);
            seals.extend(ask.into_iter().map(|to| (to, chunk, stamp, length)));
        }
        for (to, chunk, stamp, length) in seals {
            let call = WriteCall::Seal { to, chunk, stamp, length };
            self.issue(Pending::Seal { chunk, to }, self.config.disk_ms, call);
        }
    }

    /// Sends the next needed request to the namenode, one at a time.
    fn advance_namenode(&mut self, now: Millis) {
        if let Some(ask) = &mut self.ask {
            if ask.again_at.is_some_and(|at| now >= at) {
                ask.again_at = None;
                let (id, mutation) = (ask.id, ask.mutation.clone());
                self.issue_again(id, mutation);
            }
            return;
        }
        if now >= self.ask_at {
            self.ask_at = 0;
        }
        if self.ask_at == 0
            && let Some(mutation) = self.wanted(now)
        {
            self.last_call += 1;
            let id = CallId(self.last_call);
            self.ask = Some(Ask { id, mutation: mutation.clone(), again_at: None });
            self.issue_again(id, mutation);
        }
    }

    fn wanted(&mut self, now: Millis) -> Option<Mutation> {
        let file = self.file;
        let faults = self.config.faults;
        let settled = self.ended.iter().all(Ended::is_settled);
        // Report a broken chunk's end once a member has it on disk.
        let sound = self.ended.iter().all(|ended| !ended.broken || ended.is_durable());
        if let Some(ended) = self.ended.iter().find(|ended| ended.handed_over) {
            return Some(Mutation::EndChunk { file, chunk: ended.new.chunk, length: ended.length });
        }
        if self.open.is_none() && self.staged.next(self.sends_all()).is_some() {
            let unsealed = self.ended.iter().filter(|ended| !ended.is_durable()).count();
            self.avoid.retain(|_, until| *until > now);
            let avoid = self.avoid.keys().copied().collect();
            let more = sound && unsealed < MAX_UNSEALED;
            return more.then(|| Mutation::AddChunk { file, ends: self.ends(), next: true, avoid });
        }
        let Some(goal) = self.goal else {
            // Report a broken chunk's end even without a goal: only then does the namenode order copies.
            let broken = self.open.is_none() && self.ended.iter().any(|ended| ended.broken);
            return (broken && settled && sound).then(|| Mutation::AddChunk {
                file,
                ends: self.ends(),
                next: false,
                avoid: Vec::new(),
            });
        };
        let tell = match goal {
            Goal::Flush => {
                let short = settled && self.is_short();
                sound && (short || self.ended.iter().any(|ended| !ended.claimed))
            }
            Goal::Sync => settled && !self.durable && !faults.has(Fault::SyncForgetsEarlier),
            Goal::Close if self.open.is_none() && self.staged.bytes() == 0 && settled => {
                return Some(Mutation::Complete { file, ends: self.ends() });
            }
            Goal::Close => false,
        };
        tell.then(|| Mutation::AddChunk { file, ends: self.ends(), next: false, avoid: Vec::new() })
    }

    /// The ends that the namenode doesn't know yet.
    fn ends(&self) -> Vec<End> {
        let unlogged = self.ended.iter().filter(|ended| !ended.logged);
        unlogged.filter(|ended| !ended.claimed || ended.is_durable()).map(Ended::end).collect()
    }

    /// Forgets chunks whose end the namenode has logged, once all members have answered.
    fn retire_ended(&mut self) {
        let Self { ended, logged, .. } = self;
        ended.retain(|ended| {
            let over = ended.logged && ended.calls == 0;
            if over {
                *logged = Some(ended.replicas().min(logged.unwrap_or(usize::MAX)));
            }
            !over
        });
    }

    fn advance_goal(&mut self) {
        let Some(goal) = self.goal else { return };
        let early = self.config.faults.has(Fault::FlushedBeforeEnd);
        if self.staged.bytes() > 0 || self.open.as_ref().is_some_and(|open| !open.settled()) {
            return;
        }
        let reached = match goal {
            Goal::Flush => {
                let told =
                    |open: &Open| open.is_empty() || open.published == open.acknowledged && self.confirmed;
                let claimed = self.ended.iter().all(|ended| ended.claimed) && !self.is_short();
                self.open.as_ref().is_none_or(told) && (early || claimed)
            }
            Goal::Sync => {
                let told =
                    |open: &Open| open.is_empty() || open.synced == open.acknowledged && self.confirmed;
                self.open.as_ref().is_none_or(told)
                    && (self.durable || self.config.faults.has(Fault::SyncForgetsEarlier))
            }
            Goal::Close => self.closed,
        };
        if reached {
            (self.goal, self.outcome) = (None, Some(Ok(())));
        }
    }

    fn issue(&mut self, pending: Pending, within_ms: Millis, call: WriteCall) {
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.calls.insert(id, pending);
        self.issues.push_back(Issue { id, within_ms, call });
    }

    fn issue_again(&mut self, id: CallId, mutation: Mutation) {
        self.calls.insert(id, Pending::Ask);
        let within_ms = self.config.write_ms;
        self.issues.push_back(Issue { id, within_ms, call: WriteCall::Namenode(mutation) });
    }
}

fn members(pipeline: &[Member]) -> Vec<NodeId> {
    pipeline.iter().map(|member| member.node).collect()
}
