//! DfsV2's mutations. Each runs to its end even if its connection is cut, and a repetition gets the
//! remembered answer of the first execution.
//!
//! The gateway may not remember the first attempt of a retry: another gateway had it, or it is too
//! long ago. Then the state of the store decides. If it shows that the first attempt was executed,
//! the retry succeeds. If doing it once more could destroy what another client did since, it fails with
//! OutcomeUnknown (docs/known-gaps.md).

use crate::context::{Caller, Context};
use crate::errors::{Exception, required, signed, unsigned};
use crate::fair::Grant;
use crate::handles::{Closed, Handle, OpenFile, Place};
use crate::memory::Permit;
use crate::retry::{Outcome, RequestId};
use crate::turns;
use crate::v2::path;
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileSystemExt, FileWriter, Result, SetAttributes, StorePath, fail,
};
use strait_wire as wire;
use strait_wire::DfsError;

/// An answer whose exception may be remembered.
type Answer<T> = std::result::Result<T, DfsError>;

/// The part that all mutations have in common.
struct Asked {
    caller: Arc<Caller>,
    id: Option<RequestId>,
    /// A retry whose first attempt isn't remembered here.
    lost_track: bool,
    /// Its place among the changes that run in the store. None if its first attempt has one, or is
    /// done.
    place: Option<Grant>,
}

impl Asked {
    fn new(
        context: &Context,
        session: &Option<wire::Secret>,
        id: &Option<Bytes>,
        is_retry: Option<bool>,
    ) -> Answer<Self> {
        let read = || {
            let caller = Arc::new(context.caller(session)?);
            let id = match id {
                Some(bytes) => Some(RequestId::try_from(&bytes[..]).map_err(|_| {
                    Error::new(ErrorKind::InvalidArgument, "a request id has 16 bytes, chosen at random")
                })?),
                None => None,
            };
            let known = id.is_some_and(|id| caller.session.mutations.knows(&id));
            // A refused repetition would look as if its first attempt hadn't been executed.
            let place = if known { None } else { Some(caller.session.begin_change()?) };
            Ok(Self { caller, id, lost_track: is_retry.unwrap_or(false) && !known, place })
        };
        read().map_err(|error: Error| DfsError::of(&error))
    }

    /// Runs a mutation once for its request id, as a task of its own.
    async fn once(
        self,
        method: &'static str,
        mutation: impl Future<Output = Result<Outcome>> + Send + 'static,
    ) -> Answer<Outcome> {
        let Self { caller, id, place, .. } = self;
        let run = async move {
            let _place = place;
            let mutation = async { mutation.await.map_err(|error| DfsError::of(&error)) };
            match id {
                None => mutation.await,
                Some(id) => match caller.session.mutations.once(id, method, mutation).await {
                    Ok(outcome) => outcome,
                    Err(error) => Err(DfsError::of(&error)),
                },
            }
        };
        let ended = turns::to_its_end(async move { Ok(run.await) }).await;
        ended.unwrap_or_else(|error| Err(DfsError::of(&error)))
    }
}

/// Reads the arguments of a mutation, or answers with their error.
fn arguments<T>(read: impl FnOnce() -> Result<T>) -> Answer<T> {
    read().map_err(|error| DfsError::of(&error))
}

/// An outcome that its own method can't have: the request id was remembered
/// for the right method, so this is a defect.
fn mismatch() -> DfsError {
    DfsError::of(&Error::new(ErrorKind::Internal, "the remembered outcome is another method's"))
}

/// A retry whose first attempt the store's state neither proves nor excludes.
fn unknown(operation: &'static str, path: &StorePath) -> Result<Outcome> {
    let message = "the gateway doesn't know whether an earlier attempt was executed; look at the path, \
                   and repeat it if it wasn't";
    fail(ErrorKind::OutcomeUnknown, message).map_err(|error: Error| error.at(operation, path))
}

fn done(outcome: Outcome) -> Answer<wire::MutationReply> {
    match outcome {
        Outcome::Done => Ok(wire::MutationReply {}),
        _ => Err(mismatch()),
    }
}

fn opened(outcome: Outcome) -> Answer<wire::OpenWriterReply> {
    match outcome {
        Outcome::Opened { handle, position } => {
            Ok(wire::OpenWriterReply { handle: Some(handle), position: Some(position) })
        }
        _ => Err(mismatch()),
    }
}

/// Parses a request's permission bits.
fn permission(bits: Option<i32>) -> Result<Option<u32>> {
    match bits.map(u32::try_from).transpose() {
        Ok(bits) if bits.unwrap_or(0) <= 0o7777 => Ok(bits),
        _ => fail(ErrorKind::InvalidArgument, "permission bits are 0 to 07777"),
    }
}

/// Parses a request's replication.
fn replication(count: Option<i16>) -> Result<Option<u16>> {
    match count.map(u16::try_from).transpose() {
        Ok(Some(0)) | Err(_) => fail(ErrorKind::InvalidArgument, "replication is 1 or more"),
        Ok(count) => Ok(count),
    }
}

/// A number of replicas, as the wire has it.
fn count(replicas: Option<u32>) -> Option<i32> {
    replicas.and_then(|replicas| i32::try_from(replicas).ok())
}

fn add_writer(caller: &Caller, path: StorePath, writer: Box<dyn FileWriter>, place: Place) -> Outcome {
    let position = signed(writer.position());
    let file = OpenFile::writer(path, writer, false, place);
    let handle = caller.session.handles.add(Handle::File(Arc::new(file)));
    Outcome::Opened { handle, position }
}

pub async fn create_file(
    context: &Context,
    request: wire::CreateFileRequest,
) -> Answer<wire::OpenWriterReply> {
    let asked = Asked::new(context, &request.session, &request.request_id, request.is_retry)?;
    let (path, options) = arguments(|| {
        let block_size = request.block_size.map(|size| unsigned(size, "block_size")).transpose()?;
        let options = CreateOptions {
            overwrite: request.overwrite.unwrap_or(false),
            permission: permission(request.permission)?,
            replication: replication(request.replication)?,
            block_size,
            min_replicas: self::replication(request.min_replicas)?,
        };
        Ok((path(request.path)?, options))
    })?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let create = async move {
        let place = caller.session.handles.place()?;
        if lost_track && !options.overwrite && caller.fs().exists(&caller.who, &path).await? {
            return unknown("create", &path);
        }
        let writer = caller.fs().create(&caller.who, &path, &options).await?;
        Ok(add_writer(&caller, path, writer, place))
    };
    opened(asked.once("createFile", create).await?)
}

pub async fn append_file(
    context: &Context,
    request: wire::AppendFileRequest,
) -> Answer<wire::OpenWriterReply> {
    let asked = Asked::new(context, &request.session, &request.request_id, request.is_retry)?;
    let path = arguments(|| path(request.path))?;
    let caller = asked.caller.clone();
    let append = async move {
        let place = caller.session.handles.place()?;
        let writer = caller.fs().append(&caller.who, &path).await?;
        Ok(add_writer(&caller, path, writer, place))
    };
    opened(asked.once("appendFile", append).await?)
}

/// `held` is the memory of the request's bytes. It is released once they are in the store, even if
/// the client leaves.
pub async fn append_data(
    context: &Context,
    request: wire::AppendDataRequest,
    held: Option<Permit>,
) -> Answer<wire::AppendDataReply> {
    let asked = Asked::new(context, &request.session, &request.request_id, request.is_retry)?;
    let (file, expected, data) = arguments(|| {
        let file = asked.caller.session.handles.file(required(request.handle, "handle")?)?;
        let expected =
            request.expected_offset.map(|offset| unsigned(offset, "expected_offset")).transpose()?;
        let data = required(request.data, "data")?;
        if data.len() > strait_store::MAX_CHUNK_BYTES {
            return fail(ErrorKind::InvalidArgument, "data has more than 4 MiB; append it in pieces");
        }
        Ok((file, expected, data))
    })?;
    let lost_track = asked.lost_track;
    let append = async move {
        let _held = held;
        let refuse =
            |message: String| Err(Error::new(ErrorKind::InvalidArgument, message).at("append", &file.path));
        let Some(writer) = &file.writer else {
            return refuse("the handle isn't open for writing".to_owned());
        };
        let mut writer = writer.lock().await;
        let Some(writer) = writer.as_mut() else { return refuse("the file is closed".to_owned()) };
        let position = writer.position();
        match expected {
            Some(expected) if expected == position => {}
            // A repetition of the last append, whose answer was lost.
            Some(expected) if lost_track && expected + data.len() as u64 == position => {
                return Ok(Outcome::Position(signed(position)));
            }
            Some(expected) => {
                return refuse(format!("expected_offset is {expected}, the file is at {position}"));
            }
            None => {}
        }
        writer.append(data).await.map_err(|e| e.at("append", &file.path))?;
        Ok(Outcome::Position(signed(writer.position())))
    };
    match asked.once("appendData", append).await? {
        Outcome::Position(position) => Ok(wire::AppendDataReply { position: Some(position) }),
        _ => Err(mismatch()),
    }
}

pub async fn flush_file(context: &Context, request: wire::FlushFileRequest) -> Result<wire::FlushFileReply> {
    let caller = context.caller(&request.session)?;
    let _place = caller.session.begin_change()?;
    let file = caller.session.handles.file(required(request.handle, "handle")?)?;
    let refuse = |message| Err(Error::new(ErrorKind::InvalidArgument, message).at("flush", &file.path));
    let Some(writer) = &file.writer else { return refuse("the handle isn't open for writing") };
    let mut writer = writer.lock().await;
    let Some(writer) = writer.as_mut() else { return refuse("the file is closed") };
    let replicas = match required(request.mode, "mode")? {
        wire::FlushMode::Flush => writer.flush().await,
        wire::FlushMode::Sync => writer.sync().await,
        wire::FlushMode::Unknown(_) => return refuse("unknown flush mode; send 1 (FLUSH) or 2 (SYNC)"),
    }
    .map_err(|e| e.at("flush", &file.path))?;
    Ok(wire::FlushFileReply { position: Some(signed(writer.position())), replicas: count(replicas) })
}

pub async fn close_file(context: &Context, request: wire::CloseFileRequest) -> Answer<wire::CloseFileReply> {
    let asked = Asked::new(context, &request.session, &request.request_id, request.is_retry)?;
    let handle = arguments(|| required(request.handle, "handle"))?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let close = async move {
        let open = match caller.session.handles.get(handle) {
            Err(_) if lost_track => {
                return fail(
                    ErrorKind::OutcomeUnknown,
                    "the gateway lost track of this close; check the file's length",
                );
            }
            open => open?,
        };
        let Handle::File(file) = open else {
            caller.session.handles.remove(handle)?;
            return Ok(Outcome::Closed { length: 0, replicas: None });
        };
        let closed = file.close().await;
        // Otherwise the client may close it again.
        if !file.is_written().await {
            caller.session.handles.remove(handle)?;
        }
        let Closed { length, replicas } = closed?;
        Ok(Outcome::Closed { length: signed(length), replicas })
    };
    match asked.once("closeFile", close).await? {
        Outcome::Closed { length, replicas } => {
            Ok(wire::CloseFileReply { length: Some(length), replicas: count(replicas) })
        }
        _ => Err(mismatch()),
    }
}

pub async fn truncate_file(
    context: &Context,
    request: wire::TruncateFileRequest,
) -> Answer<wire::MutationReply> {
    let asked = Asked::new(context, &request.session, &request.request_id, request.is_retry)?;
    let (path, length) =
        arguments(|| Ok((path(request.path)?, unsigned(required(request.length, "length")?, "length")?)))?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let truncate = async move {
        // With the right length, the first attempt was executed. Otherwise another client may have
        // written since.
        if lost_track {
            if caller.fs().stat(&caller.who, &path).await?.length == length {
                return Ok(Outcome::Done);
            }
            return unknown("truncate", &path);
        }
        caller.fs().truncate(&caller.who, &path, length).await.map(|()| Outcome::Done)
    };
    done(asked.once("truncateFile", truncate).await?)
}

pub async fn make_directories(
    context: &Context,
    request: wire::MakeDirectoriesRequest,
) -> Answer<wire::MutationReply> {
    let asked = Asked::new(context, &request.session, &request.request_id, request.is_retry)?;
    let (path, permission) = arguments(|| Ok((path(request.path)?, permission(request.permission)?)))?;
    let caller = asked.caller.clone();
    let make =
        async move { caller.fs().mkdirs(&caller.who, &path, permission).await.map(|()| Outcome::Done) };
    done(asked.once("makeDirectories", make).await?)
}

pub async fn rename_path(context: &Context, request: wire::RenamePathRequest) -> Answer<wire::MutationReply> {
    let asked = Asked::new(context, &request.session, &request.request_id, request.is_retry)?;
    let (from, to) = arguments(|| Ok((path(request.source)?, path(request.target)?)))?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let replace = request.replace.unwrap_or(false);
    let rename = async move {
        let (fs, who) = (caller.fs(), &caller.who);
        if lost_track && !fs.exists(who, &from).await? {
            // Either it was renamed, or another client took it before.
            return if fs.exists(who, &to).await? { Ok(Outcome::Done) } else { unknown("rename", &from) };
        }
        fs.rename(who, &from, &to, replace).await.map(|()| Outcome::Done)
    };
    done(asked.once("renamePath", rename).await?)
}

pub async fn remove_path(context: &Context, request: wire::RemovePathRequest) -> Answer<wire::MutationReply> {
    let asked = Asked::new(context, &request.session, &request.request_id, request.is_retry)?;
    let path = arguments(|| path(request.path))?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let recursive = request.recursive.unwrap_or(false);
    let remove = async move {
        if lost_track {
            // Another client may have made the present one since.
            let is_there = caller.fs().exists(&caller.who, &path).await?;
            return if is_there { unknown("remove", &path) } else { Ok(Outcome::Done) };
        }
        caller.fs().remove(&caller.who, &path, recursive).await.map(|()| Outcome::Done)
    };
    done(asked.once("removePath", remove).await?)
}

pub async fn set_attributes(
    context: &Context,
    request: wire::SetAttributesRequest,
) -> Answer<wire::MutationReply> {
    let asked = Asked::new(context, &request.session, &request.request_id, request.is_retry)?;
    let (path, set) = arguments(|| {
        let set = SetAttributes {
            permission: permission(request.permission)?,
            owner: request.owner,
            group: request.group,
            modified_ms: request.modified_ms,
            accessed_ms: request.accessed_ms,
            replication: replication(request.replication)?,
        };
        Ok((path(request.path)?, set))
    })?;
    let caller = asked.caller.clone();
    let set =
        async move { caller.fs().set_attributes(&caller.who, &path, &set).await.map(|()| Outcome::Done) };
    done(asked.once("setAttributes", set).await?)
}
