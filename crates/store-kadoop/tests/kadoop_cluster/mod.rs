//! A Kadoop cluster for one test.
#![allow(dead_code)] // each test program uses its part

use bytes::Bytes;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use strait_kadoop_core::Config;
use strait_kadoop_server::{DatanodeOptions, DatanodeServer, NamenodeOptions, NamenodeServer};
use strait_kadoop_wire::Key;
use strait_store::{CreateOptions, FileSystem, FileSystemExt, Principal, StorePath};
use strait_store_kadoop::{KadoopStore, Options};
use tempfile::TempDir;

/// The user with all rights.
pub const SUPERUSER: &str = "kadoop";
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Namenode and datanodes, on ports of their own; stopped with it.
pub struct Cluster {
    pub datanodes: Vec<DatanodeServer>,
    pub namenode: NamenodeServer,
    pub directory: TempDir,
}

impl Cluster {
    pub fn start(datanodes: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = Key::generate().unwrap();
        key.save(&directory.path().join("cluster.key")).unwrap();
        let config = Config { safe_mode_extra_ms: 0, segment_bytes: 1 << 20, ..Config::default() };
        let at = directory.path().join("namenode");
        let options = NamenodeOptions { config: config.clone(), ..NamenodeOptions::new(at, key.clone()) };
        let namenode = NamenodeServer::start(options).unwrap();
        let start = |number: usize| {
            let at = directory.path().join(format!("datanode-{number}"));
            let called = namenode.address().to_string();
            let mut options = DatanodeOptions::new(vec![at], called, key.clone());
            options.config = config.clone();
            options.host = format!("host-{number}");
            DatanodeServer::start(options).unwrap()
        };
        let datanodes = (0..datanodes).map(start).collect();
        Self { datanodes, namenode, directory }
    }

    pub fn address(&self) -> String {
        self.namenode.address().to_string()
    }

    pub fn key_file(&self) -> PathBuf {
        self.directory.path().join("cluster.key")
    }

    /// A store over it, once all its datanodes accept chunks.
    pub async fn store(&self, replication: u16) -> KadoopStore {
        let options = Options { key_file: Some(self.key_file()), replication, ..Options::default() };
        let store = KadoopStore::connect(&self.address(), &options).await.unwrap();
        let (who, probe) = (superuser(), path("/.probe"));
        let all = u16::try_from(self.datanodes.len()).unwrap();
        let options = CreateOptions { overwrite: true, replication: Some(all), ..CreateOptions::default() };
        let due = Instant::now() + DEADLINE;
        loop {
            store.write_all(&who, &probe, &options, Bytes::from_static(b"x")).await.unwrap();
            let blocks = store.block_locations(&who, &probe, 0..1).await.unwrap();
            if blocks[0].hosts.len() == self.datanodes.len() {
                break;
            }
            assert!(Instant::now() < due, "the datanodes don't come");
        }
        store.remove(&who, &probe, false).await.unwrap();
        store
    }
}

pub fn path(text: &str) -> StorePath {
    StorePath::parse(text).unwrap()
}

pub fn superuser() -> Principal {
    Principal::new(SUPERUSER)
}
