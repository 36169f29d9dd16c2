//! The operator's choices, and the limits that the gateway enforces.

use crate::homes::Homes;
use crate::passwords::PasswordFile;
use crate::tls::Tls;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strait_store::{FileSystem, MAX_CHUNK_BYTES, Principal};

/// A transfer that moves fewer bytes than this within [`Limits::stall`] is stuck or an attack; the
/// gateway ends it.
pub(crate) const MIN_PROGRESS_BYTES: u64 = 16 << 10;

/// The gateway checks this often for changed passwords and certificates, and for idle sessions, or more
/// often if [`Limits::session_linger`] is shorter. A changed password ends its user's sessions at the
/// second check at the latest, so within 5 s.
pub(crate) const SWEEP_PERIOD: Duration = Duration::from_secs(2);

/// Memory for a page of a listing, or for an answer with block locations.
pub(crate) const PAGE_BYTES: usize = 256 << 10;

/// A gateway's configuration; `crates/strait` makes it from its flags.
pub struct Config {
    /// The stores that clients may pick from; the first is the default. Never empty.
    pub stores: Vec<ConfiguredStore>,
    /// The clients that the gateway serves.
    pub access: Access,
    /// The directory of this host in which `copyToLocalFile` and `copyFromLocalFile` may read and write
    /// files. Without it the gateway refuses both calls.
    pub local_root: Option<LocalRoot>,
    /// TLS; without it the port speaks clear text only.
    pub tls: Option<Arc<Tls>>,
    /// The key that signs session tokens. Gateways with the same key accept each other's tokens.
    pub token_key: [u8; 32],
    /// Behaviour for programs of 2009.
    pub service_2009: Service2009,
    /// Host names, and origins of pages, that the gateway allows over HTTP.
    pub http: HttpAccess,
    /// The limits in force.
    pub limits: Limits,
    /// The gateway logs each call that takes at least this long.
    pub slow_call: Duration,
}

/// A store under the name by which clients ask for it.
#[derive(Clone)]
pub struct ConfiguredStore {
    /// Short name.
    pub name: String,
    /// URI, as the operator gave it; clients may also name the store by it.
    pub uri: String,
    /// The store.
    pub fs: Arc<dyn FileSystem>,
}

/// The operator's choices for HTTP.
#[derive(Debug, Clone, Default)]
pub struct HttpAccess {
    /// Host names under which clients reach the gateway, without a port. IP addresses and `localhost`
    /// are always allowed.
    pub hosts: Vec<String>,
    /// Origins of the web pages that may call the gateway, as `https://host:port`.
    pub origins: Vec<String>,
}

/// A directory of the gateway's host.
#[derive(Clone)]
pub struct LocalRoot {
    /// Its absolute path. Clients name its files by absolute paths that begin with it, or by relative
    /// paths.
    pub path: PathBuf,
    /// The same directory as a store, which paths and links can't leave.
    pub fs: Arc<dyn FileSystem>,
    /// Permission bits that no copy gets.
    pub umask: u32,
}

/// Behaviour of the 2009 service for programs that name no store of this gateway, or that rely on a
/// server that ignored an argument.
#[derive(Debug, Clone, Default)]
pub struct Service2009 {
    /// Name or URI of the store for programs that name none of the configured ones. Without it, the
    /// gateway picks the only store, if there is only one.
    pub store: Option<String>,
    /// Whether `write` ignores its offset and appends. Hadoop's server did so, which silently
    /// misplaces bytes.
    pub ignore_write_offsets: bool,
}

/// The clients that the gateway serves.
#[derive(Default)]
pub struct Access {
    /// Users and their passwords.
    pub passwords: Option<PasswordFile>,
    /// The user for every client that hasn't logged in. If None, the gateway refuses such clients,
    /// except those of `starter`.
    pub anonymous: Option<Principal>,
    /// The user for clients that haven't logged in, but connect over loopback from a
    /// socket that, as the kernel reports, belongs to this process's own user.
    pub starter: Option<Principal>,
    /// The place where the gateway makes a home for each user who logs in.
    pub homes: Option<Homes>,
}

/// The limits in force, each with its default's reason.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once. An origin (a local user or an address) may hold as many as are free, so at
    /// most half of all.
    pub connections: usize,
    /// Sessions at once, shared like connections. Few connections have more than one session.
    pub sessions: usize,
    /// Open files and listings of one session.
    pub handles_per_session: usize,
    /// Open files and listings of all sessions. A user has at most half of them.
    pub handles: usize,
    /// Changes that run in one store at once, shared fairly among users. A change runs to its end even
    /// if its client leaves, so without a limit they would pile up in a store that is stuck. The default
    /// is twice the connections: each connection has one change, and closed connections may have left
    /// as many.
    pub changes_per_store: usize,
    /// Closed sessions that the gateway remembers until their tokens expire. The default takes 20 MB, and
    /// suffices if clients close six sessions a second during [`Limits::token_renewal`]. A user has at
    /// most half of them, and so have all clients without a login together.
    pub closed_sessions: usize,
    /// Calls that run in one store at once, shared fairly among users. Each may hold one of the process's
    /// threads ([`Limits::blocking_threads`]). At most a quarter of these calls move more than 16 KiB each.
    pub calls_per_store: usize,
    /// Checksums that run in one store at once, shared fairly among users. Each may keep a processor or a
    /// disk busy for long, so running more at once doesn't finish them sooner.
    pub long_calls_per_store: usize,
    /// Bytes of one request. The default is four chunks, since 2009 clients may write more than one chunk
    /// at a time.
    pub message_bytes: usize,
    /// Bytes that the incoming requests and outgoing answers of all connections may hold together,
    /// beyond each connection's reserve. A user has at most half of them, and the answers of one
    /// connection at most half of that: six reads of 4 MiB.
    pub buffered_bytes: usize,
    /// Bytes that each connection always has for a request, and as many for an answer, however much
    /// others hold. Most requests and answers without file content fit. With [`Limits::connections`]
    /// they bound this memory to 128 MiB.
    pub reserved_bytes: usize,
    /// Bytes of one request on a connection that isn't attributed to a user. Before a login,
    /// clients need nothing larger.
    pub stranger_message_bytes: usize,
    /// The time that the gateway allows for each request of clients of one origin that haven't logged in.
    /// The default, 2,000 requests a second, is enough for hundreds of logins a second.
    pub stranger_interval: Duration,
    /// Requests of such clients that may come at once after a pause.
    pub stranger_burst: u32,
    /// While a request waits for memory, the gateway ends connections that hold a part of
    /// [`Limits::buffered_bytes`] and move bytes more slowly than this. The default is 2 Mbit/s: slower
    /// links lose a connection only while memory is short.
    pub min_rate_bytes_per_s: u64,
    /// The gateway measures a client's rate over at least this long, so that one lost packet ends no
    /// connection (RFC 6298: TCP sends it again after 1 s at first).
    pub rate_grace: Duration,
    /// Reads of one connection that run at once; enough to keep a distant
    /// store busy.
    pub reads_in_flight: usize,
    /// Entries of one page of a listing.
    pub list_page: usize,
    /// Entries of `listFiles`, which has no pages.
    pub list_files: usize,
    /// Listings of all users that have further pages. Each may hold some hundred KiB of entries.
    pub unfinished_listings: usize,
    /// A listing counts as in use for this long after its latest page. A user's new listing never ends
    /// that user's listings in use.
    pub listing_in_use: Duration,
    /// The gateway ends a session after this long without requests, and its files with it.
    pub session_idle: Duration,
    /// The gateway ends an idle connection after this long if its client has sent nothing yet, or
    /// hasn't logged in but must. So such connections don't hold places. Most clients send a request
    /// at once; a client that connects in advance has a minute.
    pub greeting: Duration,
    /// After its last connection is lost, a session waits this long for its client to return.
    pub session_linger: Duration,
    /// The gateway ends a connection after this long without progress, in mid-request or while its
    /// client doesn't take its answers.
    pub stall: Duration,
    /// At shutdown, requests in flight have this long to end.
    pub drain: Duration,
    /// Password checks at once. One takes 19 MiB and some 20 ms of a core
    /// (argon2id, OWASP's parameters), so more would be a way to exhaust both.
    pub password_checks: usize,
    /// Logins whose password check waits or runs, shared like connections. With the default, the last in
    /// the queue waits less than a second.
    pub logins: usize,
    /// A session remembers its answers to mutations for this long, for retries. Clients give up on a
    /// request after about as long (docs/client-protocol.md).
    pub remembered_for: Duration,
    /// Bytes of all remembered answers together: some 250,000 of mutations that succeeded. A session
    /// has at most half of them, which suffices for 1,000 changes a second. Each session always has 32
    /// KiB.
    pub remembered_bytes: usize,
    /// A token expires after this long, unless its client renews it by opening its session again.
    pub token_renewal: Duration,
    /// A login by password and all its tokens end after this time, however often a client renews
    /// them. So a stolen token ends, too.
    pub token_lifetime: Duration,
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            sessions: 8_192,
            handles_per_session: 1_024,
            handles: 16_384,
            changes_per_store: 8_192,
            closed_sessions: 1 << 18,
            calls_per_store: 120,
            long_calls_per_store: processors().clamp(2, 8),
            message_bytes: 4 * MAX_CHUNK_BYTES + (64 << 10),
            buffered_bytes: 96 << 20,
            reserved_bytes: 16 << 10,
            stranger_message_bytes: 64 << 10,
            stranger_interval: Duration::from_micros(500),
            stranger_burst: 1_000,
            min_rate_bytes_per_s: 256 << 10,
            rate_grace: Duration::from_secs(1),
            reads_in_flight: 8,
            list_page: 1_000,
            list_files: 100_000,
            unfinished_listings: 256,
            listing_in_use: Duration::from_millis(100),
            session_idle: Duration::from_secs(15 * 60),
            greeting: Duration::from_secs(60),
            session_linger: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            drain: Duration::from_secs(20),
            password_checks: 2,
            logins: 64,
            remembered_for: Duration::from_secs(120),
            remembered_bytes: 64 << 20,
            token_renewal: Duration::from_secs(12 * 3_600),
            token_lifetime: Duration::from_secs(7 * 24 * 3_600),
        }
    }
}

/// Clients' open files may take one in this many of the process's descriptors. An open file in a
/// directory takes one descriptor; in HDFS it takes a connection or, during a failover, two.
const DESCRIPTORS_A_HANDLE: usize = 2;
/// Clients' connections may take one in this many descriptors. Stores use the rest.
const DESCRIPTORS_A_CONNECTION: usize = 4;

/// Threads for steps that block outside of a store's calls: password checks, files and names that are
/// looked up, metrics, syncs beside appends.
const OTHER_STEPS: usize = 16;

impl Limits {
    /// Threads that a process with this many stores needs for steps that block (tokio's
    /// `max_blocking_threads`). Even if all calls at all stores hang, other steps still find a thread. So
    /// users share the threads as they share the calls. More threads would only take memory: tokio
    /// starts one whenever none is idle, and on a busy host a thread that has done its step isn't idle
    /// at once.
    pub fn blocking_threads(&self, stores: usize) -> usize {
        self.calls_per_store * stores + OTHER_STEPS
    }

    /// These limits, lowered to those that a process with this many descriptors (RLIMIT_NOFILE) can
    /// serve. If the descriptors run out, every call fails; at a limit, only the request that exceeds
    /// it fails.
    pub fn within_descriptors(mut self, descriptors: usize) -> Self {
        self.handles = self.handles.min(descriptors / DESCRIPTORS_A_HANDLE);
        self.connections = self.connections.min(descriptors / DESCRIPTORS_A_CONNECTION);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_lower_the_limits_and_many_leave_them() {
        let few = Limits::default().within_descriptors(1_024);
        assert_eq!((few.handles, few.connections), (512, 256));
        let (many, plain) = (Limits::default().within_descriptors(1 << 20), Limits::default());
        assert_eq!((many.handles, many.connections), (plain.handles, plain.connections));
    }
}
