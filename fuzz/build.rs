//! Compiles what frpcgen writes in C, for the target `c_stubs`: with counters of coverage, and under the
//! address and undefined-behaviour sanitizers. Other targets don't link it.

use frpcgen::{Builder, Output, Style};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Three interfaces: one with every type of the language, one with types whose messages may hurt a callee
/// that believes them, and a large one.
const INTERFACES: [&str; 3] =
    ["../tests/idl/idl/types.x", "../crates/libflexrpc/tests/hostile.x", "../idl/nfs3.x"];

const SANITIZERS: &str = "-fsanitize=address,undefined";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // The counters' own code has none: it would call itself.
    let (mut stubs, mut harness) = (compiler(&out), compiler(&out));
    stubs.flag("-fsanitize-coverage=trace-pc,trace-cmp");
    harness.file("c/harness.c");
    let mut table = String::new();
    for file in INTERFACES.map(Path::new) {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.file_stem().ok_or("an interface without a name")?.to_string_lossy();
        let code = |output| Builder::default().generate_c(file, output, Style::default());
        let (header, routines) = (code(Output::Header)?, out.join(format!("{name}_xdr.c")));
        fs::write(&routines, code(Output::Xdr)?)?;
        stubs.file(&routines);
        writeln!(table, "#include \"{name}.h\"")?;
        fs::write(out.join(format!("{name}.h")), &header)?;
        let declared = header.lines().filter_map(|line| line.strip_prefix("extern bool_t xdr_"));
        let types: Vec<_> = declared.filter_map(|line| line.split_once('(')).map(|(name, _)| name).collect();
        let lines: Vec<_> = types.iter().map(|name| format!("TYPE({name})")).collect();
        fs::write(out.join(format!("{name}.inc")), lines.join("\n"))?;
    }
    fs::write(out.join("headers.inc"), table)?;
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=../crates/libflexrpc/include/flexrpc.h");
    stubs.try_compile("c_stubs")?;
    harness.try_compile("c_harness")?;
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-arg-bin=c_stubs=-Wl,--wrap=__sanitizer_cov_trace_pc");
    Ok(())
}

fn compiler(out: &Path) -> cc::Build {
    let mut compiler = cc::Build::new();
    // The target itself names the libraries to link, since only it needs them.
    compiler.cargo_metadata(false).include(out).include("../crates/libflexrpc/include");
    compiler.flag("-fsigned-char").flag("-g").flag("-O1").flag(SANITIZERS).flag("-fno-sanitize-recover=all");
    compiler.warnings_into_errors(true);
    compiler
}
