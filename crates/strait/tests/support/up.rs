//! `strait up` on a directory of its own, and the roles of a cluster as processes.

use crate::support::{DEADLINE, Run, binary, command, ended};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use strait_testkit::wait::wait_until;
use strait_testkit::{Process, free_port};
use tempfile::TempDir;

/// One process with gateway, namenode and datanodes; stopped when dropped.
pub struct Up {
    pub process: Process,
    /// The gateway's address, `127.0.0.1:PORT`.
    pub address: String,
    pub dir: TempDir,
    flags: Vec<String>,
    descriptors: Option<u64>,
}

impl Up {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts it with further flags.
    pub fn with(flags: &[&str]) -> Self {
        Self::start_after(|_| flags.iter().map(|&flag| flag.to_owned()).collect())
    }

    /// Starts it with the flags for the files that `prepare` made in its directory.
    pub fn start_after(prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let flags = prepare(dir.path());
        Self::start_in(dir, flags, None)
    }

    /// Starts it with a hard limit of open files.
    pub fn within(descriptors: u64) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), Vec::new(), Some(descriptors))
    }

    fn start_in(dir: TempDir, flags: Vec<String>, descriptors: Option<u64>) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let process = Self::spawn(dir.path(), &address, &flags, descriptors);
        Self { process, address, dir, flags, descriptors }
    }

    fn spawn(dir: &Path, address: &str, flags: &[String], descriptors: Option<u64>) -> Process {
        let mut args = vec!["up", "--data", "data", "--listen", address];
        args.extend(flags.iter().map(String::as_str));
        match descriptors {
            Some(descriptors) => role_within(descriptors, dir, "up", &args, address),
            None => role(dir, "up", &args, address),
        }
    }

    /// Starts another process on the same directory, after the first has ended.
    pub fn again(&mut self) {
        self.process = Self::spawn(self.dir.path(), &self.address, &self.flags, self.descriptors);
    }

    /// Interrupts it, as Ctrl-C does, and returns its exit code.
    pub fn interrupt(&mut self) -> i32 {
        self.process.signal(Signal::INT);
        ended(&mut self.process)
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn uri(&self, path: &str) -> String {
        format!("strait://{}{path}", self.address)
    }

    /// The embedded namenode's URI, from the start-up block.
    pub fn kadoop(&self) -> String {
        let told = || {
            let log = self.process.log_tail();
            Some(log.lines().rev().find_map(|line| line.split_once("default = "))?.1.to_owned())
        };
        // It accepts connections a moment before it prints this.
        assert!(wait_until(DEADLINE, || told().is_some()), "{}", self.process.log_tail());
        told().unwrap().trim_end_matches('/').to_owned()
    }

    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>, input: &[u8]) -> Run {
        run(self.dir.path(), args, input)
    }
}

/// A command line of `strait` in this directory, run to its end.
pub fn run<A: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = A>, input: &[u8]) -> Run {
    let mut strait = command(dir);
    strait.args(args);
    Run::of(strait, input)
}

/// Starts a server of this name, and waits until it accepts connections.
pub fn role(dir: &Path, name: &str, args: &[&str], address: &str) -> Process {
    ready(command(dir), dir, name, args, address)
}

/// As [`role`], with a hard limit of open files.
pub fn role_within(descriptors: u64, dir: &Path, name: &str, args: &[&str], address: &str) -> Process {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {descriptors}; exec \"$@\""), "sh"]).arg(binary());
    shell.env_remove("STRAIT_LOG").env("HOME", dir).current_dir(dir);
    ready(shell, dir, name, args, address)
}

fn ready(mut command: Command, dir: &Path, name: &str, args: &[&str], address: &str) -> Process {
    command.args(args);
    let mut process = Process::spawn(name, command, dir).unwrap();
    process.wait_ready(DEADLINE, || TcpStream::connect(address).is_ok()).unwrap();
    process
}
