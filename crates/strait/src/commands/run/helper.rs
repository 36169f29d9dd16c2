//! The helper of one host: runs the jobs that it reads from standard input, and reports on standard output.
//!
//! Nothing of a job outlives the helper: when its input ends, it kills the process groups of its commands,
//! and removes their copies and the shipped files.

use super::cut;
use super::shipping::Hold;
use crate::commands::pump;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::lent_logins;
use crate::progress::Progress;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use strait_dispatch::frame::{Exit, Hello, Job, OUTPUT_BYTES, Ready, Setup};
use strait_dispatch::{Frame, Frames};
use strait_store::{ErrorKind, encoding};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// Frames queued for standard output. If the dispatcher is slow, the commands block.
const QUEUED_FRAMES: usize = 16;

/// Stands for the path of the input's copy in a command's arguments.
const PLACEHOLDER: &str = "{}";

/// Serves the dispatcher at the other end of standard input and output.
pub async fn helper(context: &Context) -> Result<(), Failure> {
    let (to, mut frames) = mpsc::channel::<Frame>(QUEUED_FRAMES);
    let sending = async move {
        let mut out = tokio::io::stdout();
        while let Some(frame) = frames.recv().await {
            out.write_all(&frame.encode()).await.map_err(Failure::output)?;
            out.flush().await.map_err(Failure::output)?;
        }
        Ok(())
    };
    let serving = async {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let hello = Hello { version: super::VERSION.to_owned(), processors };
        // If the frames can't be sent, `sending` has ended.
        let _ = to.send(Frame::Hello(hello)).await;
        let (mut input, mut received) = (tokio::io::stdin(), Frames::default());
        let mut desk = Desk { context, to, hold: Arriving::Nothing, cancels: HashMap::new(), begun: 0 };
        let mut jobs = FuturesUnordered::new();
        loop {
            while let Some(frame) = received.take().map_err(|error| Failure::other(error.to_string()))? {
                jobs.extend(desk.received(frame).await);
            }
            tokio::select! {
                read = input.read_buf(received.buffer()) => match read {
                    Ok(0) => return Ok(()),
                    Ok(_) => {}
                    Err(error) => return Err(Failure::other(format!("can't read standard input: {error}"))),
                },
                Some((id, serial)) = jobs.next() => desk.ended(id, serial),
            }
        }
    };
    tokio::select! {
        ended = serving => ended,
        failed = sending => failed,
    }
}

/// The files to ship that the setup announced.
enum Arriving {
    /// No files were announced, or receiving them failed.
    Nothing,
    /// Some files are still missing.
    Files(Hold),
    /// All files have arrived.
    Whole(Arc<Hold>),
}

/// The helper's state between two frames of the dispatcher.
struct Desk<'a> {
    context: &'a Context,
    to: mpsc::Sender<Frame>,
    hold: Arriving,
    /// By job: the serial number of its start, and a sender that cancels the job when it is dropped.
    cancels: HashMap<u32, (u64, oneshot::Sender<()>)>,
    /// Number of jobs started so far: the serial number of the latest. The dispatcher may start a job again
    /// before the helper notices that its first start ended.
    begun: u64,
}

impl<'a> Desk<'a> {
    /// Handles a frame. If it is a job, returns the future that runs it.
    async fn received(&mut self, frame: Frame) -> Option<LocalBoxFuture<'a, (u32, u64)>> {
        match frame {
            Frame::Setup(setup) => {
                let ready = self.set_up(setup);
                self.answer(ready).await;
            }
            Frame::Data(file, bytes) => {
                let ready = self.write(file as usize, &bytes);
                self.answer(ready).await;
            }
            Frame::Logins(logins) => self.context.replace_lent_logins(logins),
            Frame::Cancel(id) => drop(self.cancels.remove(&id)),
            Frame::Job(id, job) => {
                let (cancel, cancelled) = oneshot::channel();
                self.begun += 1;
                let serial = self.begun;
                self.cancels.insert(id, (serial, cancel));
                let hold = match &self.hold {
                    Arriving::Whole(hold) => Some(hold.clone()),
                    Arriving::Nothing | Arriving::Files(_) => None,
                };
                let running = run(self.context, id, job, hold, self.to.clone(), cancelled);
                return Some(running.map(move |()| (id, serial)).boxed_local());
            }
            Frame::Hello(_) | Frame::Ready(_) | Frame::Output(..) | Frame::Error(..) | Frame::Exit(..) => {}
        }
        None
    }

    fn ended(&mut self, id: u32, serial: u64) {
        if self.cancels.get(&id).is_some_and(|(current, _)| *current == serial) {
            self.cancels.remove(&id);
        }
    }

    /// Reports that all files have arrived (`Ok(true)`), or that receiving them failed.
    async fn answer(&mut self, done: Result<bool, Failure>) {
        let failure = match done {
            Ok(false) => return,
            Ok(true) => None,
            Err(failure) => {
                self.hold = Arriving::Nothing;
                Some(failure.message().unwrap_or_default())
            }
        };
        let _ = self.to.send(Frame::Ready(Ready { failure })).await;
    }

    fn set_up(&mut self, setup: Setup) -> Result<bool, Failure> {
        if setup.lend_to_commands {
            self.context.share_lent_logins()?;
        }
        if setup.files.is_empty() {
            return Ok(true);
        }
        self.hold = Arriving::Files(Hold::new(setup.files)?);
        self.write(0, &[])
    }

    /// Writes bytes of a file. After the last bytes it checks the digests, and returns true.
    fn write(&mut self, file: usize, bytes: &[u8]) -> Result<bool, Failure> {
        match std::mem::replace(&mut self.hold, Arriving::Nothing) {
            Arriving::Files(mut hold) => {
                hold.write(file, bytes)?;
                let is_whole = hold.is_whole();
                if is_whole {
                    hold.check()?;
                    self.hold = Arriving::Whole(Arc::new(hold));
                } else {
                    self.hold = Arriving::Files(hold);
                }
                Ok(is_whole)
            }
            other => {
                self.hold = other;
                // Receiving the files failed earlier.
                Ok(false)
            }
        }
    }
}

/// Runs one job to its end, and reports how it ended.
async fn run(
    context: &Context,
    id: u32,
    job: Job,
    hold: Option<Arc<Hold>>,
    to: mpsc::Sender<Frame>,
    cancelled: oneshot::Receiver<()>,
) {
    let attempt = async {
        tokio::select! {
            exit = attempt(context, id, &job, hold.as_deref(), &to) => exit,
            _ = cancelled => Err(Failure::other("another host completed this input first")),
        }
    };
    let exit = attempt.await.unwrap_or_else(|failure| Exit {
        retry_elsewhere: match &failure {
            Failure::Error(error) => matches!(
                error.kind(),
                ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::Busy | ErrorKind::Corrupt
            ),
            _ => false,
        },
        failure: Some(failure.message().unwrap_or_default()),
        ..Exit::default()
    });
    let _ = to.send(Frame::Exit(id, exit)).await;
}

async fn attempt(
    context: &Context,
    id: u32,
    job: &Job,
    hold: Option<&Hold>,
    to: &mpsc::Sender<Frame>,
) -> Result<Exit, Failure> {
    let place = context.place(&job.uri).await?;
    let reader = place.fs.open(&place.who, &place.path).await?;
    let range = cut::range(&place, reader.as_ref(), job.slice.as_ref()).await?;
    let input_bytes = range.end - range.start;
    let (progress, path) = (Progress::new(false), place.path.as_str());
    let desk = hold.map(Hold::desk).transpose()?;
    let copy = match job.command.iter().any(|word| word.contains(PLACEHOLDER)) {
        true => {
            let copy = Copy::new(&place)?;
            let failed = |error| copy.failed(error);
            pump::part_out_of_store(reader.as_ref(), range.clone(), path, copy.file()?, &progress, failed)
                .await?;
            Some(copy)
        }
        false => None,
    };
    let lent = context.shared_lent_logins();
    let mut child = Group::spawn(job, &range, lent, copy.as_ref(), desk.as_ref().map(TempDir::path))?;
    let (input, output, errors) = child.pipes();
    let feed = async {
        let Some(input) = input else { return Ok(()) };
        match pump::part_out_of_store(reader.as_ref(), range, path, input, &progress, Failure::output).await {
            // The command may end, or close its input, before it has read everything.
            Ok(_) | Err(Failure::Ended(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    };
    let work = async {
        let told = async {
            tokio::join!(
                tell(output, |bytes| to.send(Frame::Output(id, bytes))),
                tell(errors, |bytes| to.send(Frame::Error(id, bytes))),
            )
        };
        let (fed, _) = tokio::join!(feed, told);
        // Last, since the number of the process group is free after it. Until then, the group can be killed.
        fed.and(child.wait().await)
    };
    let timeout = Duration::from_millis(job.timeout_ms);
    let status = tokio::select! {
        status = work => status?,
        () = sleep(timeout), if job.timeout_ms > 0 => {
            let message = format!("ended after {} s (--command-timeout)", timeout.as_secs());
            return Err(Failure::other(message));
        }
    };
    let (code, signal) = (status.code().unwrap_or(0), status.signal().unwrap_or(0));
    Ok(Exit { code, signal, input_bytes, ..Exit::default() })
}

/// Sends the command's output in frames.
async fn tell<F: Future<Output = Result<(), mpsc::error::SendError<Frame>>>>(
    from: Option<impl AsyncRead + Unpin>,
    send: impl Fn(bytes::Bytes) -> F,
) {
    let Some(mut from) = from else { return };
    let mut buffer = bytes::BytesMut::new();
    loop {
        buffer.reserve(OUTPUT_BYTES);
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) if send(buffer.split().freeze()).await.is_err() => return,
            Ok(_) => {}
        }
    }
}

/// The environment variables that describe a command's input to it. The names in lower case are Hadoop
/// Streaming's, whose mappers run unchanged.
fn environment(job: &Job, range: &Range<u64>) -> Vec<(&'static str, String)> {
    let split = job.slice.as_ref().map_or(range.clone(), |slice| slice.start..slice.end);
    vec![
        ("STRAIT_INPUT_URI", job.uri.clone()),
        ("STRAIT_INPUT_START", range.start.to_string()),
        ("STRAIT_INPUT_LENGTH", (range.end - range.start).to_string()),
        ("STRAIT_INPUT_NUMBER", job.number.to_string()),
        ("STRAIT_INPUT_ATTEMPT", job.attempt.to_string()),
        ("mapreduce_map_input_file", job.uri.clone()),
        ("mapreduce_map_input_start", split.start.to_string()),
        ("mapreduce_map_input_length", (split.end - split.start).to_string()),
    ]
}

/// A private copy of an input. Dropping it removes the copy.
struct Copy {
    _directory: TempDir,
    path: std::path::PathBuf,
}

impl Copy {
    fn new(place: &Place) -> Result<Self, Failure> {
        // No other user can reach the file, or replace it.
        let directory = tempfile::Builder::new()
            .prefix("strait-run-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|error| Failure::local(error, "make a directory in", &std::env::temp_dir()))?;
        // An encoded name stands for bytes that aren't UTF-8, but the command's arguments must be UTF-8.
        let name = place.path.name();
        let is_plain = encoding::decode(name).is_some_and(|bytes| *bytes == *name.as_bytes());
        let name = if is_plain { name } else { "input" };
        let path = directory.path().join(name);
        Ok(Self { _directory: directory, path })
    }

    fn file(&self) -> Result<File, Failure> {
        File::create_new(&self.path).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> Failure {
        Failure::local(error, "copy to", &self.path)
    }
}

/// A command and its process group. If this is dropped before the command ends, the group is killed.
struct Group {
    child: Child,
    group: Option<Pid>,
}

impl Group {
    fn spawn(
        job: &Job,
        range: &Range<u64>,
        lent: Option<i32>,
        copy: Option<&Copy>,
        desk: Option<&Path>,
    ) -> Result<Self, Failure> {
        let path = copy.map(|copy| copy.path.display().to_string());
        let word = |word: &String| match &path {
            Some(path) => word.replace(PLACEHOLDER, path),
            None => word.clone(),
        };
        let Some((program, arguments)) = job.command.split_first() else {
            return Err(Failure::usage("no command"));
        };
        let program = word(program);
        let mut command = Command::new(&program);
        if let Some(desk) = desk {
            command.current_dir(desk);
        }
        match lent {
            Some(lent) => command.env(lent_logins::VARIABLE, lent.to_string()),
            None => command.env_remove(lent_logins::VARIABLE),
        };
        let child = command
            .args(arguments.iter().map(word))
            .envs(environment(job, range))
            .env_remove("STRAIT_PASSWORD")
            .stdin(if copy.is_some() { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::local(error, "run", program.as_ref()))?;
        let group = child.id().and_then(|id| Pid::from_raw(id as i32));
        Ok(Self { child, group })
    }

    fn pipes(
        &mut self,
    ) -> (Option<File>, Option<tokio::process::ChildStdout>, Option<tokio::process::ChildStderr>) {
        let input = self.child.stdin.take().and_then(|input| input.into_owned_fd().ok()).map(File::from);
        (input, self.child.stdout.take(), self.child.stderr.take())
    }

    async fn wait(&mut self) -> Result<std::process::ExitStatus, Failure> {
        let status = self.child.wait().await;
        // From now on, another process may get its id.
        self.group = None;
        status.map_err(|error| Failure::other(format!("can't wait for the command: {error}")))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
