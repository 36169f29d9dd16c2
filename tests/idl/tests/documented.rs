//! The parts of `docs/flexrpc.md` that its documentation tests can't run: a server in a process of
//! its own, with a key from a file, until a signal arrives; and a client in C.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use strait_flexrpc::stub::{Request, ServiceError};
use strait_flexrpc::{Client, ClientOptions, ClusterKey, Fault, Server, ServerOptions, Transport};
use strait_idl_tests::kv::*;

const PAGE: &str = include_str!("../../../docs/flexrpc.md");

/// The page's block in `language` that contains these words.
fn shown(language: &str, words: &str) -> &'static str {
    let fence = format!("```{language}\n");
    let mut blocks = PAGE.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains(words)).unwrap_or_else(|| panic!("no {language} with '{words}'"))
}

/// Runs commands of the page; stops at the first failure.
fn run(directory: &Path, commands: &str) {
    let output = Command::new("sh").args(["-ec", commands]).current_dir(directory).output();
    let output = output.expect("a shell");
    assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_documented_server_is_the_one_that_is_run() {
    let source = include_str!("../src/bin/kv.rs");
    let rest = shown("rust,ignore", "Signals");
    let store = source.strip_suffix(rest).expect("it ends with what the page shows");
    let store = store.find("#[derive").map(|start| &store[start..]).expect("its state");
    assert!(shown("rust", "struct Store").contains(store));
}

struct Process(Child);

impl Process {
    fn start(key: &Path) -> (Self, SocketAddr) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kv"));
        let mut child =
            command.arg("127.0.0.1:0").arg(key).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        let process = Self(child);
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        (process, line.trim().parse().expect("an address"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn handle(client: &Client, server: SocketAddr) -> strait_flexrpc::Handle {
    client.handle(server, Transport::Tcp).expect("it listens, and knows the key")
}

#[test]
fn a_server_of_two_versions_has_one_state_and_ends_upon_a_signal() {
    let directory = tempfile::tempdir().expect("a directory");
    run(directory.path(), shown("sh", "urandom"));
    let file = directory.path().join("cluster.key");
    assert_eq!(fs::metadata(&file).expect("the key").mode() & 0o777, 0o600);
    let key = ClusterKey::new(&fs::read(&file).expect("the key")).expect("long enough");
    let client = || Client::new(ClientOptions { key: Some(key.clone()), ..ClientOptions::default() });
    for signal in [Signal::TERM, Signal::INT] {
        let (mut process, address) = Process::start(&file);
        let client = client();
        let pair = Pair { k: "sea".into(), v: b"strait"[..].into() };
        KvV1Client::new(handle(&client, address)).kv_put(&pair).expect("it is put");
        let mut second = KvV2Client::new(handle(&client, address));
        assert_eq!(second.kv_get(&"sea".into()), Ok(Found::True(pair.v.clone())));
        second.kv_put(&pair).expect("it is put once more");
        assert_eq!(second.kv_count(), Ok(1));
        assert!(Client::default().handle(address, Transport::Tcp).is_err(), "a caller without the key");
        kill_process(Pid::from_child(&process.0), signal).expect("it runs");
        assert!(process.0.wait().expect("it ends").success(), "{signal:?}");
    }
}

/// A callee that has one value, or fails.
struct Lone {
    fails: bool,
}

impl KvV1Service for Lone {
    fn kv_put(&self, _: &Request, pair: Pair<'static>) -> Result<(), ServiceError> {
        assert_eq!((pair.k.as_bytes(), &pair.v[..]), (&b"sea"[..], &b"strait"[..]));
        Ok(())
    }

    fn kv_get(&self, _: &Request, _: Key<'static>) -> Result<Found<'_>, ServiceError> {
        if self.fails {
            Err(Fault::application(1, "as asked").into())
        } else {
            Ok(Found::True(b"strait"[..].into()))
        }
    }
}

#[test]
fn the_documented_client_in_c_calls_the_same_service() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text| fs::write(directory.path().join(name), text).expect("a file");
    write("kv.x", shown("c", "program KV_PROGRAM"));
    write("client.c", shown("c", "int main"));
    run(directory.path(), shown("sh", "rpcgen kv.x"));
    let call = |fails, key| -> Output {
        let server = Server::builder(ServerOptions { key, ..ServerOptions::default() })
            .register(KvV1Server::<Lone>::PROGRAM, 1, KvV1Server(Lone { fails }))
            .start()
            .expect("it starts");
        let mut command = Command::new(directory.path().join("client"));
        command.arg(server.address().port().to_string()).output().expect("it runs")
    };
    assert_eq!(call(false, None).stdout, b"strait\n");
    let error = |output: Output| {
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("a message")
    };
    let failed = error(call(true, None));
    assert!(failed.contains("RPC: Remote system error"), "{failed}");
    let stranger = error(call(false, ClusterKey::new(&[7; 32]).ok()));
    assert!(stranger.contains("Authentication error"), "{stranger}");
}
