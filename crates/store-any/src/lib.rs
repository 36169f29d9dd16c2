//! Opens any store by its URI. Only this crate and the command know all adapters.
//!
//! ```text
//!   open(URI) ── scheme ─┬─ file, memory ── strait-store
//!                        ├─ hdfs ────────── strait-store-hdfs
//!                        ├─ kadoop ──────── strait-store-kadoop
//!                        ├─ s3, gs, az ──── strait-store-object
//!                        ├─ plugin ──────── strait-store-plugin
//!                        ├─ libhdfs ─────── strait-store-plugin ── strait-store-abi
//!                        └─ strait ──────── strait-client
//! ```
//!
//! This room must never: hold state; decide anything by a path; link a server; load a library that the
//! options don't allow.

mod foreign;

pub use foreign::{ByUri, ForeignOptions, Library, serve_parent};

use futures::future::BoxFuture;
use std::borrow::Cow;
use std::sync::Arc;
use strait_store::{
    Error, ErrorKind, FileStore, FileSystem, MemoryStore, Result, Scheme, StorePath, StoreUri, fail,
};
use strait_store_hdfs::HdfsStore;

mod environment;
pub use environment::{time_limit, with_unit};
pub use strait_store_hdfs::{DEFAULT_STORE, HadoopConfig};

pub use strait_store_object::Options as ObjectOptions;
pub use strait_store_plugin::Launch;

/// Parameters for opening a store, beside its URI.
#[derive(Clone, Default)]
pub struct OpenOptions {
    /// Hadoop's properties for HDFS. None: take them from Hadoop's configuration files.
    pub hdfs: Option<HadoopConfig>,
    /// Credentials for a Kadoop cluster.
    pub kadoop: strait_store_kadoop::Options,
    /// Credentials for a gateway.
    pub strait: strait_client::Options,
    /// Endpoints of object stores.
    pub object: strait_store_object::Options,
    /// Plugins and libraries.
    pub foreign: ForeignOptions,
}

/// Adds a host to `uri`, if it has none. `config` names the host; without `config`, Hadoop's configuration
/// files do.
///
/// # Errors
/// InvalidArgument if neither names a host; else the errors of reading the configuration files.
pub fn with_host(uri: StoreUri, config: Option<&HadoopConfig>) -> Result<StoreUri> {
    if !uri.is_of_default_host() {
        return Ok(uri);
    }
    let config = match config {
        Some(config) => Cow::Borrowed(config),
        None => Cow::Owned(HadoopConfig::load()?),
    };
    let authority = config.default_authority().map_err(|error| error.at("open", uri.to_string()))?;
    StoreUri::parse(&format!("{}://{authority}{}", uri.scheme(), uri.path()))
}

/// Opens the whole store of `uri`; [`StoreUri::path`] is a path in it.
///
/// # Errors
/// The errors of connecting to the store. No store is open then.
pub async fn open(uri: &StoreUri, options: &OpenOptions) -> Result<Arc<dyn FileSystem>> {
    open_at(uri, &StorePath::root(), options).await
}

/// Opens a store whose root is the path of `uri`, so that it can be served.
///
/// # Errors
/// As [`open`]; InvalidArgument if this kind of store can only be served whole.
pub async fn open_root(uri: &StoreUri, options: &OpenOptions) -> Result<Arc<dyn FileSystem>> {
    let has_roots = uri.scheme() == Scheme::File || uri.scheme().has_buckets();
    if !has_roots && !uri.path().is_root() {
        let message = format!("a {}: store can only be served whole; omit {}", uri.scheme(), uri.path());
        return fail(ErrorKind::InvalidArgument, message);
    }
    open_at(uri, uri.path(), options).await
}

/// Boxed, so that the compiler builds the adapters with this crate, not again in each crate
/// that opens a store.
fn open_at<'a>(
    uri: &'a StoreUri,
    root: &'a StorePath,
    options: &'a OpenOptions,
) -> BoxFuture<'a, Result<Arc<dyn FileSystem>>> {
    Box::pin(async move {
        let store: Arc<dyn FileSystem> = match uri.scheme() {
            Scheme::File => {
                let root = root.as_str().to_owned();
                let opened = tokio::task::spawn_blocking(move || FileStore::open(root, false)).await;
                Arc::new(opened.map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))??)
            }
            Scheme::Memory => Arc::new(MemoryStore::new("root")),
            Scheme::Hdfs => Arc::new(match &options.hdfs {
                Some(config) => HdfsStore::connect_by(&uri.store(), config.clone()).await?,
                None => HdfsStore::connect(&uri.store()).await?,
            }),
            Scheme::Kadoop => {
                let namenode = uri.namenode().unwrap_or_default();
                Arc::new(strait_store_kadoop::KadoopStore::connect(&namenode, &options.kadoop).await?)
            }
            Scheme::S3 | Scheme::Gs | Scheme::Az => {
                let bucket = uri.bucket().unwrap_or_default();
                let (scheme, options) = (uri.scheme(), &options.object);
                Arc::new(strait_store_object::ObjectStore::connect(scheme, bucket, root, options).await?)
            }
            Scheme::Plugin | Scheme::Libhdfs => Arc::new(foreign::open(uri, &options.foreign).await?),
            Scheme::Strait => {
                let mut options = options.strait.clone();
                options.store = uri.gateway_store().map(str::to_owned).or(options.store);
                Arc::new(strait_client::StraitStore::connect(&uri.gateway(), options).await?)
            }
        };
        Ok(store)
    })
}

/// Capabilities of this kind of store; for HDFS, without Kerberos. None if they depend on the server or the
/// library.
pub fn capabilities(scheme: Scheme) -> Option<strait_store::Capabilities> {
    match scheme {
        Scheme::File => Some(FileStore::own_capabilities()),
        Scheme::Memory => Some(MemoryStore::new("root").capabilities()),
        Scheme::Hdfs => Some(strait_store_hdfs::CAPABILITIES),
        Scheme::Kadoop => Some(strait_store_kadoop::CAPABILITIES),
        Scheme::S3 | Scheme::Gs | Scheme::Az => Some(strait_store_object::CAPABILITIES),
        _ => None,
    }
}

/// The host and port that [`open`] connects to first, if the URI names one.
pub fn endpoint(uri: &StoreUri, options: &OpenOptions) -> Option<(String, u16)> {
    if let Some(bucket) = uri.bucket() {
        return strait_store_object::endpoint(uri.scheme(), bucket, &options.object);
    }
    /// Port of a namenode of HDFS, if the URI names none.
    const HDFS_PORT: u16 = 8020;
    let (host, port) = uri.host_and_port()?;
    let default = match uri.scheme() {
        Scheme::Strait => strait_store::GATEWAY_PORT,
        Scheme::Kadoop => strait_store::NAMENODE_PORT,
        _ => HDFS_PORT,
    };
    // Without dots and port, this may be the name of a nameservice in Hadoop's configuration.
    Some((host.to_owned(), port.unwrap_or(default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uri_without_a_host_gets_that_of_the_configuration() {
        let mut config = HadoopConfig::default();
        config.set(DEFAULT_STORE, "hdfs://nn:8020/user");
        let uri = |text, config: &HadoopConfig| {
            with_host(StoreUri::parse(text).unwrap(), Some(config)).map(|uri| uri.to_string())
        };
        for (text, wanted) in [
            ("hdfs:///a b", "hdfs://nn:8020/a b"),
            ("hdfs:/", "hdfs://nn:8020/"),
            ("hdfs://other/a", "hdfs://other/a"),
            ("strait://gw/a", "strait://gw/a"),
            ("file:///a", "file:///a"),
        ] {
            assert_eq!(uri(text, &config).unwrap(), wanted);
        }
        let error = uri("hdfs:///a", &HadoopConfig::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().starts_with("open hdfs:///a: which namenode?"), "{error}");
        config.set(DEFAULT_STORE, "hdfs://no:port/");
        assert_eq!(uri("hdfs:///a", &config).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
