//! Kadoop or HDFS on the hosts of a network, for programs on any of the hosts.

use super::rack::{self, Rack};
use super::{data_directory, hdfs};
use crate::Result;
use strait_testkit::{MiniHdfs, Network, Options};

/// A store to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Kadoop,
    Hdfs,
}

impl Kind {
    /// The store's name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kadoop => "Kadoop",
            Self::Hdfs => "HDFS",
        }
    }
}

/// Running servers: a namenode, and datanodes from host [`rack::FIRST_DATANODE`] on.
pub enum Servers {
    Kadoop(Box<Rack>),
    Hdfs(Box<MiniHdfs>, Network),
}

impl Servers {
    /// Starts the servers, with this number of datanodes.
    pub fn start(kind: Kind, datanodes: usize) -> Result<Self> {
        if kind == Kind::Kadoop {
            return Ok(Self::Kadoop(Box::new(Rack::start(datanodes)?)));
        }
        let network = rack::network(datanodes)?;
        let cluster = MiniHdfs::start_own(&Options {
            datanodes,
            replication: datanodes.min(super::DATANODES),
            properties: hdfs::PROPERTIES.to_vec(),
            hosts: network.hosts()[1..].to_vec(),
            parent: Some(data_directory()),
            ..Options::measured()
        })?;
        Ok(Self::Hdfs(Box::new(cluster), network))
    }

    /// The network with the servers' hosts.
    pub fn network(&self) -> &Network {
        match self {
            Self::Kadoop(rack) => &rack.network,
            Self::Hdfs(_, network) => network,
        }
    }

    /// The URI of the root, without the last slash.
    pub fn uri(&self) -> String {
        match self {
            Self::Kadoop(rack) => rack.uri(),
            Self::Hdfs(cluster, _) => cluster.uri().to_owned(),
        }
    }

    /// Environment variables by which the command `strait` finds the store.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = vec![("STRAIT_STORE", self.uri())];
        match self {
            Self::Kadoop(rack) => {
                environment.push(("STRAIT_KADOOP_KEY", rack.client_key().display().to_string()));
                environment.push(("STRAIT_USER", "kadoop".to_owned()));
            }
            Self::Hdfs(cluster, _) => {
                environment.push(("HADOOP_CONF_DIR", cluster.configuration().display().to_string()));
            }
        }
        environment
    }

    /// Number of bytes that all data hosts together have sent over their links.
    pub fn sent_by_data_hosts(&self) -> Result<f64> {
        let mut sent = 0.0;
        for host in &self.network().hosts()[rack::FIRST_DATANODE..] {
            let table = host.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
            let line = table.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
            let bytes =
                line.and_then(|line| line.split_whitespace().nth(8)).ok_or("no eth0 on a data host")?;
            sent += bytes.parse::<f64>()?;
        }
        Ok(sent)
    }
}
