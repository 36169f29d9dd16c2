//! The trait's writer: cuts the application's bytes, and waits for acknowledgements.

use super::super::datanode::Datanodes;
use super::super::errors::closed_writer;
use super::super::recovery::Recoveries;
use super::super::wire::ExtendedBlock;
use super::abandoned;
use super::cutter::{Cutter, Piece, Sizes};
use super::line::Line;
use super::open_file::{OpenFile, Opened};
use super::queue::Packet;
use super::settings::Settings;
use super::streamer::Streamer;
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use strait_store::Result;
use strait_store::budget::{Reserved, Share};
use strait_store::{FileWriter, arguments};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Data bytes of a packet that collects small appends. Java's packets have 64,512. With 64 KiB, whole chunks
/// of a gateway's clients need no copy.
const PACKET_BYTES: usize = 64 << 10;
/// Data bytes of a packet that is a part of a large append. Fewer packets mean fewer acknowledgements,
/// each of which wakes every datanode and the client. A datanode needs memory for one packet of each writer.
const MOST_PACKET_BYTES: usize = 256 << 10;

/// Time limit for closing a dropped writer's file normally, since its pipeline usually works. After that, the
/// namenode closes the file.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// The context of a store that writers need.
#[derive(Debug, Clone)]
pub struct Context {
    pub datanodes: Arc<Datanodes>,
    pub settings: Arc<Settings>,
    pub recoveries: Arc<Recoveries>,
}

/// Writes one file.
pub struct DatanodesWriter {
    /// None once it is closed.
    open: Option<Open>,
    path: String,
    position: u64,
    context: Context,
    runtime: Handle,
}

/// The parts that are still to be closed when the writer is dropped.
struct Open {
    file: Arc<OpenFile>,
    line: Arc<Line>,
    cutter: Cutter,
    streamer: JoinHandle<()>,
    /// The file's last block when it was opened.
    previous: Option<ExtendedBlock>,
    /// Positions up to which the file is flushed, and synced.
    flushed: u64,
    synced: u64,
    report_patience: Duration,
    memory: Arc<Share>,
    /// Memory of the bytes that no packet has yet.
    pending: Option<Reserved>,
}

impl DatanodesWriter {
    /// A writer for a file that was just opened.
    pub fn new(context: Context, opened: Opened, memory: Arc<Share>) -> Self {
        let Opened { file, status, partial, full } = opened;
        let settings = &context.settings;
        let block_bytes = status.block_size.unwrap_or(settings.block_size).max(1);
        let sizes = Sizes {
            block_bytes,
            packet_bytes: PACKET_BYTES,
            most_packet_bytes: MOST_PACKET_BYTES,
            checksum: settings.checksum.clone(),
        };
        let offset = partial.as_ref().map_or(0, |last| last.block.num_bytes);
        let (path, file) = (file.path.clone(), Arc::new(file));
        let line = Arc::new(Line::default());
        let previous = partial.as_ref().map(|last| last.block.clone()).or_else(|| full.clone());
        let streamer = Streamer {
            file: Arc::clone(&file),
            line: Arc::clone(&line),
            datanodes: Arc::clone(&context.datanodes),
            settings: Arc::clone(settings),
            replication: status.replication.unwrap_or(settings.replication) as usize,
            block_bytes,
            previous: full,
            appended: partial,
            excluded: Vec::new(),
        };
        let runtime = Handle::current();
        let open = Open {
            file,
            line,
            cutter: Cutter::new(sizes, offset),
            streamer: runtime.spawn(streamer.run()),
            previous,
            flushed: status.length,
            // The writer of the last block may not have synced it, so the block counts as not synced.
            synced: status.length.saturating_sub(offset),
            report_patience: settings.report_patience,
            memory,
            pending: None,
        };
        Self { open: Some(open), path, position: status.length, context, runtime }
    }

    /// Closes the file unchanged, so that the caller can write it in another way.
    pub async fn close_unchanged(mut self) -> Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        // On failure, `open` keeps its value, so the drop abandons the file.
        open.file.complete(open.previous.clone(), open.report_patience).await?;
        self.open = None;
        Ok(())
    }
}

impl Open {
    /// Accepts all of `data`. Returns whether it could reserve memory for the bytes. If not, the caller has
    /// to wait until the datanodes have them.
    fn accept(&mut self, mut data: Bytes) -> bool {
        let memory = self.memory.reserve(data.len() as u64).map(Arc::new);
        while !data.is_empty() {
            if let Some(piece) = self.cutter.push(&mut data) {
                self.line.push(Packet::of(piece, false, memory.clone()));
                if self.cutter.is_full() {
                    self.end_block();
                }
            }
        }
        self.pending = None;
        self.pending = self.memory.reserve(self.cutter.unsent() as u64);
        let has_memory = memory.is_some() && self.pending.is_some();
        if !has_memory {
            self.send_pending(false);
        }
        has_memory
    }

    /// Sends the bytes that no packet has yet. Returns whether there were any.
    fn send_pending(&mut self, sync: bool) -> bool {
        let piece = self.cutter.flush();
        let memory = self.pending.take().map(Arc::new);
        piece.map(|piece| self.line.push(Packet::of(piece, sync, memory))).is_some()
    }

    fn end_block(&mut self) {
        self.line.push(Packet::end_of_block(self.cutter.end()));
        self.cutter.next_block();
    }

    /// Sends all bytes, and waits until the pipeline has them.
    async fn flush(&mut self, sync: bool) -> Result<()> {
        self.line.check()?;
        if !self.send_pending(sync) && sync && self.cutter.end() > 0 {
            self.line.push(Packet::of(Piece::empty(self.cutter.end()), true, None));
        }
        self.line.all_acked().await?;
        if let Some(pipelines) = self.line.mark_flushed() {
            let length = self.line.block().map(|block| block.num_bytes);
            self.file.fsync(length).await?;
            // Only now, so that the next flush repeats the call if it fails or its caller leaves.
            self.line.recorded(pipelines);
        }
        Ok(())
    }

    /// Sends all bytes, ends the last block, and closes the file.
    async fn close(&mut self) -> Result<()> {
        self.line.check()?;
        self.send_pending(false);
        if self.cutter.end() > 0 {
            self.end_block();
        }
        self.line.all_acked().await?;
        let last = self.line.block().or_else(|| self.previous.clone());
        self.file.complete(last, self.report_patience).await
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streamer.abort();
    }
}

/// Closes the file of a dropped writer. If that fails, or takes too long, makes the namenode close it.
async fn close_abandoned(mut open: Open, recoveries: Arc<Recoveries>) {
    let path = open.file.path.clone();
    match timeout(CLOSE_PATIENCE, open.close()).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => tracing::debug!(path, %error, "an abandoned file couldn't be closed normally"),
        Err(_) => tracing::debug!(path, "an abandoned file wasn't closed in time"),
    }
    // A recovery may take long, but needs only the file's lease. So this drops the bytes.
    let file = Arc::clone(&open.file);
    drop(open);
    recoveries.until_recovered(&path, || abandoned::recover(&file)).await;
}

#[async_trait]
impl FileWriter for DatanodesWriter {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        arguments::check_append(&data).map_err(|error| error.at("append", &self.path))?;
        let Some(open) = &mut self.open else { return closed_writer("append", &self.path) };
        let length = data.len() as u64;
        let appended = async {
            open.line.room().await?;
            // From here on the bytes are accepted, even if the caller stops waiting.
            self.position += length;
            match open.accept(data) {
                true => open.line.check(),
                false => open.line.all_acked().await,
            }
        };
        appended.await.map_err(|error| error.at("append", &self.path))
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        let Some(open) = &mut self.open else { return closed_writer("flush", &self.path) };
        if open.flushed < self.position {
            open.flush(false).await.map_err(|error| error.at("flush", &self.path))?;
            open.flushed = self.position;
        }
        Ok(None)
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        let Some(open) = &mut self.open else { return closed_writer("sync", &self.path) };
        if open.synced < self.position {
            open.flush(true).await.map_err(|error| error.at("sync", &self.path))?;
            (open.flushed, open.synced) = (self.position, self.position);
        }
        Ok(None)
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        let Some(open) = &mut self.open else { return Ok(None) };
        // On failure, `open` keeps its value, so the drop abandons the file.
        open.close().await.map_err(|error| error.at("close", &self.path))?;
        self.open = None;
        Ok(None)
    }

    fn position(&self) -> u64 {
        self.position
    }
}

impl Drop for DatanodesWriter {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let (user, path) = (open.file.holder.user().to_owned(), open.file.path.clone());
            let recoveries = &self.context.recoveries;
            recoveries.run(user, path, close_abandoned(open, Arc::clone(recoveries)), &self.runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::HadoopConfig;
    use super::super::super::namenode::Namenode;
    use super::super::super::wire::{GetBlockLocationsResponse, LocatedBlock, LocatedBlocks, ServerDefaults};
    use super::super::fake::{self, Answer};
    use super::super::holders::Holders;
    use super::super::wire::{
        AddBlockRequest, AppendResponse, CompleteRequest, DoneResponse, HdfsFileStatus,
    };
    use super::*;
    use prost::Message;
    use std::sync::atomic::{AtomicBool, Ordering};
    use strait_store::budget::Pool;
    use strait_store::{ErrorKind, Principal};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    /// A writer that appends to a file whose last block is full, and further calls to the namenode. The
    /// namenode refuses the first one, and every new block.
    async fn writer() -> (DatanodesWriter, UnboundedReceiver<(String, Option<ExtendedBlock>)>) {
        let (sender, calls) = unbounded_channel();
        let is_first = AtomicBool::new(true);
        let length = FULL.num_bytes;
        let status = HdfsFileStatus {
            length,
            block_size: Some(length),
            file_id: Some(1),
            ..HdfsFileStatus::default()
        };
        let address = fake::namenode(move |method, request| {
            let last = match method {
                "append" => {
                    // It names the last block only if that has room.
                    return Answer::of(&AppendResponse { block: None, status: Some(status.clone()) });
                }
                "getBlockLocations" => {
                    let last_block = Some(LocatedBlock { block: FULL, ..LocatedBlock::default() });
                    let locations = Some(LocatedBlocks { last_block, ..LocatedBlocks::default() });
                    return Answer::of(&GetBlockLocationsResponse { locations });
                }
                "addBlock" => AddBlockRequest::decode(request).unwrap().previous,
                _ => CompleteRequest::decode(request).unwrap().last,
            };
            sender.send((method.to_owned(), last)).unwrap();
            match is_first.swap(false, Ordering::Relaxed) || method == "addBlock" {
                true => Answer::failure("not now"),
                false => Answer::of(&DoneResponse { done: true }),
            }
        })
        .await;
        let defaults = ServerDefaults { bytes_per_checksum: 512, ..ServerDefaults::default() };
        let context = Context {
            datanodes: Arc::new(Datanodes::new(false)),
            settings: Arc::new(Settings::new(&HadoopConfig::default(), &defaults).unwrap()),
            recoveries: Arc::default(),
        };
        let holder =
            Holders::default().get(&Arc::new(Namenode::new(vec![address])), &Principal::new("alice"));
        let opened = OpenFile::append(&holder, "/f").await.unwrap();
        (DatanodesWriter::new(context, opened, Pool::of_process().share("alice")), calls)
    }

    const FULL: ExtendedBlock =
        ExtendedBlock { pool_id: String::new(), block_id: 7, generation_stamp: 1, num_bytes: 512 };

    #[tokio::test]
    async fn a_failed_close_can_be_repeated() {
        let (mut writer, mut calls) = writer().await;
        writer.close().await.unwrap_err();
        writer.close().await.unwrap();
        for _ in 0..2 {
            // The namenode recognises a file that is closed already by its last block.
            assert_eq!(calls.recv().await.unwrap(), ("complete".to_owned(), Some(FULL)));
        }
    }

    #[tokio::test]
    async fn a_writer_does_not_wait_for_a_streamer_that_is_gone() {
        let (mut writer, _calls) = writer().await;
        // As after a panic.
        writer.open.as_ref().unwrap().streamer.abort();
        writer.append(Bytes::from_static(b"x")).await.unwrap();
        let flushed = timeout(Duration::from_secs(10), writer.flush()).await.expect("it would wait for ever");
        assert_eq!(flushed.unwrap_err().kind(), ErrorKind::Internal);
    }

    #[tokio::test]
    async fn a_new_block_comes_after_the_full_one() {
        let (mut writer, mut calls) = writer().await;
        writer.append(Bytes::from_static(b"x")).await.unwrap();
        writer.flush().await.unwrap_err();
        // Without the last block, the namenode would refuse a call that it gets twice.
        assert_eq!(calls.recv().await.unwrap(), ("addBlock".to_owned(), Some(FULL)));
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_left_to_another_way_is_abandoned() {
        let (writer, mut calls) = writer().await;
        writer.close_unchanged().await.unwrap_err();
        for _ in 0..2 {
            let call = timeout(Duration::from_secs(10), calls.recv()).await.expect("the file stays open");
            assert_eq!(call.unwrap(), ("complete".to_owned(), Some(FULL)));
        }
    }
}
