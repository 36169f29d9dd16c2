//! Compiles the interface.

fn main() -> Result<(), String> {
    frpcgen::compile("../../idl/nfs3.x").map_err(|error| format!("\n{error}"))
}
