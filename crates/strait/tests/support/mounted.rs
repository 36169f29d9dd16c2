//! A store that `strait mount` shows on a directory of this host. Only root may mount here.

use crate::support::{self, ended, fresh};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use strait_testkit::wait::{eventually, obtained};
use strait_testkit::{Process, skip};
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(30);

/// A store on a directory of this host; unmounted when dropped.
pub struct Mounted {
    pub process: Process,
    pub place: PathBuf,
    pub dir: TempDir,
    uri: String,
    flags: Vec<String>,
    environment: Vec<(String, PathBuf)>,
    processes: u32,
}

impl Mounted {
    /// None, and a skipped claim, where FUSE can't be used.
    pub fn of(claim: &str, uri: &str, flags: &[&str]) -> Option<Self> {
        Self::within(&[], claim, uri, flags)
    }

    /// As [`Mounted::of`], with this environment.
    pub fn within(environment: &[(&str, &Path)], claim: &str, uri: &str, flags: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            skip(claim, "root and /dev/fuse");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let place = fresh(dir.path(), "mnt");
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), value.to_path_buf())).collect();
        let command = command(dir.path(), &environment, &flags, uri, &place);
        let mut process = Process::spawn("mount", command, dir.path()).unwrap();
        process.wait_ready(DEADLINE, || is_mounted(&place)).unwrap();
        Some(Self { process, place, dir, uri: uri.to_owned(), flags, environment, processes: 1 })
    }

    /// The command that mounted, with further flags.
    pub fn command(&self, more: &[&str]) -> Command {
        let mut flags = self.flags.clone();
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        command(self.dir.path(), &self.environment, &flags, &self.uri, &self.place)
    }

    /// Another process takes the mount over, and the one before ends well.
    pub fn take_over(&mut self) {
        self.processes += 1;
        let name = format!("mount{}", self.processes);
        let mut next = Process::spawn(&name, self.command(&["--take-over"]), self.dir.path()).unwrap();
        let taken = next.wait_ready(DEADLINE, || {
            fs::read_to_string(next_log(self.dir.path(), &name))
                .is_ok_and(|told| told.contains("is mounted on"))
        });
        if let Err(failure) = taken {
            panic!("{failure}; the process before: {}", self.process.log_tail());
        }
        let mut before = std::mem::replace(&mut self.process, next);
        assert_eq!(ended(&mut before), 0, "{}", before.log_tail());
        assert!(is_mounted(&self.place));
    }

    /// Kills the process that a keeper started, and waits for the next one.
    pub fn kill_server(&self) {
        let keeper = self.process.id();
        let killed = obtained("a process serves", || server(keeper));
        kill_process(Pid::from_raw(killed as i32).unwrap(), Signal::KILL).unwrap();
        eventually("another process serves", || server(keeper).is_some_and(|next| next != killed));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Runs a shell's commands in the mount.
    pub fn shell(&self, script: &str) -> String {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(&self.place)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {told}\n{}", self.process.log_tail());
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn umount(mut self) {
        unmount(&self.place);
        assert_eq!(ended(&mut self.process), 0, "{}", self.process.log_tail());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.process.log_tail());
        }
        if is_mounted(&self.place) {
            let _ = Command::new("umount").arg("-l").arg(&self.place).status();
        }
    }
}

/// Unmounts. A child that another test's thread has forked holds this process's open files until it runs its
/// program. So the mount may be busy for a moment.
pub fn unmount(place: &Path) {
    eventually("it is unmounted", || Command::new("umount").arg(place).status().unwrap().success());
}

/// The process that a keeper started.
pub fn server(keeper: u32) -> Option<u32> {
    let tasks = fs::read_dir(format!("/proc/{keeper}/task")).ok()?;
    let children = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children.collect::<String>().split_whitespace().next()?.parse().ok()
}

pub fn is_mounted(place: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let wanted = place.to_str().unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(wanted) && line.contains("fuse.strait"))
}

fn next_log(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.log"))
}

fn command(
    home: &Path,
    environment: &[(String, PathBuf)],
    flags: &[String],
    uri: &str,
    place: &Path,
) -> Command {
    let mut command = support::command(home);
    command.arg("mount").args(flags).arg(uri).arg(place);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command
}
