//! Where a file's bytes are.

use super::Namenode;
use crate::{
    NodeId,
    error::Result,
    faults::Fault,
    messages::{Caller, Located, LocatedChunk},
};

impl Namenode {
    /// The chunks that hold `length` bytes from `offset` on, and their replicas.
    ///
    /// # Errors
    /// As for reading: NotFound, IsADirectory, PermissionDenied …
    pub fn locate(&self, caller: &Caller, path: &str, offset: u64, length: u64) -> Result<Located> {
        let inode = self.view(caller).readable(path)?;
        let file = self.state.open_inodes.get(&inode).copied();
        let end = offset.saturating_add(length);
        let layout = self.state.layout(inode)?;
        let file_length = self.state.length(inode)?;
        let mut chunks = Vec::new();
        for (at, skip, bytes, id) in layout {
            let Some(logged) = self.state.chunks.get(&id) else { continue };
            let open = file.and_then(|file| self.state.open_chunk(file, id));
            let growing = open.is_some_and(|open| !open.claimed);
            // An open chunk may reach further than is known here.
            if at >= end || at + u64::from(bytes) <= offset && !growing {
                continue;
            }
            let nodes: Vec<NodeId> = match open {
                Some(open) => open.pipeline.iter().map(|member| member.node).collect(),
                None => self.cluster.live_good(id).to_vec(),
            };
            let bytes =
                if self.config.faults.has(Fault::TruncationForgotten) { logged.length - skip } else { bytes };
            chunks.push(LocatedChunk {
                offset: at,
                skip,
                length: bytes,
                growing,
                chunk: id,
                stamp: logged.stamp,
                nodes,
            });
        }
        let made = self.state.inode(inode)?.made();
        Ok(Located { made, chunks, length: file_length, open: file.is_some() })
    }
}
