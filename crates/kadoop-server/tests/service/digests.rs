//! Checksums of files, computed by their datanodes.

use crate::support::{Cluster, client, client_over_tcp, pattern, rpc, superuser};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock},
};
use strait_flexrpc::{Reply, Request, Server, ServerOptions, Service, ServiceError, Transport};
use strait_kadoop_client::{Client, CreateOptions};
use strait_kadoop_core::Error;
use strait_kadoop_server::DatanodeOptions;
use strait_kadoop_wire::{proofs::Procedure, wire::KadoopDatanodeV1Server};

const READ: u32 = Procedure::Read as u32;
const DIGEST: u32 = Procedure::Digest as u32;

fn write(client: &Client, path: &str, bytes: &[u8], (replication, chunk_bytes): (u16, u32)) {
    let options = CreateOptions { replication, chunk_bytes, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), path, &options).unwrap();
    writer.write(bytes.to_vec()).unwrap();
    writer.close().unwrap();
}

fn digest(client: &Client, path: &str) -> (u64, u32) {
    let mut digester = client.digest(&superuser(), path).unwrap();
    while digester.step().unwrap() {}
    (digester.length(), digester.crc32c())
}

#[test]
fn a_files_digest_is_the_crc_of_its_bytes_whatever_its_chunks_are() {
    let cluster = Cluster::start(3);
    let client = client(&cluster.namenode);
    let bytes = pattern(7_000_001);
    for (at, chunk_bytes) in [1 << 20, 3 << 20, 1_000_003, 64 << 20].into_iter().enumerate() {
        let path = format!("/file-{at}");
        write(&client, &path, &bytes, (2, chunk_bytes));
        assert_eq!(digest(&client, &path), (bytes.len() as u64, crc32c::crc32c(&bytes)), "{chunk_bytes}");
    }
    write(&client, "/empty", b"", (1, 1 << 20));
    assert_eq!(digest(&client, "/empty"), (0, 0));
    client.truncate(&superuser(), "/file-2", 1_234_567).unwrap();
    assert_eq!(digest(&client, "/file-2"), (1_234_567, crc32c::crc32c(&bytes[..1_234_567])));
    assert_eq!(client.digest(&superuser(), "/").err().unwrap().error, Error::IsADirectory);
}

#[test]
fn what_was_flushed_to_an_open_file_is_in_its_digest_and_what_was_not_is_not() {
    let cluster = Cluster::start(2);
    let client = client(&cluster.namenode);
    let options = CreateOptions { replication: 2, chunk_bytes: 1 << 20, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), "/log", &options).unwrap();
    let bytes = pattern(2_500_000);
    writer.write(bytes[..2_100_000].to_vec()).unwrap();
    writer.flush().unwrap();
    writer.write(bytes[2_100_000..2_100_500].to_vec()).unwrap();
    assert_eq!(digest(&client, "/log"), (2_100_000, crc32c::crc32c(&bytes[..2_100_000])));
    writer.write(bytes[2_100_500..].to_vec()).unwrap();
    writer.close().unwrap();
    assert_eq!(digest(&client, "/log"), (2_500_000, crc32c::crc32c(&bytes)));
}

#[test]
fn a_lost_datanodes_part_of_a_digest_comes_from_another_replica() {
    let mut cluster = Cluster::start(3);
    let client = client(&cluster.namenode);
    let bytes = pattern(5_000_000);
    write(&client, "/file", &bytes, (2, 1 << 20));
    let mut digester = client.digest(&superuser(), "/file").unwrap();
    assert!(digester.step().unwrap());
    let at = digester.length();
    let next = client.locations(&superuser(), "/file", at, 1).unwrap();
    cluster.stop(next[0].hosts[0].address);
    while digester.step().unwrap() {}
    assert_eq!((digester.length(), digester.crc32c()), (bytes.len() as u64, crc32c::crc32c(&bytes)));
}

/// A proxy for a datanode that acts as a version without digests: it doesn't know the procedure.
struct Predecessor {
    datanode: OnceLock<SocketAddr>,
    asked: Mutex<Vec<u32>>,
}

impl Predecessor {
    fn asked(&self, procedure: u32) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| **asked == procedure).count()
    }
}

struct Before(Arc<Predecessor>);

impl Service for Before {
    fn call(&self, request: &Request, reply: &mut Reply) -> Result<(), ServiceError> {
        self.0.asked.lock().unwrap().push(request.procedure.number);
        if request.procedure.number == DIGEST {
            return Err(ServiceError::NoSuchProcedure);
        }
        let datanode = *self.0.datanode.get().expect("it is started by now");
        let mut handle = rpc(None).handle(datanode, Transport::Tcp).unwrap();
        reply.put(&handle.call(request.procedure, &[&request.args]).expect("the datanode answers"));
        Ok(())
    }
}

#[test]
fn what_a_datanode_before_digests_has_is_read_and_comes_to_the_same() {
    let mut cluster = Cluster::start(0);
    let before = Arc::new(Predecessor { datanode: OnceLock::new(), asked: Mutex::default() });
    let options = ServerOptions { udp: false, payload_bytes: 5 << 20, ..ServerOptions::default() };
    type Real = KadoopDatanodeV1Server<()>;
    let builder = Server::builder(options).register(Real::PROGRAM, Real::VERSION, Before(before.clone()));
    let server = builder.start().unwrap();
    let listen = SocketAddr::from(([127, 0, 0, 1], strait_testkit::free_port()));
    before.datanode.set(listen).unwrap();
    let advertise = Some(server.address());
    cluster.add(DatanodeOptions { listen, advertise, short_circuit: None, ..cluster.datanode_options(0) });
    cluster.await_datanodes();
    let client = client_over_tcp(&cluster.namenode);
    let bytes = pattern(5_500_000);
    write(&client, "/file", &bytes, (1, 3 << 20));
    assert_eq!(before.asked(READ), 0);
    assert_eq!(digest(&client, "/file"), (bytes.len() as u64, crc32c::crc32c(&bytes)));
    // Two chunks, each in pieces of a megabyte.
    assert_eq!((before.asked(DIGEST), before.asked(READ)), (2, 6));
}
