//! An open file on a gateway, read at any offset by many callers at once. It reads ahead for
//! callers that read it in small pieces from front to back.

use super::ahead::ReadAhead;
use super::connection::Answer;
use super::convert;
use super::lanes::Turn;
use super::session::{Retries, Session, Subject, outcome};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use strait_store::budget::{Pool, Reserved, Share};
use strait_store::{Error, ErrorKind, FileReader, MAX_CHUNK_BYTES, Result, StorePath};
use strait_wire::{OpenFileReply, OpenFileRequest, ReadRangeRequest, methods};
use tokio::time::sleep;

/// Sequential reads below this size are served from larger ones. For reads of this size and more, the round
/// trip is short compared with the transfer.
const SMALL_READ_BYTES: usize = 256 << 10;
/// Bytes of one such larger read.
const AHEAD_BYTES: usize = 1 << 20;
/// Number of larger reads requested in advance. With [`AHEAD_BYTES`] it bounds an open file's
/// memory to 3 MiB; all open files share a [`Pool`].
const AHEAD_READS: usize = 2;

/// An open file: see [`FileReader`].
pub(super) struct Reader {
    session: Arc<Session>,
    path: StorePath,
    /// Changes if the file was opened again.
    handle: AtomicI64,
    reopening: tokio::sync::Mutex<()>,
    length: u64,
    identity: Option<Bytes>,
    ahead: Arc<tokio::sync::Mutex<Ahead>>,
    /// Whether the caller reads ahead itself, so that this reader doesn't.
    reads_as_asked: AtomicBool,
    memory: Arc<Share>,
}

/// A sequential reader's position, and the pieces present or requested for it.
struct Ahead {
    /// End of the latest small read. The initial value isn't a valid offset, so that a single small read
    /// anywhere fetches only its own bytes.
    position: u64,
    /// Contiguous pieces, in order; the first contains `position` or begins there.
    pieces: VecDeque<Piece>,
    last_read: Instant,
}

/// Drops the bytes read ahead, if the latest read was at least `idle` ago.
fn give_up(ahead: &tokio::sync::Mutex<Ahead>, idle: Duration) {
    // If the lock is held, a read is in progress.
    if let Ok(mut ahead) = ahead.try_lock()
        && ahead.last_read.elapsed() >= idle
    {
        ahead.pieces.clear();
    }
}

struct Piece {
    offset: u64,
    content: Content,
    _memory: Reserved,
}

enum Content {
    Here(Bytes),
    UnderWay(Answer<methods::ReadRange>),
}

impl Reader {
    pub(super) async fn open(session: Arc<Session>, user: &str, path: &StorePath) -> Result<Self> {
        let opened = open(&session, path).await?;
        let ahead = Ahead { position: u64::MAX, pieces: VecDeque::new(), last_read: Instant::now() };
        let ahead = Arc::new(tokio::sync::Mutex::new(ahead));
        let memory = Pool::of_process().share(user);
        memory.register(Arc::downgrade(&ahead), give_up);
        Ok(Self {
            handle: convert::present(opened.handle, "handle")?.into(),
            length: convert::unsigned(opened.length, "length")?,
            identity: opened.identity,
            session,
            path: path.clone(),
            reopening: Default::default(),
            ahead,
            reads_as_asked: AtomicBool::new(false),
            memory,
        })
    }

    fn subject(&self) -> Subject<'_> {
        Subject { operation: "read", path: self.path.as_str() }
    }

    fn request(&self, handle: i64, offset: u64, length: usize) -> Result<ReadRangeRequest> {
        Ok(ReadRangeRequest {
            handle: Some(handle),
            offset: Some(convert::signed(offset)?),
            length: Some(length as i32), // at most MAX_CHUNK_BYTES
            ..Default::default()
        })
    }

    /// Reads until it has `length` bytes or the file ends.
    async fn read_whole(&self, offset: u64, length: usize) -> Result<Bytes> {
        let first = self.read_once(offset, length).await?;
        if first.len() == length || first.is_empty() {
            return Ok(first);
        }
        let mut gathered = BytesMut::with_capacity(length);
        gathered.extend_from_slice(&first);
        while gathered.len() < length {
            let more = self.read_once(offset + gathered.len() as u64, length - gathered.len()).await?;
            if more.is_empty() {
                break;
            }
            gathered.extend_from_slice(&more);
        }
        Ok(gathered.freeze())
    }

    /// One request; the answer may be short.
    async fn read_once(&self, offset: u64, length: usize) -> Result<Bytes> {
        let mut retries = Retries::default();
        loop {
            let handle = self.handle.load(Ordering::Relaxed);
            let error = match self.read_by(handle, offset, length).await {
                // The session was lost with its connection, and its handles with it.
                Err(error) if error.kind() == ErrorKind::InvalidArgument => error,
                read => return read,
            };
            let Some(delay) = retries.next(&self.session) else {
                let why = "the gateway restarts, or ends the session, again and again; try again later";
                return Err(Error::new(ErrorKind::Unavailable, why).at("read", &self.path).caused_by(error));
            };
            sleep(delay).await;
            self.reopened(handle).await?;
        }
    }

    async fn read_by(&self, handle: i64, offset: u64, length: usize) -> Result<Bytes> {
        let request = self.request(handle, offset, length)?;
        let reply =
            self.session.ask::<methods::ReadRange>(self.subject(), length, || request.clone().into()).await?;
        let data = reply.data.unwrap_or_default();
        if data.len() > length {
            return Err(Error::new(ErrorKind::Internal, "the gateway sent more bytes than requested")
                .at("read", &self.path));
        }
        Ok(data)
    }

    /// Opens the file again, and replaces the handle `lost`. Fails if the file is now shorter, or has
    /// another identity: then it isn't the file that the caller opened.
    async fn reopened(&self, lost: i64) -> Result<()> {
        let _reopening = self.reopening.lock().await;
        let now = self.handle.load(Ordering::Relaxed);
        if now != lost {
            return Ok(()); // another caller has reopened it meanwhile
        }
        let opened = open(&self.session, &self.path).await?;
        let handle = convert::present(opened.handle, "handle")?;
        let is_another =
            self.identity.as_ref().zip(opened.identity.as_ref()).is_some_and(|(before, now)| before != now);
        if is_another || convert::unsigned(opened.length, "length")? < self.length {
            self.session.release(handle);
            let why = "the file was replaced or shortened since it was opened";
            return Err(Error::new(ErrorKind::Unavailable, why)
                .at("read", &self.path)
                .with_retry_safe(false));
        }
        self.handle.store(handle, Ordering::Relaxed);
        Ok(())
    }

    /// A small read. If it continues the previous small read, it gets its bytes from the pieces, and
    /// requests further pieces.
    async fn read_small(&self, offset: u64, length: usize) -> Result<Bytes> {
        let Ok(mut ahead) = self.ahead.try_lock() else {
            return self.read_whole(offset, length).await; // many readers: not a sequence
        };
        ahead.last_read = Instant::now();
        let follows = offset == ahead.position;
        ahead.position = offset + length as u64;
        if !follows {
            ahead.pieces.clear();
            return self.read_whole(offset, length).await;
        }
        self.ask_ahead(&mut ahead, offset).await;
        match self.gathered(&mut ahead.pieces, offset, length).await {
            Some(bytes) => Ok(bytes),
            None => self.read_whole(offset, length).await,
        }
    }

    /// The range, gathered from the pieces. None if they lack some of it, as at the end of the file
    /// or after a short answer.
    async fn gathered(&self, pieces: &mut VecDeque<Piece>, offset: u64, length: usize) -> Option<Bytes> {
        let mut gathered = BytesMut::new();
        for piece in pieces {
            let content = self.arrived(piece).await?;
            let begin = usize::try_from(offset + gathered.len() as u64 - piece.offset).ok()?;
            let end = content.len().min(begin + length - gathered.len());
            let part = content.get(begin..end)?;
            if part.len() == length {
                return Some(content.slice(begin..end));
            }
            gathered.extend_from_slice(part);
            if gathered.len() == length {
                return Some(gathered.freeze());
            }
            if content.len() < AHEAD_BYTES {
                return None;
            }
        }
        None
    }

    /// Drops the pieces before `offset`, and requests the missing ones after it.
    async fn ask_ahead(&self, ahead: &mut Ahead, offset: u64) {
        let passed = |piece: &Piece| piece.offset + AHEAD_BYTES as u64 <= offset;
        while ahead.pieces.front().is_some_and(passed) {
            ahead.pieces.pop_front();
        }
        let mut next = ahead.pieces.back().map_or(offset, |piece| piece.offset + AHEAD_BYTES as u64);
        while ahead.pieces.len() <= AHEAD_READS && next < self.length {
            let Some(memory) = self.memory.reserve(AHEAD_BYTES as u64) else { return };
            let Ok(attached) = self.session.attached(Turn::Beside).await else { return };
            let handle = self.handle.load(Ordering::Relaxed);
            let Ok(request) = self.request(handle, next, AHEAD_BYTES) else { return };
            let sent = attached.connection.send::<methods::ReadRange>(&request.into(), AHEAD_BYTES).await;
            let Ok(answer) = sent else { return };
            let content = Content::UnderWay(answer);
            ahead.pieces.push_back(Piece { offset: next, content, _memory: memory });
            next += AHEAD_BYTES as u64;
        }
    }

    /// A piece's bytes. None if its request failed: then a direct read gets the bytes, or the error.
    async fn arrived(&self, piece: &mut Piece) -> Option<Bytes> {
        if let Content::Here(content) = &piece.content {
            return Some(content.clone());
        }
        let empty = Content::Here(Bytes::new());
        let Content::UnderWay(answer) = std::mem::replace(&mut piece.content, empty) else { return None };
        let reply = answer.receive().await.ok()?;
        let data = outcome::<methods::ReadRange>(reply, self.subject()).ok()?.data?;
        piece.content = Content::Here(data.clone());
        Some(data)
    }
}

async fn open(session: &Arc<Session>, path: &StorePath) -> Result<OpenFileReply> {
    let subject = Subject { operation: "open", path: path.as_str() };
    let request = OpenFileRequest { path: Some(path.as_str().to_owned()), ..Default::default() };
    session.ask::<methods::OpenFile>(subject, 0, || request.clone().into()).await
}

#[async_trait]
impl FileReader for Reader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if length > MAX_CHUNK_BYTES {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "one read may ask for at most 4 MiB; read in pieces",
            )
            .at("read", &self.path));
        }
        // No file extends beyond 2^63 - 1, and Thrift can't express such offsets.
        let beyond =
            i64::try_from(offset).ok().and_then(|offset| offset.checked_add(length as i64)).is_none();
        if length == 0 || beyond {
            return Ok(Bytes::new());
        }
        let limit = self.session.limit();
        if length < SMALL_READ_BYTES && !self.reads_as_asked.load(Ordering::Relaxed) {
            return self.session.by(limit, self.subject(), self.read_small(offset, length)).await?;
        }
        self.session.by(limit, self.subject(), self.read_whole(offset, length)).await?
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn identity(&self) -> Option<Bytes> {
        self.identity.clone()
    }

    async fn sequential(&self, offset: u64) -> Option<Box<dyn Read + Send + Sync>> {
        let handle = self.handle.load(Ordering::Relaxed);
        let lent = self.session.own_connection().await?;
        let ahead = ReadAhead::begin(lent, self.path.clone(), handle, offset..self.length).ok()?;
        Some(Box::new(ahead))
    }

    fn stop_reading_ahead(&self) {
        self.reads_as_asked.store(true, Ordering::Relaxed);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.session.release(self.handle.load(Ordering::Relaxed));
    }
}
