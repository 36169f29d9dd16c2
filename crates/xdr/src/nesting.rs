//! The depth of nested values of types that contain themselves.

use crate::{FIELD_BYTES, MAX_DEPTH, MAX_NESTED_BYTES};

/// The depth at a position, and the bytes of the values around it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Nesting {
    depth: u32,
    bytes: usize,
}

impl Nesting {
    /// Enters a `T` with this number of fields. `None` if that is too deep.
    pub(crate) fn within<T>(self, fields: usize) -> Option<Self> {
        let bytes = size_of::<T>().max(fields.saturating_mul(FIELD_BYTES));
        let inner = Self { depth: self.depth + 1, bytes: self.bytes.saturating_add(bytes) };
        (inner.depth <= MAX_DEPTH && inner.bytes <= MAX_NESTED_BYTES).then_some(inner)
    }
}
