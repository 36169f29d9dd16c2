//! Plain ONC RPC on FlexRPC's port, in hand-made messages: every answer of RFC 5531,
//! retransmissions, and messages that no proper client sends. tests/idl has unmodified clients.

use crate::common::raw::{self, Raw};
use crate::common::{self, COUNT, ECHO, FAIL, PANIC, PROGRAM, SLEEP, Service, client, procedure};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use strait_flexrpc::proto::onc::message::{Answer, AuthStatus, Call, Denial};
use strait_flexrpc::proto::onc::record::mark;
use strait_flexrpc::{
    AuthSys, ClusterKey, Credentials, OncAccess, OncOptions, Procedure, Reply, Request, Server,
    ServerOptions, ServiceError, Transport,
};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(200);

fn call(xid: u32, procedure: Procedure, args: &[u8]) -> Vec<u8> {
    by(Credentials::None, xid, procedure, args)
}

fn by(credentials: Credentials, xid: u32, procedure: Procedure, args: &[u8]) -> Vec<u8> {
    [Call { xid, procedure, credentials }.encode(), args.to_vec()].concat()
}

/// A message in one fragment.
fn record(message: &[u8]) -> Vec<u8> {
    [&mark(message.len()), message].concat()
}

fn tcp(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn udp(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(server).unwrap();
    socket
}

/// The next record's reply: its call, the answer, the result.
fn reply(stream: &mut TcpStream) -> std::io::Result<(u32, Answer, Vec<u8>)> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let length = u32::from_be_bytes(mark);
    assert!(length >> 31 == 1, "one fragment");
    let mut message = vec![0; (length & 0x7fff_ffff) as usize];
    stream.read_exact(&mut message)?;
    Ok(parse(&message))
}

fn parse(message: &[u8]) -> (u32, Answer, Vec<u8>) {
    let (xid, answer, result) = Answer::decode(message).expect("a reply");
    (xid, answer, result.to_vec())
}

fn ask(transport: Transport, server: SocketAddr, message: &[u8]) -> (u32, Answer, Vec<u8>) {
    match transport {
        Transport::Tcp => {
            let mut stream = tcp(server);
            stream.write_all(&record(message)).unwrap();
            reply(&mut stream).unwrap()
        }
        Transport::Udp => {
            let socket = udp(server);
            socket.send(message).unwrap();
            receive(&socket).expect("an answer")
        }
    }
}

fn receive(socket: &UdpSocket) -> Option<(u32, Answer, Vec<u8>)> {
    let mut buffer = vec![0; 65_536];
    let len = socket.recv(&mut buffer).ok()?;
    Some(parse(&buffer[..len]))
}

fn is_closed(stream: &mut TcpStream) -> bool {
    !matches!(stream.read(&mut [0]), Ok(1..))
}

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

/// Checks that the server still serves both kinds of callers, and has executed `executed` calls.
fn is_well(server: &Server, service: &Service, executed: usize) {
    for transport in BOTH {
        let result = client().call(server.address(), transport, procedure(ECHO), &[b"well"]);
        assert_eq!(result.unwrap(), "well");
        let onc = ask(transport, server.address(), &call(7, procedure(ECHO), b"well"));
        assert_eq!(onc, (7, Answer::Success, b"well".to_vec()));
    }
    assert_eq!(service.executed(), executed);
}

#[test]
fn both_kinds_of_callers_are_served_on_one_port() {
    let (server, service) = common::server();
    is_well(&server, &service, 0);
}

#[test]
fn every_way_in_which_a_call_can_end_has_its_answer() {
    let (server, _) = common::server();
    let garbage = |_: &Request, _: &mut Reply| Err(strait_flexrpc::Fault::garbage_arguments("no").into());
    server.register(0x2000_0043, 2, garbage).unwrap();
    server.register(0x2000_0043, 4, garbage).unwrap();
    for transport in BOTH {
        let answer = |procedure| ask(transport, server.address(), &call(99, procedure, b"1234"));
        let empty = |answer| (99, answer, Vec::new());
        assert_eq!(answer(procedure(ECHO)), (99, Answer::Success, b"1234".to_vec()));
        assert_eq!(answer(procedure(0)), empty(Answer::Success), "procedure 0 always answers");
        assert_eq!(answer(procedure(77)), empty(Answer::ProcedureUnavailable));
        assert_eq!(answer(Procedure::new(1, 1, 1)), empty(Answer::ProgramUnavailable));
        assert_eq!(
            answer(Procedure::new(0x2000_0043, 3, 1)),
            empty(Answer::ProgramMismatch { low: 2, high: 4 })
        );
        assert_eq!(answer(Procedure::new(0x2000_0043, 2, 1)), empty(Answer::GarbageArguments));
        assert_eq!(answer(procedure(FAIL)), empty(Answer::SystemError));
        assert_eq!(answer(procedure(PANIC)), empty(Answer::SystemError));
    }
}

#[test]
fn calls_of_another_version_or_with_bad_credentials_are_denied() {
    let (server, service) = common::server();
    let proper = call(5, procedure(COUNT), b"");
    let with = |at: usize, word: u32| {
        let mut bytes = proper.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        bytes
    };
    let auth = |status| Denial::Auth(status);
    for transport in BOTH {
        let denied = |message: &[u8]| ask(transport, server.address(), message);
        for (message, why) in [
            (with(8, 3), Denial::RpcMismatch),
            // AUTH_SHORT, RPCSEC_GSS; AUTH_SYS without a body; too long a body, too long a verifier.
            (with(24, 2), auth(AuthStatus::REJECTED_CREDENTIALS)),
            (with(24, 6), auth(AuthStatus::REJECTED_CREDENTIALS)),
            (with(24, 1), auth(AuthStatus::BAD_CREDENTIALS)),
            (with(28, 404), auth(AuthStatus::BAD_CREDENTIALS)),
            (with(36, 404), auth(AuthStatus::BAD_VERIFIER)),
        ] {
            assert_eq!(denied(&message), (5, Answer::Denied(why), Vec::new()), "{why:?}");
        }
    }
    is_well(&server, &service, 0);
}

#[test]
fn the_service_learns_who_calls() {
    let (server, service) = common::server();
    let sys = AuthSys { stamp: 1, machine: "here".into(), uid: 1000, gid: 100, gids: vec![4] };
    for transport in BOTH {
        for credentials in [Credentials::Sys(sys.clone()), Credentials::None] {
            let message = by(credentials.clone(), 1, procedure(ECHO), b"");
            assert_eq!(ask(transport, server.address(), &message).1, Answer::Success);
            assert_eq!(service.last_credentials(), credentials);
        }
    }
}

#[test]
fn calls_sent_together_are_answered_in_their_order() {
    let (server, service) = common::server();
    let mut stream = tcp(server.address());
    let calls: Vec<u8> =
        (0..100u32).flat_map(|xid| record(&call(xid, procedure(COUNT), &xid.to_be_bytes()))).collect();
    stream.write_all(&calls).unwrap();
    for xid in 0..100u32 {
        assert_eq!(reply(&mut stream).unwrap(), (xid, Answer::Success, xid.to_be_bytes().to_vec()));
    }
    is_well(&server, &service, 100);
}

#[test]
fn large_calls_come_in_any_fragments_and_pieces() {
    let (server, _) = common::server();
    let args: Vec<u8> = (0..3_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    let message = call(8, procedure(ECHO), &args);
    for fragment in [message.len(), 1 << 20, 65_000, 4001] {
        let mut stream = tcp(server.address());
        let mut writer = stream.try_clone().unwrap();
        let fragments: Vec<&[u8]> = message.chunks(fragment).collect();
        let stream_bytes: Vec<u8> = (fragments.iter().enumerate())
            .flat_map(|(index, bytes)| {
                let mut mark = mark(bytes.len());
                if index + 1 < fragments.len() {
                    mark[0] &= 0x7f;
                }
                [&mark, *bytes].concat()
            })
            .collect();
        let sender = std::thread::spawn(move || {
            stream_bytes.chunks(99_991).for_each(|piece| writer.write_all(piece).unwrap());
        });
        let (xid, answer, result) = reply(&mut stream).unwrap();
        assert!((xid, answer) == (8, Answer::Success) && result == args, "fragments of {fragment}");
        sender.join().unwrap();
    }
}

#[test]
fn a_retransmitted_datagram_is_answered_and_not_executed_again() {
    let (server, service) = common::server();
    let socket = udp(server.address());
    let first = call(1, procedure(COUNT), b"once");
    for _ in 0..10 {
        socket.send(&first).unwrap();
        assert_eq!(receive(&socket).unwrap(), (1, Answer::Success, b"once".to_vec()));
    }
    assert_eq!(service.executed(), 1);
    // These are other calls: their arguments, their ids or their callers differ.
    socket.send(&call(1, procedure(COUNT), b"2nd.")).unwrap();
    assert_eq!(receive(&socket).unwrap().2, b"2nd.");
    socket.send(&call(2, procedure(COUNT), b"once")).unwrap();
    assert_eq!(receive(&socket).unwrap().0, 2);
    assert_eq!(ask(Transport::Udp, server.address(), &first).0, 1);
    assert_eq!(service.executed(), 4);
}

#[test]
fn a_retransmission_of_what_still_runs_is_not_answered_twice() {
    let (server, service) = common::server();
    let socket = udp(server.address());
    let slow = call(3, procedure(SLEEP), &300u32.to_be_bytes());
    socket.send(&slow).unwrap();
    common::eventually("it runs", || service.running() == 1);
    socket.send(&slow).unwrap();
    assert_eq!(receive(&socket).unwrap().0, 3);
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    assert_eq!(receive(&socket), None);
}

#[test]
fn where_a_key_is_set_only_programs_that_are_named_answer_and_know_it() {
    let key = ClusterKey::new(&[7; 32]).unwrap();
    let service = Arc::new(Service::default());
    let weak = Answer::Denied(Denial::Auth(AuthStatus::TOO_WEAK));
    let start = |access, key: Option<&ClusterKey>| {
        let onc = OncOptions { access, ..OncOptions::default() };
        common::start(ServerOptions { key: key.cloned(), onc, ..ServerOptions::default() }, &service)
    };
    for transport in BOTH {
        let count = call(1, procedure(COUNT), b"");
        let keyed = start(OncAccess::UnlessKeyed, Some(&key));
        assert_eq!(ask(transport, keyed.address(), &count), (1, weak, Vec::new()));
        let other = start(OncAccess::Programs(vec![PROGRAM + 1]), Some(&key));
        assert_eq!(ask(transport, other.address(), &count), (1, weak, Vec::new()));
        assert_eq!(service.executed(), 0);
        let named = start(OncAccess::Programs(vec![PROGRAM]), Some(&key));
        let whether = |request: &Request, reply: &mut Reply| {
            reply.put(&u32::from(request.authenticated).to_be_bytes());
            Ok(())
        };
        assert_eq!(ask(transport, named.address(), &call(1, procedure(ECHO), b"")).1, Answer::Success);
        named.register(PROGRAM, 1, whether).unwrap();
        let answer = ask(transport, named.address(), &call(2, procedure(ECHO), b""));
        assert_eq!(answer.2, [0; 4], "without the key nobody counts as holding it");
    }
}

#[test]
fn the_kernel_knows_the_user_of_a_caller_over_tcp() {
    for (transport, local_users) in [(Transport::Tcp, true), (Transport::Tcp, false), (Transport::Udp, true)]
    {
        let onc = OncOptions { local_users, ..OncOptions::default() };
        let server = common::start(ServerOptions { onc, ..ServerOptions::default() }, &Arc::default());
        let user = |request: &Request, reply: &mut Reply| {
            reply.put(&request.local_user.unwrap_or(u32::MAX).to_be_bytes());
            Ok(())
        };
        server.register(PROGRAM, 1, user).unwrap();
        let sys = AuthSys { machine: "here".into(), uid: 4711, ..AuthSys::default() };
        let answer = ask(transport, server.address(), &by(Credentials::Sys(sys), 1, procedure(ECHO), b""));
        let known = local_users && transport == Transport::Tcp;
        let own = if known { rustix::process::geteuid().as_raw() } else { u32::MAX };
        assert_eq!(answer.2, own.to_be_bytes(), "{transport:?}, {local_users}");
    }
}

#[test]
fn where_nobody_may_call_there_is_no_answer() {
    let onc = OncOptions { access: OncAccess::Nobody, ..OncOptions::default() };
    let server = common::start(ServerOptions { onc, ..ServerOptions::default() }, &Arc::default());
    let null = call(1, procedure(0), b"");
    let mut stream = tcp(server.address());
    stream.write_all(&record(&null)).unwrap();
    assert!(is_closed(&mut stream));
    let socket = udp(server.address());
    socket.send(&null).unwrap();
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    assert_eq!(receive(&socket), None);
}

#[test]
fn truncated_calls_are_not_executed() {
    let (server, service) = common::server();
    let sys = AuthSys { machine: "here".into(), ..AuthSys::default() };
    let whole = by(Credentials::Sys(sys), 1, procedure(COUNT), b"");
    let socket = udp(server.address());
    for len in 0..whole.len() {
        socket.send(&whole[..len]).unwrap();
        // Once the record is cut off on its way, and once the record is whole but its message is
        // cut off.
        tcp(server.address()).write_all(&record(&whole)[..len + 4]).unwrap();
        let mut stream = tcp(server.address());
        stream.write_all(&record(&whole[..len])).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert!(is_closed(&mut stream), "{len} bytes");
    }
    is_well(&server, &service, 0);
    common::eventually("the connections are gone", || server.connection_count() == 0);
}

#[test]
fn a_flipped_bit_costs_at_most_the_call_it_is_in() {
    let (server, service) = common::server();
    // No procedure's number is one bit away.
    let whole = record(&call(1, procedure(77), b"args"));
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let mut stream = tcp(server.address());
        stream.write_all(&damaged).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // The server answers, or ends the connection, at once.
        stream.read_to_end(&mut Vec::new()).unwrap();
        udp(server.address()).send(&damaged[4..]).unwrap();
    }
    is_well(&server, &service, 0);
}

#[test]
fn hostile_marks_are_refused_before_anything_arrives() {
    let options = ServerOptions { payload_bytes: 1 << 20, ..ServerOptions::default() };
    let service = Arc::new(Service::default());
    let server = common::start(options, &service);
    let fragment = |length: u32| [&length.to_be_bytes()[..], &[0; 64]].concat();
    let sum: Vec<u8> = (0..40_000).flat_map(|_| [&32u32.to_be_bytes()[..], &[7; 32]].concat()).collect();
    for bytes in [fragment(u32::MAX), fragment(0x7fff_ffff), fragment(0x8020_0000), fragment(0), sum] {
        let mut stream = tcp(server.address());
        // The server may close it before all of it has left.
        let _ = stream.write_all(&bytes);
        assert!(is_closed(&mut stream));
    }
    is_well(&server, &service, 0);
}

#[test]
fn many_who_claim_much_and_send_little_take_no_memory_from_others() {
    let receive_bytes = 4 << 20;
    let options = ServerOptions { receive_bytes, ..ServerOptions::default() };
    let service = Arc::new(Service::default());
    let server = common::start(options, &service);
    let claims: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = tcp(server.address());
            stream.write_all(&mark(60 << 20)).unwrap();
            stream
        })
        .collect();
    common::eventually("they are connected", || server.connection_count() == claims.len());
    let args = vec![7; 1 << 20];
    let large = ask(Transport::Tcp, server.address(), &call(1, procedure(ECHO), &args));
    assert!(large == (1, Answer::Success, args));
}

#[test]
fn a_result_that_no_datagram_holds_is_an_error() {
    let (server, _) = common::server();
    let grow = |request: &Request, reply: &mut Reply| {
        reply.put(&vec![0; u32::from_be_bytes(*request.args.first_chunk().unwrap()) as usize]);
        Ok(())
    };
    server.register(0x2000_0044, 1, grow).unwrap();
    for (size, answer) in [(65_483u32, Answer::Success), (65_484, Answer::SystemError)] {
        let message = call(1, Procedure::new(0x2000_0044, 1, 1), &size.to_be_bytes());
        assert_eq!(ask(Transport::Udp, server.address(), &message).1, answer, "{size} bytes");
        assert_eq!(ask(Transport::Tcp, server.address(), &message).1, Answer::Success);
    }
}

#[test]
fn a_connection_keeps_to_what_it_began_with() {
    let (server, service) = common::server();
    let count = record(&call(1, procedure(COUNT), b""));
    let mut flexrpc = Raw::tcp(server.address());
    flexrpc.session();
    flexrpc.send(&count);
    assert!(flexrpc.is_closed());
    let mut onc = tcp(server.address());
    onc.write_all(&record(&call(1, procedure(ECHO), b""))).unwrap();
    reply(&mut onc).unwrap();
    onc.write_all(&raw::hello()).unwrap();
    assert!(is_closed(&mut onc));
    is_well(&server, &service, 0);
}

#[test]
fn a_connection_whose_calls_get_no_replies_is_not_idle() {
    let quiet = |request: &Request, reply: &mut Reply| match request.procedure.number {
        1 => Err(ServiceError::Unanswered),
        _ => {
            reply.put(b"last");
            Ok(())
        }
    };
    let options = ServerOptions { connection_idle: Duration::from_millis(500), ..ServerOptions::default() };
    let server = Server::builder(options).register(PROGRAM, 1, quiet).start().unwrap();
    let mut stream = tcp(server.address());
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    // The calls go on for longer than the pause between two checks for idle connections.
    for xid in 0..60 {
        stream.write_all(&record(&call(xid, Procedure::new(PROGRAM, 1, 1), b""))).unwrap();
        let silent = stream.read(&mut [0]).unwrap_err();
        assert_eq!(silent.kind(), std::io::ErrorKind::WouldBlock, "{xid}");
    }
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&record(&call(99, Procedure::new(PROGRAM, 1, 2), b""))).unwrap();
    assert_eq!(reply(&mut stream).unwrap(), (99, Answer::Success, b"last".to_vec()));
}
