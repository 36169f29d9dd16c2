//! Lends the files of sealed replicas to programs on this host ([`strait_kadoop_wire::lending`]).
//!
//! One thread serves all and never blocks on a program. The kernel identifies each one's user, and
//! it has a second to send its request. It gets the same as over the network, with the same token.

use super::shared::{Place, Shared};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    io::Errno,
    net::{Shutdown, SocketFlags, accept_with, bind, listen, shutdown, sockopt::socket_peercred},
    process::geteuid,
};
use std::{
    collections::VecDeque,
    fs::{self, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};
use strait_kadoop_core::{
    ChunkId, Stamp,
    error::{Error, Result as Judged},
    messages::Order,
};
use strait_kadoop_wire::{
    descriptors::Descriptors,
    lending::{Lent, answer, asked, socket},
    proofs::Procedure,
    system::random,
    tokens::Right,
    wire::KdBorrow,
};

/// Most programs connected without a request so far, with enough descriptors; as many again wait in
/// the socket's queue.
const MOST_WAITING: usize = 64;
/// How long a program may take to send its request; [`HURRY`] when others wait for its place.
const PATIENCE: Duration = Duration::from_secs(1);
const HURRY: Duration = Duration::from_millis(100);
/// Pause before it accepts again, when this process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);
const ROOT: u32 = 0;
/// In a directory with this bit, only an entry's owner may rename or remove it (S_ISVTX).
const STICKY: u32 = 0o1000;

/// Settings for programs that read replicas on a datanode's host without the datanode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShortCircuit {
    /// Directory of the socket, made if it is missing. None: the first data directory, which only
    /// its owner can enter.
    pub directory: Option<PathBuf>,
    /// User ids that may borrow. None: the datanode's own user and root. Each also needs a chunk's
    /// token, as over the network.
    pub users: Option<Vec<u32>>,
}

/// The socket and its thread. Dropping it ends both.
pub(super) struct Lender {
    place: Place,
    listener: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Lender {
    /// Begins to lend. `home` is the first data directory.
    ///
    /// # Errors
    /// Other users may replace the directory or the socket; the path is too long for a socket (107
    /// bytes); the operating system's.
    pub(super) fn start(
        options: &ShortCircuit,
        descriptors: Descriptors,
        home: &Path,
        shared: &Arc<Shared>,
    ) -> io::Result<Self> {
        let strangers = options.users.is_some();
        let directory = match &options.directory {
            Some(directory) => make(directory, strangers)?,
            None => home.to_owned(),
        };
        // Datanodes may share a directory, but not an identity.
        let path = std::path::absolute(directory)?.join(format!("kadoop-{:016x}.sock", shared.identity.0));
        let listener = Arc::new(listen_at(&path, if strangers { 0o666 } else { 0o600 })?);
        let place = Place { path, run: random()? };
        let users = options.users.clone().unwrap_or_else(|| vec![geteuid().as_raw(), ROOT]);
        let (listener_, shared, run) = (Arc::clone(&listener), Arc::clone(shared), place.run);
        let most = descriptors.replicas(MOST_WAITING);
        let desk = Desk { listener: listener_, shared, run, users, most };
        let thread =
            std::thread::Builder::new().name("kadoop-lend".to_owned()).spawn(move || desk.serve())?;
        Ok(Self { place, listener, thread: Some(thread) })
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        // This wakes the thread. Programs keep the files that they have borrowed.
        let _ = shutdown(&*self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.place.path);
    }
}

/// Makes the directory for its owner alone or, with `strangers`, so that others can pass through.
fn make(directory: &Path, strangers: bool) -> io::Result<PathBuf> {
    let mode = if strangers { 0o711 } else { 0o700 };
    fs::DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    // Resolve links: a user who may change a link may change the path's end.
    let directory = fs::canonicalize(directory)?;
    if let Some(open) = others_may_replace(&directory)? {
        // They could put a socket of their own there, receive tokens and lend forged bytes.
        let why = format!("{}: others may put something in its place", open.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(directory)
}

/// The first directory of the path, from the end, in which a user other than this one and root may
/// replace entries.
fn others_may_replace(directory: &Path) -> io::Result<Option<&Path>> {
    let me = geteuid().as_raw();
    for (at, this) in directory.ancestors().enumerate() {
        let status = fs::metadata(this)?;
        let ours = [me, ROOT].contains(&status.uid());
        // In a directory that all may write, such as /tmp, the sticky bit protects other users'
        // entries.
        let kept = status.mode() & 0o022 == 0 || at > 0 && status.mode() & STICKY != 0;
        if !ours || !kept {
            return Ok(Some(this));
        }
    }
    Ok(None)
}

fn listen_at(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let (listener, address) = socket(path, SocketFlags::NONBLOCK)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    bind(&listener, &address)?;
    // No program can connect before `listen`.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    listen(&listener, MOST_WAITING as i32)?;
    Ok(listener)
}

/// State of the thread.
struct Desk {
    listener: Arc<OwnedFd>,
    shared: Arc<Shared>,
    run: u64,
    users: Vec<u32>,
    /// Most programs that wait.
    most: usize,
}

/// A connected program without a request so far.
struct Waiting {
    socket: OwnedFd,
    since: Instant,
}

impl Desk {
    /// How long these programs may take.
    fn patience(&self, waiting: &VecDeque<Waiting>) -> Duration {
        if waiting.len() < self.most { PATIENCE } else { HURRY }
    }

    fn serve(&self) {
        let mut waiting = VecDeque::new();
        loop {
            let (listener, ready) = match self.wait(&waiting) {
                Ok(found) => found,
                Err(error) => {
                    tracing::error!(%error, "programs on this host read over TCP from now on");
                    return;
                }
            };
            if listener.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                return;
            }
            let (now, patience, mut ready) = (Instant::now(), self.patience(&waiting), ready.into_iter());
            waiting.retain(|one: &Waiting| match ready.next() {
                Some(true) => !self.attend(&one.socket),
                _ => now < one.since + patience,
            });
            if listener.contains(PollFlags::IN) {
                self.admit(&mut waiting);
            }
        }
    }

    /// Waits. Returns the listener's events, and which of the waiting programs are readable.
    fn wait(&self, waiting: &VecDeque<Waiting>) -> io::Result<(PollFlags, Vec<bool>)> {
        let full = waiting.len() >= self.most;
        let for_more = if full { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&*self.listener, for_more)];
        polled.extend(waiting.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN)));
        // The front has waited longest: programs queue in the order of their arrival.
        let patience = self.patience(waiting);
        let until = waiting.front().map(|first| patience.saturating_sub(first.since.elapsed()));
        let until =
            until.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        match poll(&mut polled, until.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = polled[1..].iter().map(|one| !one.revents().is_empty()).collect();
        Ok((polled[0].revents(), ready))
    }

    /// Accepts permitted users' connections, at most as many as there are free places. So a program
    /// that is refused again and again doesn't delay those that wait.
    fn admit(&self, waiting: &mut VecDeque<Waiting>) {
        for _ in waiting.len()..self.most {
            let socket = match accept_with(&*self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => socket,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
                Err(_) => return std::thread::sleep(PAUSE),
            };
            let user = socket_peercred(&socket).map(|peer| peer.uid.as_raw());
            if !user.is_ok_and(|user| self.users.contains(&user)) {
                tracing::debug!(?user, "ignored a request for a replica's files: this user gets none");
                let _ = answer(&socket, Err(Error::PermissionDenied));
                continue;
            }
            waiting.push_back(Waiting { socket, since: Instant::now() });
        }
    }

    /// Serves a request; true if the connection is finished.
    fn attend(&self, socket: &OwnedFd) -> bool {
        match asked(socket) {
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            Ok(None) => true,
            Ok(Some(wanted)) => {
                let lent = self.shared.noted(wanted.and_then(|wanted| self.lend(wanted)));
                // A program that has gone asks again, or reads over the network.
                let _ = answer(socket, lent);
                true
            }
        }
    }

    fn lend(&self, wanted: KdBorrow) -> Judged<Lent> {
        if wanted.run != self.run {
            return Err(Error::WrongIncarnation);
        }
        let witness = self.shared.witness(&wanted, Procedure::Borrow, Right::Read);
        witness.map_err(|_| Error::Unauthenticated)?.allowed?;
        // The lock excludes renames and deletions until the file is open.
        let core = self.shared.read();
        let (chunk, stamp) = (ChunkId(wanted.chunk), Stamp(wanted.stamp));
        let (disk, file, table) = match core.sealed(chunk, stamp) {
            Err(error) => {
                drop(core);
                if error == Error::Corrupt {
                    // The reader goes elsewhere, and needn't report it.
                    self.shared.change(|core| core.obey(Order::Verify { chunk, stamp }));
                }
                return Err(error);
            }
            sealed => sealed?,
        };
        let data = disk.open_to_read(&file).map_err(|_| Error::Disk)?;
        drop(core);
        Ok(Lent { data, table: in_memory(&table).map_err(|_| Error::Disk)? })
    }
}

/// A file of these bytes that has no name. Earlier versions had tables in files of their own, and
/// programs still get them so.
fn in_memory(bytes: &[u8]) -> io::Result<fs::File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = fs::File::from(memfd_create("kadoop-table", flags)?);
    // The reader begins where this descriptor stands.
    file.write_all_at(bytes, 0)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}
