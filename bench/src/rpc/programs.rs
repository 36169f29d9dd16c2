//! Starts, places and drives the clients and servers of bench/rpc.

use crate::Result;
use crate::host::{on, seconds};
use crate::ordered::Ordered;
use rustix::thread::sched_getaffinity;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use strait_testkit::{Host, Process, free_port, spawn_bound};

const START_DEADLINE: Duration = Duration::from_secs(10);

/// The CPUs on which a client and its server may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Client and server on the same CPU.
    Same,
    /// Client and server on different CPUs.
    Split,
    /// On any CPU, by the scheduler's choice.
    Anywhere,
}

impl Place {
    /// All placements.
    pub const ALL: [Self; 3] = [Self::Same, Self::Split, Self::Anywhere];

    /// The placement's name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "one CPU",
            Self::Split => "split",
            Self::Anywhere => "unpinned",
        }
    }

    /// CPUs for server and client: the last ones, since the first ones serve interrupts.
    fn cpus(self) -> Result<[Option<usize>; 2]> {
        let allowed = sched_getaffinity(None)?;
        let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).rev().filter(|cpu| allowed.is_set(*cpu));
        let last = cpus.next();
        match self {
            Self::Same => Ok([last, last]),
            Self::Split => Ok([last, Some(cpus.next().ok_or("this placement needs two CPUs")?)]),
            Self::Anywhere => Ok([None, None]),
        }
    }
}

/// Directories of the built programs.
pub struct Programs {
    rust: PathBuf,
    cpp: PathBuf,
}

impl Programs {
    /// Builds the programs that have changed.
    pub fn build() -> Result<Self> {
        let target = std::env::current_exe()?.with_file_name("").join("../bench");
        std::fs::create_dir_all(&target)?;
        let target = target.canonicalize()?;
        let (rust, cpp, flexrpc) = (target.join("rpc"), target.join("rpc-cpp"), target.join("flexrpc"));
        eprintln!("building the programs to measure");
        // Install our library first, so that the C programs use it as a user's program would.
        seconds(Command::new("scripts/install-flexrpc.sh").arg(&flexrpc))?;
        let found_in = format!("-DCMAKE_PREFIX_PATH={}", flexrpc.display());
        seconds(Command::new("cmake").args(["-S", "bench/rpc/cpp", &found_in, "-B"]).arg(&cpp))?;
        seconds(Command::new("cmake").arg("--build").arg(&cpp).args(["--parallel", "2"]))?;
        // Build without --locked: FlexRPC and its dependencies come from this tree.
        seconds(
            Command::new("cargo")
                .args(["build", "--quiet", "--release"])
                .args(["--manifest-path", "bench/rpc/Cargo.toml", "--target-dir"])
                .arg(&rust),
        )?;
        Ok(Self { rust: rust.join("release"), cpp })
    }

    fn command(&self, system: &str, cpu: Option<usize>) -> Command {
        let rust = self.rust.join(system);
        on_cpu(cpu, if rust.exists() { rust } else { self.cpp.join(system) })
    }
}

fn on_cpu(cpu: Option<usize>, program: PathBuf) -> Command {
    match cpu {
        None => Command::new(program),
        Some(cpu) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string()]).arg(program);
            command
        }
    }
}

/// A program that keeps the server's CPU busy until this is dropped.
pub struct OtherWork(Child);

impl OtherWork {
    /// Starts the program on the CPU of the placement's server.
    pub fn start(place: Place) -> Result<Self> {
        let mut command = on_cpu(place.cpus()?[0], "sh".into());
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Ok(Self(spawn_bound(command)?))
    }
}

impl Drop for OtherWork {
    fn drop(&mut self) {
        // Ignore errors: the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server, ended when dropped.
pub struct Server {
    process: Process,
    /// The server's address.
    pub address: SocketAddr,
    _logs: tempfile::TempDir,
}

impl Server {
    /// Starts a server on a host of a network or, without a host, on loopback.
    pub fn start(programs: &Programs, system: &str, place: Place, host: Option<&Host>) -> Result<Self> {
        let address = SocketAddr::from((host.map_or(Ipv4Addr::LOCALHOST, Host::address), free_port()));
        let logs = tempfile::tempdir()?;
        let mut command = programs.command(system, place.cpus()?[0]);
        command.args(["server", &address.to_string()]);
        on(host, &mut command);
        let mut process = Process::spawn(system, command, logs.path())?;
        process.wait_ready(START_DEADLINE, || match host {
            Some(host) => host.run(|| TcpStream::connect(address).is_ok()),
            None => TcpStream::connect(address).is_ok(),
        })?;
        Ok(Self { process, address, _logs: logs })
    }

    /// The server's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// CPU time of the server's threads that haven't ended.
    pub fn cpu(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            // If the thread has ended since the listing, there is nothing to read.
            let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            nanoseconds += text.split(' ').next().and_then(|on_cpu| on_cpu.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(nanoseconds))
    }
}

/// A running client, ended when dropped.
pub struct Client(Ordered);

/// The measurements of one slice, from the client's answer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct Slice {
    /// Number of counted calls of all callers.
    pub calls: u64,
    /// Seconds from the first call's beginning to the last one's end.
    pub seconds: f64,
    /// Median latency of a call.
    pub p50_us: f64,
    /// Latency of the slowest call.
    pub worst_us: f64,
    /// Number of calls of the caller that made the fewest.
    pub fewest_calls: u64,
    /// CPU seconds of the client, and of the server if requested.
    pub cpu_seconds: f64,
}

impl Client {
    /// Starts a client of these servers on a host of their network or, without a host, on loopback.
    pub fn start(
        programs: &Programs,
        system: &str,
        place: Place,
        host: Option<&Host>,
        servers: &[SocketAddr],
    ) -> Result<Self> {
        let mut command = programs.command(system, place.cpus()?[1]);
        command.arg("client").args(servers.iter().map(SocketAddr::to_string));
        on(host, &mut command);
        Ok(Self(Ordered::start(system, command)?))
    }

    /// The client's process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Makes calls for `milliseconds`, and at least a few.
    pub fn slice(
        &mut self,
        mode: &str,
        bytes: usize,
        callers: usize,
        milliseconds: usize,
        gap_us: usize,
    ) -> Result<Slice> {
        let order = format!("{mode} {bytes} {callers} {milliseconds} {gap_us}");
        Ok(serde_json::from_str(&self.0.obey(&order)?)?)
    }
}
