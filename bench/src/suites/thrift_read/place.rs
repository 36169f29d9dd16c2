//! Placement of clients, gateways and the cluster.

use super::files::Files;
use crate::Result;
use crate::host::{Gateway, bare_rate, on, seconds, strait};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use strait_testkit::{Host, LinkRate, MiniHdfs, Network, Options};
use tempfile::TempDir;

/// The rate of the links in the report.
const LINK: LinkRate = LinkRate::mbit(1_000);

/// The store of a place.
pub enum Store {
    /// A cluster whose files have one replica.
    Hdfs(MiniHdfs),
    Gluster(Volume),
}

/// A GlusterFS volume of one brick on this host.
pub struct Volume {
    pub name: String,
    pub mount: PathBuf,
    /// A program with GlusterFS's own library, which copies a file.
    pub native: PathBuf,
}

/// A store, gateways, and hosts for clients.
pub struct Place {
    /// The place's name in the tables.
    pub name: String,
    pub store: Store,
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
            store: Store::Hdfs(hdfs),
            alone,
            beside,
            nodes,
            loader: None,
            scratch,
            link_rate: None,
        })
    }

    /// A place with the volume that `scripts/with-gluster.sh` has made, and our plugin for it in the gateway.
    pub fn gluster() -> Result<Self> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| format!("{name} is missing: run this in scripts/with-gluster.sh"))
        };
        let scratch = tempfile::tempdir()?;
        let (plugin, native) = (scratch.path().join("gluster.so"), scratch.path().join("gluster_get"));
        let built = |target: &Path, source: &str, flags: &[&str]| {
            let mut cc = Command::new("cc");
            cc.args(["-O2", "-pthread", "-I", "crates/store-plugin/include", source, "-o"]).arg(target);
            seconds(cc.args(flags).arg("-lgfapi"))
        };
        built(&plugin, "plugins/gluster/gluster.c", &["-shared", "-fPIC"])?;
        built(&native, "bench/clients/gluster_get.c", &[])?;
        let volume = Volume {
            name: variable("STRAIT_TEST_GLUSTER")?,
            mount: variable("STRAIT_TEST_NETWORK_DIRECTORY")?.into(),
            native,
        };
        let (plugin, option) =
            (format!("gluster={}", plugin.display()), format!("gluster.volume={}", volume.name));
        let flags = ["--plugin", &plugin, "--plugin-option", &option];
        let alone = Gateway::start_with("plugin:gluster://localhost/", None, &flags)?;
        let (beside, nodes) = (Vec::new(), Vec::new());
        Ok(Self {
            name: "GlusterFS on loopback".into(),
            store: Store::Gluster(volume),
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
        let store = Store::Hdfs(hdfs);
        Ok(Self { name, store, alone, beside, nodes, loader: Some(host(loader)), scratch, link_rate })
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
        let directory = match &self.store {
            Store::Hdfs(hdfs) => hdfs.scratch("records"),
            Store::Gluster(_) => format!("/records-{}", std::process::id()),
        };
        for client in 0..clients {
            let remote = format!("{directory}-{client}");
            match &self.store {
                Store::Hdfs(hdfs) => {
                    let mut put = Command::new(strait()?);
                    on(self.loader.as_ref(), &mut put);
                    put.arg("put").arg(&source).arg(format!("{}{remote}", hdfs.uri()));
                    seconds(&mut put)?;
                }
                Store::Gluster(volume) => {
                    let target = volume.mount.join(remote.trim_start_matches('/'));
                    std::fs::copy(&source, target)?;
                }
            }
        }
        let bytes = std::fs::metadata(&source)?.len();
        Ok(Files { clients, bytes, source, directory, scratch: self.scratch.path().to_owned() })
    }
}
