//! Checks the pages: exit codes, a rack on one host, links, and published figures.

use crate::support::Run;
use crate::support::up::{self, role};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use strait_store::TABLE;
use strait_testkit::free_port;
use strait_testkit::wait::eventually;

const COMMAND: &str = include_str!("../../../docs/command.md");
const KADOOP: &str = include_str!("../../../docs/kadoop.md");

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

/// The command lines of a section's code blocks in docs/kadoop.md, a vector each, without the `strait`.
fn blocks(heading: &str) -> Vec<Vec<Vec<String>>> {
    let section = KADOOP.split_once(heading).unwrap().1.split("\n## ").next().unwrap();
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
    let [servers, commands] = &blocks("\n## A rack on one host")[..] else { panic!("two blocks") };
    let mut processes = Vec::new();
    for line in servers {
        let line = here(line);
        let args: Vec<&str> = line.iter().map(String::as_str).collect();
        let listen = args.iter().position(|&word| word == "--listen").unwrap();
        processes.push(role(dir.path(), args[0], &args, args[listen + 1]));
    }
    let [put, fsck, datanodes] = &commands[..] else { panic!("three commands") };
    let mut run = |line: &[String]| -> Run { up::run(dir.path(), here(line), b"") };
    eventually("all datanodes have joined", || {
        run(datanodes).text().matches("\talive\tin service\t").count() == 3
    });
    run(put).ok();
    let healthy =
        "healthy: 1 files in 1 directories, 7 bytes in 1 blocks, 0 missing, 0 with too few replicas\n";
    eventually("three replicas are there", || run(fsck).text() == healthy);
}

/// Names of directories without pages of ours: built, fetched or hidden ones.
const NO_PAGES: [&str; 4] = ["target", "build", "node_modules", "strait-data"];

/// The repository's pages.
fn pages(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with('.') || NO_PAGES.contains(&name) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// A page's lines outside its code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .scan(false, |inside, line| {
            let fence = line.trim_start().starts_with("```");
            *inside ^= fence;
            Some((!*inside && !fence).then_some(line))
        })
        .flatten()
}

/// The anchors that GitHub gives a page's headings: lower case, without punctuation, `-` for a space,
/// and a number behind those that come again.
fn anchors(page: &str) -> HashSet<String> {
    let mut seen = HashMap::new();
    let headings = prose(page).filter_map(|line| {
        let text = line.trim_start_matches('#');
        (text.len() < line.len()).then(|| text.strip_prefix(' ')).flatten()
    });
    headings
        .map(|heading| {
            let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let slug = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let times = seen.entry(slug.clone()).and_modify(|times| *times += 1).or_insert(0);
            if *times == 0 { slug } else { format!("{slug}-{times}") }
        })
        .collect()
}

/// The targets of a page's links and pictures.
fn targets(page: &str) -> Vec<String> {
    let text: Vec<&str> = prose(page).collect();
    let text = text.join("\n");
    text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

#[test]
fn every_link_of_the_pages_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut found = Vec::new();
    pages(root, &mut found);
    assert!(found.len() > 10, "{found:?}");
    let mut broken = Vec::new();
    for page in found {
        let text = std::fs::read_to_string(&page).unwrap();
        for target in targets(&text).iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let leads = linked.exists()
                && (anchor.is_empty()
                    || anchors(&std::fs::read_to_string(&linked).unwrap()).contains(anchor));
            if !leads {
                broken.push(format!("{}: {target}", page.strip_prefix(root).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn the_figures_on_the_page_are_those_of_the_published_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let check = std::process::Command::new("python3")
        .args(["scripts/benchmarks.py", "--check"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}
