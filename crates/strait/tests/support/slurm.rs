//! A Slurm cluster of three nodes on loopback addresses, as Debian has it: slurmctld, slurmd, munge.

use crate::support::DEADLINE;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use strait_testkit::wait::wait_until;
use strait_testkit::{Process, free_port};
use tempfile::TempDir;

/// Names and addresses of its nodes.
pub const NODES: [(&str, &str); 3] = [("n1", "127.0.0.1"), ("n2", "127.0.0.2"), ("n3", "127.0.0.3")];

/// Serves until it is dropped. Needs root.
pub struct Slurm {
    dir: TempDir,
    _processes: Vec<Process>,
}

impl Slurm {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap();
        let nodes = NODES.map(|(name, address)| {
            let port = free_port();
            format!("NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs=2\n")
        });
        let text = format!(
            "ClusterName=strait\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nAuthType=auth/munge\n\
             AuthInfo=socket={path}/munge\nCredType=cred/munge\nStateSaveLocation={path}/state\n\
             SlurmdSpoolDir={path}/spool-%n\nSlurmctldPidFile={path}/slurmctld.pid\nSlurmdPidFile={path}/%n.pid\n\
             SlurmctldLogFile={path}/slurmctld.out\nSlurmdLogFile={path}/%n.out\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\nMpiDefault=none\nSlurmUser=root\n\
             SlurmdUser=root\nSlurmdParameters=config_overrides\nReturnToService=2\n{}\
             PartitionName=all Nodes=ALL Default=YES State=UP\n",
            free_port(),
            nodes.concat()
        );
        fs::write(dir.path().join("slurm.conf"), text).unwrap();
        fs::create_dir(dir.path().join("state")).unwrap();
        fs::write(dir.path().join("key"), [7; 1024]).unwrap();
        fs::set_permissions(dir.path().join("key"), fs::Permissions::from_mode(0o600)).unwrap();
        let file = |flag: &str, name: &str| format!("--{flag}={path}/{name}");
        let mut munged = Command::new("/usr/sbin/munged");
        munged.args(["--foreground", "--force"]).args([
            file("key-file", "key"),
            file("socket", "munge"),
            file("pid-file", "munge.pid"),
            file("log-file", "munge.out"),
            file("seed-file", "seed"),
        ]);
        let mut munged = Process::spawn("munged", munged, dir.path()).unwrap();
        munged.wait_ready(DEADLINE, || dir.path().join("munge").exists()).unwrap();
        let configuration = dir.path().join("slurm.conf");
        let daemon = |name: &str, program: &str, more: &[&str]| {
            let mut command = Command::new(program);
            command.args(["-D", "-f"]).arg(&configuration).args(more);
            Process::spawn(name, command, dir.path()).unwrap()
        };
        let mut processes = vec![daemon("slurmctld", "/usr/sbin/slurmctld", &[])];
        processes.extend(NODES.map(|(name, _)| daemon(name, "/usr/sbin/slurmd", &["-N", name])));
        for (process, (name, _)) in processes[1..].iter_mut().zip(NODES) {
            let is_idle =
                || !asked(&configuration, "sinfo", &["-h", "-N", "-t", "idle", "-n", name]).is_empty();
            process.wait_ready(DEADLINE, is_idle).unwrap_or_else(|late| {
                let controller = fs::read_to_string(dir.path().join("slurmctld.out"));
                panic!("{late}\nthe controller's log:\n{}", controller.unwrap_or_default())
            });
        }
        // The last one that ends.
        processes.push(munged);
        Self { dir, _processes: processes }
    }

    /// The file that `SLURM_CONF` names.
    pub fn configuration(&self) -> PathBuf {
        self.dir.path().join("slurm.conf")
    }

    /// The lines that one of Slurm's programs prints.
    pub fn ask(&self, program: &str, words: &[&str]) -> Vec<String> {
        asked(&self.configuration(), program, words)
    }
}

fn asked(configuration: &Path, program: &str, words: &[&str]) -> Vec<String> {
    let told = Command::new(program).args(words).env("SLURM_CONF", configuration).output().unwrap();
    String::from_utf8(told.stdout).unwrap().lines().map(str::to_owned).collect()
}

impl Drop for Slurm {
    /// While a job completes, its nodes' step daemons would outlive the daemons that they report to.
    fn drop(&mut self) {
        self.ask("scancel", &["--me"]);
        wait_until(DEADLINE, || self.ask("squeue", &["-h"]).is_empty());
    }
}
