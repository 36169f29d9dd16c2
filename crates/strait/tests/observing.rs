//! Servers' records of their work: `--metrics`, `--audit-log`, `--slow-call-ms`.

use crate::support::DEADLINE;
use crate::support::up::{Up, role};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use strait_testkit::free_port;
use strait_testkit::wait::eventually;

/// Answer of an HTTP server, including the head.
fn http(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A cluster in one process, all of whose calls count as slow.
struct Watched {
    up: Up,
    metrics: String,
}

impl Watched {
    fn start() -> Self {
        let metrics = format!("127.0.0.1:{}", free_port());
        let tell = ["--metrics", &metrics, "--audit-log", "audit.log", "--slow-call-ms", "0"];
        Self { up: Up::with(&tell), metrics }
    }

    fn put_and_get(&self) {
        self.up.run(["put", "-", &self.up.uri("/f")], b"content that no log has").ok();
        self.up.run(["cat", &self.up.uri("/f")], b"").ok();
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.up.dir.path().join(name)).unwrap()
    }
}

#[test]
fn a_page_of_numbers_is_served_and_nothing_else() {
    let up = Watched::start();
    up.put_and_get();
    let page = http(&up.metrics, "GET /metrics");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("text/plain; version=0.0.4"), "{page}");
    for series in [
        r#"strait_call_seconds_count{role="gateway",operation="createFile"} 1"#,
        r#"strait_call_seconds_count{role="namenode",operation="create"} 1"#,
        r#"strait_kadoop_datanodes{state="alive"} 3"#,
        r#"operation="seal"} 1"#,
        "# TYPE strait_call_seconds histogram",
    ] {
        assert!(page.contains(series), "no {series} in\n{page}");
    }
    assert!(http(&up.metrics, "GET /").starts_with("HTTP/1.1 404 "));
    assert!(http(&up.metrics, "POST /metrics").starts_with("HTTP/1.1 405 "));
    assert!(http(&up.metrics, "nonsense").starts_with("HTTP/1.1 400 "));
}

#[test]
fn slow_clients_keep_nobody_from_the_page() {
    const SLOW: usize = 200;
    let up = Watched::start();
    eventually("the page is served", || TcpStream::connect(&up.metrics).is_ok());
    let slow = |index: usize| {
        let mut stream = TcpStream::connect(&up.metrics).unwrap();
        // Half of them send nothing, the others part of a request.
        if index.is_multiple_of(2) {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
        }
        stream
    };
    let _slow: Vec<TcpStream> = (0..SLOW).map(slow).collect();
    for _ in 0..3 {
        let begun = Instant::now();
        let page = http(&up.metrics, "GET /metrics");
        assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
        // They would wait for 10 s, in groups.
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

#[test]
fn slow_calls_are_logged_and_no_secret_with_them() {
    let up = Watched::start();
    up.put_and_get();
    eventually("the audit log has it", || {
        let audit = up.file("audit.log");
        ["cmd=create", "cmd=rename", "cmd=open"].iter().all(|word| audit.contains(word))
    });
    // Of many slow calls in a second, the log leaves some out.
    eventually("slow calls are logged", || {
        let log = up.file("up.log");
        ["slow call operation=\"heartbeat\"", "about=chunk "].iter().all(|words| log.contains(words))
    });
    let log = up.file("up.log");
    let key = up.file("data/kadoop.key");
    for text in [log, up.file("audit.log")] {
        assert!(!text.contains(key.trim()) && !text.contains("content that no log has"), "{text}");
    }
}

/// The numbers of the requests behind the slow calls of this operation.
fn requests(log: &str, operation: &str) -> BTreeSet<String> {
    let operation = format!("slow call operation={operation:?} ");
    let of = |line: &str| line.split_once(" request=")?.1.split(' ').next().map(str::to_owned);
    log.lines().filter(|line| line.contains(&operation)).filter_map(of).collect()
}

#[test]
fn one_number_goes_with_a_request_from_the_gateway_to_the_namenode_and_the_datanodes() {
    let up = Watched::start();
    // If a second has more than a few slow calls, the log leaves some out.
    eventually("all of it is logged once", || {
        up.up.run(["put", "-f", "-", &up.up.uri("/f")], b"content").ok();
        up.up.run(["cat", &up.up.uri("/f")], b"").ok();
        let (log, audit) = (up.file("up.log"), up.file("audit.log"));
        let written_down = |operation: &str, cmd: &str| {
            let mut lines = audit.lines().filter(|line| line.contains(cmd));
            let requests = requests(&log, operation);
            lines.any(|line| requests.iter().any(|id| line.contains(&format!("\tcallerContext={id}\t"))))
        };
        let shared = |operation, called| !requests(&log, operation).is_disjoint(&requests(&log, called));
        written_down("createFile", "cmd=create")
            && written_down("openFile", "cmd=open")
            && shared("closeFile", "seal")
            && shared("readRange", "read")
    });
    assert!(!up.file("audit.log").contains("callerContext=-"), "{}", up.file("audit.log"));
}

#[test]
fn each_role_of_a_cluster_serves_its_own_page() {
    let dir = tempfile::tempdir().unwrap();
    let [namenode, datanode, of_namenode, of_datanode] =
        [(), (), (), ()].map(|()| format!("127.0.0.1:{}", free_port()));
    let args = ["namenode", "--data", "nn", "--key", "key", "--listen", &namenode];
    let more = ["--listen-datanodes", "127.0.0.1:0", "--metrics", &of_namenode];
    let _namenode = role(dir.path(), "namenode", &[&args[..], &more].concat(), &of_namenode);
    let args = ["datanode", "--data", "dn", "--key", "key", "--namenode", &namenode];
    let more = ["--listen", &datanode, "--metrics", &of_datanode];
    let _datanode = role(dir.path(), "datanode", &[&args[..], &more].concat(), &of_datanode);
    eventually("the datanode has joined", || {
        http(&of_namenode, "GET /metrics").contains(r#"strait_kadoop_datanodes{state="alive"} 1"#)
    });
    let page = http(&of_datanode, "GET /metrics");
    let series = format!(r#"strait_datanode_directories{{role="datanode",datanode="{datanode}"}} 1"#);
    assert!(page.contains(&series), "{page}");
}
