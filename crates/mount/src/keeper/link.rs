//! The socket between a keeper and its server: messages of one byte, with descriptors.
//!
//! The server's end is its standard input: a new program inherits that descriptor without further means.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncReadExt, Interest};

/// From the keeper: mount the store.
const BEGIN: u8 = b'B';
/// From the keeper: continue the mount. FUSE's descriptor is attached, and the listening socket if there is
/// one.
const GO_ON: u8 = b'G';
/// From the keeper: end the mount.
const END: u8 = b'E';
/// From the server: see [`Message`].
const SERVES: u8 = b'S';
const LISTENS: u8 = b'L';
const HANDS: u8 = b'H';
const KEEPS: u8 = b'K';
/// Largest number of descriptors in a message.
const MOST: usize = 4;

/// A message from the server.
#[derive(Debug)]
pub enum Message {
    /// The server serves the mount of this descriptor; `None` if the mount can't survive the server.
    Serves(Option<OwnedFd>),
    /// The server listens at this socket for a process that takes the mount over.
    Listens(OwnedFd),
    /// From now on, another process may have taken the mount over.
    Hands,
    /// No other process took the mount over.
    Keeps,
}

/// The keeper's end.
pub struct End(tokio::net::UnixStream);

impl End {
    /// The keeper's end, and the server's.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, theirs) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        Ok((Self(tokio::net::UnixStream::from_std(own)?), theirs.into()))
    }

    /// Sends the descriptors that the server needs. The socket is empty, so this doesn't block.
    pub fn hand(
        &mut self,
        record: &OwnedFd,
        bytes: &OwnedFd,
        device: Option<&OwnedFd>,
        listener: Option<&OwnedFd>,
    ) -> io::Result<()> {
        let all: Vec<_> = [Some(record), Some(bytes), device, listener].into_iter().flatten().collect();
        let byte = if device.is_some() { GO_ON } else { BEGIN };
        send(self.0.as_fd(), byte, &all.iter().map(|it| it.as_fd()).collect::<Vec<_>>())
    }

    /// Asks the server to unmount and end. The second call asks it to end at once, without unmounting.
    pub fn ask_to_end(&self) -> io::Result<()> {
        send(self.0.as_fd(), END, &[])
    }

    /// The next message; None once the server has closed its end.
    pub async fn next(&mut self) -> Option<Message> {
        let received = self.0.async_io(Interest::READABLE, || receive(self.0.as_fd())).await;
        received.ok().and_then(parsed)
    }

    /// A further message from a server that has ended, if it left one.
    pub fn last(&mut self) -> Option<Message> {
        receive(self.0.as_fd()).ok().and_then(parsed)
    }
}

fn parsed((byte, descriptors): (u8, Vec<OwnedFd>)) -> Option<Message> {
    let first = descriptors.into_iter().next();
    match (byte, first) {
        (SERVES, device) => Some(Message::Serves(device)),
        (LISTENS, Some(listener)) => Some(Message::Listens(listener)),
        (HANDS, _) => Some(Message::Hands),
        (KEEPS, _) => Some(Message::Keeps),
        _ => None,
    }
}

/// The server's end, and what the keeper sent at the start.
#[derive(Debug)]
pub struct Link {
    socket: UnixStream,
    pub(crate) memory: Option<[OwnedFd; 2]>,
    pub(crate) device: Option<OwnedFd>,
    pub(crate) listener: Option<OwnedFd>,
}

impl Link {
    /// Receives the link at the standard input of a process that a keeper started.
    ///
    /// # Errors
    /// No keeper started this process.
    pub fn receive(input: OwnedFd) -> io::Result<Self> {
        let socket = UnixStream::from(input);
        let (byte, descriptors) = receive(socket.as_fd())?;
        let mut all = descriptors.into_iter();
        let (record, bytes, device, listener) = (all.next(), all.next(), all.next(), all.next());
        match (byte, record, bytes) {
            (BEGIN | GO_ON, Some(record), Some(bytes)) => {
                Ok(Self { socket, memory: Some([record, bytes]), device, listener })
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "no keeper started this process")),
        }
    }

    /// Whether this process continues the mount of a process that was killed.
    pub fn goes_on(&self) -> bool {
        self.device.is_some()
    }

    /// The keeper's requests to end the mount.
    ///
    /// # Errors
    /// The async runtime can't use the socket.
    pub fn ends(&self) -> io::Result<Ends> {
        self.socket.set_nonblocking(true)?;
        Ok(Ends(tokio::net::UnixStream::from_std(self.socket.try_clone()?)?))
    }

    fn tell(&self, byte: u8, descriptors: &[BorrowedFd<'_>]) {
        if let Err(error) = send(self.socket.as_fd(), byte, descriptors) {
            tracing::warn!("the mount's keeper has ended ({error}); the mount won't survive a kill");
        }
    }

    /// Tells the keeper that this process serves from now on.
    pub fn serves(&self, device: Option<BorrowedFd<'_>>) {
        self.tell(SERVES, device.as_slice());
    }

    /// Tells the keeper that this process listens for other processes.
    pub fn listens(&self, listener: BorrowedFd<'_>) {
        self.tell(LISTENS, &[listener]);
    }

    /// Tells the keeper that another process may take the mount over from now on.
    pub fn hands(&self) {
        self.tell(HANDS, &[]);
    }

    /// Tells the keeper that no other process took the mount over.
    pub fn keeps(&self) {
        self.tell(KEEPS, &[]);
    }
}

/// Requests of a keeper to end the mount.
#[derive(Debug)]
pub struct Ends(tokio::net::UnixStream);

impl Ends {
    /// Waits for the next request. If the keeper has ended, waits forever.
    pub async fn next(&mut self) {
        let mut byte = [0];
        match self.0.read_exact(&mut byte).await {
            Ok(_) if byte == [END] => {}
            _ => std::future::pending().await,
        }
    }
}

fn send(socket: BorrowedFd<'_>, byte: u8, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&[byte])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(socket: BorrowedFd<'_>) -> io::Result<(u8, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut all = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            all.extend(descriptors);
        }
    }
    Ok((byte[0], all))
}
