//! TLS on the same port as clear text; certificates that change while serving.

mod common;
use common::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_gateway::{Tls, TlsFiles};
use strait_wire::*;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate for localhost, and its key.
fn issue(ca: &Issuer, dir: &Path) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, ca).unwrap();
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    std::fs::set_permissions(dir.join("key.pem"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(dir.join("cert.pem"), certificate.pem()).unwrap();
}

fn files(dir: &Path) -> TlsFiles {
    TlsFiles { certificate: dir.join("cert.pem"), key: dir.join("key.pem"), client_ca: None }
}

/// One call over TLS, trusting `ca`; none if the handshake or the call fails.
fn info(address: SocketAddr, ca: &Issuer, identity: Option<&Issuer>) -> Option<ServerInfoReply> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(issuer) => {
            let key = KeyPair::generate().unwrap();
            let certificate =
                CertificateParams::new(vec!["client".into()]).unwrap().signed_by(&key, issuer).unwrap();
            let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
            config.with_client_auth_cert(chain, PrivateKeyDer::Pkcs8(key.serialize_der().into())).unwrap()
        }
    };
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    stream.write_all(&methods::ServerInfo::call(FRAMED, 1, &ServerInfoRequest {}.into()).to_bytes()).ok()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut message).ok()?;
    match methods::ServerInfo::decode_reply(Protocol::Binary, message.into()).unwrap().1 {
        Reply::Success(reply) => Some(reply),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tls_and_clear_text_are_served_on_one_port() {
    let (dir, ca) = (tempfile::tempdir().unwrap(), authority());
    issue(&ca, dir.path());
    let served = serve_with(|config| config.tls = Some(Arc::new(Tls::load(files(dir.path())).unwrap())));
    assert!(info(served.address, &ca, None).is_some());
    served.session().v2::<methods::ServerInfo>(ServerInfoRequest {}).unwrap();
    assert!(info(served.address, &authority(), None).is_none(), "a stranger's certificate isn't trusted");
}

#[test]
fn a_new_certificate_is_taken_up_while_serving_and_a_bad_one_is_not() {
    let (dir, old, new) = (tempfile::tempdir().unwrap(), authority(), authority());
    issue(&old, dir.path());
    let served = serve_with(|config| {
        config.tls = Some(Arc::new(Tls::load(files(dir.path())).unwrap()));
        config.limits.session_linger = Duration::from_millis(50); // looks at the files as often
    });
    assert!(info(served.address, &old, None).is_some());
    std::fs::write(dir.path().join("cert.pem"), "no certificate").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(info(served.address, &old, None).is_some(), "the old one stays in force");
    issue(&new, dir.path());
    let deadline = Instant::now() + Duration::from_secs(10);
    while info(served.address, &new, None).is_none() {
        assert!(Instant::now() < deadline, "the new certificate isn't taken up");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn where_client_certificates_are_asked_for_only_their_owners_get_in() {
    let (dir, ca, clients) = (tempfile::tempdir().unwrap(), authority(), authority());
    issue(&ca, dir.path());
    let client_ca = dir.path().join("clients.pem");
    std::fs::write(&client_ca, clients.pem()).unwrap();
    let files = TlsFiles { client_ca: Some(client_ca), ..files(dir.path()) };
    let served = serve_with(|config| config.tls = Some(Arc::new(Tls::load(files).unwrap())));
    assert!(info(served.address, &ca, Some(&clients)).is_some());
    assert!(info(served.address, &ca, None).is_none());
    assert!(info(served.address, &ca, Some(&authority())).is_none());
}

#[test]
fn files_that_are_no_good_are_named() {
    let (dir, ca) = (tempfile::tempdir().unwrap(), authority());
    issue(&ca, dir.path());
    let key = dir.path().join("key.pem");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let problem = Tls::load(files(dir.path())).err().unwrap();
    assert!(problem.contains("chmod 600"), "{problem}");
    std::fs::remove_file(&key).unwrap();
    let problem = Tls::load(files(dir.path())).err().unwrap();
    assert!(problem.contains("key.pem"), "{problem}");
}
