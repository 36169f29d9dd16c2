//! `strait run --launcher slurm` on a real Slurm cluster: a node for each of Kadoop's datanodes, and one that
//! holds nothing. `scripts/test-heavy.sh` runs it.

use crate::support::rack::Rack;
use crate::support::slurm::{NODES, Slurm};
use crate::support::{Run, binary, code};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Child, Command, Stdio};
use strait_testkit::spawn_bound;
use strait_testkit::wait::eventually;

const FILES: usize = 6;

struct Site {
    slurm: Slurm,
    rack: Rack,
}

impl Site {
    /// Files with their numbers, each on one of the first two nodes.
    fn start() -> Self {
        let slurm = Slurm::start();
        let rack = Rack::start(&[NODES[0].1, NODES[1].1]);
        for number in 0..FILES {
            let put = ["put", "--replication", "1", "-", &rack.uri(&format!("/{number}"))];
            rack.run(put, format!("{number}\n").as_bytes()).ok();
        }
        let site = Self { slurm, rack };
        // Kadoop chooses the nodes; each of the two shall hold a file.
        while site.node_of(1) == site.node_of(0) {
            let put = ["put", "-f", "--replication", "1", "-", &site.rack.uri("/1")];
            site.rack.run(put, b"1\n").ok();
        }
        site
    }

    fn command(&self, more: &[&str], command: &[&str]) -> Command {
        let mut strait = self.rack.command();
        strait.env("SLURM_CONF", self.slurm.configuration()).args(["run", "--launcher", "slurm"]);
        strait.args(more).arg(self.rack.uri("/[0-9]")).arg("--").args(command);
        strait
    }

    /// Runs a command with this build on the nodes.
    fn run(&self, more: &[&str], command: &[&str]) -> Run {
        Run::of(self.command(&[&INSTALLED[..], &[binary().to_str().unwrap()], more].concat(), command), b"")
    }

    /// Begins one.
    fn begin(&self, command: &[&str]) -> Child {
        let mut command = self.command(&[INSTALLED[0], binary().to_str().unwrap()], command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        spawn_bound(command).unwrap()
    }

    /// The node of the host that holds this file.
    fn node_of(&self, number: usize) -> &'static str {
        let located = self.rack.run(["locate", &self.rack.uri(&format!("/{number}"))], b"");
        let address = located.text().trim_end().rsplit('\t').next().unwrap().to_owned();
        NODES.iter().find(|(_, of_node)| *of_node == address).unwrap().0
    }

    fn queue(&self) -> Vec<String> {
        self.slurm.ask("squeue", &["-h"])
    }
}

const INSTALLED: [&str; 1] = ["--remote-strait"];
/// Prints the input, and the node.
const NODE: [&str; 3] = ["sh", "-c", "read x; echo $x $SLURMD_NODENAME"];

#[test]
#[ignore = "scripts/test-heavy.sh runs it, with Slurm installed"]
fn commands_run_on_the_nodes_that_hold_their_files() {
    let site = Site::start();
    let expected: String = (0..FILES).map(|number| format!("{number} {}\n", site.node_of(number))).collect();
    let log = site.rack.dir.path().join("log");
    let ran = site.run(&["--joblog", log.to_str().unwrap()], &NODE);
    assert_eq!((ran.text(), ran.stderr.as_str()), (expected.as_str(), ""));
    let rows = fs::read_to_string(log).unwrap();
    assert!(
        rows.lines().skip(1).all(|row| ["n1", "n2"].contains(&row.split('\t').nth(1).unwrap())),
        "{rows}"
    );
    eventually("no job is left", || site.queue().is_empty());

    // The user's nodes, also one that holds none of the files.
    let elsewhere = site.run(&["--host", "n3"], &NODE);
    let expected: String = (0..FILES).map(|number| format!("{number} n3\n")).collect();
    assert_eq!(elsewhere.text(), expected);

    // Within an allocation, and by its nodes alone.
    let mut allocated = Command::new("salloc");
    allocated.args(["--quiet", "--nodelist=n2"]).arg(binary());
    let inside = site.command(&[INSTALLED[0], binary().to_str().unwrap()], &NODE);
    allocated.args(inside.get_args()).current_dir(site.rack.dir.path());
    allocated.envs(inside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Run::of(allocated, b"");
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(told.lines().all(|line| line.ends_with(" n2")), "{told}");
    assert_eq!((ran.code, told.lines().count()), (0, FILES), "{}", ran.stderr);

    let refused = site.run(&["--host", "n9"], &NODE);
    assert!(refused.code != 0 && refused.stderr.contains("n9"), "{}", refused.stderr);
}

#[test]
#[ignore = "scripts/test-heavy.sh runs it, with Slurm installed"]
fn a_node_that_lacks_the_program_and_shipped_files_gets_them() {
    let site = Site::start();
    let tool = site.rack.dir.path().join("tool");
    fs::write(&tool, "#!/bin/sh\nread x; echo \"<$x>\"\n").unwrap();
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ran = Run::of(site.command(&["--ship", tool.to_str().unwrap()], &["./tool"]), b"");
    let expected: String = (0..FILES).map(|number| format!("<{number}>\n")).collect();
    assert_eq!(ran.text(), expected);
    // Both nodes have the same home here.
    let cache = site.rack.dir.path().join(".cache/strait/run");
    assert_eq!(fs::read_dir(cache).unwrap().count(), 1);
}

#[test]
#[ignore = "scripts/test-heavy.sh runs it, with Slurm installed"]
fn a_cancelled_jobs_commands_run_elsewhere_and_print_once() {
    let site = Site::start();
    let dir = site.rack.dir.path().display().to_string();
    let wait = format!(
        "read x; mkdir -p {dir}/at/$SLURMD_NODENAME; until [ -e {dir}/go ]; do sleep 0.05; done; echo $x"
    );
    let child = site.begin(&["sh", "-c", &wait]);
    eventually("both nodes work", || fs::read_dir(format!("{dir}/at")).is_ok_and(|nodes| nodes.count() == 2));
    site.slurm.ask("scancel", &["--nodelist=n1"]);
    eventually("one job is over", || site.queue().len() == 1);
    fs::write(format!("{dir}/go"), "").unwrap();
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    let expected: String = (0..FILES).map(|number| format!("{number}\n")).collect();
    assert_eq!(
        (code(ended.status), String::from_utf8_lossy(&ended.stdout).as_ref()),
        (0, &*expected),
        "{told}"
    );
    assert!(told.contains("n1") && told.contains("on other hosts"), "{told}");
}

#[test]
#[ignore = "scripts/test-heavy.sh runs it, with Slurm installed"]
fn an_interrupt_ends_all_commands_and_jobs() {
    let site = Site::start();
    let dir = site.rack.dir.path().display().to_string();
    let wait = format!("echo $$ >>{dir}/$SLURMD_NODENAME.pids; exec sleep 1000");
    let mut child = site.begin(&["sh", "-c", &wait]);
    let pids = || -> Vec<String> {
        let read = |node| fs::read_to_string(format!("{dir}/{node}.pids")).unwrap_or_default();
        ["n1", "n2"]
            .into_iter()
            .flat_map(|node| read(node).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    };
    eventually("both nodes work", || {
        ["n1", "n2"].iter().all(|node| fs::exists(format!("{dir}/{node}.pids")).unwrap()) && pids().len() > 1
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(code(child.wait().unwrap()), 130);
    eventually("all commands have ended", || {
        pids().iter().all(|pid| !fs::exists(format!("/proc/{pid}")).unwrap())
    });
    eventually("no job is left", || site.queue().is_empty());
}
