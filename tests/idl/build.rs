//! Compiles the interfaces that the tests use.

mod foreign;

use frpcgen::Builder;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), String> {
    for name in
        ["types", "counter", "kv", "files", "portmap", "monitor", "habits", "ledger", "versions", "borrowed"]
    {
        let builder = Builder::default().include_dir("idl");
        // They contain difficult names, and names without a definition, on purpose.
        let builder = if ["habits", "borrowed"].contains(&name) { builder.quiet() } else { builder };
        builder.compile(format!("idl/{name}.x")).map_err(|error| format!("\n{error}"))?;
    }
    let code = Builder::default().generate_from("deep.x", &deep()).map_err(|error| error.to_string())?.code;
    let output = env::var_os("OUT_DIR").map(PathBuf::from).ok_or("not in a build script")?;
    fs::write(output.join("deep.rs"), code).map_err(|error| error.to_string())?;
    println!("cargo::rerun-if-changed=foreign.rs");
    foreign::generate(&output)
}

/// Types that contain themselves, with more fields than a person would write.
fn deep() -> String {
    let fields = |count: u32, field: &str| (0..count).map(|n| format!("{field}{n}; ")).collect::<String>();
    format!(
        "struct switches {{ switches *below; {} }};\nstruct crossroads {{ {} }};\n",
        fields(450, "bool b"),
        fields(40, "crossroads *p"),
    )
}
