//! `run`: a command for each file, on hosts that hold it.
//!
//! ```text
//!   URIs ─ locate ─→ Schedule ─ job ─→ host (ssh) ─→ helper: store ─→ the command
//!                       ▲                                                │
//!   standard output ←─ Outcomes, in order ←── output, exit ←─────────────┘
//! ```
//!
//! An output is printed when its command has ended for good, so that a repetition never doubles it.

mod helper;
mod host;
mod inputs;
mod outcomes;

use crate::cli::{Launcher, Run};
use crate::context::Context;
use crate::failure::Failure;
use crate::signals::Signals;
pub use helper::helper;
use host::{Event, Launch};
use inputs::Found;
use outcomes::Outcomes;
use std::sync::Arc;
use strait_dispatch::frame::{Exit, Job};
use strait_dispatch::{Frame, Schedule};
use tokio::sync::mpsc;

/// Helpers of another version may understand a job differently.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Times that a job is given to a host, if hosts or stores fail and not the command.
const MAX_HOSTS_A_JOB: u32 = 3;
/// Events that wait for this process; then the hosts wait.
const QUEUED_EVENTS: usize = 64;
/// Largest exit code that counts failed commands; more are this, too, as with GNU parallel.
const MANY_FAILED: usize = 101;

/// Runs the command on all inputs.
pub async fn run(context: &Context, flags: Run) -> Result<(), Failure> {
    let mut signals = Signals::catch_all()?;
    signals.unless(all(context, flags)).await
}

async fn all(context: &Context, flags: Run) -> Result<(), Failure> {
    let mut tally = context.tally();
    let found = inputs::find(context, &flags, &mut tally).await?;
    if flags.dry_run {
        inputs::print_plan(context, &found)?;
        return tally.finish();
    }
    let outcomes = Outcomes::new(&flags, context.messages(), &found)?;
    let launch = match flags.launcher {
        Launcher::Local => Launch::locally(context.helper_flags.clone())?,
        Launcher::Ssh => {
            Launch::by_ssh(&flags.ssh, flags.remote_strait.clone(), context.helper_flags.clone())?
        }
    };
    let failed = Dispatcher::start(launch, flags, found, outcomes, context).serve().await?;
    match (failed, tally.finish()) {
        (0, finished) => finished,
        (failed, _) => Err(Failure::Told(failed.min(MANY_FAILED) as u8)),
    }
}

struct Dispatcher<'a> {
    context: &'a Context,
    flags: Run,
    uris: Vec<String>,
    schedule: Schedule,
    outcomes: Outcomes,
    hosts: Vec<Host>,
    events: mpsc::Receiver<(usize, Event)>,
    /// By input: commands begun, and those of them whose host or store failed.
    begun: Vec<u32>,
    disturbed: Vec<u32>,
}

struct Host {
    name: String,
    /// To its helper; none once it is gone.
    jobs: Option<mpsc::UnboundedSender<Frame>>,
    /// Jobs that it may begin.
    free: usize,
}

impl<'a> Dispatcher<'a> {
    fn start(launch: Launch, flags: Run, found: Found, outcomes: Outcomes, context: &'a Context) -> Self {
        let (launch, (to, events)) = (Arc::new(launch), mpsc::channel(QUEUED_EVENTS));
        let Found { uris, inputs, hosts, .. } = found;
        let (begun, disturbed) = (vec![0; inputs.len()], vec![0; inputs.len()]);
        let schedule = Schedule::new(inputs, hosts.len());
        let start = |(number, name): (usize, String)| {
            let (jobs, received) = mpsc::unbounded_channel();
            tokio::spawn(host::serve(launch.clone(), number, name.clone(), received, to.clone()));
            Host { name, jobs: Some(jobs), free: 0 }
        };
        let hosts = hosts.into_iter().enumerate().map(start).collect();
        Self { context, flags, uris, schedule, outcomes, hosts, events, begun, disturbed }
    }

    /// Works until all inputs are done. Returns the number of those that failed.
    async fn serve(mut self) -> Result<usize, Failure> {
        while !self.schedule.is_done() {
            if !self.schedule.has_hosts() {
                for input in self.schedule.left() {
                    let failure = Some("no host is left".to_owned());
                    self.outcomes.ended(input, "", &Exit { failure, ..Exit::default() })?;
                }
                break;
            }
            let Some((number, event)) = self.events.recv().await else { break };
            match event {
                Event::Ready(processors) => {
                    self.hosts[number].free = self.flags.jobs.map_or(processors, |jobs| jobs as usize).max(1);
                }
                Event::Frame(Frame::Output(input, bytes)) => {
                    self.outcomes.output(input as usize, &bytes)?;
                }
                Event::Frame(Frame::Error(input, bytes)) => {
                    self.outcomes.errors(input as usize, &bytes)?;
                }
                Event::Frame(Frame::Exit(input, exit)) => self.exited(number, input as usize, exit)?,
                Event::Frame(Frame::Hello(_) | Frame::Job(..)) => {}
                Event::Gone(reason) => self.gone(number, &reason)?,
            }
            self.give_jobs();
        }
        self.outcomes.finish()
    }

    /// Gives each free slot a job. A host that is done with its own may help others.
    fn give_jobs(&mut self) {
        for number in 0..self.hosts.len() {
            while self.hosts[number].free > 0
                && let Some(given) = self.schedule.next(number)
            {
                let host = &mut self.hosts[number];
                let job = Job {
                    uri: self.uris[given.input].clone(),
                    command: self.flags.command.clone(),
                    timeout_ms: self.flags.command_timeout.unwrap_or(0) * 1_000,
                };
                host.free -= 1;
                self.begun[given.input] += 1;
                self.outcomes.begun(given.input, given.is_local);
                // If the helper is gone, its end is among the events.
                let _ = host.jobs.as_ref().map(|jobs| jobs.send(Frame::Job(given.input as u32, job)));
            }
        }
    }

    fn exited(&mut self, number: usize, input: usize, exit: Exit) -> Result<(), Failure> {
        if input >= self.uris.len() || !self.schedule.runs(number, input) {
            return Ok(());
        }
        self.hosts[number].free += 1;
        let is_disturbed = exit.failure.is_some() && exit.retry_elsewhere;
        self.disturbed[input] += u32::from(is_disturbed);
        let again = match is_disturbed {
            true => self.disturbed[input] < MAX_HOSTS_A_JOB,
            false => !exit.is_success() && self.begun[input] - self.disturbed[input] < self.flags.retries,
        };
        if again {
            self.schedule.failed(number, input);
            self.outcomes.forget(input);
            return Ok(());
        }
        self.schedule.done(number, input);
        self.outcomes.ended(input, &self.hosts[number].name, &exit)
    }

    fn gone(&mut self, number: usize, reason: &str) -> Result<(), Failure> {
        let host = &mut self.hosts[number];
        (host.jobs, host.free) = (None, 0);
        let begun = self.schedule.lost(number);
        let message = format!("{}: {reason}; its {} commands begin again elsewhere", host.name, begun.len());
        self.context.messages().warn(&message);
        for input in begun {
            self.outcomes.forget(input);
            self.disturbed[input] += 1;
            if self.disturbed[input] >= MAX_HOSTS_A_JOB {
                self.schedule.given_up(input);
                let failure = Some(format!("{} hosts were lost while they ran it", self.disturbed[input]));
                self.outcomes.ended(input, "", &Exit { failure, ..Exit::default() })?;
            }
        }
        Ok(())
    }
}
