//! Open files: handles, and reads and writes through them.

use super::{
    Answer, Attributes, Body, Caller, Core, EACCES, EBADF, EEXIST, EISDIR, ENFILE, EPERM, ESTALE, Fault,
    File, Handle, MOST_HANDLES, O_ACCMODE, O_APPEND, O_EXCL, O_RDONLY, O_TRUNC, O_WRONLY, Opened, decoded,
    encoded, lock,
};
use crate::handover::{self, User};
use crate::ledger::Counter;
use crate::logical::Logical;
use crate::nodes::Version;
use crate::plain::{Level, Plain};
use bytes::Bytes;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use strait_plfs::Container;
use strait_store::{CreateOptions, ErrorKind, FileStatus, Principal, StorePath};

impl Core {
    /// Adds a handle for a request.
    pub(super) async fn add_handle(&self, handle: Handle, request: u64) -> Answer<u64> {
        let number = self.last_handle.fetch_add(1, Ordering::Relaxed) + 1;
        self.ledger.gives(Counter::Handle, number);
        let recorded = self.recorded(number, &handle).await;
        let mut handles = lock(&self.handles);
        if handles.len() >= MOST_HANDLES {
            tracing::warn!("open: {MOST_HANDLES} files are open through this mount already");
            return Err(Fault(ENFILE));
        }
        handles.insert(number, handle);
        self.ledger.handle(number, recorded, request);
        Ok(number)
    }

    pub(super) async fn recorded(&self, number: u64, handle: &Handle) -> handover::Handle {
        match handle {
            Handle::File { file, writes, appends } => {
                let (file, writes, appends) = (file.note().number() as usize, *writes, *appends);
                handover::Handle::File { number, file, writes, appends }
            }
            Handle::Directory(listing, node) => {
                let listing = listing.lock().await;
                let (who, path) = listing.of();
                let (who, path) = (User::from(who), path.to_string());
                handover::Handle::Directory { number, node: *node, who, path }
            }
        }
    }

    pub(super) fn file(&self, handle: u64) -> Answer<(Arc<File>, bool)> {
        match lock(&self.handles).get(&handle) {
            Some(Handle::File { file, appends, .. }) => Ok((file.clone(), *appends)),
            _ => Err(Fault(EBADF)),
        }
    }

    /// Adds a handle for `file`, or for the same file if it is open already.
    pub(super) async fn opened(&self, file: File, flags: i32, request: u64) -> Answer<(u64, Arc<File>)> {
        let file = {
            let mut files = lock(&self.files);
            let (file, handles) = files.entry(file.key()).or_insert_with(|| {
                file.record();
                (Arc::new(file), 0)
            });
            *handles += 1;
            file.clone()
        };
        lock(&self.nodes).use_more(file.node);
        let (writes, appends) = (flags & O_ACCMODE != O_RDONLY, flags & O_APPEND != 0);
        let handle = self.add_handle(Handle::File { file: file.clone(), writes, appends }, request).await;
        match handle {
            Ok(handle) => Ok((handle, file)),
            Err(fault) => {
                self.closed(&file);
                lock(&self.nodes).use_less(file.node);
                Err(fault)
            }
        }
    }

    fn has_one_handle(&self, file: &File) -> bool {
        lock(&self.files).get(&file.key()).is_some_and(|(_, handles)| *handles == 1)
    }

    /// Removes one handle of the file. Returns whether it was the last.
    pub(super) fn closed(&self, file: &File) -> bool {
        let key = file.key();
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
            file.note().closed();
        }
        last
    }

    /// Opens a file.
    pub async fn open(&self, caller: Caller, node: u64, flags: i32) -> Answer<Opened> {
        let writes = flags & O_ACCMODE != O_RDONLY;
        if writes {
            self.check_writable()?;
        }
        if let Some(opened) = self.opened_before(caller, flags) {
            return Ok(opened);
        }
        let stays = self.stay(node).await;
        let found = async {
            let (who, path) = (self.who(caller), self.path(node)?);
            let mut found = self.status_to_open(&who, &path).await?;
            self.check_open(&who, &found.0, flags)?;
            // Other users' written bytes may still be in this process. They report their failures themselves.
            let files = self.open_files(node);
            let others: Vec<_> = files.iter().filter(|file| file.who.user != who.user).collect();
            for file in &others {
                let _ = self.settle_file(file, Level::Flushed).await;
            }
            if !others.is_empty() {
                found = self.status_to_open(&who, &path).await?;
            }
            Ok((who, found.0, found.1))
        };
        let (who, status, container) =
            found.await.map_err(|fault: Fault| match fault.is(ErrorKind::NotFound) {
                // Another file may have got the name after the kernel looked it up.
                true => Fault(ESTALE),
                false => fault,
            })?;
        let file = self.new_file(node, &who, container).await;
        let (handle, file) = self.opened(file, flags, caller.request).await?;
        // From here on, changes of names know that the file is open.
        drop(stays);
        let cached = match &file.body {
            Body::Plain(plain) if !writes => {
                let dirty = plain.unclosed().await.is_some();
                if !dirty && let Err(error) = plain.reopen(self.place(node)).await {
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

    /// Refuses to open a directory, or a file that the user surely may not open with these flags.
    fn check_open(&self, who: &Principal, status: &FileStatus, flags: i32) -> Answer<()> {
        if status.is_directory() {
            return Err(Fault(EISDIR));
        }
        let wanted = match flags & O_ACCMODE {
            O_RDONLY => 0o4,
            O_WRONLY => 0o2,
            _ => 0o6,
        };
        match self.is_surely_refused(who, status, wanted) {
            true => Err(Fault(EACCES)),
            false => Ok(()),
        }
    }

    /// Whether the permission bits deny `wanted` to this user, as far as this host knows. The store decides
    /// at the first read or write. This check only reports a denial earlier.
    pub(super) fn is_surely_refused(&self, who: &Principal, status: &FileStatus, wanted: u32) -> bool {
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
        let (who, name) = (self.who(caller), encoded(name)?);
        if let Some(opened) = self.opened_before(caller, flags)
            && let Ok((file, _)) = self.file(opened.handle)
        {
            return Ok((self.getattr(caller, file.node).await?, opened));
        }
        let changes = self.change(&[(parent, &name)]).await;
        let path = self.entry(parent, &name)?;
        let made = self.make(caller, &who, &path, mode).await;
        let exists = |fault: &Fault| *fault == Fault(EEXIST);
        if let Err(fault) = made.as_ref()
            && exists(fault)
            && flags & O_EXCL == 0
        {
            drop(changes);
            let attributes = self.lookup(caller, parent, OsStr::from_bytes(&decoded(&name))).await?;
            let opened = self.open_made(caller, attributes.node, flags).await;
            return opened.inspect_err(|_| self.forget(attributes.node, 1));
        }
        let body = made?;
        let status = self.status(&who, &path).await?.0;
        let node = {
            let known = lock(&self.nodes).find(parent, &name);
            let is_open = known.is_some_and(|node| !self.open_files(node).is_empty());
            let mut nodes = lock(&self.nodes);
            if is_open {
                // Another host removed the file that the node stood for.
                nodes.unlink(parent, &name);
            }
            nodes.looked_up(parent, &name)
        };
        let direct = matches!(body, Body::Plain(_));
        let (handle, _) = self.opened(File { body, node, who }, flags, caller.request).await?;
        let attributes = self.attributes(node, status).await;
        Ok((attributes, Opened { handle, direct, cached: false }))
    }

    /// Opens a file that another program created after the kernel's lookup. The kernel believes that this
    /// request created it, so it doesn't truncate it by itself.
    async fn open_made(&self, caller: Caller, node: u64, flags: i32) -> Answer<(Attributes, Opened)> {
        let opened = self.open(caller, node, flags).await?;
        let emptied = async {
            if flags & O_TRUNC != 0 {
                self.truncate(&self.who(caller), node, Some(opened.handle), &self.path(node)?, 0).await?;
            }
            self.getattr(caller, node).await
        };
        match emptied.await {
            Ok(attributes) => Ok((attributes, opened)),
            Err(fault) => {
                self.release(opened.handle).await;
                Err(fault)
            }
        }
    }

    /// Creates a file that isn't open yet.
    async fn make(&self, caller: Caller, who: &Principal, path: &StorePath, mode: u32) -> Answer<Body> {
        let permission = Some(mode & 0o7777);
        self.begins(caller);
        if self.is_logical_name(path) {
            // A resent request gets the same id.
            let id = (caller.request != 0).then(|| {
                let id = u128::from(self.nonce) << 64 | u128::from(caller.request);
                id.to_be_bytes()
            });
            let options = strait_plfs::Options { permission, id, ..strait_plfs::Options::default() };
            let made = match Container::create(self.store.clone(), who, path, &options).await {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && self.is_again(caller) => {
                    let found = Container::open(self.store.clone(), who, path).await;
                    found.ok().filter(|found| Some(found.id()) == id).ok_or(error)?
                }
                made => made?,
            };
            return Ok(Body::Logical(Logical::new(self.access(who), made)));
        }
        let options = CreateOptions { permission, ..CreateOptions::default() };
        let create = || self.store.create(who, path, &options);
        match self.settings.patience.with(create).await {
            Ok(writer) => Ok(Body::Plain(Plain::created(self.access(who), writer).await)),
            // Busy: the writer of the killed process still has the file open.
            Err(error)
                if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Busy)
                    && self.is_again(caller) =>
            {
                let status = self.settings.patience.with(|| self.store.stat(who, path)).await?;
                if status.is_directory() || status.length > 0 {
                    return Err(error.into());
                }
                Ok(Body::Plain(Plain::abandoned(self.access(who)).await))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Creates an empty file.
    pub async fn mknod(&self, caller: Caller, parent: u64, name: &OsStr, mode: u32) -> Answer<Attributes> {
        self.check_writable()?;
        const FILE: u32 = 0o100_000;
        if mode & 0o170_000 != FILE && mode & 0o170_000 != 0 {
            return Err(Fault(EPERM)); // as mknod(2) where a file system has no such nodes
        }
        let encoded = encoded(name)?;
        let changes = self.change(&[(parent, &encoded)]).await;
        let path = self.entry(parent, &encoded)?;
        let body = self.make(caller, &self.who(caller), &path, mode).await?;
        if let Body::Plain(plain) = body {
            plain.settle(|| Ok(path.clone()), Level::Closed).await?;
        }
        drop(changes);
        self.lookup(caller, parent, name).await
    }

    /// Reads from an open file.
    pub async fn read(&self, handle: u64, offset: u64, length: usize) -> Answer<Bytes> {
        let (file, _) = self.file(handle)?;
        let bytes = match &file.body {
            Body::Plain(plain) => plain.read(self.place(file.node), offset, length).await?,
            Body::Logical(logical) => logical.read(offset, length).await?,
        };
        Ok(bytes)
    }

    /// Writes to an open file.
    pub async fn write(&self, request: u64, handle: u64, offset: u64, data: Bytes) -> Answer<()> {
        if self.past.done.contains_key(&request) {
            return Ok(());
        }
        let (file, appends) = self.file(handle)?;
        // For an append, ignore the kernel's offset: its length of the file may be out of date.
        let at = (!appends).then_some(offset);
        match &file.body {
            Body::Plain(plain) => plain.write(self.place(file.node), at, data, request).await?,
            Body::Logical(logical) => logical.write(at, data, request).await?,
        }
        lock(&self.nodes).forget_version(file.node);
        Ok(())
    }

    /// A program closes one of its descriptors. Makes its bytes visible to other hosts, and reports errors.
    pub async fn flush(&self, handle: u64) -> Answer<()> {
        let (file, writes) = match lock(&self.handles).get(&handle) {
            Some(Handle::File { file, writes, .. }) => (file.clone(), *writes),
            _ => return Err(Fault(EBADF)),
        };
        if !writes {
            return Ok(());
        }
        let level = match &file.body {
            Body::Plain(_) => Level::Closed,
            Body::Logical(_) => Level::Synced,
        };
        self.settle_file(&file, level).await
    }

    /// Puts an open file's bytes on stable storage.
    pub async fn fsync(&self, handle: u64) -> Answer<()> {
        let (file, _) = self.file(handle)?;
        self.settle_file(&file, Level::Synced).await
    }

    /// Releases a handle.
    pub async fn release(&self, number: u64) {
        let handle = lock(&self.handles).remove(&number);
        match handle {
            Some(Handle::File { file, .. }) => self.release_file(&file).await,
            Some(Handle::Directory(_, node)) => lock(&self.nodes).use_less(node),
            None => {}
        }
        self.ledger.no_handle(number);
    }

    async fn release_file(&self, file: &File) {
        // Errors were reported when its descriptors were closed. Settle before the last handle is removed:
        // when the mount ends, it waits only for files that still have handles.
        if self.has_one_handle(file) {
            let _ = self.settle_file(file, Level::Closed).await;
        }
        if self.closed(file) {
            let _ = self.settle_file(file, Level::Closed).await; // two handles may have been released at once
            self.remove_hidden(file.node).await;
        }
        lock(&self.nodes).use_less(file.node);
    }

    /// Removes a hidden file once no program has it open. A hidden file of another mount stays: a program
    /// there still has it open.
    pub(super) async fn remove_hidden(&self, node: u64) {
        if !lock(&self.hidden).contains_key(&node) {
            return;
        }
        let Some(mut entry) = lock(&self.nodes).entry(node) else { return };
        // While this waits, the file may be opened, or moved out of a directory that is removed.
        let _changes = loop {
            let changes = self.change(&[(entry.0, &*entry.1)]).await;
            match lock(&self.nodes).entry(node) {
                Some(now) if now != entry => entry = now,
                Some(_) => break changes,
                None => return,
            }
        };
        let (parent, name) = (entry.0, &*entry.1);
        if !self.open_files(node).is_empty() || lock(&self.nodes).find(parent, name) != Some(node) {
            return;
        }
        let Some(who) = lock(&self.hidden).get(&node).cloned() else { return };
        let Ok(path) = self.path(node) else { return };
        // Only files are hidden, so a directory is a container. One without a mark is what remains after a
        // process was killed while it removed the container.
        self.remove_left(&who, &path).await;
        lock(&self.hidden).remove(&node);
        self.ledger.not_hidden(node);
        lock(&self.nodes).unlink(parent, name);
    }
}
