//! Helpers of suites: processes, figures and files on this machine.

use crate::Result;
use crate::stages::cpu_seconds;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use strait_testkit::thrift::Client;
use strait_testkit::{Host, Process, free_port};
use strait_wire::{Protocol, Wire};

const START_DEADLINE: Duration = Duration::from_secs(30);

/// The wire of suites that don't compare wires.
pub const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };

/// Path of the command `strait`, which must be built beside this program.
pub fn strait() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("strait");
    if path.exists() { Ok(path) } else { Err(format!("{} isn't built", path.display()).into()) }
}

/// A running gateway, stopped when dropped.
pub struct Gateway {
    process: Process,
    /// The gateway's address.
    pub address: SocketAddr,
    _logs: tempfile::TempDir,
}

impl Gateway {
    /// Starts `strait serve --store STORE` on a free port.
    pub fn start(store: &str) -> Result<Self> {
        Self::start_with(store, None, &[])
    }

    /// As [`Gateway::start`], on a host of a network, or with more arguments.
    pub fn start_with(store: &str, host: Option<&Host>, arguments: &[&str]) -> Result<Self> {
        let logs = tempfile::tempdir()?;
        let ip = host.map_or(Ipv4Addr::LOCALHOST, Host::address);
        let address = SocketAddr::from((ip, free_port()));
        let mut command = Command::new(strait()?);
        command.args(["serve", "--listen", &address.to_string(), "--store", store]).args(arguments);
        if host.is_some() {
            // Anonymous access is safe here: only this process's programs can reach these hosts.
            command.arg("--allow-anonymous");
        }
        on(host, &mut command);
        let mut process = Process::spawn("strait", command, logs.path())?;
        process.wait_ready(START_DEADLINE, || match host {
            Some(host) => host.run(|| TcpStream::connect(address).is_ok()),
            None => TcpStream::connect(address).is_ok(),
        })?;
        Ok(Self { process, address, _logs: logs })
    }

    /// The gateway's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// CPU seconds that the gateway has used so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.process.id())
    }

    /// A client with a session.
    pub fn client(&self) -> Client {
        let mut client = Client::connect(self.address, WIRE);
        client.open_session();
        client
    }

    /// Resident memory and its peak, in MiB.
    pub fn resident_mib(&self) -> Result<(f64, f64)> {
        let id = self.process.id();
        Ok((status(id, "VmRSS:")? / 1024.0, status(id, "VmHWM:")? / 1024.0))
    }
}

/// A number from a process's /proc/PID/status, for example memory in KiB or the number of threads.
pub fn status(pid: u32, field: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).ok_or(format!("no {field}").into())
}

/// Makes a command run on a host of a network. Without a host, it runs on this machine.
pub fn on(host: Option<&Host>, command: &mut Command) {
    if let Some(host) = host {
        host.enter(command);
    }
}

/// Runs a command, discards its output, and returns the seconds that the whole process took.
pub fn seconds(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).status()?;
    let took = start.elapsed().as_secs_f64();
    if status.success() { Ok(took) } else { Err(format!("{command:?} failed: {status}").into()) }
}

/// A number from the environment, or the default. With the defaults, suites need 2 cores and 10 GB of disk.
pub fn setting(name: &str, default: usize) -> Result<usize> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name} isn't a number: {text:?}").into()),
        Err(_) => Ok(default),
    }
}

/// Writes a file of `mib` MiB that doesn't compress well.
pub fn make_file(path: &Path, mib: usize) -> Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut block = vec![0u8; 1 << 20];
    for _ in 0..mib {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    Ok(file.flush()?)
}

/// MB/s of a bare TCP stream between two hosts, which takes some seconds.
pub fn bare_rate(from: &Host, to: &Host) -> Result<f64> {
    const PIECE_BYTES: usize = 1 << 20;
    const PIECES: usize = 256;
    let listener = to.run(|| TcpListener::bind((to.address(), 0)))?;
    let mut sender = from.run(|| TcpStream::connect(listener.local_addr()?))?;
    let mut receiver = listener.accept()?.0;
    // Fill the buffers before, since touching new memory takes time.
    let (sent, mut piece) = (vec![7; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let start = Instant::now();
    let sending = thread::spawn(move || (0..PIECES).try_for_each(|_| sender.write_all(&sent)));
    while receiver.read(&mut piece)? > 0 {}
    let took = start.elapsed().as_secs_f64();
    sending.join().map_err(|_| "the sender panicked")??;
    Ok((PIECES * PIECE_BYTES) as f64 / 1e6 / took)
}
