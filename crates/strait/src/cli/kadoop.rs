//! Flags of a Kadoop cluster's servers, and of the commands for its operators.

use super::{Observability, bytes, host_and_port, resolve};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Namenode {
    /// The directory for the namenode's log and checkpoints; created if missing.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The address to listen on for clients.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9091", value_parser = resolve)]
    pub listen: SocketAddr,
    /// The address to listen on for datanodes. They ask for it at --listen [default: the same host, port
    /// 9092].
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    pub listen_datanodes: Option<SocketAddr>,
    /// The file with the cluster's key, which namenode and datanodes share; created if missing.
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Write the clients' key to this file, if the file doesn't exist.
    #[arg(long, value_name = "FILE")]
    pub key_for_clients: Option<PathBuf>,
    /// The file of users that can log in over TLS without the clients' key, as `strait passwd` writes it.
    /// The namenode rereads it within 5 s after a change.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub passwords: Option<PathBuf>,
    /// The TLS certificate for logins (PEM, with its chain). Logins use the clients' port.
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "passwords")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The user with all rights [default: the user that runs this].
    #[arg(long, value_name = "NAME")]
    pub superuser: Option<String>,
    /// Refuse new files whose blocks would be smaller than this, such as 4m.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = bytes::<u32>)]
    pub min_block_size: u32,
    /// Replicas that must be on disk before a sync or close of a file succeeds. New files get at least this
    /// many replicas. A file can require more, up to its number of replicas.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub min_replicas: u16,
    /// Write a line for each operation on a path, permitted or denied, to this file, with the keys of HDFS's
    /// audit log. After logrotate renames the file, the server creates a new one.
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    #[command(flatten)]
    pub observability: Observability,
}

#[derive(Debug, Args)]
pub struct Datanode {
    /// The directories for replicas, one per disk; created if missing.
    #[arg(long, value_name = "DIR[,DIR...]", required = true, value_delimiter = ',')]
    pub data: Vec<PathBuf>,
    /// The namenode's address for clients.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub namenode: String,
    /// The address to listen on [default: this host's address on the way to the namenode, port 9093].
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    pub listen: Option<SocketAddr>,
    /// The address at which clients and other datanodes reach this datanode, if it isn't --listen.
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    pub advertise: Option<SocketAddr>,
    /// The cluster's key: a copy of the namenode's file.
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// This datanode's rack; replicas are spread over racks.
    #[arg(long, value_name = "NAME", default_value = "/default-rack")]
    pub rack: String,
    /// This host's name in block locations [default: its host name].
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The directory for a Unix socket, at which programs on this host ask for replicas' files; created if
    /// missing [default: the first directory of --data].
    #[arg(long, value_name = "DIR", conflicts_with = "no_local_reads")]
    pub local_socket: Option<PathBuf>,
    /// Users whose programs may use that socket [default: the user that runs the datanode, and root].
    #[arg(long, value_name = "UID[,UID...]", value_delimiter = ',', requires = "local_socket")]
    pub local_users: Vec<u32>,
    /// Open no such socket: programs on this host read over TCP, as programs on other hosts do.
    #[arg(long)]
    pub no_local_reads: bool,
    #[command(flatten)]
    pub observability: Observability,
}

#[derive(Debug, Args)]
pub struct Datanodes {
    /// The cluster: kadoop://HOST:PORT/.
    pub uri: String,
}

#[derive(Debug, Args)]
#[command(override_usage = "strait admit [OPTIONS] <DATANODE>... <URI>")]
pub struct Admit {
    /// Refused datanodes, by identity or address as `datanodes` lists them, and the cluster:
    /// kadoop://HOST:PORT/.
    #[arg(required = true, value_name = "DATANODE... URI")]
    pub operands: Vec<String>,
}

#[derive(Debug, Args)]
#[command(override_usage = "strait decommission [OPTIONS] <DATANODE>... <URI>")]
pub struct Decommission {
    /// Cancel the decommission.
    #[arg(long, conflicts_with = "wait")]
    pub cancel: bool,
    /// Wait until all replicas are copied.
    #[arg(long)]
    pub wait: bool,
    /// Datanodes, by number or address as `datanodes` lists them, and the cluster:
    /// kadoop://HOST:PORT/.
    #[arg(required = true, value_name = "DATANODE... URI")]
    pub operands: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Rebalance {
    /// The cluster: kadoop://HOST:PORT/.
    pub uri: String,
    /// How far a datanode may be from the mean use, in percent of its capacity.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub threshold: u32,
    /// Return at once; `datanodes` shows the progress.
    #[arg(long)]
    pub no_wait: bool,
    /// Stop the rebalance that is in progress.
    #[arg(long, conflicts_with_all = ["threshold", "no_wait"])]
    pub stop: bool,
}

#[derive(Debug, Args)]
pub struct KadoopLog {
    #[command(subcommand)]
    pub action: KadoopLogAction,
}

#[derive(Debug, Subcommand)]
pub enum KadoopLogAction {
    /// Print every record of the log, one transaction per line
    Dump {
        /// The namenode's --data. A running namenode isn't disturbed.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}
