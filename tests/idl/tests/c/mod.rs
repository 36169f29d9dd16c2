//! Programs in C, built from idl/types.x by the real rpcgen and the C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds tests/libtirpc/NAME.c with rpcgen's output for each of `parts`, which are an option
/// (`-c`, `-l`) and the file that it makes.
pub fn build(name: &str, parts: &[(&str, &str)]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // rpcgen refuses to overwrite a file.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory for the C program");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::copy(here.join("idl/types.x"), directory.join("types.x")).expect("the interface");
    for (option, file) in [("-h", "types.h")].iter().chain(parts) {
        run(&directory, "rpcgen", &[option, "-o", file, "types.x"]);
    }
    let source = here.join(format!("tests/libtirpc/{name}.c"));
    let source = source.to_str().expect("a path in UTF-8");
    // XDR's `char` is signed, C's isn't everywhere. For an array's items rpcgen writes `bool`,
    // which its headers don't define.
    let flags = ["-fsigned-char", "-Dbool=bool_t", "-w", "-I.", "-I/usr/include/tirpc", source];
    let files: Vec<&str> = parts.iter().map(|(_, file)| *file).collect();
    run(&directory, "cc", &[&flags[..], &files, &["-ltirpc", "-o", name]].concat());
    directory.join(name)
}

fn run(directory: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(directory).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}; scripts/setup.sh test installs it"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}
