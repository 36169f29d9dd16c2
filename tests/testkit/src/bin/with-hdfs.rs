//! Starts a real HDFS, and runs a command whose tests all share that HDFS:
//!
//! ```text
//! cargo run -p strait-testkit --bin with-hdfs -- [--datanodes N] COMMAND [ARGUMENT…]
//! ```
//!
//! `MiniHdfs::start` in the command's processes finds the HDFS by environment variables. When the command has
//! ended, this program stops the HDFS, and exits with the command's exit code.

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::env;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use strait_testkit::wait::{pause, wait_until};
use strait_testkit::{Failure, MiniHdfs, Options, Result, spawn_bound};

/// Interval between two checks whether the command has ended, or a signal came.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// After a signal, the command has this long to end what it started.
const CLEANUP: Duration = Duration::from_secs(10);

/// Exit code for wrong usage or a cluster that doesn't start.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("with-hdfs: {failure}");
            ExitCode::from(FAILED)
        }
    }
}

fn run() -> Result<u8> {
    let mut arguments = env::args().skip(1).peekable();
    let mut options = Options::default();
    if arguments.next_if(|argument| argument == "--datanodes").is_some() {
        let count = arguments.next().and_then(|count| count.parse().ok()).filter(|count| *count > 0);
        options.datanodes = count.ok_or_else(|| Failure::new("--datanodes needs a number of at least 1"))?;
    }
    let program =
        arguments.next().ok_or_else(|| Failure::new("usage: with-hdfs [--datanodes N] COMMAND…"))?;

    // At a signal, end the command first, and then the cluster, which removes its directory.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let hdfs = MiniHdfs::start_own(&options)?;
    let mut command = Command::new(&program);
    // In a group of its own, so that a signal reaches all that it runs.
    command.args(arguments).envs(hdfs.environment()).process_group(0);
    let mut child = spawn_bound(command).map_err(|error| Failure::new(format!("{program}: {error}")))?;
    loop {
        if let Some(status) = child.try_wait()? {
            // As in shells: 128 + the number of the signal that ended the command.
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
            return Ok(code as u8);
        }
        if stop.load(Ordering::Relaxed) {
            let _ = kill_process_group(Pid::from_child(&child), Signal::TERM);
            wait_until(CLEANUP, || child.try_wait().is_ok_and(|status| status.is_some()));
            child.kill()?;
        }
        pause("until the next look", POLL_INTERVAL);
    }
}
