//! `--json`: one object a line, for results and for failures.

use crate::support::{self, Gateway, Run, command};
use serde_json::{Value, json};

fn objects(text: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}"))).collect()
}

/// The objects that a successful command prints.
#[track_caller]
fn done(gateway: &Gateway, args: &[&str], input: &[u8]) -> Vec<Value> {
    objects(&gateway.run_with([&["--json"], args].concat(), input, &[]).ok().stdout)
}

#[test]
fn what_changes_something_prints_one_object_for_each_path() {
    let gateway = Gateway::over_files();
    let tree = support::fresh(gateway.dir.path(), "tree");
    std::fs::write(tree.join("a"), "12345").unwrap();
    std::fs::write(tree.join("b"), "").unwrap();
    let uri = |path| gateway.uri(path);
    let mut put = done(&gateway, &["put", "tree", &uri("/t")], b"");
    put.sort_by_key(|object| object["path"].to_string());
    let file = |name: &str, bytes| {
        let (local, path) = (format!("tree/{name}"), format!("/t/{name}"));
        json!({"operation": "put", "local": local, "path": path, "bytes": bytes})
    };
    assert_eq!(put, [file("a", 5), file("b", 0)]);
    assert_eq!(
        done(&gateway, &["put", "-", &uri("/p")], b"123"),
        [json!({"operation": "put", "local": "-", "path": "/p", "bytes": 3})]
    );
    assert_eq!(
        done(&gateway, &["get", &uri("/t/a"), "back"], b""),
        [json!({"operation": "get", "path": "/t/a", "local": "back", "bytes": 5})]
    );
    assert_eq!(
        done(&gateway, &["mv", &uri("/p"), "/t"], b""),
        [json!({"operation": "mv", "from": "/p", "path": "/t/p"})]
    );
    let plain = |operation, path| json!({"operation": operation, "path": path});
    assert_eq!(
        done(&gateway, &["mkdir", &uri("/d"), &uri("/e")], b""),
        [plain("mkdir", "/d"), plain("mkdir", "/e")]
    );
    assert_eq!(done(&gateway, &["touch", &uri("/d/f")], b""), [plain("touch", "/d/f")]);
    assert_eq!(
        done(&gateway, &["chmod", "-R", "700", &uri("/d")], b""),
        [plain("chmod", "/d"), plain("chmod", "/d/f")]
    );
    assert_eq!(done(&gateway, &["rm", "-r", &uri("/d")], b""), [plain("rm", "/d")]);
    assert_eq!(done(&gateway, &["rm", "-f", &uri("/d")], b""), [] as [Value; 0], "nothing was there");
}

#[test]
fn a_file_that_goes_to_standard_output_is_the_output() {
    let gateway = Gateway::over_files();
    std::fs::write(gateway.data().join("f"), "content").unwrap();
    assert_eq!(gateway.run(["--json", "get", &gateway.uri("/f"), "-"]).text(), "content");
}

#[test]
fn an_error_is_one_object_on_standard_error() {
    let gateway = Gateway::over_files();
    std::fs::write(gateway.data().join("f"), "content").unwrap();
    let (missing, there) = (gateway.uri("/missing"), gateway.uri("/f"));
    let run = gateway.run(["--json", "rm", &missing, &there]);
    assert_eq!(run.code, 10);
    assert_eq!(objects(&run.stdout), [json!({"operation": "rm", "path": "/f"})]);
    assert_eq!(
        objects(run.stderr.as_bytes()),
        [json!({
            "error": "NotFound",
            "operation": "stat",
            "path": "/missing",
            "message": "No such file or directory",
            "retry_safe": false,
            "exit_code": 10,
        })]
    );
    let usage = gateway.run(["--json", "chmod", "rwx", &there]);
    let told = objects(usage.stderr.as_bytes());
    assert_eq!((usage.code, &told[0]["error"], &told[0]["exit_code"]), (2, &json!("Usage"), &json!(2)));
}

#[test]
fn a_wrong_command_line_is_an_object_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut strait = command(dir.path());
    strait.args(["ls", "--json", "--no-such-flag"]);
    let run = Run::of(strait, b"");
    let told = objects(run.stderr.as_bytes());
    assert_eq!((run.code, told.len(), &told[0]["error"]), (2, 1, &json!("Usage")));
    assert!(told[0]["message"].as_str().unwrap().contains("--no-such-flag"), "{told:?}");
}
