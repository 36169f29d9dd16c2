//! Operations on paths, and operators' requests.

use super::{Client, digester::visible_end};
use std::{collections::BTreeMap, net::SocketAddr};
use strait_flexrpc::stub::StubError;
use strait_kadoop_core::{
    Identity, Millis, NodeId,
    error::Error,
    messages::{Attributes, Caller, LocatedChunk, Mutation, Page, Status, Summary},
    namenode::{Rebalancing, Standing},
};
use strait_kadoop_wire::{
    convert::{
        Host, address_from_wire, caller_to_wire, host_from_wire, located_from_wire, page_from_wire,
        rebalancing_from_wire, standing_from_wire, status_from_wire, summary_from_wire, text,
    },
    failure::Failure,
    wire::{self, KadoopNamenodeV1Client, KdAnswer},
};

/// Bytes of a file per request for chunk locations. These are a thousand chunks of the usual size, for which
/// the namenode holds its lock briefly. Even if the chunks are the smallest, they fit in one answer.
const LOCATED_BYTES: u64 = 64 << 30;

/// How long a status waits for the length of a file that is being written. Without an answer it has the length
/// that the namenode knows.
const STATUS_PATIENCE_MS: Millis = 2_000;

/// The namenode's view of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ClusterStatus {
    /// The cluster's random number.
    pub cluster: u64,
    /// Whether the namenode is in safe mode: it waits for datanodes to report, or for an operator's decision
    /// about lost records.
    pub safe_mode: bool,
    pub files_and_directories: u64,
    pub chunks: u64,
    /// Datanodes that have sent a heartbeat since the namenode started.
    pub nodes: Vec<NodeStatus>,
}

/// The namenode's view of a datanode.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct NodeStatus {
    pub host: Host,
    pub alive: bool,
    /// Capacity of its data directories.
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    /// Time since its latest heartbeat.
    pub silent_ms: u64,
}

/// A datanode that the namenode refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNode {
    /// Its identity. A refused datanode need not have a number in this cluster.
    pub identity: Identity,
    /// Its service address.
    pub address: SocketAddr,
    /// Its host's name.
    pub name: String,
    /// Its rack.
    pub rack: String,
    /// The reason, for people.
    pub why: String,
    /// Whether [`Client::admit`](super::Client::admit) would make the namenode accept it.
    pub admissible: bool,
    /// Milliseconds since its latest refusal.
    pub silent_ms: u64,
}

/// Decommission states of the datanodes, and the latest rebalance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standings {
    /// All datanodes that have ever joined.
    pub nodes: BTreeMap<NodeId, Standing>,
    /// The latest rebalance since the namenode started.
    pub rebalancing: Option<Rebalancing>,
}

/// Location of a part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Offset in the file of its first byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Datanodes that have the part.
    pub hosts: Vec<Host>,
}

impl Client {
    /// Attributes of a file or directory. The length of a file that is being written includes all bytes
    /// that were flushed before this call. In a listing, it may lack the latest ones.
    ///
    /// # Errors
    /// NotFound: nothing is at `path`. NotADirectory: a name above is a file. PermissionDenied: the caller
    /// can't pass through a directory above. As with every operation, Invalid: the path is malformed;
    /// Unavailable: the namenode doesn't answer.
    pub fn stat(&self, caller: &Caller, path: &str) -> Result<Status, Failure> {
        let told = self.ask(|to| to.nn_stat(&caller_to_wire(caller), &path.into()))?;
        let mut status = status_from_wire(&told)?;
        if status.open {
            let known = (status.made, status.length);
            status.length = visible_end(self, caller, path, known, STATUS_PATIENCE_MS)?.end;
        }
        Ok(status)
    }

    /// Entries of a directory whose names come after `after`, in the order of their names' bytes: at most
    /// `limit`, and at most 1,000. For a file, the file's own entry.
    ///
    /// # Errors
    /// As [`Client::stat`].
    pub fn list(&self, caller: &Caller, path: &str, after: &str, limit: u32) -> Result<Page, Failure> {
        let caller = caller_to_wire(caller);
        let page = self.ask(|to| to.nn_list(&caller, &path.into(), &after.into(), limit))?;
        Ok(page_from_wire(&page)?)
    }

    /// Number of files and directories, and the bytes, of the tree at `path`.
    ///
    /// # Errors
    /// As [`Client::stat`].
    pub fn summary(&self, caller: &Caller, path: &str) -> Result<Summary, Failure> {
        let caller = caller_to_wire(caller);
        let summary = self.ask(|to| to.nn_summary(&caller, &path.into()))?;
        Ok(summary_from_wire(&summary))
    }

    /// Locations of a range's bytes: all chunks that overlap the range, in order. Each location is that of a
    /// whole chunk, and names only datanodes that are alive. The length of a chunk that is being written
    /// includes all bytes that were flushed before this call. If none of that chunk's datanodes is alive,
    /// its length is the one that the namenode knows, perhaps 0.
    ///
    /// # Errors
    /// As [`Client::stat`]. IsADirectory: `path` is a directory.
    pub fn locations(
        &self,
        caller: &Caller,
        path: &str,
        offset: u64,
        length: u64,
    ) -> Result<Vec<Location>, Failure> {
        let end = offset.saturating_add(length);
        let mut locations: Vec<Location> = Vec::new();
        let mut at = offset;
        while at < end {
            let step = LOCATED_BYTES.min(end - at);
            let (found, of) = self.located(caller, path, at, step)?;
            // The previous step may have returned the chunk that reaches into this step: skip that one.
            let known = locations.last().map(|last| last.offset);
            locations.extend(found.into_iter().filter(|new| known.is_none_or(|known| new.offset > known)));
            at += step;
            if at >= of {
                break;
            }
        }
        Ok(locations)
    }

    /// Locations of the chunks in one step's range, and the file's length.
    fn located(
        &self,
        caller: &Caller,
        path: &str,
        offset: u64,
        length: u64,
    ) -> Result<(Vec<Location>, u64), Failure> {
        let on_wire = caller_to_wire(caller);
        let found = self.ask(|to| to.nn_locate(&on_wire, &path.into(), offset, length))?;
        let hosts: Result<Vec<Host>, Error> = found.hosts.iter().map(host_from_wire).collect();
        let mut hosts = hosts?;
        if found.open {
            // For a chunk that is being written, the namenode names all members of the pipeline, dead ones
            // included.
            let nodes = self.status()?.nodes;
            hosts.retain(|host| nodes.iter().any(|node| node.alive && node.host.node == host.node));
        }
        let known = (found.made, found.length);
        let location = |chunk: LocatedChunk| {
            let host = |node: &NodeId| hosts.iter().find(|host| host.node == *node).cloned();
            let hosts: Vec<Host> = chunk.nodes.iter().filter_map(host).collect();
            // Only the chunk's datanodes know how many bytes were flushed.
            let length = match chunk.growing && !hosts.is_empty() {
                true => {
                    let visible = visible_end(self, caller, path, known, STATUS_PATIENCE_MS)?;
                    visible.end.saturating_sub(chunk.offset)
                }
                false => chunk.length.into(),
            };
            Ok((chunk.growing, Location { offset: chunk.offset, length, hosts }))
        };
        let touched = |(growing, found): &(bool, Location)| {
            let begins = length > 0 && found.offset < offset.saturating_add(length);
            let lost = *growing && found.hosts.is_empty() && found.offset >= offset;
            begins && (lost || found.length > 0 && found.offset + found.length > offset)
        };
        let located = located_from_wire(&found);
        let locations: Result<Vec<_>, Failure> = located.chunks.into_iter().map(location).collect();
        let locations = locations?.into_iter().filter(touched);
        Ok((locations.map(|(_, location)| location).collect(), located.length))
    }

    /// Makes a directory and its missing parents. Succeeds if the directory exists already.
    ///
    /// # Errors
    /// AlreadyExists: `path` is a file; NotADirectory: a name above is a file; PermissionDenied.
    pub fn mkdirs(&self, caller: &Caller, path: &str, mode: u16) -> Result<(), Failure> {
        self.done(caller, &Mutation::Mkdirs { path: path.to_owned(), mode })
    }

    /// Moves a file or directory. With `replace`, it may replace a file or an empty directory.
    ///
    /// # Errors
    /// NotFound: nothing is at `from`; AlreadyExists, NotEmpty, IsADirectory, NotADirectory: the target
    /// can't be replaced, or not by this; PermissionDenied.
    pub fn rename(&self, caller: &Caller, from: &str, to: &str, replace: bool) -> Result<(), Failure> {
        self.done(caller, &Mutation::Rename { from: from.to_owned(), to: to.to_owned(), replace })
    }

    /// Removes a file or directory. Returns false if nothing was at `path`.
    ///
    /// # Errors
    /// NotEmpty: the directory has entries, and `recursive` is false; PermissionDenied.
    pub fn delete(&self, caller: &Caller, path: &str, recursive: bool) -> Result<bool, Failure> {
        self.changed(caller, &Mutation::Delete { path: path.to_owned(), recursive })
    }

    /// Shortens a closed file to `length`. Returns false if it has that length already.
    ///
    /// # Errors
    /// NotFound, IsADirectory, PermissionDenied; Busy: a writer has it open.
    pub fn truncate(&self, caller: &Caller, path: &str, length: u64) -> Result<bool, Failure> {
        self.changed(caller, &Mutation::Truncate { path: path.to_owned(), length })
    }

    /// Moves the bytes of `sources` to the end of a closed file, and removes the sources.
    ///
    /// # Errors
    /// NotFound, IsADirectory, PermissionDenied; Busy: a writer has one of them open; Invalid: no
    /// source, an empty one, or a file that is named twice.
    pub fn concat(&self, caller: &Caller, target: &str, sources: &[String]) -> Result<(), Failure> {
        self.link.concat(self.deadline, caller, target, sources)
    }

    /// Changes the given attributes.
    ///
    /// # Errors
    /// NotFound, PermissionDenied.
    pub fn set_attributes(&self, caller: &Caller, path: &str, attributes: Attributes) -> Result<(), Failure> {
        self.done(caller, &Mutation::SetAttributes { path: path.to_owned(), attributes })
    }

    /// Takes the lease from a file's writer, even from an active one, so that the namenode closes the file.
    /// Returns whether the file is closed already. If not, call this again until it is.
    ///
    /// # Errors
    /// NotFound, IsADirectory, PermissionDenied.
    pub fn recover_lease(&self, caller: &Caller, path: &str) -> Result<bool, Failure> {
        match self.changed(caller, &Mutation::RecoverLease { path: path.to_owned() }) {
            Err(failure) if failure.error == Error::Busy => Ok(false),
            closed => closed,
        }
    }

    /// The cluster's datanodes, with used and total bytes.
    ///
    /// # Errors
    /// Unavailable: the namenode doesn't answer.
    pub fn status(&self) -> Result<ClusterStatus, Failure> {
        let status = self.ask(|to| to.nn_status())?;
        let node = |node: &wire::KdNodeStatus<'_>| -> Result<NodeStatus, Error> {
            let host = host_from_wire(&node.host)?;
            let wire::KdNodeStatus { alive, capacity_bytes, used_bytes, silent_ms, .. } = *node;
            Ok(NodeStatus { host, alive, capacity_bytes, used_bytes, silent_ms })
        };
        let nodes: Result<Vec<NodeStatus>, Error> = status.nodes.iter().map(node).collect();
        let wire::KdClusterStatus { cluster, safe_mode, files_and_directories, chunks, .. } = status;
        Ok(ClusterStatus { cluster, safe_mode, files_and_directories, chunks, nodes: nodes? })
    }

    /// Decommission states of the datanodes, and the latest rebalance.
    ///
    /// # Errors
    /// Unavailable: the namenode doesn't answer.
    pub fn standings(&self) -> Result<Standings, Failure> {
        let told = self.ask(|to| to.nn_service())?;
        let rebalancing = told.rebalance.as_ref().map(rebalancing_from_wire);
        Ok(Standings { nodes: told.nodes.iter().map(standing_from_wire).collect(), rebalancing })
    }

    /// Decommissions a datanode: the namenode has its replicas copied to other datanodes. With `cancelled`,
    /// ends the decommission, so that the datanode stays in service.
    ///
    /// # Errors
    /// PermissionDenied: the caller isn't the superuser; NotFound: no datanode has this number.
    pub fn decommission(&self, caller: &Caller, node: NodeId, cancelled: bool) -> Result<(), Failure> {
        let caller = caller_to_wire(caller);
        self.ask(|to| to.nn_decommission(&caller, node.0, cancelled))
    }

    /// Datanodes that the namenode refused in the last hour, or refuses until an operator admits them.
    ///
    /// # Errors
    /// Unavailable: the namenode doesn't answer.
    pub fn refused(&self) -> Result<Vec<RefusedNode>, Failure> {
        let told = self.ask(|to| to.nn_refused())?;
        let node = |node: &wire::KdRefusedNode<'_>| -> Result<RefusedNode, Error> {
            Ok(RefusedNode {
                identity: Identity(node.identity),
                address: address_from_wire(&node.address)?,
                name: text(&node.name)?.to_owned(),
                rack: text(&node.rack)?.to_owned(),
                why: text(&node.why)?.to_owned(),
                admissible: node.admissible,
                silent_ms: node.silent_ms,
            })
        };
        Ok(told.nodes.iter().map(node).collect::<Result<_, _>>()?)
    }

    /// Makes the namenode accept a datanode whose history differs from the log: records and files that the
    /// log lacks are given up for good.
    ///
    /// # Errors
    /// PermissionDenied: the caller isn't the superuser; NotFound: the namenode doesn't refuse a datanode
    /// with this identity for its history.
    pub fn admit(&self, caller: &Caller, identity: Identity) -> Result<(), Failure> {
        let caller = caller_to_wire(caller);
        self.ask(|to| to.nn_admit(&caller, identity.0))
    }

    /// Begins a rebalance: replicas move to emptier datanodes, until the use of each is within
    /// `threshold_percent` of the mean. None ends the rebalance.
    ///
    /// # Errors
    /// PermissionDenied: the caller isn't the superuser; Invalid: the threshold isn't from 1 to 100.
    pub fn rebalance(&self, caller: &Caller, threshold_percent: Option<u32>) -> Result<(), Failure> {
        let caller = caller_to_wire(caller);
        self.ask(|to| to.nn_rebalance(&caller, threshold_percent.unwrap_or(0)))
    }

    /// Makes a query.
    fn ask<T>(
        &self,
        ask: impl Fn(&mut KadoopNamenodeV1Client) -> Result<T, StubError>,
    ) -> Result<T, Failure> {
        self.link.ask(self.deadline, ask)
    }

    fn done(&self, caller: &Caller, mutation: &Mutation) -> Result<(), Failure> {
        match self.link.mutate(self.deadline, caller, mutation)? {
            KdAnswer::KdDone => Ok(()),
            _ => Err(strange()),
        }
    }

    fn changed(&self, caller: &Caller, mutation: &Mutation) -> Result<bool, Failure> {
        match self.link.mutate(self.deadline, caller, mutation)? {
            KdAnswer::KdChanged(changed) => Ok(changed),
            _ => Err(strange()),
        }
    }
}

fn strange() -> Failure {
    Error::Internal("the namenode's answer is of another kind").into()
}
