//! HDFS, with its timeouts as short as in the test kit.

use super::{DATANODES, Loss, Lossy, REPLICATION, Suffered};
use crate::Result;
use crate::host::on;
use crate::kadoop::data_directory;
use crate::kadoop::hdfs::{JVM_FLAGS, PROPERTIES};
use crate::kadoop::rack::{CLIENT, FIRST_DATANODE, NAMENODE, network};
use crate::programs::hdfs_orders;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};
use strait_testkit::{MiniHdfs, Network, Options, http_request, spawn_bound, wait_until};

/// A writer stalls for more than a minute after a link was pulled.
const WHOLE_DEADLINE: Duration = Duration::from_secs(180);
const NAMESYSTEM: &str = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState";

/// The cluster and its client, stopped when dropped, the network last.
pub struct HdfsRack {
    client: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    cluster: MiniHdfs,
    network: Network,
}

impl HdfsRack {
    pub fn start() -> Result<Self> {
        let network = network(DATANODES)?;
        let cluster = MiniHdfs::start_own(&Options {
            datanodes: DATANODES,
            replication: usize::from(REPLICATION),
            properties: PROPERTIES.to_vec(),
            hosts: network.hosts()[NAMENODE..].to_vec(),
            parent: Some(data_directory()),
            jvm_flags: JVM_FLAGS.to_vec(),
        })?;
        let mut command = hdfs_orders(&cluster, &[])?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        on(network.hosts().get(CLIENT), &mut command);
        let mut client = spawn_bound(command)?;
        let orders = client.stdin.take().ok_or("no pipe to a client")?;
        let answers = BufReader::new(client.stdout.take().ok_or("no pipe from a client")?);
        Ok(Self { client, orders, answers, cluster, network })
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("HDFS's client ended".into()),
            _ => Ok(line.trim().to_owned()),
        }
    }

    /// Waits until so many datanodes are live, and no block has too few replicas.
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
            false => Err(format!("HDFS isn't whole after {WHOLE_DEADLINE:?}").into()),
        }
    }
}

impl Lossy for HdfsRack {
    fn name(&self) -> &'static str {
        "HDFS"
    }

    fn lose(&mut self, loss: Loss, path: &str, mib: usize) -> Result<Suffered> {
        writeln!(self.orders, "write-and-tell {path} {mib} {REPLICATION}")?;
        let member = self.answer()?;
        let victim = datanode_at(&self.network, member.parse()?)?;
        let lost_at = Instant::now();
        match loss {
            Loss::Killed => self.cluster.stop_datanode(victim),
            Loss::Unplugged => self.network.unplug(FIRST_DATANODE + victim)?,
        }
        let longest_write_s = self.answer()?.parse()?;
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

impl Drop for HdfsRack {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// The index of the datanode at an address.
fn datanode_at(network: &Network, address: IpAddr) -> Result<usize> {
    let found = network.hosts().iter().position(|host| IpAddr::from(host.address()) == address);
    let datanode = found.and_then(|host| host.checked_sub(FIRST_DATANODE));
    Ok(datanode.ok_or_else(|| format!("no datanode is at {address}"))?)
}
