//! Files as streams, over stores in this process.

use async_trait::async_trait;
use bytes::Bytes;
use std::io::SeekFrom;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use strait_client::stream::{Reader, Writer};
use strait_client::{CreateOptions, Error, ErrorKind, FileReader, FileSystem, FileWriter, Principal, Result};
use strait_store::{MemoryStore, StorePath, fail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::sync::{Semaphore, watch};

const MIB: usize = 1 << 20;

fn who() -> Principal {
    Principal::new("tester")
}

fn path() -> StorePath {
    StorePath::parse("/file").unwrap()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n + n / 251) as u8).collect()
}

/// A file that counts its reads, which wait for permits.
struct Gated {
    content: Bytes,
    length: u64,
    reads: Arc<Reads>,
}

struct Reads {
    now: watch::Sender<usize>,
    most: AtomicUsize,
    /// The offset and the length of each.
    ranges: std::sync::Mutex<Vec<(u64, usize)>>,
    permits: Semaphore,
    fails: AtomicBool,
}

impl Gated {
    fn new(content: Vec<u8>, permits: usize) -> (Self, Arc<Reads>) {
        let reads = Arc::new(Reads {
            now: watch::Sender::new(0),
            most: AtomicUsize::new(0),
            ranges: Default::default(),
            permits: Semaphore::new(permits),
            fails: AtomicBool::new(false),
        });
        (Self { length: content.len() as u64, content: content.into(), reads: reads.clone() }, reads)
    }
}

#[async_trait]
impl FileReader for Gated {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        self.reads.ranges.lock().unwrap().push((offset, length));
        self.reads.now.send_modify(|now| *now += 1);
        self.reads.most.fetch_max(*self.reads.now.borrow(), Ordering::SeqCst);
        let permit = self.reads.permits.acquire().await.unwrap();
        self.reads.now.send_modify(|now| *now -= 1);
        drop(permit);
        if self.reads.fails.load(Ordering::SeqCst) {
            return fail(ErrorKind::Unavailable, "away").map_err(|error: Error| error.at("read", path()));
        }
        let begin = self.content.len().min(offset as usize);
        Ok(self.content.slice(begin..self.content.len().min(begin + length)))
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn identity(&self) -> Option<Bytes> {
        None
    }
}

/// Also in a thread, where a store that reads no other way must not empty the stream now and then.
#[tokio::test]
async fn a_sequential_reader_has_sixteen_requests_in_flight() {
    for in_thread in [false, true] {
        let content = pattern(40 * MIB + 7);
        let (file, reads) = Gated::new(content.clone(), 1);
        let reader = Reader::new(Box::new(file));
        let mut reader = if in_thread { reader.in_thread() } else { reader };
        let mut got = vec![0; 20 * MIB];
        reader.read_exact(&mut got).await.unwrap();
        let stop = reads.permits.acquire().await.unwrap();
        let reading = tokio::spawn(async move {
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).await.map(|_| rest)
        });
        let mut now = reads.now.subscribe();
        let sixteen = tokio::time::timeout(Duration::from_secs(60), now.wait_for(|now| *now == 16));
        sixteen.await.expect("sixteen requests").unwrap();
        drop(stop);
        got.extend(reading.await.unwrap().unwrap());
        assert!(got == content);
        assert_eq!(reads.most.load(Ordering::SeqCst), 16);
        assert!(reads.ranges.lock().unwrap().iter().all(|(_, length)| *length <= MIB));
    }
}

#[tokio::test]
async fn a_reader_of_a_few_bytes_requests_little() {
    let (file, reads) = Gated::new(pattern(40 * MIB), 1);
    let mut reader = Reader::new(Box::new(file));
    for offset in [30 * MIB, 5, 12 * MIB] {
        reader.seek(SeekFrom::Start(offset as u64)).await.unwrap();
        assert_eq!(reader.read_u8().await.unwrap(), (offset + offset / 251) as u8);
        // Requests are tasks of their own, which begin now.
        tokio::task::yield_now().await;
    }
    let asked: usize = reads.ranges.lock().unwrap().iter().map(|(_, length)| length).sum();
    assert!(asked <= 3 * (64 << 10), "{asked} bytes");
}

#[tokio::test]
async fn a_reader_seeks_as_the_standard_library_does() {
    let content = pattern(3 * MIB);
    let mut reader = Reader::new(Box::new(Gated::new(content.clone(), 1).0));
    let mut file = std::io::Cursor::new(content);
    let moves = [
        SeekFrom::Start(2_000_000),
        SeekFrom::Current(-1_999_999),
        SeekFrom::Current(10),
        SeekFrom::Current(0),
        SeekFrom::End(-3),
        SeekFrom::End(0),
        SeekFrom::End(1_000),
        SeekFrom::Current(300_000),
        SeekFrom::Start(0),
    ];
    for to in moves {
        let now = std::io::Seek::seek(&mut file, to).unwrap();
        assert_eq!(reader.seek(to).await.unwrap(), now);
        let (mut got, mut expected) = (Vec::new(), Vec::new());
        (&mut reader).take(100_000).read_to_end(&mut got).await.unwrap();
        std::io::Read::read_to_end(&mut std::io::Read::take(&mut file, 100_000), &mut expected).unwrap();
        assert!(got == expected, "after {to:?}");
        assert_eq!(reader.position(), file.position());
    }
    let error = reader.seek(SeekFrom::Current(-1_000_000)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(reader.position(), file.position());
}

#[tokio::test]
async fn reads_at_an_offset_leave_the_position() {
    let content = pattern(6 * MIB);
    let mut reader = Reader::new(Box::new(Gated::new(content.clone(), 1).0));
    let mut head = [0; 3];
    reader.read_exact(&mut head).await.unwrap();
    assert!(reader.read_at(12_345, 5 * MIB).await.unwrap() == content[12_345..12_345 + 5 * MIB]);
    assert_eq!(reader.read_at(content.len() as u64 - 2, 100).await.unwrap(), content[content.len() - 2..]);
    assert!(reader.read_at(u64::MAX, usize::MAX).await.unwrap().is_empty());
    assert_eq!(reader.read_u8().await.unwrap(), content[3]);
    let shared = Arc::new(reader);
    let one = tokio::spawn({
        let shared = shared.clone();
        async move { shared.read_at(7, 1).await }
    });
    assert_eq!(one.await.unwrap().unwrap(), content[7..8]);
}

#[tokio::test]
async fn a_file_that_got_shorter_ends_early() {
    let (file, _) = Gated::new(pattern(3 * MIB), 1);
    let mut reader = Reader::new(Box::new(Gated { length: 9 * MIB as u64, ..file }));
    let mut got = Vec::new();
    reader.read_to_end(&mut got).await.unwrap();
    assert!(got == pattern(3 * MIB));
}

#[tokio::test]
async fn after_an_error_the_reader_goes_on_where_it_was() {
    // More than is read ahead.
    let content = pattern(24 * MIB);
    let (file, reads) = Gated::new(content.clone(), 1);
    let mut reader = Reader::new(Box::new(file));
    let mut got = vec![0; 2_000_000];
    reader.read_exact(&mut got).await.unwrap();
    reads.fails.store(true, Ordering::SeqCst);
    let error = reader.read_to_end(&mut got).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::HostUnreachable);
    assert_eq!(error.to_string(), "read /file: away (Unavailable)");
    reads.fails.store(false, Ordering::SeqCst);
    assert_eq!(reader.position(), got.len() as u64);
    reader.read_to_end(&mut got).await.unwrap();
    assert!(got == content);
}

#[tokio::test]
async fn bytes_come_back_through_a_store() {
    let store = MemoryStore::new("tester");
    let content = pattern(5 * MIB + 3);
    let mut writer = Writer::new(store.create(&who(), &path(), &CreateOptions::default()).await.unwrap());
    for piece in content.chunks(99_991) {
        writer.write_all(piece).await.unwrap();
    }
    assert_eq!(writer.position(), content.len() as u64);
    writer.flush().await.unwrap();
    assert_eq!(store.stat(&who(), &path()).await.unwrap().length, content.len() as u64);
    writer.write_all(b"\nlast line\n").await.unwrap();
    writer.shutdown().await.unwrap();
    writer.shutdown().await.unwrap();
    let error = writer.write_all(b"more").await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    let mut reader = Reader::new(store.open(&who(), &path()).await.unwrap());
    let mut got = vec![0; content.len()];
    reader.read_exact(&mut got).await.unwrap();
    assert!(got == content);
    let mut lines = reader.lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(""));
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("last line"));
    assert_eq!(lines.next_line().await.unwrap(), None);
}

/// A file of a store that is full at times: an append accepts half of its bytes, and then fails.
struct Full {
    content: Arc<std::sync::Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
    goes_on: bool,
}

#[async_trait]
impl FileWriter for Full {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        let is_full = self.is_full.load(Ordering::SeqCst);
        let accepted = if is_full { &data[..data.len() / 2] } else { &data[..] };
        self.content.lock().unwrap().extend_from_slice(accepted);
        match is_full {
            true => fail(ErrorKind::NoSpace, "full").map_err(|error: Error| error.at("append to", path())),
            false => Ok(()),
        }
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        Ok(Some(3))
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        Ok(Some(2))
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        Ok(Some(1))
    }

    fn position(&self) -> u64 {
        self.content.lock().unwrap().len() as u64
    }

    fn goes_on(&self) -> bool {
        self.goes_on
    }
}

#[tokio::test]
async fn a_writer_keeps_the_bytes_that_a_full_store_refused() {
    let (content, is_full) = (Arc::default(), Arc::new(AtomicBool::new(true)));
    let file = Full { content: Arc::clone(&content), is_full: is_full.clone(), goes_on: true };
    let mut writer = Writer::new(Box::new(file));
    let data = pattern(3 * MIB);
    writer.write_all(&data[..MIB]).await.unwrap();
    // The first append fails at the next write, which accepts nothing.
    let error = writer.write_all(&data[MIB..]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(error.to_string(), "append to /file: full (NoSpace)");
    assert_eq!(writer.position(), MIB as u64);
    assert!(writer.flush().await.is_err());
    is_full.store(false, Ordering::SeqCst);
    writer.write_all(&data[MIB..]).await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!(writer.replicas(), Some(3));
    writer.sync().await.unwrap();
    assert_eq!(writer.replicas(), Some(2));
    writer.shutdown().await.unwrap();
    assert_eq!(writer.replicas(), Some(1));
    assert!(*content.lock().unwrap() == data);
}

#[tokio::test]
async fn a_writer_whose_file_has_ended_says_why_each_time() {
    let is_full = Arc::new(AtomicBool::new(true));
    let mut writer =
        Writer::new(Box::new(Full { content: Arc::default(), is_full: is_full.clone(), goes_on: false }));
    writer.write_all(b"bytes").await.unwrap();
    assert_eq!(writer.shutdown().await.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    is_full.store(false, Ordering::SeqCst);
    for again in [writer.flush().await, writer.write_all(b"more").await, writer.shutdown().await] {
        let error = again.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        let error = Error::from(error);
        assert_eq!(
            (error.kind(), error.operation(), error.path()),
            (ErrorKind::NoSpace, "append to", "/file")
        );
        assert_eq!(error.message(), "an earlier operation failed: full");
        assert!(!error.retry_safe());
    }
}
