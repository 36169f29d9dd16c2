//! Compiles the interfaces that the tests use.

use frpcgen::Builder;

fn main() -> Result<(), String> {
    for name in ["types", "counter", "kv", "files", "portmap", "monitor", "habits", "ledger", "versions"] {
        let builder = Builder::default().include_dir("idl");
        // It has hard names on purpose.
        let builder = if name == "habits" { builder.quiet() } else { builder };
        builder.compile(format!("idl/{name}.x")).map_err(|error| format!("\n{error}"))?;
    }
    Ok(())
}
