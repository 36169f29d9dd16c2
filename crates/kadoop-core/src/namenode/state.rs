//! The namenode's durable state. Only [`State::apply`] changes it.

use super::{
    history::History,
    inodes::{Body, Inode, Inodes, ROOT},
};
use crate::{
    ChunkId, ClientId, Config, FileId, Holder, Identity, InodeNo, Member, NodeId, Stamp,
    config::MAX_REQUESTS_IN_FLIGHT,
    error::{Error, Result},
    messages::{Answer, RequestId},
};
use compact_str::CompactString;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The durable state.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct State {
    pub inodes: Inodes,
    pub names: Names,
    pub chunks: FxHashMap<ChunkId, Chunk>,
    pub open: BTreeMap<FileId, OpenFile>,
    /// For each chunk with which an append replaced others: these others. They are kept until the new
    /// chunk has its replicas.
    pub kept: BTreeMap<ChunkId, Vec<ChunkId>>,
    /// The files of `open`, by inode.
    pub open_inodes: FxHashMap<InodeNo, FileId>,
    /// Stack of inodes of detached trees that are still to be freed. A directory stays on it until all its
    /// entries are freed.
    pub detached: Vec<InodeNo>,
    pub clients: Clients,
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    pub identities: BTreeMap<Identity, NodeId>,
    /// Datanodes that are decommissioned or being decommissioned.
    pub decommissioned: BTreeSet<NodeId>,
    pub next: Counters,
    pub history: History,
}

/// For each kind of number, a lower bound of the next one to issue. `sequence` is an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
pub struct Counters {
    /// Number of the last transaction applied.
    pub sequence: u64,
    pub chunk: ChunkId,
    pub stamp: Stamp,
    pub file: FileId,
    pub client: ClientId,
    pub node: NodeId,
}

/// A chunk of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The file.
    pub inode: InodeNo,
    /// Stamp of the pipeline until the chunk has ended, then stamp of its sealed replicas.
    pub stamp: Stamp,
    /// Length of its replicas in bytes. While the chunk is open: the end that the writer claimed, or 0.
    pub length: u32,
    /// Number of the chunk's bytes that belong to the file: fewer than `length` after a truncation.
    pub used: u32,
    /// Whether the end is logged.
    pub ended: bool,
    /// Whether another chunk has taken this one's place in the file, but still has too few replicas.
    pub replaced: bool,
}

/// A file that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// The file.
    pub inode: InodeNo,
    /// The holder of the lease; none while the namenode recovers the file.
    pub client: Option<ClientId>,
    /// Chunks that haven't ended, in the file's order.
    pub chunks: Vec<OpenChunk>,
    /// Lower bound of the chunk ids that this writer has received.
    pub since: ChunkId,
    /// The session with the lease, if its client named one. A checkpoint stores it in a separate item.
    #[serde(skip)]
    pub holder: Option<Holder>,
}

impl OpenFile {
    /// Index of the chunk in `chunks`, which are in the order of their ids.
    pub fn place(&self, chunk: ChunkId) -> Option<usize> {
        self.chunks.binary_search_by_key(&chunk, |open| open.chunk).ok()
    }

    /// The chunk, unless it has ended.
    pub fn chunk(&self, chunk: ChunkId) -> Option<&OpenChunk> {
        self.place(chunk).map(|at| &self.chunks[at])
    }
}

/// A chunk that hasn't ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenChunk {
    /// The chunk.
    pub chunk: ChunkId,
    /// The members of its pipeline.
    pub pipeline: Vec<Member>,
    /// Whether the writer has claimed its end.
    pub claimed: bool,
    /// The chunk from which this one copies its first bytes, and which it will replace.
    pub continues: Option<ChunkId>,
    /// The latest stamp issued for the chunk's recovery.
    pub recovery: Option<Stamp>,
}

/// A datanode that has ever joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
pub struct NodeRecord {
    pub identity: Identity,
    pub rack: CompactString,
}

impl State {
    /// The state of an empty file system.
    pub fn new(config: &Config) -> Self {
        let mut names = Names::default();
        let (owner, group) = (names.number(&config.superuser), names.number(&config.supergroup));
        let mut inodes = Inodes::default();
        let body = Body::Directory(BTreeMap::new());
        let (modified_ms, accessed_ms) = (0, 0);
        inodes.put(ROOT, Inode { parent: ROOT, owner, group, mode: 0o755, modified_ms, accessed_ms, body });
        Self { inodes, names, ..Self::empty() }
    }

    /// A state without a root directory, to be filled from a checkpoint.
    pub(super) fn empty() -> Self {
        Self {
            inodes: Inodes::default(),
            names: Names::default(),
            chunks: FxHashMap::default(),
            open: BTreeMap::new(),
            kept: BTreeMap::new(),
            open_inodes: FxHashMap::default(),
            detached: Vec::new(),
            clients: Clients::default(),
            nodes: BTreeMap::new(),
            identities: BTreeMap::new(),
            decommissioned: BTreeSet::new(),
            next: Counters {
                sequence: 0,
                chunk: ChunkId(1),
                stamp: Stamp(1),
                file: FileId(1),
                client: ClientId(1),
                node: NodeId(1),
            },
            history: History::default(),
        }
    }

    /// The inode. Callers pass numbers of inodes that exist; otherwise the error is NotFound.
    pub fn inode(&self, number: InodeNo) -> Result<&Inode> {
        self.inodes.get(number).ok_or(Error::NotFound)
    }

    /// The open chunk of that number.
    pub fn open_chunk(&self, file: FileId, chunk: ChunkId) -> Option<&OpenChunk> {
        self.open.get(&file)?.chunk(chunk)
    }

    /// A file's chunks, each with its place in the file: the file's offset at which the chunk's part
    /// begins, the number of bytes to skip at the chunk's beginning, and the number of bytes after that
    /// which belong to the file.
    pub fn layout(&self, number: InodeNo) -> Result<impl Iterator<Item = (u64, u32, u32, ChunkId)>> {
        let chunks = self.inode(number)?.chunks().ok_or(Error::IsADirectory)?;
        let open = self.open_inodes.get(&number).and_then(|file| self.open.get(file));
        let mut offset = 0;
        let mut before = 0;
        Ok(chunks.iter().filter_map(move |id| {
            let chunk = self.chunks.get(id)?;
            let continues =
                open.and_then(|open| open.chunk(*id)).is_some_and(|open| open.continues.is_some());
            let skip = if continues { before } else { 0 };
            let length = chunk.used.saturating_sub(skip);
            let place = (offset, skip, length, *id);
            offset += u64::from(length);
            before = chunk.used;
            Some(place)
        }))
    }

    /// A file's length in bytes, as far as the namenode knows: an open chunk may have more.
    pub fn length(&self, number: InodeNo) -> Result<u64> {
        Ok(self.layout(number)?.last().map_or(0, |(offset, _, length, _)| offset + u64::from(length)))
    }
}

/// Names of users and groups, each stored once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    names: Vec<CompactString>,
    numbers: FxHashMap<CompactString, u32>,
}

impl Names {
    /// The number of `name`. Adds the name if it is new.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// The name of that number.
    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", CompactString::as_str)
    }

    /// All names, by number.
    pub fn iter(&self) -> impl Iterator<Item = &CompactString> {
        self.names.iter()
    }
}

/// The clients, with the answers that they may request again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clients {
    clients: BTreeMap<ClientId, Answered>,
    /// The same clients, by the transaction of their latest request.
    by_age: BTreeMap<u64, ClientId>,
}

/// The answers given to one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The transaction of its latest request.
    pub seen: u64,
    /// The client has received the answers of all requests below this number.
    pub done_below: u64,
    /// The answers of later requests, with the requests' numbers.
    pub answers: VecDeque<(u64, Answer)>,
}

impl Clients {
    /// The earlier answer to `request`, if this is a retry.
    ///
    /// # Errors
    /// UnknownClient: the namenode doesn't know the client. Invalid: the client has confirmed this
    /// request's answer, so it isn't kept any more. Limit: the client has too many unconfirmed answers.
    pub fn answer(&self, request: RequestId) -> Result<Option<Answer>> {
        let client = self.clients.get(&request.client).ok_or(Error::UnknownClient)?;
        if request.number < client.done_below.max(request.done_below) {
            return Err(Error::Invalid("the client has confirmed the answer to this request"));
        }
        if let Some((_, answer)) = client.answers.iter().find(|(number, _)| *number == request.number) {
            return Ok(Some(answer.clone()));
        }
        let kept = client.answers.iter().filter(|(number, _)| *number >= request.done_below).count();
        if kept >= MAX_REQUESTS_IN_FLIGHT {
            return Err(Error::Limit("requests of one client at a time"));
        }
        Ok(None)
    }

    /// Keeps the answer to the request that transaction `sequence` executed.
    pub fn keep(&mut self, request: RequestId, answer: Answer, sequence: u64) {
        let Some(client) = self.clients.get_mut(&request.client) else { return };
        client.done_below = client.done_below.max(request.done_below);
        let done_below = client.done_below;
        client.answers.retain(|(number, _)| *number >= done_below);
        client.answers.push_back((request.number, answer));
        self.by_age.remove(&client.seen);
        client.seen = sequence;
        self.by_age.insert(sequence, request.client);
    }

    /// Adds a client.
    pub fn add(&mut self, client: ClientId, answered: Answered) {
        self.by_age.insert(answered.seen, client);
        self.clients.insert(client, answered);
    }

    /// Evicts the `count` clients with the oldest latest requests among those that `may_be` accepts. If
    /// it accepts none, evicts the client with the oldest latest request of all.
    pub fn forget_oldest(&mut self, count: usize, may_be: impl Fn(ClientId) -> bool) {
        let aged = || self.by_age.iter().map(|(seen, client)| (*seen, *client));
        let mut oldest: Vec<_> = aged().filter(|(_, client)| may_be(*client)).take(count).collect();
        if oldest.is_empty() {
            oldest.extend(aged().next());
        }
        for (seen, client) in oldest {
            self.by_age.remove(&seen);
            self.clients.remove(&client);
        }
    }

    /// Number of clients.
    pub fn count(&self) -> usize {
        self.clients.len()
    }

    /// Whether `client` is known.
    pub fn has(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// All clients.
    pub fn iter(&self) -> impl Iterator<Item = (&ClientId, &Answered)> {
        self.clients.iter()
    }
}
