//! Sets the soname of Hadoop's library, so that programs built against that library load this one. Keeps the
//! library loaded after dlclose(3), since its threads live as long as the process.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhdfs.so.0.0.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Export only the header's functions, and not the C functions of dependencies.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
