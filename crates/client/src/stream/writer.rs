//! A file as a stream to write.

use crate::{Error, ErrorKind, FileWriter};
use bytes::{Buf, Bytes, BytesMut};
use futures::future::{BoxFuture, FutureExt};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, io};
use tokio::io::AsyncWrite;

/// Bytes that the stream gathers for one append. A chunk of 1 MiB measured best for gateways.
const GATHERED_BYTES: usize = 1 << 20;

/// A file as a stream to write, at the file's end.
///
/// It gathers bytes, up to 1 MiB, and appends them to the file. Over a gateway, 16 MiB of appends are in flight.
/// An error of a write may therefore surface at a later one, and surfaces at `flush`, [`sync`](Self::sync) or
/// `shutdown` at the latest. If a write fails, the stream has accepted none of that write's bytes.
///
/// - `flush`: the bytes written so far are visible to readers who open the file afterwards. It waits for the
///   store. `tokio::io::copy` flushes whenever its source has no bytes at the moment; `tokio::io::copy_buf`
///   flushes only at the end.
/// - [`sync`](Self::sync): they are on stable storage.
/// - `shutdown`: they are on stable storage, and the file is closed. A second one does nothing.
///
/// A stream that is dropped without `shutdown` is abandoned: flushed bytes survive, and others may get lost.
///
/// After an error, a store may keep the file open for writing, as Kadoop after `StorageFull`
/// ([`FileWriter::goes_on`]). Then the stream keeps its bytes, and the next operation sends them again. After
/// other errors each further operation fails.
///
/// ```
/// # use std::sync::Arc;
/// # use strait_client::{CreateOptions, FileSystem, Principal, StorePath};
/// use strait_client::stream::Writer;
/// use tokio::io::AsyncWriteExt;
///
/// # async fn example(store: Arc<dyn FileSystem>, who: Principal, path: StorePath) -> std::io::Result<()> {
/// let mut writer = Writer::new(store.create(&who, &path, &CreateOptions::default()).await?);
/// writer.write_all(b"one line\n").await?;
/// writer.flush().await?;
/// writer.write_all(b"another line\n").await?;
/// writer.shutdown().await?;
/// # Ok(())
/// # }
/// ```
pub struct Writer {
    state: State,
    /// Empty if it isn't known.
    path: String,
    gathered: BytesMut,
    position: u64,
    replicas: Option<u32>,
}

enum State {
    Idle(Box<dyn FileWriter>),
    Busy(Step, BoxFuture<'static, Done>),
    Closed,
    /// The error for all further operations.
    Failed(Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Append,
    Flush,
    Sync,
    Close,
}

/// The file after an operation, with the bytes that it didn't accept.
struct Done {
    file: Box<dyn FileWriter>,
    refused: Bytes,
    outcome: strait_store::Result<Option<u32>>,
}

/// Appends the gathered bytes, and then takes the step.
async fn take_step(mut file: Box<dyn FileWriter>, mut gathered: Bytes, step: Step) -> Done {
    if !gathered.is_empty() {
        let before = file.position();
        let appended = file.append(gathered.clone()).await;
        // Of an append that failed, the file may have accepted a part.
        let accepted = appended.as_ref().map_or(file.position().saturating_sub(before), |()| u64::MAX);
        gathered.advance(accepted.min(gathered.len() as u64) as usize);
        if let Err(error) = appended {
            return Done { file, refused: gathered, outcome: Err(error) };
        }
    }
    let outcome = match step {
        Step::Append => Ok(None),
        Step::Flush => file.flush().await,
        Step::Sync => file.sync().await,
        Step::Close => file.close().await,
    };
    Done { file, refused: gathered, outcome }
}

impl Writer {
    /// A stream over a file that is open for writing.
    pub fn new(file: Box<dyn FileWriter>) -> Self {
        Self::named(file, "")
    }

    /// As [`Writer::new`]; the stream's own errors name `path`.
    pub fn named(file: Box<dyn FileWriter>, path: &str) -> Self {
        let (position, path) = (file.position(), path.to_owned());
        Self { state: State::Idle(file), path, gathered: BytesMut::new(), position, replicas: None }
    }

    /// The file's length in bytes with all bytes that were written to this stream.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number of replicas that certainly have all bytes, as of the latest flush, sync or shutdown. None if the
    /// store doesn't know it.
    pub fn replicas(&self) -> Option<u32> {
        self.replicas
    }

    /// Waits until all bytes written so far are on stable storage.
    ///
    /// # Errors
    /// Those of [`FileWriter::sync`], and of earlier writes.
    pub async fn sync(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_step(cx, Step::Sync)).await
    }

    /// Accepts as many bytes as there is room for now, without waiting: perhaps none. Returns their number.
    pub fn gather(&mut self, data: &[u8]) -> usize {
        if !matches!(self.state, State::Idle(_)) {
            return 0;
        }
        let bytes = data.len().min(GATHERED_BYTES.saturating_sub(self.gathered.len()));
        self.gathered.extend_from_slice(&data[..bytes]);
        self.position += bytes as u64;
        bytes
    }

    /// Takes a step, after the one that is under way. If that is the same one, it counts.
    fn poll_step(&mut self, cx: &mut Context<'_>, step: Step) -> Poll<io::Result<()>> {
        loop {
            if let Some(done) = ready!(self.poll_idle(cx))?
                && done == step
            {
                return Poll::Ready(Ok(()));
            }
            match std::mem::replace(&mut self.state, State::Closed) {
                State::Idle(file) => {
                    let gathered = self.gathered.split().freeze();
                    self.state = State::Busy(step, take_step(file, gathered, step).boxed());
                }
                // Closed: there is nothing left to do.
                state => {
                    self.state = state;
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Waits for the end of the step that is under way, and returns it. Fails if that step failed, or an earlier
    /// one ended the stream.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Step>>> {
        let (step, done) = match &mut self.state {
            State::Busy(step, work) => (*step, ready!(work.as_mut().poll(cx))),
            State::Failed(error) => return Poll::Ready(Err(error.again().into())),
            State::Idle(_) | State::Closed => return Poll::Ready(Ok(None)),
        };
        let Done { file, refused, outcome } = done;
        match outcome {
            Ok(replicas) => {
                self.state = if step == Step::Close { State::Closed } else { State::Idle(file) };
                if step != Step::Append {
                    self.replicas = replicas;
                }
                Poll::Ready(Ok(Some(step)))
            }
            Err(error) if file.goes_on() => {
                self.gathered = BytesMut::from(refused);
                self.state = State::Idle(file);
                Poll::Ready(Err(error.into()))
            }
            Err(error) => {
                let why = format!("an earlier operation failed: {}", error.message());
                let later = Error::new(error.kind(), why).at(error.operation(), error.path());
                self.state = State::Failed(later.with_retry_safe(false));
                Poll::Ready(Err(error.into()))
            }
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.gathered.len() >= GATHERED_BYTES {
            ready!(this.poll_step(cx, Step::Append))?;
        }
        ready!(this.poll_idle(cx))?;
        if matches!(this.state, State::Closed) {
            let why = "the file was closed; open it again to append";
            let error = Error::new(ErrorKind::InvalidArgument, why).at("write", &this.path);
            return Poll::Ready(Err(error.into()));
        }
        Poll::Ready(Ok(this.gather(data)))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_step(cx, Step::Flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_step(cx, Step::Close)
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("position", &self.position).finish_non_exhaustive()
    }
}
