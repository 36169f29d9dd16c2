//! The limit: blocking sockets, the bytes there and a head back, nothing else.

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;
use strait_bench_rpc::{Caller, HEAD_BYTES, Result, drive, main as run};

/// At most this is read at a time.
const BUFFER: usize = 4 << 20;
/// Of datagrams waiting: as FlexRPC takes. A call of 60 KiB from each of four
/// callers doesn't fit in the kernel's default.
const UDP_RECEIVE_BUFFER: usize = 4 << 20;
/// After this a datagram is taken for lost.
const LOST: Duration = Duration::from_millis(200);

fn main() {
    run(serve, |addresses| {
        drive(move |mode| match mode {
            "tcp" => Tcp::connect(addresses[0]).map(|tcp| Box::new(tcp) as Box<dyn Caller>),
            "udp" => Udp::connect(addresses[0]).map(|udp| Box::new(udp) as Box<dyn Caller>),
            _ => Err(format!("no mode {mode:?}").into()),
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
        let stream = stream?;
        thread::spawn(move || answer(stream));
    }
    Ok(())
}

/// Until the caller goes.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; BUFFER];
    loop {
        let mut have = stream.read(&mut buffer)?;
        let Some(length) = buffer[..have].first_chunk::<8>() else { return Ok(()) };
        let length = u64::from_le_bytes(*length) as usize;
        while have < length {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                more => have += more,
            }
        }
        stream.write_all(&buffer[..HEAD_BYTES])?;
    }
}

struct Tcp {
    stream: TcpStream,
    message: Vec<u8>,
}

impl Tcp {
    fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, message: Vec::new() })
    }
}

impl Caller for Tcp {
    fn call(&mut self, argument: &[u8]) -> Result<()> {
        let length = HEAD_BYTES + argument.len();
        if self.message.len() != length {
            self.message = vec![0; length];
            self.message[..8].copy_from_slice(&(length as u64).to_le_bytes());
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
