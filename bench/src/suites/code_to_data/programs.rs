//! Builds the C++ program that pulls files, our libhdfs, and Hadoop's own.

use crate::Result;
use crate::host::seconds;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Paths of the built programs and libraries.
pub struct Programs {
    /// The C++ program, which finds our libhdfs without variables.
    pub program: PathBuf,
    /// The directories of Hadoop's libhdfs and of the JVM's library, for `LD_LIBRARY_PATH`.
    pub jni: String,
}

impl Programs {
    /// Builds the programs that have changed.
    pub fn build() -> Result<Self> {
        eprintln!("building the programs to measure");
        let release = std::env::current_exe()?.with_file_name("");
        let target = release.join("../bench/code-to-data");
        std::fs::create_dir_all(&target)?;
        let target = target.canonicalize()?;
        seconds(Command::new("cargo").args(["build", "--quiet", "--release", "--locked", "-p", "libhdfs"]))?;
        let ours = target.join("ours");
        std::fs::create_dir_all(&ours)?;
        for name in ["libhdfs.so", "libhdfs.so.0.0.0"] {
            std::fs::copy(release.join("libhdfs.so"), ours.join(name))?;
        }
        let program = target.join("md5_of_files");
        seconds(
            Command::new("g++")
                .args(["-std=c++17", "-O2", "-Wall", "-I", "crates/libhdfs/include", "-o"])
                .arg(&program)
                .arg("bench/clients/md5_of_files.cpp")
                .arg("-L")
                .arg(&ours)
                // With RUNPATH instead of RPATH, LD_LIBRARY_PATH has precedence.
                .args(["-lhdfs", "-Wl,--enable-new-dtags"])
                .arg(format!("-Wl,-rpath,{}", ours.display())),
        )?;
        let java = PathBuf::from(crate::programs::java_home()?);
        let theirs = jni(&target, &java)?;
        let jni = format!("{}:{}", theirs.display(), java.join("lib/server").display());
        Ok(Self { program, jni })
    }
}

/// Builds Hadoop's own libhdfs from the sources that the crate hdfs-sys carries.
fn jni(target: &Path, java: &Path) -> Result<PathBuf> {
    let metadata = super::output(
        Command::new("cargo")
            .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
            .arg("bench/peers/Cargo.toml"),
    )?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    let package = packages.iter().find(|package| package["name"] == "hdfs-sys").ok_or("no hdfs-sys")?;
    let manifest = Path::new(package["manifest_path"].as_str().ok_or("no manifest of hdfs-sys")?);
    let all = manifest.with_file_name("libhdfs");
    let (version, lib) = (all.join("hdfs_3_3"), target.join("jni"));
    std::fs::create_dir_all(&lib)?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-O2", "-fcommon", "-Wl,-soname,libhdfs.so.0.0.0", "-o"]);
    cc.arg(lib.join("libhdfs.so.0.0.0"));
    for include in [&all, &version, &version.join("include"), &version.join("os/posix"), &version.join("os")]
    {
        cc.arg("-I").arg(include);
    }
    cc.arg("-I").arg(java.join("include")).arg("-I").arg(java.join("include/linux"));
    for file in ["exception", "hdfs", "jclasses", "jni_helper", "os/posix/mutexes", "os/posix/thread"] {
        cc.arg(version.join(file).with_extension("c"));
    }
    cc.arg(version.join("os/posix/thread_local_storage.c"));
    seconds(cc.arg("-L").arg(java.join("lib/server")).arg("-ljvm"))?;
    Ok(lib)
}
