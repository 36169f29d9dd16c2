//! A Kadoop cluster with a datanode on each of some loopback addresses.

use super::up::role;
use crate::support::{Run, command};
use std::process::Command;
use strait_testkit::wait::eventually;
use strait_testkit::{Process, free_port};

/// A namenode and its datanodes, each a process; stopped when dropped.
pub struct Rack {
    pub dir: tempfile::TempDir,
    pub namenode: String,
    _processes: Vec<Process>,
}

impl Rack {
    /// With a datanode on each of these addresses.
    pub fn start(hosts: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let namenode = format!("127.0.0.1:{}", free_port());
        let listen = ["namenode", "--data", "nn", "--listen", &namenode, "--listen-datanodes", "127.0.0.1:0"];
        let keys = ["--key", "cluster.key", "--key-for-clients", "client.key"];
        let mut processes = vec![role(dir.path(), "namenode", &[&listen[..], &keys].concat(), &namenode)];
        for host in hosts {
            let address = format!("{host}:{}", free_port());
            let args = ["datanode", "--data", host, "--namenode", &namenode, "--listen", &address];
            let more = ["--key", "cluster.key", "--host", host];
            processes.push(role(dir.path(), "datanode", &[&args[..], &more].concat(), &address));
        }
        let rack = Self { dir, namenode, _processes: processes };
        let replicas = hosts.len().to_string();
        eventually("all datanodes are there", || {
            let put = ["put", "-f", "--replication", &replicas, "-", &rack.uri("/probe")];
            rack.run(put, b"x").code == 0
                && hosts
                    .iter()
                    .all(|host| rack.run(["locate", &rack.uri("/probe")], b"").text().contains(host))
        });
        rack
    }

    pub fn uri(&self, path: &str) -> String {
        format!("kadoop://{}{path}", self.namenode)
    }

    /// The command, with the clients' key.
    pub fn command(&self) -> Command {
        let mut strait = command(self.dir.path());
        strait.env("STRAIT_KADOOP_KEY", self.dir.path().join("client.key"));
        strait
    }

    pub fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>, input: &[u8]) -> Run {
        let mut strait = self.command();
        strait.args(args);
        Run::of(strait, input)
    }
}
