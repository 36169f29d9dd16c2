//! Hadoop's jars, which Maven downloads once into the user's cache.

use crate::failure::{Failure, Result};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const POM: &str = include_str!("../../hdfs/pom.xml");

/// Name of the cache directory. Change it together with the version in the pom.
const CACHE_NAME: &str = "hdfs-3.5.0";

/// The jars, joined by colons.
///
/// The first call of a user downloads them (about 70 MB). Concurrent calls wait for that.
pub(super) fn jars() -> Result<String> {
    let dir = cache_dir()?;
    let list = dir.join("classpath");
    if let Some(jars) = complete(&list) {
        return Ok(jars);
    }
    fs::create_dir_all(&dir)?;
    let lock = File::create(dir.join("lock"))?;
    lock.lock()?;
    if let Some(jars) = complete(&list) {
        return Ok(jars);
    }
    fetch(&dir, &list)?;
    complete(&list).ok_or_else(|| Failure::new(format!("{} names jars that don't exist", list.display())))
}

/// The command `java`, from JAVA_HOME if that is set.
pub(super) fn java() -> Command {
    match env::var_os("JAVA_HOME") {
        Some(home) => Command::new(Path::new(&home).join("bin/java")),
        None => Command::new("java"),
    }
}

/// Fails with a clear message if Java is missing.
pub(super) fn check_java() -> Result<()> {
    match java().arg("-version").output() {
        Ok(Output { status, .. }) if status.success() => Ok(()),
        Ok(output) => Err(Failure::new(format!("java doesn't run: {}", show(&output)))),
        Err(error) => Err(Failure::new(format!(
            "a real HDFS needs java, which doesn't start ({error}); \
             install a Java 17 runtime (Debian: openjdk-17-jre-headless) or set JAVA_HOME"
        ))),
    }
}

/// The user's cache of what belongs to this version of Hadoop.
pub(super) fn cache_dir() -> Result<PathBuf> {
    let base = match (env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) => Path::new(&home).join(".cache"),
        _ => return Err(Failure::new("neither XDG_CACHE_HOME nor HOME is set: no place for Hadoop's jars")),
    };
    Ok(base.join("strait").join(CACHE_NAME))
}

/// The contents of the list, if the list and all jars in it exist.
fn complete(list: &Path) -> Option<String> {
    let jars = fs::read_to_string(list).ok()?.trim().to_owned();
    let whole = !jars.is_empty() && jars.split(':').all(|jar| Path::new(jar).is_file());
    whole.then_some(jars)
}

fn fetch(dir: &Path, list: &Path) -> Result<()> {
    fs::write(dir.join("pom.xml"), POM)?;
    // Write the list under another name first, so that an interrupted download leaves no incomplete list.
    let fresh = dir.join("classpath.new");
    let output = Command::new("mvn")
        .args(["-q", "-B", "dependency:build-classpath"])
        .arg(format!("-Dmdep.outputFile={}", fresh.display()))
        .current_dir(dir)
        .output()
        .map_err(|error| {
            Failure::new(format!(
                "Hadoop's jars aren't cached yet, and mvn, which fetches them, doesn't start ({error}); \
                 install Maven (Debian: maven)"
            ))
        })?;
    if !output.status.success() {
        return Err(Failure::new(format!("mvn can't fetch Hadoop's jars: {}", show(&output))));
    }
    fs::rename(&fresh, list)?;
    Ok(())
}

fn show(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    format!("{}\n{out}{err}", output.status)
}
