//! Metrics and logs of namenode and datanodes.

use crate::support::{Cluster, client, namenode_options, superuser, user};
use std::sync::Arc;
use strait_kadoop_client::CreateOptions;
use strait_kadoop_server::{DatanodeServer, NamenodeOptions, NamenodeServer};
use strait_telemetry::{AuditLog, Page};
use strait_testkit::wait::eventually;

/// A field of an audit log's line, by its key.
fn field<'l>(line: &'l str, key: &str) -> &'l str {
    let found = line.split('\t').find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {key} in {line}"))
}

#[test]
fn who_asked_for_what_and_whether_it_was_allowed_is_written_down() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit.log");
    let audit = Some(Arc::new(AuditLog::open(&file).unwrap()));
    let options = namenode_options(&directory.path().join("namenode"));
    let namenode = NamenodeServer::start(NamenodeOptions { audit, ..options }).unwrap();
    let client = client(&namenode);
    client.mkdirs(&superuser(), "/d", 0o700).unwrap();
    client.rename(&superuser(), "/d", "/e", false).unwrap();
    client.stat(&user("eve"), "/e/secret").unwrap_err();
    client.mkdirs(&user("eve\nallowed=true"), "/x", 0o755).unwrap_err();
    client.stat(&superuser(), "/missing").unwrap_err();
    assert!(!client.delete(&superuser(), "/missing", false).unwrap());
    let lines = || std::fs::read_to_string(&file).unwrap();
    eventually("six lines", || lines().lines().count() == 6);
    let lines = lines();
    let told: Vec<[&str; 6]> = lines
        .lines()
        .map(|line| {
            assert_eq!(field(line, "ip"), "/127.0.0.1");
            ["allowed", "ugi", "cmd", "src", "dst", "error"].map(|key| match key {
                "allowed" => line.split('\t').nth(1).unwrap(),
                key => field(line, key),
            })
        })
        .collect();
    assert_eq!(
        told,
        [
            ["allowed=true", "kadoop", "mkdirs", "/d", "null", "null"],
            ["allowed=true", "kadoop", "rename", "/d", "/e", "null"],
            ["allowed=false", "eve", "getfileinfo", "/e/secret", "null", "permission denied"],
            ["allowed=false", r"eve\nallowed=true", "mkdirs", "/x", "null", "permission denied"],
            ["allowed=true", "kadoop", "getfileinfo", "/missing", "null", "no such file or directory"],
            ["allowed=true", "kadoop", "delete", "/missing", "null", "no such file or directory"],
        ]
    );
    assert!(!lines.contains("7777"), "the key's bytes");
}

#[test]
fn calls_are_counted_where_they_are_answered() {
    let cluster = Cluster::start(0);
    let options = cluster.datanode_options(0);
    let datanode = DatanodeServer::start(options).unwrap();
    let client = client(&cluster.namenode);
    eventually("the datanode is there", || !client.status().unwrap().nodes.is_empty());
    let create = CreateOptions { replication: 1, ..CreateOptions::default() };
    eventually("a file is written", || {
        let mut writer =
            client.create(&superuser(), "/f", &CreateOptions { overwrite: true, ..create }).unwrap();
        writer.write("bytes").unwrap();
        writer.close().is_ok()
    });
    client.stat(&superuser(), "/nothing").unwrap_err();
    let mut page = Page::default();
    cluster.namenode.numbers().write(&mut page);
    datanode.numbers().write(&mut page, "only");
    let text = page.to_string();
    let number = |series: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
    };
    assert_eq!(number(r#"strait_call_seconds_count{role="namenode",operation="stat"}"#), 1);
    assert_eq!(number(r#"strait_call_errors_total{role="namenode",operation="stat"}"#), 1);
    for operation in ["create", "complete", "heartbeat"] {
        let count =
            number(&format!(r#"strait_call_seconds_count{{role="namenode",operation="{operation}"}}"#));
        assert!(count > 0, "{operation}");
    }
    for operation in ["write", "seal"] {
        let of = format!(r#"{{role="datanode",datanode="only",operation="{operation}"}}"#);
        assert!(number(&format!("strait_call_seconds_count{of}")) > 0, "{operation}");
    }
    assert_eq!(number(r#"strait_kadoop_datanodes{state="alive"}"#), 1);
    assert_eq!(number("strait_kadoop_files_and_directories"), 2);
    assert_eq!(number("strait_kadoop_safe_mode"), 0);
}
