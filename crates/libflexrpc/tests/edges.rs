//! A callee whose procedure has a large argument, and a caller that uses its handles to the very end.

use crate::common::{cc, here, run, with_library};
use frpcgen::{Builder, Output, Style};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn large_arguments_fit_the_stack_and_handles_work_until_their_thread_and_the_process_end() {
    let directory = tempfile::tempdir().unwrap();
    let (place, tests) = (directory.path(), here().join("tests"));
    for output in [Output::Header, Output::Xdr, Output::Client, Output::Server] {
        let code = Builder::default().generate_c(tests.join("large.x"), output, Style::default()).unwrap();
        fs::write(place.join(output.file_name("large")), code).unwrap();
    }
    for (program, source, part) in
        [("callee", "large.c", "large_svc.c"), ("caller", "ending.c", "large_clnt.c")]
    {
        run(with_library(cc(place).arg(tests.join(source)).args([part, "large_xdr.c"]), program));
    }
    let mut callee = Command::new(place.join("callee"));
    let mut callee = callee.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(callee.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let address = format!("127.0.0.1:{}", port.trim());
    let called = Command::new(place.join("caller")).arg(address).output().unwrap();
    callee.kill().and_then(|()| callee.wait()).unwrap();
    assert!(called.status.success(), "{}: {}", called.status, String::from_utf8_lossy(&called.stderr));
}
