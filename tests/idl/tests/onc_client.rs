//! FlexRPC's client calls an unmodified server of SunRPC: the real rpcgen's output for
//! idl/types.x, on libtirpc.

use crate::arbitrary::everything;
use crate::c;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use strait_flexrpc::stub::StubError;
use strait_flexrpc::{
    AuthSys, CallError, CallOptions, Client, ClientOptions, Credentials, Doubt, FaultKind, Handle, Obstacle,
    Procedure, Refusal, RetryPolicy, Transport,
};
use strait_idl_tests::types::*;

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

/// The program in C, until it is dropped.
struct Server {
    child: Child,
    tcp: SocketAddr,
    udp: SocketAddr,
}

impl Server {
    fn start() -> Self {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let parts = [("-c", "types_xdr.c"), ("-m", "types_svc.c")];
        let program = PROGRAM.get_or_init(|| c::build("server", &parts));
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().expect("the C program starts");
        let mut ports = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut ports).expect("two ports");
        let mut ports = ports.split_whitespace().map(|port| port.parse::<u16>().expect("a port"));
        let mut next = || SocketAddr::from(([127, 0, 0, 1], ports.next().expect("two ports")));
        Self { child, tcp: next(), udp: next() }
    }

    fn address(&self, transport: Transport) -> SocketAddr {
        if transport == Transport::Tcp { self.tcp } else { self.udp }
    }

    fn handle(&self, transport: Transport) -> Handle {
        Client::default().onc_handle(self.address(transport), transport)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn values_of_every_type_come_back_over_both_transports() {
    let server = Server::start();
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    for transport in BOTH {
        let mut client = ExchangeV1Client::new(server.handle(transport));
        for _ in 0..50 {
            let value = everything().new_tree(&mut runner).expect("a value").current();
            // libtirpc's datagrams have 8,800 bytes by default.
            if transport == Transport::Tcp || strait_xdr::to_vec(&value).expect("valid").len() < 8000 {
                assert_eq!(client.exchange_echo(&value).expect("libtirpc answers"), value);
            }
        }
    }
}

#[test]
fn large_payloads_travel_as_records() {
    let server = Server::start();
    let mut client = ExchangeV1Client::new(server.handle(Transport::Tcp));
    for bytes in [0, 1, 70_000, 3 << 20] {
        let data: Vec<u8> = (0..bytes).map(|at: usize| (at ^ (at >> 8)) as u8).collect();
        let turned = client.exchange_turn(&data[..].into()).expect("libtirpc answers");
        assert!(turned.iter().rev().eq(data.iter()), "{bytes} bytes");
    }
}

#[test]
fn a_caller_is_known_by_auth_sys_and_nobody_without() {
    let server = Server::start();
    for transport in BOTH {
        let mut client = ExchangeV1Client::new(server.handle(transport));
        let refused = client.exchange_who().expect_err("no credentials");
        assert_eq!(refused, StubError::Call(CallError::NotExecuted(Refusal::RejectedCredentials(5))));
        let user =
            AuthSys { machine: "desk".into(), uid: 4711, gid: 100, gids: vec![4, 24], ..AuthSys::default() };
        client.options = CallOptions { credentials: Some(Credentials::Sys(user)), ..CallOptions::default() };
        assert_eq!(client.exchange_who(), Ok(4711));
    }
}

#[test]
fn each_refusal_of_the_server_has_its_name() {
    let server = Server::start();
    for transport in BOTH {
        let mut handle = server.handle(transport);
        let program = ExchangeV1Client::PROGRAM;
        let mut error = |program, version, number, args: &[u8]| {
            handle.call(Procedure::new(program, version, number), &[args]).expect_err("refused")
        };
        let refusal = CallError::NotExecuted;
        assert_eq!(error(program, 1, 99, &[]), refusal(Refusal::ProcedureUnavailable));
        assert_eq!(error(program + 1, 1, 1, &[]), refusal(Refusal::ProgramUnavailable));
        let versions = Refusal::VersionMismatch { lowest: 1, highest: 3 };
        assert_eq!(error(program, 9, 1, &[]), refusal(versions));
        if transport == Transport::Udp {
            continue; // libtirpc decodes zeros behind a datagram's end
        }
        let CallError::Fault(fault) = error(program, 1, 1, b"nonsense") else { panic!("no fault") };
        assert_eq!(fault.kind, FaultKind::GarbageArguments);
        assert_eq!(handle.call(Procedure::new(program, 1, 0), &[]).expect("null").len(), 0);
    }
}

#[test]
fn a_server_that_never_answers_takes_the_timeout_and_no_more() {
    let server = Server::start();
    for transport in BOTH {
        let options = ClientOptions { timeout: Some(Duration::from_millis(300)), ..ClientOptions::default() };
        let handle = Client::new(options).onc_handle(server.address(transport), transport);
        let mut client = ExchangeV1Client::new(handle);
        let begun = Instant::now();
        let doubt = client.exchange_fail().expect_err("no answer");
        assert_eq!(doubt, StubError::Call(CallError::Unknown(Doubt::TimedOut)));
        assert!(begun.elapsed() < Duration::from_secs(10));
        // The same handle goes on, and no late answer meets this call.
        assert!(client.exchange_count(1).is_ok());
    }
}

#[test]
fn a_server_that_is_gone_is_unreachable_and_one_that_returns_is_called() {
    let server = Server::start();
    let retry = RetryPolicy { first_us: 1000, ..RetryPolicy::default() };
    for transport in BOTH {
        let client = Client::new(ClientOptions { retry, ..ClientOptions::default() });
        let free = match transport {
            Transport::Tcp => std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(),
            Transport::Udp => std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap(),
        };
        let mut handle = client.onc_handle(free, transport);
        let error = handle.call(Procedure::new(ExchangeV1Client::PROGRAM, 1, 0), &[]).expect_err("nobody");
        assert_eq!(
            error,
            CallError::NotExecuted(Refusal::Unreachable(Obstacle::ConnectionRefused)),
            "{transport:?}"
        );
        let mut handle = client.onc_handle(server.address(transport), transport);
        assert!(handle.call(Procedure::new(ExchangeV1Client::PROGRAM, 1, 0), &[]).is_ok());
    }
}
