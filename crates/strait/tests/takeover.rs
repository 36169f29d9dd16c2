//! `strait mount --take-over`: a process goes on with another's mount while programs use it. Only root
//! may mount here.

use crate::support::load::{FLAGS, Load};
use crate::support::mounted::{Mounted, unmount};
use crate::support::rack::Rack;
use crate::support::{Run, ended};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use strait_testkit::wait::wait_until;

const DEADLINE: Duration = Duration::from_secs(60);
const TAKEOVERS: usize = 5;
/// A user without rights.
const NOBODY: u32 = 65_534;

fn programs_notice_nothing(mut mounted: Mounted) {
    let mut load = Load::begin(&mounted);
    for _ in 0..TAKEOVERS {
        load.goes_on();
        mounted.take_over();
    }
    load.end(mounted);
}

#[test]
fn programs_notice_no_takeover_of_a_mounted_directory() {
    let data = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", data.path().display());
    let Some(mounted) = Mounted::of("takeovers of a directory", &uri, &FLAGS) else { return };
    programs_notice_nothing(mounted);
}

#[test]
fn programs_notice_no_takeover_of_mounted_kadoop() {
    let rack = Rack::start(&["127.0.0.1", "127.0.0.2"]);
    let key = rack.dir.path().join("client.key");
    let environment = [("STRAIT_KADOOP_KEY", key.as_path())];
    let claim = "takeovers of Kadoop";
    let Some(mounted) = Mounted::within(&environment, claim, &rack.uri("/"), &FLAGS) else { return };
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
print(s.makefile('rb').read())"
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
    unmount(&mounted.place);
    Run::of(mounted.command(&["--take-over"]), b"").fails(10, "no Strait store is mounted there");
}
