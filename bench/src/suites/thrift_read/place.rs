//! Placement of clients, gateways and the cluster.

use super::files::Files;
use crate::Result;
use crate::host::{Gateway, bare_rate, on, seconds, strait};
use std::fs::File;
use std::process::{Command, Stdio};
use strait_testkit::{Host, LinkRate, MiniHdfs, Network, Options};
use tempfile::TempDir;

/// The rate of the links in the report.
const LINK: LinkRate = LinkRate::mbit(1_000);

/// A cluster, gateways, and hosts for clients.
pub struct Place {
    /// The place's name in the tables.
    pub name: String,
    /// The cluster. Files have one replica.
    pub hdfs: MiniHdfs,
    /// The gateway on a separate host, as in the report.
    pub alone: Gateway,
    /// The gateways on the datanodes' hosts; empty without hosts.
    pub beside: Vec<Gateway>,
    /// The hosts with a datanode and clients. Empty: everything runs on this machine.
    nodes: Vec<Host>,
    /// The host from which data is loaded. Its link isn't shaped.
    loader: Option<Host>,
    scratch: TempDir,
    /// MB/s of one bare stream over a link, if there are hosts.
    pub link_rate: Option<f64>,
}

/// The gateways that clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// All clients use the gateway on the separate host.
    Alone,
    /// Each client uses the gateway on its own host.
    Beside,
}

impl Place {
    /// A place with everything on this machine.
    pub fn loopback() -> Result<Self> {
        let hdfs = MiniHdfs::start_own(&Options::measured())?;
        let alone = Gateway::start(hdfs.uri())?;
        let scratch = tempfile::tempdir()?;
        let (beside, nodes) = (Vec::new(), Vec::new());
        Ok(Self {
            name: "loopback".into(),
            hdfs,
            alone,
            beside,
            nodes,
            loader: None,
            scratch,
            link_rate: None,
        })
    }

    /// A place with several hosts, of which `nodes` have datanodes.
    pub fn hosts(nodes: usize) -> Result<Self> {
        if nodes == 0 {
            return Err("the cluster needs at least one datanode".into());
        }
        let mut network = Network::start(2 + nodes, Some(LINK))?;
        let loader = network.add_host(None)?;
        let host = |index: usize| network.host(index).clone();
        let (master, unused) = (host(0), host(1));
        let nodes: Vec<Host> = (0..nodes).map(|index| host(2 + index)).collect();
        let mut hosts = vec![master];
        hosts.extend(nodes.iter().cloned());
        let options = Options { datanodes: nodes.len(), hosts, ..Options::measured() };
        let hdfs = MiniHdfs::start_own(&options)?;
        let alone = Gateway::start_with(hdfs.uri(), Some(&unused), &[])?;
        let beside = nodes.iter().map(|node| Gateway::start_with(hdfs.uri(), Some(node), &[]));
        let beside = beside.collect::<Result<Vec<_>>>()?;
        let scratch = tempfile::tempdir()?;
        let name = format!("{} hosts at 1 Gbit/s", nodes.len());
        let link_rate = Some(bare_rate(&unused, &nodes[0])?);
        Ok(Self { name, hdfs, alone, beside, nodes, loader: Some(host(loader)), scratch, link_rate })
    }

    /// The placements of gateways that clients can use here.
    pub fn gateway_placements(&self) -> Vec<Placement> {
        match self.beside.is_empty() {
            true => vec![Placement::Alone],
            false => vec![Placement::Beside, Placement::Alone],
        }
    }

    /// The host of a client. None: this machine.
    pub fn client_host(&self, client: usize) -> Option<&Host> {
        self.nodes.get(client % self.nodes.len().max(1))
    }

    /// The gateway that a client uses.
    pub fn gateway(&self, client: usize, placement: Placement) -> &Gateway {
        match placement {
            Placement::Alone => &self.alone,
            Placement::Beside => &self.beside[client % self.beside.len()],
        }
    }

    /// CPU seconds that all gateways have used so far.
    pub fn gateways_cpu_seconds(&self) -> Result<f64> {
        let gateways = std::iter::once(&self.alone).chain(&self.beside);
        gateways.map(Gateway::cpu_seconds).sum()
    }

    /// Stores a file of MalGen records for each client.
    pub fn load(&self, records: usize, clients: usize) -> Result<Files> {
        let source = self.scratch.path().join("source");
        let mut malgen = Command::new(strait()?);
        malgen.args(["malgen", &records.to_string()]).stdin(Stdio::null()).stdout(File::create(&source)?);
        if !malgen.status()?.success() {
            return Err("strait malgen failed".into());
        }
        let directory = self.hdfs.scratch("records");
        for client in 0..clients {
            let mut put = Command::new(strait()?);
            on(self.loader.as_ref(), &mut put);
            put.arg("put").arg(&source).arg(format!("{}{directory}-{client}", self.hdfs.uri()));
            seconds(&mut put)?;
        }
        let bytes = std::fs::metadata(&source)?.len();
        Ok(Files { clients, bytes, source, directory, scratch: self.scratch.path().to_owned() })
    }
}
