//! One library client for each user, up to a limit.

use super::by_user::ByUser;
use super::config::HadoopConfig;
use super::errors::{Effect, from_library};
use super::retry::{FIRST_PAUSE, LONGEST_PAUSE};
use hdfs_native::{Client, ClientBuilder};
use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use strait_store::Principal;
use strait_store::{ErrorKind, Result, fail};

/// Number of clients kept. Each is a connection to the namenode (and, once it has written, a task that renews
/// leases). With more users at a time, a new connection costs some milliseconds.
const MAX_CLIENTS: usize = 256;

/// Attempts to connect to each namenode before a call fails. With the pauses of `retry`, they take some 25 s,
/// just under its `PATIENCE`.
const ATTEMPTS_EACH: usize = 15;

/// Clients by user.
#[derive(Debug)]
pub(super) struct Clients {
    url: String,
    settings: Vec<(String, String)>,
    nameservice: Nameservice,
    /// The user of this process. Its calls are made in its own name, not as another user.
    own_user: String,
    cache: Mutex<ByUser<Client>>,
}

/// The namenodes that the library tries, and their order.
///
/// The library begins with the first one, and leaves it only if it refuses the connection or the call. If the
/// first one's host is down, nothing refuses, and every call would try it until the call times out. So the
/// known active namenode comes first.
#[derive(Debug)]
struct Nameservice {
    name: String,
    /// Empty if there is only one namenode.
    ids: Vec<String>,
    first: AtomicUsize,
}

impl Nameservice {
    fn setting(&self) -> Option<(String, String)> {
        let mut ids = self.ids.clone();
        let first = self.first.load(Ordering::Relaxed);
        if ids.len() < 2 || first >= ids.len() {
            return None;
        }
        ids.rotate_left(first);
        Some((format!("dfs.ha.namenodes.{}", self.name), ids.join(",")))
    }
}

impl Clients {
    /// Clients for the namenode, or nameservice, at `authority`.
    pub fn new(authority: &str, namenodes: &[String], config: &HadoopConfig) -> Self {
        let ids = config.namenode_ids(authority);
        let url = match namenodes.first().filter(|_| ids.is_empty()) {
            Some(address) => format!("hdfs://{address}"),
            None => format!("hdfs://{authority}"),
        };
        let nameservice = Nameservice { name: authority.to_owned(), ids, first: AtomicUsize::new(0) };
        let settings = [
            ("dfs.client.failover.max.attempts", (ATTEMPTS_EACH * namenodes.len()).to_string()),
            ("dfs.client.failover.sleep.base.millis", FIRST_PAUSE.as_millis().to_string()),
            ("dfs.client.failover.sleep.max.millis", LONGEST_PAUSE.as_millis().to_string()),
        ];
        let given = config.properties().map(|(name, value)| (name.to_owned(), value.to_owned()));
        // Later values replace earlier ones.
        let settings = given.chain(settings.map(|(name, value)| (name.to_owned(), value))).collect();
        // Hadoop's own clients can take another user name from HADOOP_USER_NAME.
        let own_user = env::var("HADOOP_USER_NAME").ok().or_else(|| whoami::username().ok());
        Self {
            url,
            settings,
            nameservice,
            own_user: own_user.unwrap_or_default(),
            cache: Mutex::new(ByUser::new(MAX_CLIENTS)),
        }
    }

    /// The user of this process.
    pub fn own_user(&self) -> &str {
        &self.own_user
    }

    /// Makes new clients try the namenode with this index first.
    pub fn prefer(&self, index: usize) {
        if self.nameservice.first.swap(index, Ordering::Relaxed) != index {
            self.cache.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// The client that acts as `who`.
    pub fn get(&self, who: &Principal) -> Result<Client> {
        if who.user.is_empty() {
            return fail(ErrorKind::Unauthenticated, "no user name");
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get_or_make(&who.user, || self.build(who))
    }

    fn build(&self, who: &Principal) -> Result<Client> {
        let settings = self.settings.iter().cloned().chain(self.nameservice.setting());
        let builder = ClientBuilder::new().with_url(&self.url).with_config(settings);
        // A user who acts in its own name needs no right to act as others.
        let builder = if *who.user == *self.own_user { builder } else { builder.with_user(&*who.user) };
        builder.build().map_err(|error| from_library(error, Effect::Read))
    }
}
