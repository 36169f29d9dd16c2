//! Kadoop as processes of `strait namenode` and `strait datanode` with default settings, each on a separate
//! host with a link of 1 Gbit/s, and a client in this process.

use super::data_directory;
use crate::Result;
use crate::host::strait;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use strait_kadoop_client::{Client, ClientOptions};
use strait_kadoop_core::messages::Caller;
use strait_kadoop_wire::ClientKey;
use strait_testkit::{Host, LinkRate, Network, Process, wait_until};
use tempfile::TempDir;

/// Indices of the hosts: the client's, the namenode's, and the first datanode's.
pub const CLIENT: usize = 0;
pub const NAMENODE: usize = 1;
pub const FIRST_DATANODE: usize = 2;
/// The rate of the links in the paper's network.
const LINK: LinkRate = LinkRate::mbit(1_000);
/// Jumbo frames, so that the links are the limit, and not the cores that simulate them.
const PACKET_BYTES: u32 = 9_000;
const NAMENODE_PORT: u16 = 9091;
const DATANODES_PORT: u16 = 9092;
const DATANODE_PORT: u16 = 9093;
const START_DEADLINE: Duration = Duration::from_secs(60);

/// A network with hosts for a client, a namenode and `datanodes` datanodes.
pub fn network(datanodes: usize) -> Result<Network> {
    let network = Network::start(FIRST_DATANODE + datanodes, Some(LINK))?;
    network.set_packet_bytes(PACKET_BYTES)?;
    Ok(network)
}

/// The processes and a client. A drop ends them, the network last.
pub struct Rack {
    pub client: Client,
    /// The superuser.
    pub caller: Caller,
    key: ClientKey,
    datanodes: Vec<Process>,
    /// In a lock, so that it can be replaced while clients use the other fields.
    namenode: Mutex<Process>,
    directory: TempDir,
    pub network: Network,
}

impl Rack {
    /// Starts the processes, and waits until all datanodes are alive.
    pub fn start(datanodes: usize) -> Result<Self> {
        let network = network(datanodes)?;
        let directory = TempDir::with_prefix_in("strait-rack-", data_directory())?;
        let mut namenode = namenode(directory.path(), &network)?;
        let key = directory.path().join("client.key");
        namenode.wait_ready(START_DEADLINE, || key.exists())?;
        let datanodes = (0..datanodes).map(|number| datanode(directory.path(), &network, number));
        let datanodes = datanodes.collect::<Result<Vec<_>>>()?;
        let key = ClientKey::load(&key)?;
        let client = connect(&network, CLIENT, &key)?;
        let caller = Caller { user: "kadoop".into(), groups: Vec::new(), session: None };
        let namenode = Mutex::new(namenode);
        let rack = Self { client, caller, key, datanodes, namenode, directory, network };
        rack.wait_for_all()?;
        Ok(rack)
    }

    /// A client on the host of a datanode.
    pub fn client_at(&self, datanode: usize) -> Result<Client> {
        connect(&self.network, FIRST_DATANODE + datanode, &self.key)
    }

    /// The client's host.
    pub fn host(&self) -> &Host {
        self.network.host(CLIENT)
    }

    /// The host of a datanode.
    pub fn datanode_host(&self, number: usize) -> &Host {
        self.network.host(FIRST_DATANODE + number)
    }

    /// The directory of a datanode's replicas.
    pub fn data(&self, datanode: usize) -> std::path::PathBuf {
        self.directory.path().join(datanode_name(datanode))
    }

    /// The file with the clients' key.
    pub fn client_key(&self) -> std::path::PathBuf {
        self.directory.path().join("client.key")
    }

    /// The URI of the root directory, without the last slash.
    pub fn uri(&self) -> String {
        format!("kadoop://{}:{NAMENODE_PORT}", self.network.host(NAMENODE).address())
    }

    /// Number of datanodes that the namenode counts as alive; None in safe mode.
    pub fn alive(&self) -> Option<usize> {
        let status = self.client.status().ok().filter(|status| !status.safe_mode)?;
        Some(status.nodes.iter().filter(|node| node.alive).count())
    }

    /// Waits until all datanodes are alive and safe mode is over.
    pub fn wait_for_all(&self) -> Result<()> {
        let all = || self.alive() == Some(self.datanodes.len());
        match self.host().run(|| wait_until(START_DEADLINE, all)) {
            true => Ok(()),
            false => Err(format!("Kadoop isn't ready after {START_DEADLINE:?}").into()),
        }
    }

    /// Kills a datanode, as by `kill -9`, without waiting for its end.
    pub fn kill_datanode(&self, number: usize) {
        self.datanodes[number].signal(rustix::process::Signal::KILL);
    }

    /// Restarts a datanode, and kills it first if it runs.
    pub fn restart_datanode(&mut self, number: usize) -> Result<()> {
        self.datanodes[number].kill();
        self.datanodes[number] = datanode(self.directory.path(), &self.network, number)?;
        Ok(())
    }

    /// Kills the namenode, as by `kill -9`, and starts it again at once.
    pub fn kill_and_start_namenode(&self) -> Result<()> {
        let mut process = self.namenode.lock().unwrap_or_else(PoisonError::into_inner);
        process.kill();
        *process = namenode(self.directory.path(), &self.network)?;
        Ok(())
    }
}

fn connect(network: &Network, host: usize, key: &ClientKey) -> Result<Client> {
    let address = format!("{}:{NAMENODE_PORT}", network.host(NAMENODE).address());
    let connect = || Client::connect(ClientOptions::new(address, key.clone()));
    Ok(network.host(host).run(|| connect().map_err(|failure| failure.to_string()))?)
}

fn namenode(directory: &Path, network: &Network) -> Result<Process> {
    let host = network.host(NAMENODE);
    let address = format!("{}:{NAMENODE_PORT}", host.address());
    let datanodes_call = format!("{}:{DATANODES_PORT}", host.address());
    let arguments = ["namenode", "--data", "namenode", "--superuser", "kadoop", "--listen", &address];
    let more = ["--listen-datanodes", &datanodes_call, "--key", "key", "--key-for-clients", "client.key"];
    spawn(directory, host, "namenode", &[&arguments[..], &more].concat())
}

fn datanode_name(number: usize) -> String {
    format!("datanode-{number}")
}

fn datanode(directory: &Path, network: &Network, number: usize) -> Result<Process> {
    let host = network.host(FIRST_DATANODE + number);
    let (name, listen) = (datanode_name(number), format!("{}:{DATANODE_PORT}", host.address()));
    let namenode = format!("{}:{NAMENODE_PORT}", network.host(NAMENODE).address());
    // Use the address as the name: network namespaces share the machine's name, which would lead to no
    // datanode.
    let address = host.address().to_string();
    let arguments = ["datanode", "--data", &name, "--namenode", &namenode, "--listen", &listen];
    let more = ["--key", "key", "--host", &address];
    spawn(directory, host, &name, &[&arguments[..], &more].concat())
}

fn spawn(directory: &Path, host: &Host, name: &str, arguments: &[&str]) -> Result<Process> {
    let mut command = Command::new(strait()?);
    command.args(arguments).current_dir(directory);
    host.enter(&mut command);
    Ok(Process::spawn(name, command, directory)?)
}
