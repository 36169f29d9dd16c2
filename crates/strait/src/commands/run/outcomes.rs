//! Writes the outputs of commands to standard output, in order, and their results to the job log.

use super::inputs::{Found, Wanted};
use crate::cli::Run;
use crate::failure::Failure;
use crate::format::escaped;
use crate::messages::{Messages, say};
use crate::progress::Progress;
use serde_json::json;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strait_dispatch::frame::Exit;
use strait_dispatch::{Entry, Input, joblog};

/// Bytes of a command's output that are kept in memory. A longer output goes to a temporary file.
const IN_MEMORY: usize = 256 << 10;
/// Bytes of a line of standard error that are buffered. A longer line is printed in pieces.
const LINE_BYTES: usize = 8 << 10;

/// The outputs and results of all inputs.
pub struct Outcomes {
    messages: Messages,
    tag: bool,
    framed: bool,
    unordered: bool,
    log: Option<(PathBuf, File)>,
    inputs: Vec<State>,
    /// Running commands, by host and input.
    attempts: HashMap<(usize, usize), Attempt>,
    /// The first input whose output isn't printed yet.
    next: usize,
    failed: usize,
    /// Number of inputs that a host read from another host.
    remote: usize,
    progress: Progress,
}

struct State {
    wanted: Wanted,
    name: String,
    title: String,
    bytes: u64,
    /// Set when the input ended, and printed in its turn.
    ended: Option<Ended>,
}

/// The part of standard output for an input that ended.
#[derive(Default)]
struct Ended {
    /// The line of JSON before the output, if there is one.
    header: Option<String>,
    output: Spool,
    /// Its line in the log.
    entry: Option<String>,
}

/// A running command.
struct Attempt {
    began: SystemTime,
    is_local: bool,
    output: Spool,
    /// An incomplete line of standard error.
    line: Vec<u8>,
}

impl Outcomes {
    /// No command has started.
    pub fn new(flags: &Run, messages: Messages, found: &Found) -> Result<Self, Failure> {
        let state = |(wanted, input): (&Wanted, &Input)| State {
            wanted: wanted.clone(),
            name: wanted.name(),
            title: wanted.title(&flags.command),
            bytes: input.bytes,
            ended: None,
        };
        let inputs: Vec<State> = found.wanted.iter().zip(&found.inputs).map(state).collect();
        let log = flags.joblog.clone().map(|path| open_log(path, flags.resume)).transpose()?;
        // On the same terminal, a progress bar would mix with the lines of output.
        let progress = Progress::new(!messages.json && !io::stdout().is_terminal());
        progress.expect(inputs.len() as u64, inputs.iter().map(|state| state.bytes).sum());
        Ok(Self {
            messages,
            tag: flags.tag,
            framed: flags.framed,
            unordered: flags.unordered,
            log,
            inputs,
            attempts: HashMap::new(),
            next: 0,
            failed: 0,
            remote: 0,
            progress,
        })
    }

    /// Records that a command starts.
    pub fn begun(&mut self, host: usize, input: usize, is_local: bool) {
        let (began, output, line) = (SystemTime::now(), Spool::default(), Vec::new());
        self.attempts.insert((host, input), Attempt { began, is_local, output, line });
    }

    /// Adds to a running command's output.
    pub fn output(&mut self, host: usize, input: usize, bytes: &[u8]) -> Result<(), Failure> {
        let Some(attempt) = self.attempts.get_mut(&(host, input)) else { return Ok(()) };
        attempt.output.write(bytes).map_err(|error| Failure::local(error, "write to", &std::env::temp_dir()))
    }

    /// Receives a running command's bytes of standard error. Prints complete lines, each after its input's
    /// name.
    pub fn errors(&mut self, host: usize, input: usize, bytes: &[u8]) {
        let Some(attempt) = self.attempts.get_mut(&(host, input)) else { return };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            attempt.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || attempt.line.len() > LINE_BYTES {
                attempt.tell_line(&self.inputs[input].name);
            }
        }
    }

    /// Drops a command's output: its input starts again, or another host completed it first.
    pub fn forget(&mut self, host: usize, input: usize) {
        if let Some(mut attempt) = self.attempts.remove(&(host, input)) {
            attempt.tell_line(&self.inputs[input].name);
        }
    }

    /// Records that an input ended. If a command ended it, that command ran on `host`.
    pub fn ended(&mut self, input: usize, host: Option<(usize, &str)>, exit: &Exit) -> Result<(), Failure> {
        let attempt = host.and_then(|(host, _)| self.attempts.remove(&(host, input)));
        let state = &mut self.inputs[input];
        let mut attempt = attempt.unwrap_or_default();
        attempt.tell_line(&state.name);
        if !exit.is_success() {
            self.failed += 1;
            if !self.framed {
                self.messages.tell(&Failure::other(format!("{}: {}", state.name, reason(exit))));
            }
        }
        self.remote += usize::from(!attempt.is_local);
        self.progress.copied(usize::try_from(state.bytes).unwrap_or(usize::MAX));
        self.progress.done();
        let entry = self.log.is_some().then(|| {
            let runtime = attempt.began.elapsed().unwrap_or_default();
            let entry = Entry {
                sequence: state.wanted.sequence,
                host: host.map_or("", |(_, name)| name),
                start: attempt.began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
                runtime: runtime.min(Duration::from_secs(u32::MAX.into())).as_secs_f64(),
                sent: exit.input_bytes,
                received: attempt.output.bytes,
                // If the command couldn't run to its end, its exit code mustn't look like success.
                exit: if exit.failure.is_some() { -1 } else { exit.code },
                signal: exit.signal,
                command: &state.title,
            };
            format!("{entry}\n")
        });
        let host = host.map(|(_, name)| name);
        let header = self.framed.then(|| header(&state.wanted, host, exit, attempt.output.bytes));
        state.ended = Some(Ended { header, output: attempt.output, entry });
        if self.unordered {
            return self.print(input);
        }
        while self.inputs.get(self.next).is_some_and(|state| state.ended.is_some()) {
            self.print(self.next)?;
            self.next += 1;
        }
        Ok(())
    }

    fn print(&mut self, input: usize) -> Result<(), Failure> {
        let state = &mut self.inputs[input];
        let ended = state.ended.replace(Ended::default()).unwrap_or_default();
        let tag = self.tag.then(|| format!("{}\t", escaped(&state.name)));
        let mut out = io::stdout().lock();
        if let Some(header) = ended.header {
            writeln!(out, "{header}").map_err(Failure::output)?;
        }
        ended.output.copy_to(&mut out, tag.as_deref()).map_err(Failure::output)?;
        // After the output: `--resume` leaves out what the log has. One write per line, so that only the last line
        // can be incomplete.
        if let (Some((path, log)), Some(entry)) = (&mut self.log, ended.entry) {
            out.flush().map_err(Failure::output)?;
            log.write_all(entry.as_bytes()).map_err(|error| Failure::local(error, "write to", path))?;
        }
        Ok(())
    }

    /// Returns the number of failed inputs. Warns if hosts read inputs from other hosts.
    pub fn finish(self) -> Result<usize, Failure> {
        self.progress.finish();
        io::stdout().flush().map_err(Failure::output)?;
        if self.remote > 0 {
            let message =
                format!("{} of {} inputs were read from other hosts", self.remote, self.inputs.len());
            self.messages.warn(&message);
        }
        Ok(self.failed)
    }
}

impl Default for Attempt {
    fn default() -> Self {
        Self { began: UNIX_EPOCH, is_local: true, output: Spool::default(), line: Vec::new() }
    }
}

impl Attempt {
    fn tell_line(&mut self, name: &str) {
        if !self.line.is_empty() {
            let line = String::from_utf8_lossy(&self.line);
            say(&format!("{}: {}", escaped(name), escaped(line.trim_end_matches('\n'))));
            self.line.clear();
        }
    }
}

/// The line of JSON before an output. Without `host`, no host could process the input.
fn header(wanted: &Wanted, host: Option<&str>, exit: &Exit, output_bytes: u64) -> String {
    let slice = wanted.slice.as_ref();
    let header = json!({
        "uri": wanted.uri,
        "start": slice.map(|slice| slice.start),
        "end": slice.map(|slice| slice.end),
        "host": host,
        "exit": exit.code,
        "signal": exit.signal,
        "failure": exit.failure,
        "output_bytes": output_bytes,
    });
    header.to_string()
}

fn reason(exit: &Exit) -> String {
    match (&exit.failure, exit.signal) {
        (Some(failure), _) => failure.clone(),
        (None, 0) => format!("the command ended with exit code {}", exit.code),
        (None, signal) => format!("signal {signal} ended the command"),
    }
}

fn open_log(path: PathBuf, append: bool) -> Result<(PathBuf, File), Failure> {
    let open = || {
        let mut log = OpenOptions::new().create(true).append(true).open(&path)?;
        if !append {
            log.set_len(0)?;
        }
        if log.metadata()?.len() == 0 {
            log.write_all(format!("{}\n", joblog::HEADER).as_bytes())?;
        }
        Ok(log)
    };
    let opened = open();
    opened.map(|log| (path.clone(), log)).map_err(|error| Failure::local(error, "open", &path))
}

/// Bytes in memory or, if they exceed [`IN_MEMORY`], in an unnamed temporary file.
#[derive(Default)]
struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
    bytes: u64,
}

impl Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        if self.memory.len() + bytes.len() <= IN_MEMORY && self.file.is_none() {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut file = tempfile::tempfile()?;
                file.write_all(&self.memory)?;
                self.memory = Vec::new();
                self.file.insert(file)
            }
        };
        file.write_all(bytes)
    }

    /// Copies everything, with the tag before each line.
    fn copy_to(mut self, to: &mut impl Write, tag: Option<&str>) -> io::Result<()> {
        let mut begins_line = true;
        let mut copy = |bytes: &[u8]| -> io::Result<()> {
            let Some(tag) = tag else { return to.write_all(bytes) };
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                if begins_line {
                    to.write_all(tag.as_bytes())?;
                }
                to.write_all(line)?;
                begins_line = line.ends_with(b"\n");
            }
            Ok(())
        };
        copy(&self.memory)?;
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(0))?;
            let mut buffer = vec![0; IN_MEMORY];
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    read => copy(&buffer[..read])?,
                }
            }
        }
        to.flush()
    }
}
