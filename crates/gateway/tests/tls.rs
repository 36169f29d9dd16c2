//! TLS on the same port as clear text; certificates that change while serving.

use crate::common::gated::Gated;
use crate::common::*;
use rustix::fs::{CWD, FileType, OFlags, mknodat};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use strait_gateway::{Access, PasswordFile, Tls, TlsFiles};
use strait_store::{MemoryStore, Principal};
use strait_testkit::sockets::is_all_read;
use strait_testkit::wait::{eventually, obtained, stays};
use strait_testkit::{Authority, Identity, Network};
use strait_wire::*;
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

fn files(identity: &Identity) -> TlsFiles {
    TlsFiles {
        certificate: identity.certificate.clone(),
        key: identity.key.clone(),
        client_ca: None,
        client_crl: None,
    }
}

fn load(identity: &Identity) -> Option<Arc<Tls>> {
    Some(Arc::new(Tls::load(files(identity)).unwrap()))
}

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// One call over TLS, trusting `ca`; none if the handshake or the call fails.
fn info(address: SocketAddr, ca: &Authority, identity: Option<&Identity>) -> Option<ServerInfoReply> {
    ask(&mut connect(address, ca, identity))
}

fn connect(address: SocketAddr, ca: &Authority, identity: Option<&Identity>) -> Encrypted {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let chain = vec![CertificateDer::from_pem_file(&identity.certificate).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&identity.key).unwrap()).unwrap()
        }
    };
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    StreamOwned::new(connection, socket)
}

fn ask(stream: &mut Encrypted) -> Option<ServerInfoReply> {
    stream
        .write_all(&methods::ServerInfo::call(FRAMED, 1, &ServerInfoRequest::default().into()).to_bytes())
        .ok()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut message).ok()?;
    match methods::ServerInfo::decode_reply(Protocol::Binary, message.into()).unwrap().1 {
        Reply::Success(reply) => Some(reply),
        other => panic!("{other:?}"),
    }
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn tls_and_clear_text_are_served_on_one_port() {
    let (dir, ca) = (directory(), Authority::new().unwrap());
    let identity = ca.issue(dir.path()).unwrap();
    let served = serve_with(|config| config.tls = load(&identity));
    assert!(info(served.address, &ca, None).is_some());
    served.session().v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap();
    let stranger = Authority::new().unwrap();
    assert!(info(served.address, &stranger, None).is_none(), "a stranger's certificate isn't trusted");
}

/// Each of them sends the first byte of a handshake, and no more.
#[test]
fn clients_that_stall_in_their_handshakes_keep_nobody_from_tls() {
    let (dir, ca) = (directory(), Authority::new().unwrap());
    let identity = ca.issue(dir.path()).unwrap();
    let served = serve_with(|config| config.tls = load(&identity));
    let stalled: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    for mut stream in &stalled {
        stream.write_all(&[0x16]).unwrap();
    }
    eventually("the gateway has read the bytes", || stalled.iter().all(is_all_read));
    assert!(info(served.address, &ca, None).is_some(), "a whole handshake passes those that stall");
}

#[test]
fn a_connection_by_tls_takes_one_descriptor() {
    let (dir, ca) = (directory(), Authority::new().unwrap());
    let identity = ca.issue(dir.path()).unwrap();
    let served = serve_with(|config| config.tls = load(&identity));
    let mut open: Vec<Encrypted> = (0..5).map(|_| connect(served.address, &ca, None)).collect();
    assert!(open.iter_mut().all(|stream| ask(stream).is_some()));
    assert_eq!(descriptors_at(served.address.port()), open.len());
}

/// Descriptors of this process for connections whose own end has this port.
fn descriptors_at(port: u16) -> usize {
    const ESTABLISHED: &str = "01";
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let own_end = format!(":{port:04X}");
    let sockets: Vec<String> = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields[1].ends_with(&own_end) && fields[3] == ESTABLISHED)
        .map(|fields| format!("socket:[{}]", fields[9]))
        .collect();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
    open.filter(|open| sockets.iter().any(|socket| open.as_os_str() == socket.as_str())).count()
}

#[test]
fn a_new_certificate_is_taken_up_while_serving_and_a_bad_one_is_not() {
    let (dir, old, new) = (directory(), Authority::new().unwrap(), Authority::new().unwrap());
    let identity = old.issue(dir.path()).unwrap();
    let served = serve_with(|config| {
        config.tls = load(&identity);
        config.limits.session_linger = Duration::from_millis(50); // also the period of checks of the files
    });
    assert!(info(served.address, &old, None).is_some());
    std::fs::write(&identity.certificate, "no certificate").unwrap();
    let is_in_force = || info(served.address, &old, None).is_some();
    stays("the old one is in force", Duration::from_millis(300), is_in_force);
    new.issue(dir.path()).unwrap();
    eventually("the new certificate is taken up", || info(served.address, &new, None).is_some());
}

/// Puts a pipe in the place of a file. Opening it hangs until somebody opens the other end.
fn replace_by_pipe(path: &Path) {
    std::fs::remove_file(path).unwrap();
    mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap();
}

/// The writing end of a pipe, once `reader` has opened the reading end. None if `reader` ends without
/// opening it.
fn end_of_pipe<T>(path: &Path, reader: &ScopedJoinHandle<'_, T>) -> Option<File> {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    obtained("the reader at the pipe", || {
        match File::options().write(true).custom_flags(nonblocking).open(path) {
            Ok(end) => Some(Some(end)),
            Err(_) => reader.is_finished().then_some(None),
        }
    })
}

/// Certificate and key are two files, so a reader may find one of them new and the other old.
#[test]
fn files_that_change_while_others_are_read_are_read_again() {
    let (dir, old, new) = (directory(), Authority::new().unwrap(), Authority::new().unwrap());
    let identity = old.issue(dir.path()).unwrap();
    let clients = old.write(dir.path()).unwrap();
    let tls = Tls::load(TlsFiles { client_ca: Some(clients.clone()), ..files(&identity) }).unwrap();
    replace_by_pipe(&clients);
    std::thread::scope(|threads| {
        let reload = threads.spawn(|| tls.reload_if_changed());
        // By now it has read certificate and key.
        let mut end = end_of_pipe(&clients, &reload).unwrap();
        new.issue(dir.path()).unwrap();
        end.write_all(b"no certificate").unwrap();
        drop(end);
        reload.join().unwrap().unwrap_err();
        let again = threads.spawn(|| tls.reload_if_changed());
        let end = end_of_pipe(&clients, &again);
        let _ = end.map(|mut end| end.write_all(old.pem().as_bytes()));
        assert_eq!(again.join().unwrap(), Ok(true));
    });
}

/// As with files on a network's file system whose server is away.
#[test]
fn files_that_hang_take_up_no_threads_and_keep_no_session() {
    let (dir, ca) = (directory(), Authority::new().unwrap());
    let identity = ca.issue(dir.path()).unwrap();
    let users = dir.path().join("passwords");
    PasswordFile::set(&users, "tester", "secret").unwrap();
    let (store, gate) = Gated::new();
    let served = serve_with_threads(8, store, |config| {
        config.tls = load(&identity);
        let passwords = Some(PasswordFile::load(&users).unwrap());
        config.access = Access { passwords, anonymous: Some(Principal::new("tester")), ..Access::default() };
        config.limits.session_linger = Duration::from_millis(50); // also the period of checks of the files
    });
    replace_by_pipe(&identity.certificate);
    // A session ends at a check, so there are more checks than threads.
    for n in 0..10 {
        create(&mut served.session(), &format!("/{n}"));
        eventually("the session ends", || gate.writers() == 0);
    }
    let mut client = served.client();
    let (user, password) = (Some("tester".into()), Some(Secret("secret".into())));
    let login = OpenSessionRequest { user, password, ..Default::default() };
    client.v2::<methods::OpenSession>(login).unwrap();
    create(&mut client, "/f");
    assert_eq!(gate.writers(), 1);
    drop(client);
    eventually("the session ends", || gate.writers() == 0);
}

#[test]
fn where_client_certificates_are_asked_for_only_their_owners_get_in() {
    let (dir, client_dir, stranger_dir) = (directory(), directory(), directory());
    let (ca, clients, strangers) =
        (Authority::new().unwrap(), Authority::new().unwrap(), Authority::new().unwrap());
    let identity = ca.issue(dir.path()).unwrap();
    let client = clients.issue(client_dir.path()).unwrap();
    let stranger = strangers.issue(stranger_dir.path()).unwrap();
    let files = TlsFiles { client_ca: Some(clients.write(client_dir.path()).unwrap()), ..files(&identity) };
    let served = serve_with(|config| config.tls = Some(Arc::new(Tls::load(files).unwrap())));
    assert!(info(served.address, &ca, Some(&client)).is_some());
    assert!(info(served.address, &ca, None).is_none());
    assert!(info(served.address, &ca, Some(&stranger)).is_none());
}

/// Whether clear text gets an answer, rather than a closed connection.
fn is_served_in_clear_text(address: SocketAddr) -> bool {
    let mut client = Client::connect(address, FRAMED);
    client.send::<methods::ServerInfo>(&ServerInfoRequest::default().into());
    client.message().is_some()
}

#[test]
fn beyond_loopback_neither_clear_text_beside_tls_nor_a_password_in_it_is_accepted() {
    if !rustix::process::geteuid().is_root() {
        return strait_testkit::skip("clear text beyond loopback", "root");
    }
    let network = Network::start(1, None).unwrap();
    let host = network.host(0);
    host.run(|| refuses_clear_text_at(host.address().into()));
}

fn refuses_clear_text_at(outer: IpAddr) {
    let (dir, ca) = (directory(), Authority::new().unwrap());
    let identity = ca.issue(dir.path()).unwrap();
    let served =
        serve_at(outer, 4, Arc::new(MemoryStore::new("tester")), |config| config.tls = load(&identity));
    assert!(!is_served_in_clear_text(served.address));
    assert!(info(served.address, &ca, None).is_some());

    let users = dir.path().join("passwords");
    PasswordFile::set(&users, "tester", "secret").unwrap();
    let passwords = Some(PasswordFile::load(&users).unwrap());
    let served = serve_at(outer, 4, Arc::new(MemoryStore::new("tester")), |config| {
        config.access = Access { passwords, ..Access::default() };
    });
    let login = OpenSessionRequest {
        user: Some("tester".into()),
        password: Some(Secret("secret".into())),
        ..Default::default()
    };
    let error = served.client().v2::<methods::OpenSession>(login).unwrap_err();
    assert!(error.message.unwrap().contains("over TLS or loopback only"));
    let mut old = served.client_on(UNFRAMED);
    let Reply::Success(ch) = old.call::<methods::Init>(InitArgs { uri: None }) else { panic!("no client") };
    let (user, password) = (Some("tester".into()), Some(Secret("secret".into())));
    let login = LoginArgs { ch: Some(ch), user, password };
    assert!(matches!(old.call::<methods::Login>(login), Reply::Success(false)));
    let body = r#"{"user":"tester","password":"secret"}"#;
    let head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    http::typed(&http::raw(&served, request.as_bytes()), 401, "Unauthenticated");
}

#[test]
fn clear_text_over_loopback_does_not_get_round_client_certificates() {
    let (dir, ca) = (directory(), Authority::new().unwrap());
    let identity = ca.issue(dir.path()).unwrap();
    let open = serve_with(|config| config.tls = load(&identity));
    assert!(is_served_in_clear_text(open.address), "where no certificate is asked for it may");
    let files = TlsFiles { client_ca: Some(ca.write(dir.path()).unwrap()), ..files(&identity) };
    let served = serve_with(|config| config.tls = Some(Arc::new(Tls::load(files).unwrap())));
    assert!(!is_served_in_clear_text(served.address));
}

#[test]
fn a_revoked_certificate_is_refused_and_its_open_connections_are_cut() {
    let (dir, alice_dir, bob_dir) = (directory(), directory(), directory());
    let (ca, clients) = (Authority::new().unwrap(), Authority::new().unwrap());
    let identity = ca.issue(dir.path()).unwrap();
    let (alice, bob) = (clients.issue(alice_dir.path()).unwrap(), clients.issue(bob_dir.path()).unwrap());
    let files = TlsFiles {
        client_ca: Some(clients.write(alice_dir.path()).unwrap()),
        client_crl: Some(clients.revoke(dir.path(), &[]).unwrap()),
        ..files(&identity)
    };
    let served = serve_with(|config| {
        config.tls = Some(Arc::new(Tls::load(files).unwrap()));
        config.limits.session_linger = Duration::from_millis(50); // also the period of checks of the files
    });
    let mut open = connect(served.address, &ca, Some(&alice));
    assert!(ask(&mut open).is_some());
    clients.revoke(dir.path(), &[&alice]).unwrap();
    assert_eq!(open.read(&mut [0]).ok().filter(|read| *read > 0), None, "it is cut");
    assert!(info(served.address, &ca, Some(&alice)).is_none());
    assert!(info(served.address, &ca, Some(&bob)).is_some());
}

#[test]
fn the_certificates_names_and_end_are_known() {
    let dir = directory();
    let identity = Authority::new().unwrap().issue_for(dir.path(), 9).unwrap();
    let facts = Tls::load(files(&identity)).unwrap().certificate();
    assert_eq!(facts.names, ["localhost", "127.0.0.1"]);
    let days = facts.expires.duration_since(std::time::SystemTime::now()).unwrap().as_secs() / 86_400;
    assert_eq!(days, 8, "and some hours");
}

#[test]
fn files_that_are_no_good_are_named() {
    let dir = directory();
    let identity = Authority::new().unwrap().issue(dir.path()).unwrap();
    std::fs::set_permissions(&identity.key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let problem = Tls::load(files(&identity)).err().unwrap();
    assert!(problem.contains("chmod 600"), "{problem}");
    std::fs::remove_file(&identity.key).unwrap();
    let problem = Tls::load(files(&identity)).err().unwrap();
    assert!(problem.contains("key.pem"), "{problem}");
}
