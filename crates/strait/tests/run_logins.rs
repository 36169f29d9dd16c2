//! Logins of `strait run`: lent to the hosts for the time of the run, and nowhere to be seen.

use crate::support::fleet::fleet;
use crate::support::{self, Gateway, Run, command, fresh};
use std::fs;
use std::path::Path;
use strait_client::{Options, Secret, StraitStore};
use strait_store::{ErrorKind, FileSystem, Principal, StorePath};
use strait_testkit::Authority;

const USAGE: i32 = 2;
const PASSWORD: [(&str, &str); 1] = [("STRAIT_PASSWORD", "pw-7f3a")];

/// The flags of a gateway over a directory, with the user alice.
fn with_alice(dir: &Path) -> Vec<String> {
    let mut passwd = command(dir);
    passwd.args(["passwd", "--file", "passwords", "alice"]);
    Run::of(passwd, b"pw-7f3a\n").ok();
    let data = format!("file://{}", fresh(dir, "data").display());
    ["--store", &data, "--passwords", &dir.join("passwords").display().to_string()]
        .map(str::to_owned)
        .to_vec()
}

/// A gateway with the user alice and one file; its URI.
fn with_file() -> (Gateway, String) {
    let gateway = Gateway::start(with_alice);
    fs::write(gateway.data().join("file"), "content\n").unwrap();
    let uri = gateway.uri("/file");
    (gateway, uri)
}

fn run(gateway: &Gateway, hosts: &[&str], more: &[&str]) -> Run {
    let by_fleet = fleet(gateway.dir.path(), hosts, "unset STRAIT_USER");
    let words = by_fleet.iter().map(String::as_str).chain(["--user", "alice"]).chain(more.iter().copied());
    gateway.run_with(words, b"", &PASSWORD)
}

/// The token that a command found in what its helper lent.
fn token_in(file: &Path) -> Secret {
    let text = fs::read_to_string(file).unwrap();
    let start = text.find("s2.").unwrap();
    Secret(text[start..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.').collect())
}

/// The fate of a client with this token.
async fn by_token(gateway: &Gateway, token: Secret) -> Result<u64, ErrorKind> {
    let options = Options { token: Some(token), ..Options::default() };
    let store = StraitStore::connect(&gateway.address, options).await.map_err(|error| error.kind())?;
    let status = store.stat(&Principal::new("anybody"), &StorePath::parse("/file").unwrap()).await;
    status.map(|status| status.length).map_err(|error| error.kind())
}

#[test]
fn hosts_read_by_a_lent_login_that_nobody_sees() {
    let (gateway, uri) = with_file();
    let look = "cat; tr '\\0' '\\n' </proc/$PPID/cmdline; tr '\\0' '\\n' </proc/$PPID/environ; env; \
                find \"$HOME\" -type f -exec cat {} +";
    // A command's own arguments are no place for {}, so a shell gets it by another way.
    fs::write(gateway.dir.path().join("look.sh"), look).unwrap();
    let script = gateway.dir.path().join("look.sh").display().to_string();
    let seen = run(&gateway, &["a"], &[&uri, "--", "sh", &script]);
    let text = seen.text();
    assert!(text.starts_with("content\n"), "{text}");
    for secret in ["s2.", "pw-7f3a", "STRAIT_LOGINS_FD"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let log = gateway.process.log_tail();
    assert!(!log.contains("s2."), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lent_login_is_over_with_the_run_and_the_users_own_goes_on() {
    let (gateway, uri) = with_file();
    let kept = gateway.dir.path().join("kept");
    let keep = format!("cat /proc/self/fd/$STRAIT_LOGINS_FD >{}; cat", kept.display());
    run(&gateway, &["a"], &["--lend-to-commands", &uri, "--", "sh", "-c", &keep]).ok();
    assert_eq!(by_token(&gateway, token_in(&kept)).await, Err(ErrorKind::Unauthenticated));
    // By the kept login of the command line, without a password.
    gateway.run(["--user", "alice", "ls", &uri]).ok();

    // Also if Ctrl-C ends it.
    let stuck = format!(
        "cat /proc/self/fd/$STRAIT_LOGINS_FD >{0}.new; mv {0}.new {0}; kill -INT $STRAIT; sleep 100",
        kept.display()
    );
    fs::remove_file(&kept).unwrap();
    let by_fleet = fleet(gateway.dir.path(), &["a"], "export STRAIT=$PPID");
    let words = by_fleet.iter().map(String::as_str);
    let more = ["--user", "alice", "--lend-to-commands", &uri, "--", "sh", "-c", &stuck];
    let ended = gateway.run_with(words.chain(more), b"", &PASSWORD);
    assert_eq!(ended.code, 128 + 2, "{}", ended.stderr);
    assert_eq!(by_token(&gateway, token_in(&kept)).await, Err(ErrorKind::Unauthenticated));
}

#[test]
fn commands_use_the_login_if_the_user_says_so() {
    let (gateway, uri) = with_file();
    let strait = support::binary().display().to_string();
    let target = gateway.uri("/result");
    let put = format!("wc -c | {strait} put -f - {target}");
    let command = ["sh", "-c", &put];
    let refused = run(&gateway, &["a"], &[&[&*uri, "--"][..], &command].concat());
    assert!(refused.code > 0 && refused.stderr.contains("requires a login"), "{}", refused.stderr);
    run(&gateway, &["a"], &[&["--lend-to-commands", &*uri, "--"][..], &command].concat()).ok();
    assert_eq!(fs::read_to_string(gateway.data().join("result")).unwrap().trim(), "8");
}

#[test]
fn hosts_that_only_a_store_names_get_no_login_unless_the_user_says_so() {
    let (gateway, uri) = with_file();
    let located = gateway.run_with(["--user", "alice", "locate", &uri], b"", &PASSWORD);
    let host = located.text().trim_end().rsplit('\t').next().unwrap().to_owned();
    let refusal = format!("(one is {host}); choose hosts with --lend-to");
    run(&gateway, &[], &[&uri, "--", "cat"]).fails(USAGE, &refusal);
    assert_eq!(run(&gateway, &[], &["--lend-to", "*", &uri, "--", "cat"]).text(), "content\n");
    assert_eq!(
        run(&gateway, &[], &["--lend-to", "x", "--lend-to", &host, &uri, "--", "cat"]).text(),
        "content\n"
    );
    run(&gateway, &[], &["--lend-to", "x*", &uri, "--", "cat"]).fails(USAGE, "may get");
}

#[test]
fn hosts_get_the_certificates_to_trust_too() {
    let gateway = Gateway::start(|dir| {
        let authority = Authority::new().unwrap();
        authority.write(dir).unwrap();
        let identity = authority.issue(dir).unwrap();
        let files = [identity.certificate, identity.key].map(|path| path.display().to_string());
        let tls = ["--tls-cert", &files[0], "--tls-key", &files[1]].map(str::to_owned);
        [with_alice(dir), tls.to_vec()].concat()
    });
    fs::write(gateway.data().join("file"), "content\n").unwrap();
    let ca = fs::read_dir(gateway.dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let ca = ca.into_iter().find(|path| path.file_name().is_some_and(|name| name == "ca.pem")).unwrap();
    // The hosts lack the file.
    let hide = format!("mv {0} {0}.away", ca.display());
    let by_fleet = fleet(gateway.dir.path(), &["a"], &hide);
    let words = by_fleet.iter().map(String::as_str);
    let uri = gateway.uri("/file");
    let more = ["--user", "alice", "--tls-ca", ca.to_str().unwrap(), &uri, "--", "cat"];
    let ran = gateway.run_with(words.chain(more), b"", &PASSWORD);
    assert!(ran.code == 0 && ran.stdout == b"content\n", "{}", ran.stderr);
}
