//! Unauthorized callers get a refusal with the reason, and no bytes are lost.

use crate::support::{
    Cluster, client, datanode, key, namenode_options, names, pattern, place, rpc, sealed_name, signed_read,
    superuser, user,
};
use std::{fs, os::unix::fs::FileExt as _, time::Duration};
use strait_flexrpc::{
    self as flexrpc, CallError, FaultKind, MulticastOptions, Outcome, Procedure, Refusal, Transport,
    stub::StubError,
};
use strait_kadoop_client::CreateOptions;
use strait_kadoop_core::{Error, Identity};
use strait_kadoop_server::{DatanodeOptions, DatanodeServer, NamenodeServer};
use strait_kadoop_wire::{
    Key,
    proofs::{self, unsigned},
    tokens::Token,
    wire::{
        self, KadoopClusterV1Client, KadoopDatanodeV1Client, KadoopNamenodeV1Client, KdAddChunk, KdAnswer,
        KdCaller, KdHeartbeat, KdMutation, KdRead, KdRequest, KdUpto,
    },
};
use strait_testkit::wait::{eventually, stays};

fn me() -> KdCaller<'static> {
    KdCaller { user: "kadoop".into(), groups: Vec::new() }
}

/// The number of a refusal in `idl/kadoop.x`.
fn refusal<T: std::fmt::Debug>(answer: Result<T, StubError>) -> u32 {
    match answer.unwrap_err() {
        StubError::Call(CallError::Fault(fault)) => match fault.kind {
            FaultKind::Application(number) => number,
            other => panic!("{other:?}: {}", fault.message),
        },
        other => panic!("{other:?}"),
    }
}

const CORRUPT: u32 = wire::Refusal::RefusedCorrupt as u32;
const NO_REPLICA: u32 = wire::Refusal::RefusedNoReplica as u32;
const UNAUTHENTICATED: u32 = wire::Refusal::RefusedUnauthenticated as u32;
const TOKEN_EXPIRED: u32 = wire::Refusal::RefusedTokenExpired as u32;
const LEASE_LOST: u32 = wire::Refusal::RefusedLeaseLost as u32;
const FOREIGN_DATA: u32 = wire::Refusal::RefusedForeignData as u32;
const NOT_REGISTERED: u32 = wire::Refusal::RefusedNotRegistered as u32;

fn write_file(cluster: &Cluster, path: &str, replication: u16) -> Vec<u8> {
    let bytes = pattern(300_000);
    let options = CreateOptions { replication, ..CreateOptions::default() };
    let mut writer = client(&cluster.namenode).create(&superuser(), path, &options).unwrap();
    writer.write(bytes.clone()).unwrap();
    writer.close().unwrap();
    bytes.to_vec()
}

fn beat(number: u64) -> KdHeartbeat<'static> {
    KdHeartbeat {
        features: 0,
        cluster: 0,
        identity: 4711,
        incarnation: 1,
        session: 0,
        number,
        address: "127.0.0.1:9".into(),
        name: "forged".into(),
        rack: "/".into(),
        capacity_bytes: 0,
        used_bytes: 0,
        members: 0,
        full: None,
        changes: Vec::new(),
    }
}

#[test]
fn registrations_are_for_those_who_have_the_clusters_key() {
    let cluster = Cluster::start(1);
    let at = cluster.namenode.datanodes_address();
    for key in [None, key().for_clients().to_namenode(), Key::new([9; 32]).between_nodes()] {
        let refused = rpc(key).handle(at, Transport::Tcp).map(|_| ()).unwrap_err();
        assert_eq!(refused, CallError::NotExecuted(Refusal::Unauthenticated));
    }
    // No datanode can register at the clients' port.
    let handle = rpc(key().for_clients().to_namenode());
    let handle = handle.handle(cluster.namenode.address(), Transport::Tcp).unwrap();
    let refused = KadoopClusterV1Client::new(handle).cl_heartbeat(&beat(1)).unwrap_err();
    assert_eq!(refused, StubError::Call(CallError::NotExecuted(Refusal::ProgramUnavailable)));
    assert_eq!(client(&cluster.namenode).status().unwrap().nodes.len(), 1);
}

#[test]
fn reports_of_another_cluster_or_session_and_of_what_was_never_handed_out_are_refused() {
    let cluster = Cluster::start(1);
    let handle = rpc(key().between_nodes());
    let handle = handle.handle(cluster.namenode.datanodes_address(), Transport::Tcp).unwrap();
    let mut node = KadoopClusterV1Client::new(handle);
    assert_eq!(refusal(node.cl_heartbeat(&KdHeartbeat { cluster: 12, ..beat(1) })), FOREIGN_DATA);
    assert_eq!(refusal(node.cl_heartbeat(&KdHeartbeat { session: 12, ..beat(1) })), NOT_REGISTERED);
    let session = node.cl_heartbeat(&beat(1)).unwrap().session;
    let state = wire::KdReplicaState::KdReplicaSealed;
    let invented = wire::KdReplica { chunk: 1 << 40, stamp: 1, length: 1, state };
    let full = Some(wire::KdReport { replicas: vec![invented] });
    assert_eq!(refusal(node.cl_heartbeat(&KdHeartbeat { session, full, ..beat(2) })), FOREIGN_DATA);
}

#[test]
fn a_report_beyond_the_limits_is_refused_before_it_costs_memory() {
    let cluster = Cluster::start(1);
    let handle = rpc(key().between_nodes());
    let mut handle = handle.handle(cluster.namenode.datanodes_address(), Transport::Tcp).unwrap();
    let mut bytes = strait_xdr::to_vec(&beat(1)).unwrap();
    // The number of changes is the last word, and without a report there is none before it.
    let end = bytes.len() - 4;
    bytes[end..].copy_from_slice(&(wire::KD_CHANGES + 1).to_be_bytes());
    let procedure = Procedure::new(KadoopClusterV1Client::PROGRAM, KadoopClusterV1Client::VERSION, 1);
    let Err(CallError::Fault(fault)) = handle.call(procedure, &[&bytes]) else { panic!("it was taken") };
    assert_eq!(fault.kind, FaultKind::GarbageArguments);
    let endless = vec![0; flexrpc::limits::MESSAGE_BYTES + 4];
    let refused = handle.call(procedure, &[&endless]).unwrap_err();
    assert_eq!(refused, CallError::NotExecuted(Refusal::TooLarge));
}

#[test]
fn a_token_is_for_its_chunk_right_and_cluster_alone() {
    let cluster = Cluster::start(1);
    write_file(&cluster, "/one", 1);
    write_file(&cluster, "/two", 1);
    let mut names = names(&cluster);
    let mut locate = |path: &str| names.nn_locate(&me(), &path.into(), 0, 1).unwrap();
    let (one, two) = (locate("/one"), locate("/two"));
    let (mut datanode, it) = (datanode(place(&one.hosts[0]).0), place(&one.hosts[0]).1);
    let (one, two) = (&one.chunks[0], &two.chunks[0]);
    let good = signed_read(one, &one.token, it);
    assert_eq!(datanode.dn_read(&good).unwrap().bytes.len(), 9);
    let mut later = good.pass.grant;
    later.until_ms += 1;
    for forged in [
        signed_read(one, &two.token, it),
        KdRead { pass: unsigned(), ..good.clone() },
        // Values that its tag doesn't cover. So an eavesdropper can't turn a call into another.
        KdRead { offset: 1, ..good.clone() },
        KdRead { pass: wire::KdPass { nonce: good.pass.nonce + 1, ..good.pass }, ..good.clone() },
        KdRead { pass: wire::KdPass { grant: later, ..good.pass }, ..good.clone() },
        // A call to another datanode.
        signed_read(one, &one.token, Identity(it.0 + 1)),
    ] {
        assert_eq!(refusal(datanode.dn_read(&forged)), UNAUTHENTICATED);
    }
    // A right to read doesn't include writing.
    let mut seal = KdUpto { pass: unsigned(), chunk: one.chunk, stamp: one.stamp, length: 1 };
    Token::new(&one.token).sign(&mut seal, proofs::Procedure::Seal, it);
    assert_eq!(refusal(datanode.dn_seal(&seal)), UNAUTHENTICATED);
}

/// Once, it waited up to a week for its turn to be scrubbed, and counted as sound meanwhile.
#[test]
fn a_replica_that_a_datanode_cant_read_is_made_anew_though_its_reader_tells_nobody() {
    let cluster = Cluster::start(2);
    write_file(&cluster, "/file", 2);
    let found = names(&cluster).nn_locate(&me(), &"/file".into(), 0, 1).unwrap();
    let (chunk, (address, it)) = (&found.chunks[0], place(&found.hosts[0]));
    let number = cluster.datanode_addresses().iter().position(|at| *at == address).unwrap();
    let name = sealed_name(chunk);
    let file = cluster.directory.path().join(format!("datanode-{number}")).join(name);
    let bytes = fs::read(&file).unwrap();
    fs::File::options().write(true).open(&file).unwrap().write_all_at(b"?", 3).unwrap();
    let mut read = KdRead { length: 1, ..signed_read(chunk, &chunk.token, it) };
    Token::new(&chunk.token).sign(&mut read, proofs::Procedure::Read, it);
    assert_eq!(datanode(address).dn_read(&read).unwrap().told.refused, CORRUPT);
    let mended = || fs::read(&file).is_ok_and(|now| now == bytes);
    eventually("the replica is replaced", mended);
}

#[test]
fn a_token_of_another_cluster_and_a_chunk_that_isnt_there_are_refused() {
    let (cluster, other) = (Cluster::start(2), Cluster::start_with_key(1, Key::new([9; 32])));
    write_file(&cluster, "/file", 1);
    let found = names(&cluster).nn_locate(&me(), &"/file".into(), 0, 1).unwrap();
    let chunk = &found.chunks[0];
    let (holder, _) = place(&found.hosts[0]);
    let all = client(&cluster.namenode).status().unwrap().nodes;
    let elsewhere = &all.iter().find(|node| node.host.address != holder).unwrap().host;
    let read = signed_read(chunk, &chunk.token, elsewhere.identity);
    assert_eq!(datanode(elsewhere.address).dn_read(&read).unwrap().told.refused, NO_REPLICA);
    let foreign = &other.client().status().unwrap().nodes[0].host;
    let read = signed_read(chunk, &chunk.token, foreign.identity);
    assert_eq!(refusal(datanode(foreign.address).dn_read(&read)), UNAUTHENTICATED);
}

#[test]
fn tokens_expire_and_readers_and_writers_get_others_in_time() {
    let mut cluster = Cluster::start(1);
    let mut options = namenode_options(&cluster.directory.path().join("namenode"));
    options.token_ms = 50;
    cluster.restart_with(options);
    let client = client(&cluster.namenode);
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), "/file", &options).unwrap();
    writer.write("before ").unwrap();
    writer.flush().unwrap();
    let reader = client.open(&superuser(), "/file").unwrap();
    let found = names(&cluster).nn_locate(&me(), &"/file".into(), 0, 1).unwrap();
    let chunk = &found.chunks[0];
    let (address, identity) = place(&found.hosts[0]);
    let mut datanode = datanode(address);
    let read = signed_read(chunk, &chunk.token, identity);
    // Only this refusal shows that the token has expired.
    eventually("a read is refused", || datanode.dn_read(&read).unwrap().told.refused != 0);
    assert_eq!(datanode.dn_read(&read).unwrap().told.refused, TOKEN_EXPIRED);
    writer.write("and after").unwrap();
    writer.flush().unwrap();
    assert_eq!(reader.read_at(0, 7).unwrap(), "before ");
    writer.close().unwrap();
    assert_eq!(client.open(&superuser(), "/file").unwrap().read_at(0, 99).unwrap(), "before and after");
}

#[test]
fn nobody_writes_without_the_lease() {
    let cluster = Cluster::start(1);
    let client = client(&cluster.namenode);
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), "/file", &options).unwrap();
    writer.write("mine").unwrap();
    writer.flush().unwrap();
    let mut names = names(&cluster);
    let other = names.nn_join(&wire::KdHello { features: 0 }).unwrap().client;
    for file in 1..4 {
        let add = KdAddChunk { file, ends: Vec::new(), next: true, avoid: Vec::new() };
        let request = KdRequest { client: other, number: file, done_below: 0 };
        assert_eq!(refusal(names.nn_mutate(&me(), &request, &KdMutation::KdAddChunk(add))), LEASE_LOST);
        assert_eq!(refusal(names.nn_token(other, file, 1)), LEASE_LOST);
    }
    assert_eq!(client.recover_lease(&user("eve"), "/file").unwrap_err().error, Error::PermissionDenied);
    writer.close().unwrap();
    assert_eq!(client.open(&superuser(), "/file").unwrap().read_at(0, 9).unwrap(), "mine");
}

#[test]
fn a_writer_whose_file_was_recovered_is_told_and_changes_nothing_any_more() {
    let cluster = Cluster::start(1);
    let (first, second) = (client(&cluster.namenode), client(&cluster.namenode));
    let options = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut late = first.create(&superuser(), "/file", &options).unwrap();
    late.write("kept").unwrap();
    late.flush().unwrap();
    eventually("the file is recovered", || {
        second.recover_lease(&superuser(), "/file").unwrap()
            && !second.stat(&superuser(), "/file").unwrap().open
    });
    late.write(" not kept").unwrap();
    let refused = late.flush().unwrap_err();
    assert_eq!(refused.error, Error::LeaseLost);
    drop(late);
    let mut writer = second.append(&superuser(), "/file").unwrap();
    writer.write("!").unwrap();
    writer.close().unwrap();
    assert_eq!(second.open(&superuser(), "/file").unwrap().read_at(0, 99).unwrap(), "kept!");
}

#[test]
fn chains_lead_to_the_clusters_datanodes_alone() {
    let cluster = Cluster::start(1);
    let strange = flexrpc::Server::builder(flexrpc::ServerOptions::default()).start().unwrap();
    let callees = [cluster.datanode_addresses()[0], strange.address()];
    let procedure = Procedure::new(KadoopDatanodeV1Client::PROGRAM, KadoopDatanodeV1Client::VERSION, 0);
    let outcomes = rpc(None).call_chain(&callees, procedure, &[], &MulticastOptions::default());
    // No callee executes it, not even the first.
    let denied = [Refusal::ForwardingDenied, Refusal::NotForwarded].map(Outcome::NotExecuted);
    assert_eq!(outcomes, denied);
}

#[test]
fn two_datanodes_dont_share_a_directory_and_directories_of_two_dont_mix() {
    let cluster = Cluster::start(2);
    let taken = DatanodeServer::start(cluster.datanode_options(0)).err().unwrap();
    assert_eq!(taken.kind(), std::io::ErrorKind::ResourceBusy, "{taken}");
    let directory = cluster.directory.path();
    let address = cluster.namenode.address().to_string();
    let of = |number: usize| directory.join(format!("datanode-{number}"));
    let both = DatanodeOptions::new(vec![of(0), of(1)], address.clone(), key());
    let _kept = cluster.into_directory();
    let mixed = DatanodeServer::start(both).err().unwrap();
    assert_eq!(mixed.kind(), std::io::ErrorKind::InvalidData, "{mixed}");
}

#[test]
fn a_datanode_of_another_cluster_isnt_taken_up() {
    let (cluster, other) = (Cluster::start(1), Cluster::start(1));
    let mut options = other.datanode_options(0);
    options.namenode = cluster.namenode.address().to_string();
    let other_names = other.into_directory();
    let _stray = DatanodeServer::start(options).unwrap();
    let client = client(&cluster.namenode);
    let several_heartbeats = Duration::from_secs(2);
    stays("it isn't taken up", several_heartbeats, || client.status().unwrap().nodes.len() == 1);
    drop(other_names);
}

#[test]
fn a_full_datanode_refuses_and_writers_go_elsewhere() {
    let mut cluster = Cluster::start(1);
    let mut options = cluster.datanode_options(1);
    options.reserve_bytes = u64::MAX / 2;
    cluster.add(options);
    let client = client(&cluster.namenode);
    eventually("both datanodes are there", || client.status().unwrap().nodes.len() == 2);
    for number in 0..6 {
        let path = format!("/file-{number}");
        let bytes = write_file(&cluster, &path, 1);
        assert!(client.open(&superuser(), &path).unwrap().read_at(0, bytes.len()).unwrap() == bytes);
    }
}

#[test]
fn a_failed_directory_is_taken_out_and_the_datanode_goes_on() {
    let mut cluster = Cluster::start(0);
    let directories: Vec<_> =
        (0..2).map(|disk| cluster.directory.path().join(format!("disk-{disk}"))).collect();
    let mut options = cluster.datanode_options(0);
    options.directories = directories.clone();
    cluster.add(options);
    cluster.await_datanodes();
    write_file(&cluster, "/before", 1);
    fs::remove_dir_all(&directories[1]).unwrap();
    for number in 0..4 {
        let path = format!("/after-{number}");
        let bytes = write_file(&cluster, &path, 1);
        let reader = client(&cluster.namenode).open(&superuser(), &path).unwrap();
        assert!(reader.read_at(0, bytes.len()).unwrap() == bytes);
    }
    eventually("one directory is given up", || cluster.usable_directories() == 1);
}

#[test]
fn a_datanode_whose_last_directory_failed_says_so_and_writers_go_elsewhere() {
    let cluster = Cluster::start(2);
    assert!(!cluster.has_failed(1));
    fs::remove_dir_all(cluster.directory.path().join("datanode-1")).unwrap();
    // No client writes there.
    eventually("the datanode fails", || cluster.has_failed(1));
    (0..4).for_each(|number| drop(write_file(&cluster, &format!("/file-{number}"), 1)));
    assert!(!cluster.has_failed(0));
}

#[test]
fn a_missing_segment_of_the_log_refuses_to_start_and_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = namenode_options(directory.path());
    options.config.segment_bytes = 4_096;
    let namenode = NamenodeServer::start(options.clone()).unwrap();
    let client = client(&namenode);
    for number in 0..300 {
        client.mkdirs(&superuser(), &format!("/directory-{number}"), 0o755).unwrap();
    }
    drop((client, namenode));
    let mut segments: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("log-"));
    segments.sort();
    assert!(segments.len() > 3, "{segments:?}");
    fs::remove_file(&segments[1]).unwrap();
    let refused = NamenodeServer::start(options).err().unwrap().to_string();
    assert!(refused.contains("a segment is missing"), "{refused}");
}

#[test]
fn an_answer_to_another_version_is_no_panic() {
    let cluster = Cluster::start(1);
    let handle = rpc(key().for_clients().to_namenode());
    let mut handle = handle.handle(cluster.namenode.address(), Transport::Tcp).unwrap();
    for procedure in 0..20 {
        let procedure =
            Procedure::new(KadoopNamenodeV1Client::PROGRAM, KadoopNamenodeV1Client::VERSION, procedure);
        for garbage in [&[][..], &[0xff; 64], &[0; 400]] {
            let _ = handle.call(procedure, &[garbage]);
        }
    }
    let answer = names(&cluster).nn_mutate(
        &me(),
        &KdRequest { client: 99, number: 1, done_below: 0 },
        &KdMutation::KdAppend("/".into()),
    );
    assert!(!matches!(answer, Ok(KdAnswer::KdDone)));
}

#[test]
fn of_two_datanodes_on_copies_of_one_directory_the_second_waits_for_the_firsts_end() {
    let mut cluster = Cluster::start(1);
    let mut twin = cluster.datanode_options(0);
    let copy = cluster.directory.path().join("copy");
    let original = std::mem::replace(&mut twin.directories[0], copy.clone());
    cluster.restart_datanodes(|| {
        fs::create_dir(&copy).unwrap();
        for file in fs::read_dir(&original).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
    });
    let client = client(&cluster.namenode);
    let serves_at = |address| client.status().unwrap().nodes.iter().any(|node| node.host.address == address);
    let first = cluster.datanode_addresses()[0];
    eventually("the first is taken up", || serves_at(first));
    let second = DatanodeServer::start(twin).unwrap();
    let several_heartbeats = Duration::from_secs(3);
    stays("the second isn't taken up", several_heartbeats, || !serves_at(second.address()));
    assert!(serves_at(first));
    cluster.stop(first);
    eventually("the second is taken up", || serves_at(second.address()));
}
