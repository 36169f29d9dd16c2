//! A file open for writing, and its calls to the namenode and the datanodes.

use super::{
    Client,
    driver::{Driver, Shared},
    link::{Lease, Link, Unwanted},
    members::{Place, callees, outcome, single},
    reasons::Reasons,
    requests::Begun,
};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, CallError, Refusal::NotForwarded, stub::StubError};
use strait_kadoop_core::{
    ChunkId, Config, FileId, NodeId, Stamp,
    client::{CallId, Core, Goal, Issue, WriteCall, WriterCore},
    error::{Error, Result},
    messages::{Answer, Caller, Continue, Mutation, NewChunk, Outcome, Write},
};
use strait_kadoop_wire::{
    clock::Clock,
    convert::{
        Reach, answer_from_wire, continue_to_wire, member_to_wire, new_chunk_from_wire, reach_from_wire,
        write_to_wire,
    },
    failure::{Failure, Lost},
    proofs::{Procedure, unsigned},
    tokens::Token,
    wire::{
        KadoopDatanodeV1Callees, KdAnswer, KdBegunFile, KdNewChunk, KdOpenedFile, KdProbe, KdToken, KdTold,
        KdUpto,
    },
};

/// Most chunks whose pipelines a writer remembers: more than it has that haven't ended.
const CHUNKS: usize = 64;

/// The remedy if the namenode finds too few datanodes for a chunk.
const NOWHERE: &str =
    "those that are dead, full or refused take no chunks; `strait datanodes` shows which these are";
/// The remedy if the namenode can't log a change.
const LOG_FULL: &str = "the namenode's disk is full; free room there, then repeat";
/// Most datanodes that a failure names.
const NAMED: usize = 8;

/// Writes one file. While the writer exists, no other writer can open the file. If it is dropped without
/// [`Writer::close`], the namenode recovers and closes the file; flushed bytes stay in it.
pub struct Writer {
    driver: Arc<WriteDriver>,
    /// Keeps the client alive, which renews the lease while the file is open.
    _client: Client,
}

/// State shared by the application's thread and the threads that make calls.
pub(super) struct WriteDriver {
    shared: Shared<WriterCore>,
    link: Arc<Link>,
    data: flexrpc::Client,
    caller: Caller,
    path: String,
    file: FileId,
    /// The client with the lease.
    client: u64,
    chunks: Mutex<BTreeMap<ChunkId, Pipeline>>,
    /// The namenode's request that has to be retried with the same number, if any.
    request: Mutex<Option<Asked>>,
    reasons: Reasons,
    /// Makes the client send one piece after the other, so that members apply a piece while the next ones are
    /// on their way.
    turn: flexrpc::Turn,
    closed: AtomicBool,
    /// Whether the writer has failed and given up its lease.
    given_up: AtomicBool,
}

/// A request to the namenode. Until it has ended, the namenode has to keep its answers to all later requests
/// of the client.
struct Asked {
    id: CallId,
    begun: Begun,
    /// Whether the namenode may have executed it. Then only a retry with the same number gets its answer.
    doubtful: bool,
}

/// A chunk's pipeline and the tokens for it.
#[derive(Clone)]
struct Pipeline {
    stamp: Stamp,
    nodes: Vec<NodeId>,
    places: Vec<Place>,
    token: Arc<Token>,
    source: Option<Arc<Token>>,
}

impl Pipeline {
    /// The pipeline of a new chunk, from the namenode's answer.
    fn of(new: &NewChunk, told: &KdNewChunk<'_>) -> Result<Self> {
        let nodes = new.pipeline.iter().map(|member| member.node).collect();
        let Reach { places, token, source } = reach_from_wire(told)?;
        let keep = |token: KdToken| Arc::new(Token::new(&token));
        let (token, source) = (keep(token), source.map(keep));
        Ok(Self { stamp: new.stamp, nodes, places, token, source })
    }
}

impl Writer {
    /// A writer of a file that was just opened.
    ///
    /// # Errors
    /// Internal or Invalid: the namenode's answer is malformed.
    pub(super) fn new(
        client: &Client,
        caller: &Caller,
        path: &str,
        begun: &KdBegunFile<'_>,
    ) -> Result<Self, Failure> {
        let KdBegunFile { opened: KdOpenedFile { opened, min_replicas }, first } = begun;
        let (link, clock) = (Arc::clone(&client.link), Clock::start());
        let joined = link.joined();
        let (file, now) = (FileId(opened.file), clock.now());
        let budget = link.options.budgets.of(&caller.user);
        let config = Config { min_replicas: *min_replicas as usize, ..joined.config() };
        let mut core = WriterCore::within(config, budget, file, opened.chunk_bytes, opened.length, now);
        let mut chunks = BTreeMap::new();
        if let Some(first) = first {
            let new = new_chunk_from_wire(first);
            chunks.insert(new.chunk, Pipeline::of(&new, first)?);
            core = core.with_first_chunk(new);
        }
        let driver = Arc::new(WriteDriver {
            shared: Shared::new(core, link.pool.clone(), clock),
            data: link.data.clone(),
            caller: caller.clone(),
            path: path.to_owned(),
            file,
            client: joined.requests.client().0,
            chunks: Mutex::new(chunks),
            request: Mutex::default(),
            reasons: Reasons::default(),
            turn: flexrpc::Turn::default(),
            closed: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            link,
        });
        driver.link.register(&driver);
        Ok(Self { driver, _client: client.clone() })
    }

    /// Appends bytes to the file. Returns once the writer has taken all of them. Waits while too many bytes
    /// are on their way. If there is no memory for the bytes, waits until they are acknowledged.
    ///
    /// # Errors
    /// LeaseLost: another writer or the namenode has taken the file. BytesLost: all datanodes with
    /// acknowledged but unsynced bytes of this writer have lost them; synced bytes are still there.
    /// After these the writer can't be used any more.
    ///
    /// Unavailable, NoSpace: no datanode could be reached, or had room, in time. The writer keeps the bytes
    /// that it has taken, and retries; a later call may succeed. A failed call with at most 4 MiB has taken
    /// none of its bytes, except if there was no memory for them. [`Writer::length`] includes all bytes
    /// that were taken.
    pub fn write(&mut self, bytes: impl Into<Bytes>) -> Result<(), Failure> {
        let mut bytes = bytes.into();
        if self.write_now(&mut bytes)? {
            return Ok(());
        }
        let driver = &self.driver;
        driver.link.check_process()?;
        let mut core = driver.core();
        loop {
            core.append(&mut bytes, driver.now()).map_err(|error| driver.failure(error))?;
            driver.submit(&mut core);
            if bytes.is_empty() && core.is_covered() {
                return Ok(());
            }
            core = driver.wait(core, None);
        }
    }

    /// As [`Writer::write`], but never waits. Returns whether the writer has taken all of `bytes`. If not,
    /// call [`Writer::write`] with `bytes`, which then holds the rest.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn write_now(&mut self, bytes: &mut Bytes) -> Result<bool, Failure> {
        let driver = &self.driver;
        driver.link.check_process()?;
        let mut core = driver.core();
        core.append(bytes, driver.now()).map_err(|error| driver.failure(error))?;
        driver.submit(&mut core);
        Ok(bytes.is_empty() && core.is_covered())
    }

    /// Waits until all written bytes are in the memory of every current replica, and visible to each later
    /// open of the file. Returns a lower bound of the number of these replicas; None if this writer has
    /// written nothing.
    ///
    /// # Errors
    /// As [`Writer::write`]. Unavailable: there are fewer replicas than the file's minimum.
    pub fn flush(&mut self) -> Result<Option<usize>, Failure> {
        self.reach(Goal::Flush)
    }

    /// Waits until all written bytes are on disk in at least as many replicas as the file's minimum. Returns
    /// a lower bound of the number of these replicas; None if this writer has written nothing.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub fn sync(&mut self) -> Result<Option<usize>, Failure> {
        self.reach(Goal::Sync)
    }

    /// Syncs the file as [`Writer::sync`] does, and closes it. Returns the number of replicas, as `sync`
    /// does. After an error, the file is still open, and the call can be repeated.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub fn close(&mut self) -> Result<Option<usize>, Failure> {
        let replicas = self.reach(Goal::Close)?;
        self.driver.closed.store(true, Ordering::Relaxed);
        Ok(replicas)
    }

    /// Whether a failed call can be repeated. If not, this writer can't be used any more.
    pub fn goes_on(&self) -> bool {
        self.driver.core().error().is_none()
    }

    /// Length of the file in bytes, including all bytes that this writer has taken.
    pub fn length(&self) -> u64 {
        self.driver.core().length()
    }

    fn reach(&mut self, goal: Goal) -> Result<Option<usize>, Failure> {
        let driver = &self.driver;
        driver.link.check_process()?;
        let mut core = driver.core();
        core.begin(goal, driver.now()).map_err(|error| driver.failure(error))?;
        loop {
            if let Some(outcome) = core.outcome() {
                outcome.map_err(|error| driver.failure(error))?;
                return Ok(core.replicas());
            }
            if let Some(issue) = driver.submit_but_one(&mut core) {
                // Make the call here: this thread would only wait for it.
                drop(core);
                driver.perform(issue, None);
                core = driver.core();
                continue;
            }
            core = driver.wait(core, None);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.driver.closed.load(Ordering::Relaxed) && self.driver.link.process.is_this() {
            // Give up the lease: the client would continue to renew it with its others.
            let driver = Arc::clone(&self.driver);
            self.driver.shared.run(move || driver.give_up());
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("path", &self.driver.path).finish_non_exhaustive()
    }
}

impl Lease for WriteDriver {
    fn file(&self) -> FileId {
        self.file
    }

    fn tick(self: Arc<Self>) {
        let mut core = self.core();
        core.tick(self.now());
        self.look(&core);
        self.submit(&mut core);
    }

    fn examine(self: Arc<Self>) {
        let mut core = self.core();
        core.examine(self.now());
        self.submit(&mut core);
    }
}

impl Driver for WriteDriver {
    type Core = WriterCore;

    fn shared(&self) -> &Shared<WriterCore> {
        &self.shared
    }

    fn make(self: &Arc<Self>, issue: Issue<WriteCall>, _: Option<Instant>) {
        let Issue { id, within_ms, call } = issue;
        let within = Duration::from_millis(within_ms);
        match call {
            WriteCall::Namenode(mutation) => {
                let answer = self.ask(id, &mutation, within);
                let mut core = self.core();
                core.on_answer(id, answer, self.now());
                self.look(&core);
            }
            WriteCall::Write(write) => {
                let outcomes = self.write(&write, within);
                self.core().on_write(id, &outcomes, self.now());
            }
            other => {
                let answer = self.call_member(&other, within);
                self.core().on_member(id, outcome(&answer), self.now());
            }
        }
    }

    /// Gives up the lease as soon as the writer has failed. The file can't be read before, even if the
    /// program keeps the failed writer for long.
    fn look(self: &Arc<Self>, core: &WriterCore) {
        if core.error().is_some() && !self.given_up.swap(true, Ordering::Relaxed) {
            // No thread will retry that request.
            self.request().take();
            let this = Arc::clone(self);
            self.shared.run(move || this.give_up());
        }
    }
}

impl WriteDriver {
    /// The error, with detail for people: the reason, the file's path, or what the operator can do.
    fn failure(&self, error: Error) -> Failure {
        let of_namenode = self.reasons.of_namenode().map(|failure| failure.error);
        match error {
            Error::BytesLost => Failure::new(error, format!("of {}", self.path)),
            Error::NoSpace if of_namenode != Some(error) => Failure::new(error, self.full_datanodes()),
            Error::Unavailable if of_namenode.is_none() => {
                self.reasons.of_datanodes("too few datanodes have the bytes")
            }
            other => self.reasons.explain(other),
        }
    }

    /// Names the full datanodes, and the remedy.
    fn full_datanodes(&self) -> String {
        let chunks = self.chunks();
        let last = chunks.last_key_value().map(|(_, of)| of.places.as_slice()).unwrap_or_default();
        let shown: Vec<String> = last.iter().take(NAMED).map(|(address, _)| address.to_string()).collect();
        let which = match shown.as_slice() {
            [] => String::new(),
            shown => format!(" (last tried: {})", shown.join(", ")),
        };
        format!(
            "the cluster's datanodes are full{which}; free room on their disks or add a datanode, then \
             repeat; `strait datanodes` shows the room of each"
        )
    }

    /// Asks the namenode to close the file, if this writer still has the lease.
    fn give_up(&self) {
        // Free the pending request's number: the requests below need numbers, too.
        self.request().take();
        let (client, caller, path) = (self.client, self.caller.clone(), self.path.clone());
        self.link.give_up(Unwanted { client, file: self.file, caller, path });
    }

    /// Makes one attempt at a request to the namenode, and notes the reason of a failure. Without an answer
    /// within the time, Unavailable.
    fn ask(&self, id: CallId, mutation: &Mutation, within: Duration) -> Result<Answer> {
        let answer = self.attempt(id, mutation, within);
        self.reasons.set_namenode(answer.as_ref().err().map(with_remedy));
        answer.map_err(|failure| failure.error)
    }

    fn attempt(&self, id: CallId, mutation: &Mutation, within: Duration) -> Result<Answer, Failure> {
        let asked = self.request().take_if(|asked| asked.id == id);
        let mut asked = match asked {
            Some(asked) => asked,
            None => {
                let begun = self.link.joined().requests.begin(Instant::now() + within)?;
                Asked { id, begun, doubtful: false }
            }
        };
        if asked.begun.client().0 != self.client {
            // The client has joined again, since the namenode had forgotten it, and the lease with it.
            return Err(forgotten());
        }
        let answer = self.link.mutate_as(&asked.begun, &self.caller, mutation, within);
        asked.doubtful |= matches!(answer, Err(Lost::Unknown(_)));
        let answer = answer.map_err(|lost| self.link.failure(lost));
        let answer = answer.and_then(|answer| Ok(self.take(&answer)?));
        let again = matches!(
            answer,
            Err(Failure {
                error: Error::Unavailable | Error::NoDatanodes | Error::NoSpace | Error::Limit(_),
                ..
            })
        );
        // A request that was certainly not executed gets a new number for its retry.
        *self.request() = (again && asked.doubtful).then_some(asked);
        match answer {
            Err(Failure { error: Error::UnknownClient, .. }) => Err(forgotten()),
            answer => answer,
        }
    }

    fn request(&self) -> MutexGuard<'_, Option<Asked>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts the answer. If it has a new chunk, records that chunk's pipeline.
    fn take(&self, answer: &KdAnswer<'_>) -> Result<Answer> {
        let value = answer_from_wire(answer)?;
        if let (KdAnswer::KdChunk(of), Answer::Chunk { next: Some(new), .. }) = (answer, &value)
            && let Some(told) = &of.next
        {
            let pipeline = Pipeline::of(new, told)?;
            let mut chunks = self.chunks();
            chunks.insert(new.chunk, pipeline);
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
            // Each member proves its own answer, even if other members forward it.
            let Ok(answers) = to.dn_write(&call) else { return vec![Outcome::NotExecuted; members] };
            // The reason of the first member that failed: later ones may only lack the bytes because of it.
            let mut first = None;
            let outcomes = places.into_iter().zip(answers).map(|(place, answer)| {
                let broken = matches!(answer, Err(StubError::Call(CallError::NotExecuted(NotForwarded))));
                let answer = asked.hear(place, answer);
                let outcome = outcome(&answer);
                if let Err(lost) = answer {
                    first.get_or_insert(if broken { unreached(place) } else { lost.at_datanode(place.0) });
                }
                outcome
            });
            let outcomes = outcomes.collect();
            first.map(|failure| self.reasons.add_datanode(failure));
            outcomes
        };
        let outcomes: Vec<Outcome> = attempt();
        let expired = outcomes.contains(&Outcome::Error(Error::TokenExpired));
        // A member that has already applied the write compares the repetition's bytes, and answers the same.
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
        self.noted(place, asked.hear(place, single(to.dn_continue(&call))))
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
        self.noted(place, asked.hear(place, call(&to, &what)))
    }

    /// Notes the reason of a member's failure.
    fn noted<T>(&self, place: Place, told: Result<T, Lost>) -> Result<(), Lost> {
        told.map(drop).inspect_err(|lost| {
            self.reasons.add_datanode(lost.clone().at_datanode(place.0));
        })
    }

    /// The callee and the place of one member of a chunk's pipeline.
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

    /// Gets a new token for the chunk: a token lasts minutes, but writing a chunk may take hours. True if
    /// that succeeds.
    fn renew_token(&self, chunk: ChunkId) -> bool {
        let token = self.link.ask(None, |to| to.nn_token(self.client, self.file.0, chunk.0));
        let token = match token {
            Ok(token) => token,
            Err(failure) => {
                self.reasons.set_namenode(Some(failure));
                return false;
            }
        };
        if let Some(of) = self.chunks().get_mut(&chunk) {
            of.token = Arc::new(Token::new(&token));
        }
        true
    }
}

/// The failure, with the remedy, unless the namenode itself explains it.
fn with_remedy(failure: &Failure) -> Failure {
    let remedy = match failure.error {
        Error::NoDatanodes => NOWHERE,
        Error::NoSpace => LOG_FULL,
        _ => return failure.clone(),
    };
    if failure.why.is_empty() || failure.why == failure.error.to_string() {
        Failure::new(failure.error, remedy)
    } else {
        failure.clone()
    }
}

/// The chain of a write broke before this member.
fn unreached(place: Place) -> Failure {
    let why = format!("datanode {}: the datanode before it in the pipeline can't reach it", place.0);
    Failure::new(Error::Unavailable, why)
}

/// The lease is lost, since the namenode has forgotten its client.
fn forgotten() -> Failure {
    Failure::new(Error::LeaseLost, Error::UnknownClient.to_string())
}

fn upto(chunk: ChunkId, stamp: Stamp, length: u32) -> KdUpto {
    KdUpto { pass: unsigned(), chunk: chunk.0, stamp: stamp.0, length }
}

fn unreachable_member() -> Lost {
    Lost::NotExecuted(Failure::new(Error::Unavailable, "not in the chunk's pipeline"))
}
