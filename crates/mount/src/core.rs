//! The mount without FUSE: answers requests about paths, attributes and open files.

mod directories;
mod files;
mod handing;
mod renaming;
mod repeats;
#[cfg(test)]
mod tests;

use crate::claims::Claims;
use crate::fault::{Answer, Fault};
use crate::handover::User;
use crate::identity::Identity;
use crate::ledger::{Counter, Ledger, Mounted, Note, OpenFile};
use crate::listing::Listing;
use crate::logical::{Logical, State};
use crate::nodes::Nodes;
use crate::patience::Patience;
use crate::plain::{Access, Level, Place, Plain, Unclosed, Writing};
use crate::recall::Past;
use crate::times::{milliseconds, time};
use glob::Pattern;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use strait_plfs::Container;
use strait_store::budget::Pool;
use strait_store::names::{Names, group_name, user_name};
use strait_store::random::random;
use strait_store::{
    ErrorKind, FileStatus, FileSystem, FileType, MAX_NAME_BYTES, Principal, SessionSecret, StorePath,
    StoreStatus, encoding, fail,
};
use tokio::sync::OwnedMutexGuard;

/// errno(3) values for errors that no [`ErrorKind`] describes.
const EBADF: i32 = 9;
const EEXIST: i32 = 17;
const EXDEV: i32 = 18;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENFILE: i32 = 23;
const ENAMETOOLONG: i32 = 36;
const EPERM: i32 = 1;
const EACCES: i32 = 13;
/// After ESTALE, the kernel looks up the name again, and opens the file that it finds.
const ESTALE: i32 = 116;

/// open(2)'s flags.
const O_ACCMODE: i32 = 3;
const O_RDONLY: i32 = 0;
const O_WRONLY: i32 = 1;
const O_EXCL: i32 = 0o200;
const O_TRUNC: i32 = 0o1000;
const O_APPEND: i32 = 0o2000;

/// Largest number of open files and listings. A file that is being written takes up to 1 MiB of memory, and
/// more only from [`WRITE_MEMORY`]. A store's own limits are usually lower.
const MOST_HANDLES: usize = 65_536;
/// Memory for the written bytes of all files. A file that gets none of it is flushed at each write.
const WRITE_MEMORY: u64 = 256 << 20;
/// Prefix of the names that removed files have until they are closed.
const HIDDEN: &str = ".strait-removed-";
/// Prefix of the names that replaced files have until another file has their old name.
const ASIDE: &str = ".strait-removed-a";

/// A mount's behaviour.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The user that the mount acts as.
    pub identity: Identity,
    /// How long operations wait for an unreachable store.
    pub patience: Patience,
    /// How long the kernel may cache names and attributes.
    pub lifetime: Duration,
    /// Patterns of names of files that are stored as PLFS containers.
    pub logical: Vec<Pattern>,
    /// Refuse changes.
    pub read_only: bool,
}

/// The calling process's user and group, and its request.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
    /// The request's number. The kernel uses a number twice only if it resends the request. 0 if it is
    /// unknown.
    pub request: u64,
}

/// Attributes of a node.
#[derive(Debug, Clone)]
pub struct Attributes {
    /// The node's number.
    pub node: u64,
    /// The store's status of it.
    pub status: FileStatus,
    /// Owner on this host.
    pub uid: u32,
    /// Group on this host.
    pub gid: u32,
    /// Time of the last change of the attributes (ctime).
    pub changed: SystemTime,
    /// The node still has a name.
    pub linked: bool,
}

/// A change of attributes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length.
    pub size: Option<u64>,
    /// Access time.
    pub accessed: Option<SystemTime>,
    /// Modification time.
    pub modified: Option<SystemTime>,
}

/// How the kernel uses an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The handle.
    pub handle: u64,
    /// Reads and writes bypass the kernel's cache.
    pub direct: bool,
    /// The bytes in the kernel's cache are valid.
    pub cached: bool,
}

enum Body {
    Plain(Plain),
    Logical(Logical),
}

/// A file that is open here for one user.
struct File {
    body: Body,
    node: u64,
    who: Principal,
}

impl File {
    fn key(&self) -> FileKey {
        let container = match &self.body {
            Body::Plain(_) => None,
            Body::Logical(logical) => Some(logical.id()),
        };
        (self.node, self.who.user.clone(), container)
    }

    fn note(&self) -> &Note {
        match &self.body {
            Body::Plain(plain) => plain.note(),
            Body::Logical(logical) => logical.note(),
        }
    }

    fn record(&self) {
        let (who, logical) = (User::from(&self.who), matches!(self.body, Body::Logical(_)));
        self.note().open(&OpenFile { node: self.node, who, logical });
    }
}

/// Identifies an open file: its node, its user, and the container of a logical file. Another host may have
/// replaced the container of an open file.
type FileKey = (u64, Arc<str>, Option<[u8; 16]>);

/// The lock of an open file whose path changes.
enum Held {
    Plain(OwnedMutexGuard<Writing>, Arc<File>),
    Logical(OwnedMutexGuard<State>, u64),
}

#[derive(Clone)]
enum Handle {
    File { file: Arc<File>, writes: bool, appends: bool },
    Directory(Arc<tokio::sync::Mutex<Listing>>, u64),
}

/// The state that the keeper holds for the process that serves the mount. Empty without a keeper.
#[derive(Default)]
pub struct Kept {
    /// The record of this process's state.
    pub ledger: Arc<Ledger>,
    /// Requests that an earlier process had received.
    pub past: Past,
    /// Data that is the same in all processes of the mount.
    pub mounted: Option<Mounted>,
}

/// A mount, without FUSE.
pub struct Core {
    store: Arc<dyn FileSystem>,
    root: StorePath,
    settings: Settings,
    names: Names,
    nodes: Mutex<Nodes>,
    claims: Claims,
    /// Nodes of open files that this mount removed, and the users that removed them.
    hidden: Mutex<HashMap<u64, Principal>>,
    /// Hidden nodes whose files were already closed when the earlier process ended. Each counts as used until
    /// it is removed.
    left: Vec<u64>,
    /// Open files by node and user, with the number of their handles.
    files: Mutex<HashMap<FileKey, (Arc<File>, usize)>>,
    handles: Mutex<HashMap<u64, Handle>>,
    last_handle: AtomicU64,
    last_file: AtomicU64,
    memory: Arc<Pool>,
    ledger: Arc<Ledger>,
    /// Requests that an earlier process had received.
    past: Past,
    /// Makes the names of removed files unique.
    nonce: u64,
    /// The session in which files are written, so that the next process can continue to write them.
    session: Option<SessionSecret>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// A mount of `root` and everything beneath it.
    pub fn new(store: Arc<dyn FileSystem>, root: StorePath, settings: Settings, kept: Kept) -> Self {
        let Kept { ledger, past, mounted } = kept;
        let names = match &settings.identity {
            Identity::One(who) => Names::new(&who.user),
            Identity::Caller => Names::default(),
        };
        Self {
            nodes: Mutex::new(Nodes::new(root.clone(), ledger.clone())),
            store,
            root,
            settings,
            names,
            claims: Claims::default(),
            hidden: Mutex::default(),
            left: Vec::new(),
            files: Mutex::default(),
            handles: Mutex::default(),
            last_handle: AtomicU64::new(0),
            last_file: AtomicU64::new(ledger.last(Counter::File)),
            memory: Pool::new(WRITE_MEMORY),
            ledger,
            past,
            nonce: mounted.as_ref().map_or_else(|| u64::from_le_bytes(random()), |mounted| mounted.nonce),
            session: mounted.map(|mounted| mounted.session()),
        }
    }

    /// How long the kernel may cache names and attributes.
    pub fn lifetime(&self) -> Duration {
        // If the mount acts for each caller, the store decides what a caller may see, so nothing is cached.
        match self.settings.identity {
            Identity::One(_) => self.settings.lifetime,
            Identity::Caller => Duration::ZERO,
        }
    }

    fn who(&self, caller: Caller) -> Principal {
        self.in_session(match &self.settings.identity {
            Identity::One(who) => who.clone(),
            Identity::Caller => self.names.principal(caller.uid, caller.gid),
        })
    }

    fn in_session(&self, who: Principal) -> Principal {
        Principal { session: who.session.or(self.session), ..who }
    }

    fn path(&self, node: u64) -> Answer<StorePath> {
        match lock(&self.nodes).path(node) {
            Some(path) => Ok(path?),
            None => Err(Fault(ErrorKind::NotFound.row().errno)),
        }
    }

    /// Returns the current path of a file's node at each call.
    fn place(&self, node: u64) -> impl Place + '_ {
        move || match lock(&self.nodes).path(node) {
            Some(path) => path,
            None => fail(ErrorKind::NotFound, "the open file has no name any more"),
        }
    }

    fn entry(&self, parent: u64, name: &str) -> Answer<StorePath> {
        self.path(parent)?.join(name).map_err(|_| Fault(ENAMETOOLONG))
    }

    /// Whether files with this path are stored as PLFS containers.
    fn is_logical_name(&self, path: &StorePath) -> bool {
        let below = path.as_str().strip_prefix(self.root.as_str()).unwrap_or(path.as_str());
        let below = below.trim_start_matches('/');
        self.settings.logical.iter().any(|pattern| match pattern.as_str().contains('/') {
            true => pattern.matches(below),
            false => pattern.matches(path.name()),
        })
    }

    /// Whether this path can be a container's. The hidden name of a removed file doesn't match the pattern.
    fn may_be_logical(&self, path: &StorePath) -> bool {
        path.name().starts_with(HIDDEN) || self.is_logical_name(path)
    }

    /// The container at a directory's path, if it is one.
    async fn container(&self, who: &Principal, path: &StorePath) -> Answer<Option<Container>> {
        if !self.may_be_logical(path) {
            return Ok(None);
        }
        let open = || Container::open(self.store.clone(), who, path);
        match self.settings.patience.with(open).await {
            Ok(container) => Ok(Some(container)),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The store's status of a path. For a container, it is the logical file's status.
    async fn status(&self, who: &Principal, path: &StorePath) -> Answer<(FileStatus, Option<Container>)> {
        let status = self.settings.patience.with(|| self.store.stat(who, path)).await?;
        self.seen(who, path, status).await
    }

    async fn seen(
        &self,
        who: &Principal,
        path: &StorePath,
        status: FileStatus,
    ) -> Answer<(FileStatus, Option<Container>)> {
        if !status.is_directory() {
            return Ok((status, None));
        }
        match self.container(who, path).await? {
            None => Ok((status, None)),
            Some(container) => Ok((self.logical_status(who, &container).await?, Some(container))),
        }
    }

    /// As [`Core::status`], but without a logical file's length, which would need its index.
    async fn status_to_open(
        &self,
        who: &Principal,
        path: &StorePath,
    ) -> Answer<(FileStatus, Option<Container>)> {
        let status = self.settings.patience.with(|| self.store.stat(who, path)).await?;
        let container = if status.is_directory() { self.container(who, path).await? } else { None };
        match container {
            None => Ok((status, None)),
            Some(container) => Ok((self.marked_status(who, path, 0).await?, Some(container))),
        }
    }

    /// The owner and permission come from the container's mark. The modification time comes from the
    /// directory of epochs, which each publication changes. On some stores, the first publication makes it.
    async fn logical_status(&self, who: &Principal, container: &Container) -> Answer<FileStatus> {
        let length = self.settings.patience.with(|| container.length()).await?;
        self.marked_status(who, container.path(), length).await
    }

    async fn marked_status(&self, who: &Principal, path: &StorePath, length: u64) -> Answer<FileStatus> {
        let (mark, epochs) = (path.join(".plfs")?, path.join("epochs")?);
        let patience = self.settings.patience;
        let epochs = async {
            match patience.with(|| self.store.stat(who, &epochs)).await {
                Ok(epochs) => Ok(Some(epochs)),
                Err(fault) if fault.kind() == ErrorKind::NotFound => Ok(None),
                Err(fault) => Err(fault),
            }
        };
        let (mark, epochs) = futures::try_join!(patience.with(|| self.store.stat(who, &mark)), epochs)?;
        // Directories of object stores have no times.
        let times = epochs.filter(|epochs| epochs.modified_ms > 0);
        let (modified_ms, accessed_ms) = times
            .map_or((mark.modified_ms, mark.accessed_ms), |epochs| (epochs.modified_ms, epochs.accessed_ms));
        Ok(FileStatus { path: path.as_str().to_owned(), length, modified_ms, accessed_ms, ..mark })
    }

    /// The node's open files, in the order of their opening.
    fn open_files(&self, node: u64) -> Vec<Arc<File>> {
        let files = lock(&self.files);
        let of_node = files.values().map(|(file, _)| file).filter(|file| file.node == node);
        let mut of_node: Vec<Arc<File>> = of_node.cloned().collect();
        of_node.sort_unstable_by_key(|file| file.note().number());
        of_node
    }

    /// Attributes of a node.
    async fn attributes(&self, node: u64, mut status: FileStatus) -> Attributes {
        let mut longest = None;
        for file in self.open_files(node) {
            if let Body::Logical(logical) = &file.body {
                longest = longest.max(logical.length().await.ok());
            }
        }
        status.length = longest.unwrap_or(status.length);
        let changed = lock(&self.nodes).changed(node);
        let modified = time(status.modified_ms);
        Attributes {
            node,
            uid: self.names.uid(&status.owner),
            gid: self.names.gid(&status.group),
            changed: changed.map_or(modified, |changed| changed.max(modified)),
            linked: !lock(&self.hidden).contains_key(&node),
            status,
        }
    }

    /// Finds a directory's entry.
    pub async fn lookup(&self, caller: Caller, parent: u64, name: &OsStr) -> Answer<Attributes> {
        let (who, name) = (self.who(caller), encoded(name)?);
        let status = loop {
            let directory = self.path(parent)?;
            let path = self.entry(parent, &name)?;
            let known = lock(&self.nodes).find(parent, &name);
            match self.settled_status(&who, &path, known).await {
                Err(fault) if fault.is(ErrorKind::NotFound) && self.has_moved(parent, &directory).await => {}
                status => break status?,
            }
        };
        let node = lock(&self.nodes).looked_up(parent, &name);
        Ok(self.attributes(node, status).await)
    }

    /// Drops references of the kernel to a node.
    pub fn forget(&self, node: u64, times: u64) {
        lock(&self.nodes).forget(node, times);
    }

    /// A node's attributes.
    pub async fn getattr(&self, caller: Caller, node: u64) -> Answer<Attributes> {
        let who = self.who(caller);
        loop {
            let path = self.path(node)?;
            let status = async {
                // The kernel asks at each read, unless it may use cached attributes.
                match self.open_status(&who, &path, node).await? {
                    Some(status) => Ok(status),
                    None => self.settled_status(&who, &path, Some(node)).await,
                }
            };
            match status.await {
                Err(fault) if fault.is(ErrorKind::NotFound) && self.has_moved(node, &path).await => {}
                status => return Ok(self.attributes(node, status?).await),
            }
        }
    }

    /// The store's status of a path, with the bytes written here. While a file is being written, the store's
    /// status may be out of date. If a writer closes during the request, as for a child that inherited the
    /// file, the status is read again.
    async fn settled_status(
        &self,
        who: &Principal,
        path: &StorePath,
        node: Option<u64>,
    ) -> Answer<FileStatus> {
        let mut before = self.unclosed(node).await;
        loop {
            let (mut status, _) = self.status(who, path).await?;
            let now = self.unclosed(node).await;
            if before.iter().all(|earlier| now.iter().any(|file| file.is_still(earlier))) {
                for file in now {
                    status.length = file.length;
                    status.modified_ms = file.written_ms.max(status.modified_ms);
                }
                return Ok(status);
            }
            before = now;
        }
    }

    /// The status of a logical file that is open here. The open file knows its length, so this doesn't read
    /// the index. `None` if it isn't such a file, or if another file has its path.
    async fn open_status(&self, who: &Principal, path: &StorePath, node: u64) -> Answer<Option<FileStatus>> {
        let files = self.open_files(node);
        let Some(Body::Logical(logical)) = files.last().map(|file| &file.body) else { return Ok(None) };
        let status = async { self.marked_status(who, path, logical.length().await?).await };
        let gone = [ErrorKind::NotFound, ErrorKind::NotADirectory].map(|kind| Fault(kind.row().errno));
        match status.await {
            Err(fault) if gone.contains(&fault) => Ok(None),
            status => status.map(Some),
        }
    }

    /// The node's files that have bytes of an unclosed writer.
    async fn unclosed(&self, node: Option<u64>) -> Vec<Unclosed> {
        let mut unclosed = Vec::new();
        for file in node.map_or_else(Vec::new, |node| self.open_files(node)) {
            if let Body::Plain(plain) = &file.body {
                unclosed.extend(plain.unclosed().await);
            }
        }
        unclosed
    }

    fn check_writable(&self) -> Answer<()> {
        // EROFS (30) has no ErrorKind. The kernel refuses most changes itself.
        if self.settings.read_only { Err(Fault(30)) } else { Ok(()) }
    }

    /// Changes a node's attributes.
    pub async fn setattr(
        &self,
        caller: Caller,
        node: u64,
        handle: Option<u64>,
        change: Change,
    ) -> Answer<Attributes> {
        self.check_writable()?;
        let stays = self.stay(node).await;
        let (who, path) = (self.who(caller), self.path(node)?);
        if let Some(size) = change.size {
            self.truncate(&who, node, handle, &path, size).await?;
        }
        let (before, container) = self.status(&who, &path).await?;
        let mut set = strait_store::SetAttributes {
            permission: change.mode.map(|mode| mode & 0o7777),
            owner: change.uid.map(user_name),
            group: change.gid.map(group_name),
            modified_ms: change.modified.map(milliseconds),
            accessed_ms: change.accessed.map(milliseconds),
            replication: None,
        };
        // If an attribute has the wanted value already, don't set it: the store may not support that.
        set.permission = set.permission.filter(|bits| *bits != before.permission);
        set.owner = set.owner.filter(|_| change.uid != Some(self.names.uid(&before.owner)));
        set.group = set.group.filter(|_| change.gid != Some(self.names.gid(&before.group)));
        if set != strait_store::SetAttributes::default() {
            // Close the writer first: its close would set the time again.
            if set.modified_ms.is_some() {
                self.settle(node, Level::Closed).await?;
            }
            match container {
                None => {
                    let apply = || self.store.set_attributes(&who, &path, &set);
                    self.settings.patience.with(apply).await?;
                }
                Some(_) => self.set_logical(&who, &path, &set).await?,
            }
        }
        lock(&self.nodes).change(node);
        drop(stays);
        self.getattr(caller, node).await
    }

    /// Sets attributes of everything in a container.
    async fn set_logical(
        &self,
        who: &Principal,
        path: &StorePath,
        set: &strait_store::SetAttributes,
    ) -> Answer<()> {
        use strait_store::{FileSystemExt, SetAttributes};
        let times = SetAttributes {
            modified_ms: set.modified_ms,
            accessed_ms: set.accessed_ms,
            ..SetAttributes::default()
        };
        let rights = SetAttributes { modified_ms: None, accessed_ms: None, ..set.clone() };
        if rights != SetAttributes::default() {
            let search = rights.permission.map(|bits| bits | (bits & 0o444) >> 2);
            let of_directories = SetAttributes { permission: search, ..rights.clone() };
            for name in ["logs", "open", "epochs", "merged"] {
                let directory = path.join(name)?;
                if !self.store.exists(who, &directory).await? {
                    continue;
                }
                for entry in self.store.list_all(who, &directory, MOST_HANDLES).await? {
                    self.store.set_attributes(who, &StorePath::parse(&entry.path)?, &rights).await?;
                }
                self.store.set_attributes(who, &directory, &of_directories).await?;
            }
            self.store.set_attributes(who, &path.join(".plfs")?, &rights).await?;
            self.store.set_attributes(who, path, &of_directories).await?;
        }
        if times != SetAttributes::default() {
            match self.store.set_attributes(who, &path.join("epochs")?, &times).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self.store.set_attributes(who, &path.join(".plfs")?, &times).await?;
                }
                set => set?,
            }
        }
        Ok(())
    }

    async fn truncate(
        &self,
        who: &Principal,
        node: u64,
        handle: Option<u64>,
        path: &StorePath,
        size: u64,
    ) -> Answer<()> {
        lock(&self.nodes).forget_version(node);
        let open = match handle {
            Some(handle) => Some(self.file(handle)?.0),
            None => self.open_files(node).into_iter().rfind(|file| file.who.user == who.user),
        };
        let file = match open {
            Some(file) => file,
            None => {
                let (status, container) = self.status(who, path).await?;
                if status.is_directory() {
                    return Err(Fault(EISDIR));
                }
                Arc::new(self.new_file(node, who, container).await)
            }
        };
        match &file.body {
            Body::Plain(plain) => plain.truncate(self.place(node), size).await?,
            Body::Logical(logical) => {
                logical.truncate(size).await?;
                self.refresh_others(&file).await;
            }
        }
        // A program that names the path has no descriptor whose close could report a failure.
        if handle.is_none() {
            self.settle_file(&file, Level::Closed).await?;
        }
        Ok(())
    }

    async fn new_file(&self, node: u64, who: &Principal, container: Option<Container>) -> File {
        let body = match container {
            None => Body::Plain(Plain::open(self.access(who))),
            Some(container) => Body::Logical(Logical::new(self.access(who), container)),
        };
        File { body, node, who: who.clone() }
    }

    /// The access for a file that is about to be opened.
    fn access(&self, who: &Principal) -> Access {
        let number = self.last_file.fetch_add(1, Ordering::Relaxed) + 1;
        self.ledger.gives(Counter::File, number);
        self.access_of(who, number)
    }

    fn access_of(&self, who: &Principal, number: u64) -> Access {
        Access {
            note: Note::new(self.ledger.clone(), number),
            store: self.store.clone(),
            capabilities: self.store.capabilities(),
            who: who.clone(),
            patience: self.settings.patience,
            memory: self.memory.clone(),
        }
    }

    /// Makes the bytes that a file published visible to other users' open files of the same node.
    async fn refresh_others(&self, published: &File) {
        for file in self.open_files(published.node) {
            if let Body::Logical(logical) = &file.body
                && file.note().number() != published.note().number()
            {
                logical.refresh().await;
            }
        }
    }

    async fn settle_file(&self, file: &File, level: Level) -> Answer<()> {
        match &file.body {
            Body::Plain(plain) => {
                let settled = plain.settle(self.place(file.node), level).await;
                lock(&self.nodes).write(file.node);
                settled?;
            }
            Body::Logical(logical) => {
                let mut state = logical.lock().await;
                if level == Level::Closed {
                    state.close().await?
                } else {
                    state.sync().await?
                }
                drop(state);
                self.refresh_others(file).await;
            }
        }
        Ok(())
    }

    /// Brings a node's written bytes to `level`.
    async fn settle(&self, node: u64, level: Level) -> Answer<()> {
        for file in self.open_files(node) {
            self.settle_file(&file, level).await?;
        }
        Ok(())
    }

    /// Before the mount ends: closes all writers, and removes the hidden files that no program has open.
    /// Failures are logged.
    pub async fn settle_all(&self) {
        let files: Vec<Arc<File>> = lock(&self.files).values().map(|(file, _)| file.clone()).collect();
        for file in files {
            // The failure was logged when it was converted to an errno.
            let _ = self.settle_file(&file, Level::Closed).await;
        }
        let hidden: Vec<u64> = lock(&self.hidden).keys().copied().collect();
        for node in hidden {
            self.remove_hidden(node).await;
        }
    }

    /// Number of open files and listings.
    pub fn open_handles(&self) -> usize {
        lock(&self.handles).len()
    }

    /// Makes a directory.
    pub async fn mkdir(&self, caller: Caller, parent: u64, name: &OsStr, mode: u32) -> Answer<Attributes> {
        self.check_writable()?;
        let who = self.who(caller);
        let encoded = encoded(name)?;
        let changes = self.change(&[(parent, &encoded)]).await;
        let path = self.entry(parent, &encoded)?;
        match self.settings.patience.with(|| self.store.stat(&who, &path)).await {
            Ok(status) if status.is_directory() && self.is_again(caller) => {
                drop(changes);
                return self.lookup(caller, parent, name).await;
            }
            Ok(_) => return Err(Fault(EEXIST)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        self.begins(caller);
        let make = || self.store.mkdirs(&who, &path, Some(mode & 0o7777));
        self.settings.patience.with(make).await?;
        drop(changes);
        self.lookup(caller, parent, name).await
    }

    /// Checks the rights that access(2) asks for. The store decides about reading and writing at the read or
    /// write.
    pub async fn access_allowed(&self, caller: Caller, node: u64, mask: u32) -> Answer<()> {
        let attributes = self.getattr(caller, node).await?;
        let is_file = attributes.status.file_type == FileType::File;
        let no_program = mask & 1 != 0 && is_file && attributes.status.permission & 0o111 == 0;
        let who = self.who(caller);
        if no_program || self.is_surely_refused(&who, &attributes.status, mask & 7) {
            return Err(Fault(EACCES));
        }
        Ok(())
    }

    /// The store's capacity; `None` if the store doesn't report it.
    pub async fn statfs(&self, caller: Caller) -> Answer<Option<StoreStatus>> {
        if !self.store.capabilities().status {
            return Ok(None);
        }
        let who = self.who(caller);
        Ok(Some(self.settings.patience.with(|| self.store.status(&who)).await?))
    }
}

/// Encodes a name as stores have it.
fn encoded(name: &OsStr) -> Answer<String> {
    let name = encoding::encode(name.as_bytes()).into_owned();
    match encoding::decode(&name).is_none_or(|bytes| bytes.len() > MAX_NAME_BYTES) {
        true => Err(Fault(ENAMETOOLONG)),
        false => Ok(name),
    }
}

/// Decodes a name of the store to bytes.
fn decoded(name: &str) -> std::borrow::Cow<'_, [u8]> {
    encoding::decode(name).unwrap_or(std::borrow::Cow::Borrowed(name.as_bytes()))
}
