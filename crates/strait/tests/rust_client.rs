//! The Rust client beside those in other languages: the shared cases, faults, and the code of its page.

#[path = "../../client/examples/quick_start.rs"]
#[allow(dead_code)] // its `main`
mod quick_start;

use crate::support::Gateway;
use crate::support::cases;
use crate::support::faulty::{Fault, Faulty};
use crate::support::up::Up;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use strait_client::blocking::Client;
use strait_client::{CreateOptions, Options};
use strait_testkit::{MiniHdfs, current_user};

/// The client's time limit.
const TIMEOUT: Duration = Duration::from_secs(2);
/// A few times that, to allow for a loaded machine.
const LIMIT: Duration = Duration::from_secs(45);
/// Bytes of the file to read.
const FILE_BYTES: usize = 48 << 20;
/// Requests of a sequential read after which a blocking reader has a connection of its own.
const LONG_READ: usize = 30;

#[test]
fn the_shared_cases_pass_on_a_directory() {
    let gateway = Gateway::over_files();
    cases::run_all("file", &gateway.address, "/rust");
}

#[test]
fn the_shared_cases_pass_on_kadoop() {
    let cluster = Up::start();
    cases::run_all("kadoop", &cluster.address, "/rust");
}

/// On the cluster that the environment names.
#[test]
fn the_shared_cases_pass_on_hdfs() {
    if std::env::var_os("STRAIT_TEST_HDFS").is_none() {
        return strait_testkit::skip("the shared cases on hdfs", "STRAIT_TEST_HDFS");
    }
    let hdfs = MiniHdfs::start().unwrap();
    let flags = ["--store", hdfs.uri(), "--anonymous-user", &current_user()].map(str::to_owned);
    let gateway = Gateway::start(|_| flags.to_vec());
    cases::run_all("hdfs", &gateway.address, &hdfs.scratch("rust-client"));
}

#[test]
fn the_quick_start_prints_what_its_page_says() {
    let page = include_str!("../../client/README.md");
    let program = include_str!("../../client/examples/quick_start.rs");
    let program = program.split_once("\n\n").unwrap().1;
    assert!(page.contains(&format!("```rust,no_run\n{program}```")), "the page has another program");
    let expected = page.split_once("```text\n").unwrap().1.split_once("```").unwrap().0;
    let gateway = Gateway::over_files();
    let mut printed = Vec::new();
    quick_start::greet(&gateway.address, &mut printed).unwrap();
    assert_eq!(String::from_utf8(printed).unwrap(), expected);
}

/// Uses a client of a gateway that misbehaves after `good` calls of `method`, and checks the error.
#[track_caller]
fn each_fault_ends_in_time(
    (good, method): (usize, &'static str),
    path: &str,
    act: fn(&Client) -> std::io::Result<()>,
) {
    for fault in [Fault::Silence, Fault::HalfReply, Fault::Trickle, Fault::End] {
        let gateway = Gateway::over_files();
        std::fs::write(gateway.data().join("file"), vec![7; FILE_BYTES]).unwrap();
        let faulty = Faulty::after(good, &gateway.address, method, fault);
        let options = Options { timeout: Some(TIMEOUT), ..Options::default() };
        let client = Client::connect(&faulty.address, options).unwrap();
        let began = Instant::now();
        let error = act(&client).expect_err("the gateway misbehaved");
        assert!(began.elapsed() < LIMIT, "{fault:?} took {:?}: {error}", began.elapsed());
        assert!(faulty.has_misbehaved(), "{fault:?}: {error}");
        // An unknown outcome is an aborted connection.
        let kinds = match fault {
            Fault::End => [ErrorKind::HostUnreachable, ErrorKind::ConnectionAborted],
            _ => [ErrorKind::TimedOut, ErrorKind::ConnectionAborted],
        };
        assert!(kinds.contains(&error.kind()), "{fault:?}: {:?}: {error}", error.kind());
        assert!(error.to_string().contains(path), "{fault:?}: {error}");
    }
}

#[test]
fn a_question_to_a_failing_gateway_ends_in_time() {
    each_fault_ends_in_time((0, "getFileInfo"), "/file", |client| Ok(client.stat("/file").map(drop)?));
}

#[test]
fn a_stream_to_read_from_a_failing_gateway_ends_in_time() {
    each_fault_ends_in_time((0, "readRange"), "/file", |client| {
        client.open("/file")?.read_to_end(&mut Vec::new()).map(drop)
    });
}

/// The calls after those come over the reader's own connection.
#[test]
fn a_long_read_from_a_failing_gateway_ends_in_time() {
    each_fault_ends_in_time((LONG_READ, "readRange"), "/file", |client| {
        client.open("/file")?.read_to_end(&mut Vec::new()).map(drop)
    });
}

#[test]
fn a_stream_to_write_to_a_failing_gateway_ends_in_time() {
    each_fault_ends_in_time((0, "appendData"), "/new", |client| {
        let mut writer = client.create("/new", &CreateOptions::default())?;
        writer.write_all(&vec![7; 3 << 20])?;
        writer.close()
    });
}
