//! Processes that can be killed: this very program, told by its environment which part
//! to play.

use crate::support::{DEADLINE, config, key, namenode_options};
use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use strait_kadoop::service::{DatanodeOptions, DatanodeServer, NamenodeServer};
use strait_testkit::Process;

const DIRECTORY: &str = "KADOOP_TEST_DIRECTORY";
const LISTEN: &str = "KADOOP_TEST_LISTEN";
const NAMENODE: &str = "KADOOP_TEST_NAMENODE";

/// A namenode in a process of its own.
pub struct NamenodeProcess {
    process: Process,
    pub address: String,
}

impl NamenodeProcess {
    /// Starts it; `listen` with port 0 takes a free one.
    pub fn start(directory: &Path, listen: &str) -> Self {
        let mut command = part("namenode");
        command.env(LISTEN, listen);
        let (process, address) = start("namenode", command, directory);
        Self { process, address }
    }

    /// As kill -9 does.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// A datanode in a process of its own.
pub struct DatanodeProcess {
    process: Process,
}

impl DatanodeProcess {
    pub fn start(directory: &Path, namenode: &str) -> Self {
        let mut command = part("datanode");
        command.env(NAMENODE, namenode);
        let (process, _) = start("datanode", command, directory);
        Self { process }
    }

    /// As kill -9 does.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Starts a part and waits until it says where it serves.
fn start(name: &str, mut command: Command, directory: &Path) -> (Process, String) {
    let ready = directory.join("address");
    let _ = fs::remove_file(&ready);
    fs::create_dir_all(directory).unwrap();
    command.env(DIRECTORY, directory);
    let mut process = Process::spawn(name, command, directory).unwrap();
    let mut address = String::new();
    let up = || {
        address = fs::read_to_string(&ready).unwrap_or_default();
        address.ends_with('\n')
    };
    process.wait_ready(DEADLINE, up).unwrap();
    (process, address.trim().to_owned())
}

fn part(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([&format!("processes::plays_{name}"), "--exact", "--ignored", "--nocapture"]);
    command
}

/// Written whole or not at all, as whoever waits for it reads it.
fn announce(directory: &Path, address: SocketAddr) {
    let temporary = directory.join("address.tmp");
    fs::write(&temporary, format!("{address}\n")).unwrap();
    fs::rename(temporary, directory.join("address")).unwrap();
}

#[test]
#[ignore = "a part that other tests start"]
fn plays_namenode() {
    let Some(directory) = env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let mut options = namenode_options(&directory);
    options.listen = env::var(LISTEN).unwrap().parse().unwrap();
    let namenode = NamenodeServer::start(options).unwrap();
    announce(&directory, namenode.address());
    while !namenode.has_failed() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "a part that other tests start"]
fn plays_datanode() {
    let Some(directory) = env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let data = vec![directory.join("data")];
    let options = DatanodeOptions::new(data, env::var(NAMENODE).unwrap(), key());
    let datanode = DatanodeServer::start(DatanodeOptions { config: config(), ..options }).unwrap();
    announce(&directory, datanode.address());
    loop {
        std::thread::park();
    }
}
