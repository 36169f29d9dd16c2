//! Flags of `mount`, and their translation from the options of mount(8).

use super::operand;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Longest lifetime of names and attributes: an hour.
const MAX_LIFETIME_SECONDS: u64 = 3_600;
/// Longest time for --soft: a day.
const MAX_SOFT_SECONDS: u64 = 86_400;

#[derive(Debug, Args)]
pub struct Mount {
    /// Store files whose names match PATTERN as PLFS containers: any number of programs and hosts can write
    /// them, at any offset. A pattern with a slash is compared with the path below DIR. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    pub plfs: Vec<String>,
    /// Let every user of this host use the mount, each with their own rights. Needs a credential that may act
    /// for other users.
    #[arg(long)]
    pub allow_other: bool,
    /// Mount the store read-only.
    #[arg(long)]
    pub read_only: bool,
    /// Fail an operation if the store doesn't answer it for this long.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=MAX_SOFT_SECONDS))]
    pub soft: u64,
    /// Wait without limit for an unreachable store. Programs that wait for it can't be killed.
    #[arg(long, conflicts_with = "soft")]
    pub hard: bool,
    /// Let the kernel cache names and attributes for this long. Other hosts' changes show this much later.
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(0..=MAX_LIFETIME_SECONDS))]
    pub attr_cache: u64,
    /// Take over the mount on DIR from the process of the same user that serves it. That process then ends.
    /// Programs that use the mount wait, and see no error.
    #[arg(long)]
    pub take_over: bool,
    /// Keep the mount if the process that serves it is killed: a second process holds the mount, and starts a
    /// new serving process. Open files stay open. Needs Linux 6.9 or newer.
    #[arg(long)]
    pub keep: bool,
    /// Return once the store is mounted, and serve in the background, as with --keep.
    #[arg(long)]
    pub daemon: bool,
    /// Append the log of --daemon to this file [default: no log].
    #[arg(long, value_name = "FILE", requires = "daemon")]
    pub log_file: Option<PathBuf>,
    /// This process is the one in the background.
    #[arg(long, hide = true)]
    pub background: bool,
    /// A keeper started this process.
    #[arg(long, hide = true)]
    pub kept: bool,
    /// The directory of a store, such as strait://HOST:PORT/path.
    #[arg(value_name = "URI", value_parser = operand())]
    pub uri: String,
    /// An existing directory of this host.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Options of mount(8) that have no meaning here, or that it handles itself.
const IGNORED: [&str; 24] = [
    "rw",
    "defaults",
    "auto",
    "noauto",
    "_netdev",
    "nofail",
    "user",
    "nouser",
    "users",
    "exec",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "async",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "nodiratime",
    "strictatime",
    "lazytime",
    "group",
    "owner",
];
/// Options of mount(8) with a value, and their flags.
const VALUED: [(&str, &str); 14] = [
    ("plfs", "--plfs"),
    ("soft", "--soft"),
    ("attr_cache", "--attr-cache"),
    ("log_file", "--log-file"),
    ("log", "--log"),
    ("login", "--user"),
    ("password_file", "--password-file"),
    ("gateway_store", "--gateway-store"),
    ("kadoop_key", "--kadoop-key"),
    ("tls_ca", "--tls-ca"),
    ("client_cert", "--client-cert"),
    ("client_key", "--client-key"),
    ("timeout", "--timeout"),
    ("operation_timeout", "--operation-timeout"),
];
/// Options of mount(8) without a value, and their flags.
const PLAIN: [(&str, &str); 4] =
    [("ro", "--read-only"), ("allow_other", "--allow-other"), ("hard", "--hard"), ("tls", "--tls")];

/// Translates a command line `mount.strait SOURCE DIRECTORY [-sfnv] [-o OPTIONS]`, as mount(8) calls it for
/// the type `strait`, to one of `strait`. `None` if the program isn't called `mount.strait`.
///
/// # Errors
/// An unknown option.
pub fn by_mount(arguments: &[OsString]) -> Option<Result<Vec<OsString>, String>> {
    let program = std::path::Path::new(arguments.first()?).file_name()?;
    (program == "mount.strait").then(|| translated(arguments))
}

fn translated(arguments: &[OsString]) -> Result<Vec<OsString>, String> {
    let mut flags: Vec<OsString> = vec!["strait".into(), "mount".into(), "--daemon".into()];
    let mut operands: Vec<OsString> = Vec::new();
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("-o") => {
                let options = rest.next().and_then(|options| options.to_str()).unwrap_or_default();
                for option in options.split(',').filter(|option| !option.is_empty()) {
                    flags.extend(flag(option)?);
                }
            }
            Some("-N" | "-t") => drop(rest.next()),
            Some(flag) if flag.starts_with('-') => {}
            _ => operands.push(argument.clone()),
        }
    }
    flags.push("--".into());
    flags.extend(operands);
    Ok(flags)
}

fn flag(option: &str) -> Result<Vec<OsString>, String> {
    let found = match option.split_once('=') {
        Some((name, value)) => {
            let flag = VALUED.iter().find(|(known, _)| *known == name);
            flag.map(|(_, flag)| vec![OsString::from(*flag), value.into()])
        }
        None => PLAIN.iter().find(|(known, _)| *known == option).map(|(_, flag)| vec![(*flag).into()]),
    };
    match found {
        Some(flags) => Ok(flags),
        None if IGNORED.contains(&option) || option.starts_with("x-") => Ok(Vec::new()),
        None => Err(format!("mount.strait: unknown option {option}; docs/mount.md lists the options")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &[&str]) -> Option<Result<Vec<OsString>, String>> {
        by_mount(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn mount_calls_its_helper_as_it_calls_all() {
        let options = "rw,allow_other,plfs=*.ckpt,login=ada,_netdev,x-systemd.automount";
        let call = call(&["/sbin/mount.strait", "strait://h:9090/", "/mnt", "-n", "-o", options]);
        let flags = call.unwrap().unwrap();
        let wanted = "strait mount --daemon --allow-other --plfs *.ckpt --user ada -- strait://h:9090/ /mnt";
        assert_eq!(flags.join(OsString::from(" ").as_os_str()), wanted);
    }

    #[test]
    fn unknown_options_are_refused_and_other_programs_left_alone() {
        assert!(call(&["strait", "mount"]).is_none());
        let error = call(&["mount.strait", "u", "d", "-o", "sec=krb5"]).unwrap().unwrap_err();
        assert!(error.contains("sec=krb5"), "{error}");
    }
}
