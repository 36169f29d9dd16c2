//! Open files that one process of a host passes to another: a datanode lends them, and a client borrows
//! them to read a replica's bytes without the datanode (`docs/kadoop-internals.md`, "On the same host").
//!
//! The processes use a Unix socket for packets, each of which arrives as a whole or not at all. The client
//! sends one request, and the datanode one answer with the file descriptors. Then the connection ends, so
//! neither side keeps state for the other.

use crate::{
    failure::{kind_of, number_of},
    wire::{KdBorrow, KdLent},
};
use rustix::{
    cmsg_space,
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv,
        recvmsg, send, sendmsg, socket_with,
    },
};
use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};
use strait_kadoop_core::error::{Error, Result};

/// Size of a packet's buffer. The longest valid packet has 92 bytes. A packet that is too long for the
/// buffer is cut off, and then doesn't decode.
const PACKET_BYTES: usize = 256;
/// Number of files of a replica: its bytes and its table of checksums.
const FILES: usize = 2;

/// The two files of a sealed replica.
#[derive(Debug)]
pub struct Lent {
    /// The replica's bytes.
    pub data: File,
    /// The table of checksums.
    pub table: File,
}

/// A new socket for packets, and `path` as a socket's address.
///
/// # Errors
/// The path is too long; the operating system's.
pub fn socket(path: &Path, flags: SocketFlags) -> io::Result<(OwnedFd, SocketAddrUnix)> {
    let address = SocketAddrUnix::new(path.as_os_str().as_bytes())?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags | SocketFlags::CLOEXEC, None)?;
    Ok((socket, address))
}

/// Sends the request.
///
/// # Errors
/// The system call fails.
pub fn ask(socket: &OwnedFd, wanted: &KdBorrow) -> io::Result<()> {
    let packet = strait_xdr::to_vec(wanted).map_err(|error| io::Error::other(error.to_string()))?;
    uninterrupted(|| send(socket, &packet, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a request, without waiting. None: the client has closed the connection.
///
/// # Errors
/// WouldBlock: no request has arrived yet; the operating system's. Inner error Invalid: the packet isn't a
/// request.
pub fn asked(socket: &OwnedFd) -> io::Result<Option<Result<KdBorrow>>> {
    let mut packet = [0; PACKET_BYTES];
    // If the client sends descriptors, too, the kernel closes them: there is no buffer for them.
    let (length, _) = uninterrupted(|| recv(socket, &mut packet[..], RecvFlags::DONTWAIT))?;
    if length == 0 {
        return Ok(None);
    }
    let wanted = strait_xdr::from_bytes::<KdBorrow>(&packet[..length]);
    Ok(Some(wanted.map_err(|_| Error::Invalid("the packet isn't a request for a replica"))))
}

/// Sends the answer, without waiting. It fits in the socket's buffer, since a connection has only one answer.
///
/// # Errors
/// The system call fails.
pub fn answer(socket: &OwnedFd, lent: Result<Lent>) -> io::Result<()> {
    let refused = lent.as_ref().map_or_else(|error| number_of(*error), |_| 0);
    let packet =
        strait_xdr::to_vec(&KdLent { refused }).map_err(|error| io::Error::other(error.to_string()))?;
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FILES))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd<'_>> =
        lent.iter().flat_map(|lent| [lent.data.as_fd(), lent.table.as_fd()]).collect();
    if !files.is_empty() && !along.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("no space for the descriptors"));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    uninterrupted(|| sendmsg(socket, &[IoSlice::new(&packet)], &mut along, flags))?;
    Ok(())
}

/// Waits for the answer.
///
/// # Errors
/// The system call fails; InvalidData: the packet isn't an answer, or lacks its descriptors. Inner error:
/// the datanode's refusal.
pub fn answered(socket: &OwnedFd) -> io::Result<Result<Lent>> {
    let strange = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut packet = [0; PACKET_BYTES];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FILES))];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let received = uninterrupted(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut packet)], &mut along, RecvFlags::CMSG_CLOEXEC)
    })?;
    // Take the descriptors out first, so that none stays open after an error.
    let mut files = Vec::with_capacity(FILES);
    for message in along.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            files.extend(descriptors.map(File::from));
        }
    }
    let lent = strait_xdr::from_bytes::<KdLent>(&packet[..received.bytes]);
    let lent = lent.map_err(|_| strange("the datanode's packet isn't an answer"))?;
    if lent.refused != 0 {
        return Ok(Err(kind_of(lent.refused)));
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(strange("this process has no free descriptors for the lent files"));
    }
    match <[File; FILES]>::try_from(files) {
        Ok([data, table]) => Ok(Ok(Lent { data, table })),
        Err(_) => Err(strange("the datanode's answer lacks its file descriptors")),
    }
}

fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
