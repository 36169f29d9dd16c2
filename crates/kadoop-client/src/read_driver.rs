//! A reader's calls to the namenode and the datanodes.

use super::{
    Client,
    driver::{Driver, Shared, within},
    link::Link,
    members::{self, Place, callees, single},
    reasons::Reasons,
};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, CallError, Refusal, stub::StubError};
use strait_kadoop_core::{
    ChunkId, Config, Millis, NodeId, Stamp,
    client::{Budget, Checked, Content, Holder, Issue, LOCATE_BYTES, ReadCall, ReaderCore},
    error::Error,
    messages::{Caller, Digest, Located, Read},
};
use strait_kadoop_wire::{
    clock::Clock,
    convert::{
        caller_to_wire, digest_from_wire, host_from_wire, located_from_wire, piece_from_wire, read_to_wire,
    },
    failure::Failure,
    proofs::Procedure,
    tokens::Token,
    wire::{KdLocated, KdVersion},
};

/// Most chunks without a good replica for which one lookup asks where damaged replicas are.
const MAX_ASKED_ABOUT: usize = 4;

/// Fetches a file's ranges for all threads that read it.
pub(super) struct ReadDriver<P> {
    shared: Shared<ReaderCore<P>>,
    pub(super) link: Arc<Link>,
    data: flexrpc::Client,
    caller: Caller,
    pub(super) path: String,
    pub(super) config: Config,
    places: Mutex<Places>,
    reasons: Reasons,
    pub(super) made: u64,
    /// Whether a writer had the file open at the first lookup.
    pub(super) open: bool,
}

/// Addresses of datanodes, and the tokens for the chunks of the latest lookup.
#[derive(Default)]
struct Places {
    hosts: BTreeMap<NodeId, Place>,
    tokens: BTreeMap<(ChunkId, Stamp), Arc<Token>>,
    range: (u64, u64),
    /// The number of the transaction that made the file, and one of its chunks. Together they identify the
    /// file. None while it has no chunk.
    file: Option<(u64, ChunkId)>,
}

impl<P> std::fmt::Debug for ReadDriver<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadDriver").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Holder for ReadDriver<Bytes> {
    fn give_up(&self, idle: Duration) {
        // If another thread holds the lock, it is about to read, so the reader isn't idle.
        if let Some(mut core) = self.shared.try_core() {
            core.give_up(idle.as_millis() as Millis, self.now());
        }
    }
}

/// The kind of content that a datanode is asked for.
pub(super) trait Fetch: Content {
    /// Makes one attempt to answer `read`.
    fn attempt(
        driver: &ReadDriver<Self>,
        from: NodeId,
        read: &Read,
        within: Duration,
    ) -> Result<Checked<Self>, Failure>;
}

impl Fetch for Bytes {
    fn attempt(
        driver: &ReadDriver<Self>,
        from: NodeId,
        read: &Read,
        within: Duration,
    ) -> Result<Checked, Failure> {
        driver.read_piece(from, read, within)
    }
}

impl<P: Fetch> Driver for ReadDriver<P> {
    type Core = ReaderCore<P>;

    fn shared(&self) -> &Shared<ReaderCore<P>> {
        &self.shared
    }

    fn make(self: &Arc<Self>, issue: Issue<ReadCall>, deadline: Option<Instant>) {
        let Issue { id, within_ms, call } = issue;
        let within = Duration::from_millis(within_ms);
        match call {
            ReadCall::Locate { offset, length } => {
                let located = self.locate(offset, length, deadline);
                let located = located.map(|(_, located)| located).map_err(|failure| failure.error);
                self.core().on_located(id, located, self.now());
            }
            ReadCall::Read { from, read } => {
                let piece = self.fetch(from, &read, within, deadline);
                let piece = piece.map_err(|failure| self.reasons.add_datanode(failure));
                self.core().on_read(id, piece, self.now());
            }
            ReadCall::Suspect { node, chunk, stamp } => self.suspect(node, chunk, stamp, deadline),
        }
    }
}

impl<P: Fetch> ReadDriver<P> {
    /// Makes a driver, and locates the file's first bytes.
    pub(super) fn open(
        client: &Client,
        caller: &Caller,
        path: &str,
        budget: Arc<dyn Budget>,
    ) -> Result<Self, Failure> {
        Self::with(client.link.joined().config(), client, caller, path, budget)
    }

    /// As [`ReadDriver::open`], with the times and sizes of `config`.
    pub(super) fn with(
        config: Config,
        client: &Client,
        caller: &Caller,
        path: &str,
        budget: Arc<dyn Budget>,
    ) -> Result<Self, Failure> {
        client.link.check_process()?;
        let link = Arc::clone(&client.link);
        let core = ReaderCore::within(config.clone(), budget);
        let mut driver = Self {
            shared: Shared::new(core, link.pool.clone(), Clock::start()),
            data: link.data.clone(),
            caller: caller.clone(),
            path: path.to_owned(),
            config,
            places: Mutex::default(),
            reasons: Reasons::default(),
            made: 0,
            open: false,
            link,
        };
        let (made, located) = driver.locate(0, LOCATE_BYTES, client.deadline)?;
        (driver.made, driver.open) = (made, located.open);
        driver.core().begin(located);
        Ok(driver)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some of the content from `offset` on; nothing at the file's end. Fails at the deadline. Calls that other
    /// threads make meanwhile, or that are due then, end by their own limits.
    pub(super) fn read(
        self: &Arc<Self>,
        offset: u64,
        length: usize,
        deadline: Option<Instant>,
    ) -> Result<P, Failure> {
        self.link.check_process()?;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let mut core = self.core();
        loop {
            match core.read(offset, length, self.now()) {
                Ok(Some(content)) => {
                    self.submit(&mut core);
                    return Ok(content);
                }
                Ok(None) if within(Duration::MAX, deadline).is_zero() => {
                    core.leave(offset);
                    // Other callers may wait for calls that became due here.
                    self.submit(&mut core);
                    return Err(self.failure(Error::Unavailable, None));
                }
                Ok(None) => {}
                Err(error) => return Err(self.failure(error, core.damaged())),
            }
            core = match self.submit_but_one(&mut core) {
                Some(issue) => {
                    // Make the call here: this thread would only wait for it.
                    drop(core);
                    self.perform(issue, deadline);
                    self.core()
                }
                None => self.wait(core, deadline),
            };
        }
    }

    /// The core's error, with detail for people.
    fn failure(&self, error: Error, damaged: Option<&(ChunkId, Vec<NodeId>)>) -> Failure {
        if let (Error::Corrupt, Some((chunk, nodes))) = (error, damaged) {
            let places = self.places();
            let name = |node: &NodeId| match places.hosts.get(node) {
                Some((address, _)) => format!("datanode {node} ({address})"),
                None => format!("datanode {node}"),
            };
            let nodes: Vec<String> = nodes.iter().map(name).collect();
            let why = format!("every replica of chunk {chunk} is damaged: on {}", nodes.join(", "));
            return Failure::new(error, why);
        }
        if error == Error::Unavailable && self.reasons.of_namenode().is_none() {
            return self.reasons.of_datanodes("no datanode gives the bytes");
        }
        self.reasons.explain(error)
    }

    /// Reports a damaged replica to the namenode.
    pub(super) fn suspect(&self, node: NodeId, chunk: ChunkId, stamp: Stamp, deadline: Option<Instant>) {
        let of = KdVersion { chunk: chunk.0, stamp: stamp.0 };
        // Ignore a failure: the datanode's scrub finds the damage, too, though later.
        let _ = self.link.ask(deadline, |to| to.nn_suspect(node.0, &of));
    }

    /// The address of a datanode, if a lookup has named it.
    pub(super) fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.places().hosts.get(&node).map(|(address, _)| *address)
    }

    /// Locates the file's bytes. Also returns the number of the transaction that made the file.
    pub(super) fn locate(
        &self,
        offset: u64,
        length: u64,
        deadline: Option<Instant>,
    ) -> Result<(u64, Located), Failure> {
        let found = self.ask_where(offset, length, deadline);
        self.reasons.set_namenode(found.as_ref().err().cloned());
        let found = found?;
        let mut places = self.places();
        if let Some(chunk) = found.chunks.first() {
            places.file = Some((found.made, ChunkId(chunk.chunk)));
        }
        for host in &found.hosts {
            let host = host_from_wire(host)?;
            places.hosts.insert(host.node, (host.address, host.identity));
        }
        places.range = (offset, length);
        places.tokens = found
            .chunks
            .iter()
            .map(|chunk| ((ChunkId(chunk.chunk), Stamp(chunk.stamp)), Arc::new(Token::new(&chunk.token))))
            .collect();
        drop(places);
        let mut located = located_from_wire(&found);
        self.add_damaged(&mut located, deadline)?;
        if let Some(borrowing) = &self.link.borrowing {
            borrowing.confirm(&located.chunks);
        }
        Ok((found.made, located))
    }

    /// For chunks without a good replica, adds the datanodes with damaged ones. A part that the reader needs
    /// may be undamaged there. If not, the reader learns that the chunk is damaged.
    fn add_damaged(&self, located: &mut Located, deadline: Option<Instant>) -> Result<(), Failure> {
        let without = located.chunks.iter_mut().filter(|chunk| chunk.nodes.is_empty() && !chunk.growing);
        for chunk in without.take(MAX_ASKED_ABOUT) {
            let of = KdVersion { chunk: chunk.chunk.0, stamp: chunk.stamp.0 };
            let told = match self.link.ask(deadline, |to| to.nn_damaged(&of)) {
                Ok(told) => told,
                // Without the answer, the chunk would seem damaged everywhere.
                Err(failure) if failure.error == Error::Unavailable => return Err(failure),
                // An older namenode doesn't know this procedure.
                Err(_) => return Ok(()),
            };
            for host in &told.hosts {
                let host = host_from_wire(host)?;
                self.places().hosts.insert(host.node, (host.address, host.identity));
                chunk.nodes.push(host.node);
            }
        }
        Ok(())
    }

    /// Locates the file by its path, so that the audit log shows the path. If nothing, or another file, is at
    /// the path now, locates the file by its transaction's number and one of its chunks.
    fn ask_where(
        &self,
        offset: u64,
        length: u64,
        deadline: Option<Instant>,
    ) -> Result<KdLocated<'static>, Failure> {
        let caller = caller_to_wire(&self.caller);
        let named = self.link.ask(deadline, |to| to.nn_locate(&caller, &(&self.path).into(), offset, length));
        let Some((made, chunk)) = self.places().file else { return named };
        let moved = match &named {
            Ok(found) => found.made != made,
            Err(failure) => matches!(
                failure.error,
                Error::NotFound | Error::NotADirectory | Error::IsADirectory | Error::PermissionDenied
            ),
        };
        if moved {
            self.link.ask(deadline, |to| to.nn_locate_file(&caller, made, chunk.0, offset, length))
        } else {
            named
        }
    }

    /// Reads a range from one datanode. If the token has expired, gets a new one and retries once.
    pub(super) fn fetch(
        &self,
        from: NodeId,
        read: &Read,
        time: Duration,
        deadline: Option<Instant>,
    ) -> Result<Checked<P>, Failure> {
        match P::attempt(self, from, read, within(time, deadline)) {
            Err(Failure { error: Error::TokenExpired, .. }) => {
                let (offset, length) = self.places().range;
                self.locate(offset, length, deadline)?;
                P::attempt(self, from, read, within(time, deadline))
            }
            answer => answer,
        }
    }

    /// A datanode's address and identity, and the token for the chunk.
    fn way(&self, from: NodeId, read: &Read) -> Result<(Place, Arc<Token>), Failure> {
        let places = self.places();
        let unknown = || Failure::new(Error::Unavailable, format!("datanode {from} has no known address"));
        let place = places.hosts.get(&from).copied().ok_or_else(unknown)?;
        let token = places.tokens.get(&(read.chunk, read.stamp)).cloned().ok_or(Error::TokenExpired)?;
        Ok((place, token))
    }

    /// Makes one attempt to get a range's digest from a datanode. None: the datanode is too old for digests.
    pub(super) fn digest_piece(
        &self,
        from: NodeId,
        read: &Read,
        within: Duration,
    ) -> Result<Option<Checked<Digest>>, Failure> {
        let (place, token) = self.way(from, read)?;
        let to = callees(&self.data, vec![place.0], within);
        let mut call = read_to_wire(read);
        let asked = token.sign(&mut call, Procedure::Digest, place.1);
        let answer = single(to.dn_digest(&call));
        if let Err(StubError::Call(CallError::NotExecuted(Refusal::ProcedureUnavailable))) = answer {
            return Ok(None);
        }
        let answer = asked.hear(place, answer).map_err(|lost| lost.at_datanode(place.0))?;
        let checked = Checked::digest(read, &digest_from_wire(&answer));
        checked.map(Some).map_err(|error| members::at(place.0, error))
    }

    /// Makes one attempt to read a range from a datanode: through a borrowed file or with a single call.
    pub(super) fn read_piece(&self, from: NodeId, read: &Read, within: Duration) -> Result<Checked, Failure> {
        let (place, token) = self.way(from, read)?;
        let wrong = |error| members::at(place.0, error);
        let (borrowing, cluster) = (self.link.borrowing.as_ref(), || self.link.joined().cluster());
        let borrowed = borrowing.and_then(|of| of.read((from, place), read, &token, &self.config, cluster));
        if let Some(answer) = borrowed {
            return answer.map_err(wrong);
        }
        let to = callees(&self.data, vec![place.0], within);
        let mut call = read_to_wire(read);
        let asked = token.sign(&mut call, Procedure::Read, place.1);
        let piece = asked.hear(place, single(to.dn_read(&call)));
        let piece = piece.map_err(|lost| lost.at_datanode(place.0))?;
        Checked::of(read, piece_from_wire(piece), &self.config).map_err(wrong)
    }
}
