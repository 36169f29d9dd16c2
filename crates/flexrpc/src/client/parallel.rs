//! Parallel multicasting (sections III.B and IV.A).
//!
//! With small arguments, this thread sends to all callees and then reads from all. This is faster
//! than giving subcalls to other threads (34–41 µs instead of 47 for three callees). With large
//! ones, each subcall has a calling worker. In both cases, a worker takes over a subcall that has
//! to sleep for its own callee.

use crate::client::handle::{Handle, Next};
use crate::client::line::Received;
use crate::client::message::{Framing, Message};
use crate::client::workers::{CallingWorkers, Multicast, Subcall, Work};
use crate::net::clock;
use crate::net::socket;
use crate::net::spin::Spinner;
use crate::proto::Micros;
use crate::proto::call::{Call, Step};
use crate::proto::status::{Outcome, Refusal};
use rustix::event::{PollFd, PollFlags};
use std::sync::Arc;
use std::time::Duration;

/// Largest arguments for which one thread serves all callees, in bytes. Measured: from 256 KiB on,
/// workers are faster; from 128 to 256 KiB, both are equally fast.
pub(crate) const ONE_THREAD_BYTES: usize = 128 << 10;

/// Most frames that one callee's call receives in a row.
const LOOKS: u32 = 64;

/// How often to check for outcomes while workers also hold calls.
const LOOK: Duration = Duration::from_millis(1);

/// Makes the calls; the outcomes are in `multicast.gather` afterwards.
pub(crate) fn call(
    multicast: &Arc<Multicast>,
    handles: Vec<Handle>,
    workers: &CallingWorkers<Subcall>,
    spin: Duration,
) {
    if multicast.sum.len > ONE_THREAD_BYTES {
        return by_workers(multicast, handles, workers);
    }
    let mut elsewhere = Vec::new();
    let mut flights = Vec::new();
    multicast.with_message(|message| {
        for (index, mut handle) in handles.into_iter().enumerate() {
            if !handle.is_ready() {
                // Connecting and the handshake have to sleep, so a worker does them.
                elsewhere.push(subcall(multicast, index, handle, None));
                continue;
            }
            match handle.begin(message, multicast.deadline) {
                Ok(call) => flights.push(Flight::new(index, handle, call)),
                Err(refusal) => multicast.gather.put(index, Outcome::NotExecuted(refusal)),
            }
        }
        let workers_busy = !elsewhere.is_empty();
        workers.submit(elsewhere);
        fly(multicast, message, flights, workers, workers_busy, spin);
    });
    wait(multicast, workers);
}

/// Waits until all calls, or enough of them, are over. Then it withdraws queued subcalls: busy
/// workers might take long to reach them.
fn wait(multicast: &Arc<Multicast>, workers: &CallingWorkers<Subcall>) {
    if multicast.gather.is_done() && multicast.gather.waits_for_all() {
        return;
    }
    multicast.gather.wait(multicast.deadline);
    let ours = |subcall: &Subcall| Arc::ptr_eq(&subcall.multicast, multicast);
    workers.withdraw(ours).into_iter().for_each(Subcall::refuse);
    // Subcalls under way have the same deadline.
    multicast.gather.wait(None);
}

/// As in the paper, this thread makes one subcall and workers make the others. If the caller
/// doesn't wait for all of them, this thread makes none: a slow callee would block it.
fn by_workers(multicast: &Arc<Multicast>, handles: Vec<Handle>, workers: &CallingWorkers<Subcall>) {
    let mut subcalls: Vec<Subcall> = handles
        .into_iter()
        .enumerate()
        .map(|(index, handle)| subcall(multicast, index, handle, None))
        .collect();
    let own = if multicast.gather.waits_for_all() { subcalls.pop() } else { None };
    workers.submit(subcalls);
    if let Some(own) = own {
        own.run();
    }
    wait(multicast, workers);
}

fn subcall(multicast: &Arc<Multicast>, index: usize, handle: Handle, begun: Option<(Call, Step)>) -> Subcall {
    Subcall { multicast: Arc::clone(multicast), index, handle, begun }
}

/// Drives all flights until they are over, or enough calls have returned values.
fn fly<'a>(
    multicast: &Arc<Multicast>,
    message: &Message<'a>,
    mut flights: Vec<Flight<'a>>,
    workers: &CallingWorkers<Subcall>,
    mut workers_busy: bool,
    spin: Duration,
) {
    let mut spinner = Spinner::new(spin);
    while !flights.is_empty() && !multicast.gather.is_done() {
        let mut progress = false;
        for mut flight in std::mem::take(&mut flights) {
            match flight.advance(message) {
                Advance::Waits => flights.push(flight),
                Advance::Over(outcome) => {
                    progress = true;
                    let Flight { index, handle, .. } = flight;
                    let outcome = handle.of_one_callee(outcome);
                    drop(handle);
                    multicast.gather.put(index, outcome);
                }
                Advance::Sleeps(step) => {
                    let Flight { index, handle, call, .. } = flight;
                    workers.submit(vec![subcall(multicast, index, handle, Some((call, step)))]);
                    workers_busy = true;
                }
                Advance::Anew => {
                    workers.submit(vec![subcall(multicast, flight.index, flight.handle, None)]);
                    workers_busy = true;
                }
            }
        }
        if !progress && !flights.is_empty() {
            sleep(&mut flights, &mut spinner, workers_busy);
        }
    }
    for flight in flights {
        flight.abandon(multicast);
    }
}

/// Sleeps until a socket is ready or a timer is due.
fn sleep(flights: &mut [Flight<'_>], spinner: &mut Spinner, workers_busy: bool) {
    let look = workers_busy.then(|| clock::after(clock::now(), LOOK));
    let until = flights.iter().filter_map(|flight| flight.until).chain(look).min();
    let mut fds: Vec<PollFd<'_>> = flights
        .iter_mut()
        .filter_map(|flight| {
            let flags = if flight.framing.is_some() { PollFlags::OUT } else { PollFlags::IN };
            flight.handle.line().map(|line| PollFd::new(&line.fd, flags))
        })
        .collect();
    let spun = spinner.spin(|| socket::poll(&mut fds, Some(0)).ok().filter(|ready| *ready));
    if spun.is_none() {
        // Errors of poll concern its arguments; the flights' own system calls report the others.
        let _ = socket::poll(&mut fds, until);
    }
}

/// A call under way that never sleeps.
struct Flight<'a> {
    index: usize,
    handle: Handle,
    call: Call,
    step: Step,
    /// The transmission under way, and the number of its bytes that were sent.
    framing: Option<(Framing<'a>, usize)>,
    until: Option<Micros>,
}

enum Advance {
    /// The flight waits for its socket or its timer.
    Waits,
    /// The flight must sleep before this step.
    Sleeps(Step),
    /// The flight needs a new session, and so a handshake.
    Anew,
    Over(Outcome),
}

impl<'a> Flight<'a> {
    fn new(index: usize, handle: Handle, call: Call) -> Self {
        Self { index, handle, call, step: Step::Send, framing: None, until: None }
    }

    fn advance(&mut self, message: &Message<'a>) -> Advance {
        let mut looks = 0;
        loop {
            looks += 1;
            self.step = match self.step {
                // A flood of foreign frames mustn't delay the other callees.
                Step::Wait(until) if looks > LOOKS => {
                    self.until = until;
                    return Advance::Waits;
                }
                Step::Send => match self.send(message) {
                    Some(step) => step,
                    None => return self.wait_to_send(),
                },
                Step::Wait(until) => {
                    self.until = until;
                    let received = self.handle.line().map_or(Received::Broken, |line| line.try_receive());
                    let early = until.is_none_or(|until| clock::now() < until);
                    if matches!(received, Received::TimedOut) && early {
                        return Advance::Waits;
                    }
                    match self.handle.on_received(received, &mut self.call) {
                        Next::Step(step) => step,
                        Next::Over(outcome) => return Advance::Over(outcome),
                    }
                }
                Step::Reconnect(_) => return Advance::Sleeps(self.step),
                over => {
                    let outcome = self.handle.end(over, &self.call);
                    return match outcome {
                        Outcome::NotExecuted(Refusal::UnknownSession) => Advance::Anew,
                        outcome => Advance::Over(outcome),
                    };
                }
            }
        }
    }

    /// Sends as much as fits; `None` if a part is left.
    fn send(&mut self, message: &Message<'a>) -> Option<Step> {
        let (framing, sent) = match self.framing.take() {
            Some(begun) => begun,
            None => match self.handle.framing(&self.call, message, clock::now) {
                Some(framing) => (framing, 0),
                None => return Some(self.handle.on_broken(&mut self.call)),
            },
        };
        let slices = socket::without_first(&framing.slices(message.args), sent);
        let left: usize = slices.iter().map(|slice| slice.len()).sum();
        match self.handle.line().and_then(|line| line.try_send(&slices)) {
            None => Some(self.handle.on_broken(&mut self.call)),
            Some(more) if more == left => Some(self.call.sent(clock::now)),
            Some(more) => {
                self.framing = Some((framing, sent + more));
                None
            }
        }
    }

    fn wait_to_send(&mut self) -> Advance {
        match self.call.on_time(clock::now()) {
            Step::Wait(until) => {
                self.until = until;
                Advance::Waits
            }
            Step::Send => Advance::Waits,
            over => Advance::Over(self.handle.end(over, &self.call)),
        }
    }

    /// Abandons the call, since enough other callees have answered.
    fn abandon(mut self, multicast: &Multicast) {
        let outcome = self.handle.end(self.call.abandon(), &self.call);
        multicast.gather.put(self.index, outcome);
    }
}
