//! A libhdfs that misbehaves, in this process.

use std::path::{Path, PathBuf};
use std::process::Command;
use strait_store::foreign::Foreign;
use strait_store::{ErrorKind, Principal};
use strait_store_abi::HdfsLibrary;

fn built(directory: &Path) -> PathBuf {
    let (sources, library) = (Path::new(env!("CARGO_MANIFEST_DIR")), directory.join("libmisbehaving.so"));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-shared", "-fPIC", "-pthread", "-I"]);
    cc.arg(sources.join("../libhdfs/include")).arg(sources.join("tests/misbehaving.c"));
    assert!(cc.arg("-o").arg(&library).status().unwrap().success());
    library
}

#[test]
fn a_thread_outlives_a_library_that_left_a_destructor_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let library = built(directory.path());
    let opened = std::thread::spawn(move || HdfsLibrary::open(&library, "hdfs://refuses", &[]).map(drop));
    // The thread's end calls the destructor.
    assert_eq!(opened.join().unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn names_that_lead_out_of_a_directory_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let library = HdfsLibrary::open(&built(directory.path()), "hdfs://host", &[]).unwrap();
    for path in ["/", "/empty"] {
        let refused = library.list(&Principal::new("ada"), path).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Internal, "{refused}");
    }
}

#[test]
fn bytes_that_a_library_didnt_write_are_zeros() {
    let directory = tempfile::tempdir().unwrap();
    let library = HdfsLibrary::open(&built(directory.path()), "hdfs://host", &[]).unwrap();
    let reader = library.open(&Principal::new("ada"), "/f").unwrap();
    // The allocator gives freed memory again.
    drop(vec![b'!'; 4096]);
    assert_eq!(reader.read(0, 4096).unwrap(), [0; 4096]);
}
