//! The interface is that of Hadoop's own library: symbols, declarations, layouts.

use crate::common::{built, library_in, run, sources};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use strait_testkit::HadoopLibhdfs;

/// Functions beyond the header of the reference: later versions', and those that Hadoop's own tests
/// declare.
const BEYOND: [&str; 15] = [
    "hdfsDisableDomainSocketSecurity",
    "hdfsFileDisableDirectPread",
    "hdfsFileDisableDirectRead",
    "hdfsFileUsesDirectPread",
    "hdfsFileUsesDirectRead",
    "hdfsOpenFileBuilderAlloc",
    "hdfsOpenFileBuilderBuild",
    "hdfsOpenFileBuilderFree",
    "hdfsOpenFileBuilderMust",
    "hdfsOpenFileBuilderOpt",
    "hdfsOpenFileFutureCancel",
    "hdfsOpenFileFutureFree",
    "hdfsOpenFileFutureGet",
    "hdfsOpenFileFutureGetWithTimeout",
    "readDirect",
];

/// Each function that a header declares, as the compiler understood it.
fn declarations(directory: &Path, include: &Path) -> BTreeSet<String> {
    let (source, told) = (directory.join("header.c"), directory.join("declarations"));
    std::fs::write(&source, "#include \"hdfs.h\"\n").unwrap();
    run(Command::new("gcc")
        .args(["-c", "-o", "/dev/null", "-aux-info"])
        .arg(&told)
        .arg("-I")
        .arg(include)
        .arg(source));
    let told = std::fs::read_to_string(told).unwrap();
    let ours = told.lines().filter(|line| line.contains("hdfs.h:"));
    ours.map(|line| line.split_once("*/ extern ").unwrap().1.replace("(/* ??? */)", "(void)")).collect()
}

fn name(declaration: &str) -> &str {
    declaration.split(" (").next().unwrap().rsplit([' ', '*']).next().unwrap()
}

#[test]
fn the_library_exports_the_functions_of_the_header_and_has_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let declared = declarations(directory.path(), &HadoopLibhdfs::find().unwrap().include());
    let wanted: BTreeSet<&str> = declared.iter().map(|line| name(line)).chain(BEYOND).collect();
    assert_eq!(wanted.len(), declared.len() + BEYOND.len());
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(built()));
    let exported: BTreeSet<&str> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(exported, wanted);
    let dynamic = run(Command::new("readelf").arg("-d").arg(built()));
    assert!(dynamic.contains("soname: [libhdfs.so.0.0.0]"), "{dynamic}");
    assert!(!dynamic.contains("libjvm"), "{dynamic}");
}

#[test]
fn our_header_declares_the_same_functions() {
    let directory = tempfile::tempdir().unwrap();
    let theirs = declarations(directory.path(), &HadoopLibhdfs::find().unwrap().include());
    let ours = declarations(directory.path(), &sources().join("include"));
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let more = ours.difference(&theirs).map(|line| name(line));
    assert!(more.clone().all(|name| BEYOND.contains(&name)), "{:?}", more.collect::<Vec<_>>());
}

#[test]
fn our_header_has_the_same_layouts_and_compiles_as_c_plus_plus() {
    let directory = tempfile::tempdir().unwrap();
    let source = sources().join("tests/layouts.c");
    let layouts = |include: &Path| {
        let program = directory.path().join("layouts");
        run(Command::new("cc").arg("-I").arg(include).arg(&source).arg("-o").arg(&program));
        run(&mut Command::new(program))
    };
    let ours = layouts(&sources().join("include"));
    assert!(ours.contains("hdfsFileInfo"), "{ours}");
    assert_eq!(ours, layouts(&HadoopLibhdfs::find().unwrap().include()));
    let lib = library_in(directory.path());
    run(Command::new("c++")
        .args(["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", "c++"])
        .arg("-I")
        .arg(sources().join("include"))
        .arg(source)
        .arg("-L")
        .arg(lib)
        .args(["-lhdfs", "-o"])
        .arg(directory.path().join("layouts-cpp")));
}
