//! The command uses TLS: it trusts the given authorities, and shows its identity.

mod support;

use std::path::Path;
use strait_testkit::Authority;
use support::{Gateway, fresh};

const UNAUTHENTICATED: i32 = 16;
const INVALID_ARGUMENT: i32 = 17;
const UNAVAILABLE: i32 = 22;

/// A gateway with a certificate of `ca`; it requires one of `clients`, if given.
fn gateway(ca: &Authority, clients: Option<&Authority>) -> Gateway {
    Gateway::start(|dir| {
        let identity = ca.issue(dir).unwrap();
        ca.write(dir).unwrap();
        let shown = |path: &Path| path.display().to_string();
        let data = format!("file://{}", shown(&fresh(dir, "data")));
        let mut flags =
            vec!["--store".to_owned(), data, "--tls-cert".to_owned(), shown(&identity.certificate)];
        flags.extend(["--tls-key".to_owned(), shown(&identity.key)]);
        if let Some(clients) = clients {
            let path = clients.write(&fresh(dir, "clients")).unwrap();
            flags.extend(["--tls-client-ca".to_owned(), shown(&path)]);
        }
        flags
    })
}

#[test]
fn files_go_there_and_back_encrypted() {
    let gateway = gateway(&Authority::new().unwrap(), None);
    let data: Vec<u8> = (0..3_000_000u32).map(|i| (i ^ (i >> 7)) as u8).collect();
    let uri = gateway.uri("/f");
    gateway.run_with(["--tls-ca", "ca.pem", "put", "-", &uri], &data, &[]).ok();
    let back = gateway.run(["--tls-ca", "ca.pem", "cat", &uri]);
    assert!(back.ok().stdout == data);
    gateway.run(["ls", &uri]).ok(); // clear text from this host, on the same port
}

#[test]
fn a_gateway_of_a_strange_authority_is_not_spoken_to() {
    let gateway = gateway(&Authority::new().unwrap(), None);
    let strange = Authority::new().unwrap().write(&fresh(gateway.dir.path(), "strange")).unwrap();
    let strange = strange.display().to_string();
    gateway.run(["--tls-ca", &strange, "ls", &gateway.uri("/")]).fails(UNAUTHENTICATED, "--tls-ca FILE");
    gateway.run(["--tls-ca", "nothing.pem", "ls", &gateway.uri("/")]).fails(17, "nothing.pem");
}

#[test]
fn a_gateway_that_asks_who_is_there_is_shown_a_certificate() {
    let clients = Authority::new().unwrap();
    let gateway = gateway(&Authority::new().unwrap(), Some(&clients));
    let me = clients.issue(&fresh(gateway.dir.path(), "me")).unwrap();
    let (certificate, key) = (me.certificate.display().to_string(), me.key.display().to_string());
    let identity = ["--client-cert", &certificate, "--client-key", &key];
    let uri = gateway.uri("/");
    gateway.run(["--tls-ca", "ca.pem"].into_iter().chain(identity).chain(["ls", &uri])).ok();
    for _ in 0..5 {
        let without = gateway.run(["--tls-ca", "ca.pem", "ls", &uri]);
        without.fails(UNAUTHENTICATED, "wants a client certificate; give one with --client-cert FILE");
        assert!(!without.stderr.contains("can't be reached"), "{}", without.stderr);
    }
    let stranger = Authority::new().unwrap().issue(&fresh(gateway.dir.path(), "stranger")).unwrap();
    let (certificate, key) = (stranger.certificate.display().to_string(), stranger.key.display().to_string());
    let identity = ["--client-cert", &certificate, "--client-key", &key];
    let run = gateway.run(["--tls-ca", "ca.pem"].into_iter().chain(identity).chain(["ls", &uri]));
    run.fails(UNAUTHENTICATED, "doesn't take our client certificate");
    let (mine, strange) = (me.certificate.display().to_string(), stranger.key.display().to_string());
    let mixed =
        gateway.run(["--tls-ca", "ca.pem", "--client-cert", &mine, "--client-key", &strange, "ls", &uri]);
    mixed.fails(INVALID_ARGUMENT, &format!("{strange}: it isn't the key of the certificate in {mine}"));
}

#[test]
fn tls_with_a_gateway_that_has_none_says_so() {
    let gateway = Gateway::over_files();
    let ca = Authority::new().unwrap().write(gateway.dir.path()).unwrap().display().to_string();
    gateway
        .run(["--tls-ca", &ca, "ls", &gateway.uri("/")])
        .fails(UNAVAILABLE, "the gateway serves clear text on this port");
}
