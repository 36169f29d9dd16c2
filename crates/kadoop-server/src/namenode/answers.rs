//! The service for clients: translates calls for the core, and its answers for the wire.

use super::{Shared, audit::Asked, hosts::Known};
use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::IpAddr,
    sync::{Arc, PoisonError},
};
use strait_flexrpc::{Request, stub::ServiceError};
use strait_kadoop_core::{
    ChunkId, ClientId, FileId, Identity, Millis, NodeId, Stamp,
    error::{Error, Result},
    messages::{Answer, Caller, Located, Mutation, NewChunk, RequestId},
    namenode::{Counting, Namenode},
};
use strait_kadoop_wire::{
    clock::wall,
    convert::{
        Reach, answer_to_wire, concat_from_wire, host_to_wire, mutation_from_wire, narrow, new_chunk_to_wire,
        page_to_wire, request_from_wire, session_from_wire, status_to_wire, summary_to_wire, text,
    },
    failure::refuse,
    tokens::Right,
    wire,
};
use strait_xdr::Text;

/// The service for clients.
pub(super) struct Names(pub Arc<Shared>);

pub(super) type Answered<T> = std::result::Result<T, ServiceError>;

/// Optional features of this version: none yet.
pub(super) const FEATURES: u64 = 0;

impl wire::KadoopNamenodeV1Service for Names {
    fn nn_null(&self, _: &Request) -> Answered<()> {
        Ok(())
    }

    fn nn_join(&self, call: &Request, _: wire::KdHello) -> Answered<wire::KdWelcome> {
        let shared = &self.0;
        // A credential already contains its client's number.
        let own = Shared::own_client(call).map(Ok);
        let client = own.unwrap_or_else(|| shared.join_client()).map_err(refuse)?;
        let config = &shared.config;
        Ok(wire::KdWelcome {
            client: client.0,
            cluster: shared.cluster,
            features: FEATURES,
            lease_soft_ms: u32::try_from(config.lease_soft_ms).unwrap_or(u32::MAX),
            unit_bytes: config.unit_bytes,
            write_bytes: config.write_bytes,
            min_replicas: config.min_replicas as u32,
        })
    }

    fn nn_renew(&self, call: &Request, client: u64) -> Answered<()> {
        let shared = &self.0;
        Shared::demand_client(call, ClientId(client)).map_err(refuse)?;
        shared
            .change(|namenode, now| {
                namenode.renew(ClientId(client), now);
                Ok(())
            })
            .map_err(refuse)
    }

    fn nn_leases(&self, call: &Request, client: u64) -> Answered<wire::KdBroken> {
        let shared = &self.0;
        Shared::demand_client(call, ClientId(client)).map_err(refuse)?;
        shared
            .change(|namenode, now| {
                namenode.renew(ClientId(client), now);
                let broken = namenode.broken_pipelines(ClientId(client));
                Ok(wire::KdBroken { files: broken.into_iter().map(|file| file.0).collect() })
            })
            .map_err(refuse)
    }

    fn nn_mutate(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        request: wire::KdRequest,
        mutation: wire::KdMutation<'static>,
    ) -> Answered<wire::KdAnswer<'_>> {
        let mutate = || -> Result<wire::KdAnswer<'static>> {
            let caller = self.0.caller(call, &caller)?;
            let answer = self.0.mutate(call, &caller, request, &mutation_from_wire(&mutation)?, false)?;
            answer_to_wire(&answer, |new| self.0.addressed(new, self.0.token_ms_for(call)))
        };
        mutate().map_err(|error| self.0.refuse_told(error))
    }

    fn nn_concat(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        request: wire::KdRequest,
        concat: wire::KdConcat<'static>,
    ) -> Answered<()> {
        let join = || -> Result<()> {
            let caller = self.0.caller(call, &caller)?;
            self.0.mutate(call, &caller, request, &concat_from_wire(&concat)?, false).map(drop)
        };
        join().map_err(|error| self.0.refuse_told(error))
    }

    fn nn_open(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        request: wire::KdRequest,
        mutation: wire::KdMutation<'static>,
        opening: wire::KdOpening<'static>,
    ) -> Answered<wire::KdOpenedFile> {
        let open = || -> Result<wire::KdOpenedFile> {
            let answer = self.0.open(call, &caller, request, (&mutation, &opening), false)?;
            self.0.opened(&answer)
        };
        open().map_err(|error| self.0.refuse_told(error))
    }

    fn nn_begin(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        request: wire::KdRequest,
        mutation: wire::KdMutation<'static>,
        opening: wire::KdOpening<'static>,
    ) -> Answered<wire::KdBegunFile<'_>> {
        let begin = || -> Result<wire::KdBegunFile<'static>> {
            let answer = self.0.open(call, &caller, request, (&mutation, &opening), true)?;
            let first = match &answer {
                Answer::Begun { first, .. } => {
                    // An address is unknown only just after a restart, so the client should retry.
                    let reach = self.0.addressed(first, self.0.token_ms_for(call));
                    Some(Box::new(new_chunk_to_wire(first, reach.map_err(|_| Error::Unavailable)?)))
                }
                _ => None,
            };
            Ok(wire::KdBegunFile { opened: self.0.opened(&answer)?, first })
        };
        begin().map_err(|error| self.0.refuse_told(error))
    }

    fn nn_stat(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        path: Text<'static>,
    ) -> Answered<wire::KdStatus<'_>> {
        let stat = || -> Result<wire::KdStatus<'static>> {
            let (caller, path) = (self.0.caller(call, &caller)?, text(&path)?);
            let status = self.0.ask(|namenode| namenode.view(&caller).stat(path));
            let status = self.0.audited(call, &caller, Asked::new("getfileinfo", path), status)?;
            Ok(status_to_wire(&status))
        };
        stat().map_err(refuse)
    }

    fn nn_list(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        path: Text<'static>,
        after: Text<'static>,
        limit: u32,
    ) -> Answered<wire::KdPage<'_>> {
        let list = || -> Result<wire::KdPage<'static>> {
            let (caller, path, after) = (self.0.caller(call, &caller)?, text(&path)?, text(&after)?);
            let page = self.0.ask(|namenode| namenode.view(&caller).list(path, after, limit as usize));
            let page = self.0.audited(call, &caller, Asked::new("listStatus", path), page)?;
            Ok(page_to_wire(&page))
        };
        list().map_err(refuse)
    }

    fn nn_summary(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        path: Text<'static>,
    ) -> Answered<wire::KdSummary> {
        let sum = || -> Result<wire::KdSummary> {
            let (caller, path) = (self.0.caller(call, &caller)?, text(&path)?);
            let mut counting = Counting::new(path);
            let counted = loop {
                match self.0.ask(|namenode| counting.step(&namenode.view(&caller))) {
                    Ok(None) => {}
                    Ok(Some(sum)) => break Ok(summary_to_wire(sum)),
                    Err(error) => break Err(error),
                }
            };
            self.0.audited(call, &caller, Asked::new("contentSummary", path), counted)
        };
        sum().map_err(refuse)
    }

    fn nn_locate(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        path: Text<'static>,
        offset: u64,
        length: u64,
    ) -> Answered<wire::KdLocated<'_>> {
        let locate = || -> Result<wire::KdLocated<'static>> {
            let (caller, path) = (self.0.caller(call, &caller)?, text(&path)?);
            let located = self.0.ask(|namenode| namenode.locate(&caller, path, offset, length));
            let located = self.0.audited(call, &caller, Asked::new("open", path), located)?;
            Ok(self.0.located(&located, call.peer.ip(), self.0.token_ms_for(call)))
        };
        locate().map_err(refuse)
    }

    fn nn_locate_file(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        made: u64,
        chunk: u64,
        offset: u64,
        length: u64,
    ) -> Answered<wire::KdLocated<'_>> {
        let locate = || -> Result<wire::KdLocated<'static>> {
            let (caller, path) = (self.0.caller(call, &caller)?, format!("/.reserved/files/{made}"));
            let chunk = ChunkId(chunk);
            let located = self.0.ask(|namenode| namenode.locate_file(&caller, made, chunk, offset, length));
            let located = self.0.audited(call, &caller, Asked::new("open", &path), located)?;
            Ok(self.0.located(&located, call.peer.ip(), self.0.token_ms_for(call)))
        };
        locate().map_err(refuse)
    }

    fn nn_token(&self, call: &Request, client: u64, file: u64, chunk: u64) -> Answered<wire::KdToken> {
        let (client, file, chunk) = (ClientId(client), FileId(file), ChunkId(chunk));
        Shared::demand_client(call, client).map_err(refuse)?;
        let stamp = self.0.ask(|namenode| {
            let state = namenode.state();
            let leased = state.open.get(&file).is_some_and(|open| open.client == Some(client));
            if !leased {
                return Err(Error::LeaseLost);
            }
            state.open_chunk(file, chunk).ok_or(Error::NotOpen)?;
            Ok(state.chunks.get(&chunk).ok_or(Error::NotOpen)?.stamp)
        });
        let stamp = stamp.map_err(refuse)?;
        Ok(self.0.token(chunk, stamp, Right::Write, self.0.token_ms_for(call)))
    }

    fn nn_datanodes(&self, _: &Request) -> Answered<Text<'_>> {
        Ok(self.0.datanodes_call().map_err(refuse)?.to_string().into())
    }

    fn nn_service(&self, _: &Request) -> Answered<wire::KdService> {
        self.0.standings().map_err(refuse)
    }

    fn nn_decommission(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        node: u32,
        cancel: bool,
    ) -> Answered<()> {
        let caller = self.0.caller(call, &caller).map_err(refuse)?;
        let done = self.0.decommission(call, &caller, NodeId(node), cancel);
        done.map_err(|error| self.0.refuse_told(error))
    }

    fn nn_rebalance(
        &self,
        call: &Request,
        caller: wire::KdCaller<'static>,
        threshold_percent: u32,
    ) -> Answered<()> {
        let caller = self.0.caller(call, &caller).map_err(refuse)?;
        self.0.rebalance(call, &caller, threshold_percent).map_err(refuse)
    }

    fn nn_credential(&self, call: &Request, rejoin: bool) -> Answered<wire::KdCredential<'_>> {
        self.0.renew_credential(call, rejoin).map_err(refuse)
    }

    fn nn_refused(&self, _: &Request) -> Answered<wire::KdRefusedNodes<'_>> {
        self.0.refused_nodes().map_err(refuse)
    }

    fn nn_admit(&self, call: &Request, caller: wire::KdCaller<'static>, identity: u64) -> Answered<()> {
        let caller = self.0.caller(call, &caller).map_err(refuse)?;
        self.0.admit(call, &caller, Identity(identity)).map_err(refuse)
    }

    fn nn_damaged(&self, _: &Request, of: wire::KdVersion) -> Answered<wire::KdDamaged<'_>> {
        let nodes = self.0.ask(|namenode| Ok(namenode.damaged(ChunkId(of.chunk), Stamp(of.stamp))));
        let nodes = nodes.map_err(refuse)?;
        let hosts = self.0.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let hosts = nodes.into_iter().filter_map(|node| hosts.get(node).map(host_to_wire));
        Ok(wire::KdDamaged { hosts: hosts.take(wire::KD_REPLICAS as usize).collect() })
    }

    fn nn_suspect(&self, _: &Request, node: u32, of: wire::KdVersion) -> Answered<()> {
        let suspect = self.0.change(|namenode, _| {
            namenode.suspect(NodeId(node), ChunkId(of.chunk), Stamp(of.stamp));
            Ok(())
        });
        suspect.map_err(refuse)
    }

    fn nn_status(&self, _: &Request) -> Answered<wire::KdClusterStatus<'_>> {
        let shared = &self.0;
        let (safe_mode, files_and_directories, chunks) = shared
            .ask(|namenode| {
                let state = namenode.state();
                Ok((namenode.in_safe_mode(), state.inodes.count() as u64, state.chunks.len() as u64))
            })
            .map_err(refuse)?;
        let now = shared.clock.now();
        let hosts = shared.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let node = |known: &Known| {
            let silent_ms = now.saturating_sub(known.heard);
            wire::KdNodeStatus {
                host: host_to_wire(&known.host),
                alive: silent_ms < shared.config.dead_ms,
                capacity_bytes: known.capacity_bytes,
                used_bytes: known.used_bytes,
                silent_ms,
            }
        };
        let nodes = hosts.iter().map(node).collect();
        Ok(wire::KdClusterStatus { cluster: shared.cluster, safe_mode, files_and_directories, chunks, nodes })
    }
}

impl Shared {
    /// Opens a file for writing. With `begins`, a new file gets its first chunk, too.
    fn open(
        &self,
        call: &Request,
        caller: &wire::KdCaller<'_>,
        request: wire::KdRequest,
        (mutation, opening): (&wire::KdMutation<'_>, &wire::KdOpening<'_>),
        begins: bool,
    ) -> Result<Answer> {
        let mut mutation = mutation_from_wire(mutation)?;
        match &mut mutation {
            Mutation::Create { min_replicas, .. } => *min_replicas = narrow(opening.min_replicas)?,
            Mutation::Append { .. } => {}
            _ => return Err(Error::Invalid("this operation doesn't open a file for writing")),
        }
        let session = session_from_wire(&opening.session)?;
        let caller = Caller { session, ..self.caller(call, caller)? };
        self.mutate(call, &caller, request, &mutation, begins)
    }

    /// The wire form of the opened file in an answer.
    fn opened(&self, answer: &Answer) -> Result<wire::KdOpenedFile> {
        let (file, length, chunk_bytes, replication) = match *answer {
            Answer::Opened { file, length, chunk_bytes, replication } => {
                (file, length, chunk_bytes, replication)
            }
            Answer::Begun { file, chunk_bytes, replication, .. } => (file, 0, chunk_bytes, replication),
            _ => return Err(Error::Invalid("another operation used this request id before")),
        };
        let opened = wire::KdOpened { file: file.0, length, chunk_bytes, replication: replication.into() };
        // The record of this file is on disk. Don't use `ask`: it would wait for other callers' records.
        let min_replicas = self.read().min_replicas(file);
        Ok(wire::KdOpenedFile { opened, min_replicas: min_replicas as u32 })
    }

    /// Executes a mutation at most once, and writes it to the audit log. With `begins`, a new file gets
    /// its first chunk.
    fn mutate(
        &self,
        call: &Request,
        caller: &Caller,
        request: wire::KdRequest,
        mutation: &Mutation,
        begins: bool,
    ) -> Result<Answer> {
        let request = request_from_wire(request);
        Self::demand_client(call, request.client)?;
        let near = match mutation {
            Mutation::AddChunk { next: true, .. } => self.near(call.peer.ip()),
            _ if begins => self.near(call.peer.ip()),
            _ => Vec::new(),
        };
        self.wait_for_datanodes();
        let answer = match mutation {
            Mutation::Delete { path, recursive: true } => self.remove_tree(caller, request, mutation, path),
            _ => self.change(|namenode, now| {
                self.demand_room(namenode, request)?;
                match begins {
                    true => namenode.mutate_and_begin(caller, request, mutation, &near, now, wall()),
                    false => namenode.mutate(caller, request, mutation, &near, now, wall()),
                }
            }),
        };
        if let Some(asked) = Asked::of(mutation) {
            let error = match (&answer, mutation) {
                // The client gets no error, but the audit record mustn't claim that something was deleted.
                (Ok(Answer::Changed(false)), Mutation::Delete { .. }) => Some(&Error::NotFound),
                _ => answer.as_ref().err(),
            };
            self.record(call, caller, asked, error);
        }
        answer
    }

    /// Refuses a new request if the log's disk is full.
    pub(super) fn demand_room(&self, namenode: &Namenode, request: RequestId) -> Result<()> {
        match self.commit.is_short_of_room() && !namenode.has_answered(request) {
            true => Err(Error::NoSpace),
            false => Ok(()),
        }
    }

    /// A number for a new client. While the log's disk is full, it is 0: reads need no number, and
    /// mutations are refused then anyway. Once there is room, a mutation makes the client join again,
    /// since no client has number 0.
    pub(super) fn join_client(&self) -> Result<ClientId> {
        self.change(|namenode, now| match self.commit.is_short_of_room() {
            true => Ok(ClientId(0)),
            false => Ok(namenode.join_client(now)),
        })
    }

    fn token(&self, chunk: ChunkId, stamp: Stamp, right: Right, good_ms: Millis) -> wire::KdToken {
        self.tokens.token(chunk, stamp, right, Self::token_time() + good_ms)
    }

    /// Datanodes on the caller's host. The host is known from the connection, so a client can't claim
    /// another one.
    fn near(&self, caller: IpAddr) -> Vec<NodeId> {
        self.hosts.read().unwrap_or_else(PoisonError::into_inner).near(caller)
    }

    /// The addresses of the chunk's pipeline, and tokens for the chunk and for its source, if any.
    fn addressed(&self, new: &NewChunk, good_ms: Millis) -> Result<Reach> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let place = |node| hosts.get(node).map(|host| (host.address, host.identity));
        // An address is unknown only just after a restart. A heartbeat will bring it, or the writer
        // abandons the chunk. The chunk is in the log already, so this mustn't look like a refusal.
        let places: Option<Vec<_>> = new.pipeline.iter().map(|member| place(member.node)).collect();
        let places = places.ok_or(Error::OutcomeUnknown)?;
        let token = self.token(new.chunk, new.stamp, Right::Write, good_ms);
        let source = new.continues.as_ref();
        let source = source.map(|source| self.token(source.chunk, source.stamp, Right::Read, good_ms));
        Ok(Reach { places, token, source })
    }

    /// The wire form of the file's chunks. Sorts the replicas in the order in which a reader should try
    /// them: those on its host first, the others so that readers spread over them.
    fn located(&self, located: &Located, reader: IpAddr, good_ms: Millis) -> wire::KdLocated<'static> {
        let mut named = BTreeSet::new();
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let chunks = located.chunks.iter().map(|chunk| {
            named.extend(chunk.nodes.iter().copied());
            let mut nodes: Vec<NodeId> = chunk.nodes.clone();
            nodes.sort_by_key(|node| (!hosts.is_near(*node, reader), spread(chunk.chunk, *node, reader)));
            wire::KdLocatedChunk {
                offset: chunk.offset,
                skip: chunk.skip,
                length: chunk.length,
                growing: chunk.growing,
                chunk: chunk.chunk.0,
                stamp: chunk.stamp.0,
                nodes: nodes.into_iter().map(|node| node.0).collect(),
                token: self.token(chunk.chunk, chunk.stamp, Right::Read, good_ms),
            }
        });
        let chunks = chunks.collect();
        let hosts = named.into_iter().filter_map(|node| hosts.get(node).map(host_to_wire)).collect();
        let Located { made, length, open, .. } = *located;
        wire::KdLocated { made, chunks, hosts, length, open }
    }
}

/// A sort key that spreads readers over datanodes. It is stable for the same reader and chunk, and
/// differs for other readers and for neighbouring chunks. A simpler hash sends a reader to the same
/// datanode for several chunks in a row.
fn spread(chunk: ChunkId, node: NodeId, reader: IpAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    (chunk, node, reader).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_reader_goes_from_one_datanode_to_another() {
        let reader = IpAddr::from(Ipv4Addr::new(10, 77, 0, 1));
        let first = |chunk| (1..=3).min_by_key(|node| spread(ChunkId(chunk), NodeId(*node), reader));
        let firsts: Vec<Option<u32>> = (1..=300).map(first).collect();
        for node in 1..=3 {
            let share = firsts.iter().filter(|first| **first == Some(node)).count();
            assert!((70..=130).contains(&share), "{share} of 300 at {node}");
        }
        let stays = firsts.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!((70..=130).contains(&stays), "{stays} of 299 times it stays where it was");
    }
}
