//! Servers lose power, one or all at once, under writers with journals: afterwards the cluster has
//! exactly the names and bytes that it had acknowledged.
//!
//! Each server has a host of its own and a disk of its own ([`PowerDisk`]: ext4 or XFS on a loop
//! device). A power loss is, in this order:
//!
//! 1. The link of each struck host is pulled. No acknowledgement leaves it from now on.
//! 2. The image of each struck disk is cloned while its server writes on: nothing that the server
//!    didn't sync is in it, and writes and syncs are cut off in the middle.
//! 3. The servers are killed, and start again on the clones.
//!
//! Since nothing passes between the struck hosts after the first step, the clones are one state of
//! the cluster, though they are made one after the other. Before a loss a server may be killed or
//! stopped, or a datanode's disk filled. Most seeds of a round's choices are its number.
//!
//! To show that the comparison notices a fault, the second test plants one: a filter in the kernel
//! makes `fdatasync` of the namenode, and then of the datanodes, return 0 and do nothing.

use crate::{
    processes::{DatanodeProcess, NamenodeProcess, Site},
    rack::Who,
    support::client_at,
    witness::{Random, Witness},
};
use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};
use strait_kadoop_client::Client;
use strait_testkit::wait::{pause, wait_until, within};
use strait_testkit::{Format, ImageStore, Network, PowerDisk};
use tempfile::TempDir;

/// Rounds of `make test`.
const ROUNDS: Range<u64> = 0..1;
/// `200`: the rounds from 0 to 199; `50..100`: only these.
const VARIABLE: &str = "KADOOP_POWER_ROUNDS";
/// Rounds of a cluster: the next one has other file systems.
const ROUNDS_OF_A_CLUSTER: u64 = 10;
/// Rounds within which a planted fault has to be noticed.
const FAULTY_ROUNDS: u64 = 10;
const DATANODES: usize = 4;
/// The smallest that XFS takes, and some room.
const DISK_BYTES: u64 = 320 << 20;
/// For all images, and for those that a loss replaces until the kernel has let them go.
const STORE_BYTES: u64 = 16 << 30;
const DEAD_MS: u64 = 4_000;
/// Time within which all servers are back, and within which all chunks have their replicas.
const BACK_DEADLINE: Duration = Duration::from_secs(60);
const WHOLE_DEADLINE: Duration = Duration::from_secs(120);

/// A planted fault.
#[derive(Debug, Clone, Copy)]
struct Fault {
    /// The servers that skip these system calls.
    of: fn(Who) -> bool,
    skipped: i64,
}

/// A cluster whose servers lose power.
struct PowerRack<'s> {
    client: Client,
    namenode: NamenodeProcess,
    datanodes: Vec<DatanodeProcess>,
    disks: Vec<PowerDisk<'s>>,
    network: Network,
    _directory: TempDir,
}

fn servers() -> impl Iterator<Item = Who> {
    std::iter::once(Who::Namenode).chain((0..DATANODES).map(Who::Datanode))
}

impl<'s> PowerRack<'s> {
    fn start(store: &'s ImageStore, cluster: u64, fault: Option<Fault>) -> Self {
        let network = Network::start(2 + DATANODES, None).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let format = |who: Who| match (cluster as usize + who.index()) % 2 {
            0 => Format::Ext4,
            _ => Format::Xfs,
        };
        let disk = |who| PowerDisk::new(store, format(who), DISK_BYTES).unwrap();
        let disks: Vec<PowerDisk> = servers().map(disk).collect();
        let site = |who: Who| Site {
            host: Some(network.host(who.index()).clone()),
            data: disks[who.index() - 1].path().join("data"),
            dead_ms: Some(DEAD_MS),
            skipped_calls: fault
                .filter(|fault| (fault.of)(who))
                .map(|fault| fault.skipped)
                .into_iter()
                .collect(),
            ..Site::new(&directory.path().join(format!("{who:?}")))
        };
        let namenode = NamenodeProcess::start(site(Who::Namenode));
        let datanode = |number| DatanodeProcess::start(site(Who::Datanode(number)), &namenode.address);
        let datanodes = (0..DATANODES).map(datanode).collect();
        let client = network.host(Who::Client.index()).run(|| client_at(&namenode.address));
        let rack = Self { client, namenode, datanodes, disks, network, _directory: directory };
        rack.wait_until_back();
        rack
    }

    fn at_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.network.host(Who::Client.index()).run(work)
    }

    /// Waits until all servers are there.
    fn wait_until_back(&self) {
        self.at_client(|| {
            let back = || {
                let status = self.client.status();
                status.is_ok_and(|status| {
                    let alive =
                        status.nodes.iter().filter(|node| node.alive && node.silent_ms < 3_000).count();
                    !status.safe_mode && alive == DATANODES
                })
            };
            within("all servers are back", BACK_DEADLINE, back);
        });
    }

    fn kill(&mut self, who: Who) {
        match who {
            Who::Namenode => self.namenode.kill(),
            Who::Datanode(number) => self.datanodes[number].kill(),
            Who::Client => {}
        }
    }

    fn disk(&mut self, who: Who) -> &mut PowerDisk<'s> {
        &mut self.disks[who.index() - 1]
    }

    /// Starts a server on its disk.
    fn start_server(&mut self, who: Who) {
        let data = self.disk(who).path().join("data");
        match who {
            Who::Namenode => self.namenode.start_on(data),
            Who::Datanode(number) => self.datanodes[number].start_on(data),
            Who::Client => {}
        }
    }

    /// All these servers lose power at once, and start again.
    fn lose_power(&mut self, struck: &[Who]) {
        for who in struck {
            self.network.unplug(who.index()).unwrap();
        }
        let remains: Vec<_> = struck.iter().map(|who| self.disk(*who).lose_power().unwrap()).collect();
        for (who, remains) in struck.iter().zip(remains) {
            self.kill(*who);
            self.disk(*who).restart(remains).unwrap();
            // A datanode doesn't start on a disk without any room.
            self.disk(*who).relieve().unwrap();
            self.network.plug(who.index()).unwrap();
        }
        struck.iter().for_each(|who| self.start_server(*who));
    }

    /// A disturbance, a power loss, and a comparison.
    fn round(&mut self, round: u64, witness: &Witness) {
        let mut random = Random::new(round + 1);
        let mut below = |end: u64| random.below(end);
        let begin = Instant::now();
        pause("the load goes on", Duration::from_millis(300 + below(1_200)));
        let other = match below(DATANODES as u64 + 1) as usize {
            0 => Who::Namenode,
            number => Who::Datanode(number - 1),
        };
        let disturbance = below(6);
        match (disturbance, other) {
            (0, _) => {
                self.kill(other);
                witness.struck(other);
            }
            (1, Who::Namenode) => self.namenode.freeze(),
            (1, Who::Datanode(number)) => self.datanodes[number].freeze(),
            (2, Who::Datanode(_)) => self.disk(other).fill().unwrap(),
            _ => {}
        }
        pause("the disturbance lasts", Duration::from_millis(below(700)));
        let struck: Vec<Who> = match below(8) {
            0..=1 => vec![Who::Namenode],
            2..=4 => vec![Who::Datanode(below(DATANODES as u64) as usize)],
            _ => servers().collect(),
        };
        self.lose_power(&struck);
        struck.iter().for_each(|who| witness.struck(*who));
        match (disturbance, other) {
            (0, _) if !struck.contains(&other) => self.start_server(other),
            (1, Who::Namenode) => self.namenode.thaw(),
            (1, Who::Datanode(number)) => self.datanodes[number].thaw(),
            (2, Who::Datanode(_)) => self.disk(other).relieve().unwrap(),
            _ => {}
        }
        self.wait_until_back();
        let back = begin.elapsed();
        let flaws = self.at_client(|| witness.flaws());
        let what = format!("round {round}: {disturbance} of {other:?}, power lost by {struck:?}");
        println!("{what}, back after {back:.1?}, compared after {:.1?}", begin.elapsed());
        assert!(flaws.is_empty(), "{what}: {flaws:#?}");
    }
}

fn rounds() -> Range<u64> {
    let Ok(text) = std::env::var(VARIABLE) else { return ROUNDS };
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{VARIABLE}: {text:?} is no number"));
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&text),
    }
}

/// Rounds of one cluster. In the end all closed files have their replicas, no more and no fewer.
fn strike(store: &ImageStore, rounds: Range<u64>, fault: Option<Fault>) {
    let mut rack = PowerRack::start(store, rounds.start / ROUNDS_OF_A_CLUSTER, fault);
    let mut witness = rack.at_client(|| Witness::start(&rack.client, rounds.start + 1));
    for round in rounds.clone() {
        rack.round(round, &witness);
    }
    rack.at_client(|| {
        witness.stop();
        let flaws = witness.flaws();
        assert!(flaws.is_empty(), "at the end: {flaws:#?}");
        let mut why = None;
        let whole = wait_until(WHOLE_DEADLINE, || {
            why = witness.not_whole();
            why.is_none()
        });
        assert!(whole, "{why:?}");
    });
    println!("power, rounds {rounds:?}: {} operations acknowledged, all there", witness.acknowledged());
    for (failure, times) in witness.failures() {
        println!("  {times} × {failure}");
    }
}

#[test]
fn no_acknowledged_byte_or_name_is_lost_however_power_fails() {
    let Some(store) = ImageStore::new_or_skip(STORE_BYTES, "kadoop, power losses") else { return };
    let Range { mut start, end } = rounds();
    while start < end {
        let next = (start + ROUNDS_OF_A_CLUSTER - start % ROUNDS_OF_A_CLUSTER).min(end);
        strike(&store, start..next, None);
        start = next;
    }
}

#[test]
#[ignore = "a lost byte is waited for, which takes minutes: scripts/test-heavy.sh runs it"]
fn servers_that_skip_syncs_are_noticed_when_power_fails() {
    let Some(store) = ImageStore::new_or_skip(STORE_BYTES, "kadoop, skipped syncs") else { return };
    let faults = [
        Fault { of: |who| who == Who::Namenode, skipped: libc::SYS_fdatasync },
        Fault { of: |who| who != Who::Namenode, skipped: libc::SYS_fdatasync },
    ];
    for (cluster, fault) in (0..).zip(faults) {
        let first = cluster * ROUNDS_OF_A_CLUSTER;
        let noticed =
            catch_unwind(AssertUnwindSafe(|| strike(&store, first..first + FAULTY_ROUNDS, Some(fault))));
        assert!(noticed.is_err(), "{fault:?} isn't noticed");
    }
}
