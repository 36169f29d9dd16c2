//! A program's URIs load no library that the environment doesn't list.

use crate::common::{compiled, library_in, run, sources};
use std::process::Command;

#[test]
fn a_store_loads_no_library_that_the_environment_doesnt_list() {
    let directory = tempfile::tempdir().unwrap();
    let (library, mark) = (directory.path().join("loaded.so"), directory.path().join("mark"));
    let source = sources().join("../store-any/tests/loaded.c");
    let define = format!("-DMARK=\"{}\"", mark.display());
    run(Command::new("cc").args(["-shared", "-fPIC", &define, "-o"]).arg(&library).arg(source));
    let lib = library_in(directory.path());
    let program = compiled(directory.path(), "libraries", &sources().join("include"), &lib);
    let name = format!("libhdfs:{}!hdfs://nn/", library.display());
    let refused = || {
        let mut program = Command::new(&program);
        program.arg(&name).env("LD_LIBRARY_PATH", &lib);
        for variable in ["STRAIT_LIBRARIES", "STRAIT_STORE", "HADOOP_CONF_DIR", "HADOOP_HOME", "CLASSPATH"] {
            program.env_remove(variable);
        }
        program
    };
    let told = refused().output().unwrap();
    let text = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success() && text.contains("STRAIT_LIBRARIES"), "{told:?}");
    run(refused().env("STRAIT_STORE", &name));
    run(refused().env("STRAIT_LIBRARIES", directory.path().join("other.so")));
    assert!(!mark.exists(), "a refused library was loaded");
    // The program then gets the loader's error: the library lacks the functions of hdfs.h.
    run(refused().env("STRAIT_LIBRARIES", &library));
    assert!(mark.exists(), "an allowed library wasn't loaded");
}
