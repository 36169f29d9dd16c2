//! A host of `run`: its helper, and the frames to and from it.

use super::VERSION;
use super::launch::{Launch, Program};
use super::shipping::Parcel;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use strait_dispatch::frame::{Hello, OUTPUT_BYTES};
use strait_dispatch::{Frame, Frames};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// Time limit for starting a helper: for the connection, for sending the program if the host lacks it, and
/// for the helper's first frame. Also the limit for each piece of a shipped file, and for the helper's answer
/// after the last piece.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for each further line on an ended helper's standard error, and the number of lines kept.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LAST_LINES: usize = 5;
/// The host's answer about the program: it has the program, or needs it.
const HAS_PROGRAM: u8 = b'H';
const NEEDS_PROGRAM: u8 = b'N';

/// An event on a host.
pub enum Event {
    /// The helper accepts jobs. The host has this many processors.
    Ready(usize),
    /// A job's output or end.
    Frame(Frame),
    /// The helper has ended, or couldn't be started, for this reason.
    Gone(String),
}

/// Starts the helper of `host`, sends it the frames of `jobs`, and reports to `events`. When `jobs` ends, it
/// ends the helper and returns.
pub async fn serve(
    launch: Arc<Launch>,
    number: usize,
    host: String,
    turns: Arc<Semaphore>,
    jobs: mpsc::UnboundedReceiver<Frame>,
    events: mpsc::Sender<(usize, Event)>,
) {
    let started = async {
        // The semaphore is never closed. A helper in Slurm's queue takes no permit, so that others needn't
        // wait for it.
        let _turn = if launch.waits_in_queue() { None } else { turns.acquire().await.ok() };
        let starting = Helper::start(&launch, &host);
        let started = match launch.waits_in_queue() {
            true => Ok(starting.await),
            false => timeout(START_PATIENCE, starting).await,
        };
        let (mut helper, hello) = started
            .map_err(|_| format!("the helper didn't start within {} s", START_PATIENCE.as_secs()))??;
        helper.set_up(&launch).await?;
        Ok::<_, String>((helper, hello))
    };
    let reason = match started.await {
        Ok((mut helper, hello)) => {
            if events.send((number, Event::Ready(hello.processors))).await.is_err() {
                return;
            }
            helper.run(number, jobs, &events).await
        }
        Err(reason) => reason,
    };
    // Without a receiver, the run has ended.
    let _ = events.send((number, Event::Gone(reason))).await;
}

struct Helper {
    child: Child,
    /// The helper's process gets SIGTERM at the end.
    needs_term: bool,
    input: ChildStdin,
    output: Output,
    errors: Lines<BufReader<ChildStderr>>,
    /// The latest lines of its standard error.
    said: VecDeque<String>,
}

/// What a helper sends.
struct Output {
    from: ChildStdout,
    frames: Frames,
}

impl Output {
    /// Receives the next frame; `None` at the end. Cancel safe: a dropped future loses no bytes.
    async fn next(&mut self) -> Result<Option<Frame>, String> {
        loop {
            let next = self.frames.take();
            if let Some(frame) = next.map_err(|error| format!("the helper sent {error}"))? {
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
        // When a helper's input ends, it ends its commands and exits. A killed helper would leave them
        // running.
        command.kill_on_drop(launch.is_killed());
        // Ctrl-C reaches only this process, which then ends the helpers.
        command.process_group(0);
        let name = command.as_std().get_program().display().to_string();
        let mut child = command.spawn().map_err(|error| format!("can't start {name}: {error}"))?;
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the helper has no pipes".to_owned());
        };
        let errors = BufReader::new(errors).lines();
        let output = Output { from: output, frames: Frames::default() };
        let needs_term = launch.waits_in_queue();
        let mut helper = Self { child, needs_term, input, output, errors, said: VecDeque::new() };
        match helper.greeted(launch).await {
            Ok(hello) if hello.version == VERSION => Ok((helper, hello)),
            Ok(hello) => Err(format!("the host has strait {}, but this is {VERSION}", hello.version)),
            Err(reason) => Err(helper.last_words(reason).await),
        }
    }

    async fn greeted(&mut self, launch: &Launch) -> Result<Hello, String> {
        let broken = |error: io::Error| format!("the connection failed: {error}");
        if let Program::Sent { file, .. } = &launch.program {
            match self.output.from.read_u8().await {
                Ok(HAS_PROGRAM) => {}
                Ok(NEEDS_PROGRAM) => {
                    let mut program = File::open(file).await.map_err(broken)?;
                    tokio::io::copy(&mut program, &mut self.input).await.map_err(broken)?;
                }
                Ok(_) => {
                    return Err("the shell's start-up files must not print on standard output".to_owned());
                }
                Err(_) => return Err("can't start the helper".to_owned()),
            }
        }
        match self.output.next().await? {
            Some(Frame::Hello(hello)) => Ok(hello),
            _ => Err("can't start the helper".to_owned()),
        }
    }

    /// Sends the data that helpers need before their first job, and waits until they have it.
    async fn set_up(&mut self, launch: &Launch) -> Result<(), String> {
        self.send(&Frame::Logins(launch.logins())).await?;
        self.send(&Frame::Setup(launch.setup())).await?;
        for (number, parcel) in (0..).zip(&launch.parcels) {
            self.ship(number, parcel).await?;
        }
        match timeout(START_PATIENCE, self.output.next()).await {
            Ok(Ok(Some(Frame::Ready(ready)))) => ready.failure.map_or(Ok(()), Err),
            Ok(Err(reason)) => Err(self.last_words(reason).await),
            Ok(Ok(_)) => Err(self.last_words("the helper ended".to_owned()).await),
            Err(_) => Err(format!("the helper isn't ready after {} s", START_PATIENCE.as_secs())),
        }
    }

    /// Sends a file's bytes, as many as were announced. If the file has changed, the digest reveals that to
    /// the helper.
    async fn ship(&mut self, number: u32, parcel: &Parcel) -> Result<(), String> {
        let failed = |error: io::Error| format!("can't ship {}: {error}", parcel.path.display());
        let file = File::open(&parcel.path).await.map_err(failed)?;
        let mut file = file.take(parcel.shipped.bytes);
        loop {
            let mut piece = bytes::BytesMut::with_capacity(OUTPUT_BYTES);
            if file.read_buf(&mut piece).await.map_err(failed)? == 0 {
                break;
            }
            self.send(&Frame::Data(number, piece.freeze())).await?;
        }
        match file.limit() {
            0 => Ok(()),
            _ => Err(format!("{} became shorter after `strait run` started", parcel.path.display())),
        }
    }

    async fn send(&mut self, frame: &Frame) -> Result<(), String> {
        match timeout(START_PATIENCE, self.input.write_all(&frame.encode())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.last_words(format!("the connection failed: {error}")).await),
            Err(_) => Err(format!("the helper accepted no data for {} s", START_PATIENCE.as_secs())),
        }
    }

    /// The latest lines that ssh or the helper wrote to standard error; `reason` if there are none.
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
                    None => return "the run ended it".to_owned(),
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

impl Drop for Helper {
    fn drop(&mut self) {
        if self.needs_term
            && let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id as i32))
        {
            // After SIGTERM, srun ends its job step or leaves the queue. SIGKILL would prevent that.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
