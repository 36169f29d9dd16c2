//! Any library with the interface of Hadoop's hdfs.h, as a file system: Hadoop's own, which starts a JVM,
//! vendors' clients, or Strait's.
//!
//! ```text
//!   HdfsLibrary (Foreign: calls that block) ── symbols ── libhdfs.so ── its cluster
//! ```
//!
//! hdfs.h offers less than Strait needs. It can't create a file exclusively. So this crate renames an empty
//! file to the new name, which exactly one caller can do, and then appends to it. Its rename moves a file
//! *into* an existing directory. So the renames of a process take turns, and check the new name first. It
//! lists only whole directories.
//!
//! This room must never: load a library that a client named; trust a result of a library; run a library that
//! starts a JVM in a gateway's process, unless the gateway's operator asks for it.

mod symbols;

use std::collections::hash_map::RandomState;
use std::ffi::{CStr, CString, c_char, c_int, c_short};
use std::hash::BuildHasher;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::null;
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::foreign::{Foreign, Listing, Reader, Writer, absent};
use strait_store::{
    BlockLocation, Capabilities, CreateOptions, Error, ErrorKind, FileStatus, FileType, Principal, Result,
    SetAttributes, StoreStatus, arguments, fail,
};
use symbols::{File, FileInfo, Fs, Symbols};

/// Entries per portion of a listing.
const PORTION_ENTRIES: usize = 256;
/// Most entries of a directory. A larger number is an error of the library.
const MAX_ENTRIES: i32 = 100_000_000;
/// Most hosts of a block.
const MAX_HOSTS: usize = 64;
const O_RDONLY: c_int = 0;
const O_WRONLY: c_int = 1;
const O_APPEND: c_int = 0o2000;
/// The errno of hdfs.h for an unknown reason (EINTERNAL).
const EINTERNAL: i32 = 255;

/// A connected library.
pub struct HdfsLibrary {
    inner: Arc<Inner>,
}

struct Inner {
    symbols: Symbols,
    fs: Address,
    /// Locked while a new name is checked and then given, since hdfs.h's rename may move into a directory.
    naming: Mutex<()>,
}

/// A pointer of the library, which hdfs.h lets any thread use.
struct Address(*mut std::ffi::c_void);
// SAFETY: hdfs.h allows several threads to use a file system or file.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl HdfsLibrary {
    /// Loads the library, and connects to `uri`, such as `hdfs://namenode:8020`. Options are `user`, and
    /// settings of Hadoop's configuration.
    ///
    /// # Errors
    /// InvalidArgument if the file isn't such a library; else the library's error.
    pub fn open(library: &Path, uri: &str, options: &[(String, String)]) -> Result<Self> {
        let symbols = Symbols::load(library)?;
        let fs = connect(&symbols, uri, options).map_err(|error| {
            Error::new(error.kind(), format!("library {}: {}", library.display(), error.message()))
        })?;
        if fs.is_null() {
            let why = format!("the library can't connect to {uri}: {}", io::Error::last_os_error());
            return fail(
                ErrorKind::Unavailable,
                format!("{why}; see its output, CLASSPATH and LD_LIBRARY_PATH"),
            );
        }
        Ok(Self { inner: Arc::new(Inner { symbols, fs: Address(fs), naming: Mutex::default() }) })
    }
}

fn connect(symbols: &Symbols, uri: &str, options: &[(String, String)]) -> Result<Fs> {
    let whole = text(uri)?;
    let builder = (symbols.new_builder, symbols.set_name_node, symbols.connect_builder);
    let (Some(new), Some(name_node), Some(connect)) = builder else { return connect_by_host(symbols, uri) };
    // SAFETY: as hdfs.h declares them; the texts live until the connection is made. The connection frees
    // the builder.
    let builder = unsafe { new() };
    if builder.is_null() {
        return fail(ErrorKind::NoSpace, "it can't make a builder");
    }
    let texts = options.iter().map(|(key, value)| Ok((key.as_str(), text(key)?, text(value)?)));
    let texts = texts.collect::<Result<Vec<_>>>()?;
    // SAFETY: as above.
    unsafe { name_node(builder, whole.as_ptr()) };
    for (key, name, value) in &texts {
        match (*key, symbols.set_user, symbols.set_string) {
            // SAFETY: as above.
            ("user", Some(set), _) => unsafe { set(builder, value.as_ptr()) },
            // SAFETY: as above.
            (_, _, Some(set)) => drop(unsafe { set(builder, name.as_ptr(), value.as_ptr()) }),
            _ => {}
        }
    }
    // SAFETY: as above.
    Ok(unsafe { connect(builder) })
}

/// Connects as clients of Hadoop 0.20 do.
fn connect_by_host(symbols: &Symbols, uri: &str) -> Result<Fs> {
    let Some(connect) = symbols.connect else {
        return fail(
            ErrorKind::InvalidArgument,
            "it isn't a usable libhdfs: it has neither hdfsConnect, nor all of hdfsNewBuilder, \
             hdfsBuilderSetNameNode and hdfsBuilderConnect",
        );
    };
    let authority = uri.split_once("://").map_or(uri, |(_, authority)| authority);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().unwrap_or(0)),
        None => (authority, 0),
    };
    let host = text(if host.is_empty() { "default" } else { host })?;
    // SAFETY: as hdfs.h declares it.
    Ok(unsafe { connect(host.as_ptr(), port) })
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: it is connected, and nothing of it is in use: every file holds this.
        unsafe { (self.symbols.disconnect)(self.fs.0) };
    }
}

fn text(text: &str) -> Result<CString> {
    CString::new(text).or_else(|_| fail(ErrorKind::InvalidArgument, "a path, name or option has a NUL byte"))
}

/// The error of the call that just returned on this thread.
fn last_error() -> Error {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(EINTERNAL) | Some(0) | None => {
            Error::new(ErrorKind::Internal, "the library gives no reason; see its output")
        }
        _ => Error::from(error),
    }
}

fn done(code: c_int) -> Result<()> {
    if code >= 0 { Ok(()) } else { Err(last_error()) }
}

/// A text of the library. Empty for NULL.
///
/// # Safety
/// `text` is NULL, or ends with a NUL.
unsafe fn taken(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees this.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Converts the status of `path`.
///
/// # Safety
/// The library filled `info`.
unsafe fn status_of(info: &FileInfo, path: String) -> Result<FileStatus> {
    if info.size < 0 || info.block_size < 0 {
        return fail(
            ErrorKind::Internal,
            format!("the library returned a negative size or block size for {path}"),
        );
    }
    let directory = info.kind == c_int::from(b'D');
    // SAFETY: the caller guarantees this.
    let (owner, group) = unsafe { (taken(info.owner), taken(info.group)) };
    Ok(FileStatus {
        path,
        file_type: if directory { FileType::Directory } else { FileType::File },
        length: if directory { 0 } else { info.size as u64 },
        replication: if directory { 0 } else { info.replication.max(1) as u16 },
        block_size: if directory { 0 } else { info.block_size.max(1) as u64 },
        modified_ms: info.modified.saturating_mul(1_000),
        accessed_ms: info.accessed.saturating_mul(1_000),
        permission: u32::from(info.permissions as u16) & 0o7777,
        owner,
        group,
        link: false,
    })
}

impl Inner {
    fn stat(&self, path: &str) -> Result<FileStatus> {
        let name = text(path)?;
        // SAFETY: as hdfs.h declares it, here and in each call below.
        let info = unsafe { (self.symbols.path_info)(self.fs.0, name.as_ptr()) };
        if info.is_null() {
            return Err(last_error());
        }
        // SAFETY: the library filled one entry.
        let status = unsafe { status_of(&*info, path.to_owned()) };
        // SAFETY: it is freed once.
        unsafe { (self.symbols.free_info)(info, 1) };
        status
    }

    fn find(&self, path: &str) -> Result<Option<FileStatus>> {
        match self.stat(path) {
            Ok(status) => Ok(Some(status)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            // Some libraries give no reason if the path is beneath a file.
            Err(error) if error.kind() == ErrorKind::Internal && self.check_parents(path).is_err() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Fails if a directory above the path is a file.
    fn check_parents(&self, path: &str) -> Result<()> {
        for above in parents(path) {
            match self.stat(above) {
                Ok(status) if status.is_directory() => return Ok(()),
                Ok(_) => return fail(ErrorKind::NotADirectory, "a directory above it is a file"),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn list(&self, path: &str) -> Result<Vec<FileStatus>> {
        let name = text(path)?;
        let mut count = 0;
        set_errno_zero();
        // SAFETY: as above.
        let infos = unsafe { (self.symbols.list_directory)(self.fs.0, name.as_ptr(), &raw mut count) };
        if infos.is_null() {
            // The result is NULL for an empty directory, too.
            return match io::Error::last_os_error().raw_os_error() {
                Some(0) | None => Ok(Vec::new()),
                _ => Err(last_error()),
            };
        }
        if !(0..=MAX_ENTRIES).contains(&count) {
            return fail(ErrorKind::Internal, "the library returned an impossible number of entries");
        }
        let above = path.trim_end_matches('/');
        // SAFETY: the library filled `count` entries.
        let entries = unsafe { std::slice::from_raw_parts(infos, count as usize) };
        let entries = entries.iter().map(|info| {
            // SAFETY: as above.
            let name = unsafe { taken(info.name) };
            let name = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            if matches!(name, "" | "." | "..") {
                return fail(ErrorKind::Internal, "the library listed an invalid name");
            }
            // SAFETY: as above.
            unsafe { status_of(info, format!("{above}/{name}")) }
        });
        let entries = entries.collect();
        // SAFETY: they are freed once.
        unsafe { (self.symbols.free_info)(infos, count) };
        entries
    }

    fn open(self: &Arc<Self>, path: &str, flags: c_int, how: &CreateOptions) -> Result<OpenFile> {
        let name = text(path)?;
        let replication = how.replication.map_or(0, |count| count.min(c_short::MAX as u16) as c_short);
        let block_size = how.block_size.map_or(0, |bytes| i32::try_from(bytes).unwrap_or(0));
        // SAFETY: as above. Zeros mean the defaults.
        let file =
            unsafe { (self.symbols.open_file)(self.fs.0, name.as_ptr(), flags, 0, replication, block_size) };
        match file.is_null() {
            true => Err(last_error()),
            false => Ok(OpenFile { library: self.clone(), file: Address(file) }),
        }
    }

    /// Makes an empty file under a free name. Exactly one of several callers succeeds.
    fn reserve(self: &Arc<Self>, path: &str, how: &CreateOptions) -> Result<()> {
        let random = RandomState::new().hash_one(path);
        let (above, _) = path.rsplit_once('/').unwrap_or_default();
        let temporary = format!("{above}/.strait-put-{random:016x}");
        self.open(&temporary, O_WRONLY, how)?.close()?;
        let renamed = self.rename(&temporary, path);
        if renamed.is_err() {
            let _ = self.delete(&temporary, true);
        }
        renamed
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let _naming = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        if self.find(to)?.is_some() {
            return fail(ErrorKind::AlreadyExists, "the new name is taken");
        }
        let (old, new) = (text(from)?, text(to)?);
        // SAFETY: as above.
        let renamed = done(unsafe { (self.symbols.rename)(self.fs.0, old.as_ptr(), new.as_ptr()) });
        renamed.map_err(|error| match self.find(to) {
            Ok(Some(_)) => Error::new(ErrorKind::AlreadyExists, "the new name is taken"),
            _ => error,
        })
    }

    fn delete(&self, path: &str, recursive: bool) -> Result<()> {
        let name = text(path)?;
        // SAFETY: as above.
        done(unsafe { (self.symbols.delete)(self.fs.0, name.as_ptr(), recursive.into()) })
    }

    fn chmod(&self, path: &str, permission: u32) -> Result<()> {
        if permission > 0o7777 {
            return fail(ErrorKind::InvalidArgument, "invalid mode: the maximum is 7777");
        }
        let (Some(chmod), name) = (self.symbols.chmod, text(path)?) else { return absent() };
        // SAFETY: as above.
        done(unsafe { chmod(self.fs.0, name.as_ptr(), permission as c_short) })
    }

    fn chown(&self, path: &str, owner: Option<&str>, group: Option<&str>) -> Result<()> {
        let (Some(chown), name) = (self.symbols.chown, text(path)?) else { return absent() };
        let (owner, group) = (owner.map(text).transpose()?, group.map(text).transpose()?);
        let pointer = |text: &Option<CString>| text.as_ref().map_or(null(), |text| text.as_ptr());
        // SAFETY: as above; NULL leaves one as it is.
        done(unsafe { chown(self.fs.0, name.as_ptr(), pointer(&owner), pointer(&group)) })
    }
}

/// The paths above this one, the nearest first.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(above(path), |path| above(path))
}

fn above(path: &str) -> Option<&str> {
    match path.rfind('/') {
        Some(0) if path.len() > 1 => Some("/"),
        Some(at) if at > 0 => Some(&path[..at]),
        _ => None,
    }
}

/// Clears errno, so that an empty listing can be distinguished from an error.
fn set_errno_zero() {
    // SAFETY: the address is this thread's own.
    unsafe { *errno_location() = 0 }
}

unsafe extern "C" {
    #[cfg_attr(target_os = "macos", link_name = "__error")]
    #[cfg_attr(not(target_os = "macos"), link_name = "__errno_location")]
    safe fn errno_location() -> *mut c_int;
}

impl Foreign for HdfsLibrary {
    fn removes_trees(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        let symbols = &self.inner.symbols;
        Capabilities {
            append: true,
            truncate: false,
            concat: false,
            rename_replace: false,
            atomic_rename: true,
            permissions: symbols.chmod.is_some(),
            ownership: symbols.chown.is_some(),
            // hdfs.h has only whole seconds.
            times: false,
            replication: symbols.set_replication.is_some(),
            block_locations: symbols.hosts.is_some(),
            checksum: false,
            status: true,
            visible_while_written: symbols.hflush.is_some(),
            // The store refuses a second writer, but hdfs.h doesn't report the reason.
            exclusive_writer: false,
            per_user: false,
            recovery_ms: 90_000,
        }
    }

    fn stat(&self, _who: &Principal, path: &str) -> Result<FileStatus> {
        self.inner.stat(path).map_err(|error| match error.kind() {
            ErrorKind::Internal if self.inner.check_parents(path).is_err() => {
                Error::new(ErrorKind::NotADirectory, "a directory above it is a file")
            }
            _ => error,
        })
    }

    fn list(&self, who: &Principal, path: &str) -> Result<Box<dyn Listing>> {
        if !self.stat(who, path)?.is_directory() {
            return fail(ErrorKind::NotADirectory, "it is a file");
        }
        let mut entries = self.inner.list(path)?;
        entries.reverse();
        Ok(Box::new(Entries(entries)))
    }

    fn open(&self, who: &Principal, path: &str) -> Result<Arc<dyn Reader>> {
        let status = self.stat(who, path)?;
        if status.is_directory() {
            return fail(ErrorKind::IsADirectory, "it is a directory");
        }
        let file = self.inner.open(path, O_RDONLY, &CreateOptions::default())?;
        // A reader of a file that is being written may see more bytes than its status reports.
        let symbols = &self.inner.symbols;
        // SAFETY: the file is open.
        let seen =
            symbols.available.map_or(0, |available| unsafe { available(self.inner.fs.0, file.file.0) });
        let length = status.length.max(u64::try_from(seen).unwrap_or(0));
        Ok(Arc::new(LibraryReader { file, length }))
    }

    fn create(&self, _who: &Principal, path: &str, how: &CreateOptions) -> Result<Box<dyn Writer>> {
        match self.inner.find(path)? {
            Some(status) if status.is_directory() || !how.overwrite => {
                return fail(ErrorKind::AlreadyExists, "the name is taken");
            }
            _ => self.inner.check_parents(path)?,
        }
        let file = match how.overwrite {
            true => self.inner.open(path, O_WRONLY, how)?,
            false => {
                self.inner.reserve(path, how)?;
                self.inner.open(path, O_WRONLY | O_APPEND, how)?
            }
        };
        if let Some(permission) = how.permission {
            self.inner.chmod(path, permission)?;
        }
        Ok(Box::new(LibraryWriter { file: Some(file), begins_at: 0 }))
    }

    fn append(&self, who: &Principal, path: &str) -> Result<Box<dyn Writer>> {
        let status = self.stat(who, path)?;
        if status.is_directory() {
            return fail(ErrorKind::IsADirectory, "it is a directory");
        }
        let file = self.inner.open(path, O_WRONLY | O_APPEND, &CreateOptions::default());
        // The likely cause is the lease of another writer; hdfs.h doesn't report it.
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::Internal => {
                Error::new(ErrorKind::Busy, "it can't be opened to append; another writer may have it open")
            }
            _ => error,
        })?;
        // SAFETY: the file is open.
        let begins_at = unsafe { (self.inner.symbols.tell)(self.inner.fs.0, file.file.0) };
        let begins_at = u64::try_from(begins_at).map_or(status.length, |at| at.max(status.length));
        Ok(Box::new(LibraryWriter { file: Some(file), begins_at }))
    }

    fn truncate(&self, _: &Principal, _: &str, _: u64) -> Result<()> {
        absent()
    }

    fn rename(&self, who: &Principal, from: &str, to: &str, replace: bool) -> Result<()> {
        if replace {
            return absent();
        }
        if from == "/" {
            return fail(ErrorKind::InvalidArgument, "the root can't be renamed");
        }
        let source = self.stat(who, from)?;
        let within = to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/'));
        if within && source.is_directory() {
            return Err(arguments::into_itself());
        }
        if self.inner.find(to)?.is_none() {
            self.inner.check_parents(to)?;
            if above(to).is_some_and(|parent| self.inner.find(parent).is_ok_and(|found| found.is_none())) {
                return fail(ErrorKind::NotFound, "the parent of the new name doesn't exist");
            }
        }
        self.inner.rename(from, to)
    }

    fn remove(&self, who: &Principal, path: &str, recursive: bool) -> Result<()> {
        let status = self.stat(who, path)?;
        // hdfsDelete of 0.20 always removes the whole directory. So this checks for entries itself.
        if status.is_directory() && !recursive && !self.inner.list(path)?.is_empty() {
            return fail(ErrorKind::NotEmpty, "the directory has entries");
        }
        self.inner.delete(path, recursive)
    }

    fn mkdirs(&self, _who: &Principal, path: &str, permission: Option<u32>) -> Result<()> {
        match self.inner.find(path)? {
            Some(status) if status.is_directory() => return Ok(()),
            Some(_) => return fail(ErrorKind::AlreadyExists, "a file has this name"),
            None => self.inner.check_parents(path)?,
        }
        let name = text(path)?;
        // SAFETY: as above.
        done(unsafe { (self.inner.symbols.create_directory)(self.inner.fs.0, name.as_ptr()) })?;
        permission.map_or(Ok(()), |permission| self.inner.chmod(path, permission))
    }

    fn set_attributes(&self, who: &Principal, path: &str, set: &SetAttributes) -> Result<()> {
        if set.modified_ms.is_some() || set.accessed_ms.is_some() {
            return absent();
        }
        self.stat(who, path)?;
        if let Some(permission) = set.permission {
            self.inner.chmod(path, permission)?;
        }
        if set.owner.is_some() || set.group.is_some() {
            self.inner.chown(path, set.owner.as_deref(), set.group.as_deref())?;
        }
        match (set.replication, self.inner.symbols.set_replication, text(path)?) {
            (None, ..) => Ok(()),
            // SAFETY: as above.
            (Some(count), Some(set), name) => {
                done(unsafe { set(self.inner.fs.0, name.as_ptr(), count as i16) })
            }
            _ => absent(),
        }
    }

    fn block_locations(&self, who: &Principal, path: &str, range: Range<u64>) -> Result<Vec<BlockLocation>> {
        let (Some(hosts), Some(free)) = (self.inner.symbols.hosts, self.inner.symbols.free_hosts) else {
            return absent();
        };
        let status = self.stat(who, path)?;
        let end = range.end.min(status.length);
        if range.start >= end {
            return Ok(Vec::new());
        }
        let first = range.start / status.block_size * status.block_size;
        let name = text(path)?;
        // SAFETY: as above.
        let found = unsafe { hosts(self.inner.fs.0, name.as_ptr(), first as i64, (end - first) as i64) };
        if found.is_null() {
            return Err(last_error());
        }
        let mut blocks = Vec::new();
        let mut offset = first;
        while offset < end {
            let length = status.block_size.min(status.length - offset);
            // SAFETY: `found` has one list per block, and ends with NULL. So does each list of texts.
            let Some(names) = (unsafe { host_names(found, blocks.len()) }) else { break };
            blocks.push(BlockLocation {
                offset,
                length,
                hosts: names,
                addresses: Vec::new(),
                corrupt: false,
            });
            offset += status.block_size;
        }
        // SAFETY: it is freed once.
        unsafe { free(found) };
        Ok(blocks)
    }

    fn status(&self, _who: &Principal) -> Result<StoreStatus> {
        // SAFETY: as above.
        let (capacity, used) = unsafe {
            ((self.inner.symbols.capacity)(self.inner.fs.0), (self.inner.symbols.used)(self.inner.fs.0))
        };
        let (Ok(capacity), Ok(used)) = (u64::try_from(capacity), u64::try_from(used)) else {
            return Err(last_error());
        };
        Ok(StoreStatus { capacity, used, remaining: capacity.saturating_sub(used), settling: false })
    }

    /// hdfs.h has no version. The functions show which one it is.
    fn about(&self) -> Result<Option<String>> {
        let symbols = &self.inner.symbols;
        let functions = match (symbols.new_builder, symbols.hsync) {
            (None, _) => "of version 0.20: without hdfsNewBuilder",
            (_, None) => "with hdfsNewBuilder, without hdfsHSync",
            _ => "with hdfsNewBuilder and hdfsHSync",
        };
        Ok(Some(format!("a library for hdfs.h {functions}")))
    }
}

/// The hosts of one block. None after the last block.
///
/// # Safety
/// hdfsGetHosts returned `found`, and the blocks before this one are in it.
unsafe fn host_names(found: *mut *mut *mut c_char, block: usize) -> Option<Vec<String>> {
    // SAFETY: the caller guarantees this.
    let list = unsafe { *found.add(block) };
    if list.is_null() {
        return None;
    }
    let mut names = Vec::new();
    for index in 0..MAX_HOSTS {
        // SAFETY: the list ends with NULL, at which this stops.
        let host = unsafe { *list.add(index) };
        if host.is_null() {
            break;
        }
        // SAFETY: a text.
        names.push(unsafe { taken(host) });
    }
    Some(names)
}

/// The remaining entries of a directory, in reverse order.
struct Entries(Vec<FileStatus>);

impl Listing for Entries {
    fn next(&mut self) -> Result<Vec<FileStatus>> {
        let rest = self.0.len().saturating_sub(PORTION_ENTRIES);
        let mut portion = self.0.split_off(rest);
        portion.reverse();
        Ok(portion)
    }
}

struct OpenFile {
    library: Arc<Inner>,
    file: Address,
}

impl OpenFile {
    fn close(self) -> Result<()> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the file is open, and this is its last use.
        let closed = done(unsafe { (this.library.symbols.close_file)(this.library.fs.0, this.file.0) });
        // SAFETY: `this` isn't used afterwards, and has no destructor.
        drop(unsafe { std::ptr::read(&raw const this.library) });
        closed
    }

    fn call(&self, function: unsafe extern "C" fn(Fs, File) -> c_int) -> Result<()> {
        // SAFETY: the file is open.
        done(unsafe { function(self.library.fs.0, self.file.0) })
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // SAFETY: the file is open, and this is its last use.
        unsafe { (self.library.symbols.close_file)(self.library.fs.0, self.file.0) };
    }
}

struct LibraryReader {
    file: OpenFile,
    length: u64,
}

impl Reader for LibraryReader {
    fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>> {
        let library = &self.file.library;
        // HDFS refuses a read past the end.
        let size = (size as u64).min(self.length.saturating_sub(offset)) as usize;
        // If a library reports more bytes than it wrote, the caller gets zeros, not this process's memory.
        let mut bytes = vec![0; size];
        let mut filled = 0;
        while filled < size {
            let rest = &mut bytes[filled..];
            let (wanted, into) = (rest.len().min(i32::MAX as usize), rest.as_mut_ptr());
            let at = (offset + filled as u64) as i64;
            // SAFETY: the file is open, and `rest` has room for the wanted bytes.
            let read = unsafe {
                (library.symbols.pread)(library.fs.0, self.file.file.0, at, into.cast(), wanted as i32)
            };
            match usize::try_from(read) {
                Ok(0) => break,
                Ok(read) if read <= wanted => filled += read,
                Ok(_) => {
                    return fail(ErrorKind::Internal, "the library returned more bytes than requested");
                }
                Err(_) => return Err(last_error()),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn length(&self) -> u64 {
        self.length
    }
}

struct LibraryWriter {
    file: Option<OpenFile>,
    begins_at: u64,
}

impl LibraryWriter {
    fn file(&self) -> Result<&OpenFile> {
        self.file.as_ref().map_or_else(|| fail(ErrorKind::InvalidArgument, "the file is closed"), Ok)
    }
}

impl Writer for LibraryWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let file = self.file()?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = rest.len().min(i32::MAX as usize) as i32;
            let (library, pointer) = (&file.library, rest.as_ptr().cast());
            // SAFETY: the file is open.
            let wrote = unsafe { (library.symbols.write)(library.fs.0, file.file.0, pointer, size) };
            match usize::try_from(wrote) {
                Ok(wrote) if wrote > 0 && wrote <= rest.len() => rest = &rest[wrote..],
                Ok(_) => return fail(ErrorKind::Internal, "the library reported an impossible byte count"),
                Err(_) => return Err(last_error()),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let file = self.file()?;
        file.call(file.library.symbols.hflush.unwrap_or(file.library.symbols.flush))
    }

    fn sync(&mut self) -> Result<()> {
        let file = self.file()?;
        let symbols = &file.library.symbols;
        file.call(symbols.hsync.or(symbols.hflush).unwrap_or(symbols.flush))
    }

    fn close(&mut self) -> Result<()> {
        match self.file.take() {
            Some(file) => file.close(),
            None => Ok(()),
        }
    }

    fn begins_at(&self) -> u64 {
        self.begins_at
    }
}
