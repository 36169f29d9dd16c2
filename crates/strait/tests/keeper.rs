//! `strait mount --keep`: the process that serves is killed, again and again, and programs notice
//! nothing. Only root may mount here.

#[path = "support/mounted.rs"]
mod mounted;
#[path = "support/programs.rs"]
mod programs;
#[path = "support/rack.rs"]
mod rack;
mod support;
#[path = "support/up.rs"]
mod up;

use mounted::{Mounted, is_mounted};
use programs::{Program, content};
use rack::Rack;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use strait_testkit::wait::{pause, wait_until};
use support::{Run, ended};

const DEADLINE: Duration = Duration::from_secs(60);
const PIECE: usize = 4_096;
/// Begin of the names of files that were removed while they were open.
const HIDDEN: &str = ".strait-removed-";
/// "Transport endpoint is not connected".
const NOT_CONNECTED: i32 = 107;

/// `KEEPER_KILLS=50` for the heavy tier.
fn kills() -> u64 {
    std::env::var("KEEPER_KILLS").map_or(10, |kills| kills.parse().unwrap())
}

/// The process that a keeper started.
fn server(keeper: u32) -> Option<u32> {
    let tasks = fs::read_dir(format!("/proc/{keeper}/task")).ok()?;
    let children = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children.collect::<String>().split_whitespace().next()?.parse().ok()
}

/// Kills the process that serves.
fn kill_server(mounted: &Mounted) {
    let keeper = mounted.process.id();
    let mut killed = None;
    assert!(wait_until(DEADLINE, || {
        killed = server(keeper);
        killed.is_some()
    }));
    let pid = Pid::from_raw(killed.unwrap() as i32).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert!(wait_until(DEADLINE, || server(keeper).is_some_and(|next| Some(next) != killed)));
}

/// A program that appends to a file, and sees each byte once.
fn appends(stop: &Arc<AtomicBool>, mounted: &Mounted) -> Program {
    let mut log = OpenOptions::new().append(true).create_new(true).open(mounted.path("log")).unwrap();
    Program::begin(stop, move |step| {
        log.write_all(&content(PIECE)).unwrap_or_else(|error| panic!("append {step}: {error}"));
        let length = log.metadata().unwrap().len();
        assert_eq!(length, (step + 1) * PIECE as u64, "after step {step}");
        if step % 64 == 63 {
            log.sync_all().unwrap_or_else(|error| panic!("sync {step}: {error}"));
        }
    })
}

/// A program that changes names. Each change must have been executed once, when it is answered.
fn renames(stop: &Arc<AtomicBool>, mounted: &Mounted) -> Program {
    let place = mounted.path("names");
    fs::create_dir(&place).unwrap();
    Program::begin(stop, move |step| {
        let at = |what: &str, done: std::io::Result<()>| {
            done.unwrap_or_else(|error| panic!("{what} in step {step}: {error}"));
        };
        let (a, b, d) = (place.join(format!("{step}")), place.join("other"), place.join(format!("d{step}")));
        at("mkdir", fs::create_dir(&d));
        assert_eq!(fs::create_dir(&d).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let text = format!("text {step}");
        let mut file = OpenOptions::new().write(true).create_new(true).open(&a).unwrap();
        at("write", file.write_all(text.as_bytes()));
        drop(file);
        at("rename", fs::rename(&a, &b));
        assert_eq!(fs::read_to_string(&b).unwrap(), text);
        at("a second file", fs::write(&a, &text));
        at("rename over the first", fs::rename(&a, &b));
        at("rename into the directory", fs::rename(&b, d.join("f")));
        assert_eq!(fs::remove_dir(&d).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        at("unlink", fs::remove_file(d.join("f")));
        // The kernel releases a closed file later: the one removed before may still have a name.
        assert!(wait_until(DEADLINE, || fs::read_dir(&d).unwrap().count() == 0));
        at("rmdir", fs::remove_dir(&d));
        assert_eq!(fs::remove_dir(&d).unwrap_err().kind(), ErrorKind::NotFound);
        let names = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<_> = names.filter(|name| !name.to_str().unwrap().starts_with(HIDDEN)).collect();
        assert!(names.is_empty(), "{names:?} in step {step}");
    })
}

/// A program with a PLFS file, which it seldom syncs.
fn writes_anywhere(stop: &Arc<AtomicBool>, mounted: &Mounted) -> Program {
    let path = mounted.path("n.ckpt");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    let mut wanted = Vec::new();
    Program::begin(stop, move |step| {
        let (at, byte) = ((step * 7_919) % 100_000, 1 + (step % 251) as u8);
        let (begin, end) = (at as usize, at as usize + 100);
        wanted.resize(wanted.len().max(end), 0);
        wanted[begin..end].fill(byte);
        file.write_all_at(&[byte; 100], at).unwrap_or_else(|error| panic!("write {step}: {error}"));
        if step % 50 == 49 {
            file.sync_all().unwrap_or_else(|error| panic!("sync {step}: {error}"));
        }
        let mut read = vec![0; wanted.len()];
        file.read_exact_at(&mut read, 0).unwrap_or_else(|error| panic!("read {step}: {error}"));
        assert!(read == wanted, "step {step}");
    })
}

fn programs_notice_no_kill(mounted: Mounted) {
    let big = content(2_000_000);
    fs::write(mounted.path("big"), &big).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut programs =
        vec![appends(&stop, &mounted), renames(&stop, &mounted), writes_anywhere(&stop, &mounted)];
    let appended = programs[0].steps.clone();

    let direct = rustix::fs::OFlags::DIRECT.bits() as i32; // not by the kernel's cache
    let reads = OpenOptions::new().read(true).custom_flags(direct).open(mounted.path("big")).unwrap();
    programs.push(Program::begin(&stop, move |step| {
        let at = (step as usize * 65_537) % (big.len() - PIECE);
        let mut read = vec![0; PIECE];
        reads.read_exact_at(&mut read, at as u64).unwrap();
        assert!(read == big[at..at + PIECE], "at {at}");
    }));

    let place = mounted.place.clone();
    programs.push(Program::begin(&stop, move |step| {
        let bytes = content(1 + (step as usize * 37_777) % 3_000_000);
        fs::write(place.join("whole"), &bytes).unwrap_or_else(|error| panic!("whole {step}: {error}"));
        assert!(fs::read(place.join("whole")).unwrap() == bytes, "step {step}");
    }));

    // A program whose working directory is in the mount.
    fs::create_dir(mounted.path("directory")).unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-euc", "while read -r; do stat . ../big > /dev/null; test -d ../directory; echo; done"]);
    shell.current_dir(mounted.path("directory")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = strait_testkit::spawn_bound(shell).unwrap();
    let (mut asks, mut answers) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
    programs.push(Program::begin(&stop, move |_| {
        asks.write_all(b"\n").unwrap();
        answers.read_exact(&mut [0]).unwrap();
    }));

    let removed =
        OpenOptions::new().read(true).append(true).create_new(true).open(mounted.path("gone")).unwrap();
    fs::remove_file(mounted.path("gone")).unwrap();

    let kills = kills();
    for kill in 0..kills {
        (&removed).write_all(b"more").unwrap();
        programs.iter().for_each(Program::goes_on);
        // Longer than the keeper takes for one that was killed at its begin.
        pause("at another place of the programs' work", Duration::from_millis(600 + kill * 137 % 400));
        kill_server(&mounted);
    }
    programs.iter().for_each(Program::goes_on);
    stop.store(true, Ordering::Relaxed);
    programs.into_iter().for_each(|program| program.thread.join().unwrap());
    assert!(shell.wait().unwrap().success());

    let count = appended.load(Ordering::Relaxed) as usize;
    let log = fs::read(mounted.path("log")).unwrap();
    assert!(log == content(PIECE).repeat(count), "{} bytes of {count} pieces", log.len());
    let mut bytes = vec![0; 4 * kills as usize];
    removed.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, b"more".repeat(kills as usize));
    assert_eq!(removed.metadata().unwrap().nlink(), 0);
    drop(removed);
    assert!(wait_until(DEADLINE, || !mounted.shell("ls -AR").contains(HIDDEN)), "removed files are left");
    mounted.umount();
}

#[test]
fn programs_notice_no_kill_of_a_mounted_directory() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let flags = ["--keep", "--plfs", "*.ckpt", "--attr-cache", "0"];
    let Some(mounted) = Mounted::of("kills under a directory's mount", &uri, &flags) else { return };
    programs_notice_no_kill(mounted);
}

#[test]
fn programs_notice_no_kill_of_mounted_kadoop() {
    let rack = Rack::start(&["127.0.0.1", "127.0.0.2"]);
    let key = rack.dir.path().join("client.key");
    let environment = [("STRAIT_KADOOP_KEY", key.as_path())];
    let flags = ["--keep", "--plfs", "*.ckpt", "--attr-cache", "0"];
    let claim = "kills under Kadoop's mount";
    let Some(mounted) = Mounted::within(&environment, claim, &rack.uri("/"), &flags) else { return };
    programs_notice_no_kill(mounted);
}

#[test]
fn a_mount_in_the_background_survives_a_kill_and_a_takeover_and_another_kill() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let Some(mut mounted) = Mounted::of("a kept mount is taken over", &uri, &["--keep"]) else { return };
    let mut file = File::create(mounted.path("f")).unwrap();
    file.write_all(b"one ").unwrap();
    kill_server(&mounted);
    file.write_all(b"two ").unwrap();
    mounted.take_over();
    file.write_all(b"three ").unwrap();
    kill_server(&mounted);
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
        if let Some(pid) = server(keeper).and_then(|pid| Pid::from_raw(pid as i32)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        mounted.process.try_wait().is_some()
    }));
    assert!(mounted.process.log_tail().contains("unmounting"), "{}", mounted.process.log_tail());
    assert!(!is_mounted(&mounted.place));
    assert_eq!(open.metadata().unwrap_err().raw_os_error(), Some(NOT_CONNECTED));
}

#[test]
fn daemons_keep_their_mounts() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let Some(mut mounted) = Mounted::of("a daemon is kept", &uri, &[]) else { return };
    Run::of(mounted.command(&["--daemon", "--take-over"]), b"").ok();
    assert_eq!(ended(&mut mounted.process), 0, "{}", mounted.process.log_tail());
    let file = File::create(mounted.path("f")).unwrap();
    let servers = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let of_mount = all.filter(|process| {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("--kept") && line.contains(mounted.place.to_str().unwrap())
        });
        of_mount.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok()).collect::<Vec<_>>()
    };
    let [served] = servers()[..] else { panic!("one server, not {:?}", servers()) };
    kill_process(Pid::from_raw(served).unwrap(), Signal::KILL).unwrap();
    (&file).write_all(b"text").unwrap();
    drop(file);
    assert_eq!(fs::read_to_string(mounted.path("f")).unwrap(), "text");
    assert!(Command::new("umount").arg(&mounted.place).status().unwrap().success());
    assert!(wait_until(DEADLINE, || servers().is_empty()));
}
