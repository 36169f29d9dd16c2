//! `libhdfs-get HOST PORT REMOTE LOCAL BUFFER_BYTES`: HDFS's C library, which
//! runs a JVM inside, reading into a buffer and writing the buffer, as the
//! report's native programs did. Prints "ready" when it is connected, waits for
//! a line, copies, prints "done".

use hdfs_sys::{hdfsBuilderConnect, hdfsBuilderSetNameNode, hdfsBuilderSetNameNodePort, hdfsCloseFile};
use hdfs_sys::{hdfsDisconnect, hdfsFS, hdfsNewBuilder, hdfsOpenFile, hdfsRead};
use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Write};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, remote, local, buffer] = given.as_slice() else {
        return Err("usage: libhdfs-get HOST PORT REMOTE LOCAL BUFFER_BYTES".into());
    };
    let (host, remote) = (CString::new(host.as_str())?, CString::new(remote.as_str())?);
    let buffer = vec![0; buffer.parse()?];
    // SAFETY: the strings and the builder live until the call that takes them
    // returns; a null builder would be refused by the calls that take it.
    let files = unsafe {
        let builder = hdfsNewBuilder();
        hdfsBuilderSetNameNode(builder, host.as_ptr());
        hdfsBuilderSetNameNodePort(builder, port.parse()?);
        hdfsBuilderConnect(builder)
    };
    if files.is_null() {
        return Err(format!("no connection: {}", Error::last_os_error()).into());
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    copy(files, &remote, local, buffer)?;
    println!("done");
    // SAFETY: connected above, and not used afterwards.
    unsafe { hdfsDisconnect(files) };
    Ok(())
}

fn copy(files: hdfsFS, remote: &CString, local: &str, mut buffer: Vec<u8>) -> Result<()> {
    // SAFETY: `files` is connected, the path is terminated; zeros are defaults.
    let opened = unsafe { hdfsOpenFile(files, remote.as_ptr(), libc::O_RDONLY, 0, 0, 0) };
    if opened.is_null() {
        return Err(Error::last_os_error().into());
    }
    let mut local = File::create(local)?;
    loop {
        // SAFETY: the file is open; no more is read than the buffer holds.
        let count = unsafe { hdfsRead(files, opened, buffer.as_mut_ptr().cast(), buffer.len() as i32) };
        match usize::try_from(count) {
            Ok(0) => break,
            Ok(count) => local.write_all(&buffer[..count])?,
            Err(_) => return Err(Error::last_os_error().into()),
        }
    }
    // SAFETY: open, and not used afterwards.
    unsafe { hdfsCloseFile(files, opened) };
    Ok(())
}
