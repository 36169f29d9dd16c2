//! Calls of callers that wait for a short time only.

use crate::{
    processes::{DatanodeProcess, NamenodeProcess, Site},
    support::{key, superuser},
};
use bytes::Bytes;
use std::time::{Duration, Instant};
use strait_kadoop_client::{Client, ClientOptions, CreateOptions};
use strait_kadoop_core::Error;
use strait_kadoop_wire::failure::Failure;
use strait_testkit::wait::{eventually, pause};
use tempfile::TempDir;

/// Much shorter than the client's own limits.
const BRIEF: Duration = Duration::from_secs(1);
/// The same with the delays of a busy machine. One attempt without a deadline takes 10 s.
const SOON: Duration = Duration::from_secs(6);

struct Servers {
    namenode: NamenodeProcess,
    datanode: DatanodeProcess,
    client: Client,
    _directory: TempDir,
}

/// A client of one datanode, which has a closed file at `/f`.
fn servers() -> Servers {
    let directory = tempfile::tempdir().unwrap();
    let site = |name: &str| Site::new(&directory.path().join(name));
    let namenode = NamenodeProcess::start(site("namenode"));
    let datanode = DatanodeProcess::start(site("datanode"), &namenode.address);
    let options = ClientOptions::new(namenode.address.clone(), key().for_clients());
    let client = Client::connect(ClientOptions { short_circuit: false, ..options }).unwrap();
    let mut writer = client.create(&superuser(), "/f", &one_replica()).unwrap();
    writer.write("content").unwrap();
    writer.close().unwrap();
    Servers { namenode, datanode, client, _directory: directory }
}

fn one_replica() -> CreateOptions {
    CreateOptions { replication: 1, ..CreateOptions::default() }
}

/// Fails unless `call` ends at the deadline that it gets.
#[track_caller]
fn ends_in_time<T>(what: &str, call: impl FnOnce(Option<Instant>) -> Result<T, Failure>) {
    let begin = Instant::now();
    let error = call(Some(begin + BRIEF)).err().expect("nobody answers");
    let took = begin.elapsed();
    assert_eq!(error.error, Error::Unavailable, "{what}: {error}");
    assert!((BRIEF..SOON).contains(&took), "{what} took {took:?}: {error}");
}

#[test]
fn a_query_ends_at_its_deadline_while_the_namenode_is_silent() {
    let Servers { namenode, client, datanode: _datanode, _directory } = servers();
    let me = superuser();
    namenode.freeze();
    ends_in_time("stat", |deadline| client.until(deadline).stat(&me, "/f"));
    ends_in_time("list", |deadline| client.until(deadline).list(&me, "/", "", 9));
    ends_in_time("locations", |deadline| client.until(deadline).locations(&me, "/f", 0, 9));
    ends_in_time("open", |deadline| client.until(deadline).open(&me, "/f"));
    ends_in_time("status", |deadline| client.until(deadline).status());
    namenode.thaw();
    assert_eq!(client.stat(&me, "/f").unwrap().length, 7);
}

#[test]
fn a_read_ends_at_its_deadline_while_the_datanode_is_silent() {
    let Servers { datanode, client, namenode: _namenode, _directory } = servers();
    let me = superuser();
    let reader = client.open(&me, "/f").unwrap();
    let mut writer = client.create(&me, "/open", &one_replica()).unwrap();
    writer.write("flushed").unwrap();
    writer.flush().unwrap();
    datanode.freeze();
    for _ in 0..2 {
        ends_in_time("read", |deadline| reader.read_at_until(0, 9, deadline));
    }
    ends_in_time("checksum", |deadline| client.until(deadline).digest(&me, "/f")?.step());
    // The namenode knows no length of an open chunk, and a shorter one would be wrong.
    ends_in_time("stat", |deadline| client.until(deadline).stat(&me, "/open"));
    datanode.thaw();
    assert_eq!(reader.read_at(0, 9).unwrap(), "content");
    eventually("the datanode answers", || client.stat(&me, "/open").unwrap().length == 7);
    writer.close().unwrap();
    assert_eq!(client.open(&me, "/open").unwrap().read_at(0, 9).unwrap(), Bytes::from("flushed"));
}

#[test]
fn a_change_is_not_sent_again_after_its_deadline() {
    let Servers { mut namenode, client, datanode: _datanode, _directory } = servers();
    let me = superuser();
    namenode.kill();
    // Afterwards the client knows that its connection is broken. A change sent on it would be in doubt.
    ends_in_time("stat", |deadline| client.until(deadline).stat(&me, "/f"));
    ends_in_time("mkdirs", |deadline| client.until(deadline).mkdirs(&me, "/d", 0o755));
    ends_in_time("create", |deadline| client.until(deadline).create(&me, "/new", &one_replica()));
    ends_in_time("append", |deadline| client.until(deadline).append(&me, "/f"));
    namenode.kill_and_start();
    assert_eq!(client.stat(&me, "/d").unwrap_err().error, Error::NotFound);
    eventually("the file is free", || client.append(&me, "/f").is_ok());
}

#[test]
fn a_change_whose_time_is_over_is_not_sent() {
    let Servers { client, namenode: _namenode, datanode: _datanode, _directory } = servers();
    let (me, late) = (superuser(), client.until(Some(Instant::now())));
    let unavailable = |failure: Failure| assert_eq!(failure.error, Error::Unavailable, "{failure}");
    unavailable(late.mkdirs(&me, "/d", 0o755).unwrap_err());
    unavailable(late.create(&me, "/new", &one_replica()).unwrap_err());
    unavailable(late.append(&me, "/f").unwrap_err());
    unavailable(late.concat(&me, "/f", &["/other".to_owned()]).unwrap_err());
    for path in ["/d", "/new"] {
        assert_eq!(client.stat(&me, path).unwrap_err().error, Error::NotFound, "{path}");
    }
    client.append(&me, "/f").unwrap();
}

#[test]
fn a_change_under_way_gets_its_answer_after_the_deadline() {
    let Servers { namenode, client, datanode: _datanode, _directory } = servers();
    let me = superuser();
    namenode.freeze();
    let made = std::thread::scope(|scope| {
        let client = &client;
        let make = move || client.until(Some(Instant::now() + BRIEF / 4)).mkdirs(&superuser(), "/d", 0o755);
        let making = scope.spawn(make);
        pause("the deadline passes", BRIEF);
        assert!(!making.is_finished());
        namenode.thaw();
        making.join().unwrap()
    });
    made.unwrap();
    assert!(client.stat(&me, "/d").unwrap().directory);
}
