//! `strait mount --take-over`: a process goes on with another's mount while programs use it. Only root
//! may mount here.

#[path = "support/mounted.rs"]
mod mounted;
#[path = "support/programs.rs"]
mod programs;
#[path = "support/rack.rs"]
mod rack;
mod support;
#[path = "support/up.rs"]
mod up;

use mounted::Mounted;
use programs::{Program, content};
use rack::Rack;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use strait_testkit::wait::wait_until;
use support::{Run, ended};

const DEADLINE: Duration = Duration::from_secs(60);
const TAKEOVERS: usize = 5;
const PIECE: usize = 4_096;
/// Begin of the names of files that were removed while they were open.
const HIDDEN: &str = ".strait-removed-";
/// A user without rights.
const NOBODY: u32 = 65_534;

/// Programs use the mount all the time, and each goes on between two takeovers.
fn programs_notice_nothing(mut mounted: Mounted) {
    let big = content(2_000_000);
    fs::write(mounted.path("big"), &big).unwrap();
    fs::create_dir(mounted.path("directory")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut programs = Vec::new();

    let mut log = File::create_new(mounted.path("log")).unwrap();
    let appends = Program::begin(&stop, move |step| {
        log.write_all(&content(PIECE)).unwrap();
        assert_eq!(log.metadata().unwrap().len(), (step + 1) * PIECE as u64);
        if step % 8 == 7 {
            log.sync_all().unwrap();
        }
    });
    let appended = appends.steps.clone();
    programs.push(appends);

    let anywhere =
        OpenOptions::new().read(true).write(true).create_new(true).open(mounted.path("n.ckpt")).unwrap();
    programs.push(Program::begin(&stop, move |step| {
        let (at, byte) = ((step * 7_919) % 100_000, (step % 251) as u8);
        anywhere.write_all_at(&[byte; 100], at).unwrap();
        let mut read = [0; 100];
        anywhere.read_exact_at(&mut read, at).unwrap();
        assert_eq!(read, [byte; 100]);
    }));

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
        assert_eq!(fs::metadata(place.join("big")).unwrap().len(), 2_000_000);
        let (a, b) = (place.join(format!("directory/{step}")), place.join("directory/other"));
        fs::write(&a, "text").unwrap();
        fs::rename(&a, &b).unwrap();
        assert_eq!(fs::read_to_string(&b).unwrap(), "text");
        // The kernel releases a closed file later: the one removed before may still have a name.
        let names = fs::read_dir(place.join("directory")).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<_> = names.filter(|name| !name.to_str().unwrap().starts_with(HIDDEN)).collect();
        assert_eq!(names, ["other"]);
        fs::remove_file(&b).unwrap();
    }));

    // A program whose working directory is in the mount.
    let mut shell = Command::new("bash");
    shell.args(["-euc", "while read -r; do stat . ../big > /dev/null; test -d ../directory; echo; done"]);
    shell.current_dir(mounted.path("directory")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = strait_testkit::spawn_bound(shell).unwrap();
    let (mut asks, mut answers) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
    programs.push(Program::begin(&stop, move |_| {
        asks.write_all(b"\n").unwrap();
        answers.read_exact(&mut [0]).unwrap();
    }));

    // A file that is removed while it is open.
    let removed =
        OpenOptions::new().read(true).append(true).create_new(true).open(mounted.path("gone")).unwrap();
    let mut removed_writer = &removed;
    fs::remove_file(mounted.path("gone")).unwrap();

    for _ in 0..TAKEOVERS {
        removed_writer.write_all(b"more").unwrap();
        programs.iter().for_each(Program::goes_on);
        mounted.take_over();
    }
    programs.iter().for_each(Program::goes_on);
    stop.store(true, Ordering::Relaxed);
    programs.into_iter().for_each(|program| program.thread.join().unwrap());
    assert!(shell.wait().unwrap().success());

    let count = appended.load(Ordering::Relaxed) as usize;
    let log = fs::read(mounted.path("log")).unwrap();
    assert!(log == content(PIECE).repeat(count), "{} bytes of {count} pieces", log.len());
    let mut bytes = vec![0; 4 * TAKEOVERS];
    removed.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, b"more".repeat(TAKEOVERS));
    assert_eq!(removed.metadata().unwrap().nlink(), 0);
    drop(removed);
    assert!(wait_until(DEADLINE, || !mounted.shell("ls -AR").contains(HIDDEN)), "removed files are left");
    mounted.umount();
}

#[test]
fn programs_notice_no_takeover_of_a_mounted_directory() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let flags = ["--plfs", "*.ckpt", "--attr-cache", "0"];
    let Some(mounted) = Mounted::of("takeovers of a directory", &uri, &flags) else { return };
    programs_notice_nothing(mounted);
}

#[test]
fn programs_notice_no_takeover_of_mounted_kadoop() {
    let rack = Rack::start(&["127.0.0.1", "127.0.0.2"]);
    let key = rack.dir.path().join("client.key");
    let environment = [("STRAIT_KADOOP_KEY", key.as_path())];
    let flags = ["--plfs", "*.ckpt", "--attr-cache", "0"];
    let claim = "takeovers of Kadoop";
    let Some(mounted) = Mounted::within(&environment, claim, &rack.uri("/"), &flags) else { return };
    programs_notice_nothing(mounted);
}

/// The abstract name of the socket that a mount's process listens on.
fn socket(place: &Path) -> String {
    let status = rustix::fs::stat(place).unwrap();
    let (major, minor) = (rustix::fs::major(status.st_dev), rustix::fs::minor(status.st_dev));
    let path = place.canonicalize().unwrap();
    let path = path.to_str().unwrap();
    format!("strait-mount-{major}:{minor}-{}", &path[path.len().saturating_sub(64)..])
}

/// Asks a mount's process for it, in the next process's words.
fn ask(socket: &str, hello: &str) -> UnixStream {
    let name = SocketAddr::from_abstract_name(socket).unwrap();
    let mut asking = UnixStream::connect_addr(&name).unwrap();
    asking.write_all(&(hello.len() as u32).to_be_bytes()).unwrap();
    asking.write_all(hello.as_bytes()).unwrap();
    asking
}

fn answer(mut asking: &UnixStream) -> String {
    let mut length = [0; 4];
    asking.read_exact(&mut length).unwrap();
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    asking.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_process_goes_on_with_its_mount_unless_a_fit_one_takes_it() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let Some(mut mounted) = Mounted::of("refused takeovers", &uri, &[]) else { return };
    let mut open = File::create(mounted.path("open")).unwrap();
    let mut write = |mounted: &Mounted| {
        open.write_all(b"+").unwrap_or_else(|error| panic!("{error}: {}", mounted.process.log_tail()));
        open.sync_all().unwrap();
    };
    write(&mounted);
    let socket = socket(&mounted.place);
    let name = SocketAddr::from_abstract_name(&socket).unwrap();
    assert!(wait_until(DEADLINE, || UnixStream::connect_addr(&name).is_ok()), "it listens");

    // Another user: python3, since a thread can't change its user alone.
    let script = format!(
        "import socket
s = socket.socket(socket.AF_UNIX)
s.connect('\\0{socket}')
print(s.recv(1000))"
    );
    let mut python = Command::new("python3");
    python.args(["-c", &script]).uid(NOBODY).current_dir("/");
    let stranger = Run::of(python, b"");
    assert!(stranger.text().contains("Refused") && stranger.text().contains("65534"), "{stranger:?}");
    write(&mounted);

    // Nonsense, another version, and other options.
    assert!(answer(&ask(&socket, "GET / HTTP/1.1")).contains("makes no sense"));
    assert!(answer(&ask(&socket, r#"{"protocol": 999}"#)).contains("999"));
    Run::of(mounted.command(&["--take-over", "--read-only"]), b"")
        .fails(19, "--read-only must stay the same");
    write(&mounted);

    // A process that gets all, and ends before it takes the mount.
    let source = format!("file:{}", data.path().display());
    let terms = serde_json::json!({"source": source, "user": user(), "read_only": false, "plfs": []});
    let hello = serde_json::json!({"protocol": 1, "terms": terms}).to_string();
    for _ in 0..2 {
        let asking = ask(&socket, &hello);
        let told = answer(&asking);
        assert!(told.starts_with(r#"{"State""#), "{told}");
        drop(asking);
        write(&mounted);
    }

    // A process that would wait for itself.
    let mut within = mounted.command(&["--take-over"]);
    within.stdin(File::open(mounted.path("open")).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = strait_testkit::spawn_bound(within).unwrap().wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("descriptor 0"), "{output:?}");

    mounted.take_over();
    write(&mounted);
    drop(open);
    assert_eq!(fs::read(data.path().join("open")).unwrap(), b"++++++");
    mounted.umount();
}

/// The store's user of this process, as the command names it.
fn user() -> String {
    let mut id = Command::new("id");
    id.arg("-un");
    Run::of(id, b"").text().trim().to_owned()
}

#[test]
fn a_process_in_the_background_takes_a_mount_over() {
    let data = tempfile::tempdir().unwrap();
    let source = format!("file://{}", data.path().display());
    let Some(mut mounted) = Mounted::of("a takeover in the background", &source, &[]) else { return };
    fs::write(mounted.path("f"), "text").unwrap();
    let mut command = mounted.command(&["--daemon", "--take-over"]);
    command.current_dir(&mounted.place);
    Run::of(command, b"").ok();
    assert_eq!(ended(&mut mounted.process), 0, "{}", mounted.process.log_tail());
    assert_eq!(fs::read_to_string(mounted.path("f")).unwrap(), "text");
    assert!(Command::new("umount").arg(&mounted.place).status().unwrap().success());
    Run::of(mounted.command(&["--take-over"]), b"").fails(10, "no strait mount is there");
}
