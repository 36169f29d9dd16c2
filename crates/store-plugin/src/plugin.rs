//! A library with the functions of `strait_store.h`, in this process.
//!
//! A plugin can crash the process that it runs in. Otherwise it isn't trusted: its results are checked.

use crate::abi::{
    ABI, CAttributes, CCaller, CChecksum, CCreate, CError, CStatus, END, Functions, Handle, MESSAGE_BYTES,
    NAME_BYTES, OWNER_BYTES, REMOVES_TREES,
};
use crate::wire::capabilities;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_store::foreign::{Foreign, Listing, Reader, Writer, absent};
use strait_store::{
    BlockLocation, Capabilities, Checksum, CreateOptions, Error, ErrorKind, FileStatus, FileType, Principal,
    Result, SetAttributes, StoreStatus, fail,
};

/// Entries per portion of a listing.
const PORTION_ENTRIES: usize = 256;
/// A portion ends after this time, so that a slow plugin's directories don't take longer than a call may.
const PORTION_TIME: Duration = Duration::from_millis(500);
/// Longest file that a plugin can report. Larger numbers are errors of the plugin, and would overflow.
const MAX_FILE_BYTES: u64 = i64::MAX as u64;
/// Largest capacity of a store: the largest that the gateway's interface has.
const MAX_STORE_BYTES: u64 = i64::MAX as u64;
/// Most blocks of one answer: a petabyte in blocks of 128 MiB.
const MAX_BLOCKS: usize = 8 << 20;
/// Most hosts of a block.
const MAX_HOSTS: usize = 64;

/// An open plugin.
pub struct Plugin {
    inner: Arc<Inner>,
}

struct Inner {
    store: Address,
    functions: Functions,
    abilities: Capabilities,
    removes_trees: bool,
}

/// A pointer that belongs to the plugin.
#[derive(Clone, Copy)]
struct Address(Handle);
// SAFETY: the header allows each handle in any thread, but a listing or writer in one thread at a time.
unsafe impl Send for Address {}
// SAFETY: as above; listings and writers are only borrowed exclusively here.
unsafe impl Sync for Address {}

impl Plugin {
    /// Loads the library, and opens the file system of `uri`.
    ///
    /// # Errors
    /// InvalidArgument if there is no such library, or it isn't a plugin for this version of the header;
    /// else the plugin's error.
    pub fn open(library: &Path, uri: &str, options: &[(String, String)]) -> Result<Self> {
        let wrong = |why: String| {
            Error::new(ErrorKind::InvalidArgument, format!("plugin {}: {why}", library.display()))
        };
        // All symbols at once: a missing one would otherwise end the process at the first call.
        // SAFETY: loading runs the library's initializers. The operator named it, and vouches for it.
        let loaded = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) };
        // The library stays loaded: its threads, and destructors of its thread-local values, may outlive
        // the store.
        let loaded = loaded.map_err(|error| wrong(format!("can't be loaded: {}", reason(&error))))?;
        let loaded = ManuallyDrop::new(loaded);
        // SAFETY: the header gives this type to the symbol.
        let entry =
            unsafe { loaded.get::<unsafe extern "C" fn() -> *const Functions>(b"strait_store_plugin\0") };
        let entry = entry
            .map_err(|_| wrong("it has no function strait_store_plugin, so it isn't a plugin".into()))?;
        // SAFETY: as declared.
        let table = unsafe { entry() };
        if table.is_null() {
            return Err(wrong("strait_store_plugin returns no table".into()));
        }
        // SAFETY: a table of any version begins with these two numbers.
        let (abi, size) = unsafe { (*table.cast::<u32>(), *table.cast::<u32>().add(1)) };
        if abi != ABI {
            return Err(wrong(format!("it has version {abi} of strait_store.h, not {ABI}; rebuild it")));
        }
        if (size as usize) < size_of::<Functions>() {
            return Err(wrong(format!(
                "its table has {size} bytes, not {}; rebuild it with this version's strait_store.h",
                size_of::<Functions>()
            )));
        }
        // SAFETY: the table has at least this size.
        let functions = unsafe { *table };
        // The operator gave this name to the plugin.
        let name = uri.split("://").next().unwrap_or_default();
        let named = |error: Error| Error::new(error.kind(), format!("plugin {name}: {}", error.message()));
        let store = open_store(&functions, uri, options).map_err(named)?;
        // If a function is missing, dropping `inner` closes the store.
        let mut inner =
            Inner { store: Address(store), functions, abilities: capabilities(0, 0), removes_trees: false };
        (inner.abilities, inner.removes_trees) = abilities(&functions, store).map_err(named)?;
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// The loader's own words: libloading's error says only which of its functions failed.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn open_store(functions: &Functions, uri: &str, options: &[(String, String)]) -> Result<Handle> {
    let uri = text(uri)?;
    let pairs = options.iter().flat_map(|(key, value)| [key, value]);
    let texts = pairs.map(|word| text(word)).collect::<Result<Vec<_>>>()?;
    let pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
    let mut store = null_mut();
    let open = needed(functions.open_store, "open_store")?;
    // SAFETY: as the header says; the strings live until the call returns.
    checked(|error| unsafe { open(uri.as_ptr(), pointers.as_ptr(), &raw mut store, error) })?;
    Ok(store)
}

/// The capabilities, and whether the plugin removes trees at once.
fn abilities(functions: &Functions, store: Handle) -> Result<(Capabilities, bool)> {
    let bits = needed(functions.capabilities, "capabilities")?;
    // SAFETY: the store is open.
    let bits = unsafe { bits(store) };
    // SAFETY: as above.
    let recovery_ms = functions.recovery_ms.map_or(0, |recovery| unsafe { recovery(store) });
    let abilities = capabilities(bits, recovery_ms);
    let missing = [
        (functions.stat.is_none(), "stat"),
        (functions.list_open.is_none() || functions.list_next.is_none(), "list_open, list_next"),
        (functions.open.is_none() || functions.read.is_none(), "open, read"),
        (functions.create.is_none() || functions.write.is_none(), "create, write"),
        (
            functions.flush.is_none() || functions.sync.is_none() || functions.close.is_none(),
            "flush, sync, close",
        ),
        (functions.rename.is_none(), "rename"),
        (functions.remove.is_none(), "remove"),
        (functions.mkdirs.is_none(), "mkdirs"),
    ];
    if let Some((_, name)) = missing.iter().find(|(is_missing, _)| *is_missing) {
        return fail(ErrorKind::InvalidArgument, format!("the plugin lacks the function {name}"));
    }
    let sets_nothing = functions.set_attributes.is_none();
    let declared = [
        (abilities.append && functions.append.is_none(), "STRAIT_APPEND", "append"),
        (abilities.truncate && functions.truncate.is_none(), "STRAIT_TRUNCATE", "truncate"),
        (
            abilities.block_locations && functions.block_locations.is_none(),
            "STRAIT_BLOCK_LOCATIONS",
            "block_locations",
        ),
        (abilities.checksum && functions.checksum.is_none(), "STRAIT_CHECKSUM", "checksum"),
        (abilities.status && functions.status.is_none(), "STRAIT_STATUS", "status"),
        (abilities.permissions && sets_nothing, "STRAIT_PERMISSIONS", "set_attributes"),
        (abilities.ownership && sets_nothing, "STRAIT_OWNERSHIP", "set_attributes"),
        (abilities.times && sets_nothing, "STRAIT_TIMES", "set_attributes"),
        (abilities.replication && sets_nothing, "STRAIT_REPLICATION", "set_attributes"),
    ];
    match declared.iter().find(|(is_missing, ..)| *is_missing) {
        Some((_, bit, name)) => {
            let why = format!("the plugin declares {bit}, but lacks the function {name}");
            fail(ErrorKind::InvalidArgument, why)
        }
        None => Ok((abilities, bits & REMOVES_TREES != 0)),
    }
}

fn needed<T>(function: Option<T>, name: &str) -> Result<T> {
    function
        .map_or_else(|| fail(ErrorKind::InvalidArgument, format!("the plugin lacks the function {name}")), Ok)
}

fn text(text: &str) -> Result<CString> {
    CString::new(text).or_else(|_| fail(ErrorKind::InvalidArgument, "a path, name or option has a NUL byte"))
}

/// Calls a function, and converts its error.
fn checked(call: impl FnOnce(*mut CError) -> i32) -> Result<()> {
    match ended(call)? {
        0 => Ok(()),
        other => fail(
            ErrorKind::Internal,
            format!("the plugin returned {other}, a result that strait_store.h doesn't allow here"),
        ),
    }
}

/// As [`checked`], but also accepts STRAIT_END. Returns 0 or STRAIT_END.
fn ended(call: impl FnOnce(*mut CError) -> i32) -> Result<i32> {
    let mut error = CError { message: [0; MESSAGE_BYTES] };
    let code = call(&raw mut error);
    if code == 0 || code == END {
        return Ok(code);
    }
    let Some(kind) = ErrorKind::from_thrift(code) else {
        return fail(
            ErrorKind::Internal,
            format!("the plugin returned {code}, a result that strait_store.h doesn't allow here"),
        );
    };
    let message = taken(&error.message);
    fail(kind, if message.is_empty() { usual(kind).to_owned() } else { message })
}

/// The text of an error for which the plugin gives none.
fn usual(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "no such file or directory",
        ErrorKind::AlreadyExists => "the name is taken",
        ErrorKind::NotADirectory => "not a directory",
        ErrorKind::IsADirectory => "it is a directory",
        ErrorKind::NotEmpty => "the directory has entries",
        ErrorKind::PermissionDenied => "no permission",
        ErrorKind::Busy => "it is in use",
        ErrorKind::NoSpace => "no space is left",
        _ => "the plugin gave no reason",
    }
}

/// The text of an array whose final NUL may be missing.
fn taken(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A caller in the header's form, with the texts that its pointers refer to.
struct Caller {
    _texts: Vec<CString>,
    _groups: Vec<*const c_char>,
    caller: CCaller,
}

impl Caller {
    fn of(who: &Principal) -> Result<Self> {
        let user = text(&who.user)?;
        let mut texts = who.groups.iter().map(|group| text(group)).collect::<Result<Vec<_>>>()?;
        let groups: Vec<_> = texts.iter().map(|group| group.as_ptr()).chain([std::ptr::null()]).collect();
        let caller = CCaller { user: user.as_ptr(), groups: groups.as_ptr() };
        texts.push(user);
        Ok(Self { _texts: texts, _groups: groups, caller })
    }
}

fn empty_status() -> CStatus {
    CStatus {
        length: 0,
        block_size: 0,
        modified_ms: 0,
        accessed_ms: 0,
        permission: 0,
        replication: 0,
        directory: 0,
        link: 0,
        owner: [0; OWNER_BYTES],
        group: [0; OWNER_BYTES],
    }
}

fn status_of(path: String, status: &CStatus) -> Result<FileStatus> {
    let impossible = if status.length > MAX_FILE_BYTES {
        Some(format!("length {}", status.length))
    } else if status.block_size > MAX_FILE_BYTES {
        Some(format!("block size {}", status.block_size))
    } else if status.permission > 0o7777 {
        Some(format!("permission {:#o}", status.permission))
    } else {
        None
    };
    if let Some(value) = impossible {
        let why = format!("the plugin returned an impossible {value} for {path}");
        return fail(ErrorKind::Internal, why);
    }
    let directory = status.directory != 0;
    Ok(FileStatus {
        path,
        file_type: if directory { FileType::Directory } else { FileType::File },
        length: if directory { 0 } else { status.length },
        replication: if directory { 0 } else { status.replication.max(1) },
        block_size: if directory { 0 } else { status.block_size.max(1) },
        modified_ms: status.modified_ms,
        accessed_ms: status.accessed_ms,
        permission: status.permission,
        owner: taken(&status.owner),
        group: taken(&status.group),
        link: status.link != 0,
    })
}

impl Inner {
    /// Calls a function with the store, a caller and a path.
    fn at<T>(
        &self,
        function: Option<T>,
        who: &Principal,
        path: &str,
        call: impl FnOnce(T, Handle, *const CCaller, *const c_char, *mut CError) -> i32,
    ) -> Result<()> {
        let Some(function) = function else { return absent() };
        let (caller, path) = (Caller::of(who)?, text(path)?);
        checked(|error| call(function, self.store.0, &raw const caller.caller, path.as_ptr(), error))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(close) = self.functions.close_store {
            // SAFETY: the store is open, and nothing of it is in use: every handle holds this.
            unsafe { close(self.store.0) }
        }
    }
}

impl Foreign for Plugin {
    fn capabilities(&self) -> Capabilities {
        self.inner.abilities
    }

    fn removes_trees(&self) -> bool {
        self.inner.removes_trees
    }

    fn stat(&self, who: &Principal, path: &str) -> Result<FileStatus> {
        let mut status = empty_status();
        // SAFETY: as the header says, here and in each call below.
        self.inner.at(self.inner.functions.stat, who, path, |stat, store, caller, at, error| unsafe {
            stat(store, caller, at, &raw mut status, error)
        })?;
        status_of(path.to_owned(), &status)
    }

    fn list(&self, who: &Principal, path: &str) -> Result<Box<dyn Listing>> {
        let mut listing = null_mut();
        // SAFETY: see above.
        self.inner.at(
            self.inner.functions.list_open,
            who,
            path,
            |list, store, caller, at, error| unsafe { list(store, caller, at, &raw mut listing, error) },
        )?;
        let above = if path == "/" { String::new() } else { path.to_owned() };
        Ok(Box::new(PluginListing {
            plugin: self.inner.clone(),
            listing: Address(listing),
            above,
            ended: false,
        }))
    }

    fn open(&self, who: &Principal, path: &str) -> Result<Arc<dyn Reader>> {
        let (mut reader, mut length) = (null_mut(), 0);
        // SAFETY: see above.
        self.inner.at(self.inner.functions.open, who, path, |open, store, caller, at, error| unsafe {
            open(store, caller, at, &raw mut reader, &raw mut length, error)
        })?;
        let reader = PluginReader { plugin: self.inner.clone(), reader: Address(reader), length };
        match length > MAX_FILE_BYTES {
            true => fail(ErrorKind::Internal, "the plugin returned an impossible length"),
            false => Ok(Arc::new(reader)),
        }
    }

    fn create(&self, who: &Principal, path: &str, how: &CreateOptions) -> Result<Box<dyn Writer>> {
        let how = CCreate {
            overwrite: how.overwrite.into(),
            has_permission: how.permission.is_some().into(),
            replication: how.replication.unwrap_or(0),
            permission: how.permission.unwrap_or(0),
            block_size: how.block_size.unwrap_or(0),
        };
        let mut writer = null_mut();
        // SAFETY: see above.
        self.inner.at(self.inner.functions.create, who, path, |create, store, caller, at, error| unsafe {
            create(store, caller, at, &raw const how, &raw mut writer, error)
        })?;
        Ok(Box::new(PluginWriter { plugin: self.inner.clone(), writer: Address(writer), begins_at: 0 }))
    }

    fn append(&self, who: &Principal, path: &str) -> Result<Box<dyn Writer>> {
        if !self.inner.abilities.append {
            return absent();
        }
        let (mut writer, mut begins_at) = (null_mut(), 0);
        // SAFETY: see above.
        self.inner.at(self.inner.functions.append, who, path, |append, store, caller, at, error| unsafe {
            append(store, caller, at, &raw mut writer, &raw mut begins_at, error)
        })?;
        let writer = PluginWriter { plugin: self.inner.clone(), writer: Address(writer), begins_at };
        match begins_at > MAX_FILE_BYTES {
            true => fail(ErrorKind::Internal, "the plugin returned an impossible position"),
            false => Ok(Box::new(writer)),
        }
    }

    fn truncate(&self, who: &Principal, path: &str, length: u64) -> Result<()> {
        if !self.inner.abilities.truncate {
            return absent();
        }
        if length > MAX_FILE_BYTES {
            return fail(ErrorKind::InvalidArgument, "the length is too large for a file");
        }
        // SAFETY: see above.
        self.inner.at(self.inner.functions.truncate, who, path, |cut, store, caller, at, error| unsafe {
            cut(store, caller, at, length, error)
        })
    }

    fn rename(&self, who: &Principal, from: &str, to: &str, replace: bool) -> Result<()> {
        if replace && !self.inner.abilities.rename_replace {
            return absent();
        }
        let to = text(to)?;
        // SAFETY: see above.
        self.inner.at(self.inner.functions.rename, who, from, |rename, store, caller, at, error| unsafe {
            rename(store, caller, at, to.as_ptr(), replace.into(), error)
        })
    }

    fn remove(&self, who: &Principal, path: &str, recursive: bool) -> Result<()> {
        // SAFETY: see above.
        self.inner.at(self.inner.functions.remove, who, path, |remove, store, caller, at, error| unsafe {
            remove(store, caller, at, recursive.into(), error)
        })
    }

    fn mkdirs(&self, who: &Principal, path: &str, permission: Option<u32>) -> Result<()> {
        let permission = permission.map_or(-1, i64::from);
        // SAFETY: see above.
        self.inner.at(self.inner.functions.mkdirs, who, path, |mkdirs, store, caller, at, error| unsafe {
            mkdirs(store, caller, at, permission, error)
        })
    }

    fn set_attributes(&self, who: &Principal, path: &str, set: &SetAttributes) -> Result<()> {
        let can = self.inner.abilities;
        let lacks = set.permission.is_some() && !can.permissions
            || (set.owner.is_some() || set.group.is_some()) && !can.ownership
            || (set.modified_ms.is_some() || set.accessed_ms.is_some()) && !can.times
            || set.replication.is_some() && !can.replication;
        if lacks {
            return absent();
        }
        if set.permission.is_some_and(|bits| bits > 0o7777) {
            return fail(ErrorKind::InvalidArgument, "invalid mode: the maximum is 7777");
        }
        let owner = set.owner.as_deref().map(text).transpose()?;
        let group = set.group.as_deref().map(text).transpose()?;
        let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        let attributes = CAttributes {
            has_permission: set.permission.is_some().into(),
            has_modified: set.modified_ms.is_some().into(),
            has_accessed: set.accessed_ms.is_some().into(),
            has_replication: set.replication.is_some().into(),
            permission: set.permission.unwrap_or(0),
            replication: set.replication.unwrap_or(0),
            modified_ms: set.modified_ms.unwrap_or(0),
            accessed_ms: set.accessed_ms.unwrap_or(0),
            owner: pointer(&owner),
            group: pointer(&group),
        };
        let function = self.inner.functions.set_attributes;
        // SAFETY: see above.
        self.inner.at(function, who, path, |change, store, caller, at, error| unsafe {
            change(store, caller, at, &raw const attributes, error)
        })
    }

    fn block_locations(&self, who: &Principal, path: &str, range: Range<u64>) -> Result<Vec<BlockLocation>> {
        if !self.inner.abilities.block_locations {
            return absent();
        }
        let mut blocks: Vec<BlockLocation> = Vec::new();
        let length = range.end.saturating_sub(range.start);
        let context = (&raw mut blocks).cast::<c_void>();
        let function = self.inner.functions.block_locations;
        // SAFETY: see above; the callback runs within the call only.
        self.inner.at(function, who, path, |locate, store, caller, at, error| unsafe {
            locate(store, caller, at, range.start, length, take_block, context, error)
        })?;
        match blocks.iter().any(|block| block.offset.checked_add(block.length).is_none()) {
            true => fail(ErrorKind::Internal, "the plugin returned impossible blocks"),
            false => Ok(blocks),
        }
    }

    fn checksum(&self, who: &Principal, path: &str) -> Result<Checksum> {
        if !self.inner.abilities.checksum {
            return absent();
        }
        let mut sum = CChecksum { kind: [0; 64], value: [0; 64], size: 0 };
        // SAFETY: see above; the arrays have the header's sizes.
        self.inner.at(self.inner.functions.checksum, who, path, |sums, store, caller, at, error| unsafe {
            sums(store, caller, at, sum.kind.as_mut_ptr(), sum.value.as_mut_ptr(), &raw mut sum.size, error)
        })?;
        match sum.value.get(..sum.size) {
            Some(value) => Ok(Checksum { algorithm: taken(&sum.kind), value: value.to_vec() }),
            None => fail(ErrorKind::Internal, "the plugin returned a checksum of an impossible size"),
        }
    }

    fn status(&self, _who: &Principal) -> Result<StoreStatus> {
        let Some(status) = self.inner.functions.status.filter(|_| self.inner.abilities.status) else {
            return absent();
        };
        let (mut capacity, mut used, mut remaining) = (0, 0, 0);
        // SAFETY: see above.
        checked(|error| unsafe {
            status(self.inner.store.0, &raw mut capacity, &raw mut used, &raw mut remaining, error)
        })?;
        // A plugin without a limit may report the largest number.
        let [capacity, used, remaining] =
            [capacity, used, remaining].map(|bytes: u64| bytes.min(MAX_STORE_BYTES));
        Ok(StoreStatus { capacity, used, remaining, settling: false })
    }

    fn about(&self) -> Result<Option<String>> {
        let name = match self.inner.functions.name.is_null() {
            true => "without a name".into(),
            // SAFETY: the header says that it is a text.
            false => unsafe { CStr::from_ptr(self.inner.functions.name) }.to_string_lossy(),
        };
        Ok(Some(format!("plugin {name}, for version {ABI} of strait_store.h")))
    }
}

/// Stores one block. `context` is the vector of blocks.
unsafe extern "C" fn take_block(context: *mut c_void, offset: u64, length: u64, hosts: *const *const c_char) {
    // SAFETY: the plugin passes the context that it got, during the call that gave it.
    let blocks = unsafe { &mut *context.cast::<Vec<BlockLocation>>() };
    if blocks.len() >= MAX_BLOCKS || hosts.is_null() {
        return;
    }
    let mut names = Vec::new();
    for index in 0..MAX_HOSTS {
        // SAFETY: the array ends with NULL, at which this stops; each entry ends with NUL.
        let host = unsafe { *hosts.add(index) };
        if host.is_null() {
            break;
        }
        // SAFETY: as above.
        names.push(unsafe { CStr::from_ptr(host) }.to_string_lossy().into_owned());
    }
    blocks.push(BlockLocation { offset, length, hosts: names, addresses: Vec::new(), corrupt: false });
}

/// A name of a listing: UTF-8 with a NUL behind it, without a slash.
fn listed_name(array: &[c_char; NAME_BYTES]) -> Result<String> {
    let bytes = array.map(|c| c as u8);
    let name = CStr::from_bytes_until_nul(&bytes).ok().and_then(|name| name.to_str().ok());
    match name.filter(|name| !name.is_empty() && !name.contains('/') && *name != "." && *name != "..") {
        Some(name) => Ok(name.to_owned()),
        None => {
            let shown = taken(array);
            fail(ErrorKind::Internal, format!("the plugin listed an invalid name: {shown:?}"))
        }
    }
}

struct PluginListing {
    plugin: Arc<Inner>,
    listing: Address,
    /// The directory's path, without a slash at its end.
    above: String,
    ended: bool,
}

impl Listing for PluginListing {
    fn next(&mut self) -> Result<Vec<FileStatus>> {
        let next = needed(self.plugin.functions.list_next, "list_next")?;
        let (mut entries, began) = (Vec::new(), Instant::now());
        let is_full = |entries: &Vec<FileStatus>| {
            entries.len() == PORTION_ENTRIES || (!entries.is_empty() && began.elapsed() > PORTION_TIME)
        };
        while !self.ended && !is_full(&entries) {
            let (mut name, mut status) = ([0; NAME_BYTES], empty_status());
            // SAFETY: the listing is open, and borrowed by this call alone.
            let code =
                ended(|error| unsafe { next(self.listing.0, name.as_mut_ptr(), &raw mut status, error) })?;
            if code == END {
                self.ended = true;
                break;
            }
            let name = listed_name(&name)?;
            entries.push(status_of(format!("{}/{name}", self.above), &status)?);
        }
        Ok(entries)
    }
}

impl Drop for PluginListing {
    fn drop(&mut self) {
        if let Some(close) = self.plugin.functions.list_close {
            // SAFETY: the listing is open, and nothing uses it.
            unsafe { close(self.listing.0) }
        }
    }
}

struct PluginReader {
    plugin: Arc<Inner>,
    reader: Address,
    length: u64,
}

impl Reader for PluginReader {
    fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>> {
        let read = needed(self.plugin.functions.read, "read")?;
        // If a plugin reports more bytes than it wrote, the caller gets zeros, not this process's memory.
        let mut bytes = vec![0; size];
        let mut got = 0;
        // SAFETY: the reader is open, and the vector has room for `size` bytes.
        checked(|error| unsafe {
            read(self.reader.0, offset, bytes.as_mut_ptr().cast(), size, &raw mut got, error)
        })?;
        if got > size {
            let why = format!("the plugin returned {got} bytes, but {size} were requested");
            return fail(ErrorKind::Internal, why);
        }
        bytes.truncate(got);
        Ok(bytes)
    }

    fn length(&self) -> u64 {
        self.length
    }
}

impl Drop for PluginReader {
    fn drop(&mut self) {
        if let Some(close) = self.plugin.functions.close_reader {
            // SAFETY: the reader is open, and nothing uses it.
            unsafe { close(self.reader.0) }
        }
    }
}

struct PluginWriter {
    plugin: Arc<Inner>,
    writer: Address,
    begins_at: u64,
}

impl Writer for PluginWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let write = needed(self.plugin.functions.write, "write")?;
        // SAFETY: the writer is open, and borrowed by this call alone.
        checked(|error| unsafe { write(self.writer.0, bytes.as_ptr().cast(), bytes.len(), error) })
    }

    fn flush(&mut self) -> Result<()> {
        let flush = needed(self.plugin.functions.flush, "flush")?;
        // SAFETY: as above.
        checked(|error| unsafe { flush(self.writer.0, error) })
    }

    fn sync(&mut self) -> Result<()> {
        let sync = needed(self.plugin.functions.sync, "sync")?;
        // SAFETY: as above.
        checked(|error| unsafe { sync(self.writer.0, error) })
    }

    fn close(&mut self) -> Result<()> {
        let close = needed(self.plugin.functions.close, "close")?;
        // SAFETY: as above.
        checked(|error| unsafe { close(self.writer.0, error) })
    }

    fn begins_at(&self) -> u64 {
        self.begins_at
    }
}

impl Drop for PluginWriter {
    fn drop(&mut self) {
        if let Some(release) = self.plugin.functions.release {
            // SAFETY: the writer is the plugin's, and nothing uses it.
            unsafe { release(self.writer.0) }
        }
    }
}
