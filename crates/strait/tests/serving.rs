//! `serve` and `up`: starting, refusing to start, logins, shutdown.

use crate::support::{DEADLINE, Gateway, Run, command, ended, fresh};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use strait_testkit::wait::eventually;
use strait_testkit::{Process, free_port, spawn_bound};

const OTHER: i32 = 1;
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 10;
const PERMISSION_DENIED: i32 = 15;
const UNAUTHENTICATED: i32 = 16;
const INVALID_ARGUMENT: i32 = 17;
const BUSY: i32 = 19;
const UNAVAILABLE: i32 = 22;

fn strait(dir: &Path, args: &[&str]) -> Run {
    let mut strait = command(dir);
    strait.args(args);
    Run::of(strait, b"")
}

fn with_passwords(dir: &Path) -> Vec<String> {
    for user in ["alice", "bob"] {
        let mut passwd = command(dir);
        passwd.args(["passwd", "--file", "passwords", user]);
        Run::of(passwd, format!("{user}'s secret\n").as_bytes()).ok();
    }
    let data = format!("file://{}", fresh(dir, "data").display());
    ["--store", &data, "--passwords", &dir.join("passwords").display().to_string()]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn up_says_what_it_serves_and_to_whom() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = command(dir.path());
    up.args(["up", "--listen", "127.0.0.1:0"])
        .env("HADOOP_USER_NAME", "somebody")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = spawn_bound(up).unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = told.next().unwrap();
    let address = first.rsplit(' ').next().unwrap().to_owned();
    let rest: Vec<String> = told.by_ref().take(4).collect();
    assert!(rest[0].contains("default = kadoop://127.0.0.1:"), "{rest:?}");
    assert!(rest[1].contains("append") && rest[1].contains("per_user"), "{rest:?}");
    assert!(rest[2].contains("no login programs of") && rest[2].contains("somebody"), "{rest:?}");
    assert!(rest[3].contains("/strait-data") && rest[3].contains("/strait-data/kadoop.key"), "{rest:?}");
    strait(dir.path(), &["mkdir", &format!("strait://{address}/mine")]).ok();
    let stat = strait(dir.path(), &["stat", "--format", "%u", &format!("strait://{address}/mine")]);
    assert_eq!(stat.text(), "somebody\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_failed_start_is_one_clear_line() {
    let gateway = Gateway::over_files();
    let dir = gateway.dir.path();
    let taken = gateway.address.as_str();
    strait(dir, &["up", "--listen", taken]).fails(BUSY, &format!("listen on {taken}: in use already"));
    std::fs::write(dir.join("file"), "").unwrap();
    let below_a_file = strait(dir, &["up", "--listen", "127.0.0.1:0", "--data", "file/data"]);
    assert_ne!(below_a_file.code, 0);
    below_a_file.fails(below_a_file.code, "file/data");
    let serve = |store: &str| strait(dir, &["serve", "--listen", "127.0.0.1:0", "--store", store]);
    serve("gopher://x").fails(INVALID_ARGUMENT, "unknown scheme");
    let stores = ["--store", "memory:/", "--store", "memory:/"];
    strait(dir, &[&["serve", "--listen", "127.0.0.1:0"], &stores[..]].concat()).fails(USAGE, "two stores");
    let fifo = dir.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let passwords = ["--store", "memory:/", "--passwords", fifo.to_str().unwrap()];
    let waiting = strait(dir, &[&["serve", "--listen", "127.0.0.1:0"], &passwords[..]].concat());
    waiting.fails(waiting.code, "not a regular file");
}

#[test]
fn a_data_directory_that_cannot_be_written_is_refused() {
    if !rustix::process::geteuid().is_root() {
        let dir = tempfile::tempdir().unwrap();
        let up = strait(dir.path(), &["up", "--listen", "127.0.0.1:0", "--data", "/usr"]);
        up.fails(up.code, "/usr");
        return;
    }
    // Root may write everywhere except where the kernel itself can't make files.
    for data in ["/proc/self/data", "/sys"] {
        let up = strait(Path::new("/"), &["up", "--listen", "127.0.0.1:0", "--data", data]);
        assert_ne!(up.code, 0);
        up.fails(up.code, data);
    }
}

#[test]
fn a_directory_that_cannot_be_written_can_be_served() {
    // Even root can't make files there.
    let gateway = Gateway::start(|_| vec!["--store".to_owned(), "file:///sys".to_owned()]);
    let log = gateway.process.log_tail();
    assert!(log.contains("read-only: the directory can't be written"), "{log}");
    assert!(gateway.run(["ls", "-C", &gateway.uri("/")]).text().contains("/kernel"));
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"x", &[]).fails(PERMISSION_DENIED, "put /f: ");
}

/// Accepts connections and never answers.
fn silent_server() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[test]
fn a_store_that_is_away_keeps_no_other_from_being_served() {
    let (_silent, silent_address) = silent_server();
    let later = format!("127.0.0.1:{}", free_port());
    let gateway = Gateway::start(|dir| {
        let good = format!("file://{}", fresh(dir, "data").display());
        let (silent, refused) = (format!("hdfs://{silent_address}"), format!("far=strait://{later}"));
        ["--store", &good, "--store", &silent, "--store", &refused].map(str::to_owned).to_vec()
    });
    let log = gateway.process.log_tail();
    assert!(log.contains("WARN") && log.contains(&silent_address) && log.contains(&later), "{log}");
    gateway.run(["ls", &gateway.uri("/")]).ok();
    for store in ["hdfs", "far"] {
        let ls = ["ls", "--gateway-store", store, &gateway.uri("/")];
        gateway.run(ls).fails(UNAVAILABLE, "the store is unavailable");
    }
    let mut far = command(gateway.dir.path());
    far.args(["serve", "--store", "memory:/", "--listen", &later]);
    let _far = Process::spawn("far", far, gateway.dir.path()).unwrap();
    eventually("the far store is there", || {
        gateway.run(["ls", "--gateway-store", "far", &gateway.uri("/")]).code == 0
    });
}

#[test]
fn a_single_store_that_is_silent_is_waited_for_in_the_background() {
    let (_silent, address) = silent_server();
    let gateway = Gateway::start(|_| vec!["--store".to_owned(), format!("hdfs://{address}")]);
    gateway.run(["ls", &gateway.uri("/")]).fails(UNAVAILABLE, "it doesn't answer");
}

#[test]
fn a_gateway_may_start_before_what_it_serves() {
    let later = format!("127.0.0.1:{}", free_port());
    let gateway = Gateway::start(|_| vec!["--store".to_owned(), format!("strait://{later}")]);
    let log = gateway.process.log_tail();
    assert!(log.contains("WARN") && log.contains("unavailable; retrying until it answers: "), "{log}");
    let told = "the store is unavailable; retrying: the gateway can't be reached: Connection refused";
    gateway.run(["ls", &gateway.uri("/")]).fails(UNAVAILABLE, told);
    let mut far = command(gateway.dir.path());
    far.args(["serve", "--store", "memory:/", "--listen", &later]);
    let _far = Process::spawn("far", far, gateway.dir.path()).unwrap();
    eventually("the store is there", || gateway.run(["ls", &gateway.uri("/")]).code == 0);
    eventually("its log says so", || gateway.process.log_tail().contains("the store answers now"));
}

#[test]
fn what_else_keeps_a_store_away_is_logged_when_it_comes_up() {
    let later = format!("127.0.0.1:{}", free_port());
    let gateway = Gateway::start(|_| vec!["--store".to_owned(), format!("strait://{later}")]);
    let mut far = command(gateway.dir.path());
    far.args(["serve", "--listen", &later]).args(with_passwords(gateway.dir.path()));
    let _far = Process::spawn("far", far, gateway.dir.path()).unwrap();
    eventually("its log says so", || {
        let log = gateway.process.log_tail();
        log.contains("ERROR") && log.contains("can't open the store") && log.contains("requires a login")
    });
}

#[test]
fn listening_beyond_loopback_needs_passwords_or_allow_anonymous() {
    let dir = tempfile::tempdir().unwrap();
    strait(dir.path(), &["up", "--listen", "0.0.0.0:0"]).fails(USAGE, "--passwords FILE, --allow-anonymous");
    let address = format!("0.0.0.0:{}", free_port());
    let mut up = command(dir.path());
    up.args(["up", "--allow-anonymous", "--listen", &address]);
    let mut process = Process::spawn("up", up, dir.path()).unwrap();
    let reached = address.replace("0.0.0.0", "127.0.0.1");
    process.wait_ready(DEADLINE, || TcpStream::connect(&reached).is_ok()).unwrap();
    eventually("its log says as whom they act", || {
        process.log_tail().contains("no login anybody from anywhere acts as nobody")
    });
}

#[test]
fn a_signal_drains_and_ends_with_success() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut gateway = Gateway::over_files();
        let mut put = command(gateway.dir.path());
        put.args(["put", "-", &gateway.uri("/f")]).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = spawn_bound(put).unwrap();
        child.stdin.as_mut().unwrap().write_all(&vec![0; 2_000_000]).unwrap();
        eventually("the file is being written", || {
            std::fs::read_dir(gateway.data()).unwrap().next().is_some()
        });
        gateway.process.signal(signal);
        assert_eq!(ended(&mut gateway.process), 0, "{}", gateway.process.log_tail());
        assert!(TcpStream::connect(&gateway.address).is_err());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_login_is_needed_where_there_are_passwords_and_paid_once() {
    let gateway = Gateway::start(with_passwords);
    let root = gateway.uri("/");
    let ls = ["ls", root.as_str()];
    gateway.run(ls).fails(UNAUTHENTICATED, "requires a login");
    let as_alice = ["--user", "alice", "ls", root.as_str()];
    let secret = [("STRAIT_PASSWORD", "alice's secret")];
    gateway.run(as_alice).fails(UNAUTHENTICATED, "STRAIT_PASSWORD");
    let wrong = [("STRAIT_PASSWORD", "bob's secret")];
    gateway.run_with(as_alice, b"", &wrong).fails(UNAUTHENTICATED, "wrong user or password");
    gateway.run_with(as_alice, b"", &secret).ok();
    gateway.run(as_alice).ok(); // by the token that is kept now
    gateway.run(["--user", "bob", "ls", root.as_str()]).fails(UNAUTHENTICATED, "STRAIT_PASSWORD");
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"x", &[("STRAIT_USER", "alice")]).ok();
    let log = std::fs::read_to_string(gateway.process.log()).unwrap();
    assert!(!log.contains("secret") && !log.contains("s2."), "{log}");
}

#[test]
fn a_logout_makes_the_next_command_log_in_again() {
    let gateway = Gateway::start(with_passwords);
    let root = gateway.uri("/");
    for user in ["alice", "bob"] {
        let secret = format!("{user}'s secret");
        gateway.run_with(["--user", user, "ls", &root], b"", &[("STRAIT_PASSWORD", &secret)]).ok();
    }
    gateway.run(["logout", "--user", "alice", &root]).ok();
    gateway.run(["--user", "alice", "ls", &root]).fails(UNAUTHENTICATED, "STRAIT_PASSWORD");
    gateway.run(["--user", "bob", "ls", &root]).ok();
    gateway.run(["logout", "--user", "alice", &root]).fails(NOT_FOUND, "this host has no login for it");
    gateway.run(["logout"]).ok();
    gateway.run(["--user", "bob", "ls", &root]).fails(UNAUTHENTICATED, "STRAIT_PASSWORD");
    gateway.run(["logout", "file:///"]).fails(USAGE, "not a gateway");
}

#[test]
fn a_removed_user_is_let_in_no_more() {
    let gateway = Gateway::start(with_passwords);
    let secret = [("STRAIT_PASSWORD", "bob's secret")];
    let ls = ["--user", "bob", "ls", &gateway.uri("/")];
    gateway.run_with(ls, b"", &secret).ok();
    gateway.run(["passwd", "--file", "passwords", "--remove", "bob"]).ok();
    gateway.run(["passwd", "--file", "passwords", "--remove", "bob"]).fails(NOT_FOUND, "no user bob");
    strait_testkit::wait::eventually("bob is out", || {
        gateway.run_with(ls, b"", &secret).code == UNAUTHENTICATED
    });
}

#[test]
fn a_password_may_come_from_a_file() {
    let gateway = Gateway::start(with_passwords);
    let file = gateway.dir.path().join("bob");
    std::fs::write(&file, "bob's secret\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    gateway.run(["--user", "bob", "--password-file", "bob", "ls", &gateway.uri("/")]).ok();
}

#[test]
fn a_gateway_logs_in_at_another_by_password_and_not_by_a_command_s_token() {
    let gateway = Gateway::start(with_passwords);
    let secret = [("STRAIT_PASSWORD", "alice's secret")];
    let root = gateway.uri("/");
    gateway.run_with(["--user", "alice", "ls", &root], b"", &secret).ok();
    // It ends at the port, which is in use, if it gets that far.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve = ["--user", "alice", "serve", "--listen", &address, "--store", &root];
    gateway.run(serve).fails(UNAUTHENTICATED, "STRAIT_PASSWORD");
    gateway.run_with(serve, b"", &secret).fails(BUSY, "in use");
}

#[test]
fn a_token_outlives_the_gateway_where_the_key_is_kept() {
    let mut gateway = Gateway::start(|_| vec!["--store".to_owned(), "memory:/".to_owned()]);
    let mut flags = with_passwords(gateway.dir.path());
    let as_alice = ["--user".to_owned(), "alice".to_owned(), "ls".to_owned(), gateway.uri("/")];
    let secret = [("STRAIT_PASSWORD", "alice's secret")];
    gateway.replace(&flags);
    gateway.run_with(&as_alice, b"", &secret).ok();
    gateway.replace(&flags);
    gateway.run(&as_alice).fails(UNAUTHENTICATED, "STRAIT_PASSWORD");
    flags.extend(["--token-key".to_owned(), gateway.dir.path().join("key").display().to_string()]);
    gateway.replace(&flags);
    gateway.run_with(&as_alice, b"", &secret).ok();
    gateway.replace(&flags);
    gateway.run(&as_alice).ok();
}

#[test]
fn files_of_secrets_that_others_may_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    for name in ["key", "passwords"] {
        std::fs::write(dir.path().join(name), [b'#'; 32]).unwrap();
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(dir.path().join(name), open).unwrap();
    }
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:/"];
    for flag in [["--token-key", "key"], ["--passwords", "passwords"]] {
        strait(dir.path(), &[&serve[..], &flag].concat()).fails(OTHER, "chmod 600");
    }
}

#[test]
fn a_gateway_serves_several_stores_by_name() {
    let gateway = Gateway::start(|dir| {
        let file = format!("lab=file://{}", fresh(dir, "lab").display());
        ["--store", "memory:/", "--store", &file].map(str::to_owned).to_vec()
    });
    let put = ["put", "-", &gateway.uri("/f"), "--gateway-store", "lab"];
    gateway.run_with(put, b"in the lab", &[]).ok();
    assert_eq!(std::fs::read(gateway.dir.path().join("lab/f")).unwrap(), b"in the lab");
    assert_eq!(gateway.run(["ls", &gateway.uri("/")]).text(), "", "not in the default store");
    gateway.run(["ls", &gateway.uri("/"), "--gateway-store", "nope"]).fails(10, "memory, lab");
}

#[test]
fn flags_of_clients_are_refused_where_nothing_comes_into_a_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("file://{}", dir.path().display());
    let refused = |args: &[&str], words: &str| {
        let run = strait(dir.path(), args);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(words), "{}", run.stderr);
    };
    refused(&["serve", "--store", &store, "--password-file", "p"], "--passwords FILE");
    refused(&["--tls", "up"], "--tls-cert FILE");
    refused(&["passwd", "alice", "--password-file", "p"], "--file FILE");
    refused(&["malgen", "--gateway-store", "x", "1"], "--gateway-store");
    for command in ["up", "passwd", "malgen"] {
        assert!(!strait(dir.path(), &[command, "--help"]).text().contains("--password-file"), "{command}");
    }
    assert!(strait(dir.path(), &["ls", "--help"]).text().contains("--password-file"));
}
