//! TLS with real certificates: which peers are trusted, refusals and their reasons, and calls that
//! work as without TLS.

use crate::common::proxy;
use crate::common::{self, COUNT, ECHO, PROGRAM, Service, procedure};
use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strait_flexrpc::proto::onc::message::{Answer, AuthStatus, Call, Denial};
use strait_flexrpc::proto::onc::record::mark;
use strait_flexrpc::{
    CallError, Client, ClientOptions, ClientTls, Credentials, Identity, MulticastOptions, Obstacle, Outcome,
    Refusal, Reply, Request, Server, ServerOptions, ServerTls, Transport, Trust, WorkerLimits,
};
use strait_testkit::Authority;
use tempfile::TempDir;

/// An authority, and a certificate from it for 127.0.0.1 and `localhost`.
struct Certified {
    dir: TempDir,
    authority: PathBuf,
    identity: Identity,
}

impl Certified {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let authority = Authority::new().unwrap();
        let issued = authority.issue(dir.path()).unwrap();
        let identity = Identity { certificate: issued.certificate, key: issued.key };
        let authority = authority.write(dir.path()).unwrap();
        Self { dir, authority, identity }
    }

    fn server(&self) -> ServerTls {
        ServerTls::load(&self.identity, None).unwrap()
    }

    /// Accepts only callers with certificates from `other`.
    fn server_of(&self, other: &Self) -> ServerTls {
        ServerTls::load(&self.identity, Some(&other.authority)).unwrap()
    }

    fn trusting(&self) -> ClientTls {
        ClientTls::load(&Trust::Authorities(self.authority.clone()), None).unwrap()
    }

    fn trusting_as(&self, identity: &Identity) -> ClientTls {
        ClientTls::load(&Trust::Authorities(self.authority.clone()), Some(identity)).unwrap()
    }
}

fn serve(options: ServerOptions) -> (Server, Arc<Service>) {
    let service = Arc::new(Service::default());
    (common::start(options, &service), service)
}

fn required(tls: ServerTls) -> ServerOptions {
    ServerOptions { tls: Some(tls), tls_required: true, ..ServerOptions::default() }
}

fn by(tls: ClientTls) -> Client {
    Client::new(ClientOptions { tls: Some(tls), ..ClientOptions::default() })
}

fn echo(client: &Client, server: SocketAddr, args: &[u8]) -> Result<Bytes, CallError> {
    client.call(server, Transport::Tcp, procedure(ECHO), &[args])
}

fn refused(result: Result<Bytes, CallError>) -> Refusal {
    match result {
        Err(CallError::NotExecuted(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_of_every_size_are_answered_on_one_pooled_connection() {
    let certified = Certified::new();
    let (server, _) = serve(required(certified.server()));
    let client = by(certified.trusting());
    let data: Vec<u8> = (0..5_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    for len in [0, 1, 1000, 16 << 10, 64 << 10, 128 << 10, 1 << 20, data.len(), 100] {
        assert!(echo(&client, server.address(), &data[..len]).unwrap() == data[..len], "{len} bytes");
    }
    assert_eq!((server.connection_count(), client.pooled_handles()), (1, 1));
}

/// A connection under TLS, driven by hand.
fn by_hand(
    certified: &Certified,
    server: SocketAddr,
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certified.authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection =
        rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    rustls::StreamOwned::new(connection, stream)
}

#[test]
fn calls_that_come_in_one_record_are_all_answered_whoever_else_wants_the_worker() {
    const CALLS: u32 = 100;
    let certified = Certified::new();
    for most in [1, 4] {
        let workers = WorkerLimits { least: 1, most, dormant: Duration::from_secs(10) };
        let (server, service) = serve(ServerOptions { workers, ..required(certified.server()) });
        // Plain ONC RPC under TLS: calls without a session.
        let calls: Vec<u8> = (0..CALLS)
            .flat_map(|xid| {
                let credentials = Credentials::None;
                let head = Call { xid, procedure: procedure(COUNT), credentials }.encode();
                [&mark(head.len() + 4), &head[..], &xid.to_be_bytes()].concat()
            })
            .collect();
        assert!(calls.len() < 16 << 10, "one record");
        let mut streams = [(); 3].map(|()| by_hand(&certified, server.address()));
        streams.iter_mut().for_each(|stream| stream.write_all(&calls).unwrap());
        for stream in &mut streams {
            for xid in 0..CALLS {
                let mut answer = [0; 32];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(answer[4..8], xid.to_be_bytes());
                assert_eq!(answer[28..], xid.to_be_bytes());
            }
        }
        assert_eq!(service.executed(), 3 * CALLS as usize);
    }
}

#[test]
fn an_answer_that_is_not_taken_for_long_is_there_whole_in_the_end() {
    let certified = Certified::new();
    let (server, _) = serve(required(certified.server()));
    let args = vec![7; 8 << 20];
    let head = Call { xid: 1, procedure: procedure(ECHO), credentials: Credentials::None }.encode();
    let mut stream = by_hand(&certified, server.address());
    stream.write_all(&[&mark(head.len() + args.len()), &head[..], &args].concat()).unwrap();
    // Other callers get service during this: no worker waits for this one.
    let client = by(certified.trusting());
    for _ in 0..50 {
        assert_eq!(echo(&client, server.address(), b"well").unwrap(), "well");
    }
    let mut answer = vec![0; 28 + args.len()];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer[28..] == args);
}

#[test]
fn many_callers_at_once_get_each_their_own_answer() {
    let certified = Certified::new();
    let (server, service) = serve(required(certified.server()));
    let client = by(certified.trusting());
    std::thread::scope(|scope| {
        for caller in 0..8u32 {
            let (client, server) = (&client, &server);
            scope.spawn(move || {
                for call in 0..100u32 {
                    let args = [caller.to_be_bytes(), call.to_be_bytes()].concat();
                    let count = procedure(COUNT);
                    assert_eq!(client.call(server.address(), Transport::Tcp, count, &[&args]).unwrap(), args);
                }
            });
        }
    });
    assert_eq!(service.executed(), 800);
}

#[test]
fn callers_with_and_without_tls_share_a_port_and_are_told_apart() {
    let certified = Certified::new();
    let options = ServerOptions { tls: Some(certified.server()), ..ServerOptions::default() };
    let server = Server::builder(options)
        .register(PROGRAM, 1, |request: &Request, reply: &mut Reply| {
            reply.put(&[u8::from(request.encrypted), u8::from(request.authenticated)]);
            Ok(())
        })
        .start()
        .unwrap();
    assert_eq!(echo(&by(certified.trusting()), server.address(), b"").unwrap(), [1, 0][..]);
    assert_eq!(echo(&common::client(), server.address(), b"").unwrap(), [0, 0][..]);
    let udp = common::client().call(server.address(), Transport::Udp, procedure(ECHO), &[]);
    assert_eq!(udp.unwrap(), [0, 0][..]);
}

#[test]
fn who_comes_without_tls_where_it_is_required_is_told_so_and_not_served() {
    let certified = Certified::new();
    let (server, service) = serve(required(certified.server()));
    for transport in [Transport::Tcp, Transport::Udp] {
        let result = common::client().call(server.address(), transport, procedure(COUNT), &[]);
        assert_eq!(refused(result), Refusal::TlsRequired, "{transport:?}");
    }
    let message = Call { xid: 1, procedure: procedure(COUNT), credentials: Credentials::None }.encode();
    let weak = Some((1, Answer::Denied(Denial::Auth(AuthStatus::TOO_WEAK)), &[][..]));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&[&mark(message.len()), &message[..]].concat()).unwrap();
    let mut answer = [0; 24];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(Answer::decode(&answer[4..]), weak);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&message, server.address()).unwrap();
    socket.recv(&mut answer).unwrap();
    assert_eq!(Answer::decode(&answer[..20]), weak);
    assert_eq!(service.executed(), 0);
}

#[test]
fn a_client_that_wants_tls_sends_nothing_in_the_clear() {
    let certified = Certified::new();
    let (server, _) = common::server();
    let client = by(certified.trusting());
    assert_eq!(refused(echo(&client, server.address(), b"")), Refusal::TlsUnavailable);
    let udp = client.call(server.address(), Transport::Udp, procedure(ECHO), &[]);
    assert_eq!(refused(udp), Refusal::TlsRequired);
    // The client doesn't call a peer that answers in another protocol, or not at all.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let other = std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"220 mail ready\r\n"));
    assert_eq!(refused(echo(&client, address, b"")), Refusal::TlsUnavailable);
    other.join().unwrap().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect_timeout = Duration::from_millis(50);
    let options =
        ClientOptions { tls: Some(certified.trusting()), connect_timeout, ..ClientOptions::default() };
    let result = echo(&Client::new(options), silent.local_addr().unwrap(), b"");
    assert_eq!(refused(result), Refusal::Unreachable(Obstacle::TimedOut));
}

#[test]
fn only_certificates_from_a_trusted_authority_for_the_callee_are_trusted() {
    let (certified, other) = (Certified::new(), Certified::new());
    let (server, _) = serve(required(certified.server()));
    let call = |tls| echo(&by(tls), server.address(), b"hello");
    assert_eq!(refused(call(other.trusting())), Refusal::Untrusted);
    assert_eq!(refused(call(certified.trusting().expecting("elsewhere").unwrap())), Refusal::Untrusted);
    assert_eq!(call(certified.trusting().expecting("localhost").unwrap()).unwrap(), "hello");
    assert!(certified.trusting().expecting("no name").is_none());
}

#[test]
fn a_pinned_certificate_is_trusted_and_no_other() {
    let (certified, other) = (Certified::new(), Certified::new());
    let (server, _) = serve(required(certified.server()));
    let pinning = |certificate: &Path| ClientTls::load(&Trust::Pinned(certificate.to_owned()), None).unwrap();
    let call = |tls| echo(&by(tls), server.address(), b"hello");
    assert_eq!(call(pinning(&certified.identity.certificate)).unwrap(), "hello");
    assert_eq!(refused(call(pinning(&other.identity.certificate))), Refusal::Untrusted);
    assert_eq!(refused(call(pinning(&certified.authority))), Refusal::Untrusted);
}

#[test]
fn a_server_that_wants_certificates_serves_only_callers_with_a_good_one() {
    let (servers, clients) = (Certified::new(), Certified::new());
    let (server, service) = serve(required(servers.server_of(&clients)));
    let call = |tls| by(tls).call(server.address(), Transport::Tcp, procedure(COUNT), &[b"hello"]);
    assert_eq!(refused(call(servers.trusting())), Refusal::CertificateWanted);
    // From an authority, but not the one that the server trusts.
    assert_eq!(refused(call(servers.trusting_as(&servers.identity))), Refusal::CertificateWanted);
    assert_eq!(service.executed(), 0);
    assert_eq!(call(servers.trusting_as(&clients.identity)).unwrap(), "hello");
    let whether = |request: &Request, reply: &mut Reply| {
        reply.put(&[u8::from(request.authenticated)]);
        Ok(())
    };
    server.register(PROGRAM, 1, whether).unwrap();
    assert_eq!(call(servers.trusting_as(&clients.identity)).unwrap(), [1][..]);
}

#[test]
fn off_loopback_callers_with_certificates_are_guard_enough() {
    let certified = Certified::new();
    let start = |options: ServerOptions| {
        let listen = "0.0.0.0:0".parse().unwrap();
        Server::builder(ServerOptions { listen, ..options }).start().map(drop).map_err(|error| error.kind())
    };
    assert_eq!(start(required(certified.server())), Err(ErrorKind::PermissionDenied));
    assert_eq!(start(required(certified.server_of(&certified))), Ok(()));
    let optional = ServerOptions { tls_required: false, ..required(certified.server_of(&certified)) };
    assert_eq!(start(optional), Err(ErrorKind::PermissionDenied), "others come without TLS");
    let none = ServerOptions { tls_required: true, ..ServerOptions::default() };
    assert_eq!(start(none), Err(ErrorKind::InvalidInput));
}

#[test]
fn certificates_are_renewed_while_a_server_runs() {
    let (old, new) = (Certified::new(), Certified::new());
    let onward = Some(old.trusting_as(&old.identity));
    let tls = ServerOptions { forwarding_tls: onward, ..required(old.server_of(&old)) };
    let (server, _) = serve(tls.clone());
    let (before, after) = (by(old.trusting_as(&old.identity)), by(new.trusting_as(&new.identity)));
    assert_eq!(echo(&before, server.address(), b"1").unwrap(), "1");
    assert_eq!(refused(echo(&after, server.address(), b"2")), Refusal::Untrusted);
    server.set_tls(new.server_of(&new), Some(new.trusting_as(&new.identity))).unwrap();
    assert_eq!(echo(&before, server.address(), b"3").unwrap(), "3", "what is open stays");
    assert_eq!(echo(&after, server.address(), b"4").unwrap(), "4");
    let weaker = server.set_tls(new.server(), None).map_err(|error| error.kind());
    assert_eq!(weaker, Err(ErrorKind::InvalidInput));
    // The next callee has new certificates too.
    let (next, _) = serve(ServerOptions { tls: Some(new.server_of(&new)), ..tls });
    let callees = [server.address(), next.address()];
    let args = [Bytes::from_static(b"5")];
    let outcomes = after.call_chain(&callees, procedure(ECHO), &args, &MulticastOptions::default());
    assert_eq!(outcomes, vec![Outcome::Value(args[0].clone()); 2]);
}

/// Callees whose chain uses TLS on each hop.
fn callees(certified: &Certified, count: usize) -> Vec<(Server, Arc<Service>)> {
    let options = ServerOptions {
        forwarding_tls: Some(certified.trusting_as(&certified.identity)),
        ..required(certified.server_of(certified))
    };
    (0..count).map(|_| serve(options.clone())).collect()
}

#[test]
fn a_chain_goes_by_tls_from_hop_to_hop() {
    let certified = Certified::new();
    let callees = callees(&certified, 4);
    let addresses: Vec<_> = callees.iter().map(|(server, _)| server.address()).collect();
    let client = by(certified.trusting_as(&certified.identity));
    let data: Vec<u8> = (0..6_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    for store_and_forward in [false, true] {
        let options = MulticastOptions { store_and_forward, ..MulticastOptions::default() };
        for len in [0, 100, 32 << 10, 1 << 20, data.len()] {
            let args = [Bytes::copy_from_slice(&data[..len])];
            let outcomes = client.call_chain(&addresses, procedure(COUNT), &args, &options);
            assert!(outcomes == vec![Outcome::Value(args[0].clone()); 4], "{len} bytes");
        }
    }
    assert!(callees.iter().all(|(_, service)| service.executed() == 10));
    // Each callee pools its connection from the previous one, whether a worker or the forwarder
    // carried the call.
    assert!(callees[1..].iter().all(|(server, _)| server.connection_count() <= 2));
}

#[test]
fn what_came_by_tls_is_not_passed_on_in_the_clear() {
    let certified = Certified::new();
    let tls = Some(certified.server());
    let callees: Vec<_> =
        (0..2).map(|_| serve(ServerOptions { tls: tls.clone(), ..ServerOptions::default() })).collect();
    let addresses: Vec<_> = callees.iter().map(|(server, _)| server.address()).collect();
    let call = |client: &Client| {
        client.call_chain(&addresses, procedure(COUNT), &[Bytes::new()], &MulticastOptions::default())
    };
    let denied = Outcome::NotExecuted(Refusal::ForwardingDenied);
    assert_eq!(call(&by(certified.trusting()))[0], denied);
    assert!(callees.iter().all(|(_, service)| service.executed() == 0));
    assert_eq!(call(&common::client()), vec![Outcome::Value(Bytes::new()); 2]);
}

#[test]
fn a_next_callee_that_is_not_trusted_is_not_called_and_the_caller_learns_why() {
    let (certified, other) = (Certified::new(), Certified::new());
    // The caller trusts both; the first callee doesn't trust the second.
    let both = certified.dir.path().join("both.pem");
    let pem = |certified: &Certified| std::fs::read_to_string(&certified.authority).unwrap();
    std::fs::write(&both, pem(&certified) + &pem(&other)).unwrap();
    let client = by(ClientTls::load(&Trust::Authorities(both), None).unwrap());
    let onward = Some(certified.trusting());
    let (first, executed) = serve(ServerOptions { forwarding_tls: onward, ..required(certified.server()) });
    let (second, none) = serve(required(other.server()));
    let args = [Bytes::from_static(b"hello")];
    let callees = [first.address(), second.address()];
    let outcomes = client.call_chain(&callees, procedure(COUNT), &args, &MulticastOptions::default());
    assert_eq!(outcomes[0], Outcome::Value(args[0].clone()));
    assert_eq!(outcomes[1], Outcome::NotExecuted(Refusal::Untrusted));
    assert_eq!((executed.executed(), none.executed()), (1, 0));
}

#[test]
fn multicasts_side_by_side_go_by_tls() {
    let certified = Certified::new();
    let callees = callees(&certified, 3);
    let addresses: Vec<_> = callees.iter().map(|(server, _)| server.address()).collect();
    let client = by(certified.trusting_as(&certified.identity));
    for len in [0, 60_000, 3_000_000] {
        let args = [Bytes::from(vec![7; len])];
        for _ in 0..3 {
            let outcomes = client.call_parallel(
                &addresses,
                Transport::Tcp,
                procedure(ECHO),
                &args,
                &MulticastOptions::default(),
            );
            assert!(outcomes == vec![Outcome::Value(args[0].clone()); 3], "{len} bytes");
        }
    }
}

/// A relay that records the bytes of both directions.
fn tapped(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let keep = Arc::clone(&seen);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for caller in listener.incoming().flatten() {
            let callee = TcpStream::connect(server).unwrap();
            let ways = [(&caller, &callee), (&callee, &caller)];
            for (from, to) in ways.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap())) {
                let (mut from, mut to, keep) = (from, to, Arc::clone(&keep));
                std::thread::spawn(move || {
                    let mut buffer = [0; 65_536];
                    while let Ok(len @ 1..) = from.read(&mut buffer) {
                        keep.lock().unwrap().extend_from_slice(&buffer[..len]);
                        if to.write_all(&buffer[..len]).is_err() {
                            return;
                        }
                    }
                });
            }
        }
    });
    (address, seen)
}

#[test]
fn nothing_of_a_call_shows_on_its_way() {
    const SECRET: &[u8] = b"a secret that is long enough not to come about by chance";
    let certified = Certified::new();
    let options = ServerOptions { tls: Some(certified.server()), ..ServerOptions::default() };
    let (server, _) = serve(options);
    let shows = |client: &Client| {
        let (address, seen) = tapped(server.address());
        assert_eq!(echo(client, address, SECRET).unwrap(), SECRET);
        let seen = seen.lock().unwrap();
        assert!(seen.len() > SECRET.len());
        seen.windows(SECRET.len()).any(|window| window == SECRET)
    };
    assert!(shows(&common::client()), "the tap works");
    assert!(!shows(&by(certified.trusting())));
}

#[test]
fn what_a_network_does_to_a_connection_has_nothing_executed_twice() {
    let certified = Certified::new();
    let (server, service) = serve(required(certified.server()));
    let cutting = proxy::tcp_proxy(server.address(), &Arc::default());
    let client = by(certified.trusting());
    let mut certain = 0;
    for call in 0..300u32 {
        let result = client.call(cutting, Transport::Tcp, procedure(COUNT), &[&call.to_be_bytes()]);
        let executions = service.log().iter().filter(|args| args[..] == call.to_be_bytes()).count();
        match result {
            Ok(_) => assert_eq!(executions, 1, "call {call}"),
            Err(CallError::NotExecuted(_)) => assert_eq!(executions, 0, "call {call}"),
            Err(CallError::Unknown(_)) => assert!(executions <= 1, "call {call}"),
            Err(CallError::Fault(fault)) => panic!("{fault}"),
        }
        certain += u32::from(result.is_ok());
    }
    assert!(certain > 30, "only {certain} calls came through: nothing was proved");
}

#[test]
fn damaged_and_unfinished_handshakes_cost_nobody_else_anything() {
    let certified = Certified::new();
    let (server, service) = serve(required(certified.server()));
    let (address, seen) = tapped(server.address());
    echo(&by(certified.trusting()), address, b"hello").unwrap();
    // The recording begins with the handshake's first message.
    let recorded = seen.lock().unwrap().clone();
    let hello = &recorded[..5 + usize::from(u16::from_be_bytes([recorded[3], recorded[4]]))];
    let mut unfinished = Vec::new();
    for len in (1..hello.len()).step_by(7) {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&hello[..len]).unwrap();
        unfinished.push(stream);
    }
    for bit in (0..hello.len() * 8).step_by(5) {
        let mut damaged = hello.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        TcpStream::connect(server.address()).unwrap().write_all(&damaged).unwrap();
    }
    // A replay of the whole recording.
    TcpStream::connect(server.address()).unwrap().write_all(&recorded).unwrap();
    assert_eq!(echo(&by(certified.trusting()), server.address(), b"well").unwrap(), "well");
    assert_eq!(service.executed(), 0);
    let open = unfinished.len();
    drop(unfinished);
    common::eventually("they are gone", || server.connection_count() < open);
}

#[test]
fn a_handshake_that_stalls_is_ended() {
    let certified = Certified::new();
    let options = ServerOptions { message_stall: Duration::from_millis(100), ..required(certified.server()) };
    let (server, _) = serve(options);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&[0x16, 3, 1, 0, 200, 1]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let end = stream.read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
}

#[test]
fn files_that_are_no_good_are_named() {
    let certified = Certified::new();
    let missing = certified.dir.path().join("missing.pem");
    let empty = certified.dir.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    let with = |certificate: &Path, key: &Path| {
        let identity = Identity { certificate: certificate.to_owned(), key: key.to_owned() };
        ServerTls::load(&identity, None).unwrap_err()
    };
    let Identity { certificate, key } = &certified.identity;
    assert_eq!(with(&missing, key).path, missing);
    assert_eq!(with(&empty, key).problem, "no PEM certificate in it");
    assert_eq!(with(certificate, &missing).path, missing);
    let other = Certified::new();
    let others = &other.identity.key;
    let mixed = with(certificate, others);
    assert_eq!(mixed.path, *others);
    assert!(mixed.problem.ends_with(&certificate.display().to_string()), "{mixed}");
    let roots = ClientTls::load(&Trust::Authorities(empty.clone()), None).unwrap_err();
    assert!(roots.to_string().contains("empty.pem"), "{roots}");
}

#[test]
fn once_tls_is_set_chains_are_passed_on_by_no_connection_that_was_made_before() {
    let certified = Certified::new();
    let (first, _) = serve(ServerOptions::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let second = Server::builder(ServerOptions { tls: Some(certified.server()), ..ServerOptions::default() })
        .register(PROGRAM, 1, move |request: &Request, _: &mut Reply| {
            log.lock().unwrap().push(request.encrypted);
            Ok(())
        })
        .start()
        .unwrap();
    let route = [first.address(), second.address()];
    let chain = |client: &Client| {
        let args = [Bytes::from_static(b"secret")];
        client.call_chain(&route, procedure(ECHO), &args, &MulticastOptions::default())
    };
    assert!(chain(&common::client()).iter().all(Outcome::is_value));
    assert_eq!(*seen.lock().unwrap(), [false], "in the clear, as it came");
    first.set_tls(certified.server(), Some(certified.trusting())).unwrap();
    assert!(chain(&by(certified.trusting())).iter().all(Outcome::is_value));
    assert_eq!(*seen.lock().unwrap(), [false, true]);
    // The first callee doesn't pass a call on to a callee that it no longer trusts.
    first.set_tls(certified.server(), Some(Certified::new().trusting())).unwrap();
    assert_eq!(chain(&by(certified.trusting()))[1], Outcome::NotExecuted(Refusal::Untrusted));
}

#[test]
fn callers_who_had_to_show_certificates_always_have_to() {
    let certified = Certified::new();
    let (server, _) = serve(required(certified.server()));
    server.set_tls(certified.server_of(&certified), None).unwrap();
    assert!(echo(&by(certified.trusting()), server.address(), b"x").is_err());
    assert!(server.set_tls(certified.server(), None).is_err(), "though it didn't begin so");
    assert!(echo(&by(certified.trusting()), server.address(), b"x").is_err());
}
