//! Both forms of `hdfsDelete`: that of Hadoop 0.20, which removes trees, and the later one.

use std::path::{Path, PathBuf};
use std::process::Command;
use strait_store::foreign::Foreign;
use strait_store::{ErrorKind, Principal};
use strait_store_abi::HdfsLibrary;

fn built(directory: &Path, arity: u32) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = directory.join(format!("lib{arity}.so"));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-shared", "-fPIC"]);
    cc.arg(format!("-DARITY={arity}")).arg("-I").arg(sources.join("../libhdfs/include"));
    assert!(cc.arg(sources.join("tests/arities.c")).arg("-o").arg(&library).status().unwrap().success());
    library
}

#[test]
fn a_directory_with_entries_stays_unless_the_remove_is_recursive() {
    let directory = tempfile::tempdir().unwrap();
    for arity in [2, 3] {
        let library = HdfsLibrary::open(&built(directory.path(), arity), "hdfs://nn:9000", &[]).unwrap();
        let who = Principal::new("ada");
        // The number of deletes, and whether the last one was recursive.
        let deletes = || library.status(&who).map(|status| (status.used, status.capacity == 1)).unwrap();
        let kept = library.remove(&who, "/full", false).unwrap_err();
        assert_eq!(kept.kind(), ErrorKind::NotEmpty, "{arity}: {kept}");
        assert_eq!(deletes().0, 0, "{arity}: the function of 0.20 would have removed the tree");
        library.remove(&who, "/empty", false).unwrap();
        assert_eq!(deletes(), (1, arity == 2), "{arity}: a later function gets `recursive` as 0");
        library.remove(&who, "/full", true).unwrap();
        assert_eq!(deletes(), (2, true), "{arity}");
        assert_eq!(library.stat(&who, "/full/f").unwrap_err().kind(), ErrorKind::NotFound, "{arity}");
    }
}
