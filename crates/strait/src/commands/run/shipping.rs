//! Files that are shipped to the hosts of a command.
//!
//! A helper keeps them in a separate directory, and removes it at its end. It holds a lock on the directory
//! while it lives. So the next helper can recognize the directory of a killed helper, and remove it.

use crate::failure::Failure;
use crate::random::random;
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use strait_dispatch::frame::{OUTPUT_BYTES, Shipped};
use strait_store::hex;
use tempfile::TempDir;

/// Largest number of files: each command's directory has a link to each of them.
const MAX_FILES: usize = 1_000;
/// Names of a helper's directory and of its lock.
const PREFIX: &str = "ship-";
const LOCK: &str = ".lock";

/// A file to ship.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// Its path on this host.
    pub path: PathBuf,
    /// Its description for the hosts.
    pub shipped: Shipped,
}

/// Reads the files that the flags name, to learn their digests.
pub fn parcels(paths: &[PathBuf]) -> Result<Vec<Parcel>, Failure> {
    if paths.len() > MAX_FILES {
        return Err(Failure::usage(format!("--ship: more than {MAX_FILES} files; put them into an archive")));
    }
    let mut parcels: Vec<Parcel> = Vec::with_capacity(paths.len());
    for path in paths {
        let parcel = parcel(path)?;
        if let Some(same) = parcels.iter().find(|other| other.shipped.name == parcel.shipped.name) {
            let (one, other) = (same.path.display(), path.display());
            return Err(Failure::usage(format!("--ship: {one} and {other} would have the same name")));
        }
        parcels.push(parcel);
    }
    Ok(parcels)
}

fn parcel(path: &Path) -> Result<Parcel, Failure> {
    let failed = |error| Failure::local(error, "ship", path);
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let (true, Some(name)) = (metadata.is_file(), name) else {
        let shown = path.display();
        return Err(Failure::usage(format!(
            "--ship {shown}: only regular files with names in UTF-8 are shipped; put a directory into an archive"
        )));
    };
    let (bytes, sha256) = digest(&mut file).map_err(failed)?;
    let is_executable = metadata.mode() & 0o111 != 0;
    Ok(Parcel {
        path: path.to_owned(),
        shipped: Shipped { name: name.to_owned(), bytes, sha256, is_executable },
    })
}

/// The number of bytes from the file's position to its end, and their SHA-256 in hexadecimal.
pub fn digest(file: &mut File) -> io::Result<(u64, String)> {
    let (mut digest, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; OUTPUT_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hex::encode(&digest.finalize()))),
            read => {
                bytes += read as u64;
                digest.update(&buffer[..read]);
            }
        }
    }
}

/// A host's directory of shipped files.
pub struct Hold {
    directory: PathBuf,
    lock: PathBuf,
    /// Holds the lock while it is open.
    _locked: File,
    files: Vec<Arriving>,
}

struct Arriving {
    shipped: Shipped,
    /// `None` once all bytes have arrived.
    file: Option<File>,
    digest: Sha256,
    bytes: u64,
}

impl Hold {
    /// Creates a directory for these files. Removes the directories of killed helpers.
    pub fn new(files: Vec<Shipped>) -> Result<Self, Failure> {
        let base = base()?;
        remove_left(&base);
        let name = format!("{PREFIX}{}-{:08x}", std::process::id(), u32::from_ne_bytes(random()?));
        let (directory, lock) = (base.join(&name), base.join(format!("{name}{LOCK}")));
        let failed = |error: io::Error| Failure::local(error, "make a directory for shipped files in", &base);
        let locked =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&lock).map_err(failed)?;
        // This doesn't block: other helpers only try the lock.
        locked.lock().map_err(failed)?;
        if !lock.exists() {
            return Err(failed(io::Error::other("another program removed the directory's lock; try again")));
        }
        DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        let mut hold = Self { directory, lock, _locked: locked, files: Vec::new() };
        DirBuilder::new().mode(0o700).create(hold.work()).map_err(failed)?;
        DirBuilder::new().mode(0o700).create(hold.shipped()).map_err(failed)?;
        for shipped in files {
            if shipped.name.contains('/') || ["", ".", ".."].contains(&shipped.name.as_str()) {
                return Err(Failure::usage(format!("a shipped file can't have the name {:?}", shipped.name)));
            }
            let path = hold.shipped().join(&shipped.name);
            let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let file = open.map_err(|error| Failure::local(error, "create", &path))?;
            hold.files.push(Arriving { shipped, file: Some(file), digest: Sha256::new(), bytes: 0 });
        }
        Ok(hold)
    }

    fn work(&self) -> PathBuf {
        self.directory.join("work")
    }

    fn shipped(&self) -> PathBuf {
        self.directory.join("files")
    }

    /// Appends bytes to a file.
    pub fn write(&mut self, number: usize, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.shipped();
        let Some(arriving) = self.files.get_mut(number) else {
            return Err(Failure::other("received bytes of a file that wasn't announced"));
        };
        arriving.bytes += bytes.len() as u64;
        if arriving.bytes > arriving.shipped.bytes {
            return Err(Failure::other(format!(
                "received more bytes of {} than were announced",
                arriving.shipped.name
            )));
        }
        arriving.digest.update(bytes);
        let Some(file) = &mut arriving.file else { return Ok(()) };
        file.write_all(bytes)
            .map_err(|error| Failure::local(error, "write shipped", &path.join(&arriving.shipped.name)))
    }

    /// Whether all announced bytes have arrived.
    pub fn is_whole(&self) -> bool {
        self.files.iter().all(|file| file.bytes == file.shipped.bytes)
    }

    /// Checks the digests of the files, and makes them read-only.
    pub fn check(&mut self) -> Result<(), Failure> {
        for Arriving { shipped, file, digest, .. } in &mut self.files {
            if hex::encode(&std::mem::take(digest).finalize()) != shipped.sha256 {
                return Err(Failure::other(format!(
                    "{} arrived damaged, or changed after `strait run` started",
                    shipped.name
                )));
            }
            let mode = if shipped.is_executable { 0o500 } else { 0o400 };
            // This also closes the file: a program can't be run while it is open for writing.
            let protected =
                file.take().map_or(Ok(()), |file| file.set_permissions(Permissions::from_mode(mode)));
            protected.map_err(|error| Failure::local(error, "protect", shipped.name.as_ref()))?;
        }
        Ok(())
    }

    /// A working directory for one command, with links to all files. Dropping the value removes it.
    pub fn desk(&self) -> Result<TempDir, Failure> {
        let made = || -> io::Result<TempDir> {
            let desk = tempfile::Builder::new()
                .prefix("")
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(self.work())?;
            for file in &self.files {
                symlink(self.shipped().join(&file.shipped.name), desk.path().join(&file.shipped.name))?;
            }
            Ok(desk)
        };
        made().map_err(|error| Failure::local(error, "make a working directory in", &self.work()))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // If this fails, a later helper removes the directory.
        let _ = std::fs::remove_dir_all(&self.directory);
        let _ = std::fs::remove_file(&self.lock);
    }
}

/// The directory for all helpers of this user. No other user can enter it.
fn base() -> Result<PathBuf, Failure> {
    let Some(cache) = crate::tokens::directory() else {
        return Err(Failure::other("can't store shipped files: neither HOME nor XDG_CACHE_HOME is set"));
    };
    let base = cache.join("ship");
    let made = || {
        DirBuilder::new().recursive(true).mode(0o700).create(&base)?;
        let metadata = std::fs::symlink_metadata(&base)?;
        if !metadata.is_dir() || metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(io::Error::other("it isn't a directory that this user owns"));
        }
        std::fs::set_permissions(&base, Permissions::from_mode(0o700))
    };
    made().map_err(|error| Failure::local(error, "use", &base))?;
    Ok(base)
}

/// Removes the directories of killed helpers. Ignores failures.
fn remove_left(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let lock = entry.path();
        let Some(name) =
            entry.file_name().to_str().and_then(|name| name.strip_suffix(LOCK)).map(str::to_owned)
        else {
            continue;
        };
        let Ok(file) = OpenOptions::new().write(true).open(&lock) else { continue };
        match file.try_lock() {
            Ok(()) if name.starts_with(PREFIX) => {
                let _ = std::fs::remove_dir_all(base.join(&name));
                let _ = std::fs::remove_file(&lock);
            }
            Ok(()) | Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_with_different_names_are_shipped() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("a"), dir.path().join("b/a"));
        std::fs::create_dir(dir.path().join("b")).unwrap();
        std::fs::write(&one, "x").unwrap();
        std::fs::write(&other, "y").unwrap();
        let parcels_of =
            |paths: &[&PathBuf]| parcels(&paths.iter().map(|path| (*path).clone()).collect::<Vec<_>>());
        let [parcel] = &parcels_of(&[&one]).unwrap()[..] else { panic!() };
        assert_eq!((parcel.shipped.bytes, parcel.shipped.is_executable), (1, false));
        assert!(parcel.shipped.sha256.starts_with("2d711642"), "of x: {}", parcel.shipped.sha256);
        assert!(parcels_of(&[&one, &other]).is_err(), "the same name");
        assert!(parcels_of(&[&dir.path().to_owned()]).is_err(), "a directory");
        assert!(parcels_of(&[&dir.path().join("none")]).is_err());
    }
}
