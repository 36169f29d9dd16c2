//! The C library beside the clients in other languages: the shared cases, faults, and the code of its page.

use crate::support::up::Up;
use crate::support::{self, Gateway};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use strait_testkit::{MiniHdfs, current_user, http_request, skip};
use tempfile::TempDir;

/// Without the requests and URIs that C programs can't make: the Rust client below this one runs them. Its
/// attempts are those of docs/client-protocol.md.
const OPTIONS: [&str; 3] = ["--no-requests", "--no-uris", "--attempts=10"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where cargo puts the library for tests: beside this program.
fn library_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{told}", String::from_utf8_lossy(&output.stdout));
    output
}

/// A program in C, with the library below `prefix`, as pkg-config says.
fn compiled(source: &Path, flags: &[&str], prefix: &Path) -> PathBuf {
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(["--cflags", "--libs", "libstrait"]);
    let library = String::from_utf8(ran(&mut pkg_config).stdout).unwrap();
    let program = prefix.join("program");
    ran(Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"])
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(library.split_whitespace()));
    program
}

/// The package, installed into an empty directory.
fn installed() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut install = Command::new(root().join("scripts/install-libstrait.sh"));
    install.arg(directory.path()).env("LIBSTRAIT_BUILT", library_directory());
    ran(install.env_remove("DESTDIR").env_remove("MPICC"));
    directory
}

fn the_shared_cases_pass(store: &str, address: &str) {
    let package = installed();
    let sanitized = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let driver = compiled(&root().join("crates/libstrait/tests/driver.c"), &sanitized, package.path());
    let python = root().join(".venv/bin/python");
    if !python.exists() {
        return skip("the shared cases in C", "Python's libraries in .venv");
    }
    let output = ran(Command::new(python)
        .arg(root().join("tests/languages/shared_cases.py"))
        .args(OPTIONS)
        .args([address, store, "-"])
        .arg(driver)
        .env("LD_LIBRARY_PATH", package.path().join("lib"))
        .env("STRAIT_BIN", support::binary())
        .env("ASAN_OPTIONS", "detect_leaks=0")); // the connections live as long as the process
    let told = String::from_utf8(output.stdout).unwrap();
    let summary = told.trim_end().lines().last().unwrap().replacen(" shared cases", " run", 1);
    // The harness doesn't capture this, and scripts/languages_table.py reads it.
    std::io::stderr().write_all(format!("conformance C {summary}\n").as_bytes()).unwrap();
}

#[test]
fn the_shared_cases_pass_on_a_directory() {
    the_shared_cases_pass("file", &Gateway::over_files().address);
}

#[test]
fn the_shared_cases_pass_on_kadoop() {
    the_shared_cases_pass("kadoop", &Up::start().address);
}

/// On the cluster that the environment names.
#[test]
fn the_shared_cases_pass_on_hdfs() {
    if std::env::var_os("STRAIT_TEST_HDFS").is_none() {
        return skip("the shared cases in C on hdfs", "STRAIT_TEST_HDFS");
    }
    let hdfs = MiniHdfs::start().unwrap();
    let flags = ["--store", hdfs.uri(), "--anonymous-user", &current_user()].map(str::to_owned);
    the_shared_cases_pass("hdfs", &Gateway::start(|_| flags.to_vec()).address);
}

#[test]
fn the_quick_start_prints_what_its_page_says() {
    let (gateway, package) = (Gateway::over_files(), installed());
    let page = include_str!("../../libstrait/README.md");
    let code = page.split_once("```c\n").unwrap().1.split_once("```").unwrap().0;
    let source = package.path().join("example.c");
    fs::write(&source, code.replace("127.0.0.1:9090", &gateway.address)).unwrap();
    let program = compiled(&source, &[], package.path());
    let output = ran(Command::new(program).env("LD_LIBRARY_PATH", package.path().join("lib")));
    let told = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.pop(), Some("NotFound: /example-c/missing"));
    lines.sort_unstable();
    assert_eq!(lines, ["       9 log", "  900000 numbers"]);
    assert_eq!(gateway.data().read_dir().unwrap().count(), 0);
}

/// In a store that trusts the name that a client gives.
#[test]
fn calls_act_as_the_user_that_the_environment_names() {
    let (hdfs, package) = (MiniHdfs::start().unwrap(), installed());
    let source = package.path().join("mkdirs.c");
    let code = "#include <strait.h>\nint main(int count, char **words) {\n    \
                return count != 2 || strait_mkdirs(words[1], 0755);\n}\n";
    fs::write(&source, code).unwrap();
    let program = compiled(&source, &[], package.path());
    let owned_by = |user: Option<&str>| {
        let dir = hdfs.scratch("c-user");
        let mut program = Command::new(&program);
        program.env("LD_LIBRARY_PATH", package.path().join("lib")).env_remove("STRAIT_USER");
        ran(program.arg(format!("{}{dir}", hdfs.uri())).envs(user.map(|user| ("STRAIT_USER", user))));
        let url = format!("/webhdfs/v1{dir}?op=GETFILESTATUS&user.name=alice");
        http_request("GET", hdfs.http_address(), &url).unwrap().body
    };
    assert!(owned_by(Some("bob")).contains("\"owner\":\"bob\""));
    assert!(owned_by(None).contains(&format!("\"owner\":\"{}\"", current_user())));
}
