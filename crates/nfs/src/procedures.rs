//! The procedures of NFS version 3 (RFC 1813, section 3.3).
//!
//! Replies to changes have no attributes from before the change, since no store returns them atomically with
//! the change. Clients then ask for the attributes again.

use crate::attributes::{at_creation, size};
use crate::fault::{Answer, Fault};
use crate::listing::{OWN, PARENT};
use crate::wire::*;
use crate::writing::Piece;
use crate::{Export, TRANSFER_BYTES};
use bytes::Bytes;
use strait_flexrpc::stub::{Request, ServiceError};
use strait_store::{
    CreateOptions, ErrorKind, FileStatus, MAX_NAME_BYTES, Principal, StorePath, StoreStatus, encoding,
};
use strait_telemetry::seldom;

/// Most zeros that SETATTR appends for a larger size: 64 MiB.
const MOST_ZEROS: u64 = 64 << 20;
/// Most bytes of a page without its entries.
const PAGE_BYTES: usize = 128;
/// Bytes of an entry without name and handle: in READDIR, and, with attributes, in READDIRPLUS.
const ITEM_BYTES: usize = 24;
const ITEM_PLUS_BYTES: usize = ITEM_BYTES + 88 + 8;
/// Preferred size of a page of a directory.
const PAGE_PREFERRED_BYTES: u32 = 64 << 10;
/// Precision of times: stores keep them in milliseconds.
const PRECISION: N3Time = N3Time { seconds: 0, nanoseconds: 1_000_000 };

/// The procedures that change something: SETATTR, WRITE, CREATE, MKDIR, REMOVE, RMDIR, RENAME. Executing such
/// a call twice could fail, or undo a later change of another client.
pub const CHANGES: [u32; 7] = [2, 7, 8, 9, 12, 13, 14];

/// Settings that change nothing.
pub const NOTHING: N3Settings = N3Settings {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    accessed: N3SetTime::Default(N3Set::Nothing),
    modified: N3SetTime::Default(N3Set::Nothing),
};

const UNKNOWN: N3Change = N3Change { before: None, after: None };

/// An entry of a directory's page.
struct Listed<'l> {
    cookie: u64,
    name: Vec<u8>,
    path: StorePath,
    /// None for the parent directory, whose status isn't read.
    status: Option<&'l FileStatus>,
}

impl Export {
    /// Executes `work` of a call as the call's user, on the calling thread.
    pub fn answer<T>(&self, call: &Request, work: impl AsyncFnOnce(&Principal) -> Answer<T>) -> Answer<T> {
        let who = self.callers.principal(call)?;
        let Some(_turn) = self.turns.take(call) else { return Err(Fault(N3Status::Jukebox)) };
        self.runtime.block_on(work(&who))
    }

    async fn path(&self, who: &Principal, handle: &N3Handle<'_>) -> Answer<StorePath> {
        self.handles.path(&*self.store, who, handle).await
    }

    /// The path and the status of a handle's object, which must exist.
    async fn object(&self, who: &Principal, handle: &N3Handle<'_>) -> Answer<(StorePath, FileStatus)> {
        let path = self.path(who, handle).await?;
        let status = self.status(who, &path).await.map_err(Fault::of_object)?;
        Ok((path, status))
    }

    async fn directory(&self, who: &Principal, handle: &N3Handle<'_>) -> Answer<(StorePath, FileStatus)> {
        let (path, status) = self.object(who, handle).await?;
        if status.is_directory() { Ok((path, status)) } else { Err(Fault(N3Status::Notdir)) }
    }

    /// For an entry to make or remove: its directory's path and status, and the entry's path.
    async fn entry(&self, who: &Principal, at: &N3Entry<'_>) -> Answer<(StorePath, FileStatus, StorePath)> {
        let (directory, status) = self.directory(who, &at.directory).await?;
        let path = child(&directory, at.name.as_bytes())?;
        Ok((directory, status, path))
    }

    /// Whether a user is surely allowed to write an object, whatever the user's groups are. Only such a
    /// user's call closes another user's writer. If the groups matter, the store decides.
    pub fn may_write(&self, who: &Principal, status: &FileStatus) -> bool {
        self.callers.sure_bits(who, status, self.capabilities.permissions) & 2 != 0
    }

    async fn lookup(&self, who: &Principal, at: &N3Entry<'_>) -> Answer<(StorePath, FileStatus)> {
        let directory = self.path(who, &at.directory).await?;
        let path = match at.name.as_bytes() {
            b"." => directory.clone(),
            b".." => self.parent(&directory),
            name => child(&directory, name)?,
        };
        match self.status(who, &path).await {
            Ok(status) => Ok((path, status)),
            Err(Fault(N3Status::Noent)) => {
                // If the directory is gone, too, its handle is stale.
                self.directory(who, &at.directory).await?;
                Err(Fault(N3Status::Noent))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The parent directory. For the export, it is the export itself.
    fn parent(&self, directory: &StorePath) -> StorePath {
        let above = directory.parent().filter(|_| directory != self.handles.root());
        above.unwrap_or_else(|| directory.clone())
    }

    /// The reply for a new entry. Sets the attributes that couldn't be set at its creation.
    async fn made(&self, who: &Principal, path: &StorePath, left: &N3Settings) -> Answer<N3Made<'static>> {
        let mut status = self.status(who, path).await?;
        if self.set(who, path, &status, left).await? {
            status = self.status(who, path).await?;
        }
        Ok(N3Made {
            handle: Some(self.handles.of(path)?.into()),
            attributes: Some(self.attributes(path, &status)),
            directory: UNKNOWN,
        })
    }

    /// The status of an entry to make, if it exists already.
    async fn taken(&self, who: &Principal, path: &StorePath) -> Answer<Option<FileStatus>> {
        // Refuse a path that has no handle: clients couldn't use the entry.
        self.handles.of(path)?;
        match self.status(who, path).await {
            Ok(status) => Ok(Some(status)),
            Err(Fault(N3Status::Noent)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn create(&self, who: &Principal, create: &N3Create<'_>) -> Answer<N3Made<'static>> {
        let (directory, _, path) = self.entry(who, &create.at).await?;
        let (set, made_by) = match &create.how {
            N3CreateHow::Unchecked(set) | N3CreateHow::Guarded(set) => (set, None),
            N3CreateHow::Exclusive(verifier) => (&NOTHING, Some(*verifier)),
        };
        match (self.taken(who, &path).await?, &create.how, made_by) {
            (None, ..) => {
                let (permission, left) = at_creation(set);
                self.writings.create(who, &path, permission, made_by).await?;
                self.listings.forget(&directory);
                self.made(who, &path, &left).await
            }
            (Some(file), N3CreateHow::Unchecked(set), _) if !file.is_directory() => {
                // The other settings are those of a new file.
                if let Some(size) = size(set)? {
                    self.resize(who, &path, size).await?;
                }
                self.made(who, &path, &NOTHING).await
            }
            (_, _, Some(verifier)) if self.writings.was_made_by(&path, verifier).await => {
                self.made(who, &path, &NOTHING).await
            }
            _ => Err(Fault(N3Status::Exist)),
        }
    }

    async fn mkdir(&self, who: &Principal, mkdir: &N3Mkdir<'_>) -> Answer<N3Made<'static>> {
        let (directory, _, path) = self.entry(who, &mkdir.at).await?;
        if self.taken(who, &path).await?.is_some() {
            return Err(Fault(N3Status::Exist));
        }
        let (permission, left) = at_creation(&mkdir.set);
        self.store.mkdirs(who, &path, permission).await?;
        self.listings.forget(&directory);
        self.made(who, &path, &left).await
    }

    async fn setattr(&self, who: &Principal, set: &N3Setattr<'_>) -> Answer<N3Change> {
        let (path, before) = self.object(who, &set.object).await?;
        if set.guard.as_ref().is_some_and(|guard| *guard != self.attributes(&path, &before).changed) {
            return Err(Fault(N3Status::NotSync));
        }
        if let Some(size) = size(&set.set)? {
            self.resize(who, &path, size).await.map_err(Fault::of_object)?;
        }
        self.set(who, &path, &before, &set.set).await.map_err(Fault::of_object)?;
        let status = self.status(who, &path).await.map_err(Fault::of_object)?;
        Ok(N3Change { before: None, after: Some(self.attributes(&path, &status)) })
    }

    /// Sets a file's length.
    async fn resize(&self, who: &Principal, path: &StorePath, size: u64) -> Answer<()> {
        let before = self.status(who, path).await?;
        self.writings.close(who, path, self.may_write(who, &before)).await?;
        if self.writings.end(path).is_some() {
            // Another user is writing the file, and this user isn't surely allowed to write it.
            return Err(Fault(N3Status::Jukebox));
        }
        let status = self.store.stat(who, path).await?;
        if status.is_directory() {
            return Err(Fault(N3Status::Isdir));
        }
        if size > status.length {
            return self.extend(who, path, status.length, size).await;
        }
        if size < status.length && self.capabilities.truncate {
            self.store.truncate(who, path, size).await?;
        } else if size == 0 && status.length > 0 {
            let permission = Some(status.permission);
            let options = CreateOptions { overwrite: true, permission, ..CreateOptions::default() };
            self.store.create(who, path, &options).await?.close().await?;
        } else if size < status.length {
            seldom!(warn, "setattr {path}: this store can't shorten files");
            return Err(Fault(N3Status::Notsupp));
        }
        self.readings.forget_below(path);
        Ok(())
    }

    async fn extend(&self, who: &Principal, path: &StorePath, from: u64, to: u64) -> Answer<()> {
        if to - from > MOST_ZEROS {
            seldom!(warn, "setattr {path}: refused to append {} zeros: stores have no holes", to - from);
            return Err(Fault(N3Status::Fbig));
        }
        let zeros = Bytes::from(vec![0; TRANSFER_BYTES.min((to - from) as usize)]);
        let mut at = from;
        while at < to {
            let piece = zeros.slice(..zeros.len().min((to - at) as usize));
            let length = piece.len() as u64;
            let piece = Piece { offset: at, data: piece, stable: N3Stable::Not };
            self.writings.write(who, path, piece, |status| self.may_write(who, status)).await?;
            at += length;
        }
        self.writings.close(who, path, false).await
    }

    async fn read(&self, who: &Principal, read: &N3Read<'_>) -> Answer<N3Bytes<'static>> {
        let path = self.path(who, &read.file).await?;
        let length = (read.count as usize).min(TRANSFER_BYTES);
        let Some(end) = read.offset.checked_add(length as u64) else { return Err(Fault(N3Status::Inval)) };
        if self.writings.has_another(who, &path).await {
            // Check first that this user can read the file. Only then flush the other user's writer.
            self.readings.check(who, &path).await.map_err(Fault::of_object)?;
        }
        let shown = self.writings.show(who, &path, end).await?;
        if shown {
            self.readings.forget_below(&path);
        }
        let written = self.writings.end(&path);
        let mut read_bytes = self.readings.read(who, &path, read.offset, length).await;
        let is_behind = |(data, _): &(Bytes, bool)| {
            data.len() < length && written.is_some_and(|written| read.offset + (data.len() as u64) < written)
        };
        if read_bytes.as_ref().is_ok_and(is_behind) {
            // The open reader is from before this server's latest writes.
            self.readings.forget_below(&path);
            read_bytes = self.readings.read(who, &path, read.offset, length).await;
        }
        let (data, at_end) = read_bytes.map_err(Fault::of_object)?;
        // The file isn't at its end if this server has written bytes that readers don't see yet.
        let end = read.offset + data.len() as u64;
        let at_end = at_end && self.writings.end(&path).is_none_or(|written| end >= written);
        Ok(N3Bytes { attributes: None, count: data.len() as u32, at_end, data: data.into() })
    }

    async fn write(&self, who: &Principal, write: N3Write<'_>) -> Answer<N3Written> {
        let path = self.path(who, &write.file).await?;
        let data = write.data.into_bytes();
        let data = data.slice(..data.len().min(write.count as usize));
        let count = data.len() as u32;
        if write.offset > i64::MAX as u64 - u64::from(count) {
            return Err(Fault(N3Status::Fbig));
        }
        // Get the verifier before the write. If the bytes are lost before the reply, the client then sees
        // that the verifier has changed.
        let verifier = self.writings.verifier(&path);
        let piece = Piece { offset: write.offset, data, stable: write.stable };
        let written = self.writings.write(who, &path, piece, |status| self.may_write(who, status)).await;
        let stable = written.map_err(Fault::of_object)?;
        Ok(N3Written { file: UNKNOWN, count, stable, verifier })
    }

    async fn commit(&self, who: &Principal, commit: &N3Commit<'_>) -> Answer<N3Committed> {
        let path = self.path(who, &commit.file).await?;
        self.writings.commit(who, &path).await.map_err(Fault::of_object)?;
        let status = self.status(who, &path).await.map_err(Fault::of_object)?;
        let file = N3Change { before: None, after: Some(self.attributes(&path, &status)) };
        Ok(N3Committed { file, verifier: self.writings.verifier(&path) })
    }

    async fn remove(&self, who: &Principal, at: &N3Entry<'_>, directories: bool) -> Answer<()> {
        let (directory, above, path) = self.entry(who, at).await?;
        let status = self.status(who, &path).await?;
        match (status.is_directory(), directories) {
            (true, false) => return Err(Fault(N3Status::Isdir)),
            (false, true) => return Err(Fault(N3Status::Notdir)),
            _ => {}
        }
        let may = self.may_move(who, &above, &status);
        self.let_go(who, may, &path).await;
        let removed = self.store.remove(who, &path, false).await;
        if removed.is_ok() && !may {
            self.let_go(who, true, &path).await;
        }
        self.listings.forget(&directory);
        Ok(removed?)
    }

    async fn rename(&self, who: &Principal, rename: &N3Rename<'_>) -> Answer<()> {
        let (old, old_status, from) = self.entry(who, &rename.from).await?;
        let (new, new_status, to) = self.entry(who, &rename.to).await?;
        self.handles.of(&to)?;
        if from == to {
            return self.status(who, &from).await.map(drop);
        }
        let moved = self.status(who, &from).await?;
        let replaced = self.status(who, &to).await.ok();
        let may = self.may_move(who, &old_status, &moved)
            && self.may_move(who, &new_status, replaced.as_ref().unwrap_or(&moved));
        self.let_go(who, may, &from).await;
        self.let_go(who, may, &to).await;
        let renamed = self.store.rename(who, &from, &to, true).await;
        if renamed.is_ok() && !may {
            self.let_go(who, true, &from).await;
            self.let_go(who, true, &to).await;
        }
        self.listings.forget(&old);
        self.listings.forget(&new);
        Ok(renamed?)
    }

    /// Whether a user is surely allowed to remove an entry from a directory, whatever the user's groups are.
    fn may_move(&self, who: &Principal, directory: &FileStatus, entry: &FileStatus) -> bool {
        let is_sticky = directory.permission & 0o1000 != 0;
        let owns = |status: &FileStatus| *who.user == *status.owner || &*who.user == "root";
        self.may_write(who, directory) && (!is_sticky || owns(directory) || owns(entry))
    }

    /// Closes the open files at and below a path, before the path is removed or renamed. Without `all`,
    /// closes only the files that `who` writes, so that the call doesn't disturb other users' writers.
    async fn let_go(&self, who: &Principal, all: bool, path: &StorePath) {
        self.writings.close_below(path, |writer| all || writer.user == who.user).await;
        if all {
            self.readings.forget_below(path);
        }
    }

    /// Passes the entries of a directory after `cookie` to `add`, until `add` has no room. Returns the
    /// directory's attributes, and whether all entries were passed.
    async fn list(
        &self,
        who: &Principal,
        handle: &N3Handle<'_>,
        cookie: u64,
        mut add: impl FnMut(Listed<'_>) -> Answer<bool>,
    ) -> Answer<(N3Attributes, bool)> {
        let (directory, status) = self.directory(who, handle).await?;
        let attributes = self.attributes(&directory, &status);
        let above = self.parent(&directory);
        let itself = if above == directory { Some(&status) } else { None };
        for (own, name, path, status) in
            [(OWN, b".".to_vec(), directory.clone(), Some(&status)), (PARENT, b"..".to_vec(), above, itself)]
        {
            if cookie < own && !add(Listed { cookie: own, name, path, status })? {
                return Ok((attributes, false));
            }
        }
        let listed = self.listings.after(&*self.store, who, &directory, cookie).await;
        let run = listed.map_err(Fault::of_object)?;
        for (number, entry) in run.entries.range(cookie.saturating_add(1)..) {
            // Skip names of the store that clients couldn't ask for.
            let Ok(path) = StorePath::parse(&entry.path) else { continue };
            let Some(name) = encoding::decode(path.name()) else { continue };
            let listed =
                Listed { cookie: *number, name: name.into_owned(), path: path.clone(), status: Some(entry) };
            if !add(listed)? {
                return Ok((attributes, false));
            }
        }
        Ok((attributes, run.at_end))
    }

    async fn readdir(&self, who: &Principal, wanted: &N3Readdir<'_>) -> Answer<N3Page<'static>> {
        let mut room = (wanted.bytes as usize).min(TRANSFER_BYTES).saturating_sub(PAGE_BYTES);
        let mut items = Vec::new();
        let add = |listed: Listed<'_>| {
            let bytes = ITEM_BYTES + listed.name.len().next_multiple_of(4);
            let Some(left) = room.checked_sub(bytes) else { return full(items.is_empty()) };
            room = left;
            let fileid = self.handles.fileid(&listed.path);
            items.push(N3Item { fileid, name: listed.name.into(), cookie: listed.cookie });
            Ok(true)
        };
        let (directory, at_end) = self.list(who, &wanted.directory, wanted.cookie, add).await?;
        Ok(N3Page { directory: Some(directory), verifier: [0; 8], items, at_end })
    }

    async fn readdirplus(&self, who: &Principal, wanted: &N3Readdirplus<'_>) -> Answer<N3PagePlus<'static>> {
        let mut room = (wanted.bytes as usize).min(TRANSFER_BYTES).saturating_sub(PAGE_BYTES);
        let mut names_room = wanted.name_bytes as usize;
        let mut items: Vec<N3ItemPlus<'static>> = Vec::new();
        let add = |listed: Listed<'_>| {
            // If the path has no handle, the client gets the error when it looks the entry up.
            let handle = self.handles.of(&listed.path).ok();
            let named = ITEM_BYTES + listed.name.len().next_multiple_of(4);
            let bytes = named - ITEM_BYTES
                + ITEM_PLUS_BYTES
                + handle.as_ref().map_or(0, |handle| handle.len().next_multiple_of(4));
            let Some(left) = room.checked_sub(bytes) else { return full(items.is_empty()) };
            if named > names_room && !items.is_empty() {
                return Ok(false);
            }
            (room, names_room) = (left, names_room.saturating_sub(named));
            items.push(N3ItemPlus {
                fileid: self.handles.fileid(&listed.path),
                name: listed.name.into(),
                cookie: listed.cookie,
                attributes: listed.status.map(|status| self.listed(&listed.path, status)),
                handle: handle.map(Into::into),
            });
            Ok(true)
        };
        let (directory, at_end) = self.list(who, &wanted.directory, wanted.cookie, add).await?;
        Ok(N3PagePlus { directory: Some(directory), verifier: [0; 8], items, at_end })
    }

    async fn access(&self, who: &Principal, access: &N3Access<'_>) -> Answer<N3Allowed> {
        let (path, status) = self.object(who, &access.object).await?;
        let bits = self.callers.bits(who, &status, self.capabilities.permissions);
        let mut allowed = if bits & 4 != 0 { N3_ACCESS_READ } else { 0 };
        if bits & 2 != 0 {
            allowed |= N3_ACCESS_MODIFY | N3_ACCESS_EXTEND | N3_ACCESS_DELETE;
        }
        if bits & 1 != 0 {
            allowed |= if status.is_directory() { N3_ACCESS_LOOKUP } else { N3_ACCESS_EXECUTE };
        }
        let attributes = Some(self.attributes(&path, &status));
        Ok(N3Allowed { attributes, allowed: allowed & access.wanted })
    }

    async fn capacity(&self, who: &Principal, root: &N3Handle<'_>) -> Answer<N3Capacity> {
        let (path, status) = self.object(who, root).await?;
        let capacity = match self.store.status(who).await {
            Ok(capacity) => capacity,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                StoreStatus { capacity: 0, used: 0, remaining: 0, settling: false }
            }
            Err(error) => return Err(error.into()),
        };
        Ok(N3Capacity {
            attributes: Some(self.attributes(&path, &status)),
            bytes: capacity.capacity,
            free_bytes: capacity.remaining,
            available_bytes: capacity.remaining,
            files: 0,
            free_files: 0,
            available_files: 0,
            constant: 0,
        })
    }
}

/// Ends a full page. If not even one entry fits, the client's page size is too small.
fn full(is_empty: bool) -> Answer<bool> {
    if is_empty { Err(Fault(N3Status::Toosmall)) } else { Ok(false) }
}

/// The path of a directory's entry.
fn child(directory: &StorePath, name: &[u8]) -> Answer<StorePath> {
    if name.len() > MAX_NAME_BYTES {
        return Err(Fault(N3Status::Nametoolong));
    }
    directory.join(&encoding::encode(name)).map_err(|_| Fault(N3Status::Inval))
}

impl NfsV3Service for Export {
    fn n3_getattr(
        &self,
        call: &Request,
        object: N3Handle<'static>,
    ) -> Result<N3AttributesResult, ServiceError> {
        let found = self.answer(call, async |who| self.object(who, &object).await);
        Ok(match found {
            Ok((path, status)) => N3AttributesResult::Ok(self.attributes(&path, &status)),
            Err(Fault(status)) => N3AttributesResult::Default(status),
        })
    }

    fn n3_setattr(&self, call: &Request, set: N3Setattr<'static>) -> Result<N3ChangeResult, ServiceError> {
        let set = self.answer(call, async |who| self.setattr(who, &set).await);
        Ok(match set {
            Ok(change) => N3ChangeResult { status: N3Status::Ok, change },
            Err(Fault(status)) => N3ChangeResult { status, change: UNKNOWN },
        })
    }

    fn n3_lookup(&self, call: &Request, at: N3Entry<'static>) -> Result<N3LookupResult<'_>, ServiceError> {
        let found = self.answer(call, async |who| {
            let (path, status) = self.lookup(who, &at).await?;
            let attributes = Some(self.attributes(&path, &status));
            Ok(N3Found { object: self.handles.of(&path)?.into(), attributes, directory: None })
        });
        Ok(match found {
            Ok(found) => N3LookupResult::Ok(found.into()),
            Err(Fault(status)) => N3LookupResult::Default(status, None),
        })
    }

    fn n3_access(&self, call: &Request, access: N3Access<'static>) -> Result<N3AccessResult, ServiceError> {
        Ok(match self.answer(call, async |who| self.access(who, &access).await) {
            Ok(allowed) => N3AccessResult::Ok(allowed),
            Err(Fault(status)) => N3AccessResult::Default(status, None),
        })
    }

    /// Always fails: no store has symbolic links.
    fn n3_readlink(
        &self,
        call: &Request,
        link: N3Handle<'static>,
    ) -> Result<N3ReadlinkResult<'_>, ServiceError> {
        let found = self.answer(call, async |who| self.object(who, &link).await);
        Ok(N3ReadlinkResult::Default(found.map_or_else(|fault| fault.0, |_| N3Status::Inval), None))
    }

    fn n3_read(&self, call: &Request, read: N3Read<'static>) -> Result<N3ReadResult<'_>, ServiceError> {
        Ok(match self.answer(call, async |who| self.read(who, &read).await) {
            Ok(bytes) => N3ReadResult::Ok(bytes),
            Err(Fault(status)) => N3ReadResult::Default(status, None),
        })
    }

    fn n3_write(&self, call: &Request, write: N3Write<'static>) -> Result<N3WriteResult, ServiceError> {
        Ok(match self.answer(call, async |who| self.write(who, write).await) {
            Ok(written) => N3WriteResult::Ok(written),
            Err(Fault(status)) => N3WriteResult::Default(status, UNKNOWN),
        })
    }

    fn n3_create(&self, call: &Request, create: N3Create<'static>) -> Result<N3MadeResult<'_>, ServiceError> {
        Ok(made(self.answer(call, async |who| self.create(who, &create).await)))
    }

    fn n3_mkdir(&self, call: &Request, mkdir: N3Mkdir<'static>) -> Result<N3MadeResult<'_>, ServiceError> {
        Ok(made(self.answer(call, async |who| self.mkdir(who, &mkdir).await)))
    }

    fn n3_symlink(&self, _: &Request, _: N3Symlink<'static>) -> Result<N3MadeResult<'_>, ServiceError> {
        Ok(made(Err(Fault(N3Status::Notsupp))))
    }

    fn n3_mknod(&self, _: &Request, _: N3Mknod<'static>) -> Result<N3MadeResult<'_>, ServiceError> {
        Ok(made(Err(Fault(N3Status::Notsupp))))
    }

    fn n3_remove(&self, call: &Request, at: N3Entry<'static>) -> Result<N3ChangeResult, ServiceError> {
        let removed = self.answer(call, async |who| self.remove(who, &at, false).await);
        Ok(N3ChangeResult { status: status(removed), change: UNKNOWN })
    }

    fn n3_rmdir(&self, call: &Request, at: N3Entry<'static>) -> Result<N3ChangeResult, ServiceError> {
        let removed = self.answer(call, async |who| self.remove(who, &at, true).await);
        Ok(N3ChangeResult { status: status(removed), change: UNKNOWN })
    }

    fn n3_rename(&self, call: &Request, rename: N3Rename<'static>) -> Result<N3RenameResult, ServiceError> {
        let renamed = self.answer(call, async |who| self.rename(who, &rename).await);
        let changes = N3Renamed { from: UNKNOWN, to: UNKNOWN };
        Ok(N3RenameResult { status: status(renamed), renamed: changes })
    }

    fn n3_link(&self, _: &Request, _: N3Link<'static>) -> Result<N3LinkResult, ServiceError> {
        let linked = N3Linked { file: None, directory: UNKNOWN };
        Ok(N3LinkResult { status: N3Status::Notsupp, linked })
    }

    fn n3_readdir(
        &self,
        call: &Request,
        wanted: N3Readdir<'static>,
    ) -> Result<N3ReaddirResult<'_>, ServiceError> {
        Ok(match self.answer(call, async |who| self.readdir(who, &wanted).await) {
            Ok(page) => N3ReaddirResult::Ok(page),
            Err(Fault(status)) => N3ReaddirResult::Default(status, None),
        })
    }

    fn n3_readdirplus(
        &self,
        call: &Request,
        wanted: N3Readdirplus<'static>,
    ) -> Result<N3ReaddirplusResult<'_>, ServiceError> {
        Ok(match self.answer(call, async |who| self.readdirplus(who, &wanted).await) {
            Ok(page) => N3ReaddirplusResult::Ok(page),
            Err(Fault(status)) => N3ReaddirplusResult::Default(status, None),
        })
    }

    fn n3_fsstat(&self, call: &Request, root: N3Handle<'static>) -> Result<N3FsstatResult, ServiceError> {
        Ok(match self.answer(call, async |who| self.capacity(who, &root).await) {
            Ok(capacity) => N3FsstatResult::Ok(capacity),
            Err(Fault(status)) => N3FsstatResult::Default(status, None),
        })
    }

    fn n3_fsinfo(&self, call: &Request, root: N3Handle<'static>) -> Result<N3FsinfoResult, ServiceError> {
        let found = self.answer(call, async |who| self.object(who, &root).await);
        let most = TRANSFER_BYTES as u32;
        let times = if self.capabilities.times { N3_CAN_SET_TIME } else { 0 };
        Ok(match found {
            Ok((path, status)) => N3FsinfoResult::Ok(N3Limits {
                attributes: Some(self.attributes(&path, &status)),
                read_most: most,
                read_preferred: most,
                read_multiple: 4_096,
                write_most: most,
                write_preferred: most,
                write_multiple: 4_096,
                page_preferred: PAGE_PREFERRED_BYTES,
                file_most: i64::MAX as u64,
                precision: PRECISION,
                properties: N3_IS_HOMOGENEOUS | times,
            }),
            Err(Fault(status)) => N3FsinfoResult::Default(status, None),
        })
    }

    fn n3_pathconf(
        &self,
        call: &Request,
        object: N3Handle<'static>,
    ) -> Result<N3PathconfResult, ServiceError> {
        let found = self.answer(call, async |who| self.object(who, &object).await);
        Ok(match found {
            Ok((path, status)) => N3PathconfResult::Ok(N3Names {
                attributes: Some(self.attributes(&path, &status)),
                links_most: 1,
                name_most: MAX_NAME_BYTES as u32,
                refuses_long_names: true,
                restricts_chown: true,
                ignores_case: false,
                preserves_case: true,
            }),
            Err(Fault(status)) => N3PathconfResult::Default(status, None),
        })
    }

    fn n3_commit(&self, call: &Request, commit: N3Commit<'static>) -> Result<N3CommitResult, ServiceError> {
        Ok(match self.answer(call, async |who| self.commit(who, &commit).await) {
            Ok(committed) => N3CommitResult::Ok(committed),
            Err(Fault(status)) => N3CommitResult::Default(status, UNKNOWN),
        })
    }
}

fn made(made: Answer<N3Made<'static>>) -> N3MadeResult<'static> {
    match made {
        Ok(made) => N3MadeResult::Ok(made.into()),
        Err(Fault(status)) => N3MadeResult::Default(status, UNKNOWN),
    }
}

fn status(done: Answer<()>) -> N3Status {
    done.map_or_else(|fault| fault.0, |()| N3Status::Ok)
}
