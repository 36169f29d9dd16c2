//! Relative paths begin at `STRAIT_STORE`, and only there.

use crate::support::{Gateway, Run};

fn run(gateway: &Gateway, store: Option<&str>, args: &[&str], input: &[u8]) -> Run {
    let environment: Vec<(&str, &str)> = store.map(|store| ("STRAIT_STORE", store)).into_iter().collect();
    gateway.run_with(args, input, &environment)
}

#[test]
fn commands_take_paths_below_the_default_store() {
    let gateway = Gateway::over_files();
    let home = gateway.uri("/user/alice");
    let there = |args: &[&str], input: &[u8]| {
        let run = run(&gateway, Some(&home), args, input);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        String::from_utf8(run.stdout).unwrap()
    };
    there(&["mkdir", "-p", "logs"], b"");
    there(&["put", "-", "logs/a.txt"], b"data");
    there(&["mv", "./logs/a.txt", "logs/../b.txt"], b"");
    assert_eq!(there(&["cat", "b.*"], b""), "data", "patterns are filled in");
    there(&["get", "b.txt", "local.txt"], b"");
    assert_eq!(std::fs::read(gateway.dir.path().join("local.txt")).unwrap(), b"data");
    assert_eq!(std::fs::read(gateway.data().join("user/alice/b.txt")).unwrap(), b"data");
    assert!(there(&["ls", "."], b"").contains("/user/alice/b.txt"));
    assert_eq!(there(&["cat", &gateway.uri("/user/alice/b.txt")], b""), "data", "a URI stays as it is");
    there(&["--default-store", &gateway.uri("/user"), "rm", "alice/b.txt"], b"");
    assert!(!gateway.data().join("user/alice/b.txt").exists(), "the flag wins over the environment");
}

#[test]
fn a_relative_path_without_a_default_store_or_out_of_it_is_refused() {
    let gateway = Gateway::over_files();
    let home = gateway.uri("/user");
    for (store, path, told) in [
        (None, "logs", "STRAIT_STORE"),
        (Some(home.as_str()), "../logs", "leads out of"),
        (Some(home.as_str()), "/logs", "not a URI"),
        (Some("127.0.0.1"), "logs", "--default-store (or STRAIT_STORE) 127.0.0.1: "),
        (Some(home.as_str()), "a:b", "write a relative path that contains a colon as ./PATH"),
    ] {
        let run = run(&gateway, store, &["ls", path], b"");
        assert_eq!(run.code, 17, "{path}: {}", run.stderr);
        assert!(run.stderr.contains(told), "{path}: {}", run.stderr);
    }
}
