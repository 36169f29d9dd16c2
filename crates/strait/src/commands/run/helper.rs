//! The helper of one host: runs jobs that come on standard input, and tells of them on standard output.
//!
//! Everything of a job ends with the helper: at the end of its input it kills the process groups of
//! its commands, and removes their copies.

use crate::commands::pump;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::progress::Progress;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;
use strait_dispatch::frame::{Exit, Hello, Job, OUTPUT_BYTES};
use strait_dispatch::{Frame, Frames};
use strait_store::{ErrorKind, encoding};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Frames between jobs and standard output: a slow dispatcher makes the commands wait.
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
        // If nobody takes the frames, `sending` has ended.
        let _ = to.send(Frame::Hello(hello)).await;
        let (mut input, mut received) = (tokio::io::stdin(), Frames::default());
        let mut jobs = FuturesUnordered::new();
        loop {
            while let Some(frame) = received.take().map_err(|error| Failure::other(error.to_string()))? {
                if let Frame::Job(id, job) = frame {
                    jobs.push(run(context, id, job, to.clone()));
                }
            }
            tokio::select! {
                read = input.read_buf(received.buffer()) => match read {
                    Ok(0) => return Ok(()),
                    Ok(_) => {}
                    Err(error) => return Err(Failure::other(format!("standard input: {error}"))),
                },
                Some(()) = jobs.next() => {}
            }
        }
    };
    tokio::select! {
        ended = serving => ended,
        failed = sending => failed,
    }
}

/// Runs one job to its end, and tells how it ended.
async fn run(context: &Context, id: u32, job: Job, to: mpsc::Sender<Frame>) {
    let exit = attempt(context, id, &job, &to).await.unwrap_or_else(|failure| Exit {
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

async fn attempt(context: &Context, id: u32, job: &Job, to: &mpsc::Sender<Frame>) -> Result<Exit, Failure> {
    let place = context.place(&job.uri).await?;
    let reader = place.fs.open(&place.who, &place.path).await?;
    let input_bytes = reader.length();
    let (progress, path) = (Progress::new(false), place.path.as_str());
    let copy = match job.command.iter().any(|word| word.contains(PLACEHOLDER)) {
        true => {
            let copy = Copy::new(&place)?;
            pump::out_of_store(reader.as_ref(), path, copy.file()?, &progress, |error| copy.failed(error))
                .await?;
            Some(copy)
        }
        false => None,
    };
    let mut child = Group::spawn(&job.command, copy.as_ref())?;
    let (input, output, errors) = child.pipes();
    let feed = async {
        let Some(input) = input else { return Ok(()) };
        match pump::out_of_store(reader.as_ref(), path, input, &progress, Failure::output).await {
            // The command may end, or close its input, before it has read all.
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
        let (fed, _, status) = tokio::join!(feed, told, child.wait());
        fed.and(status)
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

/// Sends what a command prints, in frames.
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

/// An input's private copy, removed with it.
struct Copy {
    _directory: TempDir,
    path: std::path::PathBuf,
}

impl Copy {
    fn new(place: &Place) -> Result<Self, Failure> {
        // No other user can reach the file or put another in its place.
        let directory = tempfile::Builder::new()
            .prefix("strait-run-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|error| Failure::local(error, "make a directory in", &std::env::temp_dir()))?;
        // Encoded names have bytes that aren't UTF-8, which the command's words can't have.
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

/// A command and its descendants, which end with it if it is dropped early.
struct Group {
    child: Child,
    group: Option<Pid>,
}

impl Group {
    fn spawn(command: &[String], copy: Option<&Copy>) -> Result<Self, Failure> {
        let path = copy.map(|copy| copy.path.display().to_string());
        let word = |word: &String| match &path {
            Some(path) => word.replace(PLACEHOLDER, path),
            None => word.clone(),
        };
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::usage("no command"));
        };
        let program = word(program);
        let child = Command::new(&program)
            .args(arguments.iter().map(word))
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
        // Its id may be another's from now on.
        self.group = None;
        status.map_err(|error| Failure::other(format!("waiting for the command: {error}")))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
