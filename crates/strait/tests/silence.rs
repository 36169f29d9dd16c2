//! Commands never wait forever for a gateway that is silent or gone, in any state.

use crate::support::faulty::{Fault, Faulty};
use crate::support::{Gateway, Run, command, fresh};
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use strait_testkit::sockets::unread_at;
use strait_testkit::spawn_bound;
use strait_testkit::wait::{eventually, wait_until};

/// The commands' time limit, in seconds.
const TIMEOUT: &str = "2";
/// A few times that, to allow for a loaded machine.
const LIMIT: Duration = Duration::from_secs(45);
const FAULTS: [Fault; 4] = [Fault::Silence, Fault::HalfReply, Fault::Trickle, Fault::End];
const BUSY: i32 = 19;
const TIMED_OUT: i32 = 21;
const UNAVAILABLE: i32 = 22;
const OUTCOME_UNKNOWN: i32 = 24;

/// Runs a command line, and fails if it exceeds the limit.
#[track_caller]
fn in_time(gateway: &Gateway, args: &[&str]) -> Run {
    let began = Instant::now();
    let run = gateway.run(["--timeout", TIMEOUT].iter().chain(args));
    assert!(began.elapsed() < LIMIT, "{args:?} took {:?}: {}", began.elapsed(), run.stderr);
    run
}

/// Fails unless the command reported the failure by its exit code and a message.
#[track_caller]
fn assert_told(run: &Run, of: &str) {
    assert!([TIMED_OUT, UNAVAILABLE, OUTCOME_UNKNOWN].contains(&run.code), "{of}: {run:?}");
    assert!(run.stderr.lines().count() > 0, "{of}: no message");
    assert!(run.stderr.lines().all(|line| line.starts_with("strait: ")), "{of}: {}", run.stderr);
}

/// A gateway with a file and a tree, and the same tree beside it.
fn furnished() -> Gateway {
    let gateway = Gateway::over_files();
    for root in [gateway.data(), fresh(gateway.dir.path(), "local")] {
        std::fs::write(root.join("file"), vec![7; 3 << 20]).unwrap();
        for directory in 0..12 {
            let directory = fresh(&root, &format!("tree/{directory}"));
            std::fs::write(directory.join("leaf"), "leaf").unwrap();
        }
    }
    gateway
}

/// Tries a command line, in which `@` stands for the gateway, against a gateway that misbehaves
/// from the call of `method` on.
fn try_each_fault(method: &'static str, args: &[&str]) {
    let gateway = furnished();
    std::thread::scope(|scope| {
        for fault in FAULTS {
            let gateway = &gateway;
            scope.spawn(move || {
                let faulty = Faulty::before(&gateway.address, method, fault);
                let own = format!("{fault:?}");
                let args: Vec<String> = args
                    .iter()
                    .map(|arg| arg.replace('@', &format!("strait://{}", faulty.address)).replace('%', &own))
                    .collect();
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let run = in_time(gateway, &args);
                assert!(faulty.has_misbehaved(), "{args:?} calls no {method}: {run:?}");
                assert_told(&run, &format!("{method}, {fault:?}"));
            });
        }
    });
}

#[test]
fn at_a_login() {
    try_each_fault("openSession", &["ls", "@/"]);
}

#[test]
fn at_a_listing() {
    try_each_fault("listDirectory", &["ls", "@/"]);
}

#[test]
fn at_a_stat() {
    try_each_fault("getFileInfo", &["stat", "@/file"]);
}

#[test]
fn at_opening_a_file() {
    try_each_fault("openFile", &["cat", "@/file"]);
}

#[test]
fn at_reading_a_file() {
    try_each_fault("readRange", &["cat", "@/file"]);
}

#[test]
fn at_a_checksum() {
    try_each_fault("getChecksum", &["checksum", "@/file"]);
}

#[test]
fn at_creating_a_file() {
    try_each_fault("createFile", &["put", "local/file", "@/new-%"]);
}

#[test]
fn at_appending_to_a_file() {
    try_each_fault("appendData", &["put", "local/file", "@/new-%"]);
}

#[test]
fn at_closing_a_file() {
    try_each_fault("closeFile", &["put", "local/file", "@/new-%"]);
}

#[test]
fn at_renaming() {
    try_each_fault("renamePath", &["mv", "@/file", "@/renamed-%"]);
}

#[test]
fn at_making_a_directory() {
    try_each_fault("makeDirectories", &["mkdir", "@/directory-%"]);
}

#[test]
fn at_removing() {
    try_each_fault("removePath", &["rm", "-r", "@/tree"]);
}

#[test]
fn at_removing_with_a_limit_of_the_whole_operation() {
    let gateway = furnished();
    let faulty = Faulty::before(&gateway.address, "removePath", Fault::Silence);
    let tree = format!("strait://{}/tree", faulty.address);
    let began = Instant::now();
    // Without the limit, the command waits twice for the other one.
    let run = gateway.run(["--timeout", "60", "--operation-timeout", TIMEOUT, "rm", "-r", &tree]);
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    run.fails(OUTCOME_UNKNOWN, "it took longer than its time limit of 2 s");
}

#[test]
fn while_many_files_are_put() {
    try_each_fault("appendData", &["put", "-t", "8", "local/tree", "@/new-%"]);
}

#[test]
fn while_many_files_are_got() {
    try_each_fault("readRange", &["get", "-t", "8", "@/tree", "new-%"]);
}

#[test]
fn a_gateway_that_accepts_no_connection() {
    let dir = tempfile::tempdir().unwrap();
    let ls = |address: SocketAddr| {
        let began = Instant::now();
        let mut strait = command(dir.path());
        strait.args(["--timeout", TIMEOUT, "ls", &format!("strait://{address}/")]);
        let run = Run::of(strait, b"");
        assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
        run
    };
    // The kernel accepts the connection, but the program doesn't.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    ls(listener.local_addr().unwrap()).fails(TIMED_OUT, "no answer within 2 s");
    // Here even the kernel doesn't accept: its queue is full.
    let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&full, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&full, 0).unwrap();
    let full = TcpListener::from(full);
    let address = full.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(500));
    let held: Vec<TcpStream> = std::iter::from_fn(|| connect().ok()).take(16).collect();
    assert!(held.len() < 16, "the queue isn't full");
    ls(address).fails(UNAVAILABLE, "no connection within 2 s");
}

#[test]
fn a_command_that_waits_for_its_login_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("strait://{}", listener.local_addr().unwrap());
    let mut strait = command(dir.path());
    strait.args(["--timeout", "7", "ls", &format!("{uri}/")]);
    strait.stdout(Stdio::null()).stderr(Stdio::piped());
    let ended = spawn_bound(strait).unwrap().wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    let notice = format!("{uri} hasn't answered for 5 s: connect and log in; still waiting");
    assert!(told.contains(&notice) && told.contains("no answer within 7 s"), "{told}");
}

/// Runs `stat` of many files at an address, and returns the time it took.
fn stat_of_many(address: &str, timeout: &str) -> (Duration, String) {
    let dir = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let mut strait = command(dir.path());
    strait.args(["--timeout", timeout, "stat"]);
    strait.args((0..30).map(|number| format!("strait://{address}/tree/{number}/leaf")));
    let run = Run::of(strait, b"");
    assert!([TIMED_OUT, UNAVAILABLE].contains(&run.code), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 30, "each operand is reported: {}", run.stderr);
    (began.elapsed(), run.stderr)
}

#[test]
fn many_operands_at_a_gateway_that_never_answers_wait_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (took, _) = stat_of_many(&listener.local_addr().unwrap().to_string(), "2");
    assert!(took < Duration::from_secs(20), "30 waits would be 60 s: {took:?}");
}

#[test]
fn many_operands_at_a_gateway_that_has_ended_wait_once() {
    let gateway = furnished();
    let faulty = Faulty::before(&gateway.address, "getFileInfo", Fault::End);
    let (took, told) = stat_of_many(&faulty.address, "60");
    assert!(took < Duration::from_secs(40), "30 waits would be 220 s: {took:?}");
    for (number, line) in told.lines().enumerate() {
        assert!(line.contains(&format!("/tree/{number}/leaf")) && line.contains(&faulty.address), "{line}");
    }
}

#[test]
fn a_gateway_without_descriptors_says_so() {
    let gateway = Gateway::over_files();
    let uri = gateway.uri("/");
    gateway.run(["ls", &uri]).ok();
    let pid = gateway.process.id();
    let is_free = |number: &u64| !Path::new(&format!("/proc/{pid}/fd/{number}")).exists();
    let maximum = getrlimit(Resource::Nofile).maximum;
    let process = Pid::from_raw(pid as i32);
    let mut unlimited = None;
    let mut refused = None;
    // An earlier connection may still end, and leave a descriptor to the next one.
    let is_refused = wait_until(LIMIT, || {
        // This prevents opening any descriptor from the lowest free number on.
        let limited = Rlimit { current: (0..).find(is_free), maximum };
        let before = prlimit(process, Resource::Nofile, limited).unwrap();
        unlimited.get_or_insert(before);
        let began = Instant::now();
        let run = gateway.run(["ls", &uri]);
        let is_busy = run.code == BUSY;
        refused = Some((run, began.elapsed()));
        is_busy
    });
    let (run, took) = refused.unwrap();
    assert!(is_refused && took < LIMIT, "{took:?}");
    run.fails(BUSY, "file descriptors");
    let unlimited = unlimited.unwrap();
    prlimit(process, Resource::Nofile, unlimited).unwrap();
    assert!(wait_until(LIMIT, || gateway.run(["ls", &uri]).code == 0));
}

#[test]
fn connections_queue_while_a_gateway_is_busy() {
    let gateway = Gateway::over_files();
    gateway.process.signal(Signal::STOP);
    let address = gateway.address.parse().unwrap();
    // A full queue drops them, and the kernel asks again after a second.
    let queued: Vec<_> =
        (0..300).map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(900)).unwrap()).collect();
    gateway.process.signal(Signal::CONT);
    drop(queued);
    gateway.run(["ls", &gateway.uri("/")]).ok();
}

#[test]
fn a_gateway_that_is_stopped_and_goes_on_is_waited_for() {
    let gateway = furnished();
    let address = gateway.address.parse().unwrap();
    gateway.process.signal(Signal::STOP);
    let run = in_time(&gateway, &["ls", &gateway.uri("/")]);
    run.fails(TIMED_OUT, "no answer within 2 s");
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| gateway.run(["--timeout", "60", "ls", &gateway.uri("/")]));
        eventually("the command waits for an answer", || unread_at(address) > 0);
        gateway.process.signal(Signal::CONT);
        waiting.join().unwrap()
    });
    waiting.ok();
}
