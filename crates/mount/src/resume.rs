//! A session of fuser on a device whose mount is served already.

use crate::face::Face;
use fuser::{Config, Session};
use rustix::io::DupFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// FUSE_INIT, and the protocol that fuser speaks (linux/fuse.h).
const INIT: u32 = 26;
const PROTOCOL: [u32; 2] = [7, 40];
/// Lengths of `fuse_in_header` and `fuse_init_in`, in words.
const HEADER: usize = 10;
const BODY: usize = 16;

/// A session that reads its first request from `device`. The kernel sent the mount's only INIT to an
/// earlier process, and fuser waits for one: a socket plays the kernel until then.
pub fn session(face: Face, device: &OwnedFd, config: Config) -> io::Result<Session<Face>> {
    let (kernel, own) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::write(&kernel, &init())?;
    let session = Session::from_fd(face, own, config.acl, config)?;
    let number = session.as_fd().as_raw_fd();
    // SAFETY: the session owns the descriptor and outlives this second owner, which never closes it.
    let mut place = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
    rustix::io::dup3(device, &mut place, DupFlags::CLOEXEC)?;
    Ok(session)
}

/// A notification, as an answer to no request (linux/fuse.h).
const RESEND: i32 = 7;

/// Has the kernel send again the requests that a killed process had read, before a session reads
/// others. Otherwise their programs would wait for ever.
///
/// # Errors
/// InvalidInput: the kernel is older than Linux 6.9, and can't.
pub fn resend(device: &OwnedFd) -> io::Result<()> {
    let length = 16_u32; // of a `fuse_out_header`
    let mut header = Vec::with_capacity(length as usize);
    header.extend(length.to_ne_bytes());
    header.extend(RESEND.to_ne_bytes());
    header.extend(0_u64.to_ne_bytes());
    rustix::io::write(device, &header)?;
    Ok(())
}

/// The request, without any capability: its answer reaches no kernel.
fn init() -> Vec<u8> {
    let mut words = [0_u32; HEADER + BODY];
    words[0] = (size_of::<u32>() * words.len()) as u32;
    words[1] = INIT;
    words[2] = 1; // the request's number
    words[HEADER..HEADER + 2].copy_from_slice(&PROTOCOL);
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
