//! Messages survive encoding and decoding on all wires. Anything else is refused without a panic,
//! and without allocating by its claims.

use bytes::Bytes;
use strait_wire::*;

const MAX: usize = 1 << 20;

fn sample_calls(wire: Wire) -> Vec<Bytes> {
    let large = Bytes::from(vec![7u8; 20_000]);
    let path = || Some("/a/b".to_owned());
    vec![
        methods::Init::call(wire, 1, &InitArgs { uri: Some("hdfs://nn:8020".into()) }),
        methods::CloseDfs::call(wire, 2, &CloseDfsArgs::default()),
        methods::Remove::call(
            wire,
            -3,
            &RemoveArgs {
                ch: Some(ClientHandle { id: Some(i64::MIN) }),
                path: Some(Text(Bytes::from_static(b"/\0\xff"))),
                recursive: Some(true),
            },
        ),
        methods::Write::call(
            wire,
            4,
            &WriteArgs {
                ch: Some(ClientHandle { id: Some(5) }),
                dh: Some(DfsHandle { id: Some(6) }),
                buf: Some(large.clone()),
                offset: Some(-1),
                len: Some(20_000),
            },
        ),
        methods::SetAttributes::call(
            wire,
            5,
            &SetAttributesRequest { path: path(), permission: Some(0o644), ..Default::default() }.into(),
        ),
        methods::CreateFile::call(
            wire,
            6,
            &CreateFileRequest {
                path: path(),
                overwrite: Some(false),
                is_retry: Some(true),
                ..Default::default()
            }
            .into(),
        ),
    ]
    .into_iter()
    .map(|encoded| encoded.to_bytes())
    .collect()
}

fn scan_whole(wire: Wire, message: &[u8]) -> Result<Scan, DecodeError> {
    Scanner::new(wire, MAX).scan(message)
}

/// Scans and decodes as a server does.
fn receive(wire: Wire, message: &Bytes) -> Result<(Envelope, Option<Call>), DecodeError> {
    let Scan::Complete { start, end } = scan_whole(wire, message)? else {
        return Err(DecodeError::Truncated);
    };
    let mut from = Decoder::new(wire.protocol, message.slice(start..end));
    let envelope = Envelope::read(&mut from)?;
    let call = Call::read(&envelope.name, &mut from)?;
    Ok((envelope, call))
}

#[test]
fn a_message_scans_the_same_byte_by_byte_and_whole() {
    for wire in Wire::ALL {
        for message in sample_calls(wire) {
            assert_eq!(sniff(&message), Sniff::Thrift(wire));
            let start = if wire.framed { 4 } else { 0 };
            let whole = Scan::Complete { start, end: message.len() };
            assert_eq!(scan_whole(wire, &message), Ok(whole));

            let mut scanner = Scanner::new(wire, MAX);
            for end in 0..message.len() {
                match scanner.scan(&message[..end]) {
                    Ok(Scan::NeedMore(at_least)) => assert!(end < at_least && at_least <= message.len()),
                    other => panic!("{other:?} after {end} of {} bytes on {wire:?}", message.len()),
                }
            }
            assert_eq!(scanner.scan(&message), Ok(whole));

            let mut followed = message.to_vec();
            followed.extend_from_slice(b"next");
            assert_eq!(scan_whole(wire, &followed), Ok(whole), "what follows isn't looked at");
        }
    }
}

#[test]
fn calls_arrive_as_they_were_sent() {
    for wire in Wire::ALL {
        let messages = sample_calls(wire);
        let (envelope, call) = receive(wire, &messages[2]).unwrap();
        assert_eq!((envelope.name.as_str(), envelope.sequence), ("remove", -3));
        let Some(Call::Remove(args)) = call else { panic!("{call:?}") };
        assert_eq!(args.ch.and_then(|ch| ch.id), Some(i64::MIN));
        assert_eq!(args.path, Some(Text(Bytes::from_static(b"/\0\xff"))));
        assert_eq!(args.recursive, Some(true));

        let (_, call) = receive(wire, &messages[3]).unwrap();
        let Some(Call::Write(args)) = call else { panic!("{call:?}") };
        assert_eq!(args.handles(), (Some(5), Some(6)));
        let buf = args.buf.unwrap();
        assert_eq!(buf.len(), 20_000);
        let source = messages[3].as_ptr_range();
        let shared = source.contains(&buf.as_ptr());
        // JSON's payloads are base64.
        assert!(shared || wire.protocol == Protocol::Json, "the payload is a slice of the message");

        let (_, call) = receive(wire, &messages[5]).unwrap();
        let Some(Call::CreateFile(request)) = call else { panic!("{call:?}") };
        assert_eq!(
            (request.overwrite, request.is_retry, request.permission),
            (Some(false), Some(true), None)
        );
    }
}

#[test]
fn replies_arrive_as_they_were_sent() {
    for wire in Wire::ALL {
        let strip = |encoded: Encoded| encoded.to_bytes().slice(if wire.framed { 4.. } else { 0.. });
        let status = FileStatus { path: Some("/ü".into()), isdir: Some(true), ..Default::default() };
        let list = vec![status; 20];
        let bytes = strip(methods::ListFiles::reply(wire, 9, &Ok(list.clone())));
        match methods::ListFiles::decode_reply(wire.protocol, bytes).unwrap() {
            (9, Reply::Success(back)) => assert_eq!(back, list),
            other => panic!("{other:?}"),
        }

        let error = DfsError { code: Some(1), retry_safe: Some(false), ..Default::default() };
        let bytes = strip(methods::ReadRange::reply(wire, 1, &Err(error.clone())));
        match methods::ReadRange::decode_reply(wire.protocol, bytes).unwrap() {
            (1, Reply::Exception(back)) => assert_eq!(back, error),
            other => panic!("{other:?}"),
        }

        let error = ApplicationError { kind: ApplicationErrorKind::UnknownMethod, message: "x".into() };
        match methods::Stat::decode_reply(wire.protocol, strip(error.reply(wire, "stat", 2))).unwrap() {
            (2, Reply::Application(back)) => assert_eq!(back, error),
            other => panic!("{other:?}"),
        }

        let bytes = strip(methods::Mkdir::reply(wire, 3, &Ok(false)));
        assert!(matches!(
            methods::Mkdir::decode_reply(wire.protocol, bytes).unwrap(),
            (3, Reply::Success(false))
        ));
    }
}

#[test]
fn a_large_payload_is_sent_without_a_copy() {
    let data = Bytes::from(vec![1u8; 100_000]);
    for wire in Wire::ALL.into_iter().filter(|wire| wire.protocol != Protocol::Json) {
        let reply = ReadRangeReply { data: Some(data.clone()) };
        let encoded = methods::ReadRange::reply(wire, 1, &Ok(reply));
        assert!(encoded.segments.iter().any(|segment| segment.as_ptr() == data.as_ptr()));
        assert!(encoded.segments.len() <= 3);
    }
}

#[test]
fn both_generations_of_2009_are_understood() {
    for wire in Wire::ALL {
        // 0.5.x: open(1: string, 2: i16). Written by hand, since no type here has that shape.
        let later =
            OpenArgs { ch: Some(ClientHandle { id: Some(1) }), filename: Some("/f".into()), mode: Some(2) };
        let (_, call) = receive(wire, &methods::Open::call(wire, 1, &later).to_bytes()).unwrap();
        let Some(Call::Open(args)) = call else { panic!("{call:?}") };
        assert_eq!(args, later);

        let early = EarlyOpen { filename: Some("/f".into()), mode: Some(2) };
        let (_, call) = receive(wire, &EarlyOpenMethod::call(wire, 1, &early).to_bytes()).unwrap();
        let Some(Call::Open(args)) = call else { panic!("{call:?}") };
        assert_eq!(args, OpenArgs { ch: None, filename: Some("/f".into()), mode: Some(2) });
    }
}

#[test]
fn every_form_of_read_and_write_of_2009_is_told_by_its_fields() {
    for wire in Wire::ALL {
        let file = || Some(DfsHandle { id: Some(77) });
        let data = || Some(Bytes::from_static(b"data"));
        let (offset, len) = (Some(-1), Some(4_096));
        let released = ReadReleased::call(wire, 1, &ReleasedRead { dh: file(), offset, len });
        let dense = ReadDense::call(wire, 1, &DenseRead { dh: file(), offset, len });
        for message in [released, dense] {
            let (_, call) = receive(wire, &message.to_bytes()).unwrap();
            let Some(Call::Read(args)) = call else { panic!("{call:?}") };
            assert_eq!((args.handles(), args.offset, args.len), ((None, Some(77)), offset, len));
        }
        let released = ReleasedWrite { dh: file(), buf: data(), offset, len };
        let sparse = SparseWrite { dh: file(), buf: data(), offset, len };
        let released = WriteReleased::call(wire, 1, &released);
        for message in [released, WriteSparse::call(wire, 1, &sparse)] {
            let (_, call) = receive(wire, &message.to_bytes()).unwrap();
            let Some(Call::Write(args)) = call else { panic!("{call:?}") };
            assert_eq!((args.handles(), args.offset, args.len), ((None, Some(77)), offset, len));
            assert_eq!(args.buf, data());
        }
    }
}

#[test]
fn fields_come_in_any_order_and_two_forms_at_once_are_refused() {
    let wire = Wire { protocol: Protocol::Binary, framed: false };
    let field = |id: u8, value: i64| [&[10, 0, id], &value.to_be_bytes()[..]].concat();
    let file = |id: u8| [&[12, 0, id][..], &field(1, 77), &[0]].concat();
    let text = |id: u8| [&[11, 0, id, 0, 0, 0, 1][..], b"x"].concat();
    let call = |name: &str, fields: &[Vec<u8>]| {
        let head =
            [&b"\x80\x01\x00\x01\x00\x00\x00"[..], &[name.len() as u8], name.as_bytes(), &[0; 4]].concat();
        receive(wire, &Bytes::from([head, fields.concat(), vec![0]].concat())).map(|(_, call)| call.unwrap())
    };
    let read = |fields: &[Vec<u8>]| match call("read", fields) {
        Ok(Call::Read(args)) => Some((args.offset, args.len)),
        _ => None,
    };
    let write = |fields: &[Vec<u8>]| match call("write", fields) {
        Ok(Call::Write(args)) => Some((args.offset, args.len)),
        _ => None,
    };
    let (five, nine) = (Some(5), Some(9));
    assert_eq!(read(&[field(3, 9), field(2, 5), file(1)]), Some((five, nine)));
    assert_eq!(read(&[field(4, 9), file(1), field(3, 5)]), Some((five, nine)));
    assert_eq!(read(&[field(4, 9), field(3, 5), file(2), file(1)]), Some((five, nine)));
    assert_eq!(read(&[file(1), field(2, 5), field(3, 9), field(4, 9)]), None);
    assert_eq!(read(&[file(1), file(2), field(2, 5)]), None);
    assert_eq!(write(&[field(4, 9), field(3, 5), text(2), file(1)]), Some((five, nine)));
    assert_eq!(write(&[field(5, 9), text(3), field(4, 5), file(1)]), Some((five, nine)));
    assert_eq!(write(&[file(1), file(2), text(3), field(4, 5), field(5, 9)]), Some((five, nine)));
    assert_eq!(write(&[file(1), text(2), field(3, 5), field(4, 9), field(5, 9)]), None);
    assert_eq!(write(&[file(1), text(2), text(3)]), None);
    assert_eq!(write(&[file(1), file(2), text(2)]), None);
}

strait_wire::wire_structs! {
    /// Of 0.5.4.
    ReleasedRead { 1 dh: DfsHandle, 3 offset: i64, 4 len: i64, }
    /// The report's, with ids in order.
    DenseRead { 1 dh: DfsHandle, 2 offset: i64, 3 len: i64, }
    /// Of 0.5.4.
    ReleasedWrite { 1 dh: DfsHandle, 2 buf: Bytes, 3 offset: i64, 4 len: i64, }
    /// With the gap that read has.
    SparseWrite { 1 dh: DfsHandle, 3 buf: Bytes, 4 offset: i64, 5 len: i64, }
}

macro_rules! methods_of_2009 {
    ($($method:ident $name:literal $args:ident;)*) => {$(
        enum $method {}
        impl Method for $method {
            const NAME: &'static str = $name;
            type Args = $args;
            type Success = bool;
            type Exception = DfsServiceIOException;
        }
    )*};
}

methods_of_2009! {
    ReadReleased "read" ReleasedRead;
    ReadDense "read" DenseRead;
    WriteReleased "write" ReleasedWrite;
    WriteSparse "write" SparseWrite;
}

strait_wire::wire_structs! {
    /// open's arguments in generation 0.5.
    EarlyOpen { 1 filename: Text, 2 mode: i16, }
}

enum EarlyOpenMethod {}

impl Method for EarlyOpenMethod {
    const NAME: &'static str = "open";
    type Args = EarlyOpen;
    type Success = DfsHandle;
    type Exception = DfsServiceIOException;
}

#[test]
fn no_truncation_and_no_flipped_bit_panics_or_claims_more_than_the_limit() {
    for wire in Wire::ALL {
        for message in sample_calls(wire) {
            let message = message.slice(..message.len().min(400));
            for end in 0..message.len() {
                let _ = receive(wire, &message.slice(..end));
            }
            for bit in 0..message.len() * 8 {
                let mut flipped = message.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                if let Ok(Scan::NeedMore(at_least)) = scan_whole(wire, &flipped) {
                    assert!(at_least <= MAX + 4);
                }
                let mut from = Decoder::new(wire.protocol, flipped.into());
                if let Ok(envelope) = Envelope::read(&mut from) {
                    let _ = Call::read(&envelope.name, &mut from);
                }
            }
        }
    }
}

#[test]
fn a_claimed_string_of_2_gib_is_refused_at_once() {
    let message = b"\x80\x01\x00\x01\x00\x00\x00\x04stat\x00\x00\x00\x01\x0b\x00\x02\x7f\xff\xff\xff";
    let wire = Wire { protocol: Protocol::Binary, framed: false };
    assert_eq!(
        scan_whole(wire, message),
        Err(DecodeError::TooLong { claimed: 0x7fff_ffff, limit: MAX }),
        "before a single byte of it came"
    );
    let framed = Wire { protocol: Protocol::Binary, framed: true };
    assert!(matches!(scan_whole(framed, &[0x7f, 0xff, 0xff, 0xff, 0x80]), Err(DecodeError::TooLong { .. })));
}

#[test]
fn deep_nesting_and_huge_counts_are_refused() {
    let wire = Wire { protocol: Protocol::Binary, framed: false };
    let mut deep = b"\x80\x01\x00\x01\x00\x00\x00\x04stat\x00\x00\x00\x01".to_vec();
    for _ in 0..1_000 {
        deep.extend_from_slice(b"\x0c\x00\x09"); // field 9: a struct
    }
    assert_eq!(scan_whole(wire, &deep), Err(DecodeError::TooDeep));
    let mut from = Decoder::new(wire.protocol, deep.into());
    let envelope = Envelope::read(&mut from).unwrap();
    assert_eq!(Call::read(&envelope.name, &mut from).unwrap_err(), DecodeError::TooDeep);

    let counted = b"\x80\x01\x00\x01\x00\x00\x00\x04stat\x00\x00\x00\x01\x0f\x00\x09\x0c\x7f\x00\x00\x00";
    assert!(matches!(scan_whole(wire, counted), Err(DecodeError::TooLong { .. })));
}

#[test]
fn a_known_field_of_the_wrong_type_is_named() {
    let wire = Wire { protocol: Protocol::Binary, framed: false };
    // stat(1: i32)
    let message = Bytes::from_static(
        b"\x80\x01\x00\x01\x00\x00\x00\x04stat\x00\x00\x00\x01\x08\x00\x01\x00\x00\x00\x05\x00",
    );
    let error = receive(wire, &message).unwrap_err();
    assert_eq!(error.to_string(), "field 1 of PathArgs has type I32, but Struct is expected");
}

#[test]
fn secrets_are_not_shown() {
    let request = OpenSessionRequest { password: Some(Secret("hunter2".into())), ..Default::default() };
    assert!(!format!("{request:?}").contains("hunter2"));
}

#[test]
fn json_is_written_as_apaches_libraries_write_it() {
    let wire = Wire { protocol: Protocol::Json, framed: false };
    let args = RemoveArgs {
        ch: Some(ClientHandle { id: Some(5) }),
        path: Some("/a\"\nä".into()),
        recursive: Some(true),
    };
    let message = methods::Remove::call(wire, 7, &args).to_bytes();
    let expected = r#"[1,"remove",1,7,{"1":{"rec":{"1":{"i64":5}}},"2":{"str":"/a\"\u000aä"},"3":{"tf":1}}]"#;
    assert_eq!(std::str::from_utf8(&message).unwrap(), expected);

    let hosts = Some(vec!["a".into(), "b".into()]);
    let blocks = GetBlockLocationsReply { blocks: Some(vec![BlockLocation { hosts, ..Default::default() }]) };
    let reply = methods::GetBlockLocations::reply(wire, 8, &Ok(blocks)).to_bytes();
    assert!(std::str::from_utf8(&reply).unwrap().contains(r#"{"lst":["str",2,"a","b"]}"#), "{reply:?}");
    let read = ReadRangeReply { data: Some(Bytes::from_static(b"\xff\0")) };
    let reply = methods::ReadRange::reply(wire, 9, &Ok(read)).to_bytes();
    assert_eq!(reply, r#"[1,"readRange",2,9,{"0":{"rec":{"1":{"str":"/wA="}}}}]"#);
}

#[test]
fn json_is_read_with_space_and_unknown_fields_and_refused_when_broken() {
    let read = |text: &str| {
        let wire = Wire { protocol: Protocol::Json, framed: false };
        receive(wire, &Bytes::copy_from_slice(text.as_bytes()))
    };
    let spaced = r#"[ 1 , "closeClient" , 1 , 7 , { "1" : { "rec" : { "1" : { "i64" : 5 } } } ,
        "9" : { "map" : [ "str", "dbl", 1, { "]" : -1.5e3 } ] } } ]"#;
    let (_, call) = read(spaced).unwrap();
    let Some(Call::CloseClient(args)) = call else { panic!("{call:?}") };
    assert_eq!(args.ch, Some(ClientHandle { id: Some(5) }));
    for broken in [
        r#"[2,"stat",1,7,{}]"#,
        r#"[1,"stat",1,7,{"1":{"rec":{"1":{"i64":99999999999999999999}}}}]"#,
        r#"[1,"stat",1,7,{"40000":{"i32":1}}]"#,
        r#"[1,"stat",1,7,{"2":{"txt":"a"}}]"#,
        r#"[1,"stat",1,7,{"2":{"str":5}}]"#,
        r#"[1,"stat",1,7,{,}]"#,
        r#"[1,"stat",1,7]"#,
        r#"[1,"write",1,7,{"3":{"str":"*"}}]"#,
    ] {
        assert!(read(broken).is_err(), "{broken}");
    }
}
