//! Processes that can be killed. They run this very program; the environment tells each one its
//! part.

use crate::support::{DEADLINE, client_at, config, key, namenode_options, superuser};
use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, sock_filter, sock_fprog,
};
use rustix::process::Signal;
use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use strait_kadoop_client::CreateOptions;
use strait_kadoop_core::Config;
use strait_kadoop_server::{DatanodeOptions, DatanodeServer, NamenodeServer};
use strait_testkit::wait::pause;
use strait_testkit::{Host, Process};

const DIRECTORY: &str = "KADOOP_TEST_DIRECTORY";
const DATA: &str = "KADOOP_TEST_DATA";
const LISTEN: &str = "KADOOP_TEST_LISTEN";
const NAMENODE: &str = "KADOOP_TEST_NAMENODE";
const DEAD_MS: &str = "KADOOP_TEST_DEAD_MS";
const SCRUB_MS: &str = "KADOOP_TEST_SCRUB_MS";
const SKIPPED: &str = "KADOOP_TEST_SKIPPED_CALLS";

/// Bytes to keep free on a data directory's disk, which may be small.
const RESERVE_BYTES: u64 = 1 << 20;

/// The host and directories of a part.
#[derive(Debug, Clone)]
pub struct Site {
    /// Its host; None: this machine, on loopback.
    pub host: Option<Host>,
    /// Directory for its output, and for its address once it serves.
    pub directory: PathBuf,
    /// Data directory.
    pub data: PathBuf,
    /// Settings that differ from [`config`], in milliseconds.
    pub dead_ms: Option<u64>,
    pub scrub_ms: Option<u64>,
    /// A planted fault: numbers of system calls that do nothing and return 0.
    pub skipped_calls: Vec<i64>,
}

impl Site {
    /// A site on loopback.
    pub fn new(directory: &Path) -> Self {
        let (directory, data) = (directory.to_owned(), directory.join("data"));
        Self { host: None, directory, data, dead_ms: None, scrub_ms: None, skipped_calls: Vec::new() }
    }

    fn address(&self) -> Ipv4Addr {
        self.host.as_ref().map_or(Ipv4Addr::LOCALHOST, Host::address)
    }

    /// Starts a part and waits until it announces its address.
    fn start(&self, name: &str, mut command: Command) -> (Process, String) {
        let ready = self.directory.join("address");
        let _ = fs::remove_file(&ready);
        fs::create_dir_all(&self.directory).unwrap();
        command.env(DIRECTORY, &self.directory).env(DATA, &self.data);
        for (variable, given) in [(DEAD_MS, self.dead_ms), (SCRUB_MS, self.scrub_ms)] {
            if let Some(given) = given {
                command.env(variable, given.to_string());
            }
        }
        if !self.skipped_calls.is_empty() {
            let numbers: Vec<String> = self.skipped_calls.iter().map(i64::to_string).collect();
            command.env(SKIPPED, numbers.join(" "));
        }
        if let Some(host) = &self.host {
            host.enter(&mut command);
        }
        let mut process = Process::spawn(name, command, &self.directory).unwrap();
        let mut address = String::new();
        let up = || {
            address = fs::read_to_string(&ready).unwrap_or_default();
            address.ends_with('\n')
        };
        process.wait_ready(DEADLINE, up).unwrap();
        (process, address.trim().to_owned())
    }
}

/// A namenode in a separate process.
pub struct NamenodeProcess {
    process: Process,
    site: Site,
    pub address: String,
}

impl NamenodeProcess {
    pub fn start(site: Site) -> Self {
        let listen = format!("{}:0", site.address());
        Self::start_at(site, &listen)
    }

    fn start_at(site: Site, listen: &str) -> Self {
        let mut command = part("namenode");
        command.env(LISTEN, listen);
        let (process, address) = site.start("namenode", command);
        Self { process, site, address }
    }

    /// Kills it as `kill -9` does, and starts it again at the same address.
    pub fn kill_and_start(&mut self) {
        self.process.kill();
        *self = Self::start_at(self.site.clone(), &self.address.clone());
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again at the same address, on another data directory.
    pub fn start_on(&mut self, data: PathBuf) {
        self.site.data = data;
        self.kill_and_start();
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.site.data
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().is_some()
    }

    /// Stops its execution silently.
    pub fn freeze(&self) {
        self.process.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.process.signal(Signal::CONT);
    }
}

/// A datanode in a separate process.
pub struct DatanodeProcess {
    process: Process,
    site: Site,
    namenode: String,
    pub address: String,
}

impl DatanodeProcess {
    pub fn start(site: Site, namenode: &str) -> Self {
        let mut command = part("datanode");
        command.env(NAMENODE, namenode).env(LISTEN, format!("{}:0", site.address()));
        let (process, address) = site.start("datanode", command);
        Self { process, site, namenode: namenode.to_owned(), address }
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills it and starts it again.
    pub fn kill_and_start(&mut self) {
        self.kill();
        *self = Self::start(self.site.clone(), &self.namenode.clone());
    }

    /// Starts it again on another data directory.
    pub fn start_on(&mut self, data: PathBuf) {
        self.site.data = data;
        self.kill_and_start();
    }

    /// Stops its execution silently.
    pub fn freeze(&self) {
        self.process.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.site.data
    }
}

/// A writer in a separate process, with a file open for as long as it lives.
pub struct WriterProcess(Process);

impl WriterProcess {
    /// Its file, with two replicas.
    pub const FILE: &str = "/of-a-process";
    /// The bytes that it has synced.
    pub const SYNCED: &str = "synced";

    pub fn start(site: Site, namenode: &str) -> Self {
        let mut command = part("writer");
        command.env(NAMENODE, namenode);
        Self(site.start("writer", command).0)
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.0.kill();
    }
}

fn part(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([&format!("processes::plays_{name}"), "--exact", "--ignored", "--nocapture"]);
    command
}

/// Writes the address atomically, since another process reads it as soon as it exists.
fn announce(directory: &Path, address: SocketAddr) {
    let temporary = directory.join("address.tmp");
    fs::write(&temporary, format!("{address}\n")).unwrap();
    fs::rename(temporary, directory.join("address")).unwrap();
}

/// Directories for the announcement and for data; None if this process isn't a part.
fn told() -> Option<(PathBuf, PathBuf)> {
    Some((env::var_os(DIRECTORY)?.into(), env::var_os(DATA)?.into()))
}

fn config_told() -> Config {
    let number = |variable: &str| env::var(variable).ok().map(|text| text.parse().unwrap());
    let config = config();
    Config {
        dead_ms: number(DEAD_MS).unwrap_or(config.dead_ms),
        scrub_ms: number(SCRUB_MS).unwrap_or(config.scrub_ms),
        ..config
    }
}

/// Installs the planted fault for this thread, and for those that it starts.
fn skip_calls() {
    let Ok(numbers) = env::var(SKIPPED) else { return };
    let numbers: Vec<u32> = numbers.split(' ').map(|text| text.parse().unwrap()).collect();
    let step =
        |code: u32, equal: u8, value: u32| sock_filter { code: code as u16, jt: equal, jf: 0, k: value };
    // The call's number is the first word of the filter's input.
    let mut filter = vec![step(BPF_LD | BPF_W | BPF_ABS, 0, 0)];
    for (at, number) in numbers.iter().enumerate() {
        filter.push(step(BPF_JMP | BPF_JEQ | BPF_K, (numbers.len() - at) as u8, *number));
    }
    filter.push(step(BPF_RET | BPF_K, 0, SECCOMP_RET_ALLOW));
    filter.push(step(BPF_RET | BPF_K, 0, SECCOMP_RET_ERRNO));
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, whose length is that of its steps.
    let refused = unsafe { libc::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
}

#[test]
#[ignore = "a part that other tests start"]
fn plays_namenode() {
    let Some((directory, data)) = told() else { return };
    skip_calls();
    let mut options = namenode_options(&data);
    options.config = config_told();
    options.listen = env::var(LISTEN).unwrap().parse().unwrap();
    options.listen_datanodes = SocketAddr::new(options.listen.ip(), 0);
    let namenode = NamenodeServer::start(options).unwrap();
    announce(&directory, namenode.address());
    while !namenode.has_failed() {
        pause("until the next look", Duration::from_millis(100));
    }
}

#[test]
#[ignore = "a part that other tests start"]
fn plays_writer() {
    let Some((directory, _)) = told() else { return };
    let client = client_at(&env::var(NAMENODE).unwrap());
    let options = CreateOptions { replication: 2, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), WriterProcess::FILE, &options).unwrap();
    writer.write(WriterProcess::SYNCED).unwrap();
    writer.sync().unwrap();
    announce(&directory, (Ipv4Addr::LOCALHOST, 0).into());
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "a part that other tests start"]
fn plays_datanode() {
    let Some((directory, data)) = told() else { return };
    skip_calls();
    let options = DatanodeOptions::new(vec![data], env::var(NAMENODE).unwrap(), key());
    let listen = env::var(LISTEN).unwrap().parse().unwrap();
    let (config, reserve_bytes) = (config_told(), RESERVE_BYTES);
    let options = DatanodeOptions { config, listen, reserve_bytes, ..options };
    let datanode = DatanodeServer::start(options).unwrap();
    announce(&directory, datanode.address());
    while !datanode.has_failed() {
        pause("until the next look", Duration::from_millis(100));
    }
}
