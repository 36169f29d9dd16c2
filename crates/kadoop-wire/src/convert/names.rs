//! Converts callers, requests and answers of the namespace.

use super::{
    address_from_wire, member_from_wire, member_to_wire, narrow, nodes_from_wire, nodes_to_wire,
    source_from_wire, source_to_wire, text,
};
use crate::wire::{self, KdAnswer, KdMutation, KdToken};
use compact_str::CompactString;
use std::net::SocketAddr;
use strait_kadoop_core::{
    ChunkId, ClientId, FileId, Identity, Stamp,
    error::{Error, Result},
    messages::{
        Answer, Attributes, Caller, End, Located, LocatedChunk, Mutation, NewChunk, Page, RequestId, Session,
        Status, Summary,
    },
};
use strait_xdr::Text;

/// A caller, to the wire.
pub fn caller_to_wire(caller: &Caller) -> wire::KdCaller<'_> {
    wire::KdCaller {
        user: caller.user.as_str().into(),
        groups: caller.groups.iter().map(|group| group.as_str().into()).collect(),
    }
}

/// A caller, from the wire.
///
/// # Errors
/// Invalid: a name isn't UTF-8.
pub fn caller_from_wire(caller: &wire::KdCaller<'_>) -> Result<Caller> {
    let groups: Result<Vec<CompactString>> =
        caller.groups.iter().map(|group| text(group).map(CompactString::from)).collect();
    Ok(Caller { user: text(&caller.user)?.into(), groups: groups?, session: None })
}

/// A session, from the wire; `None` if the secret is empty.
///
/// # Errors
/// Invalid: the secret has neither 0 nor 32 bytes.
pub fn session_from_wire(secret: &[u8]) -> Result<Option<Session>> {
    match secret {
        [] => Ok(None),
        _ => Ok(Some(Session(secret.try_into().map_err(|_| Error::Invalid("a session has 32 bytes"))?))),
    }
}

/// A request's identity, to the wire.
pub fn request_to_wire(request: RequestId) -> wire::KdRequest {
    wire::KdRequest { client: request.client.0, number: request.number, done_below: request.done_below }
}

/// A request's identity, from the wire.
pub fn request_from_wire(request: wire::KdRequest) -> RequestId {
    RequestId { client: ClientId(request.client), number: request.number, done_below: request.done_below }
}

fn ends_to_wire(ends: &[End]) -> Vec<wire::KdEnd> {
    let end = |end: &End| wire::KdEnd {
        chunk: end.chunk.0,
        length: end.length,
        durable: nodes_to_wire(&end.durable),
    };
    ends.iter().map(end).collect()
}

fn ends_from_wire(ends: &[wire::KdEnd]) -> Vec<End> {
    let end = |end: &wire::KdEnd| End {
        chunk: ChunkId(end.chunk),
        length: end.length,
        durable: nodes_from_wire(&end.durable),
    };
    ends.iter().map(end).collect()
}

fn attributes_to_wire(attributes: &Attributes) -> wire::KdAttributes<'_> {
    let Attributes { mode, owner, group, modified_ms, accessed_ms, replication } = attributes;
    wire::KdAttributes {
        mode: mode.map(u32::from),
        owner: owner.as_ref().map(|owner| owner.as_str().into()),
        group: group.as_ref().map(|group| group.as_str().into()),
        modified_ms: *modified_ms,
        accessed_ms: *accessed_ms,
        replication: replication.map(u32::from),
    }
}

fn attributes_from_wire(attributes: &wire::KdAttributes<'_>) -> Result<Attributes> {
    let name = |name: &Option<Text<'_>>| -> Result<Option<CompactString>> {
        name.as_ref().map(|name| text(name).map(CompactString::from)).transpose()
    };
    Ok(Attributes {
        mode: attributes.mode.map(narrow).transpose()?,
        owner: name(&attributes.owner)?,
        group: name(&attributes.group)?,
        modified_ms: attributes.modified_ms,
        accessed_ms: attributes.accessed_ms,
        replication: attributes.replication.map(narrow).transpose()?,
    })
}

/// A mutation, to the wire, without a new file's minimum of replicas, which a separate argument carries. None
/// for a concat, which has a separate procedure.
pub fn mutation_to_wire(mutation: &Mutation) -> Option<KdMutation<'_>> {
    Some(match mutation {
        Mutation::Mkdirs { path, mode } => {
            KdMutation::KdMkdirs(wire::KdMkdirs { path: path.into(), mode: u32::from(*mode) })
        }
        Mutation::Create { path, overwrite, mode, replication, chunk_bytes, min_replicas: _ } => {
            KdMutation::KdCreate(wire::KdCreate {
                path: path.into(),
                overwrite: *overwrite,
                mode: u32::from(*mode),
                replication: u32::from(*replication),
                chunk_bytes: *chunk_bytes,
            })
        }
        Mutation::Append { path } => KdMutation::KdAppend(path.into()),
        Mutation::AddChunk { file, ends, next, avoid } => KdMutation::KdAddChunk(wire::KdAddChunk {
            file: file.0,
            ends: ends_to_wire(ends),
            next: *next,
            avoid: nodes_to_wire(avoid),
        }),
        Mutation::Complete { file, ends } => {
            KdMutation::KdComplete(wire::KdComplete { file: file.0, ends: ends_to_wire(ends) })
        }
        Mutation::Rename { from, to, replace } => {
            KdMutation::KdRename(wire::KdRename { from: from.into(), to: to.into(), replace: *replace })
        }
        Mutation::Delete { path, recursive } => {
            KdMutation::KdDelete(wire::KdDelete { path: path.into(), recursive: *recursive })
        }
        Mutation::Truncate { path, length } => {
            KdMutation::KdTruncate(wire::KdTruncate { path: path.into(), length: *length })
        }
        Mutation::SetAttributes { path, attributes } => KdMutation::KdSetAttributes(wire::KdSetAttributes {
            path: path.into(),
            attributes: attributes_to_wire(attributes),
        }),
        Mutation::RecoverLease { path } => KdMutation::KdRecoverLease(path.into()),
        Mutation::EndChunk { file, chunk, length } => {
            KdMutation::KdEndChunk(wire::KdEndChunk { file: file.0, chunk: chunk.0, length: *length })
        }
        Mutation::Concat { .. } => return None,
    })
}

/// A concat, from the wire.
///
/// # Errors
/// Invalid: a path isn't UTF-8.
pub fn concat_from_wire(concat: &wire::KdConcat<'_>) -> Result<Mutation> {
    let path = |path: &Text<'_>| text(path).map(str::to_owned);
    let sources = concat.sources.iter().map(path).collect::<Result<_>>()?;
    Ok(Mutation::Concat { target: path(&concat.target)?, sources })
}

/// A mutation, from the wire.
///
/// # Errors
/// Invalid: a text isn't UTF-8, or a number is above 65,535 that must fit in 16 bits.
pub fn mutation_from_wire(mutation: &KdMutation<'_>) -> Result<Mutation> {
    let path = |path: &Text<'_>| text(path).map(str::to_owned);
    Ok(match mutation {
        KdMutation::KdMkdirs(of) => Mutation::Mkdirs { path: path(&of.path)?, mode: narrow(of.mode)? },
        KdMutation::KdCreate(of) => Mutation::Create {
            path: path(&of.path)?,
            overwrite: of.overwrite,
            mode: narrow(of.mode)?,
            replication: narrow(of.replication)?,
            chunk_bytes: of.chunk_bytes,
            min_replicas: 0,
        },
        KdMutation::KdAppend(of) => Mutation::Append { path: path(of)? },
        KdMutation::KdAddChunk(of) => Mutation::AddChunk {
            file: FileId(of.file),
            ends: ends_from_wire(&of.ends),
            next: of.next,
            avoid: nodes_from_wire(&of.avoid),
        },
        KdMutation::KdComplete(of) => {
            Mutation::Complete { file: FileId(of.file), ends: ends_from_wire(&of.ends) }
        }
        KdMutation::KdRename(of) => {
            Mutation::Rename { from: path(&of.from)?, to: path(&of.to)?, replace: of.replace }
        }
        KdMutation::KdDelete(of) => Mutation::Delete { path: path(&of.path)?, recursive: of.recursive },
        KdMutation::KdTruncate(of) => Mutation::Truncate { path: path(&of.path)?, length: of.length },
        KdMutation::KdSetAttributes(of) => Mutation::SetAttributes {
            path: path(&of.path)?,
            attributes: attributes_from_wire(&of.attributes)?,
        },
        KdMutation::KdRecoverLease(of) => Mutation::RecoverLease { path: path(of)? },
        KdMutation::KdEndChunk(of) => {
            Mutation::EndChunk { file: FileId(of.file), chunk: ChunkId(of.chunk), length: of.length }
        }
    })
}

/// An answer, to the wire. `addressed` returns a new chunk's tokens and the addresses of its pipeline.
///
/// # Errors
/// Those of `addressed`. Invalid: the remembered answer is that of a begun file, which only NN_BEGIN returns.
pub fn answer_to_wire(
    answer: &Answer,
    addressed: impl FnOnce(&NewChunk) -> Result<Reach>,
) -> Result<KdAnswer<'static>> {
    Ok(match answer {
        Answer::Done => KdAnswer::KdDone,
        Answer::Changed(changed) => KdAnswer::KdChanged(*changed),
        Answer::Opened { file, length, chunk_bytes, replication } => KdAnswer::KdOpened(wire::KdOpened {
            file: file.0,
            length: *length,
            chunk_bytes: *chunk_bytes,
            replication: u32::from(*replication),
        }),
        Answer::Chunk { next, durable } => {
            let next = match next {
                Some(new) => Some(Box::new(new_chunk_to_wire(new, addressed(new)?))),
                None => None,
            };
            KdAnswer::KdChunk(wire::KdChunkAnswer { next, durable: *durable })
        }
        Answer::Completed(completed) => KdAnswer::KdCompleted(*completed),
        // Only NN_BEGIN gives this answer, and has a separate conversion.
        Answer::Begun { .. } => return Err(Error::Invalid("another operation used this request id before")),
    })
}

/// A new chunk, to the wire.
pub fn new_chunk_to_wire(new: &NewChunk, reach: Reach) -> wire::KdNewChunk<'static> {
    wire::KdNewChunk {
        chunk: new.chunk.0,
        stamp: new.stamp.0,
        pipeline: new.pipeline.iter().map(member_to_wire).collect(),
        places: reach.places.iter().map(place_to_wire).collect(),
        continues: new.continues.as_ref().map(source_to_wire),
        token: reach.token,
        source: reach.source,
    }
}

/// Addresses and tokens with which a writer reaches a new chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Addresses and identities of the pipeline's members, in order.
    pub places: Vec<(SocketAddr, Identity)>,
    /// The token to write the chunk.
    pub token: KdToken,
    /// The token to read the chunk that the new one continues, if any.
    pub source: Option<KdToken>,
}

fn place_to_wire((address, identity): &(SocketAddr, Identity)) -> wire::KdPlace<'static> {
    wire::KdPlace { address: Text::from(address.to_string()), identity: identity.0 }
}

/// Addresses and tokens of a new chunk, from the wire.
///
/// # Errors
/// Invalid: an address isn't IP:PORT; Internal: there aren't as many addresses as members.
pub fn reach_from_wire(new: &wire::KdNewChunk<'_>) -> Result<Reach> {
    let place = |told: &wire::KdPlace<'_>| Ok((address_from_wire(&told.address)?, Identity(told.identity)));
    let places = new.places.iter().map(place).collect::<Result<Vec<_>>>()?;
    if places.len() != new.pipeline.len() {
        return Err(Error::Internal("a pipeline with another number of addresses than members"));
    }
    Ok(Reach { places, token: new.token, source: new.source })
}

/// A new chunk, from the wire, without its addresses and tokens.
pub fn new_chunk_from_wire(new: &wire::KdNewChunk<'_>) -> NewChunk {
    NewChunk {
        chunk: ChunkId(new.chunk),
        stamp: Stamp(new.stamp),
        pipeline: new.pipeline.iter().map(member_from_wire).collect(),
        continues: new.continues.as_ref().map(source_from_wire),
    }
}

/// An answer, from the wire, without the addresses and tokens of a new chunk.
///
/// # Errors
/// Invalid: the replication is above 65,535.
pub fn answer_from_wire(answer: &KdAnswer<'_>) -> Result<Answer> {
    Ok(match answer {
        KdAnswer::KdDone => Answer::Done,
        KdAnswer::KdChanged(changed) => Answer::Changed(*changed),
        KdAnswer::KdOpened(of) => Answer::Opened {
            file: FileId(of.file),
            length: of.length,
            chunk_bytes: of.chunk_bytes,
            replication: narrow(of.replication)?,
        },
        KdAnswer::KdChunk(of) => {
            Answer::Chunk { next: of.next.as_ref().map(|new| new_chunk_from_wire(new)), durable: of.durable }
        }
        KdAnswer::KdCompleted(completed) => Answer::Completed(*completed),
    })
}

/// A status, to the wire.
pub fn status_to_wire(status: &Status) -> wire::KdStatus<'static> {
    wire::KdStatus {
        name: status.name.to_string().into(),
        made: status.made,
        directory: status.directory,
        length: status.length,
        mode: u32::from(status.mode),
        owner: status.owner.to_string().into(),
        group: status.group.to_string().into(),
        modified_ms: status.modified_ms,
        accessed_ms: status.accessed_ms,
        replication: u32::from(status.replication),
        chunk_bytes: status.chunk_bytes,
        open: status.open,
    }
}

/// A status, from the wire.
///
/// # Errors
/// Invalid: a text isn't UTF-8, or the mode or replication is above 65,535.
pub fn status_from_wire(status: &wire::KdStatus<'_>) -> Result<Status> {
    Ok(Status {
        name: text(&status.name)?.into(),
        made: status.made,
        directory: status.directory,
        length: status.length,
        mode: narrow(status.mode)?,
        owner: text(&status.owner)?.into(),
        group: text(&status.group)?.into(),
        modified_ms: status.modified_ms,
        accessed_ms: status.accessed_ms,
        replication: narrow(status.replication)?,
        chunk_bytes: status.chunk_bytes,
        open: status.open,
    })
}

/// A page of a directory, to the wire.
pub fn page_to_wire(page: &Page) -> wire::KdPage<'static> {
    wire::KdPage { entries: page.entries.iter().map(status_to_wire).collect(), more: page.more }
}

/// A page of a directory, from the wire.
///
/// # Errors
/// Invalid: as [`status_from_wire`], for an entry.
pub fn page_from_wire(page: &wire::KdPage<'_>) -> Result<Page> {
    let entries: Result<Vec<Status>> = page.entries.iter().map(status_from_wire).collect();
    Ok(Page { entries: entries?, more: page.more })
}

/// A tree's totals, to the wire.
pub fn summary_to_wire(summary: Summary) -> wire::KdSummary {
    let Summary { directories, files, bytes, space } = summary;
    wire::KdSummary { directories, files, bytes, space }
}

/// A tree's totals, from the wire.
pub fn summary_from_wire(summary: &wire::KdSummary) -> Summary {
    let wire::KdSummary { directories, files, bytes, space } = *summary;
    Summary { directories, files, bytes, space }
}

/// Locations of a file's bytes, from the wire, without the hosts and tokens.
pub fn located_from_wire(located: &wire::KdLocated<'_>) -> Located {
    let chunk = |chunk: &wire::KdLocatedChunk| LocatedChunk {
        offset: chunk.offset,
        skip: chunk.skip,
        length: chunk.length,
        growing: chunk.growing,
        chunk: ChunkId(chunk.chunk),
        stamp: Stamp(chunk.stamp),
        nodes: nodes_from_wire(&chunk.nodes),
    };
    let made = located.made;
    Located {
        made,
        chunks: located.chunks.iter().map(chunk).collect(),
        length: located.length,
        open: located.open,
    }
}
