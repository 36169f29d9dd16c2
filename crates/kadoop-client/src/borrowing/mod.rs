//! Reads replicas of a datanode on this host through files that the datanode lends
//! ([`strait_kadoop_wire::lending`]). If that fails, the read goes over TCP instead. Only a wrong checksum
//! is reported to the caller.
//!
//! The token of the reader that borrows a replica must allow it to read the replica. The client closes the
//! files long before that token expires.

mod files;
mod shelf;

use super::{
    buffers::Buffers,
    members::{Place, callees, single},
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
use strait_kadoop_core::{
    ChunkId, Config, Millis, NodeId, Stamp,
    client::Checked,
    datanode::Claim,
    error::{Error, Result},
    messages::{LocatedChunk, Read},
};
use strait_kadoop_wire::{
    clock::Clock,
    descriptors::Descriptors,
    lending::{answered, ask, socket},
    proofs::{Procedure, unsigned},
    tokens::Token,
    wire::{KdBorrow, KdBorrower},
};

/// How long a datanode on this host may take to lend a replica: as long as a read may take. After that, the
/// client reads over TCP.
const PATIENCE: Duration = Duration::from_secs(2);

/// The client borrows a replica when a read of it has at least this many bytes, or is the second one. For a
/// single small read, borrowing takes 1.6 times as long as the read over TCP (`bench`, kadoop-local).
const WORTH_BYTES: u32 = 64 << 10;

/// Limits of open replicas, if enough descriptors are allowed. 256 replicas of the usual size have 16 GiB,
/// and their checksums take 16 MiB of memory. A minute is far below a token's lifetime, and limits how long
/// the space of a deleted file stays in use.
const REPLICAS: Limits =
    Limits { most: 256, keep_ms: 60_000, idle_ms: 20_000, retry_ms: 2_000, lively_ms: 1_000 };
/// Limits of the remembered answers of datanodes to whether and where they lend.
const LENDERS: Limits =
    Limits { most: 4_096, keep_ms: 600_000, idle_ms: 600_000, retry_ms: 5_000, lively_ms: 0 };

/// Counts of a [`Client`](super::Client)'s reads from borrowed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShortCircuitReads {
    /// Reads since the client connected.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes: u64,
    /// Replicas open now, with one descriptor each.
    pub open: usize,
}

/// The replicas that a client has borrowed.
pub(super) struct Borrowing {
    data: flexrpc::Client,
    replicas: Mutex<Shelf<Replica, Files>>,
    buffers: Buffers,
    lenders: Mutex<Shelf<(NodeId, Place), Lender>>,
    clock: Clock,
    complained: AtomicBool,
    reads: AtomicU64,
    bytes: AtomicU64,
}

/// A replica's key. The chunk comes first, so that a chunk's replicas are adjacent.
type Replica = (ChunkId, Stamp, NodeId);

/// The socket of a datanode that lends on this host.
struct Lender {
    path: PathBuf,
    run: u64,
}

impl Borrowing {
    /// Makes a cache without replicas. `data` is the client for calls to datanodes.
    pub(super) fn new(data: flexrpc::Client, buffers: Buffers) -> Self {
        Self {
            data,
            replicas: Mutex::new(Shelf::new(Limits {
                most: Descriptors::of_process().replicas(REPLICAS.most),
                ..REPLICAS
            })),
            buffers,
            lenders: Mutex::new(Shelf::new(LENDERS)),
            clock: Clock::start(),
            complained: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Reads from a datanode's replica, if it is sealed and on this host. None: read it over TCP. `token` is
    /// the reader's, and `cluster` returns the number of the cluster that the files must belong to.
    ///
    /// # Errors
    /// Corrupt: a checksum doesn't match.
    pub(super) fn read(
        &self,
        (node, place): (NodeId, Place),
        read: &Read,
        token: &Token,
        config: &Config,
        cluster: impl FnOnce() -> u64,
    ) -> Option<Result<Checked>> {
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
            let claim = Claim { cluster: cluster(), chunk: read.chunk, stamp: read.stamp };
            match borrow(lender, &wanted, config.unit_bytes, claim) {
                Ok(Ok(files)) => Some(files),
                // Read over TCP: the datanode gives its refusal's reason there, too. If it lent the files of
                // another replica, which had this one's name, it may still have this one open.
                Ok(Err(_)) => None,
                Err(error) => {
                    self.give_up(node, place, &error);
                    None
                }
            }
        });
        let answer = files.as_ref()?.read(read, config, &self.buffers);
        match &answer {
            Ok(checked) => {
                self.reads.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(checked.content().len() as u64, Ordering::Relaxed);
            }
            Err(_) => self.replicas().fail(replica, self.clock.now()),
        }
        match answer {
            Err(error) if error != Error::Corrupt => None,
            answer => Some(answer),
        }
    }

    /// The datanode's socket, if the datanode is on this host and lends. The datanode proves this answer.
    /// Other users can't replace the socket at that path, so no proof is needed there.
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

    /// Stops borrowing from a datanode for a while: it has restarted, or its socket can't be used from here.
    fn give_up(&self, node: NodeId, place: Place, error: &io::Error) {
        self.lenders().fail((node, place), self.clock.now());
        if !self.complained.swap(true, Ordering::Relaxed) {
            tracing::info!(%node, %error, "can't borrow a local datanode's files; reads go over TCP for now");
        }
    }

    /// Closes borrowed replicas of these chunks that the namenode doesn't name any more.
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

    /// Closes replicas that were unused or open for too long.
    pub(super) fn expire(&self) {
        let now: Millis = self.clock.now();
        let gone = self.replicas().expire(now);
        drop(gone);
        self.lenders().expire(now);
    }

    /// The counts so far.
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

/// Borrows a replica's files.
///
/// # Errors
/// The socket can't be used, or another process or another run of the datanode listens there. Inner error:
/// the datanode's refusal; Corrupt: the files are another replica's.
fn borrow(lender: &Lender, wanted: &KdBorrow, unit_bytes: u32, claim: Claim) -> io::Result<Result<Files>> {
    let (socket, address) = socket(&lender.path, SocketFlags::empty())?;
    for side in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, side, Some(PATIENCE))?;
    }
    connect(&socket, &address)?;
    ask(&socket, wanted)?;
    match answered(&socket)? {
        Ok(lent) => Files::of(lent, unit_bytes, claim),
        Err(Error::WrongIncarnation | Error::PermissionDenied) => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "the datanode doesn't lend to this process"))
        }
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// Whether the address is one of this host's. It tries to bind to the address, which fails for another
/// host's.
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
        // An address of TEST-NET-1 (RFC 5737), which no host has.
        assert!(!is_here(([192, 0, 2, 1], 9_093).into()));
    }
}
