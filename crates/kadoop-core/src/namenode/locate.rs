//! Locations of a file's bytes.

use super::Namenode;
use crate::{
    ChunkId, InodeNo, NodeId, Stamp,
    error::{Error, Result},
    faults::Fault,
    messages::{Caller, Located, LocatedChunk},
};

impl Namenode {
    /// The chunks that hold `length` bytes from `offset` on, and their replicas.
    ///
    /// # Errors
    /// As [`super::View::readable`].
    pub fn locate(&self, caller: &Caller, path: &str, offset: u64, length: u64) -> Result<Located> {
        self.layout_from(self.view(caller).readable(path)?, offset, length)
    }

    /// As [`Namenode::locate`], for a file that was located before and may have been renamed since: its
    /// `made` and one of its chunks identify it.
    ///
    /// # Errors
    /// NotFound: the file or that chunk has been removed. PermissionDenied: the caller may not read the
    /// file, or pass through the directories that are now above it.
    pub fn locate_file(
        &self,
        caller: &Caller,
        made: u64,
        chunk: ChunkId,
        offset: u64,
        length: u64,
    ) -> Result<Located> {
        let inode = self.state.chunks.get(&chunk).ok_or(Error::NotFound)?.inode;
        if self.state.inodes.get(inode).is_none_or(|file| file.made() != made) {
            return Err(Error::NotFound);
        }
        self.view(caller).demand_reachable(inode)?;
        self.layout_from(inode, offset, length)
    }

    /// Live datanodes whose replica of the chunk, with this stamp, is damaged. [`Namenode::locate`]
    /// omits them, though parts of such a replica may be sound.
    pub fn damaged(&self, chunk: ChunkId, stamp: Stamp) -> Vec<NodeId> {
        let odd = self.cluster.odd_of(chunk);
        let damaged = odd.filter(|odd| odd.corrupt && odd.report.stamp == stamp).map(|odd| odd.node);
        damaged.filter(|node| self.cluster.tells(*node, chunk)).collect()
    }

    fn layout_from(&self, inode: InodeNo, offset: u64, length: u64) -> Result<Located> {
        let file = self.state.open_inodes.get(&inode).copied();
        let end = offset.saturating_add(length);
        let mut file_length = 0;
        let mut chunks = Vec::new();
        for (at, skip, bytes, id) in self.state.layout(inode)? {
            file_length = at + u64::from(bytes);
            let Some(logged) = self.state.chunks.get(&id) else { continue };
            let open = file.and_then(|file| self.state.open_chunk(file, id));
            let growing = open.is_some_and(|open| !open.claimed);
            // An open chunk may have more bytes than the namenode knows.
            if at >= end || at + u64::from(bytes) <= offset && !growing {
                continue;
            }
            let nodes: Vec<NodeId> = match open {
                Some(open) => open.pipeline.iter().map(|member| member.node).collect(),
                None => self.cluster.live_good(id).to_vec(),
            };
            let bytes = if self.config.faults.has(Fault::TruncationForgotten) {
                logged.length.saturating_sub(skip)
            } else {
                bytes
            };
            let (offset, length, stamp) = (at, bytes, logged.stamp);
            let this = LocatedChunk { offset, skip, length, growing, chunk: id, stamp, nodes };
            if this.nodes.is_empty() && open.is_none() {
                chunks.extend(self.fall_back(this));
            } else {
                chunks.push(this);
            }
        }
        let made = self.state.inode(inode)?.made();
        Ok(Located { made, chunks, length: file_length, open: file.is_some() })
    }

    /// Locates the chunk that this one replaced, which may have fewer bytes. For the case that no
    /// datanode has this one.
    fn fall_back(&self, this: LocatedChunk) -> Vec<LocatedChunk> {
        let kept = self.state.kept.get(&this.chunk).into_iter().flatten();
        let kept =
            kept.filter_map(|old| Some((*old, self.state.chunks.get(old)?, self.cluster.live_good(*old))));
        let longest = kept.filter(|(.., nodes)| !nodes.is_empty()).max_by_key(|(_, logged, _)| logged.used);
        let Some((chunk, logged, nodes)) = longest else { return vec![this] };
        let length = logged.used.min(this.length);
        let (stamp, nodes) = (logged.stamp, nodes.to_vec());
        let old = LocatedChunk { chunk, stamp, nodes, length, ..this.clone() };
        let rest = LocatedChunk {
            offset: this.offset + u64::from(length),
            skip: this.skip + length,
            length: this.length - length,
            ..this
        };
        if rest.length == 0 { vec![old] } else { vec![old, rest] }
    }
}
