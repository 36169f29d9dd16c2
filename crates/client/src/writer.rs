//! The only writer of a file on a gateway. It pipelines appends. If one fails, a later call reports that:
//! flush or close at the latest.

use super::attached::Attached;
use super::connection::{Answer, Broken};
use super::convert;
use super::lanes::Turn;
use super::session::{Mutation, Retries, Session, Subject, outcome, unknown};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use strait_store::work::Work;
use strait_store::{Error, ErrorKind, FileWriter, MAX_CHUNK_BYTES, Result, StorePath, fail};
use strait_wire::{
    AppendDataRequest, CloseFileRequest, FlushFileRequest, FlushMode, OpenWriterReply, methods,
};
use tokio::time::sleep;

/// Unacknowledged bytes of a file. The writer keeps them to send them again after a broken
/// connection.
const WINDOW_BYTES: usize = 16 << 20;
/// Unacknowledged appends of a file, of any size.
const WINDOW_APPENDS: usize = 64;

/// An open file: see [`FileWriter`].
pub(super) struct Writer {
    session: Arc<Session>,
    path: StorePath,
    handle: i64,
    /// The session's incarnation when the file was opened.
    incarnation: i64,
    position: u64,
    under_way: VecDeque<Append>,
    /// The connection of the unacknowledged appends, which keeps them in order. None if there are
    /// no such appends, so that the writer no longer occupies it.
    lane: Option<Attached>,
    under_way_bytes: usize,
    /// The failure that ended this writer.
    failed: Option<(ErrorKind, String)>,
    closed: bool,
}

/// One unacknowledged append.
struct Append {
    mutation: Mutation,
    offset: u64,
    data: Bytes,
    /// None if it has to be sent (again).
    answer: Option<Answer<methods::AppendData>>,
    /// Whether the gateway may have got it.
    was_sent: bool,
}

impl Writer {
    /// `incarnation` is the session's, taken before the file was opened.
    pub(super) fn new(
        session: Arc<Session>,
        path: &StorePath,
        incarnation: i64,
        opened: OpenWriterReply,
    ) -> Result<Self> {
        Ok(Self {
            handle: convert::present(opened.handle, "handle")?,
            position: convert::unsigned(opened.position, "position")?,
            incarnation,
            lane: None,
            session,
            path: path.clone(),
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            failed: None,
            closed: false,
        })
    }

    fn check_usable(&self) -> Result<()> {
        match &self.failed {
            Some((kind, message)) => fail(*kind, format!("an earlier write failed: {message}"))
                .map_err(|error: Error| error.at("append to", &self.path)),
            None => Ok(()),
        }
    }

    /// Sends one append as soon as the window has room for it.
    async fn push(&mut self, data: Bytes) -> Result<()> {
        while self.under_way.len() >= WINDOW_APPENDS
            || (!self.under_way.is_empty() && self.under_way_bytes + data.len() > WINDOW_BYTES)
        {
            self.settle_oldest().await?;
        }
        let mut append =
            Append { mutation: Mutation::new()?, offset: self.position, data, answer: None, was_sent: false };
        // If earlier appends couldn't be sent, this one is sent later, after them.
        let in_order = self.under_way.back().is_none_or(|last| last.answer.is_some());
        if in_order && let Some(lane) = self.lane().await {
            append.send(&lane.connection, self.handle).await;
        }
        self.position += append.data.len() as u64;
        self.under_way_bytes += append.data.len();
        self.under_way.push_back(append);
        Ok(())
    }

    /// The connection for the next append; none while the gateway is away. Only the first unacknowledged
    /// append tries to reach the gateway again. [`Self::settle_oldest`] sends the later ones after it.
    async fn lane(&mut self) -> Option<Attached> {
        if self.under_way.is_empty() {
            self.lane = None;
            self.lane = self.session.attached(Turn::InOrder).await.ok();
        }
        self.lane.clone()
    }

    /// Waits until the oldest append is acknowledged. After a broken connection it first repeats only that one:
    /// each connection that breaks then acknowledges one at least. The others follow when it succeeded.
    async fn settle_oldest(&mut self) -> Result<()> {
        let path = self.path.clone();
        let subject = Subject { operation: "append to", path: path.as_str() };
        let mut retries = Retries::default();
        while let Some(oldest) = self.under_way.front_mut() {
            let answered = match oldest.answer.take() {
                Some(answer) => answer.receive().await,
                None => Err(Broken::before_sending()),
            };
            let broken = match answered {
                Ok(reply) => {
                    let expected = oldest.offset + oldest.data.len() as u64;
                    let accepted = outcome::<methods::AppendData>(reply, subject).and_then(|reply| {
                        match convert::unsigned(reply.position, "position")? {
                            position if position == expected => Ok(()),
                            position => fail(
                                ErrorKind::Internal,
                                format!("the file has {position} bytes instead of {expected}"),
                            ),
                        }
                    });
                    if let Err(error) = accepted {
                        let error = self.fail(error, subject);
                        self.failed.is_none().then(|| self.renew_appends()).transpose()?;
                        return Err(error);
                    }
                    self.under_way_bytes -= oldest.data.len();
                    self.under_way.pop_front();
                    self.send_unsent().await;
                    return Ok(());
                }
                Err(broken) => broken,
            };
            // Set before the pause, so that the next send is marked as a repetition even if the caller
            // cancels this wait.
            oldest.mutation.is_retry = true;
            let delay = if broken.is_silence() { None } else { retries.next(&self.session) };
            let Some(delay) = delay else {
                let lost = self.session.lost(&broken, subject);
                let was_sent = self.under_way.iter().any(|append| append.was_sent);
                return Err(self.fail(if was_sent { unknown(lost, subject) } else { lost }, subject));
            };
            sleep(delay).await;
            self.send_again().await.map_err(|error| self.fail(error, subject))?;
        }
        Ok(())
    }

    /// Sends the oldest append on a new connection.
    async fn send_again(&mut self) -> Result<()> {
        self.lane = None;
        let lane = match self.session.attached(Turn::InOrder).await {
            Ok(lane) => lane,
            Err(error) if error.kind() == ErrorKind::Unavailable => return Ok(()), // left to the next attempt
            Err(error) => return Err(error),
        };
        // Those after it were lost with the connection.
        self.under_way.iter_mut().for_each(|append| append.answer = None);
        if let Some(oldest) = self.under_way.front_mut() {
            oldest.send(&lane.connection, self.handle).await;
        }
        self.lane = Some(lane);
        Ok(())
    }

    /// Sends all appends, if the oldest wasn't sent.
    async fn send_unsent(&mut self) {
        let unsent = self.under_way.front().is_some_and(|oldest| oldest.answer.is_none());
        if let Some(lane) = self.lane.clone().filter(|_| unsent) {
            for append in &mut self.under_way {
                append.send(&lane.connection, self.handle).await;
            }
        }
    }

    /// Gives all unacknowledged appends new request ids, to be sent when the caller tries again. The gateway
    /// refused the oldest, and therefore also those after it.
    fn renew_appends(&mut self) -> Result<()> {
        for append in &mut self.under_way {
            (append.mutation, append.answer) = (Mutation::new()?, None);
            // The gateway may have accepted one that was in flight nevertheless.
            append.mutation.is_retry = true;
        }
        Ok(())
    }

    /// Ends this writer, unless a later attempt may succeed. If the session has ended, or a new one without
    /// the handle has replaced it, it is unknown whether the gateway wrote the unflushed bytes.
    fn fail(&mut self, error: Error, subject: Subject<'_>) -> Error {
        let lost = match error.kind() {
            ErrorKind::Unauthenticated => true,
            ErrorKind::InvalidArgument => self.session.incarnation() != self.incarnation,
            _ => false,
        };
        let error = if lost { unknown(restarted(error), subject) } else { error };
        if matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Unavailable) {
            return error.at(subject.operation, subject.path);
        }
        self.failed = Some((error.kind(), error.message().to_owned()));
        error.at(subject.operation, subject.path)
    }

    async fn settle(&mut self) -> Result<()> {
        self.check_usable()?;
        while !self.under_way.is_empty() {
            self.settle_oldest().await?;
        }
        self.lane = None;
        Ok(())
    }

    async fn push_all(&mut self, mut data: Bytes) -> Result<()> {
        let most = match self.lane().await {
            Some(lane) => lane.max_chunk_bytes,
            None => MAX_CHUNK_BYTES, // the gateway is away: `settle` sends it later
        };
        while !data.is_empty() {
            self.push(data.split_to(data.len().min(most))).await?;
        }
        Ok(())
    }

    async fn flush_as(&mut self, mode: FlushMode, operation: &'static str) -> Result<Option<u32>> {
        let (session, path) = (self.session.clone(), self.path.clone());
        let subject = Subject { operation, path: path.as_str() };
        let flushed = own_time(self.flush_now(mode, subject));
        let flushed = session.by(session.limit(), subject, flushed).await;
        flushed.unwrap_or_else(|late| Err(self.too_late(late, subject)))
    }

    async fn flush_now(&mut self, mode: FlushMode, subject: Subject<'_>) -> Result<Option<u32>> {
        self.settle().await?;
        let request = FlushFileRequest { handle: Some(self.handle), mode: Some(mode), ..Default::default() };
        let flushed = self.session.ask::<methods::FlushFile>(subject, 0, || request.clone().into()).await;
        Ok(count(flushed.map_err(|error| self.fail(error, subject))?.replicas))
    }

    async fn close_now(&mut self, subject: Subject<'_>) -> Result<Option<u32>> {
        self.settle().await?;
        let handle = self.handle;
        let closed = self.session.change::<methods::CloseFile>(subject, |mutation| {
            let request = CloseFileRequest {
                request_id: mutation.id(),
                is_retry: mutation.is_retry(),
                handle: Some(handle),
                ..Default::default()
            };
            request.into()
        });
        let closed = closed.await.map_err(|error| self.fail(error, subject))?;
        self.closed = true;
        match closed.length {
            Some(length) if length >= 0 && length as u64 != self.position => {
                let message = format!("the file has {length} bytes instead of {}", self.position);
                fail(ErrorKind::Internal, message).map_err(|error: Error| error.at("close", &self.path))
            }
            _ => Ok(count(closed.replicas)),
        }
    }

    /// Ends this writer after an operation that exceeded its time limit: nobody waits for its appends any more.
    fn too_late(&mut self, late: Error, subject: Subject<'_>) -> Error {
        if self.under_way.is_empty() {
            return self.fail(late, subject);
        }
        match self.under_way.iter().any(|append| append.was_sent) {
            true => self.fail(unknown(late, subject), subject),
            // None was sent, so a later attempt may succeed.
            false => late.at(subject.operation, subject.path),
        }
    }
}

/// Runs a writer's operation without the deadline of the call that it serves: cut in the middle, it would leave
/// a writer that can't be used any more, although the gateway finishes the operation.
async fn own_time<F: Future>(operation: F) -> F::Output {
    Work::scope(None, operation).await
}

/// A number of replicas, if the gateway reports one.
fn count(replicas: Option<i32>) -> Option<u32> {
    replicas.and_then(|replicas| u32::try_from(replicas).ok())
}

/// The error for a handle that the gateway no longer knows, in place of the gateway's message.
fn restarted(cause: Error) -> Error {
    let message = "the gateway was restarted in the middle of the file, or ended the session; \
                   the file must be written again";
    Error::new(ErrorKind::Unavailable, message).caused_by(cause)
}

impl Append {
    /// Queues the append for sending. If that fails, it has to be sent again.
    async fn send(&mut self, connection: &super::connection::Connection, handle: i64) {
        let request = AppendDataRequest {
            request_id: self.mutation.id(),
            is_retry: self.mutation.is_retry(),
            handle: Some(handle),
            expected_offset: i64::try_from(self.offset).ok(),
            data: Some(self.data.clone()),
            ..Default::default()
        };
        self.answer = connection.send(&request.into(), self.data.len()).await.ok();
        self.was_sent |= self.answer.is_some();
        // From now on, every further send is a repetition.
        self.mutation.is_retry = true;
    }
}

#[async_trait]
impl FileWriter for Writer {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        self.check_usable()?;
        if data.len() > MAX_CHUNK_BYTES {
            return fail(ErrorKind::InvalidArgument, "data has more than 4 MiB; append it in pieces")
                .map_err(|error: Error| error.at("append to", &self.path));
        }
        let (session, path) = (self.session.clone(), self.path.clone());
        let subject = Subject { operation: "append to", path: path.as_str() };
        let pushed = session.by(session.limit(), subject, self.push_all(data)).await;
        pushed.unwrap_or_else(|late| Err(self.too_late(late, subject)))
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        self.flush_as(FlushMode::Flush, "flush").await
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        self.flush_as(FlushMode::Sync, "sync").await
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        if self.closed {
            return Ok(None);
        }
        let (session, path) = (self.session.clone(), self.path.clone());
        let subject = Subject { operation: "close", path: path.as_str() };
        let closed = own_time(self.close_now(subject));
        let closed = session.by(session.limit(), subject, closed).await;
        // The gateway may have closed the file.
        closed.unwrap_or_else(|late| Err(self.fail(unknown(late, subject), subject)))
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn goes_on(&self) -> bool {
        !self.closed && self.failed.is_none()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.closed {
            self.session.release(self.handle);
        }
    }
}
