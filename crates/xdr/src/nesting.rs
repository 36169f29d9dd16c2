//! How deep values of types that contain themselves are nested in each other.

use crate::{MAX_DEPTH, MAX_NESTED_BYTES};

/// A place within such values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Nesting {
    depth: u32,
    bytes: usize,
}

impl Nesting {
    /// Within a `T` here; `None` if that is too deep.
    pub(crate) fn within<T>(self) -> Option<Self> {
        let inner = Self { depth: self.depth + 1, bytes: self.bytes + size_of::<T>() };
        (inner.depth <= MAX_DEPTH && inner.bytes <= MAX_NESTED_BYTES).then_some(inner)
    }
}
