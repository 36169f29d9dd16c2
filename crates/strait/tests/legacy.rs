//! The programs of 2009 (`tests/legacy`), built by Debian's Thrift compiler,
//! get right answers from `strait serve`, on a directory and on HDFS.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use strait_testkit::{MiniHdfs, Process, free_port};
use tempfile::TempDir;

/// Long enough for a loaded machine; a gateway starts in some 10 ms.
const START_DEADLINE: Duration = Duration::from_secs(60);
const GENERATIONS: [&str; 2] = ["early", "later"];
/// Password of the programs' user, who is the user that runs the tests, so that a test HDFS allows
/// writes at its root.
const PASSWORD: &str = "secret of 2009";

/// The programs, built once: `GENERATION/story`, `GENERATION/classes`, and the
/// Java programs' `classpath`.
fn programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("legacy");
        let made = Command::new("make")
            .args(["-s", "-j2", "-C", concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/legacy")])
            .arg(format!("OUT={}", out.display()))
            .env_remove("MAKEFLAGS") // of a make around the tests
            .output()
            .expect("make runs");
        assert!(
            made.status.success(),
            "{}\nscripts/setup.sh test installs what the build needs",
            String::from_utf8_lossy(&made.stderr)
        );
        out
    })
}

/// `strait serve` over one store, with one user in its password file.
struct Served {
    /// The gateway; stopped when dropped.
    _process: Process,
    port: u16,
    user: String,
    dir: TempDir,
}

fn serve(store: &str) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let user = user.trim().to_owned();
    let passwords = dir.path().join("passwords");
    set_password(&passwords, &user);
    let local = dir.path().join("local");
    fs::create_dir(&local).unwrap();

    let port = free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command
        .args(["serve", "--store", store, "--listen", &format!("127.0.0.1:{port}")])
        .arg("--passwords")
        .arg(&passwords)
        .arg("--local-root")
        .arg(&local);
    let mut process = Process::spawn("gateway", command, dir.path()).unwrap();
    process.wait_ready(START_DEADLINE, || TcpStream::connect(("127.0.0.1", port)).is_ok()).unwrap();
    Served { _process: process, port, user, dir }
}

fn set_password(file: &Path, user: &str) {
    let mut passwd = Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["passwd", "--file", file.to_str().unwrap(), user])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(passwd.stdin.take().unwrap(), "{PASSWORD}").unwrap();
    assert!(passwd.wait().unwrap().success());
}

impl Served {
    /// Runs a program to its end; `name` is the name of its directory, in the store and on this
    /// host.
    fn tell(&self, mut program: Command, name: &str, root: &str, wire: &[&str]) {
        let local = self.dir.path().join("local").join(name);
        fs::create_dir(&local).unwrap();
        let run = program
            .args(["127.0.0.1", &self.port.to_string(), &self.user, PASSWORD])
            .arg(format!("{root}/{name}"))
            .arg(&local)
            .args(wire)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(
            run.status.success() && said.trim_end().ends_with("ok    the server outlives closeDfs"),
            "{name}: {said}{}",
            String::from_utf8_lossy(&run.stderr)
        );
    }

    fn tell_all(&self, root: &str) {
        for generation in GENERATIONS {
            let story = || Command::new(programs().join(generation).join("story"));
            self.tell(story(), &format!("{generation}-cpp"), root, &["buffered", "binary"]);
            self.tell(story(), &format!("{generation}-cpp-compact"), root, &["framed", "compact"]);

            let libraries = fs::read_to_string(programs().join("classpath")).unwrap();
            let classes = programs().join(generation).join("classes");
            let mut java = Command::new("java");
            java.args(["-cp", &format!("{}:{}", classes.display(), libraries.trim()), "Story"]);
            self.tell(java, &format!("{generation}-java"), root, &[]);
        }
    }
}

#[test]
fn programs_of_both_generations_get_right_answers_on_a_directory() {
    let data = tempfile::tempdir().unwrap();
    serve(&format!("file://{}", data.path().display())).tell_all("");
}

#[test]
fn programs_of_both_generations_get_right_answers_on_hdfs() {
    let hdfs = MiniHdfs::start().unwrap();
    serve(hdfs.uri()).tell_all(&hdfs.scratch("legacy"));
}
