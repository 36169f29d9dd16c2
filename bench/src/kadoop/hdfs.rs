//! A real HDFS with its own Java client, with settings that make the comparison as fair as we can.

use super::{DATANODES, System, Work, data_directory};
use crate::Result;
use crate::host::on;
use crate::programs::hdfs_orders;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use strait_testkit::{Host, MiniHdfs, Options, spawn_bound};

/// Properties of the servers.
pub const PROPERTIES: [(&str, &str); 6] = [
    // As durable as Kadoop: HDFS syncs the edit log before it answers, and each block when it is closed.
    ("dfs.namenode.edits.noeditlogchannelflush", "false"),
    ("dfs.datanode.synconclose", "true"),
    // The size of Kadoop's chunks.
    ("dfs.blocksize", "67108864"),
    // A close that comes before the last block's report waits this long; the default is 400 ms.
    ("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "5"),
    // With this, opening a file for reading writes no log record.
    ("dfs.namenode.accesstime.precision", "0"),
    // Enough for 16 concurrent callers.
    ("dfs.namenode.handler.count", "32"),
];

/// The cluster and its client, stopped when dropped.
pub struct Hdfs {
    client: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    _cluster: MiniHdfs,
}

impl Hdfs {
    /// Starts a cluster. If there are hosts, the client runs on the first, the namenode on the second, and a
    /// datanode on each other one. Otherwise, all use loopback.
    pub fn start(hosts: &[Host]) -> Result<Self> {
        let datanodes = hosts.len().checked_sub(2).unwrap_or(DATANODES);
        let cluster = MiniHdfs::start_own(&Options {
            datanodes,
            replication: DATANODES,
            properties: PROPERTIES.to_vec(),
            hosts: hosts.get(1..).unwrap_or_default().to_vec(),
            parent: Some(data_directory()),
            ..Options::measured()
        })?;
        let mut command = hdfs_orders(&cluster, &[])?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        on(hosts.first(), &mut command);
        let mut client = spawn_bound(command)?;
        let orders = client.stdin.take().ok_or("no pipe to a client")?;
        let answers = BufReader::new(client.stdout.take().ok_or("no pipe from a client")?);
        Ok(Self { client, orders, answers, _cluster: cluster })
    }
}

impl System for Hdfs {
    fn measure(&mut self, work: &Work, round: usize) -> Result<f64> {
        let order = match work {
            Work::Write { path, mib, replication, threads } => {
                format!("write {path} {mib} {replication} {threads}")
            }
            Work::WriteMany { path, files, mib, replication, threads } => {
                format!("write-many {path} {files} {mib} {replication} {threads}")
            }
            Work::ReadAtRandom { path, files, reads, threads } => {
                format!("read-at-random {path} {files} {reads} {threads}")
            }
            Work::Read { path, threads, .. } => format!("read {path} {threads}"),
            Work::Preads { path, count } => format!("preads {path} {count}"),
            Work::SmallFiles { directory, count } => format!("small-files {directory}-{round} {count}"),
            Work::OpenAndRead { .. } => return Err("HDFS's client has no order for this work".into()),
            Work::Calls { operation, threads, milliseconds } => {
                format!("{} /calls-{threads}-{round} {threads} {milliseconds}", operation.name())
            }
        };
        writeln!(self.orders, "{order}")?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(format!("HDFS's client failed at {order:?}").into()),
            _ => Ok(answer.split_whitespace().next().ok_or("an empty answer")?.parse()?),
        }
    }
}

impl Drop for Hdfs {
    fn drop(&mut self) {
        // Ignore errors: the process has ended already.
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}
