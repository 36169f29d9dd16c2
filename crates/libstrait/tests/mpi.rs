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

#[test]
fn ranks_write_one_file_by_mpi_io() {
    let directory = tempfile::tempdir().unwrap();
    let (prefix, program) = (directory.path().join("prefix"), directory.path().join("ranks"));
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut install = Command::new(room.join("../../scripts/install-libstrait.sh"));
    install.arg(&prefix).env("LIBSTRAIT_BUILT", library_directory()).env("MPICC", "mpicc.mpich");
    run(install.env_remove("DESTDIR"));
    run(Command::new("mpicc.mpich").arg("-o").arg(&program).arg(room.join("tests/mpi/ranks.c")));
    let (logical, plain) = (directory.path().join("logical"), directory.path().join("plain"));
    run(Command::new("mpirun.mpich")
        .args(["-n", "2", "-genv", "LD_PRELOAD"])
        .arg(prefix.join("lib/libstrait_mpi.so"))
        .arg(&program)
        .arg(format!("strait:file://{}", logical.display()))
        .arg(&plain));
    assert_eq!(fs::read(plain).unwrap(), b"ab");
    assert!(logical.is_dir(), "a container");
}
