//! The library as C programs use it: its header, compiled and linked.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts the library for tests: beside this program.
fn library_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {told}", output.status);
    assert_eq!(told, "");
}

#[test]
fn forked_writers_make_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let (program, sources) = (dir.path().join("many_writers"), Path::new(env!("CARGO_MANIFEST_DIR")));
    let libraries = library_directory();
    run(Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        // Valgrind doesn't know openat2, which a directory store needs.
        .args(["-g", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o"])
        .arg(&program)
        .arg(sources.join("tests/many_writers.c"))
        .arg("-I")
        .arg(sources.join("include"))
        .arg("-L")
        .arg(&libraries)
        .arg("-lstrait"));
    let uri = |name: &str| format!("file://{}/{name}", dir.path().display());
    run(Command::new(&program)
        .env("LD_LIBRARY_PATH", &libraries)
        .env("ASAN_OPTIONS", "detect_leaks=0") // the process's runtime lives as long as it does
        .args([uri("logical"), uri("plain")]));
    let plain = std::fs::read(dir.path().join("plain")).unwrap();
    assert_eq!(plain, b"aaaaaaaaaapa");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(dir.path().join("plain")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
}
