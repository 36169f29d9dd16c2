//! Conversions between the wire's values and the cores' values. Only this module checks values that come
//! from outside, and converts them to types that exclude invalid values.

mod chunks;
mod heartbeats;
mod names;
mod standings;

pub use chunks::{
    continue_from_wire, continue_to_wire, digest_from_wire, piece_from_wire, read_from_wire, read_to_wire,
    write_from_wire, write_to_wire,
};
pub use heartbeats::{
    answer_from_wire as heartbeat_answer_from_wire, answer_to_wire as heartbeat_answer_to_wire,
    beat_from_wire, beat_to_wire, point_from_wire, point_to_wire, replica_from_wire, replica_to_wire,
};
pub use names::{
    Reach, answer_from_wire, answer_to_wire, caller_from_wire, caller_to_wire, concat_from_wire,
    located_from_wire, mutation_from_wire, mutation_to_wire, new_chunk_from_wire, new_chunk_to_wire,
    page_from_wire, page_to_wire, reach_from_wire, request_from_wire, request_to_wire, session_from_wire,
    status_from_wire, status_to_wire, summary_from_wire, summary_to_wire,
};
pub use standings::{rebalancing_from_wire, rebalancing_to_wire, standing_from_wire, standing_to_wire};

use crate::wire;
use std::net::SocketAddr;
use strait_kadoop_core::{
    ChunkId, Identity, Incarnation, Member, NodeId, Stamp,
    error::{Error, Result},
    messages::Source,
};
use strait_xdr::Text;

/// A datanode as the namenode describes it to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its number from the namenode.
    pub node: NodeId,
    /// Its own identity.
    pub identity: Identity,
    /// Its service address.
    pub address: SocketAddr,
    /// Name of its host.
    pub name: String,
    /// Its rack.
    pub rack: String,
}

/// The text as a `str`.
///
/// # Errors
/// Invalid: it isn't UTF-8.
pub fn text<'t>(text: &'t Text<'_>) -> Result<&'t str> {
    text.as_str().map_err(|_| Error::Invalid("a text that isn't UTF-8"))
}

/// The number as a `u16`.
///
/// # Errors
/// Invalid: it is above 65,535.
pub fn narrow(number: u32) -> Result<u16> {
    u16::try_from(number).map_err(|_| Error::Invalid("a number above 65,535"))
}

/// An address, from its text on the wire.
///
/// # Errors
/// Invalid: the text isn't IP:PORT.
pub fn address_from_wire(address: &Text<'_>) -> Result<SocketAddr> {
    text(address)?.parse().map_err(|_| Error::Invalid("an address that isn't IP:PORT"))
}

/// A host for the wire.
pub fn host_to_wire(host: &Host) -> wire::KdHost<'static> {
    wire::KdHost {
        node: host.node.0,
        identity: host.identity.0,
        address: host.address.to_string().into(),
        name: host.name.clone().into(),
        rack: host.rack.clone().into(),
    }
}

/// A host, from the wire.
///
/// # Errors
/// Invalid: a text isn't UTF-8, or the address isn't IP:PORT.
pub fn host_from_wire(host: &wire::KdHost<'_>) -> Result<Host> {
    Ok(Host {
        node: NodeId(host.node),
        identity: Identity(host.identity),
        address: address_from_wire(&host.address)?,
        name: text(&host.name)?.to_owned(),
        rack: text(&host.rack)?.to_owned(),
    })
}

/// A pipeline's member for the wire.
pub fn member_to_wire(member: &Member) -> wire::KdMember {
    wire::KdMember { node: member.node.0, incarnation: member.incarnation.0 }
}

/// A pipeline's member from the wire.
pub fn member_from_wire(member: &wire::KdMember) -> Member {
    Member { node: NodeId(member.node), incarnation: Incarnation(member.incarnation) }
}

fn nodes_to_wire(nodes: &[NodeId]) -> Vec<u32> {
    nodes.iter().map(|node| node.0).collect()
}

fn nodes_from_wire(nodes: &[u32]) -> Vec<NodeId> {
    nodes.iter().map(|node| NodeId(*node)).collect()
}

fn source_to_wire(source: &Source) -> wire::KdSource {
    wire::KdSource {
        chunk: source.chunk.0,
        stamp: source.stamp.0,
        length: source.length,
        nodes: nodes_to_wire(&source.nodes),
    }
}

fn source_from_wire(source: &wire::KdSource) -> Source {
    Source {
        chunk: ChunkId(source.chunk),
        stamp: Stamp(source.stamp),
        length: source.length,
        nodes: nodes_from_wire(&source.nodes),
    }
}
