//! A plugin that misbehaves, in this process.

use std::path::{Path, PathBuf};
use std::process::Command;
use strait_store::foreign::Foreign;
use strait_store::{ErrorKind, Principal};
use strait_store_plugin::Plugin;

fn built(directory: &Path) -> PathBuf {
    let (sources, library) = (Path::new(env!("CARGO_MANIFEST_DIR")), directory.join("misbehaving.so"));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Wno-cast-function-type", "-shared", "-fPIC", "-pthread", "-I"]);
    cc.arg(sources.join("include")).arg(sources.join("tests/misbehaving.c")).arg("-o").arg(&library);
    assert!(cc.status().unwrap().success());
    library
}

#[test]
fn a_thread_outlives_a_plugin_that_left_a_destructor_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let library = built(directory.path());
    let opened = std::thread::spawn(move || Plugin::open(&library, "x://refuses", &[]).map(drop));
    // The thread's end calls the destructor.
    assert_eq!(opened.join().unwrap().unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn a_plugin_without_a_needed_function_closes_its_store() {
    let directory = tempfile::tempdir().unwrap();
    let closed = directory.path().join("closed");
    let options = [("closed".to_owned(), closed.to_str().unwrap().to_owned())];
    let refused = Plugin::open(&built(directory.path()), "x://lacks", &options).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert!(closed.exists());
}

#[test]
fn bytes_that_a_plugin_didnt_write_are_zeros() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::open(&built(directory.path()), "x://reads", &[]).unwrap();
    let reader = plugin.open(&Principal::new("ada"), "/f").unwrap();
    // The allocator gives freed memory again.
    drop(vec![b'!'; 4096]);
    assert_eq!(reader.read(0, 4096).unwrap(), [0; 4096]);
}
