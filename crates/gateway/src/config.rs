//! What an operator decides, and the limits the gateway keeps.

use crate::homes::Homes;
use crate::passwords::PasswordFile;
use crate::tls::Tls;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strait_store::{FileSystem, MAX_CHUNK_BYTES, Principal};

/// A gateway's configuration; `crates/strait` makes it from its flags.
pub struct Config {
    /// The stores that clients may pick from; the first is the default. Never
    /// empty.
    pub stores: Vec<ConfiguredStore>,
    /// The clients that the gateway serves.
    pub access: Access,
    /// Where `copyToLocalFile` and `copyFromLocalFile` may touch this host's
    /// own files; without it they are refused.
    pub local_root: Option<LocalRoot>,
    /// TLS; without it the port speaks clear text only.
    pub tls: Option<Arc<Tls>>,
    /// Signs session tokens. Gateways that share it take each other's.
    pub token_key: [u8; 32],
    /// Behaviour for programs of 2009.
    pub service_2009: Service2009,
    /// The limits in force.
    pub limits: Limits,
    /// A call that takes so long is written to the log.
    pub slow_call: Duration,
}

/// A store under the name by which clients ask for it.
#[derive(Clone)]
pub struct ConfiguredStore {
    /// Short name.
    pub name: String,
    /// URI, as the operator gave it; clients may ask by it too.
    pub uri: String,
    /// The store.
    pub fs: Arc<dyn FileSystem>,
}

/// A directory of the gateway's host.
#[derive(Clone)]
pub struct LocalRoot {
    /// Its absolute path, as clients name files in it.
    pub path: PathBuf,
    /// The same directory as a store, which can't be led out of it.
    pub fs: Arc<dyn FileSystem>,
}

/// Behaviour of the 2009 service if programs name no store of this gateway, or rely on a
/// server that ignored an argument.
#[derive(Debug, Clone, Default)]
pub struct Service2009 {
    /// Name or URI of the store for programs that name none of the configured
    /// ones; without it the only store, if there is only one.
    pub store: Option<String>,
    /// Whether `write` appends wherever the program asked to write. Hadoop's
    /// server did, which silently misplaces bytes.
    pub ignore_write_offsets: bool,
}

/// The clients that the gateway serves.
#[derive(Default)]
pub struct Access {
    /// Users and their passwords.
    pub passwords: Option<PasswordFile>,
    /// The user for every client that hasn't logged in. None: such clients are refused, except
    /// those of `starter`.
    pub anonymous: Option<Principal>,
    /// The user for clients that haven't logged in, but connect over loopback from a
    /// socket that the kernel ascribes to this process's own user.
    pub starter: Option<Principal>,
    /// Where the gateway makes a home for each user who logs in.
    pub homes: Option<Homes>,
}

/// The limits in force, each with its default's reason.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once; no origin (a local user, an address) has more than it leaves to others.
    pub connections: usize,
    /// Sessions at once, shared like connections: several a connection are
    /// unusual.
    pub sessions: usize,
    /// Open files and listings a session.
    pub handles_per_session: usize,
    /// Open files and listings in all. No session gets more than it leaves to
    /// others, so one alone has half of them at most.
    pub handles: usize,
    /// Changes that run in one store at once. A change runs to its end after its
    /// client has gone, so without a limit they would pile up in a store that is stuck.
    /// Twice the connections: each has one, and closed connections may have left as many.
    pub changes_per_store: usize,
    /// Closed sessions remembered until their tokens expire, 20 MB in all: six closed a
    /// second for as long as a token runs. Of a user, and of all strangers together, no more
    /// than it leaves to others.
    pub closed_sessions: usize,
    /// Calls at work in one store at once, shared by user: with [`Limits::long_calls_per_store`] a
    /// quarter of the 512 threads that all stores of the process may block.
    pub calls_per_store: usize,
    /// Checksums at work in one store at once, shared by user. Each may keep a processor or a
    /// disk busy for long, and more of them at once end no sooner.
    pub long_calls_per_store: usize,
    /// Bytes of one request. Four chunks, as 2009 clients may write more than
    /// one at a time.
    pub message_bytes: usize,
    /// Bytes that requests being received and answers being sent may take in
    /// all connections together, beyond each one's reserve. No user has more than half,
    /// and one connection's answers no more than half of that: five reads of 4 MiB.
    pub buffered_bytes: usize,
    /// Bytes that each connection can always have for a request and an answer,
    /// however much others hold: most requests and answers that carry no content. With
    /// [`Limits::connections`] they bound this memory to 128 MiB.
    pub reserved_bytes: usize,
    /// Bytes of one request on a connection that isn't attributed to a user: before a login
    /// nothing larger is needed.
    pub stranger_message_bytes: usize,
    /// While a request waits for memory, the gateway ends clients that hold a part of
    /// [`Limits::buffered_bytes`] and move their bytes more slowly than this. 2 Mbit/s:
    /// slower links lose a connection only while memory is short.
    pub min_rate_bytes_per_s: u64,
    /// A client has this long to begin, and its rate is measured over as long at least: a
    /// lost packet costs less (RFC 6298: 1 s at first).
    pub rate_grace: Duration,
    /// Reads of one connection that run at once; enough to keep a distant
    /// store busy.
    pub reads_in_flight: usize,
    /// Entries of one page of a listing.
    pub list_page: usize,
    /// Entries of `listFiles`, which has no pages.
    pub list_files: usize,
    /// A session without requests for so long ends, and its files with it.
    pub session_idle: Duration,
    /// An idle connection that has sent nothing yet, or that lacks a login it needs, is ended
    /// after so long, so that places aren't held by nobody. A client asks as soon as it
    /// connects; one that connects ahead of need gets a minute.
    pub greeting: Duration,
    /// After its last connection is lost a session waits so long for the
    /// client to come back.
    pub session_linger: Duration,
    /// A connection in mid-request, or whose client doesn't take its answers,
    /// is cut after so long without progress.
    pub stall: Duration,
    /// How long requests in flight may take to end at shutdown.
    pub drain: Duration,
    /// Password checks at once. One takes 19 MiB and some 20 ms of a core
    /// (argon2id, OWASP's parameters), so more would be a way to exhaust both.
    pub password_checks: usize,
    /// Logins at once that wait for their check or are in it, shared like
    /// connections: the last waits under a second.
    pub logins: usize,
    /// Answers to mutations remembered a session, for retries.
    pub remembered_mutations: usize,
    /// Bytes that all remembered answers take together; beyond it sessions that
    /// remember much forget their oldest. Some 250,000 that succeeded.
    pub remembered_bytes: usize,
    /// A token that isn't renewed by opening its session again expires after so long.
    pub token_renewal: Duration,
    /// A login by password and all its tokens end after this time, however often they
    /// are renewed. So a stolen token ends, too.
    pub token_lifetime: Duration,
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
            long_calls_per_store: 8,
            message_bytes: 4 * MAX_CHUNK_BYTES + (64 << 10),
            buffered_bytes: 96 << 20,
            reserved_bytes: 16 << 10,
            stranger_message_bytes: 64 << 10,
            min_rate_bytes_per_s: 256 << 10,
            rate_grace: Duration::from_secs(1),
            reads_in_flight: 8,
            list_page: 1_000,
            list_files: 100_000,
            session_idle: Duration::from_secs(15 * 60),
            greeting: Duration::from_secs(60),
            session_linger: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            drain: Duration::from_secs(20),
            password_checks: 2,
            logins: 64,
            remembered_mutations: 1_024,
            remembered_bytes: 64 << 20,
            token_renewal: Duration::from_secs(12 * 3_600),
            token_lifetime: Duration::from_secs(7 * 24 * 3_600),
        }
    }
}

/// Of the process's descriptors, one in so many may be a client's open file:
/// one in a directory is a descriptor, one in HDFS a connection or, as it
/// fails over, two.
const DESCRIPTORS_A_HANDLE: usize = 2;
/// And one in so many a client's connection. What is left of them stores use
/// for themselves.
const DESCRIPTORS_A_CONNECTION: usize = 4;

impl Limits {
    /// These limits, lowered to what a process with so many descriptors
    /// (RLIMIT_NOFILE) can serve: being out of them is a failure of everything,
    /// being at a limit fails only the client that wants more.
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
