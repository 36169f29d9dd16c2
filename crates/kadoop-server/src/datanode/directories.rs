//! The data directories: their datanode, their space, and whether they work.

use super::{space::Space, watch::Watch};
use crate::storage_directory::{CLUSTER, DATANODE, Role, StorageDirectory};
use rustix::io::Errno;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use strait_kadoop_core::{
    Identity,
    datanode::is_replica,
    disk::{Disk, DiskFile, RealDisk},
};
use strait_kadoop_wire::random::random;

/// File that a test of a directory writes, syncs and removes.
const PROBE: &str = "probe.tmp";
/// All data directories. After [`Directories::take`], only [`Directories::join`] can block on a disk.
pub(super) struct Directories {
    all: Vec<Directory>,
    identity: Identity,
    /// 0 until the datanode has joined its first namenode.
    cluster: u64,
    /// Directories that were empty at this start, although another one already belonged to a cluster. The
    /// datanode warns about them: perhaps their disks aren't mounted.
    added: Vec<PathBuf>,
}

struct Directory {
    storage: StorageDirectory,
    disk: RealDisk,
    /// Device number of its file system.
    device: u64,
    /// None after the directory has failed.
    watch: Option<Watch>,
}

impl Directories {
    /// Takes the usable directories, which must belong to the same datanode. New directories get its
    /// identity. If all are new, the identity is random.
    ///
    /// # Errors
    /// Another process holds one of them; they belong to different datanodes or clusters, or to a namenode;
    /// one has replicas but no identity; none can be used.
    pub(super) fn take(paths: &[PathBuf], reserve_bytes: u64) -> io::Result<(Self, Identity)> {
        let mut all = Vec::new();
        for path in paths {
            Role::Datanode.demand(path)?;
            match open(path, reserve_bytes) {
                Ok(directory) => all.push(directory),
                Err(error) if is_wrong(&error) => return Err(error),
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "a data directory can't be used");
                }
            }
        }
        if all.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no data directory can be used"));
        }
        let mut known: Option<(u64, u64)> = None;
        let mut added = Vec::new();
        for directory in &all {
            let path = directory.storage.path().display();
            let wrong = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
            let Some([identity, cluster]) = directory.storage.read([DATANODE, CLUSTER])? else {
                if directory.disk.list()?.iter().any(|name| is_replica(name)) {
                    // Don't guess the cluster: the namenode of another one would delete the chunks.
                    return wrong(format!(
                        "{path} has chunks, but its file `identity` is missing: restore that file"
                    ));
                }
                added.push(directory.storage.path().to_owned());
                continue;
            };
            let (of, joined) = known.unwrap_or((identity, 0));
            // Some directories may have a cluster and others 0: the datanode crashed while it recorded its
            // cluster.
            if of != identity || joined != 0 && cluster != 0 && joined != cluster {
                return wrong(format!(
                    "{path} belongs to another datanode or cluster than the directories before it"
                ));
            }
            known = Some((identity, joined.max(cluster)));
        }
        let (identity, cluster) = match known {
            Some(numbers) => numbers,
            None => (random()?, 0),
        };
        if cluster == 0 {
            added.clear();
        }
        let taken = Self { all, identity: Identity(identity), cluster, added };
        taken.write()?;
        Ok((taken, Identity(identity)))
    }

    fn write(&self) -> io::Result<()> {
        let numbers = [(DATANODE, self.identity.0), (CLUSTER, self.cluster)];
        self.all.iter().filter(|one| one.watch.is_some()).try_for_each(|one| one.storage.write(&numbers))
    }

    /// Path of the first usable directory.
    pub(super) fn first(&self) -> &Path {
        self.all.first().map_or(Path::new("."), |directory| directory.storage.path())
    }

    pub(super) fn disks(&self) -> Vec<RealDisk> {
        self.all.iter().map(|directory| directory.disk.clone()).collect()
    }

    /// The datanode's cluster; 0: it hasn't joined any yet.
    pub(super) fn cluster(&self) -> u64 {
        self.cluster
    }

    /// Records the cluster of the first namenode that the datanode has joined.
    ///
    /// # Errors
    /// An I/O error of a disk.
    pub(super) fn join(&mut self, cluster: u64) -> io::Result<()> {
        if self.cluster == 0 {
            self.cluster = cluster;
            let written = self.write();
            if written.is_err() {
                // The next call tries again.
                self.cluster = 0;
            }
            return written;
        }
        Ok(())
    }

    /// Directories that were empty at this start, although another one already belonged to a cluster.
    pub(super) fn added(&self) -> &[PathBuf] {
        &self.added
    }

    /// Number of working directories.
    pub(super) fn usable(&self) -> usize {
        self.all.iter().filter(|directory| directory.watch.is_some()).count()
    }

    /// Begins a check of each working directory, to be called once a second. With `suspicious`, the check
    /// also tests the directory. Takes out of service the directories whose previous check failed or has
    /// run for `patience`, and returns their indices.
    pub(super) fn tick(&mut self, suspicious: bool, patience: Duration) -> Vec<usize> {
        let mut failing = Vec::new();
        for (index, directory) in self.all.iter_mut().enumerate() {
            let Some(watch) = &mut directory.watch else { continue };
            if let Err(error) = watch.tick(suspicious, patience) {
                let path = directory.storage.path().display();
                tracing::error!(%path, %error, "a data directory failed and is taken out of service");
                directory.watch = None;
                failing.push(index);
            }
        }
        failing
    }

    /// Total space of the working directories, by their latest checks.
    pub(super) fn space(&self) -> Space {
        let mut sum = Space::default();
        for share in self.shares() {
            sum.capacity += share.capacity;
            sum.available += share.available;
        }
        sum
    }

    /// Available bytes of each directory, by its latest check; 0 for a failed one.
    pub(super) fn room(&self) -> Vec<u64> {
        self.shares().map(|share| share.available).collect()
    }

    /// Each directory's space: its file system's, divided by the number of working directories on it.
    fn shares(&self) -> impl Iterator<Item = Space> {
        self.all.iter().map(|directory| {
            let there = |other: &&Directory| other.device == directory.device && other.watch.is_some();
            let sharing = self.all.iter().filter(there).count() as u64;
            directory.watch.as_ref().map_or_else(Space::default, |watch| watch.space().share(sharing))
        })
    }

    /// Makes a directory's disk seem to hang until the other end of `until` is dropped.
    #[cfg(test)]
    pub(super) fn hang(&mut self, index: usize, until: std::sync::mpsc::Receiver<()>) {
        let look = move |_| {
            let _ = until.recv();
            Ok(Space::default())
        };
        self.all[index].watch = Some(Watch::start(Space::default(), look).unwrap());
    }
}

fn open(path: &Path, reserve_bytes: u64) -> io::Result<Directory> {
    let storage = StorageDirectory::take(path)?;
    let disk = RealDisk::open(path)?;
    let space = look(path, &disk, reserve_bytes, true)?;
    let (of, tried) = (path.to_owned(), disk.clone());
    let watch = Watch::start(space, move |suspicious| look(&of, &tried, reserve_bytes, suspicious))?;
    let device = disk.device()?;
    Ok(Directory { storage, disk, device, watch: Some(watch) })
}

/// The directory's space. Tests the directory if `suspicious`, or if its space can't be read.
fn look(path: &Path, disk: &RealDisk, reserve_bytes: u64, suspicious: bool) -> io::Result<Space> {
    if !disk.is_at(path) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the directory was moved or removed"));
    }
    let told = disk.space();
    if suspicious || told.is_err() {
        probe(disk).or_else(|error| if is_short(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(told.map_or_else(
        |_| Space::default(),
        |stat| Space {
            capacity: stat.f_blocks * stat.f_frsize,
            available: (stat.f_bavail * stat.f_frsize).saturating_sub(reserve_bytes),
        },
    ))
}

/// Whether the error says that a resource ran out: room, a quota, descriptors or memory. Such an error
/// doesn't mean that the disk has failed.
fn is_short(error: &io::Error) -> bool {
    let short = [Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
}

/// Whether the error is an operator's mistake, which prevents the start, and not a failed disk.
fn is_wrong(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::InvalidData)
}

fn probe(disk: &RealDisk) -> io::Result<()> {
    let file = disk.create(PROBE)?;
    file.write_at(0, b"probe")?;
    file.sync_data()?;
    disk.remove(PROBE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(paths: &[PathBuf]) -> io::Result<(Directories, Identity)> {
        Directories::take(paths, 0)
    }

    #[test]
    fn a_crash_between_two_directories_of_a_datanode_that_joins_isnt_in_its_way() {
        let root = tempfile::tempdir().unwrap();
        let paths = ["first", "second"].map(|name| root.path().join(name));
        let (directories, identity) = take(&paths).unwrap();
        directories.all[1].storage.write(&[(DATANODE, identity.0), (CLUSTER, 7)]).unwrap();
        drop(directories);
        let (again, same) = take(&paths).unwrap();
        assert_eq!((again.cluster(), same), (7, identity));
        drop(again);
        assert_eq!(StorageDirectory::take(&paths[0]).unwrap().read([CLUSTER]).unwrap(), Some([7]));
    }

    /// The reason for the warning: perhaps the new directory's disk isn't mounted.
    #[test]
    fn reports_an_empty_directory_beside_others_that_have_joined() {
        let root = tempfile::tempdir().unwrap();
        let paths = ["first", "second", "third"].map(|name| root.path().join(name));
        let added = |of: &[PathBuf]| take(of).unwrap().0.added().to_vec();
        assert!(added(&paths[..1]).is_empty(), "there are no others");
        assert!(added(&paths[..2]).is_empty(), "nothing has been written yet");
        take(&paths[..2]).unwrap().0.join(7).unwrap();
        assert!(added(&paths[..2]).is_empty());
        assert_eq!(added(&paths), paths[2..]);
        assert!(added(&paths).is_empty(), "once");
    }

    /// Once, each directory counted all of the room as its own, so that writes used up the reserve.
    #[test]
    fn directories_of_one_file_system_share_its_room() {
        let root = tempfile::tempdir().unwrap();
        let paths = ["first", "second"].map(|name| root.path().join(name));
        let (mut directories, _) = take(&paths).unwrap();
        let seen = |of: &Directory| of.watch.as_ref().map(Watch::space).unwrap_or_default();
        let (first, second) = (seen(&directories.all[0]), seen(&directories.all[1]));
        assert_eq!(directories.room(), [first.available / 2, second.available / 2]);
        assert_eq!(directories.space().capacity, first.capacity / 2 * 2);
        // After one failed, the other one has all of the room.
        directories.all[0].watch = None;
        assert_eq!(directories.room(), [0, second.available]);
        assert_eq!(directories.space().capacity, second.capacity);
        // A directory on another file system shares nothing.
        directories.all[0].watch = Some(Watch::start(first, |_| Ok(Space::default())).unwrap());
        directories.all[0].device += 1;
        assert_eq!(directories.room(), [first.available, second.available]);
    }

    #[test]
    fn a_directory_isnt_given_up_because_something_ran_out() {
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            assert!(is_short(&errno.into()), "{errno}");
        }
        for errno in [Errno::IO, Errno::ROFS, Errno::NOENT, Errno::NODEV] {
            assert!(!is_short(&errno.into()), "{errno}");
        }
    }

    #[test]
    fn a_directory_that_another_was_put_in_place_of_has_failed() {
        let root = tempfile::tempdir().unwrap();
        let (path, aside) = (root.path().join("data"), root.path().join("aside"));
        std::fs::create_dir(&path).unwrap();
        let disk = RealDisk::open(&path).unwrap();
        assert!(look(&path, &disk, 0, true).is_ok());
        std::fs::rename(&path, &aside).unwrap();
        assert!(look(&path, &disk, 0, true).is_err());
        std::fs::create_dir(&path).unwrap();
        assert!(look(&path, &disk, 0, true).is_err());
        // Later writes still go to the moved directory, which has the other files.
        disk.create("file").unwrap();
        assert!(aside.join("file").exists());
    }

    #[test]
    fn chunks_that_nobody_says_whose_they_are_arent_taken_into_a_cluster() {
        let root = tempfile::tempdir().unwrap();
        let paths = [root.path().join("only")];
        drop(take(&paths).unwrap());
        std::fs::write(paths[0].join("0000000000000001_0000000000000001.data"), "bytes").unwrap();
        drop(take(&paths).unwrap());
        std::fs::remove_file(paths[0].join("identity")).unwrap();
        let error = take(&paths).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("restore that file"), "{error}");
    }
}
