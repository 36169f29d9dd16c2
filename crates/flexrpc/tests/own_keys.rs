//! Callers with keys of their own, beside callers with the cluster's key. The key identifies the
//! caller, and no caller can use another's session.

use crate::common::raw::{self, Raw};
use crate::common::{self, COUNT, ECHO, PROGRAM, Service, eventually, procedure};
use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::any::Any;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strait_flexrpc::proto::chain::{Chain, Hop};
use strait_flexrpc::proto::extension::Extension;
use strait_flexrpc::proto::frame::{HEAD_BYTES, Head, Kind, flags};
use strait_flexrpc::{
    CallError, CallId, Client, ClientOptions, ClientTls, ClusterKey, Holder, Identity, KeyId, KeyLookup,
    MulticastOptions, Outcome, OwnKey, OwnKeys, Refusal, Reply, Request, Server, ServerOptions, ServerTls,
    SessionId, Transport, Trust,
};
use strait_testkit::Authority;

const UNAUTHENTICATED: u16 = 6;
/// The program that callers without a key may call, in tests that have one.
const OPEN: u32 = 0x2000_0043;

struct User {
    name: &'static str,
    valid: AtomicBool,
}

impl Holder for User {
    fn is_valid(&self) -> bool {
        self.valid.load(Ordering::SeqCst)
    }
}

/// Users by the ids of their keys.
#[derive(Default)]
struct Users(Mutex<HashMap<Vec<u8>, Keyed>>);

type Keyed = (ClusterKey, Arc<User>);

impl KeyLookup for Users {
    fn find(&self, id: &KeyId) -> Option<OwnKey> {
        let users = self.0.lock().unwrap();
        let (key, user) = users.get(id.bytes())?;
        let holder: Arc<dyn Holder> = user.clone();
        user.is_valid().then(|| OwnKey { key: key.clone(), holder })
    }
}

fn cluster_key() -> ClusterKey {
    ClusterKey::new(&[5; 32]).unwrap()
}

fn key_of(user: &str) -> ClusterKey {
    ClusterKey::new(&[user.as_bytes()[0]; 32]).unwrap()
}

/// Alice and Bob have keys of their own.
fn users() -> Arc<Users> {
    let users = Users::default();
    for name in ["alice", "bob"] {
        let user = Arc::new(User { name, valid: AtomicBool::new(true) });
        users.0.lock().unwrap().insert(name.into(), (key_of(name), user));
    }
    Arc::new(users)
}

impl Users {
    fn revoke(&self, name: &str) {
        self.0.lock().unwrap()[name.as_bytes()].1.valid.store(false, Ordering::SeqCst);
    }
}

fn options(users: &Arc<Users>) -> ServerOptions {
    ServerOptions {
        key: Some(cluster_key()),
        own_keys: Some(OwnKeys(users.clone())),
        ..ServerOptions::default()
    }
}

fn serve(users: &Arc<Users>) -> (Server, Arc<Service>) {
    let service = Arc::new(Service::default());
    (common::start(options(users), &service), service)
}

fn by(id: &str, key: ClusterKey) -> Client {
    Client::new(ClientOptions {
        key: Some(key),
        key_id: KeyId::new(id.as_bytes()),
        ..ClientOptions::default()
    })
}

fn alice() -> Client {
    by("alice", key_of("alice"))
}

fn echo(client: &Client, server: &Server, transport: Transport) -> Result<Bytes, CallError> {
    client.call(server.address(), transport, procedure(ECHO), &[b"hello"])
}

fn refused<T: std::fmt::Debug>(result: Result<T, CallError>) -> Refusal {
    match result {
        Err(CallError::NotExecuted(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Opens a session with this key, by frames that the test makes.
fn session(server: &Server, id: Option<&str>, key: &ClusterKey) -> SessionId {
    let (head, _, _) = Raw::tcp(server.address()).ask(&hello(id, key)).expect("a welcome");
    assert_eq!(head.kind, Kind::Welcome);
    head.id.session
}

fn hello(id: Option<&str>, key: &ClusterKey) -> Vec<u8> {
    let key_id = id.and_then(|id| KeyId::new(id.as_bytes()));
    let extension = Extension { nonce: Some([3; 16]), key_id, ..Extension::default() };
    raw::tagged(Head::new(Kind::Hello, CallId::default()), &extension.encode(), &[], key)
}

fn call(session: SessionId, transaction: u64) -> Head {
    let id = CallId { session, handle: 0, transaction };
    Head { procedure: procedure(COUNT), ..Head::new(Kind::Call, id) }
}

#[test]
fn a_service_knows_who_calls_by_the_key() {
    let users = users();
    let server = Server::builder(options(&users))
        .register(PROGRAM, 1, |request: &Request, reply: &mut Reply| {
            let holder = request.holder.as_deref().map(|holder| holder as &dyn Any);
            let user = holder.and_then(|holder| holder.downcast_ref::<User>());
            let user = user.map_or("the cluster", |user| user.name);
            reply.put(format!("{user} {}", request.authenticated).as_bytes());
            Ok(())
        })
        .start()
        .unwrap();
    let cluster = Client::new(ClientOptions { key: Some(cluster_key()), ..ClientOptions::default() });
    let callers =
        [(alice(), "alice false"), (by("bob", key_of("bob")), "bob false"), (cluster, "the cluster true")];
    for (client, told) in callers {
        for transport in [Transport::Tcp, Transport::Udp] {
            assert_eq!(echo(&client, &server, transport).unwrap(), told);
        }
    }
}

#[test]
fn a_wrong_key_an_unknown_id_and_another_s_id_are_refused_alike() {
    let users = users();
    users.revoke("bob");
    let (server, service) = serve(&users);
    let clients = [
        ("alice", key_of("mallory")),
        ("carol", key_of("carol")),
        ("alice", key_of("bob")),
        // The key is revoked, or expired.
        ("bob", key_of("bob")),
        // The server doesn't accept the cluster's key under the id of a caller's own key.
        ("alice", cluster_key()),
    ];
    for (id, key) in clients {
        for transport in [Transport::Tcp, Transport::Udp] {
            let refusal = refused(echo(&by(id, key.clone()), &server, transport));
            assert_eq!(refusal, Refusal::Unauthenticated, "{id} by {transport:?}");
        }
    }
    // A caller's own key doesn't count as the cluster's: without its id the server doesn't find it.
    let nameless = Client::new(ClientOptions { key: Some(key_of("alice")), ..ClientOptions::default() });
    assert_eq!(refused(echo(&nameless, &server, Transport::Tcp)), Refusal::Unauthenticated);
    assert_eq!(service.executed(), 0);
}

#[test]
fn a_server_without_the_lookup_refuses_and_the_caller_does_not_fall_back() {
    for key in [Some(cluster_key()), None] {
        let service = Arc::new(Service::default());
        let server = common::start(ServerOptions { key, ..ServerOptions::default() }, &service);
        assert_eq!(refused(echo(&alice(), &server, Transport::Tcp)), Refusal::Unauthenticated);
        assert_eq!(service.executed(), 0);
    }
}

/// An attacker in between removes the id from the handshake, so that the server would take the key
/// for the cluster's; or it inserts another id.
#[test]
fn an_altered_greeting_is_refused() {
    let (server, _) = serve(&users());
    let head = Head::new(Kind::Hello, CallId::default());
    let honest = hello(Some("alice"), &key_of("alice"));
    let tag = &honest[honest.len() - 32..];
    for key_id in [None, KeyId::new(b"bob")] {
        let extension = Extension { nonce: Some([3; 16]), key_id, ..Extension::default() }.encode();
        let altered = Head { flags: flags::AUTHENTIC, ..head }.encode(&extension);
        let (answer, _, _) = Raw::tcp(server.address()).ask(&[&altered[..], tag].concat()).unwrap();
        assert_eq!((answer.kind, answer.status, answer.flags), (Kind::Refused, UNAUTHENTICATED, 0));
    }
}

#[test]
fn a_session_takes_frames_by_its_own_key_alone() {
    let users = users();
    let (server, service) = serve(&users);
    let sessions = [
        (session(&server, Some("alice"), &key_of("alice")), key_of("alice")),
        (session(&server, None, &cluster_key()), cluster_key()),
    ];
    for (session, own) in &sessions {
        let others = [key_of("alice"), key_of("bob"), cluster_key()];
        let strangers = others.iter().filter(|key| !same(key, own));
        for key in strangers {
            for kind in [Kind::Call, Kind::Revoke] {
                let frame = raw::tagged(Head { kind, ..call(*session, 1) }, &[], b"forged", key);
                let mut raw = Raw::tcp(server.address());
                let (answer, _, _) = raw.ask(&frame).unwrap();
                assert_eq!((answer.kind, answer.status, answer.flags), (Kind::Refused, UNAUTHENTICATED, 0));
            }
        }
        let untagged = raw::frame(call(*session, 1), &[], b"forged");
        assert_eq!(Raw::tcp(server.address()).ask(&untagged).unwrap().0.status, UNAUTHENTICATED);
        // The forged frames neither revoke the true call nor make it a duplicate.
        let sound = raw::tagged(call(*session, 1), &[], b"mine", own);
        assert_eq!(Raw::tcp(server.address()).ask(&sound).unwrap().0.kind, Kind::Value);
    }
    assert_eq!(service.log(), [b"mine", b"mine"]);
}

fn same(one: &ClusterKey, other: &ClusterKey) -> bool {
    let tag = |key: &ClusterKey| key.of_session(SessionId::NONE).tag(&[]);
    tag(one) == tag(other)
}

/// The holder's own key protects this session. A handshake inside it isn't covered: without an id
/// it must carry the cluster's tag.
#[test]
fn a_greeting_within_an_own_session_opens_none_of_the_clusters() {
    let (server, _) = serve(&users());
    let key = key_of("alice");
    let id = CallId { session: session(&server, Some("alice"), &key), handle: 0, transaction: 9 };
    let extension = Extension { nonce: Some([3; 16]), ..Extension::default() }.encode();
    let within = raw::tagged(Head::new(Kind::Hello, id), &extension, &[], &key);
    let (answer, _, _) = Raw::tcp(server.address()).ask(&within).unwrap();
    assert_eq!((answer.kind, answer.status, answer.flags), (Kind::Refused, UNAUTHENTICATED, 0));
}

#[test]
fn a_replayed_call_is_not_executed_again() {
    let (server, service) = serve(&users());
    let key = key_of("alice");
    let greeting = hello(Some("alice"), &key);
    let (head, _, _) = Raw::tcp(server.address()).ask(&greeting).unwrap();
    let sent = raw::tagged(call(head.id.session, 1), &[], b"once", &key);
    for _ in 0..3 {
        assert_eq!(Raw::tcp(server.address()).ask(&sent).unwrap().2, b"once", "the same answer");
    }
    // A replayed handshake opens a session in which only the key's holder can call.
    let (again, _, _) = Raw::tcp(server.address()).ask(&greeting).unwrap();
    assert_ne!(again.id.session, head.id.session);
    let moved = [
        &raw::frame(Head { flags: flags::AUTHENTIC, ..call(again.id.session, 1) }, &[], b"once")[..],
        &sent[sent.len() - 32..],
    ]
    .concat();
    assert_eq!(Raw::tcp(server.address()).ask(&moved).unwrap().0.status, UNAUTHENTICATED);
    assert_eq!(service.log(), [b"once"]);
}

#[test]
fn a_key_that_ends_is_refused_in_its_open_sessions_and_others_go_on() {
    let users = users();
    let (server, service) = serve(&users);
    let (alice, bob) = (alice(), by("bob", key_of("bob")));
    for client in [&alice, &bob] {
        echo(client, &server, Transport::Tcp).unwrap();
    }
    users.revoke("alice");
    let count = |client: &Client| client.call(server.address(), Transport::Tcp, procedure(COUNT), &[b"x"]);
    for _ in 0..3 {
        assert_eq!(refused(count(&alice)), Refusal::Unauthenticated);
    }
    count(&bob).unwrap();
    assert_eq!(service.executed(), 1);
}

#[test]
fn a_caller_goes_on_after_the_server_restarted() {
    let users = users();
    let (server, service) = serve(&users);
    let address = server.address();
    let client = alice();
    echo(&client, &server, Transport::Tcp).unwrap();
    drop(server);
    let again = ServerOptions { listen: address, ..options(&users) };
    let mut server = None;
    eventually("the port is free", || {
        server = common::try_start(again.clone(), &service);
        server.is_some()
    });
    let server = server.unwrap();
    // One call may have an unknown outcome; the next one uses a new session.
    eventually("it is served", || echo(&client, &server, Transport::Tcp).is_ok());
}

/// Otherwise the holder would get the cluster's tag for its messages to other servers.
#[test]
fn chains_of_a_caller_with_a_key_of_its_own_lead_nowhere() {
    let users = users();
    let (first, service) = serve(&users);
    let (second, behind) = serve(&users);
    let callees = [first.address(), second.address()];
    let outcomes = alice().call_chain(
        &callees,
        procedure(COUNT),
        &[Bytes::from_static(b"x")],
        &MulticastOptions::default(),
    );
    assert!(outcomes.iter().all(|outcome| !matches!(outcome, Outcome::Value(_))), "{outcomes:?}");
    // Also by hand, with a session of the cluster's at the next callee.
    let mine = session(&first, Some("alice"), &key_of("alice"));
    let theirs = session(&second, None, &cluster_key());
    let hop = Hop { callee: second.address(), id: CallId { session: theirs, handle: 0, transaction: 1 } };
    let extension = Extension { chain: Some(Chain { hops: vec![hop] }), ..Extension::default() }.encode();
    let head = Head { flags: flags::CHAIN, ..call(mine, 1) };
    let (answer, _, _) =
        Raw::tcp(first.address()).ask(&raw::tagged(head, &extension, b"x", &key_of("alice"))).unwrap();
    assert_eq!(answer.kind, Kind::Refused);
    assert_eq!((service.executed(), behind.executed()), (0, 0));
}

struct Certified {
    authority: CertificateDer<'static>,
    server: ServerTls,
    client: ClientTls,
}

fn certified() -> Certified {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new().unwrap();
    let issued = authority.issue(dir.path()).unwrap();
    let identity = Identity { certificate: issued.certificate, key: issued.key };
    let file = authority.write(dir.path()).unwrap();
    let trust = Trust::Authorities(file.clone());
    Certified {
        authority: CertificateDer::from_pem_file(&file).unwrap(),
        server: ServerTls::load(&identity, None).unwrap(),
        client: ClientTls::load(&trust, None).unwrap(),
    }
}

/// Sends a frame that the test made under TLS. Returns the answer's head.
fn ask_by_tls(server: &Server, certified: &Certified, frame: &[u8]) -> Head {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certified.authority.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection =
        rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, stream);
    stream.write_all(frame).unwrap();
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).unwrap();
    Head::decode(&head).unwrap().unwrap()
}

#[test]
fn without_a_key_an_open_program_is_served_by_tls_and_nothing_else() {
    let certified = certified();
    let service = Arc::new(Service::default());
    let options = ServerOptions {
        keyless_programs: vec![OPEN],
        tls: Some(certified.server.clone()),
        ..options(&users())
    };
    let server = common::builder(options, &service)
        .register(OPEN, 1, |request: &Request, reply: &mut Reply| {
            assert!(request.encrypted && !request.authenticated && request.holder.is_none());
            reply.put(&request.args);
            Ok(())
        })
        .start()
        .unwrap();
    let open = strait_flexrpc::Procedure::new(OPEN, 1, 1);
    let by_tls =
        Client::new(ClientOptions { tls: Some(certified.client.clone()), ..ClientOptions::default() });
    let tcp = Transport::Tcp;
    assert_eq!(by_tls.call(server.address(), tcp, open, &[b"in"]).unwrap(), "in");
    assert_eq!(refused(echo(&by_tls, &server, tcp)), Refusal::Unauthenticated);
    let in_clear = Client::default();
    for transport in [tcp, Transport::Udp] {
        let refusal = refused(in_clear.call(server.address(), transport, open, &[b"in"]));
        assert_eq!(refusal, Refusal::Unauthenticated, "{transport:?}");
    }
    // By TLS, but in a session of the cluster's or of Alice's: these require tags.
    for session in [session(&server, None, &cluster_key()), session(&server, Some("alice"), &key_of("alice"))]
    {
        let answer = ask_by_tls(&server, &certified, &raw::frame(call(session, 1), &[], b"forged"));
        assert_eq!((answer.kind, answer.status, answer.flags), (Kind::Refused, UNAUTHENTICATED, 0));
    }
    assert_eq!(service.executed(), 0);
    // Callers with keys may use TLS too.
    let both = ClientOptions {
        key: Some(key_of("alice")),
        key_id: KeyId::new(b"alice"),
        tls: Some(certified.client),
        ..ClientOptions::default()
    };
    echo(&Client::new(both), &server, tcp).unwrap();
}
