//! Hosts of a small cluster on this machine: network namespaces, each with one
//! link to a common switch. Needs root, and the commands `ip` and `tc`.
//!
//! ```no_run
//! use strait_testkit::{LinkRate, Network};
//! let network = Network::start(3, Some(LinkRate::mbit(1_000))).unwrap();
//! let (a, b) = (network.host(0), network.host(1));
//! let ping = a.command("ping").arg("-c1").arg(b.address().to_string()).status();
//! network.cut(0, 1).unwrap(); // a and b don't receive each other's packets any more
//! ```
//!
//! No namespace, link or address has a name outside this process. The kernel removes each when the last
//! descriptor and the last process that hold it are gone, however this process ends.

use crate::failure::{Failure, Result};
use crate::wait::wait_until;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io, thread};

/// Most hosts of a network, whose addresses must fit in one /24.
const MAX_HOSTS: usize = 200;
/// Burst of a link. With 32 KiB a shaped link carries 943–955 of 1,000 Mbit/s; with more, short
/// messages would exceed the rate.
const BURST: &str = "32kb";
/// The largest piece of a TCP stream that a host passes to its link, which then cuts it into packets, as a
/// network card does. If pieces were above [`BURST`], the shaper would cut them, at twice the CPU time.
const SEGMENT_BYTES: u32 = 32_000;
/// Bytes that a link queues before it drops packets, as a switch's port does.
const QUEUE: &str = "1mb";
/// A port without a listener. If a connection to it is refused, the link works.
const CLOSED_PORT: u16 = 1;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
const LINK_DEADLINE: Duration = Duration::from_secs(20);
/// A hardware address that no host has: packets to it are lost.
const NOBODY: &str = "02:00:00:00:00:01";

/// Capacity of a link, each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRate {
    mbit_per_second: u32,
}

impl LinkRate {
    /// A rate in Mbit/s.
    pub const fn mbit(mbit_per_second: u32) -> Self {
        Self { mbit_per_second }
    }

    /// The rate in bytes a second, headers included.
    pub fn bytes_per_second(self) -> f64 {
        f64::from(self.mbit_per_second) * 1e6 / 8.0
    }
}

/// In the syntax of `tc`.
impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}mbit", self.mbit_per_second)
    }
}

/// A switch and its hosts.
#[derive(Debug)]
pub struct Network {
    switch: Namespace,
    hosts: Vec<Host>,
}

/// One host. A clone is cheap and is the same host. The host lasts as long as a clone of it, or a process
/// in it.
#[derive(Debug, Clone)]
pub struct Host {
    namespace: Namespace,
    address: Ipv4Addr,
    rate: Option<LinkRate>,
    /// Keeps the switch, and so the host's link, alive.
    _switch: Namespace,
}

impl Network {
    /// Starts `hosts` hosts. Shapes the link of each to `rate`, in each direction. Without a rate, links
    /// are as fast as memory.
    ///
    /// # Errors
    /// This process isn't root; `ip` or `tc` is missing or fails.
    pub fn start(hosts: usize, rate: Option<LinkRate>) -> Result<Self> {
        assert!(hosts <= MAX_HOSTS, "{hosts} hosts don't fit in a /24");
        let switch = Namespace::new()?;
        switch.run("ip", "link add switch type bridge")?;
        switch.run("ip", "link set switch up")?;
        let mut network = Self { switch, hosts: Vec::new() };
        for _ in 0..hosts {
            network.add_host(rate)?;
        }
        for index in 1..hosts {
            network.wait_until_heard(index)?;
        }
        Ok(network)
    }

    /// Waits until the kernel has brought the host's link up, which takes about a second.
    fn wait_until_heard(&self, index: usize) -> Result<()> {
        let (first, host) = (&self.hosts[0], &self.hosts[index]);
        let address = SocketAddr::from((first.address, CLOSED_PORT));
        let refused = || {
            let answer = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
            answer.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        match host.run(|| wait_until(LINK_DEADLINE, refused)) {
            true => Ok(()),
            false => Err(Failure::new(format!("{}: no link after {LINK_DEADLINE:?}", host.address))),
        }
    }

    /// Adds a host whose link has this rate, and returns its index.
    ///
    /// # Errors
    /// As [`Network::start`].
    pub fn add_host(&mut self, rate: Option<LinkRate>) -> Result<usize> {
        let index = self.hosts.len();
        let address = Ipv4Addr::new(10, 77, 0, index as u8 + 1);
        let host = Host { namespace: Namespace::new()?, address, rate: None, _switch: self.switch.clone() };
        let (port, inside) = (port(index), host.namespace.path());
        let switch = &self.switch;
        switch.run("ip", &format!("link add {port} type veth peer name eth0 netns {inside}"))?;
        switch.run("ip", &format!("link set {port} master switch up"))?;
        host.namespace.run("ip", "link set lo up")?;
        host.namespace.run("ip", &format!("address add {}/24 dev eth0", host.address))?;
        host.namespace.run("ip", "link set eth0 up")?;
        self.hosts.push(host);
        if let Some(rate) = rate {
            self.set_rate(index, rate)?;
        }
        Ok(index)
    }

    /// Sets the rate of a host's link, in each direction, from now on.
    ///
    /// # Errors
    /// `ip` or `tc` refuses.
    pub fn set_rate(&mut self, index: usize, rate: LinkRate) -> Result<()> {
        let (port, host, switch) = (port(index), &mut self.hosts[index], &self.switch);
        let segments = format!("gso_max_size {SEGMENT_BYTES}");
        host.namespace.run("ip", &format!("link set eth0 {segments}"))?;
        switch.run("ip", &format!("link set {port} {segments}"))?;
        let shape = format!("root tbf rate {rate} burst {BURST} limit {QUEUE}");
        host.namespace.run("tc", &format!("qdisc replace dev eth0 {shape}"))?;
        switch.run("tc", &format!("qdisc replace dev {port} {shape}"))?;
        host.rate = Some(rate);
        Ok(())
    }

    /// A host, by its index.
    ///
    /// # Panics
    /// If no host has this index.
    pub fn host(&self, index: usize) -> &Host {
        &self.hosts[index]
    }

    /// All hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Sets the size of the largest packet on all links, which is 1,500 bytes by default. With 9,000 bytes,
    /// the links take a sixth of the processor time. That matters: the virtual links and the switch run on
    /// the cores that programs need, and a chain over many links at 1 Gbit/s keeps four cores busy.
    ///
    /// # Errors
    /// `ip` refuses.
    pub fn set_packet_bytes(&self, bytes: u32) -> Result<()> {
        for (index, host) in self.hosts.iter().enumerate() {
            host.namespace.run("ip", &format!("link set eth0 mtu {bytes}"))?;
            self.switch.run("ip", &format!("link set {} mtu {bytes}", port(index)))?;
        }
        self.switch.run("ip", &format!("link set switch mtu {bytes}"))
    }

    /// From now on, drops all packets between two hosts. Neither host gets an error for them.
    ///
    /// # Errors
    /// `ip` refuses.
    pub fn cut(&self, a: usize, b: usize) -> Result<()> {
        for (from, to) in [(a, b), (b, a)] {
            let address = self.hosts[to].address;
            let lost = format!("neighbour replace {address} lladdr {NOBODY} dev eth0 nud permanent");
            self.hosts[from].namespace.run("ip", &lost)?;
        }
        Ok(())
    }

    /// Undoes a [`Network::cut`].
    ///
    /// # Errors
    /// `ip` refuses, for example without a cut.
    pub fn mend(&self, a: usize, b: usize) -> Result<()> {
        for (from, to) in [(a, b), (b, a)] {
            let found = format!("neighbour delete {} dev eth0", self.hosts[to].address);
            self.hosts[from].namespace.run("ip", &found)?;
        }
        Ok(())
    }

    /// Disconnects a host's link at the switch. The host gets no error.
    ///
    /// # Errors
    /// `ip` refuses.
    pub fn unplug(&self, index: usize) -> Result<()> {
        self.switch.run("ip", &format!("link set {} nomaster", port(index)))
    }

    /// Reconnects a host's link that [`Network::unplug`] disconnected.
    ///
    /// # Errors
    /// `ip` refuses.
    pub fn plug(&self, index: usize) -> Result<()> {
        self.switch.run("ip", &format!("link set {} master switch", port(index)))
    }
}

/// The name of a host's port at the switch.
fn port(index: usize) -> String {
    format!("port{index}")
}

impl Host {
    /// The host's address on the network.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Rate of the host's link; None if the link isn't shaped.
    pub fn rate(&self) -> Option<LinkRate> {
        self.rate
    }

    /// Runs a command on this host to its end; the arguments are separated by spaces.
    pub(crate) fn execute(&self, program: &str, arguments: &str) -> Result<()> {
        self.namespace.run(program, arguments)
    }

    /// A command that will run on this host.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.enter(&mut command);
        command
    }

    /// Makes `command` run on this host.
    pub fn enter(&self, command: &mut Command) {
        self.namespace.enter(command);
    }

    /// Runs `work` in a new thread on this host, and waits for its end. Sockets that `work` opens stay on the
    /// host, also after its end.
    ///
    /// # Panics
    /// If `work` panics, or the thread can't enter the host.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            move_into(&self.namespace.0).expect("a thread may enter a namespace that root made");
            work()
        };
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

/// A network namespace, which lasts as long as this value or a process in it.
#[derive(Debug, Clone)]
struct Namespace(Arc<File>);

impl Namespace {
    fn new() -> Result<Self> {
        let made = thread::spawn(|| -> io::Result<File> {
            // SAFETY: NEWNET moves only this thread to another network. It touches no memory or
            // descriptors of other threads.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            File::open("/proc/thread-self/ns/net")
        });
        match made.join() {
            Ok(Ok(file)) => Ok(Self(Arc::new(file))),
            Ok(Err(error)) => Err(Failure::new(format!("making a network namespace (as root?): {error}"))),
            Err(_) => Err(Failure::new("the thread that makes a network namespace panicked")),
        }
    }

    /// The namespace's path for other processes.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    fn enter(&self, command: &mut Command) {
        let namespace = Arc::clone(&self.0);
        // SAFETY: between fork and exec it makes one system call, which is async-signal-safe, and
        // allocates nothing.
        unsafe { command.pre_exec(move || move_into(&namespace)) };
    }

    /// Runs a command whose arguments are separated by spaces.
    fn run(&self, program: &str, arguments: &str) -> Result<()> {
        let mut command = Command::new(program);
        self.enter(command.args(arguments.split(' ')));
        let output = command.output().map_err(|error| Failure::new(format!("{program}: {error}")))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(Failure::new(format!("{program} {arguments}: {}", said.trim())))
            }
        }
    }
}

fn move_into(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}
