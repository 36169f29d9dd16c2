//! Users log in without the clients' key; the namenode and a datanode are separate processes. Tests users'
//! rights, refused logins, how soon a changed or removed password ends a login, and a renewed certificate.

use crate::support::up::{role, run};
use crate::support::{Run, command, fresh};
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;
use strait_testkit::wait::{eventually, pause, within};
use strait_testkit::{Authority, Process, free_port};
use tempfile::TempDir;

const PERMISSION_DENIED: i32 = 15;
const UNAUTHENTICATED: i32 = 16;
const INVALID_ARGUMENT: i32 = 17;

/// A new password is in force after this time.
const TAKEN_UP: Duration = Duration::from_secs(5);
/// Additional time on a loaded machine.
const SLACK: Duration = Duration::from_secs(10);

/// A namenode with logins and one datanode, each a process.
struct Rack {
    dir: TempDir,
    address: String,
    /// The namenode first.
    processes: Vec<Process>,
}

impl Rack {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new().unwrap();
        authority.issue(dir.path()).unwrap();
        authority.write(dir.path()).unwrap();
        for user in ["alice", "bob"] {
            passwd(dir.path(), &[user], &format!("secret of {user}"));
        }
        let [namenode, datanodes, datanode] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
        let args = [
            ["namenode", "--data", "nn"],
            ["--listen", &namenode, "--listen-datanodes"],
            [&datanodes, "--key", "cluster.key"],
            ["--key-for-clients", "client.key", "--superuser"],
            ["chief", "--audit-log", "audit.log"],
            ["--passwords", "passwords", "--tls-cert"],
            ["cert.pem", "--tls-key", "key.pem"],
        ];
        let mut processes = vec![role(dir.path(), "namenode", &args.concat(), &namenode)];
        let args = [
            "datanode",
            "--data",
            "dn",
            "--namenode",
            &namenode,
            "--listen",
            &datanode,
            "--key",
            "cluster.key",
        ];
        processes.push(role(dir.path(), "datanode", &args, &datanode));
        let rack = Self { dir, address: namenode, processes };
        // By the clients' key, as operators do.
        let operator = |args: &[&str]| {
            let all = [&["--kadoop-key", "client.key", "--user", "chief"], args].concat();
            run(rack.dir.path(), all, b"")
        };
        let root = rack.uri("/");
        eventually("the datanode has joined", || {
            // Until then, it says on standard error that none has.
            let nodes = operator(&["datanodes", &root]);
            String::from_utf8_lossy(&nodes.stdout).contains(&datanode)
        });
        operator(&["chmod", "777", &root]).ok();
        rack
    }

    fn uri(&self, path: &str) -> String {
        format!("kadoop://{}{path}", self.address)
    }

    fn namenode_log(&self) -> String {
        self.processes[0].log_tail()
    }

    /// A command of this user, whose password is in a file.
    fn by<A: AsRef<OsStr>>(&self, user: &str, args: impl IntoIterator<Item = A>, input: &[u8]) -> Run {
        let file = format!("password-of-{user}");
        let path = self.dir.path().join(&file);
        if !path.exists() {
            write_private(&path, &format!("secret of {user}\n"));
        }
        let mut strait = command(self.dir.path());
        strait.args(["--user", user, "--password-file", &file, "--tls-ca", "ca.pem"]).args(args);
        Run::of(strait, input)
    }
}

fn passwd(dir: &Path, args: &[&str], password: &str) {
    let all = [&["passwd", "--file", "passwords"], args].concat();
    run(dir, all, format!("{password}\n").as_bytes()).ok();
}

fn write_private(path: &Path, text: &str) {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_user_with_a_password_works_without_the_key() {
    let rack = Rack::start();
    let bytes: Vec<u8> = (0..500_000_u32).flat_map(u32::to_be_bytes).collect();
    rack.by("alice", ["mkdir", &rack.uri("/hers")], b"").ok();
    rack.by("alice", ["chmod", "700", &rack.uri("/hers")], b"").ok();
    let file = rack.uri("/hers/file");
    rack.by("alice", ["put", "--replication", "1", "-", &file], &bytes).ok();
    assert!(rack.by("alice", ["cat", &file], b"").ok().stdout == bytes, "other bytes");
    let listed = rack.by("alice", ["ls", &rack.uri("/hers")], b"");
    assert!(listed.text().contains("alice"), "{}", listed.text());
    // Operations on another's file, or beyond a user's rights.
    rack.by("bob", ["cat", &file], b"").fails(PERMISSION_DENIED, "permission denied");
    rack.by("bob", ["rebalance", &rack.uri("/")], b"").fails(PERMISSION_DENIED, "permission denied");
    rack.by("bob", ["datanodes", &rack.uri("/")], b"").ok();
    // Holders of the key still act as any user they name.
    let key = ["--kadoop-key", "client.key", "--user", "alice", "cat", &file];
    assert!(run(rack.dir.path(), key, b"").ok().stdout == bytes);
    let audit = std::fs::read_to_string(rack.dir.path().join("audit.log")).unwrap();
    assert!(audit.lines().any(|line| line.contains("cmd=login") && line.contains("ugi=alice")), "{audit}");
}

#[test]
fn a_refused_login_names_the_reason() {
    let rack = Rack::start();
    let root = rack.uri("/");
    write_private(&rack.dir.path().join("password-of-bob"), "a guess\n");
    rack.by("bob", ["ls", &root], b"").fails(UNAUTHENTICATED, "password of bob");
    rack.by("carol", ["ls", &root], b"").fails(UNAUTHENTICATED, "password of carol");
    let dir = rack.dir.path();
    run(dir, ["ls", &root], b"").fails(UNAUTHENTICATED, "--tls-ca FILE");
    rack.by("alice", ["ls", &root], b"").ok();
    let without_authority = ["--user", "alice", "--password-file", "password-of-alice", "ls", &root];
    run(dir, without_authority, b"").fails(INVALID_ARGUMENT, "--tls-ca");
    let strange = Authority::new().unwrap().write(&fresh(dir, "strange")).unwrap().display().to_string();
    let strange =
        ["--user", "alice", "--password-file", "password-of-alice", "--tls-ca", &strange, "ls", &root];
    run(dir, strange, b"").fails(UNAUTHENTICATED, "certificate");
    // The log names users and addresses, but no password.
    let log = rack.namenode_log();
    assert!(log.contains("a login failed") && log.contains("carol"), "{log}");
    assert!(!log.contains("a guess") && !log.contains("secret of"), "{log}");
}

/// A running process continues as long as its login is valid.
#[test]
fn a_new_password_or_none_ends_a_running_program_within_seconds() {
    for removed in [false, true] {
        let rack = Rack::start();
        let file = rack.uri("/file");
        let mut strait = command(rack.dir.path());
        write_private(&rack.dir.path().join("password-of-alice"), "secret of alice\n");
        let login = ["--user", "alice", "--password-file", "password-of-alice", "--tls-ca", "ca.pem"];
        strait.args(login).args(["put", "--replication", "1", "--block-size", "1048576", "-", &file]);
        strait.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut put = strait.spawn().unwrap();
        let mut input = put.stdin.take().unwrap();
        let feeding = std::thread::spawn(move || {
            use std::io::Write as _;
            // Writes until it fails: a block about each second, each with a call to the namenode.
            while input.write_all(&[7; 1 << 16]).is_ok() {
                pause("the pace of the input", Duration::from_millis(50));
            }
        });
        eventually("it writes", || rack.by("bob", ["ls", &rack.uri("/")], b"").text().contains("alice"));
        match removed {
            true => passwd(rack.dir.path(), &["--remove", "alice"], ""),
            false => passwd(rack.dir.path(), &["alice"], "another"),
        }
        let mut code = None;
        within("the program ends", TAKEN_UP + SLACK + SLACK, || {
            code = put.try_wait().unwrap();
            code.is_some()
        });
        feeding.join().unwrap();
        assert_ne!(code.unwrap().code(), Some(0), "it fails");
        within("the old password is refused", TAKEN_UP + SLACK, || {
            rack.by("alice", ["ls", &rack.uri("/")], b"").code == UNAUTHENTICATED
        });
        if !removed {
            write_private(&rack.dir.path().join("password-of-alice"), "another\n");
            rack.by("alice", ["ls", &rack.uri("/")], b"").ok();
        }
    }
}

#[test]
fn a_new_certificate_is_taken_up_by_a_namenode_that_runs() {
    let rack = Rack::start();
    let (root, dir) = (rack.uri("/"), rack.dir.path());
    rack.by("alice", ["ls", &root], b"").ok();
    let authority = Authority::new().unwrap();
    let trusted = authority.write(&fresh(dir, "renewed")).unwrap().display().to_string();
    let login =
        ["--user", "alice", "--password-file", "password-of-alice", "--tls-ca", &trusted, "ls", &root];
    run(dir, login, b"").fails(UNAUTHENTICATED, "certificate");
    authority.issue(dir).unwrap();
    within("the new one is shown", TAKEN_UP + SLACK, || run(dir, login, b"").code == 0);
}
