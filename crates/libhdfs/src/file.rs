//! An open file.

mod ahead;

use crate::failure::{EINTERNAL, Failure, Outcome};
use crate::filesystem::Connection;
use crate::process;
use ahead::Sequence;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt};
use nix::libc::{EBADF, ESTALE};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strait_fork::Process;
use strait_store::process::PerProcess;
use strait_store::{CreateOptions, FileReader, FileWriter, MAX_CHUNK_BYTES, StorePath};

/// Bytes of one request of a large read. At this size, a round trip takes little time beside the transfer.
const PIECE_BYTES: usize = 1 << 20;
/// Most requests of one positional read that run at once.
const PIECES_AT_ONCE: usize = 4;
/// Small writes are gathered up to this size, as Hadoop's library gathers them in packets.
const GATHERED_BYTES: usize = 64 << 10;

/// The program's buffer, which a read fills.
pub struct Room {
    at: *mut u8,
    left: usize,
    filled: usize,
}

// SAFETY: `new`'s caller promised the memory to this value alone, in whatever thread it is.
unsafe impl Send for Room {}

impl Room {
    /// # Safety
    /// `at` points to `length` writable bytes, which nothing else uses as long as this value lives.
    pub unsafe fn new(at: *mut u8, length: usize) -> Self {
        Self { at, left: length, filled: 0 }
    }

    /// Copies as many of `bytes` as fit, and returns their number.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.left);
        // SAFETY: `new`'s caller promised `left` bytes from here.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at, count);
            self.at = self.at.add(count);
        }
        self.left -= count;
        self.filled += count;
        count
    }
}

/// A file that is open for reading. A forked child opens it again, and continues at its parent's position.
pub struct Input {
    fs: Arc<Connection>,
    path: StorePath,
    /// The store's identity of the file. It shows whether the path names another file later.
    identity: Option<Bytes>,
    position: AtomicU64,
    delivered: AtomicU64,
    opened: PerProcess<Opened>,
}

#[derive(Default)]
struct Opened {
    reader: Mutex<Option<Arc<dyn FileReader>>>,
    sequence: Mutex<Sequence>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Input {
    /// Opens the file.
    pub fn open(fs: &Arc<Connection>, path: StorePath) -> Outcome<Self> {
        let mut input = Self {
            fs: fs.clone(),
            path,
            identity: None,
            position: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            opened: PerProcess::new(),
        };
        input.identity = input.reader()?.identity();
        Ok(input)
    }

    fn opened(&self) -> Outcome<&Opened> {
        self.opened.get_or_make(|| Ok(Opened::default()))
    }

    fn reader(&self) -> Outcome<Arc<dyn FileReader>> {
        let mut reader = locked(&self.opened()?.reader);
        if let Some(reader) = &*reader {
            return Ok(reader.clone());
        }
        let fresh: Arc<dyn FileReader> =
            self.fs.run(async |store, who| store.open(who, &self.path).await)?.into();
        if self.identity.is_some() && fresh.identity() != self.identity {
            let text = format!("open {} again: the path names another file now", self.path);
            return Err(Failure::new(ESTALE, text));
        }
        *reader = Some(fresh.clone());
        Ok(fresh)
    }

    /// Reads the next bytes until there is no room or the file ends. Returns their number.
    pub fn read(&self, room: Room) -> Outcome<usize> {
        let mut sequence = locked(&self.opened()?.sequence);
        let at = self.position.load(Ordering::Acquire);
        let mut room = room;
        // Most small reads are copied from here, without waiting and without a system call.
        sequence.copy(at, &mut room);
        if room.left > 0 {
            let (reader, begin) = (self.reader()?, at + room.filled as u64);
            let read = process::current()?.wait(sequence.read(&reader, begin, &mut room));
            // If bytes came before a failure, return them. The next call meets the failure again.
            if let Err(error) = read
                && room.filled == 0
            {
                return Err(error.into());
            }
        }
        self.position.store(at + room.filled as u64, Ordering::Release);
        Ok(self.delivered(room.filled))
    }

    /// Reads at an offset until there is no room or the file ends. Returns the number of bytes.
    pub fn read_at(&self, at: u64, room: Room) -> Outcome<usize> {
        let reader = self.reader()?;
        let (mut room, length) = (room, room_of(&reader, at));
        let wanted = room.left.min(length);
        let pieces = (0..wanted).step_by(PIECE_BYTES).map(|begin| {
            let reader = reader.clone();
            let count = PIECE_BYTES.min(wanted - begin);
            async move { (count, reader.read_at(at + begin as u64, count).await) }
        });
        let mut pieces = stream::iter(pieces).buffered(PIECES_AT_ONCE);
        process::current()?.wait(async {
            while let Some((count, piece)) = pieces.next().await {
                if room.put(&piece?) < count {
                    break;
                }
            }
            Ok::<_, Failure>(())
        })?;
        Ok(self.delivered(room.filled))
    }

    /// Returns some of the next bytes, without a copy; none at the end.
    pub fn read_some(&self, most: usize) -> Outcome<Bytes> {
        let reader = self.reader()?;
        let _sequence = locked(&self.opened()?.sequence);
        let at = self.position.load(Ordering::Acquire);
        let bytes = process::current()?.wait(reader.read_at(at, most.min(MAX_CHUNK_BYTES)))?;
        self.position.store(at + bytes.len() as u64, Ordering::Release);
        self.delivered(bytes.len());
        Ok(bytes)
    }

    fn delivered(&self, count: usize) -> usize {
        self.delivered.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    /// Moves to an offset, at most the file's length.
    pub fn seek(&self, to: i64) -> Outcome<()> {
        let length = self.reader()?.length();
        let to = u64::try_from(to).ok().filter(|to| *to <= length).ok_or_else(|| {
            Failure::new(
                EINTERNAL,
                format!("seek in {}: {to} is outside the file of {length} bytes", self.path),
            )
        })?;
        let _sequence = locked(&self.opened()?.sequence);
        self.position.store(to, Ordering::Release);
        Ok(())
    }

    /// The position.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Bytes from the position to the end.
    pub fn available(&self) -> Outcome<u64> {
        Ok(self.reader()?.length().saturating_sub(self.position()))
    }

    /// Drops the bytes read ahead and the file's connections. The next read opens the file again.
    pub fn unbuffer(&self) -> Outcome<()> {
        let opened = self.opened()?;
        let ahead = std::mem::take(&mut *locked(&opened.sequence));
        let reader = locked(&opened.reader).take();
        process::current()?.drop((ahead, reader));
        Ok(())
    }

    /// Bytes given to the program since the last [`Input::clear_count`].
    pub fn count(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Resets the count to zero.
    pub fn clear_count(&self) {
        self.delivered.store(0, Ordering::Relaxed);
    }
}

/// Bytes from an offset to the file's end, at most `usize::MAX`.
fn room_of(reader: &Arc<dyn FileReader>, at: u64) -> usize {
    usize::try_from(reader.length().saturating_sub(at)).unwrap_or(usize::MAX)
}

impl Drop for Input {
    fn drop(&mut self) {
        if let (Some(opened), Ok(process)) = (self.opened.take(), process::current()) {
            process.drop(opened);
        }
    }
}

/// A file that is open for writing. Only the process that opened it can use it.
pub struct Output {
    /// Keeps the store open.
    _fs: Arc<Connection>,
    path: StorePath,
    process: Process,
    position: AtomicU64,
    /// A forked child must not drop its parent's writer.
    state: ManuallyDrop<Mutex<Writing>>,
}

struct Writing {
    writer: Box<dyn FileWriter>,
    gathered: BytesMut,
}

/// How far a flush passes the written bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To the store's writer.
    Store,
    /// Until new readers see them.
    Readers,
    /// To stable storage.
    Disks,
}

impl Output {
    /// Creates the file, or overwrites it.
    pub fn create(fs: &Arc<Connection>, path: StorePath, options: &CreateOptions) -> Outcome<Self> {
        let writer = fs.run(async |store, who| store.create(who, &path, options).await)?;
        Ok(Self::over(fs, path, writer))
    }

    /// Opens the file for appending.
    pub fn append(fs: &Arc<Connection>, path: StorePath) -> Outcome<Self> {
        let writer = fs.run(async |store, who| store.append(who, &path).await)?;
        Ok(Self::over(fs, path, writer))
    }

    fn over(fs: &Arc<Connection>, path: StorePath, writer: Box<dyn FileWriter>) -> Self {
        let position = AtomicU64::new(writer.position());
        let state = ManuallyDrop::new(Mutex::new(Writing { writer, gathered: BytesMut::new() }));
        Self { _fs: fs.clone(), path, process: Process::this(), position, state }
    }

    fn writing(&self) -> Outcome<MutexGuard<'_, Writing>> {
        if !self.process.is_this() {
            let text = format!("write {}: only the parent process can write to it", self.path);
            return Err(Failure::new(EBADF, text));
        }
        Ok(locked(&self.state))
    }

    /// Writes `bytes`. If the store fails after it took some of them, returns their number.
    pub fn write(&self, bytes: &[u8]) -> Outcome<usize> {
        let mut writing = self.writing()?;
        let before = writing.end();
        let written = writing.write(bytes);
        let taken = writing.end().saturating_sub(before);
        self.position.store(writing.end(), Ordering::Release);
        match written {
            Ok(()) => Ok(bytes.len()),
            Err(_) if taken > 0 => Ok(taken as usize),
            Err(failure) => Err(failure),
        }
    }

    /// Passes all written bytes on, as far as `reach` says.
    pub fn flush(&self, reach: Reach) -> Outcome<()> {
        let mut writing = self.writing()?;
        writing.pass_on()?;
        let process = process::current()?;
        match reach {
            Reach::Store => {}
            Reach::Readers => drop(process.wait(writing.writer.flush())?),
            Reach::Disks => drop(process.wait(writing.writer.sync())?),
        }
        Ok(())
    }

    /// The offset of the next byte.
    pub fn position(&self) -> Outcome<u64> {
        Ok(self.position.load(Ordering::Acquire))
    }

    /// Closes the file.
    pub fn close(self) -> Outcome<()> {
        let mut writing = self.writing()?;
        writing.pass_on()?;
        process::current()?.wait(writing.writer.close())?;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.process.is_this() {
            return;
        }
        // SAFETY: this value is being dropped, so nothing uses the state any more.
        let state = unsafe { ManuallyDrop::take(&mut self.state) };
        if let Ok(process) = process::current() {
            process.drop(state);
        }
    }
}

impl Writing {
    /// The offset after all bytes written so far, including gathered ones.
    fn end(&self) -> u64 {
        self.writer.position() + self.gathered.len() as u64
    }

    fn write(&mut self, mut bytes: &[u8]) -> Outcome<()> {
        if self.gathered.len() + bytes.len() < GATHERED_BYTES {
            self.gathered.extend_from_slice(bytes);
            return Ok(());
        }
        self.pass_on()?;
        while bytes.len() >= GATHERED_BYTES {
            let (piece, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES));
            process::current()?.wait(self.writer.append(Bytes::copy_from_slice(piece)))?;
            bytes = rest;
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    /// Gives the gathered bytes to the store. After a failure, the bytes that the store didn't take stay
    /// gathered.
    fn pass_on(&mut self) -> Outcome<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let (before, gathered) = (self.writer.position(), self.gathered.split().freeze());
        let appended = process::current()?.wait(self.writer.append(gathered.clone()));
        if let Err(error) = appended {
            let taken = usize::try_from(self.writer.position().saturating_sub(before)).unwrap_or(usize::MAX);
            self.gathered.extend_from_slice(&gathered[taken.min(gathered.len())..]);
            return Err(error.into());
        }
        Ok(())
    }
}
