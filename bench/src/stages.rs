//! Measures the stages of programs, any number of which run at the same time.
//!
//! A staged program connects, prints a line, waits for a line, does its work, prints a line, and ends. So the
//! start, which takes long with a JVM, is measured separately from the work, and many programs begin their
//! work at the same time.

use crate::Result;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use strait_testkit::spawn_bound;

/// Seconds of one run of one or more programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// From the start of the first program until all are ready.
    pub startup_s: f64,
    /// From then until all have done their work.
    pub work_s: f64,
    /// From the start of the first program until all have ended.
    pub whole_s: f64,
    /// CPU time of all programs together.
    pub cpu_s: f64,
}

/// Runs staged programs side by side.
pub fn staged(commands: Vec<Command>) -> Result<Times> {
    let begin = Instant::now();
    let mut running = Vec::new();
    for command in commands {
        running.push(Running::start(command, Stdio::piped(), Stdio::piped())?);
    }
    for program in &mut running {
        program.expect_line()?;
    }
    let startup_s = begin.elapsed().as_secs_f64();
    let go = Instant::now();
    for program in &mut running {
        program.go()?;
    }
    for program in &mut running {
        program.expect_line()?;
    }
    let work_s = go.elapsed().as_secs_f64();
    let mut cpu_s = 0.0;
    for program in &mut running {
        cpu_s += program.end()?;
    }
    Ok(Times { startup_s, work_s, whole_s: begin.elapsed().as_secs_f64(), cpu_s })
}

/// Runs programs without stages side by side.
pub fn whole(commands: Vec<Command>) -> Result<Times> {
    let begin = Instant::now();
    let mut running = Vec::new();
    for command in commands {
        running.push(Running::start(command, Stdio::null(), Stdio::null())?);
    }
    let mut cpu_s = 0.0;
    for program in &mut running {
        cpu_s += program.end()?;
    }
    Ok(Times { whole_s: begin.elapsed().as_secs_f64(), cpu_s, ..Times::default() })
}

/// A running program. Dropping it kills the program if it hasn't ended.
struct Running {
    name: String,
    child: Child,
    /// Its standard error, shown if it fails.
    errors: File,
}

impl Running {
    fn start(mut command: Command, input: Stdio, output: Stdio) -> Result<Self> {
        let errors = tempfile::tempfile()?;
        command.stdin(input).stdout(output).stderr(errors.try_clone()?);
        let name = format!("{command:?}");
        Ok(Self { name, child: spawn_bound(command)?, errors })
    }

    /// Waits for one line. Reads byte by byte, so that it doesn't consume later lines.
    fn expect_line(&mut self) -> Result<()> {
        let output = self.child.stdout.as_mut().ok_or("no pipe from a program")?;
        match BufReader::with_capacity(1, output).read_line(&mut String::new())? {
            0 => self.failed("it ended too early"),
            _ => Ok(()),
        }
    }

    fn go(&mut self) -> Result<()> {
        Ok(self.child.stdin.as_mut().ok_or("no pipe to a program")?.write_all(b"\n")?)
    }

    /// Waits for the program's end, and returns its CPU seconds.
    fn end(&mut self) -> Result<f64> {
        let id = self.child.id();
        let pid = Pid::from_raw(i32::try_from(id)?).ok_or("a child without an id")?;
        // The CPU time is readable until `Child::wait` below.
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        let cpu_s = cpu_seconds(id)?;
        let status = self.child.wait()?;
        if status.success() { Ok(cpu_s) } else { self.failed(&status.to_string()) }
    }

    fn failed<T>(&mut self, why: &str) -> Result<T> {
        let mut said = String::new();
        self.errors.rewind()?;
        self.errors.read_to_string(&mut said)?;
        Err(format!("{why}: {}\n{said}", self.name).into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ignore errors: the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU seconds that a process has used so far, in steps of 1/100.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    cpu_parts(pid).map(|[user, system]| user + system)
}

/// As [`cpu_seconds`], in user mode and in the kernel. The sum is exact; the parts are only the kernel's
/// estimate by samples.
pub fn cpu_parts(pid: u32) -> Result<[f64; 2]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields 14 and 15. The second field is a name in brackets that may contain anything.
    let mut fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    let mut next = || -> Result<f64> {
        let ticks: u64 = fields.next().ok_or("too few fields in /proc/PID/stat")?.parse()?;
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    };
    Ok([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn work_begins_when_all_are_ready() {
        let slow = shell("sleep 0.2; echo ready; read go; echo done");
        let quick = shell("echo ready; read go; echo done; sleep 0.1");
        let times = staged(vec![quick, slow]).unwrap();
        assert!(times.startup_s >= 0.2);
        assert!(times.work_s < times.whole_s - 0.2);
    }

    #[test]
    fn cpu_time_is_counted() {
        let times = whole(vec![shell("n=0; while [ $n -lt 200000 ]; do n=$((n + 1)); done")]).unwrap();
        assert!(times.cpu_s > 0.0 && times.cpu_s <= times.whole_s + 0.02);
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        assert!(whole(vec![shell("exit 3")]).is_err());
        assert!(staged(vec![shell("exit 0")]).is_err());
    }
}
