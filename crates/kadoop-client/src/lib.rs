//! Kadoop's client library. Its calls block, and any number of threads may use a client.
//!
//! ```no_run
//! use strait_kadoop_client::{Client, ClientOptions};
//! use strait_kadoop_core::messages::Caller;
//! use strait_kadoop_wire::ClientKey;
//!
//! let key = ClientKey::load("client.key".as_ref())?;
//! let client = Client::connect(ClientOptions::new("namenode:8020", key))?;
//! let caller = Caller { user: "ada".into(), groups: vec!["staff".into()], session: None };
//! client.mkdirs(&caller, "/data", 0o755)?;
//! let mut writer = client.create(&caller, "/data/file", &Default::default())?;
//! writer.write("what is to be kept")?;
//! writer.close()?;
//! assert_eq!(client.open(&caller, "/data/file")?.read_at(8, 99)?, "is to be kept");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every operation names the caller that it acts for; the namenode checks that caller's rights.
//! [`Failure::error`] gives the kind of a failure. A failed operation has changed nothing, except perhaps
//! with [`Error::OutcomeUnknown`]. After a broken connection or a restart of the namenode, the client
//! retries for [`ClientOptions::timeout`]. Each mutation has a number, the same in all its attempts, so the
//! namenode executes it at most once.
//!
//! A client belongs to the process that connected it. A forked child connects its own. There, the
//! parent's client refuses every operation ([`Error::Invalid`]), and its writers leave their files to the
//! parent.

mod access;
mod borrowing;
mod buffers;
mod digester;
mod driver;
mod files;
mod link;
mod members;
mod names;
mod pool;
mod read_driver;
mod reader;
mod reasons;
mod requests;
mod verifier;
mod writer;

pub use access::{Access, Login, Password};
pub use borrowing::ShortCircuitReads;
pub use digester::Digester;
pub use files::CreateOptions;
pub use names::{ClusterStatus, Location, NodeStatus, RefusedNode, Standings};
pub use reader::Reader;
pub use verifier::{Verified, Verifier};
pub use writer::Writer;

use borrowing::Borrowing;
use link::Link;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use strait_fork::Process;
use strait_kadoop_core::{
    client::{Budgets, Unbounded},
    error::Error,
};
use strait_kadoop_wire::{failure::Failure, stop::Stop};

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The namenode, as HOST:PORT. If the client can't connect, it resolves the name again.
    pub namenode: String,
    /// The clients' key, or a user's login.
    pub access: Access,
    /// How long an operation retries while the namenode doesn't answer.
    pub timeout: Duration,
    /// How long the client repeats attempts to join the cluster. The last attempt may end later, by its own
    /// timeout.
    pub join_timeout: Duration,
    /// Whether the client reads replicas of datanodes on this host directly from their files, if
    /// the datanodes allow it.
    pub short_circuit: bool,
    /// Limits of the memory for bytes read ahead, and for written bytes that aren't acknowledged yet.
    pub budgets: Arc<dyn Budgets>,
}

impl ClientOptions {
    /// With all defaults.
    pub fn new(namenode: impl Into<String>, access: impl Into<Access>) -> Self {
        // A namenode with a million files restarts in less time.
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
    /// See [`Client::until`].
    deadline: Option<Instant>,
    _renewal: Arc<Renewal>,
}

/// Stops the thread that renews leases when the last clone is dropped. In a forked child it does nothing.
struct Renewal(Stop, Process);

impl Drop for Renewal {
    fn drop(&mut self) {
        if self.1.is_this() {
            self.0.stop();
        }
    }
}

/// Interval of renewals of the client's leases: far below the soft limit.
const RENEW: Duration = Duration::from_secs(1);

impl Client {
    /// Joins the cluster.
    ///
    /// # Errors
    /// Unavailable: the namenode doesn't answer within the join timeout. Unauthenticated: the key isn't this
    /// cluster's, or the namenode refuses the login.
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
        Ok(Self { link, deadline: None, _renewal: Arc::new(Renewal(stop, process)) })
    }

    /// The same client, for a caller that waits until `deadline`, if that is earlier than the end of
    /// [`ClientOptions::timeout`]. A query ends then ([`Error::Unavailable`]), and its servers learn the time
    /// that is left. A mutation isn't sent after that; an attempt under way still gets its answer, so that
    /// its outcome is known. An open file doesn't keep the deadline.
    #[must_use]
    pub fn until(&self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// The cluster's minimum of replicas. A file's replication, and a file's own minimum, can't be lower.
    pub fn min_replicas(&self) -> u16 {
        self.link.joined().config().min_replicas.try_into().unwrap_or(u16::MAX)
    }

    /// Counts of the reads that used borrowed files instead of calls to the datanodes on this host.
    pub fn short_circuit_reads(&self) -> ShortCircuitReads {
        self.link.borrowing.as_ref().map(Borrowing::told).unwrap_or_default()
    }
}
