//! `run`: runs a command for each file, or for each piece of a file, on hosts that hold it.
//!
//! ```text
//!   URIs ─ locate, split ─→ Work ─ job ─→ host (ssh, srun) ─→ helper: store ─→ the command
//!                            ▲                                                   │
//!   standard output ←─ Outcomes, in order ←────────── output, exit ←─────────────┘
//! ```
//!
//! A command's output is printed only when its input is completed, so a repeated command prints nothing
//! twice.

mod cut;
mod helper;
mod host;
mod hosts;
mod inputs;
mod launch;
mod outcomes;
mod shipping;

use crate::cli::Run;
use crate::context::Context;
use crate::failure::Failure;
use crate::lent_logins::{Issued, LENT_FOR};
use crate::signals::Signals;
pub use helper::helper;
use host::Event;
use inputs::{Found, Wanted};
use launch::Launch;
use outcomes::Outcomes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_dispatch::frame::Job;
use strait_dispatch::{Act, Frame, Policy, Work};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval};

/// The helper must have the same version: another version could understand a job differently.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// An input fails after this many failures of hosts or stores. Failures of its command count separately.
const MAX_HOSTS_A_JOB: u32 = 3;
/// Events queued for this process. If it is slow, the hosts block.
const QUEUED_EVENTS: usize = 64;
/// Number of hosts that are connected to at the same time. Each takes a process and a handshake here.
const STARTING_AT_ONCE: usize = 64;
/// Largest exit code: the exit code is the number of failed inputs, up to this one, as in GNU parallel.
const MANY_FAILED: usize = 101;
/// Time between two searches for stragglers.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Divisor of the logins' lifetime: they are renewed after one third of it, so that helpers never have an
/// expired one.
const RENEWED_AFTER: u32 = 3;

/// Runs the command on all inputs.
pub async fn run(context: &Context, flags: Run) -> Result<(), Failure> {
    let mut signals = Signals::catch_all()?;
    let mut logins = Issued::default();
    let ended = signals.unless(all(context, flags, &mut logins)).await;
    // End them after a signal, too: no helper needs the logins any more.
    logins.end(context.messages()).await;
    ended
}

async fn all(context: &Context, flags: Run, logins: &mut Issued) -> Result<(), Failure> {
    let mut tally = context.tally();
    let found = inputs::find(context, &flags, &mut tally).await?;
    if flags.dry_run {
        inputs::print_plan(context, &found)?;
        return tally.finish();
    }
    let gateways = context.gateways_with_login(found.wanted.iter().map(|wanted| wanted.uri.as_str()))?;
    logins.begin(gateways, context.tls()).await?;
    let outcomes = Outcomes::new(&flags, context.messages(), &found)?;
    let launch = Launch::by(&flags, context.helper_flags.clone(), logins.logins())?;
    let failed = Dispatcher::start(launch, flags, found, outcomes, context).serve(logins).await?;
    match failed + tally.failures() {
        0 => Ok(()),
        failed => Err(Failure::Told(failed.min(MANY_FAILED) as u8)),
    }
}

struct Dispatcher<'a> {
    context: &'a Context,
    flags: Run,
    wanted: Vec<Wanted>,
    work: Work,
    outcomes: Outcomes,
    hosts: Vec<Host>,
    events: mpsc::Receiver<(usize, Event)>,
    launch: Arc<Launch>,
    began: Instant,
}

struct Host {
    name: String,
    /// Frames for its helper; `None` once the helper has ended.
    jobs: Option<mpsc::UnboundedSender<Frame>>,
}

impl Host {
    fn send(&self, frame: Frame) {
        if let Some(jobs) = &self.jobs {
            // If the helper has ended, an event reports that.
            let _ = jobs.send(frame);
        }
    }
}

impl<'a> Dispatcher<'a> {
    fn start(launch: Launch, flags: Run, found: Found, outcomes: Outcomes, context: &'a Context) -> Self {
        let (launch, (to, events)) = (Arc::new(launch), mpsc::channel(QUEUED_EVENTS));
        let turns = Arc::new(Semaphore::new(STARTING_AT_ONCE));
        let policy = Policy {
            tries: flags.retries,
            hosts_a_job: MAX_HOSTS_A_JOB,
            duplicates: flags.duplicate_stragglers,
        };
        let work = Work::new(found.inputs, found.hosts.len(), policy);
        let start = |(number, name): (usize, String)| {
            let (jobs, received) = mpsc::unbounded_channel();
            let serving =
                host::serve(launch.clone(), number, name.clone(), turns.clone(), received, to.clone());
            tokio::spawn(serving);
            Host { name, jobs: Some(jobs) }
        };
        let hosts = found.hosts.into_iter().enumerate().map(start).collect();
        let (wanted, began) = (found.wanted, Instant::now());
        Self { context, flags, wanted, work, outcomes, hosts, events, launch, began }
    }

    /// Runs until all inputs are completed or have failed. Returns the number of those that failed.
    async fn serve(mut self, logins: &mut Issued) -> Result<usize, Failure> {
        let mut look = interval(LOOK_EVERY);
        let mut renew = interval(LENT_FOR / RENEWED_AFTER);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once, when the logins are still new.
        renew.tick().await;
        while self.work.left() > 0 {
            tokio::select! {
                event = self.events.recv() => match event {
                    Some((number, event)) => self.heard(number, event)?,
                    None => break,
                },
                _ = look.tick(), if self.flags.duplicate_stragglers => {}
                _ = renew.tick() => self.renew(logins).await,
            }
            let acts = self.work.give(self.began.elapsed());
            self.act(acts)?;
        }
        self.outcomes.finish()
    }

    async fn renew(&mut self, logins: &mut Issued) {
        if logins.renew(self.context.messages()).await {
            self.launch.set_logins(logins.logins());
            self.hosts.iter().for_each(|host| host.send(Frame::Logins(logins.logins())));
        }
    }

    fn heard(&mut self, number: usize, event: Event) -> Result<(), Failure> {
        match event {
            Event::Ready(processors) => {
                self.work.ready(number, self.flags.jobs.map_or(processors, |jobs| jobs as usize));
            }
            Event::Frame(Frame::Output(input, bytes)) => {
                self.outcomes.output(number, input as usize, &bytes)?;
            }
            Event::Frame(Frame::Error(input, bytes)) => self.outcomes.errors(number, input as usize, &bytes),
            Event::Frame(Frame::Exit(input, exit)) => {
                let acts = self.work.ended(number, input as usize, exit, self.began.elapsed());
                self.act(acts)?;
            }
            Event::Frame(_) => {}
            Event::Gone(reason) => {
                self.hosts[number].jobs = None;
                let (acts, again) = self.work.lost(number);
                let name = &self.hosts[number].name;
                let message = match again {
                    0 => format!("{name}: {reason}"),
                    _ => format!("{name}: {reason}; restarting its {again} commands on other hosts"),
                };
                self.context.messages().warn(&message);
                self.act(acts)?;
            }
        }
        Ok(())
    }

    fn act(&mut self, acts: Vec<Act>) -> Result<(), Failure> {
        for act in acts {
            match act {
                Act::Begin { host, input, is_local, attempt } => {
                    let Wanted { uri, slice, sequence } = self.wanted[input].clone();
                    let command = self.flags.command.clone();
                    let timeout_ms = self.flags.command_timeout.unwrap_or(0) * 1_000;
                    let job = Job { uri, slice, number: sequence, attempt, command, timeout_ms };
                    self.outcomes.begun(host, input, is_local);
                    self.hosts[host].send(Frame::Job(input as u32, job));
                }
                Act::Cancel { host, input } => self.hosts[host].send(Frame::Cancel(input as u32)),
                Act::Forget { host, input } => self.outcomes.forget(host, input),
                Act::End { input, host, exit } => {
                    let host = host.map(|host| (host, self.hosts[host].name.as_str()));
                    self.outcomes.ended(input, host, &exit)?;
                }
            }
        }
        Ok(())
    }
}
