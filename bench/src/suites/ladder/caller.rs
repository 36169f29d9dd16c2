//! The light load generator. It repeatedly sends one prepared request over each connection, and counts the
//! answer's bytes. It decodes nothing, so that its own cost doesn't hide the servers' costs.
//!
//! One thread serves all connections. With one connection, it waits in `read`; with more, in epoll.

use crate::Result;
use rustix::event::epoll;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server that doesn't answer within this time has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// An answer of unknown length has ended if no byte follows for this time.
const SILENCE: Duration = Duration::from_millis(50);
/// Most bytes of one read.
const BUFFER_BYTES: usize = 64 << 10;
/// Number of an answer's first bytes that are compared. They distinguish success from failure: HTTP's status,
/// or Thrift's kind of message.
const BEGINNING_BYTES: usize = 12;

/// A call, as bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Exchange {
    /// The server.
    pub address: SocketAddr,
    /// With TLS, the certificate authority of the server; else None.
    pub authority: Option<PathBuf>,
    /// The message to send first on each connection; empty if there is none.
    pub greeting: Vec<u8>,
    /// The request.
    pub request: Vec<u8>,
    /// The answer's length.
    pub answer_bytes: usize,
    /// The answer's first bytes.
    pub beginning: Vec<u8>,
}

/// The result of an order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Measured {
    /// Number of calls over all connections.
    pub calls: usize,
    /// Time from the first request to the last answer.
    pub seconds: f64,
    /// Median latency of a call.
    pub p50_us: f64,
}

impl Exchange {
    /// Makes the call once to get the answer's length and first bytes. The answer must contain `expected`.
    pub fn learn(
        address: SocketAddr,
        authority: Option<&Path>,
        greeting: Vec<u8>,
        request: Vec<u8>,
        expected: &str,
    ) -> Result<Self> {
        let authority = authority.map(Path::to_owned);
        let mut exchange =
            Self { address, authority, greeting, request, answer_bytes: 0, beginning: Vec::new() };
        let mut connection = Connection::open(&exchange)?;
        connection.stream.write_all(&exchange.request)?;
        let answer = connection.unknown_answer()?;
        let text = String::from_utf8_lossy(&answer);
        if !text.contains(expected) {
            return Err(format!("the answer of {address} lacks {expected:?}: {text:?}").into());
        }
        exchange.answer_bytes = answer.len();
        exchange.beginning = answer[..answer.len().min(BEGINNING_BYTES)].to_owned();
        Ok(exchange)
    }

    /// Makes `calls` calls over `connections` connections, one after the other on each connection.
    fn measure(&self, connections: usize, calls: usize) -> Result<Measured> {
        let mut open = (0..connections).map(|_| Connection::open(self)).collect::<Result<Vec<_>>>()?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (index, connection) in open.iter().enumerate() {
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&poll, &connection.socket, data, epoll::EventFlags::IN)?;
        }
        let mut buffer = vec![0; BUFFER_BYTES];
        // Don't count the first calls: the server may start a thread for each connection.
        for connection in &mut open {
            connection.send(&self.request)?;
            while !connection.receive(self, &mut buffer)? {}
        }
        let mut took = Vec::with_capacity(calls);
        let start = Instant::now();
        for connection in &mut open {
            connection.send(&self.request)?;
        }
        let mut sent = connections;
        let mut ready = vec![0; connections];
        let mut events = Vec::with_capacity(connections);
        while took.len() < calls {
            if connections > 1 {
                events.clear();
                epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
                ready.clear();
                ready.extend(events.iter().map(|event: &epoll::Event| event.data.u64() as usize));
            }
            for &index in &ready {
                let connection = &mut open[index];
                if connection.receive(self, &mut buffer)? {
                    took.push(connection.sent.elapsed());
                    if sent < calls {
                        connection.send(&self.request)?;
                        sent += 1;
                    }
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        took.sort_unstable();
        Ok(Measured { calls, seconds, p50_us: took[(calls - 1) / 2].as_secs_f64() * 1e6 })
    }
}

/// A connection's bytes, with or without TLS.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

struct Connection {
    socket: TcpStream,
    stream: Box<dyn Stream>,
    /// The time of the latest request.
    sent: Instant,
    /// Number of bytes received of the current answer.
    received: usize,
}

impl Connection {
    /// Connects, and sends the greeting.
    fn open(exchange: &Exchange) -> Result<Self> {
        let socket = TcpStream::connect(exchange.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let plain = socket.try_clone()?;
        let stream: Box<dyn Stream> = match &exchange.authority {
            None => Box::new(plain),
            Some(authority) => Box::new(StreamOwned::new(secret(authority, exchange.address)?, plain)),
        };
        let mut connection = Self { socket, stream, sent: Instant::now(), received: 0 };
        if !exchange.greeting.is_empty() {
            connection.stream.write_all(&exchange.greeting)?;
            connection.unknown_answer()?;
        }
        Ok(connection)
    }

    fn send(&mut self, request: &[u8]) -> Result<()> {
        self.sent = Instant::now();
        Ok(self.stream.write_all(request)?)
    }

    /// Reads once. Returns whether the answer is complete.
    fn receive(&mut self, exchange: &Exchange, buffer: &mut [u8]) -> Result<bool> {
        let count = self.stream.read(buffer)?;
        let begins = exchange.beginning.len().min(count);
        let is_right = self.received > 0 || buffer[..begins] == exchange.beginning[..begins];
        self.received += count;
        if count == 0 || !is_right || self.received > exchange.answer_bytes {
            let text = String::from_utf8_lossy(&buffer[..count]);
            return Err(format!("{} gave another answer than at first: {text:?}", exchange.address).into());
        }
        let is_complete = self.received == exchange.answer_bytes;
        if is_complete {
            self.received = 0;
        }
        Ok(is_complete)
    }

    /// Receives an answer of unknown length.
    fn unknown_answer(&mut self) -> Result<Vec<u8>> {
        let mut answer = Vec::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err("the server ended the connection without an answer".into()),
                Ok(count) => answer.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock && !answer.is_empty() => break,
                Err(error) => return Err(error.into()),
            }
            self.socket.set_read_timeout(Some(SILENCE))?;
        }
        self.socket.set_read_timeout(Some(PATIENCE))?;
        Ok(answer)
    }
}

/// TLS that trusts one authority.
fn secret(authority: &Path, address: SocketAddr) -> Result<ClientConnection> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(ClientConnection::new(Arc::new(config), address.ip().into())?)
}

/// The main function of a separate process. Reads the exchange as JSON from the first line of standard input,
/// and then an order `CONNECTIONS CALLS` from each line.
pub fn follow_orders() -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let exchange: Exchange = serde_json::from_str(&lines.next().ok_or("no exchange")??)?;
    println!("{{}}");
    for line in lines {
        let line = line?;
        let (connections, calls) = line.split_once(' ').ok_or("an order is CONNECTIONS CALLS")?;
        let measured = exchange.measure(connections.parse()?, calls.parse()?)?;
        println!("{}", serde_json::to_string(&measured)?);
    }
    Ok(())
}

/// The bare limit: a server that answers each request of `request_bytes` with `answer_bytes`, with a thread
/// for each connection.
pub fn serve_bare(address: &str, request_bytes: &str, answer_bytes: &str) -> Result<()> {
    let (request_bytes, answer_bytes): (usize, usize) = (request_bytes.parse()?, answer_bytes.parse()?);
    for stream in TcpListener::bind(address)?.incoming() {
        let mut stream = stream?;
        stream.set_nodelay(true)?;
        std::thread::spawn(move || -> std::io::Result<()> {
            let (mut request, answer) = (vec![0; request_bytes], vec![0; answer_bytes]);
            loop {
                stream.read_exact(&mut request)?;
                stream.write_all(&answer)?;
            }
        });
    }
    Ok(())
}
