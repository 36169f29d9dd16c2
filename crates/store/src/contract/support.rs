//! Helpers of the cases.

use super::Scale;
use crate::{
    CreateOptions, Error, ErrorKind, FileStatus, FileSystem, FileSystemExt, FileWriter, Principal, Result,
    StorePath, append_all,
};
use bytes::Bytes;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest file that a case reads whole.
const MAX_READ_BYTES: usize = 64 << 20;
/// Pause between two checks for an expected change.
const POLL: Duration = Duration::from_millis(50);
/// Added to the time that the store declares, for the calls themselves on a loaded machine.
const GRACE: Duration = Duration::from_secs(10);

/// The reason why a case fails, with the line of the check.
#[derive(Debug)]
pub(super) struct Failure(String);

pub(super) type Outcome = std::result::Result<(), Failure>;

impl Failure {
    #[track_caller]
    pub(super) fn new(message: impl fmt::Display) -> Self {
        let place = Location::caller();
        let file = place.file().rsplit('/').next().unwrap_or_default();
        Self(format!("{file}:{}: {message}", place.line()))
    }
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fails the case with a message unless the claim holds.
macro_rules! ensure {
    ($claim:expr, $($message:tt)+) => {
        if !$claim {
            return Err($crate::contract::support::Failure::new(format_args!($($message)+)));
        }
    };
}
pub(super) use ensure;

/// Fails the case unless both sides are equal.
macro_rules! ensure_eq {
    ($left:expr, $right:expr) => {
        match (&$left, &$right) {
            (left, right) => $crate::contract::support::ensure!(
                *left == *right,
                "{} is {left:?}, not {right:?}",
                stringify!($left)
            ),
        }
    };
}
pub(super) use ensure_eq;

/// The environment of one case: the store and a fresh directory.
pub(super) struct Scene {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) dir: StorePath,
    pub(super) who: Principal,
    pub(super) scale: Scale,
}

impl Scene {
    /// The path `relative` beneath the case's directory.
    pub(super) fn at(&self, relative: &str) -> Result<StorePath> {
        StorePath::parse(&format!("{}/{relative}", self.dir))
    }

    /// Writes a file with `content`, and returns its path.
    pub(super) async fn file(&self, relative: &str, content: &[u8]) -> Result<StorePath> {
        let path = self.at(relative)?;
        let content = Bytes::copy_from_slice(content);
        self.fs.write_all(&self.who, &path, &CreateOptions::default(), content).await?;
        Ok(path)
    }

    /// Makes a directory, and returns its path.
    pub(super) async fn directory(&self, relative: &str) -> Result<StorePath> {
        let path = self.at(relative)?;
        self.fs.mkdirs(&self.who, &path, None).await?;
        Ok(path)
    }

    /// A new file's writer.
    pub(super) async fn create(&self, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        self.fs.create(&self.who, path, &CreateOptions::default()).await
    }

    /// A file's content.
    pub(super) async fn content(&self, path: &StorePath) -> Result<Vec<u8>> {
        self.fs.read_all(&self.who, path, MAX_READ_BYTES).await
    }

    /// The store's status of `path`.
    pub(super) async fn stat(&self, path: &StorePath) -> Result<FileStatus> {
        self.fs.stat(&self.who, path).await
    }

    /// The names in a directory, sorted.
    pub(super) async fn names(&self, path: &StorePath) -> Result<Vec<String>> {
        let entries = self.fs.list_all(&self.who, path, usize::MAX).await?;
        let mut names: Vec<String> = entries.iter().map(|entry| entry.name().to_owned()).collect();
        names.sort();
        Ok(names)
    }

    /// Opens `path` for append as soon as the store has recovered it from its abandoned writer. Fails if
    /// that takes longer than the store declares.
    pub(super) async fn append_when_recovered(&self, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let declared = Duration::from_millis(self.fs.capabilities().recovery_ms.into());
        let deadline = Instant::now() + declared + GRACE;
        loop {
            match self.fs.append(&self.who, path).await {
                Err(error) if error.kind() == ErrorKind::Busy && Instant::now() < deadline => {
                    tokio::time::sleep(POLL).await;
                }
                opened => return opened,
            }
        }
    }
}

/// Appends `content` in chunks that a writer accepts.
pub(super) async fn append(writer: &mut Box<dyn FileWriter>, content: &[u8]) -> Result<()> {
    append_all(writer.as_mut(), Bytes::copy_from_slice(content)).await
}

/// Fails unless `result` is an error of one of `kinds`.
#[track_caller]
pub(super) fn refused<T>(result: Result<T>, kinds: &[ErrorKind]) -> Outcome {
    match result {
        Ok(_) => Err(Failure::new(format_args!("the call succeeded, but must fail as {kinds:?}"))),
        Err(error) if kinds.contains(&error.kind()) => Ok(()),
        Err(error) => Err(Failure::new(format_args!("the call must fail as {kinds:?}, not as: {error}"))),
    }
}

/// `length` reproducible bytes of all values (xorshift64*, by Vigna).
pub(super) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
