//! Kadoop behind the command: `up`, and the roles of a cluster as processes.

use crate::support::below;
use crate::support::up::{Up, role, run};
use crate::support::{self, Gateway, ended};
use bytes::Bytes;
use rustix::process::Signal;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use strait_client::{Options, StraitStore, TokenSink};
use strait_store::contract::{self, Fixture};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, Principal, StorePath};
use strait_testkit::wait::{eventually, obtained_task, wait_until};
use strait_testkit::{Process, free_port, http_request};
use strait_wire::Secret;

const OTHER: i32 = 1;
const NOT_FOUND: i32 = 10;
const PERMISSION_DENIED: i32 = 15;
const USAGE: i32 = 2;
const UNAUTHENTICATED: i32 = 16;
const BUSY: i32 = 19;
const INVALID_ARGUMENT: i32 = 17;
const UNAVAILABLE: i32 = 22;
const CORRUPT: i32 = 23;

fn path(text: &str) -> StorePath {
    StorePath::parse(text).unwrap()
}

fn whoever() -> Principal {
    Principal::new("whoever: the session decides")
}

async fn through(address: &str) -> Arc<dyn FileSystem> {
    Arc::new(StraitStore::connect(address, Options::default()).await.unwrap())
}

/// Runs the suite. The counts go straight to standard error, which the test harness doesn't
/// capture, so that every log has them.
async fn assert_contract(subject: &str, address: &str) {
    let (store, root) = (through(address).await, path("/contract"));
    store.mkdirs(&whoever(), &root, None).await.unwrap();
    let report = contract::run(subject, &Fixture::new(store, root, whoever())).await;
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_keeps_the_contract() {
    let up = Up::start();
    assert_contract("kadoop through the gateway of up", &up.address).await;
}

#[test]
fn targets_below_a_file_are_refused() {
    let up = Up::start();
    below::are_refused(|args, input| up.run(args, input), |path| up.uri(path));
}

#[test]
fn what_was_put_is_there_after_ctrl_c_and_another_start() {
    let mut up = Up::start();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
    up.run(["mkdir", &up.uri("/d")], b"").ok();
    up.run(["put", "-", &up.uri("/d/f")], &content).ok();
    up.run(["put", "--replication", "3", "-", &up.uri("/d/three")], b"on each datanode").ok();
    for _ in 0..2 {
        assert_eq!(up.interrupt(), 0, "{}", up.process.log_tail());
        up.again();
        assert!(up.run(["cat", &up.uri("/d/f")], b"").ok().stdout == content, "other bytes");
        assert_eq!(up.run(["cat", &up.uri("/d/three")], b"").text(), "on each datanode");
    }
    let key = up.data().join("kadoop.key");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(up.data().metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synced_bytes_outlive_a_kill_in_mid_write() {
    let mut up = Up::start();
    let content: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_be_bytes).collect();
    let synced = Arc::new(AtomicUsize::new(0));
    let writing = {
        let (store, content, synced) = (through(&up.address).await, content.clone(), Arc::clone(&synced));
        tokio::spawn(async move {
            let mut writer = store.create(&whoever(), &path("/f"), &CreateOptions::default()).await?;
            let mut written = 0;
            for piece in content.chunks(50_000) {
                writer.append(Bytes::copy_from_slice(piece)).await?;
                written += piece.len();
                if written % 200_000 == 0 {
                    writer.sync().await?;
                    synced.store(written, Ordering::SeqCst);
                }
            }
            std::future::pending::<strait_store::Result<()>>().await
        })
    };
    eventually("half is synced", || synced.load(Ordering::SeqCst) >= content.len() / 2);
    up.process.kill();
    writing.abort();
    let synced = synced.load(Ordering::SeqCst);
    up.again();
    let store = through(&up.address).await;
    // The file's length is known once recovery has closed it.
    let read = obtained_task("all synced bytes", async || {
        match store.read_all(&whoever(), &path("/f"), content.len()).await {
            Ok(bytes) => (bytes.len() >= synced).then_some(bytes),
            Err(error) => {
                assert!(error.retry_safe(), "{error}");
                None
            }
        }
    })
    .await;
    assert!(read == content[..read.len()], "other bytes");
    let mut writer =
        obtained_task("another writer", async || match store.append(&whoever(), &path("/f")).await {
            Err(error) if error.kind() == ErrorKind::Busy => None,
            opened => Some(opened.unwrap()),
        })
        .await;
    writer.append(Bytes::from_static(b"and on")).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(store.stat(&whoever(), &path("/f")).await.unwrap().length, read.len() as u64 + 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_had_flushed_is_closed_by_ctrl_c() {
    let mut up = Up::start();
    let store = through(&up.address).await;
    let mut writer = store.create(&whoever(), &path("/f"), &CreateOptions::default()).await.unwrap();
    writer.append(Bytes::from_static(b"flushed")).await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!(up.interrupt(), 0, "{}", up.process.log_tail());
    up.again();
    assert_eq!(up.run(["cat", &up.uri("/f")], b"").text(), "flushed");
    // The append doesn't wait for a lease to expire.
    let store = through(&up.address).await;
    store.append(&whoever(), &path("/f")).await.unwrap().close().await.unwrap();
}

#[test]
fn a_directory_with_plain_files_is_refused_and_told_how_to_serve() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("events.txt"), "of an earlier version").unwrap();
    let data = dir.path().display().to_string();
    let refused = run(dir.path(), ["up", "--listen", "127.0.0.1:0", "--data", "."], b"");
    refused.fails(INVALID_ARGUMENT, &format!("strait serve --store file://{data}"));
    assert_eq!(dir.path().read_dir().unwrap().count(), 1, "nothing was made in it");
}

#[test]
fn up_on_a_taken_port_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    run(dir.path(), ["up", "--listen", &address, "--data", "data"], b"").fails(BUSY, "in use");
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_namenode_without_datanodes_says_so_and_a_datanode_needs_its_whole_address() {
    let rack = Rack::start(0);
    let none = rack.run(["datanodes", &rack.uri("/")], b"");
    assert_eq!(none.code, 0);
    assert!(none.stdout.is_empty() && none.stderr.contains("no datanode has registered"), "{}", none.stderr);
    let datanode = ["datanode", "--data", "d", "--key"];
    let at =
        |key, namenode| run(rack.dir.path(), [&datanode[..], &[key, "--namenode", namenode]].concat(), b"");
    let half = at("cluster.key", "127.0.0.1");
    assert!(half.code == USAGE && half.stderr.contains("give HOST:PORT"), "{}", half.stderr);
    at("client.key", &rack.namenode).fails(OTHER, "need the cluster's own");
}

#[test]
fn fsck_of_what_it_cannot_see_has_no_verdict() {
    let up = Up::start();
    let fsck = |flags: &[&str]| {
        let fsck = up.run([&["fsck"], flags, &[&up.uri("/absent")]].concat(), b"");
        assert_eq!(fsck.code, NOT_FOUND);
        String::from_utf8(fsck.stdout).unwrap()
    };
    assert_eq!(fsck(&[]), "", "it read nothing");
    assert!(fsck(&["--json"]).contains(r#""healthy":null"#), "{}", fsck(&["--json"]));
}

#[test]
fn nobody_comes_in_without_the_key() {
    let up = Up::start();
    let root = format!("{}/", up.kadoop());
    let key = up.data().join("kadoop.key").display().to_string();
    up.run(["--kadoop-key", &key, "ls", &root], b"").ok();
    up.run(["ls", &root], b"").fails(UNAUTHENTICATED, "--kadoop-key");
    up.run(["--kadoop-key", "missing", "ls", &root], b"").fails(INVALID_ARGUMENT, "--kadoop-key missing");
    let foreign = up.dir.path().join("foreign");
    strait_kadoop_wire::Key::generate().unwrap().save(&foreign).unwrap();
    up.run(["--kadoop-key", "foreign", "ls", &root], b"").fails(UNAUTHENTICATED, "--kadoop-key");
    std::fs::copy(&key, up.dir.path().join("open")).unwrap();
    std::fs::set_permissions(up.dir.path().join("open"), PermissionsExt::from_mode(0o644)).unwrap();
    up.run(["--kadoop-key", "open", "ls", &root], b"").fails(UNAUTHENTICATED, "chmod 600");
    for role in [["namenode", "--data", "n"], ["datanode", "--data", "n"]] {
        let namenode = ["--namenode", up.kadoop().trim_start_matches("kadoop://")].map(str::to_owned);
        let more = if role[0] == "datanode" { &namenode[..] } else { &[] };
        let args = role.iter().map(|&arg| arg.to_owned()).chain(more.iter().cloned());
        up.run(args.chain(["--key".to_owned(), "open".to_owned()]), b"").fails(OTHER, "chmod 600");
    }
}

/// A namenode and datanodes, each in a process of its own.
struct Rack {
    dir: tempfile::TempDir,
    namenode: String,
    processes: Vec<Process>,
}

impl Rack {
    fn start(datanodes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let namenode = format!("127.0.0.1:{}", free_port());
        let listen = ["namenode", "--data", "nn", "--listen", &namenode, "--listen-datanodes", "127.0.0.1:0"];
        let keys = ["--key", "cluster.key", "--key-for-clients", "client.key"];
        let mut processes = vec![role(dir.path(), "namenode", &[&listen[..], &keys].concat(), &namenode)];
        for number in 0..datanodes {
            let (address, data) = (format!("127.0.0.1:{}", free_port()), format!("dn{number}a,dn{number}b"));
            let args = ["datanode", "--data", &data, "--namenode", &namenode, "--listen", &address];
            let more = ["--key", "cluster.key", "--host", "here"];
            processes.push(role(dir.path(), "datanode", &[&args[..], &more].concat(), &address));
        }
        let rack = Self { dir, namenode, processes };
        if datanodes == 0 {
            return rack;
        }
        eventually("all datanodes are there", || {
            let df = rack.run(["df", &rack.uri("/"), "--json"], b"");
            // The store would also accept fewer replicas than requested.
            df.code == 0
                && rack.run(["put", "-f", "--replication", "3", "-", &rack.uri("/probe")], b"x").code == 0
                && rack.run(["locate", &rack.uri("/probe")], b"").text().matches("here").count()
                    == datanodes.min(3)
        });
        rack
    }

    fn uri(&self, path: &str) -> String {
        format!("kadoop://{}{path}", self.namenode)
    }

    /// A gateway over this URI.
    fn gateway(&self, store: &str) -> Gateway {
        let key = self.dir.path().join("client.key").display().to_string();
        Gateway::start(|_| ["--kadoop-key", &key, "--store", store].map(str::to_owned).to_vec())
    }

    fn run<A: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> support::Run {
        let mut strait = support::command(self.dir.path());
        strait.env("STRAIT_KADOOP_KEY", "client.key").args(args);
        support::Run::of(strait, input)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_over_a_cluster_of_processes_keeps_the_contract() {
    let rack = Rack::start(3);
    let gateway = format!("127.0.0.1:{}", free_port());
    let serve = ["--kadoop-key", "client.key", "serve", "--listen", &gateway, "--store"];
    let _serving = role(rack.dir.path(), "gateway", &[&serve[..], &[&rack.uri("/")]].concat(), &gateway);
    assert_contract("kadoop of processes through a gateway", &gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateways_work_for_a_query_ends_at_its_deadline() {
    /// One attempt at the namenode without a deadline takes 10 s.
    const SOON: Duration = Duration::from_secs(6);
    let rack = Rack::start(1);
    let key = rack.dir.path().join("client.key").display().to_string();
    let (metrics, uri) = (format!("127.0.0.1:{}", free_port()), rack.uri("/"));
    let flags = ["--kadoop-key", &key, "--metrics", &metrics, "--store", &uri];
    let gateway = Gateway::start(|_| flags.map(str::to_owned).to_vec());
    let running = || {
        let page = http_request("GET", &metrics, "/metrics").unwrap().body;
        let of_calls = |line: &&str| line.starts_with("strait_gateway_store_calls_running");
        page.lines().filter(of_calls).any(|line| !line.ends_with(" 0"))
    };
    let options = Options { operation_timeout: Some(Duration::from_secs(1)), ..Options::default() };
    let store = StraitStore::connect(&gateway.address, options).await.unwrap();
    store.stat(&whoever(), &path("/probe")).await.unwrap();
    rack.processes[0].signal(Signal::STOP);
    let late = store.stat(&whoever(), &path("/probe")).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut, "{late}");
    assert!(wait_until(SOON, || !running()), "a thread works for a caller that has left");
    rack.processes[0].signal(Signal::CONT);
    store.stat(&whoever(), &path("/probe")).await.unwrap();
}

/// The session's client goes on at another gateway, with its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_by_the_same_session_goes_on_at_another_gateway_after_a_kill() {
    let rack = Rack::start(3);
    let key = |name: &str| rack.dir.path().join(name).display().to_string();
    let start = || {
        let flags = ["--kadoop-key", &key("client.key"), "--token-key", &key("tokens"), "--store"];
        Gateway::start(|_| [&flags[..], &[&rack.uri("/")]].concat().into_iter().map(str::to_owned).collect())
    };
    let (mut first, second) = (start(), start());
    // Before, the namenode doesn't know which datanodes are alive, and recovers nothing.
    eventually("safe mode ends", || rack.processes[0].log_tail().contains("safe mode has ended"));
    let token: Arc<std::sync::Mutex<Option<Secret>>> = Arc::default();
    let keep = Arc::clone(&token);
    let on_token: TokenSink = Arc::new(move |new| *keep.lock().unwrap() = Some(new.token.clone()));
    let with = Options { on_token: Some(on_token), ..Options::default() };
    let before = StraitStore::connect(&first.address, with).await.unwrap();
    let mut writer = before.create(&whoever(), &path("/f"), &CreateOptions::default()).await.unwrap();
    writer.append(Bytes::from_static(b"of the first gateway, ")).await.unwrap();
    writer.flush().await.unwrap();
    let again = Options { token: token.lock().unwrap().clone(), ..Options::default() };
    assert!(again.token.is_some());
    first.process.kill();
    let other = through(&second.address).await;
    let busy = other.append(&whoever(), &path("/f")).await.err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::Busy, "another session: {busy}");
    let begun = std::time::Instant::now();
    let same = StraitStore::connect(&second.address, again).await.unwrap();
    let mut writer = same.append(&whoever(), &path("/f")).await.unwrap();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    writer.append(Bytes::from_static(b"of the second")).await.unwrap();
    writer.close().await.unwrap();
    let read = other.read_all(&whoever(), &path("/f"), 99).await.unwrap();
    assert_eq!(read, b"of the first gateway, of the second");
}

#[test]
fn fsck_tells_what_is_lost_and_every_role_ends_cleanly() {
    let mut rack = Rack::start(3);
    for replication in ["1", "3"] {
        rack.run(
            ["put", "--replication", replication, "-", &rack.uri(&format!("/f{replication}"))],
            b"bytes",
        )
        .ok();
    }
    for data in ["nn", "dn0a", "dn2b"] {
        let mode = rack.dir.path().join(data).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{data}");
    }
    // A file is closed before its last replicas are reported.
    eventually("all replicas are reported", || {
        rack.run(["fsck", &rack.uri("/")], b"").text().starts_with("healthy: 3 files in 1 directories")
    });
    // The datanodes end; the namenode declares them dead after 10 s.
    for process in &mut rack.processes[1..] {
        process.signal(rustix::process::Signal::TERM);
        assert_eq!(ended(process), 0);
    }
    eventually("they are taken for dead", || {
        let fsck = rack.run(["fsck", &rack.uri("/")], b"");
        let told = String::from_utf8(fsck.stdout).unwrap();
        fsck.code == CORRUPT
            && told.contains("/f1\t0\t5\tmissing: 0 of 1")
            && told.contains("CORRUPT: 3 files")
    });
    rack.processes[0].signal(rustix::process::Signal::INT);
    assert_eq!(ended(&mut rack.processes[0]), 0);
}

/// The file is still being written, so the namenode knows no length of its chunk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fsck_tells_of_an_open_file_whose_synced_bytes_have_no_live_replica() {
    let mut rack = Rack::start(3);
    let gateway = rack.gateway(&rack.uri("/"));
    let store = through(&gateway.address).await;
    let mut writer = store.create(&whoever(), &path("/open"), &CreateOptions::default()).await.unwrap();
    writer.append(Bytes::from_static(b"synced")).await.unwrap();
    assert_eq!(writer.sync().await.unwrap(), Some(3), "the gateway tells the number of replicas");
    let fsck = || {
        let fsck = rack.run(["fsck", &rack.uri("/open")], b"");
        (fsck.code, String::from_utf8(fsck.stdout).unwrap())
    };
    eventually("the namenode has settled", || fsck().1.starts_with("healthy: 1 files"));
    let mut datanodes: Vec<Process> = rack.processes.drain(1..).collect();
    datanodes.iter_mut().for_each(Process::kill);
    let fsck = || {
        let fsck = rack.run(["fsck", &rack.uri("/open")], b"");
        (fsck.code, String::from_utf8(fsck.stdout).unwrap())
    };
    eventually("the datanodes count as dead", || {
        let (code, told) = fsck();
        code == CORRUPT && told.contains("/open\t0\t") && told.contains("missing: 0 of 3 replicas")
    });
}

#[test]
fn fsck_of_all_data_finds_a_damaged_replica_and_the_namenode_replaces_it() {
    const LENGTH: usize = 10_000;
    let rack = Rack::start(3);
    rack.run(["put", "--replication", "2", "-", &rack.uri("/f")], &[7; LENGTH]).ok();
    let fsck = |more: &[&str]| {
        let fsck = rack.run([&["fsck", "--data", &rack.uri("/f")], more].concat(), b"");
        (fsck.code, String::from_utf8(fsck.stdout).unwrap())
    };
    let healthy = "healthy: 1 files in 0 directories, 10000 bytes in 1 blocks, 0 missing, \
                   0 with too few replicas; 2 replicas read, 0 damaged\n";
    eventually("both replicas are reported", || fsck(&[]) == (0, healthy.to_owned()));
    let directories = ["dn0a", "dn0b", "dn1a", "dn1b", "dn2a", "dn2b"].map(|name| rack.dir.path().join(name));
    let mut files =
        directories.iter().flat_map(|of| of.read_dir().unwrap()).map(|entry| entry.unwrap().path());
    // Its table follows its bytes, and the probe's replicas are shorter.
    let is_replica = |file: &std::path::PathBuf| file.metadata().unwrap().len() > LENGTH as u64;
    let replica = std::fs::File::options().write(true).open(files.find(is_replica).unwrap()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&replica, b"rot", 5_000).unwrap();
    let (code, told) = fsck(&[]);
    assert_eq!(code, CORRUPT, "{told}");
    assert!(
        told.starts_with("/f\t0\t10000\tdamaged: datanode ") && told.contains("\nDAMAGED: 1 files"),
        "{told}"
    );
    eventually("it is replaced", || fsck(&[]) == (0, healthy.to_owned()));
    let (_, json) = fsck(&["--json"]);
    assert!(json.contains(r#""replicas_read":2"#) && json.contains(r#""damaged_replicas":0"#), "{json}");
    let elsewhere = Gateway::over_files();
    elsewhere.run(["fsck", "--data", &elsewhere.uri("/")]).fails(USAGE, "fsck --data needs a kadoop:// URI");
}

#[test]
fn fsck_calls_nothing_missing_before_the_datanodes_have_reported() {
    let mut rack = Rack::start(1);
    rack.run(["put", "--replication", "1", "-", &rack.uri("/f")], b"bytes").ok();
    for process in rack.processes.iter_mut().rev() {
        process.signal(rustix::process::Signal::TERM);
        assert_eq!(ended(process), 0);
    }
    let listen = ["namenode", "--data", "nn", "--listen", &rack.namenode];
    let more = ["--listen-datanodes", "127.0.0.1:0", "--key", "cluster.key"];
    rack.processes[0] = role(rack.dir.path(), "namenode", &[&listen[..], &more].concat(), &rack.namenode);
    let fsck = rack.run(["fsck", &rack.uri("/")], b"");
    let told = String::from_utf8(fsck.stdout).unwrap();
    assert_eq!(fsck.code, UNAVAILABLE, "{told}");
    assert!(told.contains("/f\t0\t5\tnot reported yet: 0 of 1") && told.contains("safe mode"), "{told}");
    assert!(told.contains(" 0 missing"), "{told}");
    let json = rack.run(["fsck", "--json", &rack.uri("/f")], b"");
    let told = String::from_utf8(json.stdout).unwrap();
    assert!(told.contains(r#""not_reported":1"#) && told.contains(r#""healthy":false"#), "{told}");
    // Clients behind one gateway, or behind two, get the same answer.
    let near = rack.gateway(&rack.uri("/"));
    let far = rack.gateway(&near.uri("/"));
    for gateway in [&near, &far] {
        let fsck = gateway.run(["fsck", &gateway.uri("/")]);
        let told = String::from_utf8(fsck.stdout).unwrap();
        assert_eq!(fsck.code, UNAVAILABLE, "{told}");
        assert!(told.contains("/f\t0\t5\tnot reported yet: 0 of 1"), "{told}");
    }
}

#[test]
fn a_command_waiting_for_an_absent_namenode_says_so() {
    let mut rack = Rack::start(1);
    rack.run(["put", "-", &rack.uri("/f")], b"bytes").ok();
    let gateway = rack.gateway(&rack.uri("/"));
    rack.processes[0].kill();
    let mut ls = support::command(gateway.dir.path());
    ls.args(["ls", &gateway.uri("/")]);
    let mut ls = Process::spawn("ls", ls, gateway.dir.path()).unwrap();
    let store = format!("strait://{} hasn't answered for ", gateway.address);
    eventually("it says what it waits for", || {
        let told = ls.log_tail();
        told.contains(&store) && told.contains(" s: list /; still waiting")
    });
    let args = ["namenode", "--data", "nn", "--listen", &rack.namenode, "--key", "cluster.key"];
    let beside = ["--listen-datanodes", "127.0.0.1:0"];
    rack.processes[0] = role(rack.dir.path(), "namenode", &[&args[..], &beside].concat(), &rack.namenode);
    assert_eq!(ended(&mut ls), 0, "{}", ls.log_tail());
    assert!(ls.log_tail().contains("/f\n"), "{}", ls.log_tail());
}

#[test]
fn the_disk_below_up_counts_once_whoever_asks() {
    let up = Up::start();
    let capacity = |uri: &str| -> u64 {
        let df = up.run(["--kadoop-key", "data/kadoop.key", "df", uri], b"");
        let of = df.text().split('\t').find_map(|part| part.strip_prefix("capacity ")).unwrap();
        of.parse().unwrap()
    };
    let disk = rustix::fs::statvfs(up.data()).unwrap();
    let whole = disk.f_blocks * disk.f_frsize;
    for uri in [up.uri("/"), format!("{}/", up.kadoop())] {
        // Each of the three reports a third, rounded down.
        assert!((whole - 3..=whole).contains(&capacity(&uri)), "{uri}: {} of {whole}", capacity(&uri));
    }
}

#[test]
fn fsck_is_clean_again_after_a_datanode_was_killed_by_itself() {
    let mut rack = Rack::start(4);
    for number in 0..5 {
        rack.run(["put", "--replication", "3", "-", &rack.uri(&format!("/f{number}"))], b"bytes").ok();
    }
    rack.processes[1].kill();
    let fsck = |rack: &Rack| String::from_utf8(rack.run(["fsck", &rack.uri("/")], b"").stdout).unwrap();
    // Copies are made within a moment of its death, so `fsck` rarely sees the gap.
    eventually("it is taken for dead", || {
        let told = rack.run(["datanodes", &rack.uri("/")], b"");
        told.text().contains("dead")
    });
    eventually("its replicas are made anew", || {
        let told = fsck(&rack);
        told.contains("6 blocks, 0 missing, 0 with too few replicas") && told.contains("healthy: ")
    });
    for number in 0..5 {
        assert_eq!(rack.run(["cat", &rack.uri(&format!("/f{number}"))], b"").text(), "bytes");
    }
}

#[test]
fn a_datanode_is_decommissioned_and_missed_by_nobody() {
    let mut rack = Rack::start(3);
    rack.run(["put", "--replication", "2", "-", &rack.uri("/f")], b"bytes").ok();
    // Two datanodes don't suffice for its three replicas.
    rack.run(["rm", &rack.uri("/probe")], b"").ok();
    let cluster = rack.uri("/");
    let listed = |rack: &Rack| rack.run(["datanodes", &rack.uri("/")], b"").text().to_owned();
    let before = listed(&rack);
    assert_eq!(before.matches("\talive\tin service\t").count(), 3, "{before}");
    let header = "DATANODE\tADDRESS\tHOST\tRACK\tSTATE\tSERVICE\tCAPACITY\tUSED\n1\t";
    assert!(before.starts_with(header), "{before}");
    let address = before.lines().nth(1).unwrap().split('\t').nth(1).unwrap().to_owned();
    rack.run(["decommission", "--user", "nobody", &address, &cluster], b"").fails(PERMISSION_DENIED, "");
    rack.run(["decommission", "77", &cluster], b"").fails(NOT_FOUND, "no datanode");
    rack.run(["decommission", "1", "file:///tmp"], b"").fails(USAGE, "kadoop://");
    rack.run(["decommission", &cluster], b"").fails(USAGE, "DATANODE");
    // After some seconds the command reports which files need them.
    let decommission = rack.run(["decommission", &address, "--wait", &cluster], b"");
    assert_eq!(decommission.code, 0, "{decommission:?}");
    assert!(listed(&rack).lines().nth(1).unwrap().contains("\tdecommissioned\t"), "{}", listed(&rack));
    rack.run(["decommission", "--cancel", "1", &cluster], b"").ok();
    assert_eq!(listed(&rack).matches("\tin service\t").count(), 3);
    // All are on one disk, and so equally full.
    let moved = rack.run(["rebalance", &cluster], b"");
    assert_eq!(moved.stdout, b"the rebalance has ended: 0 replicas moved, 0 bytes\n", "{moved:?}");
    rack.processes.clear();
}

/// The number of the last record in a dump of the log.
fn last_record(dump: &support::Run) -> u64 {
    let line: serde_json::Value = serde_json::from_str(dump.text().lines().next_back().unwrap()).unwrap();
    line["sequence"].as_u64().unwrap()
}

/// The number of the latest record that the datanode with this directory knows of, according to its file
/// `heard`: the higher number in the file's two slots.
fn last_heard(directory: &Path) -> u64 {
    let file = std::fs::read(directory.join("heard")).unwrap_or_default();
    let numbers = [16, 4_096 + 16].map(|at| file.get(at..at + 8));
    let numbers = numbers.into_iter().flatten().map(|number| u64::from_le_bytes(number.try_into().unwrap()));
    numbers.max().unwrap_or(0)
}

#[test]
fn after_an_older_copy_of_the_namenode_an_operator_decides() {
    let mut rack = Rack::start(1);
    let (data, kept) = (rack.dir.path().join("nn"), rack.dir.path().join("kept"));
    let stop = |rack: &mut Rack| drop(rack.processes.remove(0));
    let start = |rack: &mut Rack| {
        let listen = ["namenode", "--data", "nn", "--listen", &rack.namenode];
        let more = ["--listen-datanodes", "127.0.0.1:0", "--key", "cluster.key"];
        rack.processes
            .insert(0, role(rack.dir.path(), "again", &[&listen[..], &more].concat(), &rack.namenode));
    };
    stop(&mut rack);
    std::fs::create_dir(&kept).unwrap();
    for entry in std::fs::read_dir(&data).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), kept.join(entry.file_name())).unwrap();
    }
    start(&mut rack);
    for path in ["/a", "/b"] {
        rack.run(["put", "--replication", "1", "-", &rack.uri(path)], b"lost").ok();
    }
    let all = rack.uri("/");
    let listed = |rack: &Rack| rack.run(["datanodes", &all], b"").text().to_owned();
    assert!(!listed(&rack).contains("refused"), "{}", listed(&rack));
    let last = last_record(&rack.run(["--json", "kadoop-log", "dump", "nn"], b""));
    let remembers = || last_heard(&rack.dir.path().join("dn0a")) >= last;
    eventually("the datanode has stored that it knows of the last record", remembers);
    stop(&mut rack);
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&kept, &data).unwrap();
    start(&mut rack);
    let mkdir = |rack: &Rack| rack.run(["mkdir", &rack.uri("/new")], b"");
    eventually("it is refused", || listed(&rack).contains("\trefused\t"));
    mkdir(&rack).fails(UNAVAILABLE, "an older copy of the namenode's directory");
    let told = listed(&rack);
    let (row, why) = (told.lines().nth_back(1).unwrap(), told.lines().next_back().unwrap());
    assert!(why.contains(" is refused: ") && why.contains("strait admit"), "{told}");
    let json = rack.run(["--json", "datanodes", &all], b"");
    assert!(json.text().contains("\"admissible\":true"), "{json:?}");
    let identity = row.split('\t').next().unwrap().to_owned();
    rack.run(["admit", "77", &all], b"").fails(NOT_FOUND, "no refused datanode");
    rack.run(["admit", &all], b"").fails(USAGE, "DATANODE");
    rack.run(["admit", "--user", "nobody", &identity, &all], b"").fails(PERMISSION_DENIED, "");
    rack.run(["admit", &identity, &all], b"").ok();
    eventually("it is taken up", || listed(&rack).contains("\talive\t"));
    mkdir(&rack).ok();
    rack.processes.clear();
}

#[test]
fn a_role_says_which_directory_or_address_another_process_has() {
    let rack = Rack::start(1);
    let start = |role: &str, data: &str, listen: &str, more: &[&str]| {
        let args = [role, "--data", data, "--listen", listen, "--key", "cluster.key"];
        rack.run([&args[..], more].concat(), b"")
    };
    let (any, taken) = ("127.0.0.1:0", rack.namenode.as_str());
    let beside = ["--listen-datanodes", any];
    start("namenode", "nn", any, &beside).fails(BUSY, "nn is in use by another process");
    start("namenode", "other", taken, &beside).fails(BUSY, taken);
    let namenode = ["--namenode", taken];
    start("datanode", "dn0a", any, &namenode).fails(BUSY, "dn0a is in use by another process");
    start("datanode", "another", taken, &namenode).fails(BUSY, taken);
}

#[test]
fn a_datanode_says_why_it_isnt_taken_up_and_when_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let [namenode, early, foreign] = [(), (), ()].map(|()| format!("127.0.0.1:{}", free_port()));
    let datanode = |data: &str, key: &str, address: &str| {
        let args = ["datanode", "--data", data, "--namenode", &namenode, "--listen", address, "--key", key];
        role(dir.path(), data, &args, address)
    };
    for key in ["cluster.key", "foreign.key"] {
        strait_kadoop_wire::Key::generate().unwrap().save(&dir.path().join(key)).unwrap();
    }
    let early = datanode("early", "cluster.key", &early);
    let says = |process: &Process, what: &str| {
        eventually(what, || process.log_tail().contains(what));
    };
    says(&early, "can't be reached");
    let args = ["namenode", "--data", "nn", "--listen", &namenode, "--listen-datanodes", "127.0.0.1:0"];
    let _namenode = role(dir.path(), "nn", &[&args[..], &["--key", "cluster.key"]].concat(), &namenode);
    says(&early, "has accepted this datanode");
    says(&datanode("foreign", "foreign.key", &foreign), "--key");
}

#[test]
fn the_log_is_dumped_beside_a_namenode_that_runs() {
    let up = Up::start();
    up.run(["mkdir", &up.uri("/made")], b"").ok();
    up.run(["put", "-", &up.uri("/made/f")], b"bytes").ok();
    let dump = up.run(["kadoop-log", "dump", "data/namenode"], b"");
    assert!(
        dump.text().lines().any(|line| line.contains("DirectoryMade") && line.contains("made")),
        "{dump:?}"
    );
    let json = up.run(["--json", "kadoop-log", "dump", "data/namenode"], b"");
    assert!(json.text().lines().all(|line| line.starts_with("{\"sequence\":")), "{json:?}");
    let holders = json.text().lines().filter(|line| line.contains("\"holder\":\"")).count();
    assert_eq!(holders, 1, "the gateway's file has one: {json:?}");
    up.run(["kadoop-log", "dump", "data"], b"").fails(OTHER, "data: no namenode has used this directory");
}
