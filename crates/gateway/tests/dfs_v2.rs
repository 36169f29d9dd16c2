//! DfsV2 over all wires.

use crate::common::*;
use strait_wire::*;

#[test]
fn a_file_comes_back_byte_for_byte_on_every_wire() {
    let served = serve();
    for (index, wire) in Wire::ALL.into_iter().enumerate() {
        let mut client = served.client_on(wire);
        client.v2::<methods::OpenSession>(OpenSessionRequest::default()).unwrap();
        let path = format!("/dir{index}/file");
        let data: Vec<u8> = (0..5_000_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        put(&mut client, &path, &data);
        let opened = open(&mut client, &path).unwrap();
        assert_eq!(opened.length, Some(5_000_000));
        let mut back = Vec::new();
        loop {
            let piece = read(&mut client, opened.handle.unwrap(), back.len() as i64, 4 << 20).unwrap();
            if piece.is_empty() {
                break;
            }
            back.extend_from_slice(&piece);
        }
        assert_eq!(back, data);
    }
}

#[test]
fn many_reads_of_one_handle_may_be_in_flight_and_answers_keep_their_order() {
    let served = serve();
    let mut client = served.session();
    put(&mut client, "/f", &(0..100_000u32).flat_map(u32::to_be_bytes).collect::<Vec<_>>());
    let handle = open(&mut client, "/f").unwrap().handle;
    let offsets: Vec<i64> = (0..200).map(|i| i * 7919 % 99_999 * 4).collect();
    for offset in &offsets {
        let request =
            ReadRangeRequest { handle, offset: Some(*offset), length: Some(4), ..Default::default() };
        client.send::<methods::ReadRange>(&request.into());
    }
    for offset in &offsets {
        let Reply::Success(reply) = client.receive::<methods::ReadRange>() else { panic!("no success") };
        assert_eq!(reply.data.unwrap()[..], (*offset as u32 / 4).to_be_bytes());
    }
}

#[test]
fn a_request_sees_what_the_one_before_it_on_its_connection_did() {
    let served = serve();
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    for (index, byte) in b"abc".iter().enumerate() {
        let request = AppendDataRequest {
            handle: Some(handle),
            expected_offset: Some(index as i64),
            data: Some(bytes::Bytes::copy_from_slice(&[*byte])),
            ..Default::default()
        };
        client.send::<methods::AppendData>(&request.into());
    }
    client
        .send::<methods::CloseFile>(&CloseFileRequest { handle: Some(handle), ..Default::default() }.into());
    client.send::<methods::GetFileInfo>(
        &GetFileInfoRequest { path: Some("/f".into()), ..Default::default() }.into(),
    );
    for position in 1..=3 {
        let Reply::Success(reply) = client.receive::<methods::AppendData>() else { panic!("no success") };
        assert_eq!(reply.position, Some(position));
    }
    let Reply::Success(closed) = client.receive::<methods::CloseFile>() else { panic!("no success") };
    assert_eq!(closed.length, Some(3));
    let Reply::Success(reply) = client.receive::<methods::GetFileInfo>() else { panic!("no success") };
    assert_eq!(reply.info.unwrap().length, Some(3));
}

/// A browser repeats a request by itself if its connection breaks.
#[test]
fn a_repeated_request_for_a_page_fails_and_skips_no_entry() {
    let served = serve_with(|config| config.limits.list_page = 2);
    let mut client = served.session();
    for name in ["a", "b", "c", "d", "e"] {
        let path = Some(format!("/d/{name}"));
        client.v2::<methods::MakeDirectories>(MakeDirectoriesRequest { path, ..Default::default() }).unwrap();
    }
    let mut page = |cursor| {
        let request = ListDirectoryRequest { path: Some("/d".into()), cursor, ..Default::default() };
        client.v2::<methods::ListDirectory>(request)
    };
    let first = page(None).unwrap();
    let second = page(first.cursor).unwrap();
    let refused = page(first.cursor).unwrap_err();
    assert_eq!(refused.kind.as_deref(), Some("InvalidArgument"), "{refused:?}");
    let third = page(second.cursor).unwrap();
    assert_eq!(third.cursor, None);
    let pages = [first, second, third].into_iter().flat_map(|page| page.entries.unwrap());
    let mut names: Vec<String> = pages.map(|entry| entry.path.unwrap()).collect();
    names.sort();
    assert_eq!(names, ["/d/a", "/d/b", "/d/c", "/d/d", "/d/e"]);
}

#[test]
fn a_directory_comes_in_pages_each_entry_once() {
    let served = serve_with(|config| config.limits.list_page = 100);
    let mut client = served.session();
    for index in 0..250 {
        let path = Some(format!("/d/{index:03}"));
        let request = MakeDirectoriesRequest { path, ..Default::default() };
        client.v2::<methods::MakeDirectories>(request).unwrap();
    }
    let (mut names, mut sizes, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let request = ListDirectoryRequest { path: Some("/d".into()), cursor, ..Default::default() };
        let page = client.v2::<methods::ListDirectory>(request).unwrap();
        let entries = page.entries.unwrap();
        sizes.push(entries.len());
        names.extend(entries.into_iter().map(|entry| entry.path.unwrap()));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [100, 100, 50]);
    names.sort();
    assert_eq!(names, (0..250).map(|index| format!("/d/{index:03}")).collect::<Vec<_>>());
}

#[test]
fn errors_are_typed_and_name_the_path() {
    let served = serve();
    let mut client = served.session();
    let error = open(&mut client, "/none").unwrap_err();
    assert_eq!(error.kind.as_deref(), Some("NotFound"));
    assert_eq!(error.code, Some(ErrorCode::NotFound.code()));
    assert_eq!(error.path.as_deref(), Some("/none"));
    assert_eq!(error.retry_safe, Some(false));
    for path in ["", "x", "/a/../b", "/a\0"] {
        assert_eq!(kind(open(&mut client, path)), "InvalidArgument", "{path:?}");
    }
}
