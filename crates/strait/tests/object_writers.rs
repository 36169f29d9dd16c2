//! A gateway over a bucket bounds its memory for writers that stop sending, and serves all of them.

use crate::support::Gateway;
use bytes::Bytes;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use strait_testkit::thrift::Client;
use strait_testkit::{OBJECT_BUCKET, ObjectServer, skip};
use strait_wire::{
    AppendDataRequest, CloseSessionRequest, CreateFileRequest, Protocol, Reply, Wire, methods,
};

/// Limit of the gateway's resident memory.
const MOST_MIB: u64 = 256;
const WRITERS: usize = 200;
/// These writers fill a part, so the rest of an append begins the next part. If it kept the whole append,
/// they would hold more than the limit.
const LONG: usize = 70;
/// Bytes of an append. A part isn't a whole number of appends.
const APPENDED: usize = (4 << 20) - (64 << 10);
/// Bytes of the append that all writers send at once.
const LAST: usize = 1 << 20;
/// The most that a writer writes.
const CONTENT_BYTES: usize = 3 * APPENDED + LAST;
/// Time limit for another client's file.
const SERVED: Duration = Duration::from_secs(30);
/// Longest wait for an answer while all writers send.
const PATIENCE: Duration = Duration::from_secs(60);
const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };

/// A file, whose bytes differ from those of other files.
struct Writer {
    client: Client,
    handle: i64,
    content: Bytes,
    written: usize,
}

impl Writer {
    fn create(gateway: &Gateway, number: usize) -> Self {
        let mut client = Client::connect(gateway.address.parse().unwrap(), WIRE);
        client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        client.open_session();
        let request = CreateFileRequest { path: Some(path(number)), ..CreateFileRequest::default() };
        let handle = client.v2::<methods::CreateFile>(request).unwrap().handle.unwrap();
        Self { client, handle, content: content(number), written: 0 }
    }

    fn send(&mut self, bytes: usize) {
        let data = self.content.slice(self.written..self.written + bytes);
        let request = AppendDataRequest {
            handle: Some(self.handle),
            expected_offset: Some(self.written as i64),
            data: Some(data),
            ..AppendDataRequest::default()
        };
        self.client.send::<methods::AppendData>(&request.into());
        self.written += bytes;
    }

    #[track_caller]
    fn appended(&mut self) {
        let reply = self.client.receive::<methods::AppendData>();
        assert!(matches!(reply, Reply::Success(_)), "{reply:?}");
    }
}

fn path(number: usize) -> String {
    format!("/{number}")
}

fn content(number: usize) -> Bytes {
    static ALL: LazyLock<Bytes> = LazyLock::new(|| {
        let words = (CONTENT_BYTES / 4 + WRITERS + 1) as u32;
        (0..words).flat_map(u32::to_le_bytes).collect()
    });
    ALL.slice(4 * number..4 * number + CONTENT_BYTES)
}

/// The gateway's temporary files, which have no names.
fn temporary_files(gateway: &Gateway) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", gateway.process.id())).unwrap();
    let names = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    names.filter(|name| is_of_part(name)).count()
}

fn is_of_part(name: &Path) -> bool {
    name.to_string_lossy().contains(".strait-part-")
}

#[test]
fn writers_that_stop_sending_hold_little_and_all_of_them_can_go_on() {
    let Some(server) = ObjectServer::moto().unwrap() else {
        return skip("writers_that_stop_sending_hold_little_and_all_of_them_can_go_on", "moto in .venv-s3");
    };
    let temporary = tempfile::tempdir().unwrap();
    let environment = [
        ("AWS_ACCESS_KEY_ID", "strait".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "strait-secret".to_owned()),
        ("TMPDIR", temporary.path().display().to_string()),
    ];
    let gateway = Gateway::start_with(&environment, |_| {
        let store = format!("s3://{OBJECT_BUCKET}/");
        ["--endpoint-url", &server.url(), "--store", &store].map(str::to_owned).to_vec()
    });
    let begun = Instant::now();
    let check = |when: &str| {
        let most = gateway.process.most_mib().unwrap();
        println!("{when}: {most} MiB, {:?}", begun.elapsed());
        assert!(most <= MOST_MIB, "{when}: {most} MiB with {WRITERS} writers");
    };
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let mut writer = Writer::create(&gateway, number);
        for _ in 0..if number < LONG { 3 } else { 1 } {
            writer.send(APPENDED);
            writer.appended();
        }
        writers.push(writer);
        if number + 1 == LONG {
            check("after one part of each");
        }
    }
    check("after an unfinished part of each");
    writers.iter_mut().for_each(|writer| writer.send(LAST));
    writers.iter_mut().for_each(Writer::appended);
    check("after an append of all at once");
    assert!(temporary_files(&gateway) > 0, "they have more than the budget");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "none has a name");

    let other = Instant::now();
    gateway.run_with(["put", "-", &gateway.uri("/other")], &content(WRITERS), &[]).ok();
    assert!(gateway.run(["cat", &gateway.uri("/other")]).stdout == content(WRITERS));
    assert!(other.elapsed() < SERVED, "{:?}", other.elapsed());
    check("after another file");

    // Which closes their files.
    for writer in &mut writers {
        writer.client.send::<methods::CloseSession>(&CloseSessionRequest::default().into());
    }
    for writer in &mut writers {
        let reply = writer.client.receive::<methods::CloseSession>();
        assert!(matches!(reply, Reply::Success(_)), "{reply:?}");
    }
    check("after a close of all at once");
    assert_eq!(temporary_files(&gateway), 0, "they end with their files");
    for number in [0, LONG - 1, LONG, WRITERS - 1] {
        let writer = &writers[number];
        let got = gateway.run(["cat", &gateway.uri(&path(number))]);
        assert!(got.stdout == writer.content[..writer.written], "file {number}: {}", got.stderr);
    }
}
