//! The required contents of the files: paths, their bytes, and how many of these are promised.

use super::world::{NODES, Node, World};
use crate::{disk::SimDisk, namespace::someone};
use bytes::Bytes;
use std::collections::BTreeMap;
use strait_kadoop_core::{Member, Millis, messages::Read};

#[derive(Clone)]
pub struct File {
    /// Its number, which another file of the same name doesn't share.
    pub made: u64,
    /// All bytes ever given to a writer that may be in the file.
    pub bytes: Vec<u8>,
    /// Number of bytes certainly on disk.
    pub least: u64,
    /// Ranges that recovery has kept: no writer was told how many replicas they have.
    pub kept: Vec<(u64, u64)>,
    /// Number of flushed bytes, and the pipelines that have them in memory.
    pub flushed: u64,
    pub pipelines: Vec<Vec<Member>>,
    /// Number of bytes that any reader has seen, and all pipelines of their writer.
    pub seen: u64,
    pub written_by: Vec<Vec<Member>>,
    /// Closed by its writer, so its length is exact.
    pub closed: bool,
    pub replication: u16,
    pub min_replicas: u16,
}

/// Former contents of a path.
pub struct Past {
    pub path: String,
    pub made: u64,
    pub bytes: Vec<u8>,
    pub until: Millis,
}

#[derive(Default)]
pub struct Model {
    pub files: BTreeMap<String, File>,
    pub past: Vec<Past>,
    /// Number of changes to each path, other than appends.
    pub touched: BTreeMap<String, u64>,
    pub made: u64,
}

impl Model {
    pub fn touch(&mut self, path: &str, now: Millis) {
        *self.touched.entry(path.to_owned()).or_default() += 1;
        if let Some(file) = self.files.get(path) {
            let (path, made, bytes) = (path.to_owned(), file.made, file.bytes.clone());
            self.past.push(Past { path, made, bytes, until: now });
        }
    }

    pub fn touches(&self, path: &str) -> u64 {
        self.touched.get(path).copied().unwrap_or(0)
    }

    pub fn create(&mut self, path: &str, replication: u16, min_replicas: u16) {
        self.made += 1;
        let file = File {
            made: self.made,
            bytes: Vec::new(),
            least: 0,
            kept: Vec::new(),
            flushed: 0,
            pipelines: Vec::new(),
            seen: 0,
            written_by: Vec::new(),
            closed: false,
            replication,
            min_replicas,
        };
        self.files.insert(path.to_owned(), file);
    }

    /// Moves the sources' bytes to the end of the target.
    pub fn join(&mut self, target: &str, sources: &[String], now: Millis) {
        sources.iter().map(String::as_str).chain([target]).for_each(|path| self.touch(path, now));
        for source in sources {
            let Some(source) = self.files.remove(source) else { continue };
            let Some(target) = self.files.get_mut(target) else { continue };
            let before = target.bytes.len() as u64;
            target.kept.extend(source.kept.iter().map(|(from, to)| (before + from, before + to)));
            target.bytes.extend(&source.bytes);
            target.least += source.least;
        }
    }

    /// The target's number and bytes once the sources are joined to it.
    pub fn joined(&self, target: &str, sources: &[String]) -> Option<(u64, Vec<u8>)> {
        let target = self.files.get(target)?;
        let mut bytes = target.bytes.clone();
        for source in sources {
            bytes.extend_from_slice(&self.files.get(source)?.bytes);
        }
        Some((target.made, bytes))
    }

    /// Whether all pieces come from one file as it was at some time since `since`: the file of that
    /// path, or any file if a change was under way. `joined` are files that may be joined by now.
    pub fn explains(
        &self,
        path: Option<&str>,
        since: Millis,
        pieces: &[(u64, Bytes)],
        joined: &[(u64, Vec<u8>)],
    ) -> bool {
        let meant = |other: &str| path.is_none_or(|path| path == other);
        let past = self.past.iter().filter(|past| meant(&past.path) && past.until >= since);
        let now = self.files.iter().filter(|(path, _)| meant(path));
        let now = now.map(|(_, file)| (file.made, &file.bytes));
        let joined = joined.iter().map(|(made, bytes)| (*made, bytes));
        let past = past.map(|past| (past.made, &past.bytes));
        let versions: Vec<(u64, &Vec<u8>)> = past.chain(now).chain(joined).collect();
        let of = |made: u64| {
            pieces.iter().all(|(offset, piece)| {
                versions.iter().filter(|version| version.0 == made).any(|(_, bytes)| {
                    bytes.get(*offset as usize..).is_some_and(|rest| rest.starts_with(piece))
                })
            })
        };
        pieces.is_empty() || versions.iter().any(|(made, _)| of(*made))
    }
}

impl World {
    /// The file's least length: the bytes on disk, or the flushed bytes if a member of each of
    /// their pipelines still runs.
    pub fn promised(&self, path: &str) -> u64 {
        let Some(file) = self.model.files.get(path) else { return 0 };
        let flushed = if self.unbroken(&file.pipelines) { file.flushed } else { 0 };
        file.least.max(flushed)
    }

    /// As [`World::promised`], for a file without a writer: bytes that any reader has seen can't
    /// vanish either.
    pub fn lasting(&self, path: &str) -> u64 {
        let Some(file) = self.model.files.get(path) else { return 0 };
        let seen = if self.unbroken(&file.written_by) { file.seen } else { 0 };
        self.promised(path).max(seen)
    }

    /// Whether a member of each pipeline still runs on disks without failures. After a disk's
    /// failure it may have to drop bytes.
    pub fn unbroken(&self, pipelines: &[Vec<Member>]) -> bool {
        let is = |node: &Node, member: &Member| {
            let fails = node.disks.iter().any(SimDisk::has_failed);
            node.running.is_some() && node.incarnation == member.incarnation && !fails
        };
        let runs = |member: &Member| self.nodes.iter().any(|node| is(node, member));
        pipelines.iter().all(|pipeline| pipeline.iter().any(runs))
    }

    /// The length that a reader would see now, if known.
    pub fn visible(&self, path: &str) -> Option<u64> {
        let (namenode, _) = self.namenode.as_ref()?;
        let located = namenode.locate(&someone("kadoop"), path, 0, u64::MAX).ok()?;
        let Some(last) = located.chunks.last().filter(|last| last.growing) else {
            return Some(located.length);
        };
        let (chunk, stamp, acknowledged) = (last.chunk, last.stamp, last.skip + last.length);
        let read = Read { chunk, stamp, offset: 0, length: 1, acknowledged };
        let nodes =
            last.nodes.iter().filter_map(|node| self.nodes[*self.numbers.get(node)?].running.as_ref());
        let visible = nodes.filter_map(|node| node.read(&read).ok()).map(|piece| piece.visible).max()?;
        Some(last.offset + u64::from(visible.saturating_sub(last.skip)))
    }

    /// Checks the length at which a writer opened the file.
    pub fn opened_at(&mut self, path: &str, length: u64) {
        let promised = self.lasting(path);
        let Some(file) = self.model.files.get(path) else {
            return self.fail(format!("{path} was opened, but isn't there"));
        };
        let sent = file.bytes.len() as u64;
        if length < promised || length > sent || file.closed && length != sent {
            let closed = file.closed;
            return self.fail(format!(
                "{path} was opened at {length}; {promised} promised, {sent} sent, closed {closed}"
            ));
        }
        if length < sent {
            self.model.touch(path, self.now);
        }
        if let Some(file) = self.model.files.get_mut(path) {
            if length > file.least {
                file.kept.push((file.least, length));
            }
            file.bytes.truncate(length as usize);
            (file.least, file.flushed, file.closed) = (length, 0, false);
            file.seen = file.seen.min(length);
            file.pipelines.clear();
            file.written_by.clear();
        }
    }

    /// Number of replicas that a file can have.
    pub fn target(replication: u16) -> usize {
        usize::from(replication).min(NODES)
    }
}
