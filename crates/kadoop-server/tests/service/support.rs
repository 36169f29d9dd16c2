//! A namenode in this process, and its callers.

use bytes::Bytes;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};
use strait_flexrpc::{self as flexrpc, Transport};
use strait_kadoop_client::{Client, ClientOptions, CreateOptions};
use strait_kadoop_core::{Config, Identity, messages::Caller};
use strait_kadoop_server::{DatanodeOptions, DatanodeServer, NamenodeOptions, NamenodeServer};
use strait_kadoop_wire::{
    Key,
    proofs::{Procedure, unsigned},
    tokens::Token,
    wire::{self, KadoopDatanodeV1Client, KadoopNamenodeV1Client},
};
use strait_testkit::wait::{eventually, obtained};
use tempfile::TempDir;

pub const DEADLINE: Duration = Duration::from_secs(30);

pub fn key() -> Key {
    Key::new([7; 32])
}

pub fn config() -> Config {
    // Tests wait this long, and no member returns later than that here.
    let recovery_patience_ms = 5_000;
    let min_chunk_bytes = 1;
    Config {
        min_chunk_bytes,
        safe_mode_extra_ms: 0,
        segment_bytes: 1 << 20,
        recovery_patience_ms,
        ..Config::default()
    }
}

pub fn namenode_options(directory: &Path) -> NamenodeOptions {
    namenode_options_with(directory, key())
}

fn namenode_options_with(directory: &Path, key: Key) -> NamenodeOptions {
    NamenodeOptions { config: config(), ..NamenodeOptions::new(directory, key) }
}

pub fn namenode(directory: &Path) -> NamenodeServer {
    NamenodeServer::start(namenode_options(directory)).unwrap()
}

pub fn client(namenode: &NamenodeServer) -> Client {
    client_at(&namenode.address().to_string())
}

pub fn client_at(address: &str) -> Client {
    Client::connect(ClientOptions::new(address, key().for_clients())).unwrap()
}

/// A client that doesn't read through datanodes' files.
pub fn client_over_tcp(namenode: &NamenodeServer) -> Client {
    let options = ClientOptions::new(namenode.address().to_string(), key().for_clients());
    Client::connect(ClientOptions { short_circuit: false, ..options }).unwrap()
}

pub fn rpc(key: Option<flexrpc::ClusterKey>) -> flexrpc::Client {
    flexrpc::Client::new(flexrpc::ClientOptions { key, ..Default::default() })
}

/// A connection to a datanode, for calls by hand.
pub fn datanode(address: SocketAddr) -> KadoopDatanodeV1Client {
    KadoopDatanodeV1Client::new(rpc(None).handle(address, Transport::Tcp).unwrap())
}

/// A datanode's address, and the identity that it proves.
pub fn place(host: &wire::KdHost<'_>) -> (SocketAddr, Identity) {
    (host.address.as_str().unwrap().parse().unwrap(), Identity(host.identity))
}

/// A read of a chunk's first nine bytes, signed with this token.
pub fn signed_read(chunk: &wire::KdLocatedChunk, token: &wire::KdToken, of: Identity) -> wire::KdRead {
    let (chunk, stamp) = (chunk.chunk, chunk.stamp);
    let mut read = wire::KdRead { pass: unsigned(), chunk, stamp, offset: 0, length: 9, acknowledged: 0 };
    Token::new(token).sign(&mut read, Procedure::Read, of);
    read
}

/// The name of a sealed replica's file.
pub fn sealed_name(of: &wire::KdLocatedChunk) -> String {
    format!("{:016x}_{:016x}_{:08x}.data", of.chunk, of.stamp, of.length)
}

/// A connection to a namenode, for calls by hand.
pub fn names(cluster: &Cluster) -> KadoopNamenodeV1Client {
    let rpc = rpc(cluster.key.for_clients().to_namenode());
    KadoopNamenodeV1Client::new(rpc.handle(cluster.namenode.address(), Transport::Tcp).unwrap())
}

pub fn superuser() -> Caller {
    Caller { user: "kadoop".into(), groups: Vec::new(), session: None }
}

pub fn user(name: &str) -> Caller {
    Caller { user: name.into(), groups: vec!["users".into()], session: None }
}

/// A namenode and datanodes in this process.
pub struct Cluster {
    pub directory: TempDir,
    pub namenode: NamenodeServer,
    key: Key,
    datanodes: Vec<DatanodeServer>,
}

impl Cluster {
    pub fn start(datanodes: usize) -> Self {
        Self::start_with_key(datanodes, key())
    }

    pub fn start_with_key(datanodes: usize, key: Key) -> Self {
        Self::start_with(datanodes, key, |options| options)
    }

    pub fn start_with(
        datanodes: usize,
        key: Key,
        change: impl FnOnce(NamenodeOptions) -> NamenodeOptions,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = namenode_options_with(&directory.path().join("namenode"), key.clone());
        let namenode = NamenodeServer::start(change(options)).unwrap();
        let mut cluster = Self { directory, namenode, key, datanodes: Vec::new() };
        for number in 0..datanodes {
            let datanode = DatanodeServer::start(cluster.datanode_options(number)).unwrap();
            cluster.datanodes.push(datanode);
        }
        if datanodes > 0 {
            cluster.await_datanodes();
        }
        cluster
    }

    pub fn add(&mut self, options: DatanodeOptions) {
        self.datanodes.push(DatanodeServer::start(options).unwrap());
    }

    pub fn datanode_addresses(&self) -> Vec<SocketAddr> {
        self.datanodes.iter().map(DatanodeServer::address).collect()
    }

    pub fn usable_directories(&self) -> usize {
        self.datanodes.iter().map(DatanodeServer::directories).sum()
    }

    pub fn has_failed(&self, datanode: usize) -> bool {
        self.datanodes[datanode].has_failed()
    }

    /// Ends all processes, and keeps their directories.
    pub fn into_directory(self) -> TempDir {
        self.directory
    }

    /// A client with this cluster's key.
    pub fn client(&self) -> Client {
        let address = self.namenode.address().to_string();
        Client::connect(ClientOptions::new(address, self.key.for_clients())).unwrap()
    }

    pub fn datanode_options(&self, number: usize) -> DatanodeOptions {
        let directories = vec![self.directory.path().join(format!("datanode-{number}"))];
        let namenode = self.namenode.address().to_string();
        DatanodeOptions { config: config(), ..DatanodeOptions::new(directories, namenode, self.key.clone()) }
    }

    /// Waits until all datanodes can be written to, and safe mode has ended.
    pub fn await_datanodes(&self) {
        let client = self.client();
        let count = self.datanodes.len();
        eventually("all datanodes are alive", || {
            let status = client.status().unwrap();
            let alive = status.nodes.iter().filter(|node| node.alive).count();
            !status.safe_mode && alive == count
        });
        // A datanode that is chosen has sent its report.
        eventually("all datanodes take replicas", || {
            let options =
                CreateOptions { replication: count as u16, overwrite: true, ..CreateOptions::default() };
            let mut writer = client.create(&superuser(), "/.probe", &options).unwrap();
            writer.write("probe").unwrap();
            writer.close().unwrap();
            let found = client.locations(&superuser(), "/.probe", 0, 5).unwrap();
            found.iter().any(|part| part.hosts.len() == count)
        });
        client.delete(&superuser(), "/.probe", false).unwrap();
    }

    /// Ends the datanode at an address.
    pub fn stop(&mut self, address: SocketAddr) {
        self.datanodes.retain(|datanode| datanode.address() != address);
    }

    /// Ends the datanodes, runs `meanwhile`, and starts them on the same directories, but at other
    /// addresses.
    pub fn restart_datanodes(&mut self, meanwhile: impl FnOnce()) {
        let count = self.datanodes.len();
        self.datanodes.clear();
        meanwhile();
        self.start_datanodes(count);
    }

    fn start_datanodes(&mut self, count: usize) {
        for number in 0..count {
            let options = self.datanode_options(number);
            self.datanodes.push(once_free(|| DatanodeServer::start(options.clone())));
        }
    }

    /// Ends the namenode alone, and starts it on its directory.
    pub fn restart_namenode(&mut self, options: NamenodeOptions) {
        let placeholder = tempfile::tempdir().unwrap();
        self.namenode = namenode(placeholder.path());
        self.namenode = once_free(|| NamenodeServer::start(options.clone()));
        self.await_datanodes();
    }

    /// Ends all, and starts them on the same directories.
    pub fn restart(&mut self) {
        self.restart_with(namenode_options(&self.directory.path().join("namenode")));
    }

    pub fn restart_with(&mut self, options: NamenodeOptions) {
        self.restart_slowly(options, || ());
    }

    /// As [`Cluster::restart_with`], and runs `meanwhile` before the datanodes are back.
    pub fn restart_slowly(&mut self, options: NamenodeOptions, meanwhile: impl FnOnce()) {
        let count = self.datanodes.len();
        self.datanodes.clear();
        let placeholder = tempfile::tempdir().unwrap();
        self.namenode = namenode(placeholder.path());
        self.namenode = once_free(|| NamenodeServer::start(options.clone()));
        meanwhile();
        self.start_datanodes(count);
        self.await_datanodes();
    }
}

/// Starts a server once its predecessor's last call has left the directory and the port.
fn once_free<T>(start: impl Fn() -> io::Result<T>) -> T {
    let busy = [io::ErrorKind::ResourceBusy, io::ErrorKind::AddrInUse];
    obtained("the directory and the port", || match start() {
        Err(error) if busy.contains(&error.kind()) => None,
        outcome => Some(outcome.unwrap()),
    })
}

/// Bytes without repetitions.
pub fn pattern(length: usize) -> Bytes {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

/// A relay's direction.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    Call,
    Answer,
}

/// Forwards bytes while `passes` allows it, and then ends the connection.
pub fn relay(to: SocketAddr, passes: impl Fn(Way, &[u8]) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, passes) = (listener.local_addr().unwrap(), Arc::new(passes));
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        for from in listener.incoming() {
            // The namenode may be restarting.
            let (Ok(from), Ok(to)) = (from, TcpStream::connect(to)) else { continue };
            let ways =
                [(Way::Call, from.try_clone().unwrap(), to.try_clone().unwrap()), (Way::Answer, to, from)];
            for (way, mut from, mut to) in ways {
                let passes = passes.clone();
                std::thread::spawn(move || {
                    let mut buffer = [0; 65_536];
                    while let Ok(len @ 1..) = from.read(&mut buffer) {
                        if !passes(way, &buffer[..len]) || to.write_all(&buffer[..len]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    at
}
