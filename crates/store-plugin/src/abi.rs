//! `strait_store.h` in Rust. `tests/header.rs` compiles the header, and compares both.

use std::ffi::{c_char, c_void};

/// STRAIT_STORE_ABI.
pub const ABI: u32 = 1;
/// STRAIT_END.
pub const END: i32 = 100;
pub const MESSAGE_BYTES: usize = 512;
pub const NAME_BYTES: usize = 256;
pub const OWNER_BYTES: usize = 128;
pub const CHECKSUM_BYTES: usize = 64;

/// The capabilities, as bits.
pub const APPEND: u32 = 1 << 0;
pub const TRUNCATE: u32 = 1 << 1;
pub const RENAME_REPLACE: u32 = 1 << 2;
pub const ATOMIC_RENAME: u32 = 1 << 3;
pub const PERMISSIONS: u32 = 1 << 4;
pub const OWNERSHIP: u32 = 1 << 5;
pub const TIMES: u32 = 1 << 6;
pub const REPLICATION: u32 = 1 << 7;
pub const BLOCK_LOCATIONS: u32 = 1 << 8;
pub const CHECKSUM: u32 = 1 << 9;
pub const STATUS: u32 = 1 << 10;
pub const VISIBLE_WHILE_WRITTEN: u32 = 1 << 11;
pub const EXCLUSIVE_WRITER: u32 = 1 << 12;
pub const PER_USER: u32 = 1 << 13;
pub const REMOVES_TREES: u32 = 1 << 14;

#[repr(C)]
pub struct CError {
    pub message: [c_char; MESSAGE_BYTES],
}

#[repr(C)]
pub struct CCaller {
    pub user: *const c_char,
    pub groups: *const *const c_char,
}

#[repr(C)]
pub struct CStatus {
    pub length: u64,
    pub block_size: u64,
    pub modified_ms: i64,
    pub accessed_ms: i64,
    pub permission: u32,
    pub replication: u16,
    pub directory: u8,
    pub link: u8,
    pub owner: [c_char; OWNER_BYTES],
    pub group: [c_char; OWNER_BYTES],
}

#[repr(C)]
pub struct CCreate {
    pub overwrite: u8,
    pub has_permission: u8,
    pub replication: u16,
    pub permission: u32,
    pub block_size: u64,
}

#[repr(C)]
pub struct CAttributes {
    pub has_permission: u8,
    pub has_modified: u8,
    pub has_accessed: u8,
    pub has_replication: u8,
    pub permission: u32,
    pub replication: u16,
    pub modified_ms: i64,
    pub accessed_ms: i64,
    pub owner: *const c_char,
    pub group: *const c_char,
}

pub type Handle = *mut c_void;
type Path = *const c_char;
type Caller = *const CCaller;
pub type BlockFn = unsafe extern "C" fn(*mut c_void, u64, u64, *const *const c_char);
type OnHandle = unsafe extern "C" fn(Handle);
type Steps = unsafe extern "C" fn(Handle, *mut CError) -> i32;

/// The table. A function may be absent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Functions {
    pub abi: u32,
    pub size: u32,
    pub name: *const c_char,
    pub open_store: Option<unsafe extern "C" fn(Path, *const *const c_char, *mut Handle, *mut CError) -> i32>,
    pub close_store: Option<OnHandle>,
    pub capabilities: Option<unsafe extern "C" fn(Handle) -> u32>,
    pub recovery_ms: Option<unsafe extern "C" fn(Handle) -> u32>,
    pub stat: Option<unsafe extern "C" fn(Handle, Caller, Path, *mut CStatus, *mut CError) -> i32>,
    pub list_open: Option<unsafe extern "C" fn(Handle, Caller, Path, *mut Handle, *mut CError) -> i32>,
    pub list_next: Option<unsafe extern "C" fn(Handle, *mut c_char, *mut CStatus, *mut CError) -> i32>,
    pub list_close: Option<OnHandle>,
    pub open: Option<unsafe extern "C" fn(Handle, Caller, Path, *mut Handle, *mut u64, *mut CError) -> i32>,
    pub read: Option<unsafe extern "C" fn(Handle, u64, *mut c_void, usize, *mut usize, *mut CError) -> i32>,
    pub close_reader: Option<OnHandle>,
    pub create:
        Option<unsafe extern "C" fn(Handle, Caller, Path, *const CCreate, *mut Handle, *mut CError) -> i32>,
    pub append: Option<unsafe extern "C" fn(Handle, Caller, Path, *mut Handle, *mut u64, *mut CError) -> i32>,
    pub write: Option<unsafe extern "C" fn(Handle, *const c_void, usize, *mut CError) -> i32>,
    pub flush: Option<Steps>,
    pub sync: Option<Steps>,
    pub close: Option<Steps>,
    pub release: Option<OnHandle>,
    pub truncate: Option<unsafe extern "C" fn(Handle, Caller, Path, u64, *mut CError) -> i32>,
    pub rename: Option<unsafe extern "C" fn(Handle, Caller, Path, Path, i32, *mut CError) -> i32>,
    pub remove: Option<unsafe extern "C" fn(Handle, Caller, Path, i32, *mut CError) -> i32>,
    pub mkdirs: Option<unsafe extern "C" fn(Handle, Caller, Path, i64, *mut CError) -> i32>,
    pub set_attributes:
        Option<unsafe extern "C" fn(Handle, Caller, Path, *const CAttributes, *mut CError) -> i32>,
    pub block_locations: Option<
        unsafe extern "C" fn(Handle, Caller, Path, u64, u64, BlockFn, *mut c_void, *mut CError) -> i32,
    >,
    pub checksum: Option<
        unsafe extern "C" fn(Handle, Caller, Path, *mut c_char, *mut u8, *mut usize, *mut CError) -> i32,
    >,
    pub status: Option<unsafe extern "C" fn(Handle, *mut u64, *mut u64, *mut u64, *mut CError) -> i32>,
}

// SAFETY: it holds addresses of functions and of a constant string, which the header lets any thread use.
unsafe impl Send for Functions {}
// SAFETY: as above.
unsafe impl Sync for Functions {}

/// The results of `checksum`.
pub struct CChecksum {
    pub kind: [c_char; CHECKSUM_BYTES],
    pub value: [u8; CHECKSUM_BYTES],
    pub size: usize,
}
