//! Flags of `run`.

use super::{Global, bytes, operand};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use strait_dispatch::Records;

/// Where commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Launcher {
    /// On the hosts that hold the inputs, by ssh
    Ssh,
    /// All on this host
    Local,
    /// On the nodes of a Slurm cluster that hold the inputs, by srun
    Slurm,
}

/// How large files are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Into the store's blocks or chunks.
    Chunk,
    /// Into pieces of this many bytes.
    Size(u64),
}

/// Smallest piece: for a smaller one, starting the command costs more than its work.
const MIN_PIECE_BYTES: u64 = 1 << 10;

fn split(text: &str) -> Result<Split, String> {
    if ["chunk", "block"].contains(&text) {
        return Ok(Split::Chunk);
    }
    match bytes(text) {
        Ok(size) if size >= MIN_PIECE_BYTES => Ok(Split::Size(size)),
        Ok(_) => Err(format!("a piece has at least {MIN_PIECE_BYTES} bytes")),
        Err(_) => Err("give chunk, or a size such as 64M".to_owned()),
    }
}

fn records(text: &str) -> Result<Records, String> {
    match text {
        "lines" => Ok(Records::Ended(b'\n')),
        "nul" => Ok(Records::Ended(0)),
        "bytes" => Ok(Records::Sized(1)),
        _ => match bytes(text) {
            Ok(size) if size > 0 => Ok(Records::Sized(size)),
            _ => Err("give lines, nul, bytes, or a number of bytes".to_owned()),
        },
    }
}

#[derive(Debug, Args)]
pub struct Run {
    /// Where commands run.
    #[arg(long, value_enum, default_value_t = Launcher::Ssh)]
    pub launcher: Launcher,
    /// Run commands only on HOST, even if it holds no input; repeatable [default: the hosts that the stores
    /// name].
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Cut files into their blocks or chunks, or into pieces of SIZE bytes (64M). Each piece is the input of
    /// one command, with whole records. Compressed files aren't cut.
    #[arg(long, value_name = "chunk|SIZE", value_parser = split)]
    pub split: Option<Split>,
    /// The records that a cut keeps whole: lines, nul (records that end with a NUL), a number of bytes, or
    /// bytes.
    #[arg(long, value_name = "RECORDS", requires = "split", default_value = "lines", value_parser = records)]
    pub records: Records,
    /// Copy this file into the working directory of each command; repeatable. A program is run as
    /// ./NAME.
    #[arg(long, value_name = "FILE")]
    pub ship: Vec<PathBuf>,
    /// Lend the login to HOST if a store names it; a * stands for any characters; repeatable. Hosts of --host
    /// get the login anyway.
    #[arg(long, value_name = "HOST", env = "STRAIT_LEND_TO", value_delimiter = ',')]
    pub lend_to: Vec<String>,
    /// Let `strait` use the login when a command runs it, too.
    #[arg(long)]
    pub lend_to_commands: bool,
    /// If a command runs for twice the median of the others, start it again on another host (for a tenth of
    /// all commands at most). The first of the two that succeeds counts.
    #[arg(long)]
    pub duplicate_stragglers: bool,
    /// Number of commands at the same time on each host [default: its processors].
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Print each output when its command ends. Without this flag, outputs come in the order of the inputs.
    #[arg(long)]
    pub unordered: bool,
    /// Begin each line of output with its input's URI and a tab.
    #[arg(long)]
    pub tag: bool,
    /// For programs: before each output, print a line of JSON about how the command ended, with the output's
    /// length (output_bytes). Only these lines report failed commands.
    #[arg(long, conflicts_with = "tag")]
    pub framed: bool,
    /// Start a failed command again, up to this many attempts in all.
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub retries: u32,
    /// End a command that runs longer than this, and count it as failed.
    #[arg(long, value_name = "TIME", value_parser = super::timeout)]
    pub command_timeout: Option<u64>,
    /// Append a line to this file for each command that ended, in GNU parallel's format.
    #[arg(long, value_name = "FILE")]
    pub joblog: Option<PathBuf>,
    /// Skip the commands that succeeded according to the job log.
    #[arg(long, requires = "joblog")]
    pub resume: bool,
    /// Print where each command would run: host, bytes, URI.
    #[arg(long)]
    pub dry_run: bool,
    /// URIs on standard input end with a NUL instead of a newline.
    #[arg(short = '0', long)]
    pub null: bool,
    /// The ssh command and its options.
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub ssh: String,
    /// The srun command and its options.
    #[arg(long, value_name = "COMMAND", default_value = "srun")]
    pub srun: String,
    /// The path of strait on the other hosts. Without this flag, this program is copied to hosts that lack
    /// it, into the user's cache directory.
    #[arg(long, value_name = "PATH")]
    pub remote_strait: Option<String>,
    /// Files in a store, each the input of one command. A - stands for URIs on standard input.
    #[arg(required = true, value_name = "URI", value_parser = operand())]
    pub uris: Vec<String>,
    /// The command. It reads its input from standard input. If an argument contains {}, it stands for the
    /// path of a copy of the input instead.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl Global {
    /// The flags for a helper. They contain no secrets, only names of files.
    pub fn for_helpers(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let with_values = [
            ("--user", self.user.clone()),
            ("--password-file", path(&self.password_file)),
            ("--gateway-store", self.gateway_store.clone()),
            ("--timeout", self.timeout.map(|seconds| seconds.to_string())),
            ("--operation-timeout", self.operation_timeout.map(|seconds| seconds.to_string())),
            ("--tls-ca", path(&self.tls_ca)),
            ("--client-cert", path(&self.client_cert)),
            ("--client-key", path(&self.client_key)),
            ("--kadoop-key", path(&self.kadoop_key)),
            ("--endpoint-url", self.foreign.endpoint_url.clone()),
            ("--region", self.foreign.region.clone()),
            ("--profile", self.foreign.profile.clone()),
        ];
        let switches = [
            ("--tls", self.tls),
            ("--kadoop-over-tcp", self.kadoop_over_tcp),
            ("--no-sign-request", self.foreign.no_sign_request),
        ];
        let given = with_values.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
        let on = switches.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag.to_owned());
        given.flatten().chain(on).collect()
    }
}
