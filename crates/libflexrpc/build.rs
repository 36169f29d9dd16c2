//! Gives the library its name for programs, with the number of its interface. Keeps the C functions of
//! dependencies out of that interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libflexrpc.so.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
