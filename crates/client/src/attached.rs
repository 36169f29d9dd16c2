//! A connection that a gateway has attached to a session.

use super::connection::Connection;
use super::convert;
use std::sync::Arc;
use strait_store::Capabilities;
use strait_wire::OpenSessionReply;

/// A connection that is attached to the session.
#[derive(Clone)]
pub(super) struct Attached {
    pub(super) connection: Arc<Connection>,
    pub(super) capabilities: Capabilities,
    /// Most bytes of one read or append on it.
    pub(super) max_chunk_bytes: usize,
    /// Incarnation of its session. Handles of other incarnations are gone.
    pub(super) incarnation: i64,
}

impl Attached {
    pub(super) fn new(connection: Connection, opened: OpenSessionReply, incarnation: i64) -> Self {
        Self {
            connection: Arc::new(connection),
            incarnation,
            max_chunk_bytes: max_chunk_bytes(&opened),
            capabilities: convert::capabilities(&opened.store.unwrap_or_default()),
        }
    }

    /// Whether both belong to one session, with the same handles.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.incarnation == other.incarnation
    }
}

/// Most bytes of one read or append.
pub(super) fn max_chunk_bytes(opened: &OpenSessionReply) -> usize {
    let told = opened.limits.as_ref().and_then(|limits| limits.max_chunk_bytes);
    let told = told.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
    told.map_or(strait_store::MAX_CHUNK_BYTES, |bytes| bytes.min(strait_store::MAX_CHUNK_BYTES))
}
