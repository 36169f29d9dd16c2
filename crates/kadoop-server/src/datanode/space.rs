//! The space of data directories.

/// Total and available bytes of a file system or directory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Space {
    pub capacity: u64,
    pub available: u64,
}

impl Space {
    /// One share, if `sharing` datanodes or directories share this space equally.
    pub(super) fn share(self, sharing: u64) -> Self {
        let of = sharing.max(1);
        Self { capacity: self.capacity / of, available: self.available / of }
    }
}
