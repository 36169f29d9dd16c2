//! A gateway in this process, and clients that send it any bytes of a test.

pub mod gated;
pub mod http;
pub mod programs;

use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use strait_gateway::{Access, Config, ConfiguredStore, Gateway, GatewayNumbers, Limits, Reload};
use strait_store::{FileSystem, MemoryStore, Principal};
use strait_telemetry::Page;
pub use strait_testkit::thrift::Client;
use strait_testkit::wait::eventually;
use strait_wire::*;
use tokio::sync::oneshot;

/// The wire of tests that don't test wires.
pub const FRAMED: Wire = Wire { protocol: Protocol::Binary, framed: true };
pub const UNFRAMED: Wire = Wire { protocol: Protocol::Binary, framed: false };

/// A served gateway; stops when dropped.
pub struct Served {
    pub address: SocketAddr,
    pub store: Arc<dyn FileSystem>,
    pub numbers: GatewayNumbers,
    pub reload: Reload,
    runtime: Option<tokio::runtime::Runtime>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
}

pub fn config(store: Arc<dyn FileSystem>) -> Config {
    Config {
        stores: vec![ConfiguredStore { name: "main".into(), uri: "memory:///".into(), fs: store }],
        access: Access { anonymous: Some(Principal::new("tester")), ..Access::default() },
        local_root: None,
        tls: None,
        token_key: [7; 32],
        service_2009: Default::default(),
        http: Default::default(),
        limits: Limits::default(),
        slow_call: std::time::Duration::MAX,
    }
}

/// Serves a fresh store in memory.
pub fn serve() -> Served {
    serve_with(|_| {})
}

/// Serves a fresh store in memory, with a changed configuration.
pub fn serve_with(change: impl FnOnce(&mut Config)) -> Served {
    serve_store(Arc::new(MemoryStore::new("tester")), change)
}

pub fn serve_store(store: Arc<dyn FileSystem>, change: impl FnOnce(&mut Config)) -> Served {
    serve_with_threads(512, store, change)
}

/// Serves with this many threads at most for work that blocks.
pub fn serve_with_threads(
    blocking: usize,
    store: Arc<dyn FileSystem>,
    change: impl FnOnce(&mut Config),
) -> Served {
    serve_at(Ipv4Addr::LOCALHOST.into(), blocking, store, change)
}

/// The same at another of this host's addresses.
pub fn serve_at(
    address: IpAddr,
    blocking: usize,
    store: Arc<dyn FileSystem>,
    change: impl FnOnce(&mut Config),
) -> Served {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).max_blocking_threads(blocking).enable_all().build().unwrap();
    let mut config = config(store.clone());
    change(&mut config);
    let gateway = runtime.block_on(Gateway::bind((address, 0).into(), config)).unwrap();
    let address = gateway.local_addr();
    let (numbers, reload) = (gateway.numbers(), gateway.reload());
    let (stop, stopped) = oneshot::channel::<()>();
    let served = runtime.spawn(gateway.serve(async { drop(stopped.await) }));
    let (runtime, stop, served) = (Some(runtime), Some(stop), Some(served));
    Served { address, store, numbers, reload, runtime, stop, served }
}

impl Served {
    pub fn client(&self) -> Client {
        self.client_on(FRAMED)
    }

    pub fn client_on(&self, wire: Wire) -> Client {
        Client::connect(self.address, wire)
    }

    /// A client with a session of DfsV2.
    pub fn session(&self) -> Client {
        let mut client = self.client();
        client.open_session();
        client
    }

    /// Waits until this many requests wait for memory.
    pub fn await_waiting_for_memory(&self, count: usize) {
        let name = "strait_gateway_waiting_for_memory";
        eventually(&format!("{name} {count}"), || self.number(name) == count as u64);
    }

    /// A number on the page of metrics.
    pub fn number(&self, name: &str) -> u64 {
        let mut page = Page::default();
        self.numbers.write(&mut page);
        let page = page.to_string();
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    }

    /// Shuts down, and waits until that is done.
    pub fn shut_down(&mut self) {
        drop(self.stop.take());
        if let (Some(runtime), Some(served)) = (&self.runtime, self.served.take()) {
            runtime
                .block_on(async { tokio::time::timeout(Duration::from_secs(30), served).await })
                .unwrap()
                .unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The kind of a typed error.
pub fn kind<T: std::fmt::Debug>(result: Result<T, DfsError>) -> String {
    result.unwrap_err().kind.unwrap()
}

/// Creates a file through DfsV2 and gives its open handle.
pub fn create(client: &mut Client, path: &str) -> i64 {
    let request = CreateFileRequest { path: Some(path.into()), ..Default::default() };
    client.v2::<methods::CreateFile>(request).unwrap().handle.unwrap()
}

pub fn append(client: &mut Client, handle: i64, at: i64, data: &[u8]) -> Result<AppendDataReply, DfsError> {
    client.v2::<methods::AppendData>(AppendDataRequest {
        handle: Some(handle),
        expected_offset: Some(at),
        data: Some(Bytes::copy_from_slice(data)),
        ..Default::default()
    })
}

pub fn close(client: &mut Client, handle: i64) -> Result<CloseFileReply, DfsError> {
    client.v2::<methods::CloseFile>(CloseFileRequest { handle: Some(handle), ..Default::default() })
}

/// Writes a whole file.
pub fn put(client: &mut Client, path: &str, data: &[u8]) {
    let handle = create(client, path);
    let mut at = 0;
    for piece in data.chunks(4 << 20) {
        at = append(client, handle, at, piece).unwrap().position.unwrap();
    }
    close(client, handle).unwrap();
}

pub fn open(client: &mut Client, path: &str) -> Result<OpenFileReply, DfsError> {
    client.v2::<methods::OpenFile>(OpenFileRequest { path: Some(path.into()), ..Default::default() })
}

pub fn read(client: &mut Client, handle: i64, offset: i64, length: i32) -> Result<Bytes, DfsError> {
    let request = ReadRangeRequest {
        handle: Some(handle),
        offset: Some(offset),
        length: Some(length),
        ..Default::default()
    };
    client.v2::<methods::ReadRange>(request).map(|reply| reply.data.unwrap())
}
