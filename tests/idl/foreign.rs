//! For the build script: generates Rust from installed files of other projects.

use frpcgen::{Builder, Error};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Directories of Debian's libtirpc-dev, libnsl-dev and rpcsvc-proto.
const SYSTEM: [&str; 2] = ["/usr/include/rpcsvc", "/usr/include/tirpc"];

/// Names a directory of other files, to test in place of the system's.
pub const DIRECTORY: &str = "STRAIT_X_FILES";

/// Writes `foreign.rs`: the list `FILES`, with frpcgen's reason for each file that it refuses, and
/// a module for each file that it accepts.
pub fn generate(output: &Path) -> Result<(), String> {
    println!("cargo::rerun-if-env-changed={DIRECTORY}");
    let chosen = env::var_os(DIRECTORY).map(PathBuf::from);
    let directories = chosen.map_or_else(|| SYSTEM.map(PathBuf::from).to_vec(), |chosen| vec![chosen]);
    let mut files = Vec::new();
    for directory in &directories {
        println!("cargo::rerun-if-changed={}", directory.display());
        find(directory, &mut files);
    }
    files.sort();
    let mut seen = HashSet::new();
    files.retain(|file| fs::read(file).is_ok_and(|content| seen.insert(content)));
    let (mut list, mut modules) = (String::new(), String::new());
    for (number, file) in files.iter().enumerate() {
        let refused = match Builder::default().generate(file) {
            Ok(generated) => {
                let path = output.join(format!("foreign{number}.rs"));
                fs::write(&path, generated.code).map_err(|error| error.to_string())?;
                let _ = writeln!(
                    modules,
                    "#[path = {path:?}] #[allow(warnings)] pub mod file{number}; // {file:?}"
                );
                None
            }
            Err(error @ (Error::Source(_) | Error::File { .. })) => Some(error.to_string()),
            Err(error) => return Err(error.to_string()),
        };
        let _ = writeln!(list, "({:?}, {refused:?}),", file.to_string_lossy());
    }
    let code = format!("pub const FILES: &[(&str, Option<&str>)] = &[\n{list}];\n{modules}");
    fs::write(output.join("foreign.rs"), code).map_err(|error| error.to_string())
}

/// Finds the `.x` files of a directory; a missing directory has none.
fn find(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => find(&path, files),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|end| end == "x") => files.push(path),
            _ => {}
        }
    }
}
