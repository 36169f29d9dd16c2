//! Names within a container.
//!
//! ```text
//! FILE/.plfs                      the mark: this directory is a container
//! FILE/logs/RANK.NONCE.data       a writer's bytes, in the order of its writes
//! FILE/logs/RANK.NONCE.index      the place of these bytes in the file
//! FILE/open/RANK.NONCE            the writer hasn't closed
//! FILE/epochs/EPOCH               this epoch is published
//! FILE/merged/EPOCH.NONCE         the index of all writers up to that epoch
//! FILE/plan                       the logs are being joined to a plain file
//! FILE/logs/joined                the logs that are joined so far
//! ```
//!
//! All logs are in one directory, since HDFS can only join files of one directory.

use strait_store::{Result, StorePath};

/// A writer's name within a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogName {
    /// The writer's rank.
    pub rank: u32,
    /// Distinguishes writers with the same rank.
    pub nonce: u64,
}

impl LogName {
    /// The name of the writer's logs, without `.data` or `.index`.
    pub fn text(self) -> String {
        format!("{:08x}.{:016x}", self.rank, self.nonce)
    }

    /// The writer whose index log has this name; None for other names.
    pub fn of_index(name: &str) -> Option<Self> {
        Self::parse(name.strip_suffix(".index")?)
    }

    /// The writer with this name; None for other names.
    pub fn parse(text: &str) -> Option<Self> {
        let (rank, nonce) = text.split_once('.')?;
        let name =
            Self { rank: u32::from_str_radix(rank, 16).ok()?, nonce: u64::from_str_radix(nonce, 16).ok()? };
        Some(name)
    }
}

/// The paths of a container.
#[derive(Debug, Clone)]
pub struct Layout {
    root: StorePath,
}

impl Layout {
    /// The paths of the container at `root`.
    pub fn new(root: StorePath) -> Self {
        Self { root }
    }

    /// The container itself.
    pub fn root(&self) -> &StorePath {
        &self.root
    }

    /// The file that marks the directory as a container.
    pub fn mark(&self) -> Result<StorePath> {
        self.root.join(".plfs")
    }

    /// The directory of the logs.
    pub fn logs(&self) -> Result<StorePath> {
        self.root.join("logs")
    }

    /// A writer's data log.
    pub fn data(&self, name: LogName) -> Result<StorePath> {
        self.logs()?.join(&format!("{}.data", name.text()))
    }

    /// A writer's index log.
    pub fn index(&self, name: LogName) -> Result<StorePath> {
        self.logs()?.join(&format!("{}.index", name.text()))
    }

    /// The plan for joining the logs.
    pub fn plan(&self) -> Result<StorePath> {
        self.root.join("plan")
    }

    /// The file to which logs are joined. No log has this name, so a concurrent call that truncates logs
    /// can't truncate this file.
    pub fn joined(&self) -> Result<StorePath> {
        self.logs()?.join("joined")
    }

    /// The directory of merged indexes.
    pub fn merged(&self) -> Result<StorePath> {
        self.root.join("merged")
    }

    /// The directory of the marks of open writers.
    pub fn open(&self) -> Result<StorePath> {
        self.root.join("open")
    }

    /// The mark of an open writer.
    pub fn open_mark(&self, name: LogName) -> Result<StorePath> {
        self.open()?.join(&name.text())
    }

    /// The directory of published epochs.
    pub fn epochs(&self) -> Result<StorePath> {
        self.root.join("epochs")
    }

    /// The mark of a published epoch.
    pub fn epoch(&self, epoch: u64) -> Result<StorePath> {
        self.epochs()?.join(&epoch.to_string())
    }
}
