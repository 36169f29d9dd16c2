//! Finds the replicas in the data directories at a start. For a sealed replica, it usually reads only the
//! file's name.

use super::{
    Kept, Replica, Stranger, is_of_one_file,
    names::{Kind, name, parse_name},
    sealed::Sealed,
    sums::{Claim, Unproven},
};
use crate::{
    ChunkId, Config, Stamp,
    disk::{Disk, Grouped},
};
use std::{collections::BTreeMap, io};

/// The replicas and other files that a start finds.
pub(super) struct Scan<'a, D: Disk> {
    directories: &'a [Grouped<D>],
    cluster: u64,
    config: &'a Config,
    pub replicas: BTreeMap<ChunkId, Kept<D>>,
    pub strangers: Vec<Stranger>,
    /// Files that can't be opened, with the errors.
    pub unopened: Vec<(String, io::Error)>,
}

impl<'a, D: Disk> Scan<'a, D> {
    /// Lists all directories. If a chunk has two replicas, keeps the one with the higher stamp, then the
    /// undamaged sealed one, then the longer one. Deletes leftovers of interrupted seals and copies.
    ///
    /// # Errors
    /// A disk's I/O error that concerns more than one file, or more than 65,536 directories.
    pub fn of(directories: &'a [Grouped<D>], cluster: u64, config: &'a Config) -> io::Result<Self> {
        let (replicas, strangers, unopened) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut scan = Self { directories, cluster, config, replicas, strangers, unopened };
        for (index, directory) in directories.iter().enumerate() {
            let index = u16::try_from(index).map_err(|_| io::Error::other("too many data directories"))?;
            // The previous run may have been killed between a rename and its sync.
            directory.sync_names()?;
            scan.list(directory, index)?;
        }
        Ok(scan)
    }

    fn list(&mut self, directory: &Grouped<D>, index: u16) -> io::Result<()> {
        let mut there: Vec<(ChunkId, Stamp, Kind)> =
            directory.list()?.iter().filter_map(|name| parse_name(name)).collect();
        there.sort_unstable();
        for (chunk, stamp, kind) in &there {
            let (chunk, stamp, kind) = (*chunk, *stamp, *kind);
            let beside = |kind| there.binary_search(&(chunk, stamp, kind)).is_ok();
            let is_left = match kind {
                Kind::Copy | Kind::Anew => true,
                Kind::Sums => !beside(Kind::Open),
                Kind::Table => !beside(Kind::Open) && !beside(Kind::Split),
                Kind::Sealed(_) | Kind::Split | Kind::Open => false,
            };
            if is_left {
                directory.remove(&name(chunk, stamp, kind))?;
                continue;
            }
            let claim = Claim { cluster: self.cluster, chunk, stamp };
            let found = match kind {
                Kind::Sealed(length) => Ok(Ok(Kept::Sealed(Sealed {
                    stamp,
                    length,
                    directory: index,
                    damaged: false,
                    split: false,
                }))),
                Kind::Split => split(directory, index, claim, self.config),
                Kind::Open => returned(directory, index, claim, self.config),
                _ => continue,
            };
            match found {
                Ok(Ok(kept)) => self.put(chunk, kept)?,
                Ok(Err(belongs)) => {
                    let kinds: &[Kind] = match kind {
                        // A table beside sealed bytes belongs to them.
                        Kind::Open if beside(Kind::Split) => &[Kind::Open, Kind::Sums],
                        Kind::Open => &[Kind::Open, Kind::Sums, Kind::Table],
                        _ => &[Kind::Split, Kind::Table],
                    };
                    let files = kinds.iter().map(|kind| name(chunk, stamp, *kind)).collect();
                    self.strangers.push(Stranger::of(belongs, (index.into(), chunk), files));
                }
                Err(error) if is_of_one_file(&error) => {
                    self.unopened.push((name(chunk, stamp, kind), error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds a replica. If the chunk already has one, keeps the better one, for which it examines their
    /// files: the leftover of a failed seal in one directory must not hide the result of the next seal in
    /// another.
    fn put(&mut self, chunk: ChunkId, kept: Kept<D>) -> io::Result<()> {
        let Some(other) = self.replicas.remove(&chunk) else {
            self.replicas.insert(chunk, kept);
            return Ok(());
        };
        let (other, kept) = (self.prove(chunk, other)?, self.prove(chunk, kept)?);
        let worth = |kept: &Kept<D>| match kept {
            Kept::Sealed(sealed) if sealed.damaged => (sealed.stamp, false, 0),
            Kept::Sealed(sealed) => (sealed.stamp, true, sealed.length),
            Kept::Live(replica) => (replica.stamp, false, replica.sums.length),
        };
        // If they are equal, keep the first one.
        if let Some(best) = kept.into_iter().chain(other).max_by_key(worth) {
            self.replicas.insert(chunk, best);
        }
        Ok(())
    }

    /// Checks a sealed replica's table. Returns None if the file belongs to another replica, or can't be
    /// opened.
    fn prove(&mut self, chunk: ChunkId, kept: Kept<D>) -> io::Result<Option<Kept<D>>> {
        let Kept::Sealed(sealed) = kept else { return Ok(Some(kept)) };
        let claim = Claim { cluster: self.cluster, chunk, stamp: sealed.stamp };
        let index = usize::from(sealed.directory);
        Ok(match sealed.open(&self.directories[index], claim, self.config) {
            Ok(Ok(_)) => Some(Kept::Sealed(sealed)),
            Ok(Err(Unproven::Invalid)) => Some(Kept::Sealed(Sealed { damaged: true, ..sealed })),
            Ok(Err(Unproven::Another(belongs))) => {
                self.strangers.push(Stranger::of(belongs, (index, chunk), sealed.files(chunk)));
                None
            }
            Err(error) if is_of_one_file(&error) => {
                self.unopened.push((sealed.file(chunk), error));
                None
            }
            Err(error) => return Err(error),
        })
    }
}

/// A replica on disk. The inner error is another replica, to which the files belong.
type Found<D> = io::Result<Result<Kept<D>, Claim>>;

fn split<D: Disk>(directory: &Grouped<D>, index: u16, claim: Claim, config: &Config) -> Found<D> {
    Ok(match Sealed::split(directory, index, claim, config)? {
        Ok(sealed) => Ok(Kept::Sealed(sealed)),
        Err(Unproven::Invalid) => Ok(Kept::Live(Box::new(Replica::damaged(index, claim)))),
        Err(Unproven::Another(belongs)) => Err(belongs),
    })
}

/// A replica that was open. If its seal lacked only the final name, completes the seal.
fn returned<D: Disk>(directory: &Grouped<D>, index: u16, claim: Claim, config: &Config) -> Found<D> {
    Ok(Replica::returned(directory, index, claim, config)?.map(|mut replica| {
        let sealed = replica.is_tabled().then(|| replica.finish_tabled(directory, config));
        match sealed {
            Some(Ok(sealed)) => Kept::Sealed(sealed),
            failed => {
                if failed.is_some() {
                    // Allow further syncs in this directory: no replica relies yet on the names that a failed
                    // one lost.
                    directory.settle();
                }
                Kept::Live(Box::new(replica))
            }
        }
    }))
}
