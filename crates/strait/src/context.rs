//! Opens the stores that URIs name, each once, with the login that the flags give.

use crate::cli::{Foreign, Global};
use crate::failure::Failure;
use crate::lent_logins::Received;
use crate::messages::Messages;
use crate::output::Output;
use crate::password::PasswordSource;
use crate::tally::Tally;
use crate::waiting::{Aliases, Typing, Waiting, Watched};
use crate::{password, relative, tokens};
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_client::{Options, StraitStore, TlsOptions};
use strait_dispatch::frame::Lent;
use strait_kadoop_client::Client;
use strait_kadoop_core::messages::Caller;
use strait_kadoop_wire::Failure as KadoopFailure;
use strait_store::{Error, ErrorKind, FileStatus, FileSystem, Principal, Scheme, StorePath, StoreUri};
use strait_store_any::{HadoopConfig, OpenOptions, with_host};
use strait_store_kadoop as kadoop;

/// Time limit for ending sessions. A gateway also ends idle sessions by itself.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// State that every command needs.
pub struct Context {
    /// Print JSON.
    pub json: bool,
    user: Option<String>,
    user_is_explicit: bool,
    password_file: Option<PasswordSource>,
    gateway_store: Option<String>,
    /// The store where relative paths begin.
    default_store: Option<String>,
    timeout: Option<Duration>,
    operation_timeout: Option<Duration>,
    kadoop_key: Option<PathBuf>,
    kadoop_over_tcp: bool,
    foreign: Foreign,
    tls: Option<TlsOptions>,
    /// The flags that `run` passes to its helpers on other hosts.
    pub helper_flags: Vec<String>,
    opened: RefCell<HashMap<String, Arc<dyn FileSystem>>>,
    /// Read once, so that all operands without a host mean the same one.
    hadoop: OnceCell<HadoopConfig>,
    /// Stores that couldn't be opened, with the time and the error of the latest attempt.
    away: RefCell<HashMap<String, (Instant, Error)>>,
    /// Gateways where this command has a login, by the store's URI.
    with_login: RefCell<HashMap<String, Arc<StraitStore>>>,
    /// The logins that were lent to this process, if it is a helper of `run` or a command of one.
    received: RefCell<Received>,
    /// Sessions that no other command uses. They end with this command.
    own_sessions: RefCell<Vec<Arc<StraitStore>>>,
    /// Whether a person is typing a password for one of the stores.
    typing: Typing,
    /// Paths that notices about stores show in place of others.
    pub aliases: Aliases,
}

/// A path in an open store.
#[derive(Clone)]
pub struct Place {
    /// The store.
    pub fs: Arc<dyn FileSystem>,
    /// The principal for operations there.
    pub who: Principal,
    /// The path.
    pub path: StorePath,
    /// The store's URI, without the path.
    pub store: String,
    /// The URI ended with a slash, so it can only mean a directory.
    pub slash: bool,
}

/// A Kadoop cluster, for its operators' commands.
pub struct Cluster {
    store: kadoop::KadoopStore,
    /// The principal of the calls.
    who: Principal,
    /// Notices about slow answers.
    pub waiting: Waiting,
}

/// For this time after a slow failed attempt to open a store, further operands on it fail at once with the same
/// error.
const TRY_EVERY: Duration = Duration::from_secs(5);
/// An attempt that fails faster than this isn't remembered: the next operand tries again at once.
const LONG_WAIT: Duration = Duration::from_secs(1);

impl Context {
    /// A context with the values of these flags.
    pub fn new(global: Global) -> Self {
        let helper_flags = global.for_helpers();
        let identity = global.client_cert.zip(global.client_key);
        // --tls-ca and --client-cert imply --tls.
        let messages = Messages { json: global.json };
        let wanted = global.tls || global.tls_ca.is_some() || identity.is_some();
        Self {
            json: global.json,
            tls: wanted.then_some(TlsOptions { ca: global.tls_ca, identity }),
            user: global.user,
            user_is_explicit: global.user_is_explicit,
            password_file: global
                .password_file
                .map(|file| PasswordSource::new(file, global.password_file_is_explicit, messages)),
            gateway_store: global.gateway_store.filter(|name| !name.is_empty()),
            default_store: global.default_store,
            timeout: global.timeout.map(Duration::from_secs),
            operation_timeout: global.operation_timeout.map(Duration::from_secs),
            kadoop_key: global.kadoop_key,
            kadoop_over_tcp: global.kadoop_over_tcp,
            foreign: global.foreign,
            helper_flags,
            opened: RefCell::default(),
            hadoop: OnceCell::new(),
            away: RefCell::default(),
            with_login: RefCell::default(),
            received: RefCell::new(Received::of_environment(global.logins_fd)),
            own_sessions: RefCell::default(),
            typing: Typing::default(),
            aliases: Aliases::default(),
        }
    }

    /// Prints messages to standard error.
    pub fn messages(&self) -> Messages {
        Messages { json: self.json }
    }

    /// Collects the failures of a command's operands.
    pub fn tally(&self) -> Tally {
        Tally::new(self.messages())
    }

    /// The command's output.
    pub fn output(&self) -> Output {
        Output::new(self.json)
    }

    /// The URI that an operand means: relative paths begin in the default store.
    ///
    /// # Errors
    /// InvalidArgument: a relative path without a default store, a path that leads out of that store, or an
    /// empty text.
    pub fn absolute<'a>(&self, text: &'a str) -> strait_store::Result<Cow<'a, str>> {
        relative::absolute(self.default_store.as_deref(), text)
    }

    /// The place that a URI, or a path below the default store, names.
    pub async fn place(&self, text: &str) -> Result<Place, Failure> {
        let text = &*self.absolute(text)?;
        let uri = self.uri(text)?;
        let slash = text.ends_with('/') && !uri.path().is_root();
        let store = uri.store();
        let opened = self.opened.borrow().get(&store).cloned();
        let fs = match opened {
            Some(fs) => fs,
            None => {
                let fs = self.open_unless_away(&uri, &store).await?;
                self.opened.borrow_mut().insert(store.clone(), fs.clone());
                fs
            }
        };
        // A store that needs no login, such as HDFS without Kerberos, trusts a user name.
        let who = match &self.user {
            Some(user) if fs.capabilities().per_user => Principal::new(user),
            _ => invoking_user(),
        };
        Ok(Place { fs, who, path: uri.path().clone(), store, slash })
    }

    /// The directory that `text` names, to be served to others. In a directory of this host, no symbolic link
    /// leads out of it.
    pub async fn place_to_serve(&self, text: &str) -> Result<Place, Failure> {
        let place = self.place(text).await?;
        if !place.stat().await?.is_directory() {
            let why = "not a directory; serve its parent directory";
            return Err(Failure::at(ErrorKind::NotADirectory, "serve", &place.path, why));
        }
        let uri = self.uri(&self.absolute(text)?)?;
        if uri.scheme() != Scheme::File {
            return Ok(place);
        }
        let fs = strait_store_any::open_root(&uri, &self.stores()?).await?;
        Ok(Place { fs, path: StorePath::root(), store: uri.to_string(), ..place })
    }

    /// Parses a URI. If it names no store of its gateway, --gateway-store does. If it names no namenode,
    /// Hadoop's configuration does.
    pub fn uri(&self, text: &str) -> strait_store::Result<StoreUri> {
        let uri = StoreUri::parse(text)?;
        let uri = if uri.is_of_default_host() { with_host(uri, Some(self.hadoop()?))? } else { uri };
        match &self.gateway_store {
            Some(store) => uri.in_gateway_store(store),
            None => Ok(uri),
        }
    }

    fn hadoop(&self) -> strait_store::Result<&HadoopConfig> {
        if self.hadoop.get().is_none() {
            let _ = self.hadoop.set(HadoopConfig::load()?); // by this thread alone
        }
        Ok(self.hadoop.get_or_init(HadoopConfig::default))
    }

    /// As [`Self::open`]. But if an attempt took long and failed a moment ago, returns its error at once. So
    /// a command with many operands doesn't wait for each of them.
    async fn open_unless_away(&self, uri: &StoreUri, store: &str) -> Result<Arc<dyn FileSystem>, Failure> {
        if let Some((failed, why)) = self.away.borrow().get(store)
            && failed.elapsed() < TRY_EVERY
        {
            return Err(Failure::Error(why.again()));
        }
        let began = Instant::now();
        let opened = self.open(uri, store).await;
        if let Err(Failure::Error(error)) = &opened
            && matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Unavailable)
            && began.elapsed() >= LONG_WAIT
        {
            self.away.borrow_mut().insert(store.to_owned(), (Instant::now(), error.again()));
        }
        opened
    }

    /// Opens the store named `store`.
    async fn open(&self, uri: &StoreUri, store: &str) -> Result<Arc<dyn FileSystem>, Failure> {
        let options = self.stores()?;
        let waiting = self.waiting(store);
        let fs = match uri.scheme() {
            Scheme::File | Scheme::Memory | Scheme::S3 | Scheme::Gs | Scheme::Az if self.user_is_explicit => {
                return Err(Failure::usage(format!(
                    "{uri}: a {}: store has no users of its own; --user is for gateways, kadoop: and hdfs:",
                    uri.scheme()
                )));
            }
            Scheme::Memory => {
                return Err(Failure::usage(format!(
                    "{uri}: a memory: store is for tests of `strait serve`; its data would be lost with this \
                     command; name another store, such as file:///path"
                )));
            }
            Scheme::File => return Ok(strait_store_any::open(uri, &options).await?),
            Scheme::Strait => waiting.on("connect and log in", self.open_gateway(uri)).await?,
            _ => waiting.on("connect", strait_store_any::open(uri, &options)).await?,
        };
        Ok(Arc::new(Watched { fs, waiting }))
    }

    /// The Kadoop cluster that a URI names, for this command.
    pub async fn cluster(&self, command: &str, text: &str) -> Result<Cluster, Failure> {
        let not_one = || {
            Failure::usage(format!(
                "{text}: {command} needs a kadoop:// URI: kadoop://HOST:PORT/, with --kadoop-key FILE \
                 (`strait up` prints both as it starts) or a login (--user NAME --tls-ca FILE)"
            ))
        };
        let namenode = StoreUri::parse(text)?.namenode().ok_or_else(not_one)?;
        let waiting = self.waiting(&format!("kadoop://{namenode}"));
        let options = self.kadoop();
        let store = waiting.on("connect", kadoop::KadoopStore::connect(&namenode, &options)).await?;
        let who = self.user.as_deref().map_or_else(invoking_user, Principal::new);
        Ok(Cluster { store, who, waiting })
    }

    /// Notices about the store of this URI.
    fn waiting(&self, store: &str) -> Waiting {
        Waiting::with(self.messages(), store, self.typing.clone(), self.aliases.clone())
    }

    /// Options for opening stores.
    ///
    /// # Errors
    /// A flag has an invalid value.
    pub fn stores(&self) -> Result<OpenOptions, Failure> {
        let Foreign { endpoint_url, region, profile, no_sign_request, .. } = self.foreign.clone();
        let object = strait_store_any::ObjectOptions {
            endpoint: endpoint_url,
            region,
            profile,
            unsigned: no_sign_request,
            ..Default::default()
        };
        let foreign = self.foreign.libraries()?;
        Ok(OpenOptions { kadoop: self.kadoop(), object, foreign, ..OpenOptions::default() })
    }

    /// Options for connecting to a Kadoop cluster.
    pub fn kadoop(&self) -> kadoop::Options {
        kadoop::Options {
            key_file: self.kadoop_key.clone(),
            login: self.kadoop_login(),
            short_circuit: !self.kadoop_over_tcp,
            ..kadoop::Options::default()
        }
    }

    fn kadoop_login(&self) -> Option<kadoop::Login> {
        let user = self.user.clone()?;
        let (file, asked_for) = (self.password_file.clone(), user.clone());
        let TlsOptions { ca, identity } = self.tls.clone().unwrap_or_default();
        let typing = self.typing.clone();
        let password =
            move || typing.during(|| password::find(file.as_ref(), &asked_for)).map(|password| password.0);
        Some(kadoop::Login { user, password: Arc::new(password), ca, identity })
    }

    /// The user that the flags or the environment give.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Whether this command opens the Kadoop store with a user's login, and not with the cluster's key.
    pub fn has_login(&self, store: &str) -> bool {
        store.starts_with("kadoop:") && self.user.is_some() && self.kadoop_key.is_none()
    }

    /// The gateway's store that --gateway-store names.
    pub fn gateway_store(&self) -> Option<&str> {
        self.gateway_store.as_deref()
    }

    async fn open_gateway(&self, uri: &StoreUri) -> strait_store::Result<Arc<dyn FileSystem>> {
        let (lent, name) = (self.received.borrow().options(uri)?, uri.store());
        let is_lent = lent.is_some();
        let options = lent.unwrap_or_else(|| self.login_at(uri));
        let shared = options.user.is_some();
        let store = Arc::new(StraitStore::connect(&uri.gateway(), options).await?);
        match (is_lent, shared) {
            (true, _) => self.received.borrow_mut().opened(name, store.clone()),
            (false, true) => drop(self.with_login.borrow_mut().insert(name, store.clone())),
            (false, false) => self.own_sessions.borrow_mut().push(store.clone()),
        }
        Ok(store)
    }

    /// The open gateways in these URIs where this command logged in as its user: each once, with its store's
    /// URI.
    pub fn gateways_with_login<'a>(
        &self,
        uris: impl Iterator<Item = &'a str>,
    ) -> strait_store::Result<Vec<(String, Arc<StraitStore>)>> {
        let mut found: Vec<(String, Arc<StraitStore>)> = Vec::new();
        for uri in uris {
            let store = self.uri(uri)?.store();
            let is_new = !found.iter().any(|(known, _)| *known == store);
            if let Some(gateway) = self.with_login.borrow().get(&store).filter(|_| is_new) {
                found.push((store, gateway.clone()));
            }
        }
        Ok(found)
    }

    /// Whether one of these URIs names a gateway where this command logs in, so that it can lend a login.
    pub fn lends_for<'a>(&self, mut uris: impl Iterator<Item = &'a str>) -> bool {
        let is_gateway = |uri: &str| self.uri(uri).is_ok_and(|uri| uri.scheme() == Scheme::Strait);
        self.user.is_some() && uris.any(is_gateway)
    }

    /// The TLS options that the flags give.
    pub fn tls(&self) -> Option<&TlsOptions> {
        self.tls.as_ref()
    }

    /// Replaces the lent logins of the same stores by these.
    pub fn replace_lent_logins(&self, logins: Vec<Lent>) {
        self.received.borrow_mut().replace(logins);
    }

    /// Lets the commands of this helper use the helper's logins.
    ///
    /// # Errors
    /// The kernel can't allocate memory for the logins.
    pub fn share_lent_logins(&self) -> Result<(), Failure> {
        self.received.borrow_mut().share()
    }

    /// The descriptor with the logins that commands inherit, if they may use the logins.
    pub fn shared_lent_logins(&self) -> Option<i32> {
        self.received.borrow().shared()
    }

    /// Options for a login to this store of a gateway.
    pub fn login_at(&self, uri: &StoreUri) -> Options {
        let store = uri.gateway_store().map(str::to_owned);
        let (tls, timeout, operation_timeout) = (self.tls.clone(), self.timeout, self.operation_timeout);
        let Some(user) = self.user.clone() else {
            return Options { store, tls, timeout, operation_timeout, ..Options::default() };
        };
        let address = uri.gateway();
        let cached = tokens::CachedToken::new(&address, &user, store.as_deref());
        let (file, asked_for) = (self.password_file.clone(), format!("{user} at {address}"));
        // If no password is given, the store asks for one only after the gateway rejects the cached token.
        let was_kept = cached.as_ref().is_some_and(tokens::CachedToken::exists);
        let typing = self.typing.clone();
        let password = move || {
            typing.during(|| password::find(file.as_ref(), &asked_for)).map_err(|error| match error.kind() {
                ErrorKind::Unauthenticated if was_kept => {
                    let ended = "the kept login has ended: it expired, the password changed, or the gateway restarted without \
                                 a --token-key";
                    Error::new(error.kind(), format!("{ended}; {}", error.message()))
                }
                _ => error,
            })
        };
        Options {
            store,
            user: Some(user),
            always_send_password: password::is_given(self.password_file.as_ref()),
            password: Some(Arc::new(password)),
            token: cached.as_ref().and_then(|cached| cached.load(self.messages())),
            on_token: cached
                .map(|cached| -> strait_client::TokenSink { Arc::new(move |token| cached.keep(token)) }),
            tls,
            timeout,
            operation_timeout,
        }
    }

    /// Ends open sessions.
    pub async fn close(&self) {
        for session in self.own_sessions.take() {
            // The gateway ends the remaining sessions itself once they are idle.
            let _ = tokio::time::timeout(CLOSE_PATIENCE, session.close()).await;
        }
    }
}

impl Cluster {
    /// Calls its namenode.
    pub async fn operate<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Client, &Caller) -> Result<T, KadoopFailure> + Send + 'static,
    ) -> strait_store::Result<T> {
        self.waiting.on(operation, self.store.operate(operation, &self.who, work)).await
    }
}

impl Place {
    /// Another path in the same store.
    pub fn at(&self, path: StorePath) -> Self {
        Self { path, slash: false, ..self.clone() }
    }

    /// The entry `name` of this directory.
    pub fn entry(&self, name: &str) -> strait_store::Result<Self> {
        Ok(self.at(self.path.join(name)?))
    }

    /// The status of this path. NotADirectory if its URI ended with a slash and it is a file.
    pub async fn stat(&self) -> strait_store::Result<FileStatus> {
        let status = self.fs.stat(&self.who, &self.path).await?;
        match self.slash && !status.is_directory() {
            true => Err(Error::new(ErrorKind::NotADirectory, "not a directory").at("stat", &self.path)),
            false => Ok(status),
        }
    }

    /// As [`Place::stat`]; `None` if the path doesn't exist.
    pub async fn find(&self) -> strait_store::Result<Option<FileStatus>> {
        match self.stat().await {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Place::find`], for a name that a command is about to create; None also if a file is in the
    /// place of one of its parents. Then `check_directory` names that file.
    pub async fn find_target(&self) -> strait_store::Result<Option<FileStatus>> {
        match self.find().await {
            Err(error) if error.kind() == ErrorKind::NotADirectory && !self.slash => Ok(None),
            found => found,
        }
    }
}

/// The user of this process. HADOOP_USER_NAME overrides it, as in Hadoop's own tools. The name proves
/// nothing, so servers that authenticate users don't rely on it.
pub fn invoking_user() -> Principal {
    let named = std::env::var("HADOOP_USER_NAME").ok().filter(|name| !name.is_empty());
    Principal::new(&named.unwrap_or_else(process_user))
}

/// The permission bits that new files of this process don't get.
pub fn umask() -> u32 {
    // umask(2) can only read the mask by setting it, for all threads.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    bits.and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok()).unwrap_or(0o077)
}

/// The user whose rights this process has.
pub fn process_user() -> String {
    let uid = nix::unistd::geteuid();
    match nix::unistd::User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(), // as ls(1) shows a user without an entry
    }
}
