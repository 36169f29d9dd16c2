//! For any input, a client gets a typed error or is disconnected, and the gateway keeps serving the
//! others.

use crate::common::*;
use std::io::Write;
use strait_wire::*;

/// Sends bytes, and expects Thrift's own exception, with or without the end of the connection after
/// it.
fn refused(served: &Served, wire: Wire, bytes: &[u8]) -> ApplicationError {
    let mut client = served.client_on(wire);
    client.stream.write_all(bytes).unwrap();
    let Reply::Application(error) = client.receive::<methods::Stat>() else { panic!("no exception") };
    error
}

fn still_serves(served: &Served) {
    let mut client = served.session();
    let request = GetFileInfoRequest { path: Some("/".into()), ..Default::default() };
    client.v2::<methods::GetFileInfo>(request).unwrap();
}

#[test]
fn garbage_is_refused_and_the_connection_ends() {
    let served = serve();
    let error = refused(&served, UNFRAMED, b"hello, who is there?");
    assert_eq!(error.kind, ApplicationErrorKind::ProtocolError);
    let mut client = served.client_on(UNFRAMED);
    client.stream.write_all(&[0xff; 64]).unwrap();
    let _ = client.message();
    assert!(client.is_closed());
    still_serves(&served);
}

#[test]
fn other_protocols_are_told_so_in_their_own_words() {
    use std::io::Read;
    let served = serve();
    let cases: [(&[u8], &[u8]); 2] = [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 403 "),
        (b"\x16\x03\x01\x00\x05hello", b"\x15\x03\x01"),
    ];
    for (sent, expected) in cases {
        let mut client = served.client();
        client.stream.write_all(sent).unwrap();
        let mut answer = Vec::new();
        client.stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(expected), "{:?}", String::from_utf8_lossy(&answer));
    }
    still_serves(&served);
}

#[test]
fn a_claimed_string_of_2_gib_is_refused_before_it_comes() {
    let served = serve();
    let claim = b"\x80\x01\x00\x01\x00\x00\x00\x04stat\x00\x00\x00\x07\x0b\x00\x02\x7f\xff\xff\xff";
    let error = refused(&served, UNFRAMED, claim);
    assert_eq!(error.kind, ApplicationErrorKind::ProtocolError);
    assert!(error.message.contains("2147483647"), "{}", error.message);
    still_serves(&served);
}

#[test]
fn an_over_long_frame_is_refused_before_it_comes() {
    let served = serve();
    let error = refused(&served, FRAMED, &[0x7f, 0xff, 0xff, 0xff, 0x80, 1, 0, 1]);
    assert_eq!(error.kind, ApplicationErrorKind::ProtocolError);
    still_serves(&served);
}

#[test]
fn truncated_and_half_sent_requests_hurt_nobody() {
    let served = serve();
    for wire in Wire::ALL {
        let request = CreateFileRequest { path: Some("/half".into()), ..Default::default() };
        let whole = methods::CreateFile::call(wire, 1, &request.into()).to_bytes();
        for end in 1..whole.len() {
            let mut client = served.client_on(wire);
            client.stream.write_all(&whole[..end]).unwrap();
        }
    }
    let mut client = served.session();
    assert_eq!(kind(open(&mut client, "/half")), "NotFound", "no half request was executed");
}

#[test]
fn a_frame_that_ends_inside_its_message_is_refused_and_the_next_is_served() {
    let served = serve();
    let mut client = served.client();
    // getFileInfo whose struct doesn't end within the frame.
    client
        .stream
        .write_all(b"\x00\x00\x00\x17\x80\x01\x00\x01\x00\x00\x00\x0bgetFileInfo\x00\x00\x00\x01")
        .unwrap();
    let Reply::Application(error) = client.receive::<methods::GetFileInfo>() else { panic!("no exception") };
    assert_eq!(error.kind, ApplicationErrorKind::ProtocolError);
    client.v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap();
}

#[test]
fn an_unknown_method_and_a_wrong_field_type_are_named() {
    let served = serve();
    let error = refused(&served, UNFRAMED, b"\x80\x01\x00\x01\x00\x00\x00\x05nosuc\x00\x00\x00\x01\x00");
    assert_eq!(error.kind, ApplicationErrorKind::UnknownMethod);
    // stat(1: i32 5)
    let wrong = b"\x80\x01\x00\x01\x00\x00\x00\x04stat\x00\x00\x00\x01\x08\x00\x01\x00\x00\x00\x05\x00";
    let error = refused(&served, UNFRAMED, wrong);
    assert_eq!(error.kind, ApplicationErrorKind::ProtocolError);
    assert!(error.message.contains("field 1 of PathArgs has type I32"), "{}", error.message);
    // A reply, and a oneway, in place of a call.
    for kind in [2, 4] {
        let message = [b"\x80\x01\x00", &[kind][..], b"\x00\x00\x00\x04stat\x00\x00\x00\x01\x00"].concat();
        let error = refused(&served, UNFRAMED, &message);
        assert_eq!(error.kind, ApplicationErrorKind::InvalidMessageType);
    }
    still_serves(&served);
}

#[test]
fn a_path_that_is_not_utf8_is_refused_in_both_services() {
    let served = serve();
    let mut client = served.client();
    client.call::<methods::Init>(InitArgs::default());
    let path = Some(Text(bytes::Bytes::from_static(b"/\xff")));
    let error = client.old::<methods::Stat>(PathArgs { ch: None, path }).unwrap_err();
    assert!(error.contains("UTF-8"), "{error}");
    // readRange's path as DfsV2 has it: a text, so the message itself is wrong.
    let message = b"\x80\x01\x00\x01\x00\x00\x00\x08openFile\x00\x00\x00\x01\
                    \x0c\x00\x01\x0b\x00\x02\x00\x00\x00\x02/\xff\x00\x00";
    let error = refused(&served, UNFRAMED, message);
    assert!(error.message.contains("UTF-8"), "{}", error.message);
}

#[test]
fn closed_and_foreign_handles_are_unknown() {
    let served = serve();
    let (mut one, mut other) = (served.session(), served.session());
    put(&mut one, "/f", b"data");
    let handle = open(&mut one, "/f").unwrap().handle.unwrap();
    assert_eq!(kind(read(&mut other, handle, 0, 4)), "InvalidArgument", "another session's");
    assert_eq!(read(&mut one, handle, 0, 4).unwrap()[..], b"data"[..]);
    close(&mut one, handle).unwrap();
    assert_eq!(kind(read(&mut one, handle, 0, 4)), "InvalidArgument", "closed");
    assert_eq!(kind(close(&mut one, handle)), "InvalidArgument", "closed twice");
    for guess in [0, 1, -1, i64::MIN, i64::MAX] {
        assert_eq!(kind(read(&mut one, guess, 0, 4)), "InvalidArgument");
    }
}

#[test]
fn negative_and_missing_numbers_are_refused_and_reads_past_the_end_are_empty() {
    let served = serve();
    let mut client = served.session();
    put(&mut client, "/f", b"data");
    let handle = open(&mut client, "/f").unwrap().handle.unwrap();
    assert_eq!(kind(read(&mut client, handle, -1, 4)), "InvalidArgument");
    assert_eq!(kind(read(&mut client, handle, 0, -1)), "InvalidArgument");
    assert_eq!(kind(read(&mut client, handle, i64::MIN, i32::MIN)), "InvalidArgument");
    let nothing = ReadRangeRequest { handle: Some(handle), ..Default::default() };
    assert_eq!(kind(client.v2::<methods::ReadRange>(nothing)), "InvalidArgument");
    for offset in [4, 5, i64::MAX] {
        assert_eq!(read(&mut client, handle, offset, i32::MAX).unwrap().len(), 0);
    }
    assert_eq!(read(&mut client, handle, 2, i32::MAX).unwrap()[..], b"ta"[..]);
    for request in [
        CreateFileRequest { permission: Some(-1), ..Default::default() },
        CreateFileRequest { permission: Some(0o10000), ..Default::default() },
        CreateFileRequest { replication: Some(0), ..Default::default() },
        CreateFileRequest { block_size: Some(-5), ..Default::default() },
        CreateFileRequest { request_id: Some(bytes::Bytes::from_static(b"short")), ..Default::default() },
    ] {
        let request = CreateFileRequest { path: Some("/new".into()), ..request };
        assert_eq!(kind(client.v2::<methods::CreateFile>(request)), "InvalidArgument");
    }
    let request = TruncateFileRequest { path: Some("/f".into()), length: Some(-1), ..Default::default() };
    assert_eq!(kind(client.v2::<methods::TruncateFile>(request)), "InvalidArgument");
}

#[test]
fn an_append_at_the_wrong_offset_or_of_too_much_changes_nothing() {
    let served = serve();
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    append(&mut client, handle, 0, b"data").unwrap();
    for wrong in [-1, 0, 3, 5, i64::MAX] {
        assert_eq!(kind(append(&mut client, handle, wrong, b"x")), "InvalidArgument", "at {wrong}");
    }
    assert_eq!(kind(append(&mut client, handle, 4, &vec![0; (4 << 20) + 1])), "InvalidArgument");
    assert_eq!(close(&mut client, handle).unwrap().length, Some(4));
    assert_eq!(kind(append(&mut client, handle, 4, b"x")), "InvalidArgument", "closed");
}

#[test]
fn a_list_of_many_empty_names_is_refused_before_it_takes_memory() {
    let served = serve();
    let mut client = served.session();
    let request = |count: usize| ConcatFilesRequest {
        path: Some("/f".to_owned()),
        sources: Some(vec![String::new(); count]),
        ..Default::default()
    };
    let Reply::Application(error) = client.call::<methods::ConcatFiles>(request(5_000).into()) else {
        panic!("no exception")
    };
    assert_eq!(error.kind, ApplicationErrorKind::ProtocolError);
    assert!(error.message.contains("5000 elements"), "{}", error.message);
    // A list below that limit, but above the call's own, gets an error that names the call's limit.
    let refusal = client.v2::<methods::ConcatFiles>(request(1_001)).unwrap_err();
    assert!(refusal.message.unwrap().contains("1 to 1000 source files"));
}
