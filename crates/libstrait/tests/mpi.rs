//! The MPI-IO library, as `make install-libstrait MPICC=…` builds it, under a program that doesn't know it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts the library for tests: beside this program.
fn library_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/setup.sh test installs it"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {told}", output.status);
}

/// Installs the library into `directory`, and returns it and a program of ranks.
fn installed(directory: &Path) -> (PathBuf, PathBuf) {
    let (prefix, program) = (directory.join("prefix"), directory.join("ranks"));
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut install = Command::new(room.join("../../scripts/install-libstrait.sh"));
    install.arg(&prefix).env("LIBSTRAIT_BUILT", library_directory()).env("MPICC", "mpicc.mpich");
    run(install.env_remove("DESTDIR"));
    run(Command::new("mpicc.mpich").arg("-o").arg(&program).arg(room.join("tests/mpi/ranks.c")));
    (prefix.join("lib/libstrait_mpi.so"), program)
}

#[test]
fn ranks_write_one_file_by_mpi_io() {
    let directory = tempfile::tempdir().unwrap();
    let (library, program) = installed(directory.path());
    let (logical, plain) = (directory.path().join("logical"), directory.path().join("plain"));
    run(Command::new("mpirun.mpich")
        .args(["-n", "2", "-genv", "LD_PRELOAD"])
        .arg(library)
        .arg(&program)
        .arg(format!("strait:file://{}", logical.display()))
        .arg(&plain));
    assert_eq!(fs::read(plain).unwrap(), b"ab");
    assert!(logical.is_dir(), "a container");
}

#[test]
fn a_files_name_loads_no_library() {
    let directory = tempfile::tempdir().unwrap();
    let (shim, program) = installed(directory.path());
    let (library, mark) = (directory.path().join("loaded.so"), directory.path().join("mark"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store-any/tests/loaded.c");
    let define = format!("-DMARK=\"{}\"", mark.display());
    run(Command::new("cc").args(["-shared", "-fPIC", &define, "-o"]).arg(&library).arg(source));
    let refused = Command::new("mpirun.mpich")
        .args(["-n", "1", "-genv", "LD_PRELOAD"])
        .arg(shim)
        .arg(&program)
        .arg(format!("strait:libhdfs:{}!hdfs://nn/f", library.display()))
        .arg(directory.path().join("plain"))
        .env_remove("STRAIT_LIBRARIES")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("STRAIT_LIBRARIES"), "{told}");
    assert!(!mark.exists(), "the library was loaded");
}
