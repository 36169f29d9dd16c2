//! A disk that loses what wasn't synced: at a crash each sector written since the
//! last sync is kept or lost by itself, and of what was done to names a beginning
//! is kept.

use crate::random::Random;
use std::{cell::RefCell, collections::BTreeMap, io, rc::Rc};
use strait_kadoop::disk::{Disk, DiskFile};

/// Small, as the files are: torn writes are what this disk is for.
const SECTOR: usize = 32;

#[derive(Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
}

enum Naming {
    Put(String, usize),
    Gone(String),
}

#[derive(Default)]
struct Inner {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    unsynced: Vec<Naming>,
    /// Operations until the power fails.
    fuse: Option<u64>,
    /// No file grows any more.
    full: bool,
}

/// The disk; clones are the same one.
#[derive(Clone, Default)]
pub struct SimDisk(Rc<RefCell<Inner>>);

/// A file of it.
#[derive(Clone)]
pub struct SimFile(Rc<RefCell<Inner>>, usize);

impl Inner {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.fuse {
            Some(0) => Err(io::Error::other("the power failed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl SimDisk {
    /// No file grows any more, or all may again.
    pub fn set_full(&self, full: bool) {
        self.0.borrow_mut().full = full;
    }

    /// Whether there is no more room.
    pub fn is_full(&self) -> bool {
        self.0.borrow().full
    }

    /// Whether the power has failed, and wasn't turned on since.
    pub fn is_off(&self) -> bool {
        self.0.borrow().fuse == Some(0)
    }

    /// The power fails after `operations` more; until [`SimDisk::crash`] all fail then.
    pub fn fail_after(&self, operations: u64) {
        self.0.borrow_mut().fuse = Some(operations);
    }

    /// Loses what wasn't synced, all or a part of it, and turns the power on again.
    pub fn crash(&self, random: &mut Random) {
        let mut inner = self.0.borrow_mut();
        inner.fuse = None;
        let kept = random.below(inner.unsynced.len() as u64 + 1) as usize;
        let unsynced = std::mem::take(&mut inner.unsynced);
        for naming in unsynced.into_iter().take(kept) {
            match naming {
                Naming::Put(name, file) => drop(inner.synced_names.insert(name, file)),
                Naming::Gone(name) => drop(inner.synced_names.remove(&name)),
            }
        }
        inner.names = inner.synced_names.clone();
        for content in &mut inner.files {
            if content.now != content.synced {
                content.tear(random);
            }
        }
    }

    /// Whether a file of that name is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.borrow().names.contains_key(name)
    }

    /// Flips a bit behind everybody's back.
    pub fn damage(&self, name: &str, at: usize) {
        let mut inner = self.0.borrow_mut();
        let file = inner.names[name];
        inner.files[file].now[at] ^= 0x10;
        inner.files[file].synced = inner.files[file].now.clone();
    }
}

impl Content {
    fn tear(&mut self, random: &mut Random) {
        let length = if random.one_in(2) { self.now.len() } else { self.synced.len() };
        let mut torn = self.synced.clone();
        torn.resize(length, 0);
        for start in (0..length).step_by(SECTOR) {
            let end = (start + SECTOR).min(length).min(self.now.len());
            if start < end && random.one_in(2) {
                torn[start..end].copy_from_slice(&self.now[start..end]);
            }
        }
        self.now = torn.clone();
        self.synced = torn;
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut inner = self.0.borrow_mut();
        inner.step()?;
        let file = inner.files.len();
        inner.files.push(Content::default());
        inner.names.insert(name.to_owned(), file);
        inner.unsynced.push(Naming::Put(name.to_owned(), file));
        Ok(SimFile(self.0.clone(), file))
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let file = self.0.borrow().names.get(name).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(SimFile(self.0.clone(), file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.step()?;
        let file = inner.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        inner.names.insert(to.to_owned(), file);
        inner.unsynced.push(Naming::Put(to.to_owned(), file));
        inner.unsynced.push(Naming::Gone(from.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.step()?;
        inner.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        inner.unsynced.push(Naming::Gone(name.to_owned()));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().names.keys().cloned().collect())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.step()?;
        inner.unsynced.clear();
        inner.synced_names = inner.names.clone();
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.step()?;
        let full = inner.full;
        let now = &mut inner.files[self.1].now;
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if full && end > now.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        now.resize(now.len().max(end), 0);
        now[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let inner = self.0.borrow();
        let rest = inner.files[self.1].now.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.borrow().files[self.1].now.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.step()?;
        inner.files[self.1].now.resize(length as usize, 0);
        Ok(())
    }

    fn preallocate(&self, length: u64) -> io::Result<()> {
        let now = self.length()?;
        if self.0.borrow().full && length > now {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.set_length(length.max(now))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.step()?;
        let content = &mut inner.files[self.1];
        content.synced = content.now.clone();
        Ok(())
    }
}
