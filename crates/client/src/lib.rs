//! The store behind a gateway, over the Thrift interface: `strait://host:port/`.
//!
//! [`StraitStore`] is a [`FileSystem`]. [`stream`] has its files as streams of tokio, and [`blocking`] as streams
//! of the standard library.
//!
//! ```text
//!   blocking ── stream ── a program's files
//!   StraitStore, Reader, Writer ── operations
//!   Session ── identity: login, token, reconnect, repetition
//!   Lanes ── connections of the session, as many as are needed at once
//!   Connection ── calls pipelined on one TCP connection
//!   ReadAhead ── a long read by one thread, on an OwnConnection beside the lanes
//! ```
//!
//! The store performs every caller's operations as the session's user. After a broken connection it resumes
//! the session by its token. Then it repeats reads, and also mutations: a repeated mutation keeps its request
//! id, by which the gateway recognises a mutation that it has executed. If the store can't find out the
//! outcome of a mutation, it returns `OutcomeUnknown`.

mod ahead;
mod attached;
pub mod blocking;
mod connection;
mod convert;
mod lanes;
mod outage;
mod own;
pub mod reach;
mod reader;
mod renewal;
mod session;
mod socket;
pub mod stream;
mod tls;
mod writer;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use lanes::Turn;
use reader::Reader;
use session::{Session, Subject, time_left_ms};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
pub use strait_store::{
    BlockLocation, Capabilities, Checksum, CreateOptions, Error, ErrorKind, FileReader, FileStatus,
    FileSystem, FileWriter, Principal, Result, SetAttributes, StorePath, StoreStatus,
};
pub use strait_wire::Secret;
use strait_wire::{
    AppendFileRequest, ConcatFilesRequest, CreateFileRequest, GetBlockLocationsRequest, GetChecksumRequest,
    GetFileInfoRequest, GetStoreStatusRequest, ListDirectoryArgs, ListDirectoryReply, ListDirectoryRequest,
    MakeDirectoriesRequest, RemovePathRequest, RenamePathRequest, ServerInfoRequest, SetAttributesRequest,
    Timed, TruncateFileRequest, methods,
};
pub use tls::TlsOptions;
use writer::Writer;

/// Options of a login.
#[derive(Clone, Default)]
pub struct Options {
    /// Name or URI of a store that the gateway serves; none: its default.
    pub store: Option<String>,
    /// User to log in as; none: anonymous, if the gateway allows that.
    pub user: Option<String>,
    /// The user's password, called only if no token is valid.
    pub password: Option<PasswordSource>,
    /// Send the password beside the token, so that the gateway refuses a wrong one even if the
    /// token is valid. For passwords that need no prompt.
    pub always_send_password: bool,
    /// Token of an earlier login, tried first.
    pub token: Option<Secret>,
    /// Gets each new token from a gateway, to keep it for later.
    pub on_token: Option<TokenSink>,
    /// Use TLS. Without it, logins work only with a gateway on this host.
    pub tls: Option<TlsOptions>,
    /// Time limit for reaching the gateway, for a login, and for each due reply; none:
    /// [`DEFAULT_TIMEOUT`].
    pub timeout: Option<Duration>,
    /// Time limit for each operation as a whole: connecting, a login, all attempts, and work that grows with
    /// the data, such as the removal of a tree. An operation is a call of [`FileSystem`], [`FileReader`] or
    /// [`FileWriter`], and for a listing each page. The gateway learns the remaining time, and stops a query
    /// that exceeds it. None: only [`Options::timeout`] bounds each wait.
    pub operation_timeout: Option<Duration>,
}

/// Longer than a gateway itself waits for a lost node of its store: 70 s over HDFS, 45 s over Kadoop.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(90);

/// Supplies a password.
pub type PasswordSource = Arc<dyn Fn() -> Result<Secret> + Send + Sync>;

/// Receives tokens.
pub type TokenSink = Arc<dyn Fn(&Token) + Send + Sync>;

/// A token that represents a login until it expires.
#[derive(Debug, Clone)]
pub struct Token {
    /// The secret text.
    pub token: Secret,
    /// Milliseconds since 1970-01-01 UTC.
    pub expires_ms: i64,
    /// The user who logged in.
    pub user: Option<String>,
}

/// A store behind another gateway.
pub struct StraitStore {
    session: Arc<Session>,
    capabilities: Capabilities,
}

impl StraitStore {
    /// Connects to the gateway at `address`, `host:port`, and logs in.
    ///
    /// # Errors
    /// Unavailable if there is no gateway, Unauthenticated if it rejects the login, NotFound if it
    /// has no such store.
    pub async fn connect(address: &str, options: Options) -> Result<Self> {
        let session = Session::open(address.to_owned(), options).await?;
        let capabilities = session.attached(Turn::Beside).await?.capabilities;
        Ok(Self { session, capabilities })
    }

    /// Lends the login: returns a token for other programs, which expires after `lifetime` at the latest.
    /// Only this session can prolong it: pass the earlier token as `lent`.
    ///
    /// # Errors
    /// InvalidArgument: this session has no login. Unsupported: the gateway is too old.
    pub async fn lend(&self, lifetime: Duration, lent: Option<&Secret>) -> Result<Token> {
        self.session.lend(lifetime, lent).await
    }

    /// Revokes a lent login: the gateway ends its session, and no longer accepts its token.
    ///
    /// # Errors
    /// The gateway can't be reached, or the token has expired already.
    pub async fn take_back(&self, token: &Secret) -> Result<()> {
        self.session.take_back(token).await
    }

    /// Uses this token to resume the session from now on: for a lent token that was prolonged.
    pub fn replace_token(&self, token: Secret) {
        self.session.replace_token(token);
    }

    /// Ends the session on the gateway now instead of when it idles out. Don't use it on a session
    /// whose token others use too.
    ///
    /// # Errors
    /// Files that were still open couldn't be closed.
    pub async fn close(&self) -> Result<()> {
        self.session.close().await
    }
}

fn subject<'a>(operation: &'static str, path: &'a StorePath) -> Subject<'a> {
    Subject { operation, path: path.as_str() }
}

fn text(path: &StorePath) -> Option<String> {
    Some(path.as_str().to_owned())
}

/// Adds operation and path to errors that arise on our side.
fn named<T>(result: Result<T>, what: Subject<'_>) -> Result<T> {
    result.map_err(|error| error.at(what.operation, what.path))
}

#[async_trait]
impl FileSystem for StraitStore {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn stat(&self, _who: &Principal, path: &StorePath) -> Result<FileStatus> {
        let what = subject("stat", path);
        let request = GetFileInfoRequest { path: text(path), ..Default::default() };
        let reply = self.session.ask::<methods::GetFileInfo>(what, 0, || request.clone().into()).await?;
        named(convert::present(reply.info, "info").and_then(convert::status), what)
    }

    fn list(&self, _who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        let session = self.session.clone();
        let listing =
            Listing { incarnation: session.incarnation(), session, path: path.clone(), cursor: None };
        let pages = futures::stream::try_unfold(Some(listing), |listing| async move {
            let Some(mut listing) = listing else { return Ok(None) };
            let entries = listing.next_page().await?;
            let rest = listing.cursor.is_some().then_some(listing);
            Ok(Some((entries, rest)))
        });
        let path = path.clone();
        let entries = pages.map(move |page| match page {
            Ok(entries) => entries.into_iter().map(|entry| entry_of(&path, entry)).collect(),
            Err(error) => vec![Err(error)],
        });
        entries.flat_map(futures::stream::iter).boxed()
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let reader = Reader::open(self.session.clone(), &who.user, path).await;
        Ok(Box::new(named(reader, subject("open", path))?))
    }

    async fn create(
        &self,
        _who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let what = subject("create", path);
        let request = CreateFileRequest {
            path: text(path),
            overwrite: Some(options.overwrite),
            permission: named(convert::permission_out(options.permission), what)?,
            replication: named(convert::replication_out(options.replication), what)?,
            min_replicas: named(convert::replication_out(options.min_replicas), what)?,
            block_size: named(options.block_size.map(convert::signed).transpose(), what)?,
            ..Default::default()
        };
        let incarnation = self.session.incarnation();
        let opened = self.session.change::<methods::CreateFile>(what, |mutation| {
            let (request_id, is_retry) = (mutation.id(), mutation.is_retry());
            CreateFileRequest { request_id, is_retry, ..request.clone() }.into()
        });
        let opened = opened.await?;
        Ok(Box::new(named(Writer::new(self.session.clone(), path, incarnation, opened), what)?))
    }

    async fn append(&self, _who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let what = subject("append", path);
        let incarnation = self.session.incarnation();
        let opened = self.session.change::<methods::AppendFile>(what, |mutation| {
            let (request_id, is_retry) = (mutation.id(), mutation.is_retry());
            AppendFileRequest { request_id, is_retry, path: text(path), ..Default::default() }.into()
        });
        let opened = opened.await?;
        Ok(Box::new(named(Writer::new(self.session.clone(), path, incarnation, opened), what)?))
    }

    async fn truncate(&self, _who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        let what = subject("truncate", path);
        let length = Some(named(convert::signed(length), what)?);
        let done = self.session.change::<methods::TruncateFile>(what, |mutation| {
            let (request_id, is_retry) = (mutation.id(), mutation.is_retry());
            TruncateFileRequest { request_id, is_retry, path: text(path), length, ..Default::default() }
                .into()
        });
        done.await.map(drop)
    }

    async fn concat(&self, _who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        let sources: Vec<String> = sources.iter().map(|source| source.as_str().to_owned()).collect();
        let done = self.session.change::<methods::ConcatFiles>(subject("concat", target), |mutation| {
            let (request_id, is_retry, path) = (mutation.id(), mutation.is_retry(), text(target));
            let sources = Some(sources.clone());
            ConcatFilesRequest { request_id, is_retry, path, sources, ..Default::default() }.into()
        });
        done.await.map(drop)
    }

    async fn rename(&self, _who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        let done = self.session.change::<methods::RenamePath>(subject("rename", from), |mutation| {
            let request = RenamePathRequest {
                request_id: mutation.id(),
                is_retry: mutation.is_retry(),
                source: text(from),
                target: text(to),
                replace: Some(replace),
                ..Default::default()
            };
            request.into()
        });
        done.await.map(drop)
    }

    async fn remove(&self, _who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        let done = self.session.change::<methods::RemovePath>(subject("remove", path), |mutation| {
            let (request_id, is_retry) = (mutation.id(), mutation.is_retry());
            let recursive = Some(recursive);
            RemovePathRequest { request_id, is_retry, path: text(path), recursive, ..Default::default() }
                .into()
        });
        done.await.map(drop)
    }

    async fn mkdirs(&self, _who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        let what = subject("mkdirs", path);
        let permission = named(convert::permission_out(permission), what)?;
        let done = self.session.change::<methods::MakeDirectories>(what, |mutation| {
            let (request_id, is_retry) = (mutation.id(), mutation.is_retry());
            MakeDirectoriesRequest {
                request_id,
                is_retry,
                path: text(path),
                permission,
                ..Default::default()
            }
            .into()
        });
        done.await.map(drop)
    }

    async fn set_attributes(&self, _who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        let what = subject("set attributes of", path);
        let request = SetAttributesRequest {
            path: text(path),
            permission: named(convert::permission_out(set.permission), what)?,
            owner: set.owner.clone(),
            group: set.group.clone(),
            modified_ms: set.modified_ms,
            accessed_ms: set.accessed_ms,
            replication: named(convert::replication_out(set.replication), what)?,
            ..Default::default()
        };
        let done = self.session.change::<methods::SetAttributes>(what, |mutation| {
            let (request_id, is_retry) = (mutation.id(), mutation.is_retry());
            SetAttributesRequest { request_id, is_retry, ..request.clone() }.into()
        });
        done.await.map(drop)
    }

    async fn block_locations(
        &self,
        _who: &Principal,
        path: &StorePath,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        let what = subject("locate", path);
        let request = GetBlockLocationsRequest {
            path: text(path),
            offset: Some(named(convert::signed(range.start), what)?),
            // No file exceeds Thrift's largest number, so this means: to the end.
            length: i64::try_from(range.end.saturating_sub(range.start)).ok(),
            ..Default::default()
        };
        let asked = self.session.ask::<methods::GetBlockLocations>(what, 0, || request.clone().into());
        let blocks = named(convert::present(asked.await?.blocks, "blocks"), what)?;
        blocks.into_iter().map(|block| named(convert::block(block), what)).collect()
    }

    async fn checksum(&self, _who: &Principal, path: &StorePath) -> Result<Checksum> {
        let what = subject("checksum", path);
        let request = GetChecksumRequest { path: text(path), ..Default::default() };
        let reply = self.session.ask::<methods::GetChecksum>(what, 0, || request.clone().into()).await?;
        Ok(Checksum {
            algorithm: named(convert::present(reply.algorithm, "algorithm"), what)?,
            value: named(convert::present(reply.value, "value"), what)?.to_vec(),
        })
    }

    async fn status(&self, _who: &Principal) -> Result<StoreStatus> {
        let root = StorePath::root();
        let what = subject("status", &root);
        let asked =
            self.session.ask::<methods::GetStoreStatus>(what, 0, || GetStoreStatusRequest::default().into());
        let reply = asked.await?;
        Ok(StoreStatus {
            capacity: named(convert::unsigned(reply.capacity, "capacity"), what)?,
            used: named(convert::unsigned(reply.used, "used"), what)?,
            remaining: named(convert::unsigned(reply.remaining, "remaining"), what)?,
            // Gateways of earlier versions don't have this field.
            settling: reply.settling.unwrap_or(false),
        })
    }

    async fn about(&self) -> Result<Option<String>> {
        let root = StorePath::root();
        let what = subject("ask for the version of", &root);
        let asked = self.session.ask::<methods::ServerInfo>(what, 0, || ServerInfoRequest::default().into());
        Ok(asked.await?.server)
    }
}

/// An entry of a listing of `path`. A gateway that is broken or hostile could name files of other directories, which a
/// recursive copy would write outside of its target, or a directory beneath itself.
fn entry_of(path: &StorePath, entry: strait_wire::FileInfo) -> Result<FileStatus> {
    let status = convert::status(entry).map_err(|error| error.at("list", path))?;
    let directory = if path.is_root() { "" } else { path.as_str() };
    let name = status.path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
    let is_name = |name: &str| !["", ".", ".."].contains(&name) && !name.contains(['/', '\0']);
    // A file is listed as itself.
    if name.is_some_and(is_name) || status.path == path.as_str() && !status.is_directory() {
        return Ok(status);
    }
    let message = format!("{:?}, which isn't in this directory", status.path);
    Err(convert::nonsense(&message).at("list", path))
}

/// A directory's listing in progress, page by page.
struct Listing {
    session: Arc<Session>,
    path: StorePath,
    cursor: Option<i64>,
    /// The session's incarnation before the listing began.
    incarnation: i64,
}

impl Listing {
    async fn next_page(&mut self) -> Result<Vec<strait_wire::FileInfo>> {
        let what = subject("list", &self.path);
        let request = |cursor| ListDirectoryRequest { path: text(&self.path), cursor, ..Default::default() };
        let reply: ListDirectoryReply = match self.cursor.take() {
            None => self.session.ask::<methods::ListDirectory>(what, 0, || request(None).into()).await?,
            // A cursor is good for one page. If a page was lost, its cursor can't be used again.
            Some(cursor) => {
                let deadline = self.session.deadline();
                let page = async {
                    let attached = self.session.attached(Turn::InOrder).await?;
                    let mut request: ListDirectoryArgs = request(Some(cursor)).into();
                    request.set_deadline_ms(time_left_ms(deadline));
                    let answered = attached.connection.call::<methods::ListDirectory>(&request, 0).await;
                    let reply = answered.map_err(|broken| self.session.lost(&broken, what))?;
                    session::outcome::<methods::ListDirectory>(reply, what).map_err(|e| self.ended(e))
                };
                self.session.by(deadline, what, page).await??
            }
        };
        self.cursor = reply.cursor;
        let entries = reply.entries.unwrap_or_default();
        if entries.is_empty() && self.cursor.is_some() {
            return Err(convert::nonsense("an empty page that isn't the last").at(what.operation, what.path));
        }
        Ok(entries)
    }

    /// If a new session has replaced the old one, the gateway doesn't know the cursor. That isn't the
    /// caller's mistake, so the error becomes Unavailable.
    fn ended(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::InvalidArgument || self.session.incarnation() == self.incarnation {
            return error;
        }
        let message = "the gateway's session ended in the middle of the listing; list anew";
        Error::new(ErrorKind::Unavailable, message).at("list", &self.path).caused_by(error)
    }
}

impl Drop for Listing {
    /// Closes a listing that isn't read to its end.
    fn drop(&mut self) {
        if let Some(cursor) = self.cursor {
            self.session.release(cursor);
        }
    }
}

/// Compiles the code of the crate's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Page;
