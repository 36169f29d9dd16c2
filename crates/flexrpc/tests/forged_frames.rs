//! A stranger without the cluster key can't make the server tag anything for it. The true caller
//! believes frames with a tag. So if the server tagged the refusal of a forged copy, a stranger
//! could pass that refusal to the caller while the server executes the true call.

use crate::common::raw::{self, Raw};
use crate::common::{self, COUNT, Service, procedure};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use strait_flexrpc::proto::chain::{Chain, Hop};
use strait_flexrpc::proto::extension::Extension;
use strait_flexrpc::proto::frame::{Head, Kind, flags};
use strait_flexrpc::{
    CallId, Client, ClientOptions, ClusterKey, Server, ServerOptions, SessionId, Transport,
};

/// Codes of refusals on the wire.
const UNAUTHENTICATED: u16 = 6;
const TOO_LARGE: u16 = 7;
const OVERLOADED: u16 = 8;
const BAD_CHAIN: u16 = 10;

fn key() -> ClusterKey {
    ClusterKey::new(&[5; 32]).unwrap()
}

/// A server with the key, its service, and a session in it.
fn start(options: ServerOptions) -> (Server, Arc<Service>, SessionId) {
    let service = Arc::new(Service::default());
    let server = common::start(ServerOptions { key: Some(key()), ..options }, &service);
    let session = session(&server);
    (server, service, session)
}

fn session(server: &Server) -> SessionId {
    Raw::udp(server.address()).ask(&raw::tagged_hello(&key())).expect("a welcome").0.id.session
}

fn call_head(session: SessionId) -> Head {
    let id = CallId { session, handle: 0, transaction: 1 };
    Head { procedure: procedure(COUNT), ..Head::new(Kind::Call, id) }
}

/// Forgeries of a frame by a stranger that sees it but lacks the key: another argument, another
/// tag, no tag.
fn forgeries(head: Head, extension: &[u8]) -> [Vec<u8>; 3] {
    let other = ClusterKey::new(&[6; 32]).unwrap();
    let mut altered = raw::tagged(head, extension, b"argument", &key());
    *altered.last_mut().unwrap() ^= 1;
    [altered, raw::tagged(head, extension, b"another", &other), raw::frame(head, extension, b"argument")]
}

#[test]
fn a_forged_datagram_gets_no_answer_and_leaves_the_true_call_alone() {
    let (server, service, session) = start(ServerOptions::default());
    let mut raw = Raw::udp(server.address());
    for forged in forgeries(call_head(session), &[]) {
        assert_eq!(raw.ask(&forged), None);
    }
    let sound = raw::tagged(call_head(session), &[], b"argument", &key());
    assert_eq!(raw.ask(&sound).unwrap().0.kind, Kind::Value);
    assert_eq!(service.log(), [b"argument"]);
}

#[test]
fn a_forged_greeting_is_refused_without_a_tag() {
    let (server, _, _) = start(ServerOptions::default());
    // A handshake executes nothing, so a caller with the wrong key may learn the refusal.
    for mut raw in [Raw::udp(server.address()), Raw::tcp(server.address())] {
        let (answer, _, _) = raw.ask(&raw::hello()).unwrap();
        assert_eq!((answer.kind, answer.status, answer.flags), (Kind::Refused, UNAUTHENTICATED, 0));
    }
}

#[test]
fn over_a_connection_forged_frames_get_an_untagged_last_word() {
    let (server, service, session) = start(ServerOptions { receive_bytes: 1 << 20, ..Default::default() });
    let head = call_head(session);
    let chain = |hops| Extension { chain: Some(Chain { hops }), ..Extension::default() }.encode();
    let next = Hop { callee: server.address(), id: CallId { session: SessionId([1; 16]), ..head.id } };
    let of_chain = Head { flags: flags::CHAIN, ..head };
    let claim = |bytes| Head { payload_len: bytes, flags: flags::AUTHENTIC, ..head }.encode(&[]);
    let refused = [
        (forgeries(head, &[]).to_vec(), UNAUTHENTICATED),
        // An extension that no server can read.
        (forgeries(head, &[77, 0, 1, 0]).to_vec(), UNAUTHENTICATED),
        (forgeries(of_chain, &chain(vec![next])).to_vec(), UNAUTHENTICATED),
        // A chain that the server refuses from any caller.
        (forgeries(of_chain, &chain(Vec::new())).to_vec(), UNAUTHENTICATED),
        // The server refuses these sizes before it has a tag to check.
        (vec![claim(u32::MAX)], TOO_LARGE),
        (vec![claim(2 << 20)], OVERLOADED),
    ];
    for (case, (forgeries, status)) in refused.into_iter().enumerate() {
        for forged in forgeries {
            let mut raw = Raw::tcp(server.address());
            let (answer, _, _) = raw.ask(&forged).unwrap_or_else(|| panic!("case {case}: an answer"));
            assert_eq!((answer.kind, answer.status, answer.flags), (Kind::Refused, status, 0), "{case}");
            assert!(raw.is_closed(), "case {case}");
        }
    }
    assert_eq!(service.executed(), 0);
    let sound = raw::tagged(head, &[], b"argument", &key());
    assert_eq!(Raw::tcp(server.address()).ask(&sound).unwrap().0.kind, Kind::Value);
}

#[test]
fn a_frame_that_was_damaged_on_its_way_is_asked_for_again() {
    let (server, service, session) = start(ServerOptions::default());
    let next = start(ServerOptions::default());
    let callee = next.0.address();
    let hop = Hop { callee, id: CallId { session: next.2, handle: 0, transaction: 2 } };
    let extension = Extension { chain: Some(Chain { hops: vec![hop] }), ..Extension::default() };
    for (transaction, mode, extension) in [(1, 0, Extension::default()), (2, flags::CHAIN, extension)] {
        let head = call_head(session);
        let head = Head { id: CallId { transaction, ..head.id }, flags: mode, ..head };
        let sound = raw::tagged(head, &extension.encode(), b"argument", &key());
        let mut damaged = sound.clone();
        let payload = damaged.len() - 33;
        damaged[payload] ^= 1;
        let mut raw = Raw::tcp(server.address());
        assert_eq!(raw.ask(&damaged).unwrap().0.kind, Kind::SendAgain);
        assert!(raw.ask(&sound).unwrap().0.kind != Kind::Refused, "on the same connection");
        assert_eq!(Raw::udp(server.address()).ask(&damaged), None, "a datagram comes again by itself");
    }
    assert_eq!((service.executed(), next.1.executed()), (2, 1));
}

/// A network that runs `meddle` on each call to `server`, and passes the resulting answers to the
/// caller.
fn meddler(
    server: SocketAddr,
    meddle: impl Fn(&[u8], &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>) -> Vec<Vec<u8>> + Send + 'static,
) -> SocketAddr {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = front.local_addr().unwrap();
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.connect(server).unwrap();
    back.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    // Ends with the test's process.
    std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        let mut ask = |bytes: &[u8]| {
            back.send(bytes).ok()?;
            let mut answer = vec![0; 65_536];
            let len = back.recv(&mut answer).ok()?;
            answer.truncate(len);
            Some(answer)
        };
        while let Ok((len, caller)) = front.recv_from(&mut buffer) {
            let bytes = &buffer[..len];
            let is_call = Head::decode(bytes).is_ok_and(|head| head.is_some_and(|h| h.kind == Kind::Call));
            let mut answers = if is_call { meddle(bytes, &mut ask) } else { Vec::new() };
            answers.extend(ask(bytes));
            for answer in answers {
                let _ = front.send_to(&answer, caller);
            }
        }
    });
    address
}

#[test]
fn no_answer_to_a_forged_or_diverted_copy_hides_the_execution_from_its_caller() {
    let (server, service, _) = start(ServerOptions::default());
    let connection = server.address();
    let front = meddler(server.address(), move |call, ask| {
        let mut copy = call.to_vec();
        *copy.last_mut().unwrap() ^= 1;
        let by_udp = ask(&copy);
        // Over TCP the same, with the answer's bytes as they are.
        let mut stream = std::net::TcpStream::connect(connection).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        std::io::Write::write_all(&mut stream, &copy).unwrap();
        let mut by_tcp = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut by_tcp);
        by_udp.into_iter().chain([by_tcp]).collect()
    });
    let client = Client::new(ClientOptions { key: Some(key()), ..ClientOptions::default() });
    let told = client.call(front, Transport::Udp, procedure(COUNT), &[b"argument"]);
    assert_eq!(told.as_deref(), Ok(&b"argument"[..]));
    assert_eq!(service.executed(), 1);
}

#[test]
fn a_chains_call_that_comes_by_udp_as_well_isnt_refused_if_it_was_executed() {
    let (server, service, session) = start(ServerOptions::default());
    let (next, next_service, next_session) = start(ServerOptions::default());
    let head = Head { flags: flags::CHAIN, ..call_head(session) };
    let hop = Hop { callee: next.address(), id: CallId { session: next_session, ..head.id } };
    let extension = Extension { chain: Some(Chain { hops: vec![hop] }), ..Extension::default() };
    let call = |transaction| {
        let id = CallId { transaction, ..head.id };
        raw::tagged(Head { id, ..head }, &extension.encode(), b"argument", &key())
    };
    assert_eq!(Raw::tcp(server.address()).ask(&call(1)).unwrap().0.kind, Kind::Outcomes);
    let (diverted, _, _) = Raw::udp(server.address()).ask(&call(1)).unwrap();
    assert_eq!(diverted.kind, Kind::Outcomes, "its answer");
    // After the refusal the server doesn't execute it.
    assert_eq!(Raw::udp(server.address()).ask(&call(2)).unwrap().0.status, BAD_CHAIN);
    assert_eq!(Raw::tcp(server.address()).ask(&call(2)).unwrap().0.kind, Kind::Refused);
    assert_eq!((service.executed(), next_service.executed()), (1, 1));
}
