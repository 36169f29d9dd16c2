//! Operations on names. They return the records to commit, and change nothing themselves.

use super::{
    Decision, Refusal,
    inodes::{Body, ROOT},
    path::{EXECUTE, MODE_BITS, READ, View, WRITE, Walk},
    record::{Ownership, Place, Record},
};
use crate::{
    ClientId, FileId, InodeNo, Millis,
    config::{MAX_CHUNK_BYTES, MAX_REPLICATION, MAX_SOURCES},
    error::{Error, Result},
    faults::Fault,
    messages::{Answer, Attributes},
};
use std::collections::BTreeSet;

/// Rights that a newly made parent directory gets in any case, so that its owner can make the next
/// directory in it.
const WRITE_AND_PASS: u16 = (WRITE | EXECUTE) << 6;

const BELOW_CLUSTERS: Error = Error::Invalid(
    "the replication is below the cluster's minimum of replicas (the namenode's --min-replicas); ask for at \
     least that many",
);
const BELOW_MINIMUM: Error =
    Error::Invalid("the replication is below the file's minimum of replicas; ask for more replicas");
const BAD_CHUNK_SIZE: Error = Error::Invalid(
    "the block size is below the cluster's minimum (the namenode's --min-block-size, 1 MiB by default) or \
     above 2 GiB",
);

/// A file to make.
pub(super) struct NewFile<'p> {
    pub path: &'p str,
    pub overwrite: bool,
    pub mode: u16,
    pub replication: u16,
    pub chunk_bytes: u32,
    pub min_replicas: u16,
}

impl View<'_> {
    pub(super) fn mkdirs(&self, path: &str, mode: u16, time_ms: Millis) -> Result<Decision> {
        let walk = self.walk(path)?;
        self.state.inode(walk.last()?)?.entries().ok_or(if walk.missing.is_empty() {
            Error::AlreadyExists
        } else {
            Error::NotADirectory
        })?;
        let records = self.directories(&walk, &walk.missing, mode, time_ms)?.0;
        Ok((records, Answer::Done))
    }

    /// Records that make the directories `names` below the path's last existing directory, and the inode
    /// of the last new directory.
    fn directories(
        &self,
        walk: &Walk<'_>,
        names: &[&str],
        mode: u16,
        time_ms: Millis,
    ) -> Result<(Vec<Record>, InodeNo)> {
        let mut parent = walk.last()?;
        let mut records = Vec::new();
        if !walk.missing.is_empty() {
            self.demand(parent, WRITE | EXECUTE)?;
        }
        let by = self.ownership(parent, mode, time_ms)?;
        for (index, name) in names.iter().enumerate() {
            let inode = self.state.inodes.next(index).ok_or(Error::Limit("inodes"))?;
            let mut by = by.clone();
            if index + 1 < walk.missing.len() {
                by.mode |= WRITE_AND_PASS;
            }
            records.push(Record::DirectoryMade { at: place(parent, name), inode, by });
            parent = inode;
        }
        Ok((records, parent))
    }

    /// The caller owns the new inode; its group is that of the parent.
    fn ownership(&self, parent: InodeNo, mode: u16, time_ms: Millis) -> Result<Ownership> {
        let group = self.state.names.name(self.state.inode(parent)?.group).into();
        Ok(Ownership { mode: mode & MODE_BITS, owner: self.caller.user.clone(), group, time_ms })
    }

    /// Makes a file and, as HDFS does, its missing parents.
    pub(super) fn create(
        &self,
        new: &NewFile<'_>,
        client: ClientId,
        time_ms: Millis,
    ) -> Result<Decision, Refusal> {
        if new.chunk_bytes < self.config.min_chunk_bytes.max(1) || new.chunk_bytes > MAX_CHUNK_BYTES {
            return Err(BAD_CHUNK_SIZE.into());
        }
        self.check_replication(new.replication)?;
        if new.min_replicas > new.replication {
            return Err(BELOW_MINIMUM.into());
        }
        if new.min_replicas > u8::MAX.into() {
            return Err(Error::Invalid("the minimum of replicas must be at most 255").into());
        }
        let walk = self.walk(new.path)?;
        let name = walk.name.ok_or(Error::IsADirectory)?;
        let mut records = Vec::new();
        let (parent, inode) = if walk.missing.is_empty() {
            let (old, parent) = (walk.last()?, walk.parent()?);
            if self.state.inode(old)?.entries().is_some() {
                return Err(Error::IsADirectory.into());
            }
            if !new.overwrite {
                return Err(Error::AlreadyExists.into());
            }
            self.demand(old, WRITE)?;
            self.demand_unlink(parent, old)?;
            self.demand_closed(old)?;
            records.push(Record::Removed { at: place(parent, name), time_ms });
            (parent, old)
        } else {
            self.state.inode(walk.last()?)?.entries().ok_or(Error::NotADirectory)?;
            let above = &walk.missing[..walk.missing.len() - 1];
            let mode = new.mode | EXECUTE << 6 | (new.mode & 0o444) >> 2;
            let (made, parent) = self.directories(&walk, above, mode, time_ms)?;
            records.extend(made);
            (parent, self.state.inodes.next(above.len()).ok_or(Error::Limit("inodes"))?)
        };
        let directory = if walk.missing.is_empty() { parent } else { walk.last()? };
        let mut by = self.ownership(directory, new.mode, time_ms)?;
        by.mode &= 0o777;
        let file = self.state.next_file();
        let (chunk_bytes, replication) = (new.chunk_bytes, new.replication);
        records.push(Record::FileMade { at: place(parent, name), inode, by, replication, chunk_bytes });
        if new.min_replicas > 0 {
            records.push(Record::Secured { inode, min_replicas: new.min_replicas });
        }
        records.extend(self.opening(file, inode, client));
        Ok((records, Answer::Opened { file, length: 0, chunk_bytes, replication }))
    }

    pub(super) fn append(&self, path: &str, client: ClientId) -> Result<Decision, Refusal> {
        let inode = self.walk(path)?.target()?;
        let Body::File { chunk_bytes, replication, .. } = self.state.inode(inode)?.body else {
            return Err(Error::IsADirectory.into());
        };
        self.demand(inode, WRITE)?;
        self.demand_closed(inode)?;
        let file = self.state.next_file();
        let answer = Answer::Opened { file, length: self.state.length(inode)?, chunk_bytes, replication };
        Ok((self.opening(file, inode, client).collect(), answer))
    }

    fn opening(&self, file: FileId, inode: InodeNo, client: ClientId) -> impl Iterator<Item = Record> {
        let held = self.caller.holder().map(|holder| Record::Held { file, holder });
        std::iter::once(Record::Opened { file, inode, client }).chain(held)
    }

    pub(super) fn rename(&self, from: &str, to: &str, replace: bool, time_ms: Millis) -> Result<Decision> {
        let (source, target) = (self.walk(from)?, self.walk(to)?);
        let inode = source.target()?;
        let (Some(from_name), Some(to_name)) = (source.name, target.name) else {
            return Err(Error::Invalid("the root can't be renamed"));
        };
        let parent = source.parent()?;
        self.demand_unlink(parent, inode)?;
        // All inodes in `found` are above the target, or are the target itself if it exists.
        if target.missing.len() > 1 {
            return Err(Error::NotFound);
        }
        let to_parent = if target.missing.is_empty() { target.parent()? } else { target.last()? };
        self.state.inode(to_parent)?.entries().ok_or(Error::NotADirectory)?;
        if target.missing.is_empty() && target.last()? == inode {
            return if replace { Ok((Vec::new(), Answer::Done)) } else { Err(Error::AlreadyExists) };
        }
        if target.found.contains(&inode) {
            return Err(Error::Invalid("a directory can't be moved into itself"));
        }
        let mut records = Vec::new();
        if target.missing.is_empty() {
            self.demand_replaceable(inode, target.last()?, replace)?;
            self.demand_unlink(to_parent, target.last()?)?;
            records.push(Record::Removed { at: place(to_parent, to_name), time_ms });
        } else {
            self.demand(to_parent, WRITE | EXECUTE)?;
        }
        let (from, to) = (place(parent, from_name), place(to_parent, to_name));
        records.push(Record::Moved { from, to, time_ms });
        Ok((records, Answer::Done))
    }

    fn demand_replaceable(&self, inode: InodeNo, old: InodeNo, replace: bool) -> Result<()> {
        let directory = self.state.inode(inode)?.entries().is_some();
        match self.state.inode(old)?.entries() {
            _ if !replace => Err(Error::AlreadyExists),
            Some(_) if !directory => Err(Error::IsADirectory),
            None if directory => Err(Error::NotADirectory),
            Some(entries) if !entries.is_empty() => Err(Error::NotEmpty),
            _ => Ok(()),
        }
    }

    /// Removes a file or directory. `surveyed` is a tree that a survey allows the caller to remove.
    pub(super) fn delete(
        &self,
        path: &str,
        recursive: bool,
        surveyed: Option<InodeNo>,
        time_ms: Millis,
    ) -> Result<Decision> {
        let walk = self.walk(path)?;
        if !walk.missing.is_empty() {
            return Ok((Vec::new(), Answer::Changed(false)));
        }
        let name = walk.name.ok_or(Error::Invalid("the root can't be removed"))?;
        let (inode, parent) = (walk.target()?, walk.parent()?);
        self.demand_unlink(parent, inode)?;
        if self.state.inode(inode)?.entries().is_some_and(|entries| !entries.is_empty()) {
            if !recursive {
                return Err(Error::NotEmpty);
            }
            if surveyed != Some(inode) {
                self.demand_whole_tree(inode)?;
            }
            if self.is_large(inode)? {
                return Ok((
                    vec![Record::Detached { at: place(parent, name), time_ms }],
                    Answer::Changed(true),
                ));
            }
        }
        Ok((vec![Record::Removed { at: place(parent, name), time_ms }], Answer::Changed(true)))
    }

    /// Whether a tree has more inodes than the namenode frees in one step.
    pub(super) fn is_large(&self, top: InodeNo) -> Result<bool> {
        let (mut rest, mut count) = (vec![top], 0);
        while let Some(number) = rest.pop() {
            count += 1;
            let Some(entries) = self.state.inode(number)?.entries() else { continue };
            if count + rest.len() + entries.len() > self.config.sweep_inodes as usize {
                return Ok(true);
            }
            rest.extend(entries.values());
        }
        Ok(false)
    }

    /// Decides to record a shorter length. Datanodes' replicas stay as they are.
    pub(super) fn truncate(&self, path: &str, length: u64, time_ms: Millis) -> Result<Decision, Refusal> {
        let inode = self.walk(path)?.target()?;
        let now = self.state.length(inode)?;
        self.demand(inode, WRITE)?;
        self.demand_closed(inode)?;
        if length > now {
            return Err(Error::Invalid("a truncation can't make a file longer").into());
        }
        if length == now {
            return Ok((Vec::new(), Answer::Changed(false)));
        }
        Ok((vec![Record::Truncated { inode, length, time_ms }], Answer::Changed(true)))
    }

    /// Decides to move the sources' chunks to the target's end, in which no datanode takes part. The
    /// caller needs the rights to write the target, and to read and remove each source.
    pub(super) fn concat(
        &self,
        target: &str,
        sources: &[String],
        time_ms: Millis,
    ) -> Result<Decision, Refusal> {
        if sources.is_empty() || sources.len() > MAX_SOURCES {
            return Err(Error::Invalid("concat takes 1 to 1,000 source files").into());
        }
        let target = self.walk(target)?.target()?;
        let mut chunks = self.state.inode(target)?.chunks().ok_or(Error::IsADirectory)?.len();
        self.demand(target, WRITE)?;
        self.demand_closed(target)?;
        let (mut seen, mut places) = (BTreeSet::from([target]), Vec::new());
        for source in sources {
            let walk = self.walk(source)?;
            let (inode, name) = (walk.target()?, walk.name.ok_or(Error::IsADirectory)?);
            chunks += self.state.inode(inode)?.chunks().ok_or(Error::IsADirectory)?.len();
            self.demand(inode, READ)?;
            self.demand_unlink(walk.parent()?, inode)?;
            self.demand_closed(inode)?;
            if !seen.insert(inode) {
                return Err(Error::Invalid("concat names a file twice").into());
            }
            if self.state.length(inode)? == 0 {
                return Err(Error::Invalid("a source of concat is empty").into());
            }
            places.push(place(walk.parent()?, name));
        }
        if chunks > self.config.max_file_chunks {
            return Err(Error::Invalid("the file would have more chunks than the maximum").into());
        }
        if self.config.faults.has(Fault::JoinedBackwards) {
            places.reverse();
        }
        Ok((vec![Record::Concatenated { target, sources: places, time_ms }], Answer::Done))
    }

    pub(super) fn set_attributes(&self, path: &str, set: &Attributes) -> Result<Decision> {
        let number = self.walk(path)?.target()?;
        let inode = self.state.inode(number)?;
        let owns = self.owns(inode);
        if set.mode.is_some() && !owns
            || set.owner.is_some() && !self.is_super()
            || set
                .group
                .as_ref()
                .is_some_and(|group| !(self.is_super() || owns && self.caller.groups.contains(group)))
        {
            return Err(Error::PermissionDenied);
        }
        if (set.modified_ms.is_some() || set.accessed_ms.is_some()) && !owns || set.replication.is_some() {
            self.demand(number, WRITE)?;
        }
        if let Some(replication) = set.replication {
            self.check_replication(replication)?;
            if number == ROOT || inode.entries().is_some() {
                return Err(Error::IsADirectory);
            }
            if matches!(inode.body, Body::File { min_replicas, .. } if u16::from(min_replicas) > replication)
            {
                return Err(BELOW_MINIMUM);
            }
        }
        let mut attributes = set.clone();
        attributes.mode = set.mode.map(|mode| mode & MODE_BITS);
        Ok((vec![Record::AttributesSet { inode: number, attributes }], Answer::Done))
    }

    fn check_replication(&self, replication: u16) -> Result<()> {
        if replication == 0 || replication > MAX_REPLICATION {
            return Err(Error::Invalid("the replication must be from 1 to 512"));
        }
        if usize::from(replication) < self.config.min_replicas {
            return Err(BELOW_CLUSTERS);
        }
        Ok(())
    }

    /// Refuses if a writer has the file open. The refusal names that opening.
    pub(super) fn demand_closed(&self, inode: InodeNo) -> Result<(), Refusal> {
        match self.state.open_inodes.get(&inode) {
            None => Ok(()),
            Some(file) => Err(Refusal { error: Error::Busy, contended: Some(*file) }),
        }
    }
}

fn place(parent: InodeNo, name: &str) -> Place {
    Place { parent, name: name.into() }
}
