//! Compares the latency of single calls with that of a bare blocking ping-pong of the same bytes,
//! in alternate rounds: `cargo run --release -p strait-flexrpc --example pingpong -- [tcp|udp|tls]
//! [BYTES…]`. A round's result is the ratio of the two p50 latencies. Prints the median of the
//! rounds for three placements: both ends on one CPU, on two CPUs, and where the scheduler puts
//! them.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Instant;
use strait_flexrpc::{
    Client, ClientOptions, ClientTls, Handle, Identity, Procedure, Reply, Request, Server, ServerOptions,
    ServerTls, Transport, Trust,
};
use strait_testkit::Authority;

const ROUNDS: usize = 15;
const HEAD: usize = 68;

fn pin(cpu: Option<usize>) {
    let mut set = CpuSet::new();
    match cpu {
        Some(cpu) => set.set(cpu),
        None => (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu)),
    }
    sched_setaffinity(None, &set).expect("affinity");
}

fn p50(mut one: impl FnMut(), calls: usize) -> f64 {
    let mut times: Vec<f64> = Vec::with_capacity(calls);
    for _ in 0..calls {
        let start = Instant::now();
        one();
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    times[calls / 2]
}

/// A bare peer: reads a message and answers with a head's worth of bytes.
fn bare(transport: Transport, bytes: usize) -> Box<dyn FnMut()> {
    let message = vec![7u8; bytes + HEAD];
    let mut answer = [0; HEAD];
    if transport == Transport::Udp {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok((_, peer)) = server.recv_from(&mut buffer) {
                server.send_to(&[0; HEAD], peer).unwrap();
            }
        });
        return Box::new(move || {
            client.send(&message).unwrap();
            client.recv(&mut answer).unwrap();
        });
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let len = message.len();
    std::thread::spawn(move || {
        let mut buffer = vec![0; len];
        while server.read_exact(&mut buffer).is_ok() {
            server.write_all(&[0; HEAD]).unwrap();
        }
    });
    Box::new(move || {
        client.write_all(&message).unwrap();
        client.read_exact(&mut answer).unwrap();
    })
}

/// A certificate, and a client that trusts it.
fn certified() -> (ServerTls, ClientTls) {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new().expect("an authority");
    let identity = authority.issue(dir.path()).expect("a certificate");
    let trust = Trust::Authorities(authority.write(dir.path()).expect("its file"));
    let identity = Identity { certificate: identity.certificate, key: identity.key };
    let server = ServerTls::load(&identity, None).expect("the server's part");
    (server, ClientTls::load(&trust, None).expect("the client's part"))
}

fn ours(
    server: &Server,
    transport: Transport,
    tls: Option<ClientTls>,
    bytes: usize,
) -> (Handle, impl FnMut(&mut Handle)) {
    let client = Client::new(ClientOptions { tls, ..ClientOptions::default() });
    let handle = client.handle(server.address(), transport).unwrap();
    let args = vec![7u8; bytes];
    (handle, move |handle: &mut Handle| {
        handle.call(Procedure::new(1, 1, 1), &[&args]).unwrap();
    })
}

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let transport = args.next_if(|arg| ["tcp", "udp", "tls"].contains(&arg.as_str()));
    let tls = transport.as_deref().filter(|name| *name == "tls").map(|_| certified()).unzip();
    let transport = if transport.as_deref() == Some("udp") { Transport::Udp } else { Transport::Tcp };
    let mut sizes: Vec<usize> = args.map(|arg| arg.parse().expect("bytes")).collect();
    if sizes.is_empty() {
        sizes = vec![0, 1024, 4096, 16 << 10, 60_000];
        if transport == Transport::Tcp {
            sizes.extend([64 << 10, 1 << 20]);
        }
    }
    println!(
        "{transport:?}: median µs of a FlexRPC call / of an exchange by bare sockets = ratio; \
         the round with the median ratio, of {ROUNDS}"
    );
    println!("{:>9}  {:^26}  {:^26}  {:^26}", "bytes", "same CPU", "two CPUs", "unpinned");
    for bytes in sizes {
        let calls = if bytes > 100_000 { 300 } else { 2000 };
        print!("{bytes:>9}");
        for placement in [(Some(1), Some(1)), (Some(1), Some(2)), (None, None)] {
            pin(placement.0);
            let server = Server::builder(ServerOptions { tls: tls.0.clone(), ..ServerOptions::default() })
                .register(1, 1, |_: &Request, _: &mut Reply| Ok(()))
                .start()
                .unwrap();
            let mut bare = bare(transport, bytes);
            pin(placement.1);
            let (mut handle, mut call) = ours(&server, transport, tls.1.clone(), bytes);
            let mut rounds: Vec<(f64, f64)> = Vec::new();
            for round in 0..=ROUNDS {
                let a = p50(|| call(&mut handle), calls);
                let b = p50(&mut bare, calls);
                if round > 0 {
                    rounds.push((a, b));
                }
            }
            rounds.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
            let (a, b) = rounds[ROUNDS / 2];
            print!("  {a:>7.1} / {b:>6.1} = {:>5.2}  ", a / b);
        }
        println!();
    }
}
