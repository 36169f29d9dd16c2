//! The library as programs find it: installed into a directory, beside Hadoop's own.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where cargo puts the library for tests: beside this program.
pub fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("libhdfs.so")
}

/// This crate's directory.
pub fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that must succeed, and returns its standard output.
pub fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&stderr);
    let said = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{said}\n{told}");
    said
}

/// A directory with the library under both of its names, as `lib` of an installation has it.
pub fn library_in(directory: &Path) -> PathBuf {
    let lib = directory.join("ours");
    std::fs::create_dir_all(&lib).unwrap();
    std::os::unix::fs::symlink(built(), lib.join("libhdfs.so.0.0.0")).unwrap();
    std::os::unix::fs::symlink("libhdfs.so.0.0.0", lib.join("libhdfs.so")).unwrap();
    lib
}

/// Hadoop's own library: its header, its sources and, once built, itself.
pub struct Reference(PathBuf);

impl Reference {
    /// The sources, from the crate that carries them.
    pub fn find() -> Self {
        let manifest = sources().join("reference/Cargo.toml");
        let metadata = run(Command::new(env!("CARGO"))
            .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
            .arg(manifest));
        let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let package = packages.iter().find(|package| package["name"] == "hdfs-sys").unwrap();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        Self(manifest.parent().unwrap().join("libhdfs"))
    }

    /// The directory of its header.
    pub fn include(&self) -> PathBuf {
        self.0.join("hdfs_3_3/include/hdfs")
    }

    /// Builds it. Returns the directory of the library.
    pub fn build_in(&self, directory: &Path) -> PathBuf {
        let (lib, version) = (directory.join("jni"), self.0.join("hdfs_3_3"));
        std::fs::create_dir_all(&lib).unwrap();
        let java = java_home();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-w", "-O1", "-fcommon", "-Wl,-soname,libhdfs.so.0.0.0", "-o"])
            .arg(lib.join("libhdfs.so.0.0.0"));
        for include in [&self.0, &version, &version.join("include"), &version.join("os/posix")] {
            cc.arg("-I").arg(include);
        }
        cc.arg("-I").arg(version.join("os")).arg("-I").arg(java.join("include"));
        cc.arg("-I").arg(java.join("include/linux"));
        for file in ["exception", "hdfs", "jclasses", "jni_helper", "os/posix/mutexes", "os/posix/thread"] {
            cc.arg(version.join(file).with_extension("c"));
        }
        cc.arg(version.join("os/posix/thread_local_storage.c"));
        let server = java.join("lib/server");
        run(cc.arg("-L").arg(&server).arg(format!("-Wl,-rpath,{}", server.display())).arg("-ljvm"));
        lib
    }
}

/// The Java that `java` or JAVA_HOME means.
fn java_home() -> PathBuf {
    if let Some(home) = std::env::var_os("JAVA_HOME") {
        return home.into();
    }
    let told = Command::new("java").args(["-XshowSettings:properties", "-version"]).output().unwrap();
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    let home = told.lines().find_map(|line| line.trim().strip_prefix("java.home = "));
    PathBuf::from(home.expect("java tells its home"))
}

/// Compiles a C program of these tests against a header, and any libhdfs.
pub fn compiled(directory: &Path, name: &str, include: &Path, lib: &Path) -> PathBuf {
    let program = directory.join(name);
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-strict-prototypes", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(sources().join("tests").join(name).with_extension("c"))
        .arg("-I")
        .arg(include)
        .arg("-L")
        .arg(lib)
        // Hadoop's own wants libjvm.so, which the run finds.
        .args(["-lhdfs", "-Wl,--allow-shlib-undefined"]));
    program
}

/// Host and port of `hdfs://HOST:PORT`.
pub fn host_and_port(uri: &str) -> (&str, &str) {
    uri.strip_prefix("hdfs://").and_then(|rest| rest.rsplit_once(':')).unwrap()
}
