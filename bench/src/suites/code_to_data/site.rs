//! A client, a namenode, and data hosts with an ssh server each.

use super::programs::Programs;
use super::{names, output};
use crate::Result;
use crate::host::strait;
use crate::kadoop::{data_directory, hdfs, rack};
use rack::{CLIENT, FIRST_DATANODE, Rack};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use strait_testkit::{Host, MiniHdfs, Network, Options, Process, current_user};

const SSH_PORT: u16 = 2222;
const START_DEADLINE: Duration = Duration::from_secs(30);

/// The store of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    Kadoop,
    Hdfs,
}

impl System {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kadoop => "Kadoop",
            Self::Hdfs => "HDFS",
        }
    }
}

/// Holds the servers.
enum Servers {
    Kadoop(Box<Rack>),
    Hdfs(Box<MiniHdfs>, Network),
}

/// See the module. Ends when it is dropped.
pub struct Site {
    pub system: System,
    environment: Vec<(&'static str, String)>,
    _daemons: Vec<Process>,
    servers: Servers,
    directory: tempfile::TempDir,
}

impl Site {
    /// Starts all.
    pub fn start(system: System, hosts: usize, programs: &Programs, inputs: &Path) -> Result<Self> {
        let directory = tempfile::TempDir::with_prefix_in("strait-site-", data_directory())?;
        let dir = directory.path();
        let servers = match system {
            System::Kadoop => Servers::Kadoop(Box::new(Rack::start(hosts)?)),
            System::Hdfs => {
                let network = rack::network(hosts)?;
                let cluster = MiniHdfs::start_own(&Options {
                    datanodes: hosts,
                    properties: hdfs::PROPERTIES.to_vec(),
                    hosts: network.hosts()[1..].to_vec(),
                    parent: Some(data_directory()),
                    ..Options::default()
                })?;
                Servers::Hdfs(Box::new(cluster), network)
            }
        };
        let network = servers.network();
        // Programs need this on all hosts.
        let mut environment = vec![("HOME", dir.display().to_string())];
        match &servers {
            Servers::Kadoop(rack) => {
                environment.push(("STRAIT_KADOOP_KEY", rack.client_key().display().to_string()));
                environment.push(("STRAIT_STORE", rack.uri()));
                environment.push(("STRAIT_USER", "kadoop".to_owned()));
            }
            Servers::Hdfs(cluster, _) => {
                environment.push(("HADOOP_CONF_DIR", cluster.configuration().display().to_string()));
                environment.push(("STRAIT_STORE", cluster.uri().to_owned()));
            }
        }
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
        Ok(Self { system, environment, _daemons: daemons, servers, directory })
    }

    fn uri(&self) -> String {
        match &self.servers {
            Servers::Kadoop(rack) => rack.uri(),
            Servers::Hdfs(cluster, _) => cluster.uri().to_owned(),
        }
    }

    /// Stores files in a directory, one replica each, and writes lists of their paths and URIs.
    pub fn put(&self, files: &[PathBuf], directory: &str) -> Result<()> {
        let uri = format!("{}{directory}", self.uri());
        output(self.here(&strait()?).args(["mkdir", &uri]))?;
        let put = ["put", "--replication", "1"];
        // Many files are many words.
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

    /// Bytes that the data hosts have sent over their links.
    pub fn sent_by_data_hosts(&self) -> Result<f64> {
        let mut sent = 0.0;
        for host in &self.servers.network().hosts()[FIRST_DATANODE..] {
            let table = host.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
            let line = table.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
            let bytes =
                line.and_then(|line| line.split_whitespace().nth(8)).ok_or("no eth0 on a data host")?;
            sent += bytes.parse::<f64>()?;
        }
        Ok(sent)
    }
}

impl Servers {
    fn network(&self) -> &Network {
        match self {
            Self::Kadoop(rack) => &rack.network,
            Self::Hdfs(_, network) => network,
        }
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
    // Where sshd separates privileges; it is there already, or can't be made.
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
