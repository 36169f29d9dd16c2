//! `make install-libstrait` installs files for pkg-config and CMake, and programs are built with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"#include <fcntl.h>
#include <stdio.h>
#include <strait.h>
int main(int argc, char **argv)
{
	char read[6] = "";
	strait_plfs *file = argc == 2 ? strait_plfs_open(argv[1], O_RDWR | O_CREAT, 0600, 1) : NULL;
	if (file == NULL || strait_plfs_pwrite(file, "hello", 5, 0) != 5 || strait_plfs_pread(file, read, 5, 0) != 5)
		return 1;
	puts(read);
	return strait_plfs_close(file) != 0;
}
"#;

const LISTS: &str = "cmake_minimum_required(VERSION 3.16)\nproject(user C)\nfind_package(libstrait REQUIRED)\n\
    add_executable(user user.c)\ntarget_link_libraries(user libstrait::libstrait)\n";

/// Where cargo puts the library for tests: beside this program.
fn library_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Runs a command, and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {told}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_installed_library_is_found_by_pkg_config_and_cmake() {
    let directory = tempfile::tempdir().unwrap();
    let (prefix, user) = (directory.path().join("prefix"), directory.path().join("user"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-libstrait.sh");
    let mut install = Command::new(script);
    install.arg(&prefix).env("LIBSTRAIT_BUILT", library_directory());
    run(install.env_remove("DESTDIR").env_remove("MPICC"));
    fs::create_dir(&user).unwrap();
    fs::write(user.join("user.c"), PROGRAM).unwrap();
    fs::write(user.join("CMakeLists.txt"), LISTS).unwrap();
    let uri = |name: &str| format!("file://{}/{name}", user.display());
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(["--cflags", "--libs", "libstrait"]);
    let flags = run(&mut pkg_config);
    run(Command::new("cc")
        .current_dir(&user)
        .arg("user.c")
        .args(flags.split_whitespace())
        .args(["-o", "by_hand"]));
    let mut by_hand = Command::new(user.join("by_hand"));
    by_hand.env("LD_LIBRARY_PATH", prefix.join("lib")).arg(uri("one"));
    assert_eq!(run(&mut by_hand), "hello\n");
    // It takes the command's variables, so it also says when one is wrong.
    assert!(!by_hand.env("STRAIT_TIMEOUT", "soon").status().unwrap().success());
    let found = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run(Command::new("cmake").current_dir(&user).args(["-S", ".", "-B", "built", &found]));
    run(Command::new("cmake").current_dir(&user).args(["--build", "built"]));
    assert_eq!(run(Command::new(user.join("built/user")).arg(uri("two"))), "hello\n");
}
