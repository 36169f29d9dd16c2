//! The connect functions, and the builder of connections.

use crate::failure::{Failure, Outcome, reported, tell};
use crate::filesystem::{Connection, Target};
use crate::{connection, hdfs_internal, optional, tPort, utf8};
use nix::libc::{EINVAL, ENOMEM, STDERR_FILENO, c_char, c_int};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::ptr::null_mut;

/// Parameters of a connection. The builder copies the caller's strings.
#[derive(Default)]
pub struct hdfsBuilder {
    target: Target,
    /// The error of the first invalid string, which the connect function reports.
    wrong: Option<Failure>,
}

impl hdfsBuilder {
    /// Copies a caller's string. Remembers the error if it isn't UTF-8.
    ///
    /// # Safety
    /// `text` is null, or ends with a zero byte.
    unsafe fn take(&mut self, text: *const c_char) -> Option<String> {
        // SAFETY: the caller's promise.
        match unsafe { optional(text) }.map(utf8)? {
            Ok(text) => Some(text),
            Err(failure) => {
                self.wrong.get_or_insert(failure);
                None
            }
        }
    }
}

/// Opens the connection. Also prints the reason of a failure to standard error, since most programs that use
/// hdfs.h show at most an errno.
fn connect(builder: hdfsBuilder) -> *mut hdfs_internal {
    reported(null_mut(), || {
        let opened = match builder.wrong {
            Some(wrong) => Err(wrong),
            None => Connection::open(&builder.target),
        };
        if let Err(failure) = &opened {
            print(&format!("libhdfs: {failure}\n"));
        }
        Ok(Box::into_raw(Box::new(hdfs_internal(opened?))))
    })
}

/// Prints to standard error without Rust's lock: another thread may have held that lock at a fork.
fn print(line: &str) {
    // SAFETY: the descriptor stays open, since nothing drops the file.
    let stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(STDERR_FILENO) });
    // If standard error is closed, the line is lost.
    let _ = (&*stderr).write_all(line.as_bytes());
}

/// # Safety
/// The strings are null, or end with a zero byte.
unsafe fn connect_to(
    name: *const c_char,
    port: tPort,
    user: *const c_char,
    alone: bool,
) -> *mut hdfs_internal {
    let mut builder = hdfsBuilder::default();
    // SAFETY: the caller's promise.
    unsafe {
        builder.target.name = builder.take(name);
        builder.target.user = builder.take(user).filter(|user| !user.is_empty());
    }
    builder.target.port = port;
    builder.target.alone = alone;
    connect(builder)
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsConnect(nn: *const c_char, port: tPort) -> *mut hdfs_internal {
    // SAFETY: as hdfs.h asks.
    unsafe { connect_to(nn, port, std::ptr::null(), false) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsConnectNewInstance(nn: *const c_char, port: tPort) -> *mut hdfs_internal {
    // SAFETY: as hdfs.h asks.
    unsafe { connect_to(nn, port, std::ptr::null(), true) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsConnectAsUser(
    nn: *const c_char,
    port: tPort,
    user: *const c_char,
) -> *mut hdfs_internal {
    // SAFETY: as hdfs.h asks.
    unsafe { connect_to(nn, port, user, false) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsConnectAsUserNewInstance(
    nn: *const c_char,
    port: tPort,
    user: *const c_char,
) -> *mut hdfs_internal {
    // SAFETY: as hdfs.h asks.
    unsafe { connect_to(nn, port, user, true) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub extern "C" fn hdfsNewBuilder() -> *mut hdfsBuilder {
    Box::into_raw(Box::default())
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFreeBuilder(bld: *mut hdfsBuilder) {
    if !bld.is_null() {
        // SAFETY: hdfsNewBuilder made the box, and the caller gives it up.
        drop(unsafe { Box::from_raw(bld) });
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsBuilderSetForceNewInstance(bld: *mut hdfsBuilder) {
    // SAFETY: as hdfs.h asks.
    if let Some(builder) = unsafe { bld.as_mut() } {
        builder.target.alone = true;
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsBuilderSetNameNode(bld: *mut hdfsBuilder, nn: *const c_char) {
    // SAFETY: as hdfs.h asks.
    if let Some(builder) = unsafe { bld.as_mut() } {
        // SAFETY: as hdfs.h asks.
        builder.target.name = unsafe { builder.take(nn) };
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsBuilderSetNameNodePort(bld: *mut hdfsBuilder, port: tPort) {
    // SAFETY: as hdfs.h asks.
    if let Some(builder) = unsafe { bld.as_mut() } {
        builder.target.port = port;
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsBuilderSetUserName(bld: *mut hdfsBuilder, userName: *const c_char) {
    // SAFETY: as hdfs.h asks.
    if let Some(builder) = unsafe { bld.as_mut() } {
        // SAFETY: as hdfs.h asks.
        builder.target.user = unsafe { builder.take(userName) }.filter(|user| !user.is_empty());
    }
}

/// See hdfs.h. The property has no effect: Kerberos finds its tickets by the variable `KRB5CCNAME`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsBuilderSetKerbTicketCachePath(bld: *mut hdfsBuilder, path: *const c_char) {
    const NAME: &str = "hadoop.security.kerberos.ticket.cache.path";
    // SAFETY: as hdfs.h asks.
    if let Some(builder) = unsafe { bld.as_mut() } {
        // SAFETY: as hdfs.h asks.
        let path = unsafe { builder.take(path) };
        builder.target.properties.insert(NAME.to_owned(), path);
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsBuilderConfSetStr(
    bld: *mut hdfsBuilder,
    key: *const c_char,
    val: *const c_char,
) -> c_int {
    // SAFETY: as hdfs.h asks.
    let Some(builder) = (unsafe { bld.as_mut() }) else { return -ENOMEM };
    // SAFETY: as hdfs.h asks.
    let (name, value) = unsafe { (builder.take(key), builder.take(val)) };
    let Some(name) = name else { return EINVAL };
    builder.target.properties.insert(name, value);
    0
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsBuilderConnect(bld: *mut hdfsBuilder) -> *mut hdfs_internal {
    if bld.is_null() {
        return reported(null_mut(), || Err(Failure::invalid("the builder is a null pointer")));
    }
    // SAFETY: hdfsNewBuilder made the box, and the caller gives it up.
    connect(*unsafe { Box::from_raw(bld) })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsDisconnect(fs: *mut hdfs_internal) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        unsafe { connection(fs)? };
        // SAFETY: a connect function made the box, and the caller gives it up. Open files keep the
        // connection.
        drop(unsafe { Box::from_raw(fs) });
        Ok(0)
    })
}

/// See hdfs.h. Has no effect: this library uses no domain socket whose path it would check.
#[unsafe(no_mangle)]
pub extern "C" fn hdfsDisableDomainSocketSecurity() -> c_int {
    let nothing: Outcome<()> = Ok(());
    tell(|| nothing).map_or(-1, |()| 0)
}
