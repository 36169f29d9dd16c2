//! Calls the method that serves a request, and encodes its result.

use crate::config::PAGE_BYTES;
use crate::context::Context;
use crate::errors::Exception;
use crate::memory::Permit;
use crate::pool::Key;
use crate::request::{self, Body, Outgoing, Request};
use crate::{copies, legacy, mutate, turns, v2};
use futures::FutureExt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use strait_store::{Error, ErrorKind, Result};
use strait_telemetry::RequestId;
use strait_wire::{
    ApplicationError, ApplicationErrorKind, Call, DfsError, Encoded, Method, Wire, methods as m,
};
use tokio::time::timeout_at;

/// Bytes of the path in the answer to a late request of a connection without a session.
const STRANGERS_PATH_BYTES: usize = 256;

/// Executes a request and returns the answer. `granted` is memory for the answer, and bounds its size.
/// The work counts for `key` until the request's session names its user.
///
/// A panic, for example in a store's library, fails only its own call. The connection and the
/// session's open files stay.
pub async fn execute(request: Request, context: Arc<Context>, key: Key, granted: Option<Permit>) -> Outgoing {
    let (wire, name, sequence) = (request.wire, request.name.clone(), request.sequence);
    let id = request.id();
    // On the heap: the futures around it would move it, and it is large.
    let run = turns::call(key, request.deadline, Box::pin(run(request, context, granted)));
    let answer = AssertUnwindSafe(RequestId::scope(Some(id), run)).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        tracing::error!(%name, request = %id, "a call panicked");
        let message = "the gateway or its store has a bug: the call panicked".to_owned();
        let error = ApplicationError { kind: ApplicationErrorKind::InternalError, message };
        Outgoing { encoded: error.reply(wire, &name, sequence), memory: None, last: false }
    })
}

async fn run(request: Request, context: Arc<Context>, granted: Option<Permit>) -> Outgoing {
    let Request { wire, name, operation, sequence, body, memory: held, deadline } = request;
    let call = match body {
        Body::Call(call) => call,
        Body::Refused { error, last } => {
            tracing::debug!(peer = %context.peer.address, %name, error = error.message, "request refused");
            return Outgoing { encoded: error.reply(wire, &name, sequence), memory: None, last };
        }
    };
    let answer = Answer { wire, sequence, failed: AtomicBool::new(false) };
    let (began, path, is_change) = (Instant::now(), request::path_of(&call), request::is_change(&call));
    let late = |became| {
        let path = path.as_deref().unwrap_or_default();
        // The budget doesn't count this answer, so a connection without a login gets a short one.
        let most = if context.attached().is_some() { path.len() } else { STRANGERS_PATH_BYTES };
        let path = &path[..path.floor_char_boundary(most)];
        (answer.late(operation.map_or("", |at| Call::METHODS[at]), path, became), None)
    };
    let work = async {
        let memory = match (&call, granted) {
            (_, Some(granted)) => Some(granted),
            // A call that its session would refuse doesn't wait, and doesn't delay others.
            (Call::ListFiles(args), None) if legacy::caller_for_path(&context, &args.ch).is_ok() => {
                Some(wait_for(&context, context.shared.limits.message_bytes).await)
            }
            (Call::GetBlockLocations(request), None) if context.caller(&request.session).is_ok() => {
                Some(wait_for(&context, PAGE_BYTES).await)
            }
            _ => None,
        };
        let allowed = memory.as_ref().map_or(0, Permit::bytes) / request::expansion(wire, &call);
        (answer.execute(call, &context, allowed, held).await, memory)
    };
    let (encoded, mut memory) = match deadline {
        None => work.await,
        Some(deadline) if deadline <= began => late(Late::NotBegun),
        Some(deadline) => match timeout_at(deadline.into(), work).await {
            Ok(done) => done,
            Err(_) if is_change => late(Late::GoesOn),
            Err(_) => late(Late::Dropped),
        },
    };
    let failed = answer.failed.load(Ordering::Relaxed);
    context.shared.calls.note(
        operation.unwrap_or(usize::MAX),
        began.elapsed(),
        failed,
        context.peer.address,
        // Quoted, so that a client's text can't break a line of the log.
        || path.as_ref().map(|path| format!("{path:?}")).unwrap_or_default(),
    );
    if let Some(memory) = &mut memory {
        memory.shrink(encoded.len());
    }
    Outgoing { encoded, memory, last: false }
}

async fn wait_for(context: &Context, bytes: usize) -> Permit {
    let budget = &context.shared.budget;
    budget.wait(&budget.holder(&context.key()), bytes).await
}

/// Runs `work` to its end, even if the connection breaks during it. A half-written file is of no use to
/// the client.
fn to_its_end<T, W, F>(context: &Arc<Context>, work: W) -> impl Future<Output = Result<T>> + use<T, W, F>
where
    T: Send + 'static,
    W: FnOnce(Arc<Context>) -> F,
    F: Future<Output = Result<T>> + Send + 'static,
{
    turns::to_its_end(work(context.clone()))
}

/// The fate of a call whose deadline has passed.
enum Late {
    /// It was still waiting for its turn, and doesn't begin any more.
    NotBegun,
    /// A query, which was stopped.
    Dropped,
    /// A change, which runs to its end.
    GoesOn,
}

/// Encodes the answer to one request.
struct Answer {
    wire: Wire,
    sequence: i32,
    failed: AtomicBool,
}

impl Answer {
    fn with<M: Method>(&self, result: Result<M::Success>) -> Encoded
    where
        M::Exception: Exception,
    {
        if let Err(error) = &result {
            self.failed.store(true, Ordering::Relaxed);
            tracing::debug!(method = M::NAME, %error, request = ?RequestId::current(), "call failed");
        }
        M::reply(self.wire, self.sequence, &result.map_err(|error| M::Exception::of(&error)))
    }

    /// Encodes a mutation's answer. Its exception is in wire form already, since the session remembers it
    /// for repetitions.
    fn remembered<M>(&self, result: std::result::Result<M::Success, DfsError>) -> Encoded
    where
        M: Method<Exception = DfsError>,
    {
        self.failed.store(result.is_err(), Ordering::Relaxed);
        M::reply(self.wire, self.sequence, &result)
    }

    /// Encodes the answer to a call of DfsV2 whose deadline has passed.
    fn late(&self, method: &'static str, path: &str, became: Late) -> Encoded {
        let message = match became {
            Late::NotBegun => "the request's deadline passed before the gateway began; nothing was done",
            Late::Dropped => "the request's deadline passed before the store answered",
            Late::GoesOn => {
                "the request's deadline passed during the change, which continues: its outcome is unknown"
            }
        };
        self.failed.store(true, Ordering::Relaxed);
        let error = Error::new(ErrorKind::TimedOut, message).with_retry_safe(!matches!(became, Late::GoesOn));
        let error = error.at(method, path);
        tracing::debug!(method, %error, request = ?RequestId::current(), "call failed");
        DfsError::of(&error).reply(self.wire, method, self.sequence)
    }

    /// Executes a call and encodes its answer. `held` is the memory of the request's own bytes.
    async fn execute(
        &self,
        call: Call,
        context: &Arc<Context>,
        allowed: usize,
        held: Option<Permit>,
    ) -> Encoded {
        let c = context;
        match call {
            Call::Init(args) => self.with::<m::Init>(legacy::init(c, args)),
            Call::Login(args) => {
                let answer = self.with::<m::Login>(legacy::login(c, args).await);
                c.note_change();
                answer
            }
            Call::Logout(args) => {
                let logout = |c: Arc<Context>| async move { legacy::logout(&c, args).await };
                let answer = self.with::<m::Logout>(to_its_end(c, logout).await);
                c.note_change();
                answer
            }
            Call::CloseClient(args) => {
                let close = |c: Arc<Context>| async move { legacy::close_client(&c, args).await };
                self.with::<m::CloseClient>(to_its_end(c, close).await)
            }
            Call::CloseDfs(args) => {
                let close = |c: Arc<Context>| async move { legacy::close_dfs(&c, args).await };
                self.with::<m::CloseDfs>(to_its_end(c, close).await)
            }
            Call::ListFiles(args) => self.with::<m::ListFiles>(legacy::list_files(c, args, allowed).await),
            Call::Stat(args) => self.with::<m::Stat>(legacy::stat(c, args).await),
            Call::Mkdir(args) => {
                self.with::<m::Mkdir>(to_its_end(c, |c| async move { legacy::mkdir(&c, args).await }).await)
            }
            Call::Move(args) => {
                self.with::<m::Move>(to_its_end(c, |c| async move { legacy::rename(&c, args).await }).await)
            }
            Call::Remove(args) => {
                self.with::<m::Remove>(to_its_end(c, |c| async move { legacy::remove(&c, args).await }).await)
            }
            Call::Open(args) => {
                self.with::<m::Open>(to_its_end(c, |c| async move { legacy::open(&c, args).await }).await)
            }
            Call::Close(args) => {
                self.with::<m::Close>(to_its_end(c, |c| async move { legacy::close(&c, args).await }).await)
            }
            Call::Read(args) => self.with::<m::Read>(legacy::read(c, args, allowed).await),
            Call::Write(args) => {
                let write = |c: Arc<Context>| async move {
                    let _held = held;
                    legacy::write(&c, args).await
                };
                self.with::<m::Write>(to_its_end(c, write).await)
            }
            Call::CopyToLocalFile(args) => {
                self.with::<m::CopyToLocalFile>(copies::copy_to_local(c, args).await)
            }
            Call::CopyFromLocalFile(args) => {
                self.with::<m::CopyFromLocalFile>(copies::copy_from_local(c, args).await)
            }

            Call::ServerInfo(_) => self.with::<m::ServerInfo>(Ok(v2::server_info(c))),
            Call::OpenSession(request) => self.with::<m::OpenSession>(v2::open_session(c, request).await),
            Call::CloseSession(request) => {
                let close = |c: Arc<Context>| async move { v2::close_session(&c, request).await };
                self.with::<m::CloseSession>(to_its_end(c, close).await)
            }
            Call::GetFileInfo(request) => self.with::<m::GetFileInfo>(v2::get_file_info(c, request).await),
            Call::ListDirectory(request) => {
                self.with::<m::ListDirectory>(v2::list_directory(c, request, allowed).await)
            }
            Call::GetBlockLocations(request) => {
                self.with::<m::GetBlockLocations>(v2::get_block_locations(c, request).await)
            }
            Call::GetChecksum(request) => self.with::<m::GetChecksum>(v2::get_checksum(c, request).await),
            Call::GetStoreStatus(request) => {
                self.with::<m::GetStoreStatus>(v2::get_store_status(c, request).await)
            }
            Call::OpenFile(request) => self.with::<m::OpenFile>(v2::open_file(c, request).await),
            Call::ReadRange(request) => self.with::<m::ReadRange>(v2::read_range(c, request, allowed).await),

            Call::CreateFile(request) => {
                self.remembered::<m::CreateFile>(mutate::create_file(c, request, held).await)
            }
            Call::AppendFile(request) => {
                self.remembered::<m::AppendFile>(mutate::append_file(c, request, held).await)
            }
            Call::AppendData(request) => {
                self.remembered::<m::AppendData>(mutate::append_data(c, request, held).await)
            }
            Call::FlushFile(request) => self.with::<m::FlushFile>(
                to_its_end(c, |c| async move { mutate::flush_file(&c, request).await }).await,
            ),
            Call::CloseFile(request) => {
                self.remembered::<m::CloseFile>(mutate::close_file(c, request, held).await)
            }
            Call::TruncateFile(request) => {
                self.remembered::<m::TruncateFile>(mutate::truncate_file(c, request, held).await)
            }
            Call::MakeDirectories(request) => {
                self.remembered::<m::MakeDirectories>(mutate::make_directories(c, request, held).await)
            }
            Call::RenamePath(request) => {
                self.remembered::<m::RenamePath>(mutate::rename_path(c, request, held).await)
            }
            Call::RemovePath(request) => {
                self.remembered::<m::RemovePath>(mutate::remove_path(c, request, held).await)
            }
            Call::SetAttributes(request) => {
                self.remembered::<m::SetAttributes>(mutate::set_attributes(c, request, held).await)
            }
            Call::ConcatFiles(request) => {
                self.remembered::<m::ConcatFiles>(mutate::concat_files(c, request, held).await)
            }
        }
    }
}
