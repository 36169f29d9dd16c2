//! A directory that belongs to one process, with its lock and its identity.

use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    iter,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};
use strait_kadoop_wire::directory_sync::sync_name;

/// The file to lock. It is never removed: only the lock on it counts.
const LOCK: &str = "lock";
/// The file with the identity.
const IDENTITY: &str = "identity";
const FORMAT: &str = "1";
/// Names of the numbers in the identity file: the cluster's, and a datanode's own.
pub(crate) const CLUSTER: &str = "cluster";
pub(crate) const DATANODE: &str = "datanode";

/// A directory that this process holds until it drops this value.
#[derive(Debug)]
pub(crate) struct StorageDirectory {
    path: PathBuf,
    lock: File,
}

impl Drop for StorageDirectory {
    fn drop(&mut self) {
        // After a mere close, a forked child that hasn't called exec yet would still hold the lock.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl StorageDirectory {
    /// Locks the directory, and makes it if it is missing.
    ///
    /// # Errors
    /// ResourceBusy: another process holds the lock; the operating system's.
    pub(crate) fn take(path: &Path) -> io::Result<Self> {
        // Only the owner gets access: users' rights are checked by the namenode, not by these files' modes.
        let above = path.ancestors().skip(1);
        let made: Vec<&Path> = above.take_while(|level| !is_here(level) && !level.exists()).collect();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        for level in iter::once(path).chain(made) {
            sync_name(level)?;
        }
        let lock =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path.join(LOCK))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("{} is in use by another process", path.display()),
            )),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the numbers of this directory; see [`kept`].
    ///
    /// # Errors
    /// As [`kept`].
    pub(crate) fn read<const N: usize>(&self, names: [&str; N]) -> io::Result<Option<[u64; N]>> {
        kept(&self.path, names)
    }

    /// Replaces the identity file by one with these names and numbers, atomically.
    ///
    /// # Errors
    /// The system call fails.
    pub(crate) fn write(&self, numbers: &[(&str, u64)]) -> io::Result<()> {
        let mut text = format!("format {FORMAT}\n");
        for (name, number) in numbers {
            text.push_str(&format!("{name} {number:016x}\n"));
        }
        let temporary = self.path.join("identity.tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, self.path.join(IDENTITY))?;
        File::open(&self.path)?.sync_all()
    }
}

/// A kind of process that owns directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A namenode, with its log and checkpoints.
    Namenode,
    /// A datanode, with its replicas.
    Datanode,
}

impl Role {
    /// The kind of process whose directory this is, by the file `identity`. None: the file is missing
    /// or can't be read.
    pub fn of(directory: &Path) -> Option<Self> {
        match (kept(directory, [DATANODE]), kept(directory, [CLUSTER])) {
            (Ok(Some(_)), _) => Some(Self::Datanode),
            (_, Ok(Some(_))) => Some(Self::Namenode),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Namenode => "namenode",
            Self::Datanode => "datanode",
        }
    }

    /// Refuses a directory of the other kind.
    ///
    /// # Errors
    /// InvalidInput: the directory belongs to a process of the other kind.
    pub(crate) fn demand(self, directory: &Path) -> io::Result<()> {
        match Self::of(directory).filter(|role| *role != self) {
            None => Ok(()),
            Some(other) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{} is a {}'s directory (see its file `{IDENTITY}`); give a {}'s directory \
                     or an empty one",
                    directory.display(),
                    other.name(),
                    self.name()
                ),
            )),
        }
    }
}

/// The numbers with these names in the directory's identity file, in the order of `names`. None: there
/// is no identity file.
///
/// # Errors
/// InvalidData: the file lacks a name, has an invalid number or another format; the operating system's.
pub(crate) fn kept<const N: usize>(path: &Path, names: [&str; N]) -> io::Result<Option<[u64; N]>> {
    let mut text = String::new();
    match File::open(path.join(IDENTITY)) {
        Ok(mut file) => file.read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let value =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::trim);
    let invalid = |why: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.join(IDENTITY).display()))
    };
    match value("format") {
        Some(FORMAT) => {}
        Some(_) => return Err(invalid("has the format of another version of this program")),
        None => return Err(invalid("isn't an identity file: it has no line `format`")),
    }
    let mut numbers = [0; N];
    for (number, name) in numbers.iter_mut().zip(names) {
        let digits = value(name).ok_or_else(|| invalid("was written by another kind of process"))?;
        *number = u64::from_str_radix(digits, 16).map_err(|_| invalid("has an invalid number"))?;
    }
    Ok(Some(numbers))
}

/// Whether the path is empty. The parent of a relative path with one name is such a path.
fn is_here(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_with_all_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let directory = StorageDirectory::take(&dir.path().join("a/b/c")).unwrap();
        directory.write(&[("number", 7)]).unwrap();
        assert_eq!(directory.read(["number"]).unwrap(), Some([7]));
    }

    #[test]
    fn a_directory_tells_whose_it_is() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Role::of(dir.path()), None);
        let of = |name: &str, numbers: &[(&str, u64)]| {
            let path = dir.path().join(name);
            StorageDirectory::take(&path).unwrap().write(numbers).unwrap();
            path
        };
        let namenode = of("nn", &[(CLUSTER, 7)]);
        let datanode = of("dn", &[(DATANODE, 9), (CLUSTER, 7)]);
        Role::Namenode.demand(&namenode).unwrap();
        Role::Datanode.demand(&datanode).unwrap();
        let refused = Role::Namenode.demand(&datanode).unwrap_err();
        assert!(refused.to_string().contains("is a datanode's directory"), "{refused}");
        let refused = Role::Datanode.demand(&namenode).unwrap_err();
        assert!(refused.to_string().contains("is a namenode's directory"), "{refused}");
    }
}
