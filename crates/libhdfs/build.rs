//! Gives the library the name that programs built against Hadoop's own look for, and keeps it loaded
//! after dlclose(3): its threads live as long as the process.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhdfs.so.0.0.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A dependency has C functions of its own. Programs get the header's functions only.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
