//! A file's only writer.

use super::Shared;
use super::errors::from_kadoop;
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use strait_kadoop_client::Writer;
use strait_kadoop_wire::Failure;
use strait_store::StorePath;
use strait_store::{Error, FileWriter, arguments};
use strait_store::{ErrorKind, Result, fail};
use tokio::runtime::Handle;

/// Longest append that runs on the caller's own thread. Copying so few bytes takes less time than the
/// switch to another thread.
const FEW_BYTES: usize = 64 << 10;

/// Writes a file through the library.
pub(super) struct KadoopWriter {
    /// None while an operation uses it. It stays None if the caller drops the operation's future.
    open: Option<Open>,
    shared: Arc<Shared>,
    path: StorePath,
    position: u64,
    closed: bool,
}

/// The library's writer. Its drop closes the file in the background. Otherwise this process would renew
/// the file's lease for as long as it runs.
struct Open {
    /// None once it is closed.
    writer: Option<Writer>,
    /// Whether its last operation failed. Then a close would likely fail too, but only after 45 s.
    failed: bool,
    shared: Arc<Shared>,
    path: StorePath,
    runtime: Handle,
}

impl KadoopWriter {
    /// A writer for a file that was just opened. Call it on a tokio runtime.
    pub(super) fn new(writer: Writer, shared: Arc<Shared>, path: StorePath) -> Self {
        let position = writer.length();
        let open = Open {
            writer: Some(writer),
            failed: false,
            shared: Arc::clone(&shared),
            path: path.clone(),
            runtime: Handle::current(),
        };
        Self { open: Some(open), shared, path, position, closed: false }
    }

    /// Runs `work` on the library's writer.
    async fn with(
        &mut self,
        operation: &'static str,
        work: impl FnOnce(&mut Writer) -> std::result::Result<Option<usize>, Failure> + Send + 'static,
    ) -> Result<Option<u32>> {
        let open = self.open.take();
        let done = self.shared.calls.run(move || {
            let Some(mut open) = open else { return lost() };
            let Some(writer) = &mut open.writer else { return lost() };
            let done = work(writer);
            open.failed = done.is_err();
            Ok((open, done))
        });
        let failed = |error: Error| error.at(operation, &self.path);
        let (open, done) = done.await.map_err(failed)?;
        self.position = open.writer.as_ref().map_or(self.position, Writer::length);
        self.open = Some(open);
        let replicas = done.map_err(|failure| failed(from_kadoop(failure)))?;
        Ok(replicas.and_then(|replicas| u32::try_from(replicas).ok()))
    }
}

impl KadoopWriter {
    /// Appends a few bytes on this thread, as far as the library accepts them at once. Returns whether it
    /// has accepted all of them.
    fn append_now(&mut self, data: &mut Bytes) -> Result<bool> {
        let Some(Open { writer: Some(writer), failed, .. }) = &mut self.open else { return Ok(false) };
        if data.len() > FEW_BYTES {
            return Ok(false);
        }
        let done = writer.write_now(data);
        *failed |= done.is_err();
        self.position = writer.length();
        done.map_err(|failure| from_kadoop(failure).at("append", &self.path))
    }
}

fn lost<T>() -> Result<T> {
    fail(ErrorKind::InvalidArgument, "the writer is closed")
}

#[async_trait]
impl FileWriter for KadoopWriter {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        arguments::check_append(&data).map_err(|error| error.at("append", &self.path))?;
        if data.is_empty() {
            return Ok(());
        }
        let mut data = data;
        if self.append_now(&mut data)? {
            return Ok(());
        }
        self.with("append", move |writer| writer.write(data).map(|()| None)).await?;
        Ok(())
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        self.with("flush", Writer::flush).await
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        self.with("sync", Writer::sync).await
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        if self.closed {
            return Ok(None);
        }
        let replicas = self.with("close", Writer::close).await?;
        self.closed = true;
        // A closed writer has no further use.
        if let Some(open) = &mut self.open {
            open.writer = None;
        }
        Ok(replicas)
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn goes_on(&self) -> bool {
        self.open.as_ref().and_then(|open| open.writer.as_ref()).is_some_and(Writer::goes_on)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        if self.failed {
            // The writer's drop gives up the lease. Recovery then keeps the flushed bytes.
            return drop(writer);
        }
        let closing = self.shared.closings.begin();
        let path = self.path.clone();
        self.runtime.spawn(async move {
            let Some(turn) = closing.turn().await else {
                tracing::warn!(%path, "can't close an abandoned file in time; recovery will close it");
                return drop(writer);
            };
            tokio::task::spawn_blocking(move || {
                // A close keeps the flushed bytes, and perhaps later ones.
                if let Err(failure) = writer.close() {
                    tracing::warn!(%path, %failure, "can't close an abandoned file; recovery will close it");
                }
                drop((turn, closing));
            });
        });
    }
}
