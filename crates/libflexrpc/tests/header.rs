//! Parts of the header that the other C programs don't use: rarer options, outcomes and routines.

use crate::common::{cc, here, run, with_library};
use std::process::Command;

/// Compiles one of this directory's programs with sanitizers, and runs it.
fn runs(program: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mut compiler = cc(directory.path());
    compiler.args(["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread"]);
    compiler.arg(here().join(format!("tests/{program}.c")));
    run(with_library(&mut compiler, program));
    run(&mut Command::new(directory.path().join(program)));
}

#[test]
fn options_change_what_they_name_and_each_outcome_has_its_number() {
    runs("options");
}

#[test]
fn it_compiles_in_each_standards_own_mode() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program.c");
    std::fs::write(&program, "#include <flexrpc.h>\nint main(void) { return 0; }\n").unwrap();
    for standard in ["c99", "c11", "c17", "gnu11"] {
        let mut compiler = cc(directory.path());
        compiler.args([&format!("-std={standard}"), "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        run(compiler.arg(&program));
    }
}

#[test]
fn rarer_routines_write_and_read_the_same_values() {
    runs("routines");
}
