//! The namenode: names, the files' chunks, and the datanodes that hold them.
//!
//! ```text
//!   mutation ─ decide ─→ records + answer ─ apply ─→ state        (replay = apply)
//!                             │                        │ events
//!                             └─→ outbox ─→ log        └─→ cluster: replicas, orders
//! ```
//!
//! The caller's duties:
//!
//! 1. After each call, move the transactions in [`Namenode::outbox`] to the log.
//! 2. With each answer, note [`Namenode::sequence`], and send the answer only when the log is on disk up
//!    to there. This includes answers to queries, and answers to heartbeats with their orders.
//! 3. If the log fails, stop: the state is then ahead of the disk.
//! 4. Call [`Namenode::tick`] each second.
//! 5. Pass a clock that never runs backwards (`now`) for spans, and the wall clock for times of files.
//!
//! The namenode doesn't log which datanodes are alive, which replicas they hold, the ages of leases,
//! or rounds of recovery. After a restart it learns these again, and decides nothing from what it
//! doesn't know yet.

mod admission;
mod apply;
mod balance;
mod cluster;
mod decommission;
mod history;
mod image;
mod inodes;
mod intake;
mod locate;
mod namespace;
mod numbers;
mod orders;
mod path;
mod queries;
mod record;
mod recovery;
mod replication;
mod reports;
mod state;
mod summary;
mod survey;
mod writing;

pub use balance::Rebalancing;
pub use decommission::{Departure, Standing};
pub use image::{Loaded, load, load_part, save, write_checkpoint};
pub use path::View;
pub use record::{Record, Transaction};
pub use state::State;
pub use summary::Counting;
pub use survey::SurveyId;

use crate::{
    ClientId, Config, FileId, Millis, NodeId,
    error::{Error, Result},
    faults::Fault,
    messages::{Answer, Caller, Mutation, RequestId},
};
use apply::Event;
use cluster::Cluster;
use namespace::NewFile;
use survey::Surveys;
use writing::Wishes;

/// Records, and the answer that goes with them.
type Decision = (Vec<Record>, Answer);

/// A refusal, and the open file that caused it, if an open file did.
#[derive(Debug)]
struct Refusal {
    error: Error,
    contended: Option<FileId>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { error, contended: None }
    }
}

/// The namenode.
#[derive(Debug)]
pub struct Namenode {
    config: Config,
    state: State,
    cluster: Cluster,
    short_of_room: bool,
    surveys: Surveys,
    /// Applied transactions that aren't in the log yet, in order. The caller takes them and logs them.
    pub outbox: Vec<Transaction>,
    events: Vec<Event>,
}

impl Namenode {
    /// Starts from the loaded state. `random` must be a random number, never used by an earlier start.
    pub fn new(config: Config, state: State, now: Millis, random: u64) -> Self {
        let cluster = Cluster::new(&state, now, random);
        let (short_of_room, outbox, events) = (false, Vec::new(), Vec::new());
        Self { config, state, cluster, short_of_room, surveys: Surveys::default(), outbox, events }
    }

    /// Logs this start, which distinguishes its records and numbers from those of other starts.
    /// `random` must be a random number, never used by an earlier start, and not 0. Call this once,
    /// before all other calls.
    pub fn begin(&mut self, random: u64) {
        self.commit(None, vec![Record::Started { random }]);
    }

    /// The durable state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The number of the last transaction applied.
    pub fn sequence(&self) -> u64 {
        self.state.next.sequence
    }

    /// Whether the namenode still waits for datanodes to report, or for an operator's decision about a
    /// log that lost records. Until then it deletes, copies and recovers nothing.
    pub fn in_safe_mode(&self) -> bool {
        self.cluster.in_safe_mode()
    }

    /// The state with the rights of `caller`, for queries.
    pub fn view<'a>(&'a self, caller: &'a Caller) -> View<'a> {
        View { state: &self.state, caller, config: &self.config }
    }

    /// Adds a new client, and returns its number.
    pub fn join_client(&mut self, now: Millis) -> ClientId {
        let client = self.state.next_client();
        self.commit(None, vec![Record::ClientJoined { client }]);
        self.renew(client, now);
        client
    }

    /// Renews the client's leases.
    pub fn renew(&mut self, client: ClientId, now: Millis) {
        self.cluster.renewed.insert(client, now);
    }

    /// Executes a mutation. If `request` was executed before, only repeats its answer. `near` are the
    /// datanodes on the client's own host: one of them gets a replica of a new chunk, if possible.
    ///
    /// # Errors
    /// The reason for a refusal. This call hasn't executed the mutation. But `UnknownClient` and `Invalid` don't
    /// show whether an earlier attempt did. If another writer has the file open, the refusal may begin the
    /// recovery of its lease.
    pub fn mutate(
        &mut self,
        caller: &Caller,
        request: RequestId,
        mutation: &Mutation,
        near: &[NodeId],
        now: Millis,
        wall_ms: Millis,
    ) -> Result<Answer> {
        self.execute(caller, request, mutation, (near, false), now, wall_ms)
    }

    /// As [`Namenode::mutate`], but a creation also begins the file's first chunk, if there are
    /// datanodes for it. A small file then needs one request and one sync of the log less.
    ///
    /// # Errors
    /// As [`Namenode::mutate`].
    pub fn mutate_and_begin(
        &mut self,
        caller: &Caller,
        request: RequestId,
        mutation: &Mutation,
        near: &[NodeId],
        now: Millis,
        wall_ms: Millis,
    ) -> Result<Answer> {
        self.execute(caller, request, mutation, (near, true), now, wall_ms)
    }

    /// As [`Namenode::mutate`], for the removal of a tree for which this caller's rights were checked by
    /// a survey ([`Namenode::is_surveyed`]).
    ///
    /// # Errors
    /// As [`Namenode::mutate`].
    pub fn remove_surveyed(
        &mut self,
        survey: SurveyId,
        caller: &Caller,
        request: RequestId,
        mutation: &Mutation,
        now: Millis,
        wall_ms: Millis,
    ) -> Result<Answer> {
        self.believe(Some(survey));
        let answer = self.mutate(caller, request, mutation, &[], now, wall_ms);
        self.believe(None);
        answer
    }

    fn execute(
        &mut self,
        caller: &Caller,
        request: RequestId,
        mutation: &Mutation,
        (near, begin): (&[NodeId], bool),
        now: Millis,
        wall_ms: Millis,
    ) -> Result<Answer> {
        if !self.config.faults.has(Fault::RetryExecuted)
            && let Some(answer) = self.state.clients.answer(request)?
        {
            return Ok(answer);
        }
        self.demand_current()?;
        self.renew(request.client, now);
        let (records, answer) = match self.decide(caller, request.client, mutation, near, wall_ms, now) {
            Ok(decision) if begin => self.with_first_chunk(mutation, decision, near, now),
            Ok(decision) => decision,
            Err(refusal) => {
                let Some(file) = refusal.contended else { return Err(refusal.error) };
                let returns = self.holds_elsewhere(file, caller, request.client);
                self.contend(file, returns || matches!(mutation, Mutation::RecoverLease { .. }), now);
                // A session that took over its own file gets it as soon as the earlier writer's chunk
                // has ended, so tell its client to try again.
                return Err(if returns { Error::Unavailable } else { refusal.error });
            }
        };
        let sealed = self.sealed_by_word(mutation);
        self.commit(Some((request, answer.clone())), records);
        for (chunk, member) in sealed {
            self.note_sealed(chunk, member);
        }
        Ok(answer)
    }

    /// Whether the request was executed before, so that it is a retry.
    pub fn has_answered(&self, request: RequestId) -> bool {
        matches!(self.state.clients.answer(request), Ok(Some(_)))
    }

    fn decide(
        &mut self,
        caller: &Caller,
        client: ClientId,
        mutation: &Mutation,
        near: &[NodeId],
        time_ms: Millis,
        now: Millis,
    ) -> Result<Decision, Refusal> {
        match mutation {
            Mutation::AddChunk { file, ends, next, avoid } => {
                let next = next.then_some(Wishes { avoid, near });
                return Ok(self.decide_chunk(*file, client, ends, next, now)?);
            }
            Mutation::Complete { file, ends } => {
                return Ok(self.decide_complete(*file, client, ends, time_ms)?);
            }
            Mutation::EndChunk { file, chunk, length } => {
                self.end_for_writer(*file, client, *chunk, *length, now)?;
                return Ok((Vec::new(), Answer::Done));
            }
            _ => {}
        }
        let view = self.view(caller);
        Ok(match mutation {
            Mutation::Mkdirs { path, mode } => view.mkdirs(path, *mode, time_ms)?,
            Mutation::Create { path, overwrite, mode, replication, chunk_bytes, min_replicas } => {
                let (overwrite, mode, replication) = (*overwrite, *mode, *replication);
                let (chunk_bytes, min_replicas) = (*chunk_bytes, *min_replicas);
                let new = NewFile { path, overwrite, mode, replication, chunk_bytes, min_replicas };
                view.create(&new, client, time_ms)?
            }
            Mutation::Append { path } => view.append(path, client)?,
            Mutation::Rename { from, to, replace } => view.rename(from, to, *replace, time_ms)?,
            Mutation::Delete { path, recursive } => {
                view.delete(path, *recursive, self.surveys.complete, time_ms)?
            }
            Mutation::Truncate { path, length } => view.truncate(path, *length, time_ms)?,
            Mutation::Concat { target, sources } => view.concat(target, sources, time_ms)?,
            Mutation::SetAttributes { path, attributes } => view.set_attributes(path, attributes)?,
            Mutation::RecoverLease { path } => {
                let inode = view.walk(path)?.target()?;
                view.demand(inode, path::WRITE)?;
                view.demand_closed(inode)?;
                (Vec::new(), Answer::Changed(true))
            }
            Mutation::AddChunk { .. } | Mutation::Complete { .. } | Mutation::EndChunk { .. } => {
                return Err(Error::Invalid("handled above").into());
            }
        })
    }

    /// Applies records and queues them for the log. The state changes in no other way.
    ///
    /// # Panics
    /// If the records don't fit the state for which they were decided. Such records in the log would
    /// make every later start fail. So this panics before they are queued for the log.
    fn commit(&mut self, request: Option<(RequestId, Answer)>, records: Vec<Record>) {
        let transaction = Transaction { request, records };
        self.events.clear();
        let applied = self.state.apply(&transaction, &mut self.events);
        assert_eq!(applied, Ok(()), "{transaction:?}");
        self.note_for_surveys(&transaction);
        self.outbox.push(transaction);
        for event in std::mem::take(&mut self.events) {
            self.on_event(event);
        }
    }

    /// Frees some inodes of removed trees, and reviews some chunks of datanodes that have come or gone.
    /// Returns whether more are left: to handle all at once would make other requests wait.
    pub fn sweep(&mut self) -> bool {
        if !self.state.detached.is_empty() {
            self.commit(None, vec![Record::Swept { inodes: self.config.sweep_inodes }]);
        }
        self.review_some();
        !self.state.detached.is_empty() || !self.cluster.unreviewed.is_empty()
    }

    /// Sets whether the log's disk is nearly full. If so, no recovery begins another round, since each
    /// round logs its stamp. The remaining room is for requests that free space or end a file.
    pub fn set_short_of_room(&mut self, short: bool) {
        self.short_of_room = short;
    }

    /// Does the periodic work; called once a second.
    pub fn tick(&mut self, now: Millis) {
        self.watch_nodes(now);
        self.watch_safe_mode(now);
        if self.cluster.in_safe_mode() {
            return;
        }
        self.watch_leases(now);
        self.drive_recoveries(now);
        self.drop_kept();
        self.remove_superfluous(now);
        self.order_copies(now);
        self.balance(now);
        self.sweep();
    }
}
