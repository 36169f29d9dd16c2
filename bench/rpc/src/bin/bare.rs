//! The limit: blocking sockets, the bytes there and a head back, nothing else.
//! Modes: `udp`, `tcp`, and `serial@N`, in which each server passes the bytes on
//! to the next one as they arrive, and answers when that one has.

use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_tcp_congestion};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;
use strait_bench_rpc::{Caller, HEAD_BYTES, Result, callees, drive, main as run};

/// At most this is read at a time, and the longest message of a chain.
const BUFFER: usize = 16 << 20;
/// At most this is read before it is known whether it is to be passed on, and
/// then at a time: a larger read lasts as long as bytes keep coming. With the
/// head, 64 KiB fit.
const PIECE: usize = (64 << 10) + HEAD_BYTES;
/// Of datagrams waiting: as FlexRPC takes. A call of 60 KiB from each of four
/// callers doesn't fit in the kernel's default.
const UDP_RECEIVE_BUFFER: usize = 16 << 20;
/// After this a datagram is taken for lost.
const LOST: Duration = Duration::from_millis(200);

fn main() {
    run(serve, |all| {
        drive(move |mode| -> Result<Box<dyn Caller>> {
            let (mode, callees) = callees(mode, &all)?;
            match mode {
                "tcp" | "serial" => Ok(Box::new(Tcp::connect(callees)?)),
                "udp" => Ok(Box::new(Udp::connect(callees[0])?)),
                _ => Err(format!("no mode {mode:?}").into()),
            }
        })
    });
}

fn serve(address: SocketAddr) -> Result<()> {
    let datagrams = UdpSocket::bind(address)?;
    set_socket_recv_buffer_size_force(&datagrams, UDP_RECEIVE_BUFFER)?;
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((_, from)) = datagrams.recv_from(&mut buffer) {
            // A caller that has gone is none of the next one's business.
            let _ = datagrams.send_to(&buffer[..HEAD_BYTES], from);
        }
    });
    for stream in TcpListener::bind(address)?.incoming() {
        let stream = prepared(stream?)?;
        thread::spawn(move || answer(stream));
    }
    Ok(())
}

/// Until the caller goes.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut next: Option<TcpStream> = None;
    loop {
        let mut have = stream.read(&mut buffer[..PIECE])?;
        let Some(head) = buffer.first_chunk::<HEAD_BYTES>() else { return Ok(()) };
        let (length, hop) = (length(head), hop(head));
        if let Some(hop) = hop {
            take_hop(&mut buffer);
            match &mut next {
                Some(next) => next.write_all(&buffer[..have])?,
                None => next.insert(connect(hop)?).write_all(&buffer[..have])?,
            }
        }
        while have < length {
            let more = match (&mut next, hop) {
                (Some(next), Some(_)) => {
                    let end = (have + PIECE).min(buffer.len());
                    let more = stream.read(&mut buffer[have..end])?;
                    next.write_all(&buffer[have..have + more])?;
                    more
                }
                _ => stream.read(&mut buffer)?,
            };
            if more == 0 {
                return Ok(());
            }
            have += more;
        }
        if let (Some(next), Some(_)) = (&mut next, hop) {
            next.read_exact(&mut buffer[..HEAD_BYTES])?;
        }
        stream.write_all(&buffer[..HEAD_BYTES])?;
    }
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    prepared(TcpStream::connect(address)?)
}

/// Small messages leave at once, and nothing paces those within a host, as BBR would
/// where it is the system's default: the limit isn't to wait for timers.
fn prepared(stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    if stream.peer_addr()?.ip() == stream.local_addr()?.ip() {
        set_tcp_congestion(&stream, "reno")?;
    }
    Ok(stream)
}

/// A head: the message's length, how many hops it has to go, and where.
const HOPS_AT: usize = 9;
/// An IPv4 address and a port.
const HOP_BYTES: usize = 6;

fn head(length: usize, hops: &[SocketAddr]) -> Result<[u8; HEAD_BYTES]> {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&(length as u64).to_le_bytes());
    head[8] = hops.len() as u8;
    for (place, hop) in head[HOPS_AT..].chunks_exact_mut(HOP_BYTES).zip(hops) {
        let IpAddr::V4(ip) = hop.ip() else { return Err("chains go over IPv4".into()) };
        place[..4].copy_from_slice(&ip.octets());
        place[4..].copy_from_slice(&hop.port().to_le_bytes());
    }
    Ok(head)
}

fn length(head: &[u8; HEAD_BYTES]) -> usize {
    head.first_chunk().map_or(0, |length| u64::from_le_bytes(*length) as usize)
}

fn hop(head: &[u8; HEAD_BYTES]) -> Option<SocketAddr> {
    let [a, b, c, d, low, high] = *head[HOPS_AT..].first_chunk()?;
    (head[8] > 0).then(|| (Ipv4Addr::new(a, b, c, d), u16::from_le_bytes([low, high])).into())
}

/// Leaves the hops behind the first.
fn take_hop(head: &mut [u8]) {
    head[8] -= 1;
    head.copy_within(HOPS_AT + HOP_BYTES..HEAD_BYTES, HOPS_AT);
}

struct Tcp {
    stream: TcpStream,
    hops: Vec<SocketAddr>,
    message: Vec<u8>,
}

impl Tcp {
    fn connect(callees: &[SocketAddr]) -> Result<Self> {
        let (first, hops) = callees.split_first().ok_or("no callee")?;
        Ok(Self { stream: connect(*first)?, hops: hops.to_owned(), message: Vec::new() })
    }
}

impl Caller for Tcp {
    fn call(&mut self, argument: &[u8]) -> Result<()> {
        let length = HEAD_BYTES + argument.len();
        if self.message.len() != length {
            self.message = vec![0; length];
            self.message[..HEAD_BYTES].copy_from_slice(&head(length, &self.hops)?);
        }
        self.stream.write_all(&self.message)?;
        Ok(self.stream.read_exact(&mut [0; HEAD_BYTES])?)
    }
}

struct Udp {
    socket: UdpSocket,
    message: Vec<u8>,
}

impl Udp {
    fn connect(address: SocketAddr) -> Result<Self> {
        let any = if address.ip().is_loopback() { address.ip() } else { [0, 0, 0, 0].into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(LOST))?;
        Ok(Self { socket, message: Vec::new() })
    }
}

impl Caller for Udp {
    fn call(&mut self, argument: &[u8]) -> Result<()> {
        self.message.resize(HEAD_BYTES + argument.len(), 0);
        loop {
            self.socket.send(&self.message)?;
            if self.socket.recv(&mut [0; HEAD_BYTES]).is_ok() {
                return Ok(());
            }
        }
    }
}
