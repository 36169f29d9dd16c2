//! HDFS as a store, without a JVM.
//!
//! ```text
//!   HdfsStore ─ shared ─ namespace, files, checksum      the operations
//!                 │        reader ─ readahead ─ source     an open file
//!                 │          source ─ blocks, replicas     its bytes, by the adapter: from datanodes
//!                 │          source ─ library              its bytes, by the library
//!                 │        write, recovery                 its writer, by the adapter; frees a dropped one's file
//!                 │        library_writer                  its writer, by the library
//!                 ├─ clients ─ hdfs-native                 the namespace
//!                 └─ namenode, datanode ─ rpc, wire        what the library lacks
//! ```
//!
//! The library serves the namespace. This crate's own part, the adapter, does the rest with Hadoop's
//! protocols. The library lacks block locations, the visible part of a block under construction, checksums,
//! truncate and capacity. The adapter also reads and writes, because it is faster. It supports only SIMPLE
//! authentication. With Kerberos or encrypted transfer, the library reads and writes, and the store declares
//! the other capabilities absent. docs/hdfs.md has the guarantees and limits, docs/benchmarks.md the figures.
//!
//! This room must never: repeat a change that the namenode may execute twice; recover a file that a client
//! outside the session has open; return bytes that contradict their checksums; allocate for a length that a
//! server only claims; wait for a server without a limit.

mod block;
mod blocks;
mod by_user;
mod channel;
mod checksum;
mod clients;
mod config;
mod datanode;
mod errors;
mod files;
mod library;
mod library_writer;
mod namenode;
mod namespace;
mod readahead;
mod reader;
mod recovery;
mod replicas;
mod retry;
mod rpc;
mod shared;
mod source;
mod wire;
mod write;

use async_trait::async_trait;
pub use config::{DEFAULT_STORE, HadoopConfig};
use errors::Effect;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use namespace::status_of;
use recovery::RECOVERY_LIMIT;
use retry::once;
use shared::Shared;
use std::ops::Range;
use std::sync::Arc;
use strait_store::StorePath;
use strait_store::work::{Work, query};
use strait_store::{
    BlockLocation, Capabilities, Checksum, CreateOptions, FileReader, FileStatus, FileSystem, FileWriter,
    Principal, SetAttributes, StoreStatus, arguments,
};
use strait_store::{Error, ErrorKind, Result, fail};

/// Capabilities of an HDFS without Kerberos and encrypted transfer.
pub const CAPABILITIES: Capabilities = Capabilities::all(RECOVERY_LIMIT.as_millis() as u32);

/// A store over one HDFS.
#[derive(Debug, Clone)]
pub struct HdfsStore {
    shared: Arc<Shared>,
}

impl HdfsStore {
    /// Connects to `hdfs://HOST[:PORT]`, or to a nameservice of hdfs-site.xml (in
    /// `$HADOOP_CONF_DIR`). `hdfs://` alone means fs.defaultFS of core-site.xml.
    ///
    /// # Errors
    /// InvalidArgument for another kind of URI. Unavailable if no namenode answers; the error names host and
    /// port.
    pub async fn connect(uri: &str) -> Result<Self> {
        Self::connect_by(uri, HadoopConfig::load().map_err(|error| error.at("connect to", uri))?).await
    }

    /// As [`HdfsStore::connect`], with these properties instead of those in the files.
    ///
    /// # Errors
    /// As [`HdfsStore::connect`].
    pub async fn connect_by(uri: &str, config: HadoopConfig) -> Result<Self> {
        let shared = Shared::connect(uri, config).await.map_err(|error| error.at("connect to", uri))?;
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Runs `work` to its end even if the caller stops waiting. If `work` opened a file to write, dropping its
/// result abandons and frees that file.
async fn uncancelled<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    match tokio::spawn(Work::scope(Work::deadline(), work)).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Error::new(ErrorKind::Internal, error.to_string()).caused_by(error)),
    }
}

#[async_trait]
impl FileSystem for HdfsStore {
    fn capabilities(&self) -> Capabilities {
        let own_calls = self.shared.secured.is_none();
        Capabilities {
            truncate: own_calls,
            concat: own_calls,
            block_locations: own_calls,
            checksum: own_calls,
            status: own_calls,
            visible_while_written: own_calls,
            ..CAPABILITIES
        }
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        query(self.shared.stat(who, path.as_str())).await.map_err(|error| error.at("stat", path))
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        let client = match self.shared.clients.get(who) {
            Ok(client) => client,
            Err(error) => return stream::iter([Err(error.at("list", path))]).boxed(),
        };
        let entries = client.list_status_iter(path.as_str(), false);
        let path = path.clone();
        let shared = Arc::clone(&self.shared);
        stream::try_unfold(entries, move |entries| {
            let (path, shared) = (path.clone(), Arc::clone(&shared));
            async move {
                // Only one attempt: after an error, the library's iterator is at its end, so a second attempt
                // would make a short list look complete.
                let next = async { entries.next().await.transpose() };
                let next = query(once(&shared.namenode.names(), Effect::Read, next)).await;
                let entry = next.map_err(|error| error.at("list", &path))?;
                Ok(entry.map(|entry| (status_of(entry), entries)))
            }
        })
        .boxed()
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let opened = query(self.shared.open(who, path.as_str())).await;
        Ok(Box::new(opened.map_err(|error| error.at("open", path))?))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let (shared, who, at, options) =
            (Arc::clone(&self.shared), who.clone(), path.clone(), options.clone());
        let created = uncancelled(async move { shared.create(&who, at.as_str(), &options).await }).await;
        created.map_err(|error| error.at("create", path))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let (shared, who, at) = (Arc::clone(&self.shared), who.clone(), path.clone());
        let opened = uncancelled(async move { shared.append(&who, at.as_str()).await }).await;
        opened.map_err(|error| error.at("append", path))
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        self.shared.truncate(who, path.as_str(), length).await.map_err(|error| error.at("truncate", path))
    }

    async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        self.shared.concat(who, target, sources).await.map_err(|error| error.at("concat", target))
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        let renamed = match () {
            () if from.is_root() => fail(ErrorKind::InvalidArgument, "the root can't be renamed"),
            () if to.is_root() => fail(ErrorKind::AlreadyExists, "the root always exists"),
            () if from != to && from.contains(to) => Err(arguments::into_itself()),
            () => self.shared.rename(who, from.as_str(), to.as_str(), replace).await,
        };
        renamed.map_err(|error| error.at("rename", from))
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        let removed = match path.is_root() {
            true => fail(ErrorKind::InvalidArgument, "the root can't be removed"),
            false => self.shared.remove(who, path.as_str(), recursive).await,
        };
        removed.map_err(|error| error.at("remove", path))
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        let made = self.shared.mkdirs(who, path.as_str(), permission).await;
        made.map_err(|error| error.at("mkdirs", path))
    }

    async fn set_attributes(&self, who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        let outcome = self.shared.set_attributes(who, path.as_str(), set).await;
        outcome.map_err(|error| error.at("set attributes of", path))
    }

    async fn block_locations(
        &self,
        who: &Principal,
        path: &StorePath,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        let located = query(self.shared.block_locations(who, path.as_str(), range)).await;
        located.map_err(|error| error.at("locate", path))
    }

    async fn checksum(&self, who: &Principal, path: &StorePath) -> Result<Checksum> {
        let checksum = async {
            self.shared.require_own_calls()?;
            checksum::of_file(&self.shared, &who.user, path.as_str()).await
        };
        query(checksum).await.map_err(|error| error.at("checksum", path))
    }

    async fn status(&self, who: &Principal) -> Result<StoreStatus> {
        let status = async {
            self.shared.require_own_calls()?;
            let namenode = &self.shared.namenode;
            let stats = namenode.statistics(&who.user).await?;
            Ok(StoreStatus {
                capacity: stats.capacity,
                used: stats.used,
                remaining: stats.remaining,
                settling: namenode.is_in_safe_mode(&who.user).await?,
            })
        };
        query(status).await.map_err(|error: Error| error.at("status", "/"))
    }
}
