//! A disk that loses unsynced state. A crash keeps or loses each sector written since the last sync
//! independently, and keeps a prefix of the changes of names.
//!
//! A single sync may fail, as on Linux: its data stay readable for some time, and no later sync
//! puts them on disk. Only writing them again does.

use crate::random::Random;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    io,
    rc::Rc,
};
use strait_kadoop_core::disk::{Disk, DiskFile};

/// Small, as the files are: this disk is for torn writes.
const SECTOR: usize = 32;
/// Linux's error for a sector that can't be read.
const EIO: i32 = 5;

#[derive(Default, Clone)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Whether the two may differ.
    changed: bool,
    /// Sectors whose sync failed and that weren't written since.
    lost: BTreeSet<usize>,
    /// The same for the length.
    length_lost: bool,
    /// Sectors that can't be read.
    unreadable: BTreeSet<usize>,
}

#[derive(Clone)]
enum Naming {
    Put(String, usize),
    Gone(String),
}

#[derive(Default, Clone)]
struct Inner {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    unsynced: Vec<Naming>,
    /// Number of operations until the power fails.
    fuse: Option<u64>,
    /// Number of syncs until one fails.
    sync_fuse: Option<u64>,
    /// Whether an operation has failed.
    failed: bool,
    /// Whether no file can grow.
    full: bool,
    /// Number of syncs, and of files looked for.
    syncs: u64,
    opens: u64,
}

/// The disk. Clones are the same one.
#[derive(Clone, Default)]
pub struct SimDisk(Rc<RefCell<Inner>>);

/// A file of the disk. Clones are the same one.
#[derive(Clone)]
pub struct SimFile(Rc<RefCell<Inner>>, usize);

impl Inner {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.fuse {
            Some(0) => {
                self.failed = true;
                Err(io::Error::other("the power failed"))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Counts a sync; returns whether it succeeds.
    fn step_sync(&mut self) -> io::Result<bool> {
        self.step()?;
        self.syncs += 1;
        let failed = self.sync_fuse == Some(0);
        self.failed |= failed;
        self.sync_fuse = self.sync_fuse.and_then(|left| left.checked_sub(1));
        Ok(!failed)
    }

    fn put_names(&mut self, count: usize) {
        for naming in self.unsynced.drain(..count) {
            match naming {
                Naming::Put(name, file) => drop(self.synced_names.insert(name, file)),
                Naming::Gone(name) => drop(self.synced_names.remove(&name)),
            }
        }
    }
}

fn sync_failed<T>() -> io::Result<T> {
    Err(io::Error::other("a sync failed"))
}

impl SimDisk {
    /// Sets whether no file can grow.
    pub fn set_full(&self, full: bool) {
        self.0.borrow_mut().full = full;
    }

    /// Number of syncs so far.
    pub fn syncs(&self) -> u64 {
        self.0.borrow().syncs
    }

    /// Number of files that were opened or looked for so far.
    pub fn opens(&self) -> u64 {
        self.0.borrow().opens
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        self.0.borrow().full
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.0.borrow().fuse == Some(0)
    }

    /// Whether no failure is scheduled.
    pub fn is_sound(&self) -> bool {
        let inner = self.0.borrow();
        inner.fuse.is_none() && inner.sync_fuse.is_none()
    }

    /// Whether an operation has failed since the current use began.
    pub fn has_failed(&self) -> bool {
        self.0.borrow().failed
    }

    /// Begins a new use.
    pub fn begin_use(&self) {
        self.0.borrow_mut().failed = false;
    }

    /// Fails the power after `operations` more. All operations then fail until [`SimDisk::crash`].
    pub fn fail_after(&self, operations: u64) {
        self.0.borrow_mut().fuse = Some(operations);
    }

    /// Puts another disk's contents in the place of this one's, on the disk. Nobody may use this one.
    pub fn put_back(&self, other: &Self) {
        let mut inner = other.0.borrow().clone();
        inner.fuse = None;
        inner.sync_fuse = None;
        // Other files take the room.
        inner.full = self.0.borrow().full;
        inner.unsynced.clear();
        inner.synced_names = inner.names.clone();
        for content in &mut inner.files {
            content.synced = content.now.clone();
            content.lost.clear();
            (content.changed, content.length_lost) = (false, false);
        }
        *self.0.borrow_mut() = inner;
    }

    /// Replaces a file's bytes, on the disk.
    pub fn replace(&self, name: &str, bytes: &[u8]) {
        let mut inner = self.0.borrow_mut();
        let file = inner.names[name];
        let content = &mut inner.files[file];
        (content.now, content.synced) = (bytes.to_vec(), bytes.to_vec());
        content.lost.clear();
        (content.changed, content.length_lost) = (false, false);
    }

    /// Removes a file, on the disk.
    pub fn lose(&self, name: &str) {
        let mut inner = self.0.borrow_mut();
        inner.names.remove(name);
        inner.synced_names.remove(name);
    }

    /// Cancels the scheduled failure of the power, or turns it on again.
    pub fn keep_on(&self) {
        self.0.borrow_mut().fuse = None;
    }

    /// Another disk with the same contents.
    pub fn copy(&self) -> Self {
        Self(Rc::new(RefCell::new(self.0.borrow().clone())))
    }

    /// Makes one sync fail, after `syncs` more. None cancels that.
    pub fn fail_sync_after(&self, syncs: Option<u64>) {
        self.0.borrow_mut().sync_fuse = syncs;
    }

    /// Makes data of failed syncs unreadable, as when the kernel reclaims their memory.
    pub fn forget_lost(&self) {
        self.0.borrow_mut().files.iter_mut().for_each(Content::forget_lost);
    }

    /// Loses all or a part of the unsynced state, and turns the power on again.
    pub fn crash(&self, random: &mut Random) {
        let mut inner = self.0.borrow_mut();
        inner.fuse = None;
        let kept = random.below(inner.unsynced.len() as u64 + 1) as usize;
        inner.put_names(kept);
        inner.unsynced.clear();
        inner.names = inner.synced_names.clone();
        for content in &mut inner.files {
            if std::mem::take(&mut content.changed) && content.now != content.synced {
                content.tear(random);
            }
        }
    }

    /// Whether a file of that name exists.
    pub fn has(&self, name: &str) -> bool {
        self.0.borrow().names.contains_key(name)
    }

    /// Whether all names are on the disk.
    pub fn has_synced_names(&self) -> bool {
        let inner = self.0.borrow();
        inner.names == inner.synced_names
    }

    /// Swaps two files' names, on the disk.
    pub fn swap(&self, one: &str, other: &str) {
        let mut inner = self.0.borrow_mut();
        let Inner { names, synced_names, .. } = &mut *inner;
        for names in [names, synced_names] {
            let files = (names[one], names[other]);
            names.extend([(one.to_owned(), files.1), (other.to_owned(), files.0)]);
        }
    }

    /// Makes the sector of this byte unreadable.
    pub fn make_unreadable(&self, name: &str, at: usize) {
        let mut inner = self.0.borrow_mut();
        let file = inner.names[name];
        inner.files[file].unreadable.insert(at / SECTOR);
    }

    /// Flips a bit on the disk.
    pub fn damage(&self, name: &str, at: usize) {
        let mut inner = self.0.borrow_mut();
        let file = inner.names[name];
        inner.files[file].now[at] ^= 0x10;
        inner.files[file].synced = inner.files[file].now.clone();
    }
}

impl Content {
    fn write(&mut self, start: usize, bytes: &[u8]) {
        self.changed = true;
        let end = start + bytes.len();
        if end > self.now.len() {
            self.now.resize(end, 0);
            self.length_lost = false;
        }
        self.now[start..end].copy_from_slice(bytes);
        // A write replaces whole sectors, and the disk remaps bad ones.
        let written = start / SECTOR..end.div_ceil(SECTOR);
        self.lost.retain(|sector| !written.contains(sector));
        self.unreadable.retain(|sector| !written.contains(sector));
    }

    fn set_length(&mut self, length: usize) {
        self.changed = true;
        self.length_lost &= length == self.now.len();
        // The cut also writes the sector that it goes through.
        self.lost.retain(|sector| (sector + 1) * SECTOR <= length);
        self.now.resize(length, 0);
    }

    fn sync(&mut self) {
        if !self.changed {
            return;
        }
        if self.lost.is_empty() && !self.length_lost {
            self.synced.clone_from(&self.now);
            self.changed = false;
            return;
        }
        let length = if self.length_lost { self.synced.len() } else { self.now.len() };
        let mut synced = self.now.clone();
        synced.resize(length, 0);
        for sector in &self.lost {
            restore(&mut synced, &self.synced, *sector);
        }
        self.synced = synced;
    }

    fn fail_sync(&mut self) {
        for sector in 0..self.now.len().div_ceil(SECTOR) {
            if part(&self.now, sector) != part(&self.synced, sector) {
                self.lost.insert(sector);
            }
        }
        self.length_lost |= self.now.len() != self.synced.len();
    }

    fn forget_lost(&mut self) {
        for sector in std::mem::take(&mut self.lost) {
            restore(&mut self.now, &self.synced, sector);
        }
    }

    fn tear(&mut self, random: &mut Random) {
        let longer = random.one_in(2) && !self.length_lost;
        let length = if longer { self.now.len() } else { self.synced.len() };
        let mut torn = self.synced.clone();
        torn.resize(length, 0);
        for start in (0..length).step_by(SECTOR) {
            let end = (start + SECTOR).min(length).min(self.now.len());
            if start < end && random.one_in(2) && !self.lost.contains(&(start / SECTOR)) {
                torn[start..end].copy_from_slice(&self.now[start..end]);
            }
        }
        self.now = torn.clone();
        self.synced = torn;
        self.lost.clear();
        self.length_lost = false;
    }
}

/// The existing part of a sector.
fn part(bytes: &[u8], sector: usize) -> &[u8] {
    let end = ((sector + 1) * SECTOR).min(bytes.len());
    bytes.get(sector * SECTOR..end).unwrap_or_default()
}

/// Gives a sector its bytes in `from`, or zeroes.
fn restore(to: &mut [u8], from: &[u8], sector: usize) {
    let end = ((sector + 1) * SECTOR).min(to.len());
    let Some(to) = to.get_mut(sector * SECTOR..end) else { return };
    let from = part(from, sector);
    let both = from.len().min(to.len());
    to.fill(0);
    to[..both].copy_from_slice(&from[..both]);
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
        self.0.borrow_mut().opens += 1;
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
        if !inner.step_sync()? {
            inner.unsynced.clear();
            return sync_failed();
        }
        let all = inner.unsynced.len();
        inner.put_names(all);
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.step()?;
        let full = inner.full;
        let content = &mut inner.files[self.1];
        if full && offset as usize + bytes.len() > content.now.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        content.write(offset as usize, bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let inner = self.0.borrow();
        let file = &inner.files[self.1];
        let rest = file.now.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        let sectors = offset as usize / SECTOR..(offset as usize + length).div_ceil(SECTOR);
        if file.unreadable.range(sectors).next().is_some() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.borrow().files[self.1].now.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.step()?;
        inner.files[self.1].set_length(length as usize);
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
        let succeeds = inner.step_sync()?;
        let content = &mut inner.files[self.1];
        if !succeeds {
            content.fail_sync();
            return sync_failed();
        }
        content.sync();
        Ok(())
    }
}
