//! Connections of the session that one reader at a time has to itself.

use super::{FURTHER_PATIENCE, Proof, Session, Subject, lock, outcome};
use crate::attached::max_chunk_bytes;
use crate::connection::{Broken, MAX_REPLY_BYTES, WIRE};
use crate::own::OwnConnection;
use crate::socket::Socket;
use crate::tls;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use strait_store::{Error, ErrorKind, Result};
use strait_wire::{Method, OpenSessionReply, OpenSessionRequest, methods};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout};

/// Most such connections, used and unused, as in our other clients. Further readers share the others.
const MAX_OWN: usize = 8;
/// An unused connection isn't used again after this: many routers forget idle ones within minutes.
const KEPT: Duration = Duration::from_secs(30);
/// After the gateway refused a connection, or one failed, the session opens none for this long: the gateway may have
/// its maximum of connections, or too little memory for many answers.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// A session's connections for single readers.
#[derive(Default)]
pub(super) struct OwnConnections {
    /// Each since a time.
    unused: Vec<(OwnConnection, Instant)>,
    lent: usize,
    /// No connection is opened before this.
    not_before: Option<Instant>,
}

/// Counts a connection as lent until dropped.
pub(crate) struct Lent(Arc<Session>);

impl Lent {
    pub(crate) fn session(&self) -> &Session {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        lock(&self.0.own).lent -= 1;
    }
}

impl Session {
    /// A connection for one reader. None if all are lent, or the gateway gives no further one, or gave none a moment
    /// ago.
    pub(crate) async fn own_connection(self: &Arc<Self>) -> Option<(OwnConnection, Lent)> {
        let (unused, lent) = self.lend_own()?;
        if let Some(connection) = unused {
            return Some((connection, lent));
        }
        let why = match timeout(FURTHER_PATIENCE, self.open_own()).await {
            Ok(Ok(connection)) => return Some((connection, lent)),
            Ok(Err(error)) => error,
            Err(_) => self.unreachable("no answer"),
        };
        tracing::debug!(%why, "couldn't open a connection for one reader; the reader shares one");
        self.pause_own();
        None
    }

    /// Counts a connection as lent. Returns an unused one, or `Some((None, …))`: then the caller opens one. None if
    /// no connection is unused, and the maximum is lent or opening or using one failed within the last `REFUSED_PAUSE`.
    fn lend_own(self: &Arc<Self>) -> Option<(Option<OwnConnection>, Lent)> {
        let mut own = lock(&self.own);
        // Handles of other incarnations are gone, and if one connection is cut, the others are cut soon.
        let incarnation = self.incarnation();
        own.unused.retain(|(unused, since)| unused.incarnation() == incarnation && since.elapsed() < KEPT);
        let unused = own.unused.pop().map(|(connection, _)| connection);
        let may_open = own.lent + own.unused.len() < MAX_OWN
            && own.not_before.is_none_or(|instant| Instant::now() >= instant);
        (unused.is_some() || may_open).then(|| {
            own.lent += 1;
            (unused, Lent(self.clone()))
        })
    }

    async fn open_own(&self) -> Result<OwnConnection> {
        let Some(token) = lock(&self.token).clone() else {
            return Err(self.unreachable("it gave no token"));
        };
        let (request, _) = self.opening(Some(token), Proof::Token)?;
        let mut socket = self.reach().await?;
        let (opened, socket) = match &self.tls {
            None => {
                let opened = self.attach_own(&mut socket, request).await?;
                (opened, Socket::new(socket, None))
            }
            Some(tls) => {
                let mut stream = tls.handshake(socket).await.map_err(tls::refused)?;
                let opened = self.attach_own(&mut stream, request).await?;
                let (socket, tls) = stream.into_inner();
                (opened, Socket::new(socket, Some(tls)))
            }
        };
        let incarnation = self.incarnation();
        if opened.incarnation != Some(incarnation) {
            return Err(self.unreachable("another gateway now listens at this address"));
        }
        self.keep_token(&opened);
        let socket = socket.map_err(|error| self.not_connected(error))?;
        Ok(OwnConnection::new(socket, max_chunk_bytes(&opened), incarnation))
    }

    /// Attaches a new connection to the session.
    async fn attach_own(
        &self,
        on: &mut (impl AsyncRead + AsyncWrite + Unpin),
        request: OpenSessionRequest,
    ) -> Result<OpenSessionReply> {
        const SEQUENCE: i32 = 0;
        let call = methods::OpenSession::call(WIRE, SEQUENCE, &request.into());
        let asked = async {
            on.write_all(&call.to_bytes()).await?;
            on.flush().await?;
            let length = u64::from(on.read_u32().await?);
            if length > MAX_REPLY_BYTES as u64 {
                return Err(io::Error::other("it isn't a Strait gateway"));
            }
            let mut message = Vec::new();
            on.take(length).read_to_end(&mut message).await?;
            Ok(message)
        };
        let message = asked.await.map_err(|error| self.not_connected(error))?;
        let subject = Subject { operation: "connect to", path: &self.address };
        match methods::OpenSession::decode_reply(WIRE.protocol, message.into()) {
            Ok((SEQUENCE, reply)) => outcome::<methods::OpenSession>(Ok(reply), subject),
            Ok(_) => Err(self.unreachable("its replies are out of order")),
            Err(error) => outcome::<methods::OpenSession>(Err(error), subject),
        }
    }

    /// The longest wait for one reply on such a connection.
    pub(crate) fn patience(&self) -> Duration {
        self.options.operation_timeout.map_or(self.timeout, |limit| limit.min(self.timeout))
    }

    /// The error if a reply isn't there after [`Self::patience`].
    pub(crate) fn silent(&self, subject: Subject<'_>) -> Error {
        match self.options.operation_timeout {
            Some(limit) if limit < self.timeout => self.beyond(limit, subject),
            // Other connections may still be answered: this is no outage of the gateway.
            _ => {
                let message = format!("{}: {}", self.address, Broken::silence(self.timeout));
                Error::new(ErrorKind::TimedOut, message).at(subject.operation, subject.path)
            }
        }
    }

    /// Keeps a connection that owes no reply for the next reader.
    pub(crate) fn keep_own(&self, connection: OwnConnection) {
        lock(&self.own).unused.push((connection, Instant::now()));
    }

    /// Opens no connection for a while.
    pub(crate) fn pause_own(&self) {
        lock(&self.own).not_before = Some(Instant::now() + REFUSED_PAUSE);
    }

    /// Closes the unused connections: one that was in use has failed, and they lead to the same gateway.
    pub(crate) fn drop_own(&self) {
        let unused = std::mem::take(&mut lock(&self.own).unused);
        drop(unused);
    }
}
