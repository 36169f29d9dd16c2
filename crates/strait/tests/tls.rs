//! The command uses TLS: it trusts the given authorities, and shows its identity.

use crate::support::{Gateway, fresh};
use std::path::Path;
use std::time::Instant;
use strait_testkit::Authority;
use strait_testkit::wait::eventually;

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
    run.fails(UNAUTHENTICATED, "doesn't accept our client certificate");
    let (mine, strange) = (me.certificate.display().to_string(), stranger.key.display().to_string());
    let mixed =
        gateway.run(["--tls-ca", "ca.pem", "--client-cert", &mine, "--client-key", &strange, "ls", &uri]);
    mixed.fails(INVALID_ARGUMENT, &format!("{strange}: it isn't the key of the certificate in {mine}"));
}

/// The same, with a list of revoked certificates of `clients`, whose next one was due yesterday.
fn gateway_with_an_old_list(ca: &Authority, clients: &Authority) -> Gateway {
    Gateway::start(|dir| {
        let identity = ca.issue(dir).unwrap();
        ca.write(dir).unwrap();
        let theirs = fresh(dir, "clients");
        let (path, list) = (clients.write(&theirs).unwrap(), clients.revoke_for(&theirs, &[], -1).unwrap());
        let shown = |path: &Path| path.display().to_string();
        let flags = [
            ("--store", format!("file://{}", shown(&fresh(dir, "data")))),
            ("--tls-cert", shown(&identity.certificate)),
            ("--tls-key", shown(&identity.key)),
            ("--tls-client-ca", shown(&path)),
            ("--tls-client-crl", shown(&list)),
        ];
        flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    })
}

#[test]
fn an_expired_revocation_list_is_warned_of_at_the_start_and_when_it_is_read_anew() {
    let (ca, clients) = (Authority::new().unwrap(), Authority::new().unwrap());
    let gateway = gateway_with_an_old_list(&ca, &clients);
    let warnings = || gateway.process.log_tail().matches("a list in --tls-client-crl EXPIRED at").count();
    eventually("it warns at the start", || warnings() == 1);
    let theirs = gateway.dir.path().join("clients");
    clients.revoke_for(&theirs, &[], 30).unwrap();
    eventually("the list is read", || gateway.process.log_tail().contains("reread"));
    clients.revoke_for(&theirs, &[], -2).unwrap();
    eventually("it warns of the new list", || warnings() == 2);
}

#[test]
fn refused_client_certificates_are_logged_but_do_not_fill_the_log() {
    let clients = Authority::new().unwrap();
    let gateway = gateway(&Authority::new().unwrap(), Some(&clients));
    let stranger = Authority::new().unwrap().issue(&fresh(gateway.dir.path(), "stranger")).unwrap();
    let (certificate, key) = (stranger.certificate.display().to_string(), stranger.key.display().to_string());
    let uri = gateway.uri("/");
    let args = ["--tls-ca", "ca.pem", "--client-cert", &certificate, "--client-key", &key, "ls", &uri];
    let began = Instant::now();
    for _ in 0..30 {
        gateway.run(args).fails(UNAUTHENTICATED, "client certificate");
    }
    let log = std::fs::read_to_string(gateway.process.log()).unwrap();
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("a client's certificate was refused")).collect();
    let most = 10 * (began.elapsed().as_secs() as usize + 1); // ten a second
    assert!(!told.is_empty() && told.len() <= most, "{log}");
    for part in ["WARN", "peer=127.0.0.1:", "why=", "invalid peer certificate"] {
        assert!(told[0].contains(part), "{part}: {}", told[0]);
    }
}

#[test]
fn tls_with_a_gateway_that_has_none_says_so() {
    let gateway = Gateway::over_files();
    let ca = Authority::new().unwrap().write(gateway.dir.path()).unwrap().display().to_string();
    gateway
        .run(["--tls-ca", &ca, "ls", &gateway.uri("/")])
        .fails(UNAVAILABLE, "the gateway serves clear text on this port");
}
