//! Builds and runs the programs that suites compare: our clients, and peers.

use crate::Result;
use crate::host::seconds;
use std::path::{Path, PathBuf};
use std::process::Command;
use strait_testkit::MiniHdfs;

/// The JVM's memory: enough for HDFS's client, and for ours.
const JVM_MEMORY: &str = "-Xmx512m";

/// Locations of the built programs.
pub struct Programs {
    target: PathBuf,
    java_classpath: String,
    java_home: String,
}

/// A copy to make, and its options.
#[derive(Debug, Clone)]
pub struct Copying {
    /// `get` or `put`.
    pub action: &'static str,
    /// The remote path.
    pub remote: String,
    /// The local path; `-`: the bytes stay in memory.
    pub local: String,
    /// Bytes of each blocking request. None: the client uses its default strategy.
    pub blocking: Option<usize>,
    /// The file with the authority to trust. None: without TLS.
    pub ca: Option<String>,
}

impl Programs {
    /// Builds the programs that have changed.
    pub fn build() -> Result<Self> {
        let target = std::env::current_exe()?.with_file_name("").join("../bench");
        std::fs::create_dir_all(&target)?;
        let target = target.canonicalize()?;
        let (cpp, java, peers) = (target.join("cpp"), target.join("java"), target.join("peers"));

        eprintln!("building the programs to measure");
        seconds(Command::new("cmake").args(["-S", "bench/clients", "-B"]).arg(&cpp))?;
        seconds(Command::new("cmake").arg("--build").arg(&cpp).args(["--parallel", "4"]))?;

        let list = java.join("classpath");
        std::fs::create_dir_all(&java)?;
        seconds(
            Command::new("mvn")
                .args(["-q", "-B", "-f", "clients/java/pom.xml", "-DskipTests", "compile"])
                .args(["dependency:build-classpath", "-Dmdep.includeScope=runtime"])
                .arg(format!("-Dmdep.outputFile={}", list.display())),
        )?;
        let runtime = std::fs::read_to_string(&list)?;
        let java_classpath = format!("{}:clients/java/target/classes:{}", java.display(), runtime.trim());
        compile(&java, &java_classpath, "bench/clients/CopyFile.java")?;

        let java_home = java_home()?;
        seconds(
            Command::new("cargo")
                .args(["build", "--quiet", "--release", "--locked", "--all-features"])
                .args(["--manifest-path", "bench/peers/Cargo.toml", "--target-dir"])
                .arg(&peers)
                .env("JAVA_HOME", &java_home),
        )?;
        Ok(Self { target, java_classpath, java_home })
    }

    /// Our C++ client.
    pub fn cpp(&self, gateway: &str, copying: &Copying) -> Command {
        copying.arguments(Command::new(self.target.join("cpp/copy_file")), gateway)
    }

    /// Our Java client.
    pub fn java(&self, gateway: &str, copying: &Copying) -> Command {
        let mut command = Command::new("java");
        command.args([JVM_MEMORY, "-cp", &self.java_classpath, "CopyFile"]);
        copying.arguments(command, gateway)
    }

    /// Our Python client.
    pub fn python(&self, gateway: &str, copying: &Copying) -> Command {
        let mut command = Command::new(".venv/bin/python");
        command.arg("bench/clients/copy_file.py");
        copying.arguments(command, gateway)
    }

    /// A peer written in Rust.
    pub fn peer(&self, name: &str) -> Command {
        Command::new(self.target.join("peers/release").join(name))
    }

    /// A program with HDFS's own Java client, which has the structure of the report's program.
    pub fn native_java(&self, hdfs_classpath: &str) -> Result<impl Fn(&[&str]) -> Command + use<>> {
        let classes = self.target.join("java");
        compile(&classes, hdfs_classpath, "bench/peers/java/NativeGet.java")?;
        let classpath = format!("{}:{hdfs_classpath}", classes.display());
        Ok(move |arguments: &[&str]| {
            let mut command = Command::new("java");
            command.args([JVM_MEMORY, "-cp", &classpath, "NativeGet"]).args(arguments);
            command
        })
    }

    /// HDFS's own C library, which starts a JVM in its process.
    pub fn libhdfs(&self, hdfs_classpath: &str) -> Command {
        let mut command = self.peer("libhdfs-get");
        with_jvm(&mut command, &self.java_home, hdfs_classpath);
        command
    }
}

impl Copying {
    fn arguments(&self, mut command: Command, gateway: &str) -> Command {
        command.args([self.action, gateway, &self.remote, &self.local]);
        if let Some(bytes) = self.blocking {
            command.args(["--blocking", &bytes.to_string()]);
        }
        if let Some(file) = &self.ca {
            command.args(["--ca", file]);
        }
        command
    }
}

/// A program with HDFS's own Java client and these properties, which takes orders line by line.
pub fn hdfs_orders(hdfs: &MiniHdfs, properties: &[(&str, &str)]) -> Result<Command> {
    let classes = std::env::current_exe()?.with_file_name("").join("../bench/java");
    std::fs::create_dir_all(&classes)?;
    compile(&classes, hdfs.classpath(), "bench/peers/java/HdfsOrders.java")?;
    let classpath = format!("{}:{}", classes.display(), hdfs.classpath());
    let mut command = Command::new("java");
    command.args([JVM_MEMORY, "-cp", &classpath, "HdfsOrders", hdfs.uri()]);
    command.args(properties.iter().map(|(name, value)| format!("{name}={value}")));
    Ok(command)
}

/// Argument that makes this program a client that takes orders.
pub const ADAPTER_ORDERS: &str = "adapter-orders";

/// Argument that makes this program read a file with a library: `library-get LIBRARY URI PATH`.
pub const LIBRARY_GET: &str = "library-get";

/// Argument that makes this program the ladder's load generator.
pub const LADDER_CALLER: &str = "ladder-caller";
/// Argument that makes this program the ladder's bare server.
pub const LADDER_BARE: &str = "ladder-bare";

/// This program as a separate process with the HDFS adapter, which takes the order `write-and-tell`.
pub fn adapter_orders(hdfs: &MiniHdfs) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([ADAPTER_ORDERS, hdfs.uri()]).env("HADOOP_CONF_DIR", hdfs.configuration());
    Ok(command)
}

/// A program with the library `hdfs-native`, which takes orders to write.
pub fn hdfs_native_orders(hdfs: &MiniHdfs) -> Result<Command> {
    let mut command = Command::new(peer("hdfs-native-write")?);
    command.arg(hdfs.uri());
    Ok(command)
}

/// A program with HDFS's own C library and these properties, which takes orders to write.
pub fn libhdfs_orders(hdfs: &MiniHdfs, properties: &[(&str, &str)]) -> Result<Command> {
    let (host, port) = address(hdfs)?;
    let mut command = Command::new(peer("libhdfs-write")?);
    command.args([host, port]).args(properties.iter().map(|(name, value)| format!("{name}={value}")));
    with_jvm(&mut command, &java_home()?, hdfs.classpath());
    Ok(command)
}

/// A program with the crate `object_store` alone, which takes orders line by line.
pub fn object_store_orders() -> Result<Command> {
    Ok(Command::new(peer("object-store")?))
}

/// A program with libhdfs, which reads a file with a buffer of `buffer` bytes.
pub fn libhdfs_get(hdfs: &MiniHdfs, path: &str, buffer: usize) -> Result<Command> {
    let (host, port) = address(hdfs)?;
    let mut command = Command::new(peer("libhdfs-get")?);
    command.args([host, port, path, "/dev/null", &buffer.to_string()]);
    with_jvm(&mut command, &java_home()?, hdfs.classpath());
    Ok(command)
}

/// This program as a separate process, which reads a file through the adapter for libraries such as
/// `library`.
pub fn library_get(hdfs: &MiniHdfs, library: &Path, path: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([LIBRARY_GET, &library.display().to_string(), hdfs.uri(), path]);
    with_jvm(&mut command, &java_home()?, hdfs.classpath());
    Ok(command)
}

fn address(hdfs: &MiniHdfs) -> Result<(&str, &str)> {
    let address = hdfs.uri().trim_start_matches("hdfs://");
    Ok(address.split_once(':').ok_or("no port in the URI of HDFS")?)
}

/// Builds a peer written in Rust.
fn peer(name: &str) -> Result<PathBuf> {
    let target = std::env::current_exe()?.with_file_name("").join("../bench/peers");
    seconds(
        Command::new("cargo")
            .args(["build", "--quiet", "--release", "--locked", "--bin", name])
            .args(["--manifest-path", "bench/peers/Cargo.toml", "--target-dir"])
            .arg(&target)
            .env("JAVA_HOME", java_home()?),
    )?;
    Ok(target.join("release").join(name))
}

/// Sets the environment of a program in which libhdfs starts a JVM.
fn with_jvm(command: &mut Command, java_home: &str, hdfs_classpath: &str) {
    command.env("LD_LIBRARY_PATH", format!("{java_home}/lib/server"));
    command.env("CLASSPATH", hdfs_classpath).env("LIBHDFS_OPTS", JVM_MEMORY);
}

fn compile(classes: &Path, classpath: &str, source: &str) -> Result<()> {
    seconds(Command::new("javac").arg("-d").arg(classes).args(["-cp", classpath, source])).map(drop)
}

/// The JDK's directory, for building and running libhdfs: JAVA_HOME, or that of the `javac` in the path.
pub fn java_home() -> Result<String> {
    if let Ok(home) = std::env::var("JAVA_HOME") {
        return Ok(home);
    }
    let output = Command::new("sh").args(["-c", "readlink -f \"$(command -v javac)\""]).output()?;
    let javac = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let home = javac.parent().and_then(Path::parent).ok_or("no javac in the path, and no JAVA_HOME")?;
    Ok(home.display().to_string())
}
