//! Copies bytes between a store and this host. Both sides overlap, in bounded memory.

use crate::failure::Failure;
use crate::progress::Progress;
use bytes::Bytes;
use futures::StreamExt;
use std::io::{self, Read, Write};
use std::ops::Range;
use strait_store::{Error, ErrorKind, FileReader, FileWriter};
use tokio::sync::mpsc;

/// Bytes of one read or append: large beside a round trip, and small enough for several in memory.
const CHUNK_BYTES: usize = 1 << 20;
/// Reads of one file in flight, as many as our clients have. More than twice the bytes in flight at
/// 1 Gbit/s and 50 ms of round trip, so that a pause doesn't idle the link.
const READS_IN_FLIGHT: usize = 16;
/// Chunks between the reading and the writing side.
const QUEUED_CHUNKS: usize = 4;

/// Appends all of `source` to `writer`, which stays open. The outer error is the source's, the
/// inner one the store's.
pub async fn into_store(
    source: impl Read + Send + 'static,
    writer: &mut dyn FileWriter,
    progress: &Progress,
    describe: impl Fn(io::Error) -> Failure,
) -> Result<strait_store::Result<()>, Failure> {
    let (chunks, mut queue) = mpsc::channel(QUEUED_CHUNKS);
    // Ends by itself: at the end of the source, or if the receiver is dropped.
    tokio::task::spawn_blocking(move || read_chunks(source, &chunks));
    while let Some(chunk) = queue.recv().await {
        let chunk = chunk.map_err(&describe)?;
        let bytes = chunk.len();
        if let Err(error) = writer.append(chunk).await {
            return Ok(Err(error));
        }
        progress.copied(bytes);
    }
    Ok(Ok(()))
}

fn read_chunks(mut source: impl Read, chunks: &mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let read = source.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
        let last = chunk.len() < CHUNK_BYTES;
        let failed = read.is_err();
        let message = match read {
            Ok(0) => return,
            Ok(_) => Ok(chunk.into()),
            Err(error) => Err(error),
        };
        if chunks.blocking_send(message).is_err() || failed || last {
            return;
        }
    }
}

/// Writes the file of `reader`, with its length at opening, to `sink`, which is returned.
pub async fn out_of_store<W: Write + Send + 'static>(
    reader: &dyn FileReader,
    path: &str,
    sink: W,
    progress: &Progress,
    describe: impl Fn(io::Error) -> Failure,
) -> Result<W, Failure> {
    part_out_of_store(reader, 0..reader.length(), path, sink, progress, describe).await
}

/// As [`out_of_store`], for these bytes of the file. If it has become shorter, that fails.
pub async fn part_out_of_store<W: Write + Send + 'static>(
    reader: &dyn FileReader,
    range: Range<u64>,
    path: &str,
    sink: W,
    progress: &Progress,
    describe: impl Fn(io::Error) -> Failure,
) -> Result<W, Failure> {
    let (chunks, queue) = mpsc::channel(QUEUED_CHUNKS);
    let writing = tokio::task::spawn_blocking(move || write_chunks(sink, queue));
    let read = read_all(reader, range, path, chunks, progress).await;
    let written = match writing.await {
        Ok(written) => written.map_err(describe),
        Err(error) => Err(Failure::other(format!("writing {path}: {error}"))),
    };
    // A failed write also ends the reading, so its error comes first.
    let sink = written?;
    read.map(|()| sink)
}

async fn read_all(
    reader: &dyn FileReader,
    range: Range<u64>,
    path: &str,
    chunks: mpsc::Sender<Bytes>,
    progress: &Progress,
) -> Result<(), Failure> {
    let end = range.end;
    let offsets = range.step_by(CHUNK_BYTES);
    let mut reads = futures::stream::iter(offsets)
        .map(|offset| async move {
            let wanted = (end - offset).min(CHUNK_BYTES as u64) as usize;
            let chunk = reader.read_at(offset, wanted).await?;
            if chunk.len() < wanted {
                let message = "the file got shorter while it was read";
                return Err(Error::new(ErrorKind::Busy, message).at("read", path));
            }
            Ok(chunk)
        })
        .buffered(READS_IN_FLIGHT);
    while let Some(chunk) = reads.next().await {
        let chunk = chunk?;
        let bytes = chunk.len();
        if chunks.send(chunk).await.is_err() {
            return Ok(()); // the writing side has failed, and returns the cause
        }
        progress.copied(bytes);
    }
    Ok(())
}

fn write_chunks<W: Write>(mut sink: W, mut queue: mpsc::Receiver<Bytes>) -> io::Result<W> {
    while let Some(chunk) = queue.blocking_recv() {
        sink.write_all(&chunk)?;
    }
    sink.flush()?;
    Ok(sink)
}
