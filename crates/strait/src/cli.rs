//! The command line: every flag, and the environment variables that set flags.

mod ckpt;
mod environment;
mod foreign;
mod kadoop;
mod mount;
mod nfs;
mod run;
mod sites;

use crate::failure::Failure;
use crate::help::{self, FOREIGN_FLAGS, GATEWAY_FLAGS, KADOOP_FLAGS};
pub use ckpt::{Ckpt, CkptAction, Convert, Flatten, Map};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
pub use foreign::{Doctor, Foreign, Stores};
pub use kadoop::{Admit, Datanode, Datanodes, Decommission, KadoopLog, KadoopLogAction, Namenode, Rebalance};
pub use mount::{Mount, by_mount};
pub use nfs::Nfs;
pub use run::{Launcher, Run, Split};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;
use strait_gateway::HttpAccess;
use strait_store::{encoding, size};
use tracing::level_filters::LevelFilter;

/// One interface to many distributed file systems.
///
/// URIs choose the store: strait://HOST:PORT/path (a gateway's default store), strait://HOST:PORT/@NAME/path
/// (its store NAME), kadoop://HOST:PORT/path, hdfs://HOST:PORT/path, s3://BUCKET/path, file:///path; `strait
/// stores` lists all. `strait up` starts a gateway with its own cluster file system, all in one process.
#[derive(Debug, Parser)]
#[command(name = "strait", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = help::REACHING)]
pub struct Global {
    /// Log in as this user at gateways and, without --kadoop-key, at Kadoop's namenodes. The password comes
    /// from STRAIT_PASSWORD, --password-file or the terminal. For hdfs:// URIs, and for kadoop:// URIs with
    /// --kadoop-key, act as this user without a password.
    #[arg(long, global = true, env = "STRAIT_USER", value_name = "NAME")]
    pub user: Option<String>,
    /// The user was named on the command line, not by the environment.
    #[arg(skip)]
    pub user_is_explicit: bool,
    /// Read the password from the first line of this file, even if STRAIT_PASSWORD is set.
    #[arg(long, global = true, env = "STRAIT_PASSWORD_FILE", value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// The password file was named on the command line, not by the environment.
    #[arg(skip)]
    pub password_file_is_explicit: bool,
    /// Use this store of the gateway for URIs that don't name one (as strait://HOST:PORT/@NAME/path does)
    /// [default: the gateway's default store].
    #[arg(long, global = true, env = "STRAIT_GATEWAY_STORE", value_name = "NAME")]
    pub gateway_store: Option<String>,
    /// The URI where relative paths begin: `strait ls logs` lists URI/logs.
    #[arg(long, global = true, env = "STRAIT_STORE", value_name = "URI")]
    pub default_store: Option<String>,
    /// Wait this long for a gateway: to reach it, to log in, and for each reply; in seconds, or with a unit, as
    /// in 5m [default: 90].
    #[arg(long, global = true, env = "STRAIT_TIMEOUT", value_name = "TIME", value_parser = timeout)]
    pub timeout: Option<u64>,
    /// End each operation at a gateway after this long, even if the gateway lives and works on it, for example
    /// on the removal of a tree [default: no limit].
    #[arg(long, global = true, env = "STRAIT_OPERATION_TIMEOUT", value_name = "TIME",
          value_parser = timeout)]
    pub operation_timeout: Option<u64>,
    /// Use TLS with gateways. Without it, logins work only on this host.
    #[arg(long, global = true, env = "STRAIT_TLS", action = ArgAction::SetTrue, value_parser = boolean)]
    pub tls: bool,
    /// Trust servers whose certificates these authorities (PEM) signed [default: the system's authorities;
    /// none for logins at namenodes].
    #[arg(long, global = true, env = "STRAIT_TLS_CA", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// This client's certificate (PEM, with its chain), for gateways that require one.
    #[arg(long, global = true, env = "STRAIT_CLIENT_CERT", value_name = "FILE", requires = "client_key")]
    pub client_cert: Option<PathBuf>,
    /// That certificate's private key (PEM).
    #[arg(long, global = true, env = "STRAIT_CLIENT_KEY", value_name = "FILE", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
    /// The key for kadoop:// URIs: the file with the key of the Kadoop cluster, or of its clients.
    #[arg(long, global = true, env = "STRAIT_KADOOP_KEY", value_name = "FILE")]
    pub kadoop_key: Option<PathBuf>,
    /// Read over TCP from Kadoop's datanodes on this host, too, instead of directly from their files.
    #[arg(long, global = true)]
    pub kadoop_over_tcp: bool,
    /// The descriptor with the logins that a helper of `run` lends to its commands.
    #[arg(long, global = true, hide = true, env = "STRAIT_LOGINS_FD", value_name = "NUMBER")]
    pub logins_fd: Option<i32>,
    #[command(flatten)]
    pub foreign: Foreign,
    /// Print one JSON object per line, also for changes (put, rm, …) and errors.
    #[arg(long, global = true, help_heading = help::TELLING)]
    pub json: bool,
    /// Lowest level of the log on standard error: error, warn, info, debug or trace.
    #[arg(long, global = true, help_heading = help::TELLING, env = "STRAIT_LOG", value_name = "LEVEL")]
    pub log: Option<LevelFilter>,
}

impl Cli {
    /// Parses the command line of this process. For `--help`, prints the help and exits. Without
    /// `as_failure`, also prints an error and exits.
    ///
    /// # Errors
    /// With `as_failure`, the mistake in the command line. Always, an unknown option of mount(8).
    pub fn read(as_failure: bool) -> Result<Self, Failure> {
        let mut command = help::arranged(environment::without_empty(Self::command()));
        let arguments: Vec<_> = std::env::args_os().collect();
        let arguments = match by_mount(&arguments) {
            Some(translated) => translated.map_err(Failure::usage)?,
            None => arguments,
        };
        let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| {
            let mut cli = Self::from_arg_matches(&matches)?;
            let explicit = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
            cli.global.user_is_explicit = explicit("user");
            cli.global.password_file_is_explicit = explicit("password_file");
            let misused = |flags: &[&'static str], used: bool| {
                flags.iter().copied().find(|flag| !used && explicit(flag))
            };
            let misused = misused(&GATEWAY_FLAGS, cli.command.is_client())
                .or(misused(&KADOOP_FLAGS, cli.command.opens_stores()))
                .or(misused(&FOREIGN_FLAGS, cli.command.opens_stores()));
            match misused {
                Some(flag) => {
                    let name = matches.subcommand_name().unwrap_or_default();
                    let kind = clap::error::ErrorKind::ArgumentConflict;
                    Err(match command.find_subcommand_mut(name) {
                        Some(subcommand) => subcommand.error(kind, misplaced(flag, name)),
                        None => command.error(kind, misplaced(flag, name)),
                    })
                }
                None => Ok(cli),
            }
        });
        let parsed = parsed.map_err(|error| environment::naming_the_variable(error, &mut command));
        let parsed = parsed.map_err(help::with_the_command_instead);
        parsed.map_err(|error| match as_failure && error.use_stderr() {
            true => Failure::usage(error.to_string().trim_end().to_owned()),
            false => error.exit(), // exit code 0 after help, 2 after an error
        })
    }

    /// The log level; servers log more than clients by default.
    pub fn log_level(&self) -> LevelFilter {
        let default = if self.command.is_server() { LevelFilter::INFO } else { LevelFilter::WARN };
        self.global.log.unwrap_or(default)
    }
}

/// A parser of operands. It encodes bytes that aren't UTF-8 as stores encode them.
fn operand() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|given| match given.into_string() {
        Ok(text) => text,
        Err(bytes) => encoding::encode(bytes.as_bytes()).into_owned(),
    })
}

/// A number of bytes, perhaps with a unit.
fn bytes<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = size::bytes_of_person(text).ok_or("give a number of bytes, such as 134217728 or 128m")?;
    T::try_from(number).map_err(|_| "it is too large".to_owned())
}

/// The value of a variable that represents a flag.
fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" | "" => Ok(false),
        _ => Err("give 1, true, yes or on; or 0, false, no or off".to_owned()),
    }
}

/// The error message if a flag of clients is given to a command that can't use it.
fn misplaced(flag: &str, command: &str) -> String {
    let flag = flag.replace('_', "-");
    let instead = match (command, flag.as_str()) {
        ("up", "user" | "password-file") => "; --passwords FILE sets the users who may log in",
        ("serve", "user" | "password-file") => {
            "; --passwords FILE sets the users who may log in, and --kadoop-key FILE admits it to a Kadoop store"
        }
        ("up" | "serve", "tls" | "client-cert" | "client-key") => {
            "; to serve TLS, give --tls-cert FILE --tls-key FILE"
        }
        ("up" | "serve", "tls-ca") => "; --tls-client-ca FILE sets the authority of clients' certificates",
        ("passwd", "user" | "password-file") => "; the user is an operand, and the file is --file FILE",
        ("namenode", "user" | "password-file") => "; --passwords FILE sets the users who may log in",
        ("namenode", "tls" | "client-cert" | "client-key") => {
            "; to serve TLS, give --tls-cert FILE --tls-key FILE"
        }
        ("up" | "namenode" | "datanode", "kadoop-key") => "; give the cluster's own key with --key FILE",
        _ => "",
    };
    let server = if flag.starts_with("kadoop") { "Kadoop cluster" } else { "gateway" };
    format!("strait {command}: --{flag} applies to clients of a {server}{instead}")
}

impl Command {
    /// Whether this serves until a signal ends it.
    pub fn is_server(&self) -> bool {
        matches!(
            self,
            Self::Up(_)
                | Self::Serve(_)
                | Self::Namenode(_)
                | Self::Datanode(_)
                | Self::Mount(_)
                | Self::Nfs(_)
        )
    }

    /// Number of stores behind the gateway that this runs, if it runs one.
    pub fn stores_served(&self) -> Option<usize> {
        let (listening, stores) = match self {
            Self::Up(up) => (&up.listening, 1),
            Self::Serve(serve) => (&serve.listening, serve.stores.len()),
            _ => return None,
        };
        Some(stores + usize::from(listening.local_root.is_some()))
    }

    /// Whether this can connect to a gateway.
    fn is_client(&self) -> bool {
        match self {
            Self::Serve(serve) => serve.stores.iter().any(|store| store.contains("strait://")),
            _ => self.opens_stores(),
        }
    }

    /// Whether this opens the stores that URIs name.
    fn opens_stores(&self) -> bool {
        let itself = matches!(self, Self::Up(_) | Self::Namenode(_) | Self::Datanode(_));
        !itself
            && !matches!(
                self,
                Self::KadoopLog(_)
                    | Self::Passwd(_)
                    | Self::Malgen(_)
                    | Self::Completion(_)
                    | Self::PluginHelper
            )
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a gateway, namenode and three datanodes in one process
    Up(Up),
    /// Serve stores as a Thrift gateway
    Serve(Serve),
    /// Run the namenode of a Kadoop cluster
    Namenode(Namenode),
    /// Run a datanode of a Kadoop cluster
    Datanode(Datanode),
    /// Serve a store over NFS version 3
    Nfs(Nfs),
    /// List directories
    Ls(Ls),
    /// Print a path's status: type, size, owner, times
    Stat(Stat),
    /// Print how many bytes directories hold
    Du(Du),
    /// Print files
    Cat(Operands),
    /// Copy local files or directories (or - for standard input) into a store
    Put(Put),
    /// Copy files or directories out of a store (to - for standard output)
    Get(Get),
    /// Remove files or directories
    Rm(Rm),
    /// Rename, or move into a directory
    Mv(Mv),
    /// Append files to another one, in one step and without copying; the appended files are removed
    Concat(Concat),
    /// Make directories
    Mkdir(Mkdir),
    /// Make empty files, or set the times of existing ones to now
    #[command(alias = "touchz")]
    Touch(Touch),
    /// Change permission bits
    Chmod(Chmod),
    /// Change owner and group
    Chown(Chown),
    /// Change replication
    Setrep(Setrep),
    /// Print which hosts hold a file's blocks
    Locate(Operands),
    /// Print the store's own checksums of files
    Checksum(Operands),
    /// List the kinds of store that this program knows, and what each can do
    Stores(Stores),
    /// Check a store from its host name to its throughput, and tell how to fix each failure
    Doctor(Doctor),
    /// Run a plugin for another process of strait
    #[command(hide = true)]
    PluginHelper,
    /// Print a store's capacity and use
    Df(Df),
    /// Find files with missing, too few or (--data) damaged replicas
    Fsck(Fsck),
    /// List the datanodes of a Kadoop cluster
    Datanodes(Datanodes),
    /// Admit refused Kadoop datanodes; log records that the namenode lost are given up
    Admit(Admit),
    /// Copy the replicas of Kadoop datanodes to others, so that the datanodes can be switched off
    Decommission(Decommission),
    /// Move replicas from full Kadoop datanodes to emptier ones
    Rebalance(Rebalance),
    /// Print the log of a Kadoop namenode
    KadoopLog(KadoopLog),
    /// Show, check, recover or flatten logical files, which have many writers
    Ckpt(Ckpt),
    /// Mount a store on a directory of this host
    Mount(Mount),
    /// Run a command for each file, on hosts that hold it
    Run(Run),
    /// Run commands for `strait run` on this host
    #[command(hide = true)]
    RunHelper,
    /// Remove the logins that are stored on this host
    Logout(Logout),
    /// Set a user's password in the password file of a gateway or namenode, or remove the user
    Passwd(Passwd),
    /// Write MalGen records (101 bytes each) to standard output
    Malgen(Malgen),
    /// Print a script that lets a shell complete commands and flags
    Completion(Completion),
}

#[derive(Debug, Args)]
pub struct Completion {
    /// The shell to write the script for
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Fsck {
    /// Read every replica of every block, and compare it with its checksums; for kadoop:// URIs
    #[arg(long)]
    pub data: bool,
    #[command(flatten)]
    pub operands: Operands,
}

#[derive(Debug, Args)]
pub struct Operands {
    /// Files or directories in a store, such as strait://HOST:PORT/path.
    #[arg(required = true, value_name = "URI", value_parser = operand())]
    pub uris: Vec<String>,
}

/// Flags for the logs and metrics of a server.
#[derive(Debug, Args)]
pub struct Observability {
    /// Serve latencies and counters of all operations at http://ADDR/metrics, in Prometheus' text format, to
    /// every client [default: nowhere].
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    pub metrics: Option<SocketAddr>,
    /// Log calls that take at least this long, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 300)]
    slow_call_ms: u64,
}

impl Observability {
    /// A call that takes at least this long is slow.
    pub fn slow_call(&self) -> Duration {
        Duration::from_millis(self.slow_call_ms)
    }
}

/// Flags common to `serve` and `up`.
#[derive(Debug, Args)]
pub struct Listening {
    /// The address to listen on. Beyond loopback, it needs --passwords or --allow-anonymous.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090", value_parser = resolve)]
    pub listen: SocketAddr,
    /// Let every client in without a login. Without this flag, a client needs no login only if it runs on
    /// this host as the same user as the gateway, connects over loopback, and --passwords isn't given.
    #[arg(long)]
    pub allow_anonymous: bool,
    /// The user for clients without a login [default: on loopback the user that runs the gateway, else
    /// nobody].
    #[arg(long, value_name = "NAME")]
    pub anonymous_user: Option<String>,
    /// The file of users and their passwords, as `strait passwd` writes it.
    #[arg(long, value_name = "FILE")]
    pub passwords: Option<PathBuf>,
    /// The file with 32 bytes that sign session tokens; created if missing. Gateways with the same key accept
    /// each other's tokens [default: a random key, so that logins end when the gateway ends].
    #[arg(long, value_name = "FILE")]
    pub token_key: Option<PathBuf>,
    /// A login and its tokens end after this time (30m, 12h, 7d), however often they are renewed.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = lifetime)]
    pub token_lifetime: Duration,
    /// The gateway's TLS certificate (PEM, with its chain). Without TLS, it then serves this host only.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate that one of these authorities (PEM) signed, on loopback too.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Revocation lists (PEM, X509 CRL) for client certificates: one of each authority in --tls-client-ca.
    #[arg(long, value_name = "FILE", requires = "tls_client_ca")]
    pub tls_client_crl: Option<PathBuf>,
    /// The only directory of this host that copyToLocalFile and copyFromLocalFile may use [default: none].
    #[arg(long, value_name = "DIR")]
    pub local_root: Option<PathBuf>,
    /// Append each write of a program of 2009 to its file, whatever offset the program asks for. Bytes for
    /// another offset are silently misplaced, as by Hadoop's server of 2009.
    #[arg(long)]
    pub ignore_write_offsets: bool,
    /// A host name that HTTP clients use for this gateway; repeatable. Addresses and localhost always work.
    #[arg(long = "http-host", value_name = "NAME", value_parser = sites::host)]
    pub http_hosts: Vec<String>,
    /// An origin, as SCHEME://HOST:PORT, whose web pages may call this gateway over HTTP; repeatable
    /// [default: none].
    #[arg(long = "http-origin", value_name = "ORIGIN", value_parser = sites::origin)]
    pub http_origins: Vec<String>,
    #[command(flatten)]
    pub observability: Observability,
}

impl Listening {
    /// The host names and origins that HTTP clients may use.
    pub fn http(&self) -> HttpAccess {
        HttpAccess { hosts: self.http_hosts.clone(), origins: self.http_origins.clone() }
    }
}

#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    pub listening: Listening,
    /// A store to serve; the first is the default. For example hdfs://namenode:8020 or
    /// lab=file:///srv/lab, which clients reach as strait://HOST:PORT/@lab/path.
    #[arg(long = "store", required = true, value_name = "[NAME=]URI")]
    pub stores: Vec<String>,
    /// The store for programs of 2009 that name no store, such as with sector://HOST:PORT [default: the only
    /// store; if there are several stores, such programs are refused].
    #[arg(long = "store-2009", value_name = "NAME")]
    pub store_2009: Option<String>,
}

#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    pub listening: Listening,
    /// The directory for the data; created if missing.
    #[arg(long, value_name = "DIR", default_value = "./strait-data")]
    pub data: PathBuf,
    /// The file with the cluster's key; created if missing [default: kadoop.key in DIR].
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// A user of --passwords who gets all rights of the user that runs this server; repeatable.
    #[arg(long = "admin", value_name = "NAME", requires = "passwords")]
    pub admins: Vec<String>,
    /// Replicas that must be on disk before a sync or close of a file succeeds; at most 3. New files get at
    /// least this many replicas.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub min_replicas: u16,
    /// Write a line for each operation on a path, permitted or denied, to this file, with the keys of HDFS's
    /// audit log. After logrotate renames the file, the server creates a new one.
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Ls {
    #[command(flatten)]
    pub operands: Operands,
    /// List everything beneath, too.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Print sizes for people: 64.0M for 67108864.
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// List directories themselves, not their entries.
    #[arg(short = 'd', long)]
    pub directory: bool,
    /// Print paths only.
    #[arg(short = 'C', long)]
    pub paths_only: bool,
    /// Sort by modification time, latest first, instead of by name.
    #[arg(short = 't', long, conflicts_with = "by_size")]
    pub by_time: bool,
    /// Sort by size, largest first, instead of by name.
    #[arg(short = 'S', long)]
    pub by_size: bool,
    /// Reverse the order.
    #[arg(short = 'r', long)]
    pub reverse: bool,
    /// Don't sort: print entries as they come, for directories of millions.
    #[arg(short = 'U', long, conflicts_with_all = ["by_time", "by_size", "reverse"])]
    pub unsorted: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Du {
    #[command(flatten)]
    pub operands: Operands,
    /// Print one line for each operand, instead of one for each entry of a directory.
    #[arg(short, long)]
    pub summarize: bool,
    /// Print sizes for people: 64.0M for 67108864.
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Debug, Args)]
pub struct Stat {
    #[command(flatten)]
    pub operands: Operands,
    /// %a %A permission, %b length, %F type, %g group, %n name, %o block size, %p path,
    /// %r replication, %u owner, %x %X access time, %y %Y modification time (text UTC, milliseconds).
    #[arg(short, long)]
    pub format: Option<String>,
}

/// Flags common to `put` and `get`.
#[derive(Debug, Args)]
pub struct Copying {
    /// Replace existing files.
    #[arg(short, long)]
    pub force: bool,
    /// Copy this many files at the same time.
    #[arg(short = 't', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Keep modification times, and permission bits without the umask's effect. Set-id bits are never kept.
    #[arg(short, long)]
    pub preserve: bool,
}

#[derive(Debug, Args)]
#[command(override_usage = "strait put [OPTIONS] <SOURCE>... <URI>")]
pub struct Put {
    #[command(flatten)]
    pub copying: Copying,
    /// Number of replicas of new files. A store without replicas refuses this flag and --block-size.
    #[arg(long, value_name = "N")]
    pub replication: Option<u16>,
    /// Bytes per block, such as 134217728 or 128m.
    #[arg(long, value_name = "BYTES", value_parser = bytes::<u64>)]
    pub block_size: Option<u64>,
    /// Fail unless at least this many replicas are on disk. It can't lower the store's own minimum. Only
    /// Kadoop has a minimum; other stores ignore this flag.
    #[arg(long, value_name = "N")]
    pub min_replicas: Option<u16>,
    /// Local files or directories; - is standard input. The last operand is the target URI: a directory to
    /// copy into, or the new name of a single source.
    #[arg(required = true, value_name = "SOURCE... URI", value_parser = operand())]
    pub operands: Vec<String>,
}

#[derive(Debug, Args)]
#[command(override_usage = "strait get [OPTIONS] <URI>... [LOCAL]")]
pub struct Get {
    #[command(flatten)]
    pub copying: Copying,
    /// URIs of files or directories. The last operand is the local target: a directory to copy into, the new
    /// name of a single source, or - for standard output. With a single operand, the target is the working
    /// directory.
    #[arg(required = true, num_args = 1.., value_name = "URI... LOCAL", value_parser = operand())]
    pub operands: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Rm {
    #[command(flatten)]
    pub operands: Operands,
    /// Remove directories with everything in them.
    #[arg(short, visible_short_alias = 'R', long)]
    pub recursive: bool,
    /// Ignore missing files.
    #[arg(short, long)]
    pub force: bool,
    /// Remove only what killed `put`s and killed copies of the 2009 service left in these directories and
    /// beneath: files named .strait-put-… and .strait-copy-… that are more than a day old. For file: URIs,
    /// remove those of killed `get`s, too: .strait-get-….
    #[arg(long, conflicts_with_all = ["recursive", "force"])]
    pub stale: bool,
}

#[derive(Debug, Args)]
#[command(override_usage = "strait mv [OPTIONS] <URI>... <TARGET>")]
pub struct Mv {
    /// Replace an existing file.
    #[arg(short, long)]
    pub force: bool,
    /// Sources; the last operand is the target: a new name, or an existing directory to move into.
    /// It may be just a path in the same store.
    #[arg(required = true, value_name = "URI... TARGET", value_parser = operand())]
    pub operands: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Concat {
    /// The file that gets the bytes.
    #[arg(value_name = "TARGET", value_parser = operand())]
    pub target: String,
    /// The files to append, in this order: URIs, or just paths in the same store.
    #[arg(required = true, value_name = "SOURCE", value_parser = operand())]
    pub sources: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Mkdir {
    #[command(flatten)]
    pub operands: Operands,
    /// Create missing parents, too. If the directory exists, succeed.
    #[arg(short, long)]
    pub parents: bool,
}

#[derive(Debug, Args)]
pub struct Touch {
    #[command(flatten)]
    pub operands: Operands,
    /// Set the access time only.
    #[arg(short, long)]
    pub access: bool,
    /// Set the modification time only.
    #[arg(short, long)]
    pub modification: bool,
    /// Don't create missing files.
    #[arg(short = 'c', long)]
    pub no_create: bool,
}

#[derive(Debug, Args)]
pub struct Chmod {
    /// Change everything beneath, too.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// The mode: octal (750), or symbolic (u+rwx,go-w,a+X).
    #[arg(allow_hyphen_values = true)]
    pub mode: String,
    #[command(flatten)]
    pub operands: Operands,
}

#[derive(Debug, Args)]
pub struct Chown {
    /// Change everything beneath, too.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// The new owner, the new group, or both.
    #[arg(value_name = "[OWNER][:[GROUP]]")]
    pub owner: String,
    #[command(flatten)]
    pub operands: Operands,
}

#[derive(Debug, Args)]
pub struct Setrep {
    /// Without effect, as with `hdfs dfs`: the command always changes everything beneath a directory.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// The number of replicas.
    pub replication: u16,
    #[command(flatten)]
    pub operands: Operands,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Df {
    #[command(flatten)]
    pub operands: Operands,
    /// Print sizes for people: 64.0M for 67108864.
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Debug, Args)]
pub struct Passwd {
    /// The password file of a gateway or namenode; created if missing.
    #[arg(long, value_name = "FILE", default_value = "./strait-passwords")]
    pub file: PathBuf,
    /// Remove the user from the file. The servers that use the file end the user's access within seconds.
    #[arg(long)]
    pub remove: bool,
    /// The user. The command asks twice for the password, or reads it from standard input if that
    /// isn't a terminal.
    #[arg(id = "whose", value_name = "USER")]
    pub user: String,
}

#[derive(Debug, Args)]
pub struct Logout {
    /// The gateways whose logins this command removes from this host [default: all]. With --user, it removes
    /// only that user's. A gateway accepts a removed token until the token expires or the password changes.
    #[arg(value_name = "URI")]
    pub uris: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Malgen {
    /// Number of records.
    pub records: u64,
    /// The same seed gives the same records.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of sites that the events come from.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub sites: u64,
}

/// Parses seconds, or a time with a unit.
fn timeout(text: &str) -> Result<u64, String> {
    strait_store_any::time_limit(text).map(|limit| limit.as_secs())
}

/// Parses a time with a unit. It must be at least a minute, so that a login is useful.
fn lifetime(text: &str) -> Result<Duration, String> {
    const MIN: Duration = Duration::from_secs(60);
    const MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
    let seconds = strait_store_any::with_unit(text);
    let time = seconds.ok_or_else(|| "give a number and a unit (s, m, h or d), such as 12h".to_owned())?;
    let time = Duration::from_secs(time);
    if (MIN..=MAX).contains(&time) { Ok(time) } else { Err("the time must be from 1m to 3650d".to_owned()) }
}

/// Checks that `text` has the form `HOST:PORT`. Doesn't look up the host.
fn host_and_port(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    parts.map(|_| text.to_owned()).ok_or_else(|| "give HOST:PORT".to_owned())
}

/// Looks up the address of `HOST:PORT`.
fn resolve(text: &str) -> Result<SocketAddr, String> {
    host_and_port(text)?;
    let mut addresses =
        text.to_socket_addrs().map_err(|error| format!("can't look up the host's address: {error}"))?;
    addresses.next().ok_or_else(|| "the host has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_has_a_unit_and_bounds() {
        assert_eq!(lifetime("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(lifetime("90s"), Ok(Duration::from_secs(90)));
        for bad in
            ["", "7", "d", "59s", "0d", "3651d", "99999999999999999999d", "7w", "-1d", "1.5h", "7\u{e9}"]
        {
            assert!(lifetime(bad).is_err(), "{bad}");
        }
    }
}
