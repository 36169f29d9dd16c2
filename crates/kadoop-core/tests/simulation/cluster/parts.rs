//! Full reports that the namenode takes replica by replica. Anything may happen in between.

use super::{
    network::{NAMENODE, Reply},
    world::{Event, World},
};
use crate::random::Random;
use strait_kadoop_core::{Millis, messages::Heartbeat};

/// The longest pause between two parts: longer than a datanode waits for the answer.
const LONGEST_MS: Millis = 1_500;

/// Has its own random numbers, so that runs with whole reports keep their schedules.
pub struct Parts {
    random: Random,
    pub come: bool,
}

/// The rest of a full report.
#[derive(Debug)]
pub struct Rest {
    id: u64,
    hop: usize,
    beat: Heartbeat,
}

impl Parts {
    pub fn new(seed: u64) -> Self {
        Self { random: Random(seed.rotate_left(23) ^ 0x9a27), come: seed % 13 == 12 }
    }

    fn pause(&mut self, healed: bool) -> Millis {
        match self.random.below(60) {
            _ if healed => 1,
            0 => self.random.below(LONGEST_MS),
            1..6 => self.random.below(100),
            _ => self.random.below(4),
        }
    }
}

impl World {
    pub fn begin_parts(&mut self) {
        self.config.report_replicas = if self.parts.come { 1 } else { self.config.report_replicas };
    }

    /// Takes a heartbeat at the namenode. None: it doesn't answer, or its answer comes later.
    pub fn take_beat(&mut self, id: u64, hop: usize, beat: Heartbeat) -> Option<Reply> {
        let now = self.clock(NAMENODE);
        loop {
            let rack = self.rack_of(beat.identity);
            match self.ask(|namenode| namenode.take_heartbeat(&beat, rack, now))? {
                Ok(Some(answer)) => return Some(Reply::Beat(Ok(answer))),
                Err(error) => return Some(Reply::Beat(Err(error))),
                Ok(None) if self.parts.come => {
                    let when = self.now + self.parts.pause(self.healed);
                    let life = self.lives[NAMENODE];
                    self.at(when, Event::Part(NAMENODE, life, Box::new(Rest { id, hop, beat })));
                    return None;
                }
                Ok(None) => {}
            }
        }
    }

    pub fn take_rest(&mut self, rest: Rest) {
        let Rest { id, hop, beat } = rest;
        if let Some(reply) = self.take_beat(id, hop, beat) {
            self.reply(id, hop, reply);
        }
    }
}
