//! DfsService with the calls of its clients of 2009. `answers_2009.rs` tests the answers that
//! differ from DfsV2's.

use crate::common::gated::Gated;
use crate::common::*;
use bytes::Bytes;
use strait_testkit::sockets::is_all_read;
use strait_testkit::wait::eventually;
use strait_wire::*;

fn handle(client: &mut Client, uri: Option<&str>) -> Option<ClientHandle> {
    match client.call::<methods::Init>(InitArgs { uri: uri.map(Text::from) }) {
        Reply::Success(handle) => Some(handle),
        _ => panic!("init throws nothing"),
    }
}

fn path(ch: &Option<ClientHandle>, path: &str) -> PathArgs {
    PathArgs { ch: ch.clone(), path: Some(path.into()) }
}

fn open_file(
    client: &mut Client,
    ch: &Option<ClientHandle>,
    name: &str,
    mode: i16,
) -> Result<Option<DfsHandle>, String> {
    let args = OpenArgs { ch: ch.clone(), filename: Some(name.into()), mode: Some(mode) };
    client.old::<methods::Open>(args).map(Some)
}

/// Generation 0.5 leaves field 2 out and puts the file's handle in field 1.
fn early(dh: &Option<DfsHandle>) -> Option<ClientHandle> {
    dh.as_ref().map(|dh| ClientHandle { id: dh.id })
}

#[test]
fn both_generations_write_and_read_with_running_offsets() {
    let served = serve();
    for (name, is_early) in [("/late", false), ("/early", true)] {
        let mut client = served.client_on(UNFRAMED);
        let ch = handle(&mut client, None);
        let session = if is_early { None } else { ch.clone() };
        let dh = open_file(&mut client, &session, name, 2).unwrap();
        let (first, second) = if is_early { (early(&dh), None) } else { (ch.clone(), dh.clone()) };
        let data = b"\0bytes\xff and\0more";
        for (offset, piece) in [(-1, &data[..5]), (5, &data[5..9]), (-1, &data[9..])] {
            let args = WriteArgs {
                ch: first.clone(),
                dh: second.clone(),
                buf: Some(Bytes::copy_from_slice(&[piece, b"beyond len"].concat())),
                offset: Some(offset),
                len: Some(piece.len() as i64),
            };
            assert!(client.old::<methods::Write>(args).unwrap());
        }
        for (offset, len) in [(3, 1), (-2, 1), (data.len() as i64, 2), (-1, -1)] {
            let args = WriteArgs {
                ch: first.clone(),
                dh: second.clone(),
                buf: Some(Bytes::from_static(b"x")),
                offset: Some(offset),
                len: Some(len),
            };
            assert!(client.old::<methods::Write>(args).is_err(), "offset {offset}, len {len}");
        }
        assert!(client.old::<methods::Close>(CloseArgs { ch: first, dh: second }).unwrap());

        let dh = open_file(&mut client, &session, name, 1).unwrap();
        let (first, second) = if is_early { (early(&dh), None) } else { (ch.clone(), dh.clone()) };
        let mut read = |offset, len| {
            let args =
                ReadArgs { ch: first.clone(), dh: second.clone(), offset: Some(offset), len: Some(len) };
            client.old::<methods::Read>(args).map(|text| text.0)
        };
        assert_eq!(read(-1, 4).unwrap()[..], data[..4]);
        assert_eq!(read(6, 3).unwrap()[..], data[6..9], "positional");
        assert_eq!(read(-1, 4_096).unwrap()[..], data[9..], "goes on where the last one ended");
        assert_eq!(read(4, 1).unwrap()[..], data[4..5]);
        assert_eq!(read(-1, 4_096).unwrap()[..], data[5..], "and from there once more");
        assert!(read(-1, 4_096).unwrap().is_empty() && read(1_000, 1).unwrap().is_empty());
        assert!(read(-2, 1).is_err() && read(0, -1).is_err());
        assert!(read(0, i64::MAX).unwrap().len() == data.len(), "an answer may be shorter than asked");
    }
}

#[test]
fn files_are_listed_moved_and_removed() {
    let served = serve();
    let mut client = served.client_on(UNFRAMED);
    let ch = handle(&mut client, None);
    assert!(client.old::<methods::Mkdir>(path(&ch, "/d")).unwrap());
    assert!(client.old::<methods::Mkdir>(path(&ch, "/d")).unwrap(), "an existing directory is fine");
    open_file(&mut client, &ch, "/d/f", 2).unwrap();
    assert!(open_file(&mut client, &ch, "/d/f", 2).is_err(), "WRITE never opens an existing file");
    assert!(client.old::<methods::Stat>(path(&ch, "/none")).is_err());
    let status = client.old::<methods::Stat>(path(&ch, "/d")).unwrap();
    assert_eq!((status.isdir, status.path.as_deref()), (Some(true), Some("d")));
    let args = MoveArgs { ch: ch.clone(), old_path: Some("/d/f".into()), new_path: Some("/d/g".into()) };
    assert!(client.old::<methods::Move>(args.clone()).unwrap());
    assert!(client.old::<methods::Move>(args).is_err());
    let list = client.old::<methods::ListFiles>(path(&ch, "/d")).unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].path.as_deref(), Some("g"));
    assert_eq!(list[0].permission.as_deref().map(str::len), Some(9));
    let mut remove = |name: &str, recursive| {
        let args = RemoveArgs { ch: ch.clone(), path: Some(name.into()), recursive: Some(recursive) };
        client.old::<methods::Remove>(args)
    };
    assert!(remove("/d", false).is_err());
    assert!(remove("/d", true).unwrap());
    assert!(!remove("/d", true).unwrap(), "false where there is nothing");
}

#[test]
fn close_client_closes_files_properly_and_a_lost_connection_abandons_them() {
    let served = serve();
    let mut client = served.client_on(UNFRAMED);
    let ch = handle(&mut client, None);
    let write = |client: &mut Client, dh: &Option<DfsHandle>, ch: &Option<ClientHandle>| {
        let buf = Some(Bytes::from_static(b"data"));
        let args = WriteArgs { ch: ch.clone(), dh: dh.clone(), buf, offset: Some(-1), len: Some(4) };
        client.old::<methods::Write>(args).unwrap()
    };
    let dh = open_file(&mut client, &ch, "/closed", 2).unwrap();
    write(&mut client, &dh, &ch);
    assert!(matches!(
        client.call::<methods::CloseClient>(ClientArgs { ch: ch.clone() }),
        Reply::Success(true)
    ));
    assert!(client.old::<methods::Stat>(path(&ch, "/")).is_err(), "the session is over");

    let ch = handle(&mut client, None);
    let dh = open_file(&mut client, &ch, "/lost", 2).unwrap();
    write(&mut client, &dh, &ch);
    drop(client);

    let mut other = served.session();
    assert_eq!(open(&mut other, "/closed").unwrap().length, Some(4));
    eventually("the writer of the lost connection gives the file up", || {
        let request = AppendFileRequest { path: Some("/lost".into()), ..Default::default() };
        other.v2::<methods::AppendFile>(request).is_ok()
    });
}

#[test]
fn a_handle_of_another_session_is_unknown() {
    let served = serve();
    let (mut one, mut other) = (served.client_on(UNFRAMED), served.client_on(UNFRAMED));
    let (mine, theirs) = (handle(&mut one, None), handle(&mut other, None));
    let dh = open_file(&mut one, &mine, "/f", 2).unwrap();
    let steal = CloseArgs { ch: theirs, dh: dh.clone() };
    assert!(!other.old::<methods::Close>(steal).unwrap());
    assert!(one.old::<methods::Close>(CloseArgs { ch: mine, dh }).unwrap());
}

#[test]
fn read_write_reads_what_it_wrote() {
    let served = serve();
    let mut client = served.client_on(UNFRAMED);
    let ch = handle(&mut client, None);
    let dh = open_file(&mut client, &ch, "/f", 3).unwrap();
    for round in 1..=3 {
        let buf = Some(Bytes::from_static(b"abc"));
        let args = WriteArgs { ch: ch.clone(), dh: dh.clone(), buf, offset: Some(-1), len: Some(3) };
        client.old::<methods::Write>(args).unwrap();
        let args = ReadArgs { ch: ch.clone(), dh: dh.clone(), offset: Some(0), len: Some(100) };
        assert_eq!(client.old::<methods::Read>(args).unwrap().0.len(), 3 * round);
    }
}

#[test]
fn a_read_beside_a_write_of_the_same_handle_hangs_neither() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let [mut writer, mut reader] = [(); 2].map(|()| served.client_on(UNFRAMED));
    let ch = handle(&mut writer, None);
    let dh = open_file(&mut writer, &ch, "/f", 3).unwrap();
    gate.shut();
    let buf = Some(Bytes::from_static(b"data"));
    writer.send::<methods::Write>(&WriteArgs {
        ch: ch.clone(),
        dh: dh.clone(),
        buf,
        offset: Some(-1),
        len: Some(4),
    });
    gate.await_waiting(1);
    reader.send::<methods::Read>(&ReadArgs { ch, dh, offset: Some(0), len: Some(100) });
    eventually("the read is received", || is_all_read(&reader.stream));
    gate.open();
    assert!(matches!(writer.receive::<methods::Write>(), Reply::Success(true)));
    let Reply::Success(read) = reader.receive::<methods::Read>() else { panic!("no success") };
    assert_eq!(&read.0[..], b"data");
}

#[test]
fn short_reads_over_json_are_not_the_end_of_the_file() {
    let served = serve();
    let json = Wire { protocol: Protocol::Json, framed: false };
    let mut client = served.client_on(json);
    let ch = handle(&mut client, None);
    let dh = open_file(&mut client, &ch, "/f", 2).unwrap();
    let buf = Some(Bytes::from_static(b"abcdefgh"));
    let args = WriteArgs { ch: ch.clone(), dh: dh.clone(), buf, offset: Some(-1), len: Some(8) };
    assert!(client.old::<methods::Write>(args).unwrap());
    assert!(client.old::<methods::Close>(CloseArgs { ch: ch.clone(), dh }).unwrap());
    let dh = open_file(&mut client, &ch, "/f", 1).unwrap();
    let mut later = served.client_on(json);
    later.open_session();
    let opened = open(&mut later, "/f").unwrap().handle.unwrap();
    for length in 1..=8 {
        let args = ReadArgs { ch: ch.clone(), dh: dh.clone(), offset: Some(0), len: Some(length) };
        assert_eq!(client.old::<methods::Read>(args).unwrap().0.len() as i64, length);
        assert_eq!(read(&mut later, opened, 0, length as i32).unwrap().len() as i64, length, "of DfsV2");
    }
}

#[test]
fn copies_stay_below_the_directory_the_operator_named() {
    let served = serve();
    let mut client = served.client_on(UNFRAMED);
    handle(&mut client, None);
    let args = CopyArgs { src: Some("/f".into()), dest: Some("/tmp/f".into()) };
    let error = client.old::<methods::CopyToLocalFile>(args).unwrap_err();
    assert!(error.contains("--local-root"), "{error}");

    let local = std::sync::Arc::new(strait_store::MemoryStore::new("tester"));
    let served = serve_with(|config| {
        config.local_root =
            Some(strait_gateway::LocalRoot { path: "/tmp/here".into(), fs: local, umask: 0o022 });
    });
    let mut client = served.client_on(UNFRAMED);
    let ch = handle(&mut client, None);
    let dh = open_file(&mut client, &ch, "/f", 2).unwrap();
    let buf = Some(Bytes::from_static(b"data"));
    let args = WriteArgs { ch: ch.clone(), dh: dh.clone(), buf, offset: Some(-1), len: Some(4) };
    client.old::<methods::Write>(args).unwrap();
    client.old::<methods::Close>(CloseArgs { ch: ch.clone(), dh }).unwrap();
    let copy = |src: &str, dest: &str| CopyArgs { src: Some(src.into()), dest: Some(dest.into()) };
    assert!(client.old::<methods::CopyToLocalFile>(copy("/f", "/tmp/here/g")).unwrap());
    assert!(client.old::<methods::CopyFromLocalFile>(copy("/tmp/here/g", "/h")).unwrap());
    assert_eq!(client.old::<methods::Stat>(path(&ch, "/h")).unwrap().length, Some(4));
    assert!(client.old::<methods::CopyFromLocalFile>(copy("/tmp/here/g", "/h")).unwrap(), "once more");
    assert!(client.old::<methods::CopyToLocalFile>(copy("/f", "relative")).unwrap());
    assert!(client.old::<methods::CopyFromLocalFile>(copy("/tmp/here/relative", "/i")).unwrap());
    assert!(client.old::<methods::CopyFromLocalFile>(copy("./relative", "/i")).unwrap());
    for outside in ["/tmp/elsewhere", "/tmp/here/../x", "/tmp/hereabouts/f", "../x"] {
        assert!(client.old::<methods::CopyToLocalFile>(copy("/f", outside)).is_err(), "{outside}");
    }
}

#[test]
fn copies_get_no_more_rights_than_their_sources() {
    let local = std::sync::Arc::new(strait_store::MemoryStore::new("tester"));
    let served = serve_with(|config| {
        config.local_root = Some(strait_gateway::LocalRoot { path: "/here".into(), fs: local, umask: 0o022 });
    });
    let mut owner = served.session();
    let mut client = served.client_on(UNFRAMED);
    let ch = handle(&mut client, None);
    let copy = |src: &str, dest: &str| CopyArgs { src: Some(src.into()), dest: Some(dest.into()) };
    for (source, copied) in [(0o600, "rw-------"), (0o666, "rw-r--r--"), (0o755, "rwxr-xr-x")] {
        let create = CreateFileRequest {
            path: Some("/f".into()),
            permission: Some(source),
            overwrite: Some(true),
            ..Default::default()
        };
        let handle = owner.v2::<methods::CreateFile>(create).unwrap().handle.unwrap();
        close(&mut owner, handle).unwrap();
        client.old::<methods::CopyToLocalFile>(copy("/f", "/here/f")).unwrap();
        client.old::<methods::CopyFromLocalFile>(copy("/here/f", "/g")).unwrap();
        let permission = client.old::<methods::Stat>(path(&ch, "/g")).unwrap().permission;
        assert_eq!(permission.as_deref(), Some(copied));
    }
}

#[test]
fn logging_out_closes_what_was_open() {
    let served = serve();
    let mut client = served.client_on(UNFRAMED);
    let ch = handle(&mut client, None);
    let dh = open_file(&mut client, &ch, "/f", 2).unwrap();
    let Reply::Success(true) = client.call::<methods::Logout>(ClientArgs { ch: ch.clone() }) else {
        panic!("not logged out")
    };
    let buf = Some(Bytes::from_static(b"data"));
    let args = WriteArgs { ch, dh, buf, offset: Some(-1), len: Some(4) };
    assert!(client.old::<methods::Write>(args).is_err(), "whoever acts now didn't open it");
}
