//! A directory in memory.

use std::{cell::RefCell, collections::BTreeMap, io, rc::Rc};
use strait_kadoop_core::disk::{Disk, DiskFile};

/// Longest file, so that a length that is only claimed shows as an error, not as memory.
const MAX_BYTES: usize = 1 << 24;

#[derive(Clone, Default)]
pub struct MemoryDisk(Rc<RefCell<BTreeMap<String, MemoryFile>>>);

#[derive(Clone, Default)]
pub struct MemoryFile(Rc<RefCell<Vec<u8>>>);

impl MemoryFile {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Rc::new(RefCell::new(bytes.to_vec())))
    }
}

impl MemoryDisk {
    pub fn with(name: &str, bytes: &[u8]) -> Self {
        let disk = Self::default();
        disk.0.borrow_mut().insert(name.to_owned(), MemoryFile::of(bytes));
        disk
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn create(&self, name: &str) -> io::Result<MemoryFile> {
        let file = MemoryFile::default();
        self.0.borrow_mut().insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<MemoryFile> {
        self.0.borrow().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let file = self.0.borrow_mut().remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.0.borrow_mut().insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.borrow_mut().remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().keys().cloned().collect())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset as usize + bytes.len();
        let mut file = self.0.borrow_mut();
        let length = file.len().max(end);
        file.resize(length, 0);
        file[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.0.borrow();
        let rest = file.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.borrow().len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        assert!(length <= MAX_BYTES as u64, "a file of {length} bytes");
        self.0.borrow_mut().resize(length as usize, 0);
        Ok(())
    }

    fn preallocate(&self, length: u64) -> io::Result<()> {
        self.set_length(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
}
