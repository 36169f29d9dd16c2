//! Applies records to the state. Nothing else changes the state.

use super::{
    history::Start,
    inodes::{Body, Inode, ROOT},
    record::{Ownership, Place, Record, Transaction},
    state::{Answered, Chunk, Counters, NodeRecord, OpenChunk, OpenFile, State},
};
use crate::{
    ChunkId, ClientId, FileId, InodeNo, Millis, NodeId, Stamp, config::MAX_CLIENTS, messages::Attributes,
};
use std::collections::{BTreeMap, BTreeSet};

/// A change that concerns the datanodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// No file has the chunk any more.
    Gone(ChunkId),
    /// As [`Event::Gone`], for a chunk that was open: this member of its pipeline may have a replica.
    Discarded(ChunkId, NodeId),
    /// The chunk's stamp and length are final.
    Ended(ChunkId),
    /// The wanted number of replicas has changed.
    Target(ChunkId),
    /// The datanode's replicas begin or cease to count.
    Service(NodeId),
}

/// The error says why a record doesn't fit the state: the log is damaged, or this program has a bug.
type Applied<T = ()> = Result<T, &'static str>;

/// One eviction takes one in this many of the clients that may be evicted.
const FORGOTTEN_PART: usize = 16;

/// The error if a record uses the highest possible number. No namenode counts that far, so such a
/// record is damaged or foreign.
const NUMBERS_END: &str = "one of its numbers is too high";

impl State {
    /// Applies the next transaction. After an error, don't use the state any more.
    ///
    /// # Errors
    /// The reason why a record doesn't fit the state.
    pub fn apply(&mut self, transaction: &Transaction, events: &mut Vec<Event>) -> Applied {
        self.next.sequence = self.next.sequence.checked_add(1).ok_or(NUMBERS_END)?;
        for record in &transaction.records {
            self.apply_record(record, events)?;
        }
        self.history.note(self.next.sequence, &transaction.records);
        if let Some((request, answer)) = &transaction.request {
            self.clients.keep(*request, answer.clone(), self.next.sequence);
        }
        Ok(())
    }

    fn apply_record(&mut self, record: &Record, events: &mut Vec<Event>) -> Applied {
        match record {
            Record::ClientJoined { client } => {
                self.next.client.0 = client.0.checked_add(1).ok_or(NUMBERS_END)?;
                let answered = Answered { seen: self.next.sequence, ..Answered::default() };
                self.clients.add(*client, answered);
                self.forget_clients(*client);
                Ok(())
            }
            Record::NodeJoined { node, identity, rack } => {
                self.next.node.0 = self.next.node.0.max(node.0.checked_add(1).ok_or(NUMBERS_END)?);
                self.nodes.insert(*node, NodeRecord { identity: *identity, rack: rack.clone() });
                self.identities.insert(*identity, *node);
                Ok(())
            }
            Record::DirectoryMade { at, inode, by } => {
                self.make(at, *inode, by, Body::Directory(BTreeMap::new()))
            }
            Record::FileMade { at, inode, by, replication, chunk_bytes } => {
                let (replication, chunk_bytes) = (*replication, *chunk_bytes);
                let (chunks, made) = (Box::default(), self.made());
                let body = Body::File { chunks, chunk_bytes, replication, min_replicas: 0, made };
                self.make(at, *inode, by, body)
            }
            Record::Opened { file, inode, client } => {
                self.next.file.0 = file.0.checked_add(1).ok_or(NUMBERS_END)?;
                let (client, since) = (Some(*client), self.next.chunk);
                self.open.insert(
                    *file,
                    OpenFile { inode: *inode, client, chunks: Vec::new(), since, holder: None },
                );
                self.open_inodes.insert(*inode, *file);
                Ok(())
            }
            Record::Held { file, holder } => {
                self.open.get_mut(file).ok_or("no such open file")?.holder = Some(*holder);
                Ok(())
            }
            Record::Secured { inode, min_replicas: least } => match &mut self.inode_mut(*inode)?.body {
                Body::File { min_replicas, .. } => {
                    *min_replicas = u8::try_from(*least).unwrap_or(u8::MAX);
                    Ok(())
                }
                Body::Directory(_) => Err("not a file"),
            },
            Record::ChunkAdded { file, chunk, stamp, pipeline, continues } => {
                self.add_chunk(*file, *chunk, *stamp, pipeline, *continues)
            }
            Record::ChunkClaimed { file, chunk, length } => {
                self.open_chunk_mut(*file, *chunk)?.claimed = true;
                let chunk = self.chunks.get_mut(chunk).ok_or("no such chunk")?;
                (chunk.length, chunk.used) = (*length, *length);
                Ok(())
            }
            Record::ChunkEnded { file, chunk, stamp, length } => {
                self.end_chunk(*file, *chunk, *stamp, *length, events)
            }
            Record::ChunkDropped { file, chunk } => {
                let file = self.open.get(file).ok_or("no such open file")?;
                self.cut_chunks(file.inode, *chunk, false, events)
            }
            Record::RecoveryBegun { file } => {
                self.open.get_mut(file).ok_or("no such open file")?.client = None;
                Ok(())
            }
            Record::StampTaken { file, chunk, stamp } => {
                self.next.stamp.0 = self.next.stamp.0.max(stamp.0.checked_add(1).ok_or(NUMBERS_END)?);
                self.open_chunk_mut(*file, *chunk)?.recovery = Some(*stamp);
                Ok(())
            }
            Record::Closed { file, time_ms } => {
                let file = self.open.remove(file).ok_or("no such open file")?;
                self.open_inodes.remove(&file.inode);
                self.inode_mut(file.inode)?.modified_ms = *time_ms;
                Ok(())
            }
            Record::Removed { at, time_ms } => {
                let inode = self.unlink(at, *time_ms)?;
                self.remove_tree(inode, events);
                Ok(())
            }
            Record::Detached { at, time_ms } => {
                let top = self.unlink(at, *time_ms)?;
                self.end_writers_below(top, events);
                self.inode_mut(top)?.parent = top;
                self.detached.push(top);
                Ok(())
            }
            Record::Swept { inodes } => {
                (0..*inodes).for_each(|_| self.free_detached(events));
                Ok(())
            }
            Record::Moved { from, to, time_ms } => {
                let inode = self.unlink(from, *time_ms)?;
                self.link(to, inode, *time_ms)?;
                self.inode_mut(inode)?.parent = to.parent;
                Ok(())
            }
            Record::Truncated { inode, length, time_ms } => self.truncate(*inode, *length, *time_ms, events),
            Record::Concatenated { target, sources, time_ms } => {
                self.concatenate(*target, sources, *time_ms, events)
            }
            Record::AttributesSet { inode, attributes } => self.set_attributes(*inode, attributes, events),
            Record::KeptDropped { chunk } => {
                self.drop_kept(*chunk, events);
                Ok(())
            }
            Record::DecommissionBegun { node } => {
                if !self.nodes.contains_key(node) {
                    return Err("no such datanode");
                }
                self.decommissioned.insert(*node);
                events.push(Event::Service(*node));
                Ok(())
            }
            Record::Started { random } => {
                let Counters { sequence: record, chunk, stamp, .. } = self.next;
                self.history.begin(Start { record, random: *random, chunk, stamp });
                Ok(())
            }
            Record::Admitted { identity, record, chunk, stamp } => {
                self.history.admit(*identity, *record);
                self.next.chunk = self.next.chunk.max(*chunk);
                self.next.stamp = self.next.stamp.max(*stamp);
                Ok(())
            }
            Record::Settled { identity } => {
                self.history.settle(*identity);
                Ok(())
            }
            Record::DecommissionCancelled { node } => {
                self.decommissioned.remove(node);
                events.push(Event::Service(*node));
                Ok(())
            }
        }
    }

    /// Evicts clients if there are too many, but neither `newcomer` nor clients that write a file: a
    /// writer may send no request for hours. Evicts a fraction of the others at once, since it takes
    /// time to find them.
    fn forget_clients(&mut self, newcomer: ClientId) {
        let count = self.clients.count();
        if count > MAX_CLIENTS {
            let writing: BTreeSet<ClientId> = self.open.values().filter_map(|open| open.client).collect();
            let part = 1 + count.saturating_sub(writing.len()) / FORGOTTEN_PART;
            self.clients.forget_oldest(part, |client| client != newcomer && !writing.contains(&client));
        }
    }

    fn make(&mut self, at: &Place, number: InodeNo, by: &Ownership, body: Body) -> Applied {
        let inode = Inode {
            parent: at.parent,
            owner: self.names.number(&by.owner),
            group: self.names.number(&by.group),
            mode: by.mode,
            modified_ms: by.time_ms,
            accessed_ms: by.time_ms,
            body,
        };
        if !self.inodes.put(number, inode) {
            return Err("the inode is in use");
        }
        self.link(at, number, by.time_ms)
    }

    fn add_chunk(
        &mut self,
        file: FileId,
        id: ChunkId,
        stamp: Stamp,
        pipeline: &[crate::Member],
        continues: bool,
    ) -> Applied {
        self.next.chunk.0 = id.0.checked_add(1).ok_or(NUMBERS_END)?;
        self.next.stamp.0 = self.next.stamp.0.max(stamp.0.checked_add(1).ok_or(NUMBERS_END)?);
        let file = self.open.get_mut(&file).ok_or("no such open file")?;
        let inode = self.inodes.get_mut(file.inode).ok_or("no such inode")?;
        let Body::File { chunks, .. } = &mut inode.body else { return Err("not a file") };
        let continues = if continues { chunks.last().copied() } else { None };
        push(chunks, id);
        let pipeline = pipeline.to_vec();
        file.chunks.push(OpenChunk { chunk: id, pipeline, claimed: false, continues, recovery: None });
        self.chunks.insert(
            id,
            Chunk { inode: file.inode, stamp, length: 0, used: 0, ended: false, replaced: false },
        );
        Ok(())
    }

    fn end_chunk(
        &mut self,
        file: FileId,
        id: ChunkId,
        stamp: Stamp,
        length: u32,
        events: &mut Vec<Event>,
    ) -> Applied {
        let open = self.open.get_mut(&file).ok_or("no such open file")?;
        let at = open.place(id).ok_or("no such open chunk")?;
        let was = open.chunks.remove(at);
        let inode = open.inode;
        let chunk = self.chunks.get_mut(&id).ok_or("no such chunk")?;
        let shorter = was.claimed && length < chunk.length;
        *chunk = Chunk { inode, stamp, length, used: length, ended: true, replaced: false };
        events.push(Event::Ended(id));
        if shorter {
            self.cut_chunks(inode, id, true, events)?;
        }
        if let Some(old) = was.continues {
            let Body::File { chunks, .. } = &mut self.inode_mut(inode)?.body else {
                return Err("not a file");
            };
            *chunks = chunks.iter().copied().filter(|chunk| *chunk != old).collect();
            let replaced = self.chunks.get_mut(&old).ok_or("no such chunk")?;
            replaced.replaced = true;
            let used = replaced.used;
            // Also keep the older chunks that `old` replaced, and only their bytes that are still part
            // of the file.
            let mut kept = self.kept.remove(&old).unwrap_or_default();
            for older in &kept {
                let older = self.chunks.get_mut(older).ok_or("no such chunk")?;
                older.used = older.used.min(used);
            }
            kept.push(old);
            self.kept.insert(id, kept);
        }
        Ok(())
    }

    /// Removes a chunk that no file has any more, and the chunks that it replaced.
    fn remove_chunk(&mut self, chunk: ChunkId, events: &mut Vec<Event>) {
        self.drop_kept(chunk, events);
        self.chunks.remove(&chunk);
        events.push(Event::Gone(chunk));
    }

    fn drop_kept(&mut self, chunk: ChunkId, events: &mut Vec<Event>) {
        for old in self.kept.remove(&chunk).unwrap_or_default() {
            self.chunks.remove(&old);
            events.push(Event::Gone(old));
        }
    }

    /// Removes chunks from the end of a file: `first` and all chunks after it. With `behind`, keeps
    /// `first` itself.
    fn cut_chunks(
        &mut self,
        inode: InodeNo,
        first: ChunkId,
        behind: bool,
        events: &mut Vec<Event>,
    ) -> Applied {
        let Body::File { chunks, .. } = &mut self.inode_mut(inode)?.body else { return Err("not a file") };
        let at =
            chunks.iter().position(|chunk| *chunk == first).ok_or("no such chunk")? + usize::from(behind);
        // After a concat, the ids aren't in order, and the search below needs them sorted.
        let mut gone = chunks[at..].to_vec();
        *chunks = chunks[..at].into();
        gone.sort_unstable();
        gone.iter().for_each(|chunk| self.remove_chunk(*chunk, events));
        if let Some(file) = self.open_inodes.get(&inode).and_then(|file| self.open.get_mut(file)) {
            for open in file.chunks.extract_if(.., |open| gone.binary_search(&open.chunk).is_ok()) {
                discard(&open, events);
            }
        }
        Ok(())
    }

    fn truncate(&mut self, inode: InodeNo, length: u64, time_ms: Millis, events: &mut Vec<Event>) -> Applied {
        let layout: Vec<_> = self.layout(inode).map_err(|_| "not a file")?.collect();
        if let Some((.., first)) = layout.iter().find(|(offset, ..)| *offset >= length) {
            self.cut_chunks(inode, *first, false, events)?;
        }
        let last = layout.iter().rev().find(|(offset, ..)| *offset < length);
        if let Some((offset, _, _, id)) = last {
            let chunk = self.chunks.get_mut(id).ok_or("no such chunk")?;
            chunk.used = chunk.used.min(u32::try_from(length - offset).unwrap_or(u32::MAX));
        }
        self.inode_mut(inode)?.modified_ms = time_ms;
        Ok(())
    }

    fn concatenate(
        &mut self,
        target: InodeNo,
        sources: &[Place],
        time_ms: Millis,
        events: &mut Vec<Event>,
    ) -> Applied {
        let mut moved = Vec::new();
        for source in sources {
            let number = self.unlink(source, time_ms)?;
            let inode = self.inodes.take(number).ok_or("no such inode")?;
            let Body::File { chunks, .. } = inode.body else { return Err("not a file") };
            moved.extend(chunks);
        }
        for id in &moved {
            // Also move the chunks that this one replaced, which are kept until it has its replicas.
            for id in self.kept.get(id).into_iter().flatten().chain([id]) {
                self.chunks.get_mut(id).ok_or("no such chunk")?.inode = target;
            }
            events.push(Event::Target(*id));
        }
        let inode = self.inode_mut(target)?;
        inode.modified_ms = time_ms;
        let Body::File { chunks, .. } = &mut inode.body else { return Err("not a file") };
        let mut all = std::mem::take(chunks).into_vec();
        all.extend(moved);
        *chunks = all.into_boxed_slice();
        Ok(())
    }

    fn set_attributes(&mut self, number: InodeNo, set: &Attributes, events: &mut Vec<Event>) -> Applied {
        let owner = set.owner.as_ref().map(|owner| self.names.number(owner));
        let group = set.group.as_ref().map(|group| self.names.number(group));
        let inode = self.inode_mut(number)?;
        inode.mode = set.mode.unwrap_or(inode.mode);
        inode.owner = owner.unwrap_or(inode.owner);
        inode.group = group.unwrap_or(inode.group);
        inode.modified_ms = set.modified_ms.unwrap_or(inode.modified_ms);
        inode.accessed_ms = set.accessed_ms.unwrap_or(inode.accessed_ms);
        if let (Some(wanted), Body::File { replication, chunks, .. }) = (set.replication, &mut inode.body) {
            *replication = wanted;
            events.extend(chunks.iter().map(|chunk| Event::Target(*chunk)));
        }
        Ok(())
    }

    fn link(&mut self, at: &Place, inode: InodeNo, time_ms: Millis) -> Applied {
        let parent = self.inode_mut(at.parent)?;
        parent.modified_ms = time_ms;
        let Body::Directory(entries) = &mut parent.body else { return Err("not a directory") };
        match entries.insert(at.name.clone(), inode) {
            None => Ok(()),
            Some(_) => Err("the name is in use"),
        }
    }

    fn unlink(&mut self, at: &Place, time_ms: Millis) -> Applied<InodeNo> {
        let parent = self.inode_mut(at.parent)?;
        parent.modified_ms = time_ms;
        let Body::Directory(entries) = &mut parent.body else { return Err("not a directory") };
        entries.remove(&at.name).ok_or("no such name")
    }

    fn remove_tree(&mut self, top: InodeNo, events: &mut Vec<Event>) {
        let mut rest = vec![top];
        while let Some(number) = rest.pop() {
            let Some(inode) = self.inodes.take(number).filter(|_| number != ROOT) else { continue };
            match inode.body {
                Body::Directory(entries) => rest.extend(entries.into_values()),
                Body::File { chunks, .. } => self.remove_file(number, chunks, events),
            }
        }
    }

    fn remove_file(&mut self, number: InodeNo, chunks: Box<[ChunkId]>, events: &mut Vec<Event>) {
        chunks.into_iter().for_each(|chunk| self.remove_chunk(chunk, events));
        self.end_writer(number, events);
    }

    /// Frees the next inode of the detached trees, depth first: a directory's entries before itself.
    fn free_detached(&mut self, events: &mut Vec<Event>) {
        while let Some(number) = self.detached.pop() {
            if let Some(Inode { body: Body::Directory(entries), .. }) = self.inodes.get_mut(number)
                && let Some((_, entry)) = entries.pop_last()
            {
                self.detached.extend([number, entry]);
                continue;
            }
            if let Some(inode) = self.inodes.take(number) {
                if let Body::File { chunks, .. } = inode.body {
                    self.remove_file(number, chunks, events);
                }
                return;
            }
        }
    }

    /// Ends the leases of the files in a tree, whose inodes still exist.
    fn end_writers_below(&mut self, top: InodeNo, events: &mut Vec<Event>) {
        let mut ended = Vec::new();
        for open in self.open.values() {
            let mut at = open.inode;
            while at != top
                && at != ROOT
                && let Some(inode) = self.inodes.get(at)
            {
                at = inode.parent;
            }
            if at == top {
                ended.push(open.inode);
            }
        }
        ended.into_iter().for_each(|inode| self.end_writer(inode, events));
    }

    /// Ends the lease of a file that has no name any more, if it has one.
    fn end_writer(&mut self, inode: InodeNo, events: &mut Vec<Event>) {
        let open = self.open_inodes.remove(&inode).and_then(|file| self.open.remove(&file));
        open.iter().flat_map(|file| &file.chunks).for_each(|open| discard(open, events));
    }

    fn inode_mut(&mut self, number: InodeNo) -> Applied<&mut Inode> {
        self.inodes.get_mut(number).ok_or("no such inode")
    }

    fn open_chunk_mut(&mut self, file: FileId, chunk: ChunkId) -> Applied<&mut OpenChunk> {
        let file = self.open.get_mut(&file).ok_or("no such open file")?;
        let at = file.place(chunk).ok_or("no such open chunk")?;
        Ok(&mut file.chunks[at])
    }
}

/// Notes where replicas of a chunk that was open may lie. Its members report them only when it ends.
fn discard(open: &OpenChunk, events: &mut Vec<Event>) {
    events.extend(open.pipeline.iter().map(|member| Event::Discarded(open.chunk, member.node)));
}

/// Appends to a list of chunks without spare capacity: such a list seldom grows and stays in memory
/// for long.
fn push(chunks: &mut Box<[ChunkId]>, chunk: ChunkId) {
    let mut all = std::mem::take(chunks).into_vec();
    all.reserve_exact(1);
    all.push(chunk);
    *chunks = all.into_boxed_slice();
}
