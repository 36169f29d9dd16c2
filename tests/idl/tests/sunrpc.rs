//! An unmodified SunRPC client in C, built on the real rpcgen's output for idl/types.x, calls a
//! service generated from the same file.

use crate::arbitrary::everything;
use crate::c;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use strait_flexrpc::{Credentials, Fault, Request, Server, ServerOptions, ServiceError};
use strait_idl_tests::types::*;
use strait_xdr::{Opaque, to_vec};

/// clnt_stat of libtirpc's rpc/clnt_stat.h.
mod stat {
    pub const SUCCESS: u32 = 0;
    pub const AUTHERROR: u32 = 7;
    pub const PROGUNAVAIL: u32 = 8;
    pub const PROGVERSMISMATCH: u32 = 9;
    pub const PROCUNAVAIL: u32 = 10;
    pub const CANTDECODEARGS: u32 = 11;
    pub const SYSTEMERROR: u32 = 12;
}

/// The arguments of all calls of [`ExchangeV1Service::exchange_count`].
#[derive(Clone, Default)]
struct Exchange(Arc<Mutex<Vec<u32>>>);

impl Exchange {
    fn count(&self, number: u32) -> u32 {
        let mut counted = self.0.lock().unwrap();
        counted.push(number);
        counted.len() as u32
    }
}

impl ExchangeV1Service for Exchange {
    fn exchange_echo(&self, _: &Request, e: Everything<'static>) -> Result<Everything<'_>, ServiceError> {
        Ok(e)
    }

    fn exchange_turn(&self, _: &Request, data: Opaque<'static>) -> Result<Opaque<'_>, ServiceError> {
        Ok(data.iter().rev().copied().collect::<Vec<u8>>().into())
    }

    fn exchange_count(&self, _: &Request, number: u32) -> Result<u32, ServiceError> {
        Ok(self.count(number))
    }

    fn exchange_who(&self, call: &Request) -> Result<u32, ServiceError> {
        match &call.credentials {
            Credentials::Sys(sys) => Ok(sys.uid),
            Credentials::None => Err(Fault::application(1, "nobody").into()),
        }
    }

    fn exchange_fail(&self, _: &Request) -> Result<(), ServiceError> {
        Err(Fault::application(13, "as asked").into())
    }
}

impl ExchangeV3Service for Exchange {
    fn exchange_count(&self, _: &Request, number: u32) -> Result<u32, ServiceError> {
        Ok(self.count(number))
    }
}

fn serve(options: ServerOptions, exchange: &Exchange) -> Server {
    let program = ExchangeV1Server::<Exchange>::PROGRAM;
    Server::builder(options)
        .register(program, 1, ExchangeV1Server(exchange.clone()))
        .register(program, 3, ExchangeV3Server(exchange.clone()))
        .start()
        .expect("the server starts")
}

/// The program in C, and its answers.
struct Client {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    stat: u32,
    detail: [u32; 2],
    result: Vec<u8>,
}

impl Client {
    fn start(transport: &str, server: SocketAddr) -> Self {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let parts = [("-c", "types_xdr.c"), ("-l", "types_clnt.c")];
        let mut child = Command::new(PROGRAM.get_or_init(|| c::build("client", &parts)))
            .args([transport, &server.port().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the C program starts");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { child, input, output }
    }

    fn ask(&mut self, what: u8, bytes: &[u8]) -> Answer {
        let length = (bytes.len() as u32).to_be_bytes();
        self.input.write_all(&[&[what], &length[..], bytes].concat()).expect("the program reads");
        let [stat, low, high, length] = std::array::from_fn(|_| {
            let mut word = [0; 4];
            self.output.read_exact(&mut word).expect("the program answers");
            u32::from_be_bytes(word)
        });
        let mut result = vec![0; length as usize];
        self.output.read_exact(&mut result).expect("a whole answer");
        Answer { stat, detail: [low, high], result }
    }

    /// Makes a call, and returns the number in its result.
    fn number(&mut self, what: u8, argument: u32) -> u32 {
        let answer = self.ask(what, &argument.to_be_bytes());
        assert_eq!(answer.stat, stat::SUCCESS);
        strait_xdr::Decoder::new(&answer.result).whole(|from| from.u32()).expect("a number")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const BOTH: [&str; 2] = ["tcp", "udp"];

#[test]
fn values_of_every_type_go_there_and_back() {
    let server = serve(ServerOptions::default(), &Exchange::default());
    for transport in BOTH {
        let mut client = Client::start(transport, server.address());
        let config = Config { cases: 100, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new(config);
        for _ in 0..100 {
            let value = everything().new_tree(&mut runner).expect("a value").current();
            let sent = to_vec(&value).expect("within the limits");
            let answer = client.ask(b'e', &sent);
            assert_eq!((answer.stat, answer.result), (stat::SUCCESS, sent), "{transport}");
        }
    }
}

#[test]
fn arguments_and_results_of_megabytes_come_in_many_fragments() {
    let server = serve(ServerOptions::default(), &Exchange::default());
    let mut client = Client::start("tcp", server.address());
    for length in [0, 1, 3, 8_192, 65_535, 131_072, 1_000_003, 20_000_000] {
        let data: Vec<u8> = (0..length as u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        let answer = client.ask(b't', &data);
        assert_eq!(answer.stat, stat::SUCCESS, "{length} bytes");
        let turned: Opaque<'_> =
            strait_xdr::Decoder::new(&answer.result).whole(|from| from.opaque(u32::MAX)).expect("an opaque");
        assert!(turned.iter().rev().eq(&data), "{length} bytes");
    }
}

#[test]
fn a_datagram_carries_tens_of_kilobytes() {
    let server = serve(ServerOptions::default(), &Exchange::default());
    let answer = Client::start("udp", server.address()).ask(b't', &[7; 50_000]);
    assert_eq!((answer.stat, answer.result.len()), (stat::SUCCESS, 50_004));
}

#[test]
fn every_error_is_the_one_that_the_client_knows() {
    let server = serve(ServerOptions::default(), &Exchange::default());
    for transport in BOTH {
        let mut client = Client::start(transport, server.address());
        let expect = |stat, detail| Answer { stat, detail, result: Vec::new() };
        assert_eq!(client.ask(b'f', b""), expect(stat::SYSTEMERROR, [0, 0]));
        assert_eq!(client.ask(b'p', b""), expect(stat::PROCUNAVAIL, [0, 0]));
        assert_eq!(client.ask(b'g', b""), expect(stat::CANTDECODEARGS, [0, 0]));
        assert_eq!(client.ask(b'x', b""), expect(stat::PROGUNAVAIL, [0, 0]));
        assert_eq!(client.ask(b'v', b""), expect(stat::PROGVERSMISMATCH, [1, 3]));
        // The handle still works.
        assert_eq!(client.number(b'c', 7), client.number(b'c', 7) - 1);
    }
}

#[test]
fn the_service_learns_the_clients_user_and_the_null_procedure_answers() {
    let server = serve(ServerOptions::default(), &Exchange::default());
    for transport in BOTH {
        let mut client = Client::start(transport, server.address());
        assert_eq!(client.number(b'w', 0), 4711);
        let expected = Answer { stat: stat::SUCCESS, detail: [0, 0], result: Vec::new() };
        assert_eq!(client.ask(b'n', b""), expected);
    }
}

#[test]
fn with_a_cluster_key_the_client_is_told_that_its_credentials_are_too_weak() {
    const AUTH_TOOWEAK: u32 = 5;
    let key = strait_flexrpc::ClusterKey::new(&[7; 32]).ok();
    let exchange = Exchange::default();
    let server = serve(ServerOptions { key, ..ServerOptions::default() }, &exchange);
    for transport in BOTH {
        let answer = Client::start(transport, server.address()).ask(b'c', &7u32.to_be_bytes());
        assert_eq!((answer.stat, answer.detail[0]), (stat::AUTHERROR, AUTH_TOOWEAK));
    }
    assert!(exchange.0.lock().unwrap().is_empty());
}

/// A network between client and server. It delivers each datagram of the client twice, and drops
/// the first few replies to a call, so that the client sends it again.
fn lossy(server: SocketAddr, lost: u32, stop: Arc<AtomicBool>) -> (SocketAddr, std::thread::JoinHandle<u32>) {
    const LOOK: Duration = Duration::from_millis(2);
    let (front, back) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    front.set_read_timeout(Some(LOOK)).unwrap();
    back.set_read_timeout(Some(LOOK)).unwrap();
    back.connect(server).unwrap();
    let address = front.local_addr().unwrap();
    let relay = std::thread::spawn(move || {
        let (mut buffer, mut client, mut transmissions) = (vec![0; 65_536], None, 0);
        let mut replies: HashMap<[u8; 4], u32> = HashMap::new();
        while !stop.load(Ordering::Relaxed) {
            if let Ok((length, from)) = front.recv_from(&mut buffer) {
                client = Some(from);
                transmissions += 1;
                for _ in 0..2 {
                    back.send(&buffer[..length]).unwrap();
                }
            }
            while let Ok(length) = back.recv(&mut buffer) {
                let seen = replies.entry(*buffer.first_chunk().unwrap()).or_default();
                *seen += 1;
                if let Some(client) = client.filter(|_| *seen > lost) {
                    front.send_to(&buffer[..length], client).unwrap();
                }
            }
        }
        transmissions
    });
    (address, relay)
}

#[test]
fn a_call_that_the_client_retransmits_is_executed_once() {
    const CALLS: u32 = 10;
    let exchange = Exchange::default();
    let server = serve(ServerOptions::default(), &exchange);
    let stop = Arc::new(AtomicBool::new(false));
    // Two transmissions arrive at a time, so at most one of the first four replies passes.
    let (address, relay) = lossy(server.address(), 3, Arc::clone(&stop));
    let mut client = Client::start("udp", address);
    for call in 1..=CALLS {
        assert_eq!(client.number(b'c', call), call, "the answer is that of the first execution");
    }
    stop.store(true, Ordering::Relaxed);
    let transmissions = relay.join().unwrap();
    assert!(transmissions >= 2 * CALLS, "the client sent {transmissions} datagrams: nothing was proved");
    assert_eq!(*exchange.0.lock().unwrap(), (1..=CALLS).collect::<Vec<_>>());
}
