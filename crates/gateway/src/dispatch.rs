//! From a message to the method it calls, and from the result to the answer.

use crate::connection::Outgoing;
use crate::errors::Exception;
use crate::memory::Permit;
use crate::server::Shared;
use crate::session::Session;
use crate::{legacy, mutate, v2};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::{MAX_CHUNK_BYTES, Result};
use strait_wire::{
    ApplicationError, ApplicationErrorKind, Call, Decoder, Encoded, Envelope, MessageKind, Method, Wire,
    methods as m,
};

/// Memory set aside for a page of a listing, and for other answers of bounded
/// but more than trivial size.
pub const PAGE_BYTES: usize = 256 << 10;

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Where it is.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub encrypted: bool,
}

/// What a connection knows of itself.
pub struct Context {
    /// The gateway.
    pub shared: Arc<Shared>,
    /// The client.
    pub peer: Peer,
    current: Mutex<Current>,
}

/// The sessions that serve calls which name none.
#[derive(Default)]
struct Current {
    /// Of the 2009 service; it ends with the connection.
    legacy: Option<Arc<Session>>,
    /// Of DfsV2; it outlives the connection for a while.
    attached: Option<Arc<Session>>,
}

impl Context {
    /// A new connection's.
    pub fn new(shared: Arc<Shared>, peer: Peer) -> Self {
        Self { shared, peer, current: Mutex::default() }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection's own session of the 2009 service.
    pub fn legacy(&self) -> Option<Arc<Session>> {
        self.current().legacy.clone()
    }

    /// Makes a session the connection's own; one before it ends.
    pub fn set_legacy(&self, session: Option<Arc<Session>>) {
        if let Some(session) = &session {
            session.attach();
        }
        let before = std::mem::replace(&mut self.current().legacy, session);
        if let Some(before) = before {
            before.detach();
            self.shared.sessions.end(before.id);
            before.abandon_files();
        }
    }

    /// The connection's own session of DfsV2.
    pub fn attached(&self) -> Option<Arc<Session>> {
        self.current().attached.clone()
    }

    /// Attaches the connection to a session; from one before it is detached.
    pub fn attach(&self, session: Option<Arc<Session>>) {
        if let Some(session) = &session {
            session.attach();
        }
        let before = std::mem::replace(&mut self.current().attached, session);
        if let Some(before) = before {
            before.detach();
        }
    }

    /// Passwords go over TLS or loopback only.
    pub fn may_send_password(&self) -> bool {
        self.peer.encrypted || self.peer.address.ip().is_loopback()
    }

    /// The connection is gone: the 2009 session's open writers are abandoned,
    /// the other one lingers for its client to come back.
    pub fn connection_lost(&self) {
        self.set_legacy(None);
        self.attach(None);
    }
}

/// A request, as far as it could be read.
pub struct Request {
    wire: Wire,
    name: String,
    sequence: i32,
    body: Body,
    /// The memory its bytes take, held until it is executed.
    memory: Option<Permit>,
}

enum Body {
    Call(Call),
    Refused { error: ApplicationError, last: bool },
}

impl Request {
    /// Reads a whole message.
    pub fn parse(wire: Wire, message: Bytes, memory: Option<Permit>) -> Self {
        let refuse =
            |kind, message: String, last| Body::Refused { error: ApplicationError { kind, message }, last };
        let mut from = Decoder::new(wire.protocol, message);
        let (name, sequence, body) = match Envelope::read(&mut from) {
            Err(error) => {
                let body = refuse(ApplicationErrorKind::ProtocolError, error.to_string(), true);
                (String::new(), 0, body)
            }
            Ok(Envelope { name, kind: MessageKind::Call, sequence }) => {
                let body = match Call::read(&name, &mut from) {
                    Ok(Some(call)) => Body::Call(call),
                    Ok(None) => {
                        refuse(ApplicationErrorKind::UnknownMethod, format!("no method {name:?}"), false)
                    }
                    Err(error) => {
                        refuse(ApplicationErrorKind::ProtocolError, format!("{name}: {error}"), false)
                    }
                };
                (name, sequence, body)
            }
            Ok(Envelope { name, kind, sequence }) => {
                let message = format!("{kind:?} where a call is expected; there are no oneway methods");
                (name, sequence, refuse(ApplicationErrorKind::InvalidMessageType, message, true))
            }
        };
        Self { wire, name, sequence, body, memory }
    }

    /// For a read at a given offset, which may run beside others: the bytes
    /// its answer may have.
    pub fn read_bytes(&self) -> Option<usize> {
        let asked = match &self.body {
            Body::Call(Call::ReadRange(request)) => i64::from(request.length.unwrap_or(0)),
            Body::Call(Call::Read(args)) if args.offset.is_some_and(|offset| offset >= 0) => {
                args.len.unwrap_or(0)
            }
            _ => return None,
        };
        Some(usize::try_from(asked).unwrap_or(0).min(MAX_CHUNK_BYTES))
    }

    /// Executes the request and gives the answer. `granted` is the memory for
    /// a read's answer.
    pub async fn execute(self, context: Arc<Context>, granted: Option<Permit>) -> Outgoing {
        let Self { wire, name, sequence, body, memory: _held } = self;
        let call = match body {
            Body::Call(call) => call,
            Body::Refused { error, last } => {
                tracing::debug!(peer = %context.peer.address, %name, error = error.message, "request refused");
                return Outgoing { encoded: error.reply(wire, &name, sequence), _memory: None, last };
            }
        };
        let answer = Answer { wire, sequence };
        let mut memory = match (&call, granted) {
            (_, Some(granted)) => Some(granted),
            // A read on from the handle's position waits like anybody else.
            (Call::Read(args), None) => {
                let asked = usize::try_from(args.len.unwrap_or(0)).unwrap_or(0).min(MAX_CHUNK_BYTES);
                Some(context.shared.budget.wait(asked).await)
            }
            (Call::ListFiles(_), None) => {
                Some(context.shared.budget.wait(context.shared.limits.message_bytes).await)
            }
            (Call::ListDirectory(_) | Call::GetBlockLocations(_), None) => {
                Some(context.shared.budget.wait(PAGE_BYTES).await)
            }
            _ => None,
        };
        let allowed = memory.as_ref().map_or(0, Permit::bytes);
        let encoded = answer.to(call, &context, allowed).await;
        if let Some(memory) = &mut memory {
            memory.shrink(encoded.len());
        }
        Outgoing { encoded, _memory: memory, last: false }
    }
}

/// How to answer one request.
struct Answer {
    wire: Wire,
    sequence: i32,
}

impl Answer {
    fn with<M: Method>(&self, result: Result<M::Success>) -> Encoded
    where
        M::Exception: Exception,
    {
        if let Err(error) = &result {
            tracing::debug!(method = M::NAME, %error, "call failed");
        }
        M::reply(self.wire, self.sequence, &result.map_err(|error| M::Exception::of(&error)))
    }

    /// A mutation's answer; its exception is ready, since it is remembered.
    fn remembered<M>(&self, result: std::result::Result<M::Success, strait_wire::DfsError>) -> Encoded
    where
        M: Method<Exception = strait_wire::DfsError>,
    {
        M::reply(self.wire, self.sequence, &result)
    }

    async fn to(&self, call: Call, context: &Arc<Context>, allowed: usize) -> Encoded {
        let c = context;
        match call {
            Call::Init(args) => self.with::<m::Init>(legacy::init(c, args)),
            Call::Login(args) => self.with::<m::Login>(legacy::login(c, args).await),
            Call::Logout(args) => self.with::<m::Logout>(legacy::logout(c, args)),
            Call::CloseClient(args) => self.with::<m::CloseClient>(legacy::close_client(c, args).await),
            Call::CloseDfs(args) => self.with::<m::CloseDfs>(legacy::close_dfs(c, args).await),
            Call::ListFiles(args) => self.with::<m::ListFiles>(legacy::list_files(c, args, allowed).await),
            Call::Stat(args) => self.with::<m::Stat>(legacy::stat(c, args).await),
            Call::Mkdir(args) => self.with::<m::Mkdir>(legacy::mkdir(c, args).await),
            Call::Move(args) => self.with::<m::Move>(legacy::rename(c, args).await),
            Call::Remove(args) => self.with::<m::Remove>(legacy::remove(c, args).await),
            Call::Open(args) => self.with::<m::Open>(legacy::open(c, args).await),
            Call::Close(args) => self.with::<m::Close>(legacy::close(c, args).await),
            Call::Read(args) => self.with::<m::Read>(legacy::read(c, args, allowed).await),
            Call::Write(args) => self.with::<m::Write>(legacy::write(c, args).await),
            Call::CopyToLocalFile(args) => {
                self.with::<m::CopyToLocalFile>(legacy::copy_to_local(c, args).await)
            }
            Call::CopyFromLocalFile(args) => {
                self.with::<m::CopyFromLocalFile>(legacy::copy_from_local(c, args).await)
            }

            Call::ServerInfo(_) => self.with::<m::ServerInfo>(Ok(v2::server_info(c))),
            Call::OpenSession(request) => self.with::<m::OpenSession>(v2::open_session(c, request).await),
            Call::CloseSession(request) => self.with::<m::CloseSession>(v2::close_session(c, request).await),
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
                self.remembered::<m::CreateFile>(mutate::create_file(c, request).await)
            }
            Call::AppendFile(request) => {
                self.remembered::<m::AppendFile>(mutate::append_file(c, request).await)
            }
            Call::AppendData(request) => {
                self.remembered::<m::AppendData>(mutate::append_data(c, request).await)
            }
            Call::FlushFile(request) => self.with::<m::FlushFile>(mutate::flush_file(c, request).await),
            Call::CloseFile(request) => self.remembered::<m::CloseFile>(mutate::close_file(c, request).await),
            Call::TruncateFile(request) => {
                self.remembered::<m::TruncateFile>(mutate::truncate_file(c, request).await)
            }
            Call::MakeDirectories(request) => {
                self.remembered::<m::MakeDirectories>(mutate::make_directories(c, request).await)
            }
            Call::RenamePath(request) => {
                self.remembered::<m::RenamePath>(mutate::rename_path(c, request).await)
            }
            Call::RemovePath(request) => {
                self.remembered::<m::RemovePath>(mutate::remove_path(c, request).await)
            }
            Call::SetAttributes(request) => {
                self.remembered::<m::SetAttributes>(mutate::set_attributes(c, request).await)
            }
        }
    }
}
