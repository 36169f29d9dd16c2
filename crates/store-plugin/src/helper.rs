//! The process of a library. It answers calls until its parent has ended.

use crate::abi;
use crate::wire::{Answer, Channel, Request, Spec, bits};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strait_store::foreign::{Foreign, Listing, Reader, Writer};
use strait_store::{CreateOptions, Error, ErrorKind, FileStatus, Principal, Result, fail};

/// Opens the file system of a library.
pub type Opener = fn(&Spec) -> Result<Arc<dyn Foreign>>;

/// Serves the parent, whose socket is this process's standard input.
///
/// # Errors
/// Standard input isn't the socket of a parent.
pub fn serve(opener: Opener) -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    leave_standard_input()?;
    let watched = control.try_clone()?;
    // This thread may hang in the library while it opens. So another thread watches the parent.
    std::thread::Builder::new().spawn(move || end_with(&watched))?;
    let mut first = Channel::new(control.try_clone()?);
    let (Request::Open(spec), _) = first.receive()? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the parent's first request must be Open"));
    };
    let fs = match opener(&spec) {
        Ok(fs) => fs,
        Err(error) => return first.send(&Answer::from(error), &[]),
    };
    let abilities = fs.capabilities();
    let mut capabilities = bits(&abilities);
    if fs.removes_trees() {
        capabilities |= abi::REMOVES_TREES;
    }
    let opened = Answer::Opened { capabilities, recovery_ms: abilities.recovery_ms };
    first.send(&opened, &[])?;
    answer_all(&control, fs)?;
    end();
    Ok(())
}

/// Makes standard input empty. A library that reads it, or a program that a library starts, must not get
/// the parent's socket.
fn leave_standard_input() -> io::Result<()> {
    // SAFETY: the descriptor is open, and nothing drops this second owner.
    let mut input = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(0) });
    Ok(rustix::io::dup2(&File::open("/dev/null")?, &mut input)?)
}

/// Answers the calls on each socket that the parent sends, until the parent has ended.
pub(crate) fn answer_all(control: &UnixStream, fs: Arc<dyn Foreign>) -> io::Result<()> {
    let session = Arc::new(Session { fs, handles: Mutex::default(), next: AtomicU64::new(1) });
    while let Some(socket) = another(control)? {
        let session = session.clone();
        std::thread::Builder::new().spawn(move || session.answer(Channel::new(socket.into())))?;
    }
    Ok(())
}

/// Waits until the parent has ended, then ends this process.
fn end_with(parent: &UnixStream) {
    loop {
        let mut events = [PollFd::new(parent, PollFlags::RDHUP)];
        match poll(&mut events, None) {
            Ok(_) if !events[0].revents().is_empty() => return end(),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Ends this process at once, because a thread or a destructor of the library may hang.
fn end() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// Receives the next socket from the parent. None once the parent has ended.
fn another(control: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut passed = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    // A library may have signal handlers, which interrupt this thread.
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut passed, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let sockets = passed.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    sockets.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a message without a socket"))
}

struct Session {
    fs: Arc<dyn Foreign>,
    handles: Mutex<HashMap<u64, Arc<Handle>>>,
    next: AtomicU64,
}

enum Handle {
    Listing(Mutex<Box<dyn Listing>>),
    Reader(Arc<dyn Reader>),
    Writer(Mutex<Box<dyn Writer>>),
}

impl Session {
    /// Answers the calls of one channel until it is closed.
    fn answer(&self, mut channel: Channel) {
        while let Ok((request, body)) = channel.receive() {
            let (answer, bytes) = match self.execute(request, &body) {
                Ok(answered) => answered,
                Err(error) => (Answer::from(error), Vec::new()),
            };
            let sent = channel.send(&answer, &bytes).or_else(|error| match error.kind() {
                io::ErrorKind::InvalidInput => channel.send(&Answer::from(too_long()), &[]),
                _ => Err(error),
            });
            if sent.is_err() {
                return;
            }
        }
    }

    fn execute(&self, request: Request, body: &[u8]) -> Result<(Answer, Vec<u8>)> {
        if let Request::Read { handle, offset, size } = request {
            let Handle::Reader(reader) = &*self.handle(handle)? else { return strange() };
            let size = (size as usize).min(strait_store::MAX_CHUNK_BYTES);
            return Ok((Answer::Bytes, reader.read(offset, size)?));
        }
        Ok((self.plain(request, body)?, Vec::new()))
    }

    fn plain(&self, request: Request, body: &[u8]) -> Result<Answer> {
        let fs = &self.fs;
        match request {
            Request::Open(_) | Request::Read { .. } => strange(),
            Request::Stat { who, path } => Ok(Answer::Entry(fs.stat(&who.into(), &path)?.into())),
            Request::List { who, path } => {
                Ok(self.keep(Handle::Listing(Mutex::new(fs.list(&who.into(), &path)?)), 0))
            }
            Request::ListNext { handle } => self.list_next(handle),
            Request::OpenFile { who, path } => {
                let reader = fs.open(&who.into(), &path)?;
                let length = reader.length();
                Ok(self.keep(Handle::Reader(reader), length))
            }
            Request::Create { who, path, how } => {
                let how = CreateOptions {
                    overwrite: how.overwrite,
                    permission: how.permission,
                    replication: how.replication,
                    block_size: how.block_size,
                    min_replicas: None,
                };
                Ok(self.keep_writer(fs.create(&who.into(), &path, &how)?))
            }
            Request::Append { who, path } => Ok(self.keep_writer(fs.append(&who.into(), &path)?)),
            Request::Write { handle } => self.write(handle, |writer| writer.write(body)),
            Request::Flush { handle } => self.write(handle, |writer| writer.flush()),
            Request::Sync { handle } => self.write(handle, |writer| writer.sync()),
            Request::Close { handle } => self.write(handle, |writer| writer.close()),
            Request::Release { handle } => {
                let released = lock(&self.handles).remove(&handle);
                drop(released); // outside the lock, because the library may need time
                Ok(Answer::Done)
            }
            Request::Truncate { who, path, length } => done(fs.truncate(&who.into(), &path, length)),
            Request::Rename { who, from, to, replace } => done(fs.rename(&who.into(), &from, &to, replace)),
            Request::Remove { who, path, recursive } => done(fs.remove(&who.into(), &path, recursive)),
            Request::Mkdirs { who, path, permission } => done(fs.mkdirs(&who.into(), &path, permission)),
            Request::SetAttributes { who, path, set } => {
                done(fs.set_attributes(&who.into(), &path, &set.into()))
            }
            Request::Locate { who, path, start, end } => {
                Ok(fs.block_locations(&who.into(), &path, start..end)?.into())
            }
            Request::Checksum { who, path } => Ok(fs.checksum(&who.into(), &path)?.into()),
            Request::Status { who } => Ok(fs.status(&who.into())?.into()),
            Request::About => Ok(Answer::About(fs.about()?)),
        }
    }

    fn list_next(&self, handle: u64) -> Result<Answer> {
        let Handle::Listing(listing) = &*self.handle(handle)? else { return strange() };
        let entries: Vec<FileStatus> = lock(listing).next()?;
        Ok(Answer::Entries(entries.into_iter().map(Into::into).collect()))
    }

    fn write(&self, handle: u64, step: impl FnOnce(&mut dyn Writer) -> Result<()>) -> Result<Answer> {
        let Handle::Writer(writer) = &*self.handle(handle)? else { return strange() };
        let mut writer = lock(writer);
        done(step(writer.as_mut()))
    }

    fn keep_writer(&self, writer: Box<dyn Writer>) -> Answer {
        let position = writer.begins_at();
        self.keep(Handle::Writer(Mutex::new(writer)), position)
    }

    fn keep(&self, kept: Handle, number: u64) -> Answer {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.handles).insert(handle, Arc::new(kept));
        Answer::Handle { handle, number }
    }

    fn handle(&self, handle: u64) -> Result<Arc<Handle>> {
        let found = lock(&self.handles).get(&handle).cloned();
        found.map_or_else(|| fail(ErrorKind::InvalidArgument, "no such handle in the library's process"), Ok)
    }
}

fn done(outcome: Result<()>) -> Result<Answer> {
    outcome.map(|()| Answer::Done)
}

fn strange<T>() -> Result<T> {
    fail(ErrorKind::Internal, "a call that doesn't fit its handle")
}

fn too_long() -> Error {
    Error::new(ErrorKind::Unsupported, "the library's answer is longer than 4 MiB")
}

impl From<crate::wire::Who> for Principal {
    fn from(who: crate::wire::Who) -> Self {
        Self { groups: who.groups.into(), ..Self::new(&who.user) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
