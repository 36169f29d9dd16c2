//! HTTP, byte by byte.

use super::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use strait_gateway::PasswordFile;

/// No answer here takes longer.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// An answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Bytes,
}

pub fn connect(served: &Served) -> TcpStream {
    let stream = TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads one answer; status 0 if the connection ends without one.
pub fn receive(stream: &mut TcpStream) -> Answer {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return Answer { status: 0, head: String::new(), body: Bytes::new() },
        }
    }
    let head = plain(head);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: body.into() }
}

/// A head, its fields' names in lower case.
fn plain(head: Vec<u8>) -> String {
    let text = String::from_utf8(head).unwrap();
    let line = |line: &str| match line.split_once(": ") {
        Some((name, value)) => format!("{}: {value}", name.to_ascii_lowercase()),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Sends bytes as they are, and reads the answer.
pub fn raw(served: &Served, request: &[u8]) -> Answer {
    let mut stream = connect(served);
    let _ = stream.write_all(request);
    receive(&mut stream)
}

pub fn typed(answer: &Answer, status: u16, kind: &str) {
    let body = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, status, "{}{body}", answer.head);
    assert!(body.contains(&format!("\"kind\":\"{kind}\"")), "{body}");
}

/// A gateway with the user tester, whose password is secret.
pub fn with_users(dir: &std::path::Path) -> Served {
    let file = dir.join("passwd");
    PasswordFile::set(&file, "tester", "secret").unwrap();
    let passwords = Some(PasswordFile::load(&file).unwrap());
    serve_with(|config| config.access = Access { passwords, ..Access::default() })
}

/// Reads the head of an answer that has no body, whatever its length says.
pub fn head_of(stream: &mut TcpStream) -> Answer {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1);
        head.push(byte[0]);
    }
    let head = plain(head);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: Bytes::new() }
}

/// A request with this body, and its length if it may have a body.
pub fn request(method: &str, target: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let length = match body.is_empty() && ["GET", "HEAD", "DELETE"].contains(&method) {
        true => String::new(),
        false => format!("Content-Length: {}\r\n", body.len()),
    };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}{length}\r\n");
    [head.as_bytes(), body].concat()
}

/// Sends a request on a connection of its own, and reads the answer.
pub fn send(served: &Served, method: &str, target: &str, fields: &str, body: &[u8]) -> Answer {
    let mut stream = connect(served);
    let _ = stream.write_all(&request(method, target, fields, body));
    if method == "HEAD" { head_of(&mut stream) } else { receive(&mut stream) }
}

pub fn get(served: &Served, target: &str) -> Answer {
    send(served, "GET", target, "", b"")
}

pub fn put_file(served: &Served, target: &str, body: &[u8]) -> Answer {
    let answer = send(served, "PUT", target, "", body);
    assert!([201, 204].contains(&answer.status), "{}{:?}", answer.head, answer.body);
    answer
}

pub fn json_body(method: &str, served: &Served, target: &str, body: &Value) -> Answer {
    send(served, method, target, "Content-Type: application/json\r\n", body.to_string().as_bytes())
}

pub fn value(answer: &Answer) -> Value {
    assert!(answer.status < 300, "{}{:?}", answer.head, answer.body);
    serde_json::from_slice(&answer.body).unwrap()
}

pub fn field<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let mut lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no {name} in {}", answer.head)).1
}

pub fn names(served: &Served, directory: &str) -> Vec<String> {
    let page = value(&get(served, &format!("/v1/directories{directory}")));
    let entries = page["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}
