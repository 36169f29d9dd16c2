//! A file system in a separate process, whose crashes and hangs don't harm this one.

use crate::abi;
use crate::wire::{Answer, Channel, How, Request, Spec, Who, capabilities};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strait_store::foreign::{Foreign, Listing, Reader, Writer};
use strait_store::{
    BlockLocation, Capabilities, Checksum, CreateOptions, Error, ErrorKind, FileStatus, Principal, Result,
    SetAttributes, StoreStatus, fail,
};

/// If this many calls hang, the process is killed, and the next call starts another. Fewer hung calls may
/// concern a single file, so they don't end other files' calls. A call that returns late no longer counts.
const MAX_HUNG: usize = 4;
/// Shortest time between two starts of the process, so that a broken library doesn't keep a processor busy.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The command that runs [`crate::serve_parent`].
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// A file system in a separate process: see the module.
pub struct Remote {
    launch: Launch,
    spec: Spec,
    patience: Duration,
    abilities: Capabilities,
    removes_trees: bool,
    current: Mutex<Current>,
}

struct Current {
    process: Arc<Process>,
    started: Instant,
}

/// A running process.
struct Process {
    child: Mutex<Child>,
    control: UnixStream,
    idle: Mutex<Vec<Channel>>,
    /// Channels with calls whose answers no caller waits for any more.
    late: Mutex<Vec<Channel>>,
    patience: Duration,
    dead: AtomicBool,
}

/// Whether a request changes something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Changes,
}
use Effect::{Changes, Reads};

impl Remote {
    /// Starts the process, which opens the library.
    ///
    /// # Errors
    /// Unavailable if the process can't be started or ends; TimedOut if the library doesn't open within
    /// twice `patience`; else the library's error.
    pub fn start(launch: Launch, spec: Spec, patience: Duration) -> Result<Self> {
        let (process, bits, recovery_ms) = Process::start(&launch, &spec, patience)?;
        let (abilities, removes_trees) = (capabilities(bits, recovery_ms), bits & abi::REMOVES_TREES != 0);
        let current = Mutex::new(Current { process, started: Instant::now() });
        Ok(Self { launch, spec, patience, abilities, removes_trees, current })
    }

    /// The running process. Starts another one if it has ended.
    fn process(&self) -> Result<Arc<Process>> {
        let mut current = lock(&self.current);
        if !current.process.is_dead() {
            return Ok(current.process.clone());
        }
        if current.started.elapsed() < RESTART_PAUSE {
            let why =
                format!("the library's process ended ({}); it restarts in a second", current.process.end());
            return fail(ErrorKind::Unavailable, why);
        }
        tracing::warn!(
            library = self.spec.library,
            end = current.process.end(),
            "restarting the library's process"
        );
        let started = Process::start(&self.launch, &self.spec, self.patience);
        // The start may have taken a minute. Calls that waited for it must not repeat it one by one.
        current.started = Instant::now();
        current.process = started?.0;
        Ok(current.process.clone())
    }

    fn call(&self, effect: Effect, request: Request) -> Result<(Arc<Process>, Answer)> {
        let process = self.process()?;
        let (answer, _) = process.call(effect, &request, &[])?;
        Ok((process, answer))
    }

    fn done(&self, request: Request) -> Result<()> {
        self.call(Changes, request).map(drop)
    }
}

impl Process {
    /// Starts the process, and opens the library in it. Also returns its capabilities, as bits, and `recovery_ms`.
    fn start(launch: &Launch, spec: &Spec, patience: Duration) -> Result<(Arc<Self>, u32, u32)> {
        let failed = |error: io::Error| {
            let why = format!("the library's process can't be started: {error}");
            Error::new(ErrorKind::Unavailable, why)
        };
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        // A library may print. Standard output belongs to the command, so the library gets standard error.
        let output = io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
        let mut command = Command::new(&launch.program);
        // A terminal signals a whole process group. This process may still need the library to clean up.
        command.process_group(0);
        command.args(&launch.arguments).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::from(output));
        let child = command.spawn().map_err(failed)?;
        let process = Arc::new(Self::new(child, control, patience).map_err(failed)?);
        // `command` has a copy of the helper's socket. Without it, our socket closes when the helper ends.
        drop(command);
        let mut first = Channel::new(process.control.try_clone().map_err(failed)?);
        let opened = first.send(&Request::Open(spec.clone()), &[]).and_then(|()| first.receive::<Answer>());
        let opened = opened.map_err(|error| {
            process.kill();
            let kind = if is_timeout(&error) { ErrorKind::TimedOut } else { ErrorKind::Unavailable };
            let why = match kind {
                ErrorKind::TimedOut => format!("it doesn't open within {} s", 2 * patience.as_secs()),
                _ => format!("its process ended while it opened ({})", process.end()),
            };
            Error::new(kind, format!("library {}: {why}", spec.library))
        })?;
        match opened.0.checked() {
            Ok(Answer::Opened { capabilities: bits, recovery_ms }) => Ok((process, bits, recovery_ms)),
            Ok(_) => strange(),
            Err(error) => {
                process.kill();
                Err(error)
            }
        }
    }

    fn new(child: Child, control: UnixStream, patience: Duration) -> io::Result<Self> {
        limit(&control, patience)?;
        Ok(Self {
            child: Mutex::new(child),
            control,
            idle: Mutex::default(),
            late: Mutex::default(),
            patience,
            dead: AtomicBool::new(false),
        })
    }

    fn is_dead(&self) -> bool {
        // The process may have ended between two calls.
        self.dead.load(Ordering::Acquire) || matches!(lock(&self.child).try_wait(), Ok(Some(_)) | Err(_))
    }

    fn kill(&self) {
        self.dead.store(true, Ordering::Release);
        lock(&self.idle).clear();
        lock(&self.late).clear();
        let mut child = lock(&self.child);
        // Errors mean that the process has ended already.
        let _ = child.kill();
        let _ = child.wait();
    }

    fn end(&self) -> String {
        match lock(&self.child).try_wait() {
            Ok(Some(status)) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("by signal {signal}"),
                (_, Some(code)) => format!("with exit code {code}"),
                _ => "in an unknown way".to_owned(),
            },
            _ => "in an unknown way".to_owned(),
        }
    }

    fn channel(&self) -> Result<Channel> {
        if let Some(channel) = lock(&self.idle).pop() {
            return Ok(channel);
        }
        // If no descriptor is free, only this call fails.
        let (ours, theirs) = UnixStream::pair()?;
        limit(&ours, self.patience)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut passed = SendAncillaryBuffer::new(&mut space);
        let sockets = [theirs.as_fd()];
        passed.push(SendAncillaryMessage::ScmRights(&sockets));
        let sent = rustix::io::retry_on_intr(|| {
            sendmsg(&self.control, &[IoSlice::new(&[0])], &mut passed, SendFlags::NOSIGNAL)
        });
        sent.map_err(|_| self.ended(Reads))?;
        Ok(Channel::new(ours))
    }

    fn call(&self, effect: Effect, request: &Request, body: &[u8]) -> Result<(Answer, Vec<u8>)> {
        if self.dead.load(Ordering::Acquire) {
            return fail(ErrorKind::Unavailable, format!("the library's process has ended ({})", self.end()));
        }
        self.take_late_answers();
        let mut channel = self.channel()?;
        match channel.send(request, body) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                lock(&self.idle).push(channel);
                return fail(ErrorKind::InvalidArgument, "the call is longer than 4 MiB");
            }
            // Nothing was executed. If the time ran out, the whole process is stopped, because its thread for
            // this channel only has to receive.
            Err(_) => return Err(self.ended(Reads)),
        }
        match channel.receive::<Answer>() {
            Ok((answer, bytes)) => {
                lock(&self.idle).push(channel);
                Ok((answer.checked()?, bytes))
            }
            Err(error) if is_timeout(&error) => {
                self.hangs(channel);
                let kind = if effect == Changes { ErrorKind::OutcomeUnknown } else { ErrorKind::TimedOut };
                fail(kind, format!("the library doesn't return within {} s", 2 * self.patience.as_secs()))
            }
            Err(_) => Err(self.ended(effect)),
        }
    }

    /// Gives up a call that doesn't return. Kills the process if too many hang.
    fn hangs(&self, channel: Channel) {
        self.take_late_answers();
        let hung = {
            let mut late = lock(&self.late);
            late.push(channel);
            late.len()
        };
        if hung >= MAX_HUNG {
            tracing::error!("{hung} calls of a library don't return; killing its process");
            self.kill();
        }
    }

    /// Receives late answers. Releases the handles in them, since no caller has these: they may be open
    /// files, or locks on files.
    fn take_late_answers(&self) {
        let answered: Vec<Channel> =
            lock(&self.late).extract_if(.., |channel| channel.is_readable()).collect();
        for mut channel in answered {
            match channel.receive::<Answer>() {
                Ok((Answer::Handle { handle, .. }, _)) => {
                    if channel.send(&Request::Release { handle }, &[]).is_ok() {
                        // The answer to this request is late, too.
                        lock(&self.late).push(channel);
                    }
                }
                Ok(_) => lock(&self.idle).push(channel),
                // The next call notices a dead process.
                Err(_) => {}
            }
        }
    }

    /// Kills the process that didn't answer, and returns the call's error.
    fn ended(&self, effect: Effect) -> Error {
        self.kill();
        let kind = if effect == Changes { ErrorKind::OutcomeUnknown } else { ErrorKind::Unavailable };
        Error::new(
            kind,
            format!("the library's process ended ({}); the next call starts another", self.end()),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Limits each step on a socket: a call takes up to the patience, and may wait as long for others before.
fn limit(socket: &UnixStream, patience: Duration) -> io::Result<()> {
    socket.set_read_timeout(Some(2 * patience))?;
    socket.set_write_timeout(Some(2 * patience))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn strange<T>() -> Result<T> {
    fail(ErrorKind::Internal, "the library's process sent an answer that doesn't fit the call")
}

/// A handle in the process. Dropping this releases the handle.
struct Held {
    process: Arc<Process>,
    handle: u64,
}

impl Held {
    fn of((process, answer): (Arc<Process>, Answer)) -> Result<(Self, u64)> {
        match answer {
            Answer::Handle { handle, number } => Ok((Self { process, handle }, number)),
            _ => strange(),
        }
    }

    fn write(&self, request: &Request, body: &[u8]) -> Result<()> {
        self.process.call(Changes, request, body).map(drop)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // If the process has ended, there is nothing to release.
        let _ = self.process.call(Reads, &Request::Release { handle: self.handle }, &[]);
    }
}

struct RemoteListing(Held);

impl Listing for RemoteListing {
    fn next(&mut self) -> Result<Vec<FileStatus>> {
        match self.0.process.call(Reads, &Request::ListNext { handle: self.0.handle }, &[])?.0 {
            Answer::Entries(entries) => Ok(entries.into_iter().map(Into::into).collect()),
            _ => strange(),
        }
    }
}

struct RemoteReader {
    held: Held,
    length: u64,
}

impl Reader for RemoteReader {
    fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>> {
        let request = Request::Read { handle: self.held.handle, offset, size: size as u64 };
        match self.held.process.call(Reads, &request, &[])? {
            (Answer::Bytes, bytes) if bytes.len() <= size => Ok(bytes),
            _ => strange(),
        }
    }

    fn length(&self) -> u64 {
        self.length
    }
}

struct RemoteWriter {
    held: Held,
    begins_at: u64,
}

impl Writer for RemoteWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.held.write(&Request::Write { handle: self.held.handle }, bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.held.write(&Request::Flush { handle: self.held.handle }, &[])
    }

    fn sync(&mut self) -> Result<()> {
        self.held.write(&Request::Sync { handle: self.held.handle }, &[])
    }

    fn close(&mut self) -> Result<()> {
        self.held.write(&Request::Close { handle: self.held.handle }, &[])
    }

    fn begins_at(&self) -> u64 {
        self.begins_at
    }
}

impl From<&Principal> for Who {
    fn from(who: &Principal) -> Self {
        Self { user: who.user.to_string(), groups: who.groups.to_vec() }
    }
}

impl Foreign for Remote {
    fn capabilities(&self) -> Capabilities {
        self.abilities
    }

    fn removes_trees(&self) -> bool {
        self.removes_trees
    }

    fn stat(&self, who: &Principal, path: &str) -> Result<FileStatus> {
        match self.call(Reads, Request::Stat { who: who.into(), path: path.to_owned() })?.1 {
            Answer::Entry(entry) => Ok(entry.into()),
            _ => strange(),
        }
    }

    fn list(&self, who: &Principal, path: &str) -> Result<Box<dyn Listing>> {
        let answered = self.call(Reads, Request::List { who: who.into(), path: path.to_owned() })?;
        Ok(Box::new(RemoteListing(Held::of(answered)?.0)))
    }

    fn open(&self, who: &Principal, path: &str) -> Result<Arc<dyn Reader>> {
        let answered = self.call(Reads, Request::OpenFile { who: who.into(), path: path.to_owned() })?;
        let (held, length) = Held::of(answered)?;
        Ok(Arc::new(RemoteReader { held, length }))
    }

    fn create(&self, who: &Principal, path: &str, how: &CreateOptions) -> Result<Box<dyn Writer>> {
        let how = How {
            overwrite: how.overwrite,
            permission: how.permission,
            replication: how.replication,
            block_size: how.block_size,
        };
        let answered = self.call(Changes, Request::Create { who: who.into(), path: path.to_owned(), how })?;
        let (held, begins_at) = Held::of(answered)?;
        Ok(Box::new(RemoteWriter { held, begins_at }))
    }

    fn append(&self, who: &Principal, path: &str) -> Result<Box<dyn Writer>> {
        let answered = self.call(Reads, Request::Append { who: who.into(), path: path.to_owned() })?;
        let (held, begins_at) = Held::of(answered)?;
        Ok(Box::new(RemoteWriter { held, begins_at }))
    }

    fn truncate(&self, who: &Principal, path: &str, length: u64) -> Result<()> {
        self.done(Request::Truncate { who: who.into(), path: path.to_owned(), length })
    }

    fn rename(&self, who: &Principal, from: &str, to: &str, replace: bool) -> Result<()> {
        self.done(Request::Rename { who: who.into(), from: from.to_owned(), to: to.to_owned(), replace })
    }

    fn remove(&self, who: &Principal, path: &str, recursive: bool) -> Result<()> {
        self.done(Request::Remove { who: who.into(), path: path.to_owned(), recursive })
    }

    fn mkdirs(&self, who: &Principal, path: &str, permission: Option<u32>) -> Result<()> {
        self.done(Request::Mkdirs { who: who.into(), path: path.to_owned(), permission })
    }

    fn set_attributes(&self, who: &Principal, path: &str, set: &SetAttributes) -> Result<()> {
        self.done(Request::SetAttributes { who: who.into(), path: path.to_owned(), set: set.into() })
    }

    fn block_locations(&self, who: &Principal, path: &str, range: Range<u64>) -> Result<Vec<BlockLocation>> {
        let (start, end) = (range.start, range.end);
        let block = |(offset, length, hosts)| BlockLocation {
            offset,
            length,
            hosts,
            addresses: Vec::new(),
            corrupt: false,
        };
        match self.call(Reads, Request::Locate { who: who.into(), path: path.to_owned(), start, end })?.1 {
            Answer::Blocks(blocks) => Ok(blocks.into_iter().map(block).collect()),
            _ => strange(),
        }
    }

    fn checksum(&self, who: &Principal, path: &str) -> Result<Checksum> {
        match self.call(Reads, Request::Checksum { who: who.into(), path: path.to_owned() })?.1 {
            Answer::Checksum { kind, value } => Ok(Checksum { algorithm: kind, value }),
            _ => strange(),
        }
    }

    fn status(&self, who: &Principal) -> Result<StoreStatus> {
        match self.call(Reads, Request::Status { who: who.into() })?.1 {
            Answer::Status { capacity, used, remaining } => {
                Ok(StoreStatus { capacity, used, remaining, settling: false })
            }
            _ => strange(),
        }
    }

    fn about(&self) -> Result<Option<String>> {
        match self.call(Reads, Request::About)?.1 {
            Answer::About(about) => Ok(about),
            _ => strange(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helper::answer_all;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use strait_store::foreign::absent;
    use strait_testkit::wait::eventually;

    const PATIENCE: Duration = Duration::from_millis(50);

    /// A library with slow files, and a file of too many blocks.
    struct Library {
        open_files: Arc<AtomicUsize>,
        /// Each message lets one call open a file.
        may_open: Mutex<Receiver<()>>,
    }

    impl Library {
        fn new() -> (Self, Sender<()>) {
            let (open, may_open) = channel();
            (Self { open_files: Arc::default(), may_open: Mutex::new(may_open) }, open)
        }
    }

    struct OpenFile(Arc<AtomicUsize>);

    impl Reader for OpenFile {
        fn read(&self, _: u64, _: usize) -> Result<Vec<u8>> {
            Ok(Vec::new())
        }
        fn length(&self) -> u64 {
            0
        }
    }

    impl Drop for OpenFile {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Foreign for Library {
        fn capabilities(&self) -> Capabilities {
            capabilities(0, 0)
        }
        fn stat(&self, _: &Principal, _: &str) -> Result<FileStatus> {
            fail(ErrorKind::NotFound, "there is nothing")
        }
        fn list(&self, _: &Principal, _: &str) -> Result<Box<dyn Listing>> {
            absent()
        }
        fn open(&self, _: &Principal, _: &str) -> Result<Arc<dyn Reader>> {
            lock(&self.may_open).recv().expect("the test lets it open a file");
            self.open_files.fetch_add(1, Ordering::SeqCst);
            Ok(Arc::new(OpenFile(self.open_files.clone())))
        }
        fn create(&self, _: &Principal, _: &str, _: &CreateOptions) -> Result<Box<dyn Writer>> {
            absent()
        }
        fn append(&self, _: &Principal, _: &str) -> Result<Box<dyn Writer>> {
            absent()
        }
        fn truncate(&self, _: &Principal, _: &str, _: u64) -> Result<()> {
            absent()
        }
        fn rename(&self, _: &Principal, _: &str, _: &str, _: bool) -> Result<()> {
            absent()
        }
        fn remove(&self, _: &Principal, _: &str, _: bool) -> Result<()> {
            absent()
        }
        fn mkdirs(&self, _: &Principal, _: &str, _: Option<u32>) -> Result<()> {
            absent()
        }
        fn set_attributes(&self, _: &Principal, _: &str, _: &SetAttributes) -> Result<()> {
            absent()
        }
        fn block_locations(&self, _: &Principal, _: &str, _: Range<u64>) -> Result<Vec<BlockLocation>> {
            let block = BlockLocation {
                offset: 0,
                length: 1,
                hosts: vec!["a.host.with.a.long.name".to_owned()],
                addresses: Vec::new(),
                corrupt: false,
            };
            Ok(vec![block; 200_000])
        }
    }

    /// A process, and the socket on which a helper answers. The child only has to be alive.
    fn process(patience: Duration) -> (Process, UnixStream) {
        let (control, theirs) = UnixStream::pair().unwrap();
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        (Process::new(child, control, patience).unwrap(), theirs)
    }

    /// A process whose calls go to this library, in threads of the test.
    fn with(library: Library, patience: Duration) -> Process {
        let (process, theirs) = process(patience);
        std::thread::spawn(move || answer_all(&theirs, Arc::new(library)));
        process
    }

    fn who() -> Who {
        Who { user: "ada".to_owned(), groups: Vec::new() }
    }

    fn stat(process: &Process) -> ErrorKind {
        let request = Request::Stat { who: who(), path: "/".to_owned() };
        process.call(Reads, &request, &[]).map(drop).unwrap_err().kind()
    }

    #[test]
    fn slow_calls_that_return_late_neither_end_the_process_nor_leave_files_open() {
        let (library, open) = Library::new();
        let open_files = library.open_files.clone();
        let process = with(library, PATIENCE);
        for _ in 0..=MAX_HUNG {
            let request = Request::OpenFile { who: who(), path: "/slow".to_owned() };
            let late = process.call(Reads, &request, &[]).map(drop).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::TimedOut, "{late}");
            open.send(()).unwrap();
            eventually("its answer is there", || lock(&process.late).iter().all(Channel::is_readable));
        }
        assert!(!process.is_dead());
        eventually("no file stays open", || {
            stat(&process);
            open_files.load(Ordering::SeqCst) == 0 && lock(&process.late).is_empty()
        });
    }

    #[test]
    fn calls_that_dont_return_end_the_process() {
        let (process, _theirs) = process(PATIENCE);
        for _ in 0..MAX_HUNG {
            assert!(!process.is_dead());
            assert_eq!(stat(&process), ErrorKind::TimedOut);
        }
        assert!(process.is_dead());
    }

    #[test]
    fn a_process_that_receives_nothing_keeps_no_writer_waiting() {
        let (process, _theirs) = process(PATIENCE);
        let (sender, received) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let request = Request::Write { handle: 1 };
            let written = process.call(Changes, &request, &vec![0; strait_store::MAX_CHUNK_BYTES]);
            sender.send(written.map(drop).map_err(|error| error.kind()))
        });
        let written = received.recv_timeout(Duration::from_secs(10)).expect("the call returns");
        assert_eq!(written, Err(ErrorKind::Unavailable));
    }

    #[test]
    fn an_answer_that_is_too_long_leaves_the_process_alive() {
        let process = with(Library::new().0, Duration::from_secs(30));
        let request = Request::Locate { who: who(), path: "/f".to_owned(), start: 0, end: 1 };
        let refused = process.call(Reads, &request, &[]).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        assert!(!process.is_dead());
        assert_eq!(stat(&process), ErrorKind::NotFound);
    }
}
