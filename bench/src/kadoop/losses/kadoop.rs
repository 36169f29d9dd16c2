//! Kadoop, as processes of `strait namenode` and `strait datanode`.

use super::{CLIENT, DATANODES, FIRST_DATANODE, Loss, Lossy, NAMENODE, REPLICATION, Suffered, network};
use crate::Result;
use crate::host::strait;
use crate::kadoop::data_directory;
use bytes::Bytes;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use strait_kadoop::messages::Caller;
use strait_kadoop::service::{ClientKey, CreateOptions, Failure};
use strait_kadoop::{Client, ClientOptions};
use strait_testkit::{Host, Network, Process, wait_until};
use tempfile::TempDir;

const NAMENODE_PORT: u16 = 9091;
const DATANODES_PORT: u16 = 9092;
const DATANODE_PORT: u16 = 9093;
const START_DEADLINE: Duration = Duration::from_secs(60);
/// Time until the namenode declares a datanode dead and a file is copied at less than a link's
/// rate.
const WHOLE_DEADLINE: Duration = Duration::from_secs(120);
const PIECE_BYTES: usize = 1 << 20;

/// The processes and a client; ends when dropped, the network last.
pub struct KadoopRack {
    client: Client,
    caller: Caller,
    datanodes: Vec<Process>,
    _namenode: Process,
    directory: TempDir,
    network: Network,
}

impl KadoopRack {
    pub fn start() -> Result<Self> {
        let network = network()?;
        let directory = TempDir::with_prefix_in("strait-losses-", data_directory())?;
        let namenode_host = network.host(NAMENODE);
        let address = format!("{}:{NAMENODE_PORT}", namenode_host.address());
        let datanodes_call = format!("{}:{DATANODES_PORT}", namenode_host.address());
        let arguments = ["namenode", "--data", "namenode", "--superuser", "kadoop", "--listen", &address];
        let more = ["--listen-datanodes", &datanodes_call, "--key", "key", "--key-for-clients", "client.key"];
        let mut namenode =
            spawn(directory.path(), namenode_host, "namenode", &[&arguments[..], &more].concat())?;
        let key = directory.path().join("client.key");
        namenode.wait_ready(START_DEADLINE, || key.exists())?;
        let datanodes = (0..DATANODES).map(|number| datanode(directory.path(), &network, number));
        let datanodes = datanodes.collect::<Result<Vec<_>>>()?;
        let key = ClientKey::load(&key)?;
        let connect = || Client::connect(ClientOptions::new(address, key));
        let client = network.host(CLIENT).run(|| connect().map_err(|failure| failure.to_string()))?;
        let caller = Caller { user: "kadoop".into(), groups: Vec::new(), session: None };
        let rack = Self { client, caller, datanodes, _namenode: namenode, directory, network };
        rack.wait_for_all()?;
        Ok(rack)
    }

    fn wait_for_all(&self) -> Result<()> {
        let all = || {
            let status = self.client.status();
            status.is_ok_and(|status| {
                !status.safe_mode && status.nodes.iter().filter(|node| node.alive).count() == DATANODES
            })
        };
        match self.network.host(CLIENT).run(|| wait_until(START_DEADLINE, all)) {
            true => Ok(()),
            false => Err(format!("Kadoop isn't whole after {START_DEADLINE:?}").into()),
        }
    }

    /// Writes the file and returns the longest write. Signals when half of it is written.
    fn write(
        &self,
        path: &str,
        mib: usize,
        half_way: &mpsc::Sender<()>,
    ) -> std::result::Result<Duration, Failure> {
        let piece: Bytes = (0..PIECE_BYTES).map(|at| (at.wrapping_mul(37) >> 3) as u8).collect();
        let options = CreateOptions { replication: REPLICATION, ..CreateOptions::default() };
        let mut writer = self.client.create(&self.caller, path, &options)?;
        let mut longest = Duration::ZERO;
        for number in 0..mib {
            if number == mib / 2 {
                // The receiver lives as long as this.
                let _ = half_way.send(());
            }
            let start = Instant::now();
            writer.write(piece.clone())?;
            longest = longest.max(start.elapsed());
        }
        writer.close()?;
        Ok(longest)
    }

    /// A datanode in the newest chunk's pipeline.
    fn victim(&self) -> Result<usize> {
        let newest = |number: usize| {
            let entries = std::fs::read_dir(self.directory.path().join(datanode_name(number)));
            let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
            let names = names.filter_map(|name| name.into_string().ok());
            // Chunks' numbers increase, and file names begin with them.
            names.filter(|name| name.ends_with(".open")).max()
        };
        let members = (0..DATANODES).filter_map(|number| Some((newest(number)?, number)));
        Ok(members.max().ok_or("nobody has the file open")?.1)
    }

    fn is_whole(&self, path: &str, bytes: u64) -> bool {
        let found = self.client.locations(&self.caller, path, 0, u64::MAX).unwrap_or_default();
        found.iter().map(|part| part.length).sum::<u64>() == bytes
            && found.iter().all(|part| part.hosts.len() == usize::from(REPLICATION))
    }
}

impl Lossy for KadoopRack {
    fn name(&self) -> &'static str {
        "Kadoop"
    }

    fn lose(&mut self, loss: Loss, path: &str, mib: usize) -> Result<Suffered> {
        let (half_way, is_half_way) = mpsc::channel();
        let (longest, victim, lost_at) = std::thread::scope(|scope| -> Result<_> {
            let this = &*self;
            let writing = scope.spawn(move || {
                let written = this.network.host(CLIENT).run(|| this.write(path, mib, &half_way));
                written.map_err(|failure| failure.to_string())
            });
            is_half_way.recv().map_err(|_| "the writer ended early")?;
            let victim = this.victim()?;
            let lost_at = Instant::now();
            match loss {
                Loss::Killed => this.datanodes[victim].signal(rustix::process::Signal::KILL),
                Loss::Unplugged => this.network.unplug(FIRST_DATANODE + victim)?,
            }
            let longest = writing.join().map_err(|_| "the writer panicked")??;
            Ok((longest, victim, lost_at))
        })?;
        let whole = || self.is_whole(path, (mib * PIECE_BYTES) as u64);
        if !self.network.host(CLIENT).run(|| wait_until(WHOLE_DEADLINE, whole)) {
            return Err(format!("{path} isn't whole after {WHOLE_DEADLINE:?}").into());
        }
        let whole_again = lost_at.elapsed();
        match loss {
            Loss::Killed => {
                self.datanodes[victim].kill();
                self.datanodes[victim] = datanode(self.directory.path(), &self.network, victim)?;
            }
            Loss::Unplugged => self.network.plug(FIRST_DATANODE + victim)?,
        }
        self.wait_for_all()?;
        self.network.host(CLIENT).run(|| self.client.delete(&self.caller, path, false))?;
        Ok(Suffered { longest_write_s: longest.as_secs_f64(), whole_again_s: whole_again.as_secs_f64() })
    }
}

fn datanode_name(number: usize) -> String {
    format!("datanode-{number}")
}

fn datanode(directory: &Path, network: &Network, number: usize) -> Result<Process> {
    let host = network.host(FIRST_DATANODE + number);
    let (name, listen) = (datanode_name(number), format!("{}:{DATANODE_PORT}", host.address()));
    let namenode = format!("{}:{NAMENODE_PORT}", network.host(NAMENODE).address());
    let arguments =
        ["datanode", "--data", &name, "--namenode", &namenode, "--listen", &listen, "--key", "key"];
    spawn(directory, host, &name, &arguments)
}

fn spawn(directory: &Path, host: &Host, name: &str, arguments: &[&str]) -> Result<Process> {
    let mut command = Command::new(strait()?);
    command.args(arguments).current_dir(directory);
    host.enter(&mut command);
    Ok(Process::spawn(name, command, directory)?)
}
