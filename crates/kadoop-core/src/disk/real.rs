//! A directory of the operating system.

use super::{Disk, DiskFile};
use rustix::{
    buffer::spare_capacity,
    fs::{
        Advice, AtFlags, Dir, FallocateFlags, Mode, OFlags, StatVfs, fadvise, fallocate, fdatasync, fstatvfs,
        openat, renameat, unlinkat,
    },
    io::{Errno, pread},
};
use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    sync::Arc,
};

/// Only the owner may access the files: other users have to pass the namenode's checks of rights.
const OWNER_ALONE: Mode = Mode::RUSR.union(Mode::WUSR);

/// An open directory. It stays the same if its path leads to another directory later.
#[derive(Debug, Clone)]
pub struct RealDisk(Arc<File>);

impl RealDisk {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// The system call fails.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(File::open(directory)?)))
    }

    /// Opens a file for reading, to pass its descriptor to another process.
    ///
    /// # Errors
    /// The system call fails, with `NotFound` if there is no such file.
    pub fn open_to_read(&self, name: &str) -> io::Result<File> {
        self.open_as(name, OFlags::RDONLY)
    }

    /// Whether the path still leads to this directory.
    pub fn is_at(&self, path: &Path) -> bool {
        let of = |status: std::fs::Metadata| (status.dev(), status.ino());
        let there = std::fs::metadata(path).map(of);
        there.is_ok_and(|there| self.0.metadata().is_ok_and(|own| of(own) == there))
    }

    /// The device number of the directory's file system.
    ///
    /// # Errors
    /// The system call fails.
    pub fn device(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.dev())
    }

    /// The total and free space of the directory's file system.
    ///
    /// # Errors
    /// The system call fails.
    pub fn space(&self) -> io::Result<StatVfs> {
        Ok(fstatvfs(&*self.0)?)
    }

    fn open_as(&self, name: &str, flags: OFlags) -> io::Result<File> {
        Ok(openat(&*self.0, name, flags | OFlags::CLOEXEC, OWNER_ALONE)?.into())
    }
}

impl Disk for RealDisk {
    type File = RealFile;

    fn create(&self, name: &str) -> io::Result<RealFile> {
        let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let made = match self.open_as(name, new) {
            // Make a new file instead of truncating the old one, which readers may have open.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(name)?;
                self.open_as(name, new)
            }
            made => made,
        };
        Ok(RealFile(Arc::new(made?)))
    }

    fn open(&self, name: &str) -> io::Result<RealFile> {
        Ok(RealFile(Arc::new(self.open_as(name, OFlags::RDWR)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&*self.0, from, &*self.0, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&*self.0, name, AtFlags::empty())?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&*self.0)? {
            // All names of Kadoop are UTF-8, so others aren't Kadoop's.
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Ok(names)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// A file.
#[derive(Debug, Clone)]
pub struct RealFile(Arc<File>);

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read_vec(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        // Don't fill the buffer with zeroes first: that takes a third of the time of the read.
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = offset + bytes.len() as u64;
            match pread(&*self.0, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // An allocator may return more than requested.
        bytes.truncate(length);
        Ok(bytes)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn preallocate(&self, length: u64) -> io::Result<()> {
        match fallocate(&*self.0, FallocateFlags::empty(), 0, length) {
            // Some file systems can't reserve space. Then only grow the file.
            Err(Errno::OPNOTSUPP) => self.0.set_len(length),
            result => Ok(result?),
        }
    }

    fn begin_sync(&self) {
        // This makes Linux begin to write the dirty pages, for which a journaling file system has to
        // allocate blocks. It then allocates them in the transaction of the next sync, instead of in
        // a separate one.
        let _ = fadvise(&*self.0, 0, None, Advice::DontNeed);
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(fdatasync(&*self.0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn a_file_is_read_as_far_as_it_goes() {
        let directory = tempfile::tempdir().unwrap();
        let file = RealDisk::open(directory.path()).unwrap().create("new").unwrap();
        file.write_at(0, b"0123456789").unwrap();
        for (offset, length) in [(0, 10), (3, 4), (3, 100), (10, 5), (50, 5), (2, 0)] {
            let mut there = vec![0; length];
            let read = file.read_at(offset, &mut there).unwrap();
            assert_eq!(file.read_vec(offset, length).unwrap(), there[..read], "{length} at {offset}");
        }
    }

    #[test]
    fn files_are_their_owners_alone_whatever_the_directory_allows() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        RealDisk::open(directory.path()).unwrap().create("new").unwrap();
        let mode = fs::metadata(directory.path().join("new")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn who_reads_a_file_keeps_it_when_another_is_made_of_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        disk.create("name").unwrap().write_at(0, b"old").unwrap();
        let reader = disk.open_to_read("name").unwrap();
        disk.create("name").unwrap().write_at(0, b"other").unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "old");
        assert_eq!(io::read_to_string(disk.open_to_read("name").unwrap()).unwrap(), "other");
    }
}
