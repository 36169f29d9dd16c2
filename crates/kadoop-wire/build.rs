//! Compiles Kadoop's interface.

fn main() -> Result<(), String> {
    frpcgen::compile("../../idl/kadoop.x").map_err(|error| format!("\n{error}"))
}
