//! A file on its way to a client: read piece by piece, as fast as the client takes it.

use super::answering::Answering;
use super::sending::{Sending, piece};
use super::{Front, OfRequest, guarded};
use crate::pool::{Grant, Key};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use strait_store::{Error, ErrorKind, FileReader, Result};
use strait_telemetry::RequestId;

/// Bytes read at a time. Stores read ahead, and larger pieces gain little.
const PIECE_BYTES: u64 = 512 << 10;

/// The bytes of a file that are still to be sent.
pub struct Download {
    source: Arc<Source>,
    left: Range<u64>,
    /// Bytes that were read and not taken yet.
    piece: Bytes,
    reading: Option<BoxFuture<'static, Result<Piece>>>,
    sending: Option<Sending>,
}

/// The file, and the client that reads it.
pub struct Source {
    /// The connection.
    pub front: Arc<Front>,
    /// The request's own context, which lasts as long as its answer.
    pub context: Arc<OfRequest>,
    /// The user or origin that the reads count for.
    pub key: Key,
    /// The number of the request in logs.
    pub id: RequestId,
    /// The file.
    pub reader: Box<dyn FileReader>,
    /// Its path.
    pub path: String,
    /// Its place among the open files.
    pub place: Grant,
    /// Until all bytes are sent, also while the gateway waits for the store.
    pub answering: Answering,
}

struct Piece {
    bytes: Bytes,
    sending: Sending,
}

impl Source {
    /// The next piece, after its memory was granted.
    async fn read(self: Arc<Self>, from: u64, most: u64) -> Result<Piece> {
        self.context.check_login()?;
        let wanted = most.min(PIECE_BYTES) as usize;
        let granted = self.front.account().now(wanted);
        let memory = match granted {
            Some(memory) => memory,
            None => {
                let (budget, holder) = {
                    let account = self.front.account();
                    (account.budget().clone(), account.holder().clone())
                };
                budget.wait(&holder, wanted).await
            }
        };
        let bytes = self.reader.read_at(from, wanted.min(memory.bytes())).await;
        let bytes = bytes.map_err(|error| error.at("read", &self.path))?;
        if bytes.is_empty() {
            let message = "the file became shorter while it was read; read it again";
            return Err(Error::new(ErrorKind::Unavailable, message).at("read", &self.path));
        }
        let sending = Sending::new(Some(memory), self.front.unsent.clone(), &self.front.account());
        Ok(Piece { bytes, sending })
    }
}

impl Download {
    /// A download of these bytes. It reads the first piece at once: if that fails, the answer can
    /// still have the failure's status.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn begin(source: Source, bytes: Range<u64>) -> Result<Self> {
        let mut this =
            Self { source: Arc::new(source), left: bytes, piece: Bytes::new(), reading: None, sending: None };
        std::future::poll_fn(|cx| this.poll_piece(cx)).await?;
        Ok(this)
    }

    /// Bytes still to be taken.
    pub fn left(&self) -> u64 {
        self.left.end - self.left.start + self.piece.len() as u64
    }

    /// The next bytes; none at the end.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.left() == 0 {
            self.sending = None;
            return Poll::Ready(Ok(None));
        }
        if let Err(error) = ready!(self.poll_piece(cx)) {
            // The head is sent already: the client learns of the failure by the missing bytes.
            tracing::warn!(%error, request = %self.source.id, "a download failed: its answer ends early");
            return Poll::Ready(Err(io::Error::other(error)));
        }
        Poll::Ready(Ok(Some(piece(&mut self.piece))))
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.piece.is_empty() {
            return Poll::Ready(Ok(()));
        }
        // While the gateway reads, a pause isn't the client's fault.
        self.sending = None;
        let Range { start, end } = self.left.clone();
        let reading = self.reading.get_or_insert_with(|| {
            let source = self.source.clone();
            Box::pin(guarded(source.key.clone(), source.id, source.read(start, end - start)))
        });
        let read = ready!(reading.as_mut().poll(cx));
        self.reading = None;
        let Piece { mut bytes, sending } = read?;
        bytes.truncate(usize::try_from(end - start).unwrap_or(usize::MAX));
        self.left.start += bytes.len() as u64;
        (self.piece, self.sending) = (bytes, Some(sending));
        Poll::Ready(Ok(()))
    }
}
