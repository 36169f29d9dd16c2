//! Lends the files of sealed replicas to programs on this host ([`strait_kadoop_wire::lending`]).
//!
//! One thread serves all programs, and never blocks on one of them. The kernel identifies a program's
//! user. A program has a second to send its request. With the same token, it gets the same bytes as over
//! the network.

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
    error::{Error, Result},
    messages::Order,
};
use strait_kadoop_wire::{
    descriptors::Descriptors,
    lending::{Lent, answer, asked, socket},
    proofs::Procedure,
    random::random,
    tokens::Right,
    wire::KdBorrow,
};

/// Most connected programs that haven't sent their request; fewer if descriptors are scarce. As many more
/// wait in the socket's queue.
const MOST_WAITING: usize = 64;
/// How long a program may take to send its request; only [`HURRY`] if all places are taken.
const PATIENCE: Duration = Duration::from_secs(1);
const HURRY: Duration = Duration::from_millis(100);
/// Pause before the next accept, after one failed: probably, this process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);
const ROOT: u32 = 0;
/// In a directory with this bit, only an entry's owner may rename or remove it (S_ISVTX).
const STICKY: u32 = 0o1000;

/// Settings for programs that read replicas on a datanode's host without the datanode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShortCircuit {
    /// Directory of the socket. The datanode makes it if it is missing. None: the first data directory,
    /// which only the datanode's user and root can enter.
    pub directory: Option<PathBuf>,
    /// Ids of the users whose programs may borrow files. None: the datanode's user and root. A program also
    /// needs the chunk's token, as over the network.
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
    /// PermissionDenied: other users could replace the directory or the socket. The operating system's: for
    /// example, the path is too long for a socket (more than 107 bytes).
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
        // Name the socket by the identity, since several datanodes may use the same directory.
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

/// Makes the directory: for its owner alone or, with `strangers`, so that all users can open files in it by
/// name.
fn make(directory: &Path, strangers: bool) -> io::Result<PathBuf> {
    let mode = if strangers { 0o711 } else { 0o700 };
    fs::DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    // Resolve symbolic links: a user that can change a link on the path could lead it elsewhere.
    let directory = fs::canonicalize(directory)?;
    if let Some(open) = others_may_replace(&directory)? {
        // Such a user could put another socket there, receive tokens and lend forged bytes.
        let why = format!(
            "other users could replace {} or its entries: it must belong to root or the datanode's user, and \
             only its owner may have the right to write",
            open.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(directory)
}

/// The first directory, from the path's end to the root, in which users other than this process's and root
/// can replace entries.
fn others_may_replace(directory: &Path) -> io::Result<Option<&Path>> {
    let me = geteuid().as_raw();
    for (at, this) in directory.ancestors().enumerate() {
        let status = fs::metadata(this)?;
        let ours = [me, ROOT].contains(&status.uid());
        // In a parent that all users can write to, such as /tmp, the sticky bit protects entries from
        // users that don't own them.
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

/// State of the lender's thread.
struct Desk {
    listener: Arc<OwnedFd>,
    shared: Arc<Shared>,
    run: u64,
    users: Vec<u32>,
    /// Most connected programs that haven't sent their request.
    most: usize,
}

/// A connected program that hasn't sent its request yet.
struct Waiting {
    socket: OwnedFd,
    since: Instant,
}

impl Desk {
    /// How long these programs may take to send their requests.
    fn patience(&self, waiting: &VecDeque<Waiting>) -> Duration {
        if waiting.len() < self.most { PATIENCE } else { HURRY }
    }

    fn serve(&self) {
        let mut waiting = VecDeque::new();
        loop {
            let (listener, ready) = match self.wait(&waiting) {
                Ok(found) => found,
                Err(error) => {
                    tracing::error!(%error, "can't lend files: programs on this host read over TCP now");
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

    /// Waits for an event. Returns the listener's events and, for each waiting program, whether its socket is
    /// ready.
    fn wait(&self, waiting: &VecDeque<Waiting>) -> io::Result<(PollFlags, Vec<bool>)> {
        let full = waiting.len() >= self.most;
        let for_more = if full { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&*self.listener, for_more)];
        polled.extend(waiting.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN)));
        // The first one has waited longest: programs are queued in the order of their arrival.
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

    /// Accepts at most as many connections as there are free places, and refuses users without permission.
    /// The limit keeps a program that is refused again and again from delaying those that wait.
    fn admit(&self, waiting: &mut VecDeque<Waiting>) {
        for _ in waiting.len()..self.most {
            let socket = match accept_with(&*self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => socket,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
                Err(_) => return std::thread::sleep(PAUSE),
            };
            let user = socket_peercred(&socket).map(|peer| peer.uid.as_raw());
            if !user.is_ok_and(|user| self.users.contains(&user)) {
                tracing::debug!(?user, "refused to lend files to a program: its user has no permission");
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
                // Ignore a failure: the program has ended, or asks again or reads over the network.
                let _ = answer(socket, lent);
                true
            }
        }
    }

    fn lend(&self, wanted: KdBorrow) -> Result<Lent> {
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
                    // Verify the replica here: the reader turns to another datanode, and needn't report this.
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

/// An unnamed file in memory with these bytes. Earlier versions kept checksum tables in separate files, so
/// the protocol still passes a table as a file.
fn in_memory(bytes: &[u8]) -> io::Result<fs::File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = fs::File::from(memfd_create("kadoop-table", flags)?);
    // This write leaves the descriptor's position at 0, where the reader begins.
    file.write_all_at(bytes, 0)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}
