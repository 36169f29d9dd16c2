use crate::failure::{Failure, Result};
use crate::wait::wait_until;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, set_parent_process_death_signal, waitid,
};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// Most lines of a log that a failure shows.
const TAIL_LINES: usize = 40;

/// A child process that ends with its owner. A drop, also by a test's panic, kills and reaps the child. If
/// this process is killed, the kernel kills the child. The child's output goes to a file.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, with its standard output and error appended to `LOG_DIR/NAME.log`, so that
    /// a restart keeps the earlier output.
    pub fn spawn(name: &str, mut command: Command, log_dir: &Path) -> Result<Self> {
        let log = log_dir.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child =
            spawn_bound(command).map_err(|error| Failure::new(format!("{name} doesn't start: {error}")))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Peak of the child's resident memory in MiB, without the pages of mapped files, which include the
    /// program: a debug build has several times the pages of a release build.
    pub fn most_mib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let kib = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            kib.ok_or_else(|| Failure::new(format!("the status of {} has no {field}", self.name)))
        };
        Ok(kib("VmHWM:")?.saturating_sub(kib("RssFile:")?) / 1024)
    }

    /// The file with the child's output.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of the child's output.
    pub fn log_tail(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    /// The child's exit status, if it has ended.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until `condition` holds.
    ///
    /// # Errors
    /// The process ends first, or `deadline` passes. The error shows the end of its log.
    pub fn wait_ready(&mut self, deadline: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
        let mut ended = None;
        let ready = wait_until(deadline, || {
            ended = self.try_wait();
            ended.is_some() || condition()
        });
        let why = match ended {
            Some(status) => format!("ended at start-up ({status})"),
            None if ready => return Ok(()),
            None => format!("isn't ready after {deadline:?}"),
        };
        Err(Failure::new(format!("{} {why}; the end of its log:\n{}", self.name, self.log_tail())))
    }

    /// Terminates the child (SIGTERM), and kills it if it still runs after `deadline`.
    pub fn terminate(&mut self, deadline: Duration) {
        if self.try_wait().is_none() {
            self.signal(Signal::TERM);
            wait_until(deadline, || self.try_wait().is_some());
        }
        self.kill();
    }

    /// Kills the child (SIGKILL), and waits for its end.
    pub fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends the child a signal, as [`signal_child`] does.
    pub fn signal(&self, signal: Signal) {
        signal_child(&self.child, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a child a signal. After [`Signal::STOP`] it waits until all its threads have stopped: until then, they
/// may still answer a request.
pub fn signal_child(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    // An error means that it has ended already.
    if kill_process(pid, signal).is_ok() && signal == Signal::STOP {
        let either = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), either));
    }
}

/// Spawns a child that the kernel kills when this process ends.
///
/// The kernel kills the child when the *thread* that spawned it ends. A test's thread may end before a
/// cluster that other tests share. So one thread, which lives as long as the process, spawns all children.
pub fn spawn_bound(mut command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::SyncSender<io::Result<Child>>);
    static SPAWNER: Mutex<Option<mpsc::Sender<Order>>> = Mutex::new(None);

    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec it makes only async-signal-safe system calls, and allocates
    // nothing.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before the call above.
            match rustix::process::getppid() == Some(parent) {
                true => Ok(()),
                false => Err(io::ErrorKind::Interrupted.into()),
            }
        });
    }
    let (answer, answered) = mpsc::sync_channel(1);
    let mut spawner = SPAWNER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let orders = spawner.get_or_insert_with(|| {
        let (orders, received) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in received {
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let gone = || io::Error::other("the spawning thread is gone");
    orders.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    #[test]
    fn a_process_ends_with_its_guard_and_not_with_the_thread_that_started_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let process = thread::spawn(move || Process::spawn("sleep", sleeper(), &path).unwrap());
        let mut process = process.join().unwrap();
        assert!(process.try_wait().is_none());
        let pid = process.id();
        drop(process);
        assert!(!exists(pid));
    }

    #[test]
    fn a_process_ends_with_a_panic_of_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let (told, pid) = mpsc::channel();
        let path = dir.path().to_owned();
        let owner = thread::spawn(move || {
            let process = Process::spawn("sleep", sleeper(), &path).unwrap();
            told.send(process.id()).unwrap();
            panic!("on purpose");
        });
        assert!(owner.join().is_err());
        assert!(!exists(pid.recv().unwrap()));
    }

    #[test]
    fn a_failed_start_shows_the_end_of_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such luck >&2; exit 3"]);
        let mut process = Process::spawn("luck", command, dir.path()).unwrap();
        let failure = process.wait_ready(Duration::from_secs(10), || false).unwrap_err();
        assert!(failure.to_string().contains("no such luck"), "{failure}");
    }

    #[test]
    fn a_stopped_process_has_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        let process = Process::spawn("busy", command, dir.path()).unwrap();
        for _ in 0..20 {
            process.signal(Signal::STOP);
            let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
            assert!(status.contains("State:\tT"), "{status}");
            process.signal(Signal::CONT);
        }
    }
}
