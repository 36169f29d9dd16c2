//! Kadoop, Strait's own cluster file system, as a store.
//!
//! ```text
//!   KadoopStore ─ shared ─ names, files      the operations
//!                   │        writer ─ closings  a file's only writer; closing it after its drop
//!                   ├─ callers                principals as Kadoop's callers
//!                   ├─ budgets                the memory of open files, shared with other stores
//!                   └─ calls ─ the client library, on tokio's blocking pool
//! ```
//!
//! The client library has blocking calls. It retries them, replaces lost datanodes, and reads ahead.
//! This crate adapts it to the store's trait, and limits its concurrent calls.

mod budgets;
mod callers;
mod calls;
mod closings;
mod errors;
mod files;
mod names;
mod writer;

use async_trait::async_trait;
pub use callers::Callers;
use calls::Calls;
use closings::Closings;
use errors::from_kadoop;
use futures::stream::BoxStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use strait_kadoop_client::Access;
use strait_kadoop_client::{Client, ClientOptions};
use strait_kadoop_wire::tls::{ClientTls, Identity, Trust};
use strait_kadoop_wire::{ClientKey, Failure};
use strait_store::StorePath;
use strait_store::work::{Work, late};
use strait_store::{BlockLocation, Capabilities, Checksum, CreateOptions, FileStatus};
use strait_store::{Error, ErrorKind, Result};
use strait_store::{FileReader, FileSystem, FileWriter};
use strait_store::{Principal, SetAttributes, StoreStatus};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The namenode's port if the URI names none. It is next to the gateway's 9090.
pub const DEFAULT_PORT: u16 = strait_store::NAMENODE_PORT;

/// Time limit for connecting to a namenode, so that a missing namenode is reported soon. The library
/// itself would retry for as long as a restart takes.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// A server that accepts connections must answer within this time. Otherwise we report that it isn't a
/// namenode. A namenode that restarts refuses connections, so this limit doesn't concern it.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);

/// An abandoned file becomes writable again within this time. Usually that is at once, because the store
/// closes the file of a dropped writer. If the file's datanodes are lost, too, the library drops them
/// after 45 s, and recovery waits another 60 s for them. If the writer's process died, the lease's soft
/// limit (60 s) passes first, and then recovery runs.
const RECOVERY_LIMIT_MS: u32 = 120_000;

/// Capabilities of a Kadoop cluster.
pub const CAPABILITIES: Capabilities = Capabilities::all(RECOVERY_LIMIT_MS);

/// Credentials and options for a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file with the key: the clients' or the cluster's.
    pub key_file: Option<PathBuf>,
    /// The user to log in if no key is named.
    pub login: Option<Login>,
    /// Replicas of a new file for which the caller gives no number.
    pub replication: u16,
    /// Whether to read replicas of datanodes on this host directly from their files, if those
    /// datanodes allow it.
    pub short_circuit: bool,
}

impl Default for Options {
    fn default() -> Self {
        // As in HDFS: the bytes survive the loss of two replicas.
        Self { key_file: None, login: None, replication: 3, short_circuit: true }
    }
}

/// A user's login at a namenode, in place of the clients' key.
#[derive(Clone)]
pub struct Login {
    /// The user. The store acts as this user only.
    pub user: String,
    /// Called when the password is needed.
    pub password: Password,
    /// Certificate authorities (PEM), one of which issued the namenode's certificate.
    pub ca: Option<PathBuf>,
    /// The user's own certificate and its key (PEM), for namenodes that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Supplies a password.
pub type Password = Arc<dyn Fn() -> Result<String> + Send + Sync>;

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("ca", &self.ca).finish_non_exhaustive()
    }
}

/// A store over one Kadoop cluster.
#[derive(Clone)]
pub struct KadoopStore {
    shared: Arc<Shared>,
}

/// State that all operations need.
struct Shared {
    client: Client,
    calls: Calls,
    callers: Callers,
    closings: Closings,
    replication: u16,
}

impl Shared {
    /// The library's client, which keeps the deadline of the current call.
    fn client(&self) -> Client {
        self.client.until(Work::deadline())
    }
}

impl KadoopStore {
    /// Joins the cluster of the namenode at `HOST:PORT`.
    ///
    /// # Errors
    /// Unauthenticated without a key or login, with a key file that others may read, or with a key that
    /// isn't the cluster's; InvalidArgument if the key or the certificates can't be loaded; Unavailable
    /// if no namenode answers.
    pub async fn connect(namenode: &str, options: &Options) -> Result<Self> {
        let named = |error: Error| error.at("connect to", format!("kadoop://{namenode}"));
        let access = access(namenode, options).map_err(named)?;
        reach(namenode).await.map_err(named)?;
        let calls = Calls::new();
        let joining = ClientOptions {
            short_circuit: options.short_circuit,
            join_timeout: JOIN_PATIENCE,
            ..Self::client_options(namenode, access)
        };
        let by_key = matches!(joining.access, Access::Key(_));
        let join = move || Client::connect(joining).map_err(|failure| refused(failure, by_key));
        let client = calls.run(join).await.map_err(named)?;
        Ok(Self::over(client, options.replication))
    }

    /// Options for a client of [`KadoopStore::over`]: its files share their memory with those of
    /// all other stores of the process.
    pub fn client_options(namenode: impl Into<String>, access: impl Into<Access>) -> ClientOptions {
        ClientOptions { budgets: budgets::of_process(), ..ClientOptions::new(namenode, access) }
    }

    /// A store over a client that has joined. `replication` is for new files whose creators give no
    /// number of replicas.
    pub fn over(client: Client, replication: u16) -> Self {
        let shared = Shared {
            client,
            calls: Calls::new(),
            callers: Callers::default(),
            closings: Closings::default(),
            replication,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sends an operator's request to the cluster, with the library's own types.
    ///
    /// # Errors
    /// The errors of `work`.
    pub async fn operate<T: Send + 'static>(
        &self,
        operation: &'static str,
        who: &Principal,
        work: impl FnOnce(&Client, &strait_kadoop_core::messages::Caller) -> std::result::Result<T, Failure>
        + Send
        + 'static,
    ) -> Result<T> {
        let work = |shared: &Arc<Shared>, caller: &_| work(&shared.client(), caller).map_err(from_kadoop);
        self.call(operation, &StorePath::root(), who, work).await
    }

    /// Waits until the files of all dropped writers are closed.
    pub async fn settled(&self) {
        self.shared.closings.none().await;
    }

    /// Calls the library for `who`, and adds operation and path to its error. The library learns the caller's
    /// deadline.
    async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: &StorePath,
        who: &Principal,
        work: impl FnOnce(&Arc<Shared>, &strait_kadoop_core::messages::Caller) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (shared, who) = (Arc::clone(&self.shared), who.clone());
        let called = self.shared.calls.run(move || work(&shared, &shared.callers.of(&who)));
        called.await.map_err(|error| late(error).at(operation, path))
    }
}

/// The store's access to the cluster.
fn access(namenode: &str, options: &Options) -> Result<Access> {
    match (&options.key_file, &options.login) {
        (Some(file), _) => Ok(key(file)?.into()),
        (None, Some(login)) => Ok(login.at(namenode)?.into()),
        (None, None) => {
            let why = "kadoop:// needs a key or a login: name the key's file with --kadoop-key; a command may log \
                       in instead, with --user NAME --tls-ca FILE";
            Err(Error::new(ErrorKind::Unauthenticated, why))
        }
    }
}

impl Login {
    /// Converts to the library's type, for the namenode at `HOST:PORT`.
    fn at(&self, namenode: &str) -> Result<strait_kadoop_client::Login> {
        let invalid = |why: String| Error::new(ErrorKind::InvalidArgument, why);
        let Some(ca) = &self.ca else {
            let why = "a login must check the namenode's certificate: name the file of the certificate \
                       authority with --tls-ca";
            return Err(invalid(why.to_owned()));
        };
        let identity = self.identity.clone().map(|(certificate, key)| Identity { certificate, key });
        let tls = ClientTls::load(&Trust::Authorities(ca.clone()), identity.as_ref());
        let host = namenode.rsplit_once(':').map_or(namenode, |(host, _)| host).trim_matches(['[', ']']);
        let tls = tls.map_err(|error| invalid(error.to_string()))?.expecting(host);
        let tls = tls.ok_or_else(|| invalid(format!("{host:?} can't be a certificate's host name")))?;
        let ask = Arc::clone(&self.password);
        let password = move || {
            ask().map_err(|error| Failure::new(strait_kadoop_core::Error::Unauthenticated, error.to_string()))
        };
        Ok(strait_kadoop_client::Login { user: self.user.clone(), password: Arc::new(password), tls })
    }
}

/// The clients' key from its file, which only its owner may read.
fn key(file: &Path) -> Result<ClientKey> {
    use std::os::unix::fs::MetadataExt;
    let unreadable = |error: std::io::Error| {
        let why = match error.kind() {
            // The error names the file.
            std::io::ErrorKind::InvalidData => format!("--kadoop-key: {error}"),
            _ => format!("--kadoop-key {}: {error}", file.display()),
        };
        Error::new(ErrorKind::InvalidArgument, why).caused_by(error)
    };
    if file.metadata().map_err(unreadable)?.mode() & 0o077 != 0 {
        let shown = file.display();
        let why = format!("the key's file {shown}: others may read it; run `chmod 600 {shown}`");
        return Err(Error::new(ErrorKind::Unauthenticated, why));
    }
    ClientKey::load(file).map_err(unreadable)
}

/// The reason why a client couldn't join.
fn refused(failure: Failure, by_key: bool) -> Error {
    match failure.error {
        // For a login, the failure itself gives the reason.
        strait_kadoop_core::Error::Unauthenticated if by_key => {
            let why = "the key that --kadoop-key names isn't this cluster's";
            Error::new(ErrorKind::Unauthenticated, why).caused_by(failure)
        }
        strait_kadoop_core::Error::Unavailable => {
            let why = format!(
                "the server at this address doesn't answer as a namenode; check the port: a namenode's is \
                 {DEFAULT_PORT} by default, and a gateway's URI begins with strait:// ({})",
                failure.why
            );
            Error::new(ErrorKind::Unavailable, why).caused_by(failure)
        }
        _ => from_kadoop(failure),
    }
}

/// Checks that a program accepts connections at the namenode's address.
async fn reach(namenode: &str) -> Result<()> {
    let away = |why: String| {
        let message = format!("no namenode answers: {why}; check the address, and that the namenode runs");
        Error::new(ErrorKind::Unavailable, message)
    };
    match timeout(CONNECT_PATIENCE, TcpStream::connect(namenode)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(away(error.to_string()).caused_by(error)),
        Err(_) => Err(away(format!("no connection within {} s", CONNECT_PATIENCE.as_secs()))),
    }
}

#[async_trait]
impl FileSystem for KadoopStore {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        let at = path.clone();
        self.call("stat", path, who, move |shared, caller| shared.stat(caller, &at)).await
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        names::entries(self.clone(), who.clone(), path.clone())
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let at = path.clone();
        let reader = self.call("open", path, who, move |shared, caller| shared.open(caller, &at)).await?;
        Ok(Box::new(reader))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let (at, options) = (path.clone(), options.clone());
        let create = move |shared: &Arc<Shared>, caller: &_| shared.create(caller, &at, &options);
        Ok(Box::new(self.call("create", path, who, create).await?))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let at = path.clone();
        let writer = self.call("append", path, who, move |shared, caller| shared.append(caller, &at)).await?;
        Ok(Box::new(writer))
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        let at = path.clone();
        self.call("truncate", path, who, move |shared, caller| shared.truncate(caller, &at, length)).await
    }

    async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        let (at, sources) = (target.clone(), sources.to_vec());
        self.call("concat", target, who, move |shared, caller| shared.concat(caller, &at, &sources)).await
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        let (at, to) = (from.clone(), to.clone());
        self.call("rename", from, who, move |shared, caller| shared.rename(caller, &at, &to, replace)).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        let at = path.clone();
        self.call("remove", path, who, move |shared, caller| shared.remove(caller, &at, recursive)).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        let at = path.clone();
        self.call("mkdirs", path, who, move |shared, caller| shared.mkdirs(caller, &at, permission)).await
    }

    async fn set_attributes(&self, who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        let (at, set) = (path.clone(), set.clone());
        let change = move |shared: &Arc<Shared>, caller: &_| shared.set_attributes(caller, &at, &set);
        self.call("set attributes of", path, who, change).await
    }

    async fn block_locations(
        &self,
        who: &Principal,
        path: &StorePath,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        let at = path.clone();
        self.call("locate", path, who, move |shared, caller| shared.block_locations(caller, &at, range)).await
    }

    async fn checksum(&self, who: &Principal, path: &StorePath) -> Result<Checksum> {
        self.digest(who, path).await
    }

    async fn status(&self, who: &Principal) -> Result<StoreStatus> {
        self.call("status", &StorePath::root(), who, |shared, _| shared.status()).await
    }
}
