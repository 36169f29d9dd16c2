//! Opening files.

use super::{Client, digester::Digester, reader::Reader, verifier::Verifier, writer::Writer};
use std::time::{Duration, Instant};
use strait_kadoop_core::{
    error::Error,
    messages::{Caller, Mutation},
};
use strait_kadoop_wire::failure::Failure;

/// Pause between two requests for a file that the caller's session has open elsewhere. Its
/// datanodes answer with their next heartbeats.
const TAKING: Duration = Duration::from_millis(100);

/// Settings of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// Whether to replace an existing file; otherwise that is an error.
    pub overwrite: bool,
    /// Permission bits.
    pub mode: u16,
    /// Replicas of each chunk.
    pub replication: u16,
    /// Largest chunk, in bytes.
    pub chunk_bytes: u32,
    /// Replicas on disk that make the file's bytes durable; 0: as many as the cluster demands, which
    /// is also the least.
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
    /// AlreadyExists; Busy: a writer has it open; IsADirectory, NotADirectory, PermissionDenied.
    pub fn create(&self, caller: &Caller, path: &str, options: &CreateOptions) -> Result<Writer, Failure> {
        let CreateOptions { overwrite, mode, replication, chunk_bytes, min_replicas } = *options;
        let made = path.to_owned();
        let create = Mutation::Create { path: made, overwrite, mode, replication, chunk_bytes, min_replicas };
        self.writer(caller, path, &create)
    }

    /// Opens a file for writing at its end.
    ///
    /// # Errors
    /// NotFound, IsADirectory, PermissionDenied; Busy: a writer has it open. A silent writer loses
    /// the file after a time, so ask again. If the caller's session has it open at another client, it
    /// is taken from there.
    pub fn append(&self, caller: &Caller, path: &str) -> Result<Writer, Failure> {
        self.writer(caller, path, &Mutation::Append { path: path.to_owned() })
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// NotFound, IsADirectory, PermissionDenied.
    pub fn open(&self, caller: &Caller, path: &str) -> Result<Reader, Failure> {
        Reader::open(self, caller, path)
    }

    /// Begins the checksum of a whole file, which its datanodes compute.
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
        let until = Instant::now() + self.link.options.timeout;
        loop {
            let opening = self.link.opening();
            match self.link.open(caller, mutation) {
                Ok(begun) => return Writer::new(self, caller, path, &begun),
                // Its session's earlier writer has to be fenced first.
                Err(Failure { error: Error::Unavailable, .. })
                    if caller.session.is_some() && Instant::now() < until =>
                {
                    drop(opening);
                    std::thread::sleep(TAKING);
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}
