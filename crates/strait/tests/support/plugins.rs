//! Libraries for `plugin:` and `libhdfs:`.

use std::path::{Path, PathBuf};
use std::process::Command;
use strait_testkit::MiniHdfs;

/// The settings of Hadoop's library. It has no configuration of the cluster, whose datanodes are fewer than three.
pub const HADOOP_OPTIONS: [(&str, &str); 2] = [("timeout", "60"), ("dfs.replication", "1")];
/// The contract's cases that Hadoop's library can't pass.
pub const HADOOP: &[(&str, &str)] = &[(
    "names_in_every_script_come_back",
    "Hadoop's library passes names in JNI's own kind of UTF-8, which corrupts characters beyond U+FFFF",
)];

/// The environment of Hadoop's library: it starts a JVM in its process, which looks for Hadoop's classes there.
pub fn hadoop_environment(hdfs: &MiniHdfs) -> [(&'static str, String); 2] {
    [("CLASSPATH", hdfs.classpath().to_owned()), ("LIBHDFS_OPTS", "-Xmx512m".to_owned())]
}

/// Builds a plugin from its source, relative to the workspace.
pub fn built(source: &str, dir: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = dir.join(Path::new(source).file_name().unwrap()).with_extension("so");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-I"]);
    cc.arg(root.join("crates/store-plugin/include")).arg(root.join(source)).arg("-o").arg(&library);
    if source.contains("gluster") {
        cc.arg("-lgfapi");
    }
    assert!(cc.status().unwrap().success(), "{source} doesn't build");
    library
}
