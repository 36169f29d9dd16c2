//! What commands print, and how they end: to standard output in order, and to the job log.

use super::inputs::Found;
use crate::cli::Run;
use crate::failure::Failure;
use crate::format::escaped;
use crate::messages::Messages;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strait_dispatch::frame::Exit;
use strait_dispatch::{Entry, joblog};

/// Bytes of a command's output in memory; what is more goes to a temporary file.
const IN_MEMORY: usize = 256 << 10;
/// Longest line of standard error that is kept until its end comes.
const LINE_BYTES: usize = 8 << 10;

/// See the module.
pub struct Outcomes {
    messages: Messages,
    tag: bool,
    unordered: bool,
    log: Option<(PathBuf, File)>,
    inputs: Vec<State>,
    /// The first input whose output isn't printed.
    next: usize,
    failed: usize,
    /// Inputs that were read from another host.
    remote: usize,
}

struct State {
    uri: String,
    sequence: usize,
    title: String,
    began: SystemTime,
    is_local: bool,
    output: Spool,
    /// A begun line of standard error.
    line: Vec<u8>,
    has_ended: bool,
}

impl Outcomes {
    /// Nothing has begun.
    pub fn new(flags: &Run, messages: Messages, found: &Found) -> Result<Self, Failure> {
        let state = |(uri, sequence): (&String, &usize)| State {
            uri: uri.clone(),
            sequence: *sequence,
            title: joblog::title(&flags.command, uri),
            began: UNIX_EPOCH,
            is_local: true,
            output: Spool::default(),
            line: Vec::new(),
            has_ended: false,
        };
        let inputs = found.uris.iter().zip(&found.sequences).map(state).collect();
        let log = flags.joblog.clone().map(|path| open_log(path, flags.resume)).transpose()?;
        let (tag, unordered) = (flags.tag, flags.unordered);
        Ok(Self { messages, tag, unordered, log, inputs, next: 0, failed: 0, remote: 0 })
    }

    /// A command begins.
    pub fn begun(&mut self, input: usize, is_local: bool) {
        self.inputs[input].began = SystemTime::now();
        self.inputs[input].is_local = is_local;
    }

    /// A running command printed this.
    pub fn output(&mut self, input: usize, bytes: &[u8]) -> Result<(), Failure> {
        let Some(state) = self.inputs.get_mut(input) else { return Ok(()) };
        state.output.write(bytes).map_err(|error| Failure::local(error, "write to", &std::env::temp_dir()))
    }

    /// A running command printed this to standard error. Lines come with their input's name.
    pub fn errors(&mut self, input: usize, bytes: &[u8]) -> Result<(), Failure> {
        let Some(state) = self.inputs.get_mut(input) else { return Ok(()) };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            state.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || state.line.len() > LINE_BYTES {
                state.tell_line();
            }
        }
        Ok(())
    }

    /// A command is to be repeated: what it printed counts no more.
    pub fn forget(&mut self, input: usize) {
        self.inputs[input].tell_line();
        self.inputs[input].output = Spool::default();
    }

    /// A command has ended for good.
    pub fn ended(&mut self, input: usize, host: &str, exit: &Exit) -> Result<(), Failure> {
        let state = &mut self.inputs[input];
        state.tell_line();
        state.has_ended = true;
        if !exit.is_success() {
            self.failed += 1;
            self.messages.tell(&Failure::other(format!("{}: {}", state.uri, reason(exit))));
        }
        self.remote += usize::from(!state.is_local);
        if let Some((path, log)) = &mut self.log {
            let runtime = state.began.elapsed().unwrap_or_default();
            let entry = Entry {
                sequence: state.sequence,
                host,
                start: state.began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
                runtime: runtime.min(Duration::from_secs(u32::MAX.into())).as_secs_f64(),
                sent: exit.input_bytes,
                received: state.output.bytes,
                // Without an exit of the command there is none that could count as success.
                exit: if exit.failure.is_some() { -1 } else { exit.code },
                signal: exit.signal,
                command: &state.title,
            };
            // One write a line: a line is whole, or it is the last one.
            log.write_all(format!("{entry}\n").as_bytes())
                .map_err(|error| Failure::local(error, "write to", path))?;
        }
        if self.unordered {
            return self.print(input);
        }
        while self.inputs.get(self.next).is_some_and(|state| state.has_ended) {
            self.print(self.next)?;
            self.next += 1;
        }
        Ok(())
    }

    fn print(&mut self, input: usize) -> Result<(), Failure> {
        let state = &mut self.inputs[input];
        let output = std::mem::take(&mut state.output);
        let tag = self.tag.then(|| format!("{}\t", escaped(&state.uri)));
        output.copy_to(&mut io::stdout().lock(), tag.as_deref()).map_err(Failure::output)
    }

    /// The number of failed commands. Tells how many inputs were read from other hosts.
    pub fn finish(self) -> Result<usize, Failure> {
        io::stdout().flush().map_err(Failure::output)?;
        if self.remote > 0 {
            let message =
                format!("{} of {} inputs were read from other hosts", self.remote, self.inputs.len());
            self.messages.warn(&message);
        }
        Ok(self.failed)
    }
}

impl State {
    fn tell_line(&mut self) {
        if !self.line.is_empty() {
            let line = String::from_utf8_lossy(&self.line);
            eprintln!("{}: {}", escaped(&self.uri), escaped(line.trim_end_matches('\n')));
            self.line.clear();
        }
    }
}

fn reason(exit: &Exit) -> String {
    match (&exit.failure, exit.signal) {
        (Some(failure), _) => failure.clone(),
        (None, 0) => format!("the command ended with exit code {}", exit.code),
        (None, signal) => format!("the command was ended by signal {signal}"),
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

/// Bytes in memory, and beyond a bound in a temporary file without a name.
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

    /// Copies all, each line behind the tag.
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
