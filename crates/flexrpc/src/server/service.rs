//! A service's view of a call, and its reply.

use crate::proto::auth::Credentials;
use crate::proto::bond::Holder;
use crate::proto::call::Transport;
use crate::proto::frame::HEAD_BYTES;
use crate::proto::ids::{CallId, Procedure};
use crate::proto::status::{Fault, Refusal};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use std::{fmt, io};

/// A call as its service sees it.
pub struct Request {
    /// Program, version and procedure.
    pub procedure: Procedure,
    /// The argument bytes. Arguments above 4 KiB are a part of their receive buffer, which has at
    /// least 132 KiB. Their clones and slices keep that whole buffer, so copy arguments that you
    /// keep for long.
    pub args: Bytes,
    /// The caller's credentials.
    pub credentials: Credentials,
    /// Whether the caller holds the cluster key, or has shown a certificate that
    /// the server trusts.
    pub authenticated: bool,
    /// The user of this host who owns the other end of the connection, according to the kernel.
    /// Only for plain ONC RPC over TCP from loopback, with
    /// [`OncOptions::local_users`](crate::OncOptions); `None` for all other callers.
    pub local_user: Option<u32>,
    /// The owner of the caller's own key ([`crate::KeyLookup`]). Such a caller isn't a member of
    /// the cluster, so `authenticated` is false. `None` for all other callers.
    pub holder: Option<Arc<dyn Holder>>,
    /// Whether the call came by TLS.
    pub encrypted: bool,
    /// The address from which the call came: the caller's, or the previous callee's in a chain.
    pub peer: SocketAddr,
    /// The transport of the call.
    pub transport: Transport,
    /// The time at which the caller stops waiting for the answer.
    pub deadline: Option<Instant>,
    /// The call's identifier; the same for every duplicate. For plain ONC RPC, the session is
    /// [`SessionId::NONE`](crate::SessionId::NONE), and the transaction id the caller's own.
    pub id: CallId,
}

/// Omits the arguments: they may be long, and secret.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("procedure", &self.procedure)
            .field("args_len", &self.args.len())
            .field("credentials", &self.credentials)
            .field("authenticated", &self.authenticated)
            .field("encrypted", &self.encrypted)
            .field("peer", &self.peer)
            .field("transport", &self.transport)
            .field("deadline", &self.deadline)
            .field("id", &self.id)
            .finish()
    }
}

/// Reasons why a service returned no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceError {
    /// The procedure doesn't exist, so nothing was executed.
    NoSuchProcedure,
    /// The service has reached one of its limits, so nothing was executed.
    Overloaded,
    /// The caller's deadline passed, so nothing was executed.
    DeadlinePassed,
    /// Executed, with this error.
    Fault(Fault),
    /// Executed. A caller of plain ONC RPC gets no reply, since it expects none (batching). Other
    /// callers get [`Fault::system`].
    Unanswered,
}

impl From<Fault> for ServiceError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// One version of a program.
pub trait Service: Send + Sync + 'static {
    /// Executes a call. The bytes written to `reply` are the result. It runs on a service worker,
    /// concurrently with other calls, and may block.
    ///
    /// # Errors
    /// The procedure doesn't exist, or ended with an error; then the reply is discarded. After a
    /// panic the caller gets [`Fault::system`].
    fn call(&self, request: &Request, reply: &mut Reply) -> Result<(), ServiceError>;
}

impl<F> Service for F
where
    F: Fn(&Request, &mut Reply) -> Result<(), ServiceError> + Send + Sync + 'static,
{
    fn call(&self, request: &Request, reply: &mut Reply) -> Result<(), ServiceError> {
        self(request, reply)
    }
}

/// Buffer for a service's result. The buffer begins with room for the head. So the whole answer is
/// one buffer, and needs one write.
#[derive(Debug)]
pub struct Reply(Vec<u8>);

impl Reply {
    /// Room before the result.
    pub(crate) const ROOM_BYTES: usize = HEAD_BYTES;

    pub(crate) fn new() -> Self {
        // Not zeroes: the vector would come from calloc, which bypasses glibc's per-thread caches.
        Self([u8::MAX; HEAD_BYTES].to_vec())
    }

    /// Appends bytes to the result.
    pub fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The vector, for encoders that append to it. Only append: it begins with bytes that aren't
    /// part of the result.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// Bytes of the result so far.
    pub fn len(&self) -> usize {
        self.0.len().saturating_sub(HEAD_BYTES)
    }

    /// The result so far.
    pub fn result(&self) -> &[u8] {
        self.0.get(HEAD_BYTES..).unwrap_or_default()
    }

    /// Whether the result is empty so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Discards the bytes written so far.
    pub fn clear(&mut self) {
        self.0.truncate(HEAD_BYTES);
    }

    /// The result alone.
    pub(crate) fn into_result(self) -> Bytes {
        Bytes::from(self.into_frame()).slice(HEAD_BYTES..)
    }

    /// The room for the head, and the result. Restores the room if a service removed it.
    pub(crate) fn into_frame(mut self) -> Vec<u8> {
        if self.0.len() < HEAD_BYTES {
            self.0.resize(HEAD_BYTES, 0);
        }
        self.0
    }
}

impl io::Write for Reply {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reasons why a call got no value: it was refused before execution, it failed, or its caller
/// expects no reply.
pub(crate) enum Ended {
    Refused(Refusal),
    Fault(Fault),
    Unanswered,
}

impl Ended {
    /// [`Self::Unanswered`] for a caller of FlexRPC.
    #[cold]
    pub(crate) fn unanswered() -> Fault {
        Fault::system("the service returned no answer")
    }

    #[cold]
    pub(crate) fn too_large(len: usize, limit: usize) -> Self {
        let told = format!("the result of {len} bytes exceeds the limit of {limit}; over UDP, use TCP");
        Self::Fault(Fault::system(told))
    }

    #[cold]
    pub(crate) fn panicked() -> Self {
        Self::Fault(Fault::system("the procedure panicked"))
    }
}
