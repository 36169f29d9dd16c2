//! The calls to the namenode that the library lacks.

use super::errors::{Effect, from_java};
use super::retry::{Backoff, PATIENCE, is_passing};
use super::rpc::{CLIENT_PROTOCOL, Connection, RpcError};
use super::wire::{
    ConcatRequest, Empty, GetBlockLocationsRequest, GetBlockLocationsResponse, GetFsStatsResponse,
    GetServerDefaultsResponse, LocatedBlocks, SAFEMODE_GET, ServerDefaults, SetSafeModeRequest,
    SetSafeModeResponse, TruncateRequest, TruncateResponse,
};
use prost::Message;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use strait_store::work::late;
use strait_store::{Error, ErrorKind, Result, fail};

/// Idle connections kept for further calls of all users: enough for the busiest users, and few
/// for a namenode.
const MAX_IDLE_CONNECTIONS: usize = 64;
/// Hadoop's servers close a connection that is idle for 10 s (`ipc.client.connection.maxidletime`).
/// We close it earlier, so that no call breaks.
const MAX_IDLE: Duration = Duration::from_secs(5);

/// The namenode, or the namenodes of a nameservice, of which one is active.
#[derive(Debug)]
pub(super) struct Namenode {
    addresses: Vec<String>,
    active: AtomicUsize,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    user: String,
    index: usize,
    since: Instant,
    connection: Connection,
}

impl Namenode {
    pub fn new(addresses: Vec<String>) -> Self {
        Self { addresses, active: AtomicUsize::new(0), idle: Mutex::default() }
    }

    /// The addresses of the namenodes, for messages.
    pub fn names(&self) -> String {
        self.addresses.join(", ")
    }

    /// Index of the namenode that gave the latest answer.
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Whether there are other namenodes to try.
    pub fn is_one_of_many(&self) -> bool {
        self.addresses.len() > 1
    }

    /// Locations of `length` bytes from `offset`. For a file under construction, they always include the last
    /// block.
    pub async fn locate(&self, user: &str, path: &str, offset: u64, length: u64) -> Result<LocatedBlocks> {
        let request = GetBlockLocationsRequest { path: path.to_owned(), offset, length };
        let answer: GetBlockLocationsResponse =
            self.call(user, "getBlockLocations", &request, Effect::Read, PATIENCE).await?;
        answer.locations.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such file"))
    }

    pub async fn statistics(&self, user: &str) -> Result<GetFsStatsResponse> {
        self.call(user, "getFsStats", &Empty {}, Effect::Read, PATIENCE).await
    }

    /// Whether the namenode is in safe mode. It has just started and lacks reports of some blocks, or an
    /// operator has ordered safe mode. Every user can query a namenode. A server that doesn't tell (such as
    /// a federation's router) counts as not in safe mode.
    pub async fn is_in_safe_mode(&self, user: &str) -> Result<bool> {
        let request = SetSafeModeRequest { action: SAFEMODE_GET, checked: Some(true) };
        let told: Result<SetSafeModeResponse> =
            self.call(user, "setSafeMode", &request, Effect::Read, PATIENCE).await;
        match told {
            Ok(answer) => Ok(answer.result),
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The cluster's defaults. Called once, at the start, so that a missing namenode is an error at once.
    pub async fn server_defaults(&self, user: &str) -> Result<ServerDefaults> {
        let answer: GetServerDefaultsResponse =
            self.call(user, "getServerDefaults", &Empty {}, Effect::Read, Duration::ZERO).await?;
        Ok(answer.defaults)
    }

    /// Finds the active namenode and records it for [`Namenode::active`].
    pub async fn find_active(&self, user: &str) -> Result<()> {
        self.call(user, "getFsStats", &Empty {}, Effect::Read, PATIENCE).await.map(|_: GetFsStatsResponse| ())
    }

    /// Truncates the file. Returns false while datanodes are still truncating the last block.
    pub async fn truncate(&self, user: &str, path: &str, new_length: u64) -> Result<bool> {
        let client_name = format!("strait-{}", uuid::Uuid::new_v4());
        let request = TruncateRequest { path: path.to_owned(), new_length, client_name };
        let answer: TruncateResponse =
            self.call(user, "truncate", &request, Effect::Mutation, PATIENCE).await?;
        Ok(answer.done)
    }

    /// Joins files of the same directory.
    pub async fn concat(&self, user: &str, target: &str, sources: Vec<String>) -> Result<()> {
        let request = ConcatRequest { target: target.to_owned(), sources };
        self.call(user, "concat", &request, Effect::Mutation, PATIENCE).await.map(|_: Empty| ())
    }

    async fn call<Q: Message, A: Message + Default>(
        &self,
        user: &str,
        method: &'static str,
        request: &Q,
        effect: Effect,
        patience: Duration,
    ) -> Result<A> {
        self.ask(effect, patience, |index, _| self.call_once(index, user, method, request, effect)).await
    }

    /// Runs `attempt` with the index of the active namenode and the number of the retry. If another namenode
    /// is active now, finds it. If none can be reached, retries for at most `patience`, and not beyond the
    /// caller's deadline.
    pub async fn ask<A, F>(
        &self,
        effect: Effect,
        patience: Duration,
        mut attempt: impl FnMut(usize, i32) -> F,
    ) -> Result<A>
    where
        F: Future<Output = std::result::Result<A, RpcError>>,
    {
        let mut backoff = Backoff::within(patience);
        let mut index = self.active.load(Ordering::Relaxed);
        let (mut asked_in_round, mut retry) = (0, 0);
        let mut in_doubt = false;
        loop {
            let error = match attempt(index, retry).await {
                Ok(answer) => {
                    self.active.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            match &error {
                RpcError::Java { class, message } if !is_elsewhere(class) && !is_passing(class) => {
                    let refusal = from_java(class, message);
                    return Err(refusal.caused_by(error));
                }
                RpcError::Broken(_) if effect == Effect::Mutation => {
                    let message = format!("namenode {}: {error}", self.addresses[index]);
                    return fail(ErrorKind::OutcomeUnknown, message);
                }
                RpcError::Broken(_) => in_doubt |= effect == Effect::Remembered,
                RpcError::Malformed(_) => {
                    return fail(
                        ErrorKind::Unavailable,
                        format!("{} isn't a namenode: {error}", self.addresses[index]),
                    );
                }
                _ => {}
            }
            index = (index + 1) % self.addresses.len();
            retry += 1;
            asked_in_round += 1;
            if asked_in_round == self.addresses.len() {
                asked_in_round = 0;
                if !backoff.pause().await {
                    return Err(late(self.away(error, in_doubt)));
                }
            }
        }
    }

    /// The address of a namenode, by its index.
    pub fn address(&self, index: usize) -> &str {
        &self.addresses[index]
    }

    async fn call_once<Q: Message, A: Message + Default>(
        &self,
        index: usize,
        user: &str,
        method: &'static str,
        request: &Q,
        effect: Effect,
    ) -> std::result::Result<A, RpcError> {
        // The server may have closed a kept connection, which only its next use reveals. So only a call that
        // can be repeated at once uses one.
        if effect == Effect::Read
            && let Some(mut connection) = self.take_idle(index, user)
        {
            match connection.call(method, request).await {
                Err(RpcError::Broken(_)) => {}
                outcome => {
                    self.keep(index, user, connection, &outcome);
                    return outcome;
                }
            }
        }
        let mut connection = Connection::open(&self.addresses[index], user, CLIENT_PROTOCOL).await?;
        let outcome = connection.call(method, request).await;
        self.keep(index, user, connection, &outcome);
        outcome
    }

    fn take_idle(&self, index: usize, user: &str) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|kept| kept.since.elapsed() < MAX_IDLE);
        let found = idle.iter().rposition(|kept| kept.index == index && kept.user == user)?;
        Some(idle.swap_remove(found).connection)
    }

    fn keep<A>(
        &self,
        index: usize,
        user: &str,
        connection: Connection,
        outcome: &std::result::Result<A, RpcError>,
    ) {
        if !matches!(outcome, Ok(_) | Err(RpcError::Java { .. })) {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(Idle { user: user.to_owned(), index, since: Instant::now(), connection });
        }
    }

    fn away(&self, last: RpcError, in_doubt: bool) -> Error {
        let mut where_from = "no namenode at";
        let message = match &last {
            RpcError::Java { class, message } => {
                where_from = if is_elsewhere(class) { "no active namenode at" } else { "the namenode at" };
                from_java(class, message).message().to_owned()
            }
            RpcError::NotSent(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                "Connection refused: no program listens there; check the port (that of fs.defaultFS, often 8020 \
                 or 9000), and that the namenode runs"
                    .to_owned()
            }
            RpcError::NotSent(error) if error.to_string().contains("failed to lookup address") => {
                format!(
                    "{error}; check the host's name; if it is a nameservice, Hadoop's configuration must define \
                     it: check HADOOP_CONF_DIR"
                )
            }
            RpcError::Broken(error) => {
                where_from = "no answer from the namenode at";
                error.to_string()
            }
            other => other.to_string(),
        };
        let kind = if in_doubt { ErrorKind::OutcomeUnknown } else { ErrorKind::Unavailable };
        Error::new(kind, format!("{where_from} {}: {message}", self.names())).caused_by(last)
    }
}

/// Whether the call belongs to another namenode of the nameservice.
fn is_elsewhere(class: &str) -> bool {
    ["StandbyException", "ObserverRetryOnActiveException"].iter().any(|name| class.ends_with(name))
}

#[cfg(test)]
mod tests {
    use super::super::write::fake::{self, Answer};
    use super::*;

    #[tokio::test]
    async fn a_refusal_says_that_the_namenode_answered() {
        let cases = [
            ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "the namenode at 127.0.0.1:"),
            ("org.apache.hadoop.ipc.StandbyException", "no active namenode at 127.0.0.1:"),
        ];
        for (class, begin) in cases {
            let address = fake::namenode(move |_, _| Answer::Exception(class, "not now".to_owned())).await;
            let namenode = Namenode::new(vec![address]);
            let error = namenode.server_defaults("alice").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().starts_with(begin), "{error}");
        }
    }

    #[test]
    fn a_name_that_does_not_resolve_may_be_a_nameservice() {
        let failed = std::io::Error::other("failed to lookup address information: Name or service not known");
        let error = Namenode::new(vec!["cluster:8020".to_owned()]).away(RpcError::NotSent(failed), false);
        assert!(error.message().contains("HADOOP_CONF_DIR"), "{error}");
    }
}
