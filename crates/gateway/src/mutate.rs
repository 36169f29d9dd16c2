//! DfsV2's mutations. Each runs to its end even if its connection is cut, and a repetition gets the
//! remembered answer of the first execution.
//!
//! Sometimes the gateway doesn't remember the first attempt of a retry: another gateway received it, or
//! it is too long ago. Then the state of the store decides. If it shows the effect of the first attempt,
//! the retry succeeds. If it shows that a repetition harms nobody, the gateway executes it. In all other
//! cases, and if the store can't be asked, the retry fails with OutcomeUnknown (docs/semantics.md).

use crate::context::{Caller, Context};
use crate::errors::{Exception, required, signed, unsigned};
use crate::handles::{Closed, Handle, OpenFile, Place};
use crate::memory::Permit;
use crate::pool::Grant;
use crate::retry::{Entry, Keep, Outcome, RequestId};
use crate::turns;
use crate::v2::path;
use bytes::Bytes;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use strait_store::work;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileSystemExt, FileWriter, MAX_CONCAT_SOURCES, MAX_NAME_BYTES,
    MAX_PATH_BYTES, Result, SetAttributes, StorePath, fail,
};
use strait_wire as wire;
use strait_wire::DfsError;

/// An answer whose exception may be remembered.
type Answer<T> = std::result::Result<T, DfsError>;

/// The effect of executing a mutation twice.
enum Twice<'a> {
    /// The second execution does nothing, or fails. So a retry's error can be given to the client as
    /// it is.
    Harmless,
    /// The second execution changes these paths, which others may have changed since the first
    /// attempt.
    Harmful(&'a [&'a Option<String>]),
}

/// The state that all mutations have in common.
struct Asked {
    caller: Arc<Caller>,
    id: Option<RequestId>,
    /// An earlier attempt that is remembered.
    found: Option<Arc<Entry>>,
    /// A retry whose first attempt isn't remembered here.
    lost_track: bool,
    /// The paths at which people should look if such a retry fails, and its error doesn't show whether
    /// the first attempt was executed.
    doubtful: Option<String>,
    /// The part of the mutation to remember.
    keep: Keep,
    /// The mutation's place among the changes that run in the store. None for a retry whose first
    /// attempt still has its place, or has finished.
    place: Option<Grant>,
    /// The memory of the request's bytes. The mutation has it until its end, even if the client leaves.
    held: Option<Permit>,
}

impl Asked {
    fn new(
        context: &Context,
        (session, id, is_retry): (&Option<wire::Secret>, &Option<Bytes>, Option<bool>),
        twice: Twice<'_>,
        held: Option<Permit>,
    ) -> Answer<Self> {
        let mut doubtful = None;
        let read = || {
            let caller = Arc::new(context.caller(session)?);
            let id = match id {
                Some(bytes) => Some(RequestId::try_from(&bytes[..]).map_err(|_| {
                    Error::new(ErrorKind::InvalidArgument, "a request id has 16 bytes, chosen at random")
                })?),
                None => None,
            };
            let found = id.and_then(|id| caller.session.mutations.find(&id));
            let lost_track = is_retry.unwrap_or(false) && found.is_none();
            if let (true, Twice::Harmful(paths)) = (lost_track, twice) {
                // A longer path is refused later.
                let cut = |path: &'_ str| path[..path.floor_char_boundary(MAX_PATH_BYTES)].to_owned();
                let named: Vec<String> = paths.iter().filter_map(|path| path.as_deref().map(cut)).collect();
                doubtful = Some(match named.is_empty() {
                    true => "the end of the file".to_owned(),
                    false => named.join(" and "),
                });
            }
            // A repetition needs no place. If it were refused, its first attempt would seem not to be
            // executed.
            let place = match found {
                Some(_) => None,
                None => {
                    context.demand_client()?;
                    Some(caller.session.begin_change()?)
                }
            };
            let (doubtful, keep) = (doubtful.clone(), Keep::Answer);
            Ok(Self { caller, id, found, lost_track, doubtful, keep, place, held })
        };
        read().map_err(|error: Error| DfsError::of(&certain(error, doubtful.as_deref())))
    }

    /// Runs a mutation once for its request id, as a task of its own, which begins at once.
    fn once(
        self,
        method: &'static str,
        mutation: impl Future<Output = Result<Outcome>> + Send + 'static,
    ) -> impl Future<Output = Answer<Outcome>> {
        let Self { caller, id, found, doubtful, keep, place, held, .. } = self;
        // On the heap, as in `turns::to_its_end`.
        let mutation = Box::pin(mutation);
        let ended = turns::to_its_end(async move {
            let _kept = (place, held);
            let mutation = async {
                let done = mutation.await;
                done.map_err(|error| DfsError::of(&certain(error, doubtful.as_deref())))
            };
            Ok(match id {
                None => mutation.await,
                Some(id) => match caller.session.mutations.once(id, found, method, keep, mutation).await {
                    Ok(outcome) => outcome,
                    Err(error) => Err(DfsError::of(&error)),
                },
            })
        });
        async { ended.await.unwrap_or_else(|error| Err(DfsError::of(&error))) }
    }
}

/// The error for the client of a mutation. If an error is safe to retry, nothing was changed. That
/// isn't known of a retry with `doubtful` paths, so its error becomes OutcomeUnknown.
fn certain(error: Error, doubtful: Option<&str>) -> Error {
    let Some(paths) = doubtful.filter(|_| error.retry_safe()) else { return error };
    let message = format!(
        "an earlier attempt may have been executed, and this one failed ({}: {}); look at {paths}",
        error.kind(),
        error.message()
    );
    let path = error.path().to_owned();
    Error::new(ErrorKind::OutcomeUnknown, message).at(error.operation(), path).caused_by(error)
}

/// Reads the arguments of a mutation, or answers with their error.
fn arguments<T>(read: impl FnOnce() -> Result<T>) -> Answer<T> {
    read().map_err(|error| DfsError::of(&error))
}

/// The error if the remembered outcome has another method's type. That is a bug: the id was recorded
/// for this method.
fn mismatch() -> DfsError {
    DfsError::of(&Error::new(ErrorKind::Internal, "the remembered outcome is another method's"))
}

/// The error of a retry if the store's state doesn't show whether the first attempt was executed.
/// `look` says where people can find out.
fn unknown<T>(operation: &'static str, path: &StorePath, look: impl Display) -> Result<T> {
    let message = format!(
        "the gateway doesn't remember the first attempt, which may have been executed; look {look}, and \
         repeat the operation if it wasn't"
    );
    fail(ErrorKind::OutcomeUnknown, message).map_err(|error: Error| error.at(operation, path))
}

fn mutation_reply(outcome: Outcome) -> Answer<wire::MutationReply> {
    match outcome {
        Outcome::Done => Ok(wire::MutationReply {}),
        _ => Err(mismatch()),
    }
}

fn open_writer_reply(outcome: Outcome) -> Answer<wire::OpenWriterReply> {
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
        _ => fail(ErrorKind::InvalidArgument, "permission bits must be from 0 to 07777"),
    }
}

/// Parses a request's replication.
fn replication(count: Option<i16>) -> Result<Option<u16>> {
    match count.map(u16::try_from).transpose() {
        Ok(Some(0)) | Err(_) => fail(ErrorKind::InvalidArgument, "replication must be at least 1"),
        Ok(count) => Ok(count),
    }
}

/// A number of replicas in the type that the wire has for it.
fn count(replicas: Option<u32>) -> Option<i32> {
    replicas.and_then(|replicas| i32::try_from(replicas).ok())
}

fn add_writer(
    caller: &Caller,
    path: StorePath,
    writer: Box<dyn FileWriter>,
    place: Place,
) -> Result<Outcome> {
    if work::in_time().is_err() {
        // Its client has been told that the time is over, and will never learn the handle. In the session, the
        // writer would keep the file busy. Dropped, it is abandoned.
        let message = "the file was opened after the request's deadline, and abandoned";
        return Err(Error::new(ErrorKind::OutcomeUnknown, message).at("open", &path));
    }
    let position = signed(writer.position());
    let file = Handle::File(Arc::new(OpenFile::writer(path.clone(), writer, false, place)));
    match caller.session.add_handle(&caller.who, file) {
        Ok(handle) => Ok(Outcome::Opened { handle, position }),
        // The store may already have created the file, or truncated it.
        Err(ended) => {
            Err(Error::new(ErrorKind::OutcomeUnknown, ended.message().to_owned()).at("open", &path))
        }
    }
}

pub async fn create_file(
    context: &Context,
    request: wire::CreateFileRequest,
    held: Option<Permit>,
) -> Answer<wire::OpenWriterReply> {
    let changes = Twice::Harmful(&[&request.path]);
    let asked =
        Asked::new(context, (&request.session, &request.request_id, request.is_retry), changes, held)?;
    let (path, mut options) = arguments(|| {
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
        // If the file exists, the first attempt may have made it, or another client, or it may be an
        // older one that the first attempt never replaced. Even an empty file may have a writer. If no
        // file exists, creating one destroys nothing, even if others removed or renamed the first
        // attempt's file.
        options.overwrite &= !lost_track;
        match caller.fs().create(&caller.who, &path, &options).await {
            Err(error) if lost_track && error.kind() == ErrorKind::AlreadyExists => unknown(
                "create",
                &path,
                format_args!("at {path}, whose content may come from another client"),
            ),
            writer => add_writer(&caller, path, writer?, place),
        }
    };
    open_writer_reply(asked.once("createFile", create).await?)
}

pub async fn append_file(
    context: &Context,
    request: wire::AppendFileRequest,
    held: Option<Permit>,
) -> Answer<wire::OpenWriterReply> {
    let asked = Asked::new(
        context,
        (&request.session, &request.request_id, request.is_retry),
        Twice::Harmless,
        held,
    )?;
    let path = arguments(|| path(request.path))?;
    let caller = asked.caller.clone();
    let append = async move {
        let place = caller.session.handles.place()?;
        let writer = caller.fs().append(&caller.who, &path).await?;
        add_writer(&caller, path, writer, place)
    };
    open_writer_reply(asked.once("appendFile", append).await?)
}

pub async fn append_data(
    context: &Context,
    request: wire::AppendDataRequest,
    held: Option<Permit>,
) -> Answer<wire::AppendDataReply> {
    // An offset shows whether an append was executed, since the handle's position only grows. So its
    // answer needn't be remembered, and doesn't displace others.
    let told_by_offset = request.expected_offset.is_some();
    let twice = if told_by_offset { Twice::Harmless } else { Twice::Harmful(&[]) };
    let asked = Asked::new(context, (&request.session, &request.request_id, request.is_retry), twice, held)?;
    let asked = Asked { keep: if told_by_offset { Keep::UnderWay } else { Keep::Answer }, ..asked };
    let (file, expected, data) = arguments(|| {
        let file = asked.caller.session.handles.file(required(request.handle, "handle")?)?;
        let expected =
            request.expected_offset.map(|offset| unsigned(offset, "expected_offset")).transpose()?;
        let data = required(request.data, "data")?;
        strait_store::arguments::check_append(&data)?;
        Ok((file, expected, data))
    })?;
    let (is_retry, lost_track) = (request.is_retry.unwrap_or(false), asked.lost_track);
    let append = async move {
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
            Some(expected) => match expected.checked_add(data.len() as u64) {
                // The file has this append already, and perhaps later ones whose answers were lost,
                // too.
                Some(end) if is_retry && end <= position => return Ok(Outcome::Position(signed(end))),
                _ => {
                    return refuse(format!("expected_offset is {expected}, but the file ends at {position}"));
                }
            },
            None if lost_track => {
                let path = &file.path;
                return unknown("append", path, format_args!("at the end of {path} after a flush"));
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

pub async fn close_file(
    context: &Context,
    request: wire::CloseFileRequest,
    held: Option<Permit>,
) -> Answer<wire::CloseFileReply> {
    // Once the file is closed, its handle is gone. So a second execution closes nothing.
    let asked = Asked::new(
        context,
        (&request.session, &request.request_id, request.is_retry),
        Twice::Harmless,
        held,
    )?;
    let handle = arguments(|| required(request.handle, "handle"))?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let abandons = request.abandon.unwrap_or(false);
    let close = async move {
        if abandons {
            // A call that still uses the file keeps it until the call's end.
            drop(caller.session.handles.remove(handle));
            return Ok(Outcome::Closed { length: 0, replicas: None });
        }
        let open = match caller.session.handles.get(handle) {
            Err(_) if lost_track => {
                return fail(
                    ErrorKind::OutcomeUnknown,
                    "this gateway no longer knows the file, so it may not have been closed: the gateway was restarted, \
                     the session ended, or it was at another gateway; read the file to see whether it has your bytes",
                );
            }
            open => open?,
        };
        let Handle::File(file) = open else {
            caller.session.handles.remove(handle)?;
            return Ok(Outcome::Closed { length: 0, replicas: None });
        };
        let closed = file.close().await;
        // If the file is still open for writing, its handle stays, so that the client can close it again.
        if !file.is_written().await {
            // The end of the session may have removed it in the meantime.
            let _ = caller.session.handles.remove(handle);
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
    held: Option<Permit>,
) -> Answer<wire::MutationReply> {
    let changes = Twice::Harmful(&[&request.path]);
    let asked =
        Asked::new(context, (&request.session, &request.request_id, request.is_retry), changes, held)?;
    let (path, length) =
        arguments(|| Ok((path(request.path)?, unsigned(required(request.length, "length")?, "length")?)))?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let truncate = async move {
        if lost_track {
            return truncated(&caller, &path, length).await;
        }
        caller.fs().truncate(&caller.who, &path, length).await.map(|()| Outcome::Done)
    };
    mutation_reply(asked.once("truncateFile", truncate).await?)
}

/// For a retry whose first attempt isn't remembered: succeeds if the file has this length, as after the first
/// attempt. Opening the file to append checks that the caller may truncate it, and that no writer is changing it.
///
/// # Errors
/// OutcomeUnknown if the length differs: another client may have written since, or the first attempt never
/// arrived. Also the errors of opening and closing the file.
async fn truncated(caller: &Caller, path: &StorePath, length: u64) -> Result<Outcome> {
    let mut writer = match caller.fs().append(&caller.who, path).await {
        // A plugin may truncate, but not append.
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return unknown("truncate", path, format_args!("at {path}"));
        }
        opened => opened?,
    };
    let found = writer.position();
    writer.close().await?;
    match found == length {
        true => Ok(Outcome::Done),
        false => unknown("truncate", path, format_args!("at {path}, which has {found} bytes")),
    }
}

pub async fn concat_files(
    context: &Context,
    request: wire::ConcatFilesRequest,
    held: Option<Permit>,
) -> Answer<wire::MutationReply> {
    let changes = Twice::Harmful(&[&request.path]);
    let asked =
        Asked::new(context, (&request.session, &request.request_id, request.is_retry), changes, held)?;
    let (target, sources) = arguments(|| {
        let sources = request.sources.unwrap_or_default();
        // Checked here, since a retry looks at each source before the store could refuse their number.
        if sources.len() > MAX_CONCAT_SOURCES {
            let message = format!("concat takes 1 to {MAX_CONCAT_SOURCES} source files");
            return fail(ErrorKind::InvalidArgument, message);
        }
        let sources: Result<Vec<StorePath>> = sources.into_iter().map(|source| path(Some(source))).collect();
        Ok((path(request.path)?, sources?))
    })?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let concat = async move {
        if lost_track {
            return concatenated(&caller, &target, &sources).await;
        }
        caller.fs().concat(&caller.who, &target, &sources).await.map(|()| Outcome::Done)
    };
    mutation_reply(asked.once("concatFiles", concat).await?)
}

/// Succeeds if the sources are gone and the target exists. A store joins all files or none, so the
/// first attempt was executed, unless another client removed the sources. Otherwise the outcome is
/// unknown.
async fn concatenated(caller: &Caller, target: &StorePath, sources: &[StorePath]) -> Result<Outcome> {
    for source in sources {
        if caller.fs().exists(&caller.who, source).await? {
            return unknown("concat", target, format_args!("at {target} and {source}"));
        }
    }
    match sources.is_empty() || !caller.fs().exists(&caller.who, target).await? {
        true => unknown("concat", target, format_args!("at {target}")),
        false => Ok(Outcome::Done),
    }
}

pub async fn make_directories(
    context: &Context,
    request: wire::MakeDirectoriesRequest,
    held: Option<Permit>,
) -> Answer<wire::MutationReply> {
    // It may make the directory again after others removed it, which destroys nothing.
    let changes = Twice::Harmful(&[&request.path]);
    let asked =
        Asked::new(context, (&request.session, &request.request_id, request.is_retry), changes, held)?;
    let (path, permission) = arguments(|| Ok((path(request.path)?, permission(request.permission)?)))?;
    let caller = asked.caller.clone();
    let make =
        async move { caller.fs().mkdirs(&caller.who, &path, permission).await.map(|()| Outcome::Done) };
    mutation_reply(asked.once("makeDirectories", make).await?)
}

pub async fn rename_path(
    context: &Context,
    request: wire::RenamePathRequest,
    held: Option<Permit>,
) -> Answer<wire::MutationReply> {
    let changes = Twice::Harmful(&[&request.source, &request.target]);
    let asked =
        Asked::new(context, (&request.session, &request.request_id, request.is_retry), changes, held)?;
    let (from, to) = arguments(|| Ok((path(request.source)?, path(request.target)?)))?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let replace = request.replace.unwrap_or(false);
    let rename = async move {
        let (fs, who) = (caller.fs(), &caller.who);
        if lost_track {
            // If only the target exists, the first attempt was executed, unless others moved both. If
            // the source exists, the outcome is unknown: the first attempt may never have arrived, or
            // others may have made a new source after it.
            let renamed = !fs.exists(who, &from).await? && fs.exists(who, &to).await?;
            return match renamed {
                true => Ok(Outcome::Done),
                false => unknown("rename", &from, format_args!("at {from} and {to}")),
            };
        }
        fs.rename(who, &from, &to, replace).await.map(|()| Outcome::Done)
    };
    mutation_reply(asked.once("renamePath", rename).await?)
}

pub async fn remove_path(
    context: &Context,
    request: wire::RemovePathRequest,
    held: Option<Permit>,
) -> Answer<wire::MutationReply> {
    let changes = Twice::Harmful(&[&request.path]);
    let asked =
        Asked::new(context, (&request.session, &request.request_id, request.is_retry), changes, held)?;
    let path = arguments(|| path(request.path))?;
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let recursive = request.recursive.unwrap_or(false);
    let remove = async move {
        if lost_track {
            // If the path exists, another client may have made it since the first attempt.
            let is_there = caller.fs().exists(&caller.who, &path).await?;
            return match is_there {
                true => unknown("remove", &path, format_args!("whether {path} is a new one")),
                false => Ok(Outcome::Done),
            };
        }
        caller.fs().remove(&caller.who, &path, recursive).await.map(|()| Outcome::Done)
    };
    mutation_reply(asked.once("removePath", remove).await?)
}

pub async fn set_attributes(
    context: &Context,
    request: wire::SetAttributesRequest,
    held: Option<Permit>,
) -> Answer<wire::MutationReply> {
    let changes = Twice::Harmful(&[&request.path]);
    let asked =
        Asked::new(context, (&request.session, &request.request_id, request.is_retry), changes, held)?;
    let (path, set) = arguments(|| {
        for name in [&request.owner, &request.group].into_iter().flatten() {
            if name.len() > MAX_NAME_BYTES {
                let message = format!("a name of a user or group has at most {MAX_NAME_BYTES} bytes");
                return fail(ErrorKind::InvalidArgument, message);
            }
        }
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
    let (caller, lost_track) = (asked.caller.clone(), asked.lost_track);
    let set = async move {
        if lost_track {
            let status = caller.fs().stat(&caller.who, &path).await?;
            // If the attributes differ, others may have set them since the first attempt.
            return match set.agrees_with(&status) {
                true => Ok(Outcome::Done),
                false => unknown("set attributes of", &path, format_args!("at the attributes of {path}")),
            };
        }
        caller.fs().set_attributes(&caller.who, &path, &set).await.map(|()| Outcome::Done)
    };
    mutation_reply(asked.once("setAttributes", set).await?)
}
