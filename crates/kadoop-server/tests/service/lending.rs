//! Requests that a stranger could send to a datanode's lending socket.

use crate::support::datanode;
use rustix::{
    cmsg_space,
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, recvmsg,
        send, sendmsg, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use std::{
    ffi::OsStr,
    fs::File,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::PathBuf,
    time::Duration,
};
use strait_kadoop_core::Identity;
use strait_kadoop_wire::{
    proofs::{Procedure, unsigned},
    tokens::Token,
    wire::{KdBorrow, KdBorrower, KdLent, KdLocatedChunk, KdToken},
};

/// The socket of a datanode.
pub struct Lender {
    pub path: PathBuf,
    run: u64,
    identity: Identity,
}

/// A datanode's answer.
pub enum Borrowed {
    Files([File; 2]),
    Refused(u32),
}

impl Borrowed {
    pub fn refused(self) -> u32 {
        match self {
            Self::Refused(why) => why,
            Self::Files(_) => panic!("it was lent"),
        }
    }
}

impl Lender {
    /// The socket that the datanode names to a reader of the chunk; or the number of its refusal.
    pub fn of((address, identity): (SocketAddr, Identity), chunk: &KdLocatedChunk) -> Result<Self, u32> {
        let mut ask = KdBorrower { pass: unsigned(), chunk: chunk.chunk, stamp: chunk.stamp };
        Token::new(&chunk.token).sign(&mut ask, Procedure::Lender, identity);
        let lender = datanode(address).dn_lender(&ask).unwrap();
        match lender.told.refused {
            0 => Ok(Self { path: OsStr::from_bytes(&lender.path).into(), run: lender.run, identity }),
            refused => Err(refused),
        }
    }

    pub fn wanted(&self, chunk: &KdLocatedChunk) -> KdBorrow {
        self.wanted_by(chunk, &chunk.token, self.run)
    }

    /// A request with some token, for some run.
    pub fn wanted_by(&self, chunk: &KdLocatedChunk, token: &KdToken, run: u64) -> KdBorrow {
        let mut wanted = KdBorrow { run, pass: unsigned(), chunk: chunk.chunk, stamp: chunk.stamp };
        Token::new(token).sign(&mut wanted, Procedure::Borrow, self.identity);
        wanted
    }

    pub fn connect(&self) -> OwnedFd {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(30))).unwrap();
        connect(&socket, &SocketAddrUnix::new(self.path.as_os_str().as_bytes()).unwrap()).unwrap();
        socket
    }

    /// Sends a packet, and waits for the answer.
    pub fn tell(&self, packet: &[u8]) -> Borrowed {
        let socket = self.connect();
        // A user that isn't permitted gets its answer before its request.
        match send(&socket, packet, SendFlags::NOSIGNAL) {
            Ok(_) | Err(Errno::PIPE) => answer(&socket),
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`Lender::tell`], with a descriptor.
    pub fn tell_with(&self, packet: &[u8], file: &File) -> Borrowed {
        let socket = self.connect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut along = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        assert!(along.push(SendAncillaryMessage::ScmRights(&files)));
        sendmsg(&socket, &[IoSlice::new(packet)], &mut along, SendFlags::NOSIGNAL).unwrap();
        answer(&socket)
    }

    /// Whether the datanode ends a silent connection.
    pub fn is_closed(&self, socket: &OwnedFd, within: Duration) -> bool {
        set_socket_timeout(socket, Timeout::Recv, Some(within)).unwrap();
        matches!(recv(socket, &mut [0; 8][..], RecvFlags::empty()), Ok((0, _)))
    }
}

pub fn borrow(lender: &Lender, wanted: &KdBorrow) -> Borrowed {
    lender.tell(&strait_xdr::to_vec(wanted).unwrap())
}

fn answer(socket: &OwnedFd) -> Borrowed {
    let mut packet = [0; 64];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let mut receive =
        || recvmsg(socket, &mut [IoSliceMut::new(&mut packet)], &mut along, RecvFlags::CMSG_CLOEXEC);
    // If the datanode refused before the request was sent, the first receive returns an error.
    let received = match receive() {
        Err(Errno::CONNRESET) => receive(),
        received => received,
    };
    let received = received.unwrap();
    let mut files = Vec::new();
    for message in along.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            files.extend(descriptors.map(File::from));
        }
    }
    match strait_xdr::from_bytes::<KdLent>(&packet[..received.bytes]).unwrap().refused {
        0 => Borrowed::Files(files.try_into().unwrap()),
        refused => {
            assert!(files.is_empty());
            Borrowed::Refused(refused)
        }
    }
}
