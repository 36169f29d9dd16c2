//! The command reports each error once, clearly, and by the exit code.

use crate::support::below;
use crate::support::{self, Gateway, Run, command, fresh};
use std::io::{BufRead, Read};
use std::path::Path;
use std::process::Stdio;
use strait_kadoop_client::{Client, ClientOptions};
use strait_kadoop_core::{
    Config,
    messages::{Attributes, Caller},
};
use strait_kadoop_server::{NamenodeOptions, NamenodeServer};
use strait_kadoop_wire::Key;

// Exit codes of the table of errors.
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 10;
const ALREADY_EXISTS: i32 = 11;
const NOT_A_DIRECTORY: i32 = 12;
const INVALID_ARGUMENT: i32 = 17;
const UNSUPPORTED: i32 = 18;
const TIMED_OUT: i32 = 21;
const UNAVAILABLE: i32 = 22;

fn strait(dir: &Path, args: &[&str]) -> Run {
    let mut strait = command(dir);
    strait.args(args);
    Run::of(strait, b"")
}

/// A gateway whose store has the file `/f`.
fn with_a_file() -> Gateway {
    let gateway = Gateway::over_files();
    std::fs::write(gateway.data().join("f"), "content").unwrap();
    gateway
}

#[test]
fn a_local_target_that_cannot_be_written_is_named_in_one_line() {
    let gateway = with_a_file();
    std::fs::write(gateway.dir.path().join("plain"), "").unwrap();
    gateway.run(["get", &gateway.uri("/f"), "plain/below"]).fails(NOT_A_DIRECTORY, "plain/below: ");
    gateway.run(["get", &gateway.uri("/f"), "missing/below"]).fails(NOT_FOUND, "missing/below: ");
    gateway
        .run(["get", &gateway.uri("/f"), "/dev/null"])
        .fails(INVALID_ARGUMENT, "writes to standard output");
    let within = gateway.run(["put", &gateway.uri("/f"), &gateway.uri("/g")]);
    within.fails(2, "isn't a local path");
}

#[test]
fn a_stored_target_that_cannot_be_written_is_named_in_one_line() {
    let gateway = with_a_file();
    gateway.run_with(["put", "-", &gateway.uri("/f/below")], b"x", &[]).fails(NOT_A_DIRECTORY, "/f/below: ");
}

#[test]
fn a_kadoop_namenodes_refusal_of_a_chunk_arrives_in_its_own_words() {
    let dir = tempfile::tempdir().unwrap();
    let (key, key_file) = (Key::generate().unwrap(), dir.path().join("cluster.key"));
    key.save(&key_file).unwrap();
    let config = Config { max_file_chunks: 0, safe_mode_extra_ms: 0, ..Config::default() };
    let superuser = Caller { user: config.superuser.as_str().into(), groups: Vec::new(), session: None };
    let options = NamenodeOptions::new(dir.path().join("namenode"), key.clone());
    let namenode = NamenodeServer::start(NamenodeOptions { config, ..options }).unwrap();
    let address = namenode.address().to_string();
    let client = Client::connect(ClientOptions::new(address.as_str(), key.for_clients())).unwrap();
    let everybody = Attributes { mode: Some(0o777), ..Attributes::default() };
    client.set_attributes(&superuser, "/", everybody).unwrap();
    let store = format!("kadoop://{address}/");
    let flags = ["--store", &store, "--kadoop-key", key_file.to_str().unwrap()].map(str::to_owned);
    let gateway = Gateway::start(|_| flags.to_vec());
    let run = gateway.run_with(["put", "-", &gateway.uri("/f")], b"content", &[]);
    run.fails(INVALID_ARGUMENT, "the file has the maximum number of chunks: use larger chunks");
}

#[test]
fn targets_below_a_file_are_refused() {
    let in_memory = Gateway::start(|_| ["--store", "memory:/"].map(str::to_owned).to_vec());
    for gateway in [in_memory, Gateway::over_files()] {
        below::are_refused(|args, input| gateway.run_with(args, input, &[]), |path| gateway.uri(path));
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str], input: &[u8]| {
        let mut strait = command(dir.path());
        strait.args(args);
        Run::of(strait, input)
    };
    below::are_refused(run, |path| format!("file://{}{path}", dir.path().display()));
}

#[test]
fn ls_goes_on_after_a_missing_operand() {
    let gateway = with_a_file();
    std::fs::write(gateway.data().join("g"), "").unwrap();
    let run = gateway.run(["ls", "-C", &gateway.uri("/f"), &gateway.uri("/missing"), &gateway.uri("/g")]);
    assert_eq!((run.code, String::from_utf8_lossy(&run.stdout).as_ref()), (NOT_FOUND, "/f\n/g\n"));
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

#[test]
fn a_target_with_a_trailing_slash_is_a_directory() {
    let gateway = with_a_file();
    let dir = gateway.dir.path();
    std::fs::write(dir.join("local"), "mine").unwrap();
    let (missing, a_file) = (gateway.uri("/new/"), gateway.uri("/f/"));
    gateway.run(["put", "local", &missing]).fails(NOT_FOUND, "no directory /new");
    gateway.run(["put", "-f", "local", &a_file]).fails(NOT_A_DIRECTORY, "put /f: ");
    gateway.run(["mv", &gateway.uri("/f"), &missing]).fails(NOT_FOUND, "no directory /new");
    gateway.run(["get", &gateway.uri("/f"), "new/"]).fails(NOT_FOUND, "no directory new");
    gateway.run(["get", "-f", &gateway.uri("/f"), "local/"]).fails(NOT_A_DIRECTORY, "get local");
    assert_eq!(gateway.run(["ls", "-C", &gateway.uri("/")]).text(), "/f\n");
    gateway.run(["mkdir", &missing]).ok();
    gateway.run(["put", "local", &missing]).ok();
    assert_eq!(gateway.run(["cat", &gateway.uri("/new/local")]).text(), "mine");
}

#[test]
fn what_is_no_port_is_a_wrong_argument() {
    let dir = tempfile::tempdir().unwrap();
    for uri in ["strait://127.0.0.1:99999/", "strait://127.0.0.1:0/", "strait://gw:x/", "hdfs://nn:65536/"] {
        strait(dir.path(), &["ls", uri]).fails(INVALID_ARGUMENT, "port");
    }
}

#[test]
fn mv_names_the_target_that_is_in_the_way() {
    let gateway = with_a_file();
    gateway.run_with(["put", "-", &gateway.uri("/g")], b"", &[]).ok();
    gateway.run(["mkdir", &gateway.uri("/d")]).ok();
    gateway.run(["mv", &gateway.uri("/f"), "/g"]).fails(ALREADY_EXISTS, "mv /g: ");
    gateway.run(["mv", &gateway.uri("/f"), "/g"]).fails(ALREADY_EXISTS, "-f replaces it");
    gateway.run(["mv", "-f", &gateway.uri("/d"), "/g"]).fails(NOT_A_DIRECTORY, "mv /g: ");
    gateway.run(["mv", &gateway.uri("/f"), "/no/g"]).fails(NOT_FOUND, "no directory /no");
    gateway.run(["mv", &gateway.uri("/gone"), "/h"]).fails(NOT_FOUND, "/gone: ");
}

#[test]
fn df_of_what_is_missing_fails() {
    let gateway = with_a_file();
    gateway.run(["df", &gateway.uri("/nope")]).fails(NOT_FOUND, "/nope: ");
    gateway.run(["df", &gateway.uri("/f")]).ok();
}

#[test]
fn replicas_are_not_asked_of_a_store_that_keeps_none() {
    let gateway = with_a_file();
    let target = gateway.uri("/g");
    for flags in [["--replication", "2"], ["--block-size", "1048576"]] {
        let put = [&["put"], &flags[..], &["f", &target]].concat();
        gateway.run(put).fails(UNSUPPORTED, flags[0]);
    }
}

#[test]
fn a_user_is_refused_where_no_login_stands_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", dir.path().display());
    strait(dir.path(), &["--user", "alice", "ls", &uri]).fails(USAGE, "--user");
    strait(dir.path(), &["ls", "--user", "alice", &uri]).fails(USAGE, "--user");
    let mut by_environment = command(dir.path());
    by_environment.args(["ls", &uri]).env("STRAIT_USER", "alice");
    Run::of(by_environment, b"").ok(); // that is for the gateways
}

#[test]
fn control_characters_reach_no_terminal() {
    let gateway = Gateway::over_files();
    let name = "a\x1b[31m\nb";
    let uri = gateway.uri(&format!("/{name}"));
    let missing = gateway.run(["cat", &uri]);
    missing.fails(NOT_FOUND, "\\u{1b}[31m\\nb");
    gateway.run_with(["put", "-", &uri], b"", &[]).ok();
    assert_eq!(
        gateway.run(["ls", "-C", &gateway.uri("/")]).text(),
        format!("/{name}\n"),
        "as it is, to a pipe"
    );
    for shown in [&["ls"][..], &["ls", "-C"], &["stat"], &["stat", "--format", "%n %p"], &["checksum"]] {
        let told = on_a_terminal(&gateway, &[shown, &[&uri]].concat());
        assert!(told.contains("a\\u{1b}[31m\\nb"), "{shown:?}: {told:?}");
        assert!(!told.contains('\x1b'), "{shown:?}: {told:?}");
    }
}

/// Output of a command on a terminal.
fn on_a_terminal(gateway: &Gateway, args: &[&str]) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = std::fs::File::options().write(true).open(name.to_str().unwrap()).unwrap();
    let mut strait = command(gateway.dir.path());
    strait.args(args).stdin(Stdio::null()).stdout(terminal);
    let mut child = strait_testkit::spawn_bound(strait).unwrap();
    let mut told = String::new();
    // Ends with EIO when the last process has closed the terminal.
    let mut lines = Vec::new();
    let _ = std::fs::File::from(master).read_to_end(&mut lines);
    told.push_str(&String::from_utf8_lossy(&lines));
    assert!(child.wait().unwrap().success(), "{told}");
    told
}

#[test]
fn a_put_whose_gateway_dies_before_anything_is_visible_may_be_repeated() {
    let mut gateway = Gateway::over_files();
    let mut put = command(gateway.dir.path());
    put.args(["put", "-", &gateway.uri("/f")]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = strait_testkit::spawn_bound(put).unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &vec![0; 2_000_000]).unwrap();
    strait_testkit::wait::eventually("the file is being written", || {
        std::fs::read_dir(gateway.data()).unwrap().next().is_some()
    });
    gateway.process.kill();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(support::code(output.status), UNAVAILABLE, "{told}");
    assert!(told.lines().any(|line| line.starts_with("strait: put /f: ")), "{told}");
    let left = gateway.uri("/.strait-put-");
    assert!(told.contains(&format!("the temporary file {left}")) && told.contains(" may remain: "), "{told}");
    assert!(told.contains(&format!("; remove it with `strait rm {left}")), "{told}");
}

#[test]
fn a_put_that_waits_names_its_target() {
    let gateway = Gateway::over_files();
    let mut put = command(gateway.dir.path());
    put.args(["put", "-", &gateway.uri("/f")]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = strait_testkit::spawn_bound(put).unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &vec![0; 2_000_000]).unwrap();
    strait_testkit::wait::eventually("the temporary file is there", || {
        gateway.data().read_dir().unwrap().next().is_some()
    });
    gateway.process.signal(rustix::process::Signal::STOP);
    drop(input);
    let mut told = String::new();
    let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut told).unwrap();
    gateway.process.signal(rustix::process::Signal::CONT);
    assert!(child.wait().unwrap().success());
    assert!(told.contains("hasn't answered for 5 s") && told.contains(" /f; still waiting"), "{told}");
}

#[test]
fn a_terminated_put_leaves_nothing_and_says_143() {
    let gateway = Gateway::over_files();
    let mut put = command(gateway.dir.path());
    put.args(["put", "-", &gateway.uri("/f")]).stdin(Stdio::piped());
    let mut child = strait_testkit::spawn_bound(put).unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &vec![0; 2_000_000]).unwrap();
    let entries = || std::fs::read_dir(gateway.data()).unwrap().count();
    strait_testkit::wait::eventually("the temporary file is there", || entries() == 1);
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(support::code(child.wait().unwrap()), 143);
    assert_eq!(entries(), 0);
}

#[test]
fn what_killed_puts_left_is_not_got_and_can_be_swept() {
    let gateway = with_a_file();
    let data = gateway.data();
    let below = fresh(&data, "d");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 3_600);
    let left = |dir: &Path, name: &str, modified| {
        std::fs::write(dir.join(name), "half").unwrap();
        std::fs::File::options().write(true).open(dir.join(name)).unwrap().set_modified(modified).unwrap();
    };
    let now = std::time::SystemTime::now();
    left(&data, ".strait-put-0123456789abcdef", old);
    left(&below, ".strait-put-00000000000000ff", old);
    left(&data, ".strait-put-1123456789abcdef", now); // another user's, still in progress
    left(&data, ".strait-put-notes", old); // a name that a person chose
    gateway.run(["get", &gateway.uri("/"), "back"]).ok();
    let mut got: Vec<_> =
        std::fs::read_dir(gateway.dir.path().join("back")).unwrap().map(|e| e.unwrap().file_name()).collect();
    got.sort();
    assert_eq!(got, [".strait-put-notes", "d", "f"]);
    let swept = gateway.run(["rm", "--stale", &gateway.uri("/")]);
    assert!(swept.code == 0 && swept.stderr.contains("1 temporary file is younger than 24 h"), "{swept:?}");
    let listed = gateway.run(["ls", "-R", "-C", &gateway.uri("/")]);
    let mut listed: Vec<_> = listed.text().lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, ["/.strait-put-1123456789abcdef", "/.strait-put-notes", "/d", "/f"]);
}

#[test]
fn what_killed_gets_left_on_this_host_can_be_swept() {
    let dir = tempfile::tempdir().unwrap();
    let local = fresh(dir.path(), "local");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 3_600);
    for name in [".strait-get-0123456789abcdef", ".strait-put-0123456789abcdef", "kept"] {
        std::fs::write(local.join(name), "half").unwrap();
        std::fs::File::options().write(true).open(local.join(name)).unwrap().set_modified(old).unwrap();
    }
    strait(dir.path(), &["rm", "--stale", &format!("file://{}", local.display())]).ok();
    let left: Vec<_> = std::fs::read_dir(&local).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["kept"]);
}

#[test]
fn what_listens_but_is_no_gateway_is_told_from_one() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("strait://{}/", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut first = [0; 4];
        client.read_exact(&mut first).unwrap();
        std::io::Write::write_all(&mut client, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        listener
    });
    strait(dir.path(), &["ls", &uri]).fails(UNAVAILABLE, "speaks HTTP, and isn't a Strait gateway");
    // The listener accepts no more connections, and sends nothing.
    let _listener = serving.join().unwrap();
    let since = std::time::Instant::now();
    strait(dir.path(), &["ls", &uri]).fails(TIMED_OUT, "another program listens there");
    assert!(since.elapsed() < std::time::Duration::from_secs(20), "{:?}", since.elapsed());
}

#[test]
fn a_put_whose_gateway_is_restarted_says_so() {
    let mut gateway = Gateway::over_files();
    let flags = ["--store".to_owned(), format!("file://{}", gateway.data().display())];
    let mut put = command(gateway.dir.path());
    put.args(["put", "-", &gateway.uri("/f")]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = strait_testkit::spawn_bound(put).unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &vec![0; 2_000_000]).unwrap();
    strait_testkit::wait::eventually("the file is being written", || {
        std::fs::read_dir(gateway.data()).unwrap().next().is_some()
    });
    gateway.replace(&flags);
    std::io::Write::write_all(&mut input, &vec![0; 2_000_000]).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(support::code(output.status), UNAVAILABLE, "{told}");
    assert!(told.contains("the gateway was restarted") && told.contains("written again"), "{told}");
}
