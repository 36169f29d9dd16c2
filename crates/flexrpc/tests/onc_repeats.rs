//! Plain ONC RPC over TCP: calls that clients repeat over another connection, and each client's
//! share of connections.

use crate::common::{self, COUNT, SLEEP, Service, procedure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use strait_flexrpc::proto::onc::message::{Answer, Call};
use strait_flexrpc::proto::onc::record::mark;
use strait_flexrpc::{AuthSys, Credentials, OncOptions, Server, ServerOptions};
use strait_testkit::skip;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Another user of this host.
const OTHER_USER: u32 = 2_147_480_001;

fn start(options: ServerOptions, local_users: bool) -> (Server, Arc<Service>) {
    let service = Arc::new(Service::default());
    let repeated = vec![procedure(COUNT), procedure(SLEEP)];
    let onc = OncOptions { repeated, local_users, ..OncOptions::default() };
    (common::start(ServerOptions { onc, ..options }, &service), service)
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The record of a call.
fn call(uid: u32, xid: u32, number: u32, args: &[u8]) -> Vec<u8> {
    let credentials = Credentials::Sys(AuthSys { machine: "here".into(), uid, ..AuthSys::default() });
    let head = Call { xid, procedure: procedure(number), credentials }.encode();
    [&mark(head.len() + args.len()), &head[..], args].concat()
}

/// Makes a call over a connection of its own. Returns the result.
fn ask(server: &Server, call: &[u8]) -> Vec<u8> {
    let mut stream = connect(server);
    stream.write_all(call).unwrap();
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut message = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut message).unwrap();
    let (_, answer, result) = Answer::decode(&message).unwrap();
    assert_eq!(answer, Answer::Success);
    result.to_vec()
}

/// Does work, such as connecting, as another user of this host.
fn as_other_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let working = || {
        let other = rustix::thread::Uid::from_raw(OTHER_USER);
        // This changes the user of this thread alone.
        rustix::thread::set_thread_res_uid(other, other, other).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(working).join().unwrap())
}

#[test]
fn a_call_that_comes_again_over_another_connection_is_answered_and_not_executed_again() {
    let (server, service) = start(ServerOptions::default(), true);
    let first = call(1, 7, COUNT, b"once");
    let mut unread = connect(&server);
    unread.write_all(&first).unwrap();
    // Don't close the connection earlier: the server couldn't ask the kernel for its user.
    common::eventually("it is executed", || service.executed() == 1);
    drop(unread);
    for _ in 0..3 {
        assert_eq!(ask(&server, &first), b"once");
    }
    assert_eq!(service.executed(), 1);
    // These are other calls: their claimed users, numbers or arguments differ.
    for (uid, xid, args) in [(2, 7, b"once"), (1, 8, b"once"), (1, 7, b"2nd.")] {
        assert_eq!(ask(&server, &call(uid, xid, COUNT, args)), args);
    }
    assert_eq!(service.executed(), 4);
}

#[test]
fn a_call_that_comes_again_while_it_runs_waits_for_its_answer() {
    let (server, service) = start(ServerOptions::default(), true);
    let slow = call(1, 7, SLEEP, &500u32.to_be_bytes());
    let mut unread = connect(&server);
    unread.write_all(&slow).unwrap();
    common::eventually("it runs", || service.running() == 1);
    drop(unread);
    ask(&server, &slow);
    assert_eq!(service.running(), 0, "the second one would run now");
}

#[test]
fn nobody_gets_the_answer_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        return skip("calls of several users", "root");
    }
    let (server, service) = start(ServerOptions::default(), true);
    let same = call(OTHER_USER, 7, COUNT, b"same");
    assert_eq!(ask(&server, &same), b"same");
    assert_eq!(as_other_user(|| ask(&server, &same)), b"same");
    assert_eq!(service.executed(), 2, "each has made a call");
    assert_eq!(as_other_user(|| ask(&server, &same)), b"same");
    assert_eq!(service.executed(), 2);
}

#[test]
fn without_knowing_the_user_each_call_is_executed() {
    let (server, service) = start(ServerOptions::default(), false);
    let same = call(1, 7, COUNT, b"same");
    assert_eq!((ask(&server, &same), ask(&server, &same)), (b"same".to_vec(), b"same".to_vec()));
    assert_eq!(service.executed(), 2);
}

/// A connection from this address of loopback; none if the server ends it.
fn stays(server: SocketAddr, from: [u8; 4]) -> Option<TcpStream> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let socket = socket.unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &server).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // An answer shows that the server accepted the connection.
    stream.write_all(&call(1, 1, 0, b"")).ok()?;
    stream.read_exact(&mut [0]).ok().map(|()| stream)
}

#[test]
fn one_local_user_leaves_connections_to_others_whatever_addresses_it_takes() {
    if !rustix::process::geteuid().is_root() {
        return skip("connections of several users", "root");
    }
    let (server, _) = start(ServerOptions { connections: 8, ..ServerOptions::default() }, true);
    let address = server.address();
    let many = || (1..=12).filter_map(|host| stays(address, [127, 0, 0, host])).collect::<Vec<_>>();
    let others = as_other_user(many);
    assert_eq!(others.len(), 4);
    assert!(stays(address, [127, 0, 0, 1]).is_some());
}
