//! The datanode as a process: the core under one lock, its data directories, and threads for
//! heartbeats, fetches from other datanodes and scrubbing.

mod calls;
mod directories;
mod fetches;
mod heartbeats;
mod lender;
mod numbers;
mod order_watch;
mod shared;
mod space;
mod watch;

use super::{SLOW_CALL, observed::Observed};
use directories::Directories;
use lender::Lender;
use shared::Shared;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use strait_flexrpc::{Forwarding, Server, ServerOptions, WorkerLimits, limits};
use strait_kadoop_core::{
    Config, Incarnation,
    datanode::{Claim, Datanode, Stranger},
};
use strait_kadoop_wire::wire::KadoopDatanodeV1Server;
use strait_kadoop_wire::{
    descriptors::Descriptors,
    keys::Key,
    random::random,
    stop::{Stop, Threads},
};
use strait_telemetry::Calls;

pub use lender::ShortCircuit;
pub use numbers::DatanodeNumbers;

/// Largest call: a write of 4 MiB, the most that the interface allows, with the longest pipeline.
const PAYLOAD_BYTES: usize = 5 << 20;
/// Most bytes of received calls in memory at a time: enough for 64 pipelines.
const RECEIVE_BYTES: usize = 256 << 20;
/// Most workers. A write that waits for its turn holds one: up to four for each pipeline.
const WORKERS: usize = 512;
/// Interval of the core's periodic work.
const TICK: Duration = Duration::from_secs(1);

/// Settings of a datanode.
#[derive(Debug, Clone)]
pub struct DatanodeOptions {
    /// Directories for replicas, one per disk. The datanode makes missing ones.
    pub directories: Vec<PathBuf>,
    /// Address on which the datanode listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Address at which clients and other datanodes reach it, if it isn't `listen`.
    pub advertise: Option<SocketAddr>,
    /// The namenode's address for clients, as HOST:PORT.
    pub namenode: String,
    /// The cluster's key.
    pub key: Key,
    /// Name of this host, for programs that schedule computations near their bytes.
    pub host: String,
    /// Rack of this host. The namenode spreads replicas over racks.
    pub rack: String,
    /// Sizes and times of the cluster.
    pub config: Config,
    /// Settings for programs on this host that read files directly. None: they read over TCP, as on other
    /// hosts.
    pub short_circuit: Option<ShortCircuit>,
    /// Bytes to keep free in each directory's file system. The datanode refuses a write that would leave
    /// fewer.
    pub reserve_bytes: u64,
    /// How many file descriptors the datanode may use.
    pub descriptors: Descriptors,
    /// Duration from which a call is logged as slow.
    pub slow_call: Duration,
    /// Number of datanodes with directories on the same disks, including this one. Each reports its
    /// share to the namenode, so that the cluster's total is right.
    pub sharing: u64,
}

impl DatanodeOptions {
    /// On loopback, with all defaults.
    pub fn new(directories: Vec<PathBuf>, namenode: impl Into<String>, key: Key) -> Self {
        Self {
            directories,
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            advertise: None,
            namenode: namenode.into(),
            key,
            host: host_name(),
            rack: "/default-rack".to_owned(),
            config: Config::default(),
            short_circuit: Some(ShortCircuit::default()),
            // Room that sealing a chunk still needs, for its end and its checksums.
            reserve_bytes: 64 << 20,
            descriptors: Descriptors::of_process(),
            slow_call: SLOW_CALL,
            sharing: 1,
        }
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A running datanode. Dropping this stops the datanode.
pub struct DatanodeServer {
    shared: Arc<Shared>,
    stop: Stop,
    threads: Threads,
    server: Option<Server>,
    lender: Option<Lender>,
    address: SocketAddr,
    calls: Arc<Calls>,
}

impl DatanodeServer {
    /// Opens the directories and serves. A thread joins the namenode as soon as the namenode answers.
    ///
    /// # Errors
    /// Another process holds a directory; a directory is a namenode's; the directories belong to different
    /// datanodes; no directory can be used; the address can't be bound.
    pub fn start(options: DatanodeOptions) -> io::Result<Self> {
        let (directories, identity) = Directories::take(&options.directories, options.reserve_bytes)?;
        for path in directories.added() {
            tracing::warn!(
                path = %path.display(),
                "this data directory was empty, so it is used as a new one; if it isn't new, its disk isn't \
                 mounted: end this datanode, mount the disk and start again"
            );
        }
        let home = directories.first().to_owned();
        let incarnation = Incarnation(random()?);
        let (most, cluster) = (options.config.open_replicas, directories.cluster());
        let config = Config { open_replicas: options.descriptors.replicas(most), ..options.config.clone() };
        let core = Datanode::start(config, directories.disks(), identity, cluster, incarnation)?;
        for (file, error) in core.unopened() {
            tracing::error!(file, %error, "a replica can't be opened; it isn't reported to the namenode");
        }
        for Stranger { file, belongs, .. } in core.strangers() {
            let Claim { cluster, chunk, stamp } = belongs;
            let belongs = format_args!("chunk {chunk} under stamp {stamp} of cluster {cluster}");
            tracing::error!(
                file,
                %belongs,
                "a replica's files have the name of another replica; they are kept but not used: end this \
                 datanode, and rename or remove them"
            );
        }
        let stop = Stop::default();
        let (fetches, asked) = fetches::queue();
        let known = (identity, options.key.for_tokens()?);
        let shared = Arc::new(Shared::new(core, &options, known, directories, stop.clone(), fetches));
        let lender = options.short_circuit.as_ref().and_then(|how| {
            let lender = Lender::start(how, options.descriptors, &home, &shared);
            let told = |error| tracing::warn!(%error, "can't lend files: local programs read over TCP");
            lender.map_err(told).ok()
        });
        shared.lends_at(lender.as_ref().map(Lender::place));
        let calls = Arc::new(Calls::new(&numbers::OPERATIONS, options.slow_call));
        let (members, tokens) = (Arc::clone(&shared), Arc::clone(&shared));
        let server = ServerOptions {
            listen: options.listen,
            udp: false,
            // Each call has a token instead of a key: see `kadoop-wire`, module `keys`.
            key: None,
            allow_anonymous: true,
            connections: options.descriptors.connections(),
            payload_bytes: PAYLOAD_BYTES,
            receive_bytes: RECEIVE_BYTES,
            workers: WorkerLimits { most: WORKERS, ..ServerOptions::default().workers },
            chain_callees: limits::CHAIN_CALLEES_MAX,
            forwarding: Forwarding::only(move |next| members.is_member(next)),
            ..ServerOptions::default()
        };
        let server = Server::builder(server)
            .register(
                KadoopDatanodeV1Server::<()>::PROGRAM,
                KadoopDatanodeV1Server::<()>::VERSION,
                Observed {
                    service: KadoopDatanodeV1Server(calls::Chunks(tokens)),
                    calls: Arc::clone(&calls),
                    operation: |request| request.procedure.number as usize,
                    about: numbers::about,
                    refused: numbers::refused,
                },
            )
            .start()?;
        let address = options.advertise.unwrap_or_else(|| server.address());
        let mut threads = Threads::default();
        let this = Arc::clone(&shared);
        let namenode = heartbeats::Namenode::new(&options, address);
        let (order_watch, rpc, heartbeat) =
            (shared.order_watch.clone(), namenode.for_watches(), stop.clone());
        shared.also_stop(order_watch.stop());
        // The end doesn't wait for this thread: see `OrderWatch::run`.
        std::thread::Builder::new()
            .name("kadoop-watch".to_owned())
            .spawn(move || order_watch.run(&heartbeat, identity, &rpc))?;
        threads.spawn("kadoop-heartbeat", move || heartbeats::run(&this, namenode))?;
        for thread in fetches::threads(&shared, asked) {
            threads.spawn("kadoop-fetch", thread)?;
        }
        let (this, until) = (Arc::clone(&shared), Stop::default());
        let ticking = until.clone();
        threads.spawn("kadoop-tick", move || {
            while !ticking.sleep(TICK) {
                this.tick();
            }
        })?;
        shared.also_stop(until);
        Ok(Self { shared, stop, threads, server: Some(server), lender, address, calls })
    }

    /// The address at which clients and other datanodes reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of data directories in use.
    pub fn directories(&self) -> usize {
        self.shared.directories().usable()
    }

    /// Whether the datanode is unusable: no data directory works, or a thread panicked during a change. It
    /// then sends no more heartbeats, and the process should end.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed()
    }

    /// The datanode's counters. They stay readable after the datanode has stopped.
    pub fn numbers(&self) -> DatanodeNumbers {
        DatanodeNumbers { shared: Arc::clone(&self.shared), calls: Arc::clone(&self.calls) }
    }

    /// Stops the datanode, as dropping it does.
    pub fn shutdown(self) {}
}

impl Drop for DatanodeServer {
    fn drop(&mut self) {
        self.stop.stop();
        self.shared.end();
        self.server.take();
        self.lender.take();
        self.threads.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NamenodeOptions, NamenodeServer};
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::mpsc,
    };
    use strait_kadoop_client::{Client, ClientOptions};
    use strait_kadoop_wire::KEY_BYTES;
    use strait_testkit::wait::eventually;

    #[test]
    fn nothing_is_answered_from_what_a_panic_left_half_changed() {
        let directory = tempfile::tempdir().unwrap();
        let options = DatanodeOptions::new(
            vec![directory.path().join("data")],
            "127.0.0.1:1",
            Key::new([7; KEY_BYTES]),
        );
        let server = DatanodeServer::start(options).unwrap();
        assert!(!server.has_failed());
        let change = || server.shared.change(|_| panic!("a defect"));
        assert!(catch_unwind(AssertUnwindSafe(change)).is_err());
        assert!(server.has_failed());
        assert!(catch_unwind(AssertUnwindSafe(|| server.shared.change(|_| ()))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(server.shared.read()))).is_err());
    }

    /// Once, the namenode declared such a datanode dead, so that its replicas on other disks were lost, too.
    #[test]
    fn a_disk_that_hangs_holds_up_no_heartbeat_and_is_taken_out_of_service() {
        let root = tempfile::tempdir().unwrap();
        let key = Key::new([7; KEY_BYTES]);
        let namenode =
            NamenodeServer::start(NamenodeOptions::new(root.path().join("names"), key.clone())).unwrap();
        let address = namenode.address().to_string();
        let client = Client::connect(ClientOptions::new(address.clone(), key.for_clients())).unwrap();
        let directories = ["sound", "hanging"].map(|name| root.path().join(name)).to_vec();
        let config = Config { disk_ms: 4_000, ..Config::default() };
        let options = DatanodeOptions { config, ..DatanodeOptions::new(directories, address, key) };
        let datanode = DatanodeServer::start(options).unwrap();
        let silent_ms = || client.status().unwrap().nodes.first().map(|node| node.silent_ms);
        eventually("the datanode is there", || silent_ms().is_some());
        let (_end, until) = mpsc::channel();
        datanode.shared.directories().hang(1, until);
        eventually("the disk is given up", || {
            assert!(silent_ms().unwrap() < 3_000, "its heartbeats are held up");
            datanode.directories() == 1
        });
        assert!(!datanode.has_failed());
    }
}
