//! Gives the library the name that programs built against Hadoop's own look for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhdfs.so.0.0.0");
}
