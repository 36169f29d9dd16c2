//! Calls between a store and the process of its library: two frames each, over a Unix socket.
//!
//! A frame is two lengths (u32, little endian), a head (postcard), and a body of plain bytes.

use crate::abi;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use strait_store::{
    BlockLocation, Capabilities, Checksum, Error, ErrorKind, FileStatus, FileType, MAX_CHUNK_BYTES, Result,
    SetAttributes, StoreStatus,
};

/// Longest head: enough for a portion of a listing with long names, or for some 70,000 blocks.
const MAX_HEAD_BYTES: usize = 4 << 20;
/// Bytes of the first read of a frame. Most frames are shorter.
const FIRST_READ_BYTES: usize = 16 << 10;

/// The file system that the helper opens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// The kind of library: a plugin, or hdfs.h.
    pub kind: String,
    /// The library's path.
    pub library: String,
    /// The URI of the file system behind the library.
    pub uri: String,
    /// Settings for the library.
    pub options: Vec<(String, String)>,
}

/// The caller of an operation.
#[derive(Serialize, Deserialize)]
pub struct Who {
    pub user: String,
    pub groups: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub enum Request {
    Open(Spec),
    Stat {
        who: Who,
        path: String,
    },
    List {
        who: Who,
        path: String,
    },
    ListNext {
        handle: u64,
    },
    OpenFile {
        who: Who,
        path: String,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u64,
    },
    Create {
        who: Who,
        path: String,
        how: How,
    },
    Append {
        who: Who,
        path: String,
    },
    /// The bytes are the body.
    Write {
        handle: u64,
    },
    Flush {
        handle: u64,
    },
    Sync {
        handle: u64,
    },
    Close {
        handle: u64,
    },
    Release {
        handle: u64,
    },
    Truncate {
        who: Who,
        path: String,
        length: u64,
    },
    Rename {
        who: Who,
        from: String,
        to: String,
        replace: bool,
    },
    Remove {
        who: Who,
        path: String,
        recursive: bool,
    },
    Mkdirs {
        who: Who,
        path: String,
        permission: Option<u32>,
    },
    SetAttributes {
        who: Who,
        path: String,
        set: Set,
    },
    Locate {
        who: Who,
        path: String,
        start: u64,
        end: u64,
    },
    Checksum {
        who: Who,
        path: String,
    },
    Status {
        who: Who,
    },
    About,
}

#[derive(Serialize, Deserialize)]
pub struct How {
    pub overwrite: bool,
    pub permission: Option<u32>,
    pub replication: Option<u16>,
    pub block_size: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub struct Set {
    pub permission: Option<u32>,
    pub owner: Option<String>,
    pub group: Option<String>,
    pub modified_ms: Option<i64>,
    pub accessed_ms: Option<i64>,
    pub replication: Option<u16>,
}

#[derive(Serialize, Deserialize)]
pub enum Answer {
    Done,
    /// The capabilities, as bits of `strait_store.h`.
    Opened {
        capabilities: u32,
        recovery_ms: u32,
    },
    Handle {
        handle: u64,
        number: u64,
    },
    Entry(Entry),
    Entries(Vec<Entry>),
    /// The bytes are the body.
    Bytes,
    Blocks(Vec<(u64, u64, Vec<String>)>),
    Checksum {
        kind: String,
        value: Vec<u8>,
    },
    Status {
        capacity: u64,
        used: u64,
        remaining: u64,
    },
    About(Option<String>),
    Failed {
        kind: i32,
        message: String,
        retry_safe: bool,
    },
}

#[derive(Serialize, Deserialize)]
pub struct Entry {
    path: String,
    directory: bool,
    length: u64,
    replication: u16,
    block_size: u64,
    modified_ms: i64,
    accessed_ms: i64,
    permission: u32,
    owner: String,
    group: String,
    link: bool,
}

impl From<FileStatus> for Entry {
    fn from(status: FileStatus) -> Self {
        Self {
            directory: status.is_directory(),
            path: status.path,
            length: status.length,
            replication: status.replication,
            block_size: status.block_size,
            modified_ms: status.modified_ms,
            accessed_ms: status.accessed_ms,
            permission: status.permission,
            owner: status.owner,
            group: status.group,
            link: status.link,
        }
    }
}

impl From<Entry> for FileStatus {
    fn from(entry: Entry) -> Self {
        Self {
            path: entry.path,
            file_type: if entry.directory { FileType::Directory } else { FileType::File },
            length: entry.length,
            replication: entry.replication,
            block_size: entry.block_size,
            modified_ms: entry.modified_ms,
            accessed_ms: entry.accessed_ms,
            permission: entry.permission,
            owner: entry.owner,
            group: entry.group,
            link: entry.link,
        }
    }
}

impl From<&SetAttributes> for Set {
    fn from(set: &SetAttributes) -> Self {
        let set = set.clone();
        Self {
            permission: set.permission,
            owner: set.owner,
            group: set.group,
            modified_ms: set.modified_ms,
            accessed_ms: set.accessed_ms,
            replication: set.replication,
        }
    }
}

impl From<Set> for SetAttributes {
    fn from(set: Set) -> Self {
        Self {
            permission: set.permission,
            owner: set.owner,
            group: set.group,
            modified_ms: set.modified_ms,
            accessed_ms: set.accessed_ms,
            replication: set.replication,
        }
    }
}

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        let message = error.message().to_owned();
        Self::Failed { kind: error.kind().row().thrift, message, retry_safe: error.retry_safe() }
    }
}

impl From<Vec<BlockLocation>> for Answer {
    fn from(blocks: Vec<BlockLocation>) -> Self {
        Self::Blocks(blocks.into_iter().map(|block| (block.offset, block.length, block.hosts)).collect())
    }
}

impl From<Checksum> for Answer {
    fn from(sum: Checksum) -> Self {
        Self::Checksum { kind: sum.algorithm, value: sum.value }
    }
}

impl From<StoreStatus> for Answer {
    fn from(status: StoreStatus) -> Self {
        Self::Status { capacity: status.capacity, used: status.used, remaining: status.remaining }
    }
}

impl Answer {
    /// The answer, or the error that it carries.
    pub fn checked(self) -> Result<Self> {
        match self {
            Self::Failed { kind, message, retry_safe } => {
                let kind = ErrorKind::from_thrift(kind).unwrap_or(ErrorKind::Internal);
                Err(Error::new(kind, message).with_retry_safe(retry_safe))
            }
            answer => Ok(answer),
        }
    }
}

/// The bits of `strait_store.h` as capabilities.
pub fn capabilities(bits: u32, recovery_ms: u32) -> Capabilities {
    let has = |bit: u32| bits & bit != 0;
    Capabilities {
        append: has(abi::APPEND),
        truncate: has(abi::TRUNCATE),
        // strait_store.h has no function for concat.
        concat: false,
        rename_replace: has(abi::RENAME_REPLACE),
        atomic_rename: has(abi::ATOMIC_RENAME),
        permissions: has(abi::PERMISSIONS),
        ownership: has(abi::OWNERSHIP),
        times: has(abi::TIMES),
        replication: has(abi::REPLICATION),
        block_locations: has(abi::BLOCK_LOCATIONS),
        checksum: has(abi::CHECKSUM),
        status: has(abi::STATUS),
        visible_while_written: has(abi::VISIBLE_WHILE_WRITTEN),
        exclusive_writer: has(abi::EXCLUSIVE_WRITER),
        per_user: has(abi::PER_USER),
        recovery_ms,
    }
}

/// Capabilities as the bits of `strait_store.h`.
pub fn bits(capabilities: &Capabilities) -> u32 {
    let flags = [
        (abi::APPEND, capabilities.append),
        (abi::TRUNCATE, capabilities.truncate),
        (abi::RENAME_REPLACE, capabilities.rename_replace),
        (abi::ATOMIC_RENAME, capabilities.atomic_rename),
        (abi::PERMISSIONS, capabilities.permissions),
        (abi::OWNERSHIP, capabilities.ownership),
        (abi::TIMES, capabilities.times),
        (abi::REPLICATION, capabilities.replication),
        (abi::BLOCK_LOCATIONS, capabilities.block_locations),
        (abi::CHECKSUM, capabilities.checksum),
        (abi::STATUS, capabilities.status),
        (abi::VISIBLE_WHILE_WRITTEN, capabilities.visible_while_written),
        (abi::EXCLUSIVE_WRITER, capabilities.exclusive_writer),
        (abi::PER_USER, capabilities.per_user),
    ];
    flags.iter().filter(|(_, has)| *has).fold(0, |bits, (bit, _)| bits | bit)
}

/// One end of a connection for calls, one at a time.
pub struct Channel {
    stream: UnixStream,
    /// Received bytes that no frame has used yet.
    received: Vec<u8>,
}

impl Channel {
    /// A channel over this socket.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, received: Vec::with_capacity(FIRST_READ_BYTES) }
    }

    /// Sends a frame. If the other end would reject it, sends nothing: then the error is `InvalidInput`.
    pub fn send(&mut self, head: &impl Serialize, body: &[u8]) -> io::Result<()> {
        let mut frame = vec![0; 8];
        frame = postcard::to_extend(head, frame).map_err(io::Error::other)?;
        if frame.len() - 8 > MAX_HEAD_BYTES || body.len() > MAX_CHUNK_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a frame is too long"));
        }
        let head_length = (frame.len() - 8) as u32;
        frame[..4].copy_from_slice(&head_length.to_le_bytes());
        frame[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
        if body.len() <= FIRST_READ_BYTES {
            frame.extend_from_slice(body);
            return self.stream.write_all(&frame);
        }
        self.stream.write_all(&frame)?;
        self.stream.write_all(body)
    }

    /// Receives a frame. Before its first byte, the end of the connection is `UnexpectedEof`, and a timeout
    /// is `WouldBlock`. A frame that ends early is `InvalidData`.
    pub fn receive<T: for<'a> Deserialize<'a>>(&mut self) -> io::Result<(T, Vec<u8>)> {
        self.fill(1)?;
        let received = self.rest();
        received.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Receives a frame whose first bytes have arrived.
    fn rest<T: for<'a> Deserialize<'a>>(&mut self) -> io::Result<(T, Vec<u8>)> {
        self.fill(8)?;
        let number = |at: usize| {
            let bytes = self.received[at..at + 4].try_into().unwrap_or_default();
            u32::from_le_bytes(bytes) as usize
        };
        let (head_length, body_length) = (number(0), number(4));
        if head_length > MAX_HEAD_BYTES || body_length > MAX_CHUNK_BYTES {
            return Err(io::Error::other("a frame is longer than allowed"));
        }
        self.fill(8 + head_length)?;
        let head = postcard::from_bytes(&self.received[8..8 + head_length]);
        let head = head.map_err(io::Error::other)?;
        self.received.drain(..8 + head_length);
        let here = self.received.len().min(body_length);
        let mut body: Vec<u8> = self.received.drain(..here).collect();
        if here < body_length {
            body.resize(body_length, 0);
            self.stream.read_exact(&mut body[here..])?;
        }
        // The other end waits for the answer to its call, so bytes after a frame are an error.
        match self.received.is_empty() {
            true => Ok((head, body)),
            false => Err(io::Error::other("bytes come after a frame")),
        }
    }

    /// Whether a receive would return at once, with bytes or the end of the connection.
    pub fn is_readable(&self) -> bool {
        let mut events = [PollFd::new(&self.stream, PollFlags::IN)];
        poll(&mut events, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Receives until at least `least` bytes are there.
    fn fill(&mut self, least: usize) -> io::Result<()> {
        while self.received.len() < least {
            let had = self.received.len();
            self.received.resize(had + FIRST_READ_BYTES, 0);
            let read = self.stream.read(&mut self.received[had..]);
            self.received.truncate(had + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_have_the_order_of_the_flags() {
        for bit in 0..14 {
            assert_eq!(bits(&capabilities(1 << bit, 7)), 1 << bit);
        }
    }

    #[test]
    fn a_frame_with_a_nonsense_length_is_refused() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(&[0xff; 16]).unwrap();
        let refused = Channel::new(theirs).receive::<Answer>().map(drop).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_frame_that_the_other_end_would_refuse_isnt_sent() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (Channel::new(ours), Channel::new(theirs));
        let blocks = vec![(0, 0, vec!["host".to_owned(); 64]); MAX_HEAD_BYTES / 64];
        let refused = ours.send(&Answer::Blocks(blocks), &[]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        ours.send(&Answer::Bytes, b"bytes").unwrap();
        let (answer, body) = theirs.receive::<Answer>().unwrap();
        assert!(matches!(answer, Answer::Bytes) && body == b"bytes");
    }

    #[test]
    fn bytes_after_a_frame_and_a_frame_that_breaks_off_are_refused() {
        let patience = Some(std::time::Duration::from_millis(10));
        for sent in [&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff][..], &[1, 0, 0, 0, 9, 0, 0, 0, 0], &[1, 0, 0]] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            theirs.set_read_timeout(patience).unwrap();
            ours.write_all(sent).unwrap();
            let refused = Channel::new(theirs).receive::<Answer>().map(drop).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{sent:?}");
        }
    }
}
