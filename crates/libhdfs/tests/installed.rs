//! The installation: programs find it by pkg-config, by CMake, and in place of a JVM.

use crate::common::{built, run, sources};
use std::path::{Path, PathBuf};
use std::process::Command;

fn install(prefix: &Path) {
    let script = sources().join("../../scripts/install-libhdfs.sh");
    run(Command::new(script).arg(prefix).args(["--stub-jvm", "--library"]).arg(built()));
}

/// A C program of one statement, which needs the library.
fn program(directory: &Path) -> PathBuf {
    let source = directory.join("program.c");
    let text = "#include <hdfs.h>\n#include <hdfs/hdfs.h>\n\
                int main(void) { return hdfsDisconnect(hdfsConnect(NULL, 0)); }\n";
    std::fs::write(&source, text).unwrap();
    source
}

#[test]
fn pkg_config_and_a_stub_jvm_serve_a_program_that_is_linked_with_both() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("prefix");
    install(&prefix);
    let flags = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "libhdfs"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    let (linked, jvm) = (directory.path().join("linked"), prefix.join("lib/libhdfs-jvm/lib/server"));
    run(Command::new("cc")
        .arg(program(directory.path()))
        .args(flags.split_whitespace())
        // As Hadoop's manual tells programs to.
        .arg("-L")
        .arg(&jvm)
        .args(["-Wl,--no-as-needed", "-ljvm", "-o"])
        .arg(&linked));
    let paths = std::env::join_paths([prefix.join("lib"), jvm]).unwrap();
    run(Command::new(linked).env("LD_LIBRARY_PATH", paths));
}

#[test]
fn cmake_finds_the_package() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("prefix");
    install(&prefix);
    program(directory.path());
    let lists = "cmake_minimum_required(VERSION 3.13)\nproject(program C)\n\
                 find_package(hdfs CONFIG REQUIRED)\nadd_executable(program program.c)\n\
                 target_link_libraries(program hdfs::hdfs)\n";
    std::fs::write(directory.path().join("CMakeLists.txt"), lists).unwrap();
    let build = directory.path().join("build");
    run(Command::new("cmake")
        .arg("-S")
        .arg(directory.path())
        .arg("-B")
        .arg(&build)
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    run(&mut Command::new(build.join("program")));
}
