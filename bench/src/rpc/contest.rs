//! Contests: each contestant makes a slice of calls in turn, so that a round compares them in nearly the same
//! state of the machine.

use super::programs::{Client, Place, Programs, Server, Slice};
use super::{BARE, OURS};
use crate::Result;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use std::net::SocketAddr;
use std::time::Duration;
use strait_testkit::Host;

/// The parameters of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Bytes of argument.
    pub bytes: usize,
    /// Number of concurrent callers.
    pub callers: usize,
    /// Pause between two calls of a caller, in microseconds.
    pub gap_us: usize,
    /// Duration of each slice.
    pub milliseconds: usize,
    /// Slices of each contestant.
    pub rounds: usize,
}

/// A participant in a contest.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its name in the row: [`OURS`], [`BARE`] for the limit, or a peer's.
    pub name: &'static str,
    /// The system to call.
    pub system: &'a str,
    /// The mode of the calls: a transport, or a kind of multicast.
    pub mode: &'a str,
}

/// The systems: the limit, ours, and peers. Their servers all run, but only one is called at a time.
pub struct Contest {
    contestants: Vec<Contestant>,
}

struct Contestant {
    system: String,
    client: Client,
    servers: Vec<Server>,
}

impl Contest {
    /// A contest in which each system has one server, on the same machine as its client.
    pub fn on_loopback(programs: &Programs, place: Place, systems: &[&str]) -> Result<Self> {
        let mut contestants = Vec::new();
        for system in systems {
            let servers = vec![Server::start(programs, system, place, None)?];
            let client = Client::start(programs, system, place, None, &[servers[0].address])?;
            contestants.push(Contestant { system: (*system).to_owned(), client, servers });
        }
        Ok(Self { contestants })
    }

    /// A contest in which each system has its client on the first host, and a server on each other host.
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

    /// As [`Contest::run`], for these systems, all in the same mode.
    pub fn run_alike(&mut self, case: Case, mode: &str, systems: &[&'static str]) -> Result<Slices> {
        let entries: Vec<_> = systems.iter().map(|system| Entry { name: system, system, mode }).collect();
        self.run(case, &entries)
    }

    /// Runs rounds of slices. Every second round is in reverse order. The first round isn't counted.
    pub fn run(&mut self, case: Case, entries: &[Entry<'_>]) -> Result<Slices> {
        let mut slices: Vec<_> = entries.iter().map(|entry| (entry.name, Vec::new())).collect();
        for round in 0..=case.rounds {
            for turn in 0..entries.len() {
                let index = if round % 2 == 0 { turn } else { entries.len() - 1 - turn };
                let Entry { system, mode, .. } = entries[index];
                let mut systems = self.contestants.iter_mut();
                let contestant = systems.find(|contestant| contestant.system == system);
                let slice = contestant.ok_or("the contest lacks a system")?.slice(mode, case)?;
                if round > 0 {
                    slices[index].1.push(slice);
                }
            }
        }
        Ok(Slices(slices))
    }
}

impl Contestant {
    /// Makes one slice. Adds the servers' CPU time to the client's.
    fn slice(&mut self, mode: &str, case: Case) -> Result<Slice> {
        let cpu = |servers: &[Server]| servers.iter().map(Server::cpu).sum::<Result<Duration>>();
        let before = cpu(&self.servers)?;
        let Case { bytes, callers, milliseconds, gap_us, .. } = case;
        let mut slice = self.client.slice(mode, bytes, callers, milliseconds, gap_us)?;
        slice.cpu_seconds += cpu(&self.servers)?.saturating_sub(before).as_secs_f64();
        Ok(slice)
    }
}

/// The slices of each entry, round by round.
pub struct Slices(Vec<(&'static str, Vec<Slice>)>);

impl Slices {
    /// A row with our figure, the limit's and the peers'.
    pub fn row(
        &self,
        case: String,
        unit: &str,
        better: Better,
        figure: impl Fn(&Slice) -> f64,
    ) -> Result<Row> {
        let ours = self.figures(OURS, &figure).ok_or("FlexRPC didn't take part in the contest")?;
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

    /// One entry's figures, round by round.
    pub fn figures(&self, name: &str, figure: impl Fn(&Slice) -> f64) -> Option<Vec<f64>> {
        let (_, slices) = self.0.iter().find(|(entry, _)| *entry == name)?;
        Some(slices.iter().map(figure).collect())
    }
}
