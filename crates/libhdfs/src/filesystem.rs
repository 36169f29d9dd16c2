//! A connection: a store, a user and a working directory.

use crate::configuration;
use crate::failure::{Failure, Outcome};
use crate::process::{self, Process};
use std::collections::BTreeMap;
use std::env;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use strait_store::process::PerProcess;
use strait_store::{FileSystem, Principal, Result, Scheme, StorePath, StoreUri, encoding};
use strait_store_any::{DEFAULT_STORE, HadoopConfig, OpenOptions, with_host};

/// The store and the user that a program wants.
#[derive(Default)]
pub struct Target {
    /// None: this host's files. "default": the configuration's default store.
    pub name: Option<String>,
    /// Zero: no port is given.
    pub port: u16,
    /// None: the user in the environment, or else this process's user.
    pub user: Option<String>,
    /// Properties that replace the configuration's. None: the property isn't set.
    pub properties: BTreeMap<String, Option<String>>,
    /// Whether the connection shares no store with other connections.
    pub alone: bool,
}

/// A connection. Each process that uses it has its own sockets.
pub struct Connection {
    /// The store's root.
    uri: StoreUri,
    who: Principal,
    key: String,
    options: OpenOptions,
    config: HadoopConfig,
    /// For new files, if the program set it with the connection.
    pub replication: Option<u16>,
    pub block_size: Option<u64>,
    working: Working,
    stores: PerProcess<Arc<dyn FileSystem>>,
}

impl Connection {
    /// Opens the store.
    pub fn open(target: &Target) -> Outcome<Arc<Self>> {
        let mut config = configuration::load()?;
        for (name, value) in &target.properties {
            config.set(name, value.as_deref().unwrap_or_default());
        }
        let uri = target.store(&config)?.at(StorePath::root());
        let mut options = OpenOptions::from_environment(target.user.as_deref())?;
        if let Some(store) = &options.strait.store {
            // A store in the URI takes precedence over the environment's.
            options.strait.store = uri.gateway_store().is_none().then(|| store.clone());
        }
        options.hdfs = Some(config.clone());
        let user = options.strait.user.clone().unwrap_or_else(process_user);
        let home = StorePath::parse(&home(&uri, &user))?;
        let given = |names: &[&str]| {
            let set = names.iter().find(|name| target.properties.contains_key(**name));
            set.and_then(|name| config.bytes(name))
        };
        let connection = Self {
            replication: given(&["dfs.replication"]).and_then(|count| u16::try_from(count).ok()),
            block_size: given(&["dfs.blocksize", "dfs.block.size"]),
            key: target.key(&uri, &user),
            who: Principal::new(&user),
            working: Working::new(home),
            stores: PerProcess::new(),
            uri,
            options,
            config,
        };
        connection.store()?;
        Ok(Arc::new(connection))
    }

    /// The store. If this process hasn't opened it yet, opens it.
    fn store(&self) -> Outcome<(&'static Process, &Arc<dyn FileSystem>)> {
        let process = process::current()?;
        let store = self.stores.get_or_make(|| process.store(&self.key, &self.uri, &self.options))?;
        Ok((process, store))
    }

    /// Runs an operation on the store, as the connection's user.
    pub fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Arc<dyn FileSystem>, &Principal) -> Result<T>,
    ) -> Outcome<T> {
        let (process, store) = self.store()?;
        Ok(process.wait_here(work(store, &self.who))??)
    }

    /// Runs an operation between this store and another one.
    pub fn run_with<T>(
        &self,
        other: &Self,
        work: impl AsyncFnOnce(Side<'_>, Side<'_>) -> Result<T>,
    ) -> Outcome<T> {
        let ((process, here), (_, there)) = (self.store()?, other.store()?);
        let (here, there) = (Side { store: here, who: &self.who }, Side { store: there, who: &other.who });
        Ok(process.wait_here(work(here, there))??)
    }

    /// Whether both connections are to the same store. The users may differ.
    pub fn is_same_store(&self, other: &Self) -> bool {
        address(&self.uri) == address(&other.uri)
    }

    /// Whether both connections have the same user.
    pub fn is_same_user(&self, other: &Self) -> bool {
        self.who == other.who
    }

    /// The path for a program's text: an absolute path, one relative to the working directory, or a URI of
    /// this store.
    pub fn path(&self, bytes: &[u8]) -> Outcome<StorePath> {
        let text = encoding::encode(bytes);
        if text.is_empty() {
            return Err(Failure::invalid("the path is empty"));
        }
        let begins_with_scheme =
            text.split_once(":/").is_some_and(|(scheme, _)| Scheme::named(scheme).is_some());
        if begins_with_scheme {
            let (uri, path) = split_uri(&text);
            let uri = with_host(StoreUri::parse(uri)?, Some(&self.config))?;
            if address(&uri) != address(&self.uri) {
                return Err(Failure::invalid(format!("{text}: not in {}", self.uri.store())));
            }
            let path = match uri.scheme() {
                // The first component may name the gateway's store.
                Scheme::Strait => StoreUri::parse(&text)?.path().as_str().to_owned(),
                _ => path.to_owned(),
            };
            return resolved(&StorePath::root(), &path);
        }
        resolved(self.working.get(), &text)
    }

    /// The URI, as bytes, that the program gets for a path of the store.
    pub fn name(&self, path: &str) -> Vec<u8> {
        let name = match self.uri.scheme() {
            // Hadoop writes such URIs with one slash.
            Scheme::File => format!("file:{path}"),
            _ => StorePath::parse(path)
                .map_or_else(|_| format!("{}{path}", self.uri.store()), |path| self.uri.at(path).to_string()),
        };
        encoding::decode(&name).map_or(name.clone().into_bytes(), |bytes| bytes.into_owned())
    }

    /// The working directory's URI.
    pub fn working_directory(&self) -> Vec<u8> {
        self.name(self.working.get().as_str())
    }

    /// Sets the working directory, which needn't exist.
    pub fn set_working_directory(&self, path: &[u8]) -> Outcome<()> {
        let path = self.path(path)?;
        self.working.set(path);
        Ok(())
    }

    /// Block size in bytes of new files for which the program gives none.
    pub fn default_block_size(&self) -> u64 {
        let set = ["dfs.blocksize", "dfs.block.size"].iter().find_map(|name| self.config.bytes(name));
        set.unwrap_or(match self.uri.scheme() {
            Scheme::File | Scheme::Memory => LOCAL_BLOCK_BYTES,
            Scheme::Kadoop => KADOOP_CHUNK_BYTES,
            // The other stores have HDFS's block size, or no blocks.
            _ => HDFS_BLOCK_BYTES,
        })
    }

    /// The kind of store.
    pub fn scheme(&self) -> Scheme {
        self.uri.scheme()
    }
}

/// Hadoop's default for files of a host (`fs.local.block.size`).
const LOCAL_BLOCK_BYTES: u64 = 32 << 20;
/// Hadoop's default for HDFS (`dfs.blocksize`).
const HDFS_BLOCK_BYTES: u64 = 128 << 20;
/// Kadoop's default chunk size.
const KADOOP_CHUNK_BYTES: u64 = 64 << 20;

impl Drop for Connection {
    fn drop(&mut self) {
        // A forked child that never used the connection has nothing to drop.
        if let (Some(store), Ok(process)) = (self.stores.take(), process::current()) {
            process.drop(store);
        }
    }
}

/// One of the two stores of an operation, and the user there.
#[derive(Clone, Copy)]
pub struct Side<'s> {
    pub store: &'s Arc<dyn FileSystem>,
    pub who: &'s Principal,
}

impl Target {
    fn store(&self, config: &HadoopConfig) -> Outcome<StoreUri> {
        Ok(with_host(StoreUri::parse(&self.uri(config)?)?, Some(config))?)
    }

    /// The store's URI, perhaps without a host.
    fn uri(&self, config: &HadoopConfig) -> Outcome<String> {
        let name = match self.name.as_deref() {
            None => return Ok("file:///".to_owned()),
            Some("default") => {
                let default = configuration::value(config, DEFAULT_STORE).unwrap_or_default();
                // Before Hadoop 0.20, the configured default was a host, and not a URI.
                return Ok(if default.contains(":/") { default } else { format!("hdfs://{default}") });
            }
            Some(name) => name,
        };
        let (scheme, rest) = match name.split_once("://") {
            Some((scheme, rest)) => (scheme, rest),
            None if name.starts_with("file:/") => return Ok(name.to_owned()),
            None => ("hdfs", name),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if self.port != 0 && authority.is_empty() && scheme != "file" {
            return Err(Failure::invalid(format!(
                "{name} has port {} but no host: name a host, or pass port 0",
                self.port
            )));
        }
        if self.port == 0 || authority.is_empty() {
            return Ok(format!("{scheme}://{authority}{path}"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match has_port {
            true => Err(Failure::invalid(format!("{name} has a port already; omit port {}", self.port))),
            false => Ok(format!("{scheme}://{authority}:{}{path}", self.port)),
        }
    }

    /// Connections with the same key share a store.
    fn key(&self, uri: &StoreUri, user: &str) -> String {
        use std::sync::atomic::AtomicU64;
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = if self.alone { COUNT.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
        format!("{}\0{user}\0{number}\0{:?}", uri.store(), self.properties)
    }
}

/// The user name that this process gives to servers without logins.
fn process_user() -> String {
    env::var("HADOOP_USER_NAME").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| {
        let id = nix::unistd::geteuid();
        let named = nix::unistd::User::from_uid(id).ok().flatten();
        named.map_or_else(|| id.to_string(), |user| user.name)
    })
}

/// The initial working directory.
fn home(uri: &StoreUri, user: &str) -> String {
    let here = env::current_dir().ok().filter(|_| uri.scheme() == Scheme::File);
    match here.as_deref().and_then(std::path::Path::to_str) {
        Some(here) => here.to_owned(),
        None => format!("/user/{}", user.replace('/', "_")),
    }
}

/// A store's address, with the default port if the URI has none.
fn address(uri: &StoreUri) -> String {
    let store = uri.store();
    match uri.scheme() {
        Scheme::Hdfs => {
            let has_port = store.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            if has_port { store } else { format!("{store}:8020") }
        }
        Scheme::Kadoop => uri.namenode().unwrap_or(store),
        Scheme::Strait => format!("{}/@{}", uri.gateway(), uri.gateway_store().unwrap_or_default()),
        Scheme::File | Scheme::Memory => uri.scheme().to_string(),
        // A bucket, or the text after `plugin:` or `libhdfs:`.
        Scheme::S3 | Scheme::Gs | Scheme::Az | Scheme::Plugin | Scheme::Libhdfs => store,
    }
}

/// Splits a URI into the part before the path, and the path.
fn split_uri(text: &str) -> (&str, &str) {
    let begin = match text.split_once("://") {
        Some((scheme, rest)) => scheme.len() + 3 + rest.find('/').unwrap_or(rest.len()),
        None => text.find('/').unwrap_or(text.len()),
    };
    let (before, path) = text.split_at(begin);
    // `file:` alone isn't a URI.
    if before.ends_with(':') { (text, path) } else { (before, path) }
}

/// `text`, relative to `base`. Resolves `.` and `..` as Hadoop does: without looking at links.
fn resolved(base: &StorePath, text: &str) -> Outcome<StorePath> {
    let mut names: Vec<&str> = Vec::new();
    let before = if text.starts_with('/') { "" } else { base.as_str() };
    for name in before.split('/').chain(text.split('/')) {
        match name {
            "" | "." => {}
            ".." => {
                names.pop().ok_or_else(|| Failure::invalid(format!("{text}: the path leaves the store")))?;
            }
            name => names.push(name),
        }
    }
    Ok(StorePath::parse(&format!("/{}", names.join("/")))?)
}

/// The working directory. It has no lock, since a forked child must be able to read it even if another thread
/// was changing it at the fork. Each change keeps the earlier paths, which another thread may be reading.
struct Working(AtomicPtr<Place>);

struct Place {
    path: StorePath,
    before: *mut Place,
}

// SAFETY: a place never changes before `drop`, which has the only reference.
unsafe impl Send for Working {}
// SAFETY: as above.
unsafe impl Sync for Working {}

impl Working {
    fn new(path: StorePath) -> Self {
        Self(AtomicPtr::new(Box::into_raw(Box::new(Place { path, before: null_mut() }))))
    }

    fn get(&self) -> &StorePath {
        // SAFETY: there always is one, and only `drop` frees it.
        unsafe { &(*self.0.load(Ordering::Acquire)).path }
    }

    fn set(&self, path: StorePath) {
        if path == *self.get() {
            return;
        }
        let place = Box::into_raw(Box::new(Place { path, before: null_mut() }));
        let mut before = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: no other thread sees the place until the exchange.
            unsafe { (*place).before = before };
            match self.0.compare_exchange_weak(before, place, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(current) => before = current,
            }
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut next = *self.0.get_mut();
        while !next.is_null() {
            // SAFETY: each place is in one chain, and no thread reads it any more.
            next = unsafe { Box::from_raw(next) }.before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(name: Option<&str>, port: u16, default: Option<&str>) -> Option<String> {
        let target = Target { name: name.map(str::to_owned), port, ..Target::default() };
        let mut config = HadoopConfig::default();
        default.iter().for_each(|default| config.set(DEFAULT_STORE, *default));
        target.uri(&config).ok()
    }

    #[test]
    fn a_program_names_a_store_in_each_of_hadoops_ways() {
        for (name, port, default, wanted) in [
            (None, 0, None, Some("file:///")),
            (Some("default"), 0, None, Some("file:///")),
            (Some("default"), 8020, Some("hdfs://nn:1"), Some("hdfs://nn:1")),
            (Some("default"), 0, Some("nn:1"), Some("hdfs://nn:1")),
            (Some("nn"), 0, None, Some("hdfs://nn")),
            (Some("nn"), 9, None, Some("hdfs://nn:9")),
            (Some("nn:8"), 0, None, Some("hdfs://nn:8")),
            (Some("nn:8"), 9, None, None),
            (Some("kadoop://nn"), 9, None, Some("kadoop://nn:9")),
            (Some("strait://gw/@lab"), 9, None, Some("strait://gw:9/@lab")),
            (Some("strait://[::1]/@lab"), 9, None, Some("strait://[::1]:9/@lab")),
            (Some("file:///srv"), 0, None, Some("file:///srv")),
            (Some("file:/srv"), 0, None, Some("file:/srv")),
        ] {
            assert_eq!(uri(name, port, default).as_deref(), wanted, "{name:?} {port}");
        }
    }

    #[test]
    fn a_name_without_a_namenode_is_the_default_store() {
        let target = Target { name: Some("hdfs:///".to_owned()), ..Target::default() };
        let mut config = HadoopConfig::default();
        assert!(target.store(&config).is_err());
        config.set(DEFAULT_STORE, "hdfs://nn:1/user");
        assert_eq!(target.store(&config).ok().map(|uri| uri.store()).as_deref(), Some("hdfs://nn:1"));
    }

    #[test]
    fn paths_resolve_by_their_names_and_dont_leave_the_store() {
        let base = StorePath::parse("/user/ada").unwrap();
        for (text, wanted) in [
            ("x", Some("/user/ada/x")),
            ("/x//y/", Some("/x/y")),
            ("./x/../y", Some("/user/ada/y")),
            ("../..", Some("/")),
            ("../../..", None),
            ("/..", None),
            ("a:b", Some("/user/ada/a:b")),
        ] {
            assert_eq!(resolved(&base, text).ok().map(|path| path.to_string()).as_deref(), wanted, "{text}");
        }
        assert_eq!(split_uri("hdfs://nn:1/a/b"), ("hdfs://nn:1", "/a/b"));
        assert_eq!(split_uri("hdfs://nn"), ("hdfs://nn", ""));
        assert_eq!(split_uri("file:/a"), ("file:/a", "/a"));
    }

    #[test]
    fn a_working_directory_stays_valid_for_threads_that_read_it() {
        let working = Working::new(StorePath::root());
        let first = working.get();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let working = &working;
                scope.spawn(move || {
                    for number in 0..100 {
                        working.set(StorePath::parse(&format!("/{thread}/{number}")).unwrap());
                        assert!(working.get().as_str().len() > 3);
                    }
                });
            }
        });
        assert!(first.is_root() && working.get().as_str().ends_with("/99"));
    }

    #[test]
    fn properties_refer_to_others() {
        let mut config = HadoopConfig::default();
        for (name, value) in [
            ("a", "x-${b}-${no}"),
            ("b", "${c}"),
            ("c", "7"),
            ("loop", "${loop}"),
            ("hex", "-0x10"),
            ("huge", "--9223372036854775808"),
        ] {
            config.set(name, value);
        }
        let value = |name| configuration::value(&config, name);
        assert_eq!(value("a").as_deref(), Some("x-7-${no}"));
        assert_eq!(value("loop").as_deref(), Some("${loop}"));
        assert_eq!(value("dfs.replication").as_deref(), Some("3"));
        assert_eq!(value("none"), None);
        assert_eq!(configuration::number(&config, "hex").unwrap(), Some(-16));
        assert_eq!(configuration::number(&config, "none").unwrap(), None);
        assert!(configuration::number(&config, "a").is_err());
        assert!(configuration::number(&config, "huge").is_err());
    }
}
