//! The operations on logical files, and an open logical file.

use crate::process::{Place, Process};
use crate::streams::permission;
use bytes::Bytes;
use nix::libc::{O_ACCMODE, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, c_int, mode_t};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strait_plfs::{Container, Options, Reader, Writer};
use strait_store::{Error, ErrorKind, FileStatus, MAX_CHUNK_BYTES, Result, StorePath, fail};

/// An open logical file.
pub struct File {
    process: &'static Process,
    path: StorePath,
    container: Container,
    readable: bool,
    writer: Option<Mutex<Written>>,
    reader: Mutex<Option<Arc<Reader>>>,
}

struct Written {
    writer: Writer,
    /// Whether the writer has bytes that no sync has published.
    unsynced: bool,
}

/// Opens the logical file of a URI.
async fn opened(place: &Place) -> Result<Container> {
    Container::open(place.fs.clone(), &place.who, &place.path).await
}

/// Copies a logical file to a plain one.
pub fn flatten(from: &str, to: &str) -> Result<()> {
    let (source, target) = Place::and_target(from, to, "flatten to")?;
    source.process.wait(async { opened(&source).await?.flatten(&target).await.map(drop) })
}

/// Replaces a logical file by a plain one. Returns the number of bytes that were copied for that.
pub fn finalize(from: &str, to: &str) -> Result<u64> {
    let (source, target) = Place::and_target(from, to, "finalize to")?;
    source.process.wait(async { opened(&source).await?.finalize(&target).await.map(|done| done.moved) })
}

/// The status of a logical file.
pub fn status(uri: &str) -> Result<FileStatus> {
    let place = Place::of(uri)?;
    place.process.wait(async { opened(&place).await?.status().await })
}

/// Renames a logical file within its store.
pub fn rename(from: &str, to: &str) -> Result<()> {
    let (source, target) = Place::and_target(from, to, "rename to")?;
    source.process.wait(async { opened(&source).await?.rename(&target, false).await })
}

/// Removes a logical file.
pub fn remove(uri: &str) -> Result<()> {
    let place = Place::of(uri)?;
    place.process.wait(async { opened(&place).await?.remove().await })
}

impl File {
    /// Opens a logical file. Flags and mode are those of open(2).
    pub fn open(uri: &str, flags: c_int, mode: mode_t, rank: u32) -> Result<Self> {
        let (readable, writable) = match flags & O_ACCMODE {
            O_RDONLY => (true, false),
            O_WRONLY => (false, true),
            O_RDWR => (true, true),
            _ => return fail(ErrorKind::InvalidArgument, "the flags need O_RDONLY, O_WRONLY or O_RDWR"),
        };
        let place = Place::of(uri)?;
        let container = place.process.wait(find(&place, flags, permission(mode)))?;
        let Place { process, path, .. } = place;
        let writer =
            writable.then(|| Mutex::new(Written { writer: container.writer(rank), unsynced: false }));
        let file = Self { process, path, container, readable, writer, reader: Mutex::default() };
        if flags & O_TRUNC != 0 && writable {
            file.truncate(0)?;
        }
        Ok(file)
    }

    /// Writes all bytes. Copies them in pieces, since a checkpoint may take half of the host's memory.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut written = self.written("write")?;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return self.refuse("write", "the file would be longer than 2^63 - 1 bytes");
        }
        let mut at = offset;
        for piece in bytes.chunks(MAX_CHUNK_BYTES) {
            self.process.wait(written.writer.write_at(at, Bytes::copy_from_slice(piece)))?;
            written.unsynced = true;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Reads some of the bytes at `offset`; none at the end.
    pub fn read_at(&self, offset: u64, most: usize) -> Result<Bytes> {
        self.check_process()?;
        if !self.readable {
            return self.refuse("read", "the file isn't open for reading");
        }
        let reader = self.reader()?;
        self.process.wait(reader.read_at(offset, most.min(MAX_CHUNK_BYTES)))
    }

    /// A reader that sees all bytes that this handle wrote.
    fn reader(&self) -> Result<Arc<Reader>> {
        if let Some(written) = &self.writer {
            let mut written = locked(written);
            if written.unsynced {
                self.publish(&mut written)?;
            }
        }
        let mut reader = locked(&self.reader);
        if let Some(reader) = &*reader {
            return Ok(reader.clone());
        }
        let fresh = Arc::new(self.process.wait(self.container.reader())?);
        *reader = Some(fresh.clone());
        Ok(fresh)
    }

    pub fn sync(&self) -> Result<()> {
        self.check_process()?;
        if let Some(written) = &self.writer {
            self.publish(&mut locked(written))?;
        }
        *locked(&self.reader) = None;
        Ok(())
    }

    pub fn truncate(&self, length: u64) -> Result<()> {
        let mut written = self.written("truncate")?;
        self.process.wait(written.writer.truncate(length))?;
        written.unsynced = false;
        *locked(&self.reader) = None;
        Ok(())
    }

    pub fn length(&self) -> Result<u64> {
        self.sync()?;
        Ok(self.reader()?.length())
    }

    pub fn close(self) -> Result<()> {
        if let Err(error) = self.check_process() {
            // Don't drop the file, since its runtime doesn't run in this process.
            std::mem::forget(self);
            return Err(error);
        }
        let closed = match &self.writer {
            Some(written) => self.process.wait(locked(written).writer.close()),
            None => Ok(()),
        };
        let process = self.process;
        process.drop(self);
        closed
    }

    fn publish(&self, written: &mut Written) -> Result<()> {
        self.process.wait(written.writer.sync())?;
        written.unsynced = false;
        *locked(&self.reader) = None;
        Ok(())
    }

    fn written(&self, operation: &'static str) -> Result<MutexGuard<'_, Written>> {
        self.check_process()?;
        match &self.writer {
            Some(written) => Ok(locked(written)),
            None => self.refuse(operation, "the file isn't open for writing"),
        }
    }

    fn check_process(&self) -> Result<()> {
        self.process.check().map_err(|error| error.at("use", &self.path))
    }

    fn refuse<T>(&self, operation: &'static str, message: &'static str) -> Result<T> {
        fail(ErrorKind::InvalidArgument, message).map_err(|error: Error| error.at(operation, &self.path))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the logical file. With O_CREAT, creates it if it doesn't exist.
async fn find(place: &Place, flags: c_int, permission: Option<u32>) -> Result<Container> {
    let create = flags & O_CREAT != 0;
    let exclusive = create && flags & O_EXCL != 0;
    if !exclusive {
        match opened(place).await {
            Err(error) if error.kind() == ErrorKind::NotFound && create => {}
            found => return found,
        }
    }
    let options = Options { permission, ..Options::default() };
    match Container::create(place.fs.clone(), &place.who, &place.path, &options).await {
        // Another process has created it since.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !exclusive => opened(place).await,
        made => made,
    }
}
