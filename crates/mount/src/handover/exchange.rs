//! The messages of a hand-over: frames of JSON on a Unix socket, and the mount's descriptors.
//!
//! The socket has an abstract name, which disappears with the last process that has the socket open. Any user
//! of the host can connect. Both ends check the other's user.

use super::{Answer, Hello, PROTOCOL, State, Terms};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// Bytes of the path's end that are part of a socket's name. The whole name has at most 107 bytes (unix(7)).
const MAX_PATH: usize = 64;
/// How long the next process tries to connect. The other process begins to listen after it has mounted.
const LISTENS: Duration = Duration::from_secs(2);
/// Pause between two attempts to listen, or to connect.
pub const LISTEN_PAUSE: Duration = Duration::from_millis(100);
/// Largest first message, 256 KiB: it has some paths and patterns.
const MAX_HELLO: usize = 256 << 10;
/// Largest state, 1 GiB: about 100 bytes for each of the kernel's nodes, of which there are at most millions.
/// Memory is allocated only as bytes arrive.
const MAX_STATE: usize = 1 << 30;
/// The byte with which a process takes the mount.
const TAKEN: u8 = b'T';
/// The byte that is sent with the descriptors.
const DESCRIPTORS: u8 = b'D';

/// How long the process that serves the mount waits for the next one.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For the first message.
    pub hello: Duration,
    /// For the pause of the mount: until requests are answered, and files are written to the store.
    pub pause: Duration,
    /// From the pause until the next process takes the mount. Programs wait during this time.
    pub taken: Duration,
}

/// In the worst case, programs wait for 40 s, which is less than the default of `--soft`.
pub const LIMITS: Limits =
    Limits { hello: Duration::from_secs(5), pause: Duration::from_secs(20), taken: Duration::from_secs(20) };
/// The next process waits a little longer than the other process takes at most.
const PATIENCE: Duration = Duration::from_secs(50);

/// The name contains the path, too, because the kernel reuses a device number after an unmount.
fn name(device: &str, directory: &Path) -> io::Result<SocketAddr> {
    let path = directory.as_os_str().as_bytes();
    let end = &path[path.len().saturating_sub(MAX_PATH)..];
    SocketAddr::from_abstract_name([format!("strait-mount-{device}-").as_bytes(), end].concat())
}

/// Listens for the next process of the mount with this device number.
pub fn listen(device: &str, directory: &Path) -> io::Result<UnixListener> {
    let listener = std::os::unix::net::UnixListener::bind_addr(&name(device, directory)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// A paused mount.
pub struct Offer<'a, G> {
    /// The state for the next process.
    pub state: State,
    /// FUSE's descriptor, and the socket that listens for further processes.
    pub descriptors: [BorrowedFd<'a>; 2],
    /// Ends the pause when dropped.
    pub guard: G,
}

/// Offers the mount to the process at the other end. Returns Ok if that process took it.
///
/// # Errors
/// The reason why this process continues to serve the mount.
pub async fn offer<'a, G>(
    mut peer: UnixStream,
    terms: &Terms,
    limits: Limits,
    pause: impl AsyncFnOnce() -> Result<Offer<'a, G>, String>,
) -> Result<(), String> {
    let offered = async {
        check_user(&peer)?;
        let hello = timeout(limits.hello, receive(&mut peer, MAX_HELLO)).await;
        let hello = hello.map_err(|_| "the new process sent no request in time".to_owned())?;
        terms.check(&hello.map_err(|error| format!("can't read the new process's request: {error}"))?)?;
        let paused = timeout(limits.pause, pause()).await;
        paused.map_err(|_| {
            format!(
                "the mount couldn't be paused within {} s: requests or writes take longer",
                limits.pause.as_secs()
            )
        })?
    };
    let offer = match offered.await {
        Ok(offer) => offer,
        Err(why) => {
            // If the other process doesn't read the reason, nothing else can be done.
            let _ = timeout(limits.hello, send(&mut peer, &Answer::Refused(why.clone()))).await;
            return Err(why);
        }
    };
    let Offer { state, descriptors, guard } = offer;
    let until = tokio::time::Instant::now() + limits.taken;
    let sent = async {
        send(&mut peer, &Answer::State(state)).await?;
        send_descriptors(&peer, &descriptors).await
    };
    match tokio::time::timeout_at(until, sent).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(format!("can't send the mount's state: {error}")),
        Err(_) => return Err("the new process didn't read the mount's state in time".to_owned()),
    }
    if is_taken(&mut peer, until).await {
        // The other process reads requests now, so this one must keep the gate closed.
        std::mem::forget(guard);
        return Ok(());
    }
    Err("the new process didn't take the mount".to_owned())
}

async fn is_taken(peer: &mut UnixStream, until: tokio::time::Instant) -> bool {
    let mut byte = [0];
    match tokio::time::timeout_at(until, peer.read(&mut byte)).await {
        Ok(read) => matches!(read, Ok(1)) && byte == [TAKEN],
        Err(_) => {
            // From here on, the other's send fails. A byte that it sent before is in the queue.
            let _ = rustix::net::shutdown(&*peer, Shutdown::Read);
            let read = rustix::net::recv(&*peer, &mut byte, RecvFlags::DONTWAIT);
            matches!(read, Ok((1, _))) && byte == [TAKEN]
        }
    }
}

/// Connects to the process that serves the mount with this device number.
///
/// # Errors
/// No process serves such a mount, or another user's process does.
pub async fn connect(device: &str, directory: &Path) -> io::Result<UnixStream> {
    let name = name(device, directory)?;
    let until = tokio::time::Instant::now() + LISTENS;
    let peer = loop {
        match std::os::unix::net::UnixStream::connect_addr(&name) {
            Ok(peer) => break peer,
            Err(_) if tokio::time::Instant::now() < until => tokio::time::sleep(LISTEN_PAUSE).await,
            Err(error) => {
                let why = format!(
                    "the process that serves the mount doesn't accept connections ({error}); unmount it, then \
                     mount without --take-over"
                );
                return Err(io::Error::new(error.kind(), why));
            }
        }
    };
    peer.set_nonblocking(true)?;
    let peer = UnixStream::from_std(peer)?;
    check_user(&peer).map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why))?;
    Ok(peer)
}

/// Asks for the mount. Returns its state, FUSE's descriptor, and the socket that listens for further
/// processes.
///
/// # Errors
/// The other process refuses, and continues to serve.
pub async fn ask(peer: &mut UnixStream, terms: &Terms) -> io::Result<(State, OwnedFd, UnixListener)> {
    let asked = async {
        send(peer, &Hello { protocol: PROTOCOL, terms: terms.clone() }).await?;
        let answer = receive(peer, MAX_STATE).await?;
        match serde_json::from_slice(&answer)? {
            Answer::Refused(why) => Err(io::Error::new(io::ErrorKind::ResourceBusy, why)),
            Answer::State(state) => Ok((state, receive_descriptors(peer).await?)),
        }
    };
    let (state, [device, listener]) = timeout(PATIENCE, asked).await.map_err(|_| {
        let message = format!(
            "the process that serves the mount didn't answer within {} s and continues to serve; try again, or \
             unmount and mount without --take-over",
            PATIENCE.as_secs()
        );
        io::Error::new(io::ErrorKind::TimedOut, message)
    })??;
    let listener = std::os::unix::net::UnixListener::from(listener);
    Ok((state, device, UnixListener::from_std(listener)?))
}

/// Takes the mount. From here on, this process serves it.
///
/// # Errors
/// The other process continues to serve, and this one must not begin.
pub async fn take(mut peer: UnixStream) -> io::Result<()> {
    peer.write_all(&[TAKEN]).await.map_err(|error| {
        io::Error::new(error.kind(), format!("the other process timed out, and continues to serve ({error})"))
    })
}

fn check_user(peer: &UnixStream) -> Result<(), String> {
    let theirs = peer.peer_cred().map_err(|error| format!("can't get the other's user: {error}"))?.uid();
    let own = rustix::process::geteuid().as_raw();
    if theirs == own {
        return Ok(());
    }
    Err(format!(
        "a mount is handed over only within one user: this process is of {own}, the other of {theirs}"
    ))
}

async fn send(peer: &mut UnixStream, message: &impl serde::Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length as usize <= MAX_STATE);
    let length = length.ok_or_else(|| io::Error::other("the mount has too many nodes to hand over"))?;
    peer.write_all(&length.to_be_bytes()).await?;
    peer.write_all(&bytes).await
}

async fn receive(peer: &mut UnixStream, limit: usize) -> io::Result<Vec<u8>> {
    let length = peer.read_u32().await? as usize;
    if length > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    let mut bytes = Vec::new();
    peer.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

async fn send_descriptors(peer: &UnixStream, descriptors: &[BorrowedFd<'_>; 2]) -> io::Result<()> {
    peer.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(descriptors));
        let bytes = [IoSlice::new(&[DESCRIPTORS])];
        rustix::net::sendmsg(peer.as_fd(), &bytes, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    })
    .await
}

async fn receive_descriptors(peer: &UnixStream) -> io::Result<[OwnedFd; 2]> {
    peer.async_io(Interest::READABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(peer.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
        let mut all = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                all.extend(descriptors);
            }
        }
        <[OwnedFd; 2]>::try_from(all).map_err(|_| {
            io::Error::other("the process that serves the mount didn't send its two file descriptors")
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const SHORT: Limits = Limits {
        hello: Duration::from_millis(50),
        pause: Duration::from_millis(50),
        taken: Duration::from_millis(50),
    };

    fn terms() -> Terms {
        Terms { source: "file:///d".into(), user: None, read_only: false, plfs: Vec::new() }
    }

    fn state() -> State {
        serde_json::from_str(
            r#"{"nodes": {"last": 1, "nodes": []}, "files": [], "handles": [], "last_handle": 0, "hidden": []}"#,
        )
        .unwrap()
    }

    struct Paused<'a>(&'a AtomicBool);

    impl Drop for Paused<'_> {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }

    /// Offers a mount to a process that behaves as `other`. Checks that the pause ends unless that process
    /// took the mount.
    async fn offered(limits: Limits, other: impl AsyncFnOnce(UnixStream)) -> Result<(), String> {
        let (own, theirs) = UnixStream::pair().unwrap();
        let paused = AtomicBool::new(false);
        let input = std::fs::File::open("/dev/null").unwrap();
        let pause = async || {
            paused.store(true, Ordering::Relaxed);
            let descriptors = [input.as_fd(), input.as_fd()];
            Ok(Offer { state: state(), descriptors, guard: Paused(&paused) })
        };
        let terms = terms();
        let (offered, ()) = futures::join!(offer(own, &terms, limits, pause), other(theirs));
        assert_eq!(paused.load(Ordering::Relaxed), offered.is_ok());
        offered
    }

    async fn hello(peer: &mut UnixStream) {
        send(peer, &Hello { protocol: PROTOCOL, terms: terms() }).await.unwrap();
    }

    #[tokio::test]
    async fn a_process_that_asks_and_takes_gets_the_mount() {
        let next = async |mut peer: UnixStream| {
            hello(&mut peer).await;
            let answer = receive(&mut peer, MAX_STATE).await.unwrap();
            assert!(matches!(serde_json::from_slice(&answer).unwrap(), Answer::State(_)));
            receive_descriptors(&peer).await.unwrap();
            take(peer).await.unwrap();
        };
        offered(LIMITS, next).await.unwrap();
    }

    #[tokio::test]
    async fn a_process_that_goes_silent_at_any_time_leaves_the_mount_where_it_is() {
        let silent = async |peer: UnixStream| {
            let mut peer = peer;
            let told = receive(&mut peer, MAX_HELLO).await.unwrap();
            assert!(String::from_utf8(told).unwrap().contains("no request in time"));
        };
        offered(SHORT, silent).await.unwrap_err();
        let later = async |mut peer: UnixStream| {
            hello(&mut peer).await;
            receive(&mut peer, MAX_STATE).await.unwrap();
            receive_descriptors(&peer).await.unwrap();
            // The other end closed the socket before this one takes the mount.
            assert_eq!(peer.read(&mut [0]).await.unwrap(), 0);
            take(peer).await.unwrap_err();
        };
        let why = offered(SHORT, later).await.unwrap_err();
        assert!(why.contains("didn't take"), "{why}");
    }

    #[tokio::test]
    async fn a_process_that_ends_or_talks_nonsense_leaves_the_mount_where_it_is() {
        offered(LIMITS, async |_| {}).await.unwrap_err();
        let ends = async |mut peer: UnixStream| {
            hello(&mut peer).await;
            receive(&mut peer, MAX_STATE).await.unwrap();
        };
        offered(LIMITS, ends).await.unwrap_err();
        let huge = async |mut peer: UnixStream| {
            peer.write_all(&[0xff; 100]).await.unwrap();
            let told = receive(&mut peer, MAX_HELLO).await.unwrap();
            assert!(String::from_utf8(told).unwrap().contains("4294967295 bytes"));
        };
        offered(LIMITS, huge).await.unwrap_err();
        let nonsense = async |mut peer: UnixStream| {
            hello(&mut peer).await;
            receive(&mut peer, MAX_STATE).await.unwrap();
            receive_descriptors(&peer).await.unwrap();
            peer.write_all(b"?").await.unwrap();
        };
        offered(LIMITS, nonsense).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_mount_that_cannot_pause_stays() {
        let (own, mut theirs) = UnixStream::pair().unwrap();
        let pause = async || std::future::pending::<Result<Offer<'_, ()>, String>>().await;
        let next = async {
            hello(&mut theirs).await;
            receive(&mut theirs, MAX_HELLO).await.unwrap()
        };
        let terms = terms();
        let (offered, told) = futures::join!(offer(own, &terms, SHORT, pause), next);
        assert!(offered.unwrap_err().contains("take longer"));
        assert!(String::from_utf8(told).unwrap().contains("Refused"));
    }
}
