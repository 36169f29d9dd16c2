//! The namenode and the datanodes, as servers of calls.

use super::{
    network::{Host, NAMENODE, Reply, Request},
    world::{CLUSTER, Event, NODES, Placing, SealStep, Then, World, config},
};
use crate::namespace::someone;
use strait_kadoop_core::{
    Config, Error,
    client::Checked,
    error::Result,
    messages::{Caller, Digest, Digested, Heartbeat, Mutation, Piece, Read, Session},
};

impl World {
    pub fn on_request(&mut self, id: u64, hop: usize, host: Host, request: Request) {
        let reply = if host == NAMENODE {
            self.at_namenode(id, hop, request)
        } else if host <= NODES {
            self.at_datanode(id, hop, host, request)
        } else {
            None
        };
        if let Some(reply) = reply {
            self.reply(id, hop, reply);
        }
        if (1..=NODES).contains(&host) {
            self.settle(host);
        }
    }

    fn at_namenode(&mut self, id: u64, hop: usize, request: Request) -> Option<Reply> {
        let (now, wall) = (self.clock(NAMENODE), self.now);
        let user = someone("kadoop");
        Some(match request {
            Request::Join => Reply::Joined(self.ask(|namenode| namenode.join_client(now))?),
            Request::Renew(client) => Reply::Broken(self.ask(|namenode| {
                namenode.renew(client, now);
                namenode.broken_pipelines(client)
            })?),
            Request::Mutate(host, request, mutation) => {
                // Every second client has a session, and gets its files back after a crash.
                let session = (host % 2 == 1).then_some(Session([host as u8; 32]));
                let user = Caller { session, ..user };
                // Every second new file gets its first chunk at once.
                let begins = matches!(&mutation, Mutation::Create { path, .. } if path.ends_with('b'));
                let answer = self.ask(|namenode| match begins {
                    true => namenode.mutate_and_begin(&user, request, &mutation, &[], now, wall),
                    false => namenode.mutate(&user, request, &mutation, &[], now, wall),
                })?;
                if let Ok(answer) = &answer {
                    self.on_mutated(request, &mutation, answer);
                }
                Reply::Answer(answer)
            }
            Request::Locate { path, offset, length } => {
                Reply::Located(self.ask(|namenode| namenode.locate(&user, &path, offset, length))?)
            }
            Request::Status(path) => Reply::Status(self.ask(|namenode| namenode.view(&user).stat(&path))?),
            Request::Suspect { node, chunk, stamp } => {
                self.ask(|namenode| namenode.suspect(node, chunk, stamp))?;
                Reply::Done(Ok(()))
            }
            Request::Beat(beat) => return self.take_beat(id, hop, beat),
            _ => return None,
        })
    }

    fn at_datanode(&mut self, id: u64, hop: usize, host: Host, request: Request) -> Option<Reply> {
        self.on_call(host, id, &request);
        let this = &mut self.nodes[host - 1];
        let node = this.running.as_mut()?;
        Some(match request {
            Request::Write(write) => {
                this.last_caller += 1;
                let caller = this.last_caller;
                this.held.insert(caller, (id, hop));
                match node.place(&write) {
                    Ok(None) => node.write(caller, &write),
                    Ok(Some(place)) => {
                        this.placing.insert(caller, (write, Placing::Given(place)));
                        self.on_placing(host, caller);
                    }
                    Err(error) => {
                        this.held.remove(&caller);
                        return Some(Reply::Done(Err(error)));
                    }
                }
                return None;
            }
            Request::Begin(begin) => {
                this.last_caller += 1;
                this.held.insert(this.last_caller, (id, hop));
                node.begin(this.last_caller, &begin);
                return None;
            }
            Request::Probe(member) => Reply::Done(node.probe(member)),
            Request::Publish { chunk, stamp, length } => Reply::Done(node.publish(chunk, stamp, length)),
            Request::Sync { chunk, stamp, length } => Reply::Done(node.sync(chunk, stamp, length)),
            Request::Seal { chunk, stamp, length } => match node.begin_seal(chunk, stamp, length) {
                Ok(Some(sealing)) => {
                    this.last_caller += 1;
                    let caller = this.last_caller;
                    this.held.insert(caller, (id, hop));
                    this.sealing.insert(caller, SealStep::Begun(sealing));
                    self.on_sealing(host, caller);
                    return None;
                }
                sealed => Reply::Done(sealed.map(drop)),
            },
            Request::Read(read) => {
                let (piece, digested) = (node.read(&read), node.digest(&clipped(&read, &self.config)));
                if !agree(&read, &piece, &digested) {
                    self.fail(format!("datanode {host}: {read:?}: {piece:?} isn't what {digested:?} says"));
                }
                Reply::Piece(piece)
            }
            _ => return None,
        })
    }

    /// Puts bytes in their place, and then tells the datanode: now, or after a pause in which
    /// anything may happen.
    pub fn on_placing(&mut self, host: Host, caller: u64) {
        loop {
            if self.random.one_in(8) {
                let pause = self.random.below(1_500);
                return self.at(self.now + pause, Event::Place(host, self.lives[host], caller));
            }
            let this = &mut self.nodes[host - 1];
            let Some((write, placing)) = this.placing.remove(&caller) else { return };
            match placing {
                Placing::Given(place) => {
                    let placed = place.put(&write);
                    this.placing.insert(caller, (write, Placing::Filled(placed)));
                }
                Placing::Filled(placed) => {
                    if let Some(node) = &mut this.running {
                        node.finish(caller, &write, placed);
                    }
                    return self.settle(host);
                }
            }
        }
    }

    /// Syncs a seal, and then tells the datanode, with pauses as in [`World::on_placing`].
    pub fn on_sealing(&mut self, host: Host, caller: u64) {
        loop {
            if self.random.one_in(4) {
                let pause = self.random.below(1_500);
                return self.at(self.now + pause, Event::Seal(host, self.lives[host], caller));
            }
            let this = &mut self.nodes[host - 1];
            match this.sealing.remove(&caller) {
                Some(SealStep::Begun(sealing)) => {
                    this.sealing.insert(caller, SealStep::Synced(sealing.sync()));
                }
                Some(SealStep::Synced(synced)) => {
                    let Some(node) = &mut this.running else { return };
                    let result = node.finish_seal(synced);
                    if let Some((id, hop)) = this.held.remove(&caller) {
                        self.reply(id, hop, Reply::Done(result));
                    }
                    return self.settle(host);
                }
                None => return,
            }
        }
    }

    /// Forwards all pending output of a datanode.
    pub fn settle(&mut self, host: Host) {
        let this = &mut self.nodes[host - 1];
        let Some(node) = this.running.as_mut() else { return };
        drop(node.discarded());
        let settled = node.settled();
        let replies: Vec<_> = settled
            .into_iter()
            .filter_map(|(caller, result)| Some((this.held.remove(&caller)?, result)))
            .collect();
        let fetches: Vec<_> = std::iter::from_fn(|| node.next_fetch()).collect();
        let news = node.has_news();
        for ((id, hop), result) in replies {
            self.reply(id, hop, Reply::Done(result));
        }
        for fetch in fetches {
            let to = self.host_of(fetch.from);
            let within = self.config.read_ms;
            self.call(host, to, &Request::Read(fetch.read), within, Then::Fetched(fetch.id));
        }
        if news {
            self.beat(host);
        }
    }

    /// A datanode's host, as clients know it.
    pub fn host_of(&self, node: strait_kadoop_core::NodeId) -> Vec<Host> {
        self.numbers.get(&node).map(|index| index + 1).into_iter().collect()
    }

    pub fn beat(&mut self, host: Host) {
        let space = self.space(host);
        let this = &mut self.nodes[host - 1];
        let Some(node) = this.running.as_mut().filter(|_| !this.beating) else { return };
        this.beating = true;
        let beat = node.heartbeat(space);
        this.heard = beat.seen.record;
        if beat.session == 0 {
            this.joined = self.now;
        }
        self.call(host, vec![NAMENODE], &Request::Beat(beat.clone()), 900, Then::Beat(beat));
    }

    pub fn on_beat(&mut self, host: Host, beat: &Heartbeat, reply: Option<Reply>) {
        let this = &mut self.nodes[host - 1];
        this.beating = false;
        let Some(node) = this.running.as_mut() else { return };
        let known = matches!(reply, Some(Reply::Beat(Ok(_))));
        if let Some(Reply::Beat(Ok(answer))) = &reply {
            self.numbers.insert(answer.node, host - 1);
            this.number = Some(answer.node);
            this.cluster = CLUSTER;
            node.join(CLUSTER);
        }
        node.on_answer(
            beat,
            match reply {
                Some(Reply::Beat(answer)) => answer,
                _ => Err(Error::Unavailable),
            },
        );
        this.incarnation = node.incarnation();
        // Without an answer, it repeats the changes with its next heartbeat.
        if known {
            self.settle(host);
        }
    }

    pub fn on_fetched(&mut self, host: Host, fetch: u64, reply: Option<Reply>) {
        let Some(node) = self.nodes[host - 1].running.as_mut() else { return };
        node.on_fetched(
            fetch,
            match reply {
                Some(Reply::Piece(piece)) => piece,
                _ => Err(Error::Unavailable),
            },
        );
        self.settle(host);
    }
}

/// A read with the limit that a digest doesn't have.
fn clipped(read: &Read, config: &Config) -> Read {
    Read { length: read.length.min(config.write_bytes), ..*read }
}

/// Whether a range's digest is that of its bytes. The two may differ for damaged bytes: only a read
/// compares bytes with checksums, and a replica known as damaged has no digest.
fn agree(read: &Read, piece: &Result<Piece>, digested: &Result<Digested>) -> bool {
    let damaged = |error: &Error| matches!(error, Error::Corrupt | Error::Disk);
    match (piece, digested) {
        (Ok(piece), Ok(Digested { digest, visible })) => {
            let sound = Checked::of(read, piece.clone(), &config(None)).is_ok();
            let of = Digest { crc: crc32c::crc32c(&piece.bytes), length: piece.bytes.len() as u32 };
            !sound || (of, piece.visible) == (*digest, *visible)
        }
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => damaged(error),
        (Err(of), Err(other)) => of == other || damaged(of) || damaged(other),
    }
}
