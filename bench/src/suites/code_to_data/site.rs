//! A client, a namenode, and data hosts with an ssh server each.

use super::programs::Programs;
use super::{names, output};
use crate::Result;
use crate::host::strait;
use crate::kadoop::rack::{CLIENT, FIRST_DATANODE};
use crate::kadoop::{Kind, Servers, data_directory};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use strait_testkit::{Host, Process, current_user};

const SSH_PORT: u16 = 2222;
const START_DEADLINE: Duration = Duration::from_secs(30);

/// The servers, the client's host and the lists of files. A drop ends the servers.
pub struct Site {
    pub kind: Kind,
    environment: Vec<(&'static str, String)>,
    _daemons: Vec<Process>,
    pub servers: Servers,
    directory: tempfile::TempDir,
}

impl Site {
    /// Starts all servers.
    pub fn start(kind: Kind, hosts: usize, programs: &Programs, inputs: &Path) -> Result<Self> {
        let directory = tempfile::TempDir::with_prefix_in("strait-site-", data_directory())?;
        let dir = directory.path();
        let servers = Servers::start(kind, hosts)?;
        let network = servers.network();
        // Programs need this on all hosts.
        let mut environment = vec![("HOME", dir.display().to_string())];
        environment.extend(servers.environment());
        let data: Vec<&Host> = network.hosts()[FIRST_DATANODE..].iter().collect();
        let daemons = ssh(dir, &data, &environment)?;
        let ssh = format!("ssh -F {}", dir.join("ssh").display());
        let logins =
            data.iter().map(|host| format!("{ssh} {}", host.address())).collect::<Vec<_>>().join(",");
        environment.push(("STRAIT", strait()?.display().to_string()));
        environment.push(("PROGRAM", programs.program.display().to_string()));
        environment.push(("JNI", programs.jni.clone()));
        environment.extend([("SSH", ssh), ("LOGINS", logins), ("INPUTS", inputs.display().to_string())]);
        if let Servers::Hdfs(cluster, _) = &servers {
            environment.push(("CLASSPATH", cluster.classpath().to_owned()));
        }
        Ok(Self { kind, environment, _daemons: daemons, servers, directory })
    }

    /// Stores files in a directory, with one replica each, and writes lists of their paths and URIs.
    pub fn put(&self, files: &[PathBuf], directory: &str) -> Result<()> {
        let uri = format!("{}{directory}", self.servers.uri());
        output(self.here(&strait()?).args(["mkdir", &uri]))?;
        let put = ["put", "--replication", "1"];
        // Split the files over several commands: an argument list has a limited length.
        for files in files.chunks(500) {
            output(self.here(&strait()?).args(put).args(files).arg(format!("{uri}/")))?;
        }
        let (paths, uris) = if directory == "/small" { ("small-paths", "small") } else { ("paths", "uris") };
        std::fs::write(self.directory.path().join(paths), names(files, directory))?;
        std::fs::write(self.directory.path().join(uris), names(files, &uri))?;
        Ok(())
    }

    /// A command on the client's host.
    fn here(&self, program: &Path) -> Command {
        let mut command = self.servers.network().host(CLIENT).command(program);
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        command.current_dir(self.directory.path());
        command
    }

    /// A script on the client's host, in the directory of the lists.
    pub fn script(&self, script: &str) -> Command {
        let mut command = self.here("bash".as_ref());
        command.args(["-c", script]);
        command
    }
}

/// An ssh server on each host, and the configuration `ssh` of a client that may log in there.
fn ssh(dir: &Path, hosts: &[&Host], environment: &[(&str, String)]) -> Result<Vec<Process>> {
    for key in ["host", "user"] {
        output(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.join(key)))?;
    }
    let path = dir.display();
    let set: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let server = format!(
        "Port {SSH_PORT}\nHostKey {path}/host\nAuthorizedKeysFile {path}/user.pub\nPidFile none\nUsePAM no\n\
         StrictModes no\nMaxStartups 100\nSetEnv {}\n",
        set.join(" ")
    );
    std::fs::write(dir.join("server"), server)?;
    let client = format!(
        "Host *\nPort {SSH_PORT}\nUser {}\nIdentityFile {path}/user\nIdentitiesOnly yes\nStrictHostKeyChecking yes\n\
         UserKnownHostsFile {path}/known\nGlobalKnownHostsFile /dev/null\nLogLevel ERROR\n",
        current_user()
    );
    std::fs::write(dir.join("ssh"), client)?;
    let key = std::fs::read_to_string(dir.join("host.pub"))?;
    let known: String = hosts.iter().map(|host| format!("[{}]:{SSH_PORT} {key}", host.address())).collect();
    std::fs::write(dir.join("known"), known)?;
    // sshd needs this directory for privilege separation. Ignore an error: it may exist already.
    let _ = std::fs::create_dir_all("/run/sshd");
    let mut daemons = Vec::new();
    for host in hosts {
        let mut command = host.command("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f"]).arg(dir.join("server"));
        let mut daemon = Process::spawn(&format!("sshd-{}", host.address()), command, dir)?;
        let address = (host.address(), SSH_PORT);
        daemon.wait_ready(START_DEADLINE, || host.run(|| std::net::TcpStream::connect(address).is_ok()))?;
        daemons.push(daemon);
    }
    Ok(daemons)
}
