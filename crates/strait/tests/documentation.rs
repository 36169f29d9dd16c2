//! Checks that docs/command.md is correct.

mod support;
#[path = "support/up.rs"]
mod up;

use std::collections::HashMap;
use strait_store::TABLE;
use strait_testkit::{eventually, free_port};
use support::{DEADLINE, Run};
use up::role;

const COMMAND: &str = include_str!("../../../docs/command.md");

#[test]
fn the_documented_exit_codes_are_those_of_the_table_of_errors() {
    let rows = COMMAND.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, code, kind, _, retry, _] = cells[..] else { return None };
        Some((code.parse::<u8>().ok()?, kind.trim_matches('`').to_owned(), retry == "yes"))
    });
    let documented: Vec<_> = rows.filter(|(code, ..)| (10..128).contains(code)).collect();
    let true_ones: Vec<_> = TABLE.iter().map(|row| (row.exit, row.name.to_owned(), row.retry_safe)).collect();
    assert_eq!(documented, true_ones);
}

/// The command lines of a section's code blocks, a vector each, without the `strait`.
fn blocks(heading: &str) -> Vec<Vec<Vec<String>>> {
    let section = COMMAND.split_once(heading).unwrap().1.split("\n## ").next().unwrap();
    let words = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect();
    section.split("```").skip(1).step_by(2).map(|block| block.trim().lines().map(words).collect()).collect()
}

#[test]
fn a_rack_on_one_host_is_started_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("README.md"), "read me").unwrap();
    // Replaces each address by one that is free here.
    let mut addresses = HashMap::new();
    let mut here = |line: &[String]| -> Vec<String> {
        let placed = line.iter().map(|word| match word.split_once("127.0.0.1:") {
            Some((before, after)) => {
                let (port, path) = after.split_at(after.find('/').unwrap_or(after.len()));
                let port = addresses.entry(port.to_owned()).or_insert_with(free_port);
                format!("{before}127.0.0.1:{port}{path}")
            }
            None => word.clone(),
        });
        placed.collect()
    };
    let [servers, commands] = &blocks("### A rack on one host")[..] else { panic!("two blocks") };
    let mut processes = Vec::new();
    for line in servers {
        let line = here(line);
        let args: Vec<&str> = line.iter().map(String::as_str).collect();
        let listen = args.iter().position(|&word| word == "--listen").unwrap();
        processes.push(role(dir.path(), args[0], &args, args[listen + 1]));
    }
    let [put, fsck, datanodes] = &commands[..] else { panic!("three commands") };
    let mut run = |line: &[String]| -> Run { up::run(dir.path(), here(line), b"") };
    eventually("all datanodes have joined", DEADLINE, || {
        run(datanodes).text().matches("\talive\tin service\t").count() == 3
    });
    run(put).ok();
    let healthy =
        "healthy: 1 files in 1 directories, 7 bytes in 1 blocks, 0 missing, 0 with too few replicas\n";
    eventually("three replicas are there", DEADLINE, || run(fsck).text() == healthy);
}
