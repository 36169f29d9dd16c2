//! `strait run`: on this host, and on others by a real ssh server.

use crate::support::ssh::{HOSTS, Sshd, only_file};
use crate::support::up::Up;
use crate::support::{Gateway, Run, binary, code, command};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use strait_testkit::spawn_bound;
use strait_testkit::wait::eventually;

const NULL: serde_json::Value = serde_json::Value::Null;
const INTERRUPTED: i32 = 128 + 2;
const LOCALLY: [&str; 3] = ["run", "--launcher", "local"];

/// A gateway over files 0 to `count`, each with its number; their URIs.
fn numbered(count: usize) -> (Gateway, Vec<String>) {
    let gateway = Gateway::over_files();
    let uris = (0..count).map(|number| {
        fs::write(gateway.data().join(format!("{number:03}")), number.to_string()).unwrap();
        gateway.uri(&format!("/{number:03}"))
    });
    let uris = uris.collect();
    (gateway, uris)
}

fn run(gateway: &Gateway, flags: &[&str], uris: &[String], command: &[&str]) -> Run {
    let words = LOCALLY.iter().chain(flags).copied().chain(uris.iter().map(String::as_str));
    gateway.run(words.chain(["--"]).chain(command.iter().copied()))
}

fn read_pid(file: &Path) -> Option<Pid> {
    Pid::from_raw(fs::read_to_string(file).ok()?.trim().parse().ok()?)
}

/// Whether it has ended, even if its parent hasn't asked for its exit code.
fn has_ended(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

#[test]
fn outputs_come_whole_and_in_the_order_of_inputs() {
    let (gateway, uris) = numbered(12);
    // The first ones take longest, and print in two parts.
    let slow = "read x; printf \"$x \"; sleep 0.$((9 - x % 9)); echo end";
    let expected: String = (0..12).map(|number| format!("{number} end\n")).collect();
    let slow = ["sh", "-c", slow];
    assert_eq!(run(&gateway, &["-j", "6"], &uris, &slow).text(), expected);

    let unordered = run(&gateway, &["-j", "6", "--unordered", "--tag"], &uris, &slow);
    let mut lines: Vec<&str> = unordered.text().lines().collect();
    lines.sort_unstable();
    let tagged: Vec<String> = uris.iter().enumerate().map(|(n, uri)| format!("{uri}\t{n} end")).collect();
    assert_eq!(lines, tagged);

    let listed = uris.join("\0");
    let words = LOCALLY.iter().copied().chain(["-0", "-", "--", "cat"]);
    assert_eq!(gateway.run_with(words, listed.as_bytes(), &[]).text(), "01234567891011");
    let pattern = [gateway.uri("/00*")];
    assert_eq!(run(&gateway, &[], &pattern, &["cat"]).text(), "0123456789");
}

#[test]
fn large_inputs_and_outputs_pass_and_need_not_be_read() {
    let gateway = Gateway::over_files();
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_be_bytes).collect();
    fs::write(gateway.data().join("large"), &content).unwrap();
    let uris = vec![gateway.uri("/large"), gateway.uri("/large")];
    let both = run(&gateway, &[], &uris, &["cat"]);
    assert!(both.ok().stdout == content.repeat(2), "other bytes");
    assert_eq!(run(&gateway, &[], &uris, &["echo", "unread"]).text(), "unread\nunread\n");

    // A reader that leaves ends everything.
    let mut command = command(gateway.dir.path());
    command.args(LOCALLY).args(&uris).args(["--", "cat"]).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut child = spawn_bound(command).unwrap();
    drop(child.stdout.take());
    assert_eq!(code(child.wait().unwrap()), 128 + 13);
}

#[test]
fn names_reach_commands_as_they_are() {
    let gateway = Gateway::over_files();
    let names = ["a b", "quote'\"", "new\nline", "$(touch hacked)", "-rf", "{}"];
    for name in names {
        fs::write(gateway.data().join(name), name).unwrap();
    }
    let uris: Vec<String> = names.iter().map(|name| gateway.uri(&format!("/{name}"))).collect();
    assert_eq!(run(&gateway, &[], &uris, &["cat"]).text(), names.concat());
    // In a copy of the same name, in a directory that only its user can enter, and is gone afterwards.
    let script = "cat \"$1\"; basename \"$1\"; stat -c %a \"$(dirname \"$1\")\"; dirname \"$1\" >&2";
    let copied = run(&gateway, &[], &uris[..1], &["sh", "-c", script, "sh", "{}"]);
    assert_eq!(String::from_utf8_lossy(&copied.stdout), "a ba b\n700\n");
    let (_, directory) = copied.stderr.trim_end().rsplit_once(": ").unwrap();
    assert!(directory.contains("strait-run-") && !Path::new(directory).exists(), "{directory}");
    assert!(!gateway.dir.path().join("hacked").exists());
}

#[test]
fn failures_are_told_and_counted_and_leave_the_others_alone() {
    let (gateway, mut uris) = numbered(4);
    uris.push(gateway.uri("/none"));
    let odd = "read x; [ $((x % 2)) = 0 ] || { echo problem >&2; exit 3; }; echo $x";
    let log = gateway.dir.path().join("log");
    let flags = ["--joblog", log.to_str().unwrap()];
    let failed = run(&gateway, &flags, &uris, &["sh", "-c", odd]);
    // Two commands, and an input that is missing.
    assert_eq!((failed.code, String::from_utf8_lossy(&failed.stdout).as_ref()), (3, "0\n2\n"));
    for line in
        [format!("{}: problem", uris[1]), format!("strait: {}: the command ended with exit code 3", uris[3])]
    {
        assert!(failed.stderr.lines().any(|told| told == line), "{line}: {}", failed.stderr);
    }
    assert!(failed.stderr.contains("/none"), "{}", failed.stderr);
    let rows = fs::read_to_string(&log).unwrap();
    let mut exits: Vec<(&str, &str)> = rows
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .map(|fields| (fields[0], fields[6]))
        .collect();
    exits.sort_unstable();
    assert_eq!(exits, [("1", "0"), ("2", "3"), ("3", "0"), ("4", "3")]);

    // The same command line goes on where it failed.
    let again = run(&gateway, &[&flags[..], &["--resume"]].concat(), &uris[..4], &["sh", "-c", odd]);
    assert_eq!((again.code, again.stdout.as_slice()), (2, &b""[..]));
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 1 + 4 + 2);

    // The second time it works.
    let once = "read x; mkdir done$x && echo lost && exit 1; echo $x";
    let retried = run(&gateway, &["--retries", "2"], &uris[..4], &["sh", "-c", once]);
    assert_eq!((retried.code, String::from_utf8_lossy(&retried.stdout).as_ref()), (0, "0\n1\n2\n3\n"));
    let only = run(&gateway, &[], &uris[4..], &["cat"]);
    assert!(only.code == 1 && only.stderr.contains("/none"), "{}", only.stderr);
    let elsewhere = run(&gateway, &["--host", "other"], &uris[..1], &["cat"]);
    assert!(elsewhere.code == 2 && elsewhere.stderr.contains("--host"), "{}", elsewhere.stderr);
    let missing = run(&gateway, &[], &uris[..1], &["no-such-command"]);
    assert!(missing.code == 1 && missing.stderr.contains("no-such-command"), "{}", missing.stderr);
}

#[test]
fn a_program_tells_framed_outputs_apart() {
    let (gateway, mut uris) = numbered(4);
    uris.push(gateway.uri("/none"));
    let script = "read x; echo $x; [ $x != 2 ] || exit 7; [ $x != 3 ] || kill -9 $$";
    let ran = run(&gateway, &["--framed"], &uris, &["sh", "-c", script]);
    let (mut rest, mut told) = (ran.stdout.as_slice(), Vec::new());
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let header: serde_json::Value = serde_json::from_slice(&rest[..end]).unwrap();
        let (output, next) = rest[end + 1..].split_at(header["output_bytes"].as_u64().unwrap() as usize);
        assert_eq!((&header["host"], &header["start"], &header["failure"]), (&":".into(), &NULL, &NULL));
        let text = |name: &str| header[name].as_str().unwrap().to_owned();
        let number = |name: &str| header[name].as_i64().unwrap();
        told.push((text("uri"), number("exit"), number("signal"), output.to_vec()));
        rest = next;
    }
    let ended = |n: usize, exit, signal| (uris[n].clone(), exit, signal, format!("{n}\n").into_bytes());
    assert_eq!(told, [ended(0, 0, 0), ended(1, 0, 0), ended(2, 7, 0), ended(3, 0, 9)]);
    // The others' ends are in the frames alone.
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains("/none") && !ran.stderr.contains("exit code"), "{}", ran.stderr);
    assert_eq!(run(&gateway, &["--framed", "--tag"], &uris, &["cat"]).code, 2, "not both");
}

#[test]
fn commands_end_in_time_and_with_the_command_line_that_began_them() {
    let (gateway, uris) = numbered(1);
    let pid_file = gateway.dir.path().join("pid");
    let sleeper = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", pid_file.display());
    let is_gone = || read_pid(&pid_file).is_some_and(has_ended);
    let late = run(&gateway, &["--command-timeout", "1"], &uris, &["sh", "-c", &sleeper]);
    assert!(late.code == 1 && late.stderr.contains("ended after 1 s"), "{}", late.stderr);
    eventually("the descendant is gone", is_gone);

    fs::remove_file(&pid_file).unwrap();
    let mut command = command(gateway.dir.path());
    command.args(LOCALLY).args(&uris).args(["--", "sh", "-c", &sleeper]).stdin(Stdio::null());
    let mut child = spawn_bound(command).unwrap();
    eventually("it runs", || read_pid(&pid_file).is_some());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(code(child.wait().unwrap()), INTERRUPTED);
    eventually("the descendant is gone", is_gone);
}

/// Words of `run` by ssh, with this build on the hosts.
fn by_ssh(sshd: &Sshd) -> Vec<String> {
    ["run", "--ssh", &sshd.ssh(), "--remote-strait", binary().to_str().unwrap()].map(str::to_owned).into()
}

#[test]
fn commands_run_on_the_hosts_that_hold_the_files() {
    let (sshd, up) = (Sshd::start(), Up::start());
    for number in 0..6 {
        up.run(["put", "-", &up.uri(&format!("/{number}"))], format!("{number}\n").as_bytes()).ok();
    }
    let pattern = up.uri("/*");
    let located = up.run(["locate", &up.uri("/0")], b"");
    let host = located.text().trim_end().rsplit('\t').next().unwrap();
    let (log, dry) =
        (up.dir.path().join("log"), [by_ssh(&sshd), vec!["--dry-run".into(), pattern.clone()]].concat());
    let plan = up.run(dry.iter().map(String::as_str).chain(["--", "cat"]), b"");
    let planned: Vec<_> = plan.text().lines().collect();
    assert!(
        planned.len() == 6 && planned.iter().all(|line| line.starts_with(&format!("{host}\t2\t"))),
        "{planned:?}"
    );
    let words = [by_ssh(&sshd), vec!["--joblog".into(), log.display().to_string(), pattern]].concat();
    let ran = up.run(words.iter().map(String::as_str).chain(["--", "cat"]), b"");
    assert_eq!(ran.text(), "0\n1\n2\n3\n4\n5\n");
    let rows = fs::read_to_string(log).unwrap();
    assert!(rows.lines().skip(1).all(|row| row.split('\t').nth(1) == Some(host)), "{rows}");
}

#[test]
fn a_lost_hosts_commands_run_elsewhere_and_print_once() {
    let ((gateway, uris), sshd) = (numbered(8), Sshd::start());
    let directory = gateway.dir.path().display();
    // Each helper leaves its process id before its first command waits for the other's.
    let wait = format!(
        "cat; mkdir {directory}/$PPID 2>/dev/null; until [ -e {directory}/go ]; do sleep 0.05; done; echo \" end\""
    );
    let hosts = HOSTS.iter().flat_map(|host| ["--host", host]);
    let mut command = command(gateway.dir.path());
    command.args(by_ssh(&sshd)).args(hosts).args(["-j", "2"]).args(&uris).args(["--", "sh", "-c", &wait]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = spawn_bound(command).unwrap();
    let helpers = || -> Vec<Pid> {
        let names = fs::read_dir(gateway.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?)).collect()
    };
    eventually("both hosts work", || helpers().len() == 2);
    kill_process(helpers()[0], Signal::KILL).unwrap();
    fs::write(gateway.dir.path().join("go"), "").unwrap();
    let ended = child.wait_with_output().unwrap();
    let expected: String = (0..8).map(|number| format!("{number} end\n")).collect();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(
        (code(ended.status), String::from_utf8_lossy(&ended.stdout).as_ref()),
        (0, expected.as_str()),
        "{told}"
    );
    assert!(told.contains("on other hosts"), "{told}");
}

#[test]
fn a_host_that_lacks_the_program_gets_it_and_an_unknown_host_gets_nothing() {
    let ((gateway, uris), sshd) = (numbered(2), Sshd::start());
    let ssh = sshd.ssh();
    let ship = || {
        let words = ["run", "--ssh", &ssh, "--host", HOSTS[0], &uris[0], &uris[1], "--", "cat"];
        gateway.run(words)
    };
    assert_eq!(ship().text(), "01");
    let program = only_file(&sshd.cache());
    let modes = [&program, &sshd.cache()].map(|path| path.metadata().unwrap().permissions().mode() & 0o777);
    assert_eq!(modes, [0o700, 0o700]);
    let first = program.metadata().unwrap().modified().unwrap();
    assert_eq!(ship().text(), "01");
    assert_eq!(program.metadata().unwrap().modified().unwrap(), first, "sent once");
    // A file that another program changed is never run.
    // In its place: the program itself may still run.
    fs::remove_file(&program).unwrap();
    fs::write(&program, "#!/bin/sh\ntouch /tmp/never").unwrap();
    assert_eq!(ship().text(), "01");
    assert!(program.metadata().unwrap().len() > 1_000);

    sshd.forget();
    let refused = ship();
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("Host key verification failed"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(sshd.dir.path().join("known")).unwrap(), "");
}
