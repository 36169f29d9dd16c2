//! Opens files for writing, reading and checking.

use super::{Client, digester::Digester, reader::Reader, verifier::Verifier, writer::Writer};
use std::time::{Duration, Instant};
use strait_kadoop_core::{
    error::Error,
    messages::{Caller, Mutation},
};
use strait_kadoop_wire::failure::Failure;

/// Pause between two attempts to open a file that another client of the same session has open. The namenode
/// first fences that writer, which takes its datanodes' next heartbeats.
const TAKING: Duration = Duration::from_millis(100);

/// Settings of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// Whether to replace an existing file. If false, an existing file is an error.
    pub overwrite: bool,
    /// Permission bits.
    pub mode: u16,
    /// Number of replicas of each chunk.
    pub replication: u16,
    /// Largest chunk, in bytes.
    pub chunk_bytes: u32,
    /// How many replicas on disk make the file's bytes durable. 0: the cluster's minimum. A lower number than
    /// that is refused.
    pub min_replicas: u16,
}

impl Default for CreateOptions {
    /// HDFS's defaults, except for the smaller chunk, which is the paper's.
    fn default() -> Self {
        Self { overwrite: false, mode: 0o644, replication: 3, chunk_bytes: 64 << 20, min_replicas: 0 }
    }
}

impl Client {
    /// Makes a file and its missing parents, and opens it for writing.
    ///
    /// # Errors
    /// AlreadyExists: the file exists, and `overwrite` is false; Busy: a writer has it open; IsADirectory,
    /// NotADirectory, PermissionDenied; Invalid: a setting is out of range.
    pub fn create(&self, caller: &Caller, path: &str, options: &CreateOptions) -> Result<Writer, Failure> {
        let CreateOptions { overwrite, mode, replication, chunk_bytes, min_replicas } = *options;
        let made = path.to_owned();
        let create = Mutation::Create { path: made, overwrite, mode, replication, chunk_bytes, min_replicas };
        self.writer(caller, path, &create)
    }

    /// Opens a file for writing at its end.
    ///
    /// # Errors
    /// NotFound, IsADirectory, PermissionDenied; Busy: another writer has the file open. A writer whose
    /// client sends nothing loses its lease after a time, so retry. If another client of the same session
    /// has the file open, this call takes the lease from it.
    pub fn append(&self, caller: &Caller, path: &str) -> Result<Writer, Failure> {
        self.writer(caller, path, &Mutation::Append { path: path.to_owned() })
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// NotFound, IsADirectory, PermissionDenied. Unavailable: the file is being written, and for 10 s, no datanode
    /// told its length.
    pub fn open(&self, caller: &Caller, path: &str) -> Result<Reader, Failure> {
        Reader::open(self, caller, path)
    }

    /// Begins to compute the checksum of a whole file. The file's datanodes do that.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn digest(&self, caller: &Caller, path: &str) -> Result<Digester, Failure> {
        Digester::open(self, caller, path)
    }

    /// Begins to read every replica of a file, to find damaged ones.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn verify(&self, caller: &Caller, path: &str) -> Result<Verifier, Failure> {
        Verifier::open(self, caller, path)
    }

    fn writer(&self, caller: &Caller, path: &str, mutation: &Mutation) -> Result<Writer, Failure> {
        let until = self.link.until(self.deadline);
        loop {
            let opening = self.link.opening();
            match self.link.open(self.deadline, caller, mutation) {
                Ok(begun) => return Writer::new(self, caller, path, &begun),
                // The namenode has to fence the session's earlier writer first.
                Err(failure) if failure.error == Error::Unavailable && caller.session.is_some() => {
                    drop(opening);
                    std::thread::sleep(TAKING.min(until.saturating_duration_since(Instant::now())));
                    if Instant::now() >= until {
                        return Err(failure);
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}
