//! Keeps the C functions of dependencies out of the library's interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
