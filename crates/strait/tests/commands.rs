//! Each command against a gateway, both as the real binary: its output, its effects on the store,
//! its exit code.

use crate::support::{self, Gateway, Run, command, fresh};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

// Exit codes of the table of errors.
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 10;
const ALREADY_EXISTS: i32 = 11;
const NOT_A_DIRECTORY: i32 = 12;
const IS_A_DIRECTORY: i32 = 13;
const INVALID_ARGUMENT: i32 = 17;
const UNAVAILABLE: i32 = 22;

/// Names of all temporary files in `dir` and beneath.
fn temporary_names(dir: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(temporary_names(&entry.path()));
        } else if name.starts_with(".strait-") {
            found.push(name);
        }
    }
    found
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_file_that_vanishes_while_fsck_walks_is_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let data = fresh(dir.path(), "data");
    for n in 0..300 {
        std::fs::write(data.join(format!("f{n}")), "x").unwrap();
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // As `put` leaves its temporary names: there, and then gone for good.
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let name = |n| data.join(format!(".strait-put-{round}-{n}"));
                let names: Vec<_> = (0..50).map(name).collect();
                names.iter().for_each(|name| std::fs::write(name, "").unwrap());
                names.iter().for_each(|name| std::fs::remove_file(name).unwrap());
            }
        });
        let uri = format!("file://{}", data.display());
        let runs: Vec<Run> = (0..5)
            .map(|_| {
                let mut fsck = command(dir.path());
                fsck.args(["fsck", &uri]);
                Run::of(fsck, b"")
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        for run in runs {
            assert!(run.ok().text().starts_with("healthy: "), "{run:?}");
        }
    });
}

#[test]
fn a_put_file_is_listed_printed_and_got_back() {
    let gateway = Gateway::over_files();
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    std::fs::write(gateway.dir.path().join("local"), &content).unwrap();
    gateway.run(["mkdir", &gateway.uri("/d")]).ok();
    gateway.run(["put", "local", &gateway.uri("/d")]).ok();
    gateway.run(["put", "local", &gateway.uri("/d/named")]).ok();
    assert_eq!(gateway.run(["ls", "-C", &gateway.uri("/d")]).text(), "/d/local\n/d/named\n");
    assert!(gateway.run(["cat", &gateway.uri("/d/named")]).ok().stdout == content);
    gateway.run(["get", &gateway.uri("/d/named"), "back"]).ok();
    assert!(std::fs::read(gateway.dir.path().join("back")).unwrap() == content);
    assert!(gateway.run(["get", &gateway.uri("/d/named"), "-"]).ok().stdout == content);
    assert_eq!(temporary_names(gateway.dir.path()), [""; 0]);
}

/// In bash, which the script for it is run by here.
#[test]
fn shells_complete_commands_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    let script = |shell: &str| {
        let mut strait = command(dir.path());
        strait.args(["completion", shell]);
        Run::of(strait, b"").text().to_owned()
    };
    std::fs::write(dir.path().join("script"), script("bash")).unwrap();
    let complete = |words: &str| {
        let line = format!(
            "source ./script; COMP_WORDS=(strait {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _strait strait \"${{COMP_WORDS[-1]}}\" strait; echo \"${{COMPREPLY[@]}}\""
        );
        let output =
            std::process::Command::new("bash").args(["-ec", &line]).current_dir(&dir).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("mk"), "mkdir");
    assert_eq!(complete("put --repl"), "--replication");
    for shell in ["zsh", "fish"] {
        assert!(script(shell).contains("decommission"), "{shell}");
    }
}

/// Renames can make a tree that is deeper than any path of a store.
#[test]
fn a_listing_names_the_directory_beyond_the_deepest_path() {
    let gateway = Gateway::over_files();
    std::fs::create_dir_all(gateway.data().join("d/".repeat(1_001))).unwrap();
    let run = gateway.run(["ls", "-R", &gateway.uri("/")]);
    assert!(
        run.code == INVALID_ARGUMENT && run.stderr.contains("1,000 levels deep"),
        "{} {}",
        run.code,
        run.stderr
    );
}

#[test]
fn get_does_not_replace_a_socket() {
    let gateway = Gateway::over_files();
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"data", &[]).ok();
    let socket = gateway.dir.path().join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    gateway.run(["get", "-f", &gateway.uri("/f"), "socket"]).fails(INVALID_ARGUMENT, "not a regular file");
    assert!(!socket.metadata().unwrap().is_file());
}

#[test]
fn trees_go_in_and_come_out_whole() {
    let gateway = Gateway::over_files();
    let tree = fresh(gateway.dir.path(), "tree");
    for directory in 0..3 {
        let directory = fresh(&tree, &format!("d{directory}/deeper"));
        for file in 0..7 {
            std::fs::write(directory.join(format!("f{file}")), format!("{directory:?} {file}")).unwrap();
        }
    }
    fresh(&tree, "empty");
    std::fs::write(tree.join("none"), b"").unwrap();
    gateway.run(["put", "-t", "3", "tree", &gateway.uri("/new")]).ok();
    gateway.run(["put", "tree", &gateway.uri("/new")]).ok(); // a second one, into the first
    gateway.run(["get", &gateway.uri("/new"), "back"]).ok();
    let same = |other: &str| {
        let mut diff = std::process::Command::new("diff");
        diff.args(["-r", "tree", other]).current_dir(gateway.dir.path());
        Run::of(diff, b"").text().to_owned()
    };
    assert_eq!(same("back/tree"), "");
    std::fs::remove_dir_all(gateway.dir.path().join("back/tree")).unwrap();
    assert_eq!(same("back"), "");
    assert_eq!(temporary_names(gateway.dir.path()), [""; 0]);
    let listed = gateway.run(["ls", "-R", "-C", &gateway.uri("/new/tree")]);
    assert_eq!(listed.text().lines().count(), 3 + 3 + 21 + 2);
}

#[test]
fn standard_input_becomes_a_file() {
    let gateway = Gateway::over_files();
    let content = vec![b'x'; 5_000_000];
    gateway.run_with(["put", "-", &gateway.uri("/piped")], &content, &[]).ok();
    assert!(std::fs::read(gateway.data().join("piped")).unwrap() == content);
    gateway.run_with(["put", "-", &gateway.uri("/")], b"x", &[]).fails(USAGE, "name the file");
}

#[test]
fn nothing_is_replaced_unless_force_says_so() {
    let gateway = Gateway::over_files();
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"old", &[]).ok();
    let again = gateway.run_with(["put", "-", &gateway.uri("/f")], b"new", &[]);
    again.fails(ALREADY_EXISTS, "put /f: the file is there already");
    assert_eq!(gateway.run(["cat", &gateway.uri("/f")]).text(), "old");
    gateway.run_with(["put", "-f", "-", &gateway.uri("/f")], b"new", &[]).ok();
    assert_eq!(gateway.run(["cat", &gateway.uri("/f")]).text(), "new");

    std::fs::write(gateway.dir.path().join("local"), "mine").unwrap();
    gateway.run(["get", &gateway.uri("/f"), "local"]).fails(ALREADY_EXISTS, "-f replaces it");
    assert_eq!(std::fs::read(gateway.dir.path().join("local")).unwrap(), b"mine");
    gateway.run(["get", "-f", &gateway.uri("/f"), "local"]).ok();
    assert_eq!(std::fs::read(gateway.dir.path().join("local")).unwrap(), b"new");
}

#[test]
fn a_failed_put_leaves_nothing() {
    let gateway = Gateway::over_files();
    gateway.run(["put", "missing", &gateway.uri("/f")]).fails(NOT_FOUND, "read missing");
    gateway.run_with(["put", "-", &gateway.uri("/no/dir")], b"x", &[]).fails(NOT_FOUND, "mkdir -p");
    gateway.run(["mkdir", &gateway.uri("/d")]).ok();
    std::fs::write(gateway.dir.path().join("f"), "x").unwrap();
    let other = gateway.uri("/other");
    let missing = "/other: no directory /other; create it with mkdir -p";
    gateway.run(["put", "f", "f", &other]).fails(NOT_FOUND, missing);
    gateway.run(["mv", &gateway.uri("/a"), &gateway.uri("/b"), &other]).fails(NOT_FOUND, missing);
    gateway.run(["get", &gateway.uri("/a"), &gateway.uri("/b"), "no"]).fails(NOT_FOUND, "no directory no;");
    gateway
        .run(["get", &gateway.uri("/a"), &gateway.uri("/b"), "f"])
        .fails(NOT_A_DIRECTORY, "several sources");
    gateway.run(["put", "f", &other]).ok();
    gateway.run(["put", "f", "f", &other]).fails(NOT_A_DIRECTORY, "several sources");
    gateway.run(["rm", &other]).ok();
    // A directory without read permission fails in the middle of a tree (except for root). A source
    // that is a directory with the name of a file fails for all users.
    gateway.run(["mkdir", &gateway.uri("/d/f")]).ok();
    gateway.run(["put", "-f", "f", &gateway.uri("/d")]).fails(IS_A_DIRECTORY, "put /d/f");
    assert_eq!(gateway.run(["ls", "-R", "-C", &gateway.uri("/")]).text(), "/d\n/d/f\n");
    assert_eq!(temporary_names(gateway.dir.path()), [""; 0]);
}

#[test]
fn an_interrupted_put_leaves_nothing_and_says_130() {
    let gateway = Gateway::over_files();
    let mut put = command(gateway.dir.path());
    put.args(["put", "-", &gateway.uri("/f")]);
    put.stdin(std::process::Stdio::piped());
    let mut child = strait_testkit::spawn_bound(put).unwrap();
    // Endless input. The upload has begun when the temporary file exists.
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &vec![0; 2_000_000]).unwrap();
    strait_testkit::wait::eventually("the temporary file is there", || {
        temporary_names(&gateway.data()).len() == 1
    });
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(support::code(child.wait().unwrap()), 130);
    assert_eq!(std::fs::read_dir(gateway.data()).unwrap().count(), 0);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let gateway = Gateway::over_files();
    gateway.run_with(["put", "-", &gateway.uri("/f")], &vec![b'\n'; 8_000_000], &[]).ok();
    for args in [vec!["cat".to_owned(), gateway.uri("/f")], vec!["malgen".to_owned(), "1000000".to_owned()]] {
        let mut cat = command(gateway.dir.path());
        cat.args(&args).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = strait_testkit::spawn_bound(cat).unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
        assert_eq!(support::code(output.status), 141, "{args:?}");
    }
}

#[test]
fn listings_have_the_columns_of_ls() {
    let gateway = Gateway::over_files();
    gateway.run_with(["put", "-", &gateway.uri("/big")], &vec![0; 1_572_864], &[]).ok();
    gateway.run_with(["put", "-", &gateway.uri("/small")], b"x", &[]).ok();
    gateway.run(["mkdir", &gateway.uri("/dir")]).ok();
    gateway.run(["chmod", "640", &gateway.uri("/big")]).ok();
    let listed = gateway.run(["ls", "-h", &gateway.uri("/")]);
    let rows: Vec<Vec<&str>> = listed.text().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows[0][0], rows[0][1], rows[0][4], rows[0][7]), ("-rw-r-----", "1", "1.5M", "/big"));
    assert_eq!((rows[1][0], rows[1][1], rows[1][4], rows[1][7]), ("drwxr-xr-x", "-", "0", "/dir"));
    assert_eq!(rows[2][7], "/small");
    let names = |flags: &[&str]| {
        let root = gateway.uri("/");
        let args = [&["ls", "-C"], flags, &[&root]].concat();
        gateway.run(args).text().replace('\n', " ")
    };
    assert_eq!(names(&["-S"]), "/big /small /dir ");
    assert_eq!(names(&["-r"]), "/small /dir /big ");
    assert_eq!(names(&["-d"]), "/ ");
    assert_eq!(gateway.run(["ls", "-C", &gateway.uri("/small")]).text(), "/small\n", "of a file: itself");
}

#[test]
fn du_adds_up_what_trees_hold() {
    let gateway = Gateway::over_files();
    gateway.run(["mkdir", "-p", &gateway.uri("/a/b")]).ok();
    for (path, bytes) in [("/a/b/one", 1_000), ("/a/two", 24), ("/three", 5), ("/a/b/empty", 0)] {
        gateway.run_with(["put", "-", &gateway.uri(path)], &vec![0; bytes], &[]).ok();
    }
    let du = |flags: &[&str], path: &str| {
        let run = gateway.run([&["du"], flags, &[&gateway.uri(path)]].concat());
        let mut lines: Vec<_> = run.text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(du(&[], "/"), ["1024\t/a", "5\t/three"]);
    assert_eq!(du(&["-s", "-h"], "/a"), ["1.0K\t/a"]);
    assert_eq!(du(&[], "/three"), ["5\t/three"], "of a file: itself");
    assert_eq!(du(&[], "/a/b/*"), ["0\t/a/b/empty", "1000\t/a/b/one"]);
    let sum = serde_json::json!({"path": "/", "bytes": 1_029, "files": 4, "directories": 3});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&du(&["-s", "--json"], "/")[0]).unwrap(), sum);
    gateway.run(["du", &gateway.uri("/missing"), &gateway.uri("/a")]).fails(NOT_FOUND, "/missing");
}

#[test]
fn an_unknown_command_names_another_one() {
    let gateway = Gateway::over_files();
    for (given, tip) in [
        ("tail", "instead of tail, use: strait cat URI | tail"),
        ("cp", "instead of cp, use: strait put"),
        ("lss", "a similar subcommand exists: 'ls'"),
    ] {
        let run = gateway.run([given, &gateway.uri("/f")]);
        assert_eq!(run.code, USAGE);
        assert!(run.stderr.contains(tip), "{}", run.stderr);
    }
}

#[test]
fn json_is_one_object_a_line() {
    let gateway = Gateway::over_files();
    gateway.run_with(["put", "-", &gateway.uri("/a b")], b"12345", &[]).ok();
    gateway.run(["mkdir", &gateway.uri("/d")]).ok();
    let listed = lines(gateway.run(["ls", "--json", &gateway.uri("/")]).text());
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["path"], "/a b");
    assert_eq!((&listed[0]["type"], &listed[0]["length"]), (&"file".into(), &5.into()));
    assert_eq!((&listed[1]["type"], &listed[1]["permission"]), (&"directory".into(), &"0755".into()));
    let file = gateway.uri("/a b");
    for name in ["stat", "locate", "checksum", "df"] {
        let printed = lines(gateway.run(["--json", name, &file]).text());
        assert_eq!(printed.len(), 1, "{name}");
        assert!(printed[0].is_object(), "{name}");
    }
}

#[test]
fn stat_fills_in_a_format() {
    let gateway = Gateway::over_files();
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"12345", &[]).ok();
    gateway.run(["chmod", "u=rw,g=r,o=", &gateway.uri("/f")]).ok();
    let stat = |format| gateway.run(["stat", "--format", format, &gateway.uri("/f")]);
    assert_eq!(stat("%n %p %b %a %A %F %r 100%%").text(), "f /f 5 640 -rw-r----- regular file 1 100%\n");
    stat("%q").fails(USAGE, "%q");
    assert!(gateway.run(["stat", &gateway.uri("/f")]).text().contains("length       5\n"));
}

#[test]
fn mkdir_makes_one_directory_or_with_p_a_path() {
    let gateway = Gateway::over_files();
    gateway.run(["mkdir", &gateway.uri("/a/b")]).fails(NOT_FOUND, "-p makes it too");
    gateway.run(["mkdir", "-p", &gateway.uri("/a/b")]).ok();
    gateway.run(["mkdir", "-p", &gateway.uri("/a/b")]).ok();
    gateway.run(["mkdir", &gateway.uri("/a/b")]).fails(ALREADY_EXISTS, "mkdir /a/b");
}

#[test]
fn mv_renames_or_moves_into_a_directory() {
    let gateway = Gateway::over_files();
    for name in ["a", "b", "c"] {
        gateway.run_with(["put", "-", &gateway.uri(&format!("/{name}"))], name.as_bytes(), &[]).ok();
    }
    gateway.run(["mkdir", &gateway.uri("/d")]).ok();
    gateway.run(["mv", &gateway.uri("/a"), &gateway.uri("/b")]).fails(ALREADY_EXISTS, "mv /b: ");
    gateway.run(["mv", "-f", &gateway.uri("/a"), "/b"]).ok();
    gateway.run(["mv", &gateway.uri("/b"), &gateway.uri("/c"), &gateway.uri("/d")]).ok();
    assert_eq!(gateway.run(["cat", &gateway.uri("/d/b"), &gateway.uri("/d/c")]).text(), "ac");
    gateway.run(["mv", &gateway.uri("/d/b"), "file:///tmp/b"]).fails(USAGE, "different stores");
    gateway.run(["mv", &gateway.uri("/gone"), "/x"]).fails(NOT_FOUND, "/gone");
}

#[test]
fn rm_takes_directories_only_when_told() {
    let gateway = Gateway::over_files();
    gateway.run(["mkdir", "-p", &gateway.uri("/d/e")]).ok();
    gateway.run(["rm", &gateway.uri("/d")]).fails(IS_A_DIRECTORY, "use -r");
    gateway.run(["rm", "-R", &gateway.uri("/d")]).ok();
    gateway.run(["rm", &gateway.uri("/d")]).fails(NOT_FOUND, "/d");
    gateway.run(["rm", "-f", &gateway.uri("/d")]).ok();
    gateway.run(["rm", "-rf", &gateway.uri("/d")]).ok();
    gateway.run(["rm", "-r", &gateway.uri("/")]).fails(INVALID_ARGUMENT, "root");
}

#[test]
fn failed_operands_do_not_stop_the_others_and_the_first_decides() {
    let gateway = Gateway::over_files();
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"content", &[]).ok();
    let run = gateway.run(["cat", &gateway.uri("/no"), &gateway.uri("/f"), &gateway.uri("/../x")]);
    assert_eq!((run.code, run.stdout.as_slice()), (NOT_FOUND, &b"content"[..]));
    assert_eq!(run.stderr.lines().count(), 2, "{}", run.stderr);
}

#[test]
fn touch_makes_files_and_sets_times() {
    let gateway = Gateway::over_files();
    let modified = || gateway.run(["stat", "--format", "%Y", &gateway.uri("/f")]).text().to_owned();
    gateway.run(["touch", "-c", &gateway.uri("/f")]).ok();
    gateway.run(["stat", &gateway.uri("/f")]).fails(NOT_FOUND, "stat /f: ");
    gateway.run(["touchz", &gateway.uri("/f")]).ok();
    let file = std::fs::File::options().write(true).open(gateway.data().join("f")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    gateway.run(["touch", "-a", &gateway.uri("/f")]).ok();
    assert_eq!(modified(), "1000\n");
    gateway.run(["touch", &gateway.uri("/f")]).ok();
    assert_ne!(modified(), "1000\n");
}

#[test]
fn chmod_and_chown_reach_what_is_beneath() {
    let gateway = Gateway::over_files();
    gateway.run(["mkdir", "-p", &gateway.uri("/d/e")]).ok();
    gateway.run_with(["put", "-", &gateway.uri("/d/e/f")], b"", &[]).ok();
    let modes = || {
        let paths = [gateway.uri("/d"), gateway.uri("/d/e"), gateway.uri("/d/e/f")];
        gateway
            .run(["stat", "--format", "%a"].into_iter().chain(paths.iter().map(String::as_str)))
            .text()
            .to_owned()
    };
    gateway.run(["chmod", "-R", "go-rwx,u+X", &gateway.uri("/d")]).ok();
    assert_eq!(modes(), "700\n700\n600\n");
    gateway.run(["chmod", "-x", &gateway.uri("/d/e")]).ok();
    assert_eq!(modes(), "700\n600\n600\n");
    gateway.run(["chmod", "rwx", &gateway.uri("/d")]).fails(USAGE, "rwx");
    if rustix::process::geteuid().is_root() {
        gateway.run(["chown", "-R", "nobody:", &gateway.uri("/d")]).ok();
        let owner = gateway.run(["stat", "--format", "%u", &gateway.uri("/d/e/f")]);
        assert_eq!(owner.text(), "nobody\n");
    } else {
        strait_testkit::skip("chown -R to another user", "root");
    }
    gateway.run(["chown", ":", &gateway.uri("/d")]).fails(USAGE, "an owner, a group or both");
}

#[test]
fn permissions_and_times_are_kept_when_asked_for() {
    let gateway = Gateway::over_files();
    let local = gateway.dir.path().join("local");
    std::fs::write(&local, "x").unwrap();
    std::fs::set_permissions(&local, std::fs::Permissions::from_mode(0o640)).unwrap();
    let then = std::time::UNIX_EPOCH + Duration::from_secs(1_234_567_890);
    std::fs::File::options().write(true).open(&local).unwrap().set_modified(then).unwrap();
    gateway.run(["put", "-p", "local", &gateway.uri("/f")]).ok();
    let stat = gateway.run(["stat", "--format", "%a %Y", &gateway.uri("/f")]);
    assert_eq!(stat.text(), "640 1234567890000\n");
    gateway.run(["get", "-p", &gateway.uri("/f"), "back"]).ok();
    let metadata = gateway.dir.path().join("back").metadata().unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    assert_eq!(metadata.modified().unwrap(), then);
}

#[test]
fn stores_are_reached_without_a_gateway_too() {
    let dir = tempfile::tempdir().unwrap();
    let uri = |name: &str| format!("file://{}/{name}", dir.path().display());
    let run = |args: &[&str], input: &[u8]| {
        let mut strait = command(dir.path());
        strait.args(args);
        Run::of(strait, input)
    };
    run(&["put", "-", &uri("f")], b"content").ok();
    assert_eq!(run(&["cat", &uri("f")], b"").text(), "content");
    assert_eq!(run(&["ls", "-C", &uri("")], b"").text(), format!("{}/f\n", dir.path().display()));
}

#[test]
fn an_unreachable_or_invalid_store_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut strait = command(dir.path());
        strait.args(args);
        Run::of(strait, b"")
    };
    let nobody = format!("strait://127.0.0.1:{}/", strait_testkit::free_port());
    run(&["ls", &nobody]).fails(UNAVAILABLE, "the gateway can't be reached");
    run(&["ls", "gopher://x/"]).fails(INVALID_ARGUMENT, "unknown scheme gopher:");
    run(&["ls", "/plain/path"]).fails(INVALID_ARGUMENT, "not a URI");
    assert_eq!(run(&["ls", "--no-such-flag"]).code, USAGE);
    assert_eq!(run(&[]).code, USAGE);
    assert!(run(&["--version"]).text().starts_with("strait "));
    assert!(run(&["ls", "--help"]).text().contains("--human-readable"));
}

#[test]
fn malgen_is_the_same_for_a_seed() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut strait = command(dir.path());
        strait.args(args);
        Run::of(strait, b"").ok().stdout.clone()
    };
    let records = run(&["malgen", "5000", "--seed", "7"]);
    assert_eq!(records.len(), 5_000 * 101);
    assert!(records == run(&["malgen", "5000", "--seed", "7"]));
    assert!(records != run(&["malgen", "5000", "--seed", "8"]));
}

#[test]
fn patterns_in_uris_are_filled_in() {
    let gateway = Gateway::over_files();
    let data = gateway.data();
    for name in ["a1.log", "a2.log", "b1.log", "x*y", ".hidden.log"] {
        std::fs::write(data.join(name), name).unwrap();
    }
    for directory in ["d1", "d2"] {
        std::fs::write(support::fresh(&data, directory).join("in.log"), directory).unwrap();
    }
    let shown = |pattern: &str| {
        let run = gateway.run(["ls", "-C", "-d", &gateway.uri(pattern)]);
        (run.code, run.stdout.is_empty())
    };
    assert_eq!(gateway.run(["cat", &gateway.uri("/a?.log")]).text(), "a1.loga2.log");
    assert_eq!(gateway.run(["cat", &gateway.uri("/*.log")]).text(), "a1.loga2.logb1.log", "nothing hidden");
    assert_eq!(gateway.run(["cat", &gateway.uri("/d[12]/in.log")]).text(), "d1d2");
    assert_eq!(gateway.run(["cat", &gateway.uri("/x\\*y")]).text(), "x*y");
    assert_eq!(gateway.run(["cat", &gateway.uri("/x*y")]).text(), "x*y", "a name is itself first");
    assert_eq!(shown("/nothing*"), (10, true));
    assert_eq!(shown("/a1.log/*"), (10, true));
    gateway.run(["rm", &gateway.uri("/nothing*")]).fails(10, "nothing matches");
    gateway.run(["rm", "-f", &gateway.uri("/nothing*")]).fails(0, "nothing matches");
    gateway.run(["get", &gateway.uri("/a*.log"), "."]).ok();
    assert_eq!(std::fs::read(gateway.dir.path().join("a2.log")).unwrap(), b"a2.log");
    gateway.run(["rm", &gateway.uri("/?1.log")]).ok();
    assert!(!data.join("a1.log").exists() && !data.join("b1.log").exists() && data.join("a2.log").exists());
}

#[test]
fn touch_makes_files_and_nothing_else() {
    let gateway = Gateway::over_files();
    gateway.run(["touch", &gateway.uri("/missing/f")]).fails(10, "no directory /missing");
    gateway.run(["touch", &gateway.uri("/new/")]).fails(10, "no such directory");
    assert!(gateway.data().read_dir().unwrap().next().is_none());
}

#[test]
fn two_sources_of_one_target_are_refused_before_anything_is_copied() {
    let gateway = Gateway::over_files();
    for directory in ["s1", "s2"] {
        std::fs::write(support::fresh(gateway.dir.path(), directory).join("x"), directory).unwrap();
    }
    gateway.run(["put", "-f", "s1/x", "s2/x", &gateway.uri("/")]).fails(2, "would both become /x");
    assert!(gateway.data().read_dir().unwrap().next().is_none());
    let uri = |path: &str| gateway.uri(path);
    gateway.run(["put", "s1", "s2", &uri("/")]).ok();
    let into = support::fresh(gateway.dir.path(), "into");
    for flags in [&["get"][..], &["get", "-f"]] {
        let operands = [uri("/s1/x"), uri("/s2/x"), "into".to_owned()];
        let command = flags.iter().map(|flag| (*flag).to_owned()).chain(operands);
        gateway.run(command).fails(2, "would both become into/x");
    }
    gateway.run(["get", "-f", &uri("/"), &uri("/"), "into"]).fails(2, "would both become into");
    assert!(into.read_dir().unwrap().next().is_none());
    support::fresh(&gateway.data(), "d");
    gateway.run(["mv", &uri("/s1/x"), &uri("/s2/x"), "/d"]).fails(2, "would both become /d/x");
    gateway.run(["mv", "-f", &uri("/s?/x"), "/d"]).fails(2, "would both become /d/x");
    assert!(gateway.data().join("s1/x").exists() && gateway.data().join("s2/x").exists());
}

#[test]
fn what_is_there_instead_decides_the_exit_code() {
    let gateway = Gateway::over_files();
    std::fs::write(gateway.data().join("f"), "f").unwrap();
    support::fresh(gateway.dir.path(), "into/f");
    for flags in [&["get"][..], &["get", "-f"]] {
        let operands = [gateway.uri("/f"), "into".to_owned()];
        gateway
            .run(flags.iter().map(|flag| (*flag).to_owned()).chain(operands))
            .fails(13, "a directory is there");
    }
    for command in ["cat", "ls", "stat"] {
        gateway.run([command, &gateway.uri("/f/")]).fails(12, "not a directory");
    }
    gateway.run(["rm", "-r", &gateway.uri("/f/")]).fails(12, "not a directory");
    assert!(gateway.data().join("f").exists());
    gateway.run_with(["passwd", "--file", "p", "alice"], b"secret", &[]).ok();
    gateway.run(["passwd", "--file", "p", "--remove", "nobody"]).fails(10, "nobody");
}
