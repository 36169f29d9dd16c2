//! The room for bytes that wait to be sent: memory of the budget, temporary files, and turns.
//!
//! A part can't be sent before it is full, and its client may take any time to fill it. So a part that is
//! filled without memory of the budget is in a temporary file. A part from there needs memory only while it
//! is sent, and has a turn for that. A turn ends in time, because each request does. So writers that wait for
//! a turn always continue, whatever other writers' clients do. Each store has turns of its own, so that a
//! silent endpoint delays no other store.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::collections::hash_map::RandomState;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strait_store::budget::{Pool, Reserved, Share};
use strait_store::process::PerProcess;
use strait_store::work::blocking;
use strait_store::{Error, ErrorKind, Result, fail};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that can be sent at once beyond the budget's: four parts of 8 MiB.
pub const TURN_BYTES: usize = 32 << 20;
/// Unit of turns.
const MIB: usize = 1 << 20;
/// Parts of a store that can be filled in memory beyond the budget's, if there is no temporary file. So some
/// writers continue when unfinished parts use up the budget.
const OVERDRAWN_PARTS: usize = 4;
/// Limit of all temporary files together. A user gets half of it: 256 parts of 8 MiB.
const FILES_BYTES: u64 = 4 << 30;
/// Place of temporary files if TMPDIR names none. `/tmp` is often in memory.
const DIRECTORY: &str = "/var/tmp";

/// The room that a user's writers share.
#[derive(Clone)]
pub struct Room {
    memory: Arc<Share>,
    files: Arc<Share>,
    directory: Arc<Path>,
    turns: Turns,
}

/// The turns of one store's writers and copies.
#[derive(Clone)]
pub struct Turns {
    sending: Arc<Semaphore>,
    overdraft: Arc<Semaphore>,
}

/// A temporary file without a name. Only this process can open it, and it ends with the process.
pub struct Temporary {
    file: Arc<File>,
    directory: Arc<Path>,
    _room: Reserved,
}

/// Memory for bytes while they are sent.
pub struct Turn(#[allow(dead_code, reason = "it is held")] OwnedSemaphorePermit);

/// The right to fill a part in memory that the budget doesn't have.
pub struct Overdraft(#[allow(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Room {
    /// The room of a user of this process.
    pub fn of(user: &str, turns: Turns) -> Self {
        static FILES: PerProcess<Arc<Pool>> = PerProcess::new();
        let Ok(files) = FILES.get_or_make(|| Ok::<_, std::convert::Infallible>(Pool::new(FILES_BYTES)));
        let named = std::env::var_os("TMPDIR").filter(|name| !name.is_empty());
        let directory = named.map_or_else(|| DIRECTORY.into(), PathBuf::from);
        Self::new(Pool::of_process().share(user), files.share(user), directory, turns)
    }

    fn new(memory: Arc<Share>, files: Arc<Share>, directory: PathBuf, turns: Turns) -> Self {
        Self { memory, files, directory: directory.into(), turns }
    }

    /// The turns of the room's store.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Memory of the budget, if it is free. Never waits.
    pub fn memory(&self, bytes: usize) -> Option<Reserved> {
        self.memory.reserve(bytes as u64)
    }

    /// A temporary file for at most `bytes`.
    ///
    /// # Errors
    /// Busy if other files use up the space; the directory's errors.
    pub async fn file(&self, bytes: usize) -> Result<Temporary> {
        let Some(room) = self.files.reserve(bytes as u64) else {
            return fail(ErrorKind::Busy, "temporary files use up their space");
        };
        let directory = self.directory.clone();
        let file =
            blocking(move || nameless(&directory, bytes).map_err(|error| failed("make", &directory, error)));
        Ok(Temporary { file: Arc::new(file.await?), directory: self.directory.clone(), _room: room })
    }
}

impl Default for Turns {
    fn default() -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self { sending: semaphore(TURN_BYTES / MIB), overdraft: semaphore(OVERDRAWN_PARTS) }
    }
}

impl Turns {
    /// Waits for the memory to send `bytes`, at most [`TURN_BYTES`], in the order of the calls.
    ///
    /// # Errors
    /// Internal: there are no turns any more. This never happens.
    pub async fn turn(&self, bytes: usize) -> Result<Turn> {
        let units = bytes.div_ceil(MIB).min(TURN_BYTES / MIB) as u32;
        let permit = self.sending.clone().acquire_many_owned(units).await;
        permit
            .map(Turn)
            .map_err(|error| Error::new(ErrorKind::Internal, "there are no turns").caused_by(error))
    }

    /// An overdraft, if one is free. Never waits.
    pub fn overdraft(&self) -> Option<Overdraft> {
        self.overdraft.clone().try_acquire_owned().ok().map(Overdraft)
    }
}

fn nameless(directory: &Path, bytes: usize) -> std::io::Result<File> {
    // Names that others can't foresee, and so can't take.
    let path = directory.join(format!(".strait-part-{:016x}", RandomState::new().build_hasher().finish()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    // A full disk is noticed now, and not when bytes have left the memory.
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes as u64) {
        // Not every file system can reserve space.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(file),
        Err(error) => Err(error.into()),
    }
}

fn failed(operation: &str, directory: &Path, error: std::io::Error) -> Error {
    let kind = ErrorKind::from_errno(error.raw_os_error().unwrap_or(0));
    let message = format!("{operation} a temporary file in {} (TMPDIR): {error}", directory.display());
    Error::new(kind, message).caused_by(error)
}

impl Temporary {
    /// Writes these bytes from `offset` on.
    ///
    /// # Errors
    /// The temporary file can't be written.
    pub async fn write(&self, pieces: Vec<bytes::Bytes>, offset: usize) -> Result<()> {
        let (file, directory) = (self.file.clone(), self.directory.clone());
        blocking(move || {
            let mut at = offset as u64;
            for piece in pieces {
                file.write_all_at(&piece, at).map_err(|error| failed("write", &directory, error))?;
                at += piece.len() as u64;
            }
            Ok(())
        })
        .await
    }

    /// The first `bytes`.
    ///
    /// # Errors
    /// The temporary file can't be read.
    pub async fn read(&self, bytes: usize) -> Result<bytes::Bytes> {
        let (file, directory) = (self.file.clone(), self.directory.clone());
        blocking(move || {
            let mut all = vec![0; bytes];
            file.read_exact_at(&mut all, 0).map_err(|error| failed("read", &directory, error))?;
            Ok(all.into())
        })
        .await
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A room with these limits for one user, who gets half of each.
    pub fn room(memory: u64, files: u64, directory: &Path) -> Room {
        let [memory, files] = [memory, files].map(|bytes| Pool::new(bytes).share("ann"));
        Room::new(memory, files, directory.to_owned(), Turns::default())
    }

    #[tokio::test]
    async fn a_temporary_file_has_no_name_and_returns_its_space() {
        let dir = tempfile::tempdir().unwrap();
        let room = room(0, 100, dir.path());
        let file = room.file(50).await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(room.file(1).await.err().unwrap().kind(), ErrorKind::Busy);
        drop(file);
        room.file(50).await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let error = room(0, 100, &missing).file(1).await.err().unwrap();
        assert!(error.message().contains(&missing.display().to_string()), "{error}");
    }

    #[tokio::test]
    async fn turns_are_given_in_order_and_the_largest_isnt_passed_over() {
        let turns = Turns::default();
        let first = turns.turn(8 << 20).await.unwrap();
        let mut all = Box::pin(turns.turn(TURN_BYTES));
        let mut small = Box::pin(turns.turn(1));
        assert!(futures::poll!(&mut all).is_pending() && futures::poll!(&mut small).is_pending());
        drop(first);
        drop(all.await.unwrap());
        small.await.unwrap();
    }
}
