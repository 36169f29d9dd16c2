//! Hadoop's classes in an archive that JVMs map into memory (class data sharing, JEP 310). Without it, each JVM
//! reads some 6,000 classes from jars, which is half the processor time of a daemon's start.

use super::classpath::{cache_dir, java};
use crate::failure::{Failure, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A JVM's flag that takes the archive; none before it is made. JVMs whose classpath doesn't begin with the archive's,
/// or whose version is another, ignore it.
pub(super) fn flag() -> Option<&'static str> {
    static FLAG: OnceLock<String> = OnceLock::new();
    if FLAG.get().is_none() {
        let archive = path().ok().filter(|archive| archive.is_file())?;
        let _ = FLAG.set(format!("-XX:SharedArchiveFile={}", archive.display()));
    }
    FLAG.get().map(String::as_str)
}

/// Makes the archive if there is none for this version of Java. It takes half a minute; concurrent calls wait for it.
/// `record` runs the programs whose classes belong into the archive, with a JVM's flag that makes each list them.
pub(super) fn make(jars: &str, record: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    let archive = path()?;
    if archive.is_file() {
        return Ok(());
    }
    let lock = File::create(cache_dir()?.join("archive.lock"))?;
    lock.lock()?;
    if archive.is_file() {
        return Ok(());
    }
    let lists = TempDir::with_prefix("strait-classes-")?;
    record(&format!("-XX:DumpLoadedClassList={}/%p", lists.path().display()))?;
    dump(jars, &joined(lists.path())?, &archive)
}

/// The lists in a directory, as one list beside them.
fn joined(lists: &Path) -> Result<PathBuf> {
    let mut all = Vec::new();
    for list in fs::read_dir(lists)? {
        all.extend(fs::read(list?.path())?);
    }
    let whole = lists.join("all");
    fs::write(&whole, all)?;
    Ok(whole)
}

fn dump(jars: &str, classes: &Path, archive: &Path) -> Result<()> {
    // Under another name first, so that an interrupted dump leaves no incomplete archive.
    let fresh = archive.with_extension("new");
    let output = java()
        .args(["-Xshare:dump", "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=error:stderr"])
        .arg(format!("-XX:SharedClassListFile={}", classes.display()))
        .arg(format!("-XX:SharedArchiveFile={}", fresh.display()))
        .args(["-cp", jars])
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("java can't archive Hadoop's classes: {} {said}", output.status)));
    }
    fs::rename(&fresh, archive)?;
    Ok(())
}

/// The archive's file, which names the version of Java.
fn path() -> Result<PathBuf> {
    static VERSION: OnceLock<String> = OnceLock::new();
    if VERSION.get().is_none() {
        let output = java().arg("-version").output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        // openjdk version "17.0.9" 2023-10-17
        let quoted = said.split('"').nth(1).unwrap_or("unknown").replace('/', "-");
        let _ = VERSION.set(quoted);
    }
    let version = VERSION.get().map(String::as_str).unwrap_or_default();
    Ok(cache_dir()?.join(format!("classes-{version}.jsa")))
}
