//! A new object: parts of bounded size, and one request that makes it visible.

use crate::Bucket;
use crate::errors::{Sent, change, typed};
use crate::part::Part;
use crate::reservation::Reservation;
use crate::room::Room;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use object_store::path::Path;
use object_store::{MultipartUpload, PutMode, PutOptions, PutResult};
use std::sync::Arc;
use std::time::Duration;
use strait_store::{Error, ErrorKind, FileWriter, Result, arguments, fail};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Bytes of a part. S3 requires at least 5 MiB, except for the last part.
const PART_BYTES: usize = 8 << 20;
/// After this many parts, further ones have twice the size. So a file can have 148 GiB.
const SMALL_PARTS: usize = 1_000;
/// S3's limit on the parts of an object.
pub const MAX_PARTS: usize = 10_000;
/// Parts of one file that are sent at the same time.
const PARTS_ON_THEIR_WAY: usize = 4;
/// Longest wait of an append for memory that other files use, if its part can't go to a temporary file, and
/// other parts use up the overdrafts.
const MEMORY_PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two checks for free memory.
const MEMORY_LOOK: Duration = Duration::from_millis(20);

/// How the object gets its name.
#[derive(Clone)]
pub enum Publish {
    /// It replaces any object that has the name by then.
    Replace,
    /// It replaces the empty object that reserved the name.
    Over(Reservation),
}

/// The writer of one object.
pub struct Writer {
    bucket: Arc<dyn Bucket>,
    key: Path,
    path: String,
    publish: Publish,
    room: Room,
    position: u64,
    /// The part that is being filled.
    part: Part,
    upload: Option<Box<dyn MultipartUpload>>,
    parts: usize,
    on_their_way: FuturesUnordered<JoinHandle<Arrival>>,
    /// Number of these parts that hold memory of the budget.
    lent: usize,
    state: State,
}

/// The end of a part's way.
struct Arrival {
    outcome: object_store::Result<()>,
    /// Whether the part held memory of the budget.
    was_lent: bool,
}

#[derive(PartialEq, Eq)]
enum State {
    Open,
    Failed,
    Closed,
}

impl Writer {
    /// A writer of a new object, which has no bytes yet.
    pub fn new(bucket: Arc<dyn Bucket>, key: Path, path: String, publish: Publish, room: Room) -> Self {
        Self {
            bucket,
            key,
            path,
            publish,
            room,
            position: 0,
            part: Part::default(),
            upload: None,
            parts: 0,
            on_their_way: FuturesUnordered::new(),
            lent: 0,
            state: State::Open,
        }
    }

    fn part_bytes(&self) -> usize {
        if self.parts < SMALL_PARTS { PART_BYTES } else { 2 * PART_BYTES }
    }

    async fn take(&mut self, mut data: Bytes) -> Result<()> {
        let deadline = Instant::now() + MEMORY_PATIENCE;
        while !data.is_empty() {
            let most = self.part_bytes();
            self.part.fill(&mut data, most, &self.room).await?;
            if self.part.len() == most {
                self.send_part().await?;
            } else if !data.is_empty() {
                self.find_room(deadline).await?;
            }
        }
        Ok(())
    }

    /// Makes room for more of the part, for which the budget has no memory: one of the file's own parts
    /// returns its memory, or this part goes to a temporary file.
    async fn find_room(&mut self, deadline: Instant) -> Result<()> {
        if self.lent > 0 {
            return self.part_arrived().await;
        }
        match self.room.file(self.part_bytes()).await {
            Ok(file) => self.part.move_to(file).await,
            Err(error) => {
                if let Some(overdraft) = self.room.turns().overdraft() {
                    self.part.overdraw(overdraft);
                    return Ok(());
                }
                if Instant::now() < deadline {
                    tracing::debug!(path = self.path, %error, "a part waits for memory");
                    sleep(MEMORY_LOOK).await;
                    return Ok(());
                }
                let why = error.message();
                let message = format!(
                    "open files use up the memory for written bytes; close some, and write the file again \
                     (instead of memory: {why})"
                );
                Err(Error::new(ErrorKind::Busy, message).with_retry_safe(false).caused_by(error))
            }
        }
    }

    /// Ends the writer after a failure, and returns the memory of its part.
    fn failed(&mut self, operation: &'static str, error: Error) -> Error {
        self.part = Part::default();
        error.at(operation, &self.path)
    }

    /// Sends the part. Its memory stays reserved until it has arrived.
    async fn send_part(&mut self) -> Result<()> {
        if self.parts == MAX_PARTS {
            return fail(ErrorKind::NoSpace, "the object is too large: the maximum is 148 GiB");
        }
        if self.on_their_way.len() >= PARTS_ON_THEIR_WAY {
            self.part_arrived().await?;
        }
        if self.upload.is_none() {
            let begun = self.bucket.put_multipart_opts(&self.key, Default::default()).await;
            self.upload = Some(begun.map_err(|error| typed(error, Sent::Repeatable))?);
        }
        let (body, memory) = std::mem::take(&mut self.part).load(self.room.turns()).await?;
        let Some(upload) = self.upload.as_mut() else { return Ok(()) };
        let sending = upload.put_part(body);
        self.parts += 1;
        let was_lent = memory.is_of_budget();
        self.lent += usize::from(was_lent);
        self.on_their_way.push(tokio::spawn(async move {
            let outcome = sending.await;
            // Now, since the writer's client may not call for long.
            drop(memory);
            Arrival { outcome, was_lent }
        }));
        Ok(())
    }

    async fn part_arrived(&mut self) -> Result<()> {
        match self.on_their_way.next().await {
            None => Ok(()),
            Some(Ok(Arrival { outcome, was_lent })) => {
                self.lent -= usize::from(was_lent);
                outcome.map_err(|error| typed(error, Sent::Repeatable))
            }
            Some(Err(_)) => fail(ErrorKind::Internal, "a part's task ended early"),
        }
    }

    async fn publish(&mut self) -> Result<()> {
        if self.upload.is_none() {
            let (all, _memory) = std::mem::take(&mut self.part).load(self.room.turns()).await?;
            let put = |mode| self.bucket.put_opts(&self.key, all, PutOptions::from(mode));
            return match self.publish.clone() {
                Publish::Replace => {
                    let put = put(PutMode::Overwrite).await;
                    put.map(drop).map_err(|error| typed(error, Sent::Repeatable))
                }
                Publish::Over(reserved) => change(None, put(reserved.mode())).await.map(drop),
            };
        }
        if self.part.len() > 0 {
            self.send_part().await?;
        }
        while !self.on_their_way.is_empty() {
            self.part_arrived().await?;
        }
        self.complete().await?;
        self.upload = None;
        Ok(())
    }

    /// Completes the upload, if the reserved name is still ours. `drop` aborts an upload that failed.
    async fn complete(&mut self) -> Result<PutResult> {
        let mut condition = None;
        if let Publish::Over(reserved) = &self.publish {
            // Not every endpoint accepts the condition of the request below, or respects it.
            reserved.check().await?;
            condition = reserved.condition();
        }
        let Some(upload) = self.upload.as_mut() else {
            return fail(ErrorKind::Internal, "the upload has ended already");
        };
        // A completion without a condition also fails when it is repeated, because the upload is gone.
        change(condition, upload.complete()).await
    }

    fn check_open(&self) -> Result<()> {
        match self.state {
            State::Open => Ok(()),
            State::Failed => fail(ErrorKind::InvalidArgument, "an earlier call failed; write the file again"),
            State::Closed => fail(ErrorKind::InvalidArgument, "the file is closed"),
        }
    }
}

#[async_trait]
impl FileWriter for Writer {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        self.check_open().map_err(|error| error.at("append", &self.path))?;
        arguments::check_append(&data).map_err(|error| error.at("append", &self.path))?;
        if data.is_empty() {
            return Ok(());
        }
        let length = data.len() as u64;
        // Also if the caller leaves, since some of the bytes may be taken.
        self.state = State::Failed;
        self.take(data).await.map_err(|error| self.failed("append", error))?;
        self.state = State::Open;
        self.position += length;
        Ok(())
    }

    /// Guarantees nothing: an object has no bytes before its writer closes it.
    async fn flush(&mut self) -> Result<Option<u32>> {
        self.check_open().map_err(|error| error.at("flush", &self.path))?;
        Ok(None)
    }

    /// As [`Self::flush`].
    async fn sync(&mut self) -> Result<Option<u32>> {
        self.check_open().map_err(|error| error.at("sync", &self.path))?;
        Ok(None)
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        if self.state == State::Closed {
            return Ok(None);
        }
        self.check_open().map_err(|error| error.at("close", &self.path))?;
        self.state = State::Failed;
        self.publish().await.map_err(|error| self.failed("close", error))?;
        self.state = State::Closed;
        Ok(None)
    }

    fn position(&self) -> u64 {
        self.position
    }
}

impl Drop for Writer {
    /// An abandoned object never becomes visible. This removes its parts and frees its reserved name.
    fn drop(&mut self) {
        if self.state == State::Closed {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let upload = self.upload.take();
        let on_their_way = std::mem::take(&mut self.on_their_way);
        let publish = self.publish.clone();
        runtime.spawn(async move {
            let _: Vec<_> = on_their_way.collect().await;
            if let Some(mut upload) = upload {
                let _ = upload.abort().await;
            }
            if let Publish::Over(reserved) = publish {
                reserved.release().await;
            }
        });
    }
}
