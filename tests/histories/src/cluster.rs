//! The processes of a run: a store, and two gateways over it.

use crate::Outcome;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use strait_testkit::{MiniHdfs, Options, Process, free_port, wait_until};
use tempfile::TempDir;

/// Datanodes of Kadoop. Files have three replicas, so one datanode may be away.
const KADOOP_DATANODES: usize = 4;
/// Datanodes of HDFS. Files have a replica on each.
pub const HDFS_DATANODES: usize = 3;
/// A server's time to start.
const START: Duration = Duration::from_secs(120);

/// A server of `strait`, and the way to start it again.
pub struct Server {
    /// Its name in the history.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// The process.
    pub process: Process,
    program: PathBuf,
    dir: PathBuf,
    arguments: Vec<String>,
}

impl Server {
    fn start(
        program: &Path,
        dir: &Path,
        name: &str,
        address: String,
        arguments: Vec<String>,
    ) -> Outcome<Self> {
        let process = Self::spawn(program, dir, name, &address, &arguments)?;
        let (name, program, dir) = (name.to_owned(), program.to_owned(), dir.to_owned());
        Ok(Self { name, address, process, program, dir, arguments })
    }

    fn spawn(
        program: &Path,
        dir: &Path,
        name: &str,
        address: &str,
        arguments: &[String],
    ) -> Outcome<Process> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(dir).env("HOME", dir);
        let mut process = Process::spawn(name, command, dir)?;
        process.wait_ready(START, || TcpStream::connect(address).is_ok())?;
        Ok(process)
    }

    /// Starts it again, after its process was killed.
    pub fn again(&mut self) -> Outcome<()> {
        self.process = Self::spawn(&self.program, &self.dir, &self.name, &self.address, &self.arguments)?;
        Ok(())
    }
}

/// The store under test.
pub enum Store {
    /// A namenode, and then the datanodes.
    Kadoop(Vec<Server>),
    /// A real HDFS.
    Hdfs(Box<MiniHdfs>),
}

/// All processes of a run.
pub struct Cluster {
    /// Two gateways over the same store.
    pub gateways: [Server; 2],
    /// The store.
    pub store: Store,
    // Last, so that the processes have ended when the directory goes.
    _dir: TempDir,
}

impl Cluster {
    /// Starts a store, `kadoop` or `hdfs`, and the gateways.
    pub fn start(program: &Path, store: &str) -> Outcome<Self> {
        let program = &program.canonicalize()?;
        let dir = tempfile::tempdir()?;
        let (store, uri) = match store {
            "kadoop" => kadoop(program, dir.path())?,
            "hdfs" => hdfs()?,
            other => return Err(format!("no store {other:?}; there are kadoop and hdfs").into()),
        };
        let gateway = |name: &str| {
            let address = local();
            let mut arguments = owned(&["serve", "--listen", &address, "--store", &uri]);
            if matches!(store, Store::Kadoop(_)) {
                arguments.extend(owned(&["--kadoop-key", "client.key"]));
            }
            Server::start(program, dir.path(), name, address, arguments)
        };
        let gateways = [gateway("gateway-1")?, gateway("gateway-2")?];
        Ok(Self { gateways, store, _dir: dir })
    }
}

fn local() -> String {
    format!("127.0.0.1:{}", free_port())
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

fn kadoop(program: &Path, dir: &Path) -> Outcome<(Store, String)> {
    let (namenode, for_datanodes) = (local(), local());
    let keys = ["--key", "cluster.key", "--key-for-clients", "client.key"];
    let listen = ["namenode", "--data", "nn", "--listen", &namenode, "--listen-datanodes", &for_datanodes];
    let arguments = owned(&[&listen[..], &keys].concat());
    let mut servers = vec![Server::start(program, dir, "namenode", namenode.clone(), arguments)?];
    for number in 1..=KADOOP_DATANODES {
        let (name, address) = (format!("datanode-{number}"), local());
        let arguments = ["datanode", "--data", &name, "--namenode", &namenode, "--listen", &address];
        let more = ["--key", "cluster.key", "--host", &name];
        let arguments = owned(&[&arguments[..], &more].concat());
        servers.push(Server::start(program, dir, &name, address.clone(), arguments)?);
    }
    let uri = format!("kadoop://{namenode}");
    let all_are_there = || {
        let mut command = Command::new(program);
        let probe = format!("{uri}/probe");
        command.args(["--kadoop-key", "client.key", "put", "-f", "--replication", "3", "probe", &probe]);
        command.current_dir(dir).output().is_ok_and(|output| output.status.success())
    };
    std::fs::write(dir.join("probe"), "probe")?;
    if !wait_until(START, all_are_there) {
        return Err("Kadoop doesn't take a file with three replicas".into());
    }
    Ok((Store::Kadoop(servers), uri))
}

fn hdfs() -> Outcome<(Store, String)> {
    let options = Options { datanodes: HDFS_DATANODES, replication: HDFS_DATANODES, ..Options::default() };
    let hdfs = MiniHdfs::start_own(&options)?;
    let uri = hdfs.uri().to_owned();
    Ok((Store::Hdfs(Box::new(hdfs)), uri))
}
