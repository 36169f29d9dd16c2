//! The stores, with a datanode beside each writer, and mounts of them.

use super::Face;
use super::rank::{Job, REPLICATION, Ranks, SHARED};
use crate::Result;
use crate::host::strait;
use crate::kadoop::rack::FIRST_DATANODE;
use crate::kadoop::{Kind, Servers};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use strait_store::{FileSystemExt, Principal, StorePath, StoreUri};
use strait_store_any::OpenOptions;
use strait_testkit::{Host, Process, current_user};

const DEADLINE: Duration = Duration::from_secs(60);
/// The directory of all files.
const DIRECTORY: &str = "/checkpoints";
/// Most files in a container's directory of logs: enough for two for each rank.
const MOST_LOGS: usize = 1_000;

/// The servers and the mounts. A drop ends them.
pub struct Site {
    pub kind: Kind,
    /// The mounts' processes and directories. They are unmounted before the servers end.
    mounts: Vec<(Process, PathBuf)>,
    _directory: tempfile::TempDir,
    hosts: usize,
    servers: Servers,
}

impl Site {
    /// Starts the servers, and mounts the store on each host.
    pub fn start(kind: Kind, hosts: usize) -> Result<Self> {
        let servers = Servers::start(kind, hosts)?;
        let directory = tempfile::tempdir()?;
        let mut site = Self { kind, mounts: Vec::new(), _directory: directory, hosts, servers };
        let uri = site.uri();
        // Let all users write: programs in C and Python act as this process's user, which the store may not
        // know.
        for order in [&["mkdir", &*uri][..], &["chmod", "777", &*uri]] {
            let mut command = site.host(0).command(strait()?);
            crate::host::seconds(command.args(order).envs(site.servers.environment()))?;
        }
        for number in 0..hosts {
            let place = site._directory.path().join(format!("mount-{number}"));
            std::fs::create_dir(&place)?;
            let mut command = site.host(number).command(strait()?);
            // Don't cache attributes: a rank opens the files of others just after they were written.
            command.args(["mount", "--attr-cache", "0", "--plfs", &format!("*{}", ending())]);
            command.arg(&uri).arg(&place);
            command.envs(site.servers.environment());
            let before = std::fs::metadata(&place)?;
            let mut process = Process::spawn(&format!("mount-{number}"), command, site._directory.path())?;
            process.wait_ready(DEADLINE, || {
                std::fs::metadata(&place).is_ok_and(|now| now.dev() != before.dev())
            })?;
            site.mounts.push((process, place));
        }
        Ok(site)
    }

    fn host(&self, number: usize) -> &Host {
        self.servers.network().host(FIRST_DATANODE + number % self.hosts)
    }

    /// The URI of the directory of all files.
    pub fn uri(&self) -> String {
        format!("{}{DIRECTORY}", self.servers.uri())
    }

    /// The directory of the mount on a rank's host.
    pub fn mount(&self, rank: usize) -> &Path {
        &self.mounts[rank % self.hosts].1
    }

    /// Makes a rank's program run on the rank's host, with the variables by which it finds the store.
    pub fn enter(&self, rank: usize, command: &mut Command) {
        command.envs(self.servers.environment());
        self.host(rank).enter(command);
    }

    /// Bytes that the data hosts have sent over their links.
    pub fn sent(&self) -> Result<f64> {
        self.servers.sent_by_data_hosts()
    }

    /// Starts the ranks, on the hosts in turn.
    pub fn ranks(&self, face: Face, job: &Job) -> Result<Ranks> {
        let command = |rank: usize| {
            let mut command = match face {
                Face::Library { replication } => {
                    let mut command = job.command(rank, &self.uri())?;
                    command.env(REPLICATION, replication.to_string());
                    command
                }
                Face::Mount => job.command(rank, &self.mount(rank).display().to_string())?,
            };
            self.enter(rank, &mut command);
            Ok(command)
        };
        Ranks::start((0..job.ranks).map(command).collect::<Result<Vec<_>>>()?)
    }

    /// A table with a line for each writer: MiB of its log on each datanode.
    pub fn matrix(&self, ranks: usize) -> Result<String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let mut lines = String::new();
        for rank in 0..ranks {
            let on_hosts = self
                .host(0)
                .run(|| runtime.block_on(self.log_on_hosts(rank)).map_err(|error| error.to_string()))?;
            let cells: Vec<String> = on_hosts.iter().map(|bytes| format!("{:>6}", bytes >> 20)).collect();
            lines += &format!("  rank {rank} at host {}: {}\n", rank % self.hosts, cells.join(" "));
        }
        Ok(lines)
    }

    /// Number of bytes of a rank's log on each data host.
    async fn log_on_hosts(&self, rank: usize) -> Result<Vec<u64>> {
        let mut options = OpenOptions::default();
        let mut user = current_user();
        if let Servers::Kadoop(rack) = &self.servers {
            options.kadoop.key_file = Some(rack.client_key());
            user = "kadoop".to_owned();
        }
        let store = strait_store_any::open(&StoreUri::parse(&self.servers.uri())?, &options).await?;
        let who = Principal::new(&user);
        let logs = StorePath::parse(&format!("{DIRECTORY}/{SHARED}/logs"))?;
        let mut found = vec![0; self.hosts];
        for entry in store.list_all(&who, &logs, MOST_LOGS).await? {
            let name = entry.name();
            if !name.starts_with(&format!("{rank:08x}.")) || !name.ends_with(".data") {
                continue;
            }
            for block in store.block_locations(&who, &logs.join(name)?, 0..entry.length).await? {
                for (number, bytes) in found.iter_mut().enumerate() {
                    let address = self.host(number).address().to_string();
                    let is_here = block.hosts.iter().any(|host| host.contains(&address));
                    *bytes += if is_here { block.length } else { 0 };
                }
            }
        }
        Ok(found)
    }
}

/// The ending of the shared file's name.
fn ending() -> &'static str {
    &SHARED[SHARED.rfind('.').unwrap_or(0)..]
}

impl Drop for Site {
    fn drop(&mut self) {
        for (process, _) in &mut self.mounts {
            // This unmounts.
            process.terminate(DEADLINE);
        }
    }
}
