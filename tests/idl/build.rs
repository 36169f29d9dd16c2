//! Compiles the interfaces that the tests use.

use frpcgen::Builder;

fn main() -> Result<(), String> {
    for name in ["types", "counter", "kv", "files", "portmap", "monitor", "habits", "ledger", "versions"] {
        Builder::default()
            .include_dir("idl")
            .compile(format!("idl/{name}.x"))
            .map_err(|error| format!("\n{error}"))?;
    }
    Ok(())
}
