//! A table of small values that survives the process that writes it: a log in a file in memory.
//!
//! ```text
//!   header: start ──→ frame, frame, frame … end
//!   frame: length, CRC32C, key, and the key's new value (or none: the key is removed)
//! ```
//!
//! A kill may leave an incomplete last frame. The next process cuts it off: no action has relied on it yet.
//! When most of the log is out of date, the live frames are copied behind its end, the header is changed, and
//! the memory of the old part is freed.

use rustix::fs::{FallocateFlags, MemfdFlags};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use strait_crc::crc32c;

/// The kind of a value, and its number.
pub type Key = (u8, u64);
/// A key and its value.
pub type Entry = (Key, Vec<u8>);

const MAGIC: u64 = u64::from_le_bytes(*b"straitR1");
/// Length of the header: a page that is never freed.
const HEADER: u64 = 4_096;
/// Length of a frame's part before the key: length and checksum.
const FRAME: usize = 8;
/// Length of the key: kind, number, and whether there is a value.
const KEY: usize = 10;
/// Largest value, 1 MiB: a path and a user's groups take some KiB.
const MAX_VALUE: usize = 1 << 20;
/// The log is compacted when its out-of-date bytes exceed its live bytes by this much (1 MiB). So each byte
/// is copied about once.
const SLACK: u64 = 1 << 20;

/// The table.
#[derive(Debug)]
pub struct Record {
    file: File,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    start: u64,
    end: u64,
    live: HashMap<Key, Frame>,
    /// Bytes of live frames.
    bytes: u64,
    /// A write to the record failed, so no process may continue with it.
    broken: bool,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    at: u64,
    length: u32,
}

/// A new file in memory.
pub fn memory(name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?)
}

/// Frees the memory of `from..to`.
pub fn punch(file: &File, from: u64, to: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, from, to - from)?)
}

impl Record {
    /// The table in a file, and its entries in the order of their keys. An empty file is an empty table.
    ///
    /// # Errors
    /// An earlier process marked the record as incomplete, or it can't be read.
    pub fn open(file: File) -> io::Result<(Self, Vec<Entry>)> {
        let length = file.metadata()?.len();
        let start = if length == 0 { HEADER } else { start(&file)? };
        let mut log = Log { start, end: start, live: HashMap::new(), bytes: 0, broken: false };
        let mut values = HashMap::new();
        while let Some(frame) = read(&file, log.end, length)? {
            let length = frame.len() as u64;
            let (key, value) = parsed(&frame);
            match value {
                Some(value) => drop(values.insert(key, value.to_vec())),
                None => drop(values.remove(&key)),
            }
            log.apply(key, value.is_some(), frame.len());
            log.end += length;
        }
        file.set_len(log.end)?;
        write_header(&file, log.start)?;
        if log.start > HEADER {
            punch(&file, HEADER, log.start)?; // the killed process may not have done that
        }
        let mut values: Vec<Entry> = values.into_iter().collect();
        values.sort_unstable_by_key(|(key, _)| *key);
        Ok((Self { file, log: Mutex::new(log) }, values))
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets or removes a value. After this returns, a kill doesn't lose the change.
    pub fn put(&self, key: Key, value: Option<&[u8]>) {
        let mut log = self.log();
        if log.broken || (value.is_none() && !log.live.contains_key(&key)) {
            return;
        }
        if let Err(error) = self.write(&mut log, key, value) {
            drop(log);
            self.give_up(&error);
        }
    }

    /// Marks the record as incomplete, so that no process continues with it.
    pub fn give_up(&self, error: &io::Error) {
        let mut log = self.log();
        if !std::mem::replace(&mut log.broken, true) {
            tracing::error!("can't write the mount's record: {error}; the mount won't survive a kill");
            let _ = self.file.write_all_at(&[0; 16], 0);
        }
    }

    /// Forgets a value that has no meaning any more. The next process may still find it.
    pub fn forget(&self, key: Key) {
        let mut log = self.log();
        if let Some(frame) = log.live.remove(&key) {
            log.bytes -= u64::from(frame.length);
        }
    }

    fn write(&self, log: &mut Log, key: Key, value: Option<&[u8]>) -> io::Result<()> {
        let frame = framed(key, value)?;
        self.file.write_all_at(&frame, log.end)?;
        log.apply(key, value.is_some(), frame.len());
        log.end += frame.len() as u64;
        if log.end - log.start > 2 * log.bytes + SLACK {
            self.compact(log)?;
        }
        Ok(())
    }

    /// Copies the live frames behind the end of the log, and continues the log there.
    fn compact(&self, log: &mut Log) -> io::Result<()> {
        let (start, end) = (log.start, log.end);
        let mut frames: Vec<(Key, Frame)> = log.live.iter().map(|(key, frame)| (*key, *frame)).collect();
        frames.sort_unstable_by_key(|(_, frame)| frame.at);
        // Begin on a new page: a page that both parts share would be freed with the old part.
        let begin = end.next_multiple_of(HEADER);
        let (mut at, mut piece) = (begin, Vec::with_capacity(2 * MAX_VALUE));
        for (key, frame) in frames {
            let from = piece.len();
            piece.resize(from + frame.length as usize, 0);
            self.file.read_exact_at(&mut piece[from..], frame.at)?;
            log.live.insert(key, Frame { at: at + from as u64, ..frame });
            if piece.len() >= MAX_VALUE {
                self.file.write_all_at(&piece, at)?;
                at += piece.len() as u64;
                piece.clear();
            }
        }
        self.file.write_all_at(&piece, at)?;
        (log.start, log.end) = (begin, at + piece.len() as u64);
        write_header(&self.file, begin)?;
        punch(&self.file, start, begin)
    }

    #[cfg(test)]
    fn memory(&self) -> u64 {
        self.file.sync_all().unwrap();
        rustix::fs::fstat(&self.file).unwrap().st_blocks.cast_unsigned() * 512
    }
}

impl Log {
    fn apply(&mut self, key: Key, present: bool, length: usize) {
        let frame = Frame { at: self.end, length: length as u32 };
        let before = if present { self.live.insert(key, frame) } else { self.live.remove(&key) };
        self.bytes += if present { length as u64 } else { 0 };
        self.bytes -= before.map_or(0, |frame| u64::from(frame.length));
    }
}

fn framed((kind, number): Key, value: Option<&[u8]>) -> io::Result<Vec<u8>> {
    let bytes = value.unwrap_or_default();
    if bytes.len() > MAX_VALUE {
        return Err(Error::new(ErrorKind::InvalidInput, format!("a value of {} bytes", bytes.len())));
    }
    let mut frame = Vec::with_capacity(FRAME + KEY + bytes.len());
    frame.extend(((FRAME + KEY + bytes.len()) as u32).to_le_bytes());
    frame.extend([0; 4]);
    frame.push(kind);
    frame.extend(number.to_le_bytes());
    frame.push(u8::from(value.is_some()));
    frame.extend(bytes);
    let checksum = crc32c(&frame[FRAME..]);
    frame[4..FRAME].copy_from_slice(&checksum.to_le_bytes());
    Ok(frame)
}

fn parsed(frame: &[u8]) -> (Key, Option<&[u8]>) {
    let (key, value) = frame[FRAME..].split_at(KEY);
    ((key[0], number(&key[1..9])), (key[9] == 1).then_some(value))
}

/// The complete frame at `at`; `None` at the log's end.
fn read(file: &File, at: u64, end: u64) -> io::Result<Option<Vec<u8>>> {
    if at + FRAME as u64 > end {
        return Ok(None);
    }
    let mut begin = [0; FRAME];
    file.read_exact_at(&mut begin, at)?;
    let [length, checksum] = [&begin[..4], &begin[4..]].map(|bytes| number(bytes) as usize);
    if !(FRAME + KEY..=FRAME + KEY + MAX_VALUE).contains(&length) || at + length as u64 > end {
        return Ok(None);
    }
    let mut frame = vec![0; length];
    file.read_exact_at(&mut frame, at)?;
    Ok((crc32c(&frame[FRAME..]) as usize == checksum).then_some(frame))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Writes the header: one write within a page, which a kill can't interrupt.
fn write_header(file: &File, start: u64) -> io::Result<()> {
    let mut header = [0; 16];
    header[..8].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..].copy_from_slice(&start.to_le_bytes());
    file.write_all_at(&header, 0)
}

fn start(file: &File) -> io::Result<u64> {
    let mut header = [0; 16];
    file.read_exact_at(&mut header, 0)?;
    if number(&header[..8]) != MAGIC {
        return Err(Error::new(ErrorKind::InvalidData, "the mount's record is incomplete"));
    }
    Ok(number(&header[8..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(record: &Record) -> (Record, Vec<Entry>) {
        Record::open(record.file.try_clone().unwrap()).unwrap()
    }

    fn empty() -> Record {
        Record::open(File::from(memory("test").unwrap())).unwrap().0
    }

    #[test]
    fn the_last_value_of_each_key_survives() {
        let record = empty();
        record.put((1, 1), Some(b"old"));
        record.put((1, 2), Some(b"gone"));
        record.put((1, 1), Some(b"new"));
        record.put((2, 1), Some(b""));
        record.put((1, 2), None);
        let wanted = vec![((1, 1), b"new".to_vec()), ((2, 1), Vec::new())];
        let (record, values) = again(&record);
        assert_eq!(values, wanted);
        record.put((3, 3), Some(b"more"));
        assert_eq!(again(&record).1[2], ((3, 3), b"more".to_vec()));
    }

    #[test]
    fn a_frame_torn_at_any_byte_is_cut_off_and_the_log_goes_on() {
        let whole = framed((1, 2), Some(b"torn")).unwrap();
        for length in 0..whole.len() {
            let record = empty();
            record.put((1, 1), Some(b"whole"));
            let end = record.log().end;
            record.file.write_all_at(&whole[..length], end).unwrap();
            let (record, values) = again(&record);
            assert_eq!(values, [((1, 1), b"whole".to_vec())], "{length}");
            record.put((1, 3), Some(b"next"));
            assert_eq!(again(&record).1.len(), 2, "{length}");
        }
    }

    #[test]
    fn a_log_of_many_changes_stays_small_and_keeps_every_value() {
        let record = empty();
        for step in 0..200_000_u64 {
            record.put((1, step % 100), Some(format!("value {step}").as_bytes()));
            record.put((2, step), Some(b"answer"));
            record.forget((2, step));
        }
        assert!(record.memory() < 2 << 20, "{} bytes", record.memory());
        let (record, values) = again(&record);
        let of_one: Vec<_> = values.iter().filter(|((kind, _), _)| *kind == 1).collect();
        assert_eq!(of_one.len(), 100);
        for ((_, number), value) in of_one {
            assert_eq!(String::from_utf8(value.clone()).unwrap(), format!("value {}", 199_900 + number));
        }
        for number in 0..100 {
            record.put((1, number), None);
        }
        assert!(again(&record).1.iter().all(|((kind, _), _)| *kind == 2));
    }

    #[test]
    fn nobody_goes_on_by_a_record_that_lacks_something() {
        let record = empty();
        record.put((1, 1), Some(b"x"));
        record.put((1, 2), Some(&vec![0; MAX_VALUE + 1]));
        let error = Record::open(record.file.try_clone().unwrap()).unwrap_err();
        assert!(error.to_string().contains("incomplete"), "{error}");
    }
}
