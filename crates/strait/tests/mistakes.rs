//! Newcomers' mistakes: the command reports each one soon, correctly, and with a remedy.

use crate::support::{self, Gateway, Run, command, fresh};
use rustix::fs::{CWD, FileType, Mode};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use strait_testkit::{Authority, free_port, spawn_bound};

const USAGE: i32 = 2;
const NOT_FOUND: i32 = 10;
const UNAUTHENTICATED: i32 = 16;
const INVALID_ARGUMENT: i32 = 17;
const BUSY: i32 = 19;
const UNAVAILABLE: i32 = 22;

/// Runs a command line in a directory of its own.
fn strait<A: AsRef<OsStr>>(home: &Path, args: &[A], environment: &[(&str, &str)]) -> Run {
    let mut strait = command(home);
    strait.args(args).envs(environment.iter().copied());
    Run::of(strait, b"")
}

#[test]
fn a_variable_that_stands_for_a_flag_is_any_word_for_yes_or_no() {
    let gateway = Gateway::over_files();
    let ls = |value: &str| gateway.run_with(["ls", &gateway.uri("/")], b"", &[("STRAIT_TLS", value)]);
    for no in ["0", "false", "no", "No", "off", ""] {
        ls(no).ok();
    }
    for yes in ["1", "true", "yes", "YES", "on"] {
        ls(yes).fails(UNAVAILABLE, "TLS"); // this gateway has none
    }
    let run = ls("maybe");
    assert!(run.code == USAGE && run.stderr.contains("1, true, yes or on"), "{run:?}");
}

#[test]
fn a_standard_error_that_takes_nothing_changes_no_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let uri = format!("file://{}/missing", home.path().display());
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    for errors in [Stdio::from(closed), Stdio::from(full)] {
        let mut ls = command(home.path());
        ls.args(["--log", "debug", "ls", &uri]).stderr(errors);
        assert_eq!(support::code(ls.status().unwrap()), NOT_FOUND);
    }
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let gateway = Gateway::over_files();
    let names = [
        "USER",
        "PASSWORD",
        "PASSWORD_FILE",
        "GATEWAY_STORE",
        "STORE",
        "TIMEOUT",
        "TLS",
        "TLS_CA",
        "CLIENT_CERT",
        "CLIENT_KEY",
        "KADOOP_KEY",
        "LOGINS_FD",
        "LOG",
    ]
    .map(|name| format!("STRAIT_{name}"));
    for name in &names {
        gateway.run_with(["ls", &gateway.uri("/")], b"", &[(name, "")]).ok();
    }
    let run = gateway.run_with(["ls", "--user", "alice", &gateway.uri("/")], b"", &[("STRAIT_PASSWORD", "")]);
    assert!(run.code == UNAUTHENTICATED && run.stderr.contains("no password for alice"), "{run:?}");
}

#[test]
fn a_variables_bad_value_is_reported_by_the_variables_name() {
    let dir = tempfile::tempdir().unwrap();
    let bad = [
        ("STRAIT_TIMEOUT", "soon"),
        ("STRAIT_TLS", "maybe"),
        ("STRAIT_LOG", "loud"),
        ("STRAIT_TIMEOUT", "0"),
    ];
    for (name, value) in bad {
        let run = strait(dir.path(), &["ls", "file:///"], &[(name, value)]);
        let told = format!("the variable {name} has the invalid value '{value}'");
        assert!(run.code == USAGE && run.stderr.contains(&told), "{run:?}");
    }
    let run = strait(dir.path(), &["ls", "--timeout", "soon", "file:///"], &[("STRAIT_TIMEOUT", "soon")]);
    assert!(run.code == USAGE && run.stderr.contains("--timeout"), "{run:?}");
    let run = strait(dir.path(), &["ls", "file:///"], &[("STRAIT_CLIENT_CERT", "/a.pem")]);
    assert!(run.code == USAGE && run.stderr.contains("STRAIT_CLIENT_CERT"), "{run:?}");
}

#[test]
fn a_misplaced_client_flag_shows_the_usage_of_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let run = strait(dir.path(), &["serve", "--user", "alice", "--store", "memory:/"], &[]);
    assert_eq!(run.code, USAGE);
    let told = "--user applies to clients of a gateway; --passwords FILE";
    assert!(run.stderr.contains(told) && run.stderr.contains("Usage: strait serve "), "{}", run.stderr);
}

#[test]
fn usage_names_no_flag_that_only_the_environment_sets() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["serve", "ls", "put"] {
        let run = strait(dir.path(), &[command], &[("STRAIT_USER", "alice"), ("STRAIT_TLS", "1")]);
        assert!(run.code == USAGE && run.stderr.contains("Usage: strait "), "{run:?}");
        assert!(!run.stderr.contains("--user") && !run.stderr.contains("--tls"), "{}", run.stderr);
    }
}

#[test]
fn fsck_sums_nothing_up_if_it_could_read_nothing() {
    let gateway = Gateway::over_files();
    let run = gateway.run(["fsck", &gateway.uri("/missing")]);
    run.fails(NOT_FOUND, "/missing");
    assert!(run.stdout.is_empty(), "{run:?}");
    let run = gateway.run(["fsck", &gateway.uri("/missing"), &gateway.uri("/")]);
    assert!(run.code != 0 && String::from_utf8_lossy(&run.stdout).contains("not known"), "{run:?}");
}

#[test]
fn a_port_where_nothing_listens_is_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let key = key(dir.path());
    for scheme in ["strait", "kadoop", "hdfs"] {
        let uri = format!("{scheme}://{address}/");
        let began = Instant::now();
        let run = strait(dir.path(), &["--kadoop-key", &key, "ls", &uri], &[]);
        run.fails(UNAVAILABLE, &address);
        assert!(run.stderr.contains("; check the "), "a remedy: {run:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "{scheme}: {:?}", began.elapsed());
    }
    strait(dir.path(), &["put", "file", &format!("strait://{address}/f")], &[])
        .fails(UNAVAILABLE, "no program listens there; check the port");
}

/// A key of a Kadoop cluster that doesn't run.
fn key(dir: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join("some.key");
    let address = format!("127.0.0.1:{}", free_port());
    let data = fresh(dir, "namenode");
    let mut namenode = command(dir);
    namenode.args(["namenode", "--listen", &address, "--key"]).arg(&path).arg("--data").arg(&data);
    namenode.args(["--listen-datanodes", &format!("127.0.0.1:{}", free_port())]);
    let mut process = strait_testkit::Process::spawn("namenode", namenode, dir).unwrap();
    let made = || path.metadata().is_ok_and(|file| file.len() > 0 && file.permissions().mode() & 0o77 == 0);
    process.wait_ready(support::DEADLINE, made).unwrap();
    path.display().to_string()
}

#[test]
fn a_namenodes_port_that_is_another_programs_is_told_within_seconds() {
    let gateway = Gateway::over_files();
    let key = key(gateway.dir.path());
    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let web = http.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = http.accept() {
            let mut request = [0; 64];
            let _ = client.read(&mut request);
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    for address in [&gateway.address, &web] {
        let began = Instant::now();
        let run = gateway.run(["--kadoop-key", &key, "ls", &format!("kadoop://{address}/")]);
        run.fails(UNAVAILABLE, "doesn't answer as a namenode; check the port");
        assert!(began.elapsed() < Duration::from_secs(20), "{address}: {:?}", began.elapsed());
    }
}

/// Runs `check` with the URI of the store's directory `data`: directly, and through a gateway.
fn both_ways(check: impl Fn(&dyn Fn(&[&OsStr]) -> Run, &Path, &str)) {
    let gateway = Gateway::over_files();
    check(&|args| gateway.run(args), &gateway.data(), &gateway.uri(""));
    let dir = tempfile::tempdir().unwrap();
    let data = fresh(dir.path(), "data");
    check(&|args| strait(dir.path(), args, &[]), &data, &format!("file://{}", data.display()));
}

#[test]
fn rm_removes_links_that_lead_nowhere_or_out_of_the_store() {
    both_ways(|run, data, root| {
        let rm = |flags: &[&str], name: &str| {
            let uri = format!("{root}/{name}");
            let args = ["rm"].into_iter().chain(flags.iter().copied()).chain([uri.as_str()]);
            let args: Vec<&OsStr> = args.map(OsStr::new).collect();
            run(&args)
        };
        for flags in [&[][..], &["-f"], &["-r"]] {
            symlink("nothing", data.join("dangling")).unwrap();
            symlink("circle", data.join("circle")).unwrap();
            symlink("/", data.join("out")).unwrap();
            for name in ["dangling", "circle", "out"] {
                rm(flags, name).ok();
                assert!(data.join(name).symlink_metadata().is_err(), "{name} {flags:?}");
            }
        }
        rm(&[], "nothing").fails(NOT_FOUND, "/nothing");
        rm(&["-f"], "nothing").ok();
    });
}

#[test]
fn a_name_that_is_not_utf8_is_as_good_as_any() {
    both_ways(|run, data, root| {
        let name = OsStr::from_bytes(b"caf\xe9\xff.txt");
        let uri = OsString::from_vec([root.as_bytes(), b"/", name.as_bytes()].concat());
        let arg = OsStr::new;
        std::fs::write(data.join(name), "content").unwrap();
        assert_eq!(run(&[arg("cat"), &uri]).text(), "content");
        // The name that ls prints works, too.
        let listed = run(&[arg("ls"), arg("-C"), arg(&format!("{root}/"))]);
        let shown = listed.text().trim_end().rsplit_once('/').unwrap().1.to_owned();
        assert_eq!(run(&[arg("cat"), arg(&format!("{root}/{shown}"))]).text(), "content");
        assert_eq!(run(&[arg("cat"), arg(&format!("{root}/caf??.txt"))]).text(), "content");
        // A copy back from the store.
        let copy = fresh(&data.join(".."), "copy");
        run(&[arg("get"), &uri, copy.as_os_str()]).ok();
        assert_eq!(std::fs::read_to_string(copy.join(name)).unwrap(), "content");
        run(&[arg("rm"), &uri]).ok();
        assert!(!data.join(name).exists());
        run(&[arg("put"), copy.as_os_str(), arg(&format!("{root}/tree"))]).ok();
        assert_eq!(std::fs::read_to_string(data.join("tree").join(name)).unwrap(), "content");
        run(&[arg("put"), copy.join(name).as_os_str(), arg(&format!("{root}/"))]).ok();
        run(&[arg("mv"), &uri, arg(&format!("{root}/plain"))]).ok();
        assert!(data.join("plain").exists() && !data.join(name).exists());
        std::fs::create_dir(data.join(name)).unwrap();
        std::fs::write(data.join(name).join("leaf"), "").unwrap();
        run(&[arg("rm"), arg("-r"), &uri]).ok();
        assert!(!data.join(name).exists());
        // Characters that encode bytes in an invalid way name no file.
        run(&[arg("rm"), arg(&format!("{root}/\u{10fec3}\u{10febc}"))])
            .fails(INVALID_ARGUMENT, "characters that encode bytes");
    });
}

#[test]
fn a_login_that_lacks_something_says_what() {
    let gateway = Gateway::start(|dir| {
        let passwords = dir.join("passwords").display().to_string();
        let mut passwd = command(dir);
        passwd.args(["passwd", "alice", "--file", &passwords]);
        Run::of(passwd, b"secret\n").ok();
        ["--store", "memory:/", "--passwords", &passwords].map(str::to_owned).to_vec()
    });
    let uri = gateway.uri("/");
    gateway.run(["ls", &uri]).fails(UNAUTHENTICATED, "--user NAME");
    gateway.run(["ls", "--user", "alice", &uri]).fails(UNAUTHENTICATED, "give --password-file");
    let missing = gateway.run(["ls", "--user", "alice", "--password-file", "nowhere", &uri]);
    missing.fails(NOT_FOUND, "read nowhere: ");
    let wrong = [("STRAIT_PASSWORD", "wrong")];
    gateway
        .run_with(["ls", "--user", "alice", &uri], b"", &wrong)
        .fails(UNAUTHENTICATED, "wrong user or password");
}

#[test]
fn an_address_that_leads_nowhere_says_which_part_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let ls = |uri: &str| strait(dir.path(), &["--timeout", "5", "ls", uri], &[]);
    ls("strait://no-such-host.invalid/")
        .fails(UNAVAILABLE, "the host name no-such-host.invalid can't be resolved");
    ls("127.0.0.1:9090/x").fails(INVALID_ARGUMENT, "strait://host:port/path");
    ls("strait://::1/").fails(INVALID_ARGUMENT, "in brackets: [::1]");
    ls("strait://[::1]:1/").fails(UNAVAILABLE, "[::1]:1");
    ls("https://127.0.0.1/").fails(INVALID_ARGUMENT, "unknown scheme https:");
    ls("strait://127.0.0.1:65536/").fails(INVALID_ARGUMENT, "invalid port 65536: the range is 1 to 65535");
    ls("strait:/127.0.0.1:1/").fails(INVALID_ARGUMENT, "write strait://127.0.0.1:1/");
    ls("STRAIT://127.0.0.1:1/").fails(UNAVAILABLE, "127.0.0.1:1");
    ls("strait://ann:secret@127.0.0.1:1/")
        .fails(INVALID_ARGUMENT, "strait://…@127.0.0.1:1/: a URI names no user");
    ls("").fails(INVALID_ARGUMENT, "an empty operand");
    strait(dir.path(), &["chown", "no-such-user", &format!("file://{}", dir.path().display())], &[])
        .fails(INVALID_ARGUMENT, "no user \"no-such-user\"");
}

#[test]
fn a_server_that_cannot_start_names_the_flag() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let ours = Authority::new().unwrap().issue(&fresh(dir.path(), "ours")).unwrap();
    let strange = Authority::new().unwrap().issue(&fresh(dir.path(), "strange")).unwrap();
    let [certificate, key, other] =
        [&ours.certificate, &ours.key, &strange.key].map(|path| path.display().to_string());
    let serve = |flags: &[&str]| {
        let address = format!("127.0.0.1:{}", free_port());
        let rest = ["serve", "--store", "memory:/", "--listen", &address];
        strait(dir.path(), &[&rest, flags].concat(), &[])
    };
    serve(&["--metrics", &taken]).fails(BUSY, "choose another address with --metrics");
    serve(&["--tls-cert", &certificate, "--tls-key", &other])
        .fails(1, &format!("{other}: it isn't the key of the certificate in {certificate}"));
    serve(&["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", "nope.pem"])
        .fails(1, "--tls-client-ca nope.pem: No such file");
}

#[test]
fn a_put_from_a_pipe_without_a_writer_names_the_pipe() {
    let gateway = Gateway::over_files();
    let pipe = gateway.dir.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut put = command(gateway.dir.path());
    put.args(["put", "pipe", &gateway.uri("/f")]).stderr(Stdio::piped());
    let mut child = spawn_bound(put).unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut notice = String::new();
    told.read_line(&mut notice).unwrap();
    assert!(notice.contains("no program has opened the pipe pipe for writing for "), "{notice}");
    std::fs::write(&pipe, "content").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(gateway.run(["cat", &gateway.uri("/f")]).text(), "content");
}
