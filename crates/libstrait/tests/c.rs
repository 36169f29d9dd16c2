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

/// Compiles a program of these tests against the library.
fn compiled(name: &str, directory: &Path) -> PathBuf {
    let (program, sources) = (directory.join(name), Path::new(env!("CARGO_MANIFEST_DIR")));
    run(Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        // Valgrind doesn't know openat2, which a directory store needs.
        .args(["-g", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o"])
        .arg(&program)
        .arg(sources.join("tests").join(name).with_extension("c"))
        .arg("-I")
        .arg(sources.join("include"))
        .arg("-L")
        .arg(library_directory())
        .arg("-lstrait"));
    program
}

/// A program of these tests, ready to run.
fn program(compiled: &Path) -> Command {
    let mut program = Command::new(compiled);
    program.env("LD_LIBRARY_PATH", library_directory());
    program.env("ASAN_OPTIONS", "detect_leaks=0"); // the process's runtime lives as long as it does
    program
}

#[test]
fn forked_writers_make_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let uri = |name: &str| format!("file://{}/{name}", dir.path().display());
    run(program(&compiled("many_writers", dir.path())).args([uri("logical"), uri("plain")]));
    let plain = std::fs::read(dir.path().join("plain")).unwrap();
    assert_eq!(plain, b"aaaaaaaaaapa");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(dir.path().join("plain")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
}

#[test]
fn ordinary_files_follow_the_header() {
    let dir = tempfile::tempdir().unwrap();
    let (store, local) = (dir.path().join("store"), dir.path().join("local"));
    std::fs::create_dir(&store).unwrap();
    std::fs::create_dir(&local).unwrap();
    run(program(&compiled("files", dir.path())).arg(format!("file://{}", store.display())).arg(&local));
    let left = |directory| std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    for directory in [&store, &store.join("in"), &local] {
        assert!(left(directory).all(|name| !name.to_string_lossy().starts_with(".strait-")), "{directory:?}");
    }
}

#[test]
fn a_uri_loads_no_library_that_the_environment_doesnt_list() {
    let dir = tempfile::tempdir().unwrap();
    let (library, other) = (dir.path().join("loaded.so"), dir.path().join("other.so"));
    let (mark, refusal) = (dir.path().join("mark"), compiled("refusal", dir.path()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store-any/tests/loaded.c");
    let define = format!("-DMARK=\"{}\"", mark.display());
    run(Command::new("cc").args(["-shared", "-fPIC", &define, "-o"]).arg(&library).arg(source));
    let uris = ["a", "b"].map(|name| format!("libhdfs:{}!hdfs://nn/{name}", library.display()));
    let refused = || {
        let mut refusal = program(&refusal);
        refusal.args(&uris).env_remove("STRAIT_LIBRARIES");
        refusal
    };
    run(&mut refused());
    run(refused().env("STRAIT_LIBRARIES", other));
    run(refused().env("STRAIT_LIBRARIES", "loaded.so").current_dir(dir.path()));
    assert!(!mark.exists(), "a refused library was loaded");
    // The program then gets the loader's error: the library lacks the functions of hdfs.h.
    let allowed = refused().env("STRAIT_LIBRARIES", &library).output().unwrap();
    assert!(mark.exists(), "an allowed library wasn't loaded: {allowed:?}");
}
