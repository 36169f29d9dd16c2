//! Hadoop's own libhdfs, from the sources that the crate `hdfs-sys` carries.

use crate::failure::{Failure, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory with libhdfs's header and sources.
#[derive(Debug)]
pub struct HadoopLibhdfs(PathBuf);

impl HadoopLibhdfs {
    /// Finds the sources, with cargo's help.
    ///
    /// # Errors
    /// cargo can't find or fetch the crate.
    pub fn find() -> Result<Self> {
        let manifest =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/libhdfs/reference/Cargo.toml");
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--locked", "--format-version", "1", "--manifest-path"]).arg(manifest);
        let metadata = String::from_utf8_lossy(&output(cargo)?).into_owned();
        let is_manifest = |word: &&str| word.ends_with("/Cargo.toml") && word.contains("/hdfs-sys-");
        let manifest = metadata.split('"').find(is_manifest).and_then(|path| Path::new(path).parent());
        let manifest = manifest.ok_or_else(|| Failure::new("cargo metadata names no package hdfs-sys"))?;
        Ok(Self(manifest.join("libhdfs")))
    }

    /// The directory of libhdfs's header.
    pub fn include(&self) -> PathBuf {
        self.0.join("hdfs_3_3/include/hdfs")
    }

    /// Builds `libhdfs.so.0.0.0` in a new directory below `directory`, and returns the new directory.
    ///
    /// # Errors
    /// There is no compiler, or no JDK.
    pub fn build_in(&self, directory: &Path) -> Result<PathBuf> {
        let (lib, version) = (directory.join("jni"), self.0.join("hdfs_3_3"));
        std::fs::create_dir_all(&lib)?;
        let java = java_home()?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-w", "-O2", "-fcommon", "-Wl,-soname,libhdfs.so.0.0.0", "-o"])
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
        cc.arg("-L").arg(&server).arg(format!("-Wl,-rpath,{}", server.display())).arg("-ljvm");
        output(cc)?;
        Ok(lib)
    }
}

/// The JDK's directory: JAVA_HOME or, if that isn't set, the one of the command `java`.
fn java_home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("JAVA_HOME") {
        return Ok(home.into());
    }
    let told = Command::new("java").args(["-XshowSettings:properties", "-version"]).output()?;
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    let home = told.lines().find_map(|line| line.trim().strip_prefix("java.home = "));
    home.map(PathBuf::from).ok_or_else(|| Failure::new("java prints no property java.home; set JAVA_HOME"))
}

/// Runs a command that must succeed, and returns its standard output.
fn output(mut command: Command) -> Result<Vec<u8>> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(Failure::new(format!("{command:?}: {}\n{told}", output.status)))
        }
    }
}
