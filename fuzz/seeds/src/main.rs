//! Writes valid messages for the fuzzers to start from: `seeds CORPUS_DIR`
//! fills CORPUS_DIR/sniff, CORPUS_DIR/decode, CORPUS_DIR/web and CORPUS_DIR/onc.

use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use strait_flexrpc::proto::onc::message::{Answer, Call, Denial};
use strait_flexrpc::proto::onc::record;
use strait_flexrpc::{AuthSys, Credentials, Procedure};
use strait_wire::*;

/// Methods of the `decode` target; its selector is the method times three, plus the protocol.
const CALL: u8 = 0;
const LIST_FILES: u8 = 3;
const LIST_DIRECTORY: u8 = 7;
const READ_RANGE: u8 = 8;
const GET_BLOCK_LOCATIONS: u8 = 9;

fn main() -> io::Result<()> {
    let corpus = PathBuf::from(env::args().nth(1).ok_or(io::ErrorKind::InvalidInput)?);
    onc(&corpus.join("onc"))?;
    web(&corpus.join("web"))?;
    for wire in Wire::ALL {
        let calls = calls(wire);
        for (name, call) in &calls {
            // The piece size of the sniff target: byte by byte, and eight at a time.
            for piece in [0, 7] {
                seed(&corpus.join("sniff"), &format!("{name}-{piece}"), wire, piece, call)?;
            }
        }
        if wire.framed {
            continue; // the decoder never sees a frame
        }
        for (name, call) in &calls {
            seed(&corpus.join("decode"), name, wire, selector(CALL, wire), call)?;
        }
        for (name, method, reply) in replies(wire) {
            seed(&corpus.join("decode"), name, wire, selector(method, wire), &reply)?;
        }
    }
    Ok(())
}

/// Calls, replies, and records in pieces of eight bytes.
fn onc(dir: &Path) -> io::Result<()> {
    const CALL: u8 = 0;
    const ANSWER: u8 = 1;
    const PIECE: u8 = 8;
    fs::create_dir_all(dir)?;
    let sys = AuthSys { machine: "host".into(), gids: vec![4, 24], ..AuthSys::default() };
    for (name, credentials) in [("none", Credentials::None), ("sys", Credentials::Sys(sys))] {
        let message = Call { xid: 7, procedure: Procedure::new(100_003, 3, 1), credentials }.encode();
        let (first, rest) = message.split_at(12);
        let mut begun = record::mark(first.len());
        begun[0] &= 0x7f;
        let fragments = [&begun[..], first, &record::mark(rest.len()), rest].concat();
        fs::write(dir.join(format!("call-{name}")), [&[CALL], &message[..]].concat())?;
        fs::write(dir.join(format!("record-{name}")), [&[PIECE], &fragments[..]].concat())?;
    }
    for (name, answer) in [
        ("success", Answer::Success),
        ("mismatch", Answer::ProgramMismatch { low: 1, high: 3 }),
        ("denied", Answer::Denied(Denial::RpcMismatch)),
    ] {
        fs::write(dir.join(name), [&[ANSWER], &answer.encode(7)[..]].concat())?;
    }
    Ok(())
}

/// Words of HTTP requests, behind their selectors.
fn web(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let words = [
        "\0/a%20b/%C3%BC",
        "\0/@lab/%2e%2e/x%00",
        "\u{1}limit=9&after=a%26b&recursive",
        "\u{2}bytes=0-99",
        "\u{2}bytes=-5",
        "\u{3}bytes 0-99/100",
        "\u{4}\"a\", W/\"b\"\n*\nSun, 06 Nov 1994 08:49:37 GMT\n\n\"a\"",
        "\u{5}[::1]:9090",
        "\u{5}files.example:1@evil",
        "\u{6}\u{3}PUT /f HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\u{6}\0POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ];
    for (number, word) in words.iter().enumerate() {
        fs::write(dir.join(number.to_string()), word)?;
    }
    Ok(())
}

fn selector(method: u8, wire: Wire) -> u8 {
    let protocol = match wire.protocol {
        Protocol::Binary => 0,
        Protocol::Compact => 1,
        Protocol::Unversioned => 2,
        Protocol::Json => 3,
    };
    method * 4 + protocol
}

fn seed(dir: &Path, name: &str, wire: Wire, first: u8, message: &[u8]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let framed = if wire.framed { "framed" } else { "unframed" };
    let mut bytes = vec![first];
    bytes.extend_from_slice(message);
    fs::write(dir.join(format!("{name}-{:?}-{framed}", wire.protocol)), bytes)
}

fn calls(wire: Wire) -> Vec<(&'static str, Bytes)> {
    let path = || Some("/a/b".to_owned());
    let ch = || Some(ClientHandle { id: Some(7) });
    let write = WriteArgs {
        ch: ch(),
        dh: Some(DfsHandle { id: Some(8) }),
        buf: Some(Bytes::from_static(b"\0\xff record")),
        offset: Some(-1),
        len: Some(9),
    };
    let early_write = WriteArgs { dh: None, ..write.clone() };
    let open = OpenArgs { ch: ch(), filename: Some("/f".into()), mode: Some(2) };
    // Field 2 stays out, as in generation 0.5.
    let early_open = OpenArgs { ch: None, ..open.clone() };
    let session =
        OpenSessionRequest { user: path(), password: Some(Secret("p".into())), ..Default::default() };
    let append = AppendDataRequest {
        request_id: Some(Bytes::from_static(&[9; 16])),
        is_retry: Some(true),
        handle: Some(3),
        expected_offset: Some(1 << 40),
        data: Some(Bytes::from_static(b"data")),
        ..Default::default()
    };
    let attributes = SetAttributesRequest {
        path: path(),
        permission: Some(0o644),
        replication: Some(3),
        ..Default::default()
    };
    [
        ("init", methods::Init::call(wire, 1, &InitArgs { uri: Some("hdfs://nn:8020".into()) })),
        ("closeDfs", methods::CloseDfs::call(wire, 2, &CloseDfsArgs::default())),
        ("open", methods::Open::call(wire, 3, &open)),
        ("open-early", methods::Open::call(wire, 3, &early_open)),
        ("write", methods::Write::call(wire, 4, &write)),
        ("write-early", methods::Write::call(wire, 4, &early_write)),
        ("openSession", methods::OpenSession::call(wire, 5, &session.into())),
        ("appendData", methods::AppendData::call(wire, 6, &append.into())),
        ("setAttributes", methods::SetAttributes::call(wire, -7, &attributes.into())),
    ]
    .map(|(name, encoded)| (name, encoded.to_bytes()))
    .into()
}

fn replies(wire: Wire) -> Vec<(&'static str, u8, Bytes)> {
    let status = FileStatus { path: Some("/ü".into()), isdir: Some(true), ..Default::default() };
    let info = FileInfo { path: Some("/a".into()), length: Some(101), ..Default::default() };
    let page = ListDirectoryReply { entries: Some(vec![info; 2]), cursor: Some(2) };
    let block = BlockLocation {
        length: Some(64 << 20),
        hosts: Some(vec!["a".into(), "b".into()]),
        corrupt: Some(false),
        ..Default::default()
    };
    let blocks = GetBlockLocationsReply { blocks: Some(vec![block]) };
    let error =
        DfsError { code: Some(1), message: Some("no".into()), retry_safe: Some(false), ..Default::default() };
    let unknown = ApplicationError { kind: ApplicationErrorKind::UnknownMethod, message: "x".into() };
    [
        ("listFiles-reply", LIST_FILES, methods::ListFiles::reply(wire, 1, &Ok(vec![status; 3]))),
        ("listDirectory-reply", LIST_DIRECTORY, methods::ListDirectory::reply(wire, 2, &Ok(page))),
        (
            "getBlockLocations-reply",
            GET_BLOCK_LOCATIONS,
            methods::GetBlockLocations::reply(wire, 3, &Ok(blocks)),
        ),
        ("readRange-error", READ_RANGE, methods::ReadRange::reply(wire, 4, &Err(error))),
        ("readRange-unknown", READ_RANGE, unknown.reply(wire, "readRange", 5)),
    ]
    .map(|(name, method, encoded)| (name, method, encoded.to_bytes()))
    .into()
}
