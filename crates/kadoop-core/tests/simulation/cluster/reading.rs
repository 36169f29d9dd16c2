//! A client that reads a file with the real core.

use super::{
    client::{Client, Task},
    network::{Host, NAMENODE, Reply, Request},
    world::{Then, World},
};
use bytes::Bytes;
use std::sync::Arc;
use strait_kadoop_core::{
    Error, Millis,
    client::{Checked, Core, ReadCall, ReaderCore},
};

pub struct Reading {
    path: String,
    pub reader: ReaderCore,
    at: u64,
    asked: Option<u32>,
    began: Millis,
    pieces: Vec<(u64, Bytes)>,
    touches: u64,
    promised: u64,
    unsure: bool,
}

impl World {
    pub fn begin_reading(&mut self, host: Host, path: String) {
        let (began, promised, touches) = (self.now, self.promised(&path), self.model.touches(&path));
        // A change under way may happen at any time.
        let unsure = self.is_unsure(&path) || !self.model.files.contains_key(&path);
        let at = if self.random.one_in(2) { 0 } else { self.random.below(promised + 1) };
        let reader = ReaderCore::within(self.config.clone(), Arc::clone(&self.budget));
        let reading =
            Reading { path, reader, at, asked: None, began, pieces: Vec::new(), touches, promised, unsure };
        self.client(host).begin(Task::Reading(Box::new(reading)));
        self.soon(host, 10);
    }

    /// Whether a change of the path's file may be under way.
    pub fn is_unsure(&self, path: &str) -> bool {
        use strait_kadoop_core::messages::Mutation;
        let touches = |mutation: &Mutation| match mutation {
            Mutation::Rename { from, to, .. } => from == path || to == path,
            Mutation::Create { path: of, .. } | Mutation::Delete { path: of, .. } => of == path,
            Mutation::Truncate { path: of, .. } => of == path,
            Mutation::Concat { target, sources } => target == path || sources.iter().any(|of| of == path),
            _ => false,
        };
        self.clients.iter().any(|client| {
            client.unsure.as_ref().is_some_and(touches)
                || matches!(&client.task, Task::Asking { mutation, .. } if touches(mutation))
        })
    }

    /// Files as they are if their clients' joins have been executed. A client that crashed amid one
    /// doesn't know that for seconds, while others read the joined file.
    fn joins_under_way(&self) -> Vec<(u64, Vec<u8>)> {
        use strait_kadoop_core::messages::Mutation;
        let under_way = self.clients.iter().filter_map(Client::changes);
        let joined = under_way.filter_map(|mutation| match mutation {
            Mutation::Concat { target, sources } => self.model.joined(target, sources),
            _ => None,
        });
        joined.collect()
    }

    pub fn step_reading(&mut self, host: Host) {
        let length = 1 + self.random.below(80) as u32;
        if let Task::Reading(reading) = &mut self.client(host).task {
            reading.asked.get_or_insert(length);
            self.pump(host);
        }
    }

    pub fn pump_reading(&mut self, host: Host) {
        let now = self.clock(host);
        let Task::Reading(reading) = &mut self.client(host).task else { return };
        if let Some(length) = reading.asked {
            match reading.reader.read(reading.at, length, now) {
                Ok(None) => {}
                Ok(Some(bytes)) if bytes.is_empty() => return self.end_reading(host, Ok(())),
                Ok(Some(bytes)) => {
                    reading.asked = None;
                    let at = reading.at;
                    reading.at += bytes.len() as u64;
                    let end = at + bytes.len() as u64;
                    reading.pieces.push((at, bytes));
                    let (path, touches, unsure) = (reading.path.clone(), reading.touches, reading.unsure);
                    if !unsure
                        && self.model.touches(&path) == touches
                        && !self.is_unsure(&path)
                        && let Some(file) = self.model.files.get_mut(&path)
                    {
                        file.seen = file.seen.max(end);
                    }
                    let pause = if self.random.one_in(10) { 3_000 } else { 20 };
                    self.soon(host, pause);
                }
                Err(error) => return self.end_reading(host, Err(error)),
            }
        }
        loop {
            let Task::Reading(reading) = &mut self.client(host).task else { return };
            let Some(issue) = reading.reader.next_call() else { return };
            let (id, within) = (issue.id, issue.within_ms);
            match issue.call {
                ReadCall::Locate { offset, length } => {
                    let path = reading.path.clone();
                    let request = Request::Locate { path, offset, length };
                    self.call(host, vec![NAMENODE], &request, within, Then::Located(id));
                }
                ReadCall::Read { from, read } => {
                    let to = self.host_of(from);
                    self.call(host, to, &Request::Read(read), within, Then::Read(id, read));
                }
                ReadCall::Suspect { node, chunk, stamp } => {
                    let request = Request::Suspect { node, chunk, stamp };
                    self.call(host, vec![NAMENODE], &request, within, Then::Nothing);
                }
            }
        }
    }

    fn end_reading(&mut self, host: Host, result: Result<(), Error>) {
        let Task::Reading(reading) = std::mem::replace(&mut self.client(host).task, Task::Idle) else {
            return;
        };
        let Reading { path, at, began, pieces, touches, promised, unsure, .. } = *reading;
        self.soon(host, 100);
        let unsure = unsure || self.model.touches(&path) != touches || self.is_unsure(&path);
        let (meant, joined) = match unsure {
            true => (None, self.joins_under_way()),
            false => (Some(path.as_str()), Vec::new()),
        };
        if !self.model.explains(meant, began, &pieces, &joined) {
            return self.fail(format!("{path}: was read as nobody has written it: {pieces:?}"));
        }
        if unsure {
            return;
        }
        let still = self.promised(&path).min(promised);
        match result {
            Ok(()) if at < still => self.fail(format!("{path}: {at} bytes were read of {still} promised")),
            Ok(()) | Err(Error::Unavailable | Error::Corrupt)
                if began < self.well_from || !self.losses.lost.is_empty() => {}
            Ok(()) => {}
            Err(error) => self.fail(format!("{path}: reading: {error}")),
        }
    }

    pub fn on_reader(&mut self, host: Host, then: &Then, reply: Option<Reply>) {
        let now = self.clock(host);
        let config = self.config.clone();
        let Task::Reading(reading) = &mut self.client(host).task else { return };
        match then {
            Then::Located(id) => {
                let answer = match reply {
                    Some(Reply::Located(answer)) => answer,
                    _ => Err(Error::Unavailable),
                };
                reading.reader.on_located(*id, answer, now);
            }
            Then::Read(id, read) => {
                let answer = match reply {
                    Some(Reply::Piece(piece)) => piece.and_then(|piece| Checked::of(read, piece, &config)),
                    _ => Err(Error::Unavailable),
                };
                reading.reader.on_read(*id, answer, now);
            }
            _ => {}
        }
        self.pump(host);
    }
}
