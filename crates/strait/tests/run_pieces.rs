//! `strait run` on pieces of files, with shipped files, and with commands that run twice.

use crate::support::fleet::fleet;
use crate::support::rack::Rack;
use crate::support::ssh::{HOSTS, Sshd};
use crate::support::{self, Gateway, Run, binary, code, command};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use strait_testkit::wait::eventually;
use strait_testkit::{MiniHdfs, SmallDisk, skip, spawn_bound};

const MIB: usize = 1 << 20;
const USAGE: i32 = 2;

/// Lines of many lengths, also very long ones, and a last one without an end.
fn lines(bytes: usize) -> String {
    let mut text = String::new();
    for number in 0.. {
        let length = if number % 97 == 0 { 150_000 } else { number * 7_919 % 400 };
        let _ = writeln!(text, "{number} {}", "x".repeat(length));
        if text.len() >= bytes {
            break;
        }
    }
    text + "the last"
}

/// Whether a process has ended, even if its parent hasn't asked for its exit code.
fn has_ended(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

fn words<'a>(of: &'a [String], more: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    of.iter().map(String::as_str).chain(more.iter().copied())
}

#[test]
fn a_large_file_is_cut_at_its_chunks_and_each_piece_runs_where_it_lies() {
    let (rack, sshd) = (Rack::start(&HOSTS), Sshd::start());
    let (content, uri) = (lines(7 * MIB), rack.uri("/large"));
    let put = ["put", "--replication", "1", "--block-size", &MIB.to_string(), "-", &uri];
    rack.run(put, content.as_bytes()).ok();
    let log = rack.dir.path().join("log");
    let by_ssh = ["run", "--ssh", &sshd.ssh(), "--remote-strait", binary().to_str().unwrap()];
    let split = ["--split", "chunk", "--joblog", log.to_str().unwrap(), &uri, "--"];
    let run = |command: &[&str]| rack.run([&by_ssh[..], &split, command].concat(), b"");
    assert!(run(&["cat"]).ok().stdout == content.as_bytes(), "other bytes");

    let located = rack.run(["locate", &uri], b"");
    let blocks: Vec<Vec<&str>> = located.text().lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(blocks.len(), 8);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in fs::read_to_string(&log).unwrap().lines().skip(1) {
        rows.push(row.split('\t').map(str::to_owned).collect());
    }
    rows.sort_by_key(|row| row[0].parse::<usize>().unwrap());
    assert_eq!(rows.len(), blocks.len());
    for (row, block) in rows.iter().zip(&blocks) {
        assert_eq!(row[1], block[3], "on the host that holds it");
        let start: usize = block[1].parse().unwrap();
        let part = format!("# bytes {start}-{}", start + block[2].parse::<usize>().unwrap());
        assert!(row[8].ends_with(&part), "{row:?}");
    }

    // Each command learns what it has: whole lines, one piece behind the other.
    let told = run(&[
        "sh",
        "-c",
        "echo $STRAIT_INPUT_START $STRAIT_INPUT_LENGTH $STRAIT_INPUT_NUMBER $mapreduce_map_input_start; wc -c",
    ]);
    let numbers: Vec<usize> = told.text().split_whitespace().map(|word| word.parse().unwrap()).collect();
    let mut behind = 0;
    for (index, piece) in numbers.chunks(5).enumerate() {
        let [start, length, number, split, read] = piece else { panic!("{piece:?}") };
        assert_eq!((*start, *length, *number, *split), (behind, *read, index + 1, index * MIB));
        behind += length;
        assert!(behind == content.len() || content.as_bytes()[behind - 1] == b'\n');
    }
    assert_eq!(behind, content.len());
}

#[test]
fn if_a_host_is_down_its_pieces_run_where_the_other_replicas_lie() {
    let (rack, sshd) = (Rack::start(&HOSTS), Sshd::start());
    let (content, uri) = (lines(3 * MIB), rack.uri("/large"));
    rack.run(["put", "--replication", "2", "--block-size", &MIB.to_string(), "-", &uri], content.as_bytes())
        .ok();
    let config = sshd.dir.path().join("client");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("Host {}\nPort 1\n{text}", HOSTS[0])).unwrap();
    let by_ssh = ["run", "--ssh", &sshd.ssh(), "--remote-strait", binary().to_str().unwrap()];
    let ran = rack.run([&by_ssh[..], &["--split", "chunk", &uri, "--", "cat"]].concat(), b"");
    assert!(ran.code == 0 && ran.stdout == content.as_bytes(), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("Connection refused") && !ran.stderr.contains("read from other hosts"),
        "{}",
        ran.stderr
    );
}

#[test]
fn pieces_of_a_file_in_a_real_hdfs_are_its_lines() {
    let hdfs = MiniHdfs::start().unwrap();
    let (dir, content) = (tempfile::tempdir().unwrap(), lines(2 * MIB));
    let parent = format!("{}{}", hdfs.uri(), hdfs.scratch("pieces"));
    let uri = format!("{parent}/large");
    let run = |args: &[&str], input: &[u8]| {
        let mut strait = command(dir.path());
        strait.args(args);
        Run::of(strait, input)
    };
    run(&["mkdir", "-p", &parent], b"").ok();
    run(&["put", "--block-size", &MIB.to_string(), "-", &uri], content.as_bytes()).ok();
    for split in ["chunk", "100k"] {
        let pieces = run(&["run", "--launcher", "local", "--split", split, &uri, "--", "cat"], b"");
        assert!(pieces.ok().stdout == content.as_bytes(), "other bytes by {split}");
        let counts = run(&["run", "--launcher", "local", "--split", split, &uri, "--", "wc", "-l"], b"");
        let counts: Vec<usize> = counts.text().lines().map(|count| count.trim().parse().unwrap()).collect();
        assert_eq!(counts.iter().sum::<usize>(), content.lines().count() - 1, "{counts:?}");
        assert_eq!(counts.len(), if split == "chunk" { 3 } else { content.len().div_ceil(100 << 10) });
    }
}

/// A gateway over one file; its URI.
fn with_file(name: &str, content: &[u8]) -> (Gateway, String) {
    let gateway = Gateway::over_files();
    fs::write(gateway.data().join(name), content).unwrap();
    let uri = gateway.uri(&format!("/{name}"));
    (gateway, uri)
}

const LOCALLY: [&str; 5] = ["run", "--launcher", "local", "--split", "1k"];

#[test]
fn records_of_other_kinds_stay_whole_and_some_files_are_not_cut() {
    let records: Vec<u8> = (0..900_u32).flat_map(|n| format!("{n:05}\0").into_bytes()).collect();
    let (gateway, uri) = with_file("data", &records);
    let run = |more: &[&str]| gateway.run(LOCALLY.iter().chain(more).copied());
    let sizes = |records: &str| {
        let told = run(&["--records", records, &uri, "--", "wc", "-c"]);
        told.text().lines().map(|size| size.trim().parse::<usize>().unwrap()).collect::<Vec<_>>()
    };
    for (records, unit) in [("nul", 6), ("90", 90), ("90B", 90), ("bytes", 1)] {
        let sizes = sizes(records);
        assert_eq!((sizes.iter().sum::<usize>(), sizes.len()), (5_400, 6), "{records}: {sizes:?}");
        assert!(sizes.iter().all(|size| size % unit == 0), "{records}: {sizes:?}");
    }
    // Without an end of a record, the first piece has all, and the others have nothing to read.
    assert_eq!(sizes("lines"), [5_400, 0, 0, 0, 0, 0]);
    assert!(run(&[&uri, "--", "sh", "-c", "cat \"$1\"", "sh", "{}"]).ok().stdout == records);

    fs::write(gateway.data().join("data.gz"), &records).unwrap();
    fs::write(gateway.data().join("empty"), "").unwrap();
    let whole = run(&[&gateway.uri("/data.gz"), &gateway.uri("/empty"), "--", "wc", "-c"]);
    assert_eq!(whole.text().split_whitespace().collect::<Vec<_>>(), ["5400", "0"]);
    for bad in [["--split", "10"], ["--split", "many"], ["--records", "0"]] {
        let refused = gateway
            .run(["run", "--launcher", "local"].iter().chain(&bad).copied().chain([&*uri, "--", "cat"]));
        assert_eq!(refused.code, USAGE, "{}", refused.stderr);
    }
}

#[test]
fn a_resumed_run_leaves_out_the_pieces_that_succeeded() {
    let content: String = (0..1_000).map(|n| format!("{n}\n")).collect();
    let (gateway, uri) = with_file("data", content.as_bytes());
    let log = gateway.dir.path().join("log");
    let flags = ["--joblog", log.to_str().unwrap(), "--resume"];
    let run = || {
        let script = "[ $STRAIT_INPUT_NUMBER != 2 ] || [ -e again ] || exit 1; cat";
        gateway.run(LOCALLY.iter().chain(&flags).copied().chain([&*uri, "--", "sh", "-c", script]))
    };
    let first = run();
    assert_eq!(first.code, 1, "{}", first.stderr);
    assert!(first.stderr.contains("/data#1024-2048: the command ended with exit code 1"), "{}", first.stderr);
    fs::write(gateway.dir.path().join("again"), "").unwrap();
    let second = run();
    let all = [first.stdout, second.ok().stdout.clone()].concat();
    let mut lines: Vec<&str> = std::str::from_utf8(&all).unwrap().lines().collect();
    lines.sort_by_key(|line| line.parse::<u32>().unwrap());
    assert!(lines.iter().copied().eq(content.lines()), "each line once");
    assert!(run().ok().stdout.is_empty(), "nothing is left");
}

#[test]
fn a_file_that_another_one_replaced_is_not_read() {
    let (gateway, uri) = with_file("data", lines(5_000).as_bytes());
    let data = gateway.data().display().to_string();
    let replace = format!("cp {data}/data {data}/new && mv {data}/new {data}/data");
    let by_fleet = fleet(gateway.dir.path(), &["a"], &replace);
    let replaced = gateway.run(words(&by_fleet, &["--split", "1k", &uri, "--", "cat"]));
    assert!(replaced.code > 0 && replaced.stdout.is_empty(), "{}", replaced.stderr);
    assert!(replaced.stderr.contains("another file has this name"), "{}", replaced.stderr);
}

/// A program for hosts, and a file that it reads.
fn tool(dir: &Path) -> [String; 2] {
    let (tool, table) = (dir.join("tool.sh"), dir.join("a table"));
    fs::write(&tool, "#!/bin/sh\ncat 'a table' -\nls -l | grep -c -- '->'\npwd >&2\ntouch left-over\n")
        .unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&table, "table ").unwrap();
    [tool, table].map(|path| path.display().to_string())
}

/// The remains of shipped files in a cache directory.
fn left(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache.join("strait/ship")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn shipped_files_are_beside_each_command_and_gone_afterwards() {
    let ((gateway, uri), sshd) = (with_file("data", b"data\n"), Sshd::start());
    let [tool, table] = tool(gateway.dir.path());
    let ship = ["--ship", &tool, "--ship", &table, &uri, &uri, "--", "./tool.sh"];
    let by_ssh =
        ["run", "--ssh", &sshd.ssh(), "--remote-strait", binary().to_str().unwrap(), "--host", HOSTS[1]];
    for launcher in [&by_ssh[..], &["run", "--launcher", "local"]] {
        let ran = gateway.run(launcher.iter().chain(&ship).copied());
        assert_eq!(
            (ran.code, String::from_utf8_lossy(&ran.stdout).as_ref()),
            (0, "table data\n2\ntable data\n2\n"),
            "{}",
            ran.stderr
        );
        for line in ran.stderr.lines() {
            let (_, directory) = line.rsplit_once(": ").unwrap();
            assert!(directory.contains("/strait/ship/") && !Path::new(directory).exists(), "{directory}");
        }
    }
    for cache in [sshd.dir.path().join("cache"), gateway.dir.path().join(".cache")] {
        eventually("nothing is left", || left(&cache).is_empty());
        let mode = fs::metadata(cache.join("strait/ship")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    let twice =
        gateway.run(["run", "--launcher", "local", "--ship", &tool, "--ship", &tool, &uri, "--", "true"]);
    twice.fails(USAGE, "would have the same name");
}

#[test]
fn what_a_killed_helper_left_is_removed_by_the_next() {
    let (gateway, uri) = with_file("data", b"data\n");
    let [tool, table] = tool(gateway.dir.path());
    let by_fleet = fleet(gateway.dir.path(), &["a"], "");
    let killing = ["--ship", &tool, "--ship", &table, &uri, "--", "sh", "-c", "kill -9 $PPID"];
    let killed = gateway.run(words(&by_fleet, &killing));
    assert!(killed.code > 0 && killed.stderr.contains("no host is left"), "{}", killed.stderr);
    let cache = gateway.dir.path().join("a/cache");
    assert_eq!(left(&cache).len(), 2, "the directory and its lock");
    let next = gateway.run(words(&by_fleet, &["--ship", &table, &uri, "--", "cat", "a table", "-"]));
    assert_eq!(next.text(), "table data\n");
    eventually("nothing is left", || left(&cache).is_empty());
}

#[test]
fn a_host_without_space_for_shipped_files_is_passed_over() {
    let claim = "a_host_without_space_for_shipped_files_is_passed_over";
    if !rustix::process::geteuid().is_root() {
        return skip(claim, "root, to mount a small disk");
    }
    let (gateway, uri) = with_file("data", b"data\n");
    let disk = SmallDisk::new(4 << 20).unwrap();
    let big = gateway.dir.path().join("big");
    fs::write(&big, vec![7; 8 * MIB]).unwrap();
    let small = format!(
        "[ $host != full ] || {{ mkdir -p {0}/full; ln -sfn {1} {0}/full/cache; }}",
        gateway.dir.path().display(),
        disk.path().display()
    );
    let ship = ["--ship", big.to_str().unwrap(), &uri, "--", "wc", "-c", "big"];
    let alone = gateway.run(words(&fleet(gateway.dir.path(), &["full"], &small), &ship));
    assert!(alone.code > 0 && alone.stderr.contains("full: write shipped"), "{}", alone.stderr);
    let ran = gateway.run(words(&fleet(gateway.dir.path(), &["full", "good"], &small), &ship));
    assert_eq!((ran.code, String::from_utf8_lossy(&ran.stdout).trim()), (0, "8388608 big"), "{}", ran.stderr);
}

#[test]
fn a_straggler_runs_again_elsewhere_and_the_first_end_counts() {
    let gateway = Gateway::over_files();
    let uris: Vec<String> = (0..6)
        .map(|number| {
            fs::write(gateway.data().join(number.to_string()), format!("{number}\n")).unwrap();
            gateway.uri(&format!("/{number}"))
        })
        .collect();
    let pid = gateway.dir.path().join("pid");
    // The first attempt at the first input prints something, and hangs.
    let script = format!(
        "read x; echo \"got $x\"; [ $x$STRAIT_INPUT_ATTEMPT != 01 ] || {{ echo $$ >{}; sleep 1000; }}; echo end",
        pid.display()
    );
    let by_fleet = fleet(gateway.dir.path(), &["a", "b"], "");
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    let flags = [&["--duplicate-stragglers", "-j", "1"][..], &uris, &["--", "sh", "-c", &script]].concat();
    let ran = gateway.run(words(&by_fleet, &flags));
    let expected: String = (0..6).map(|number| format!("got {number}\nend\n")).collect();
    assert_eq!(ran.text(), expected);
    let slow = fs::read_to_string(pid).unwrap();
    eventually("the slow one is gone", || has_ended(&slow));
}

#[test]
fn each_output_comes_once_however_helpers_are_killed() {
    let rounds: u32 = std::env::var("RUN_KILLS").map_or(4, |rounds| rounds.parse().unwrap());
    let gateway = Gateway::over_files();
    let uris: Vec<String> = (0..12)
        .map(|number| {
            fs::write(gateway.data().join(format!("{number:02}")), format!("{number}\n")).unwrap();
            gateway.uri(&format!("/{number:02}"))
        })
        .collect();
    let expected: String = (0..12).map(|number| format!("{number}\n{number} end\n")).collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    for round in 0..rounds {
        // A command kills its helper in two of three hosts, once each.
        let script = format!(
            "read x; echo $x; sleep 0.0$((x * 7 % 5)); cd; h=$(basename \"$PWD\"); \
             [ $h = c ] || [ $((x % 3)) != {} ] || ! mkdir killed{round} 2>/dev/null || kill -9 $PPID; echo $x end",
            round % 3
        );
        let by_fleet = fleet(gateway.dir.path(), &["a", "b", "c"], "");
        let flags = [&["-j", "2"][..], &uris, &["--", "sh", "-c", &script]].concat();
        let ran = gateway.run(words(&by_fleet, &flags));
        assert_eq!(
            (ran.code, String::from_utf8_lossy(&ran.stdout).as_ref()),
            (0, &*expected),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_lost_terminal_ends_the_commands_of_all_hosts() {
    let (gateway, uri) = with_file("data", b"data\n");
    let pids = support::fresh(gateway.dir.path(), "pids");
    let by_fleet = fleet(gateway.dir.path(), &["a", "b"], "");
    let script = format!("sleep 1000 & echo $! >{0}/$$; wait", pids.display());
    let mut strait = command(gateway.dir.path());
    strait.args(&by_fleet).args(["-j", "1", &uri, &uri, "--", "sh", "-c", &script]);
    strait.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = spawn_bound(strait).unwrap();
    let begun = || -> Vec<String> {
        let files =
            fs::read_dir(&pids).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        files.filter(|pid| pid.ends_with('\n')).collect()
    };
    eventually("both run", || begun().len() == 2);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(code(child.wait().unwrap()), 128 + 1);
    for pid in begun() {
        eventually("it is gone", || has_ended(&pid));
    }
}
