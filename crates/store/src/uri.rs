//! URIs choose the adapter: the one place that knows all of them.

use crate::{Error, ErrorKind, FileStore, FileSystem, MemoryStore, Result, StorePath, fail};
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// A store's URI, with a path in it: `scheme://authority/path`.
///
/// Paths are taken as they stand, without percent-decoding, as HDFS's own
/// tools take them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUri {
    scheme: Scheme,
    authority: String,
    path: StorePath,
}

/// The kinds of store that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// A directory of this host: `file:///srv/data`.
    File,
    /// Nothing that lasts, for tests: `memory:///`.
    Memory,
    /// HDFS, by a namenode or a nameservice: `hdfs://namenode:8020/`.
    #[cfg(feature = "hdfs")]
    Hdfs,
    /// Kadoop, by its namenode: `kadoop://namenode:9091/`.
    #[cfg(feature = "kadoop")]
    Kadoop,
    /// Another gateway: `strait://host:port/`.
    #[cfg(feature = "strait")]
    Strait,
}

impl Scheme {
    /// Each with its name in URIs.
    const ALL: &[(&'static str, Self)] = &[
        ("file", Self::File),
        ("memory", Self::Memory),
        #[cfg(feature = "hdfs")]
        ("hdfs", Self::Hdfs),
        #[cfg(feature = "kadoop")]
        ("kadoop", Self::Kadoop),
        #[cfg(feature = "strait")]
        ("strait", Self::Strait),
    ];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, scheme)| scheme == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// What opening a store may need beside its URI.
#[derive(Clone, Default)]
pub struct OpenOptions {
    /// How to come into a Kadoop cluster.
    #[cfg(feature = "kadoop")]
    pub kadoop: crate::kadoop::Options,
    /// How to log in at a gateway.
    #[cfg(feature = "strait")]
    pub strait: crate::strait::Options,
}

impl StoreUri {
    /// Parses `text`.
    ///
    /// # Errors
    /// InvalidArgument, naming the schemes that there are, for what isn't a
    /// URI of one of them.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |why: String| fail(ErrorKind::InvalidArgument, why);
        if text
            .split_once("//")
            .is_some_and(|(_, rest)| rest.split('/').next().is_some_and(|at| at.contains('@')))
        {
            // Not repeated in the message: it may hold a password.
            return refuse("a URI names no user; log in with --user".to_owned());
        }
        let Some((scheme, rest)) = text.split_once(':') else {
            return refuse(format!("{text}: not a URI; give one such as {}", examples()));
        };
        let Some((_, scheme)) = Scheme::ALL.iter().find(|(name, _)| *name == scheme) else {
            return refuse(format!("{text}: unknown scheme {scheme}:; there is {}", examples()));
        };
        // `file:/path` is as good as `file:///path` (RFC 8089).
        let (authority, path) = match rest.strip_prefix("//") {
            None => ("", rest),
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        };
        let path = if path.is_empty() { StorePath::root() } else { StorePath::parse(path)? };
        let uri = Self { scheme: *scheme, authority: authority.to_owned(), path };
        if let Some(port) = uri.port()
            && !port.is_empty()
            && !matches!(port.parse::<u16>(), Ok(1..))
        {
            return refuse(format!("{text}: {port} is no port; there are 1 to 65535"));
        }
        match uri.scheme {
            Scheme::File if !["", "localhost"].contains(&authority) => {
                refuse(format!("{text}: a file: URI has no host; write file:///{authority}{}", uri.path))
            }
            #[cfg(feature = "kadoop")]
            Scheme::Kadoop if authority.is_empty() => {
                refuse(format!("{text}: which namenode? write kadoop://HOST:PORT{}", uri.path))
            }
            #[cfg(feature = "strait")]
            Scheme::Strait if authority.is_empty() => {
                refuse(format!("{text}: which gateway? write strait://HOST:PORT{}", uri.path))
            }
            _ => Ok(uri),
        }
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The path within the store.
    pub fn path(&self) -> &StorePath {
        &self.path
    }

    /// The store without the path: equal for two URIs in the same store.
    pub fn store(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// What follows the host and a colon; empty where nothing does.
    fn port(&self) -> Option<&str> {
        // The colons of `[::1]` are its own.
        let (_, port) = self.authority.rsplit_once(':')?;
        (!port.ends_with(']')).then_some(port)
    }

    /// A gateway's `host:port`: the authority, with the default port where it
    /// names none.
    #[cfg(feature = "strait")]
    pub fn gateway(&self) -> String {
        self.address(strait_wire::DEFAULT_PORT)
    }

    /// A Kadoop cluster's namenode, as `host:port`; none of another store.
    #[cfg(feature = "kadoop")]
    pub fn namenode(&self) -> Option<String> {
        (self.scheme == Scheme::Kadoop).then(|| self.address(crate::kadoop::DEFAULT_PORT))
    }

    #[cfg(any(feature = "kadoop", feature = "strait"))]
    fn address(&self, default_port: u16) -> String {
        match self.port() {
            Some(port) if !port.is_empty() => self.authority.clone(),
            _ => format!("{}:{default_port}", self.authority.trim_end_matches(':')),
        }
    }

    /// Opens the whole store; [`StoreUri::path`] is a path in it.
    ///
    /// # Errors
    /// What the store says; nothing else has been done then.
    pub async fn open(&self, options: &OpenOptions) -> Result<Arc<dyn FileSystem>> {
        self.open_at(&StorePath::root(), options).await
    }

    /// Opens the store whose root is the URI's own path, to be served.
    ///
    /// # Errors
    /// As [`StoreUri::open`]; InvalidArgument where the kind of store can only
    /// be served whole.
    pub async fn open_root(&self, options: &OpenOptions) -> Result<Arc<dyn FileSystem>> {
        if self.scheme != Scheme::File && !self.path.is_root() {
            let message = format!("a {}: store is served whole; leave {} out", self.scheme, self.path);
            return fail(ErrorKind::InvalidArgument, message);
        }
        self.open_at(&self.path, options).await
    }

    /// Boxed, so that the adapters are compiled with this crate and not anew
    /// with each one that opens a store.
    fn open_at<'a>(
        &'a self,
        root: &'a StorePath,
        options: &'a OpenOptions,
    ) -> BoxFuture<'a, Result<Arc<dyn FileSystem>>> {
        Box::pin(async move {
            let store: Arc<dyn FileSystem> = match self.scheme {
                Scheme::File => {
                    let root = root.as_str().to_owned();
                    let opened = tokio::task::spawn_blocking(move || FileStore::open(root, false)).await;
                    Arc::new(opened.map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))??)
                }
                Scheme::Memory => Arc::new(MemoryStore::new("root")),
                #[cfg(feature = "hdfs")]
                Scheme::Hdfs => Arc::new(crate::HdfsStore::connect(&self.store()).await?),
                #[cfg(feature = "kadoop")]
                Scheme::Kadoop => {
                    let namenode = self.address(crate::kadoop::DEFAULT_PORT);
                    Arc::new(crate::kadoop::KadoopStore::connect(&namenode, &options.kadoop).await?)
                }
                #[cfg(feature = "strait")]
                Scheme::Strait => {
                    let options = options.strait.clone();
                    Arc::new(crate::strait::StraitStore::connect(&self.gateway(), options).await?)
                }
            };
            Ok(store)
        })
    }
}

impl fmt::Display for StoreUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// One URI of each kind.
fn examples() -> String {
    let example = |(name, scheme): &(&str, Scheme)| match scheme {
        Scheme::File | Scheme::Memory => format!("{name}:///path"),
        #[allow(unreachable_patterns)]
        _ => format!("{name}://host:port/path"),
    };
    Scheme::ALL.iter().map(example).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_store_and_a_path_in_it() {
        let uri = StoreUri::parse("strait://gw:1234//a/b/").unwrap();
        assert_eq!((uri.store().as_str(), uri.path().as_str()), ("strait://gw:1234", "/a/b"));
        assert_eq!(uri.to_string(), "strait://gw:1234/a/b");
        assert_eq!(StoreUri::parse("strait://gw").unwrap().path(), &StorePath::root());
        for same in ["file:///srv/x", "file:/srv/x", "file://localhost/srv/x"] {
            assert_eq!(StoreUri::parse(same).unwrap().path().as_str(), "/srv/x", "{same}");
        }
    }

    #[test]
    fn a_gateway_without_a_port_is_at_the_default_one() {
        let address = |text| StoreUri::parse(text).unwrap().gateway();
        assert_eq!(address("strait://gw/"), "gw:9090");
        assert_eq!(address("strait://gw:1/"), "gw:1");
        assert_eq!(address("strait://[::1]/"), "[::1]:9090");
        assert_eq!(address("strait://[::1]:1/"), "[::1]:1");
    }

    #[test]
    fn what_is_no_port_is_refused_before_anybody_is_asked() {
        for text in ["strait://gw:0/", "strait://gw:65536", "strait://gw:x/", "strait://[::1]:99999/"] {
            let error = StoreUri::parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
            assert!(error.message().contains("is no port"), "{error}");
        }
    }

    #[test]
    fn what_is_not_a_store_is_refused_in_one_line_that_helps() {
        for text in ["/tmp/x", "gopher://x/", "file://host/x", "strait:///x", "file:///a/../b", ""] {
            let error = StoreUri::parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
            assert!(!error.to_string().contains('\n'));
        }
        let message = StoreUri::parse("gopher://x/").unwrap_err().to_string();
        assert!(message.contains("gopher") && message.contains("strait://"), "{message}");
    }
}
