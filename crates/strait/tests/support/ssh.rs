//! An ssh server on loopback addresses, with keys of its own. Other names lead to the first address.

use crate::support::DEADLINE;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use strait_testkit::{Process, current_user, free_port};
use tempfile::TempDir;

/// Its addresses.
pub const HOSTS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// Serves until it is dropped.
pub struct Sshd {
    pub dir: TempDir,
    _process: Process,
}

impl Sshd {
    /// The cache directory of its users is `cache` in its directory.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (path, port) = (dir.path().display().to_string(), free_port());
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.path().join(key))
                .status();
            assert!(made.unwrap().success());
        }
        let listening: String = HOSTS.iter().map(|host| format!("ListenAddress {host}\n")).collect();
        let server = format!(
            "Port {port}\n{listening}HostKey {path}/host\nAuthorizedKeysFile {path}/user.pub\nPidFile none\n\
             UsePAM no\nStrictModes no\nSetEnv XDG_CACHE_HOME={path}/cache\n"
        );
        fs::write(dir.path().join("server"), server).unwrap();
        let client = format!(
            "Host !{} !{} *\nHostname {0}\nHost *\nPort {port}\nUser {}\nIdentityFile {path}/user\nIdentitiesOnly yes\n\
             UserKnownHostsFile {path}/known\nGlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n",
            HOSTS[0],
            HOSTS[1],
            current_user()
        );
        fs::write(dir.path().join("client"), client).unwrap();
        let key = fs::read_to_string(dir.path().join("host.pub")).unwrap();
        let known: String = HOSTS.iter().map(|host| format!("[{host}]:{port} {key}")).collect();
        fs::write(dir.path().join("known"), known).unwrap();
        // Where it separates privileges, if it runs as root.
        let _ = fs::create_dir_all("/run/sshd");
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f"]).arg(dir.path().join("server"));
        let mut process = Process::spawn("sshd", command, dir.path()).unwrap();
        process
            .wait_ready(DEADLINE, || HOSTS.iter().all(|host| TcpStream::connect((*host, port)).is_ok()))
            .unwrap();
        Self { dir, _process: process }
    }

    /// The command that reaches it.
    pub fn ssh(&self) -> String {
        format!("ssh -F {}", self.dir.path().join("client").display())
    }

    pub fn cache(&self) -> std::path::PathBuf {
        self.dir.path().join("cache/strait/run")
    }

    /// Forgets the host's keys.
    pub fn forget(&self) {
        fs::write(self.dir.path().join("known"), "").unwrap();
    }
}

/// The only file of a directory.
pub fn only_file(directory: &Path) -> std::path::PathBuf {
    let files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    file.clone()
}
