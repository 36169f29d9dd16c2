//! The client library: blocking, to be used from any number of threads.
//!
//! ```no_run
//! use strait_kadoop::{Client, ClientOptions, service::ClientKey, messages::Caller};
//!
//! let key = ClientKey::load("client.key".as_ref())?;
//! let client = Client::connect(ClientOptions::new("namenode:8020", key))?;
//! let caller = Caller { user: "ada".into(), groups: vec!["staff".into()] };
//! client.mkdirs(&caller, "/data", 0o755)?;
//! let mut writer = client.create(&caller, "/data/file", &Default::default())?;
//! writer.write("what is to be kept")?;
//! writer.close()?;
//! assert_eq!(client.open(&caller, "/data/file")?.read_at(8, 99)?, "is to be kept");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every operation carries the caller that it acts for; the namenode checks its rights.
//! What fails says how ([`Failure::error`]): with all kinds but
//! [`Error::OutcomeUnknown`] nothing was changed. Broken connections and restarts of
//! the namenode are ridden out within [`ClientOptions::timeout`]: a mutation is named by
//! a number that goes with each of its repetitions, so it is executed once.
//!
//! A client is of the process that connected it. In a forked child it refuses everything
//! ([`Error::Invalid`]), and its writers leave their files to the parent: connect anew there.

mod access;
mod borrowing;
mod digester;
mod files;
mod forked;
mod link;
mod members;
mod names;
mod pool;
mod reader;
mod requests;
mod writer;

pub use access::{Access, Login, Password};
pub use borrowing::ShortCircuitReads;
pub use digester::Digester;
pub use files::CreateOptions;
pub use names::{ClusterStatus, Location, NodeStatus, Standings};
pub use reader::Reader;
pub use writer::Writer;

use super::{failure::Failure, stop::Stop};
use crate::{
    client::{Budgets, Unbounded},
    error::Error,
};
use borrowing::Borrowing;
use forked::Process;
use link::Link;
use std::{sync::Arc, time::Duration};

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The namenode, as HOST:PORT. Resolved anew whenever a connection is made.
    pub namenode: String,
    /// By what it comes in.
    pub access: Access,
    /// How long an operation goes on trying while nobody answers.
    pub timeout: Duration,
    /// How long attempts to join the cluster are repeated. One that is under way then has
    /// its own time.
    pub join_timeout: Duration,
    /// Whether replicas of datanodes on this host are read past them, through their files, where
    /// they allow it.
    pub short_circuit: bool,
    /// Memory for what its files read ahead, and for what is written and not yet acknowledged.
    pub budgets: Arc<dyn Budgets>,
}

impl ClientOptions {
    /// With all defaults.
    pub fn new(namenode: impl Into<String>, access: impl Into<Access>) -> Self {
        // As long as a namenode takes to restart with a million files, and some.
        let timeout = Duration::from_secs(30);
        let (namenode, access) = (namenode.into(), access.into());
        let budgets = Arc::new(Unbounded);
        Self { namenode, access, timeout, join_timeout: timeout, short_circuit: true, budgets }
    }
}

/// A client of one cluster. Clones are the same client.
#[derive(Clone)]
pub struct Client {
    link: Arc<Link>,
    _renewal: Arc<Renewal>,
}

/// Ends the thread that renews leases with the last clone, in the process that has it.
struct Renewal(Stop, Process);

impl Drop for Renewal {
    fn drop(&mut self) {
        if self.1.is_this() {
            self.0.stop();
        }
    }
}

/// From one renewal of the client's leases to the next: far below the soft limit.
const RENEW: Duration = Duration::from_secs(1);

impl Client {
    /// Joins the cluster.
    ///
    /// # Errors
    /// Unavailable; Unauthenticated: the key isn't this cluster's, or the login is refused.
    pub fn connect(options: ClientOptions) -> Result<Self, Failure> {
        let link = Arc::new(Link::join(options)?);
        let stop = Stop::default();
        let (until, renewing) = (stop.clone(), Arc::downgrade(&link));
        let renew = move || {
            while !until.sleep(RENEW) {
                let Some(link) = renewing.upgrade() else { return };
                link.renew();
                link.borrowing.iter().for_each(Borrowing::expire);
            }
        };
        std::thread::Builder::new()
            .name("kadoop-renew".to_owned())
            .spawn(renew)
            .map_err(|error| Failure::new(Error::Limit("threads"), error.to_string()))?;
        let process = link.process;
        Ok(Self { link, _renewal: Arc::new(Renewal(stop, process)) })
    }

    /// What was read past the datanodes on this host.
    pub fn short_circuit_reads(&self) -> ShortCircuitReads {
        self.link.borrowing.as_ref().map(Borrowing::told).unwrap_or_default()
    }
}
