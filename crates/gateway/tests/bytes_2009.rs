//! The bytes that programs of 2009 sent, byte for byte, and the answers that let them end well.
//! docs/programs-of-2009.md names these programs.

use crate::common::programs::{Generation, Program};
use crate::common::*;
use bytes::Bytes;
use std::io::Write;
use std::sync::Arc;
use strait_gateway::LocalRoot;
use strait_store::{FileStore, MemoryStore};
use strait_wire::*;

#[test]
fn programs_of_the_early_generation_get_their_answers() {
    replay(include_str!("bytes_2009/early.txt"));
}

#[test]
fn programs_of_the_later_generation_get_their_answers() {
    replay(include_str!("bytes_2009/later.txt"));
}

fn replay(cases: &str) {
    let local = Arc::new(MemoryStore::new("tester"));
    // A directory, as at the recording: DfsClient removes a file that it has open.
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path(), false).unwrap();
    let served = serve_store(Arc::new(store), |config| {
        config.local_root = Some(LocalRoot { path: "/tmp".into(), fs: local.clone(), umask: 0o022 });
    });
    put_local_file(local);

    let mut connection = None;
    let mut asked = None;
    for line in cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_at(2) {
            ("= ", command) => connection = Some(Replay::connect(&served, command)),
            ("> ", call) => asked = Some(connection.as_mut().expect("a connection").send(call)),
            ("< ", answer) => {
                let connection = connection.as_mut().expect("a connection");
                let name = asked.take().expect("a call");
                assert_eq!(connection.receive(&name), answer, "{name} of {}", connection.command);
            }
            _ => panic!("no line of a case: {line}"),
        }
    }
}

/// The file that the programs copy and write from.
fn put_local_file(local: Arc<MemoryStore>) {
    let elsewhere = serve_store(local, |_| {});
    Program::start(&elsewhere, Generation::Later).put("/local_data/local_file.dat", &[b'a'; 4_200]);
}

/// A program's connection.
struct Replay<'a> {
    command: &'a str,
    client: Client,
    /// The values that the cases call `client` and `file`.
    session: i64,
    file: i64,
}

impl<'a> Replay<'a> {
    fn connect(served: &Served, command: &'a str) -> Self {
        Self { command, client: served.client(), session: 0, file: 0 }
    }

    /// Sends the case's call, and returns its name.
    fn send(&mut self, call: &str) -> String {
        let (name, rest) = call.split_once(' ').expect("a name and bytes");
        let mut bytes = Vec::new();
        for token in rest.split(' ') {
            match (token, token.split_once('*')) {
                ("client", _) => bytes.extend(self.session.to_be_bytes()),
                ("file", _) => bytes.extend(self.file.to_be_bytes()),
                (_, Some((byte, count))) => {
                    bytes.extend(hex(byte).repeat(count.parse().expect("a number")));
                }
                _ => bytes.extend(hex(token)),
            }
        }
        let Sniff::Thrift(wire) = sniff(&bytes) else { panic!("{call}") };
        self.client.wire = wire;
        self.client.stream.write_all(&bytes).unwrap();
        name.to_owned()
    }

    fn receive(&mut self, name: &str) -> String {
        let message = self.client.message().expect("an answer");
        match name {
            "init" => self.answer::<methods::Init>(message, |this, handle| {
                this.session = handle.id.unwrap();
                "handle".to_owned()
            }),
            "open" => self.answer::<methods::Open>(message, |this, handle| {
                this.file = handle.id.unwrap();
                "handle".to_owned()
            }),
            "stat" => self.answer::<methods::Stat>(message, |_, status| format!("status {}", shown(&status))),
            "listFiles" => self.answer::<methods::ListFiles>(message, |_, mut list| {
                list.sort_by_key(|status| status.path.clone());
                format!("list {}", list.iter().map(shown).collect::<Vec<_>>().join(", "))
            }),
            "read" => self.answer::<methods::Read>(message, |_, data| format!("data {}", data.0.len())),
            "login" => self.answer::<methods::Login>(message, |_, done| done.to_string()),
            "logout" => self.answer::<methods::Logout>(message, |_, done| done.to_string()),
            "closeClient" => self.answer::<methods::CloseClient>(message, |_, done| done.to_string()),
            "closeDfs" => self.answer::<methods::CloseDfs>(message, |_, done| done.to_string()),
            "mkdir" => self.answer::<methods::Mkdir>(message, |_, done| done.to_string()),
            "move" => self.answer::<methods::Move>(message, |_, done| done.to_string()),
            "remove" => self.answer::<methods::Remove>(message, |_, done| done.to_string()),
            "close" => self.answer::<methods::Close>(message, |_, done| done.to_string()),
            "write" => self.answer::<methods::Write>(message, |_, done| done.to_string()),
            "copyToLocalFile" => self.answer::<methods::CopyToLocalFile>(message, |_, done| done.to_string()),
            "copyFromLocalFile" => {
                self.answer::<methods::CopyFromLocalFile>(message, |_, done| done.to_string())
            }
            other => panic!("no call of DfsService: {other}"),
        }
    }

    /// The answer in the cases' notation.
    fn answer<M: Method>(
        &mut self,
        message: Bytes,
        show: impl FnOnce(&mut Self, M::Success) -> String,
    ) -> String {
        match M::decode_reply(self.client.wire.protocol, message).unwrap().1 {
            Reply::Success(success) => show(self, success),
            Reply::Exception(_) => "exception".to_owned(),
            Reply::Application(error) => panic!("{}: {}", M::NAME, error.message),
        }
    }
}

fn shown(status: &FileStatus) -> String {
    let name = status.path.as_deref().unwrap();
    match status.isdir {
        Some(true) => format!("{name} directory"),
        _ => format!("{name} {}", status.length.unwrap()),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    assert!(digits.remainder().is_empty(), "{text}");
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
