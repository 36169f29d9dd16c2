//! Starts helpers: as child processes, by ssh, or by srun.

use super::shipping::{self, Parcel};
use crate::cli::{Launcher, Run};
use crate::failure::Failure;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use strait_dispatch::frame::{Lent, Setup};
use strait_dispatch::joblog;
use tokio::process::Command;

/// Environment variables with secrets, which helpers don't need. ssh and srun may forward the environment.
const SECRETS: [&str; 4] =
    ["STRAIT_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// The way to start helpers, and the data that they get.
pub struct Launch {
    way: Way,
    flags: Vec<String>,
    /// The command that runs on the hosts.
    pub program: Program,
    /// Files to be shipped.
    pub parcels: Vec<Parcel>,
    lend_to_commands: bool,
    logins: Mutex<Vec<Lent>>,
}

/// The way to start a helper. The vectors hold the words of `--ssh` or `--srun`.
enum Way {
    Child,
    Ssh(Vec<String>),
    Srun(Vec<String>),
}

/// The command that runs on the hosts.
pub enum Program {
    /// It is on the hosts already, at this path.
    There(String),
    /// It is this file. Hosts that lack it get a copy.
    Sent {
        /// The file.
        file: PathBuf,
        /// Its size.
        bytes: u64,
        /// Its SHA-256.
        hash: String,
    },
}

impl Program {
    fn own() -> Result<Self, Failure> {
        let own = Path::new("/proc/self/exe");
        let digest = File::open(own).and_then(|mut program| shipping::digest(&mut program));
        let (bytes, hash) = digest.map_err(|error| Failure::local(error, "read", own))?;
        Ok(Self::Sent { file: own.to_owned(), bytes, hash })
    }
}

impl Launch {
    /// As the flags of `run` say. Each helper gets the flags `of_helpers`.
    pub fn by(flags: &Run, of_helpers: Vec<String>, logins: Vec<Lent>) -> Result<Self, Failure> {
        let words = |flag: &str, given: &str| {
            let words: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
            match words.is_empty() {
                true => Err(Failure::usage(format!("{flag}: it is empty; give a command"))),
                false => Ok(words),
            }
        };
        if flags.launcher == Launcher::Local && !flags.hosts.is_empty() {
            return Err(Failure::usage("run: --host doesn't go with --launcher local, which uses this host"));
        }
        let way = match flags.launcher {
            Launcher::Local => Way::Child,
            Launcher::Ssh => Way::Ssh(words("--ssh", &flags.ssh)?),
            Launcher::Slurm => Way::Srun(words("--srun", &flags.srun)?),
        };
        let program = match (&way, &flags.remote_strait) {
            (Way::Child, _) => {
                let own = std::env::current_exe();
                let own = own.map_err(|error| Failure::other(format!("can't find this program: {error}")))?;
                Program::There(own.display().to_string())
            }
            (_, Some(path)) => Program::There(path.clone()),
            (_, None) => Program::own()?,
        };
        Ok(Self {
            way,
            flags: of_helpers,
            program,
            parcels: shipping::parcels(&flags.ship)?,
            lend_to_commands: flags.lend_to_commands,
            logins: Mutex::new(logins),
        })
    }

    /// The first frame for a helper.
    pub fn setup(&self) -> Setup {
        let files = self.parcels.iter().map(|parcel| parcel.shipped.clone()).collect();
        Setup { files, lend_to_commands: self.lend_to_commands }
    }

    /// The current logins.
    pub fn logins(&self) -> Vec<Lent> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the logins that later helpers get.
    pub fn set_logins(&self, logins: Vec<Lent>) {
        *self.logins.lock().unwrap_or_else(PoisonError::into_inner) = logins;
    }

    /// Whether a helper can wait for its host in Slurm's queue, for any time. SIGTERM ends it.
    pub fn waits_in_queue(&self) -> bool {
        matches!(self.way, Way::Srun(_))
    }

    /// Whether to kill, at the end, the process that started the helper. A child helper isn't killed: when
    /// its input ends, it ends its commands and exits.
    pub fn is_killed(&self) -> bool {
        matches!(self.way, Way::Ssh(_))
    }

    /// The command that starts a helper on a host.
    pub fn command(&self, host: &str) -> Command {
        let mut words: Vec<String> = self.flags.clone();
        words.push("run-helper".to_owned());
        let given = match (&self.way, &self.program) {
            (Way::Child, Program::There(path)) => {
                let mut command = Command::new(path);
                command.args(words);
                return command;
            }
            (Way::Child, Program::Sent { file, .. }) => {
                let mut command = Command::new(file);
                command.args(words);
                return command;
            }
            (Way::Ssh(given) | Way::Srun(given), _) => given,
        };
        let flags: Vec<String> = words.iter().map(|word| joblog::quoted(word)).collect();
        let flags = flags.join(" ");
        let script = match &self.program {
            Program::There(path) => format!("exec {} {flags}", joblog::quoted(path)),
            Program::Sent { bytes, hash, .. } => sending(*bytes, hash, &flags),
        };
        let (program, options) = given.split_first().map_or(("", &[][..]), |(first, rest)| (&**first, rest));
        let mut command = Command::new(program);
        command.args(options);
        for name in SECRETS {
            command.env_remove(name);
        }
        if let Way::Ssh(_) = self.way {
            // No person can answer ssh's questions here. In batch mode, ssh rejects a host with an unknown
            // key.
            // The account's shell may be any but csh: others take line breaks between single quotes.
            let script = format!("exec sh -c '{}'", script.replace('\'', r"'\''"));
            // A host that vanishes without a reset is noticed within a minute.
            let options = ["-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15"];
            command.args(options).args(["--", host, &script]);
        } else {
            command.args(["--nodes=1", "--ntasks=1", "--unbuffered", "--job-name=strait-run"]);
            command.arg(format!("--nodelist={host}")).args(["sh", "-c", &script]);
        }
        command
    }
}

/// The shell script that finds this program on a host, or reads it from standard input. It runs the file only
/// if its hash is right and the user owns the file and its directory.
fn sending(bytes: u64, hash: &str, flags: &str) -> String {
    let machine = std::env::consts::ARCH;
    format!(
        r#"set -e; umask 077
[ "$(uname -sm)" = "Linux {machine}" ] || {{ echo "this host isn't Linux on {machine}: use --remote-strait" >&2; exit 1; }}
d="${{XDG_CACHE_HOME:-$HOME/.cache}}/strait/run"; f="$d/strait-{hash}"
mkdir -p "$d"; chmod 700 "$d"; [ -O "$d" ]
# openssl has the processor's instructions for it, which Debian's sha256sum lacks.
hash() {{ openssl dgst -sha256 -r <"$1" 2>/dev/null || sha256sum <"$1"; }}
is_right() {{ [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && case "$(hash "$1")" in {hash}\ *) ;; *) false ;; esac; }}
if is_right "$f"; then printf H; else
printf N; t=$(mktemp "$d/new.XXXXXX"); trap 'rm -f "$t"' EXIT; head -c {bytes} >"$t"
is_right "$t" || {{ echo "the program arrived damaged" >&2; exit 1; }}
chmod 700 "$t"; mv -f "$t" "$f"; trap - EXIT; fi
exec "$f" {flags}"#
    )
}
