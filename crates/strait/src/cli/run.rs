//! Flags of `run`.

use super::{Global, operand};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Where commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Launcher {
    /// On the hosts that hold the inputs, by ssh
    Ssh,
    /// All on this host
    Local,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Where commands run.
    #[arg(long, value_enum, default_value_t = Launcher::Ssh)]
    pub launcher: Launcher,
    /// Run commands on this host only, even if it holds no input; repeatable [default: the hosts
    /// that the stores name].
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Commands at once on each host [default: its processors].
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Print a command's output when it ends. Otherwise outputs come in the order of the inputs.
    #[arg(long)]
    pub unordered: bool,
    /// Begin each line of output with its input's URI and a tab.
    #[arg(long)]
    pub tag: bool,
    /// Run a command that fails again, until it has run this often.
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub retries: u32,
    /// End a command that runs longer than this; it has failed.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=super::MAX_TIMEOUT_SECONDS))]
    pub command_timeout: Option<u64>,
    /// Add a line for each command that ended to this file, in GNU parallel's format.
    #[arg(long, value_name = "FILE")]
    pub joblog: Option<PathBuf>,
    /// Leave out the commands that succeeded according to the job log.
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
    /// Use the strait of this path on the hosts. Otherwise this one is copied to the hosts that lack
    /// it, into the user's cache directory.
    #[arg(long, value_name = "PATH")]
    pub remote_strait: Option<String>,
    /// Files in a store, each the input of one command. A - stands for URIs on standard input.
    #[arg(required = true, value_name = "URI", value_parser = operand())]
    pub uris: Vec<String>,
    /// The command. It reads its input on standard input or, if an argument contains {}, from a
    /// copy of that path.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl Global {
    /// The flags for a helper on another host. Secrets aren't among them, only files' names.
    pub fn for_helpers(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let with_values = [
            ("--user", self.user.clone()),
            ("--password-file", path(&self.password_file)),
            ("--gateway-store", self.gateway_store.clone()),
            ("--timeout", self.timeout.map(|seconds| seconds.to_string())),
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
