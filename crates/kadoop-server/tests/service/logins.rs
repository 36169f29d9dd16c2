//! Logged-in users act only as themselves, and only while their password is valid. Their secrets
//! cross no wire in clear.

use crate::support::{
    Cluster, Way, key, namenode_options, names, pattern, relay, rpc, signed_read, superuser, user,
};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, CallError, ClusterKey, FaultKind, KeyId, Transport, stub::StubError};
use strait_kadoop_client::{Client, ClientOptions, CreateOptions, Login};
use strait_kadoop_core::{
    Error, Identity,
    messages::{Attributes, Caller},
};
use strait_kadoop_server::{Accounts, Logins, NamenodeOptions};
use strait_kadoop_wire::{
    Epoch, Failure,
    tls::{self, ClientTls, ServerTls, Trust},
    wire::{
        self, KadoopLoginV1Client, KadoopNamenodeV1Client, KdCaller, KdCredential, KdMutation, KdRequest,
    },
};
use strait_testkit::Authority;
use strait_testkit::wait::{eventually, pause, wait_until};
use tempfile::TempDir;

const PASSWORD: &str = "correct horse battery staple";
const UNKNOWN_CLIENT: u32 = wire::Refusal::RefusedUnknownClient as u32;
const UNAUTHENTICATED: u32 = wire::Refusal::RefusedUnauthenticated as u32;
const TOKEN_EXPIRED: u32 = wire::Refusal::RefusedTokenExpired as u32;

/// Users with their passwords and epochs.
#[derive(Default)]
struct Users(Mutex<BTreeMap<String, (String, u8)>>);

impl Users {
    fn set(&self, user: &str, password: &str) {
        let mut users = self.0.lock().unwrap();
        let epoch = users.get(user).map_or(0, |(_, epoch)| *epoch) + 1;
        users.insert(user.to_owned(), (password.to_owned(), epoch));
    }
}

impl Accounts for Users {
    fn log_in(&self, user: &str, password: &str) -> Option<Epoch> {
        let users = self.0.lock().unwrap();
        users.get(user).filter(|(right, _)| right == password).map(|(_, epoch)| [*epoch; 16])
    }

    fn epoch(&self, user: &str) -> Option<Epoch> {
        self.0.lock().unwrap().get(user).map(|(_, epoch)| [*epoch; 16])
    }

    fn groups(&self, user: &str) -> Vec<String> {
        vec![format!("{user}s")]
    }
}

/// A cluster with logins for Alice and Bob.
struct Rig {
    cluster: Cluster,
    users: Arc<Users>,
    logins: Logins,
    tls: ClientTls,
    _certificates: TempDir,
}

impl Rig {
    fn start(datanodes: usize, change: impl FnOnce(Logins) -> Logins) -> Self {
        let certificates = tempfile::tempdir().unwrap();
        let authority = Authority::new().unwrap();
        let issued = authority.issue(certificates.path()).unwrap();
        let identity = tls::Identity { certificate: issued.certificate, key: issued.key };
        let trust = Trust::Authorities(authority.write(certificates.path()).unwrap());
        let users = Arc::new(Users::default());
        users.set("alice", PASSWORD);
        users.set("bob", PASSWORD);
        let logins = change(Logins::new(users.clone(), ServerTls::load(&identity, None).unwrap()));
        let with = |options| NamenodeOptions { logins: Some(logins.clone()), ..options };
        let cluster = Cluster::start_with(datanodes, key(), with);
        let rig = Self {
            tls: ClientTls::load(&trust, None).unwrap(),
            cluster,
            users,
            logins,
            _certificates: certificates,
        };
        let root = rig.cluster.client();
        root.set_attributes(&superuser(), "/", Attributes { mode: Some(0o777), ..Attributes::default() })
            .unwrap();
        rig
    }

    fn at(&self) -> SocketAddr {
        self.cluster.namenode.address()
    }

    fn restart_namenode(&mut self) {
        let directory = self.cluster.directory.path().join("namenode");
        let options = NamenodeOptions {
            listen: self.at(),
            listen_datanodes: self.cluster.namenode.datanodes_address(),
            logins: Some(self.logins.clone()),
            ..namenode_options(&directory)
        };
        self.cluster.restart_namenode(options);
    }

    fn login(&self, user: &str, password: &str) -> Login {
        let password = password.to_owned();
        Login {
            user: user.to_owned(),
            password: Arc::new(move || Ok(password.clone())),
            tls: self.tls.clone(),
        }
    }

    fn options(&self, user: &str, password: &str) -> ClientOptions {
        ClientOptions {
            short_circuit: false,
            ..ClientOptions::new(self.at().to_string(), self.login(user, password))
        }
    }

    fn client(&self, user: &str) -> Client {
        Client::connect(self.options(user, PASSWORD)).unwrap()
    }

    /// Logs in by hand.
    fn credential(&self, user: &str) -> KdCredential<'static> {
        self.try_credential(user, PASSWORD).unwrap()
    }

    fn try_credential(&self, user: &str, password: &str) -> Result<KdCredential<'static>, StubError> {
        let by_tls = flexrpc::Client::new(flexrpc::ClientOptions {
            tls: Some(self.tls.clone()),
            ..Default::default()
        });
        let mut to = KadoopLoginV1Client::new(by_tls.handle(self.at(), Transport::Tcp).unwrap());
        to.lg_login(&user.into(), &password.into())
    }
}

fn signer(id: &[u8], secret: &[u8], tls: Option<ClientTls>) -> flexrpc::Client {
    flexrpc::Client::new(flexrpc::ClientOptions {
        key: ClusterKey::new(secret).ok(),
        key_id: KeyId::new(id),
        tls,
        ..Default::default()
    })
}

/// A connection to the namenode by a credential, for calls by hand.
fn by(credential: &KdCredential<'_>, at: SocketAddr, tls: Option<ClientTls>) -> KadoopNamenodeV1Client {
    let rpc = signer(&credential.id, &credential.secret, tls);
    KadoopNamenodeV1Client::new(rpc.handle(at, Transport::Tcp).unwrap())
}

fn caller(user: &str) -> KdCaller<'static> {
    KdCaller { user: user.to_owned().into(), groups: Vec::new() }
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, StubError>) -> u32 {
    match answer.unwrap_err() {
        StubError::Call(CallError::Fault(fault)) => match fault.kind {
            FaultKind::Application(number) => number,
            other => panic!("{other:?}: {}", fault.message),
        },
        other => panic!("{other:?}"),
    }
}

fn error<T>(answer: Result<T, Failure>) -> Error {
    answer.err().expect("a refusal").error
}

fn put(client: &Client, caller: &Caller, path: &str, bytes: &[u8]) {
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut writer = client.create(caller, path, &options).unwrap();
    writer.write(bytes.to_vec()).unwrap();
    writer.close().unwrap();
}

#[test]
fn a_user_that_logs_in_reads_and_writes_without_the_key() {
    let rig = Rig::start(1, |logins| logins);
    let (client, alice) = (rig.client("alice"), user("alice"));
    client.mkdirs(&alice, "/home", 0o700).unwrap();
    let bytes = pattern(3 << 20);
    put(&client, &alice, "/home/file", &bytes);
    assert_eq!(client.open(&alice, "/home/file").unwrap().read_at(0, 3 << 20).unwrap(), bytes);
    assert_eq!(client.stat(&alice, "/home/file").unwrap().owner, "alice");
    // Holders of the clients' key still have access.
    assert_eq!(rig.cluster.client().stat(&superuser(), "/home").unwrap().owner, "alice");
}

#[test]
fn a_credential_acts_as_its_user_alone() {
    let rig = Rig::start(0, |logins| logins);
    let (alice, bob) = (rig.client("alice"), rig.client("bob"));
    bob.mkdirs(&user("bob"), "/bobs", 0o700).unwrap();
    assert_eq!(error(alice.list(&user("alice"), "/bobs", "", 10)), Error::PermissionDenied);
    // As Bob, as the superuser, or with an empty name.
    for other in ["bob", "kadoop", ""] {
        let other = user(other);
        assert_eq!(error(alice.list(&other, "/bobs", "", 10)), Error::PermissionDenied);
        assert_eq!(error(alice.mkdirs(&other, "/bobs/hers", 0o755)), Error::PermissionDenied);
        assert_eq!(error(alice.rebalance(&other, Some(10))), Error::PermissionDenied);
    }
    assert_eq!(error(alice.rebalance(&user("alice"), Some(10))), Error::PermissionDenied);
    assert_eq!(
        error(alice.decommission(&user("alice"), strait_kadoop_core::NodeId(1), false)),
        Error::PermissionDenied
    );
}

#[test]
fn groups_are_the_namenodes_to_know() {
    let rig = Rig::start(0, |logins| logins);
    let root = rig.cluster.client();
    for (directory, group) in [("/bobs", "bobs"), ("/alices", "alices")] {
        root.mkdirs(&superuser(), directory, 0o750).unwrap();
        let group = Attributes { group: Some(group.into()), ..Attributes::default() };
        root.set_attributes(&superuser(), directory, group).unwrap();
    }
    let claims = Caller { user: "alice".into(), groups: vec!["bobs".into(), "kadoop".into()], session: None };
    let alice = rig.client("alice");
    assert_eq!(error(alice.list(&claims, "/bobs", "", 10)), Error::PermissionDenied);
    alice.list(&claims, "/alices", "", 10).unwrap();
}

/// A client's number gives access to its answers, and the right to write its open chunks.
#[test]
fn a_credential_is_no_other_client() {
    let rig = Rig::start(1, |logins| logins);
    let [alice, bob] = ["alice", "bob"].map(|user| rig.credential(user));
    assert_ne!(alice.client, bob.client);
    let mut as_bob = by(&bob, rig.at(), None);
    let request = KdRequest { client: bob.client, number: 1, done_below: 1 };
    let create = KdMutation::KdCreate(wire::KdCreate {
        path: "/bobs".into(),
        overwrite: false,
        mode: 0o600,
        replication: 1,
        chunk_bytes: 1 << 20,
    });
    let answer = as_bob.nn_mutate(&caller("bob"), &request, &create).unwrap();
    let wire::KdAnswer::KdOpened(opened) = answer else { panic!("{answer:?}") };
    let more = KdMutation::KdAddChunk(wire::KdAddChunk {
        file: opened.file,
        ends: Vec::new(),
        next: true,
        avoid: Vec::new(),
    });
    let request = KdRequest { number: 2, ..request };
    let answer = as_bob.nn_mutate(&caller("bob"), &request, &more).unwrap();
    let wire::KdAnswer::KdChunk(wire::KdChunkAnswer { next: Some(chunk), .. }) = answer else {
        panic!("{answer:?}")
    };
    let mut as_alice = by(&alice, rig.at(), None);
    // A repeated answer of Bob's would contain a token, as would one for the lease's holder.
    assert_eq!(refusal(as_alice.nn_mutate(&caller("alice"), &request, &more)), UNKNOWN_CLIENT);
    assert_eq!(refusal(as_alice.nn_token(bob.client, opened.file, chunk.chunk)), UNKNOWN_CLIENT);
    assert_eq!(refusal(as_alice.nn_renew(bob.client)), UNKNOWN_CLIENT);
    as_bob.nn_token(bob.client, opened.file, chunk.chunk).unwrap();
    // Her own number doesn't have his lease.
    let lease_lost = wire::Refusal::RefusedLeaseLost as u32;
    assert_eq!(refusal(as_alice.nn_token(alice.client, opened.file, chunk.chunk)), lease_lost);
    assert_eq!(as_alice.nn_join(&wire::KdHello { features: 0 }).unwrap().client, alice.client);
}

#[test]
fn a_forged_id_is_refused() {
    let rig = Rig::start(0, |logins| logins);
    let credential = rig.credential("alice");
    let honest = credential.id.to_vec();
    by(&credential, rig.at(), None).nn_stat(&caller("alice"), &"/".into()).unwrap();
    // One more bit anywhere: another layout, client, end or user, or an invalid one.
    let mut forged: Vec<Vec<u8>> = (0..honest.len())
        .map(|at| {
            let mut id = honest.clone();
            id[at] ^= 1;
            id
        })
        .collect();
    // The same for Bob, and with a later end.
    forged.push([&honest[..25], b"bob"].concat());
    forged.push([&honest[..24], &[honest[24] ^ 0x80], &honest[25..]].concat());
    forged.push(vec![1; 255]);
    for id in forged {
        let rpc = signer(&id, &credential.secret, None);
        let refused = rpc.handle(rig.at(), Transport::Tcp).err();
        assert!(
            matches!(refused, Some(CallError::NotExecuted(flexrpc::Refusal::Unauthenticated))),
            "{refused:?}"
        );
    }
}

#[test]
fn a_credential_opens_nothing_at_the_datanodes_port_nor_at_a_datanode() {
    let rig = Rig::start(1, |logins| logins);
    let credential = rig.credential("alice");
    for port in [rig.cluster.namenode.datanodes_address(), rig.cluster.datanode_addresses()[0]] {
        for id in [Some(&credential.id[..]), None] {
            let rpc = flexrpc::Client::new(flexrpc::ClientOptions {
                key: ClusterKey::new(&credential.secret).ok(),
                key_id: id.and_then(KeyId::new),
                ..Default::default()
            });
            let refused = rpc.handle(port, Transport::Tcp).err();
            assert!(
                matches!(refused, Some(CallError::NotExecuted(flexrpc::Refusal::Unauthenticated))),
                "{refused:?}"
            );
        }
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_refused_alike_and_slowed_down() {
    let rig = Rig::start(0, |logins| logins);
    for (name, password) in [("alice", "guess"), ("carol", PASSWORD), ("", "")] {
        assert_eq!(refusal(rig.try_credential(name, password)), UNAUTHENTICATED);
    }
    // Each failure doubles the pause, so even on a slow host some guess falls within it.
    let limit = wire::Refusal::RefusedLimit as u32;
    let guessed = (0..6).any(|_| refusal(rig.try_credential("alice", "again")) == limit);
    assert!(guessed, "guesses are slowed down");
    // Other users aren't slowed down, and the library waits for its turn.
    rig.client("bob");
    rig.client("alice");
    let refused = Client::connect(rig.options("bob", "guess")).err().unwrap();
    assert_eq!(refused.error, Error::Unauthenticated);
    assert!(
        refused.to_string().contains("password of bob") && !refused.to_string().contains("guess"),
        "{refused}"
    );
}

#[test]
fn logins_come_by_tls_and_to_whom_the_client_trusts() {
    let rig = Rig::start(0, |logins| logins);
    let in_clear = rpc(None).handle(rig.at(), Transport::Tcp).err();
    assert!(
        matches!(in_clear, Some(CallError::NotExecuted(flexrpc::Refusal::Unauthenticated))),
        "{in_clear:?}"
    );
    // Without a key only logins are possible.
    let by_tls =
        flexrpc::Client::new(flexrpc::ClientOptions { tls: Some(rig.tls.clone()), ..Default::default() });
    let mut names = KadoopNamenodeV1Client::new(by_tls.handle(rig.at(), Transport::Tcp).unwrap());
    let refused = names.nn_stat(&caller("kadoop"), &"/".into());
    assert!(
        matches!(refused, Err(StubError::Call(CallError::NotExecuted(flexrpc::Refusal::Unauthenticated)))),
        "{refused:?}"
    );
    // The client sends no password to another authority's namenode.
    let other = Rig::start(0, |logins| logins);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let password = Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(PASSWORD.to_owned())
    });
    let login = Login { password, ..other.login("alice", "") };
    let refused = Client::connect(ClientOptions::new(rig.at().to_string(), login)).err().unwrap();
    assert_eq!((refused.error, asked.load(Ordering::SeqCst)), (Error::Unauthenticated, 0), "{refused}");
    // Nor to one without logins.
    let plain = Cluster::start(0);
    let login = rig.login("alice", PASSWORD);
    let refused =
        Client::connect(ClientOptions::new(plain.namenode.address().to_string(), login)).err().unwrap();
    assert_eq!(refused.error, Error::Unauthenticated, "{refused}");
}

#[test]
fn a_credential_is_renewed_while_it_may_be_and_the_password_asked_for_again_after() {
    let rig = Rig::start(1, |logins| Logins { credential_ms: 4_000, renewable_ms: 10_000, ..logins });
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let password = Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(PASSWORD.to_owned())
    });
    let login = Login { password, ..rig.login("alice", "") };
    let client = Client::connect(ClientOptions::new(rig.at().to_string(), login)).unwrap();
    let alice = user("alice");
    let mut writer = client
        .create(&alice, "/long", &CreateOptions { replication: 1, ..CreateOptions::default() })
        .unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        writer.write("more ").unwrap();
        writer.sync().unwrap();
        pause("the pace of a writer", Duration::from_millis(20));
    }
    writer.close().unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1, "a few credentials, one login");
    eventually("the password is asked for again", || {
        client.stat(&alice, "/long").unwrap();
        asked.load(Ordering::SeqCst) == 2
    });
}

#[test]
fn an_expired_credential_is_refused_and_its_holder_can_not_renew_it() {
    let rig = Rig::start(0, |logins| Logins { credential_ms: 1_000, ..logins });
    let credential = rig.credential("alice");
    assert!(credential.valid_ms <= 1_000);
    let mut held = by(&credential, rig.at(), Some(rig.tls.clone()));
    held.nn_stat(&caller("alice"), &"/".into()).unwrap();
    let expired = || held.nn_stat(&caller("alice"), &"/".into()).is_err();
    eventually("it expires", expired);
    for _ in 0..2 {
        let refused = held.nn_credential(false);
        assert!(
            matches!(
                refused,
                Err(StubError::Call(CallError::NotExecuted(flexrpc::Refusal::Unauthenticated)))
            ),
            "{refused:?}"
        );
    }
    let refused = signer(&credential.id, &credential.secret, None).handle(rig.at(), Transport::Tcp).err();
    assert!(
        matches!(refused, Some(CallError::NotExecuted(flexrpc::Refusal::Unauthenticated))),
        "{refused:?}"
    );
}

#[test]
fn a_credential_holds_through_a_restart_of_the_namenode() {
    let mut rig = Rig::start(1, |logins| logins);
    let (client, alice) = (rig.client("alice"), user("alice"));
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut writer = client.create(&alice, "/half", &options).unwrap();
    writer.write("before, ").unwrap();
    writer.sync().unwrap();
    rig.restart_namenode();
    client.mkdirs(&alice, "/after", 0o755).unwrap();
    writer.write("after").unwrap();
    writer.close().unwrap();
    assert_eq!(client.open(&alice, "/half").unwrap().read_at(0, 99).unwrap(), "before, after");
}

/// At the namenode this happens at once; at datanodes when the existing tokens expire.
#[test]
fn a_new_password_ends_what_the_old_one_gave() {
    let token_ms = 2_000;
    let rig = Rig::start(1, |logins| Logins { token_ms, ..logins });
    let (client, alice) = (rig.client("alice"), user("alice"));
    put(&client, &alice, "/file", b"some bytes");
    let credential = rig.credential("alice");
    let mut held = by(&credential, rig.at(), Some(rig.tls.clone()));
    let located = held.nn_locate(&caller("alice"), &"/file".into(), 0, 10).unwrap();
    let (chunk, host) = (&located.chunks[0], &located.hosts[0]);
    let (place, identity) = crate::support::place(host);
    let read = || {
        let read = signed_read(chunk, &chunk.token, Identity(identity.0));
        crate::support::datanode(place).dn_read(&read).unwrap().told.refused
    };
    assert_eq!(read(), 0);
    rig.users.set("alice", "another");
    let changed = Instant::now();
    for _ in 0..2 {
        let refused = held.nn_stat(&caller("alice"), &"/".into());
        assert!(
            matches!(
                refused,
                Err(StubError::Call(CallError::NotExecuted(flexrpc::Refusal::Unauthenticated)))
            ),
            "{refused:?}"
        );
    }
    // The library logs in again, and is refused.
    assert_eq!(error(client.stat(&alice, "/file")), Error::Unauthenticated);
    // Earlier access lasts as long as its token.
    assert!(wait_until(Duration::from_millis(token_ms) + Duration::from_secs(5), || read() == TOKEN_EXPIRED));
    assert!(
        changed.elapsed() < Duration::from_millis(token_ms) + Duration::from_secs(3),
        "{:?}",
        changed.elapsed()
    );
    // With the new password the client gets access.
    Client::connect(rig.options("alice", "another")).unwrap().stat(&alice, "/file").unwrap();
}

/// Tokens for the clients' key keep their lifetime.
#[test]
fn only_holders_of_credentials_get_short_tokens() {
    let rig = Rig::start(1, |logins| Logins { token_ms: 60_000, ..logins });
    put(&rig.client("alice"), &user("alice"), "/file", b"some bytes");
    let mut held = by(&rig.credential("alice"), rig.at(), None);
    let of_holder =
        held.nn_locate(&caller("alice"), &"/file".into(), 0, 10).unwrap().chunks[0].token.grant.until_ms;
    let of_key = names(&rig.cluster).nn_locate(&caller("alice"), &"/file".into(), 0, 10).unwrap().chunks[0]
        .token
        .grant
        .until_ms;
    assert!(of_key > of_holder + 5 * 60_000, "{of_holder} {of_key}");
}

/// Forwards bytes, and keeps them.
fn wiretap(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let seen = Arc::<Mutex<Vec<u8>>>::default();
    let kept = seen.clone();
    let keep = move |_, bytes: &[u8]| {
        kept.lock().unwrap().extend_from_slice(bytes);
        true
    };
    (relay(to, keep), seen)
}

#[test]
fn a_change_is_of_unknown_outcome_if_its_answer_is_lost_and_then_the_login_ends() {
    let mut rig = Rig::start(1, |logins| logins);
    let cut = Arc::new(AtomicUsize::new(0));
    let (count, cuts) = (cut.clone(), Arc::new(AtomicBool::new(false)));
    let loses_answers = cuts.clone();
    let at = relay(rig.at(), move |way, _| {
        let passes = way == Way::Call || !loses_answers.load(Ordering::SeqCst);
        count.fetch_add(usize::from(!passes), Ordering::SeqCst);
        passes
    });
    let options = ClientOptions { namenode: at.to_string(), ..rig.options("alice", PASSWORD) };
    let (client, alice) = (Arc::new(Client::connect(options).unwrap()), user("alice"));
    client.stat(&alice, "/").unwrap(); // the connection exists
    cuts.store(true, Ordering::SeqCst);
    let (asks, asked_by) = (client.clone(), alice.clone());
    let asked = std::thread::spawn(move || asks.mkdirs(&asked_by, "/made", 0o755));
    eventually("a connection is cut", || cut.load(Ordering::SeqCst) > 0);
    rig.users.set("alice", "another");
    // The namenode forgets the connection's calls, so it can't repeat the answer.
    rig.restart_namenode();
    cuts.store(false, Ordering::SeqCst);
    assert_eq!(error(asked.join().unwrap()), Error::OutcomeUnknown);
    rig.cluster.client().stat(&superuser(), "/made").unwrap();
    assert_eq!(error(client.mkdirs(&alice, "/never", 0o755)), Error::Unauthenticated);
}

#[test]
fn a_holder_that_the_namenode_knows_gets_no_new_number() {
    let rig = Rig::start(0, |logins| logins);
    let credential = rig.credential("alice");
    let mut held = by(&credential, rig.at(), Some(rig.tls.clone()));
    assert_eq!(held.nn_credential(true).unwrap().client, credential.client);
}

fn holds(seen: &Mutex<Vec<u8>>, what: &[u8]) -> bool {
    seen.lock().unwrap().windows(what.len()).any(|window| window == what)
}

#[test]
fn neither_password_nor_secret_is_on_the_wire() {
    let rig = Rig::start(0, |logins| logins);
    let (tapped, seen) = wiretap(rig.at());
    let options = ClientOptions { namenode: tapped.to_string(), ..rig.options("alice", PASSWORD) };
    let client = Client::connect(options).unwrap();
    client.mkdirs(&user("alice"), "/told", 0o755).unwrap();
    assert!(!seen.lock().unwrap().is_empty());
    for secret in [PASSWORD.as_bytes(), b"alice", b"/told"] {
        assert!(!holds(&seen, secret), "all of it is under TLS");
    }
    // By hand, and by calls without TLS: they don't contain the secret that signs them.
    let credential = rig.credential("alice");
    let mut plain = by(&credential, tapped, None);
    plain.nn_stat(&caller("alice"), &"/".into()).unwrap();
    assert!(holds(&seen, &credential.id), "the tap works");
    assert!(!holds(&seen, &credential.secret) && !holds(&seen, &credential.secret[..8]));
    // Nor can the holder renew the credential that way.
    assert_eq!(refusal(plain.nn_credential(false)), wire::Refusal::RefusedInvalid as u32);
    // Only the holder of a credential can renew it; the clients' key isn't one.
    assert_eq!(refusal(names(&rig.cluster).nn_credential(false)), wire::Refusal::RefusedInvalid as u32);
}
