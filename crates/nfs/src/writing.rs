//! Files that are being written. Stores write files only at their end.
//!
//! ```text
//!   0 ─────────────── end        ahead ── …
//!     accepted by the │  gap  │  bytes that came early wait
//!     store's writer  │       │  here for the gap to fill
//! ```
//!
//! NFS has no procedures to open and close files. The first write opens a file's writer. COMMIT, some seconds
//! without a write, or another use of the file closes it. A write of bytes before the end is compared with
//! the file, and succeeds if they are equal, since clients repeat writes whose replies were lost.

mod losses;
#[cfg(test)]
mod tests;

use crate::fault::{Answer, Fault};
use crate::wire::{N3Stable, N3Status};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::join_all;
use losses::Losses;
use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strait_store::clock::now_ms;
use strait_store::{
    Capabilities, CreateOptions, Error, ErrorKind, FileStatus, FileSystem, FileType, FileWriter,
    MAX_CHUNK_BYTES, Principal, Result, StorePath,
};
use strait_telemetry::seldom;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// Most files that are being written at once. A store's writer may take some megabytes.
const MOST_FILES: usize = 256;
/// A file without a write for this time is closed.
const IDLE: Duration = Duration::from_secs(5);
/// Most bytes that came early, of one file and of all files: 8 and 64 MiB.
const AHEAD_BYTES: usize = 8 << 20;
/// See [`AHEAD_BYTES`].
const ALL_AHEAD_BYTES: usize = 64 << 20;
/// Memory that counts for each piece that came early, in addition to its bytes, since a piece can be 1 byte
/// long.
const PIECE_BYTES: usize = 128;
/// For this time after a start or a loss, missing bytes may be lost ones that the client still has.
const LOSS: Duration = Duration::from_secs(600);
/// For this time, a stable write after a gap gets `Jukebox`, since the bytes before it may still come.
const PATIENCE: Duration = Duration::from_secs(15);
/// Most remembered gaps, of some hundred bytes each.
const MOST_GAPS: usize = 1_024;
/// Bytes to write at an offset. `stable` says how safe the client wants them.
pub struct Piece {
    pub offset: u64,
    pub data: Bytes,
    pub stable: N3Stable,
}

/// All files that are being written.
pub struct Writings {
    store: Arc<dyn FileSystem>,
    capabilities: Capabilities,
    slots: Mutex<HashMap<StorePath, Arc<Slot>>>,
    /// Whether the server ends, so that no more files are opened.
    ends: AtomicBool,
    ahead_bytes: AtomicUsize,
    losses: Mutex<Losses>,
    gaps: Mutex<HashMap<Waiting, Gap>>,
}

/// A file in which bytes are missing. True: a stable write waits for them. False: a COMMIT found the gap.
type Waiting = (StorePath, bool);

/// A gap: its beginning and end, and when it was first seen.
type Gap = (u64, u64, Instant);

/// A file's entry in the table.
struct Slot {
    /// The user whose call added the entry.
    user: Arc<str>,
    state: AsyncMutex<State>,
    used: Mutex<Instant>,
    /// Whether a sweep is closing the file.
    closing: AtomicBool,
    /// The file's length, including all bytes that the writer accepted.
    end: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Whether the slot was removed from the table.
    is_gone: bool,
    file: Option<Writing>,
}

struct Writing {
    who: Principal,
    writer: Box<dyn FileWriter>,
    /// Readers that are opened now see the file up to this offset.
    flushed: u64,
    /// Whether bytes were acknowledged as unstable since the last sync.
    unstable: bool,
    ahead: BTreeMap<u64, Bytes>,
    /// Whether this server created the file, so that no earlier server can have lost bytes of it.
    is_new: bool,
    /// The verifier of the exclusive CREATE that made the file.
    made_by: Option<[u8; 8]>,
    /// The status of a new file, for stores that don't show a file before its close.
    record: Option<FileStatus>,
}

impl Writings {
    /// Without any file.
    pub fn new(store: Arc<dyn FileSystem>) -> Self {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Self {
            capabilities: store.capabilities(),
            store,
            slots: Mutex::default(),
            ends: AtomicBool::new(false),
            ahead_bytes: AtomicUsize::new(0),
            losses: Mutex::new(Losses::since(start)),
            gaps: Mutex::default(),
        }
    }

    /// The verifier of a file's unstable writes. It changes at each start, and at each loss of such writes.
    /// When clients see that it changed, they repeat these writes.
    pub fn verifier(&self, path: &StorePath) -> [u8; 8] {
        self.losses().of(path).0.to_be_bytes()
    }

    /// Records that a file lost bytes which were acknowledged as unstable.
    fn lose(&self, path: &StorePath) {
        self.losses().add(path);
    }

    fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time since this gap was first seen. If it is new, remembers it and returns `None`. For stable
    /// writes, gaps that begin at the same offset count as the same gap.
    fn seen(&self, path: &StorePath, stable: bool, (end, from): (u64, u64)) -> Option<Duration> {
        let mut gaps = self.gaps();
        let is_same = |gap: &&Gap| gap.0 == end && (stable || gap.1 == from);
        if let Some((_, _, since)) = gaps.get(&(path.clone(), stable)).filter(is_same) {
            return Some(since.elapsed());
        }
        if gaps.len() >= MOST_GAPS {
            gaps.clear();
        }
        gaps.insert((path.clone(), stable), (end, from, Instant::now()));
        None
    }

    /// Forgets the gap for which stable writes wait, because bytes were appended.
    fn goes_on(&self, path: &StorePath) {
        let mut gaps = self.gaps();
        if !gaps.is_empty() {
            gaps.remove(&(path.clone(), true));
        }
    }

    fn gaps(&self) -> MutexGuard<'_, HashMap<Waiting, Gap>> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<StorePath, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, path: &StorePath) -> Option<Arc<Slot>> {
        self.slots().get(path).cloned()
    }

    /// The file's length, including all bytes that the writer accepted; `None` if the file isn't being
    /// written.
    pub fn end(&self, path: &StorePath) -> Option<u64> {
        self.slot(path).map(|slot| slot.end.load(Ordering::Acquire)).filter(|end| *end != NOT_OPEN)
    }

    /// Whether another user is writing the file, in a store whose readers see files that are being written.
    pub async fn has_another(&self, who: &Principal, path: &StorePath) -> bool {
        let Some(slot) = self.slot(path).filter(|_| self.capabilities.visible_while_written) else {
            return false;
        };
        slot.state.lock().await.file.as_ref().is_some_and(|file| file.who.user != who.user)
    }

    /// The status of a file that is being written, if the store doesn't show it before its close.
    pub async fn record(&self, path: &StorePath) -> Option<FileStatus> {
        let slot = self.slot(path)?;
        let state = slot.state.lock().await;
        let file = state.file.as_ref()?;
        file.record.clone().map(|record| FileStatus { length: file.writer.position(), ..record })
    }

    /// Whether an earlier exclusive CREATE with this verifier made the file, so that this call repeats it.
    pub async fn was_made_by(&self, path: &StorePath, verifier: [u8; 8]) -> bool {
        let Some(slot) = self.slot(path) else { return false };
        slot.state.lock().await.file.as_ref().is_some_and(|file| file.made_by == Some(verifier))
    }

    /// The file's slot. If the table is full, closes a file of the user with the most files, the one that was
    /// idle longest. So a user who opens many files doesn't close the files of others.
    async fn claim(&self, who: &Principal, path: &StorePath) -> Answer<Arc<Slot>> {
        loop {
            let oldest = {
                let mut slots = self.slots();
                if let Some(slot) = slots.get(path) {
                    return Ok(slot.clone());
                }
                if self.ends.load(Ordering::Acquire) {
                    return Err(Fault(N3Status::Jukebox));
                }
                if slots.len() < MOST_FILES {
                    let slot = Arc::new(Slot {
                        user: who.user.clone(),
                        state: AsyncMutex::default(),
                        used: Mutex::new(Instant::now()),
                        closing: AtomicBool::new(false),
                        end: AtomicU64::new(NOT_OPEN),
                    });
                    slots.insert(path.clone(), slot.clone());
                    return Ok(slot);
                }
                let mut files: HashMap<&str, usize> = HashMap::new();
                slots.values().for_each(|slot| *files.entry(&*slot.user).or_default() += 1);
                // Of users with equally many, the one who opens a further file.
                let rank = |(user, files): &(&str, usize)| (*files, **user == *who.user);
                let most = files.into_iter().max_by_key(rank).map(|(user, _)| user);
                let age = |slot: &Slot| (slot.closing.load(Ordering::Acquire), slot.used());
                let theirs = slots.iter().filter(|(_, slot)| most == Some(&*slot.user));
                theirs.min_by_key(|(_, slot)| age(slot)).map(|(path, _)| path.clone())
            };
            if let Some(oldest) = oldest
                && let Err(fault) = self.end_of(&oldest, |_| true).await
                && self.slot(&oldest).is_some()
            {
                // The store doesn't answer, so this client must wait, too.
                return Err(fault);
            }
        }
    }

    /// Creates a file, and keeps its writer for later writes.
    ///
    /// # Errors
    /// The errors of the store's `create`. `Exist`: the file is being written. `Jukebox`: the server ends.
    pub async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        permission: Option<u32>,
        made_by: Option<[u8; 8]>,
    ) -> Answer<()> {
        loop {
            let slot = self.claim(who, path).await?;
            let mut state = slot.state.lock().await;
            if state.is_gone {
                continue;
            }
            if state.file.is_some() {
                return Err(Fault(N3Status::Exist));
            }
            let options = CreateOptions { permission, ..CreateOptions::default() };
            let writer = match self.store.create(who, path, &options).await {
                Ok(writer) => writer,
                Err(error) => {
                    self.drop_slot(path, &mut state);
                    return Err(error.into());
                }
            };
            let record =
                (!self.capabilities.visible_while_written).then(|| new_record(who, path, permission));
            state.file = Some(Writing { is_new: true, made_by, record, ..Writing::new(who, writer) });
            slot.touch(&state);
            return Ok(());
        }
    }

    /// Writes a piece. Returns how safe its bytes are. `may_write` tells, by a file's status, whether the
    /// user is surely allowed to write it.
    ///
    /// # Errors
    /// The store's errors. `Inval`: the piece isn't at the file's end, and stores can only append. `Jukebox`:
    /// another user is writing the file, bytes before the piece are missing, or memory is short.
    pub async fn write(
        &self,
        who: &Principal,
        path: &StorePath,
        piece: Piece,
        may_write: impl Fn(&FileStatus) -> bool,
    ) -> Answer<N3Stable> {
        if piece.data.is_empty() {
            self.store.stat(who, path).await?;
            return Ok(piece.stable);
        }
        loop {
            let slot = self.claim(who, path).await?;
            let mut state = slot.state.lock().await;
            if state.is_gone {
                continue;
            }
            let written = self.write_to(&mut state, who, path, piece, may_write).await;
            // A write that waits or was refused doesn't keep the file open, since anyone could send it.
            match written {
                Ok(_) => slot.touch(&state),
                Err(_) => slot.note_end(&state),
            }
            if state.file.is_none() {
                self.drop_slot(path, &mut state);
            }
            return written;
        }
    }

    async fn write_to(
        &self,
        state: &mut State,
        who: &Principal,
        path: &StorePath,
        piece: Piece,
        may_write: impl Fn(&FileStatus) -> bool,
    ) -> Answer<N3Stable> {
        let Piece { offset, data, stable } = piece;
        if state.file.as_ref().is_some_and(|file| file.who.user != who.user) {
            // Don't close another user's writer for a user who isn't surely allowed to write the file.
            if !may_write(&self.store.stat(who, path).await?) {
                return Err(Fault(N3Status::Jukebox));
            }
            // Close that writer. When it is opened again, the store checks this user's permission.
            let finished = self.finish(path, state).await;
            if state.file.is_some() {
                return Err(finished.err().unwrap_or(Fault(N3Status::Jukebox)));
            }
        }
        let file = match &mut state.file {
            Some(file) => file,
            None => {
                let status = self.store.stat(who, path).await?;
                let is_there = offset.saturating_add(data.len() as u64) <= status.length;
                if is_there && !(self.capabilities.append && self.capabilities.visible_while_written) {
                    self.compare(who, path, offset, &data).await?;
                    return Ok(N3Stable::File);
                }
                // Open the file even if it has the bytes: a killed server may have written them without a
                // sync.
                state.file.insert(Writing::new(who, self.reopen(who, &status, path).await?))
            }
        };
        let end = file.writer.position();
        if offset > end {
            return self.keep_ahead(file, path, Piece { offset, data, stable });
        }
        let written = match self.append(file, path, offset, data).await {
            Ok(()) => {
                if file.writer.position() > end {
                    self.goes_on(path);
                }
                self.take_ahead(file, path).await
            }
            error => error,
        };
        let synced = match written {
            Ok(()) if stable != N3Stable::Not => file.sync().await.map(|()| N3Stable::File),
            Ok(()) => Ok(N3Stable::Not),
            Err(error) => Err(error),
        };
        file.unstable |= matches!(synced, Ok(N3Stable::Not));
        synced.map_err(|error| self.after(error, path, state))
    }

    /// Opens an existing file for appending.
    async fn reopen(
        &self,
        who: &Principal,
        status: &FileStatus,
        path: &StorePath,
    ) -> Result<Box<dyn FileWriter>> {
        if self.capabilities.append || status.length > 0 {
            return self.store.append(who, path).await;
        }
        // The store can't append, but the file is empty: create it again.
        let permission = Some(status.permission);
        let options = CreateOptions { overwrite: true, permission, ..CreateOptions::default() };
        self.store.create(who, path, &options).await
    }

    /// Appends the part of `data` after the file's end. The file must already have the part before its end.
    async fn append(&self, file: &mut Writing, path: &StorePath, offset: u64, mut data: Bytes) -> Result<()> {
        let end = file.writer.position();
        let known = data.split_to((end - offset).min(data.len() as u64) as usize);
        if !known.is_empty() {
            if !self.capabilities.visible_while_written {
                return refuse(path, offset);
            }
            if file.flushed < end {
                file.writer.flush().await?;
                file.flushed = end;
            }
            self.compare(&file.who, path, offset, &known).await?;
        }
        while !data.is_empty() {
            file.writer.append(data.split_to(data.len().min(MAX_CHUNK_BYTES))).await?;
        }
        Ok(())
    }

    /// Keeps bytes that came early, while bytes before them are missing.
    fn keep_ahead(&self, file: &mut Writing, path: &StorePath, piece: Piece) -> Answer<N3Stable> {
        let Piece { offset, data, stable } = piece;
        let (end, length) = (file.writer.position(), data.len());
        if stable != N3Stable::Not {
            // The client repeats the write. Until then, the missing bytes may come.
            let waited = self.seen(path, true, (end, offset)).is_some_and(|time| time >= PATIENCE);
            return Err(Fault(if waited { N3Status::Inval } else { N3Status::Jukebox }));
        }
        if offset.saturating_add(length as u64) - end > AHEAD_BYTES as u64 {
            seldom!(
                warn,
                "write {path}: refused at {offset}, beyond the file's end at {end}: stores can only append"
            );
            return Err(Fault(N3Status::Inval));
        }
        // Copy the bytes: a slice would keep the memory of the whole call.
        let mut kept = data.to_vec();
        // If an earlier piece at this offset is longer, keep its bytes after this piece.
        let replaced = file.ahead.get(&offset);
        kept.extend_from_slice(replaced.and_then(|piece| piece.get(length..)).unwrap_or_default());
        let memory = kept.len() + PIECE_BYTES;
        let before = self.ahead_bytes.fetch_add(memory, Ordering::Relaxed);
        if before + memory > ALL_AHEAD_BYTES {
            self.ahead_bytes.fetch_sub(memory, Ordering::Relaxed);
            return Err(Fault(N3Status::Jukebox));
        }
        if let Some(replaced) = file.ahead.insert(offset, kept.into()) {
            self.ahead_bytes.fetch_sub(replaced.len() + PIECE_BYTES, Ordering::Relaxed);
        }
        file.unstable = true;
        Ok(N3Stable::Not)
    }

    /// Appends the early bytes that no longer have a gap before them.
    async fn take_ahead(&self, file: &mut Writing, path: &StorePath) -> Result<()> {
        while let Some(first) = file.ahead.first_entry()
            && *first.key() <= file.writer.position()
        {
            let (offset, data) = first.remove_entry();
            self.ahead_bytes.fetch_sub(data.len() + PIECE_BYTES, Ordering::Relaxed);
            if let Err(error) = self.append(file, path, offset, data).await {
                self.lose(path);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Checks that the file has these bytes, as it does if a write was repeated.
    async fn compare(&self, who: &Principal, path: &StorePath, offset: u64, data: &Bytes) -> Result<()> {
        let reader = self.store.open(who, path).await?;
        let mut at = 0;
        while at < data.len() {
            let piece = reader.read_at(offset + at as u64, (data.len() - at).min(MAX_CHUNK_BYTES)).await?;
            if piece.is_empty() || !data[at..].starts_with(&piece) {
                return refuse(path, offset);
            }
            at += piece.len();
        }
        Ok(())
    }

    /// After a failure, drops a writer that can't continue, perhaps with bytes that were acknowledged as
    /// unstable.
    fn after(&self, error: Error, path: &StorePath, state: &mut State) -> Fault {
        // After a refused write, the writer stays usable.
        let goes_on = |file: &Writing| error.kind() == ErrorKind::InvalidArgument || file.writer.goes_on();
        if !state.file.as_ref().is_some_and(goes_on) {
            self.abandon(path, state);
        }
        error.into()
    }

    fn abandon(&self, path: &StorePath, state: &mut State) {
        let Some(file) = state.file.take() else { return };
        self.forget_ahead(&file);
        if file.unstable {
            self.lose(path);
        }
    }

    fn forget_ahead(&self, file: &Writing) {
        let bytes = file.ahead.values().map(|piece| piece.len() + PIECE_BYTES).sum();
        self.ahead_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Closes a file that `who` writes, which makes its bytes as safe as the store's close makes them. Syncs
    /// a file that another user writes.
    ///
    /// # Errors
    /// The store's errors. `Inval`: bytes in the middle are missing, and the client didn't repeat them.
    /// `Jukebox`: another user's file has a gap.
    pub async fn commit(&self, who: &Principal, path: &StorePath) -> Answer<()> {
        if self.sync_of_other(who, path).await? {
            return Ok(());
        }
        let (_, lost) = self.losses().of(path);
        let Some((gap, is_new)) = self.end_of(path, |file| file.who.user == who.user).await? else {
            return Ok(());
        };
        // The missing bytes may be lost ones that the client still has. It sees a new verifier and repeats
        // them. If it doesn't have them, its next COMMIT finds the same gap.
        let repeats = !is_new && lost.elapsed() < LOSS && self.seen(path, false, gap).is_none();
        if repeats { Ok(()) } else { Err(Fault(N3Status::Inval)) }
    }

    /// Syncs a file that another user writes, and returns whether there is one. The file stays open, since
    /// the caller may be any user. A client may send one user's COMMIT for the writes of all its users.
    async fn sync_of_other(&self, who: &Principal, path: &StorePath) -> Answer<bool> {
        let Some(slot) = self.slot(path) else { return Ok(false) };
        let mut state = slot.state.lock().await;
        let Some(file) = state.file.as_mut().filter(|file| file.who.user != who.user) else {
            return Ok(false);
        };
        if !file.ahead.is_empty() {
            return Err(Fault(N3Status::Jukebox));
        }
        match file.sync().await {
            Ok(()) => Ok(true),
            Err(error) => {
                let fault = self.after(error, path, &mut state);
                slot.note_end(&state);
                Err(fault)
            }
        }
    }

    /// Closes a file that is being written, if `who` writes it, or `may_write` says that `who` is surely
    /// allowed to.
    ///
    /// # Errors
    /// The errors of the store's close. `Inval`: bytes in the middle are missing.
    pub async fn close(&self, who: &Principal, path: &StorePath, may_write: bool) -> Answer<()> {
        let gap = self.end_of(path, |file| may_write || file.who.user == who.user).await?;
        gap.map_or(Ok(()), |_| Err(Fault(N3Status::Inval)))
    }

    /// Closes a file that is being written, if `which` accepts it. If bytes are missing, returns the gap, and
    /// whether this server created the file.
    async fn end_of(
        &self,
        path: &StorePath,
        which: impl FnOnce(&Writing) -> bool,
    ) -> Answer<Option<((u64, u64), bool)>> {
        let Some(slot) = self.slot(path) else { return Ok(None) };
        let mut state = slot.state.lock().await;
        if state.is_gone || !state.file.as_ref().is_none_or(which) {
            return Ok(None);
        }
        let is_new = state.file.as_ref().is_some_and(|file| file.is_new);
        let finished = self.finish(path, &mut state).await;
        if state.file.is_none() {
            self.drop_slot(path, &mut state);
        }
        Ok(finished?.map(|gap| (gap, is_new)))
    }

    /// Closes the writer. If there is a gap, drops the bytes after it, and returns the gap.
    async fn finish(&self, path: &StorePath, state: &mut State) -> Answer<Option<(u64, u64)>> {
        let Some(file) = &mut state.file else { return Ok(None) };
        let end = file.writer.position();
        let gap = file.ahead.first_key_value().map(|(at, _)| (end, *at));
        if let Some((_, at)) = gap {
            seldom!(warn, "write {path}: bytes {end} to {at} never came; bytes after them are dropped");
            self.forget_ahead(file);
            file.ahead.clear();
            self.lose(path);
        }
        match file.writer.close().await {
            Ok(_) => {
                state.file = None;
                Ok(gap)
            }
            Err(error) => Err(self.after(error, path, state)),
        }
    }

    fn drop_slot(&self, path: &StorePath, state: &mut State) {
        state.is_gone = true;
        self.slots().remove(path);
    }

    /// Closes those files at and below a path whose writer's user `of` accepts.
    pub async fn close_below(&self, path: &StorePath, of: impl Fn(&Principal) -> bool) {
        let open = self.slots().clone();
        let below = open.keys().filter(|open| path.contains(open));
        join_all(below.map(|path| self.close_one(path, |file| of(&file.who)))).await;
    }

    /// Closes all files, and opens no more files: later writes get `Jukebox`.
    pub async fn close_for_good(&self) {
        {
            let _no_claim = self.slots();
            self.ends.store(true, Ordering::Release);
        }
        self.close_below(&StorePath::root(), |_| true).await;
    }

    /// Closes files that weren't written for [`IDLE`], except those that an earlier sweep is still closing.
    pub async fn sweep(&self) {
        self.gaps().retain(|_, (_, _, since)| since.elapsed() < LOSS);
        let mut open = self.slots().clone();
        open.retain(|_, slot| slot.is_idle());
        // Close the files concurrently (at most MOST_FILES), so that a slow close doesn't delay the others.
        join_all(open.iter().filter_map(|(path, slot)| {
            let closing = Closing::begin(slot)?;
            Some(async move {
                self.close_one(path, |_| slot.is_idle()).await;
                drop(closing);
            })
        }))
        .await;
    }

    /// Closes a file. No client waits for the result.
    async fn close_one(&self, path: &StorePath, which: impl FnOnce(&Writing) -> bool) {
        // A failure is logged. The client notices it by the changed verifier.
        let closed = AssertUnwindSafe(self.end_of(path, which)).catch_unwind().await;
        if closed.is_err()
            && let Some(slot) = self.slot(path)
        {
            tracing::error!("close {path}: the store's writer panicked, which is a bug in Strait");
            let mut state = slot.state.lock().await;
            self.abandon(path, &mut state);
            if !state.is_gone {
                self.drop_slot(path, &mut state);
            }
        }
    }

    /// Makes a file visible to new readers up to `end`. Returns whether this flushed or closed the file, so
    /// that readers which were opened before may see less.
    ///
    /// # Errors
    /// The store's errors. `Inval`: the file was closed with a gap. `Jukebox`: the store shows the file only
    /// after its close, but another user writes it, or the store couldn't append to it afterwards.
    pub async fn show(&self, who: &Principal, path: &StorePath, end: u64) -> Answer<bool> {
        if !self.capabilities.visible_while_written {
            let open = self.end(path).is_some();
            let appends = self.capabilities.append;
            let gap = self.end_of(path, |file| appends && file.who.user == who.user).await?;
            if self.end(path).is_some() {
                return Err(Fault(N3Status::Jukebox));
            }
            return gap.map_or(Ok(open), |_| Err(Fault(N3Status::Inval)));
        }
        let Some(slot) = self.slot(path) else { return Ok(false) };
        let mut state = slot.state.lock().await;
        let Some(file) = &mut state.file else { return Ok(false) };
        let written = file.writer.position();
        if file.flushed >= end.min(written) {
            return Ok(false);
        }
        match file.writer.flush().await {
            Ok(_) => {
                file.flushed = written;
                Ok(true)
            }
            Err(error) => {
                let fault = self.after(error, path, &mut state);
                slot.note_end(&state);
                Err(fault)
            }
        }
    }
}

fn refuse(path: &StorePath, offset: u64) -> Result<()> {
    seldom!(warn, "refused to write at {offset} of {path}, before the file's end: stores can only append");
    let why = "the store can only append to files";
    strait_store::fail(ErrorKind::InvalidArgument, why).map_err(|error: Error| error.at("write", path))
}

/// `Slot::end` while the file has no writer.
const NOT_OPEN: u64 = u64::MAX;

impl Slot {
    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        self.used().elapsed() >= IDLE
    }

    fn touch(&self, state: &State) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.note_end(state);
    }

    fn note_end(&self, state: &State) {
        let end = state.file.as_ref().map_or(NOT_OPEN, |file| file.writer.position());
        self.end.store(end, Ordering::Release);
    }
}

/// Marks a slot whose file a sweep is closing, until it is dropped.
struct Closing<'s>(&'s Slot);

impl<'s> Closing<'s> {
    /// `None` if another sweep is closing the file.
    fn begin(slot: &'s Slot) -> Option<Self> {
        (!slot.closing.swap(true, Ordering::AcqRel)).then_some(Self(slot))
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.closing.store(false, Ordering::Release);
    }
}

impl Writing {
    fn new(who: &Principal, writer: Box<dyn FileWriter>) -> Self {
        Self {
            who: who.clone(),
            flushed: writer.position(),
            writer,
            unstable: false,
            ahead: BTreeMap::new(),
            is_new: false,
            made_by: None,
            record: None,
        }
    }

    async fn sync(&mut self) -> Result<()> {
        self.writer.sync().await?;
        self.flushed = self.writer.position();
        self.unstable = !self.ahead.is_empty();
        Ok(())
    }
}

fn new_record(who: &Principal, path: &StorePath, permission: Option<u32>) -> FileStatus {
    FileStatus {
        path: path.as_str().to_owned(),
        file_type: FileType::File,
        length: 0,
        replication: 1,
        block_size: 0,
        modified_ms: now_ms(),
        accessed_ms: 0,
        permission: permission.unwrap_or(0o644),
        owner: who.user.to_string(),
        group: who.user.to_string(),
        link: false,
    }
}
