//! The library as C programs use it: its header, compiled and linked.

use crate::common::{library_directory, run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn compiled(directory: &Path) -> PathBuf {
    let (program, sources) = (directory.join("end_to_end"), Path::new(env!("CARGO_MANIFEST_DIR")));
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-o"])
        .arg(&program)
        .arg(sources.join("tests/end_to_end.c"))
        .arg("-I")
        .arg(sources.join("include"))
        .arg("-L")
        .arg(library_directory())
        .arg("-lflexrpc"));
    program
}

/// Most memory of a callee, after any number of calls: 64 MiB.
const MOST_RESIDENT_KIB: u64 = 64 << 10;

/// Memory that a process has, in KiB.
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A C callee, until it is dropped.
struct Callee(Child, String);

impl Callee {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .arg("serve")
            .env("LD_LIBRARY_PATH", library_directory())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self(child, format!("127.0.0.1:{}", port.trim()))
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program, under valgrind if `FLEXRPC_VALGRIND` is set. The client that handles share lives as long
/// as the process; valgrind calls its tables possibly lost.
fn caller(program: &Path) -> Command {
    if std::env::var_os("FLEXRPC_VALGRIND").is_none() {
        return Command::new(program);
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ]);
    valgrind.arg(program);
    valgrind
}

#[test]
fn c_programs_call_one_callee_and_three_in_both_patterns() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path());
    let callees = [(); 3].map(|()| Callee::start(&program));
    let calls = std::env::var("FLEXRPC_C_CALLS").unwrap_or_else(|_| "10000".to_owned());
    run(caller(&program)
        .env("LD_LIBRARY_PATH", library_directory())
        .args(["call", &calls])
        .args(callees.iter().map(|callee| &callee.1)));
    for Callee(process, _) in &callees {
        let kib = resident_kib(process.id());
        assert!(kib < MOST_RESIDENT_KIB, "a callee has {kib} KiB after {calls} calls");
    }
}
