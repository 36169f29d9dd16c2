//! Files' bytes: what is written and read.

use super::Client;
use crate::{
    error::Error,
    messages::{Caller, Mutation},
    service::failure::Failure,
    wire::KdAnswer,
};
use bytes::Bytes;

/// What a new file gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// Whether a file of that name is replaced; else it is in the way.
    pub overwrite: bool,
    /// Permission bits.
    pub mode: u16,
    /// Replicas of each chunk.
    pub replication: u16,
    /// Largest chunk, in bytes.
    pub chunk_bytes: u32,
}

impl Default for CreateOptions {
    /// As HDFS, but for the smaller chunk, which is the paper's.
    fn default() -> Self {
        Self { overwrite: false, mode: 0o644, replication: 3, chunk_bytes: 64 << 20 }
    }
}

/// Writes one file, which nobody else can write meanwhile. Dropped without
/// [`Writer::close`], it leaves the file to recovery: what was flushed stays.
#[derive(Debug)]
pub struct Writer {
    length: u64,
}

/// Reads one file, as it was found when it was opened or longer.
#[derive(Debug)]
pub struct Reader {
    length: u64,
}

impl Client {
    /// Makes a file, and the directories that are missing above it, and opens it for
    /// writing.
    ///
    /// # Errors
    /// AlreadyExists; Busy: it has a writer; IsADirectory, NotADirectory, PermissionDenied.
    pub fn create(&self, caller: &Caller, path: &str, options: &CreateOptions) -> Result<Writer, Failure> {
        let CreateOptions { overwrite, mode, replication, chunk_bytes } = *options;
        let path = path.to_owned();
        self.writer(caller, &Mutation::Create { path, overwrite, mode, replication, chunk_bytes })
    }

    /// Opens a file for writing at its end.
    ///
    /// # Errors
    /// NotFound, IsADirectory, PermissionDenied; Busy: it has a writer. One that is silent
    /// loses the file after a time: ask again.
    pub fn append(&self, caller: &Caller, path: &str) -> Result<Writer, Failure> {
        self.writer(caller, &Mutation::Append { path: path.to_owned() })
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// NotFound, IsADirectory, PermissionDenied.
    pub fn open(&self, caller: &Caller, path: &str) -> Result<Reader, Failure> {
        Ok(Reader { length: self.stat(caller, path)?.length })
    }

    fn writer(&self, caller: &Caller, mutation: &Mutation) -> Result<Writer, Failure> {
        match self.link.mutate(caller, mutation)? {
            KdAnswer::KdOpened(opened) => Ok(Writer { length: opened.length }),
            _ => Err(Error::Internal("the answer isn't one to that request").into()),
        }
    }
}

impl Writer {
    /// Takes bytes to be written at the end. Returns as soon as they are held, in order;
    /// waits while too many are on their way.
    ///
    /// # Errors
    /// LeaseLost: another writer or the namenode has taken the file. Unavailable: no
    /// datanode could be had in time. After an error the writer is of no more use.
    pub fn write(&mut self, bytes: impl Into<Bytes>) -> Result<(), Failure> {
        let _ = bytes.into();
        Err(unbuilt())
    }

    /// Returns when all that was written is in the memory of every current replica, and
    /// visible to whoever opens the file from now on.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn flush(&mut self) -> Result<(), Failure> {
        Err(unbuilt())
    }

    /// Returns when all that was written is on disk, at no fewer than the cluster's
    /// minimum of replicas.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn sync(&mut self) -> Result<(), Failure> {
        Err(unbuilt())
    }

    /// Does what [`Writer::sync`] does and closes the file. Returns its length.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn close(self) -> Result<u64, Failure> {
        Err(unbuilt())
    }

    /// Bytes of the file with all that was written.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl Reader {
    /// Bytes from `offset` on: `length` of them, fewer only at the file's end. Any number
    /// of threads may read at a time.
    ///
    /// # Errors
    /// Unavailable: no replica of a part could be had. Corrupt: all of them are damaged.
    pub fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, Failure> {
        let _ = (offset, length);
        Err(unbuilt())
    }

    /// The next bytes, at most `length`; none at the file's end. Reads ahead.
    ///
    /// # Errors
    /// As [`Reader::read_at`].
    pub fn read(&mut self, length: usize) -> Result<Bytes, Failure> {
        let _ = length;
        Err(unbuilt())
    }

    /// Bytes of the file, as far as was known when it was opened or last read.
    pub fn length(&self) -> u64 {
        self.length
    }
}

fn unbuilt() -> Failure {
    Error::Internal("not built yet").into()
}
