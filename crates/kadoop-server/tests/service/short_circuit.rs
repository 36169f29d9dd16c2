//! Reads that bypass the datanodes of this host, through files that they lend.

use crate::{
    lending::{Borrowed, Lender, borrow},
    processes::{DatanodeProcess, Site},
    support::{
        Cluster, DEADLINE, client, client_over_tcp, namenode_options, names, pattern, place, sealed_name,
        superuser,
    },
};
use bytes::Bytes;
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};
use strait_kadoop_client::{Client, CreateOptions};
use strait_kadoop_core::{Identity, messages::Caller};
use strait_kadoop_server::{NamenodeServer, ShortCircuit};
use strait_kadoop_wire::{
    Key,
    proofs::unsigned,
    wire::{self, KdLocatedChunk},
};
use strait_testkit::wait::eventually;

const CHUNK_BYTES: u32 = 1 << 20;

fn write(client: &Client, path: &str, bytes: &Bytes, replication: u16) {
    let options = CreateOptions { replication, chunk_bytes: CHUNK_BYTES, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), path, &options).unwrap();
    writer.write(bytes.clone()).unwrap();
    writer.close().unwrap();
}

/// Reads a whole file. Also returns the number of reads that bypassed the datanodes.
fn read(client: &Client, path: &str) -> (Bytes, u64) {
    let before = client.short_circuit_reads().reads;
    let reader = client.open(&superuser(), path).unwrap();
    // The length of a file that is being written isn't known.
    let length = usize::try_from(reader.length()).unwrap().max(99);
    let bytes = reader.read_at(0, length).unwrap();
    (bytes, client.short_circuit_reads().reads - before)
}

/// The first chunk of a file, and the lender of its nearest replica.
fn chunk_and_lender(cluster: &Cluster, path: &str) -> (KdLocatedChunk, Lender) {
    let (chunk, host) = chunk_and_host(cluster, path);
    let lender = Lender::of(host, &chunk).unwrap();
    (chunk, lender)
}

/// The first chunk of a file, and the datanode of its nearest replica.
fn chunk_and_host(cluster: &Cluster, path: &str) -> (KdLocatedChunk, (SocketAddr, Identity)) {
    let mut found = names(cluster).nn_locate(&wire_superuser(), &path.into(), 0, 1).unwrap();
    let chunk = found.chunks.remove(0);
    let host = found.hosts.iter().find(|host| host.node == chunk.nodes[0]).unwrap();
    let host = place(host);
    (chunk, host)
}

fn wire_superuser() -> wire::KdCaller<'static> {
    let Caller { user, .. } = superuser();
    wire::KdCaller { user: user.to_string().into(), groups: Vec::new() }
}

/// A datanode's files of one kind.
fn files(directory: &Path, kind: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|of| of == kind)).collect()
}

/// Number of this process's descriptors for files in a directory, even deleted ones.
fn descriptors_below(directory: &Path) -> usize {
    let links =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|path| path.starts_with(directory)).count()
}

#[test]
fn what_is_read_is_the_same_as_over_tcp_wherever_it_begins_and_ends() {
    let cluster = Cluster::start(2);
    let (local, remote) = (client(&cluster.namenode), client_over_tcp(&cluster.namenode));
    let bytes = pattern(3 * CHUNK_BYTES as usize + 12_345);
    write(&local, "/file", &bytes, 2);
    let readers = [&local, &remote].map(|client| client.open(&superuser(), "/file").unwrap());
    for (offset, length) in [(0, 1), (4_095, 2), (1_048_570, 20), (0, bytes.len() + 9), (bytes.len() - 1, 5)]
    {
        let end = (offset + length).min(bytes.len());
        for reader in &readers {
            assert!(reader.read_at(offset as u64, length).unwrap() == bytes[offset..end]);
        }
    }
    for mut reader in readers {
        let mut all = Vec::new();
        while all.len() < bytes.len() {
            all.extend_from_slice(&reader.read(100_000).unwrap());
        }
        assert!(all == bytes && reader.read(1).unwrap().is_empty());
    }
    // All except the short last chunk, whose first read goes over TCP.
    assert!(local.short_circuit_reads().bytes >= 2 * 3 * u64::from(CHUNK_BYTES));
    assert_eq!(remote.short_circuit_reads().reads, 0);
}

#[test]
fn a_damaged_replica_is_noticed_reported_and_made_anew() {
    let cluster = Cluster::start(2);
    let client = client(&cluster.namenode);
    let bytes = pattern(CHUNK_BYTES as usize);
    write(&client, "/file", &bytes, 2);
    let (chunk, lender) = chunk_and_lender(&cluster, "/file");
    let name = sealed_name(&chunk);
    let file = lender.path.parent().unwrap().join(name);
    fs::File::options().write(true).open(&file).unwrap().write_all_at(b"damage", 70_000).unwrap();
    let (read, past) = read(&client, "/file");
    assert!(read == bytes && past > 0);
    let mended = || fs::read(&file).is_ok_and(|now| now.starts_with(&bytes));
    eventually("the replica is replaced", mended);
}

#[test]
fn descriptors_are_for_reading_alone_and_those_of_the_replica_that_was_asked_for() {
    let cluster = Cluster::start(1);
    let bytes = pattern(10_000);
    write(&client(&cluster.namenode), "/file", &bytes, 1);
    let (chunk, lender) = chunk_and_lender(&cluster, "/file");
    let Borrowed::Files([data, table]) = borrow(&lender, &lender.wanted(&chunk)) else { panic!("refused") };
    let mut there = vec![0; bytes.len()];
    data.read_exact_at(&mut there, 0).unwrap();
    assert!(there == bytes);
    for file in [data, table] {
        assert!(file.write_at(b"x", 0).is_err() && file.set_len(0).is_err());
    }
}

#[test]
fn tokens_are_demanded_as_over_the_network() {
    let (cluster, other) = (Cluster::start(1), Cluster::start_with_key(1, Key::new([9; 32])));
    let client = client(&cluster.namenode);
    write(&client, "/one", &pattern(9), 1);
    write(&client, "/two", &pattern(9), 1);
    let ((one, lender), (two, _)) = (chunk_and_lender(&cluster, "/one"), chunk_and_lender(&cluster, "/two"));
    let wanted = lender.wanted(&one);
    let refused = |wanted| borrow(&lender, &wanted).refused();
    let mut forged = one.token;
    forged.secret[7] ^= 1;
    let unauthenticated = wire::Refusal::RefusedUnauthenticated as u32;
    for wanted in [
        lender.wanted_by(&one, &forged, wanted.run),
        lender.wanted_by(&one, &two.token, wanted.run),
        wire::KdBorrow { pass: unsigned(), ..wanted.clone() },
    ] {
        assert_eq!(refused(wanted), unauthenticated);
    }
    // A token of another cluster.
    write(&other.client(), "/one", &pattern(9), 1);
    let foreign = chunk_and_lender(&other, "/one").1;
    assert_eq!(borrow(&foreign, &foreign.wanted(&one)).refused(), unauthenticated);
    // A request for another run of this datanode.
    let late = lender.wanted_by(&one, &one.token, wanted.run ^ 1);
    assert_eq!(refused(late), wire::Refusal::RefusedWrongIncarnation as u32);
    assert!(matches!(borrow(&lender, &wanted), Borrowed::Files(_)));
}

#[test]
fn a_token_that_is_over_opens_nothing_and_readers_get_another() {
    let mut cluster = Cluster::start(1);
    let mut options = namenode_options(&cluster.directory.path().join("namenode"));
    options.token_ms = 50;
    cluster.restart_with(options);
    let client = client(&cluster.namenode);
    let bytes = pattern(100_000);
    write(&client, "/file", &bytes, 1);
    let (chunk, lender) = chunk_and_lender(&cluster, "/file");
    let wanted = lender.wanted(&chunk);
    eventually("nothing is lent", || matches!(borrow(&lender, &wanted), Borrowed::Refused(_)));
    assert_eq!(borrow(&lender, &wanted).refused(), wire::Refusal::RefusedTokenExpired as u32);
    assert!(read(&client, "/file").0 == bytes);
}

#[test]
fn a_chunk_that_is_being_written_isnt_lent_and_is_once_it_is_closed() {
    let cluster = Cluster::start(1);
    let client = client(&cluster.namenode);
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), "/file", &options).unwrap();
    writer.write("begun ").unwrap();
    writer.flush().unwrap();
    let (chunk, lender) = chunk_and_lender(&cluster, "/file");
    assert_eq!(borrow(&lender, &lender.wanted(&chunk)).refused(), wire::Refusal::RefusedInvalid as u32);
    assert_eq!(read(&client, "/file"), (Bytes::from("begun "), 0));
    writer.write("and ended").unwrap();
    writer.close().unwrap();
    // The client retries a refused loan after a while.
    eventually("a read passes the datanode", || {
        let (bytes, past) = read(&client, "/file");
        assert_eq!(bytes, "begun and ended");
        past > 0
    });
}

#[test]
fn users_who_arent_named_are_refused_and_read_over_tcp() {
    let mut cluster = Cluster::start(0);
    let directory = cluster.directory.path().join("sockets");
    let mut options = cluster.datanode_options(0);
    let users = Some(vec![rustix::process::geteuid().as_raw() + 1]);
    options.short_circuit = Some(ShortCircuit { directory: Some(directory.clone()), users });
    cluster.add(options);
    cluster.await_datanodes();
    let client = client(&cluster.namenode);
    let bytes = pattern(100_000);
    write(&client, "/file", &bytes, 1);
    let (chunk, lender) = chunk_and_lender(&cluster, "/file");
    assert_eq!(lender.path.parent(), Some(&*directory));
    // The listed users need access to it.
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o711);
    assert_eq!(
        borrow(&lender, &lender.wanted(&chunk)).refused(),
        wire::Refusal::RefusedPermissionDenied as u32
    );
    assert_eq!(read(&client, "/file"), (bytes, 0));
}

#[test]
fn the_socket_is_its_owners_alone_and_doesnt_lie_where_others_may_write() {
    let mut cluster = Cluster::start(1);
    let shared = cluster.directory.path().join("shared");
    let client = client(&cluster.namenode);
    write(&client, "/file", &pattern(9), 1);
    let (chunk, lender) = chunk_and_lender(&cluster, "/file");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&lender.path), mode(lender.path.parent().unwrap())), (0o600, 0o700));
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let mut not_lent_in = |number: usize, directory: PathBuf| {
        let mut options = cluster.datanode_options(number);
        options.short_circuit = Some(ShortCircuit { directory: Some(directory), users: None });
        cluster.add(options);
        let address = cluster.datanode_addresses()[number];
        let joined = || client.status().unwrap().nodes.into_iter().find(|node| node.host.address == address);
        eventually("it has joined", || joined().is_some());
        let lender = Lender::of((address, joined().unwrap().host.identity), &chunk);
        assert_eq!(lender.err(), Some(wire::Refusal::RefusedNotFound as u32));
    };
    not_lent_in(1, shared.clone());
    not_lent_in(2, shared.join("own"));
    // A directory of another owner, though only that owner can write to it.
    if rustix::process::geteuid().is_root() {
        let others = shared.join("others");
        fs::create_dir(&others).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&others, Some(65_534), None).unwrap();
        not_lent_in(3, others);
    } else {
        strait_testkit::skip("a lender's directory of another user", "root");
    }
}

#[test]
fn either_end_can_do_without() {
    let mut cluster = Cluster::start(0);
    cluster.add(strait_kadoop_server::DatanodeOptions { short_circuit: None, ..cluster.datanode_options(0) });
    cluster.await_datanodes();
    let client = client(&cluster.namenode);
    let bytes = pattern(100_000);
    write(&client, "/file", &bytes, 1);
    assert_eq!(read(&client, "/file"), (bytes, 0));
    let (chunk, host) = chunk_and_host(&cluster, "/file");
    assert_eq!(Lender::of(host, &chunk).err(), Some(wire::Refusal::RefusedNotFound as u32));
    assert!(files(&cluster.directory.path().join("datanode-0"), "sock").is_empty());
}

#[test]
fn a_deleted_file_is_read_to_its_end_by_who_has_it_open_and_its_space_comes_back() {
    let cluster = Cluster::start(1);
    let client = client(&cluster.namenode);
    let bytes = pattern(CHUNK_BYTES as usize);
    write(&client, "/file", &bytes, 1);
    let directory = cluster.directory.path().join("datanode-0");
    let reader = client.open(&superuser(), "/file").unwrap();
    assert!(reader.read_at(0, 100_000).unwrap() == bytes[..100_000]);
    client.delete(&superuser(), "/file", false).unwrap();
    eventually("the replica is removed", || files(&directory, "data").is_empty());
    assert!(reader.read_at(500_000, 100_000).unwrap() == bytes[500_000..600_000]);
    assert_eq!(client.short_circuit_reads().open, 1);
    drop(reader);
    // No reader uses it any more.
    eventually("no replica is open", || client.short_circuit_reads().open == 0);
}

#[test]
fn a_datanode_that_is_killed_and_comes_back_lends_again_and_what_it_lent_is_good_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let namenode = NamenodeServer::start(namenode_options(&directory.path().join("namenode"))).unwrap();
    let of = directory.path().join("datanode");
    let mut datanode = DatanodeProcess::start(Site::new(&of), &namenode.address().to_string());
    let client = client(&namenode);
    let ready = || client.status().is_ok_and(|status| !status.safe_mode && !status.nodes.is_empty());
    eventually("the datanode is there", ready);
    let bytes = pattern(2 * CHUNK_BYTES as usize);
    eventually("a file is written", || {
        let options = CreateOptions {
            replication: 1,
            chunk_bytes: CHUNK_BYTES,
            overwrite: true,
            ..CreateOptions::default()
        };
        let written = client.create(&superuser(), "/file", &options).and_then(|mut writer| {
            writer.write(bytes.clone())?;
            writer.close()
        });
        written.is_ok()
    });
    let reader = client.open(&superuser(), "/file").unwrap();
    assert!(reader.read_at(0, 100_000).unwrap() == bytes[..100_000]);
    datanode.kill();
    // The datanode isn't running now.
    assert!(reader.read_at(200_000, 300_000).unwrap() == bytes[200_000..500_000]);
    let _again = DatanodeProcess::start(Site::new(&of), &namenode.address().to_string());
    assert!(reader.read_at(0, bytes.len()).unwrap() == bytes);
    eventually("reads pass the datanode again", || {
        let (all, past) = read(&client, "/file");
        all == bytes && past >= 2
    });
    // One descriptor per open replica, and none of earlier ones.
    assert_eq!(descriptors_below(&of), client.short_circuit_reads().open);
    drop((reader, client));
    eventually("no descriptor is open", || descriptors_below(&of) == 0);
}

#[test]
fn a_client_keeps_a_bounded_number_of_replicas_open() {
    const REPLICAS: usize = 256;
    let directory = tempfile::tempdir().unwrap();
    let namenode = NamenodeServer::start(namenode_options(&directory.path().join("namenode"))).unwrap();
    let of = directory.path().join("datanode");
    let _datanode = DatanodeProcess::start(Site::new(&of), &namenode.address().to_string());
    let client = client(&namenode);
    let bytes = pattern((REPLICAS + 30) * (64 << 10));
    eventually("a file is written", || {
        let options = CreateOptions {
            replication: 1,
            chunk_bytes: 64 << 10,
            overwrite: true,
            ..CreateOptions::default()
        };
        let mut writer = client.create(&superuser(), "/file", &options).unwrap();
        writer.write(bytes.clone()).and_then(|()| writer.close()).is_ok()
    });
    for _ in 0..2 {
        let (all, past) = read(&client, "/file");
        assert!(all == bytes && past >= REPLICAS as u64, "{past}");
        let open = client.short_circuit_reads().open;
        assert!(open <= REPLICAS, "{open}");
        assert_eq!(descriptors_below(&of), open);
    }
    drop(client);
    eventually("no descriptor is open", || descriptors_below(&of) == 0);
}

#[test]
fn what_isnt_a_request_and_who_says_nothing_cost_nobody_else() {
    let cluster = Cluster::start(1);
    let client = client(&cluster.namenode);
    let bytes = pattern(100_000);
    write(&client, "/file", &bytes, 1);
    let (chunk, lender) = chunk_and_lender(&cluster, "/file");
    let wanted = lender.wanted(&chunk);
    let whole = strait_xdr::to_vec(&wanted).unwrap();
    let invalid = wire::Refusal::RefusedInvalid as u32;
    for garbage in
        [&whole[..1], &whole[..whole.len() - 4], &[whole.clone(), vec![0; 4]].concat(), &[0xff; 60_000]]
    {
        assert_eq!(lender.tell(garbage).refused(), invalid);
    }
    // The datanode ignores descriptors in a request.
    assert!(matches!(lender.tell_with(&whole, &fs::File::open("/dev/null").unwrap()), Borrowed::Files(_)));
    let silent: Vec<_> = (0..200).map(|_| lender.connect()).collect();
    assert!(matches!(borrow(&lender, &wanted), Borrowed::Files(_)));
    for socket in &silent {
        assert!(lender.is_closed(socket, DEADLINE));
    }
    let (all, past) = read(&client, "/file");
    assert!(all == bytes && past > 0);
}
