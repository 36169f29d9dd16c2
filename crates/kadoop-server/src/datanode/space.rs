//! Room in data directories.

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Space {
    pub capacity: u64,
    pub available: u64,
}

impl Space {
    /// The share of each of `sharing` datanodes or directories.
    pub(super) fn share(self, sharing: u64) -> Self {
        let of = sharing.max(1);
        Self { capacity: self.capacity / of, available: self.available / of }
    }
}
