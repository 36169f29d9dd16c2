//! A client's process: the real writer and reader cores, and their tasks.

use super::{
    network::{Host, NAMENODE, Reply, Request},
    reading::Reading,
    world::{CLIENTS, Event, NODES, Then, World},
    writing::Writing,
};
use strait_kadoop_core::{
    Error, Millis,
    client::{Core, RequestNumbers},
    messages::{Answer, Mutation},
};

/// Steps that each client takes before it is done.
const STEPS: u64 = 14;
/// Time after which a client's requests have certainly arrived, except at a stalled host.
const QUIET_MS: Millis = 14_000;

pub struct Client {
    pub running: bool,
    pub requests: Option<RequestNumbers>,
    pub task: Task,
    /// Number of tasks begun. Answers to earlier tasks are ignored.
    pub tasks: u64,
    pub left: u64,
    pub wake: Option<Millis>,
    /// Whether it renews its leases.
    pub renewing: bool,
    /// The last life's mutation with an unknown outcome.
    pub unsure: Option<Mutation>,
    pub started: Millis,
    /// Number of the file that has the name for a new one.
    made: u64,
}

pub enum Task {
    Idle,
    Joining,
    /// Finds out whether `unsure` was executed.
    Resolving {
        path: String,
    },
    /// Repeats a request to the namenode until it is answered.
    Asking {
        number: u64,
        mutation: Mutation,
    },
    Writing(Box<Writing>),
    Reading(Box<Reading>),
}

impl Client {
    pub fn begin(&mut self, task: Task) {
        self.tasks += 1;
        (self.task, self.wake) = (task, None);
    }

    /// The mutation under way, or the last life's one with an unknown outcome.
    pub fn changes(&self) -> Option<&Mutation> {
        match &self.task {
            Task::Asking { mutation, .. } => Some(mutation),
            _ => self.unsure.as_ref(),
        }
    }

    pub fn describe(&self) -> String {
        let task = match &self.task {
            Task::Idle => "idle".to_owned(),
            Task::Joining => "joining".to_owned(),
            Task::Resolving { path } => format!("resolving {path}"),
            Task::Asking { number, mutation } => format!("asking {number} {mutation:?}"),
            Task::Writing(writing) => format!("writing {:?}", writing.writer),
            Task::Reading(reading) => format!("reading {:?}", reading.reader),
        };
        format!("{task}, running: {}, {} steps left, unsure of {:?}", self.running, self.left, self.unsure)
    }

    pub fn new(_: usize) -> Self {
        Self {
            running: false,
            requests: None,
            task: Task::Idle,
            tasks: 0,
            left: STEPS,
            wake: None,
            renewing: false,
            unsure: None,
            started: 0,
            made: 0,
        }
    }
}

/// Paths that only this client changes.
pub fn paths(host: Host) -> [String; 3] {
    ["a", "b", "c"].map(|name| format!("/{host}{name}"))
}

impl World {
    pub fn client(&mut self, host: Host) -> &mut Client {
        &mut self.clients[host - NODES - 1]
    }

    pub fn start_client(&mut self, host: Host) {
        let now = self.now;
        let client = self.client(host);
        (client.running, client.requests, client.task) = (true, None, Task::Joining);
        (client.wake, client.started) = (None, now);
        self.soon(host, 1);
    }

    pub fn crash_client(&mut self, host: Host) {
        let client = self.client(host);
        client.running = false;
        let task = std::mem::replace(&mut client.task, Task::Idle);
        if let Task::Asking { mutation, .. } = task {
            client.unsure = Some(mutation);
        }
    }

    /// Schedules the next step, within that time.
    pub fn soon(&mut self, host: Host, within: Millis) {
        let pause = 1 + self.random.below(within);
        self.at(self.now + pause, Event::Step(host, self.lives[host]));
    }

    pub fn idle(&mut self, host: Host) {
        self.client(host).task = Task::Idle;
        self.soon(host, 100);
    }

    pub fn step_client(&mut self, host: Host) {
        match &mut self.client(host).task {
            Task::Idle => self.choose(host),
            Task::Joining => self.call(host, vec![NAMENODE], &Request::Join, 1_000, Then::Joined),
            Task::Resolving { path } => {
                let request = Request::Status(path.clone());
                self.call(host, vec![NAMENODE], &request, 1_000, Then::Asked);
            }
            Task::Asking { .. } => self.ask_again(host),
            Task::Writing(_) => self.step_writing(host),
            Task::Reading(_) => self.step_reading(host),
        }
    }

    pub fn wake_client(&mut self, host: Host) {
        let now = self.clock(host);
        let client = self.client(host);
        client.wake = None;
        match &mut client.task {
            Task::Writing(writing) => writing.writer.tick(now),
            Task::Reading(reading) => reading.reader.tick(now),
            _ => return,
        }
        self.pump(host);
    }

    /// Makes the calls that a core needs, and checks whether the core is done.
    pub fn pump(&mut self, host: Host) {
        let wake = match &self.client(host).task {
            Task::Writing(_) => {
                self.pump_writing(host);
                match &self.client(host).task {
                    Task::Writing(writing) => writing.writer.wake_at(),
                    _ => None,
                }
            }
            Task::Reading(_) => {
                self.pump_reading(host);
                match &self.client(host).task {
                    Task::Reading(reading) => reading.reader.wake_at(),
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some(wake) = wake
            && self.client(host).wake.is_none_or(|before| wake < before)
        {
            self.client(host).wake = Some(wake);
            let when = wake.saturating_sub(self.skews[host]).max(self.now + 1);
            self.at(when, Event::Wake(host, self.lives[host]));
        }
    }

    /// Begins a new task.
    fn choose(&mut self, host: Host) {
        let now = self.now;
        if let Some(mutation) = self.client(host).unsure.clone() {
            if now < self.client(host).started + QUIET_MS || now <= self.taken_from {
                return self.soon(host, 1_000);
            }
            let path = match mutation {
                Mutation::Rename { to, .. } => to,
                Mutation::Create { path, .. }
                | Mutation::Delete { path, .. }
                | Mutation::Truncate { path, .. } => path,
                Mutation::Concat { sources, .. } => sources[0].clone(),
                _ => {
                    self.client(host).unsure = None;
                    return self.soon(host, 1);
                }
            };
            self.client(host).begin(Task::Resolving { path });
            return self.soon(host, 1);
        }
        if self.client(host).left == 0 {
            return;
        }
        self.client(host).left -= 1;
        if self.random.one_in(3) {
            let other = NODES + 1 + self.random.below(CLIENTS as u64) as usize;
            let path = paths(other)[self.random.below(3) as usize].clone();
            return self.begin_reading(host, path);
        }
        let [a, b, c] = paths(host);
        let path = if self.random.one_in(2) { a.clone() } else { b.clone() };
        let Some(file) = self.model.files.get(&path) else {
            let least = self.losses.least();
            let replication = least + self.random.below(4 - u64::from(least)) as u16;
            return self.create(host, path, false, replication);
        };
        let replication = file.replication;
        let length = file.least;
        let mutation = match self.random.below(12) {
            0 if !self.model.files.contains_key(&c) => Mutation::Rename { from: path, to: c, replace: false },
            1 => Mutation::Rename { from: path, to: c, replace: true },
            2 => Mutation::Delete { path, recursive: false },
            3 => return self.create(host, path, true, replication),
            0..=5 if self.joins && file.closed && self.joinable(&path, &[&a, &b, &c]).is_some() => {
                let sources = self.joinable(&path, &[&a, &b, &c]).unwrap_or_default();
                Mutation::Concat { target: path, sources }
            }
            4 | 5 if file.closed => {
                let length = self.random.below(length + 1);
                Mutation::Truncate { path, length }
            }
            6 => return self.begin_reading(host, path),
            _ => Mutation::Append { path },
        };
        self.begin_asking(host, mutation);
    }

    /// The other files that can be joined to the one at `path`, if there are any.
    fn joinable(&self, path: &str, all: &[&String]) -> Option<Vec<String>> {
        let whole = |source: &&String| {
            let file = self.model.files.get(source.as_str());
            let whole = file.is_some_and(|file| file.closed && !file.bytes.is_empty());
            whole && !(self.is_thinned(source, path) && self.is_rotten(source))
        };
        let others = all.iter().filter(|other| other.as_str() != path);
        let sources: Vec<String> = others.copied().filter(whole).cloned().collect();
        (!sources.is_empty()).then_some(sources)
    }

    /// Whether joining `source` to `target` leaves its chunks with fewer wanted replicas. The namenode
    /// then deletes some, and can't know which are damaged: those that no scrub has found yet may be
    /// the ones that it keeps.
    fn is_thinned(&self, source: &str, target: &str) -> bool {
        let wanted = |path: &str| self.model.files.get(path).map(|file| file.replication);
        wanted(source) > wanted(target)
    }

    /// Whether a join that is under way, or may have been executed, thins the file at `path`.
    pub fn is_being_thinned(&self, path: &str) -> bool {
        let under_way = self.clients.iter().filter_map(Client::changes);
        under_way.into_iter().any(|mutation| match mutation {
            Mutation::Concat { target, sources } => {
                sources.iter().any(|source| source == path) && self.is_thinned(path, target)
            }
            _ => false,
        })
    }

    fn create(&mut self, host: Host, path: String, overwrite: bool, replication: u16) {
        let chunk_bytes = 64 + 32 * self.random.below(5) as u32;
        let user = crate::namespace::someone("kadoop");
        let made = self.ask(|namenode| namenode.view(&user).stat(&path).map_or(0, |status| status.made));
        let Some(made) = made else { return self.idle(host) };
        self.client(host).made = made;
        // Every second file demands more than one replica.
        let drawn = self.random.below(2) as u16 * 2;
        let min_replicas = if self.losses.is_single() { 2 } else { drawn.min(replication) };
        let mode = 0o644;
        self.begin_asking(
            host,
            Mutation::Create { path, overwrite, mode, replication, chunk_bytes, min_replicas },
        );
    }

    pub fn begin_asking(&mut self, host: Host, mutation: Mutation) {
        let now = self.now;
        match &mutation {
            Mutation::Rename { from, to, .. } => {
                self.model.touch(from, now);
                self.model.touch(to, now);
            }
            Mutation::Create { path, .. }
            | Mutation::Delete { path, .. }
            | Mutation::Truncate { path, .. } => {
                self.model.touch(path, now);
            }
            Mutation::Concat { target, sources } => {
                sources.iter().chain([target]).for_each(|path| self.model.touch(path, now));
            }
            _ => {}
        }
        let Some(number) = self.client(host).requests.as_mut().and_then(RequestNumbers::begin) else {
            return self.fail("no request can be begun".to_owned());
        };
        self.client(host).begin(Task::Asking { number, mutation });
        self.renew_from_now(host);
        self.ask_again(host);
    }

    fn ask_again(&mut self, host: Host) {
        let client = self.client(host);
        let Task::Asking { number, mutation } = &client.task else { return };
        let Some(requests) = &client.requests else { return };
        let request = Request::Mutate(host, requests.id(*number), mutation.clone());
        self.call(host, vec![NAMENODE], &request, 1_000, Then::Asked);
    }

    pub fn on_asked(&mut self, host: Host, reply: Option<Reply>) {
        match (&self.client(host).task, reply) {
            (Task::Asking { .. }, Some(Reply::Answer(answer))) => self.on_answered(host, answer),
            (Task::Resolving { .. }, Some(Reply::Status(status))) => self.on_resolved(host, status),
            (Task::Asking { .. } | Task::Resolving { .. }, _) => self.soon(host, 500),
            _ => {}
        }
    }

    pub fn on_joined(&mut self, host: Host, reply: Option<Reply>) {
        match reply {
            Some(Reply::Joined(number)) => {
                self.client(host).requests = Some(RequestNumbers::new(number));
                self.idle(host);
            }
            _ => self.soon(host, 500),
        }
    }

    fn on_answered(&mut self, host: Host, answer: Result<Answer, Error>) {
        let client = self.client(host);
        let Task::Asking { number, mutation } = &client.task else { return };
        let (number, mutation) = (*number, mutation.clone());
        if matches!(answer, Err(Error::Busy | Error::NoDatanodes | Error::Unavailable)) {
            // A writer has the file: perhaps this client's last life, or its last writer.
            if self.random.one_in(6)
                && let Mutation::Append { path } = mutation
            {
                return self.insist(host, number, path);
            }
            return self.soon(host, 1_500);
        }
        if let Some(requests) = &mut client.requests {
            requests.end(number);
        }
        match (mutation, answer) {
            (Mutation::RecoverLease { .. }, Ok(_) | Err(Error::NotFound)) => self.idle(host),
            (
                Mutation::Create { path, replication, min_replicas, .. },
                Ok(Answer::Opened { file, length: 0, chunk_bytes, .. }),
            ) => {
                self.model.touch(&path, self.now);
                self.model.create(&path, replication, min_replicas);
                self.begin_writing(host, path, file, chunk_bytes, 0, None);
            }
            (
                Mutation::Create { path, replication, min_replicas, .. },
                Ok(Answer::Begun { file, chunk_bytes, first, .. }),
            ) => {
                self.model.touch(&path, self.now);
                self.model.create(&path, replication, min_replicas);
                self.begin_writing(host, path, file, chunk_bytes, 0, Some(first));
            }
            (Mutation::Append { path }, Ok(Answer::Opened { file, length, chunk_bytes, .. })) => {
                self.opened_at(&path, length);
                self.begin_writing(host, path, file, chunk_bytes, length, None);
            }
            (mutation, Ok(_)) => {
                self.done(&mutation);
                self.idle(host);
            }
            (mutation, Err(error)) => self.fail(format!("{mutation:?}: {error}")),
        }
    }

    /// Requests the recovery of the file, and then repeats the request.
    pub fn insist(&mut self, host: Host, number: u64, path: String) {
        if let Some(requests) = &mut self.client(host).requests {
            requests.end(number);
        }
        self.begin_asking(host, Mutation::RecoverLease { path });
    }

    /// Applies an executed mutation to the model.
    fn done(&mut self, mutation: &Mutation) {
        let now = self.now;
        match mutation {
            Mutation::Rename { from, to, .. } => {
                self.model.touch(from, now);
                self.model.touch(to, now);
                if let Some(file) = self.model.files.remove(from) {
                    self.model.files.insert(to.clone(), file);
                }
            }
            Mutation::Delete { path, .. } => {
                self.model.touch(path, now);
                self.model.files.remove(path);
            }
            Mutation::Truncate { path, length } => {
                self.model.touch(path, now);
                if let Some(file) = self.model.files.get_mut(path) {
                    file.bytes.truncate(*length as usize);
                    (file.least, file.flushed) = (*length, 0);
                    file.seen = file.seen.min(*length);
                }
            }
            Mutation::Concat { target, sources } => self.model.join(target, sources, now),
            _ => {}
        }
    }

    /// Finds the outcome of the last life's request from the names.
    fn on_resolved(&mut self, host: Host, status: Result<strait_kadoop_core::messages::Status, Error>) {
        let Some(mutation) = self.client(host).unsure.take() else { return };
        let there = status.as_ref().is_ok();
        let executed = match &mutation {
            Mutation::Create { path, replication, min_replicas, .. } => {
                let before = self.client(host).made;
                if status.is_ok_and(|status| status.made != before) {
                    self.model.touch(path, self.now);
                    self.model.create(path, *replication, *min_replicas);
                }
                false
            }
            Mutation::Delete { .. } | Mutation::Concat { .. } => !there,
            Mutation::Truncate { length, .. } => status.is_ok_and(|status| status.length == *length),
            Mutation::Rename { from, to, .. } => {
                if there && self.model.files.contains_key(to) {
                    // Another file of that name was there before, so the old name decides.
                    let from = from.clone();
                    self.client(host).unsure = Some(mutation);
                    return self.resolve_by_source(host, from);
                }
                there
            }
            _ => false,
        };
        if executed {
            self.done(&mutation);
        }
        self.idle(host);
    }

    /// Checks whether the rename's source is gone, at the namenode itself: no request that could
    /// change it is under way any more.
    fn resolve_by_source(&mut self, host: Host, from: String) {
        let user = crate::namespace::someone("kadoop");
        let Some(gone) = self.ask(|namenode| namenode.view(&user).stat(&from).is_err()) else {
            return self.soon(host, 500);
        };
        if let Some(mutation) = self.client(host).unsure.take().filter(|_| gone) {
            self.done(&mutation);
        }
        self.idle(host);
    }

    /// Renews the client's leases while it has files open.
    pub fn renew_leases(&mut self, host: Host) {
        let client = self.client(host);
        let busy = matches!(client.task, Task::Writing(_) | Task::Asking { .. });
        let Some(number) = client.requests.as_ref().map(RequestNumbers::client).filter(|_| busy) else {
            client.renewing = false;
            return;
        };
        self.call(host, vec![NAMENODE], &Request::Renew(number), 900, Then::Renewed);
        self.at(self.now + 1_000, Event::Renew(host, self.lives[host]));
    }

    fn on_renewed(&mut self, host: Host, reply: Option<Reply>) {
        let now = self.clock(host);
        if let Some(Reply::Broken(files)) = reply
            && let Task::Writing(writing) = &mut self.client(host).task
            && files.contains(&writing.writer.file())
        {
            writing.writer.examine(now);
            self.pump(host);
        }
    }

    fn renew_from_now(&mut self, host: Host) {
        if !std::mem::replace(&mut self.client(host).renewing, true) {
            self.renew_leases(host);
        }
    }

    /// Handles a call that has ended.
    pub fn on_done(&mut self, host: Host, then: Then, mut replies: Vec<Option<Reply>>) {
        let first = |replies: &mut Vec<Option<Reply>>| replies.first_mut().and_then(Option::take);
        match then {
            Then::Nothing => {}
            Then::Renewed => self.on_renewed(host, first(&mut replies)),
            Then::Beat(beat) => self.on_beat(host, &beat, first(&mut replies)),
            Then::Fetched(fetch) => self.on_fetched(host, fetch, first(&mut replies)),
            Then::Joined => self.on_joined(host, first(&mut replies)),
            Then::Asked => self.on_asked(host, first(&mut replies)),
            Then::WriterAsk(_) | Then::Write(_) | Then::Member(_) => self.on_writer(host, &then, replies),
            Then::Located(_) | Then::Read(..) => self.on_reader(host, &then, first(&mut replies)),
        }
    }
}
