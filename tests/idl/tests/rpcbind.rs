//! A server registers its programs with a real rpcbind, in a network and mount namespace of its own
//! (needs root), and unregisters them.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use strait_flexrpc::{OncOptions, Reply, Request, Server, ServerOptions};
use strait_testkit::wait::eventually;

const PROGRAM: u32 = 0x2000_0105;

/// rpcbind's socket and lock have fixed names, which a private /run separates.
const START: &str = "mount -t tmpfs tmpfs /run && mkdir /run/rpcbind && \
    PATH=$PATH:/usr/sbin:/sbin && ip link set lo up && exec rpcbind -f";

struct Rpcbind(Child);

impl Rpcbind {
    fn start() -> Self {
        let mut command = Command::new("unshare");
        let child = command.args(["--mount", "--net", "sh", "-c", START]).stdin(Stdio::null()).spawn();
        let rpcbind = Self(child.expect("unshare starts"));
        eventually("rpcbind runs; scripts/setup.sh test installs it", || {
            UnixStream::connect(rpcbind.socket()).is_ok()
        });
        rpcbind
    }

    fn socket(&self) -> PathBuf {
        format!("/proc/{}/root/run/rpcbind.sock", self.0.id()).into()
    }

    /// The real rpcinfo's list of the program: version, transport, port.
    fn known(&self) -> Vec<String> {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--net", "--target", &self.0.id().to_string()]);
        let output = command.args(["/usr/sbin/rpcinfo", "-p", "127.0.0.1"]).output().expect("rpcinfo runs");
        assert!(output.status.success(), "rpcinfo: {}", String::from_utf8_lossy(&output.stderr));
        let program = PROGRAM.to_string();
        let mut known: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| line.trim().strip_prefix(&program).map(str::to_owned))
            .map(|rest| rest.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        known.sort();
        known
    }
}

impl Drop for Rpcbind {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn nothing(_: &Request, _: &mut Reply) -> Result<(), strait_flexrpc::ServiceError> {
    Ok(())
}

fn start(rpcbind: PathBuf) -> std::io::Result<Server> {
    let onc = OncOptions { rpcbind: Some(rpcbind), ..OncOptions::default() };
    let options = ServerOptions { onc, ..ServerOptions::default() };
    Server::builder(options).register(PROGRAM, 2, nothing).start()
}

#[test]
fn programs_are_known_while_they_are_served() {
    let rpcbind = Rpcbind::start();
    assert!(rpcbind.known().is_empty());
    let server = start(rpcbind.socket()).expect("the server starts");
    let port = server.address().port();
    let mappings = |version| ["tcp", "udp"].map(|transport| format!("{version} {transport} {port}"));
    assert_eq!(rpcbind.known(), mappings(2));
    server.register(PROGRAM, 5, nothing).expect("rpcbind takes it");
    assert_eq!(rpcbind.known(), [mappings(2), mappings(5)].concat());
    server.shutdown();
    assert!(rpcbind.known().is_empty());
}

#[test]
fn what_a_server_left_behind_is_replaced() {
    let rpcbind = Rpcbind::start();
    let first = start(rpcbind.socket()).expect("the server starts");
    let second = start(rpcbind.socket()).expect("another one starts");
    assert_ne!(first.address(), second.address());
    let port = second.address().port();
    assert_eq!(rpcbind.known(), ["tcp", "udp"].map(|transport| format!("2 {transport} {port}")));
}

#[test]
fn a_server_that_cannot_register_does_not_start_and_says_why() {
    let missing = start("/nonexistent/rpcbind.sock".into()).err().expect("no rpcbind").to_string();
    assert!(missing.contains("rpcbind at /nonexistent/rpcbind.sock"), "{missing}");
    // A peer that closes at once, and one that sends nonsense.
    for nonsense in [&b""[..], b"\x80\x00\x00\x04what"] {
        let path = std::env::temp_dir().join(format!("rpcbind-{}.sock", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let peer = std::thread::spawn(move || {
            listener.accept().map(|(mut stream, _)| stream.write_all(nonsense)).expect("somebody connects")
        });
        let refused = start(path.clone()).err().expect("no registration").to_string();
        assert!(refused.contains("registering with rpcbind"), "{refused}");
        let _ = peer.join();
        std::fs::remove_file(path).expect("the socket is there");
    }
}
