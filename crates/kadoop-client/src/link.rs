//! Calls to the namenode, retried until it answers or the time is over.

use super::{
    ClientOptions,
    access::{ATTEMPT, Entry},
    borrowing::Borrowing,
    buffers::Buffers,
    driver::within,
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
    failure::{Failure, Lost, NOT_UNDERSTOOD, OTHER_VERSION},
    wire::{self, KadoopNamenodeV1Client, KdAnswer, KdMutation},
};

/// A bug: a concat has a separate procedure, which [`Link::concat`] calls.
const OTHER_PROCEDURE: Error = Error::Internal("a request was sent by the wrong procedure");
/// Timeout of a lease's renewal. It is short, so that another attempt follows soon: without renewals, the
/// namenode soon closes a file that can't be read.
const RENEWAL: Duration = Duration::from_secs(1);
/// Pause after a failed attempt. It doubles up to [`LONGEST_PAUSE`], which is short in comparison with a
/// namenode's restart.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A file that is open for writing, as [`Link`] uses it.
pub(super) trait Lease: Send + Sync {
    fn file(&self) -> FileId;

    /// Does the periodic work, which must be done even if no thread waits in the writer.
    fn tick(self: Arc<Self>);

    /// Asks the members of the pipeline whether they still have their incarnations.
    fn examine(self: Arc<Self>);
}

/// A lease that this client may still have for a file that no writer here uses any more.
pub(super) struct Unwanted {
    /// The client with the lease.
    pub client: u64,
    pub file: FileId,
    pub caller: Caller,
    pub path: String,
}

/// A creation or an append whose outcome is unknown. While this value exists, the namenode keeps its answer
/// to the request.
pub(super) struct InDoubt {
    pub begun: Begun,
    pub caller: Caller,
    pub path: String,
}

/// The client's connection to the namenode.
pub(super) struct Link {
    pub options: ClientOptions,
    /// The process that made the link. A forked child can't use it: it has none of the threads, perhaps
    /// copies of locked locks, and would repeat the parent's request numbers.
    pub process: Process,
    entry: Entry,
    address: Mutex<Option<SocketAddr>>,
    joined: RwLock<Arc<Joined>>,
    /// The FlexRPC client for calls to datanodes; `pool` has the threads that make them.
    pub data: flexrpc::Client,
    pub pool: Pool,
    /// None: all reads go over TCP.
    pub borrowing: Option<Borrowing>,
    pub buffers: Buffers,
    /// Files that are open for writing.
    writers: Mutex<Vec<Weak<dyn Lease>>>,
    /// Unwanted leases that the client couldn't give up yet.
    unwanted: Mutex<Vec<Unwanted>>,
    /// Openings without an answer. The namenode may have executed them.
    in_doubt: Mutex<Vec<InDoubt>>,
    /// Held for reading from an opening's request until its writer is registered. In that time, a wanted
    /// lease looks like an unwanted one, so `settle` takes this for writing.
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
        let begin = Instant::now() + options.join_timeout;
        let limits = Limits { begin, end: begin + ATTEMPT };
        let hello = wire::KdHello { features: 0 };
        let joined = call(&options, &entry, &address, limits, |to| to.nn_join(&hello))?;
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

    /// Fails in a forked child. Call this before taking any lock.
    pub(super) fn check_process(&self) -> Result<(), Failure> {
        if self.process.is_this() {
            return Ok(());
        }
        let why = "connect a new client after a fork";
        Err(Failure::new(Error::Invalid("the client belongs to another process"), why))
    }

    pub(super) fn joined(&self) -> Arc<Joined> {
        Arc::clone(&self.joined.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a query, which ends at its caller's deadline, or earlier by the client's timeout. Two things can delay
    /// that end: a login, which has a limit of its own, and the look-up of the namenode's name, which has none. `ask`
    /// must change nothing, since a retry executes it again.
    pub(super) fn ask<T>(
        &self,
        deadline: Option<Instant>,
        ask: impl Fn(&mut KadoopNamenodeV1Client) -> Result<T, StubError>,
    ) -> Result<T, Failure> {
        self.check_process()?;
        let begin = self.until(deadline);
        call(&self.options, &self.entry, &self.address, Limits { begin, end: begin }, ask)
    }

    /// The end of an operation that begins now, for a caller with this deadline.
    pub(super) fn until(&self, deadline: Option<Instant>) -> Instant {
        let own = Instant::now() + self.options.timeout;
        deadline.map_or(own, |deadline| deadline.min(own))
    }

    /// Executes a mutation at most once.
    pub(super) fn mutate(
        &self,
        deadline: Option<Instant>,
        caller: &Caller,
        mutation: &Mutation,
    ) -> Result<wire::KdAnswer<'static>, Failure> {
        let (caller, mutation) = (caller_to_wire(caller), mutation_to_wire(mutation).ok_or(OTHER_PROCEDURE)?);
        self.execute(deadline, |to, request| to.nn_mutate(&caller, &request, &mutation), drop)
    }

    /// Concatenates files, at most once.
    pub(super) fn concat(
        &self,
        deadline: Option<Instant>,
        caller: &Caller,
        target: &str,
        sources: &[String],
    ) -> Result<(), Failure> {
        let concat = wire::KdConcat {
            target: target.into(),
            sources: sources.iter().map(|source| source.as_str().into()).collect(),
        };
        let caller = caller_to_wire(caller);
        self.execute(deadline, |to, request| to.nn_concat(&caller, &request, &concat), drop)
    }

    /// Opens a file for writing, at most once: `mutation` is a creation or an append. A new file gets its
    /// first chunk, if the namenode can allocate one. If the outcome stays unknown, the client later asks
    /// for it, and gives up the lease that it may have.
    pub(super) fn open(
        &self,
        deadline: Option<Instant>,
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
            let begin =
                |to: &mut KadoopNamenodeV1Client, request| to.nn_begin(&on_wire, &request, &body, &opening);
            match self.execute(deadline, begin, in_doubt) {
                // An older namenode, without this procedure.
                Err(failure) if is_older(failure.error) => {}
                begun => return begun,
            }
        }
        let open = |to: &mut KadoopNamenodeV1Client, request| to.nn_open(&on_wire, &request, &body, &opening);
        let opened = match self.execute(deadline, open, in_doubt) {
            // A still older namenode.
            Err(failure) if is_older(failure.error) && min_replicas == 0 => {
                match self.mutate(deadline, caller, mutation)? {
                    KdAnswer::KdOpened(opened) => {
                        let min_replicas = self.joined().welcome.min_replicas;
                        wire::KdOpenedFile { opened, min_replicas }
                    }
                    _ => return Err(Error::Internal("the namenode's answer is of another kind").into()),
                }
            }
            opened => opened?,
        };
        Ok(wire::KdBegunFile { opened, first: None })
    }

    /// Makes a request with a new number, and repeats it until the namenode accepts or refuses it, or until
    /// the deadline. If the outcome is unknown then, `in_doubt` gets the request. No attempt begins after the
    /// deadline, but it doesn't end an attempt, since its answer tells the outcome.
    fn execute<T>(
        &self,
        deadline: Option<Instant>,
        ask: impl Fn(&mut KadoopNamenodeV1Client, wire::KdRequest) -> Result<T, StubError>,
        in_doubt: impl FnOnce(Begun),
    ) -> Result<T, Failure> {
        self.check_process()?;
        // It may have waited for a thread, or for the end of another opening.
        if within(Duration::MAX, deadline).is_zero() {
            return Err(late());
        }
        let limits = Limits { begin: self.until(deadline), end: self.until(None) };
        loop {
            let begun = self.joined().requests.begin(limits.begin)?;
            // Whether the namenode may have executed an attempt, and whether it has since then answered
            // for the mutation.
            let (mut doubtful, mut judged) = (false, false);
            let answer = call(&self.options, &self.entry, &self.address, limits, |to| {
                let answer = ask(to, request_to_wire(begun.id()));
                match answer.as_ref().map_err(|error| Lost::from(error.clone())) {
                    Ok(_) => judged = true,
                    Err(Lost::Unknown(_)) => doubtful = true,
                    Err(Lost::Refused(Failure { error, .. })) => judged |= !is_before_examination(error),
                    Err(Lost::NotExecuted(_)) => {}
                }
                answer
            });
            match answer {
                Err(Failure { error: Error::UnknownClient, why }) => {
                    let rejoined = self.rejoin(begun.client());
                    // Even if that failed: an earlier attempt may have been executed.
                    if doubtful {
                        return Err(Failure::new(Error::OutcomeUnknown, why));
                    }
                    rejoined?;
                    if Instant::now() >= limits.begin {
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

    /// Makes one attempt at a mutation. The caller retries with the same `begun`.
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

    /// The failure of an attempt. Unavailable if the namenode gave no answer.
    pub(super) fn failure(&self, lost: Lost) -> Failure {
        match lost {
            Lost::Refused(failure) => failure,
            Lost::NotExecuted(Failure { why, .. }) | Lost::Unknown(why) => unanswered(&self.options, &why),
        }
    }

    /// Joins again, after the namenode has forgotten the client. It forgets a client that sent nothing for
    /// long when there are too many clients.
    fn rejoin(&self, forgotten: ClientId) -> Result<(), Failure> {
        let renewed =
            resolve(&self.options, &self.address).and_then(|namenode| self.entry.rejoin(forgotten, namenode));
        renewed.map_err(Lost::into_failure)?;
        let welcome = self.ask(None, |to| to.nn_join(&wire::KdHello { features: 0 }))?;
        let mut joined = self.joined.write().unwrap_or_else(PoisonError::into_inner);
        if joined.requests.client() == forgotten {
            *joined = Arc::new(Joined::new(welcome));
        }
        Ok(())
    }

    /// Renews the file's lease from now on, until the last reference to `lease` is dropped.
    pub(super) fn register<L: Lease + 'static>(&self, lease: &Arc<L>) {
        let weak: Weak<L> = Arc::downgrade(lease);
        self.writers.lock().unwrap_or_else(PoisonError::into_inner).push(weak);
    }

    /// The registered files that are still in use.
    fn writers(&self) -> Vec<Arc<dyn Lease>> {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.retain(|writer| writer.strong_count() > 0);
        writers.iter().filter_map(Weak::upgrade).collect()
    }

    /// Asks the namenode to close a file whose lease no writer here uses. If that fails for now, the next
    /// renewal retries it: renewals keep all of the client's leases, so this one wouldn't end by itself.
    pub(super) fn give_up(&self, lease: Unwanted) {
        // No chunk has number 0, so this request is refused. The refusal shows whether this client still
        // has the lease.
        let held = self.ask(None, |to| to.nn_token(lease.client, lease.file.0, 0)).map(drop);
        let taken = match held.map_err(|failure| failure.error) {
            Err(Error::NotOpen) => {
                let path = lease.path.clone();
                self.mutate(None, &lease.caller, &Mutation::RecoverLease { path }).map(drop)
            }
            other => other.map_err(Failure::from),
        };
        if taken.is_err_and(|failure| is_temporary(failure.error)) {
            self.unwanted().push(lease);
        }
    }

    /// Asks the namenode about an opening whose answer was lost. If the opening was executed, gives up its
    /// lease.
    fn settle(&self, opening: InDoubt) {
        let InDoubt { begun, caller, path } = opening;
        let on_wire = caller_to_wire(&caller);
        // If the namenode has executed a request with this number, it repeats its answer. If not, it
        // refuses this request, since an append to the root directory is impossible. A repetition of the
        // opening itself could replace a file long after the caller got an error.
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
                // Keep the lease if a later opening of the same file has it.
                if self.writers().iter().all(|writer| writer.file() != file) {
                    self.give_up(Unwanted { client, file, caller, path });
                }
            }
            Err(Lost::Refused(Failure { error, .. }))
                if error != Error::Unauthenticated && !is_temporary(error) => {}
            Err(_) => self.in_doubt().push(InDoubt { begun, caller, path }),
        }
    }

    /// Blocks [`Link::settle`] until the guard is dropped: hold it from an opening's request until its writer
    /// is registered.
    pub(super) fn opening(&self) -> RwLockReadGuard<'_, ()> {
        self.opening.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_doubt(&self) -> MutexGuard<'_, Vec<InDoubt>> {
        self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unwanted(&self) -> MutexGuard<'_, Vec<Unwanted>> {
        self.unwanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up unwanted leases, and settles openings in doubt. If files are open for writing, lets their
    /// writers do their periodic work, and renews the client's leases.
    pub(super) fn renew(self: &Arc<Self>) {
        self.pool.revive();
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
            // An older namenode, without this procedure: use the older one, and ignore its failure, since
            // the next renewal may succeed.
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

    /// The default configuration with the sizes and the minimum of replicas of the cluster.
    pub(super) fn config(&self) -> Config {
        let wire::KdWelcome { unit_bytes, write_bytes, min_replicas, .. } = self.welcome;
        Config { unit_bytes, write_bytes, min_replicas: min_replicas as usize, ..Config::default() }
    }
}

/// Whether the namenode is too old for the procedure.
fn is_older(error: Error) -> bool {
    [OTHER_VERSION, NOT_UNDERSTOOD].contains(&error)
}

/// Whether the namenode rejected the caller or the procedure, or was unable to serve, before it examined the
/// mutation. Such a refusal says nothing about earlier attempts.
fn is_before_examination(error: Error) -> bool {
    is_older(error) || matches!(error, Error::Unauthenticated | Error::Unavailable)
}

/// Whether the same request may succeed later without a change by the caller.
fn is_temporary(error: Error) -> bool {
    use Error::{Limit, LogBehind, NoDatanodes, NoSpace, OutcomeUnknown, Unavailable};
    matches!(error, Limit(_) | LogBehind | NoDatanodes | NoSpace | OutcomeUnknown | Unavailable)
}

type Place = Mutex<Option<SocketAddr>>;

/// The time limits of a call.
#[derive(Clone, Copy)]
struct Limits {
    /// No attempt after the first one begins after this.
    begin: Instant,
    /// Each attempt ends by then.
    end: Instant,
}

/// Repeats a call until the namenode answers or refuses it, or until its limits.
fn call<T>(
    options: &ClientOptions,
    entry: &Entry,
    place: &Place,
    limits: Limits,
    mut ask: impl FnMut(&mut KadoopNamenodeV1Client) -> Result<T, StubError>,
) -> Result<T, Failure> {
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    let mut pause = PAUSE;
    loop {
        let why = match attempt(options, entry, place, left(limits.end).min(ATTEMPT), &mut ask) {
            Ok(value) => return Ok(value),
            Err(Lost::Refused(failure)) => return Err(failure),
            Err(Lost::NotExecuted(failure)) => failure.why,
            Err(Lost::Unknown(why)) => why,
        };
        std::thread::sleep(pause.min(left(limits.begin)));
        if left(limits.begin).is_zero() {
            return Err(unanswered(options, &why));
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The failure of an operation whose caller waits no longer.
pub(super) fn late() -> Failure {
    Failure::new(Error::Unavailable, "the caller's deadline has passed")
}

fn unanswered(options: &ClientOptions, why: &str) -> Failure {
    Failure::new(Error::Unavailable, format!("the namenode {} doesn't answer: {why}", options.namenode))
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
        // The namenode may have another address now: resolve its name again.
        *place.lock().unwrap_or_else(PoisonError::into_inner) = None;
        lost
    };
    // All calls share a login, which has its own time limit.
    let pass = entry.pass(address).map_err(moved)?;
    let until = Instant::now() + timeout;
    let left = || until.saturating_duration_since(Instant::now());
    let handle = pass.rpc.handle_within(address, Transport::Tcp, left());
    let asked = handle.map_err(|error| moved(error.into())).and_then(|handle| {
        let mut to = KadoopNamenodeV1Client::new(handle);
        // The namenode learns it, too, and executes no call whose time is over.
        to.options.timeout = Some(left());
        Ok(ask(&mut to)?)
    });
    match asked {
        // A credential ends early if its user's password changes, or if the namenode restarts with another
        // key. Retry: a new login either succeeds or shows the cause.
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
