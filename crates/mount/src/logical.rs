//! An open logical file of PLFS: this mount and other writers can read and write it at any offset.
//!
//! ```text
//!   write ──→ this mount's own writer (a log in the container)
//!        ├──→ overlay: the same bytes, until a sync publishes them
//!        └──→ note: the same bytes, for the next process if this one is killed
//!   read ───→ overlay over a reader of the bytes published before
//! ```

use crate::ledger::{Note, RING, Run};
use crate::overlay::{Overlay, compose};
use crate::patience::may_be_reopened;
use crate::plain::Access;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use strait_plfs::{Container, Reader, Writer};
use strait_store::budget::Reserved;
use strait_store::{Error, ErrorKind, MAX_CHUNK_BYTES, Result, StorePath, fail};

/// Largest number of unpublished bytes, 32 MiB: a publication costs some round trips.
const MOST_BYTES: usize = 32 << 20;
/// The first 1 MiB of them, the kernel's largest write, needs no memory from [`Access::memory`]. The file
/// reserves memory for further bytes in steps of 4 MiB. If a reservation fails, the file publishes.
const OWN_BYTES: usize = 1 << 20;
const STEP: usize = 4 << 20;
/// Largest number of unpublished writes: each takes memory, too.
const MOST_RUNS: usize = 65_536;

/// Largest number of writers that one publication tries, if each fails.
const MOST_TRIES: u32 = 3;

/// A logical file that is open here, with any number of handles.
pub struct Logical {
    note: Note,
    /// The container's identity, which doesn't depend on its path.
    id: [u8; 16],
    state: Arc<tokio::sync::Mutex<State>>,
}

/// The file's state. Its lock is held while the file's path changes.
pub struct State {
    access: Access,
    /// The container at the file's current path.
    container: Container,
    writer: Option<Writer>,
    overlay: Overlay,
    /// Reserved memory, one [`STEP`] each.
    memory: Vec<Reserved>,
    /// A reader of the published bytes; `None` if they must be read again.
    base: Option<Arc<Reader>>,
    length: u64,
    /// About the runs that the note has: their mark, their number, and their total bytes.
    since: Option<u64>,
    runs: u64,
    noted: u64,
}

impl Logical {
    /// An open file of a container.
    pub fn new(access: Access, container: Container) -> Self {
        Self::of(State::new(access, container))
    }

    /// A file that a killed process had open, with the runs of bytes that it hadn't published, in the order
    /// of the writes.
    ///
    /// # Errors
    /// The record lacks bytes of these runs: they are lost.
    pub fn again(access: Access, container: Container, runs: &[Run]) -> Result<Self> {
        let mut state = State::new(access, container);
        let lost = |why: String| {
            let message = format!("unpublished bytes were lost when the mount's process was killed: {why}");
            Error::new(ErrorKind::Internal, message)
        };
        for run in runs {
            if run.place != state.noted {
                return Err(lost("the record lacks a run".to_owned()));
            }
            let bytes = state.access.note.recall_run(run).map_err(|error| lost(error.to_string()))?;
            state.overlay.write(run.offset, bytes.into());
            (state.since, state.noted) = (Some(run.since), run.place + run.length);
            state.runs += 1;
        }
        Ok(Self::of(state))
    }

    fn of(state: State) -> Self {
        let (note, id) = (state.access.note.clone(), state.container.id());
        Self { note, id, state: Arc::new(tokio::sync::Mutex::new(state)) }
    }

    /// The container's identity.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The file's note.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// Locks the state, for a change of the file's name or times.
    pub async fn lock(&self) -> tokio::sync::OwnedMutexGuard<State> {
        self.state.clone().lock_owned().await
    }

    /// Reads up to `length` bytes from `offset`.
    pub async fn read(&self, offset: u64, length: usize) -> Result<Bytes> {
        let (patience, base, runs, end) = {
            let mut state = self.state.lock().await;
            let base = state.base().await?;
            let end = state.length.min(offset.saturating_add(length as u64));
            if end <= offset {
                return Ok(Bytes::new());
            }
            (state.access.patience, base, state.overlay.within(offset..end), end)
        };
        let below = match runs.as_slice() {
            [(at, run)] if *at == offset && run.len() as u64 == end - offset => Bytes::new(),
            _ => {
                let length = ((end - offset) as usize).min(MAX_CHUNK_BYTES);
                patience.with(|| base.read_at(offset, length)).await?
            }
        };
        Ok(compose(offset, end, below, &runs))
    }

    /// Writes at offset `at`, or at the end if it is `None`. `request` is the request's number, or 0 if the
    /// kernel can't resend it.
    pub async fn write(&self, at: Option<u64>, data: Bytes, request: u64) -> Result<()> {
        let mut state = self.state.lock().await;
        state.write(at, data, request).await?;
        self.note.done(request);
        Ok(())
    }

    /// The length, including the bytes written here.
    pub async fn length(&self) -> Result<u64> {
        let mut state = self.state.lock().await;
        state.base().await?;
        Ok(state.length)
    }

    /// Makes the next read show what others published, unless this file has unpublished bytes itself.
    pub async fn refresh(&self) {
        let mut state = self.state.lock().await;
        if state.overlay.is_empty() {
            state.base = None;
        }
    }

    /// Sets the file's length.
    pub async fn truncate(&self, length: u64) -> Result<()> {
        let mut state = self.state.lock().await;
        state.base().await?;
        if length == state.length {
            return Ok(());
        }
        let mut tries = 0;
        while let Err(error) = state.writer().await?.truncate(length).await {
            if tries == MOST_TRIES {
                return Err(error);
            }
            state.again(error).await?;
            tries += 1;
        }
        state.published();
        state.length = length;
        Ok(())
    }
}

impl State {
    fn new(access: Access, container: Container) -> Self {
        Self {
            access,
            container,
            writer: None,
            overlay: Overlay::default(),
            memory: Vec::new(),
            base: None,
            length: 0,
            since: None,
            runs: 0,
            noted: 0,
        }
    }

    /// Adds these bytes to the note.
    fn note(&mut self, offset: u64, data: &Bytes, request: u64) {
        let note = &self.access.note;
        if data.is_empty() || !note.is_kept() {
            return;
        }
        let since = *self.since.get_or_insert_with(|| {
            // A timestamp: the runs of a later publication get another mark, even in the next process.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let since = now.as_nanos() as u64;
            note.unpublished(since);
            since
        });
        let run = Run { since, offset, place: self.noted, length: data.len() as u64, request };
        note.run(self.runs, &run, data);
        self.runs += 1;
        self.noted += run.length;
    }

    async fn write(&mut self, at: Option<u64>, data: Bytes, request: u64) -> Result<()> {
        let offset = match at {
            Some(at) => at,
            // Only an append needs the current end.
            None => {
                self.base().await?;
                self.length
            }
        };
        let Some(end) = offset.checked_add(data.len() as u64) else {
            return fail(ErrorKind::InvalidArgument, "the write ends beyond the largest possible offset");
        };
        // After a failed publication, its bytes stay here. They must not grow without limit if a program
        // ignores errors.
        let has_place = self.noted + data.len() as u64 <= RING && self.runs < MOST_RUNS as u64;
        if !has_place || self.is_full() {
            self.sync().await?;
        }
        // Add them to the overlay first: if the writer fails, the next one writes these bytes, too.
        self.overlay.write(offset, data.clone());
        self.note(offset, &data, request);
        let written = match &mut self.writer {
            Some(writer) => writer.write_at(offset, data).await,
            None => self.begin().await,
        };
        if let Err(error) = written {
            self.again(error).await?;
        }
        self.length = self.length.max(end);
        if self.is_full() { self.sync().await } else { Ok(()) }
    }

    async fn writer(&mut self) -> Result<&mut Writer> {
        if self.writer.is_none() {
            self.begin().await?;
        }
        match &mut self.writer {
            Some(writer) => Ok(writer),
            None => fail(ErrorKind::Internal, "the file has no writer"),
        }
    }

    /// Opens a writer, and writes all unpublished bytes. Its rank is the mount's process id, so that
    /// `strait ckpt ls` shows who wrote. The rank also decides the order of overlapping writes of one epoch.
    /// Writers with the same rank differ by nonce.
    async fn begin(&mut self) -> Result<()> {
        let (patience, container, overlay) = (self.access.patience, &self.container, &self.overlay);
        let written = patience.with(|| async {
            let mut writer = container.writer(std::process::id());
            for (offset, run) in overlay.runs() {
                writer.write_at(offset, run).await?;
            }
            Ok(writer)
        });
        self.writer = Some(written.await?);
        Ok(())
    }

    /// A reader of the published bytes.
    async fn base(&mut self) -> Result<Arc<Reader>> {
        if let Some(base) = &self.base {
            return Ok(base.clone());
        }
        let (patience, container) = (self.access.patience, &self.container);
        let base = Arc::new(patience.with(|| container.reader()).await?);
        let written = self.overlay.runs().last().map_or(0, |(at, run)| at + run.len() as u64);
        self.length = base.length().max(written);
        self.base = Some(base.clone());
        Ok(base)
    }

    /// Publishes the bytes written here.
    pub async fn sync(&mut self) -> Result<()> {
        if self.overlay.is_empty() {
            return Ok(());
        }
        let mut tries = 0;
        while let Err(error) = self.writer().await?.sync().await {
            if tries == MOST_TRIES {
                return Err(error);
            }
            self.again(error).await?;
            tries += 1;
        }
        self.published();
        Ok(())
    }

    /// Drops the local copies, since all bytes are published.
    fn published(&mut self) {
        self.overlay.clear();
        self.access.note.published(self.runs);
        (self.since, self.runs, self.noted) = (None, 0, 0);
        self.memory.clear();
        self.base = None;
    }

    /// Whether the unpublished bytes must be published before further writes.
    fn is_full(&mut self) -> bool {
        let bytes = self.overlay.bytes();
        while bytes >= OWN_BYTES + self.memory.len() * STEP && bytes < MOST_BYTES {
            match self.access.memory.share(&self.access.who.user).reserve(STEP as u64) {
                Some(step) => self.memory.push(step),
                None => return true,
            }
        }
        bytes >= MOST_BYTES || self.overlay.len() >= MOST_RUNS
    }

    /// Publishes the bytes written here, and ends the writer.
    pub async fn close(&mut self) -> Result<()> {
        self.sync().await?;
        match self.writer.take() {
            Some(mut writer) => writer.close().await,
            None => Ok(()),
        }
    }

    /// The file has another path from now on. Unpublished bytes of an open writer go to a new writer.
    pub fn moved(&mut self, path: &StorePath) {
        self.writer = None;
        self.container.moved(path);
        self.base = None;
    }

    /// After a writer's failure, writes the unpublished bytes with another writer. If that fails, too, they
    /// stay here, so that a later sync or close can publish them.
    async fn again(&mut self, error: Error) -> Result<()> {
        self.writer = None;
        if !may_be_reopened(&error) || error.kind() == ErrorKind::NotFound {
            return Err(error);
        }
        tracing::info!(%error, path = %self.container.path(), "a writer failed; continuing with another");
        self.begin().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::Patience;
    use std::time::Duration;
    use strait_store::budget::Pool;
    use strait_store::{FileSystem, MemoryStore, Principal};

    const MIB: usize = 1 << 20;

    async fn file(store: &MemoryStore, path: &str, memory: &Arc<Pool>) -> Logical {
        let who = Principal::new("ada");
        let store: Arc<dyn FileSystem> = Arc::new(store.clone());
        let path = StorePath::parse(path).unwrap();
        let options = strait_plfs::Options::default();
        let container = Container::create(store.clone(), &who, &path, &options).await.unwrap();
        let (capabilities, patience) = (store.capabilities(), Patience::Soft(Duration::from_millis(1)));
        let note = Note::new(Arc::default(), 0);
        Logical::new(Access { store, capabilities, who, patience, memory: memory.clone(), note }, container)
    }

    async fn unpublished(files: &[Logical]) -> usize {
        let mut bytes = 0;
        for file in files {
            bytes += file.lock().await.overlay.bytes();
        }
        bytes
    }

    #[tokio::test]
    async fn files_keep_no_more_unpublished_bytes_than_the_mount_has_memory_for() {
        let (store, memory) = (MemoryStore::new("ada"), Pool::new(16 * MIB as u64));
        let mut files = Vec::new();
        for name in ["/a", "/b", "/c", "/d"] {
            files.push(file(&store, name, &memory).await);
        }
        for _ in 0..8 {
            for file in &files {
                file.write(None, Bytes::from(vec![7; MIB]), 0).await.unwrap();
                let kept = unpublished(&files).await;
                assert!(kept <= 12 * MIB, "{kept} bytes: half of the memory, and 1 MiB of each file");
            }
        }
        for file in &files {
            assert_eq!(file.length().await.unwrap(), 8 * MIB as u64);
        }
    }

    #[tokio::test]
    async fn writes_that_fail_one_after_the_other_take_no_more_memory() {
        let (store, memory) = (MemoryStore::new("ada"), Pool::new(1 << 30));
        let file = file(&store, "/f", &memory).await;
        file.write(Some(0), Bytes::from(vec![7; MIB]), 0).await.unwrap();
        store.remove(&Principal::new("ada"), &StorePath::parse("/f").unwrap(), true).await.unwrap();
        let mut failures = 0;
        for at in 1..100 {
            let written = file.write(Some(at * MIB as u64), Bytes::from(vec![7; MIB]), 0).await;
            failures += usize::from(written.is_err());
        }
        assert!(failures > 60, "{failures}");
        assert!(file.lock().await.overlay.bytes() <= MOST_BYTES);
    }
}
