//! Builds C programs on the library, as cargo has built it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts the library for tests: beside this program. Here it also has the name that programs ask for.
pub fn library_directory() -> PathBuf {
    let directory = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    match std::os::unix::fs::symlink("libflexrpc.so", directory.join("libflexrpc.so.0")) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => panic!("{error}"),
        _ => directory,
    }
}

/// This crate's directory.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a program that must succeed and print no warning. Returns its output.
pub fn run(command: &mut Command) -> Vec<u8> {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/setup.sh test installs it"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {told}", output.status);
    assert_eq!(told, "", "{command:?}");
    output.stdout
}

/// The C compiler with warnings as errors, in a directory, with flexrpc.h.
pub fn cc(directory: &Path) -> Command {
    let mut cc = Command::new("cc");
    cc.current_dir(directory).args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsigned-char", "-I."]);
    cc.arg("-I").arg(here().join("include"));
    cc
}

/// The end of a command that links with the library.
pub fn with_library<'c>(cc: &'c mut Command, program: &str) -> &'c mut Command {
    let library = library_directory();
    cc.args(["-o", program, "-L"])
        .arg(&library)
        .arg("-lflexrpc")
        .arg(format!("-Wl,-rpath,{}", library.display()))
}
