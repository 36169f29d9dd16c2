//! A session of fuser on a device whose mount was already initialized.

use crate::fuse::FuseServer;
use fuser::{Config, Session};
use rustix::io::DupFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// FUSE_INIT, and the protocol version that fuser speaks (linux/fuse.h).
const INIT: u32 = 26;
const PROTOCOL: [u32; 2] = [7, 40];
/// Lengths of `fuse_in_header` and `fuse_init_in`, in words.
const HEADER: usize = 10;
const BODY: usize = 16;

/// A session on `device`. fuser expects an INIT as its first request, but the kernel sent the mount's only
/// INIT to an earlier process. So a socket takes the kernel's place until fuser has read an INIT there.
pub fn session(server: FuseServer, device: &OwnedFd, config: Config) -> io::Result<Session<FuseServer>> {
    let (kernel, own) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::write(&kernel, &init())?;
    let session = Session::from_fd(server, own, config.acl, config)?;
    let number = session.as_fd().as_raw_fd();
    // SAFETY: the session owns the descriptor and outlives this second owner, which never closes it.
    let mut place = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
    rustix::io::dup3(device, &mut place, DupFlags::CLOEXEC)?;
    Ok(session)
}

/// Code of the notification FUSE_NOTIFY_RESEND (linux/fuse.h).
const RESEND: i32 = 7;

/// Makes the kernel resend the requests that a killed process had read. Call it before a session reads other
/// requests. Otherwise the programs of those requests would wait forever.
///
/// # Errors
/// InvalidInput: the kernel is older than Linux 6.9, which introduced this.
pub fn resend(device: &OwnedFd) -> io::Result<()> {
    let length = 16_u32; // of a `fuse_out_header`
    let mut header = Vec::with_capacity(length as usize);
    header.extend(length.to_ne_bytes());
    header.extend(RESEND.to_ne_bytes());
    header.extend(0_u64.to_ne_bytes());
    rustix::io::write(device, &header)?;
    Ok(())
}

/// An INIT request without any capability. Its answer doesn't reach the kernel.
fn init() -> Vec<u8> {
    let mut words = [0_u32; HEADER + BODY];
    words[0] = (size_of::<u32>() * words.len()) as u32;
    words[1] = INIT;
    words[2] = 1; // the request's number
    words[HEADER..HEADER + 2].copy_from_slice(&PROTOCOL);
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
