//! A namenode in this process, and those who call it.

use std::{path::Path, time::Duration};
use strait_kadoop::{
    Client, ClientOptions, Config,
    messages::Caller,
    service::{Key, NamenodeOptions, NamenodeServer},
};

pub const DEADLINE: Duration = Duration::from_secs(30);

pub fn key() -> Key {
    Key::new([7; 32])
}

pub fn config() -> Config {
    Config { safe_mode_extra_ms: 0, segment_bytes: 1 << 20, ..Config::default() }
}

pub fn namenode_options(directory: &Path) -> NamenodeOptions {
    NamenodeOptions { config: config(), ..NamenodeOptions::new(directory, key()) }
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

pub fn superuser() -> Caller {
    Caller { user: "kadoop".into(), groups: Vec::new() }
}

pub fn user(name: &str) -> Caller {
    Caller { user: name.into(), groups: vec!["users".into()] }
}
