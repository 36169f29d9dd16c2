//! A cluster of processes. If possible, each runs on its own host (a network namespace, which needs
//! root), otherwise on loopback.

use crate::{
    load::{Acknowledged, REPLICATION},
    processes::{DatanodeProcess, NamenodeProcess, Site},
    support::{client_at, superuser},
};
use std::time::Duration;
use strait_kadoop_client::Client;
use strait_testkit::wait::{eventually, wait_until};
use strait_testkit::{Host, LinkRate, Network, SmallDisk};
use tempfile::TempDir;

/// One more datanode than a broken pipeline and its successor need.
pub const DATANODES: usize = 5;
/// Shorter than the default, since the tests wait for every failure.
const DEAD_MS: u64 = 4_000;
/// Time within which each chunk has its replicas again: until a datanode counts as dead, and for
/// the copies.
const WHOLE_DEADLINE: Duration = Duration::from_secs(90);

/// A process of the rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Client,
    Namenode,
    Datanode(usize),
}

impl Who {
    /// Index of its host.
    pub fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Namenode => 1,
            Self::Datanode(number) => 2 + number,
        }
    }
}

/// Settings of a rack.
#[derive(Debug, Default)]
pub struct Shape {
    /// Small disks, with their sizes, in place of some directories.
    pub small_disks: Vec<(Who, u64)>,
    /// How long a datanode takes to compare all its replicas.
    pub scrub_ms: Option<u64>,
}

/// A running cluster and a client.
pub struct Rack {
    pub client: Client,
    pub namenode: NamenodeProcess,
    pub datanodes: Vec<DatanodeProcess>,
    network: Option<Network>,
    disks: Vec<(Who, SmallDisk)>,
    _directory: TempDir,
}

impl Rack {
    /// Starts a rack; None if a small disk is required and can't be made.
    pub fn start(shape: &Shape) -> Option<Self> {
        let root = rustix::process::geteuid().is_root();
        let network = root.then(|| Network::start(2 + DATANODES, None).unwrap());
        if !root && !shape.small_disks.is_empty() {
            return None;
        }
        let small = |(who, bytes): &(Who, u64)| (*who, SmallDisk::new(*bytes).unwrap());
        let disks: Vec<(Who, SmallDisk)> = shape.small_disks.iter().map(small).collect();
        let directory = tempfile::tempdir().unwrap();
        let site = |who: Who, name: String| {
            let own = Site::new(&directory.path().join(name));
            let disk = disks.iter().find(|(of, _)| *of == who);
            let data = disk.map_or(own.data.clone(), |(_, disk)| disk.path().join("data"));
            let host = network.as_ref().map(|network| network.host(who.index()).clone());
            Site { host, data, dead_ms: Some(DEAD_MS), scrub_ms: shape.scrub_ms, ..own }
        };
        let namenode = NamenodeProcess::start(site(Who::Namenode, "namenode".to_owned()));
        let datanode = |number| {
            let site = site(Who::Datanode(number), format!("datanode-{number}"));
            DatanodeProcess::start(site, &namenode.address)
        };
        let datanodes: Vec<DatanodeProcess> = (0..DATANODES).map(datanode).collect();
        let client_host = network.as_ref().map(|network| network.host(Who::Client.index()).clone());
        let client = on(client_host.as_ref(), || {
            let client = client_at(&namenode.address);
            eventually("all datanodes are there", || {
                client.status().is_ok_and(|status| !status.safe_mode && status.nodes.len() == DATANODES)
            });
            client
        });
        Some(Self { client, namenode, datanodes, network, disks, _directory: directory })
    }

    /// Starts a rack whose links can be cut and slowed down. Otherwise reports the skipped claim.
    pub fn start_with_links(what: &str) -> Option<Self> {
        if rustix::process::geteuid().is_root() {
            return Self::start(&Shape::default());
        }
        skip(what);
        None
    }

    /// Runs `work` on the client's host.
    pub fn at_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        on(self.network.as_ref().map(|network| network.host(Who::Client.index())), work)
    }

    /// Isolates a process from all others, as if its cable were pulled. On loopback it freezes the
    /// process, which looks the same to others.
    pub fn isolate(&self, who: Who) {
        match (&self.network, who) {
            (Some(network), _) => network.unplug(who.index()).unwrap(),
            (None, Who::Client) => {}
            (None, Who::Namenode) => self.namenode.freeze(),
            (None, Who::Datanode(number)) => self.datanodes[number].freeze(),
        }
    }

    /// Undoes [`Rack::isolate`].
    pub fn rejoin(&self, who: Who) {
        match (&self.network, who) {
            (Some(network), _) => network.plug(who.index()).unwrap(),
            (None, Who::Client) => {}
            (None, Who::Namenode) => self.namenode.thaw(),
            (None, Who::Datanode(number)) => self.datanodes[number].thaw(),
        }
    }

    /// Cuts the link between two processes.
    pub fn cut(&self, one: Who, other: Who) {
        self.links().cut(one.index(), other.index()).unwrap();
    }

    pub fn mend(&self, one: Who, other: Who) {
        self.links().mend(one.index(), other.index()).unwrap();
    }

    /// Limits a process's link to `rate`.
    pub fn slow_down(&mut self, who: Who, rate: LinkRate) {
        let network = self.network.as_mut().expect("there are links");
        network.set_rate(who.index(), rate).unwrap();
    }

    fn links(&self) -> &Network {
        self.network.as_ref().expect("there are links")
    }

    /// The small disk of a process.
    pub fn disk(&self, of: Who) -> &SmallDisk {
        self.disks.iter().find(|(who, _)| *who == of).map(|(_, disk)| disk).expect("it has a small disk")
    }

    /// Waits until the namenode counts this many datanodes as alive.
    pub fn wait_for_alive(&self, count: usize) {
        let alive = |client: &Client| {
            let status = client.status();
            status.is_ok_and(|status| status.nodes.iter().filter(|node| node.alive).count() == count)
        };
        self.at_client(|| {
            eventually(&format!("{count} datanodes are alive"), || alive(&self.client));
        });
    }

    /// Waits until each chunk of these files is on exactly the wanted number of datanodes: as
    /// `strait fsck` checks, and without superfluous replicas.
    pub fn wait_until_whole(&self, files: &[Acknowledged]) {
        self.at_client(|| {
            let mut left: Vec<(&Acknowledged, String)> =
                files.iter().filter(|file| file.closed).map(|file| (file, String::new())).collect();
            wait_until(WHOLE_DEADLINE, || {
                left.retain_mut(|(file, why)| match self.flaw(file) {
                    Some(flaw) => {
                        *why = flaw;
                        true
                    }
                    None => false,
                });
                left.is_empty()
            });
            let why = left.first().map(|(file, why)| format!("{}: {why}", file.path));
            assert!(left.is_empty(), "{} files aren't whole: {}", left.len(), why.unwrap_or_default());
        });
    }

    /// The reason why a file isn't whole.
    fn flaw(&self, file: &Acknowledged) -> Option<String> {
        let found = match self.client.locations(&superuser(), &file.path, 0, u64::MAX) {
            Ok(found) => found,
            Err(failure) => return Some(failure.to_string()),
        };
        let covered: u64 = found.iter().map(|part| part.length).sum();
        if covered != file.length as u64 {
            return Some(format!("{covered} of {} bytes", file.length));
        }
        let odd = found.iter().find(|part| part.hosts.len() != usize::from(REPLICATION))?;
        Some(format!("{} replicas of the chunk at {}", odd.hosts.len(), odd.offset))
    }
}

/// Reports that a claim wasn't tested. The harness shows and counts it.
pub fn skip(what: &str) {
    strait_testkit::skip(&format!("kadoop faults, {what}"), "root, for network namespaces");
}

/// Runs `work` on a host, or here without one.
fn on<T: Send>(host: Option<&Host>, work: impl FnOnce() -> T + Send) -> T {
    match host {
        Some(host) => host.run(work),
        None => work(),
    }
}
