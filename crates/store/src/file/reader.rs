//! Reads a file: from the page cache at once, from the disk on the blocking pool.

use super::buffers;
use super::root::from_errno;
use crate::crc::Crc32c;
use crate::work::{self, blocking};
use crate::{Checksum, FileReader, Result, StorePath, arguments};
use async_trait::async_trait;
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Longest read that is tried without a switch to the pool, in bytes: most reads of small files and
/// records are no longer. A longer one would save little (256 KiB from the cache take 22 µs at once, and
/// 45 µs through the pool, on 4 virtual cores), and many at once would delay other tasks of their threads.
const INLINE_BYTES: usize = 16 << 10;

/// Bytes of one read for a checksum: enough for the full speed of the disk. A checksum of a file of any
/// length needs only this much memory.
const CHECKSUM_READ_BYTES: usize = 1 << 20;
/// Makes the kernel drop the pages that it reads for this call (`RWF_DONTCACHE` of preadv2(2),
/// Linux 6.14). A checksum reads each byte once, and other readers need the cache.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// An open file.
pub(super) struct Reader {
    file: Arc<File>,
    path: StorePath,
    length_at_open: u64,
}

impl Reader {
    pub(super) fn new(file: File, path: StorePath, length_at_open: u64) -> Self {
        Self { file: Arc::new(file), path, length_at_open }
    }

    /// The CRC-32C of the content. Blocks for as long as reading all of it takes.
    ///
    /// # Errors
    /// The system's error; Unavailable if the caller has left.
    pub fn checksum(&self) -> Result<Checksum> {
        let (mut crc, mut offset) = (Crc32c::new(), 0);
        let (mut bytes, mut flags) = (vec![0; CHECKSUM_READ_BYTES], DONT_CACHE);
        loop {
            work::check()?;
            let read = match preadv2(&self.file, &mut [IoSliceMut::new(&mut bytes)], offset, flags) {
                Ok(0) => return Ok(crc.finish()),
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                // The kernel is older, or the file system doesn't support the flag.
                Err(Errno::OPNOTSUPP | Errno::INVAL) if !flags.is_empty() => {
                    flags = ReadWriteFlags::empty();
                    continue;
                }
                Err(error) => return Err(from_errno(error)),
            };
            crc.update(&bytes[..read]);
            offset += read as u64;
        }
    }
}

#[async_trait]
impl FileReader for Reader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        arguments::check_read(length).map_err(|error| error.at("read", &self.path))?;
        // The kernel counts offsets in i64; no file reaches that far.
        let length =
            length.min(usize::try_from(i64::MAX as u64 - offset.min(i64::MAX as u64)).unwrap_or(length));
        let mut read = Vec::new();
        if length <= INLINE_BYTES {
            match read_cached(&self.file, offset, length) {
                Cached::All(bytes) => return Ok(bytes.into()),
                Cached::Begin(bytes) => read = bytes,
            }
        }
        // Allocate on this thread. If the pool's hundreds of threads allocated, the allocator would keep
        // memory for each of them, even after other threads have freed it.
        let there = usize::try_from(self.length_at_open.saturating_sub(offset)).unwrap_or(length).min(length);
        if read.is_empty() && there == buffers::BUFFER_BYTES {
            read = buffers::take();
        } else {
            read.reserve_exact(there.saturating_sub(read.len()));
        }
        let file = self.file.clone();
        blocking(move || read_on(&file, offset, length, read))
            .await
            .map(buffers::into_bytes)
            .map_err(|error| error.at("read", &self.path))
    }

    fn length(&self) -> u64 {
        self.length_at_open
    }

    /// The inode and the birth time. Inode numbers are reused, so the inode alone isn't enough. The device
    /// number may differ on the host of another gateway, so it isn't included.
    fn identity(&self) -> Option<Bytes> {
        let metadata = self.file.metadata().ok()?;
        let born = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some([metadata.ino().to_le_bytes().as_slice(), &born.as_nanos().to_le_bytes()].concat().into())
    }
}

/// The part of a range that the page cache has.
enum Cached {
    /// All of it, or all up to the file's end.
    All(Vec<u8>),
    /// Its beginning, maybe nothing.
    Begin(Vec<u8>),
}

/// Reads the bytes that the page cache has, without a wait for the disk.
fn read_cached(file: &File, offset: u64, length: usize) -> Cached {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        let into = &mut [IoSliceMut::new(&mut bytes[filled..])];
        match preadv2(file, into, offset + filled as u64, ReadWriteFlags::NOWAIT) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            // EAGAIN: the bytes aren't in the cache. EOPNOTSUPP: the file system doesn't support the flag.
            // Any other error recurs on the pool, and is reported there.
            Err(_) => {
                bytes.truncate(filled);
                return Cached::Begin(bytes);
            }
        }
    }
    bytes.truncate(filled);
    Cached::All(bytes)
}

/// Reads the part of the range that `read` doesn't have yet.
fn read_on(file: &File, offset: u64, length: usize, mut read: Vec<u8>) -> Result<Vec<u8>> {
    // A client may request 4 MiB of a file of five bytes, so this allocates no more than the file has.
    let size = rustix::fs::fstat(file).map_err(from_errno)?.st_size.cast_unsigned();
    let there = usize::try_from(size.saturating_sub(offset)).unwrap_or(length).min(length);
    read.reserve_exact(there.saturating_sub(read.len()));
    while read.len() < there {
        let next = offset + read.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut read), next) {
            // Another process has truncated the file.
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(from_errno(errno)),
        }
    }
    // The buffer may be larger than requested, and the file longer by now.
    read.truncate(length);
    Ok(read)
}
