//! A gateway that stops answering in a chosen state: the real one, behind a proxy that misbehaves
//! from a chosen request of a chosen method on.

use rustix::net::{Shutdown, shutdown};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use strait_testkit::wait::pause;

/// The gateway's misbehaviour in place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No answer, neither here nor on any later connection.
    Silence,
    /// It sends half of the reply, and then nothing.
    HalfReply,
    /// It sends the reply byte by byte, more slowly than any client waits.
    Trickle,
    /// It ends: all connections, and the port.
    End,
}

/// Pause between two bytes of [`Fault::Trickle`].
const BYTE_PAUSE: Duration = Duration::from_millis(300);

/// The proxy; it lasts as long as the test's process.
pub struct Faulty {
    pub address: String,
    state: Arc<State>,
}

struct State {
    gateway: String,
    method: &'static str,
    /// Requests of the method that it still passes on.
    good: AtomicUsize,
    fault: Fault,
    listener: TcpListener,
    tripped: AtomicBool,
}

impl Faulty {
    /// Starts a proxy for the gateway at this address.
    pub fn before(gateway: &str, method: &'static str, fault: Fault) -> Self {
        Self::after(0, gateway, method, fault)
    }

    /// As [`Faulty::before`], but answers `good` requests of the method before.
    pub fn after(good: usize, gateway: &str, method: &'static str, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let gateway = gateway.to_owned();
        let (good, tripped) = (AtomicUsize::new(good), AtomicBool::new(false));
        let state = Arc::new(State { gateway, method, good, fault, listener, tripped });
        let accepting = state.clone();
        std::thread::spawn(move || {
            while let Ok((client, _)) = accepting.listener.accept() {
                let state = accepting.clone();
                // Broken connections are part of the test.
                std::thread::spawn(move || state.pass(client));
            }
        });
        Self { address, state }
    }

    /// Whether it has begun to misbehave.
    pub fn has_misbehaved(&self) -> bool {
        self.state.tripped.load(Ordering::SeqCst)
    }
}

impl State {
    fn pass(&self, mut client: TcpStream) -> io::Result<()> {
        let mut server = TcpStream::connect(&self.gateway)?;
        loop {
            let request = frame(&mut client)?;
            if method(&request) == self.method.as_bytes() {
                let one_less = |good: usize| good.checked_sub(1);
                if self.good.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
                    self.tripped.store(true, Ordering::SeqCst);
                }
            }
            if self.tripped.load(Ordering::SeqCst) {
                return self.misbehave(client, server, &request);
            }
            server.write_all(&request)?;
            client.write_all(&frame(&mut server)?)?;
        }
    }

    fn misbehave(&self, mut client: TcpStream, mut server: TcpStream, request: &[u8]) -> io::Result<()> {
        match self.fault {
            Fault::Silence => drain(client),
            Fault::HalfReply => {
                server.write_all(request)?;
                let reply = frame(&mut server)?;
                client.write_all(&reply[..reply.len() / 2])?;
                drain(client)
            }
            Fault::Trickle => {
                server.write_all(request)?;
                for byte in frame(&mut server)? {
                    client.write_all(&[byte])?;
                    pause("a slow connection", BYTE_PAUSE);
                }
                Ok(())
            }
            Fault::End => {
                shutdown(&self.listener, Shutdown::Both)?;
                client.shutdown(std::net::Shutdown::Both)
            }
        }
    }
}

/// Reads until the client closes.
fn drain(mut client: TcpStream) -> io::Result<()> {
    io::copy(&mut client, &mut io::sink()).map(drop)
}

/// Reads a message with its length before it.
fn frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut message = length.to_vec();
    message.resize(4 + u32::from_be_bytes(length) as usize, 0);
    from.read_exact(&mut message[4..])?;
    Ok(message)
}

/// The method that a request in strict binary calls.
fn method(request: &[u8]) -> &[u8] {
    let length = u32::from_be_bytes(request[8..12].try_into().unwrap()) as usize;
    &request[12..12 + length]
}
