//! Lends the files of sealed replicas to programs on this host ([`crate::service::lending`]).
//!
//! One thread, which waits for nobody: who connects is asked who it is by the kernel, and has a
//! second to say what it wants. It gets what the network would give it, by the same token.

use super::shared::Shared;
use crate::{
    ChunkId, Stamp,
    error::{Error, Result as Judged},
    service::{
        home::random,
        lending::{Lent, answer, asked, socket},
        proofs::Procedure,
        tokens::Right,
    },
    wire::KdBorrow,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
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
        unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Programs that are connected and haven't asked yet; as many again wait to be taken.
const MOST_WAITING: usize = 64;
/// How long a program may take to ask, and how long when others wait for it.
const PATIENCE: Duration = Duration::from_secs(1);
const HURRY: Duration = Duration::from_millis(100);
/// Before connections are taken again, if this process has too many files open.
const PAUSE: Duration = Duration::from_millis(100);
const ROOT: u32 = 0;
/// In a directory with this bit only who owns something may rename or remove it (S_ISVTX).
const STICKY: u32 = 0o1000;

/// How programs on a datanode's host read its replicas without it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShortCircuit {
    /// Where the socket lies that they ask at; made if it isn't there. None: in the first data
    /// directory, which its owner alone can enter.
    pub directory: Option<PathBuf>,
    /// Users (their ids) that are answered. None: the datanode's own and root. Each needs a
    /// chunk's token besides, as over the network.
    pub users: Option<Vec<u32>>,
}

/// What clients are told to find the socket, and to know that it is this datanode's.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub path: PathBuf,
    pub run: u64,
}

/// The socket and its thread, until it is dropped.
pub(super) struct Lender {
    place: Place,
    listener: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Lender {
    /// Begins to lend. `home` is the first data directory.
    ///
    /// # Errors
    /// Others may put something in the directory's or the socket's place; its path is too long for a socket (107 bytes); the
    /// operating system's.
    pub(super) fn start(options: &ShortCircuit, home: &Path, shared: &Arc<Shared>) -> io::Result<Self> {
        let strangers = options.users.is_some();
        let directory = match &options.directory {
            Some(directory) => make(directory, strangers)?,
            None => home.to_owned(),
        };
        // Datanodes may share a directory; nobody else has this one's identity.
        let path = std::path::absolute(directory)?.join(format!("kadoop-{:016x}.sock", shared.identity.0));
        let listener = Arc::new(listen_at(&path, if strangers { 0o666 } else { 0o600 })?);
        let place = Place { path, run: random()? };
        let users = options.users.clone().unwrap_or_else(|| vec![geteuid().as_raw(), ROOT]);
        let (listener_, shared, run) = (Arc::clone(&listener), Arc::clone(shared), place.run);
        let desk = Desk { listener: listener_, shared, run, users };
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
        // Wakes the thread. Who has something borrowed keeps it.
        let _ = shutdown(&*self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.place.path);
    }
}

/// The directory, for its owner alone or, if others are to be answered, to be passed through.
fn make(directory: &Path, strangers: bool) -> io::Result<PathBuf> {
    let mode = if strangers { 0o711 } else { 0o700 };
    fs::DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    // As it is without links: who may change one of those may change where it leads.
    let directory = fs::canonicalize(directory)?;
    if let Some(open) = others_may_replace(&directory)? {
        // They could put a socket of their own there, be told tokens and lend forged bytes.
        let why = format!("{}: others may put something in its place", open.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(directory)
}

/// The first of a directory and those above it in which somebody else than this user and root
/// may put something in place of what is there.
fn others_may_replace(directory: &Path) -> io::Result<Option<&Path>> {
    let me = geteuid().as_raw();
    for (at, this) in directory.ancestors().enumerate() {
        let status = fs::metadata(this)?;
        let ours = [me, ROOT].contains(&status.uid());
        // Where everybody may write, as in /tmp, the sticky bit keeps what is another's.
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
    // Nobody can connect until it listens.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    listen(&listener, MOST_WAITING as i32)?;
    Ok(listener)
}

/// What the thread works with.
struct Desk {
    listener: Arc<OwnedFd>,
    shared: Arc<Shared>,
    run: u64,
    users: Vec<u32>,
}

/// Somebody who hasn't asked yet.
struct Waiting {
    socket: OwnedFd,
    since: Instant,
}

/// How long they may take.
fn patience(waiting: &VecDeque<Waiting>) -> Duration {
    if waiting.len() < MOST_WAITING { PATIENCE } else { HURRY }
}

impl Desk {
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
            let (now, patience, mut ready) = (Instant::now(), patience(&waiting), ready.into_iter());
            waiting.retain(|one: &Waiting| match ready.next() {
                Some(true) => !self.attend(&one.socket),
                _ => now < one.since + patience,
            });
            if listener.contains(PollFlags::IN) {
                self.admit(&mut waiting);
            }
        }
    }

    /// What happens at the listener, and which of those who wait have something to say.
    fn wait(&self, waiting: &VecDeque<Waiting>) -> io::Result<(PollFlags, Vec<bool>)> {
        let full = waiting.len() >= MOST_WAITING;
        let for_more = if full { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&*self.listener, for_more)];
        polled.extend(waiting.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN)));
        // They have come in this order.
        let patience = patience(waiting);
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

    /// Takes connections of those who may ask, as many as there is room for: who is refused
    /// time and again doesn't keep those who wait from being answered.
    fn admit(&self, waiting: &mut VecDeque<Waiting>) {
        for _ in waiting.len()..MOST_WAITING {
            let socket = match accept_with(&*self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => socket,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
                Err(_) => return std::thread::sleep(PAUSE),
            };
            let user = socket_peercred(&socket).map(|peer| peer.uid.as_raw());
            if !user.is_ok_and(|user| self.users.contains(&user)) {
                tracing::debug!(?user, "a user who isn't answered asked for a replica's files");
                let _ = answer(&socket, Err(Error::PermissionDenied));
                continue;
            }
            waiting.push_back(Waiting { socket, since: Instant::now() });
        }
    }

    /// Whether that was all.
    fn attend(&self, socket: &OwnedFd) -> bool {
        match asked(socket) {
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            Ok(None) => true,
            Ok(Some(wanted)) => {
                let lent = self.shared.noted(wanted.and_then(|wanted| self.lend(wanted)));
                // Who has gone meanwhile asks again, or reads over the network.
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
        // No rename or deletion comes between the names and the files.
        let core = self.shared.read();
        let (disk, names) = core.sealed(ChunkId(wanted.chunk), Stamp(wanted.stamp))?;
        let [data, table] = names.map(|name| disk.open_to_read(&name).map_err(|_| Error::Disk));
        Ok(Lent { data: data?, table: table? })
    }
}
