//! A client of libtirpc that batches calls, at a server of FlexRPC in C.

use crate::common::{cc, here, run, with_library};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn batched_calls_get_no_replies_and_all_are_executed() {
    let (directory, source) = (tempfile::tempdir().unwrap(), here().join("tests/batched.c"));
    run(with_library(cc(directory.path()).arg("-DCALLEE").arg(&source), "callee"));
    run(cc(directory.path())
        .args(["-I", "/usr/include/tirpc"])
        .arg(&source)
        .args(["-ltirpc", "-o", "caller"]));
    let mut callee = Command::new(directory.path().join("callee"));
    let mut callee = callee.stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(callee.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let called = Command::new(directory.path().join("caller")).arg(port.trim()).output().unwrap();
    callee.kill().and_then(|()| callee.wait()).unwrap();
    assert!(called.status.success(), "{}: {}", called.status, String::from_utf8_lossy(&called.stderr));
}
