//! What all connections share.

use crate::config::{Limits, LocalRoot};
use crate::memory::Budget;
use crate::session::Sessions;
use crate::tls::Tls;
use std::sync::Arc;

/// The gateway, as a connection sees it.
pub struct Shared {
    /// Sessions, stores and the door.
    pub sessions: Arc<Sessions>,
    /// Memory for requests and answers.
    pub budget: Budget,
    /// The limits in force.
    pub limits: Limits,
    /// Where this host's own files may be copied to and from.
    pub local_root: Option<LocalRoot>,
    /// TLS, where it is configured.
    pub tls: Option<Arc<Tls>>,
}
