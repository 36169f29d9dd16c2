//! Drives the writer's core: makes its calls, several at a time, and tells it what became
//! of them.

use super::{
    Client,
    link::Link,
    members::{self, Place, callees, outcome, single},
    pool::Pool,
    requests::Begun,
};
use crate::{
    ChunkId, FileId, Millis, NodeId, Stamp,
    client::{CallId, Goal, Issue, WriteCall, Writer as Core},
    error::{Error, Result as Judged},
    messages::{Answer, Caller, Continue, Mutation, Outcome, Write},
    service::{
        clock::Clock,
        convert::{
            Reach, answer_from_wire, continue_to_wire, member_to_wire, reach_from_wire, write_to_wire,
        },
        failure::{Failure, Lost},
        proofs::{Procedure, unsigned},
        tokens::Token,
    },
    wire::{KadoopDatanodeV1Callees, KdAnswer, KdOpened, KdProbe, KdToken, KdTold, KdUpto},
};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, stub::StubError};

/// Chunks whose pipelines are remembered: more than a writer has without their end.
const CHUNKS: usize = 64;
/// How long an application's thread sleeps at most before it looks again.
const LOOK_MS: Millis = 1_000;

/// Why a writer gives up whose namenode has nobody to name.
const NOWHERE: &str = "no datanode that is alive has room for it; `strait datanodes` shows them";

/// Writes one file, which nobody else can write meanwhile. Dropped without
/// [`Writer::close`], it leaves the file to recovery: what was flushed stays.
pub struct Writer {
    driver: Arc<Driver>,
    /// Renews the lease for as long as the file is open, whatever becomes of the client.
    _client: Client,
}

/// What the application's thread and those that make the calls share.
pub(super) struct Driver {
    core: Mutex<Core>,
    changed: Condvar,
    link: Arc<Link>,
    data: flexrpc::Client,
    pool: Pool,
    caller: Caller,
    path: String,
    file: FileId,
    /// Whose the lease is.
    client: u64,
    chunks: Mutex<BTreeMap<ChunkId, Pipeline>>,
    /// The request that is to be repeated.
    request: Mutex<Option<Asked>>,
    /// What the namenode refused last, and is asked for again.
    refused: Mutex<Option<Error>>,
    /// Pieces leave one after the other, and so are applied while the next are on their way.
    turn: flexrpc::Turn,
    clock: Clock,
    closed: AtomicBool,
}

/// A request to the namenode. While it has its number, the answers of all later ones of the
/// client have to be kept.
struct Asked {
    id: CallId,
    begun: Begun,
    /// It may have been executed: only its repetition gets the answer.
    doubtful: bool,
}

/// Where a chunk is written, and what opens it there.
#[derive(Clone)]
struct Pipeline {
    stamp: Stamp,
    nodes: Vec<NodeId>,
    places: Vec<Place>,
    token: Arc<Token>,
    source: Option<Arc<Token>>,
}

impl Writer {
    pub(super) fn new(client: &Client, caller: &Caller, path: &str, opened: &KdOpened) -> Self {
        let (link, clock) = (Arc::clone(&client.link), Clock::start());
        let joined = link.joined();
        let (file, now) = (FileId(opened.file), clock.now());
        let budget = link.options.budgets.of(&caller.user);
        let core = Core::within(joined.config(), budget, file, opened.chunk_bytes, opened.length, now);
        let driver = Arc::new(Driver {
            core: Mutex::new(core),
            changed: Condvar::new(),
            data: link.data.clone(),
            pool: link.pool.clone(),
            caller: caller.clone(),
            path: path.to_owned(),
            file,
            client: joined.requests.client().0,
            chunks: Mutex::default(),
            request: Mutex::default(),
            refused: Mutex::default(),
            turn: flexrpc::Turn::default(),
            clock,
            closed: AtomicBool::new(false),
            link,
        });
        driver.link.writers().push(Arc::downgrade(&driver));
        Self { driver, _client: client.clone() }
    }

    /// Takes bytes to be written at the end. Returns as soon as they are held, in order; waits
    /// while too many are on their way, and without memory for them until they are acknowledged.
    ///
    /// # Errors
    /// LeaseLost: another writer or the namenode has taken the file. Unavailable: no
    /// datanode could be had in time. BytesLost: all datanodes that had bytes of this writer in
    /// memory, acknowledged and not synced, have lost them; what was synced is there. After an
    /// error the writer is of no more use.
    pub fn write(&mut self, bytes: impl Into<Bytes>) -> Result<(), Failure> {
        let mut bytes = bytes.into();
        let driver = &self.driver;
        driver.link.process.demand()?;
        let mut core = driver.core();
        loop {
            core.append(&mut bytes, driver.clock.now()).map_err(|error| driver.failure(error))?;
            driver.submit(&mut core);
            if bytes.is_empty() && core.is_covered() {
                return Ok(());
            }
            core = driver.wait(core);
        }
    }

    /// Returns when all that was written is in the memory of every current replica, and
    /// visible to whoever opens the file from now on.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.reach(Goal::Flush)
    }

    /// Returns when all that was written is on disk, at no fewer than the cluster's
    /// minimum of replicas.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn sync(&mut self) -> Result<(), Failure> {
        self.reach(Goal::Sync)
    }

    /// Does what [`Writer::sync`] does and closes the file. Returns its length.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn close(mut self) -> Result<u64, Failure> {
        self.reach(Goal::Close)?;
        self.driver.closed.store(true, Ordering::Relaxed);
        Ok(self.length())
    }

    /// Bytes of the file with all that was written.
    pub fn length(&self) -> u64 {
        self.driver.core().length()
    }

    fn reach(&mut self, goal: Goal) -> Result<(), Failure> {
        let driver = &self.driver;
        driver.link.process.demand()?;
        let mut core = driver.core();
        core.begin(goal, driver.clock.now()).map_err(|error| driver.failure(error))?;
        loop {
            if let Some(outcome) = core.outcome() {
                return outcome.map_err(|error| driver.failure(error));
            }
            if let Some(issue) = driver.submit_but_one(&mut core) {
                // This thread would only wait for it.
                drop(core);
                driver.perform(issue);
                core = driver.core();
                continue;
            }
            core = driver.wait(core);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.driver.closed.load(Ordering::Relaxed) && self.driver.link.process.is_this() {
            // Its lease is renewed with the client's others, so it has to be given up.
            let driver = Arc::clone(&self.driver);
            self.driver.pool.run(move || driver.give_up());
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("path", &self.driver.path).finish_non_exhaustive()
    }
}

impl Driver {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that are lost are called by the name of their file, whoever reads the line.
    fn failure(&self, error: Error) -> Failure {
        match error {
            Error::BytesLost => Failure::new(error, format!("of {}", self.path)),
            Error::Unavailable if *self.refused() == Some(Error::NoDatanodes) => Failure::new(error, NOWHERE),
            other => other.into(),
        }
    }

    /// Sleeps until something has changed, or is due.
    fn wait<'c>(&self, core: MutexGuard<'c, Core>) -> MutexGuard<'c, Core> {
        let now = self.clock.now();
        let due = core.wake_at().map_or(LOOK_MS, |at| at.saturating_sub(now)).clamp(1, LOOK_MS);
        let time = Duration::from_millis(due);
        let (mut core, timeout) =
            self.changed.wait_timeout(core, time).unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            core.tick(self.clock.now());
            self.let_go(&core);
        }
        core
    }

    /// Nobody asks again for a writer that gave up.
    fn let_go(&self, core: &Core) {
        if core.error().is_some() {
            self.request().take();
        }
    }

    /// Time has passed, and perhaps nobody waits.
    pub(super) fn tick(self: &Arc<Self>) {
        let mut core = self.core();
        core.tick(self.clock.now());
        self.let_go(&core);
        self.submit(&mut core);
    }

    /// Has all calls made by other threads.
    fn submit(self: &Arc<Self>, core: &mut Core) {
        while let Some(issue) = core.next_call() {
            let this = Arc::clone(self);
            self.pool.run(move || this.work(issue));
        }
    }

    /// The same, but for one that is left to this thread.
    fn submit_but_one(self: &Arc<Self>, core: &mut Core) -> Option<Issue<WriteCall>> {
        let first = core.next_call();
        self.submit(core);
        first
    }

    /// Makes a call, and then the next that came of it.
    fn work(self: &Arc<Self>, issue: Issue<WriteCall>) {
        let mut next = Some(issue);
        while let Some(issue) = next {
            self.perform(issue);
            next = self.submit_but_one(&mut self.core());
        }
    }

    fn perform(&self, issue: Issue<WriteCall>) {
        let Issue { id, within_ms, call } = issue;
        let within = Duration::from_millis(within_ms);
        match call {
            WriteCall::Namenode(mutation) => {
                let answer = self.ask(id, &mutation, within);
                let mut core = self.core();
                core.on_answer(id, answer, self.clock.now());
                self.let_go(&core);
            }
            WriteCall::Write(write) => {
                let outcomes = self.write(&write, within);
                self.core().on_write(id, &outcomes, self.clock.now());
            }
            other => {
                let answer = self.call_member(&other, within);
                self.core().on_member(id, outcome(&answer), self.clock.now());
            }
        }
        self.changed.notify_all();
    }

    /// Has the namenode close the file, if the lease is still this writer's.
    fn give_up(&self) {
        // What is asked for below needs a number, too.
        self.request().take();
        // No chunk has that number: the refusal tells whose the lease is.
        let held = self.link.ask(|to| to.nn_token(self.client, self.file.0, 0));
        if held.is_err_and(|failure| failure.error == Error::NotOpen) {
            let path = self.path.clone();
            // If that fails, the lease ends with this client.
            let _ = self.link.mutate(&self.caller, &Mutation::RecoverLease { path });
        }
    }

    /// The namenode's answer; Unavailable if there is none in time.
    fn ask(&self, id: CallId, mutation: &Mutation, within: Duration) -> Judged<Answer> {
        let asked = self.request().take_if(|asked| asked.id == id);
        let mut asked = match asked {
            Some(asked) => asked,
            None => {
                let begun = self.link.joined().requests.begin(Instant::now() + within);
                Asked { id, begun: begun.map_err(|failure| failure.error)?, doubtful: false }
            }
        };
        if asked.begun.client().0 != self.client {
            // The namenode has forgotten who had the lease.
            return Err(Error::LeaseLost);
        }
        let answer = self.link.mutate_as(&asked.begun, &self.caller, mutation, within);
        asked.doubtful |= matches!(answer, Err(Lost::Unknown(_)));
        let answer = answer.map_err(|lost| members::kind(&lost)).and_then(|answer| self.take(&answer));
        let again =
            matches!(answer, Err(Error::Unavailable | Error::NoDatanodes | Error::NoSpace | Error::Limit(_)));
        *self.refused() = answer.as_ref().err().copied();
        // What was refused is asked anew.
        *self.request() = (again && asked.doubtful).then_some(asked);
        match answer {
            Err(Error::UnknownClient) => Err(Error::LeaseLost),
            answer => answer,
        }
    }

    fn request(&self) -> MutexGuard<'_, Option<Asked>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self) -> MutexGuard<'_, Option<Error>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers where a new chunk is written.
    fn take(&self, answer: &KdAnswer<'_>) -> Judged<Answer> {
        let value = answer_from_wire(answer)?;
        if let (KdAnswer::KdChunk(of), Answer::Chunk { next: Some(new), .. }) = (answer, &value)
            && let Some(told) = &of.next
        {
            let nodes = new.pipeline.iter().map(|member| member.node).collect();
            let Reach { places, token, source } = reach_from_wire(told)?;
            let keep = |token: KdToken| Arc::new(Token::new(&token));
            let (token, source) = (keep(token), source.map(keep));
            let mut chunks = self.chunks();
            chunks.insert(new.chunk, Pipeline { stamp: new.stamp, nodes, places, token, source });
            while chunks.len() > CHUNKS {
                chunks.pop_first();
            }
        }
        Ok(value)
    }

    fn chunks(&self) -> MutexGuard<'_, BTreeMap<ChunkId, Pipeline>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, write: &Write, within: Duration) -> Vec<Outcome> {
        let members = write.pipeline.len();
        let attempt = || {
            let Some(Pipeline { places, token, .. }) = self.chunks().get(&write.chunk).cloned() else {
                return vec![Outcome::NotExecuted; members];
            };
            let mut to = callees(&self.data, places.iter().map(|(address, _)| *address).collect(), within);
            to.callees.options.turn = Some(self.turn.clone());
            let mut call = write_to_wire(write);
            let asked = token.sign_write(&mut call);
            // Each member vouches for itself alone, whoever has passed its answer on.
            match to.dn_write(&call) {
                Ok(answers) => {
                    let told = places.into_iter().zip(answers);
                    told.map(|(place, answer)| outcome(&asked.hear(place, answer))).collect()
                }
                Err(_) => vec![Outcome::NotExecuted; members],
            }
        };
        let outcomes: Vec<Outcome> = attempt();
        let expired = outcomes.contains(&Outcome::Error(Error::TokenExpired));
        // Who has applied it already compares, and answers the same.
        if expired && self.renew_token(write.chunk) { attempt() } else { outcomes }
    }

    fn call_member(&self, call: &WriteCall, within: Duration) -> Result<(), Lost> {
        let answer = self.attempt_member(call, within);
        let expired = matches!(&answer, Err(Lost::Refused(failure)) if failure.error == Error::TokenExpired);
        let chunk = match call {
            WriteCall::Continue { begin, .. } => Some(begin.chunk),
            WriteCall::Publish { chunk, .. }
            | WriteCall::Sync { chunk, .. }
            | WriteCall::Seal { chunk, .. } => Some(*chunk),
            WriteCall::Probe { .. } | WriteCall::Namenode(_) | WriteCall::Write(_) => None,
        };
        if expired && chunk.is_some_and(|chunk| self.renew_token(chunk)) {
            return self.attempt_member(call, within);
        }
        answer
    }

    fn attempt_member(&self, call: &WriteCall, within: Duration) -> Result<(), Lost> {
        match call {
            WriteCall::Probe { to } => {
                let chunks = self.chunks();
                let found = chunks.iter().rev().find(|(_, of)| of.nodes.contains(&to.node));
                let (chunk, of) =
                    found.map(|(chunk, of)| (*chunk, of.clone())).ok_or_else(unreachable_member)?;
                drop(chunks);
                let (callee, place) = self.one(&of, to.node, within)?;
                let (stamp, member) = (of.stamp.0, member_to_wire(to));
                let mut call = KdProbe { pass: unsigned(), chunk: chunk.0, stamp, member };
                let asked = of.token.sign(&mut call, Procedure::Probe, place.1);
                asked.hear(place, single(callee.dn_probe(&call))).map(drop)
            }
            WriteCall::Continue { to, begin } => self.begin(*to, begin, within),
            WriteCall::Publish { to, chunk, stamp, length } => {
                let of = upto(*chunk, *stamp, *length);
                self.tell(*to, of, within, Procedure::Publish, |to, of| single(to.dn_publish(of)))
            }
            WriteCall::Sync { to, chunk, stamp, length } => {
                let of = upto(*chunk, *stamp, *length);
                self.tell(*to, of, within, Procedure::Sync, |to, of| single(to.dn_sync(of)))
            }
            WriteCall::Seal { to, chunk, stamp, length } => {
                let of = upto(*chunk, *stamp, *length);
                self.tell(*to, of, within, Procedure::Seal, |to, of| single(to.dn_seal(of)))
            }
            WriteCall::Namenode(_) | WriteCall::Write(_) => Err(unreachable_member()),
        }
    }

    fn begin(&self, to: NodeId, begin: &Continue, within: Duration) -> Result<(), Lost> {
        let of = self.chunks().get(&begin.chunk).cloned().ok_or_else(unreachable_member)?;
        let (to, place) = self.one(&of, to, within)?;
        let mut call = continue_to_wire(begin);
        let asked = of.token.sign(&mut call, Procedure::Continue, place.1);
        if let Some(source) = &of.source {
            source.sign_source(&mut call, place.1);
        }
        asked.hear(place, single(to.dn_continue(&call))).map(drop)
    }

    fn tell(
        &self,
        to: NodeId,
        mut what: KdUpto,
        within: Duration,
        procedure: Procedure,
        call: impl FnOnce(&KadoopDatanodeV1Callees, &KdUpto) -> Result<KdTold, StubError>,
    ) -> Result<(), Lost> {
        let of = self.chunks().get(&ChunkId(what.chunk)).cloned().ok_or_else(unreachable_member)?;
        let (to, place) = self.one(&of, to, within)?;
        let asked = of.token.sign(&mut what, procedure, place.1);
        asked.hear(place, call(&to, &what)).map(drop)
    }

    /// One member of a chunk's pipeline.
    fn one(
        &self,
        of: &Pipeline,
        node: NodeId,
        within: Duration,
    ) -> Result<(KadoopDatanodeV1Callees, Place), Lost> {
        let at = of.nodes.iter().position(|member| *member == node).ok_or_else(unreachable_member)?;
        let place = *of.places.get(at).ok_or_else(unreachable_member)?;
        Ok((callees(&self.data, vec![place.0], within), place))
    }

    /// A token lasts minutes, a chunk may be written for hours.
    fn renew_token(&self, chunk: ChunkId) -> bool {
        let token = self.link.ask(|to| to.nn_token(self.client, self.file.0, chunk.0));
        let Ok(token) = token else { return false };
        if let Some(of) = self.chunks().get_mut(&chunk) {
            of.token = Arc::new(Token::new(&token));
        }
        true
    }
}

fn upto(chunk: ChunkId, stamp: Stamp, length: u32) -> KdUpto {
    KdUpto { pass: unsigned(), chunk: chunk.0, stamp: stamp.0, length }
}

fn unreachable_member() -> Lost {
    Lost::NotExecuted(Failure::new(Error::Unavailable, "not of the pipeline"))
}

/// Drivers of files that are open for writing.
#[derive(Default)]
pub(super) struct Drivers(Mutex<Vec<Weak<Driver>>>);

impl Drivers {
    fn push(&self, driver: Weak<Driver>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(driver);
    }

    /// Those that are still there.
    pub(super) fn all(&self) -> Vec<Arc<Driver>> {
        let mut drivers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drivers.retain(|driver| driver.strong_count() > 0);
        drivers.iter().filter_map(Weak::upgrade).collect()
    }
}
