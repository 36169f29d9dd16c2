//! The crates use each other as ARCHITECTURE.md says.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates below `strait-kadoop-core`, those of others included. None offers sockets, threads or
/// clocks, by the features that the core asks for.
const BELOW_THE_CORE: &[&str] = &[
    "bitflags",
    "block-buffer",
    "bytes",
    "castaway",
    "cfg-if",
    "cobs",
    "compact_str",
    "const-oid",
    "cpufeatures",
    "crc-fast",
    "crypto-common",
    "digest",
    "generic-array",
    "hybrid-array",
    "itoa",
    "linux-raw-sys",
    "postcard",
    "proc-macro2",
    "quote",
    "rustc-hash",
    "rustix",
    "rustversion",
    "ryu",
    "serde",
    "serde_core",
    "serde_derive",
    "sha2",
    "smallvec",
    "spin",
    "static_assertions",
    "strait-crc",
    "strait-kadoop-core",
    "syn",
    "thiserror",
    "thiserror-impl",
    "typenum",
    "unicode-ident",
    "version_check",
];

/// Features of rustix that offer sockets, threads or clocks.
const IMPURE: &[&str] = &["event", "net", "pipe", "thread", "time"];

/// The standard library's.
const IMPURE_NAMES: &[&str] = &["net::", "thread::", "Instant", "SystemTime"];

struct Room {
    floor: u32,
    uses: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The packages that a package links or that run when it is built, itself included. Each comes with
/// its features.
fn below(package: &str) -> BTreeMap<String, String> {
    let tree = cargo(&[
        "tree",
        "--locked",
        "--offline",
        "-p",
        package,
        "-e",
        "normal,build",
        "--prefix",
        "none",
        "-f",
        "{p}|{f}",
    ]);
    let line = |line: &str| {
        let (package, features) = line.split_once('|')?;
        let features = features.trim_end_matches(" (*)");
        Some((package.split(' ').next()?.to_owned(), features.to_owned()))
    };
    tree.lines().filter_map(line).collect()
}

/// The table's rows: `| floor | [`crates/room`](…) | used rooms | job |`.
fn table() -> BTreeMap<String, Room> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let floor = cells.next()?.parse().ok()?;
        let name = cells.next()?.strip_prefix("[`crates/")?.split('`').next()?.to_owned();
        let uses = cells.next()?.split(", ").filter(|room| !room.is_empty()).map(str::to_owned).collect();
        Some((name, Room { floor, uses }))
    };
    page.lines().filter_map(row).collect()
}

/// The rooms that each room uses, as Cargo knows them; tests aside.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = cargo(&["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let crates = root().canonicalize().unwrap().join("crates");
    let room = |path: &Value| {
        let path = Path::new(path.as_str()?);
        Some(path.strip_prefix(&crates).ok()?.iter().next()?.to_str()?.to_owned())
    };
    let uses = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let linked = dependencies.filter(|dependency| dependency["kind"] != "dev");
        linked.filter_map(|dependency| room(&dependency["path"])).collect()
    };
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.filter_map(|package| Some((room(&package["manifest_path"])?, uses(package)))).collect()
}

/// Whether a line of a source begins a block of code that rustdoc would run.
fn begins_example(line: &str) -> bool {
    let comment = ["//!", "///"].iter().find_map(|begin| line.trim_start().strip_prefix(begin));
    let language = comment.and_then(|text| text.trim_start().strip_prefix("```"));
    language.is_some_and(|language| {
        let first = language.split(',').next().unwrap_or_default();
        ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&first)
    })
}

fn sources(of: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(of).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_crate_with_examples_in_its_docs_runs_them() {
    let metadata = cargo(&["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let targets = packages.flat_map(|package| package["targets"].as_array().unwrap());
    let silent =
        targets.filter(|target| target["kind"] == serde_json::json!(["lib"]) && target["doctest"] == false);
    let mut all = Vec::new();
    silent.for_each(|target| {
        let root = Path::new(target["src_path"].as_str().unwrap()).parent().unwrap();
        sources(root, &mut all);
    });
    assert!(all.len() > 100, "{}", all.len());
    for source in all {
        // Every second fence ends a block.
        let text = fs::read_to_string(&source).unwrap();
        let fences = text.lines().filter(|line| {
            let text = line.trim_start();
            text.starts_with("//") && text.trim_start_matches(['/', '!', ' ']).starts_with("```")
        });
        let example = fences.step_by(2).find(|line| begins_example(line));
        assert!(example.is_none(), "{}: its crate has `doctest = false`", source.display());
    }
}

/// Beside a `suite.rs`, Cargo looks for no test files.
#[test]
fn each_test_file_is_in_a_program() {
    let metadata = cargo(&["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let mut files = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let tests = Path::new(package["manifest_path"].as_str().unwrap()).with_file_name("tests");
        let Ok(suite) = fs::read_to_string(tests.join("suite.rs")) else { continue };
        let programs: Vec<_> =
            package["targets"].as_array().unwrap().iter().map(|target| &target["name"]).collect();
        for file in fs::read_dir(&tests).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let name = file.file_stem().unwrap().to_str().unwrap();
            let is_in_one =
                suite.lines().any(|line| line == format!("mod {name};")) || programs.contains(&&name.into());
            assert!(is_in_one, "suite.rs lacks `mod {name};` for {}", file.display());
            files += 1;
        }
    }
    assert!(files > 100, "{files} files");
}

#[test]
fn the_table_of_rooms_is_cargos_graph() {
    let (table, graph) = (table(), graph());
    assert_eq!(table.keys().collect::<Vec<_>>(), graph.keys().collect::<Vec<_>>());
    for (name, room) in &table {
        assert_eq!(room.uses, graph[name], "the rooms that {name} uses");
    }
}

#[test]
fn a_room_uses_lower_floors_only() {
    let table = table();
    for (name, room) in &table {
        let highest = room.uses.iter().map(|used| table[used].floor + 1).max();
        assert_eq!(room.floor, highest.unwrap_or(0), "the floor of {name}");
    }
}

#[test]
fn clients_link_no_server() {
    for client in ["strait-client", "strait-kadoop-client", "strait-store-any", "libstrait"] {
        let linked = below(client);
        assert!(linked.contains_key(client), "{linked:?}");
        for server in ["strait-gateway", "strait-kadoop-server", "strait"] {
            assert!(!linked.contains_key(server), "{client} links {server}");
        }
        // Object stores' client is hyper's.
        let features = linked.get("hyper").map_or("", String::as_str);
        assert!(features.split(',').all(|feature| feature != "server"), "{client} links hyper's server");
    }
}

#[test]
fn an_adapter_links_no_other() {
    let adapters = [
        "strait-store-hdfs",
        "strait-store-kadoop",
        "strait-store-object",
        "strait-store-plugin",
        "strait-store-abi",
        "strait-client",
    ];
    for adapter in adapters {
        let linked = below(adapter);
        let others: Vec<_> =
            adapters.iter().filter(|other| **other != adapter && linked.contains_key(**other)).collect();
        assert!(others.is_empty(), "{adapter} links {others:?}");
    }
}

#[test]
fn kadoops_cores_have_no_socket_thread_or_clock() {
    let below = below("strait-kadoop-core");
    let unknown: Vec<_> = below.keys().filter(|name| !BELOW_THE_CORE.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "allow them only if they offer no socket, thread or clock: {unknown:?}");
    let features: Vec<_> = below["rustix"].split(',').filter(|feature| IMPURE.contains(feature)).collect();
    assert!(features.is_empty(), "rustix with {features:?}");

    let mut directories = vec![root().join("crates/kadoop-core/src")];
    let mut files = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            // Tests may do as they like.
            let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
            for name in IMPURE_NAMES {
                assert!(!shipped.contains(name), "{} names {name}", path.display());
            }
            files += 1;
        }
    }
    assert!(files > 40, "{files} files");
}
