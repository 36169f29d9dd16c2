//! The forwarder: one thread for the chain calls whose workers are needed for other connections
//! (section IV.C). It only moves bytes and sleeps in epoll; it executes no service.

use super::call::{Advanced, ChainCall};
use super::shared::{Adopted, Chains, FIRST_CALL};
use crate::net::clock;
use crate::net::socket;
use crate::net::spin::Spinner;
use crate::proto::Micros;
use crate::server::connection::ConnectionTable;
use crate::server::core::Core;
use crate::sync::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Events handled in one round.
const EVENTS: usize = 64;

/// How long a shutdown waits for callees behind this one after the call is over here. Healthy
/// callees answer within their own calls' time, and a dead callee mustn't delay this one's
/// shutdown.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Longest sleep; correctness doesn't depend on it.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

const INBOX: u64 = FIRST_CALL - 1;

pub(crate) struct Forwarder<C> {
    core: Arc<Core>,
    chains: Arc<Chains>,
    connections: Arc<C>,
    epoll: OwnedFd,
    calls: HashMap<u64, Box<ChainCall>>,
    /// Calls that have more work but let others go first. No event will announce them.
    unfinished: Vec<u64>,
    /// The time at which a shutdown drops all calls.
    ends_at: Option<Micros>,
}

impl<C: ConnectionTable> Forwarder<C> {
    pub(crate) fn new(core: Arc<Core>, chains: Arc<Chains>, connections: Arc<C>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &chains.adopted, EventData::new_u64(INBOX), EventFlags::IN)?;
        let (calls, unfinished) = (HashMap::new(), Vec::new());
        Ok(Self { core, chains, connections, epoll, calls, unfinished, ends_at: None })
    }

    /// Forwards calls until the server shuts down and no call is left.
    pub(crate) fn run(mut self) {
        let mut spinner = Spinner::new(self.core.options.spin);
        while !self.is_over() {
            let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
            let count = self.sleep(&mut events, &mut spinner);
            for event in &events[..count] {
                match event.data.u64() {
                    INBOX => self.take_over(),
                    id => self.advance(id),
                }
            }
            for id in std::mem::take(&mut self.unfinished) {
                self.advance(id);
            }
            if self.chains.are_closed() {
                self.come_to_an_end();
            }
            self.look_at_the_time();
        }
    }

    fn is_over(&self) -> bool {
        let ended = self.ends_at.is_some_and(|at| clock::now() >= at);
        self.calls.is_empty() && (ended || self.chains.are_over())
    }

    fn sleep(&self, events: &mut [Event], spinner: &mut Spinner) -> usize {
        let mut poll = |timeout: Duration| {
            let timeout = socket::timespec(timeout);
            epoll::wait(&self.epoll, &mut *events, Some(&timeout)).unwrap_or(0)
        };
        if !self.unfinished.is_empty() {
            return poll(Duration::ZERO);
        }
        if !self.calls.is_empty() {
            let spun = spinner.spin(|| Some(poll(Duration::ZERO)).filter(|count| *count > 0));
            if let Some(count) = spun {
                return count;
            }
        }
        let now = clock::now();
        let lent = self.chains.executing.look_at();
        let due = self.calls.values().filter_map(|call| call.due(&self.core));
        let due = due.chain(self.ends_at).fold(lent, Micros::min);
        let count = poll(Duration::from_micros(due.saturating_sub(now)).min(LONGEST_SLEEP));
        spinner.slept_since(now);
        count
    }

    fn take_over(&mut self) {
        while let Some(adopted) = self.chains.adopted.take_one() {
            match adopted {
                Adopted::Call(call) => self.adopt(call),
                Adopted::Ran(id, ended) => {
                    // The call is gone if it timed out.
                    if let Some(call) = self.calls.get_mut(&id) {
                        call.ran(ended);
                        self.advance(id);
                    }
                }
            }
        }
    }

    fn adopt(&mut self, call: Box<ChainCall>) {
        let id = call.id;
        watch(&self.epoll, &call.upstream.fd, id);
        self.calls.insert(id, call);
        self.advance(id);
    }

    fn advance(&mut self, id: u64) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let chains = &self.chains;
        let advanced = call.advance(&self.core, &chains.idle, false);
        if let Some(job) = call.take_job() {
            chains.jobs.put(job);
        }
        if let Some(downstream) = call.downstream.as_mut().filter(|downstream| !downstream.watched) {
            downstream.watched = true;
            watch(&self.epoll, &downstream.fd, id);
        }
        match advanced {
            Advanced::Waits => return,
            Advanced::More => return self.unfinished.push(id),
            Advanced::Over | Advanced::Closed => {}
        }
        let Some(call) = self.calls.remove(&id) else { return };
        let _ = epoll::delete(&self.epoll, &call.upstream.fd);
        // The connection returns to the pool, and a worker may carry another call on it.
        if let Some(downstream) = call.downstream.as_ref().filter(|downstream| downstream.watched) {
            let _ = epoll::delete(&self.epoll, &downstream.fd);
        }
        match advanced {
            Advanced::Closed => self.connections.forget(call.upstream.token),
            _ => self.connections.resume(&call.release(&chains.idle)),
        }
    }

    fn come_to_an_end(&mut self) {
        let (now, drain) = (clock::now(), self.core.options.drain);
        let ends_at = *self.ends_at.get_or_insert_with(|| clock::after(now, drain));
        let soon = clock::after(now, LAST_WAIT.min(drain)).min(ends_at);
        self.calls.values_mut().for_each(|call| call.end_by(soon, ends_at));
        self.chains.executing.end_by(ends_at);
    }

    fn look_at_the_time(&mut self) {
        let (now, core) = (clock::now(), &self.core);
        let late = |call: &ChainCall| call.due(core).is_some_and(|by| now >= by);
        let due: Vec<u64> = self.calls.iter().filter(|(_, call)| late(call)).map(|(id, _)| *id).collect();
        for id in due {
            self.advance(id);
        }
        while let Some(call) = self.chains.executing.take_late(now, &self.core) {
            self.adopt(call);
        }
    }
}

/// Watches both directions, edge-triggered. This is enough, since an advance always goes as far as
/// it can.
fn watch(epoll: &OwnedFd, fd: impl AsFd, id: u64) {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
    // If the kernel lacks memory for it, the call waits until its timeout.
    let _ = epoll::add(epoll, &fd, EventData::new_u64(id), flags);
}
