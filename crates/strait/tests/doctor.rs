//! `strait doctor`: each check that fails says so, and how to fix it.

use crate::support::plugins::built;
use crate::support::{Gateway, Run, command, fresh};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// The exit code after a failed check.
const FAILED: i32 = 1;

fn doctor(dir: &Path, environment: &[(&str, &str)], args: &[&str]) -> Run {
    let mut command = command(dir);
    command.arg("doctor").args(args).envs(environment.iter().copied());
    Run::of(command, b"")
}

/// The line of a check, and the line after it.
#[track_caller]
fn told(run: &Run, check: &str) -> String {
    let text = String::from_utf8(run.stdout.clone()).unwrap();
    let mut lines = text.lines().skip_while(|line| line.split(' ').next() != Some(check));
    let found = lines.next().unwrap_or_else(|| panic!("no line {check}: {text} {}", run.stderr));
    format!("{found}\n{}", lines.next().unwrap_or_default())
}

/// Fails unless exactly this check failed, with these words and this remedy.
#[track_caller]
fn fails(run: &Run, check: &str, words: &str, fix: &str) {
    assert_eq!(run.code, FAILED, "{run:?}");
    let told = told(run, check);
    assert!(told.contains(" FAILED ") && told.contains(words), "{told}");
    assert!(told.lines().nth(1).is_some_and(|line| line.contains(&format!("fix: {fix}"))), "{told}");
}

#[track_caller]
fn is_ok(run: &Run, check: &str, words: &str) {
    let told = told(run, check);
    let line = told.lines().next().unwrap();
    assert!(line.split_whitespace().nth(1) == Some("ok") && line.contains(words), "{line}");
}

/// The reference plugin with this fault, and the flags that load it.
fn doctored(dir: &Path) -> (PathBuf, Vec<String>) {
    let library = built("crates/strait/tests/plugins/doctored.c", dir);
    let data = fresh(dir, "data");
    let flags = [
        format!("--plugin=mine={}", library.display()),
        format!("--plugin-option=mine.root={}", data.display()),
        "--plugin-option=mine.timeout=3".to_owned(),
        "plugin:mine://here/".to_owned(),
    ];
    (data, flags.to_vec())
}

#[test]
fn a_sound_plugin_passes_and_has_a_version() {
    let dir = tempfile::tempdir().unwrap();
    let (data, flags) = doctored(dir.path());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let run = doctor(dir.path(), &[], &flags);
    run.ok();
    assert!(told(&run, "resolve").contains(" left out the plugin connects by itself"), "{run:?}");
    is_ok(&run, "version", "plugin directory, for version 1 of strait_store.h; this is strait ");
    for check in ["open", "list", "write", "clock", "read", "rename", "remove"] {
        is_ok(&run, check, "");
    }
    assert_eq!(std::fs::read_dir(data).unwrap().count(), 0, "the temporary file stays");
}

#[test]
fn each_fault_of_a_store_fails_its_own_check() {
    let dir = tempfile::tempdir().unwrap();
    let (data, flags) = doctored(dir.path());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    for (fault, check, words, fix) in [
        ("denied", "write", "the directory is read-only", "ask the store's operator for permission"),
        ("late", "clock", "s behind this host's", "synchronize both clocks"),
        ("corrupt", "read", "the bytes differ from those written", "stop using this store"),
        ("hangs", "list", "doesn't return within 3 s", "start the server, or correct the address"),
    ] {
        let run = doctor(dir.path(), &[("STRAIT_FAULT", fault)], &flags);
        fails(&run, check, words, fix);
        assert_eq!(String::from_utf8_lossy(&run.stdout).matches(" FAILED ").count(), 1, "{fault}: {run:?}");
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "{fault}: the temporary file stays");
    }
}

#[test]
fn a_name_without_an_address_fails_before_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let run = doctor(dir.path(), &[], &["strait://no-such-host.invalid:9090/"]);
    assert_eq!(run.code, FAILED, "{run:?}");
    let (resolve, open) = (told(&run, "resolve"), told(&run, "open"));
    assert!(resolve.contains(" FAILED ") && resolve.contains("no-such-host.invalid: "), "{resolve}");
    assert!(open.contains(" FAILED "), "{open}");
}

#[test]
fn a_gateway_has_a_version_and_a_wrong_password_names_the_remedy() {
    let gateway = Gateway::start(|dir| {
        let mut passwd = command(dir);
        passwd.args(["passwd", "--file", "passwords", "alice"]);
        Run::of(passwd, b"right\n").ok();
        let data = format!("file://{}", fresh(dir, "data").display());
        let passwords = dir.join("passwords").display().to_string();
        ["--store", &data, "--passwords", &passwords].map(str::to_owned).to_vec()
    });
    let (home, uri) = (gateway.dir.path(), gateway.uri("/"));
    let login = |password| doctor(home, &[("STRAIT_PASSWORD", password)], &["--user", "alice", &uri]);
    let run = login("right");
    is_ok(&run, "version", concat!("strait ", env!("CARGO_PKG_VERSION"), "; this is strait "));
    is_ok(&run, "open", "as alice; can: ");
    std::fs::write(gateway.dir.path().join("data/file"), "text").unwrap();
    let of_file = doctor(home, &[("STRAIT_PASSWORD", "right")], &["--user", "alice", &gateway.uri("/file")]);
    of_file.ok();
    assert!(told(&of_file, "write").contains("name a directory"), "{of_file:?}");
    let run = login("wrong");
    is_ok(&run, "connect", "accepts");
    fails(&run, "open", "", "log in, or correct or renew the credentials");
}

/// Refuses each request, as S3 does for a key that it doesn't know. Ends with the test's process.
fn refusing() -> String {
    const BODY: &str = "<Error><Code>InvalidAccessKeyId</Code></Error>";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = |mut stream: TcpStream| -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        while let Some(line) = lines.next().transpose()? {
            if line.is_empty() {
                let length = BODY.len();
                write!(stream, "HTTP/1.1 403 Forbidden\r\nContent-Length: {length}\r\n\r\n{BODY}")?;
            }
        }
        Ok(())
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    url
}

#[test]
fn a_wrong_key_of_a_bucket_names_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let keys = [("AWS_ACCESS_KEY_ID", "wrong"), ("AWS_SECRET_ACCESS_KEY", "wrong")];
    let run = doctor(dir.path(), &keys, &["--endpoint-url", &refusing(), "s3://bucket/"]);
    is_ok(&run, "connect", "accepts");
    fails(&run, "open", "access key", "log in, or correct or renew the credentials");
}

#[test]
fn read_only_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = fresh(dir.path(), "data");
    let before = std::fs::metadata(&data).unwrap().modified().unwrap();
    let run = doctor(dir.path(), &[], &["--read-only", &format!("file://{}", data.display())]);
    run.ok();
    for check in ["write", "clock", "read", "rename", "remove"] {
        assert!(told(&run, check).contains(" left out --read-only"), "{run:?}");
    }
    assert!(told(&run, "version").contains(" left out "), "{run:?}");
    assert_eq!(std::fs::metadata(&data).unwrap().modified().unwrap(), before);
}

#[test]
fn a_missing_directory_stays_missing() {
    let dir = tempfile::tempdir().unwrap();
    let data = fresh(dir.path(), "data");
    let run = doctor(dir.path(), &[], &[&format!("file://{}/typo", data.display())]);
    fails(&run, "list", "NotFound", "correct the URI");
    for check in ["write", "clock", "read", "rename", "remove"] {
        assert!(told(&run, check).contains(" left out the directory is missing"), "{run:?}");
    }
    assert_eq!(std::fs::read_dir(data).unwrap().count(), 0);
}
