//! Builds the article's services in Java and the Thrift server in C++, and starts them.

use crate::Result;
use crate::host::seconds;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Memory of each JVM: enough for servers and clients of small calls. It is the same for all, so that their
/// memory can be compared.
const JVM_MEMORY: &str = "-Xmx256m";

/// Interfaces for which the Java programs need generated code.
const INTERFACES: [&str; 2] = ["examples/tradehistory/trade.thrift", "idl/dfs.thrift"];

/// Paths of the built programs.
pub struct Programs {
    classpath: String,
    cpp: PathBuf,
}

impl Programs {
    /// Builds the programs.
    pub fn build() -> Result<Self> {
        eprintln!("building the ladder's programs");
        let target = std::env::current_exe()?.with_file_name("").join("../bench/ladder");
        let (generated, classes, cpp) =
            (target.join("generated"), target.join("classes"), target.join("cpp"));
        for directory in [&generated, &classes, &cpp] {
            std::fs::create_dir_all(directory)?;
        }
        for interface in INTERFACES {
            let thrift = ["--gen", "java:generated_annotations=suppress", "-out"];
            seconds(Command::new("thrift").args(thrift).arg(&generated).arg(interface))?;
        }
        let list = target.canonicalize()?.join("classpath");
        seconds(
            Command::new("mvn")
                .args(["-q", "-B", "-f", "bench/ladder/java/pom.xml", "dependency:build-classpath"])
                .arg(format!("-Dmdep.outputFile={}", list.display())),
        )?;
        let jars = std::fs::read_to_string(&list)?;
        let sources = format!("bench/ladder/java:{}", generated.display());
        seconds(
            Command::new("javac")
                .args(["-nowarn", "-cp", jars.trim(), "-sourcepath", &sources, "-d"])
                .arg(&classes)
                .args(["bench/ladder/java/Server.java", "bench/ladder/java/Client.java"]),
        )?;
        seconds(Command::new("cmake").args(["-S", "bench/ladder/cpp", "-B"]).arg(&cpp))?;
        seconds(Command::new("cmake").arg("--build").arg(&cpp).args(["--parallel", "2"]))?;
        Ok(Self { classpath: format!("{}:{}", classes.display(), jars.trim()), cpp })
    }

    /// The command for one of the Java programs, with its temporary files in `temporary`.
    pub fn java(&self, class: &str, temporary: &Path) -> Command {
        let mut command = Command::new("java");
        command.arg(JVM_MEMORY).arg(format!("-Djava.io.tmpdir={}", temporary.display()));
        command.args(["-cp", &self.classpath, class]);
        command
    }

    /// The command for the C++ server.
    pub fn cpp(&self) -> Command {
        Command::new(self.cpp.join("thrift-server"))
    }
}
