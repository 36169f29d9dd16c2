//! State that all connections share.

use crate::config::{HttpAccess, Limits, LocalRoot, Service2009};
use crate::listings::Listings;
use crate::memory::Budget;
use crate::pace::Pace;
use crate::pool::Pool;
use crate::session::Sessions;
use crate::temporary::Temporaries;
use crate::tls::Tls;
use crate::turns::Turns;
use std::sync::Arc;
use strait_telemetry::{Calls, Kind, Page};

/// The gateway, as a connection sees it.
pub struct Shared {
    /// Sessions, stores and access checks.
    pub sessions: Arc<Sessions>,
    /// Memory for requests and answers.
    pub budget: Budget,
    /// The pace of clients that haven't logged in.
    pub pace: Pace,
    /// Turns of TLS handshakes at the processors, by origin.
    pub handshakes: Arc<Pool>,
    /// Turns of requests at the processors, by user.
    pub ready: Arc<Pool>,
    /// Listings between two pages.
    pub listings: Listings,
    /// Files with temporary names.
    pub temporaries: Temporaries,
    /// The limits in force.
    pub limits: Limits,
    /// The directory of this host that copies may read and write.
    pub local_root: Option<LocalRoot>,
    /// Choices for programs of 2009 that name no store of this gateway.
    pub service_2009: Service2009,
    /// Host names, and origins of pages, that the gateway allows over HTTP.
    pub http: HttpAccess,
    /// Counts of the calls.
    pub calls: Calls,
    /// The turns at each store, by its name.
    pub turns: Vec<(String, Turns)>,
    /// TLS, if it is configured.
    pub tls: Option<Arc<Tls>>,
}

/// A gateway's metrics, readable while it serves and after.
#[derive(Clone)]
pub struct GatewayNumbers(pub(crate) Arc<Shared>);

impl GatewayNumbers {
    /// Writes them to a page.
    pub fn write(&self, page: &mut Page) {
        self.0.calls.write(page, &[("role", "gateway")]);
        self.0.sessions.logins().write(page);
        let budget = &self.0.budget;
        for (store, turns) in &self.0.turns {
            turns.write(page, store);
        }
        let mut gauge = |name, help, value| page.number(name, Kind::Gauge, help, &[], value);
        gauge(
            "strait_gateway_buffered_bytes",
            "Memory that large requests and answers hold.",
            budget.held_bytes() as u64,
        );
        gauge("strait_gateway_waiting_for_memory", "Requests that wait for memory.", budget.waiting() as u64);
        page.number(
            "strait_gateway_slow_clients_total",
            Kind::Counter,
            "Connections ended because they moved bytes too slowly while others waited for their memory.",
            &[],
            budget.connections_cut(),
        );
    }
}
