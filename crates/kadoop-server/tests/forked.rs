//! A process that forks. The test has its own file, so that no other thread runs at the fork.

use strait_kadoop_client::{Client, ClientOptions, CreateOptions};
use strait_kadoop_core::{Config, Error, messages::Caller};
use strait_kadoop_server::{DatanodeOptions, DatanodeServer, NamenodeOptions, NamenodeServer};
use strait_kadoop_wire::Key;
use strait_testkit::{Forked, wait::eventually};

#[test]
fn a_forked_child_uses_a_client_of_its_own_and_none_of_its_parents() {
    let directory = tempfile::tempdir().unwrap();
    let key = Key::new([7; 32]);
    let config = Config { safe_mode_extra_ms: 0, ..Config::default() };
    let options = NamenodeOptions::new(directory.path().join("namenode"), key.clone());
    let namenode = NamenodeServer::start(NamenodeOptions { config: config.clone(), ..options }).unwrap();
    let address = namenode.address().to_string();
    let data = vec![directory.path().join("datanode")];
    let options = DatanodeOptions::new(data, address.clone(), key.clone());
    let _datanode = DatanodeServer::start(DatanodeOptions { config, ..options }).unwrap();
    let client = Client::connect(ClientOptions::new(address, key.for_clients())).unwrap();
    eventually("the datanode is alive", || client.status().unwrap().nodes.iter().any(|node| node.alive));
    let me = Caller { user: "kadoop".into(), groups: Vec::new(), session: None };
    let create = CreateOptions { replication: 1, ..CreateOptions::default() };
    let mut writer = client.create(&me, "/f", &create).unwrap();
    writer.write("of the parent").unwrap();
    writer.flush().unwrap();
    let mut reader = client.open(&me, "/f").unwrap();
    let connect = || Client::connect(ClientOptions::new(namenode.address().to_string(), key.for_clients()));
    let child = Forked::start(|| {
        let own = connect().unwrap();
        let mut writer = own.create(&me, "/of-the-child", &create).unwrap();
        writer.write("its own").unwrap();
        writer.close().unwrap();
        own.open(&me, "/f").unwrap().read_at(0, 99).unwrap() == "of the parent"
    });
    assert!(child.ended_well(), "the child can't connect anew");
    assert_eq!(client.open(&me, "/of-the-child").unwrap().read_at(0, 99).unwrap(), "its own");
    let mut borrowed = Some(writer);
    let child = Forked::start(|| {
        let mut writer = borrowed.take().unwrap();
        let refused = [
            client.stat(&me, "/f").map(drop),
            client.mkdirs(&me, "/d", 0o755),
            client.open(&me, "/f").map(drop),
            reader.read(3).map(drop),
            writer.write("of the child"),
            writer.flush().map(drop),
        ];
        drop(writer);
        refused
            .iter()
            .all(|refused| matches!(refused, Err(failure) if matches!(failure.error, Error::Invalid(_))))
    });
    assert!(child.ended_well(), "the child was let in, or hangs");
    let mut writer = borrowed.take().unwrap();
    writer.write(", still").unwrap();
    writer.close().unwrap();
    assert_eq!(writer.length(), 20);
    assert_eq!(reader.read(3).unwrap(), "of ");
    assert_eq!(client.open(&me, "/f").unwrap().read_at(0, 99).unwrap(), "of the parent, still");
}
