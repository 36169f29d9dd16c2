//! A client that writes a file with the real core.

use super::{
    client::Task,
    network::{Host, NAMENODE, Reply, Request},
    world::{Then, World},
};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};
use strait_kadoop_core::{
    Config, Error, FileId, Member,
    client::{CallId, Core, Goal, WriteCall, WriterCore},
    messages::{Mutation, NewChunk, Outcome},
};

pub struct Writing {
    pub path: String,
    pub writer: WriterCore,
    /// Request numbers of the writer's mutations.
    numbers: BTreeMap<CallId, u64>,
    left: u64,
    /// The file's minimum of replicas.
    least: usize,
    goal: Option<Goal>,
    /// Bytes that the writer hasn't accepted yet.
    rest: Bytes,
    /// Pipelines since the last sync.
    pipelines: Vec<Vec<Member>>,
}

impl World {
    pub fn begin_writing(
        &mut self,
        host: Host,
        path: String,
        file: FileId,
        chunk_bytes: u32,
        length: u64,
        first: Option<NewChunk>,
    ) {
        let now = self.clock(host);
        let least = self.ask(|namenode| namenode.min_replicas(file)).unwrap_or(1);
        if let Some(known) = self.model.files.get(&path) {
            let wanted = known.min_replicas.max(1).min(known.replication);
            let there = self.namenode.as_ref().is_some_and(|(of, _)| of.state().open.contains_key(&file));
            if there && least != usize::from(wanted) {
                return self.fail(format!("{path}: a minimum of {least} replicas, {wanted} wanted"));
            }
        }
        let config = Config { min_replicas: least, ..self.config.clone() };
        let mut writer = WriterCore::within(config, Arc::clone(&self.budget), file, chunk_bytes, length, now);
        if let Some(first) = first {
            writer = writer.with_first_chunk(first);
        }
        let left = self.random.below(14);
        let writing = Writing {
            path,
            writer,
            numbers: BTreeMap::new(),
            left,
            least,
            goal: None,
            rest: Bytes::new(),
            pipelines: Vec::new(),
        };
        self.client(host).begin(Task::Writing(Box::new(writing)));
        self.soon(host, 50);
    }

    pub fn step_writing(&mut self, host: Host) {
        let now = self.clock(host);
        let choice = self.random.below(12);
        let more: Vec<u8> = (0..1 + self.random.below(90)).map(|_| self.random.next() as u8).collect();
        let Task::Writing(writing) = &mut self.client(host).task else { return };
        if writing.goal.is_some() {
            return;
        }
        // Accepted bytes are still the caller's.
        if !writing.writer.is_covered() && writing.writer.error().is_none() {
            return self.soon(host, 60);
        }
        if writing.rest.is_empty() && writing.left > 0 && choice < 8 {
            writing.left -= 1;
            writing.rest = more.into();
        }
        if !writing.rest.is_empty() {
            let before = writing.rest.clone();
            let accepted = writing.writer.append(&mut writing.rest, now);
            let taken = before.slice(..before.len() - writing.rest.len());
            let path = writing.path.clone();
            let stuck = accepted.is_err() && writing.writer.error().is_none();
            if let Some(file) = self.model.files.get_mut(&path) {
                file.bytes.extend_from_slice(&taken);
            }
            if stuck {
                return self.on_stuck(host);
            }
            self.pump(host);
            return self.soon(host, if choice == 0 { 2_000 } else { 60 });
        }
        let goal = match choice {
            _ if writing.left == 0 => Goal::Close,
            8 | 9 => Goal::Flush,
            _ => Goal::Sync,
        };
        writing.left = writing.left.saturating_sub(1);
        writing.goal = Some(goal);
        if writing.writer.begin(goal, now).is_err() {
            writing.goal = None;
        }
        self.pump(host);
    }

    /// The writer got nowhere for some time. It keeps its bytes, and may go on, or be left.
    fn on_stuck(&mut self, host: Host) {
        let leaves = self.random.one_in(4) || self.healed && !self.losses.lost.is_empty();
        let Task::Writing(writing) = &mut self.client(host).task else { return };
        let was = writing.goal.take();
        if leaves {
            let path = writing.path.clone();
            self.end_requests(host);
            return self.begin_asking(host, Mutation::RecoverLease { path });
        }
        // A close may have arrived all the same.
        writing.left = if was == Some(Goal::Close) { 0 } else { writing.left };
        self.soon(host, 2_000);
    }

    pub fn pump_writing(&mut self, host: Host) {
        loop {
            let client = self.client(host);
            let Task::Writing(writing) = &mut client.task else { return };
            let Some(issue) = writing.writer.next_call() else { break };
            let (id, within) = (issue.id, issue.within_ms);
            let (to, request, then) = match issue.call {
                WriteCall::Namenode(mutation) => {
                    let Some(requests) = &mut client.requests else { return };
                    let number = match writing.numbers.get(&id) {
                        Some(number) => *number,
                        None => {
                            // The request before has its answer, or no caller waits for it.
                            writing.numbers.values().for_each(|number| requests.end(*number));
                            writing.numbers.clear();
                            let Some(number) = requests.begin() else { return };
                            writing.numbers.insert(id, number);
                            number
                        }
                    };
                    let request = Request::Mutate(host, requests.id(number), mutation);
                    self.call(host, vec![NAMENODE], &request, within, Then::WriterAsk(id));
                    continue;
                }
                WriteCall::Write(write) => {
                    if !writing.pipelines.contains(&write.pipeline) {
                        writing.pipelines.push(write.pipeline.clone());
                    }
                    let writing_path = writing.path.clone();
                    if let Some(file) = self.model.files.get_mut(&writing_path)
                        && !file.written_by.contains(&write.pipeline)
                    {
                        file.written_by.push(write.pipeline.clone());
                    }
                    let hops = write.pipeline.iter().flat_map(|member| self.host_of(member.node)).collect();
                    self.call(host, hops, &Request::Write(write), within, Then::Write(id));
                    continue;
                }
                WriteCall::Probe { to } => (to.node, Request::Probe(to), Then::Member(id)),
                WriteCall::Continue { to, begin } => (to, Request::Begin(begin), Then::Member(id)),
                WriteCall::Publish { to, chunk, stamp, length } => {
                    (to, Request::Publish { chunk, stamp, length }, Then::Member(id))
                }
                WriteCall::Sync { to, chunk, stamp, length } => {
                    (to, Request::Sync { chunk, stamp, length }, Then::Member(id))
                }
                WriteCall::Seal { to, chunk, stamp, length } => {
                    (to, Request::Seal { chunk, stamp, length }, Then::Member(id))
                }
            };
            self.call(host, self.host_of(to), &request, within, then);
        }
        self.see_outcome(host);
    }

    fn see_outcome(&mut self, host: Host) {
        let Task::Writing(writing) = &mut self.client(host).task else { return };
        let path = writing.path.clone();
        let outcome = writing.writer.outcome();
        if matches!(outcome, Some(Err(Error::Unavailable | Error::NoSpace)))
            && writing.writer.error().is_none()
        {
            return self.on_stuck(host);
        }
        if let Some(Ok(())) = outcome
            && let Some(goal) = writing.goal.take()
        {
            let (held, least) = (writing.writer.replicas(), writing.least);
            if held.is_some_and(|held| held < least) {
                return self.fail(format!("{path}: {goal:?} with {held:?} replicas of {least} at least"));
            }
            let length = writing.writer.length();
            if goal != Goal::Flush {
                writing.pipelines.clear();
            }
            let pipelines = writing.pipelines.clone();
            if let Some(file) = self.model.files.get_mut(&path) {
                if goal == Goal::Flush {
                    (file.flushed, file.pipelines) = (length, pipelines);
                } else {
                    file.least = length;
                }
                file.closed = goal == Goal::Close;
            }
            let promised = self.promised(&path);
            if let Some(visible) = self.visible(&path).filter(|visible| *visible < promised) {
                return self
                    .fail(format!("{path}: {visible} bytes are visible of {promised} after {goal:?}"));
            }
            if goal == Goal::Close {
                self.end_requests(host);
                return self.idle(host);
            }
            return self.soon(host, 30);
        }
        if let Some(error) = writing.writer.error() {
            let lost = error == Error::BytesLost;
            if !lost && !matches!(error, Error::Unavailable | Error::NoSpace | Error::LeaseLost) {
                return self.fail(format!("the writer of {path} gave up: {error}"));
            }
            let pipelines = writing.pipelines.clone();
            if lost && self.unbroken(&pipelines) {
                return self.fail(format!("{path}: called lost, but a member of each of {pipelines:?} runs"));
            }
            self.end_requests(host);
            // Otherwise this client, which is alive, keeps the lease.
            self.begin_asking(host, Mutation::RecoverLease { path });
        }
    }

    fn end_requests(&mut self, host: Host) {
        let client = self.client(host);
        let Task::Writing(writing) = &client.task else { return };
        if let Some(requests) = &mut client.requests {
            writing.numbers.values().for_each(|number| requests.end(*number));
        }
    }

    pub fn on_writer(&mut self, host: Host, then: &Then, replies: Vec<Option<Reply>>) {
        let now = self.clock(host);
        let Task::Writing(writing) = &mut self.client(host).task else { return };
        let writer = &mut writing.writer;
        let outcomes: Vec<Outcome> = replies.iter().map(outcome).collect();
        match then {
            Then::Write(id) => writer.on_write(*id, &outcomes, now),
            Then::Member(id) => {
                writer.on_member(*id, outcomes.first().copied().unwrap_or(Outcome::Unknown), now)
            }
            Then::WriterAsk(id) => {
                let answer = match replies.into_iter().flatten().next() {
                    Some(Reply::Answer(answer)) => answer,
                    _ => Err(Error::Unavailable),
                };
                writer.on_answer(*id, answer, now);
            }
            _ => {}
        }
        self.pump(host);
    }
}

fn outcome(reply: &Option<Reply>) -> Outcome {
    match reply {
        Some(Reply::Done(Ok(()))) => Outcome::Value,
        Some(Reply::Done(Err(error))) => Outcome::Error(*error),
        Some(Reply::NotExecuted) => Outcome::NotExecuted,
        _ => Outcome::Unknown,
    }
}
