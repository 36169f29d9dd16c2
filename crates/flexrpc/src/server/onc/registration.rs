//! Registration with rpcbind. It uses rpcbind's Unix socket, over which rpcbind learns the user who
//! owns a registration.

use crate::proto::onc::record::{self, Assembly};
use crate::proto::onc::rpcbind::{self, Mapping};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Timeout of a call: rpcbind answers from memory, within microseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Largest reply: a bool, and a head with a verifier of any length.
const REPLY_BYTES: usize = 512;

/// This server's registrations. Dropping it removes them from rpcbind.
pub(crate) struct Registration {
    socket: PathBuf,
    known: Mutex<Vec<Mapping>>,
}

impl Registration {
    /// Makes an empty list of registrations with the rpcbind on `socket`.
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket, known: Mutex::default() }
    }

    /// Registers mappings. Replaces older registrations of the same programs, which an earlier
    /// server may have left behind.
    ///
    /// # Errors
    /// No rpcbind listens on the socket, it doesn't answer, or it refuses a mapping.
    pub(crate) fn add(&self, mappings: Vec<Mapping>) -> io::Result<()> {
        let about = |error: io::Error, what: &str| {
            let socket = self.socket.display();
            io::Error::new(error.kind(), format!("{what} rpcbind at {socket}: {error}"))
        };
        let mut rpcbind = Rpcbind::connect(&self.socket).map_err(|error| {
            let error = about(error, "can't register with");
            io::Error::new(error.kind(), format!("{error}; start rpcbind, or turn registration off"))
        })?;
        for mapping in mappings {
            let done = rpcbind
                .ask(&|xid| mapping.unset(xid))
                .and_then(|_| rpcbind.ask(&|xid| mapping.set(xid)))
                .map_err(|error| about(error, "registering with"))?;
            if !done {
                let Mapping { program, version, netid, .. } = mapping;
                let message = format!(
                    "it refuses program {program} version {version} over {netid}; \
                     is it registered by another user's server?"
                );
                return Err(about(
                    io::Error::new(io::ErrorKind::PermissionDenied, message),
                    "registering with",
                ));
            }
            self.known.lock().unwrap_or_else(PoisonError::into_inner).push(mapping);
        }
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let known = std::mem::take(self.known.get_mut().unwrap_or_else(PoisonError::into_inner));
        // If there is no rpcbind, there are no stale registrations either.
        if let (false, Ok(mut rpcbind)) = (known.is_empty(), Rpcbind::connect(&self.socket)) {
            for mapping in known {
                let _ = rpcbind.ask(&|xid| mapping.unset(xid));
            }
        }
    }
}

/// A connection to rpcbind.
struct Rpcbind {
    stream: UnixStream,
    xid: u32,
}

impl Rpcbind {
    fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, xid: 0 })
    }

    /// Makes a call. Returns whether rpcbind did what it asks.
    fn ask(&mut self, call: &dyn Fn(u32) -> Vec<u8>) -> io::Result<bool> {
        self.xid += 1;
        let call = call(self.xid);
        self.stream.write_all(&[&record::mark(call.len()), &call[..]].concat())?;
        let reply = self.receive()?;
        let foreign = || io::Error::new(io::ErrorKind::InvalidData, "its reply doesn't answer the call");
        rpcbind::was_done(self.xid, &reply).ok_or_else(foreign)
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut assembly = Assembly::new(REPLY_BYTES);
        let (mut buffer, mut end) = ([0; 2 * REPLY_BYTES], 0);
        loop {
            let received = self.stream.read(&mut buffer[end..])?;
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (kept, whole) = assembly
                .take_in(&mut buffer[..end + received])
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            if whole {
                return Ok(buffer[..assembly.len()].to_vec());
            }
            end = kept;
        }
    }
}
