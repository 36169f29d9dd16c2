//! C programs by TLS, a cluster's key and AUTH_SYS, with the options of both ends.

use crate::common::{cc, here, run, with_library};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use strait_testkit::Authority;

#[test]
fn a_c_caller_needs_tls_and_the_key_and_is_known_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new().unwrap();
    let issued = authority.issue(directory.path()).unwrap();
    let authorities = authority.write(directory.path()).unwrap();
    run(with_library(cc(directory.path()).arg(here().join("tests/secured.c")), "secured"));
    let program = directory.path().join("secured");
    let mut callee = Command::new(&program);
    callee.arg("serve").arg(issued.certificate).arg(issued.key).stdout(Stdio::piped());
    let mut callee = callee.spawn().unwrap();
    let mut port = String::new();
    BufReader::new(callee.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let address = format!("127.0.0.1:{}", port.trim());
    let told = Command::new(&program).args(["call", &address]).arg(authorities).output().unwrap();
    callee.kill().unwrap();
    callee.wait().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
}
