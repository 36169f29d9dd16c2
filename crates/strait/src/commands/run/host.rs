//! A host of `run`: its helper, started by ssh or as a child, and the frames to and from it.

use super::VERSION;
use crate::failure::Failure;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use strait_dispatch::frame::Hello;
use strait_dispatch::{Frame, Frames, joblog};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Time for connecting, for sending the program if the host lacks it, and for the helper's first word.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// Time for the rest of a helper's standard error, and the lines of it that are kept.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LAST_LINES: usize = 5;
/// The helper's answer about its program: it is there, or has to be sent.
const HAS_PROGRAM: u8 = b'H';
const NEEDS_PROGRAM: u8 = b'N';

/// What a host tells.
pub enum Event {
    /// It takes so many jobs at once.
    Ready(usize),
    /// A job's output or end.
    Frame(Frame),
    /// Its helper has ended, or can't be started.
    Gone(String),
}

/// How helpers are started.
pub struct Launch {
    /// The ssh command and its options; none: as children of this process.
    ssh: Option<Vec<String>>,
    flags: Vec<String>,
    program: Program,
}

enum Program {
    /// Is on the host, at this path.
    There(String),
    /// Is this file, with this SHA-256, and is sent to hosts that lack it.
    Sent { file: PathBuf, bytes: u64, hash: String },
}

impl Launch {
    /// Helpers that are children of this process.
    pub fn locally(flags: Vec<String>) -> Result<Self, Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::other(format!("finding this program: {error}")))?;
        Ok(Self { ssh: None, flags, program: Program::There(own.display().to_string()) })
    }

    /// Helpers on other hosts, started by the words of `ssh`.
    pub fn by_ssh(ssh: &str, remote: Option<String>, flags: Vec<String>) -> Result<Self, Failure> {
        let words: Vec<String> = ssh.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err(Failure::usage("--ssh: name the ssh command"));
        }
        let program = match remote {
            Some(path) => Program::There(path),
            None => {
                let own = Path::new("/proc/self/exe");
                let program = std::fs::read(own).map_err(|error| Failure::local(error, "read", own))?;
                let hash = Sha256::digest(&program).iter().map(|byte| format!("{byte:02x}")).collect();
                Program::Sent { file: own.to_owned(), bytes: program.len() as u64, hash }
            }
        };
        Ok(Self { ssh: Some(words), flags, program })
    }

    fn command(&self, host: &str) -> Command {
        let mut words: Vec<String> = self.flags.clone();
        words.push("run-helper".to_owned());
        match (&self.ssh, &self.program) {
            (None, Program::There(path)) => {
                let mut command = Command::new(path);
                command.args(words);
                command
            }
            (None, Program::Sent { file, .. }) => {
                let mut command = Command::new(file);
                command.args(words);
                command
            }
            (Some(ssh), program) => {
                let flags: Vec<String> = words.iter().map(|word| joblog::quoted(word)).collect();
                let flags = flags.join(" ");
                let script = match program {
                    Program::There(path) => format!("exec {} {flags}", joblog::quoted(path)),
                    Program::Sent { bytes, hash, .. } => {
                        format!("exec sh -c {}", joblog::quoted(&sending(*bytes, hash, &flags)))
                    }
                };
                let (program, options) =
                    ssh.split_first().map_or(("ssh", &[][..]), |(first, rest)| (first, rest));
                let mut command = Command::new(program);
                // Nobody is there to answer a question, and a new host key is never accepted.
                command.args(options).args(["-T", "-o", "BatchMode=yes", "--", host, &script]);
                command
            }
        }
    }
}

/// The shell script that finds this program on a host, or takes it from its standard input. It runs
/// only a file of the user's own, in a directory of the user's own, whose hash is right.
fn sending(bytes: u64, hash: &str, flags: &str) -> String {
    let machine = std::env::consts::ARCH;
    format!(
        r#"set -e; umask 077
[ "$(uname -s) $(uname -m)" = "Linux {machine}" ] || {{ echo "this host isn't Linux on {machine}: use --remote-strait" >&2; exit 1; }}
d="${{XDG_CACHE_HOME:-$HOME/.cache}}/strait/run"; f="$d/strait-{hash}"
mkdir -p "$d"; chmod 700 "$d"; [ -O "$d" ]
is_right() {{ [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && echo "{hash}  $1" | sha256sum -c --status 2>/dev/null; }}
if is_right "$f"; then printf H; else
printf N; t=$(mktemp "$d/new.XXXXXX"); trap 'rm -f "$t"' EXIT; head -c {bytes} >"$t"
is_right "$t" || {{ echo "the program arrived damaged" >&2; exit 1; }}
chmod 700 "$t"; mv -f "$t" "$f"; trap - EXIT; fi
exec "$f" {flags}"#
    )
}

/// Starts the helper of `host`, sends it the frames of `jobs`, and tells `events` of it. Ends, with the
/// helper, when `jobs` ends.
pub async fn serve(
    launch: Arc<Launch>,
    number: usize,
    host: String,
    jobs: mpsc::UnboundedReceiver<Frame>,
    events: mpsc::Sender<(usize, Event)>,
) {
    let reason = match timeout(START_PATIENCE, Helper::start(&launch, &host)).await {
        Ok(Ok((mut helper, hello))) => {
            if events.send((number, Event::Ready(hello.processors))).await.is_err() {
                return;
            }
            helper.run(number, jobs, &events).await
        }
        Ok(Err(reason)) => reason,
        Err(_) => format!("no helper within {} s", START_PATIENCE.as_secs()),
    };
    // Without a receiver, nobody needs to know.
    let _ = events.send((number, Event::Gone(reason))).await;
}

struct Helper {
    _child: Child,
    input: ChildStdin,
    output: Output,
    errors: Lines<BufReader<ChildStderr>>,
    /// The last lines of its standard error.
    said: VecDeque<String>,
}

/// What a helper sends.
struct Output {
    from: ChildStdout,
    frames: Frames,
}

impl Output {
    /// The next frame; none at the end. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Option<Frame>, String> {
        loop {
            let next = self.frames.take();
            if let Some(frame) = next.map_err(|error| format!("it sent {error}"))? {
                return Ok(Some(frame));
            }
            match self.from.read_buf(self.frames.buffer()).await {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(format!("the connection failed: {error}")),
            }
        }
    }
}

impl Helper {
    async fn start(launch: &Launch, host: &str) -> Result<(Self, Hello), String> {
        let mut command = launch.command(host);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A helper ends at the end of its input, and ends its commands. Killed, it couldn't.
        command.kill_on_drop(launch.ssh.is_some());
        // A Ctrl-C is for this process, which ends the helpers.
        command.process_group(0);
        let name = command.as_std().get_program().display().to_string();
        let mut child = command.spawn().map_err(|error| format!("{name} can't be started: {error}"))?;
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the helper has no pipes".to_owned());
        };
        let errors = BufReader::new(errors).lines();
        let output = Output { from: output, frames: Frames::default() };
        let mut helper = Self { _child: child, input, output, errors, said: VecDeque::new() };
        match helper.greeted(launch).await {
            Ok(hello) if hello.version == VERSION => Ok((helper, hello)),
            Ok(hello) => Err(format!("its strait is {}, and this is {VERSION}", hello.version)),
            Err(reason) => Err(helper.last_words(reason).await),
        }
    }

    async fn greeted(&mut self, launch: &Launch) -> Result<Hello, String> {
        let broken = |error: io::Error| format!("the connection failed: {error}");
        if let (Some(_), Program::Sent { file, .. }) = (&launch.ssh, &launch.program) {
            match self.output.from.read_u8().await {
                Ok(HAS_PROGRAM) => {}
                Ok(NEEDS_PROGRAM) => {
                    let mut program = File::open(file).await.map_err(broken)?;
                    tokio::io::copy(&mut program, &mut self.input).await.map_err(broken)?;
                }
                Ok(_) => {
                    return Err("the shell's start-up files print something on standard output".to_owned());
                }
                Err(_) => return Err("the helper can't be started".to_owned()),
            }
        }
        match self.output.next().await? {
            Some(Frame::Hello(hello)) => Ok(hello),
            _ => Err("the helper can't be started".to_owned()),
        }
    }

    /// What ssh or the helper wrote to standard error at its end, else `reason`.
    async fn last_words(&mut self, reason: String) -> String {
        while let Ok(Ok(Some(line))) = timeout(LAST_WORDS, self.errors.next_line()).await {
            self.hear(&line);
        }
        let said: Vec<String> = self.said.drain(..).collect();
        if said.is_empty() { reason } else { said.join("; ") }
    }

    fn hear(&mut self, line: &str) {
        let line = line.trim();
        if !line.is_empty() {
            self.said.push_back(line.to_owned());
        }
        if self.said.len() > LAST_LINES {
            self.said.pop_front();
        }
    }

    async fn run(
        &mut self,
        number: usize,
        mut jobs: mpsc::UnboundedReceiver<Frame>,
        events: &mpsc::Sender<(usize, Event)>,
    ) -> String {
        loop {
            tokio::select! {
                job = jobs.recv() => match job {
                    Some(job) => {
                        if let Err(error) = self.input.write_all(&job.encode()).await {
                            return self.last_words(format!("the connection failed: {error}")).await;
                        }
                    }
                    None => return "it was ended".to_owned(),
                },
                Ok(Some(line)) = self.errors.next_line() => self.hear(&line),
                frame = self.output.next() => match frame {
                    Ok(Some(frame)) => {
                        if events.send((number, Event::Frame(frame))).await.is_err() {
                            return String::new();
                        }
                    }
                    Ok(None) => return self.last_words("the helper ended".to_owned()).await,
                    Err(reason) => return self.last_words(reason).await,
                },
            }
        }
    }
}
