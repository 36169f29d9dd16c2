//! Runs the examples of docs/run.md: on Kadoop, HDFS and a gateway, by a real ssh server. `run_slurm` runs the
//! one for Slurm.

use crate::support::rack::Rack;
use crate::support::ssh::{HOSTS, Sshd};
use crate::support::{Gateway, Run, binary, command, fresh};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use strait_testkit::MiniHdfs;

const PAGE: &str = include_str!("../../../docs/run.md");
const MIB: usize = 1 << 20;

/// The lines of the page's shell blocks.
fn examples() -> Vec<&'static str> {
    let blocks = PAGE.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).collect()
}

fn program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Each text is the content of a file of this URI.
fn put(rack: &Rack, uri: &str, text: &str) {
    rack.run(["put", "--block-size", &MIB.to_string(), "--replication", "1", "-", uri], text.as_bytes()).ok();
}

#[test]
fn the_examples_of_the_page_run_and_print_what_they_say() {
    let (sshd, rack, hdfs, gateway) =
        (Sshd::start(), Rack::start(&HOSTS), MiniHdfs::start().unwrap(), Gateway::over_files());
    let dir = rack.dir.path();
    // As a user, this has the command, ssh with a configuration, and programs in this directory.
    let bin = fresh(dir, "bin");
    let strait = binary().display();
    program(
        &bin.join("strait"),
        &format!(
            "[ \"$1\" != run ] || {{ shift; set -- run --remote-strait {strait} \"$@\"; }}; exec {strait} \"$@\""
        ),
    );
    let ssh = which("ssh");
    program(&bin.join("ssh"), &format!("exec {ssh} -F {}/client \"$@\"", sshd.dir.path().display()));
    program(&bin.join("identify"), "[ -f \"$1\" ] && echo \"$(basename \"$1\") $(cat \"$1\")\"");
    program(&dir.join("words.py"), "tr -s ' ' '\\n' | sort | uniq -c | wc -l");
    program(&dir.join("check"), "printf '%s\\n' \"$@\" | wc -l");

    let [kadoop, of_hdfs, at_gateway] =
        [rack.uri(""), format!("{}{}", hdfs.uri(), hdfs.scratch("page")), gateway.uri("")];
    for store in ["logs", "days"] {
        rack.run(["mkdir", "-p", &format!("{kadoop}/{store}"), &format!("{of_hdfs}/{store}")], b"").ok();
    }
    put(&rack, &format!("{kadoop}/logs/a.txt"), "a");
    put(&rack, &format!("{kadoop}/logs/b.txt"), "b");
    put(&rack, &format!("{kadoop}/logs/c.csv"), "c");
    let corpus = "one two three four\n".repeat(3 * MIB / 19);
    put(&rack, &format!("{kadoop}/corpus.txt"), &corpus);
    let names: String = (0..30_000).map(|number| format!("a name with spaces {number}\0")).collect();
    put(&rack, &format!("{kadoop}/names"), &names);
    put(&rack, &format!("{of_hdfs}/days/mon"), "x ERROR\ny\nz ERROR\n");
    put(&rack, &format!("{of_hdfs}/days/tue"), "ERROR\n");
    let log: String =
        (0..100_000).map(|n| if n % 10 == 0 { "an ERROR line\n" } else { "a fine line\n" }).collect();
    put(&rack, &format!("{of_hdfs}/log"), &log);
    fresh(&gateway.data(), "photos");
    fs::write(gateway.data().join("photos/cat.jpg"), "tabby").unwrap();

    let mut ran = HashSet::new();
    for line in examples().into_iter().filter(|line| !line.contains("--launcher slurm")) {
        let here = line
            .replace("kadoop://rack1:9091", &kadoop)
            .replace("hdfs://namenode:8020", &of_hdfs)
            .replace("strait://127.0.0.1:9090", &at_gateway);
        assert_ne!(here, line, "it names one of the stores");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &here])
            .current_dir(dir)
            .envs(command(dir).get_envs().filter_map(|(n, v)| Some((n, v?))));
        shell.env("STRAIT_KADOOP_KEY", dir.join("client.key"));
        shell.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        let told = Run::of(shell, b"");
        let text = told.text();
        let sum = || text.split_whitespace().map(|count| count.parse::<usize>().unwrap()).sum::<usize>();
        match line.split_once("strait run ").unwrap().1.split("://").next().unwrap() {
            "kadoop" => {
                let lines: Vec<&str> = text.lines().collect();
                // MD5s of "a" and "b".
                assert_eq!(
                    lines,
                    ["0cc175b9c0f1b6a831c399e269772661  -", "92eb5ffee6ae2fec3ad71c777531578f  -"],
                    "{line}"
                );
                ran.insert("md5sum");
            }
            "--tag hdfs" => {
                assert_eq!(text, format!("{of_hdfs}/days/mon\t2\n{of_hdfs}/days/tue\t1\n"), "{line}");
                ran.insert("--tag");
            }
            "--split chunk --ship ./words.py kadoop" => {
                // Four words in each piece, however it is cut.
                assert_eq!(text.lines().map(str::trim).collect::<Vec<_>>(), ["4"; 3], "{line}");
                ran.insert("--ship");
            }
            "--launcher local strait" => {
                assert_eq!(text, "cat.jpg tabby\n", "{line}");
                ran.insert("{}");
            }
            "--split chunk hdfs" => {
                assert!(sum() == 10_000 && text.lines().count() == 2, "{line}: {text}");
                ran.insert("--split");
            }
            other if other.starts_with("--split 16M --records nul") => {
                assert_eq!(sum(), 30_000, "{line}");
                ran.insert("--records");
            }
            other => panic!("an example that this test doesn't know: {other}: {text}"),
        }
    }
    assert_eq!(ran.len(), 6, "{ran:?}");
}

/// The path of a program.
fn which(name: &str) -> String {
    let path = std::env::var("PATH").unwrap();
    let found = path.split(':').map(|dir| format!("{dir}/{name}")).find(|path| Path::new(path).is_file());
    found.unwrap()
}
