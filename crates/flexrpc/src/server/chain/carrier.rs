//! A worker that carries a chain call: it passes the call on, executes it, and waits for the next
//! callee's answer. It does all of this itself, since giving the call to another thread takes
//! longer than the work. It does so only while another worker watches the other connections.
//! Otherwise the forwarder takes over the call, in whatever state it is.

use super::call::{Advanced, ChainCall};
use super::job::Job;
use super::shared::{Adopted, Chains};
use crate::net::clock;
use crate::net::reader::Frame;
use crate::server::connection::{Connection, MayStay, STICK};
use crate::server::core::Core;
use std::sync::Arc;

/// How a worker's part in a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Answered; the connection can carry the next call.
    Over,
    /// The call is lost, since the connection is unusable.
    Closed,
    /// The forwarder has the call and its connection.
    Left,
}

/// Carries the chain call on this connection. All of it has arrived (`frame`), or only its head.
pub(crate) fn carry(
    connection: &Arc<Connection>,
    frame: Option<Frame>,
    core: &Core,
    chains: &Chains,
    others: &impl MayStay,
) -> Carried {
    let (id, _counted) = chains.carry();
    let Some(call) = ChainCall::begin(id, Arc::clone(connection), frame, core) else {
        return Carried::Closed;
    };
    let mut call = Box::new(call);
    let may_stay = || others.may_stay() && !chains.are_closed();
    loop {
        match call.advance(core, &chains.idle, may_stay()) {
            Advanced::Over => {
                call.release(&chains.idle);
                return Carried::Over;
            }
            Advanced::Closed => return Carried::Closed,
            Advanced::More if may_stay() => continue,
            Advanced::Waits if may_stay() => {}
            Advanced::More | Advanced::Waits => break,
        }
        if call.has_left()
            && let Some(job) = call.take_job()
        {
            match execute(call, job, core, chains) {
                Some(executed) => call = executed,
                None => return Carried::Left,
            }
        } else if !call.wait(clock::after(clock::now(), STICK)) {
            break;
        }
    }
    chains.adopt(Adopted::Call(call));
    Carried::Left
}

/// Executes the call; `None` if it timed out first, and the forwarder has it.
fn execute(call: Box<ChainCall>, job: Job, core: &Core, chains: &Chains) -> Option<Box<ChainCall>> {
    let id = call.id;
    let run = || core.run(&job.head, job.args, job.caller, job.origin, job.arrived);
    if chains.executing.lend(call, core) {
        chains.adopted.wake();
    }
    let ended = run();
    match chains.executing.take_back(id) {
        Some(mut call) => {
            call.ran(ended);
            Some(call)
        }
        None => {
            chains.adopt(Adopted::Ran(id, ended));
            None
        }
    }
}
