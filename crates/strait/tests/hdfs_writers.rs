//! A gateway over a real HDFS bounds its memory for writers that stop sending.

use crate::support::Gateway;
use bytes::Bytes;
use std::io::Write;
use std::time::{Duration, Instant};
use strait_testkit::MiniHdfs;
use strait_testkit::thrift::Client;
use strait_wire::{
    AppendDataRequest, CreateFileRequest, FlushFileRequest, FlushMode, Method, Protocol, Wire, methods,
};

/// Limit of the gateway's resident memory.
const MOST_MIB: u64 = 256;
const WRITERS: usize = 200;
/// Bytes of an append that HDFS gets: not a whole number of packets, so the writer keeps some.
const APPENDED: usize = (1 << 20) - 1;
/// Bytes of an append that doesn't arrive whole.
const LAST: usize = 4 << 20;
/// A datanode sets a whole block's space aside for each file that is written: 1.6 GB for all.
const BLOCK: i64 = 8 << 20;
/// Time limit for another writer's file.
const SERVED: Duration = Duration::from_secs(30);
const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };

fn client(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway.address.parse().unwrap(), WIRE);
    client.open_session();
    client
}

fn create(client: &mut Client, path: &str) -> i64 {
    let path = Some(path.to_owned());
    let request = CreateFileRequest { path, block_size: Some(BLOCK), ..CreateFileRequest::default() };
    client.v2::<methods::CreateFile>(request).unwrap().handle.unwrap()
}

fn append(handle: i64, offset: usize, data: &[u8]) -> AppendDataRequest {
    AppendDataRequest {
        handle: Some(handle),
        expected_offset: Some(offset as i64),
        data: Some(Bytes::copy_from_slice(data)),
        ..AppendDataRequest::default()
    }
}

#[test]
fn writers_that_stop_sending_hold_little_and_others_are_served() {
    let hdfs = MiniHdfs::start().unwrap();
    let gateway = Gateway::start(|_| ["--log", "debug", "--store", hdfs.uri()].map(str::to_owned).to_vec());
    let log = std::fs::read_to_string(gateway.process.log()).unwrap();
    assert!(log.contains("files are read and written by the adapter"), "{log}");
    let (dir, content) = (hdfs.scratch("silent"), vec![7; LAST]);
    let mut silent = Vec::new();
    for number in 0..WRITERS {
        let mut client = client(&gateway);
        let handle = create(&mut client, &format!("{dir}/{number}"));
        client.v2::<methods::AppendData>(append(handle, 0, &content[..APPENDED])).unwrap();
        if number % 2 == 0 {
            let flush = FlushFileRequest {
                handle: Some(handle),
                mode: Some(FlushMode::Flush),
                ..FlushFileRequest::default()
            };
            client.v2::<methods::FlushFile>(flush).unwrap();
        }
        // All but the last byte of a call, as far as the gateway takes it.
        let call = methods::AppendData::call(WIRE, 1, &append(handle, APPENDED, &content).into()).to_bytes();
        client.stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut rest = &call[..call.len() - 1];
        while let Ok(sent @ 1..) = client.stream.write(rest) {
            rest = &rest[sent..];
        }
        silent.push((client, handle));
    }
    let most = gateway.process.most_mib().unwrap();
    println!("{most} MiB with {WRITERS} writers");
    assert!(most <= MOST_MIB, "{most} MiB with {WRITERS} writers that stopped sending");

    let begin = Instant::now();
    let mut other = client(&gateway);
    let handle = create(&mut other, &format!("{dir}/other"));
    other.v2::<methods::AppendData>(append(handle, 0, &content)).unwrap();
    let close = strait_wire::CloseFileRequest { handle: Some(handle), ..Default::default() };
    other.v2::<methods::CloseFile>(close).unwrap();
    assert!(begin.elapsed() < SERVED, "{:?}", begin.elapsed());
    let most = gateway.process.most_mib().unwrap();
    assert!(most <= MOST_MIB, "{most} MiB with another writer");

    drop(silent);
    drop(gateway);
    assert!(hdfs.shell(&["-rm", "-r", "-skipTrash", &dir]).unwrap().status.success());
}
