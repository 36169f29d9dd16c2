//! `strait mount --keep`: the process that serves is killed, again and again, and programs notice
//! nothing. Only root may mount here.

use crate::support::load::{FLAGS, HIDDEN, Load};
use crate::support::mounted::{self, Mounted, is_mounted, unmount};
use crate::support::rack::Rack;
use crate::support::{self, Gateway, Run, ended};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;
use strait_testkit::MiniHdfs;
use strait_testkit::wait::{eventually, pause, wait_until};

const DEADLINE: Duration = Duration::from_secs(60);
/// "Transport endpoint is not connected".
const NOT_CONNECTED: i32 = 107;

/// `MOUNT_ROUNDS=100` for the heavy tier.
fn rounds(usual: u64) -> u64 {
    std::env::var("MOUNT_ROUNDS").map_or(usual, |rounds| rounds.parse().unwrap())
}

/// Another process serves the mount again and again: by turns after a kill of the one before, and by a
/// takeover.
fn programs_notice_nothing(mut mounted: Mounted, rounds: u64) {
    let mut load = Load::begin(&mounted);
    for round in 0..rounds {
        load.goes_on();
        if round % 2 == 0 {
            // Longer than the keeper takes for one that was killed at its begin.
            pause("at another place of the programs' work", Duration::from_millis(600 + round * 137 % 400));
            mounted.kill_server();
        } else {
            mounted.take_over();
        }
    }
    load.end(mounted);
}

fn kept(more: &[&'static str]) -> Vec<&'static str> {
    [&["--keep"], &FLAGS[..], more].concat()
}

#[test]
fn programs_notice_no_kill_or_takeover_of_a_mounted_directory() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let claim = "kills and takeovers of a directory's mount";
    let Some(mounted) = Mounted::of(claim, &uri, &kept(&[])) else { return };
    programs_notice_nothing(mounted, rounds(4));
}

#[test]
fn programs_notice_no_kill_or_takeover_of_mounted_kadoop() {
    let rack = Rack::start(&["127.0.0.1", "127.0.0.2"]);
    let key = rack.dir.path().join("client.key");
    let environment = [("STRAIT_KADOOP_KEY", key.as_path())];
    let claim = "kills and takeovers of Kadoop's mount";
    let Some(mounted) = Mounted::within(&environment, claim, &rack.uri("/"), &kept(&[])) else { return };
    programs_notice_nothing(mounted, rounds(4));
}

#[test]
fn programs_notice_no_kill_or_takeover_of_a_mount_for_every_user() {
    let rack = Rack::start(&["127.0.0.1"]);
    let key = rack.dir.path().join("cluster.key");
    let environment = [("STRAIT_KADOOP_KEY", key.as_path())];
    let (claim, flags) = ("kills and takeovers of a mount for every user", kept(&["--allow-other"]));
    let Some(mounted) = Mounted::within(&environment, claim, &rack.uri("/"), &flags) else { return };
    programs_notice_nothing(mounted, 2);
}

#[test]
fn programs_notice_no_kill_or_takeover_of_a_mounted_gateway() {
    let gateway = Gateway::over_files();
    let claim = "kills and takeovers of a gateway's mount";
    let Some(mounted) = Mounted::of(claim, &gateway.uri("/"), &kept(&[])) else { return };
    programs_notice_nothing(mounted, 2);
}

#[test]
fn programs_notice_no_kill_or_takeover_of_mounted_hdfs() {
    if std::env::var_os("STRAIT_TEST_HDFS").is_none() {
        return strait_testkit::skip("kills and takeovers of HDFS's mount", "STRAIT_TEST_HDFS");
    }
    let hdfs = MiniHdfs::start().unwrap();
    let uri = format!("{}{}", hdfs.uri(), hdfs.scratch("mounted"));
    let home = tempfile::tempdir().unwrap();
    let mut make = support::command(home.path());
    make.args(["mkdir", &uri]);
    Run::of(make, b"").ok();
    let claim = "kills and takeovers of HDFS's mount";
    let Some(mounted) = Mounted::of(claim, &uri, &kept(&[])) else { return };
    programs_notice_nothing(mounted, rounds(2));
}

#[test]
fn a_removed_plfs_file_leaves_nothing_if_the_process_is_killed_while_it_removes_the_container() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let claim = "a kill while a container is removed";
    let Some(mounted) = Mounted::of(claim, &uri, &kept(&[])) else { return };
    let file = File::create_new(mounted.path("f.ckpt")).unwrap();
    // Removing so many takes a while, and begins with the container's mark.
    let logs = data.path().join("f.ckpt/logs");
    (0..10_000).for_each(|number| drop(File::create(logs.join(format!("{number}"))).unwrap()));
    fs::remove_file(mounted.path("f.ckpt")).unwrap();
    let left = || {
        let entries = fs::read_dir(data.path()).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let [hidden] = &left()[..] else { panic!("{:?}", left()) };
    assert!(hidden.file_name().unwrap().to_str().unwrap().starts_with(HIDDEN), "{hidden:?}");
    drop(file);
    while hidden.join(".plfs").exists() {}
    mounted.kill_server();
    assert!(wait_until(DEADLINE, || left().is_empty()), "still there: {:?}", left());
    mounted.umount();
}

#[test]
fn a_mount_in_the_background_survives_a_kill_and_a_takeover_and_another_kill() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let Some(mut mounted) = Mounted::of("a kept mount is taken over", &uri, &["--keep"]) else { return };
    let mut file = File::create(mounted.path("f")).unwrap();
    file.write_all(b"one ").unwrap();
    mounted.kill_server();
    file.write_all(b"two ").unwrap();
    mounted.take_over();
    file.write_all(b"three ").unwrap();
    mounted.kill_server();
    file.write_all(b"four").unwrap();
    drop(file);
    assert_eq!(fs::read_to_string(data.path().join("f")).unwrap(), "one two three four");
    // A signal for the keeper ends the mount as it does without one.
    mounted.process.signal(Signal::TERM);
    assert_eq!(ended(&mut mounted.process), 0, "{}", mounted.process.log_tail());
    assert!(!is_mounted(&mounted.place));
}

#[test]
fn a_mount_ends_if_each_of_its_processes_is_killed_at_once() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let Some(mut mounted) = Mounted::of("a mount that can't be kept", &uri, &["--keep"]) else { return };
    let open = File::create(mounted.path("f")).unwrap();
    let keeper = mounted.process.id();
    assert!(wait_until(DEADLINE, || {
        if let Some(pid) = mounted::server(keeper).and_then(|pid| Pid::from_raw(pid as i32)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        mounted.process.try_wait().is_some()
    }));
    assert!(mounted.process.log_tail().contains("unmounting"), "{}", mounted.process.log_tail());
    assert!(!is_mounted(&mounted.place));
    assert_eq!(open.metadata().unwrap_err().raw_os_error(), Some(NOT_CONNECTED));
}

/// The processes that serve a mount and have, or had, a keeper.
fn servers(mounted: &Mounted) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let of_mount = all.filter(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("--kept") && line.contains(mounted.place.to_str().unwrap())
    });
    of_mount.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn a_mount_goes_on_without_its_keeper_until_it_gets_another() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let Some(mut mounted) = Mounted::of("a keeper is killed", &uri, &["--keep"]) else { return };
    let mut file = File::create(mounted.path("f")).unwrap();
    let before = servers(&mounted);
    mounted.process.kill();
    file.write_all(b"one ").unwrap();
    file.sync_all().unwrap();
    assert_eq!(servers(&mounted), before);
    Run::of(mounted.command(&["--daemon", "--take-over"]), b"").ok();
    let kill = |killed: i32| {
        kill_process(Pid::from_raw(killed).unwrap(), Signal::KILL).unwrap();
        eventually("another process serves", || {
            let now = servers(&mounted);
            now.len() == 1 && now[0] != killed
        });
    };
    eventually("the process before has ended", || servers(&mounted).len() == 1);
    let [next] = servers(&mounted)[..] else { panic!("one server, not {:?}", servers(&mounted)) };
    assert_ne!(before, [next]);
    file.write_all(b"two ").unwrap();
    kill(next);
    file.write_all(b"three").unwrap();
    drop(file);
    assert_eq!(fs::read_to_string(data.path().join("f")).unwrap(), "one two three");
    unmount(&mounted.place);
    eventually("all processes have ended", || servers(&mounted).is_empty());
}

#[test]
fn a_mount_whose_record_cannot_be_written_goes_on_and_says_so() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let Some(mounted) = Mounted::of("a record that can't be written", &uri, &["--keep"]) else { return };
    // Each file has 32 MiB of the record's address space.
    let limit = Rlimit { current: Some(48 << 20), maximum: Some(48 << 20) };
    let served = mounted::server(mounted.process.id()).unwrap();
    prlimit(Pid::from_raw(served as i32), Resource::Fsize, limit).unwrap();
    for number in 0..6 {
        fs::write(mounted.path(&format!("{number}")), "text").unwrap();
    }
    assert_eq!(mounted::server(mounted.process.id()), Some(served), "the process goes on");
    assert!(mounted.process.log_tail().contains("the mount's record"), "{}", mounted.process.log_tail());
    assert_eq!(fs::read_to_string(mounted.path("5")).unwrap(), "text");
    mounted.umount();
}

#[test]
fn daemons_keep_their_mounts() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let Some(mut mounted) = Mounted::of("a daemon is kept", &uri, &[]) else { return };
    Run::of(mounted.command(&["--daemon", "--take-over"]), b"").ok();
    assert_eq!(ended(&mut mounted.process), 0, "{}", mounted.process.log_tail());
    let file = File::create(mounted.path("f")).unwrap();
    let [served] = servers(&mounted)[..] else { panic!("one server, not {:?}", servers(&mounted)) };
    kill_process(Pid::from_raw(served).unwrap(), Signal::KILL).unwrap();
    (&file).write_all(b"text").unwrap();
    drop(file);
    assert_eq!(fs::read_to_string(mounted.path("f")).unwrap(), "text");
    unmount(&mounted.place);
    assert!(wait_until(DEADLINE, || servers(&mounted).is_empty()));
}
