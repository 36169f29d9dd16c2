//! The contents of `--help`: commands in groups, each command's own flags before the global ones,
//! and no flag that a command doesn't use.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Command, Error};
use std::fmt::Write as _;

/// Heading of the flags for connecting to stores.
pub const REACHING: &str = "Reaching stores";
/// Heading of the flags for messages.
pub const TELLING: &str = "Messages";

/// Names in clap of the flags for connecting to a gateway.
pub const GATEWAY_FLAGS: [&str; 10] = [
    "user",
    "password_file",
    "gateway_store",
    "default_store",
    "timeout",
    "operation_timeout",
    "tls",
    "tls_ca",
    "client_cert",
    "client_key",
];
/// The flags for connecting to a Kadoop cluster.
pub const KADOOP_FLAGS: [&str; 2] = ["kadoop_key", "kadoop_over_tcp"];

/// The flags for stores behind other services and libraries.
pub const FOREIGN_FLAGS: [&str; 7] =
    ["endpoint_url", "region", "profile", "no_sign_request", "plugins", "plugin_options", "inside"];

/// The commands without flags for connecting to stores. `serve` is not one of them: a store that it
/// serves may be a gateway.
pub const NO_CLIENTS: [&str; 7] =
    ["up", "namenode", "datanode", "kadoop-log", "passwd", "malgen", "completion"];
/// The commands that call only Kadoop's namenodes, and read no file.
const OPERATORS: [&str; 4] = ["datanodes", "admit", "decommission", "rebalance"];
const UNUSED_BY_OPERATORS: [&str; 6] =
    ["gateway_store", "default_store", "timeout", "operation_timeout", "tls", "kadoop_over_tcp"];
/// `logout` uses only this host's tokens, by user and store.
const UNUSED_BY_LOGOUT: [&str; 10] = [
    "password_file",
    "default_store",
    "timeout",
    "operation_timeout",
    "tls",
    "tls_ca",
    "client_cert",
    "client_key",
    "kadoop_key",
    "kadoop_over_tcp",
];

/// The commands by purpose.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Servers", &["up", "serve", "namenode", "datanode", "nfs"]),
    (
        "Files and directories",
        &[
            "ls", "stat", "du", "cat", "put", "get", "rm", "mv", "concat", "mkdir", "touch", "chmod",
            "chown", "setrep", "locate", "checksum", "ckpt", "mount", "run",
        ],
    ),
    (
        "Stores and clusters",
        &["stores", "doctor", "df", "fsck", "datanodes", "admit", "decommission", "rebalance", "kadoop-log"],
    ),
    ("Logins, and other things", &["logout", "passwd", "malgen", "completion", "help"]),
];

/// Commands of `hdfs dfs` and other tools that Strait lacks, each with the way to do its work.
const INSTEAD: [(&str, &str); 17] = [
    ("appendToFile", "a mount, or a program with a client library, appends"),
    ("chgrp", "strait chown :GROUP URI"),
    ("copy", "strait put, strait get, or strait cat SOURCE | strait put - TARGET"),
    ("copyFromLocal", "strait put"),
    ("copyToLocal", "strait get"),
    ("count", "strait du --summarize --json URI"),
    ("cp", "strait put, strait get, or strait cat SOURCE | strait put - TARGET"),
    ("find", "strait ls -R -C URI"),
    ("getmerge", "strait cat 'URI/*'"),
    ("head", "strait cat URI | head"),
    ("rmdir", "strait rm -r URI"),
    ("sync", "strait put -f, or strait get -f"),
    ("tail", "strait cat URI | tail"),
    ("test", "the exit code of strait stat URI"),
    ("text", "strait cat URI | zcat"),
    ("tree", "strait ls -R -C URI"),
    ("truncate", "a mount, or a program with a client library, cuts files"),
];

/// Adds to an error about an unknown command which one to use instead.
pub fn with_the_command_instead(mut error: Error) -> Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if let Some((name, instead)) = INSTEAD.iter().find(|(name, _)| name == given) {
        error.remove(ContextKind::SuggestedSubcommand);
        let tip = StyledStr::from(format!("instead of {name}, use: {instead}"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// The command line with its help arranged.
pub fn arranged(mut command: Command) -> Command {
    command.build(); // gives the subcommands their global flags
    for name in NO_CLIENTS {
        command = command.mut_subcommand(name, |one| {
            without(&[&GATEWAY_FLAGS[..], &KADOOP_FLAGS, &FOREIGN_FLAGS].concat(), one)
        });
    }
    for name in OPERATORS {
        command = command
            .mut_subcommand(name, |one| without(&[&UNUSED_BY_OPERATORS[..], &FOREIGN_FLAGS].concat(), one));
    }
    command = command.mut_subcommand("logout", |logout| {
        without(&[&UNUSED_BY_LOGOUT[..], &FOREIGN_FLAGS].concat(), logout)
    });
    command = command.mut_subcommands(with_own_usage);
    let groups = grouped(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\nOptions of every command:\n{{options}}"
    ))
}

fn without(flags: &[&str], command: Command) -> Command {
    let hidden = command.mut_args(|arg| {
        let unused = flags.contains(&arg.get_id().as_str());
        if unused { arg.hide(true) } else { arg }
    });
    hidden.mut_subcommands(|inner| without(flags, inner))
}

/// Fixes the usage text now. Otherwise clap adds flags that the environment sets, when it prints an error.
fn with_own_usage(mut command: Command) -> Command {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    command.override_usage(usage)
}

fn grouped(command: &Command) -> String {
    let width = command.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in GROUPS {
        // Writing to a String never fails.
        let _ = writeln!(text, "\n{heading}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).cloned();
            let _ = writeln!(text, "  {name:width$}  {}", about.unwrap_or_default());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn help_of(name: &str) -> String {
        let mut command = arranged(Cli::command());
        command.find_subcommand_mut(name).unwrap().render_long_help().to_string()
    }

    #[test]
    fn each_command_for_people_is_in_one_group() {
        let command = arranged(Cli::command());
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        let mut all: Vec<&str> = shown.map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn a_commands_own_flags_come_before_those_of_all() {
        let help = help_of("put");
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
        assert!(at("--force") < at("--block-size") && at("--block-size") < at(REACHING), "{help}");
        assert!(at(REACHING) < at("--kadoop-over-tcp") && at("--kadoop-over-tcp") < at(TELLING), "{help}");
        assert!(at(TELLING) < at("--json"), "{help}");
    }

    #[test]
    fn no_command_shows_a_flag_that_it_has_no_use_for() {
        for name in NO_CLIENTS {
            let help = help_of(name);
            for flag in ["--user ", "--tls ", "--kadoop-key", "--kadoop-over-tcp"] {
                assert!(!help.contains(flag), "{name}: {help}");
            }
            assert!(help.contains("--log"), "{help}");
        }
        let mut command = arranged(Cli::command());
        let log = command.find_subcommand_mut("kadoop-log").unwrap();
        let dump = log.find_subcommand_mut("dump").unwrap().render_long_help().to_string();
        assert!(!dump.contains("--user ") && !dump.contains("--kadoop-key"), "{dump}");
        for name in OPERATORS {
            let help = help_of(name);
            for flag in ["--tls\n", "--gateway-store", "--kadoop-over-tcp"] {
                assert!(!help.contains(flag), "{name}: {help}");
            }
            for flag in ["--user ", "--kadoop-key", "--tls-ca", "--password-file"] {
                assert!(help.contains(flag), "{name}: {help}");
            }
        }
        assert!(help_of("logout").contains("--user ") && !help_of("logout").contains("--tls"));
    }
}
