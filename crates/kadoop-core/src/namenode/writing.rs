//! Operations of a file's writer: to begin and end chunks, and to close the file.

use super::{
    Decision, Namenode,
    record::Record,
    state::{Chunk, OpenFile},
};
use crate::{
    ChunkId, ClientId, FileId, Member, Millis, NodeId,
    error::{Error, Result},
    faults::Fault,
    messages::{Answer, End, Mutation, NewChunk, Source},
};
use std::collections::BTreeSet;

/// A writer's preferences for its next chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wishes<'a> {
    /// Datanodes that the writer has lost.
    pub avoid: &'a [NodeId],
    /// Datanodes on the writer's host.
    pub near: &'a [NodeId],
}

/// A new chunk's size and replicas.
struct Layout {
    /// Wanted number of replicas.
    replicas: usize,
    /// Minimum number of replicas.
    least: usize,
    /// Largest length, in bytes.
    bytes: u64,
}

impl Namenode {
    /// The open file, if the client has its lease.
    pub(super) fn leased(&self, file: FileId, client: ClientId) -> Result<&OpenFile> {
        let open = self.state.open.get(&file).ok_or(Error::LeaseLost)?;
        if open.client != Some(client) && !self.config.faults.has(Fault::LeaseNotChecked) {
            return Err(Error::LeaseLost);
        }
        Ok(open)
    }

    /// Logs ends and, if `next` is given, begins the next chunk.
    pub(super) fn decide_chunk(
        &mut self,
        file: FileId,
        client: ClientId,
        ends: &[End],
        next: Option<Wishes<'_>>,
        now: Millis,
    ) -> Result<Decision> {
        let mut records = self.decide_ends(file, client, ends)?;
        let open = self.leased(file, client)?;
        // Only the last chunk can lack an end: the namenode begins no chunk after one without an end.
        let last = open.chunks.last();
        let unfinished =
            last.is_some_and(|open| !open.claimed && !ends.iter().any(|end| end.chunk == open.chunk));
        if unfinished && next.is_some() {
            return Err(Error::Invalid("the previous chunk has no end yet"));
        }
        let chunks = self.state.inode(open.inode)?.chunks().map_or(0, <[ChunkId]>::len);
        if next.is_some() && chunks >= self.config.max_file_chunks {
            return Err(Error::Invalid("the file has the maximum number of chunks: use larger chunks"));
        }
        let unended = open.chunks.iter().filter(|open| !ends.iter().any(|end| end.chunk == open.chunk));
        if next.is_some() && unended.count() >= self.config.max_unended_chunks {
            return Err(Error::Limit("chunks of an open file without a durable end"));
        }
        let next = match next {
            Some(wishes) => Some(self.new_chunk(file, ends, wishes, now)?),
            None => None,
        };
        if let Some(new) = &next {
            let (chunk, stamp, pipeline) = (new.chunk, new.stamp, new.pipeline.clone());
            let continues = new.continues.is_some();
            records.push(Record::ChunkAdded { file, chunk, stamp, pipeline, continues });
            if let Some(old) = &new.continues
                && self.config.faults.has(Fault::ReplacedEarly)
            {
                let length = old.length;
                records.push(Record::ChunkEnded { file, chunk, stamp, length });
                records.push(Record::KeptDropped { chunk });
            }
        }
        let durable = self.all_durable(file, ends)?;
        Ok((records, Answer::Chunk { next, durable }))
    }

    /// Logs the ends of the remaining chunks, and closes the file if all its chunks are durable.
    pub(super) fn decide_complete(
        &mut self,
        file: FileId,
        client: ClientId,
        ends: &[End],
        time_ms: Millis,
    ) -> Result<Decision> {
        let mut records = self.decide_ends(file, client, ends)?;
        let careless = self.config.faults.has(Fault::CompleteNotDurable);
        let ended = ends.iter().filter(|end| end.length == 0 || !end.durable.is_empty() || careless);
        let ended: BTreeSet<ChunkId> = ended.map(|end| end.chunk).collect();
        let done = self.leased(file, client)?.chunks.iter().all(|open| ended.contains(&open.chunk));
        let closed = done && (careless || self.all_durable(file, ends)?);
        if closed {
            records.push(Record::Closed { file, time_ms });
        }
        Ok((records, Answer::Completed(closed)))
    }

    fn decide_ends(&self, file: FileId, client: ClientId, ends: &[End]) -> Result<Vec<Record>> {
        let open = self.leased(file, client)?;
        let careless = self.config.faults.has(Fault::CompleteNotDurable);
        let limit = self.chunk_bytes(open)?;
        let mut records = Vec::new();
        let mut named = BTreeSet::new();
        for end in ends {
            if !named.insert(end.chunk) {
                return Err(Error::Invalid("the request reports a chunk's end twice"));
            }
            // Skip a chunk whose end is already logged.
            let Some(at) = open.place(end.chunk) else { continue };
            let this = &open.chunks[at];
            let logged = self.state.chunks.get(&end.chunk).ok_or(Error::LeaseLost)?;
            let continued =
                this.continues.and_then(|old| self.state.chunks.get(&old)).map_or(0, |old| old.used);
            let (chunk, length, stamp) = (end.chunk, end.length, logged.stamp);
            if length > limit || this.claimed && length != logged.length {
                return Err(Error::Invalid("a chunk's end differs from an earlier one, or is too large"));
            }
            if !end.durable.iter().all(|node| this.pipeline.iter().any(|member| member.node == *node)) {
                return Err(Error::Invalid("a datanode outside the chunk's pipeline can't have sealed it"));
            }
            if length == 0 || length < continued {
                if at + 1 < open.chunks.len() {
                    return Err(Error::Invalid("only the last chunk can be abandoned"));
                }
                records.push(Record::ChunkDropped { file, chunk });
            } else if !end.durable.is_empty() || careless {
                records.push(Record::ChunkEnded { file, chunk, stamp, length });
            } else if !this.claimed {
                records.push(Record::ChunkClaimed { file, chunk, length });
            }
        }
        Ok(records)
    }

    fn new_chunk(&mut self, file: FileId, ends: &[End], wishes: Wishes<'_>, now: Millis) -> Result<NewChunk> {
        let open = self.state.open.get(&file).ok_or(Error::LeaseLost)?;
        let inode = self.state.inode(open.inode)?;
        let of = Layout {
            replicas: inode.replication().into(),
            least: inode.min_replicas(self.config.min_replicas),
            bytes: self.chunk_bytes(open)?.into(),
        };
        let continues = if ends.is_empty() { self.continued(open)? } else { None };
        let pipeline = self.pipeline(&of, continues.as_ref(), wishes, now)?;
        let (chunk, stamp) = (self.state.next_chunk(), self.state.next_stamp());
        Ok(NewChunk { chunk, stamp, pipeline, continues })
    }

    /// Adds the first chunk to the creation of a file, if datanodes can take the chunk. Otherwise the
    /// writer asks for its first chunk when it has bytes.
    pub(super) fn with_first_chunk(
        &mut self,
        mutation: &Mutation,
        (mut records, answer): Decision,
        near: &[NodeId],
        now: Millis,
    ) -> Decision {
        let (
            Mutation::Create { min_replicas, .. },
            Answer::Opened { file, length: 0, chunk_bytes, replication },
        ) = (mutation, &answer)
        else {
            return (records, answer);
        };
        let (file, chunk_bytes, replication) = (*file, *chunk_bytes, *replication);
        let replicas = usize::from(replication);
        let least = self.config.min_replicas.max((*min_replicas).into()).min(replicas);
        let of = Layout { replicas, least, bytes: chunk_bytes.into() };
        let Ok(pipeline) = self.pipeline(&of, None, Wishes { avoid: &[], near }, now) else {
            return (records, answer);
        };
        let (chunk, stamp) = (self.state.next_chunk(), self.state.next_stamp());
        let first = NewChunk { chunk, stamp, pipeline: pipeline.clone(), continues: None };
        records.push(Record::ChunkAdded { file, chunk, stamp, pipeline, continues: false });
        (records, Answer::Begun { file, chunk_bytes, replication, first })
    }

    /// Datanodes for a new chunk.
    fn pipeline(
        &mut self,
        of: &Layout,
        continues: Option<&Source>,
        Wishes { avoid, near }: Wishes<'_>,
        now: Millis,
    ) -> Result<Vec<Member>> {
        let Layout { replicas: wanted, least, bytes } = *of;
        let mut holders: Vec<NodeId> = continues.map_or(Vec::new(), |source| source.nodes.clone());
        holders.sort_by_key(|node| !near.contains(node));
        // Prefer holders of the continued chunk, which can copy it without the network.
        let mut nodes: Vec<NodeId> = holders
            .into_iter()
            .filter(|node| !avoid.contains(node) && self.takes(*node, bytes, now))
            .take(wanted)
            .collect();
        if nodes.is_empty() && wanted > 0 {
            nodes.extend(self.one_of(near, avoid, bytes, now));
        }
        let more = self.place(wanted - nodes.len(), &nodes, avoid, bytes, now);
        nodes.extend(more);
        // Rather than too few datanodes, take one that the writer has just lost, or one without room for
        // a whole chunk: few chunks reach their full size.
        for bytes in [bytes, 0] {
            if nodes.len() < least {
                let more = self.place(wanted - nodes.len(), &nodes, &[], bytes, now);
                nodes.extend(more);
            }
        }
        if nodes.len() < least {
            return Err(Error::NoDatanodes);
        }
        nodes.iter().for_each(|node| self.note_placed(*node));
        let pipeline = nodes.iter().filter_map(|node| {
            let incarnation = self.cluster.nodes.get(node)?.incarnation;
            Some(Member { node: *node, incarnation })
        });
        Ok(pipeline.collect())
    }

    /// The file's last chunk, if it is short enough to continue and this writer has begun no chunk yet.
    fn continued(&self, open: &OpenFile) -> Result<Option<Source>> {
        let inode = self.state.inode(open.inode)?;
        let Some(last) = inode.chunks().and_then(<[ChunkId]>::last) else { return Ok(None) };
        let Some(logged) = self.state.chunks.get(last) else { return Ok(None) };
        let limit = self.config.continue_below_bytes.min(self.chunk_bytes(open)?);
        let nodes = self.cluster.live_good(*last).to_vec();
        let fits = *last < open.since && logged.ended && logged.used < limit && !nodes.is_empty();
        Ok(fits.then_some(Source { chunk: *last, stamp: logged.stamp, length: logged.used, nodes }))
    }

    pub(super) fn chunk_bytes(&self, open: &OpenFile) -> Result<u32> {
        match self.state.inode(open.inode)?.body {
            super::inodes::Body::File { chunk_bytes, .. } => Ok(chunk_bytes),
            super::inodes::Body::Directory(_) => Err(Error::IsADirectory),
        }
    }

    /// Whether each chunk that this writer ended has its minimum of replicas, according to the datanodes'
    /// reports. For the chunks in `ends`, members that have sealed according to the writer count, too.
    fn all_durable(&self, file: FileId, ends: &[End]) -> Result<bool> {
        let open = self.state.open.get(&file).ok_or(Error::LeaseLost)?;
        let least = match self.config.faults.has(Fault::DurableOnce) {
            false => self.state.inode(open.inode)?.min_replicas(self.config.min_replicas),
            true => 1,
        };
        let told = ends.iter().filter(|end| end.length > 0 && open.place(end.chunk).is_some());
        let told = told.into_iter().all(|end| {
            let mut nodes = self.cluster.live_good(end.chunk);
            for node in &end.durable {
                if !nodes.contains(node) {
                    nodes.push(*node);
                }
            }
            nodes.len() >= least
        });
        let mine =
            |chunk: &ChunkId| self.state.chunks.get(chunk).is_some_and(|logged| logged.inode == open.inode);
        Ok(told && !self.cluster.short.range(open.since..).any(mine))
    }

    /// Number of replicas on disk with which an open file's bytes are durable. If the file isn't open any
    /// more, the cluster's minimum.
    pub fn min_replicas(&self, file: FileId) -> usize {
        let inode = self.state.open.get(&file).and_then(|open| self.state.inodes.get(open.inode));
        inode.map_or(self.config.min_replicas, |inode| inode.min_replicas(self.config.min_replicas))
    }

    /// Number of replicas on disk with which the chunk is durable.
    pub(super) fn least_of(&self, chunk: ChunkId) -> usize {
        let inode = self.state.chunks.get(&chunk).and_then(|logged| self.state.inodes.get(logged.inode));
        inode.map_or(self.config.min_replicas, |inode| inode.min_replicas(self.config.min_replicas))
    }

    /// Updates whether the chunk is in the set of open files' ended chunks that aren't durable. With this
    /// set, a writer's request needn't examine all chunks of its file.
    pub(super) fn note_short(&mut self, chunk: ChunkId) {
        let being_written =
            |logged: &Chunk| logged.ended && self.state.open_inodes.contains_key(&logged.inode);
        let short = self.state.chunks.get(&chunk).is_some_and(being_written)
            && self.cluster.live_good(chunk).len() < self.least_of(chunk)
            && !self.config.faults.has(Fault::DurableOnce);
        if short {
            self.cluster.short.insert(chunk);
        } else {
            self.cluster.short.remove(&chunk);
        }
    }

    /// Members that have sealed a chunk according to its writer, with the run in which they joined the
    /// pipeline. Call this before the ends are applied, which drops the pipelines.
    pub(super) fn sealed_by_word(&self, mutation: &Mutation) -> Vec<(ChunkId, Member)> {
        let (Mutation::AddChunk { file, ends, .. } | Mutation::Complete { file, ends }) = mutation else {
            return Vec::new();
        };
        let mut sealed = Vec::new();
        for end in ends {
            let Some(open) = self.state.open_chunk(*file, end.chunk) else { continue };
            let members = open.pipeline.iter().filter(|member| end.durable.contains(&member.node));
            sealed.extend(members.map(|member| (end.chunk, *member)));
        }
        sealed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Config,
        config::{MAX_FILE_CHUNKS, MAX_UNENDED_CHUNKS},
        messages::{Caller, RequestId},
        namenode::{State, inodes::Body, state::OpenChunk},
    };

    #[test]
    fn a_file_gets_no_more_chunks_than_a_checkpoint_can_hold() {
        let config = Config { min_chunk_bytes: 1, ..Config::default() };
        let caller = Caller { user: config.superuser.as_str().into(), groups: Vec::new(), session: None };
        let state = State::new(&config);
        let mut namenode = Namenode::new(config, state, 0, 1);
        let client = namenode.join_client(0);
        let mut mutate = |number, mutation: &Mutation, prepare: &dyn Fn(&mut Namenode)| {
            prepare(&mut namenode);
            namenode.mutate(&caller, RequestId { client, number, done_below: 0 }, mutation, &[], 0, 0)
        };
        let path = "/file".to_owned();
        let create = Mutation::Create {
            path,
            overwrite: false,
            mode: 0o644,
            replication: 1,
            chunk_bytes: 1,
            min_replicas: 0,
        };
        let Ok(Answer::Opened { file, .. }) = mutate(1, &create, &|_| ()) else { panic!("no file") };
        let add = Mutation::AddChunk { file, ends: Vec::new(), next: true, avoid: Vec::new() };
        let grow_to = |count: usize| {
            move |namenode: &mut Namenode| {
                let inode = namenode.state.open[&file].inode;
                let Some(inode) = namenode.state.inodes.get_mut(inode) else { panic!("no inode") };
                let Body::File { chunks, .. } = &mut inode.body else { panic!("not a file") };
                *chunks = vec![ChunkId(0); count].into_boxed_slice();
            }
        };
        assert_eq!(mutate(2, &add, &grow_to(MAX_FILE_CHUNKS - 1)), Err(Error::NoDatanodes));
        assert!(matches!(mutate(2, &add, &grow_to(MAX_FILE_CHUNKS)), Err(Error::Invalid(_))));
        let leave_open = |namenode: &mut Namenode| {
            grow_to(0)(namenode);
            let Some(open) = namenode.state.open.get_mut(&file) else { panic!("it isn't open") };
            let unended = |chunk| OpenChunk {
                chunk: ChunkId(chunk),
                pipeline: Vec::new(),
                continues: None,
                claimed: true,
                recovery: None,
            };
            open.chunks = (0..MAX_UNENDED_CHUNKS as u64).map(unended).collect();
        };
        assert!(matches!(mutate(2, &add, &leave_open), Err(Error::Limit(_))));
    }
}
