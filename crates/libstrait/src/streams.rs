//! An open file: a stream to read, or to write at its end.

use crate::failure::{Cause, because};
use crate::process::{Owned, Place, Process};
use nix::libc::{
    O_ACCMODE, O_APPEND, O_CLOEXEC, O_CREAT, O_EXCL, O_LARGEFILE, O_NOCTTY, O_RDONLY, O_TRUNC, O_WRONLY,
    c_int, mode_t,
};
use std::future::Future;
use std::io::{self, SeekFrom};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use strait_client::stream::{Reader, Writer};
use strait_store::{CreateOptions, Error, ErrorKind, Result, StorePath, fail};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

/// Flags of open(2) that make no difference here.
const HARMLESS: c_int = O_CLOEXEC | O_NOCTTY | O_LARGEFILE;

/// `STRAIT_DEFAULT_MODE` of strait.h.
pub const DEFAULT_MODE: mode_t = mode_t::MAX;

/// The permission bits of a mode; None for the store's default.
pub fn permission(mode: mode_t) -> Option<u32> {
    (mode != DEFAULT_MODE).then_some(mode & 0o7777)
}

/// An open file.
pub struct Stream {
    owned: Owned<Kind>,
    path: String,
}

enum Kind {
    /// Readers at an offset share it.
    Read(RwLock<Reading>),
    Write(Mutex<Writer>),
}

/// A stream to read.
struct Reading {
    stream: Reader,
    /// The error that ended the latest read after some bytes. The next one reports it: another attempt would take as
    /// long again.
    failed: Option<io::Error>,
}

/// The kind of opening that the flags choose.
enum Wish {
    Read,
    Create { overwrite: bool },
    Append { create: bool },
}

impl Wish {
    fn of(flags: c_int) -> Result<Self> {
        let has = |flag| flags & flag != 0;
        if has(!(O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | HARMLESS)) {
            return fail(
                ErrorKind::InvalidArgument,
                "the flags contain one that files of a store don't have",
            );
        }
        match flags & O_ACCMODE {
            O_RDONLY if !has(O_CREAT | O_TRUNC | O_APPEND) => Ok(Self::Read),
            O_WRONLY if has(O_APPEND) && !has(O_TRUNC | O_EXCL) => Ok(Self::Append { create: has(O_CREAT) }),
            O_WRONLY if has(O_CREAT) && has(O_EXCL) => Ok(Self::Create { overwrite: false }),
            O_WRONLY if has(O_CREAT) && has(O_TRUNC) => Ok(Self::Create { overwrite: true }),
            _ => fail(
                ErrorKind::InvalidArgument,
                "the flags must be O_RDONLY; or O_WRONLY with O_CREAT | O_EXCL, O_CREAT | O_TRUNC or O_APPEND, \
                 since files are written at their ends (strait_plfs_open: at any offset)",
            ),
        }
    }
}

impl Stream {
    /// Opens a file. Flags and mode are those of strait.h.
    pub fn open(uri: &str, flags: c_int, mode: mode_t) -> Result<Self> {
        let wish = Wish::of(flags).map_err(|error| error.at("open", uri))?;
        let place = Place::of(uri)?;
        let permission = permission(mode);
        let kind = place.process.wait(opened(&place, wish, permission))?;
        Ok(Self { path: place.path.to_string(), owned: Owned::new(place.process, kind) })
    }

    /// Creates a file at another path of the place's store.
    pub fn create(place: &Place, path: &StorePath, options: &CreateOptions) -> Result<Self> {
        let writer = place.process.wait(place.fs.create(&place.who, path, options))?;
        let kind = Kind::Write(Mutex::new(Writer::named(writer, path.as_ref())));
        Ok(Self { path: path.to_string(), owned: Owned::new(place.process, kind) })
    }

    /// Reads until `into` is full or the file ends, and returns the number of bytes.
    pub fn read(&self, into: &mut [u8]) -> Result<usize> {
        let (process, reader) = self.reader("read")?;
        let mut guard = reader.write().unwrap_or_else(PoisonError::into_inner);
        let Reading { stream, failed } = &mut *guard;
        if let Some(error) = failed.take() {
            return Err(error.into());
        }
        let mut done = 0;
        while done < into.len() {
            let read = match stream.present() {
                [] => process.wait(stream.read(&mut into[done..])),
                present => {
                    let bytes = present.len().min(into.len() - done);
                    into[done..done + bytes].copy_from_slice(&present[..bytes]);
                    stream.advance(bytes);
                    Ok(bytes)
                }
            };
            match read {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if done > 0 => {
                    *failed = Some(error);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// Reads at `offset` until `into` is full or the file ends. The position stays.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let (process, reader) = self.reader("read")?;
        let reader = reader.read().unwrap_or_else(PoisonError::into_inner);
        Ok(process.wait(reader.stream.read_into(into, offset))?)
    }

    /// Moves the position of the next read.
    pub fn seek(&self, to: SeekFrom) -> Result<u64> {
        let (process, reader) = self.reader("seek")?;
        let mut reader = reader.write().unwrap_or_else(PoisonError::into_inner);
        let (base, by) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::End(by) => (reader.stream.length(), by),
            SeekFrom::Current(by) => (reader.stream.position(), by),
        };
        // C's offsets have a sign.
        if base.checked_add_signed(by).is_some_and(|offset| offset > i64::MAX as u64) {
            return self.refuse("seek", "the offset would be above 2^63 - 1");
        }
        reader.failed = None;
        Ok(process.wait(reader.stream.seek(to))?)
    }

    /// Writes at the end, and returns the number of accepted bytes. It is less than all only after an error.
    pub fn write(&self, data: &[u8]) -> Result<usize> {
        let (process, mut writer) = self.writer("write")?;
        let mut done = 0;
        while done < data.len() {
            let accepted = match writer.gather(&data[done..]) {
                0 => process.wait(writer.write(&data[done..])),
                accepted => Ok(accepted),
            };
            match accepted {
                Ok(accepted) => done += accepted,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// Offset of the next byte that is read or written.
    pub fn position(&self) -> Result<u64> {
        match self.kind()?.1 {
            Kind::Read(reader) => Ok(reader.read().unwrap_or_else(PoisonError::into_inner).stream.position()),
            Kind::Write(writer) => Ok(locked(writer).position()),
        }
    }

    /// The file's length: when it was opened, or with all bytes that were written here.
    pub fn length(&self) -> Result<u64> {
        match self.kind()?.1 {
            Kind::Read(reader) => Ok(reader.read().unwrap_or_else(PoisonError::into_inner).stream.length()),
            Kind::Write(writer) => Ok(locked(writer).position()),
        }
    }

    /// Waits until all bytes are visible to those who open the file afterwards.
    pub fn flush(&self) -> Result<()> {
        let (process, mut writer) = self.writer("flush")?;
        finished(process, writer.flush())
    }

    /// Waits until all bytes are on stable storage.
    pub fn sync(&self) -> Result<()> {
        let (process, mut writer) = self.writer("sync")?;
        finished(process, writer.sync())
    }

    /// Closes the file, after a sync if it was written.
    pub fn close(self) -> Result<()> {
        match self.kind()? {
            (_, Kind::Read(_)) => Ok(()),
            (process, Kind::Write(writer)) => finished(process, locked(writer).shutdown()),
        }
    }

    fn kind(&self) -> Result<(&'static Process, &Kind)> {
        self.owned.get().map_err(|error| error.at("use", &self.path))
    }

    fn reader(&self, operation: &'static str) -> Result<(&'static Process, &RwLock<Reading>)> {
        match self.kind()? {
            (process, Kind::Read(reader)) => Ok((process, reader)),
            (_, Kind::Write(_)) => self.wrong_way(operation, "the file is open for writing only"),
        }
    }

    fn writer(&self, operation: &'static str) -> Result<(&'static Process, MutexGuard<'_, Writer>)> {
        match self.kind()? {
            (process, Kind::Write(writer)) => Ok((process, locked(writer))),
            (_, Kind::Read(_)) => self.wrong_way(operation, "the file is open for reading only"),
        }
    }

    fn wrong_way<T>(&self, operation: &'static str, message: &'static str) -> Result<T> {
        Err(because(Cause::BadHandle, message).at(operation, &self.path))
    }

    fn refuse<T>(&self, operation: &'static str, message: &'static str) -> Result<T> {
        Err(Error::new(ErrorKind::InvalidArgument, message).at(operation, &self.path))
    }
}

fn finished(process: &Process, work: impl Future<Output = io::Result<()>> + Send) -> Result<()> {
    Ok(process.wait(work)?)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn opened(place: &Place, wish: Wish, permission: Option<u32>) -> Result<Kind> {
    let Place { fs, who, path, .. } = place;
    let create = |overwrite| {
        let options = CreateOptions { overwrite, permission, ..CreateOptions::default() };
        async move { fs.create(who, path, &options).await }
    };
    let writer = match wish {
        Wish::Read => {
            let stream = Reader::named(fs.open(who, path).await?, path.as_ref()).in_thread();
            return Ok(Kind::Read(RwLock::new(Reading { stream, failed: None })));
        }
        Wish::Create { overwrite } => create(overwrite).await?,
        Wish::Append { create: creates } => match fs.append(who, path).await {
            Err(missing) if missing.kind() == ErrorKind::NotFound && creates => match create(false).await {
                // Another process has created it since.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => fs.append(who, path).await?,
                created => created?,
            },
            appended => appended?,
        },
    };
    Ok(Kind::Write(Mutex::new(Writer::named(writer, path.as_ref()))))
}
