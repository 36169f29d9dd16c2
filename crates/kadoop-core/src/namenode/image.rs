//! Writes the state to a checkpoint, and restores it from a checkpoint and the log.

use super::{
    history::History,
    inodes::{Body, Inode},
    record::Transaction,
    state::{Answered, Chunk, Counters, NodeRecord, OpenFile, State},
};
use crate::{
    ChunkId, ClientId, Config, FileId, Holder, InodeNo, Millis, NodeId,
    disk::Disk,
    faults::{Fault, Faults},
    log::{self, CheckpointWriter, LogError, Tail},
};
use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// An item of a checkpoint. Add variants only at the end.
#[derive(Debug, Serialize, Deserialize)]
enum Item {
    Counters(Counters),
    /// Names of users and groups come in the order of their numbers.
    Name(CompactString),
    Node(NodeId, NodeRecord),
    Client(ClientId, Answered),
    Directory(InodeNo, Attributes, Vec<(CompactString, InodeNo)>),
    /// More entries of a directory that doesn't fit one item.
    Entries(InodeNo, Vec<(CompactString, InodeNo)>),
    File(InodeNo, Attributes, u32, u16, u64, Vec<ChunkId>),
    Chunk(ChunkId, Chunk),
    Open(FileId, OpenFile),
    Kept(ChunkId, Vec<ChunkId>),
    Decommissioned(NodeId),
    History(History),
    Detached(InodeNo),
    /// The holder of an open file.
    Held(FileId, Holder),
    /// A file's own minimum of replicas.
    Secured(InodeNo, u16),
}

#[derive(Debug, Serialize, Deserialize)]
struct Attributes {
    parent: InodeNo,
    owner: u32,
    group: u32,
    mode: u16,
    modified_ms: Millis,
    accessed_ms: Millis,
}

/// Most entries of a directory in one item, which keeps items far below a block's limit.
const ENTRIES: usize = 1_000;

/// The result of a start.
#[derive(Debug)]
pub struct Loaded {
    /// The state after the last valid record.
    pub state: State,
    /// The state of the log's end.
    pub tail: Tail,
    /// For each checkpoint that couldn't be read: the reason.
    pub unreadable: Vec<LogError>,
}

/// Loads the newest checkpoint that verifies, and applies every record after it.
///
/// # Errors
/// The log has a gap or damage, or ends before its mark; a record can't be applied; the disk's.
pub fn load<D: Disk>(disk: &D, cluster: u64, config: &Config) -> Result<Loaded, LogError> {
    let loaded = load_part(disk, cluster, config)?;
    let found = loaded.state.next.sequence;
    match log::read_mark(disk, cluster)? {
        Some(marked) if marked > found && !config.faults.has(Fault::MarkIgnored) => {
            Err(LogError::Short { found, marked })
        }
        _ => Ok(loaded),
    }
}

/// As [`load`], but without a comparison with the mark: `disk` shows only a part of the log's segments,
/// and the log continues after them.
///
/// # Errors
/// As [`load`], except for the mark.
pub fn load_part<D: Disk>(disk: &D, cluster: u64, config: &Config) -> Result<Loaded, LogError> {
    let mut unreadable = Vec::new();
    let mut state = None;
    for sequence in log::checkpoints(&disk.list()?).into_iter().rev() {
        match read(disk, cluster, sequence, config.faults) {
            Ok(read) => {
                state = Some(read);
                break;
            }
            Err(error) => unreadable.push(error),
        }
    }
    let mut state = state.unwrap_or_else(|| State::new(config));
    let mut events = Vec::new();
    let after = state.next.sequence;
    let (_, tail) = log::read_log(disk, cluster, after, config.faults, |_, bytes| {
        let mut transaction = Transaction::decode(bytes)?;
        if config.faults.has(Fault::RetryNotReplayed) {
            transaction.request = None;
        }
        events.clear();
        state.apply(&transaction, &mut events)
    })?;
    Ok(Loaded { state, tail, unreadable })
}

/// Writes a checkpoint of `state` and removes the files that it replaces.
///
/// # Errors
/// An I/O error of the disk.
pub fn save<D: Disk>(disk: &D, cluster: u64, config: &Config, state: &State) -> std::io::Result<()> {
    write_checkpoint(disk, cluster, config, state)?;
    log::prune(disk, config.faults)
}

/// As [`save`], but removes nothing. For the case that a checkpoint can't be read, so that the files
/// before it are still needed.
///
/// # Errors
/// An I/O error of the disk.
pub fn write_checkpoint<D: Disk>(
    disk: &D,
    cluster: u64,
    config: &Config,
    state: &State,
) -> std::io::Result<()> {
    if config.faults.has(Fault::LogDroppedEarly) {
        let segments = log::segments(&disk.list()?);
        for first in &segments[..segments.len().saturating_sub(1)] {
            disk.remove(&format!("log-{first:020}"))?;
        }
        disk.sync_names()?;
    }
    let mut to = CheckpointWriter::create(disk, cluster, state.next.sequence, config.faults)?;
    let mut result = Ok(());
    let forgetful = config.faults.has(Fault::MinimumNotSaved);
    write(state, &mut |item| {
        if result.is_ok() && !(forgetful && matches!(item, Item::Secured(..))) {
            // Writing to memory has no way to fail.
            result = to.item(&postcard::to_stdvec(item).unwrap_or_default());
        }
    });
    result?;
    to.finish()
}

fn write(state: &State, item: &mut dyn FnMut(&Item)) {
    item(&Item::Counters(state.next));
    item(&Item::History(state.history.clone()));
    state.names.iter().for_each(|name| item(&Item::Name(name.clone())));
    state.nodes.iter().for_each(|(node, record)| item(&Item::Node(*node, record.clone())));
    state.clients.iter().for_each(|(client, answered)| item(&Item::Client(*client, answered.clone())));
    for (number, inode) in state.inodes.iter() {
        write_inode(number, inode, item);
    }
    state.chunks.iter().for_each(|(id, chunk)| item(&Item::Chunk(*id, *chunk)));
    for (file, open) in &state.open {
        item(&Item::Open(*file, open.clone()));
        open.holder.iter().for_each(|holder| item(&Item::Held(*file, *holder)));
    }
    state.kept.iter().for_each(|(chunk, old)| item(&Item::Kept(*chunk, old.clone())));
    state.decommissioned.iter().for_each(|node| item(&Item::Decommissioned(*node)));
    state.detached.iter().for_each(|inode| item(&Item::Detached(*inode)));
}

fn write_inode(number: InodeNo, inode: &Inode, item: &mut dyn FnMut(&Item)) {
    let Inode { parent, owner, group, mode, modified_ms, accessed_ms, .. } = *inode;
    let attributes = Attributes { parent, owner, group, mode, modified_ms, accessed_ms };
    match &inode.body {
        Body::File { chunks, chunk_bytes, replication, min_replicas, made } => {
            item(&Item::File(number, attributes, *chunk_bytes, *replication, *made, chunks.to_vec()));
            if *min_replicas > 0 {
                item(&Item::Secured(number, (*min_replicas).into()));
            }
        }
        Body::Directory(entries) => {
            item(&Item::Directory(number, attributes, Vec::new()));
            let entries: Vec<_> = entries.iter().map(|(name, inode)| (name.clone(), *inode)).collect();
            entries.chunks(ENTRIES).for_each(|some| item(&Item::Entries(number, some.to_vec())));
        }
    }
}

fn read<D: Disk>(disk: &D, cluster: u64, sequence: u64, faults: Faults) -> Result<State, LogError> {
    let mut state = State::empty();
    log::read_checkpoint(disk, cluster, sequence, faults, |bytes| {
        state.take_up(postcard::from_bytes(bytes).map_err(|_| "the checkpoint has an unknown item")?)
    })?;
    if state.next.sequence == sequence && state.inodes.get(super::inodes::ROOT).is_some() {
        Ok(state)
    } else {
        Err(LogError::Record {
            sequence,
            why: "the checkpoint is of another record, or has no root directory",
        })
    }
}

impl State {
    fn take_up(&mut self, item: Item) -> Result<(), &'static str> {
        match item {
            Item::Counters(counters) => self.next = counters,
            Item::History(history) => self.history = history,
            Item::Name(name) => drop(self.names.number(&name)),
            Item::Node(node, record) => {
                self.identities.insert(record.identity, node);
                self.nodes.insert(node, record);
            }
            Item::Client(client, answered) => self.clients.add(client, answered),
            Item::Directory(number, attributes, entries) => {
                self.put(number, attributes, Body::Directory(entries.into_iter().collect()))?;
            }
            Item::Entries(number, more) => match self.inodes.get_mut(number).map(|inode| &mut inode.body) {
                Some(Body::Directory(entries)) => entries.extend(more),
                _ => return Err("the checkpoint has entries without their directory"),
            },
            Item::File(number, attributes, chunk_bytes, replication, made, chunks) => {
                let chunks = chunks.into_boxed_slice();
                let body = Body::File { chunks, chunk_bytes, replication, min_replicas: 0, made };
                self.put(number, attributes, body)?;
            }
            Item::Secured(number, least) => match self.inodes.get_mut(number).map(|inode| &mut inode.body) {
                Some(Body::File { min_replicas, .. }) => {
                    *min_replicas = u8::try_from(least).unwrap_or(u8::MAX);
                }
                _ => return Err("the checkpoint has a minimum of replicas without its file"),
            },
            Item::Held(file, holder) => {
                self.open.get_mut(&file).ok_or("a holder has no open file")?.holder = Some(holder);
            }
            Item::Chunk(id, chunk) => drop(self.chunks.insert(id, chunk)),
            Item::Kept(chunk, old) => drop(self.kept.insert(chunk, old)),
            Item::Decommissioned(node) => drop(self.decommissioned.insert(node)),
            Item::Detached(inode) => self.detached.push(inode),
            Item::Open(file, open) => {
                self.open_inodes.insert(open.inode, file);
                self.open.insert(file, open);
            }
        }
        Ok(())
    }

    fn put(&mut self, number: InodeNo, attributes: Attributes, body: Body) -> Result<(), &'static str> {
        let Attributes { parent, owner, group, mode, modified_ms, accessed_ms } = attributes;
        let inode = Inode { parent, owner, group, mode, modified_ms, accessed_ms, body };
        if self.inodes.put_back(number, inode) { Ok(()) } else { Err("it has an inode twice, or far off") }
    }
}
