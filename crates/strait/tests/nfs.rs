//! `strait nfs`, used by the tools of libnfs, which know nothing of it.

use crate::support::up::Up;
use crate::support::{self, DEADLINE, Run, ended, fresh};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use strait_testkit::{MiniHdfs, Process, free_port, skip, spawn_bound};
use tempfile::TempDir;

/// A server of a store; stopped when dropped.
struct Served {
    process: Process,
    port: u16,
    flags: Vec<String>,
    dir: TempDir,
}

impl Served {
    /// None, and a skipped claim, without libnfs's tools.
    fn of(claim: &str, store: &str, flags: &[&str]) -> Option<Self> {
        if Command::new("nfs-ls").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            skip(claim, "libnfs-utils");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let port = free_port();
        let own = ["--store", store].into_iter().chain(flags.iter().copied());
        let flags: Vec<String> = own.map(str::to_owned).collect();
        let process = Self::spawn(dir.path(), port, &flags);
        Some(Self { process, port, flags, dir })
    }

    fn spawn(dir: &Path, port: u16, flags: &[String]) -> Process {
        let address = format!("127.0.0.1:{port}");
        let mut command = support::command(dir);
        command.args(["nfs", "--listen", &address]).args(flags);
        let mut process = Process::spawn("nfs", command, dir).unwrap();
        process.wait_ready(DEADLINE, || TcpStream::connect(&address).is_ok()).unwrap();
        process
    }

    /// Kills it, and starts another in its place.
    fn replace(&mut self) {
        self.process.kill();
        self.process = Self::spawn(self.dir.path(), self.port, &self.flags);
    }

    /// libnfs mounts the path before the last slash. It doesn't take an empty one for `/`.
    fn url(&self, path: &str) -> String {
        let Self { port, .. } = self;
        format!("nfs://127.0.0.1/{path}?nfsport={port}&mountport={port}")
    }

    /// What a tool prints.
    #[track_caller]
    fn tool(&self, name: &str, arguments: &[&str]) -> Vec<u8> {
        let Output { status, stdout, stderr } = Command::new(name).args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{name} {arguments:?}: {told}\n{}", self.process.log_tail());
        stdout
    }
}

/// Bytes that no two places share.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

/// Copies a file there and back, and lists and prints it.
fn used_by_libnfs(served: &mut Served) {
    let (local, back) = (served.dir.path().join("local"), served.dir.path().join("back"));
    let bytes = content(20_000_123);
    fs::write(&local, &bytes).unwrap();
    let (local, back) = (local.to_str().unwrap(), back.to_str().unwrap());
    served.tool("nfs-cp", &[local, &served.url("/copy")]);
    let listed = String::from_utf8(served.tool("nfs-ls", &[&served.url("/")])).unwrap();
    assert!(listed.contains("20000123") && listed.contains("copy"), "{listed}");
    served.replace();
    assert!(served.tool("nfs-cat", &[&served.url("/copy")]) == bytes, "the bytes differ");
    served.tool("nfs-cp", &[&served.url("/copy"), back]);
    assert!(fs::read(back).unwrap() == bytes, "the bytes differ");
}

#[test]
fn libnfs_copies_files_of_a_directory_there_and_back() {
    let data = tempfile::tempdir().unwrap();
    let store = format!("file://{}", data.path().display());
    let Some(mut served) = Served::of("NFS of a directory", &store, &["--no-root-squash"]) else { return };
    used_by_libnfs(&mut served);
    assert!(fs::read(data.path().join("copy")).unwrap() == content(20_000_123));
    let below = fresh(data.path(), "deep/er");
    fs::write(below.join("file with a space"), "text").unwrap();
    let listed = served.tool("nfs-ls", &[&served.url("/deep/er/")]);
    assert!(String::from_utf8(listed).unwrap().contains("file with a space"));
    served.process.signal(rustix::process::Signal::TERM);
    assert_eq!(ended(&mut served.process), 0, "{}", served.process.log_tail());
}

#[test]
fn libnfs_copies_files_of_kadoop_there_and_back() {
    let up = Up::start();
    let (store, key) = (format!("{}/", up.kadoop()), up.data().join("kadoop.key"));
    let flags = ["--no-root-squash", "--kadoop-key", key.to_str().unwrap()];
    let Some(mut served) = Served::of("NFS of Kadoop", &store, &flags) else { return };
    used_by_libnfs(&mut served);
    let run = up.run(["cat", &up.uri("/copy")], b"");
    assert!(run.ok().stdout == content(20_000_123), "the bytes differ");
}

/// A client of libnfs writes, connects again by itself, and opens nothing anew. Another server takes the place of
/// each that is killed meanwhile.
fn written_while_servers_are_killed(mut served: Served) {
    const PIECES: usize = 3;
    const PIECE_BYTES: usize = 300_000;
    let mut writer = Command::new("python3");
    writer.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/nfs_writer.py"));
    writer.args([&served.url("/"), "/written", &PIECES.to_string()]);
    writer.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = spawn_bound(writer).unwrap();
    let (mut goes_on, told) = (writer.stdin.take().unwrap(), writer.stdout.take().unwrap());
    let begin = Instant::now();
    for (piece, line) in BufReader::new(told).lines().enumerate() {
        assert_eq!(line.unwrap(), piece.to_string());
        served.replace();
        writeln!(goes_on).unwrap();
    }
    assert!(writer.wait().unwrap().success(), "{}", served.process.log_tail());
    // The store keeps a dead client's file for 60 s, but not from its session.
    assert!(begin.elapsed() < Duration::from_secs(50), "{:?}", begin.elapsed());
    let pieces: Vec<u8> = (b'a'..).take(PIECES).flat_map(|letter| vec![letter; PIECE_BYTES]).collect();
    assert!(served.tool("nfs-cat", &[&served.url("/written")]) == pieces, "the bytes differ");
}

#[test]
fn a_killed_server_leaves_its_files_of_kadoop_to_the_next_one() {
    let up = Up::start();
    let (store, key) = (format!("{}/", up.kadoop()), up.data().join("kadoop.key"));
    let flags = ["--no-root-squash", "--kadoop-key", key.to_str().unwrap()];
    let Some(served) = Served::of("takeover of NFS on Kadoop", &store, &flags) else { return };
    written_while_servers_are_killed(served);
}

#[test]
fn a_killed_server_leaves_its_files_of_hdfs_to_the_next_one() {
    let hdfs = MiniHdfs::start().unwrap();
    let store = format!("{}{}", hdfs.uri(), hdfs.scratch("nfs"));
    let home = tempfile::tempdir().unwrap();
    let mut mkdir = support::command(home.path());
    mkdir.args(["mkdir", &store]);
    Run::of(mkdir, b"").ok();
    let user = format!("0={}", strait_testkit::current_user());
    let flags = ["--no-root-squash", "--map-uid", &user];
    let Some(served) = Served::of("takeover of NFS on HDFS", &store, &flags) else { return };
    written_while_servers_are_killed(served);
}

#[test]
fn links_of_a_directory_do_not_lead_out_of_it() {
    let data = tempfile::tempdir().unwrap();
    let below = fresh(data.path(), "served/below");
    fs::write(data.path().join("secret"), "secret").unwrap();
    fs::write(data.path().join("served/file"), "text").unwrap();
    std::os::unix::fs::symlink("../..", below.join("out")).unwrap();
    std::os::unix::fs::symlink("../file", below.join("within")).unwrap();
    let store = format!("file://{}/served", data.path().display());
    let Some(served) = Served::of("NFS and links", &store, &["--no-root-squash"]) else { return };
    let cat = |path| Command::new("nfs-cat").arg(served.url(path)).output().unwrap().stdout;
    assert_eq!(cat("/below/within"), b"text");
    assert_eq!(cat("/below/out/secret"), b"");
}

#[test]
fn a_caller_is_the_user_of_its_socket_and_root_is_nobody() {
    if !rustix::process::geteuid().is_root() {
        skip("NFS for several users", "root");
        return;
    }
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("file"), "text").unwrap();
    let store = format!("file://{}", data.path().display());
    let Some(squashing) = Served::of("NFS for several users", &store, &[]) else { return };
    let flags = ["--no-root-squash", "--map-uid", "4711=ada"];
    let Some(served) = Served::of("NFS for several users", &store, &flags) else { return };
    // Whether a process of this user, which claims to be that one, gets the file.
    let gets = |served: &Served, user: u32, claimed: u32| {
        let url = format!("{}&uid={claimed}", served.url("/file"));
        let output = Command::new("nfs-cat").arg(url).uid(user).output().unwrap();
        output.status.success() && output.stdout == b"text"
    };
    assert!(!gets(&squashing, 0, 0), "root is squashed");
    assert!(gets(&served, 0, 0) && gets(&served, 4711, 4711));
    assert!(gets(&served, 0, 4711), "root may act for others");
    assert!(!gets(&served, 4711, 0) && !gets(&served, 4712, 4711), "others may not");
    assert!(!gets(&served, 4712, 4712), "the store acts for one user");
    assert!(served.process.log_tail().contains("a call of user 4712"), "{}", served.process.log_tail());
}

#[test]
fn it_listens_beyond_loopback_only_if_it_trusts_every_host() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("file://{}", dir.path().display());
    let run = |flags: &[&str]| {
        let mut command = support::command(dir.path());
        command.args(["nfs", "--store", &store]).args(flags);
        Run::of(command, b"")
    };
    run(&["--listen", "0.0.0.0:0"]).fails(2, "--trust-uids");
    let wrong = run(&["--map-uid", "ada=1000"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("give N=NAME"), "{}", wrong.stderr);
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    run(&["--listen", &taken]).fails(19, &taken);
    fs::write(dir.path().join("file"), "").unwrap();
    let mut command = support::command(dir.path());
    command.args(["nfs", "--store", &format!("{store}/file")]);
    Run::of(command, b"").fails(12, "not a directory");
}

/// rpcbind has fixed names and a fixed port, so it and its clients have a network and a /run of their own.
/// Arguments: the command, the store, a file of the store.
const BY_RPCBIND: &str = r#"
    mount -t tmpfs tmpfs /run && mkdir /run/rpcbind && PATH=$PATH:/usr/sbin:/sbin && ip link set lo up || exit 9
    rpcbind -f & rpcbind=$!
    tries=0; until [ -S /run/rpcbind.sock ]; do tries=$((tries + 1)); [ $tries -lt 400 ] || exit 8; sleep 0.05; done
    "$1" nfs --rpcbind --no-root-squash --listen 127.0.0.1:0 --store "$2" >/dev/null & nfs=$!
    tries=0; until nfs-cat nfs://127.0.0.1//"$3" 2>/dev/null; do
        tries=$((tries + 1)); [ $tries -lt 400 ] || exit 7; sleep 0.05
    done
    echo; showmount --no-headers -e 127.0.0.1 || exit 4
    kill $nfs && wait $nfs || exit 6
    nfs-cat nfs://127.0.0.1//"$3" 2>/dev/null && exit 5
    kill $rpcbind"#;

#[test]
fn clients_find_its_port_by_rpcbind_until_it_ends() {
    let claim = "NFS by rpcbind";
    if !rustix::process::geteuid().is_root() {
        skip(claim, "root");
        return;
    }
    if Command::new("nfs-cat").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        skip(claim, "libnfs-utils");
        return;
    }
    if !Path::new("/usr/sbin/showmount").exists() {
        skip(claim, "nfs-common");
        return;
    }
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("file"), "found").unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", BY_RPCBIND, "sh"]);
    unshare.arg(support::command(data.path()).get_program());
    unshare.args([&format!("file://{}", data.path().display()), "file"]);
    let Output { status, stdout, stderr } = unshare.output().unwrap();
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
    assert_eq!(String::from_utf8(stdout).unwrap(), "found\n/ (everyone)\n");
}
