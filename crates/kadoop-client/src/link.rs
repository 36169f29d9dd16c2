//! Calls to the namenode, retried until it answers.

use super::{
    ClientOptions,
    access::{ATTEMPT, Entry},
    borrowing::Borrowing,
    buffers::Buffers,
    members,
    pool::Pool,
    requests::{Begun, Requests},
};
use std::{
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak},
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, Transport, stub::StubError};
use strait_fork::Process;
use strait_kadoop_core::{
    ClientId, Config, FileId,
    error::Error,
    messages::{Caller, Mutation},
};
use strait_kadoop_wire::{
    convert::{caller_to_wire, mutation_to_wire, request_to_wire},
    failure::{Failure, Lost},
    wire::{self, KadoopNamenodeV1Client, KdAnswer, KdMutation},
};

/// A defect: [`Link::concat`] is for that.
const OTHER_PROCEDURE: Error = Error::Internal("a request by the wrong procedure");
/// How long a renewal may take. Another one follows: the namenode soon closes a file that can't be
/// read, unless it hears its writer's client.
const RENEWAL: Duration = Duration::from_secs(1);
/// Pause after a failed attempt. It doubles up to [`LONGEST_PAUSE`], a small part of the time in which a
/// namenode is to be back.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A file that is open for writing, as its link sees it.
pub(super) trait Lease: Send + Sync {
    fn file(&self) -> FileId;

    /// Does the periodic work, for the case that no thread waits.
    fn tick(self: Arc<Self>);

    /// Has the members of the pipeline asked whether they are there.
    fn examine(self: Arc<Self>);
}

/// The lease of a file that no program writes any more.
pub(super) struct Unwanted {
    /// The client with the lease.
    pub client: u64,
    pub file: FileId,
    pub caller: Caller,
    pub path: String,
}

/// A creation or an append of unknown outcome. While it exists, the namenode keeps its answer.
pub(super) struct InDoubt {
    pub begun: Begun,
    pub caller: Caller,
    pub path: String,
}

/// The client's connection to the namenode.
pub(super) struct Link {
    pub options: ClientOptions,
    /// A forked child has none of its threads, may have copies of locks that they held, and would use
    /// the parent's request numbers.
    pub process: Process,
    entry: Entry,
    address: Mutex<Option<SocketAddr>>,
    joined: RwLock<Arc<Joined>>,
    /// For calls to datanodes, with the threads that make them.
    pub data: flexrpc::Client,
    pub pool: Pool,
    /// None: all reads go over TCP.
    pub borrowing: Option<Borrowing>,
    pub buffers: Buffers,
    /// Files that are open for writing.
    writers: Mutex<Vec<Weak<dyn Lease>>>,
    /// Leases that the namenode hasn't taken back yet.
    unwanted: Mutex<Vec<Unwanted>>,
    /// Openings that the namenode may have executed without the client hearing of it.
    in_doubt: Mutex<Vec<InDoubt>>,
    /// Read from an opening's request until its writer is registered: meanwhile nobody can tell a wanted
    /// lease from an unwanted one.
    opening: RwLock<()>,
}

/// The namenode's answer when the client joined.
pub(super) struct Joined {
    pub requests: Arc<Requests>,
    welcome: wire::KdWelcome,
}

impl Link {
    pub(super) fn join(options: ClientOptions) -> Result<Self, Failure> {
        let entry = Entry::new(&options.access);
        let address = Mutex::new(None);
        let until = Instant::now() + options.join_timeout;
        let hello = wire::KdHello { features: 0 };
        let joined = repeat(&options, &entry, &address, until, ATTEMPT, |to| to.nn_join(&hello))?;
        let joined = RwLock::new(Arc::new(Joined::new(joined)));
        let (data, pool, writers) = (members::client(), Pool::default(), Mutex::default());
        let buffers = Buffers::default();
        let borrowing = options.short_circuit.then(|| Borrowing::new(data.clone(), buffers.clone()));
        let (process, unwanted, in_doubt) = (Process::this(), Mutex::default(), Mutex::default());
        let opening = RwLock::default();
        Ok(Self {
            options,
            process,
            entry,
            address,
            joined,
            data,
            pool,
            borrowing,
            buffers,
            writers,
            unwanted,
            in_doubt,
            opening,
        })
    }

    /// Refuses in a forked child. Call this before taking any lock.
    pub(super) fn check_process(&self) -> Result<(), Failure> {
        if self.process.is_this() {
            return Ok(());
        }
        let why = "the client is of the process that was forked; connect anew in this one";
        Err(Failure::new(Error::Invalid("of another process"), why))
    }

    pub(super) fn joined(&self) -> Arc<Joined> {
        Arc::clone(&self.joined.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a query. It changes nothing, so it may be repeated freely.
    pub(super) fn ask<T>(
        &self,
        ask: impl Fn(&mut KadoopNamenodeV1Client) -> Result<T, StubError>,
    ) -> Result<T, Failure> {
        self.check_process()?;
        call(&self.options, &self.entry, &self.address, self.until(), ask)
    }

    /// Deadline of an operation that begins now.
    fn until(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    /// Executes a mutation once.
    pub(super) fn mutate(
        &self,
        caller: &Caller,
        mutation: &Mutation,
    ) -> Result<wire::KdAnswer<'static>, Failure> {
        let (caller, mutation) = (caller_to_wire(caller), mutation_to_wire(mutation).ok_or(OTHER_PROCEDURE)?);
        self.execute(|to, request| to.nn_mutate(&caller, &request, &mutation), drop)
    }

    /// Joins files, once.
    pub(super) fn concat(&self, caller: &Caller, target: &str, sources: &[String]) -> Result<(), Failure> {
        let concat = wire::KdConcat {
            target: target.into(),
            sources: sources.iter().map(|source| source.as_str().into()).collect(),
        };
        let caller = caller_to_wire(caller);
        self.execute(|to, request| to.nn_concat(&caller, &request, &concat), drop)
    }

    /// Opens a file for writing, once: `mutation` is a creation or an append. A new file has its
    /// first chunk, if the namenode can give one. If its outcome stays unknown, the client later gives
    /// up the lease that it may have got.
    pub(super) fn open(
        &self,
        caller: &Caller,
        mutation: &Mutation,
    ) -> Result<wire::KdBegunFile<'static>, Failure> {
        let session = caller.session.as_ref().map_or(&[][..], |session| &session.0);
        let min_replicas = match mutation {
            Mutation::Create { min_replicas, .. } => u32::from(*min_replicas),
            _ => 0,
        };
        let opening = wire::KdOpening { session: session.into(), min_replicas };
        let (on_wire, body) = (caller_to_wire(caller), mutation_to_wire(mutation).ok_or(OTHER_PROCEDURE)?);
        let in_doubt = |begun| {
            if let Mutation::Create { path, .. } | Mutation::Append { path } = mutation {
                let (caller, path) = (caller.clone(), path.clone());
                self.in_doubt().push(InDoubt { begun, caller, path });
            }
        };
        if matches!(mutation, Mutation::Create { .. }) {
            match self.execute(|to, request| to.nn_begin(&on_wire, &request, &body, &opening), in_doubt) {
                // An older namenode.
                Err(Failure { error: Error::Internal(_), .. }) => {}
                begun => return begun,
            }
        }
        let open = |to: &mut KadoopNamenodeV1Client, request| to.nn_open(&on_wire, &request, &body, &opening);
        let opened = match self.execute(open, in_doubt) {
            // A still older one.
            Err(Failure { error: Error::Internal(_), .. }) if min_replicas == 0 => {
                match self.mutate(caller, mutation)? {
                    KdAnswer::KdOpened(opened) => {
                        let min_replicas = self.joined().welcome.min_replicas;
                        wire::KdOpenedFile { opened, min_replicas }
                    }
                    _ => return Err(Error::Internal("the answer isn't one to that request").into()),
                }
            }
            opened => opened?,
        };
        Ok(wire::KdBegunFile { opened, first: None })
    }

    /// Makes a request under a number of its own until the namenode has judged it. `in_doubt` gets a
    /// request whose outcome is unknown when time is up.
    fn execute<T>(
        &self,
        ask: impl Fn(&mut KadoopNamenodeV1Client, wire::KdRequest) -> Result<T, StubError>,
        in_doubt: impl FnOnce(Begun),
    ) -> Result<T, Failure> {
        self.check_process()?;
        let until = self.until();
        loop {
            let begun = self.joined().requests.begin(until)?;
            // Whether an attempt may have been executed, and whether the namenode has answered for
            // the mutation since.
            let (mut doubtful, mut judged) = (false, false);
            let answer = call(&self.options, &self.entry, &self.address, until, |to| {
                let answer = ask(to, request_to_wire(begun.id()));
                match answer.as_ref().map_err(|error| Lost::from(error.clone())) {
                    Ok(_) => judged = true,
                    Err(Lost::Unknown(_)) => doubtful = true,
                    // The namenode rejected the caller, or was unable to serve, before it examined
                    // the mutation. So this refusal says nothing about earlier attempts.
                    Err(Lost::Refused(Failure {
                        error: Error::Unauthenticated | Error::Unavailable,
                        ..
                    })) => {}
                    Err(Lost::Refused(_)) => judged = true,
                    Err(Lost::NotExecuted(_)) => {}
                }
                answer
            });
            match answer {
                Err(Failure { error: Error::UnknownClient, why }) => {
                    self.rejoin(begun.client())?;
                    if doubtful {
                        return Err(Failure::new(Error::OutcomeUnknown, why));
                    }
                    if Instant::now() >= until {
                        return Err(Failure::new(Error::Unavailable, why));
                    }
                }
                Err(failure) if doubtful && !judged => {
                    in_doubt(begun);
                    return Err(Failure::new(Error::OutcomeUnknown, failure.to_string()));
                }
                answer => return answer,
            }
        }
    }

    /// One attempt at a mutation that its caller repeats.
    pub(super) fn mutate_as(
        &self,
        begun: &Begun,
        caller: &Caller,
        mutation: &Mutation,
        within: Duration,
    ) -> Result<wire::KdAnswer<'static>, Lost> {
        let mutation = mutation_to_wire(mutation).ok_or_else(|| Lost::Refused(OTHER_PROCEDURE.into()))?;
        let caller = caller_to_wire(caller);
        attempt(&self.options, &self.entry, &self.address, within, &mut |to| {
            to.nn_mutate(&caller, &request_to_wire(begun.id()), &mutation)
        })
    }

    /// Joins again: the namenode has forgotten the client, which was silent for too long among too
    /// many.
    fn rejoin(&self, forgotten: ClientId) -> Result<(), Failure> {
        let renewed =
            resolve(&self.options, &self.address).and_then(|namenode| self.entry.rejoin(forgotten, namenode));
        renewed.map_err(Lost::into_failure)?;
        let welcome = self.ask(|to| to.nn_join(&wire::KdHello { features: 0 }))?;
        let mut joined = self.joined.write().unwrap_or_else(PoisonError::into_inner);
        if joined.requests.client() == forgotten {
            *joined = Arc::new(Joined::new(welcome));
        }
        Ok(())
    }

    /// Renews the file's lease from now on, until the last user of it is gone.
    pub(super) fn register<L: Lease + 'static>(&self, lease: &Arc<L>) {
        let weak: Weak<L> = Arc::downgrade(lease);
        self.writers.lock().unwrap_or_else(PoisonError::into_inner).push(weak);
    }

    /// The files still in use.
    fn writers(&self) -> Vec<Arc<dyn Lease>> {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.retain(|writer| writer.strong_count() > 0);
        writers.iter().filter_map(Weak::upgrade).collect()
    }

    /// Has the namenode close a file whose lease nobody wants. If it can't now, the next renewal tries
    /// again: each renewal keeps all of the client's leases, so this one would last as long as the client.
    pub(super) fn give_up(&self, lease: Unwanted) {
        // No chunk has number 0. The refusal shows whether this client still has the lease.
        let held = self.ask(|to| to.nn_token(lease.client, lease.file.0, 0)).map(drop);
        let taken = match held.map_err(|failure| failure.error) {
            Err(Error::NotOpen) => {
                let path = lease.path.clone();
                self.mutate(&lease.caller, &Mutation::RecoverLease { path }).map(drop)
            }
            other => other.map_err(Failure::from),
        };
        if taken.is_err_and(|failure| is_temporary(failure.error)) {
            self.unwanted().push(lease);
        }
    }

    /// Asks the namenode about an opening whose answer was lost, and gives up the lease that it got.
    fn settle(&self, opening: InDoubt) {
        let InDoubt { begun, caller, path } = opening;
        let on_wire = caller_to_wire(&caller);
        // If the namenode has executed the request with this number, it repeats its answer. If not, it
        // refuses this one: nobody can append to the root. Repeating the opening itself could replace a
        // file long after its caller has gone on.
        let refused = KdMutation::KdAppend("/".into());
        let none = wire::KdOpening { session: (&[][..]).into(), min_replicas: 0 };
        let told = attempt(&self.options, &self.entry, &self.address, RENEWAL, &mut |to| {
            to.nn_open(&on_wire, &request_to_wire(begun.id()), &refused, &none)
        });
        match told {
            Ok(wire::KdOpenedFile { opened, .. }) => {
                let (client, file) = (begun.client().0, FileId(opened.file));
                drop(begun);
                let _alone = self.opening.write().unwrap_or_else(PoisonError::into_inner);
                // A later opening of the file may have got the lease.
                if self.writers().iter().all(|writer| writer.file() != file) {
                    self.give_up(Unwanted { client, file, caller, path });
                }
            }
            Err(Lost::Refused(Failure { error, .. }))
                if error != Error::Unauthenticated && !is_temporary(error) => {}
            Err(_) => self.in_doubt().push(InDoubt { begun, caller, path }),
        }
    }

    /// Holds off [`Link::settle`] while a file is opened and its writer isn't registered.
    pub(super) fn opening(&self) -> RwLockReadGuard<'_, ()> {
        self.opening.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_doubt(&self) -> MutexGuard<'_, Vec<InDoubt>> {
        self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unwanted(&self) -> MutexGuard<'_, Vec<Unwanted>> {
        self.unwanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews the client's leases if it has files open for writing, gives up those that nobody wants, and
    /// lets its writers do their periodic work.
    pub(super) fn renew(self: &Arc<Self>) {
        for lease in std::mem::take(&mut *self.unwanted()) {
            let this = Arc::clone(self);
            self.pool.run(move || this.give_up(lease));
        }
        for opening in std::mem::take(&mut *self.in_doubt()) {
            let this = Arc::clone(self);
            self.pool.run(move || this.settle(opening));
        }
        let writers = self.writers();
        if writers.is_empty() {
            return;
        }
        writers.iter().for_each(|writer| Arc::clone(writer).tick());
        let client = self.joined().requests.client().0;
        let told =
            attempt(&self.options, &self.entry, &self.address, RENEWAL, &mut |to| to.nn_leases(client));
        match told {
            Ok(broken) => {
                let is_broken = |writer: &Arc<dyn Lease>| broken.files.contains(&writer.file().0);
                writers.into_iter().filter(is_broken).for_each(|writer| writer.examine());
            }
            // An older namenode. Ignore other failures: the next renewal may succeed.
            Err(Lost::Refused(Failure { error: Error::Internal(_), .. })) => {
                let _ = attempt(&self.options, &self.entry, &self.address, RENEWAL, &mut |to| {
                    to.nn_renew(client)
                });
            }
            Err(_) => {}
        }
    }
}

impl Joined {
    fn new(welcome: wire::KdWelcome) -> Self {
        Self { requests: Arc::new(Requests::new(ClientId(welcome.client))), welcome }
    }

    /// The cluster's number.
    pub(super) fn cluster(&self) -> u64 {
        self.welcome.cluster
    }

    /// Configuration with the cluster's sizes.
    pub(super) fn config(&self) -> Config {
        let wire::KdWelcome { unit_bytes, write_bytes, min_replicas, .. } = self.welcome;
        Config { unit_bytes, write_bytes, min_replicas: min_replicas as usize, ..Config::default() }
    }
}

/// Whether the namenode may judge the same request otherwise soon.
fn is_temporary(error: Error) -> bool {
    use Error::{Limit, LogBehind, NoDatanodes, NoSpace, OutcomeUnknown, Unavailable};
    matches!(error, Limit(_) | LogBehind | NoDatanodes | NoSpace | OutcomeUnknown | Unavailable)
}

type Place = Mutex<Option<SocketAddr>>;

/// Repeats a call until the namenode answers or refuses, or time is up.
fn call<T>(
    options: &ClientOptions,
    entry: &Entry,
    place: &Place,
    until: Instant,
    ask: impl FnMut(&mut KadoopNamenodeV1Client) -> Result<T, StubError>,
) -> Result<T, Failure> {
    repeat(options, entry, place, until, Duration::ZERO, ask)
}

/// As [`call`], but each attempt gets at least `least`, even past the deadline.
fn repeat<T>(
    options: &ClientOptions,
    entry: &Entry,
    place: &Place,
    until: Instant,
    least: Duration,
    mut ask: impl FnMut(&mut KadoopNamenodeV1Client) -> Result<T, StubError>,
) -> Result<T, Failure> {
    let mut pause = PAUSE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let why = match attempt(options, entry, place, left.max(least).min(ATTEMPT), &mut ask) {
            Ok(value) => return Ok(value),
            Err(Lost::Refused(failure)) => return Err(failure),
            Err(Lost::NotExecuted(failure)) => failure.why,
            Err(Lost::Unknown(why)) => why,
        };
        if Instant::now() + pause >= until {
            let why = format!("the namenode {} doesn't answer: {why}", options.namenode);
            return Err(Failure::new(Error::Unavailable, why));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn attempt<T>(
    options: &ClientOptions,
    entry: &Entry,
    place: &Place,
    timeout: Duration,
    ask: &mut impl FnMut(&mut KadoopNamenodeV1Client) -> Result<T, StubError>,
) -> Result<T, Lost> {
    let address = resolve(options, place)?;
    let moved = |lost: Lost| {
        // The namenode may have moved.
        *place.lock().unwrap_or_else(PoisonError::into_inner) = None;
        lost
    };
    let pass = entry.pass(address).map_err(moved)?;
    let asked =
        pass.rpc.handle(address, Transport::Tcp).map_err(|error| moved(error.into())).and_then(|handle| {
            let mut to = KadoopNamenodeV1Client::new(handle);
            to.options.timeout = Some(timeout);
            Ok(ask(&mut to)?)
        });
    match asked {
        // A credential may end at any time: with its user's password, or after a restart with
        // another key. A new login shows the cause.
        Err(Lost::Refused(failure)) if failure.error == Error::Unauthenticated && entry.end(&pass) => {
            Err(Lost::NotExecuted(Failure { error: Error::Unavailable, ..failure }))
        }
        asked => asked,
    }
}

fn resolve(options: &ClientOptions, place: &Place) -> Result<SocketAddr, Lost> {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(address) = *place {
        return Ok(address);
    }
    let unresolved = |why: String| {
        Lost::NotExecuted(Failure::new(Error::Unavailable, format!("{}: {why}", options.namenode)))
    };
    let mut found = options.namenode.to_socket_addrs().map_err(|error| unresolved(error.to_string()))?;
    let address = found.next().ok_or_else(|| unresolved("has no address".to_owned()))?;
    *place = Some(address);
    Ok(address)
}
