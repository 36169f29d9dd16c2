//! HDFS, with timeouts as short as in the test kit. HDFS's own Java client or the adapter writes.

use super::{DATANODES, Loss, Lossy, REPLICATION, Suffered};
use crate::Result;
use crate::host::on;
use crate::kadoop::data_directory;
use crate::kadoop::hdfs::PROPERTIES;
use crate::kadoop::rack::{CLIENT, FIRST_DATANODE, NAMENODE, network};
use crate::programs::{adapter_orders, hdfs_orders};
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};
use strait_testkit::{MiniHdfs, Network, Options, http_request, spawn_bound, wait_until};

/// Longest wait until HDFS is whole again. After a link was unplugged, a writer stalls for more than a
/// minute.
const WHOLE_DEADLINE: Duration = Duration::from_secs(180);
/// The namenode may order a copy to the lost datanode before it knows of the loss. After this many seconds
/// (300 by default), it orders another copy.
const REPEAT_COPIES: (&str, &str) = ("dfs.namenode.reconstruction.pending.timeout-sec", "10");
const NAMESYSTEM: &str = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState";

/// A client of HDFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HdfsClient {
    Java,
    Adapter,
}

/// The cluster and its current client. A drop stops them, the network last.
pub struct HdfsRack {
    kind: HdfsClient,
    client: Running,
    cluster: MiniHdfs,
    network: Network,
}

/// A client's process.
struct Running {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Running {
    fn start(kind: HdfsClient, cluster: &MiniHdfs, network: &Network) -> Result<Self> {
        let mut command = match kind {
            HdfsClient::Java => hdfs_orders(cluster, &[])?,
            HdfsClient::Adapter => adapter_orders(cluster)?,
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        on(network.hosts().get(CLIENT), &mut command);
        let mut child = spawn_bound(command)?;
        let orders = child.stdin.take().ok_or("no pipe to a client")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe from a client")?);
        Ok(Self { child, orders, answers })
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("HDFS's client ended".into()),
            _ => Ok(line.trim().to_owned()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ignore errors: the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl HdfsRack {
    pub fn start(kind: HdfsClient) -> Result<Self> {
        let network = network(DATANODES)?;
        let cluster = MiniHdfs::start_own(&Options {
            datanodes: DATANODES,
            replication: usize::from(REPLICATION),
            properties: [&PROPERTIES[..], &[REPEAT_COPIES]].concat(),
            hosts: network.hosts()[NAMENODE..].to_vec(),
            parent: Some(data_directory()),
            ..Options::measured()
        })?;
        let client = Running::start(kind, &cluster, &network)?;
        Ok(Self { kind, client, cluster, network })
    }

    /// Replaces the client by one of this kind, unless it is of this kind already.
    pub fn change_client(&mut self, kind: HdfsClient) -> Result<()> {
        if kind != self.kind {
            self.client = Running::start(kind, &self.cluster, &self.network)?;
            self.kind = kind;
        }
        Ok(())
    }

    /// Waits until `live` datanodes are live, and no block has too few replicas.
    fn wait_until_whole(&self, live: usize) -> Result<()> {
        let wanted = [
            format!("\"NumLiveDataNodes\" : {live},"),
            "\"UnderReplicatedBlocks\" : 0,".to_owned(),
            "\"PendingReplicationBlocks\" : 0,".to_owned(),
        ];
        let whole = || {
            let state = http_request("GET", self.cluster.http_address(), NAMESYSTEM);
            state.is_ok_and(|state| wanted.iter().all(|line| state.body.contains(line)))
        };
        match self.network.host(NAMENODE).run(|| wait_until(WHOLE_DEADLINE, whole)) {
            true => Ok(()),
            false => Err(format!("HDFS lacks datanodes or replicas after {WHOLE_DEADLINE:?}").into()),
        }
    }
}

impl Lossy for HdfsRack {
    fn name(&self) -> &'static str {
        match self.kind {
            HdfsClient::Java => "HDFS",
            HdfsClient::Adapter => "HDFS by the adapter",
        }
    }

    fn lose(&mut self, loss: Loss, path: &str, mib: usize) -> Result<Suffered> {
        writeln!(self.client.orders, "write-and-tell {path} {mib} {REPLICATION}")?;
        let member = self.client.answer()?;
        let victim = datanode_at(&self.network, member.parse()?)?;
        let lost_at = Instant::now();
        match loss {
            Loss::Killed => self.cluster.stop_datanode(victim),
            Loss::Unplugged => self.network.unplug(FIRST_DATANODE + victim)?,
        }
        let longest_write_s: f64 = self.client.answer()?.parse()?;
        println!("{}, {loss}: longest write {longest_write_s} s; waiting for replicas", self.name());
        self.wait_until_whole(DATANODES - 1)?;
        let whole_again_s = lost_at.elapsed().as_secs_f64();
        match loss {
            Loss::Killed => self.cluster.restart_datanode(victim)?,
            Loss::Unplugged => self.network.plug(FIRST_DATANODE + victim)?,
        }
        self.wait_until_whole(DATANODES)?;
        Ok(Suffered { longest_write_s, whole_again_s })
    }
}

/// The index of the datanode at an address.
fn datanode_at(network: &Network, address: IpAddr) -> Result<usize> {
    let found = network.hosts().iter().position(|host| IpAddr::from(host.address()) == address);
    let datanode = found.and_then(|host| host.checked_sub(FIRST_DATANODE));
    Ok(datanode.ok_or_else(|| format!("no datanode is at {address}"))?)
}
