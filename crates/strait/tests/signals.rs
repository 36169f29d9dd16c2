//! Ctrl-C ends a command soon, in every wait.

use crate::support::{Gateway, code, command, fresh};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use strait_testkit::sockets::unread_at;
use strait_testkit::spawn_bound;
use strait_testkit::wait::eventually;

/// Three seconds for the cleanup, and as much again for a loaded machine.
const SOON: Duration = Duration::from_secs(6);

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_put_into_a_gateway_that_hangs_ends_and_names_what_may_be_left() {
    let gateway = Gateway::over_files();
    let mut put = command(gateway.dir.path());
    put.args(["put", "-", &gateway.uri("/f")]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn_bound(put).unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &vec![0; 2_000_000]).unwrap();
    eventually("the temporary file is there", || gateway.data().read_dir().unwrap().count() == 1);
    gateway.process.signal(Signal::STOP);
    send(&child, Signal::INT);
    let since = Instant::now();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    assert_eq!(code(output.status), 130, "{told}");
    assert!(told.contains("temporary files may remain") && told.contains("/.strait-put-"), "{told}");
    gateway.process.signal(Signal::CONT);
}

/// A put of standard input that has begun, and its input, of which it has this many bytes so far.
fn begun(gateway: &Gateway, mut put: Command, bytes: usize) -> (Child, std::process::ChildStdin) {
    put.stdin(Stdio::piped());
    let mut child = spawn_bound(put).unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &vec![0; bytes]).unwrap();
    eventually("the temporary file is there", || gateway.data().read_dir().unwrap().count() == 1);
    (child, input)
}

#[test]
fn a_closed_terminal_ends_a_put_and_leaves_nothing() {
    let gateway = Gateway::over_files();
    let mut put = command(gateway.dir.path());
    put.args(["put", "-", &gateway.uri("/f")]);
    let (mut child, _input) = begun(&gateway, put, 2_000_000);
    send(&child, Signal::HUP);
    assert_eq!(code(child.wait().unwrap()), 129);
    assert_eq!(gateway.data().read_dir().unwrap().count(), 0);
}

#[test]
fn a_put_that_was_begun_to_survive_its_terminal_goes_on() {
    let gateway = Gateway::over_files();
    let mut shell = Command::new("sh");
    let put = command(gateway.dir.path());
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    shell.args(["-c", script]).arg(put.get_program()).args(["put", "-", &gateway.uri("/f")]);
    shell.env("HOME", gateway.dir.path()).current_dir(gateway.dir.path());
    let (mut child, input) = begun(&gateway, shell, 2_000_000);
    send(&child, Signal::HUP);
    drop(input);
    assert_eq!(code(child.wait().unwrap()), 0);
    assert_eq!(gateway.data().join("f").metadata().unwrap().len(), 2_000_000);
}

#[test]
fn a_second_signal_ends_at_once() {
    let gateway = Gateway::over_files();
    let mut put = command(gateway.dir.path());
    put.args(["put", "-", &gateway.uri("/f")]);
    // Without input, it sends nothing until its cleanup.
    let (mut child, _input) = begun(&gateway, put, 0);
    gateway.process.signal(Signal::STOP);
    send(&child, Signal::INT);
    let address = gateway.address.parse().unwrap();
    eventually("its cleanup waits for the gateway", || unread_at(address) > 0);
    let since = Instant::now();
    send(&child, Signal::TERM);
    assert_eq!(code(child.wait().unwrap()), 143);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    gateway.process.signal(Signal::CONT);
}

/// Whether a thread of this process is opening a FIFO without a writer (proc(5), `wchan`).
fn waits_for_a_writer(child: &Child) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let waits = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("wchan")));
    // A kernel may show the caller instead, if its compiler has inlined the function.
    waits.flatten().any(|function| function.starts_with("wait_for_partner") || function == "fifo_open")
}

#[test]
fn a_put_that_waits_for_the_writer_of_a_fifo_ends() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let target = fresh(dir.path(), "data").join("f");
    let mut put = command(dir.path());
    put.arg("put").arg(&fifo).arg(format!("file://{}", target.display()));
    let mut child = spawn_bound(put).unwrap();
    eventually("it waits for a writer", || waits_for_a_writer(&child));
    let since = Instant::now();
    send(&child, Signal::INT);
    assert_eq!(code(child.wait().unwrap()), 130);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    assert!(target.parent().unwrap().read_dir().unwrap().next().is_none());
}
