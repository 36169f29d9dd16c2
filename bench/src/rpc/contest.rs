//! Slices of calls of each contestant in turn, so that each round compares what
//! the machine did at nearly the same time.

use super::programs::{Client, Place, Programs, Server, Slice};
use super::{BARE, OURS};
use crate::Result;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use std::net::SocketAddr;
use std::time::Duration;
use strait_testkit::Host;

/// What all are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Bytes of argument.
    pub bytes: usize,
    /// Callers at a time.
    pub callers: usize,
    /// Between a caller's calls.
    pub gap_us: usize,
    /// Of each slice.
    pub milliseconds: usize,
    /// Slices of each contestant.
    pub rounds: usize,
}

/// One that takes part.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// In the row: [`OURS`], [`BARE`] for the limit, or a peer's.
    pub name: &'static str,
    /// The system that is asked.
    pub system: &'a str,
    /// What it is asked for: a transport, a kind of multicast.
    pub mode: &'a str,
}

/// Systems of which one runs at a time: the limit, ours, and peers.
pub struct Contest {
    contestants: Vec<Contestant>,
}

struct Contestant {
    system: String,
    client: Client,
    servers: Vec<Server>,
}

impl Contest {
    /// Each with one server beside its client.
    pub fn on_loopback(programs: &Programs, place: Place, systems: &[&str]) -> Result<Self> {
        let mut contestants = Vec::new();
        for system in systems {
            let servers = vec![Server::start(programs, system, place, None)?];
            let client = Client::start(programs, system, place, None, &[servers[0].address])?;
            contestants.push(Contestant { system: (*system).to_owned(), client, servers });
        }
        Ok(Self { contestants })
    }

    /// Each with its client on the first host and a server on each other.
    pub fn on_hosts(programs: &Programs, hosts: &[Host], systems: &[&str]) -> Result<Self> {
        let (caller, callees) = hosts.split_first().ok_or("no hosts")?;
        let mut contestants = Vec::new();
        for system in systems {
            let start = |host| Server::start(programs, system, Place::Anywhere, Some(host));
            let servers: Vec<Server> = callees.iter().map(start).collect::<Result<_>>()?;
            let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
            let client = Client::start(programs, system, Place::Anywhere, Some(caller), &addresses)?;
            contestants.push(Contestant { system: (*system).to_owned(), client, servers });
        }
        Ok(Self { contestants })
    }

    /// Each of `systems` alike, by [`Contest::run`].
    pub fn run_alike(&mut self, case: Case, mode: &str, systems: &[&'static str]) -> Result<Slices> {
        let entries: Vec<_> = systems.iter().map(|system| Entry { name: system, system, mode }).collect();
        self.run(case, &entries)
    }

    /// Rounds of slices, every other round backwards. One round isn't counted.
    pub fn run(&mut self, case: Case, entries: &[Entry<'_>]) -> Result<Slices> {
        let mut slices: Vec<_> = entries.iter().map(|entry| (entry.name, Vec::new())).collect();
        for round in 0..=case.rounds {
            for turn in 0..entries.len() {
                let index = if round % 2 == 0 { turn } else { entries.len() - 1 - turn };
                let Entry { system, mode, .. } = entries[index];
                let mut systems = self.contestants.iter_mut();
                let contestant = systems.find(|contestant| contestant.system == system);
                let slice = contestant.ok_or("a system that isn't there")?.slice(mode, case)?;
                if round > 0 {
                    slices[index].1.push(slice);
                }
            }
        }
        Ok(Slices(slices))
    }
}

impl Contestant {
    /// With the servers' CPU time.
    fn slice(&mut self, mode: &str, case: Case) -> Result<Slice> {
        let cpu = |servers: &[Server]| servers.iter().map(Server::cpu).sum::<Result<Duration>>();
        let before = cpu(&self.servers)?;
        let Case { bytes, callers, milliseconds, gap_us, .. } = case;
        let mut slice = self.client.slice(mode, bytes, callers, milliseconds, gap_us)?;
        slice.cpu_seconds += cpu(&self.servers)?.saturating_sub(before).as_secs_f64();
        Ok(slice)
    }
}

/// Of each entry, round by round.
pub struct Slices(Vec<(&'static str, Vec<Slice>)>);

impl Slices {
    /// A row of ours beside the limit, and of peers, by one figure of a slice.
    pub fn row(
        &self,
        case: String,
        unit: &str,
        better: Better,
        figure: impl Fn(&Slice) -> f64,
    ) -> Result<Row> {
        let ours = self.figures(OURS, &figure).ok_or("ours didn't take part")?;
        let mut row = Row::new(case, unit, better, ours.len(), &Sample::new(ours.clone()));
        if let Some(limit) = self.figures(BARE, &figure) {
            let ratios = ours.iter().zip(&limit).map(|(ours, limit)| ours / limit).collect();
            row.limit = Some(Sample::new(limit).median());
            row.ratio_to_limit = Some(Sample::new(ratios).median());
        }
        for (name, slices) in self.0.iter().filter(|(name, _)| ![OURS, BARE].contains(name)) {
            row = row.with_peer(name, Sample::new(slices.iter().map(&figure).collect()).median());
        }
        Ok(row)
    }

    /// One entry's, round by round.
    pub fn figures(&self, name: &str, figure: impl Fn(&Slice) -> f64) -> Option<Vec<f64>> {
        let (_, slices) = self.0.iter().find(|(entry, _)| *entry == name)?;
        Some(slices.iter().map(figure).collect())
    }
}
