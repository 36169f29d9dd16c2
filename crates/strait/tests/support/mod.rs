//! A gateway for one test, and the command to run against it: both the real binary.

pub mod below;
pub mod cases;
pub mod faulty;
pub mod fleet;
pub mod load;
pub mod mounted;
pub mod plugins;
pub mod programs;
pub mod rack;
pub mod requests;
pub mod slurm;
pub mod ssh;
pub mod up;

use std::ffi::OsStr;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use strait_testkit::wait::wait_until;
use strait_testkit::{Process, free_port, spawn_bound};
use tempfile::TempDir;

/// Time limit for starting and ending, on a loaded machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The binary under test.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_strait"))
}

/// `strait serve` on a port of its own; stopped when dropped.
pub struct Gateway {
    /// The process.
    pub process: Process,
    /// `127.0.0.1:PORT`.
    pub address: String,
    /// A directory that is removed with the gateway: its log, a home, data.
    pub dir: TempDir,
}

impl Gateway {
    /// A gateway over a fresh directory of this host.
    pub fn over_files() -> Self {
        Self::start(|dir| vec!["--store".to_owned(), format!("file://{}", fresh(dir, "data").display())])
    }

    /// A gateway over the stores that these flags name.
    pub fn start(flags: impl FnOnce(&Path) -> Vec<String>) -> Self {
        Self::start_with(&[], flags)
    }

    /// As [`Gateway::start`], with these variables in its environment.
    pub fn start_with(environment: &[(&str, String)], flags: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let flags = flags(dir.path());
        let process = Self::spawn(&address, &flags, dir.path(), environment);
        Self { process, address, dir }
    }

    fn spawn(address: &str, flags: &[String], dir: &Path, environment: &[(&str, String)]) -> Process {
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", address]).args(flags).env("HOME", dir).env_remove("STRAIT_LOG");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        // The log may have an earlier gateway's lines.
        let before = std::fs::metadata(dir.join("gateway.log")).map_or(0, |log| log.len() as usize);
        let mut process = Process::spawn("gateway", command, dir).unwrap();
        // Its last line before it answers, so that the log has all that it tells at its start.
        let log = process.log().to_owned();
        let is_told = || {
            std::fs::read_to_string(&log)
                .is_ok_and(|log| log[before..].contains("limit of this process's open"))
        };
        process.wait_ready(DEADLINE, || TcpStream::connect(address).is_ok() && is_told()).unwrap();
        process
    }

    /// Kills it and starts another in its place.
    pub fn replace(&mut self, flags: &[String]) {
        self.process.kill();
        self.process = Self::spawn(&self.address, flags, self.dir.path(), &[]);
    }

    /// The URI of a path in its default store.
    pub fn uri(&self, path: &str) -> String {
        format!("strait://{}{path}", self.address)
    }

    /// The directory of its default store's files, if it is [`Gateway::over_files`].
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A command line of `strait`, run to its end, in the gateway's directory.
    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Run {
        self.run_with(args, b"", &[])
    }

    /// As [`Gateway::run`], with this standard input and environment.
    pub fn run_with<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &[u8],
        environment: &[(&str, &str)],
    ) -> Run {
        let mut command = command(self.dir.path());
        command.args(args).envs(environment.iter().copied());
        Run::of(command, input)
    }
}

/// `strait` without any configuration from the environment.
pub fn command(home: &Path) -> Command {
    let mut command = Command::new(binary());
    for name in
        ["STRAIT_USER", "STRAIT_PASSWORD", "STRAIT_STORE", "STRAIT_LOG", "XDG_CACHE_HOME", "HADOOP_USER_NAME"]
    {
        command.env_remove(name);
    }
    command.env("HOME", home).env("TZ", "UTC").current_dir(home);
    command
}

/// The outcome of one command line.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: Vec<u8>,
    /// Without notices about waiting, which appear whenever a busy host is slow.
    pub stderr: String,
}

impl Run {
    /// Runs it.
    pub fn of(mut command: Command, input: &[u8]) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn_bound(command).unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // The test doesn't fail if the child doesn't read all of it.
        let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        writing.join().unwrap();
        let told = String::from_utf8(stderr).unwrap();
        let stderr = told.split_inclusive('\n').filter(|line| !is_of_waiting(line)).collect();
        Self { code: code(status), stdout, stderr }
    }

    /// Its standard output; fails unless it succeeded.
    #[track_caller]
    pub fn text(&self) -> &str {
        self.ok();
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Fails unless it succeeded without output on standard error.
    #[track_caller]
    pub fn ok(&self) -> &Self {
        assert!(self.code == 0 && self.stderr.is_empty(), "exit code {}: {}", self.code, self.stderr);
        self
    }

    /// Fails unless it ended with this code and one line that contains `words`.
    #[track_caller]
    pub fn fails(&self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{}", self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "one line: {}", self.stderr);
        assert!(self.stderr.starts_with("strait: ") && self.stderr.contains(words), "{}", self.stderr);
    }
}

/// Whether a line on standard error is only a notice about a slow store.
fn is_of_waiting(line: &str) -> bool {
    line.contains(" hasn't answered for ") && line.contains("; still waiting")
}

/// An exit code, or 128 and the signal's number, as in shells.
pub fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// A new directory.
pub fn fresh(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// The exit code of a process that is about to end.
#[track_caller]
pub fn ended(process: &mut Process) -> i32 {
    let mut status = None;
    wait_until(DEADLINE, || {
        status = process.try_wait();
        status.is_some()
    });
    code(status.unwrap_or_else(|| panic!("it doesn't end:\n{}", process.log_tail())))
}
