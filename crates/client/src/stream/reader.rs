//! A file as a stream to read, which keeps requests for the next pieces in flight.
//!
//! ```text
//!   FileReader ─┬─ read_at: a task for each piece ──→ present ──→ the program's memory
//!               └─ sequential: in the program's thread ─────────────────↑
//! ```

use crate::{Error, ErrorKind, FileReader};
use bytes::{Buf, Bytes, BytesMut};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, ReadBuf};
use tokio::task::JoinHandle;

/// Bytes of the first request after the stream was opened or moved. Each further one has twice as many, up to
/// [`PIECE_BYTES`]: a program that reads a little at many places doesn't fetch megabytes at each.
const FIRST_BYTES: usize = 64 << 10;
/// Most bytes of one request. A chunk of 1 MiB measured best for gateways.
const PIECE_BYTES: usize = 1 << 20;
/// Most requests in flight: 16 MiB fill a link of 1 Gbit/s with a round trip of 134 ms.
const REQUESTS: usize = 16;
/// Bytes requested in sequence after which a stream [in a thread](Reader::in_thread) reads
/// [sequentially](FileReader::sequential). Opening that way costs the gateway a login, and takes some three round trips,
/// in which the pieces under way arrive.
const SEQUENTIAL_AFTER_BYTES: u64 = 4 << 20;
/// Receive buffer of such a stream. Larger reads bypass it.
const SEQUENTIAL_BUFFER_BYTES: usize = 64 << 10;

/// A file as a stream to read.
///
/// The first request is for 64 KiB. If the program reads on, the stream reads ahead. The more the program reads
/// in sequence, the more requests are in flight: up to 16 of 1 MiB each, which also bounds the stream's memory
/// to 16 MiB. The stream ends at the file's length.
///
/// After an error, the position is that of the first byte that the program didn't get, and the program can read
/// again.
///
/// ```
/// # use std::sync::Arc;
/// # use strait_client::{FileSystem, Principal, StorePath};
/// use strait_client::stream::Reader;
/// use tokio::io::{AsyncReadExt, AsyncSeekExt};
///
/// # async fn example(store: Arc<dyn FileSystem>, who: Principal, path: StorePath) -> std::io::Result<()> {
/// let mut reader = Reader::new(store.open(&who, &path).await?);
/// let mut head = [0; 4];
/// reader.read_exact(&mut head).await?;
/// reader.seek(std::io::SeekFrom::End(-100)).await?;
/// let mut tail = Vec::new();
/// reader.read_to_end(&mut tail).await?;
/// # Ok(())
/// # }
/// ```
pub struct Reader {
    file: Arc<dyn FileReader>,
    /// Empty if it isn't known.
    path: String,
    /// Offset of the next byte for the program.
    position: u64,
    /// The bytes from `position` on that have arrived.
    present: Bytes,
    /// The pieces behind `present`, in order.
    under_way: VecDeque<Request>,
    /// End of the latest request.
    asked_to: u64,
    /// Beginning of the sequence.
    began: u64,
    /// The way of the bytes from `asked_to` on.
    rest: Rest,
    /// Whether calls may block their thread.
    in_thread: bool,
    /// Bytes of the next request.
    next_bytes: usize,
    /// Requests to keep in flight.
    wanted: usize,
}

/// A piece of the file that was requested. It is a task of its own, so that it proceeds while the program
/// works on earlier bytes.
struct Request {
    bytes: usize,
    task: Task<strait_store::Result<Bytes>>,
}

/// A task that ends when nobody wants its outcome.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The way of the bytes that weren't requested yet.
enum Rest {
    /// By more pieces.
    Pieces,
    /// [Sequentially](FileReader::sequential), if that way can be opened.
    Opening(Task<Option<Sequential>>),
    /// Sequentially, after the pieces that are present or under way.
    Opened(Sequential),
    /// No piece is present or under way.
    Sequential(BufReader<Sequential>),
}

/// See [`FileReader::sequential`].
type Sequential = Box<dyn Read + Send + Sync>;

impl Reader {
    /// A stream over an open file, at its first byte.
    ///
    /// The methods that read must run in a runtime of tokio.
    pub fn new(file: Box<dyn FileReader>) -> Self {
        Self::named(file, "")
    }

    /// As [`Reader::new`]; the stream's own errors name `path`.
    pub fn named(file: Box<dyn FileReader>, path: &str) -> Self {
        file.stop_reading_ahead();
        Self {
            file: file.into(),
            path: path.to_owned(),
            position: 0,
            present: Bytes::new(),
            under_way: VecDeque::new(),
            asked_to: 0,
            began: 0,
            rest: Rest::Pieces,
            in_thread: false,
            next_bytes: FIRST_BYTES,
            wanted: 1,
        }
    }

    /// The stream for a program whose reads wait in a thread of their own, and not in a task of tokio: they may
    /// block it. After some MiB in sequence, the stream reads [sequentially](FileReader::sequential), if it can.
    #[must_use]
    pub fn in_thread(self) -> Self {
        Self { in_thread: true, ..self }
    }

    /// The file's length in bytes, when it was opened or, if the store knows it, now.
    pub fn length(&self) -> u64 {
        self.file.length()
    }

    /// Offset of the next byte that the stream returns.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Up to `length` bytes from `offset`: fewer only at the end of the file. Any number of callers can do this
    /// at once. It neither uses nor moves the stream's position, and doesn't read ahead.
    ///
    /// # Errors
    /// Those of [`FileReader::read_at`].
    pub async fn read_at(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        let end = self.length().min(offset.saturating_add(length as u64));
        let range = offset.min(end)..end;
        if range.end - range.start <= PIECE_BYTES as u64 {
            return Ok(self.file.read_at(range.start, (range.end - range.start) as usize).await?);
        }
        let mut all = BytesMut::zeroed((end - offset) as usize);
        let bytes = self.read_into(&mut all, offset).await?;
        all.truncate(bytes);
        Ok(all.freeze())
    }

    /// Reads from `offset` until `into` is full or the file ends, and returns the number of bytes. Otherwise as
    /// [`Reader::read_at`].
    ///
    /// # Errors
    /// Those of [`FileReader::read_at`].
    pub async fn read_into(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = self.length().min(offset.saturating_add(into.len() as u64));
        let pieces = (offset.min(end)..end).step_by(PIECE_BYTES).map(|start| {
            let bytes = (end - start).min(PIECE_BYTES as u64) as usize;
            let file = self.file.clone();
            async move { file.read_at(start, bytes).await.map(|piece| (piece, bytes)) }
        });
        let (mut arriving, mut done) = (stream::iter(pieces).buffered(REQUESTS), 0);
        while let Some((piece, asked)) = arriving.try_next().await? {
            if piece.len() > asked {
                let why = format!("the store gave {} bytes in place of {asked}", piece.len());
                return Err(Error::new(ErrorKind::Internal, why).at("read", &self.path).into());
            }
            into[done..done + piece.len()].copy_from_slice(&piece);
            done += piece.len();
            // The file is shorter now.
            if piece.len() < asked {
                break;
            }
        }
        Ok(done)
    }

    /// The received bytes that follow the position. It doesn't wait, so it can be called outside of tokio.
    pub fn present(&self) -> &[u8] {
        match &self.rest {
            Rest::Sequential(rest) => rest.buffer(),
            _ => &self.present,
        }
    }

    /// Moves the position behind bytes that are [present](Self::present).
    ///
    /// # Panics
    /// If fewer bytes are present.
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.present().len(), "the bytes to pass aren't present");
        match &mut self.rest {
            Rest::Sequential(rest) => rest.consume(bytes),
            _ => self.present.advance(bytes),
        }
        self.position += bytes as u64;
    }

    /// Waits until bytes are present. If none are, the stream is at its end.
    pub(crate) fn poll_present(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.present().is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.ask_ahead(cx);
        let Some(first) = self.under_way.front_mut() else { return self.poll_rest(cx) };
        let arrived = ready!(Pin::new(&mut first.task.0).poll(cx));
        let asked = first.bytes;
        self.under_way.pop_front();
        let arrived = arrived.unwrap_or_else(|ended| {
            let why = "the task that read was ended: the runtime is shutting down, or it panicked";
            Err(Error::new(ErrorKind::Internal, why).at("read", &self.path).caused_by(ended))
        });
        match arrived {
            Ok(bytes) if bytes.len() == asked => {
                self.present = bytes;
                // Requested when the program comes back, since these bytes may be all that it wants here.
                self.wanted = REQUESTS.min(self.wanted * 2);
            }
            // The file is shorter now.
            Ok(bytes) => {
                self.restart();
                self.asked_to += bytes.len() as u64;
                self.present = bytes;
            }
            Err(error) => {
                self.restart();
                return Poll::Ready(Err(error.into()));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// As [`Self::poll_present`], if no piece is under way.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.rest {
            // All was requested.
            Rest::Pieces => return Poll::Ready(Ok(())),
            // `ask_ahead` has polled it.
            Rest::Opening(_) => return Poll::Pending,
            Rest::Opened(_) => {
                if let Rest::Opened(rest) = std::mem::replace(&mut self.rest, Rest::Pieces) {
                    self.rest = Rest::Sequential(BufReader::with_capacity(SEQUENTIAL_BUFFER_BYTES, rest));
                }
            }
            Rest::Sequential(rest) => match rest.fill_buf() {
                Ok([]) => self.restart(),
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) => {
                    self.restart();
                    return Poll::Ready(Err(error));
                }
            },
        }
        self.poll_present(cx)
    }

    /// Reads straight into the program's memory. False if the next bytes don't come that way.
    fn read_sequential(&mut self, into: &mut ReadBuf<'_>) -> io::Result<bool> {
        let Rest::Sequential(rest) = &mut self.rest else { return Ok(false) };
        let read = rest.read(into.initialize_unfilled());
        match read {
            Ok(bytes) if bytes > 0 => {
                into.advance(bytes);
                self.position += bytes as u64;
                Ok(true)
            }
            ended => {
                self.restart();
                ended.map(|_| false)
            }
        }
    }

    /// Moves the position, without a request.
    pub(crate) fn seek_to(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::End(by) => (self.length(), by),
            SeekFrom::Current(by) => (self.position, by),
        };
        let Some(offset) = base.checked_add_signed(by) else {
            let why = format!("a seek by {by} bytes from offset {base} leads before the file's beginning");
            return Err(Error::new(ErrorKind::InvalidArgument, why).at("seek", &self.path).into());
        };
        match offset.checked_sub(self.position) {
            Some(ahead) if ahead <= self.present().len() as u64 => self.advance(ahead as usize),
            _ => {
                self.position = offset;
                self.restart();
            }
        }
        Ok(offset)
    }

    /// Requests as many pieces as are wanted.
    fn ask_ahead(&mut self, cx: &mut Context<'_>) {
        let length = self.file.length();
        if self.in_thread
            && matches!(self.rest, Rest::Pieces)
            && self.asked_to - self.began >= SEQUENTIAL_AFTER_BYTES
            && length.saturating_sub(self.asked_to) >= SEQUENTIAL_AFTER_BYTES
        {
            let (file, offset) = (self.file.clone(), self.asked_to);
            self.rest = Rest::Opening(Task(tokio::spawn(async move { file.sequential(offset).await })));
        }
        if let Rest::Opening(task) = &mut self.rest
            && let Poll::Ready(opened) = Pin::new(&mut task.0).poll(cx)
        {
            match opened {
                Ok(Some(rest)) => self.rest = Rest::Opened(rest),
                // By pieces again, and another attempt after as many bytes.
                _ => (self.rest, self.began) = (Rest::Pieces, self.asked_to),
            }
        }
        let by_pieces = matches!(self.rest, Rest::Pieces);
        while by_pieces && self.under_way.len() < self.wanted && self.asked_to < length {
            let bytes = (length - self.asked_to).min(self.next_bytes as u64) as usize;
            let (file, offset) = (self.file.clone(), self.asked_to);
            let task = tokio::spawn(async move { file.read_at(offset, bytes).await });
            self.under_way.push_back(Request { bytes, task: Task(task) });
            self.asked_to += bytes as u64;
            self.next_bytes = PIECE_BYTES.min(self.next_bytes * 2);
        }
    }

    /// Drops all pieces, and begins anew at the position.
    fn restart(&mut self) {
        self.present = Bytes::new();
        self.under_way.clear();
        self.rest = Rest::Pieces;
        (self.asked_to, self.began) = (self.position, self.position);
        (self.next_bytes, self.wanted) = (FIRST_BYTES, 1);
    }
}

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if into.remaining() > 0 && !this.read_sequential(into)? {
            ready!(this.poll_present(cx))?;
            let bytes = this.present().len().min(into.remaining());
            into.put_slice(&this.present()[..bytes]);
            this.advance(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for Reader {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        ready!(this.poll_present(cx))?;
        Poll::Ready(Ok(this.present()))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        self.get_mut().advance(bytes);
    }
}

impl AsyncSeek for Reader {
    fn start_seek(self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        self.get_mut().seek_to(to).map(drop)
    }

    fn poll_complete(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.position))
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("position", &self.position).field("length", &self.length()).finish()
    }
}
