//! What the mount does for each request, without FUSE: paths, attributes, open files.

use crate::listing::Listing;
use crate::logical::{Logical, State};
use crate::names::{Names, group_name, user_name};
use crate::nodes::{Nodes, ROOT, Version};
use crate::patience::Patience;
use crate::plain::{Access, Level, Plain, Writing};
use bytes::Bytes;
use glob::Pattern;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strait_plfs::Container;
use strait_store::budget::Pool;
use strait_store::{
    CreateOptions, Error, ErrorKind, FileStatus, FileSystem, FileType, MAX_NAME_BYTES, Principal, StorePath,
    StoreStatus, encoding,
};
use tokio::sync::OwnedMutexGuard;

/// Errors without a kind of their own: errno(3).
const EIO: i32 = 5;
const EBADF: i32 = 9;
const EEXIST: i32 = 17;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENFILE: i32 = 23;
const ENAMETOOLONG: i32 = 36;
const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// open(2)'s flags.
const O_ACCMODE: i32 = 3;
const O_RDONLY: i32 = 0;
const O_WRONLY: i32 = 1;
const O_EXCL: i32 = 0o200;
const O_APPEND: i32 = 0o2000;

/// Open files and listings at most: each takes up to 17 MiB while it is written, and a store's own
/// limits come before that.
const MOST_HANDLES: usize = 65_536;
/// Memory for written bytes of all files; files beyond it are flushed at each write.
const WRITE_MEMORY: u64 = 256 << 20;
/// Begin of the names that removed files have until they are closed.
const HIDDEN: &str = ".strait-removed-";

/// An error for the calling program: its errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault(pub i32);

/// The outcome of a request.
pub type Answer<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::NotEmpty => {
                tracing::debug!(%error, "refused");
            }
            ErrorKind::Internal
            | ErrorKind::Corrupt
            | ErrorKind::OutcomeUnknown
            | ErrorKind::Unavailable
            | ErrorKind::TimedOut => tracing::warn!("{error}"),
            _ => tracing::info!("{error}"),
        }
        Self(error.kind().row().errno)
    }
}

/// For whom the mount acts.
#[derive(Debug, Clone)]
pub enum Identity {
    /// Always for this user of the store.
    One(Principal),
    /// For the calling process's user and groups, by their names on this host.
    Caller,
}

/// A mount's behaviour.
#[derive(Debug, Clone)]
pub struct Settings {
    /// For whom it acts.
    pub identity: Identity,
    /// How long operations wait for a store that is away.
    pub patience: Patience,
    /// How long the kernel may use names and attributes that it has.
    pub lifetime: Duration,
    /// Names of files that PLFS keeps.
    pub logical: Vec<Pattern>,
    /// No changes.
    pub read_only: bool,
}

/// The calling process's user and group.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// Attributes of a node.
#[derive(Debug, Clone)]
pub struct Attributes {
    /// The node's number.
    pub node: u64,
    /// The store's record.
    pub status: FileStatus,
    /// Owner on this host.
    pub uid: u32,
    /// Group on this host.
    pub gid: u32,
    /// Last change of the record.
    pub changed: SystemTime,
    /// It has a name.
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

/// The kernel's way to use an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The handle.
    pub handle: u64,
    /// Reads and writes go past the kernel's cache.
    pub direct: bool,
    /// The kernel's cache has the file's bytes.
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

/// Locks of a file whose path changes.
enum Held {
    Plain(OwnedMutexGuard<Writing>, Arc<File>),
    Logical(OwnedMutexGuard<State>, u64),
}

#[derive(Clone)]
enum Handle {
    File { file: Arc<File>, writes: bool, appends: bool },
    Directory(Arc<tokio::sync::Mutex<Listing>>, u64),
}

/// A mount, without FUSE.
pub struct Core {
    store: Arc<dyn FileSystem>,
    root: StorePath,
    settings: Settings,
    names: Names,
    nodes: Mutex<Nodes>,
    /// Open files by node and user, with the number of their handles.
    files: Mutex<HashMap<(u64, Arc<str>), (Arc<File>, usize)>>,
    handles: Mutex<HashMap<u64, Handle>>,
    last_handle: AtomicU64,
    memory: Arc<Pool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// A mount of `root` and all beneath it.
    pub fn new(store: Arc<dyn FileSystem>, root: StorePath, settings: Settings) -> Self {
        let names = match &settings.identity {
            Identity::One(who) => Names::new(&who.user),
            Identity::Caller => Names::default(),
        };
        Self {
            nodes: Mutex::new(Nodes::new(root.clone())),
            store,
            root,
            settings,
            names,
            files: Mutex::default(),
            handles: Mutex::default(),
            last_handle: AtomicU64::new(0),
            memory: Pool::new(WRITE_MEMORY),
        }
    }

    /// How long the kernel may use names and attributes.
    pub fn lifetime(&self) -> Duration {
        // The store decides for each caller what it may see.
        match self.settings.identity {
            Identity::One(_) => self.settings.lifetime,
            Identity::Caller => Duration::ZERO,
        }
    }

    fn who(&self, caller: Caller) -> Principal {
        match &self.settings.identity {
            Identity::One(who) => who.clone(),
            Identity::Caller => self.names.principal(caller.uid, caller.gid),
        }
    }

    fn path(&self, node: u64) -> Answer<StorePath> {
        match lock(&self.nodes).path(node) {
            Some(path) => Ok(path?),
            None => Err(Fault(ErrorKind::NotFound.row().errno)),
        }
    }

    fn entry(&self, parent: u64, name: &OsStr) -> Answer<(StorePath, String)> {
        let name = encoding::encode(name.as_bytes()).into_owned();
        if encoding::decode(&name).is_none_or(|bytes| bytes.len() > MAX_NAME_BYTES) {
            return Err(Fault(ENAMETOOLONG));
        }
        let directory = self.path(parent)?;
        Ok((directory.join(&name).map_err(|_| Fault(ENAMETOOLONG))?, name))
    }

    /// Whether PLFS keeps files of this path.
    fn is_logical_name(&self, path: &StorePath) -> bool {
        let below = path.as_str().strip_prefix(self.root.as_str()).unwrap_or(path.as_str());
        let below = below.trim_start_matches('/');
        self.settings.logical.iter().any(|pattern| match pattern.as_str().contains('/') {
            true => pattern.matches(below),
            false => pattern.matches(path.name()),
        })
    }

    /// The container at a directory's path, if PLFS keeps it.
    async fn container(&self, who: &Principal, path: &StorePath) -> Answer<Option<Container>> {
        if !self.is_logical_name(path) {
            return Ok(None);
        }
        let open = || Container::open(self.store.clone(), who, path);
        match self.settings.patience.with(open).await {
            Ok(container) => Ok(Some(container)),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The store's record of a path, where a logical file is a file.
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

    /// The mark has the file's owner and permission; each publication changes the directory of epochs.
    async fn logical_status(&self, who: &Principal, container: &Container) -> Answer<FileStatus> {
        let path = container.path();
        let (mark, epochs) = (path.join(".plfs")?, path.join("epochs")?);
        let patience = self.settings.patience;
        let mark = patience.with(|| self.store.stat(who, &mark)).await?;
        let epochs = patience.with(|| self.store.stat(who, &epochs)).await?;
        let length = patience.with(|| container.length()).await?;
        Ok(FileStatus {
            path: path.as_str().to_owned(),
            length,
            modified_ms: epochs.modified_ms,
            accessed_ms: epochs.accessed_ms,
            ..mark
        })
    }

    fn open_files(&self, node: u64) -> Vec<Arc<File>> {
        let files = lock(&self.files);
        files.iter().filter(|((of, _), _)| *of == node).map(|(_, (file, _))| file.clone()).collect()
    }

    /// Attributes of a node, with what was written here.
    async fn attributes(&self, node: u64, mut status: FileStatus) -> Attributes {
        for file in self.open_files(node) {
            match &file.body {
                Body::Plain(plain) => {
                    if let Some(end) = plain.end().await {
                        status.length = end;
                        status.modified_ms = now_ms().max(status.modified_ms);
                    }
                }
                Body::Logical(logical) => {
                    status.length = logical.length().await.unwrap_or(status.length);
                }
            }
        }
        let changed = lock(&self.nodes).changed(node);
        let modified = time(status.modified_ms);
        Attributes {
            node,
            uid: self.names.uid(&status.owner),
            gid: self.names.gid(&status.group),
            changed: changed.map_or(modified, |changed| changed.max(modified)),
            linked: !status.path.rsplit('/').next().is_some_and(|name| name.starts_with(HIDDEN)),
            status,
        }
    }

    /// Finds a directory's entry.
    pub async fn lookup(&self, caller: Caller, parent: u64, name: &OsStr) -> Answer<Attributes> {
        let (path, name) = self.entry(parent, name)?;
        let (status, _) = self.status(&self.who(caller), &path).await?;
        let node = lock(&self.nodes).looked_up(parent, &name);
        Ok(self.attributes(node, status).await)
    }

    /// The kernel forgets a node.
    pub fn forget(&self, node: u64, times: u64) {
        lock(&self.nodes).forget(node, times);
    }

    /// A node's attributes.
    pub async fn getattr(&self, caller: Caller, node: u64) -> Answer<Attributes> {
        let path = self.path(node)?;
        let (status, _) = self.status(&self.who(caller), &path).await?;
        Ok(self.attributes(node, status).await)
    }

    fn check_writable(&self) -> Answer<()> {
        // EROFS has no kind; the kernel refuses most changes itself.
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
        // A store that can't set an attribute has nothing to do if it is so already.
        set.permission = set.permission.filter(|bits| *bits != before.permission);
        set.owner = set.owner.filter(|_| change.uid != Some(self.names.uid(&before.owner)));
        set.group = set.group.filter(|_| change.gid != Some(self.names.gid(&before.group)));
        if set != strait_store::SetAttributes::default() {
            // A writer's close would set the time again.
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
        self.getattr(caller, node).await
    }

    /// Sets attributes of all that a container consists of.
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
            for name in ["logs", "open", "epochs"] {
                let directory = path.join(name)?;
                for entry in self.store.list_all(who, &directory, MOST_HANDLES).await? {
                    self.store.set_attributes(who, &StorePath::parse(&entry.path)?, &rights).await?;
                }
                self.store.set_attributes(who, &directory, &of_directories).await?;
            }
            self.store.set_attributes(who, &path.join(".plfs")?, &rights).await?;
            self.store.set_attributes(who, path, &of_directories).await?;
        }
        if times != SetAttributes::default() {
            self.store.set_attributes(who, &path.join("epochs")?, &times).await?;
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
            None => self.open_files(node).into_iter().find(|file| file.who.user == who.user),
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
            Body::Plain(plain) => {
                plain.truncate(path, size).await?;
                plain.settle(path, Level::Flushed).await?;
            }
            Body::Logical(logical) => logical.truncate(size).await?,
        }
        if self.open_files(node).is_empty() {
            self.settle_file(&file, path, Level::Closed).await?;
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

    fn access(&self, who: &Principal) -> Access {
        Access {
            store: self.store.clone(),
            capabilities: self.store.capabilities(),
            who: who.clone(),
            patience: self.settings.patience,
            memory: self.memory.clone(),
        }
    }

    async fn settle_file(&self, file: &File, path: &StorePath, level: Level) -> Answer<()> {
        match &file.body {
            Body::Plain(plain) => plain.settle(path, level).await?,
            Body::Logical(logical) => {
                let mut state = logical.lock().await;
                if level == Level::Closed { state.close().await? } else { state.sync().await? }
            }
        }
        Ok(())
    }

    /// Makes `level` true of what was written to a node.
    async fn settle(&self, node: u64, level: Level) -> Answer<()> {
        for file in self.open_files(node) {
            self.settle_file(&file, &self.path(node)?, level).await?;
        }
        Ok(())
    }

    /// Closes everything that was written, before the mount ends. Failures are logged.
    pub async fn settle_all(&self) {
        let files: Vec<Arc<File>> = lock(&self.files).values().map(|(file, _)| file.clone()).collect();
        for file in files {
            let Ok(path) = self.path(file.node) else { continue };
            // The failure was logged as it became an errno.
            let _ = self.settle_file(&file, &path, Level::Closed).await;
        }
    }

    /// Number of open files and listings.
    pub fn open_handles(&self) -> usize {
        lock(&self.handles).len()
    }

    fn add_handle(&self, handle: Handle) -> Answer<u64> {
        let mut handles = lock(&self.handles);
        if handles.len() >= MOST_HANDLES {
            tracing::warn!("open: {MOST_HANDLES} files are open through this mount already");
            return Err(Fault(ENFILE));
        }
        let number = self.last_handle.fetch_add(1, Ordering::Relaxed) + 1;
        handles.insert(number, handle);
        Ok(number)
    }

    fn file(&self, handle: u64) -> Answer<(Arc<File>, bool)> {
        match lock(&self.handles).get(&handle) {
            Some(Handle::File { file, appends, .. }) => Ok((file.clone(), *appends)),
            _ => Err(Fault(EBADF)),
        }
    }

    /// Adds a handle of a file that is open already, or of `file`.
    fn opened(&self, file: File, flags: i32) -> Answer<(u64, Arc<File>)> {
        let key = (file.node, file.who.user.clone());
        let file = {
            let mut files = lock(&self.files);
            let (file, handles) = files.entry(key).or_insert_with(|| (Arc::new(file), 0));
            *handles += 1;
            file.clone()
        };
        lock(&self.nodes).use_more(file.node);
        let (writes, appends) = (flags & O_ACCMODE != O_RDONLY, flags & O_APPEND != 0);
        let handle = self.add_handle(Handle::File { file: file.clone(), writes, appends });
        match handle {
            Ok(handle) => Ok((handle, file)),
            Err(fault) => {
                self.closed(&file);
                Err(fault)
            }
        }
    }

    /// One handle less; whether it was the last.
    fn closed(&self, file: &File) -> bool {
        let key = (file.node, file.who.user.clone());
        let mut files = lock(&self.files);
        let last = match files.get_mut(&key) {
            Some((_, handles)) => {
                *handles -= 1;
                *handles == 0
            }
            None => false,
        };
        if last {
            files.remove(&key);
        }
        last
    }

    /// Opens a file.
    pub async fn open(&self, caller: Caller, node: u64, flags: i32) -> Answer<Opened> {
        let writes = flags & O_ACCMODE != O_RDONLY;
        if writes {
            self.check_writable()?;
        }
        let (who, path) = (self.who(caller), self.path(node)?);
        let (status, container) = self.status(&who, &path).await?;
        if status.is_directory() {
            return Err(Fault(EISDIR));
        }
        let wanted = match flags & O_ACCMODE {
            O_RDONLY => 0o4,
            O_WRONLY => 0o2,
            _ => 0o6,
        };
        if self.is_surely_refused(&who, &status, wanted) {
            return Err(Fault(EACCES));
        }
        let (handle, file) = self.opened(self.new_file(node, &who, container).await, flags)?;
        let cached = match &file.body {
            Body::Plain(plain) if !writes => {
                let dirty = plain.end().await.is_some();
                if !dirty && let Err(error) = plain.reopen(&path).await {
                    self.release(handle).await;
                    return Err(error.into());
                }
                let version = Version { modified_ms: status.modified_ms, length: status.length };
                !dirty && lock(&self.nodes).same_version(node, version)
            }
            Body::Plain(_) => false,
            Body::Logical(logical) => {
                logical.refresh().await;
                false
            }
        };
        let direct = writes && matches!(file.body, Body::Plain(_));
        Ok(Opened { handle, direct, cached })
    }

    /// Whether the permission bits refuse it to this user, as far as this host knows. The store
    /// decides at the first write or read; this only tells programs earlier.
    fn is_surely_refused(&self, who: &Principal, status: &FileStatus, wanted: u32) -> bool {
        let capabilities = self.store.capabilities();
        if !capabilities.permissions || &*who.user == "root" || nix::unistd::geteuid().is_root() {
            return false;
        }
        if *who.user == *status.owner {
            return status.permission >> 6 & wanted != wanted;
        }
        let others = status.permission & wanted == wanted;
        let group = status.permission >> 3 & wanted == wanted;
        let known = !who.groups.is_empty();
        match known && !who.groups.contains(&status.group) {
            true => !others,
            false => !others && !group,
        }
    }

    /// Creates a file and opens it.
    pub async fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Answer<(Attributes, Opened)> {
        self.check_writable()?;
        let (path, name) = self.entry(parent, name)?;
        let who = self.who(caller);
        let made = self.make(&who, &path, mode).await;
        let exists = |fault: &Fault| *fault == Fault(EEXIST);
        if let Err(fault) = made.as_ref()
            && exists(fault)
            && flags & O_EXCL == 0
        {
            let attributes = self.lookup(caller, parent, OsStr::from_bytes(&decoded(&name))).await?;
            let opened = self.open(caller, attributes.node, flags).await;
            let opened = opened.inspect_err(|_| self.forget(attributes.node, 1))?;
            return Ok((attributes, opened));
        }
        let body = made?;
        let status = self.status(&who, &path).await?.0;
        let node = lock(&self.nodes).looked_up(parent, &name);
        let direct = matches!(body, Body::Plain(_));
        let (handle, _) = self.opened(File { body, node, who }, flags)?;
        let attributes = self.attributes(node, status).await;
        Ok((attributes, Opened { handle, direct, cached: false }))
    }

    /// Makes a file that nobody has open yet.
    async fn make(&self, who: &Principal, path: &StorePath, mode: u32) -> Answer<Body> {
        let permission = Some(mode & 0o7777);
        if self.is_logical_name(path) {
            let options = strait_plfs::Options { permission, ..strait_plfs::Options::default() };
            let create = Container::create(self.store.clone(), who, path, &options);
            return Ok(Body::Logical(Logical::new(self.access(who), create.await?)));
        }
        let options = CreateOptions { permission, ..CreateOptions::default() };
        let create = || self.store.create(who, path, &options);
        let writer = self.settings.patience.with(create).await?;
        Ok(Body::Plain(Plain::created(self.access(who), writer).await))
    }

    /// Makes an empty file.
    pub async fn mknod(&self, caller: Caller, parent: u64, name: &OsStr, mode: u32) -> Answer<Attributes> {
        self.check_writable()?;
        const FILE: u32 = 0o100_000;
        if mode & 0o170_000 != FILE && mode & 0o170_000 != 0 {
            return Err(Fault(EPERM)); // as mknod(2) for file systems without such nodes
        }
        let (path, _) = self.entry(parent, name)?;
        let body = self.make(&self.who(caller), &path, mode).await?;
        if let Body::Plain(plain) = body {
            plain.settle(&path, Level::Closed).await?;
        }
        self.lookup(caller, parent, name).await
    }

    /// Bytes of an open file.
    pub async fn read(&self, handle: u64, offset: u64, length: usize) -> Answer<Bytes> {
        let (file, _) = self.file(handle)?;
        let bytes = match &file.body {
            Body::Plain(plain) => plain.read(&self.path(file.node)?, offset, length).await?,
            Body::Logical(logical) => logical.read(offset, length).await?,
        };
        Ok(bytes)
    }

    /// Writes to an open file.
    pub async fn write(&self, handle: u64, offset: u64, data: Bytes) -> Answer<()> {
        let (file, appends) = self.file(handle)?;
        // The kernel's idea of the end may be old.
        let at = (!appends).then_some(offset);
        match &file.body {
            Body::Plain(plain) => plain.write(&self.path(file.node)?, at, data).await?,
            Body::Logical(logical) => logical.write(at, data).await?,
        }
        lock(&self.nodes).forget_version(file.node);
        Ok(())
    }

    /// A program closes one of its descriptors: other hosts see what it wrote, and it learns of errors.
    pub async fn flush(&self, handle: u64) -> Answer<()> {
        let (file, writes) = match lock(&self.handles).get(&handle) {
            Some(Handle::File { file, writes, .. }) => (file.clone(), *writes),
            _ => return Err(Fault(EBADF)),
        };
        if !writes {
            return Ok(());
        }
        let path = self.path(file.node)?;
        match &file.body {
            Body::Plain(plain) => plain.settle(&path, Level::Closed).await?,
            Body::Logical(logical) => logical.lock().await.sync().await?,
        }
        Ok(())
    }

    /// Puts an open file's bytes on stable storage.
    pub async fn fsync(&self, handle: u64) -> Answer<()> {
        let (file, _) = self.file(handle)?;
        self.settle_file(&file, &self.path(file.node)?, Level::Synced).await
    }

    /// Ends a handle.
    pub async fn release(&self, handle: u64) {
        let handle = lock(&self.handles).remove(&handle);
        match handle {
            Some(Handle::File { file, .. }) => self.release_file(&file).await,
            Some(Handle::Directory(_, node)) => lock(&self.nodes).use_less(node),
            None => {}
        }
    }

    async fn release_file(&self, file: &File) {
        if self.closed(file)
            && let Ok(path) = self.path(file.node)
        {
            // Errors were reported when its descriptors were closed.
            let _ = self.settle_file(file, &path, Level::Closed).await;
            if path.name().starts_with(HIDDEN) && self.open_files(file.node).is_empty() {
                let logical = matches!(file.body, Body::Logical(_));
                if let Err(error) = self.store.remove(&file.who, &path, logical).await {
                    tracing::warn!("{error}; remove it by hand");
                }
                if let Some(parent) = self.parent(&path) {
                    lock(&self.nodes).unlink(parent, path.name());
                }
            }
        }
        lock(&self.nodes).use_less(file.node);
    }

    /// The node of a path's directory, if the kernel knows it.
    fn parent(&self, path: &StorePath) -> Option<u64> {
        let directory = path.parent()?;
        let below = directory.as_str().strip_prefix(self.root.as_str().trim_end_matches('/'))?;
        let nodes = lock(&self.nodes);
        below.split('/').filter(|name| !name.is_empty()).try_fold(ROOT, |node, name| nodes.find(node, name))
    }

    /// Makes a directory.
    pub async fn mkdir(&self, caller: Caller, parent: u64, name: &OsStr, mode: u32) -> Answer<Attributes> {
        self.check_writable()?;
        let (path, _) = self.entry(parent, name)?;
        let who = self.who(caller);
        match self.settings.patience.with(|| self.store.stat(&who, &path)).await {
            Ok(_) => return Err(Fault(EEXIST)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let make = || self.store.mkdirs(&who, &path, Some(mode & 0o7777));
        self.settings.patience.with(make).await?;
        self.lookup(caller, parent, name).await
    }

    /// Removes a file.
    pub async fn unlink(&self, caller: Caller, parent: u64, name: &OsStr) -> Answer<()> {
        self.check_writable()?;
        let (path, name) = self.entry(parent, name)?;
        let who = self.who(caller);
        let node = lock(&self.nodes).find(parent, &name);
        if let Some(node) = node
            && !self.open_files(node).is_empty()
        {
            return self.hide(&who, parent, &name, node).await;
        }
        let (status, container) = self.status(&who, &path).await?;
        if status.is_directory() {
            return Err(Fault(EISDIR));
        }
        let remove = || self.store.remove(&who, &path, container.is_some());
        self.settings.patience.with(remove).await?;
        lock(&self.nodes).unlink(parent, &name);
        Ok(())
    }

    /// Gives an open file a name that goes with its last handle.
    async fn hide(&self, who: &Principal, parent: u64, name: &str, node: u64) -> Answer<()> {
        let hidden = format!("{HIDDEN}{:016x}", u64::from_le_bytes(random()));
        self.move_node(who, (parent, name), (parent, &hidden), Some(node), false).await
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, caller: Caller, parent: u64, name: &OsStr) -> Answer<()> {
        self.check_writable()?;
        let (path, name) = self.entry(parent, name)?;
        let who = self.who(caller);
        let remove = || self.store.remove(&who, &path, false);
        self.settings.patience.with(remove).await?;
        lock(&self.nodes).unlink(parent, &name);
        Ok(())
    }

    /// Renames an entry; with `replace`, over another.
    pub async fn rename(
        &self,
        caller: Caller,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        replace: bool,
    ) -> Answer<()> {
        self.check_writable()?;
        let who = self.who(caller);
        let (from_path, from_name) = self.entry(from.0, from.1)?;
        let (to_path, to_name) = self.entry(to.0, to.1)?;
        if from_path == to_path {
            return if replace { Ok(()) } else { Err(Fault(EEXIST)) };
        }
        let (node, target) = {
            let nodes = lock(&self.nodes);
            (nodes.find(from.0, &from_name), nodes.find(to.0, &to_name))
        };
        let (from, to) = ((from.0, from_name.as_str()), (to.0, to_name.as_str()));
        if let Some(target) = target
            && replace
            && !self.open_files(target).is_empty()
        {
            self.hide(&who, to.0, to.1, target).await?;
        }
        // No store replaces a container, or by one, in one step.
        let mixes = self.is_logical_name(&from_path) || self.is_logical_name(&to_path);
        if mixes && replace {
            return self.replace_logical(&who, from, to, (&from_path, &to_path), node).await;
        }
        self.move_node(&who, from, to, node, replace).await
    }

    /// Moves the target aside, renames, and removes the target.
    async fn replace_logical(
        &self,
        who: &Principal,
        from: (u64, &str),
        to: (u64, &str),
        paths: (&StorePath, &StorePath),
        node: Option<u64>,
    ) -> Answer<()> {
        let (source, from_container) = self.status(who, paths.0).await?;
        let target = match self.status(who, paths.1).await {
            Ok((status, container)) => (status, container),
            Err(Fault(errno)) if errno == ErrorKind::NotFound.row().errno => {
                return self.move_node(who, from, to, node, false).await;
            }
            Err(fault) => return Err(fault),
        };
        let (status, container) = target;
        if (from_container.is_none() && container.is_none()) || source.is_directory() || status.is_directory()
        {
            return self.move_node(who, from, to, node, true).await;
        }
        let Some(parent) = paths.1.parent() else { return Err(Fault(EINVAL)) };
        let aside = parent.join(&format!("{HIDDEN}{:016x}", u64::from_le_bytes(random())))?;
        self.store.rename(who, paths.1, &aside, false).await?;
        if let Err(fault) = self.move_node(who, from, to, node, false).await {
            if let Err(error) = self.store.rename(who, &aside, paths.1, false).await {
                tracing::warn!("{error}; the replaced file is {aside}");
            }
            return Err(fault);
        }
        if let Err(error) = self.store.remove(who, &aside, container.is_some()).await {
            tracing::warn!("{error}; remove it by hand");
        }
        Ok(())
    }

    /// Renames in the store and here. Files that are open beneath wait meanwhile.
    async fn move_node(
        &self,
        who: &Principal,
        from: (u64, &str),
        to: (u64, &str),
        node: Option<u64>,
        replace: bool,
    ) -> Answer<()> {
        let join = |(parent, name): (u64, &str)| -> Answer<StorePath> { Ok(self.path(parent)?.join(name)?) };
        let (from_path, to_path) = (join(from)?, join(to)?);
        let held = match node {
            Some(node) => self.hold(node).await?,
            None => Vec::new(),
        };
        let rename = || self.store.rename(who, &from_path, &to_path, replace);
        self.settings.patience.with(rename).await?;
        lock(&self.nodes).rename(from, to);
        for held in held {
            match held {
                Held::Plain(_guard, file) => {
                    if let Body::Plain(plain) = &file.body {
                        plain.forget_reader();
                    }
                }
                Held::Logical(mut state, node) => state.moved(&self.path(node)?).await?,
            }
        }
        Ok(())
    }

    /// Ends the writers of all open files at a node and beneath it, and locks them.
    async fn hold(&self, above: u64) -> Answer<Vec<Held>> {
        let mut files: Vec<Arc<File>> = lock(&self.files).values().map(|(file, _)| file.clone()).collect();
        {
            let nodes = lock(&self.nodes);
            files.retain(|file| nodes.is_within(file.node, above));
        }
        // One order for all, so that two renames don't wait for each other.
        files.sort_by_key(|file| file.node);
        let mut held = Vec::with_capacity(files.len());
        for file in files {
            let path = self.path(file.node)?;
            held.push(match &file.body {
                Body::Plain(plain) => {
                    let mut guard = plain.lock().await;
                    guard.settle(&path, Level::Closed).await?;
                    Held::Plain(guard, file.clone())
                }
                Body::Logical(logical) => {
                    let mut guard = logical.lock().await;
                    guard.close().await?;
                    Held::Logical(guard, file.node)
                }
            });
        }
        Ok(held)
    }

    /// Checks what access(2) asks. The store decides about reading and writing when it comes to it.
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

    /// The store's capacity; None if it doesn't tell.
    pub async fn statfs(&self, caller: Caller) -> Answer<Option<StoreStatus>> {
        if !self.store.capabilities().status {
            return Ok(None);
        }
        let who = self.who(caller);
        Ok(Some(self.settings.patience.with(|| self.store.status(&who)).await?))
    }

    /// Opens a directory for listing.
    pub async fn opendir(&self, caller: Caller, node: u64) -> Answer<u64> {
        let listing = Listing::new(self.store.clone(), self.who(caller), self.path(node)?);
        lock(&self.nodes).use_more(node);
        let handle = self.add_handle(Handle::Directory(Arc::new(tokio::sync::Mutex::new(listing)), node));
        handle.inspect_err(|_| lock(&self.nodes).use_less(node))
    }

    /// Passes the entries from `offset` on to `add` until it is full: next entry's offset, name, and
    /// attributes. Attributes are known to the kernel then, unless it was full.
    pub async fn readdir(
        &self,
        caller: Caller,
        handle: u64,
        offset: u64,
        mut add: impl FnMut(u64, &OsStr, &Attributes) -> bool + Send,
    ) -> Answer<()> {
        let (listing, node) = match lock(&self.handles).get(&handle) {
            Some(Handle::Directory(listing, node)) => (listing.clone(), *node),
            _ => return Err(Fault(EBADF)),
        };
        let mut listing = listing.lock().await;
        let who = self.who(caller);
        listing.seek(offset).await?;
        while let Some((next, entry)) = listing.next().await? {
            let Ok(path) = StorePath::parse(&entry.path) else { continue };
            let bytes = decoded(path.name()).into_owned();
            // An entry may go, or change, while it is listed.
            let Ok((status, _)) = self.seen(&who, &path, entry).await else { continue };
            let known = lock(&self.nodes).looked_up(node, path.name());
            let attributes = self.attributes(known, status).await;
            if add(next, OsStr::from_bytes(&bytes), &attributes) {
                lock(&self.nodes).forget(known, 1);
                listing.back();
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A name's bytes.
fn decoded(name: &str) -> std::borrow::Cow<'_, [u8]> {
    encoding::decode(name).unwrap_or(std::borrow::Cow::Borrowed(name.as_bytes()))
}

fn random() -> [u8; 8] {
    let mut bytes = [0; 8];
    // Names need only differ; without random numbers, the rename fails if they don't.
    let _ = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    bytes
}

/// A time of the store's, as the kernel's.
pub fn time(ms: i64) -> SystemTime {
    let distance = Duration::from_millis(ms.unsigned_abs());
    if ms < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

fn milliseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_millis().try_into().unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    }
}

fn now_ms() -> i64 {
    milliseconds(SystemTime::now())
}

/// An error that has no other number.
pub const DEFECT: Fault = Fault(EIO);
