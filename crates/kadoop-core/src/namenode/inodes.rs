//! The table of inodes: small entries in pages, without a pointer for each entry.
//!
//! An empty file costs 64 bytes here, and 32 bytes in its directory's tree plus that tree's slack. Names
//! up to 24 bytes are stored in the directory's entry itself.

use crate::{ChunkId, InodeNo, Millis};
use compact_str::CompactString;
use std::collections::{BTreeMap, BTreeSet};

/// Inodes per page. Large enough for a small table of pages; growing the table copies at most one page.
const PAGE: usize = 4_096;
/// Below this slot, a checkpoint may leave any number of slots in a row empty.
const HOLES: u32 = 1 << 21;
/// The root directory.
pub const ROOT: InodeNo = InodeNo(0);

/// A file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Inode {
    /// Its directory. The root and the top of a detached tree name themselves.
    pub parent: InodeNo,
    /// Number of the owner's name in [`super::state::Names`]. `group` is such a number, too.
    pub owner: u32,
    pub group: u32,
    pub mode: u16,
    pub modified_ms: Millis,
    pub accessed_ms: Millis,
    pub body: Body,
}

/// The part of an inode that depends on its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Body {
    Directory(BTreeMap<CompactString, InodeNo>),
    File {
        chunks: Box<[ChunkId]>,
        chunk_bytes: u32,
        replication: u16,
        /// The file's own minimum of replicas, which applies if it is higher than the cluster's; else 0.
        min_replicas: u8,
        /// A number from the transaction that made the file. It distinguishes the file from others of
        /// the same name.
        made: u64,
    },
}

impl Inode {
    /// The entries; None for a file.
    pub fn entries(&self) -> Option<&BTreeMap<CompactString, InodeNo>> {
        match &self.body {
            Body::Directory(entries) => Some(entries),
            Body::File { .. } => None,
        }
    }

    /// The chunks; None for a directory.
    pub fn chunks(&self) -> Option<&[ChunkId]> {
        match &self.body {
            Body::Directory(_) => None,
            Body::File { chunks, .. } => Some(chunks),
        }
    }

    /// The number from the transaction that made the file; 0 for a directory.
    pub fn made(&self) -> u64 {
        match self.body {
            Body::Directory(_) => 0,
            Body::File { made, .. } => made,
        }
    }

    /// Number of replicas on disk with which the file's bytes are durable. `of_cluster` is the cluster's
    /// minimum. A file that is older than a raise of that minimum may have a lower replication, which
    /// then applies.
    pub fn min_replicas(&self, of_cluster: usize) -> usize {
        match self.body {
            Body::Directory(_) => of_cluster,
            Body::File { min_replicas, replication, .. } => {
                of_cluster.max(min_replicas.into()).min(replication.into())
            }
        }
    }

    /// Wanted replicas; 0 for a directory.
    pub fn replication(&self) -> u16 {
        match self.body {
            Body::Directory(_) => 0,
            Body::File { replication, .. } => replication,
        }
    }
}

/// All inodes.
#[derive(Debug, Clone, Default)]
pub struct Inodes {
    pages: Vec<Vec<Option<Inode>>>,
    /// Empty slots below `end`. The lowest is used first, so that a state restored from a checkpoint
    /// assigns the same numbers as the original.
    free: BTreeSet<u32>,
    end: u32,
}

impl Inodes {
    /// Slot for a new inode, if `taken` other new inodes get the slots before it.
    pub fn next(&self, taken: usize) -> Option<InodeNo> {
        match self.free.iter().nth(taken) {
            Some(slot) => Some(InodeNo(*slot)),
            None => {
                self.end.checked_add(u32::try_from(taken - self.free.len().min(taken)).ok()?).map(InodeNo)
            }
        }
    }

    /// The inode.
    pub fn get(&self, number: InodeNo) -> Option<&Inode> {
        let slot = number.0 as usize;
        self.pages.get(slot / PAGE)?.get(slot % PAGE)?.as_ref()
    }

    /// The inode, mutably.
    pub fn get_mut(&mut self, number: InodeNo) -> Option<&mut Inode> {
        let slot = number.0 as usize;
        self.pages.get_mut(slot / PAGE)?.get_mut(slot % PAGE)?.as_mut()
    }

    /// Puts an inode into an empty slot. False if the slot is in use, or lies more than a page beyond the
    /// end.
    pub fn put(&mut self, number: InodeNo, inode: Inode) -> bool {
        // A number from a damaged record must not allocate memory for many empty slots.
        number.0 <= self.end.saturating_add(PAGE as u32) && self.put_back(number, inode)
    }

    /// Puts an inode of a checkpoint into its slot. False if the slot is in use, or if it lies more than a
    /// page beyond the end and not below [`HOLES`]. The slots before it may be empty, since a large
    /// tree may have been removed.
    pub fn put_back(&mut self, number: InodeNo, inode: Inode) -> bool {
        let near = number.0 <= self.end.saturating_add(PAGE as u32) || number.0 < HOLES;
        if !near || self.get(number).is_some() {
            return false;
        }
        while self.end <= number.0 {
            self.free.insert(self.end);
            if (self.end as usize).is_multiple_of(PAGE) {
                self.pages.push(Vec::new());
            }
            if let Some(page) = self.pages.last_mut() {
                page.push(None);
            }
            self.end += 1;
        }
        self.free.remove(&number.0);
        let slot = number.0 as usize;
        self.pages[slot / PAGE][slot % PAGE] = Some(inode);
        true
    }

    /// Removes an inode.
    pub fn take(&mut self, number: InodeNo) -> Option<Inode> {
        let slot = number.0 as usize;
        let inode = self.pages.get_mut(slot / PAGE)?.get_mut(slot % PAGE)?.take()?;
        self.free.insert(number.0);
        Some(inode)
    }

    /// Number of inodes.
    pub fn count(&self) -> usize {
        self.end as usize - self.free.len()
    }

    /// All inodes, by number.
    pub fn iter(&self) -> impl Iterator<Item = (InodeNo, &Inode)> {
        let slots = self.pages.iter().flatten().enumerate();
        slots.filter_map(|(slot, inode)| Some((InodeNo(slot as u32), inode.as_ref()?)))
    }
}

/// Two tables are equal if they hold the same inodes and assign the same next numbers.
impl PartialEq for Inodes {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter()) && (0..3).all(|taken| self.next(taken) == other.next(taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode() -> Inode {
        let (owner, group, mode, modified_ms, accessed_ms) = (0, 0, 0o755, 0, 0);
        let body = Body::Directory(Default::default());
        Inode { parent: ROOT, owner, group, mode, modified_ms, accessed_ms, body }
    }

    #[test]
    fn a_record_puts_no_inode_far_behind_the_others_but_a_checkpoint_may() {
        let far = InodeNo(3 * PAGE as u32);
        let mut inodes = Inodes::default();
        assert!(inodes.put(ROOT, inode()));
        assert!(!inodes.put(far, inode()));
        assert!(inodes.put_back(far, inode()) && !inodes.put_back(far, inode()));
        assert_eq!((inodes.count(), inodes.next(0)), (2, Some(InodeNo(1))));
        assert!(inodes.iter().map(|(number, _)| number).eq([ROOT, far]));
    }

    #[test]
    fn an_inode_is_64_bytes() {
        assert_eq!(size_of::<Option<Inode>>(), 64);
    }
}
