//! Clients that demand more of a gateway than their share, and a user whose calls are measured during that.

use crate::failure::{Failure, Result};
use crate::process::spawn_bound;
use crate::thrift::Client;
use crate::wait::pause;
use bytes::Bytes;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use strait_wire::*;

/// The wire of these clients.
const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };
/// Pause between two pieces of a slow request.
const PAUSE: Duration = Duration::from_millis(100);
/// Requests that each connection of [`Attack::stats`] sends together, before it reads the answers.
const AT_ONCE: usize = 50;
/// Requests that each connection of [`Attack::unread_reads`] sends: few enough for the socket's buffers.
const UNREAD: usize = 200;
/// Bytes of a user's put.
const PUT_BYTES: usize = 1 << 20;

/// Connects and opens a session of this user.
///
/// # Errors
/// The gateway refuses the login.
pub fn log_in(address: SocketAddr, user: &str, password: &str) -> std::result::Result<Client, DfsError> {
    let mut client = Client::connect(address, WIRE);
    let request = OpenSessionRequest {
        user: Some(user.to_owned()),
        password: Some(Secret(password.to_owned())),
        ..Default::default()
    };
    client.token = client.v2::<methods::OpenSession>(request)?.token;
    Ok(client)
}

/// A new connection, attached to the session with this token, if any.
fn attached(address: SocketAddr, token: &Option<Secret>) -> Option<TcpStream> {
    let mut client = Client::try_connect(address, WIRE).ok()?;
    if token.is_some() {
        let request = OpenSessionRequest { token: token.clone(), ..Default::default() };
        client.stream.write_all(&methods::OpenSession::call(WIRE, 1, &request.into()).to_bytes()).ok()?;
        client.message()?;
    }
    Some(client.stream)
}

/// Whether the other end has neither sent unread bytes nor closed the connection.
fn is_silent(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 512]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// As [`attached`], but returns a client for typed calls.
fn attached_client(address: SocketAddr, token: &Option<Secret>) -> std::result::Result<Client, DfsError> {
    let mut client = Client::connect(address, WIRE);
    let request = OpenSessionRequest { token: token.clone(), ..Default::default() };
    client.v2::<methods::OpenSession>(request)?;
    Ok(client)
}

/// One step of [`Attack::many_readers`].
fn reader(
    mut client: Client,
    path: &str,
    times: usize,
    bytes: usize,
) -> std::result::Result<impl FnMut() + Send + 'static, DfsError> {
    let request = OpenFileRequest { path: Some(path.to_owned()), ..Default::default() };
    let mut handles = Vec::with_capacity(times);
    for _ in 0..times {
        handles.push(client.v2::<methods::OpenFile>(request.clone())?.handle);
    }
    let reads = (0..bytes).step_by(PUT_BYTES).flat_map(move |at| {
        handles.clone().into_iter().map(move |handle| ReadRangeRequest {
            handle,
            offset: Some(at as i64),
            length: Some(PUT_BYTES as i32),
            ..Default::default()
        })
    });
    let mut reads = reads.collect::<Vec<_>>().into_iter().cycle();
    Ok(move || {
        // A refusal is an answer, too.
        let _ = reads.next().map(|request| client.v2::<methods::ReadRange>(request));
    })
}

/// An attack that lasts until it is dropped.
pub struct Attack {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Attack {
    /// Opens `connections` with `begin`, and calls `goes_on` for each in turn. When `goes_on` returns false,
    /// opens another connection in place of that one.
    fn repeat(
        connections: usize,
        begin: impl Fn() -> Option<TcpStream> + Send + 'static,
        goes_on: impl Fn(&mut TcpStream) -> bool + Send + 'static,
    ) -> Self {
        let mut streams: Vec<Option<TcpStream>> = (0..connections).map(|_| begin()).collect();
        Self::start([move || {
            for stream in &mut streams {
                if !stream.as_mut().is_some_and(&goes_on) {
                    *stream = begin();
                }
            }
            pause("the attack is slow", PAUSE);
        }])
    }

    /// Runs each step repeatedly, each in a separate thread.
    fn start<S: FnMut() + Send + 'static>(steps: impl IntoIterator<Item = S>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let repeat = |mut step: S| {
            let stopped = stop.clone();
            std::thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    step();
                }
            })
        };
        let threads = steps.into_iter().map(repeat).collect();
        Self { stop, threads }
    }

    /// Clients that each open a file `times` times, and then read `bytes` through each of the handles,
    /// repeatedly. They change to the next handle after every 1 MiB.
    ///
    /// # Errors
    /// The gateway's, if the file can't be opened.
    pub fn many_readers(
        clients: Vec<Client>,
        path: &str,
        times: usize,
        bytes: usize,
    ) -> std::result::Result<Self, DfsError> {
        let readers = clients.into_iter().map(|client| reader(client, path, times, bytes));
        Ok(Self::start(readers.collect::<std::result::Result<Vec<_>, _>>()?))
    }

    /// Connections that each announce a request of `announced` bytes, send it at `rate` bytes a second, and
    /// reconnect when the gateway closes them. With a token they are in its session, else without a login.
    pub fn drip(
        address: SocketAddr,
        token: Option<Secret>,
        connections: usize,
        announced: u32,
        rate: usize,
    ) -> Self {
        let begin = move || {
            let mut stream = attached(address, &token)?;
            stream.write_all(&announced.to_be_bytes()).ok()?;
            stream.write_all(&[0x80, 1, 0, 1]).ok()?;
            stream.set_nonblocking(true).ok()?;
            Some(stream)
        };
        let piece = vec![0; rate / 10];
        Self::repeat(connections, begin, move |stream| {
            // If the socket's buffer is full, skip these bytes.
            !matches!(stream.write(&piece), Err(error) if error.kind() != ErrorKind::WouldBlock)
        })
    }

    /// Connections in the session with this token that each repeatedly send many requests for the status of
    /// one path together. `answers` counts the answers.
    ///
    /// # Errors
    /// The gateway's, if a connection can't be attached to the session.
    pub fn stats(
        address: SocketAddr,
        token: &Option<Secret>,
        connections: usize,
        path: &str,
        answers: &Arc<AtomicUsize>,
    ) -> std::result::Result<Self, DfsError> {
        let request = GetFileInfoRequest { path: Some(path.to_owned()), ..Default::default() };
        let requests = methods::GetFileInfo::call(WIRE, 1, &request.into()).to_bytes().repeat(AT_ONCE);
        let asking = |mut client: Client| {
            let (requests, answers) = (requests.clone(), answers.clone());
            move || {
                let sent = client.stream.write_all(&requests);
                let came = (0..AT_ONCE).take_while(|_| sent.is_ok() && client.message().is_some()).count();
                answers.fetch_add(came, Ordering::Relaxed);
            }
        };
        let clients = (0..connections).map(|_| attached_client(address, token));
        Ok(Self::start(clients.map(|client| client.map(asking)).collect::<std::result::Result<Vec<_>, _>>()?))
    }

    /// Connections in the session with this token that each send many requests for 1 MiB of a file, and read
    /// no answer. They don't send more later.
    ///
    /// # Errors
    /// The gateway's, if the file can't be opened.
    pub fn unread_reads(
        address: SocketAddr,
        token: &Option<Secret>,
        connections: usize,
        path: &str,
    ) -> std::result::Result<Vec<Client>, DfsError> {
        let ask = |_| {
            let mut client = attached_client(address, token)?;
            let request = OpenFileRequest { path: Some(path.to_owned()), ..Default::default() };
            let handle = client.v2::<methods::OpenFile>(request)?.handle;
            for _ in 0..UNREAD {
                let length = Some(PUT_BYTES as i32);
                let request = ReadRangeRequest { handle, offset: Some(0), length, ..Default::default() };
                client.send::<methods::ReadRange>(&request.into());
            }
            Ok(client)
        };
        (0..connections).map(ask).collect()
    }

    /// Connections that each request the checksum of one file. After an answer or a close, another connection
    /// repeats that.
    pub fn checksums(address: SocketAddr, token: Option<Secret>, connections: usize, path: &str) -> Self {
        let request = GetChecksumRequest { path: Some(path.to_owned()), ..Default::default() };
        let request = methods::GetChecksum::call(WIRE, 2, &request.into()).to_bytes();
        let ask = move || {
            let mut stream = attached(address, &token)?;
            stream.write_all(&request).ok()?;
            stream.set_nonblocking(true).ok()?;
            Some(stream)
        };
        Self::repeat(connections, ask, is_silent)
    }

    /// Connections that each send half of an HTTP request, and then nothing. Another connection replaces a
    /// closed one.
    pub fn half_requests(address: SocketAddr, connections: usize) -> Self {
        let begin = move || {
            let mut stream = TcpStream::connect(address).ok()?;
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:");
            let _ = stream.set_nonblocking(true);
            Some(stream)
        };
        Self::repeat(connections, begin, is_silent)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A process of another local user.
pub struct Crowd(Child);

impl Crowd {
    /// Tries to open `connections` connections, and keeps those that it gets. Needs root and Python.
    ///
    /// # Errors
    /// Python is missing, or can't become that user.
    pub fn start(address: SocketAddr, user: u32, connections: usize) -> Result<Self> {
        const PROGRAM: &str = "
import resource, socket, sys, time
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = []
for _ in range(count):
    try:
        held.append(socket.create_connection((host, port), 5))
    except OSError:
        time.sleep(0.01)
print(len(held), flush=True)
sys.stdin.read()
";
        Self::run(PROGRAM, address, user, &[connections.to_string()])
    }

    /// Guesses the password of `name` in `connections` threads: some 10 times a second in each, if the
    /// gateway answers at once. Needs root and Python.
    ///
    /// # Errors
    /// Python is missing, or can't become that user.
    pub fn guess(address: SocketAddr, user: u32, name: &str, connections: usize) -> Result<Self> {
        const PROGRAM: &str = "
import socket, sys, threading, time
host, port, count, guess = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4])
def again():
    while True:
        try:
            with socket.create_connection((host, port), 5) as to:
                to.settimeout(30)
                to.sendall(guess)
                to.recv(512)
        except OSError:
            pass
        time.sleep(0.08)
for _ in range(count):
    threading.Thread(target=again, daemon=True).start()
print(count, flush=True)
sys.stdin.read()
";
        let request = OpenSessionRequest {
            user: Some(name.to_owned()),
            password: Some(Secret("a guess".to_owned())),
            ..Default::default()
        };
        let guess = methods::OpenSession::call(WIRE, 1, &request.into()).to_bytes();
        Self::run(PROGRAM, address, user, &[connections.to_string(), hex(&guess)])
    }

    /// Sends requests without a login over `connections` connections, as fast as the gateway takes them, and
    /// reads the answers. Needs root and Python.
    ///
    /// # Errors
    /// Python is missing, or can't become that user.
    pub fn ask(address: SocketAddr, user: u32, connections: usize) -> Result<Self> {
        const PROGRAM: &str = "
import selectors, socket, sys
host, port, count, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4]) * 500
streams = selectors.DefaultSelector()
def connect():
    to = socket.create_connection((host, port), 5)
    to.setblocking(False)
    streams.register(to, selectors.EVENT_READ | selectors.EVENT_WRITE, [0])
for _ in range(count):
    connect()
print(count, flush=True)
while True:
    for key, ready in streams.select(0.1):
        sent = key.data
        try:
            if ready & selectors.EVENT_READ and not key.fileobj.recv(1 << 20):
                raise ConnectionResetError
            if ready & selectors.EVENT_WRITE:
                sent[0] = (sent[0] + key.fileobj.send(requests[sent[0]:])) % len(requests)
        except BlockingIOError:
            pass
        except OSError:
            streams.unregister(key.fileobj)
            key.fileobj.close()
    try:
        while len(streams.get_map()) < count:
            connect()
    except OSError:
        pass
";
        let request = methods::ServerInfo::call(WIRE, 1, &ServerInfoRequest::default().into()).to_bytes();
        Self::run(PROGRAM, address, user, &[connections.to_string(), hex(&request)])
    }

    /// Connects and resets the connection at once, again and again, in `threads` threads. Needs root and
    /// Python.
    ///
    /// # Errors
    /// Python is missing, or can't become that user.
    pub fn reset(address: SocketAddr, user: u32, threads: usize) -> Result<Self> {
        const PROGRAM: &str = "
import socket, struct, sys, threading
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
at_once = struct.pack('ii', 1, 0)
def again():
    while True:
        try:
            with socket.create_connection((host, port), 5) as to:
                to.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        except OSError:
            pass
for _ in range(count):
    threading.Thread(target=again, daemon=True).start()
print(count, flush=True)
sys.stdin.read()
";
        Self::run(PROGRAM, address, user, &[threads.to_string()])
    }

    fn run(program: &str, address: SocketAddr, user: u32, arguments: &[String]) -> Result<Self> {
        // Raise the limit of open files: the child inherits it, and needs many.
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
        let mut command = Command::new("python3");
        command.args(["-c", program, &address.ip().to_string(), &address.port().to_string()]);
        command.args(arguments).uid(user).gid(user).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn_bound(command).map_err(|error| Failure::new(format!("python3: {error}")))?;
        let mut told = [0; 1];
        let stdout = child.stdout.as_mut().ok_or_else(|| Failure::new("no standard output".to_owned()))?;
        let read = stdout.read(&mut told);
        let crowd = Self(child);
        match read {
            Ok(1) => Ok(crowd),
            _ => Err(Failure::new("the crowd's program ended before it was ready".to_owned())),
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Durations of one user's calls.
#[derive(Debug, Default, Clone)]
pub struct Times {
    /// Connecting and logging in.
    pub login: Vec<Duration>,
    /// The status of one path.
    pub stat: Vec<Duration>,
    /// A put of 1 MiB: create, append, close.
    pub put: Vec<Duration>,
}

impl Times {
    /// Measures one login, one `stat` of `directory` and one `put` into it by this user.
    ///
    /// # Errors
    /// The gateway's.
    pub fn measure(
        &mut self,
        address: SocketAddr,
        user: &str,
        password: &str,
        directory: &str,
    ) -> std::result::Result<(), DfsError> {
        let begun = Instant::now();
        let mut client = log_in(address, user, password)?;
        self.login.push(begun.elapsed());

        let begun = Instant::now();
        client.v2::<methods::GetFileInfo>(GetFileInfoRequest {
            path: Some(directory.to_owned()),
            ..Default::default()
        })?;
        self.stat.push(begun.elapsed());

        let begun = Instant::now();
        let handle = client
            .v2::<methods::CreateFile>(CreateFileRequest {
                path: Some(format!("{directory}/{user}-put")),
                overwrite: Some(true),
                ..Default::default()
            })?
            .handle;
        client.v2::<methods::AppendData>(AppendDataRequest {
            handle,
            data: Some(Bytes::from(vec![7; PUT_BYTES])),
            ..Default::default()
        })?;
        client.v2::<methods::CloseFile>(CloseFileRequest { handle, ..Default::default() })?;
        self.put.push(begun.elapsed());
        Ok(())
    }
}
