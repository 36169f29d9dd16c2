//! `make install-flexrpc` installs files by which pkg-config and CMake find the library.

use crate::common::{here, library_directory, run};
use std::fs;
use std::process::Command;

const PROGRAM: &str = "#include <flexrpc.h>\nint main(void)\n{\n\treturn frpc_createhandle(\"127.0.0.1:1\", 1, 1, \"tcp\") == NULL;\n}\n";

const LISTS: &str = "cmake_minimum_required(VERSION 3.16)\nproject(user C)\nfind_package(flexrpc REQUIRED)\n\
    add_executable(user user.c)\ntarget_link_libraries(user flexrpc::flexrpc)\n";

#[test]
fn an_installed_library_is_found_by_pkg_config_and_cmake() {
    let directory = tempfile::tempdir().unwrap();
    let (prefix, user) = (directory.path().join("prefix"), directory.path().join("user"));
    let script = here().join("../../scripts/install-flexrpc.sh");
    // cargo puts this build's library beside the tests.
    run(Command::new(script).arg(&prefix).env("FLEXRPC_BUILT", library_directory()).env_remove("DESTDIR"));
    fs::create_dir(&user).unwrap();
    fs::write(user.join("user.c"), PROGRAM).unwrap();
    fs::write(user.join("CMakeLists.txt"), LISTS).unwrap();
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(["--cflags", "--libs", "flexrpc"]);
    let flags = String::from_utf8(run(&mut pkg_config)).unwrap();
    run(Command::new("cc")
        .current_dir(&user)
        .arg("user.c")
        .args(flags.split_whitespace())
        .args(["-o", "by_hand"]));
    run(Command::new(user.join("by_hand")).env("LD_LIBRARY_PATH", prefix.join("lib")));
    let found = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run(Command::new("cmake").current_dir(&user).args(["-S", ".", "-B", "built", &found]));
    run(Command::new("cmake").current_dir(&user).args(["--build", "built"]));
    run(&mut Command::new(user.join("built/user")));
}
