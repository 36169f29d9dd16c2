//! Logins for users and operators: the clients that need one, the sources of passwords, the rights
//! after a login to a fresh cluster, and files that are read again while serving.

use crate::support::up::{Up, role, run};
use crate::support::{Gateway, Run, binary, command, fresh};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use strait_testkit::wait::eventually;
use strait_testkit::{Authority, Process, free_port};

const PERMISSION_DENIED: i32 = 15;
const UNAUTHENTICATED: i32 = 16;
const INVALID_ARGUMENT: i32 = 17;

/// A user that no test runs as.
const SOMEBODY_ELSE: u32 = 54_321;
/// The kernel's number for all users without one in a namespace; often the account `nobody` too.
const OVERFLOW_USER: u32 = 65_534;

fn passwd(dir: &Path, user: &str, password: &str) {
    run(dir, ["passwd", "--file", "passwords", user], format!("{password}\n").as_bytes()).ok();
}

fn with_alice(dir: &Path) -> Vec<String> {
    passwd(dir, "alice", "right");
    let data = format!("file://{}", fresh(dir, "data").display());
    ["--store", &data, "--passwords", &dir.join("passwords").display().to_string()]
        .map(str::to_owned)
        .to_vec()
}

fn secret_file(dir: &Path, name: &str, password: &str, mode: u32) {
    std::fs::write(dir.join(name), format!("{password}\n")).unwrap();
    std::fs::set_permissions(dir.join(name), PermissionsExt::from_mode(mode)).unwrap();
}

/// Runs a command as another local user.
fn as_somebody_else(args: &[&str]) -> Run {
    as_user(SOMEBODY_ELSE, args)
}

fn as_user(user: u32, args: &[&str]) -> Run {
    assert!(rustix::process::geteuid().is_root(), "only root can be somebody else: run this as root");
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let mut strait = command(home.path());
    strait.args(args).uid(user);
    Run::of(strait, b"")
}

#[test]
fn over_loopback_only_the_users_own_programs_need_no_login() {
    let gateway = Gateway::over_files();
    let root = gateway.uri("/");
    gateway.run(["ls", &root]).ok();
    let refused = as_somebody_else(&["ls", &root]);
    refused.fails(UNAUTHENTICATED, "user id 54321");
    as_user(OVERFLOW_USER, &["ls", &root])
        .fails(UNAUTHENTICATED, "user id 65534, which also stands for users of other namespaces");
    assert!(refused.stderr.contains("--allow-anonymous"), "{}", refused.stderr);
    eventually("a warning", || gateway.process.log_tail().contains("this gateway runs as root"));
}

#[test]
fn anybody_is_let_in_where_the_operator_says_so_and_is_warned() {
    let gateway = Gateway::start(|dir| {
        let data = format!("file://{}", fresh(dir, "data").display());
        ["--allow-anonymous", "--store", &data].map(str::to_owned).to_vec()
    });
    as_somebody_else(&["ls", &gateway.uri("/")]).ok();
    eventually("a warning", || gateway.process.log_tail().contains("WARN --allow-anonymous: every program"));
}

#[test]
fn a_wrong_password_is_refused_although_a_good_token_is_kept() {
    let gateway = Gateway::start(with_alice);
    let root = gateway.uri("/");
    let ls = ["--user", "alice", "ls", root.as_str()];
    gateway.run_with(ls, b"", &[("STRAIT_PASSWORD", "right")]).ok();
    gateway.run(ls).ok(); // by the token
    gateway
        .run_with(ls, b"", &[("STRAIT_PASSWORD", "wrong")])
        .fails(UNAUTHENTICATED, "wrong user or password");
    gateway.run(ls).ok(); // no wrong password was given
    secret_file(gateway.dir.path(), "wrong", "wrong", 0o600);
    let by_file = ["--user", "alice", "--password-file", "wrong", "ls", root.as_str()];
    gateway.run(by_file).fails(UNAUTHENTICATED, "wrong user or password");
}

#[test]
fn a_password_file_on_the_command_line_comes_before_the_environment() {
    let gateway = Gateway::start(with_alice);
    let root = gateway.uri("/");
    secret_file(gateway.dir.path(), "right", "right", 0o600);
    let ls = ["--user", "alice", "ls", root.as_str()];
    let explicit = ["--user", "alice", "--password-file", "right", "ls", root.as_str()];
    gateway.run_with(explicit, b"", &[("STRAIT_PASSWORD", "wrong")]).ok();
    let both = [("STRAIT_PASSWORD", "wrong"), ("STRAIT_PASSWORD_FILE", "right")];
    gateway.run_with(ls, b"", &both).fails(UNAUTHENTICATED, "wrong user or password");
}

#[test]
fn a_password_file_that_others_may_read_is_warned_of() {
    let gateway = Gateway::start(with_alice);
    secret_file(gateway.dir.path(), "open", "right", 0o644);
    let flags = ["--user", "alice", "--password-file", "open"];
    let warning = "password file open: others can read or change it; run `chmod 600 open`";
    let open = gateway.run(flags.into_iter().chain(["ls", &gateway.uri("/")]));
    assert_eq!((open.code, open.stderr), (0, format!("strait: {warning}\n")));
    let (from, to) = (gateway.uri("/a"), gateway.uri("/b"));
    std::fs::write(gateway.data().join("a"), "").unwrap();
    let moved = gateway.run(flags.into_iter().chain(["mv", &from, &to]));
    assert_eq!((moved.code, moved.stderr), (0, format!("strait: {warning}\n")), "once");
    let json = gateway.run(["--json"].into_iter().chain(flags).chain(["ls", &gateway.uri("/")]));
    assert_eq!((json.code, json.stderr), (0, format!("{{\"warning\":\"{warning}\"}}\n")));
}

#[test]
fn a_kept_login_that_ended_is_told_from_a_missing_one() {
    let gateway = Gateway::start(with_alice);
    let root = gateway.uri("/");
    let ls = ["--user", "alice", "ls", root.as_str()];
    gateway.run(ls).fails(UNAUTHENTICATED, ": no password for alice");
    gateway.run_with(ls, b"", &[("STRAIT_PASSWORD", "right")]).ok();
    passwd(gateway.dir.path(), "alice", "another");
    gateway.process.signal(Signal::HUP);
    eventually("the login's end", || gateway.run(ls).code != 0);
    gateway.run(ls).fails(UNAUTHENTICATED, "the kept login has ended");
}

#[test]
fn an_empty_new_password_tells_its_sources() {
    let dir = tempfile::tempdir().unwrap();
    let mut passwd = command(dir.path());
    passwd.args(["passwd", "--file", "passwords", "bob"]).env("STRAIT_PASSWORD", "x");
    Run::of(passwd, b"").fails(INVALID_ARGUMENT, "standard input is empty");
}

#[test]
fn copies_keep_the_narrower_of_the_sources_mode_and_the_umask() {
    let gateway = Gateway::over_files();
    let dir = gateway.dir.path();
    let with_umask = |umask: &str, args: &[&str]| {
        let mut shell = Command::new("sh");
        let script = format!("umask {umask}; exec {} \"$@\"", binary().display());
        shell.args(["-c", &script, "sh"]).args(args).env("HOME", dir).current_dir(dir);
        Run::of(shell, b"").ok();
    };
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    std::fs::create_dir(dir.join("tree")).unwrap();
    for (umask, source, copy) in
        [("022", 0o600, 0o600), ("022", 0o666, 0o644), ("077", 0o755, 0o700), ("002", 0o4755, 0o755)]
    {
        let name = format!("tree/{umask}-{source:o}");
        std::fs::write(dir.join(&name), "x").unwrap();
        std::fs::set_permissions(dir.join(&name), PermissionsExt::from_mode(source)).unwrap();
        with_umask(umask, &["put", "-f", &name, &gateway.uri("/f")]);
        assert_eq!(mode(&gateway.data().join("f")), copy, "put of {source:o}, umask {umask}");
        std::fs::set_permissions(gateway.data().join("f"), PermissionsExt::from_mode(source)).unwrap();
        with_umask(umask, &["get", "-f", &gateway.uri("/f"), "back"]);
        assert_eq!(mode(&dir.join("back")), copy, "get of {source:o}, umask {umask}");
    }
    std::fs::set_permissions(dir.join("tree"), PermissionsExt::from_mode(0o750)).unwrap();
    with_umask("022", &["put", "tree", &gateway.uri("/tree")]);
    assert_eq!(mode(&gateway.data().join("tree")), 0o750);
    with_umask("027", &["get", &gateway.uri("/tree"), "tree-back"]);
    assert_eq!(mode(&dir.join("tree-back")), 0o750);
}

/// `strait up` with these users, whose passwords are their names.
fn up_with(users: &[&str], flags: &[&str]) -> (Up, tempfile::TempDir) {
    let secrets = tempfile::tempdir().unwrap();
    for user in users {
        passwd(secrets.path(), user, user);
    }
    let file = secrets.path().join("passwords").display().to_string();
    (Up::with(&[&["--passwords", file.as_str()][..], flags].concat()), secrets)
}

fn by(up: &Up, user: &str, args: &[&str]) -> Run {
    let mut strait = command(up.dir.path());
    strait.args(["--user", user]).args(args).env("STRAIT_PASSWORD", user);
    Run::of(strait, b"content")
}

#[test]
fn in_a_fresh_cluster_each_user_finds_a_home_and_all_share_tmp() {
    let (mut up, _secrets) = up_with(&["alice", "bob", "root2"], &["--admin", "root2"]);
    let uri = |path: &str| up.uri(path);
    by(&up, "alice", &["put", "-", &uri("/user/alice/f")]).ok();
    let stat = |path: &str| by(&up, "root2", &["stat", "--format", "%u %a", &uri(path)]).text().to_owned();
    assert_eq!(stat("/user/alice"), "alice 700\n");
    assert_eq!(stat("/user/alice/f").split(' ').next(), Some("alice"));
    assert_eq!(stat("/tmp").trim_end().rsplit(' ').next(), Some("1777"));
    by(&up, "bob", &["cat", &uri("/user/alice/f")]).fails(PERMISSION_DENIED, "/user/alice/f");
    by(&up, "bob", &["put", "-", &uri("/f")]).fails(PERMISSION_DENIED, "/");
    by(&up, "bob", &["put", "-", &uri("/user/bob/mine")]).ok();

    by(&up, "alice", &["put", "-", &uri("/tmp/of-alice")]).ok();
    by(&up, "bob", &["put", "-", &uri("/tmp/of-bob")]).ok();
    by(&up, "bob", &["rm", &uri("/tmp/of-alice")]).fails(PERMISSION_DENIED, "/tmp/of-alice");

    // An administrator has the rights of the user who runs the cluster.
    by(&up, "root2", &["mkdir", &uri("/projects")]).ok();
    by(&up, "root2", &["chown", "bob", &uri("/projects")]).ok();
    by(&up, "root2", &["rm", &uri("/tmp/of-alice")]).ok();
    by(&up, "bob", &["chown", "bob", &uri("/user/alice")]).fails(PERMISSION_DENIED, "/user/alice");

    // A restart keeps existing homes.
    by(&up, "alice", &["chmod", "755", &up.uri("/user/alice")]).ok();
    assert_eq!(up.interrupt(), 0);
    up.again();
    by(&up, "bob", &["cat", &up.uri("/user/alice/f")]).ok();
}

#[test]
fn an_administrator_is_a_user_of_the_password_file() {
    let dir = tempfile::tempdir().unwrap();
    let refused = run(dir.path(), ["up", "--admin", "alice"], b"");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--passwords"), "{}", refused.stderr);
}

#[test]
fn sighup_has_passwords_and_certificates_read_anew() {
    let ca = Authority::new().unwrap();
    let mut gateway = Gateway::start(|dir| {
        let identity = ca.issue(dir).unwrap();
        let shown = |path: &Path| path.display().to_string();
        let (certificate, key) = (shown(&identity.certificate), shown(&identity.key));
        let tls = ["--tls-cert", &certificate, "--tls-key", &key];
        with_alice(dir).into_iter().chain(tls.map(str::to_owned)).collect()
    });
    gateway.process.signal(Signal::HUP);
    eventually("both are read", || {
        let log = gateway.process.log_tail();
        log.contains("reread the password file") && log.contains("reread the TLS certificates")
    });
    assert!(gateway.process.try_wait().is_none());
    gateway.run_with(["--user", "alice", "ls", &gateway.uri("/")], b"", &[("STRAIT_PASSWORD", "right")]).ok();
}

#[test]
fn sighup_ends_no_server() {
    let survives = |process: &mut Process, words: &str| {
        process.signal(Signal::HUP);
        eventually("it is told", || process.log_tail().contains(words));
        assert!(process.try_wait().is_none());
    };
    let (mut up, _secrets) = up_with(&["alice"], &[]);
    survives(&mut up.process, "reread the password file");

    let dir = tempfile::tempdir().unwrap();
    let address = || format!("127.0.0.1:{}", free_port());
    let (names, joins, holds) = (address(), address(), address());
    let namenode =
        ["namenode", "--data", "nn", "--key", "key", "--listen", &names, "--listen-datanodes", &joins];
    let mut namenode = role(dir.path(), "namenode", &namenode, &names);
    let datanode = ["datanode", "--data", "dn", "--key", "key", "--namenode", &names, "--listen", &holds];
    let mut datanode = role(dir.path(), "datanode", &datanode, &holds);
    survives(&mut namenode, "SIGHUP");
    survives(&mut datanode, "SIGHUP");
}

/// The log of a gateway with a certificate that is valid for this many days from now, once the log
/// has `words`.
fn log_with_certificate(days: i64, words: &str) -> String {
    let gateway = Gateway::start(|dir| {
        let identity = Authority::new().unwrap().issue_for(dir, days).unwrap();
        let shown = |path: &Path| path.display().to_string();
        let data = format!("file://{}", shown(&fresh(dir, "data")));
        let (certificate, key) = (shown(&identity.certificate), shown(&identity.key));
        ["--store", &data, "--tls-cert", &certificate, "--tls-key", &key].map(str::to_owned).to_vec()
    });
    eventually(words, || gateway.process.log_tail().contains(words));
    gateway.process.log_tail()
}

#[test]
fn the_start_up_block_tells_of_tls_and_of_a_certificate_that_ends() {
    let good = log_with_certificate(400, "no login");
    assert!(good.contains("tls      as localhost, 127.0.0.1; the certificate expires in 399 days"), "{good}");
    assert!(!good.contains("replace its file"), "{good}");
    let soon = log_with_certificate(10, "WARN the TLS");
    assert!(soon.contains("expires in 9 days"), "{soon}");
    let today = log_with_certificate(1, "WARN the TLS");
    assert!(today.contains("expires in 23 hours"), "{today}");
    let expired = log_with_certificate(-1, "WARN the TLS");
    assert!(expired.contains("EXPIRED on "), "{expired}");
    let none = Gateway::over_files().process.log_tail();
    assert!(!none.contains("tls"), "{none}");
}

#[test]
fn nothing_that_clients_name_forges_a_line_of_the_log() {
    let gateway = Gateway::start(|dir| {
        let mut flags = with_alice(dir);
        flags.extend(["--log", "trace"].map(str::to_owned));
        flags
    });
    const EVIL: &str = "x\nFORGED WARN line\u{1b}c";
    let root = gateway.uri("/");
    gateway.run_with(["--user", EVIL, "ls", &root], b"", &[("STRAIT_PASSWORD", "wrong")]);
    let missing = gateway.uri(&format!("/{EVIL}"));
    gateway.run_with(["--user", "alice", "stat", &missing], b"", &[("STRAIT_PASSWORD", "right")]);
    // A call of a method with this name, in strict binary Thrift without a frame.
    let mut call = vec![0x80, 1, 0, 1];
    call.extend((EVIL.len() as u32).to_be_bytes());
    call.extend(EVIL.as_bytes());
    call.extend([0, 0, 0, 1, 0]);
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    stream.write_all(&call).unwrap();
    assert!(stream.read(&mut [0; 64]).unwrap() > 0, "it is answered");
    eventually("all three are logged", || {
        std::fs::read_to_string(gateway.process.log()).unwrap().matches("FORGED").count() >= 3
    });
    let log = std::fs::read_to_string(gateway.process.log()).unwrap();
    assert!(!log.lines().any(|line| line.starts_with("FORGED")), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
}
