//! The library as programs find it: installed into a directory, beside Hadoop's own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where cargo puts the library for tests: beside this program.
pub fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("libhdfs.so")
}

/// This crate's directory.
pub fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that must succeed, and returns its standard output.
pub fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&stderr);
    let said = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{said}\n{told}");
    said
}

/// A directory with the library under both of its names, as `lib` of an installation has it.
pub fn library_in(directory: &Path) -> PathBuf {
    let lib = directory.join("ours");
    std::fs::create_dir_all(&lib).unwrap();
    std::os::unix::fs::symlink(built(), lib.join("libhdfs.so.0.0.0")).unwrap();
    std::os::unix::fs::symlink("libhdfs.so.0.0.0", lib.join("libhdfs.so")).unwrap();
    lib
}

/// Compiles a C program of these tests against a header, and any libhdfs.
pub fn compiled(directory: &Path, name: &str, include: &Path, lib: &Path) -> PathBuf {
    let program = directory.join(name);
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-strict-prototypes", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(sources().join("tests").join(name).with_extension("c"))
        .arg("-I")
        .arg(include)
        .arg("-L")
        .arg(lib)
        // Hadoop's own wants libjvm.so, which the run finds.
        .args(["-lhdfs", "-Wl,--allow-shlib-undefined"]));
    program
}

/// Host and port of `hdfs://HOST:PORT`.
pub fn host_and_port(uri: &str) -> (&str, &str) {
    uri.strip_prefix("hdfs://").and_then(|rest| rest.rsplit_once(':')).unwrap()
}
