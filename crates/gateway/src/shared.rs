//! What all connections share.

use crate::config::{Limits, LocalRoot, Service2009};
use crate::memory::Budget;
use crate::session::Sessions;
use crate::tls::Tls;
use std::sync::Arc;
use strait_telemetry::{Calls, Page};

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
    /// What programs of 2009 get where they leave it open.
    pub service_2009: Service2009,
    /// What is counted of the calls.
    pub calls: Calls,
    /// TLS, where it is configured.
    pub tls: Option<Arc<Tls>>,
}

/// What a gateway has counted, to be read while it serves and after.
#[derive(Clone)]
pub struct GatewayNumbers(pub(crate) Arc<Shared>);

impl GatewayNumbers {
    /// Writes it down.
    pub fn write(&self, page: &mut Page) {
        self.0.calls.write(page, &[("role", "gateway")]);
    }
}
