//! A schedule: one event after another until none is left, and then the final checks.

use crate::sim::network::{Owner, Path, Stream};
use crate::sim::parts::{Claim, Event};
use crate::sim::world::World;
use std::cmp::Reverse;

/// A schedule that doesn't end also counts as a violation.
const MOST_EVENTS: u64 = 200_000;

impl World {
    /// Runs until no event is left. The error describes the violation.
    pub(super) fn run(&mut self) -> Result<(), String> {
        while let Some(Reverse((time, number))) = self.queue.pop() {
            self.now = time;
            self.events += 1;
            if self.events > MOST_EVENTS {
                return Err("the schedule doesn't end".to_owned());
            }
            if let Some(event) = self.pending.remove(&number) {
                self.happen(event);
            }
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        for ((tag, server), times) in &self.executed {
            if *times > 1 {
                return Err(format!("call {tag} was executed {times} times at {server}"));
            }
        }
        if let Some(caller) = self.callers.iter().find(|caller| !caller.is_done()) {
            return Err(format!("caller {} never ended", caller.index));
        }
        for (tag, server, claim) in &self.claims {
            let times = self.executed.get(&(*tag, *server)).copied().unwrap_or(0);
            let true_claim = match claim {
                Claim::Value(value) => times == 1 && *value == tag.to_be_bytes(),
                Claim::NotExecuted => times == 0,
                Claim::Unknown => true,
            };
            if !true_claim {
                return Err(format!(
                    "call {tag} at {server}: the caller claims {claim:?}, but it was executed {times} times"
                ));
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Datagram { to_server: Some(server), caller, bytes } => {
                self.serve(server, bytes, Path::Datagram(caller));
            }
            Event::Datagram { to_server: None, caller, bytes } => self.answer_arrives(caller, &bytes, None),
            Event::Forged { server, victim, bytes } => self.serve(server, bytes, Path::Stranger(victim)),
            Event::ToServer { stream, bytes } => {
                let Stream { server, incarnation, .. } = self.streams[stream];
                if incarnation == self.servers[server].incarnation {
                    self.serve(server, bytes, Path::Stream(stream));
                }
            }
            Event::HeadToServer { stream, bytes } => {
                let Stream { server, incarnation, alive, .. } = self.streams[stream];
                if alive && incarnation == self.servers[server].incarnation {
                    self.head_arrives(server, stream, &bytes);
                }
            }
            Event::ToOwner { stream, bytes } => {
                if self.streams[stream].alive {
                    match self.streams[stream].owner {
                        Owner::Caller(caller) => self.answer_arrives(caller, &bytes, Some(stream)),
                        Owner::Relay(server, relay) => self.relay_answered(server, relay, &bytes),
                        Owner::Stranger(victim) => self.hand_on(victim, bytes),
                    }
                }
            }
            Event::LastByte { caller, stamp, stream, bytes } => self.last_byte(caller, stamp, stream, bytes),
            Event::Timer { caller, stamp } => self.on_timer(caller, stamp),
            Event::Cut { stream } => self.cut(stream),
            Event::CutSeen { stream } => match self.streams[stream].owner {
                Owner::Caller(caller) => self.caller_sees_cut(caller, stream),
                Owner::Relay(server, relay) => self.relay_sees_cut(server, relay, stream),
                Owner::Stranger(_) => {}
            },
            Event::Ran { server, incarnation, job } => {
                if self.servers[server].incarnation == incarnation {
                    self.ran(server, job);
                }
            }
            Event::RelayLate { server, incarnation, relay } => {
                if self.servers[server].incarnation == incarnation {
                    self.relay_late(server, relay);
                }
            }
            Event::RelaySends { server, incarnation, relay, stream } => {
                if self.servers[server].incarnation == incarnation {
                    self.relay_sends(server, relay, stream);
                }
            }
            Event::Restart { server } => self.restart(server),
            Event::Flip { server } => self.servers[server].forwards ^= true,
            Event::Sweep { server } => {
                self.servers[server].admission.sweep(self.now);
                // Sweeps stop after the last caller. Otherwise the schedule would never end.
                if self.callers.iter().any(|caller| !caller.is_done()) {
                    self.after(100_000, Event::Sweep { server });
                }
            }
            Event::NextCall { caller } => self.next_call(caller),
        }
    }
}
