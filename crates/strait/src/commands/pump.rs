//! Copies bytes between a store and this host. Reading and writing overlap, in bounded memory.

use crate::failure::Failure;
use crate::progress::Progress;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use std::io::{self, Read, Write};
use std::ops::Range;
use strait_store::{Error, ErrorKind, FileReader, FileWriter};
use tokio::sync::mpsc;

/// Bytes of one read or append: large enough to hide round trips, and small enough for several in memory.
const CHUNK_BYTES: usize = 1 << 20;
/// Reads of one file in flight at first. Each takes a thread and a chunk of memory. So the number grows only
/// while the writing side waits for bytes.
const FIRST_READS: usize = 2;
/// Largest number of reads of one file in flight, as in our clients. It is more than twice the bytes in
/// flight at 1 Gbit/s and 50 ms of round trip, so that a pause doesn't idle the link.
const MOST_READS: usize = 16;
/// Chunks queued between the reading and the writing side.
const QUEUED_CHUNKS: usize = 4;

/// Appends all of `source` to `writer`, and leaves `writer` open. The outer error is of reading `source`, the
/// inner one of the store.
pub async fn into_store(
    source: impl Read + Send + 'static,
    writer: &mut dyn FileWriter,
    progress: &Progress,
    describe: impl Fn(io::Error) -> Failure,
) -> Result<strait_store::Result<()>, Failure> {
    let (chunks, mut queue) = mpsc::channel(QUEUED_CHUNKS);
    // The thread ends by itself: at the end of the source, or if the receiver is dropped.
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

/// Writes the file of `reader`, up to its length at opening, to `sink`, and returns `sink`.
pub async fn out_of_store<W: Write + Send + 'static>(
    reader: &dyn FileReader,
    path: &str,
    sink: W,
    progress: &Progress,
    describe: impl Fn(io::Error) -> Failure,
) -> Result<W, Failure> {
    part_out_of_store(reader, 0..reader.length(), path, sink, progress, describe).await
}

/// As [`out_of_store`], for a range of the file. Fails with Busy if the file has become too short for it.
pub async fn part_out_of_store<W: Write + Send + 'static>(
    reader: &dyn FileReader,
    range: Range<u64>,
    path: &str,
    sink: W,
    progress: &Progress,
    describe: impl Fn(io::Error) -> Failure,
) -> Result<W, Failure> {
    reader.stop_reading_ahead();
    let (chunks, queue) = mpsc::channel(QUEUED_CHUNKS);
    let writing = tokio::task::spawn_blocking(move || write_chunks(sink, queue));
    let read = read_all(reader, range, path, chunks, progress).await;
    let written = match writing.await {
        Ok(written) => written.map_err(describe),
        Err(error) => Err(Failure::other(format!("writing {path}: {error}"))),
    };
    // A failed write also ends the reading, so the write's error takes precedence.
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
    let mut offsets = range.step_by(CHUNK_BYTES);
    let (mut reads, mut most) = (FuturesOrdered::new(), FIRST_READS);
    loop {
        while reads.len() < most
            && let Some(offset) = offsets.next()
        {
            reads.push_back(read_chunk(reader, offset..end, path));
        }
        let Some(chunk) = reads.next().await else { return Ok(()) };
        let chunk = chunk?;
        match chunks.capacity() {
            QUEUED_CHUNKS => most = (most + 1).min(MOST_READS),
            0 => most = (most - 1).max(FIRST_READS),
            _ => {}
        }
        let bytes = chunk.len();
        if chunks.send(chunk).await.is_err() {
            return Ok(()); // the writing side failed, and returns the cause
        }
        progress.copied(bytes);
    }
}

/// Reads the first chunk of a range.
async fn read_chunk(reader: &dyn FileReader, range: Range<u64>, path: &str) -> Result<Bytes, Failure> {
    let wanted = (range.end - range.start).min(CHUNK_BYTES as u64) as usize;
    let chunk = reader.read_at(range.start, wanted).await?;
    if chunk.len() < wanted {
        let message = "the file became shorter while it was read";
        return Err(Error::new(ErrorKind::Busy, message).at("read", path).into());
    }
    Ok(chunk)
}

fn write_chunks<W: Write>(mut sink: W, mut queue: mpsc::Receiver<Bytes>) -> io::Result<W> {
    while let Some(chunk) = queue.blocking_recv() {
        sink.write_all(&chunk)?;
    }
    sink.flush()?;
    Ok(sink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use tokio::sync::watch;

    const CHUNKS: usize = 40;
    static CHUNK: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

    /// A file. If `is_slow`, a read ends only when all chunks before it are written.
    struct Source {
        is_slow: bool,
        begun: watch::Sender<usize>,
        written: watch::Receiver<usize>,
    }

    #[async_trait]
    impl FileReader for Source {
        async fn read_at(&self, offset: u64, _: usize) -> strait_store::Result<Bytes> {
            self.begun.send_modify(|begun| *begun += 1);
            let before = if self.is_slow { offset as usize / CHUNK_BYTES } else { 0 };
            self.written.clone().wait_for(|written| *written >= before).await.unwrap();
            // Let later reads begin, as beside a read over a network.
            tokio::task::yield_now().await;
            Ok(Bytes::from_static(&CHUNK))
        }

        fn length(&self) -> u64 {
            (CHUNKS * CHUNK_BYTES) as u64
        }

        fn identity(&self) -> Option<Bytes> {
            None
        }
    }

    /// Writes a chunk once `waits_for` more reads have begun than chunks are written. Records the largest
    /// difference.
    struct Sink {
        waits_for: usize,
        begun: watch::Receiver<usize>,
        written: watch::Sender<usize>,
        most: usize,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let written = *self.written.borrow();
            while *self.begun.borrow() < CHUNKS.min(written + self.waits_for) {
                std::thread::yield_now();
            }
            self.most = self.most.max(*self.begun.borrow() - written);
            self.written.send_modify(|written| *written += 1);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The largest number of reads that had begun beyond the chunks that were written.
    async fn most_ahead(is_slow: bool, waits_for: usize) -> usize {
        let ((begun, begins), (written, writes)) = (watch::channel(0), watch::channel(0));
        let source = Source { is_slow, begun, written: writes };
        let sink = Sink { waits_for, begun: begins, written, most: 0 };
        let copied = out_of_store(&source, "/file", sink, &Progress::new(false), Failure::output).await;
        let Ok(sink) = copied else { panic!("the copy failed") };
        assert_eq!(*sink.written.borrow(), CHUNKS);
        sink.most
    }

    #[tokio::test]
    async fn many_reads_are_in_flight_only_while_the_writing_side_waits_for_them() {
        // The last reads may not have begun yet.
        let most = most_ahead(true, 0).await;
        assert!(most > MOST_READS / 2, "{most} reads");
        // One chunk is being written, and one waits for a place in the queue.
        let held = QUEUED_CHUNKS + 2;
        let most = most_ahead(false, held).await;
        assert!(most < held + MOST_READS / 2, "{most} reads");
    }
}
