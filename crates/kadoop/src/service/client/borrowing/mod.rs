//! Reads from a datanode on this host without it, through files that it lends
//! ([`crate::service::lending`]). Whatever doesn't work is no failure: the read goes over TCP
//! then, and only a checksum that doesn't agree is said.
//!
//! What is borrowed was allowed by a token that each reader gets for itself, and is given back
//! long before the token is over.

mod files;
mod shelf;

use super::members::{Place, callees, single};
use crate::{
    ChunkId, Config, Millis, NodeId, Stamp,
    client::Checked,
    error::{Error, Result as Judged},
    messages::{LocatedChunk, Read},
    service::{
        clock::Clock,
        lending::{answered, ask, socket},
        proofs::{Procedure, unsigned},
        tokens::Token,
    },
    wire::{KdBorrow, KdBorrower},
};
use files::Files;
use rustix::net::{
    SocketFlags, connect,
    sockopt::{Timeout, set_socket_timeout},
};
use shelf::{Limits, Shelf};
use std::{
    ffi::OsString,
    io,
    net::{SocketAddr, UdpSocket},
    os::unix::ffi::OsStringExt as _,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use strait_flexrpc as flexrpc;

/// How long a datanode on this host may take to lend, before its replica is read over TCP: as
/// long as a read may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A replica is borrowed for a read of so many bytes, or the second one: for a small one alone
/// it takes 1.6 times as long as the read does over TCP (`bench`, kadoop-local).
const WORTH_BYTES: u32 = 64 << 10;

/// Replicas that are open: of the usual size 16 GiB, and 16 MiB of checksums. A minute is far
/// below the time that a token is good for, and as long as a deleted file's space may be
/// missing.
const REPLICAS: Limits =
    Limits { most: 256, keep_ms: 60_000, idle_ms: 20_000, retry_ms: 2_000, lively_ms: 1_000 };
/// Datanodes of which it is known whether and where they lend.
const LENDERS: Limits =
    Limits { most: 4_096, keep_ms: 600_000, idle_ms: 600_000, retry_ms: 5_000, lively_ms: 0 };

/// Reads of a [`Client`](super::Client) that went past the datanodes, through their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShortCircuitReads {
    /// Since the client connected.
    pub reads: u64,
    /// Of these reads.
    pub bytes: u64,
    /// Replicas that are kept open now, a descriptor each.
    pub open: usize,
}

/// What a client has borrowed.
pub(super) struct Borrowing {
    data: flexrpc::Client,
    replicas: Mutex<Shelf<Replica, Files>>,
    lenders: Mutex<Shelf<(NodeId, Place), Lender>>,
    clock: Clock,
    complained: AtomicBool,
    reads: AtomicU64,
    bytes: AtomicU64,
}

/// A chunk's replicas are beside one another.
type Replica = (ChunkId, Stamp, NodeId);

/// Where a datanode on this host lends.
struct Lender {
    path: PathBuf,
    run: u64,
}

impl Borrowing {
    /// For who calls datanodes by `data`.
    pub(super) fn new(data: flexrpc::Client) -> Self {
        Self {
            data,
            replicas: Mutex::new(Shelf::new(REPLICAS)),
            lenders: Mutex::new(Shelf::new(LENDERS)),
            clock: Clock::start(),
            complained: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Reads from a datanode's replica if it is sealed and on this host; none if that is to be
    /// done over TCP. The token is the reader's own.
    ///
    /// # Errors
    /// Corrupt.
    pub(super) fn read(
        &self,
        (node, place): (NodeId, Place),
        read: &Read,
        token: &Token,
        config: &Config,
    ) -> Option<Judged<Checked>> {
        let now = self.clock.now();
        let replica = (read.chunk, read.stamp, node);
        let (lender, _) = self.lenders().slot((node, place), now)?;
        let lender = lender.get_or_init(|| self.find(place, replica, token)).as_ref()?;
        let (slot, new) = self.replicas().slot(replica, now)?;
        if new && read.length < WORTH_BYTES {
            return None;
        }
        let files = slot.get_or_init(|| {
            let (chunk, stamp) = (read.chunk.0, read.stamp.0);
            let mut wanted = KdBorrow { run: lender.run, pass: unsigned(), chunk, stamp };
            token.sign(&mut wanted, Procedure::Borrow, place.1);
            match borrow(lender, &wanted, config.unit_bytes) {
                Ok(Ok(files)) => Some(files),
                // The datanode says why over TCP, too.
                Ok(Err(_)) => None,
                Err(error) => {
                    self.give_up(node, place, &error);
                    None
                }
            }
        });
        let answer = files.as_ref()?.read(read, config);
        match &answer {
            Ok(checked) => {
                self.reads.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(checked.content.len() as u64, Ordering::Relaxed);
            }
            Err(_) => self.replicas().fail(replica, self.clock.now()),
        }
        match answer {
            Err(error) if error != Error::Corrupt => None,
            answer => Some(answer),
        }
    }

    /// Where a datanode lends, if it is on this host and does. Others may not put a socket of
    /// their own there, so it isn't asked for a proof again.
    fn find(&self, place: Place, (chunk, stamp, _): Replica, token: &Token) -> Option<Lender> {
        if !is_here(place.0) {
            return None;
        }
        let mut ask = KdBorrower { pass: unsigned(), chunk: chunk.0, stamp: stamp.0 };
        let asked = token.sign(&mut ask, Procedure::Lender, place.1);
        let to = callees(&self.data, vec![place.0], PATIENCE);
        let lender = asked.hear(place, single(to.dn_lender(&ask))).ok()?;
        let path = PathBuf::from(OsString::from_vec(lender.path.to_vec()));
        Some(Lender { path, run: lender.run })
    }

    /// The datanode was restarted, or its socket can't be seen from here.
    fn give_up(&self, node: NodeId, place: Place, error: &io::Error) {
        self.lenders().fail((node, place), self.clock.now());
        if !self.complained.swap(true, Ordering::Relaxed) {
            tracing::info!(%node, %error, "reads from a datanode on this host go over TCP for now");
        }
    }

    /// The namenode has said where chunks are: what was borrowed of others isn't of use.
    pub(super) fn confirm(&self, chunks: &[LocatedChunk]) {
        let mut gone = Vec::new();
        let mut replicas = self.replicas();
        for chunk in chunks {
            let all = (chunk.chunk, Stamp(0), NodeId(0))..=(chunk.chunk, Stamp(u64::MAX), NodeId(u32::MAX));
            gone.extend(
                replicas.keep(all, |(_, stamp, node)| *stamp == chunk.stamp && chunk.nodes.contains(node)),
            );
        }
        drop(replicas);
    }

    /// Gives back what nobody used for a while, and what was had for long.
    pub(super) fn expire(&self) {
        let now: Millis = self.clock.now();
        let gone = self.replicas().expire(now);
        drop(gone);
        self.lenders().expire(now);
    }

    /// What came of it so far.
    pub(super) fn told(&self) -> ShortCircuitReads {
        ShortCircuitReads {
            reads: self.reads.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            open: self.replicas().count(),
        }
    }

    fn replicas(&self) -> MutexGuard<'_, Shelf<Replica, Files>> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lenders(&self) -> MutexGuard<'_, Shelf<(NodeId, Place), Lender>> {
        self.lenders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks for a replica's files.
///
/// # Errors
/// There is nobody, or who it is isn't that datanode. Of the second kind its refusal.
fn borrow(lender: &Lender, wanted: &KdBorrow, unit_bytes: u32) -> io::Result<Judged<Files>> {
    let (socket, address) = socket(&lender.path, SocketFlags::empty())?;
    for side in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, side, Some(PATIENCE))?;
    }
    connect(&socket, &address)?;
    ask(&socket, wanted)?;
    match answered(&socket)? {
        Ok(lent) => Files::of(lent, unit_bytes).map(Ok),
        Err(Error::WrongIncarnation | Error::PermissionDenied) => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "the datanode doesn't lend to this process"))
        }
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// Whether an address is one of this host's: nobody can be bound to another's.
fn is_here(address: SocketAddr) -> bool {
    let mut any_port = address;
    any_port.set_port(0);
    address.ip().is_loopback() || UdpSocket::bind(any_port).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_hosts_addresses_are_told_from_others() {
        assert!(is_here(([127, 0, 0, 1], 9_093).into()));
        assert!(is_here(([0, 0, 0, 0, 0, 0, 0, 1], 9_093).into()));
        // Of TEST-NET-1 (RFC 5737), which nobody has.
        assert!(!is_here(([192, 0, 2, 1], 9_093).into()));
    }
}
