//! DfsService, the frozen interface of 2009, both generations.
//!
//! Calls without a client handle (generation 0.5, and the two copy methods) use the connection's
//! own session, the latest that `init` opened on it. All sessions of a connection end with it, and
//! their open writers are abandoned.
//!
//! Programs rely on the answers of the two servers of that time. `docs/programs-of-2009.md` gives
//! the reason for each answer here that differs from DfsV2's.

use crate::context::{Caller, Context};
use crate::errors::{required, signed, unsigned};
use crate::handles::{Handle, OpenFile};
use crate::legacy_names as names;
use crate::session::{Identity, Session};
use crate::token::Login;
use futures::StreamExt;
use std::sync::Arc;
use strait_store::random::random;
use strait_store::{CreateOptions, Error, ErrorKind, MAX_CHUNK_BYTES, Result, StorePath, fail};
use strait_telemetry::Seldom;
use strait_wire::{
    ClientArgs, ClientHandle, CloseArgs, CloseDfsArgs, DfsHandle, FileStatus, InitArgs, LoginArgs, MoveArgs,
    OpenArgs, PathArgs, ReadArgs, RemoveArgs, Text, WriteArgs,
};

/// The offset that means the handle's own position.
const HERE: i64 = -1;
const MODE_READ: i16 = 1;
const MODE_WRITE: i16 = 2;
const MODE_READ_WRITE: i16 = 3;
/// Bytes of a FileStatus in memory and on the wire, beside its path.
const STATUS_BYTES: usize = 256;

/// The answer of a failed `init`: that method declares no exception.
const FAILED: i64 = -1;

pub fn init(context: &Context, args: InitArgs) -> Result<ClientHandle> {
    let uri = args.uri.unwrap_or_default();
    let sessions = &context.shared.sessions;
    let opened = names::store(context, &uri.0).and_then(|store| {
        let number = i64::from_be_bytes(random()) & i64::MAX | 1;
        sessions.open_numbered(number, store, sessions.stranger(&context.peer), context.peer.origin())
    });
    match opened {
        Ok(session) => {
            let id = session.id as i64;
            // Over HTTP each call names its session. The session lingers, as after a lost connection.
            if !context.peer.http {
                context.add_legacy(session);
            }
            Ok(ClientHandle { id: Some(id) })
        }
        Err(error) => {
            static FAILURES: Seldom = Seldom::new();
            if let Some(left_out) = FAILURES.may_write() {
                tracing::warn!(peer = %context.peer.address, %error, left_out, "init failed");
            }
            Ok(ClientHandle { id: Some(FAILED) })
        }
    }
}

fn client(context: &Context, handle: &Option<ClientHandle>) -> Result<Arc<Session>> {
    context.client(handle.as_ref().and_then(|handle| handle.id))
}

/// Without a password file a login changes nothing. It succeeds if the session may act without a
/// login.
pub async fn login(context: &Context, args: LoginArgs) -> Result<bool> {
    let Ok(session) = client(context, &args.ch) else { return Ok(false) };
    let sessions = &context.shared.sessions;
    if !sessions.has_passwords() {
        return Ok(session.principal().is_ok());
    }
    let (user, password) = (args.user.unwrap_or_default(), args.password.unwrap_or_default());
    match context.log_in(&user.0, &password.0).await {
        Ok(login) => {
            // The program has no token of this login, and couldn't log in again. So the login lasts as
            // long as the connection, or until the password changes.
            session.set_identity(Identity::User(Login { ends_ms: i64::MAX, ..login }));
            Ok(true)
        }
        Err(_) => Ok(false),
    }
}

/// Closes all open files, since they were opened with the rights of the user who logs out.
pub async fn logout(context: &Context, args: ClientArgs) -> Result<bool> {
    let Ok(session) = client(context, &args.ch) else { return Ok(false) };
    session.set_identity(context.shared.sessions.stranger(&context.peer));
    if let Err(error) = session.close_files().await {
        tracing::warn!(%error, "a file couldn't be closed at logout");
        return Ok(false);
    }
    Ok(true)
}

pub async fn close_client(context: &Context, args: ClientArgs) -> Result<bool> {
    end(context, client(context, &args.ch)).await
}

/// Ends only the caller's session. Clients of technical report TR-09-03 name the session, later ones
/// don't. True also if the session has ended already, since programs call closeClient first.
pub async fn close_dfs(context: &Context, args: CloseDfsArgs) -> Result<bool> {
    match client(context, &args.ch) {
        Ok(session) => end(context, Ok(session)).await,
        Err(_) => Ok(true),
    }
}

async fn end(context: &Context, session: Result<Arc<Session>>) -> Result<bool> {
    let Ok(session) = session else { return Ok(false) };
    // End the session first, so that no call opens a file in it while its files are closed.
    context.shared.sessions.end(session.id);
    let closed = session.close_files().await;
    context.remove_legacy(session.id);
    if let Err(error) = &closed {
        tracing::warn!(%error, "a file couldn't be closed with its client");
    }
    Ok(closed.is_ok())
}

/// A call in the session that a client handle names.
pub fn caller(context: &Context, handle: &Option<ClientHandle>) -> Result<Caller> {
    Caller::of(&context.shared.sessions, client(context, handle)?)
}

/// A call in the session that a client handle names. An unknown handle stands for the connection's own
/// session, since Hadoop's server ignored the handles of calls on paths. But if the connection has had
/// sessions on several stores, the call fails: it might change another store than the program means.
pub fn caller_for_path(context: &Context, handle: &Option<ClientHandle>) -> Result<Caller> {
    let session = client(context, handle).or_else(|unknown| context.legacy_for_unknown().ok_or(unknown))?;
    Caller::of(&context.shared.sessions, session)
}

/// None if the handle is unknown and no session of the connection can serve the call. Then mkdir, move
/// and remove answer false, as Sector's server did.
fn unless_unknown(context: &Context, handle: &Option<ClientHandle>) -> Result<Option<Caller>> {
    match context.legacy_for_unknown().is_none() && client(context, handle).is_err() {
        true => Ok(None),
        false => caller_for_path(context, handle).map(Some),
    }
}

/// Parses a path by the rules of programs of 2009.
pub fn path(caller: &Caller, text: Option<Text>) -> Result<StorePath> {
    names::path(&caller.who.user, &required(text, "the path")?.0)
}

pub async fn list_files(context: &Context, args: PathArgs, allowed_bytes: usize) -> Result<Vec<FileStatus>> {
    let caller = caller_for_path(context, &args.ch)?;
    let path = path(&caller, args.path)?;
    let mut entries = caller.fs().list(&caller.who, &path);
    let mut list = Vec::new();
    let mut bytes = 0;
    while let Some(entry) = entries.next().await {
        let status = match entry {
            // The listing of a file is the file's own status.
            Err(error) if error.kind() == ErrorKind::NotADirectory && list.is_empty() => {
                let file = caller.fs().stat(&caller.who, &path).await?;
                return if file.is_directory() { Err(error) } else { Ok(vec![status(file)]) };
            }
            entry => status(entry?),
        };
        bytes += STATUS_BYTES + status.path.as_ref().map_or(0, String::len);
        if list.len() == context.shared.limits.list_files || bytes > allowed_bytes {
            let message = "the directory has too many entries for listFiles; use DfsV2.listDirectory";
            return fail(ErrorKind::Unsupported, message).map_err(|e: Error| e.at("list", &path));
        }
        list.push(status);
    }
    Ok(list)
}

pub async fn stat(context: &Context, args: PathArgs) -> Result<FileStatus> {
    let caller = caller_for_path(context, &args.ch)?;
    caller.fs().stat(&caller.who, &path(&caller, args.path)?).await.map(status)
}

fn status(from: strait_store::FileStatus) -> FileStatus {
    FileStatus {
        length: Some(signed(from.length)),
        isdir: Some(from.is_directory()),
        block_replication: Some(i16::try_from(from.replication).unwrap_or(i16::MAX)),
        blocksize: Some(signed(from.block_size)),
        modification_time: Some(from.modified_ms),
        permission: Some(symbolic(from.permission)),
        owner: Some(from.owner),
        group: Some(from.group),
        path: Some(names::last_name(&from.path).to_owned()),
    }
}

/// Permission bits as `rwxr-x--x`.
fn symbolic(bits: u32) -> String {
    let letter = |(index, letter)| if bits >> (8 - index) & 1 == 1 { letter } else { '-' };
    "rwxrwxrwx".chars().enumerate().map(letter).collect()
}

pub async fn mkdir(context: &Context, args: PathArgs) -> Result<bool> {
    let Some(caller) = unless_unknown(context, &args.ch)? else { return Ok(false) };
    let _change = caller.session.begin_change()?;
    caller.fs().mkdirs(&caller.who, &path(&caller, args.path)?, None).await.map(|()| true)
}

/// If the target is a directory, moves into it, as HDFS does.
pub async fn rename(context: &Context, args: MoveArgs) -> Result<bool> {
    let Some(caller) = unless_unknown(context, &args.ch)? else { return Ok(false) };
    let _change = caller.session.begin_change()?;
    let (from, mut to) = (path(&caller, args.old_path)?, path(&caller, args.new_path)?);
    let (fs, who) = (caller.fs(), &caller.who);
    if !from.is_root() && fs.stat(who, &to).await.is_ok_and(|status| status.is_directory()) {
        to = to.join(from.name())?;
    }
    fs.rename(who, &from, &to, false).await.map(|()| true)
}

/// False if there is nothing to remove, as Hadoop's `delete` of that time.
pub async fn remove(context: &Context, args: RemoveArgs) -> Result<bool> {
    let Some(caller) = unless_unknown(context, &args.ch)? else { return Ok(false) };
    let _change = caller.session.begin_change()?;
    let path = path(&caller, args.path)?;
    match caller.fs().remove(&caller.who, &path, args.recursive.unwrap_or(false)).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub async fn open(context: &Context, args: OpenArgs) -> Result<DfsHandle> {
    let caller = caller(context, &args.ch)?;
    let path = path(&caller, args.filename)?;
    let _change = caller.session.begin_change()?;
    let place = caller.session.handles.place()?;
    let (fs, who) = (caller.fs(), &caller.who);
    let file = match args.mode {
        Some(MODE_READ) => OpenFile::reader(path.clone(), fs.open(who, &path).await?, place),
        Some(MODE_WRITE) => {
            let writer = fs.create(who, &path, &CreateOptions::default()).await?;
            OpenFile::writer(path, writer, false, place)
        }
        Some(MODE_READ_WRITE) => {
            let writer = match fs.append(who, &path).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    fs.create(who, &path, &CreateOptions::default()).await?
                }
                writer => writer?,
            };
            OpenFile::writer(path, writer, true, place)
        }
        _ => {
            return fail(
                ErrorKind::InvalidArgument,
                "the mode must be 1 (READ), 2 (WRITE) or 3 (READ_WRITE)",
            );
        }
    };
    let id = caller.session.add_handle(who, Handle::File(Arc::new(file)))?;
    Ok(DfsHandle { id: Some(id) })
}

/// False for a handle that isn't open, as both servers of 2009.
pub async fn close(context: &Context, args: CloseArgs) -> Result<bool> {
    let (client, handle) = args.handles();
    let Ok(session) = context.client(client) else { return Ok(false) };
    let _change = session.begin_change()?;
    match handle.map(|handle| session.handles.remove(handle)) {
        Some(Ok(Handle::File(file))) => file.close().await.map(|_| true),
        Some(Ok(Handle::Listing(_))) => Ok(true),
        Some(Err(_)) | None => Ok(false),
    }
}

pub async fn read(context: &Context, args: ReadArgs, allowed_bytes: usize) -> Result<Text> {
    let (client, handle) = args.handles();
    let caller = Caller::of(&context.shared.sessions, context.client(client)?)?;
    let file = caller.session.handles.file(required(handle, "the file's handle")?)?;
    let wanted = unsigned(required(args.len, "len")?, "len")?;
    let length = usize::try_from(wanted).unwrap_or(usize::MAX).min(MAX_CHUNK_BYTES).min(allowed_bytes);
    let reader = file.current_reader(caller.fs(), &caller.who).await?;
    // current_reader has checked that the file is open for reading.
    let Some(reading) = &file.reading else { return Ok(Text::default()) };
    let bytes = match required(args.offset, "offset")? {
        HERE => {
            let mut position = reading.position.lock().await;
            let bytes = reader.read_at(*position, length).await?;
            *position += bytes.len() as u64;
            bytes
        }
        offset => {
            let offset = unsigned(offset, "offset")?;
            let bytes = reader.read_at(offset, length).await?;
            *reading.position.lock().await = offset.saturating_add(bytes.len() as u64);
            bytes
        }
    };
    Ok(Text(bytes))
}

/// False for a handle that was opened for READ, as Hadoop's server.
pub async fn write(context: &Context, args: WriteArgs) -> Result<bool> {
    let (client, handle) = args.handles();
    let caller = Caller::of(&context.shared.sessions, context.client(client)?)?;
    let _change = caller.session.begin_change()?;
    let file = caller.session.handles.file(required(handle, "the file's handle")?)?;
    let Some(writer) = &file.writer else { return Ok(false) };
    let refuse =
        |message: String| Err(Error::new(ErrorKind::InvalidArgument, message).at("write", &file.path));
    let mut data = args.buf.unwrap_or_default();
    let length = match args.len {
        Some(length) => unsigned(length, "len")?,
        None => data.len() as u64,
    };
    if length > data.len() as u64 {
        return refuse(format!("len is {length}, but the buffer has {} bytes", data.len()));
    }
    data.truncate(length as usize);
    let mut held = writer.lock().await;
    let Some(writer) = held.as_mut() else { return refuse("the file is closed".to_owned()) };
    let position = writer.position();
    match args.offset.unwrap_or(HERE) {
        HERE => {}
        offset if u64::try_from(offset) == Ok(position) => {}
        _ if context.shared.service_2009.ignore_write_offsets => {}
        offset => {
            return refuse(format!(
                "the offset is {offset}, but the file ends at {position}: write at offset {position} or -1"
            ));
        }
    }
    let appended = strait_store::append_all(writer.as_mut(), data).await;
    // A read on another connection may hold the reader's lock, and wait for the writer's.
    drop(held);
    file.written().await;
    appended.map(|()| true).map_err(|e| e.at("write", &file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_bits_are_spelled_as_ls_does() {
        assert_eq!(symbolic(0o644), "rw-r--r--");
        assert_eq!(symbolic(0o1751), "rwxr-x--x");
    }
}
