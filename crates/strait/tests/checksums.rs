//! Checksums compare across stores.

use crate::support::up::Up;
use crate::support::{Gateway, Run, command};
use std::path::Path;
use strait_testkit::MiniHdfs;

/// More than two of its HDFS blocks, and no multiple of a chunk.
const BYTES: usize = (2 << 20) + 4_321;
const COMBINE: &str = "dfs.checksum.combine.mode";

/// Algorithm and value, as the command prints them.
fn checksum(run: &Run) -> String {
    run.text().trim().split_once('\t').expect("a path first").1.to_owned()
}

/// Hadoop's configuration with one property.
fn configure(directory: &Path, name: &str, value: &str) {
    let property = format!("<property><name>{name}</name><value>{value}</value></property>");
    let text = format!("<?xml version=\"1.0\"?><configuration>{property}</configuration>");
    std::fs::write(directory.join("hdfs-site.xml"), text).unwrap();
}

#[test]
fn the_composite_crc_of_a_content_is_the_same_in_every_store() {
    let content: Vec<u8> = (0..BYTES).map(|at| ((at * 31) >> 7) as u8).collect();
    let gateway = Gateway::over_files();
    let home = gateway.dir.path();
    let run = |args: &[&str], input: &[u8]| {
        let mut strait = command(home);
        strait.env("HADOOP_CONF_DIR", home).args(args);
        Run::of(strait, input)
    };
    let up = Up::start();
    let hdfs = MiniHdfs::start().unwrap();
    let scratch = hdfs.scratch("composite-crc");
    configure(home, COMBINE, "COMPOSITE_CRC");
    let in_hdfs = format!("{}{scratch}", hdfs.uri());
    run(&["mkdir", &in_hdfs], b"").ok();
    let target = |directory: &str| format!("{}/f", directory.trim_end_matches('/'));
    let stores = [format!("file:{}", home.display()), gateway.uri("/"), up.uri("/"), in_hdfs.clone()];
    for directory in &stores[..3] {
        run(&["put", "-", &target(directory)], &content).ok();
    }
    // A file of three blocks.
    let copy = home.join("f").display().to_string();
    let put = ["-Ddfs.blocksize=1048576", "-put", &copy, &format!("{scratch}/f")];
    assert!(hdfs.shell(&put).unwrap().status.success());
    let sum = |directory: &String| checksum(&run(&["checksum", &target(directory)], b""));
    let sums: Vec<String> = stores.iter().map(sum).collect();
    assert!(sums[0].starts_with("COMPOSITE-CRC32C\t"), "{}", sums[0]);
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");

    let combined = format!("-D{COMBINE}=COMPOSITE_CRC");
    let shell = hdfs.shell(&[&combined, "-checksum", &format!("{scratch}/f")]).unwrap();
    let theirs = String::from_utf8(shell.stdout).unwrap();
    assert_eq!(theirs.trim().split_once('\t').unwrap().1, sums[0], "as Hadoop's");
    configure(home, COMBINE, "SHA");
    run(&["checksum", &target(&in_hdfs)], b"").fails(17, COMBINE);
    std::fs::remove_file(home.join("hdfs-site.xml")).unwrap();
    run(&["rm", "-r", &in_hdfs], b"").ok();
}
