//! Many idle and slow clients of HTTP: the gateway's memory, and another user's requests beside them.

use crate::support::{Gateway, Run, command, fresh};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use strait_testkit::wait::pause;

const IDLE: usize = 1_000;
const SLOW: usize = 100;
/// Limit of the gateway's resident memory.
const MAX_MIB: u64 = 256;
/// Time limit for one of the other user's requests, on a loaded machine.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The gateway ends a connection after this time without a request.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// Bytes that a slow sender announces.
const ANNOUNCED: u64 = 64 << 20;

/// How long the crowd stays: `CROWD_S=60` for the heavy tier.
fn stay() -> Duration {
    let seconds = std::env::var("CROWD_S").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

/// Adds a user whose password is secret.
fn add_user(dir: &Path, user: &str) {
    let mut passwd = command(dir);
    passwd.current_dir(dir).args(["passwd", "--file", "passwords", user]);
    Run::of(passwd, b"secret\n").ok();
}

fn gateway() -> Gateway {
    Gateway::start(|dir| {
        for user in ["ann", "bob"] {
            add_user(dir, user);
        }
        let store = format!("file://{}", fresh(dir, "data").display());
        let passwords = dir.join("passwords").display().to_string();
        ["--store", &store, "--passwords", &passwords].map(str::to_owned).to_vec()
    })
}

fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(&gateway.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Sends a request, and reads its answer: the status, and the body.
fn ask(stream: &mut TcpStream, method: &str, target: &str, fields: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

fn log_in(gateway: &Gateway, user: &str) -> String {
    let login = format!("{{\"user\":\"{user}\",\"password\":\"secret\"}}");
    let kind = "Content-Type: application/json\r\n";
    let (status, body) = ask(&mut connect(gateway), "POST", "/v1/sessions", kind, login.as_bytes());
    assert_eq!(status, 201);
    let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
    format!("Authorization: Bearer {}\r\n", answer["token"].as_str().unwrap())
}

/// The 99th percentile of a user's requests, after each three of which the others send something.
fn p99(own: &mut TcpStream, user: &str, mut others: impl FnMut()) -> Duration {
    let content = vec![7; 100_000];
    let (begun, mut waits) = (Instant::now(), Vec::new());
    while begun.elapsed() < stay() {
        others();
        for (method, target) in
            [("PUT", "/v1/files/bobs"), ("GET", "/v1/files/bobs"), ("GET", "/v1/status/bobs")]
        {
            let body = if method == "PUT" { &content[..] } else { b"" };
            let asked = Instant::now();
            let (status, _) = ask(own, method, target, user, body);
            assert!([200, 201, 204].contains(&status), "{method} {target}: {status}");
            waits.push(asked.elapsed());
        }
        pause("the pace of slow clients", Duration::from_millis(50));
    }
    waits.sort();
    waits[waits.len() * 99 / 100]
}

#[test]
fn idle_and_slow_clients_neither_fill_the_memory_nor_delay_another_user() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let gateway = gateway();
    let (ann, bob) = (log_in(&gateway, "ann"), log_in(&gateway, "bob"));
    let mut own = connect(&gateway);
    let large = vec![7; 8 << 20];
    assert_eq!(ask(&mut own, "PUT", "/v1/files/large", &ann, &large).0, 201);
    let quiet = p99(&mut connect(&gateway), &bob, || {});
    let ask_idle = |stream: &mut TcpStream| ask(stream, "GET", "/v1/sessions/current", &ann, b"").0;
    let mut idle: Vec<TcpStream> = (0..IDLE)
        .map(|_| {
            let mut stream = connect(&gateway);
            assert_eq!(ask_idle(&mut stream), 200);
            stream
        })
        .collect();
    let mut asked = Instant::now();
    let mut slow: Vec<TcpStream> = (0..SLOW)
        .map(|number| {
            let mut stream = connect(&gateway);
            let head = format!(
                "PUT /v1/files/slow{number} HTTP/1.1\r\nHost: localhost\r\n{ann}Content-Length: {ANNOUNCED}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    // And as many who never take their answers.
    let lazy: Vec<TcpStream> = (0..SLOW)
        .map(|_| {
            let mut stream = connect(&gateway);
            let head = format!("GET /v1/files/large HTTP/1.1\r\nHost: localhost\r\n{ann}\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let crowded = p99(&mut connect(&gateway), &bob, || {
        // Some are cut in favour of requests that wait for memory.
        slow.retain_mut(|stream| stream.write_all(&[b'x'; 1_000]).is_ok());
        if asked.elapsed() > IDLE_LIMIT / 2 {
            idle.iter_mut().for_each(|stream| assert_eq!(ask_idle(stream), 200));
            asked = Instant::now();
        }
    });
    let most = gateway.process.most_mib().unwrap();
    let living = idle.iter_mut().map(ask_idle).filter(|status| *status == 200).count();
    let factor = crowded.as_secs_f64() / quiet.as_secs_f64();
    println!(
        "beside {living} idle clients, {} slow senders of {SLOW} and {SLOW} slow readers: p99 {crowded:?}, \
         {factor:.2} × the quiet {quiet:?}; {most} MiB",
        slow.len(),
    );
    assert_eq!(living, IDLE);
    assert!(!slow.is_empty(), "no slow sender is left");
    assert!(most <= MAX_MIB, "{most} MiB");
    assert!(crowded < MAX_WAIT, "{crowded:?}");
    drop(lazy);
}
