//! Files that are being written: each at its end, as stores can.
//!
//! ```text
//!   0 ─────────────── end        ahead ── …
//!     accepted by the │  gap  │  came early, waits here
//!     store's writer  │       │  for the gap to fill
//! ```
//!
//! NFS has no open and no close. A file's writer is opened by the first write, and closed by COMMIT, by
//! seconds without a write, or by another use of the file. Bytes before the end are only compared, since
//! clients repeat writes whose answer was lost.

#[cfg(test)]
mod tests;

use crate::fault::{Answer, Fault};
use crate::log::seldom;
use crate::wire::{N3Stable, N3Status};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::join_all;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strait_store::{
    Capabilities, CreateOptions, Error, ErrorKind, FileStatus, FileSystem, FileType, FileWriter,
    MAX_CHUNK_BYTES, Principal, Result, StorePath,
};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// Files being written at a time. A store's writer may take some megabytes.
const MOST_FILES: usize = 256;
/// A file without a write for so long is closed.
const IDLE: Duration = Duration::from_secs(5);
/// Bytes that came early, of one file and of all: 8 and 64 MiB.
const AHEAD_BYTES: usize = 8 << 20;
/// See [`AHEAD_BYTES`].
const ALL_AHEAD_BYTES: usize = 64 << 20;
/// Memory for a piece that came early, beside its bytes: pieces may have one byte each.
const PIECE_BYTES: usize = 128;
/// So long after a start or a loss, a gap may be bytes that were lost and that their client still has.
const LOSS: Duration = Duration::from_secs(600);
/// So long a stable write behind a gap is repeated by its client, while the bytes before it may come.
const PATIENCE: Duration = Duration::from_secs(15);
/// Gaps that are remembered, some hundred bytes each.
const MOST_GAPS: usize = 1_024;
/// Files whose losses are remembered. More change the verifiers of all.
const MOST_LOSSES: usize = 16_384;
/// More losses than a file has meanwhile.
const LOSSES_OF_FILE: u64 = 1 << 32;

/// Bytes for a place of a file, which a client wants to be as safe as `stable` says.
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
    /// No more files are opened.
    ends: AtomicBool,
    ahead_bytes: AtomicUsize,
    losses: Mutex<Losses>,
    gaps: Mutex<HashMap<Waiting, Gap>>,
}

/// Losses of bytes that were answered as unstable. Each changes the verifier of its file, and of no others:
/// one user's losses would else make others' clients repeat writes for ever.
struct Losses {
    /// The verifier of files without a loss, and since when it is. A start counts as a loss, since an
    /// earlier server may have been killed.
    base: (u64, Instant),
    /// How many losses a file had, and when the last. By the path's digest: paths take much memory, and
    /// two files with one digest only get new verifiers together.
    of_files: HashMap<u64, (u64, Instant)>,
    digests: RandomState,
}

/// A file in which bytes are missing, and whether a stable write waits for them, or a COMMIT found the gap.
type Waiting = (StorePath, bool);

/// A gap: its beginning and end, and when it was first seen.
type Gap = (u64, u64, Instant);

/// One file's place in the table.
struct Slot {
    /// Who claimed it.
    user: Arc<str>,
    state: AsyncMutex<State>,
    used: Mutex<Instant>,
    /// A sweep closes it.
    closing: AtomicBool,
    /// The file's length with all accepted bytes.
    end: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The slot isn't in the table any more.
    is_gone: bool,
    file: Option<Writing>,
}

struct Writing {
    who: Principal,
    writer: Box<dyn FileWriter>,
    /// Readers that open now see the file up to here.
    flushed: u64,
    /// Bytes were answered as unstable since the last sync.
    unstable: bool,
    ahead: BTreeMap<u64, Bytes>,
    /// Made here: no earlier server has lost bytes of it.
    is_new: bool,
    /// The verifier of the exclusive CREATE that made it.
    made_by: Option<[u8; 8]>,
    /// The record of a new file, which some stores don't have before the close.
    record: Option<FileStatus>,
}

impl Writings {
    /// None so far.
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

    /// The verifier of a file's unstable writes: another after each start, and after each loss of them.
    /// Clients then repeat them.
    pub fn verifier(&self, path: &StorePath) -> [u8; 8] {
        self.losses().of(path).0.to_be_bytes()
    }

    /// Bytes of a file are lost that were answered as unstable.
    fn lose(&self, path: &StorePath) {
        self.losses().add(path);
    }

    fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long ago this gap was first seen; None, and it is remembered, if it wasn't. Stable writes that
    /// wait have the same gap if it begins at the same place.
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

    /// Forgets the gap for which stable writes wait: the file goes on.
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

    /// The file's length with all bytes that are written here; None if it isn't being written.
    pub fn end(&self, path: &StorePath) -> Option<u64> {
        self.slot(path).map(|slot| slot.end.load(Ordering::Acquire)).filter(|end| *end != NOT_OPEN)
    }

    /// Whether another user writes the file, and readers see that.
    pub async fn has_another(&self, who: &Principal, path: &StorePath) -> bool {
        let Some(slot) = self.slot(path).filter(|_| self.capabilities.visible_while_written) else {
            return false;
        };
        slot.state.lock().await.file.as_ref().is_some_and(|file| file.who.user != who.user)
    }

    /// The record of a file that the store doesn't show before its close.
    pub async fn record(&self, path: &StorePath) -> Option<FileStatus> {
        let slot = self.slot(path)?;
        let state = slot.state.lock().await;
        let file = state.file.as_ref()?;
        file.record.clone().map(|record| FileStatus { length: file.writer.position(), ..record })
    }

    /// Whether this exclusive CREATE made the file: it was repeated.
    pub async fn was_made_by(&self, path: &StorePath, verifier: [u8; 8]) -> bool {
        let Some(slot) = self.slot(path) else { return false };
        slot.state.lock().await.file.as_ref().is_some_and(|file| file.made_by == Some(verifier))
    }

    /// The file's slot. Makes room for it by closing a file of the user who has the most, the one that was
    /// idle longest: nobody closes another's files by opening many.
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
                // Its store is away; so this client waits, too.
                return Err(fault);
            }
        }
    }

    /// Creates a file, and keeps its writer for the writes that follow.
    ///
    /// # Errors
    /// Those of the store.
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

    /// Writes a piece. Returns how safe it is. `may_write` tells, by a file's mode bits, whether the user
    /// may in any case.
    ///
    /// # Errors
    /// Those of the store. `Inval`: the store writes files only at their end, and this isn't there.
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
            // A write that waits or is refused, perhaps a stranger's, doesn't keep the file open.
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
            // A stranger's call mustn't end a file that is being written.
            if !may_write(&self.store.stat(who, path).await?) {
                return Err(Fault(N3Status::Jukebox));
            }
            // The store decides anew whether this user may write.
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
                // Bytes that are there already may be a killed server's, and not on stable storage.
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

    /// Opens an existing file at its end.
    async fn reopen(
        &self,
        who: &Principal,
        status: &FileStatus,
        path: &StorePath,
    ) -> Result<Box<dyn FileWriter>> {
        if self.capabilities.append || status.length > 0 {
            return self.store.append(who, path).await;
        }
        // An empty file of a store that doesn't append.
        let permission = Some(status.permission);
        let options = CreateOptions { overwrite: true, permission, ..CreateOptions::default() };
        self.store.create(who, path, &options).await
    }

    /// Appends the part of `data` behind the file's end. The part before it must be there already.
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

    /// Keeps bytes that came before those in front of them.
    fn keep_ahead(&self, file: &mut Writing, path: &StorePath, piece: Piece) -> Answer<N3Stable> {
        let Piece { offset, data, stable } = piece;
        let (end, length) = (file.writer.position(), data.len());
        if stable != N3Stable::Not {
            // The client repeats it. Meanwhile the others may come.
            let waited = self.seen(path, true, (end, offset)).is_some_and(|time| time >= PATIENCE);
            return Err(Fault(if waited { N3Status::Inval } else { N3Status::Jukebox }));
        }
        if offset.saturating_add(length as u64) - end > AHEAD_BYTES as u64 {
            seldom!(
                warn,
                "write {path}: at {offset}, beyond its end at {end}: the store writes files only at their end"
            );
            return Err(Fault(N3Status::Inval));
        }
        // A copy: as a part of its call, it would keep the whole of it.
        let mut kept = data.to_vec();
        // The piece that came first may be longer. Its bytes behind this one stay.
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

    /// Appends the bytes whose turn has come.
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

    /// Checks that the file has these bytes: a write was repeated.
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

    /// After a failure, a writer that doesn't go on is dropped, and with it perhaps bytes that were
    /// answered as unstable.
    fn after(&self, error: Error, path: &StorePath, state: &mut State) -> Fault {
        // A refused write leaves the writer usable.
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

    /// Makes a file's bytes as safe as the store's close makes them.
    ///
    /// # Errors
    /// Those of the store. `Inval`: bytes before the last ones are missing, and weren't lost here.
    pub async fn commit(&self, who: &Principal, path: &StorePath) -> Answer<()> {
        if self.sync_of_other(who, path).await? {
            return Ok(());
        }
        let (_, lost) = self.losses().of(path);
        let Some((gap, is_new)) = self.end_of(path, |file| file.who.user == who.user).await? else {
            return Ok(());
        };
        // The missing bytes may be lost ones that the client still has. It sees another verifier, and repeats
        // them. If it hasn't got them, it comes again with the same gap.
        let repeats = !is_new && lost.elapsed() < LOSS && self.seen(path, false, gap).is_none();
        if repeats { Ok(()) } else { Err(Fault(N3Status::Inval)) }
    }

    /// Syncs a file that another user writes. It stays open: the caller may be a stranger, or a client whose
    /// COMMIT by one user is for the writes of all.
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

    /// Closes a file that is being written, for a user who is the writer or, as `may_write` says, may
    /// write it.
    ///
    /// # Errors
    /// Those of the store. `Inval`: bytes before the last ones are missing.
    pub async fn close(&self, who: &Principal, path: &StorePath, may_write: bool) -> Answer<()> {
        let gap = self.end_of(path, |file| may_write || file.who.user == who.user).await?;
        gap.map_or(Ok(()), |_| Err(Fault(N3Status::Inval)))
    }

    /// Closes a file that is being written, if it is such a one. Returns its gap, if bytes are missing,
    /// and whether it was made here.
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

    /// Closes the writer. Drops the bytes behind a gap, and returns the gap.
    async fn finish(&self, path: &StorePath, state: &mut State) -> Answer<Option<(u64, u64)>> {
        let Some(file) = &mut state.file else { return Ok(None) };
        let end = file.writer.position();
        let gap = file.ahead.first_key_value().map(|(at, _)| (end, *at));
        if let Some((_, at)) = gap {
            seldom!(warn, "write {path}: bytes {end} to {at} never came; those behind them are dropped");
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

    /// Closes the files at a path and beneath that certain users write.
    pub async fn close_below(&self, path: &StorePath, of: impl Fn(&Principal) -> bool) {
        let open = self.slots().clone();
        let below = open.keys().filter(|open| path.contains(open));
        join_all(below.map(|path| self.close_one(path, |file| of(&file.who)))).await;
    }

    /// Closes all files, and opens none from now on: writes get `Jukebox`.
    pub async fn close_for_good(&self) {
        {
            let _no_claim = self.slots();
            self.ends.store(true, Ordering::Release);
        }
        self.close_below(&StorePath::root(), |_| true).await;
    }

    /// Closes files that weren't written for a while, but those that an earlier call is closing.
    pub async fn sweep(&self) {
        self.gaps().retain(|_, (_, _, since)| since.elapsed() < LOSS);
        let mut open = self.slots().clone();
        open.retain(|_, slot| slot.is_idle());
        // The others don't wait for a close that takes long: each of at most MOST_FILES has its own time.
        join_all(open.iter().filter_map(|(path, slot)| {
            let closing = Closing::begin(slot)?;
            Some(async move {
                self.close_one(path, |_| slot.is_idle()).await;
                drop(closing);
            })
        }))
        .await;
    }

    /// Closes a file whose user doesn't wait for it.
    async fn close_one(&self, path: &StorePath, which: impl FnOnce(&Writing) -> bool) {
        // A failure is logged, and the client learns it by the verifier.
        let closed = AssertUnwindSafe(self.end_of(path, which)).catch_unwind().await;
        if closed.is_err()
            && let Some(slot) = self.slot(path)
        {
            tracing::error!("close {path}: the store has a bug: its writer panicked");
            let mut state = slot.state.lock().await;
            self.abandon(path, &mut state);
            if !state.is_gone {
                self.drop_slot(path, &mut state);
            }
        }
    }

    /// Lets a reader see a file up to `end`. Returns whether that took a flush, so that earlier readers may
    /// see less.
    ///
    /// # Errors
    /// Those of the store. `Jukebox`: the store shows the file from its close on, and that isn't for this
    /// user to bring about, or the file couldn't be written on.
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
    seldom!(warn, "write {path}: at {offset}, before its end: stores don't write within files");
    let why = "the store writes files only at their end";
    strait_store::fail(ErrorKind::InvalidArgument, why).map_err(|error: Error| error.at("write", path))
}

impl Losses {
    /// None so far; the first verifier is `start`.
    fn since(start: u64) -> Self {
        Self { base: (start, Instant::now()), of_files: HashMap::new(), digests: RandomState::new() }
    }

    /// A file's verifier, and its last loss.
    fn of(&self, path: &StorePath) -> (u64, Instant) {
        let (base, since) = self.base;
        let of_file = self.of_files.get(&self.digests.hash_one(path));
        of_file.map_or((base, since), |(count, last)| (base + count, *last))
    }

    fn add(&mut self, path: &StorePath) {
        if self.of_files.len() >= MOST_LOSSES {
            // Verifiers that nobody has seen.
            self.base = (self.base.0 + LOSSES_OF_FILE, Instant::now());
            self.of_files.clear();
        }
        let (count, last) = self.of_files.entry(self.digests.hash_one(path)).or_insert((0, Instant::now()));
        (*count, *last) = (*count + 1, Instant::now());
    }
}

/// The end of a file without a writer.
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

/// A sweep closes a slot's file.
struct Closing<'s>(&'s Slot);

impl<'s> Closing<'s> {
    /// None if another one does.
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FileStatus {
        path: path.as_str().to_owned(),
        file_type: FileType::File,
        length: 0,
        replication: 1,
        block_size: 0,
        modified_ms: now.as_millis() as i64,
        accessed_ms: 0,
        permission: permission.unwrap_or(0o644),
        owner: who.user.to_string(),
        group: who.user.to_string(),
        link: false,
    }
}
