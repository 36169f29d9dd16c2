//! A new object: parts of bounded size, and one request that makes it visible.

use crate::Bucket;
use crate::errors::{Sent, change, typed};
use crate::reservation::Reservation;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use object_store::path::Path;
use object_store::{MultipartUpload, PutMode, PutOptions, PutPayload, PutResult};
use std::sync::Arc;
use std::time::Duration;
use strait_store::budget::{Reserved, Share};
use strait_store::{Error, ErrorKind, FileWriter, MAX_CHUNK_BYTES, Result, fail};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Bytes of a part. S3 requires at least 5 MiB, except for the last part.
const PART_BYTES: usize = 8 << 20;
/// After this many parts, further ones have twice the size. So a file can have 148 GiB.
const SMALL_PARTS: usize = 1_000;
/// S3's limit on the parts of an object.
const MAX_PARTS: usize = 10_000;
/// Parts of one file that are sent at the same time.
const PARTS_ON_THEIR_WAY: usize = 4;
/// Longest wait of an append for memory that other files use.
const MEMORY_PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two checks for free memory.
const MEMORY_LOOK: Duration = Duration::from_millis(20);
/// Writers of the process that can continue without memory from the budget. Otherwise writers that all wait
/// could block each other forever. They exceed the budget by 4 parts at most.
static OVERDRAFT: Semaphore = Semaphore::const_new(4);

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
    memory: Arc<Share>,
    position: u64,
    /// The part that is being filled.
    filling: Vec<Bytes>,
    filled: usize,
    room: Vec<Reserved>,
    overdraft: Option<SemaphorePermit<'static>>,
    upload: Option<Box<dyn MultipartUpload>>,
    parts: usize,
    on_their_way: FuturesUnordered<JoinHandle<object_store::Result<()>>>,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Open,
    Failed,
    Closed,
}

impl Writer {
    /// A writer of a new object, which has no bytes yet.
    pub fn new(
        bucket: Arc<dyn Bucket>,
        key: Path,
        path: String,
        publish: Publish,
        memory: Arc<Share>,
    ) -> Self {
        Self {
            bucket,
            key,
            path,
            publish,
            memory,
            position: 0,
            filling: Vec::new(),
            filled: 0,
            room: Vec::new(),
            overdraft: None,
            upload: None,
            parts: 0,
            on_their_way: FuturesUnordered::new(),
            state: State::Open,
        }
    }

    fn part_bytes(&self) -> usize {
        if self.parts < SMALL_PARTS { PART_BYTES } else { 2 * PART_BYTES }
    }

    async fn take(&mut self, data: Bytes) -> Result<()> {
        self.find_room(data.len()).await?;
        self.filled += data.len();
        self.filling.push(data);
        while self.filled >= self.part_bytes() {
            self.send_part().await?;
        }
        Ok(())
    }

    /// Reserves memory for `bytes`, and waits for it if necessary.
    async fn find_room(&mut self, bytes: usize) -> Result<()> {
        let deadline = Instant::now() + MEMORY_PATIENCE;
        while self.overdraft.is_none() {
            if let Some(room) = self.memory.reserve(bytes as u64) {
                self.room.push(room);
                return Ok(());
            }
            if !self.on_their_way.is_empty() {
                self.part_arrived().await?;
                continue;
            }
            tokio::select! {
                permit = OVERDRAFT.acquire() => self.overdraft = permit.ok(),
                () = sleep_until((Instant::now() + MEMORY_LOOK).min(deadline)) => {}
            }
            if self.overdraft.is_none() && Instant::now() >= deadline {
                return fail(
                    ErrorKind::Busy,
                    "open files use up the memory for written bytes; close some, or retry",
                );
            }
        }
        Ok(())
    }

    /// Sends exactly one part. Its memory stays reserved until the part has arrived.
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
        let part = self.cut(self.part_bytes());
        let lent = (std::mem::take(&mut self.room), self.overdraft.take());
        if self.filled > 0 {
            // The remaining bytes are fewer than an append's, and need their own reservation.
            self.room.extend(self.memory.reserve(self.filled as u64));
        }
        let Some(upload) = self.upload.as_mut() else { return Ok(()) };
        let sending = upload.put_part(part);
        self.parts += 1;
        self.on_their_way.push(tokio::spawn(async move {
            let _lent = lent;
            sending.await
        }));
        Ok(())
    }

    /// Cuts off the first `length` of the collected bytes, or all.
    fn cut(&mut self, length: usize) -> PutPayload {
        let mut part = Vec::with_capacity(self.filling.len());
        let mut rest = length;
        let mut filling = std::mem::take(&mut self.filling).into_iter();
        for mut piece in filling.by_ref() {
            if piece.len() > rest {
                part.push(piece.split_to(rest));
                self.filling.push(piece);
                break;
            }
            rest -= piece.len();
            part.push(piece);
        }
        self.filling.extend(filling);
        let payload: PutPayload = part.into_iter().collect();
        self.filled -= payload.content_length();
        payload
    }

    async fn part_arrived(&mut self) -> Result<()> {
        match self.on_their_way.next().await {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(typed(error, Sent::Repeatable)),
            Some(Err(_)) => fail(ErrorKind::Internal, "a part's task ended early"),
        }
    }

    async fn publish(&mut self) -> Result<()> {
        if self.upload.is_none() {
            let all = self.cut(usize::MAX);
            let put = |mode| self.bucket.put_opts(&self.key, all, PutOptions::from(mode));
            return match self.publish.clone() {
                Publish::Replace => {
                    let put = put(PutMode::Overwrite).await;
                    put.map(drop).map_err(|error| typed(error, Sent::Repeatable))
                }
                Publish::Over(reserved) => change(None, put(reserved.mode())).await.map(drop),
            };
        }
        if self.filled > 0 {
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

    fn kept<T>(&mut self, result: Result<T>, operation: &'static str) -> Result<T> {
        if result.is_err() {
            self.state = State::Failed;
        }
        result.map_err(|error| error.at(operation, &self.path))
    }
}

#[async_trait]
impl FileWriter for Writer {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        self.check_open().map_err(|error| error.at("append", &self.path))?;
        if data.len() > MAX_CHUNK_BYTES {
            return fail(ErrorKind::InvalidArgument, "data has more than 4 MiB; append it in pieces")
                .map_err(|error: Error| error.at("append", &self.path));
        }
        if data.is_empty() {
            return Ok(());
        }
        let length = data.len() as u64;
        let taken = self.take(data).await;
        self.kept(taken, "append")?;
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
        let published = self.publish().await;
        self.kept(published, "close")?;
        self.state = State::Closed;
        self.room.clear();
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
