//! REST: what a request does to files and names, and what becomes of wrong and hostile ones.

use crate::common::gated::{Gated, OTHERS, OVERTAKEN};
use crate::common::http::*;
use crate::common::*;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use strait_gateway::{Access, Config, ConfiguredStore, HttpAccess, PasswordFile};
use strait_store::{FileStore, FileSystem, FileSystemExt, MemoryStore, Principal, StorePath};
use strait_testkit::sockets::{is_all_read, is_ended};
use strait_testkit::wait::{eventually, pause};
use strait_wire::*;

#[test]
fn a_file_of_any_size_comes_back_as_it_was_written() {
    let served = serve();
    let content: Vec<u8> = (0..5_000_000u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(put_file(&served, "/v1/files/d/large", &content).status, 201);
    let answer = get(&served, "/v1/files/d/large");
    assert_eq!(answer.status, 200);
    assert!(answer.body == content);
    assert_eq!(put_file(&served, "/v1/files/d/large", b"").status, 204);
    let answer = get(&served, "/v1/files/d/large");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(names(&served, "/d"), ["large"], "no temporary file is left");
}

#[test]
fn a_chunked_upload_is_one_file() {
    let served = serve();
    let mut body = Vec::new();
    for piece in [&b"one"[..], b"two", b"three"] {
        body.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        body.extend_from_slice(piece);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    let head = "PUT /v1/files/f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = raw(&served, &[head.as_bytes(), &body].concat());
    assert_eq!(answer.status, 201, "{}", answer.head);
    assert!(answer.head.contains("connection: close"));
    assert_eq!(&get(&served, "/v1/files/f").body[..], b"onetwothree");
}

#[test]
fn ranges_and_conditions_are_kept() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"0123456789");
    let whole = get(&served, "/v1/files/f");
    let tag = field(&whole, "etag").to_owned();
    let date = field(&whole, "last-modified").to_owned();
    for (fields, status, body) in [
        ("Range: bytes=2-4\r\n".to_owned(), 206, "234"),
        ("Range: bytes=-3\r\n".to_owned(), 206, "789"),
        ("Range: bytes=8-\r\n".to_owned(), 206, "89"),
        ("Range: bytes=8-99\r\n".to_owned(), 206, "89"),
        ("Range: bytes=0-1,4-5\r\n".to_owned(), 200, "0123456789"),
        ("Range: lines=1-2\r\n".to_owned(), 200, "0123456789"),
        (format!("Range: bytes=0-0\r\nIf-Range: {tag}\r\n"), 206, "0"),
        ("Range: bytes=0-0\r\nIf-Range: \"other\"\r\n".to_owned(), 200, "0123456789"),
        (format!("If-None-Match: {tag}\r\n"), 304, ""),
        (format!("If-None-Match: \"other\"\r\nIf-None-Match: , {tag}\r\n"), 304, ""),
        (format!("If-Modified-Since: {date}\r\nIf-Modified-Since: {date}\r\n"), 200, "0123456789"),
        (format!("If-Modified-Since: {date}\r\n"), 304, ""),
        (format!("If-Match: {tag}\r\n"), 200, "0123456789"),
    ] {
        let answer = send(&served, "GET", "/v1/files/f", &fields, b"");
        assert_eq!((answer.status, &answer.body[..]), (status, body.as_bytes()), "{fields}{}", answer.head);
    }
    let range = send(&served, "GET", "/v1/files/f", "Range: bytes=2-4\r\n", b"");
    assert_eq!(field(&range, "content-range"), "bytes 2-4/10");
    let beyond = send(&served, "GET", "/v1/files/f", "Range: bytes=10-\r\n", b"");
    typed(&beyond, 416, "InvalidArgument");
    assert_eq!(field(&beyond, "content-range"), "bytes */10");
    // No Content-Range describes the end of an empty file.
    put_file(&served, "/v1/files/empty", b"");
    let last = send(&served, "GET", "/v1/files/empty", "Range: bytes=-5\r\n", b"");
    assert_eq!((last.status, last.body.len()), (200, 0), "{}", last.head);
    typed(&send(&served, "GET", "/v1/files/empty", "Range: bytes=0-\r\n", b""), 416, "InvalidArgument");
    typed(&send(&served, "GET", "/v1/files/f", "If-Match: \"other\"\r\n", b""), 412, "InvalidArgument");
    typed(&send(&served, "GET", "/v1/files/f", "If-Match: other\r\n", b""), 400, "InvalidArgument");
    let head = send(&served, "HEAD", "/v1/files/f", "Range: bytes=2-4\r\n", b"");
    assert_eq!(
        (head.status, field(&head, "content-length"), field(&head, "etag")),
        (200, "10", tag.as_str())
    );
}

#[test]
fn a_change_is_made_only_if_its_conditions_hold() {
    let served = serve();
    let create = |body: &[u8]| send(&served, "PUT", "/v1/files/f", "If-None-Match: *\r\n", body);
    assert_eq!(create(b"one").status, 201);
    typed(&create(b"two"), 412, "AlreadyExists");
    let tag = field(&get(&served, "/v1/files/f"), "etag").to_owned();
    let replace = |tag: &str| send(&served, "PUT", "/v1/files/f", &format!("If-Match: {tag}\r\n"), b"three");
    typed(&replace("\"other\""), 412, "InvalidArgument");
    let replaced = replace(&tag);
    assert_eq!(replaced.status, 204);
    typed(&replace(&tag), 412, "InvalidArgument");
    assert_eq!(field(&replaced, "etag"), field(&get(&served, "/v1/files/f"), "etag"));
    let remove = |tag: &str| send(&served, "DELETE", "/v1/files/f", &format!("If-Match: {tag}\r\n"), b"");
    typed(&remove(&tag), 412, "InvalidArgument");
    assert_eq!(remove(field(&replaced, "etag")).status, 204);
    typed(&get(&served, "/v1/files/f"), 404, "NotFound");
    typed(&send(&served, "PUT", "/v1/files/f", "If-Match: *\r\n", b"x"), 412, "InvalidArgument");
    typed(&send(&served, "DELETE", "/v1/files/f", "", b""), 404, "NotFound");
}

#[test]
fn a_condition_must_still_hold_when_the_upload_is_whole() {
    let served = serve();
    let first = put_file(&served, "/v1/files/f", b"first");
    let same = format!("If-Match: {}\r\n", field(&first, "etag"));
    let mut slow = connect(&served);
    let whole = request("PUT", "/v1/files/f", &same, b"slow");
    let (begin, end) = whole.split_at(whole.len() - 1);
    slow.write_all(begin).unwrap();
    eventually("the upload has begun", || names(&served, "").len() == 2);
    assert_eq!(put_file(&served, "/v1/files/f", b"another").status, 204);
    slow.write_all(end).unwrap();
    assert_eq!(receive(&mut slow).status, 412);
    assert_eq!(&get(&served, "/v1/files/f").body[..], b"another");
}

/// Otherwise the client could overwrite the other client's bytes by `If-Match`.
#[test]
fn no_change_is_answered_with_the_tag_of_another_clients_bytes() {
    let served = serve_store(Gated::new().0, |_| {});
    let target = format!("/v1/files{OVERTAKEN}");
    let own = put_file(&served, &target, b"mine!");
    assert_eq!(&get(&served, &target).body[..], OTHERS.as_bytes());
    let same = format!("If-Match: {}\r\n", field(&own, "etag"));
    typed(&send(&served, "PUT", &target, &same, b"again"), 412, "InvalidArgument");
    let appended = send(&served, "PATCH", &target, "", b" more ");
    assert_eq!(appended.status, 204);
    assert!(!appended.head.contains("etag"), "{}", appended.head);
    assert_eq!(&get(&served, &target).body[..], format!("{OTHERS} more {OTHERS}").as_bytes());
}

#[test]
fn a_stores_clock_that_is_ahead_makes_no_date_in_the_future() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"x");
    value(&json_body("PATCH", &served, "/v1/status/f", &json!({"modified_ms": 4_102_444_800_000_i64})));
    let answer = get(&served, "/v1/files/f");
    let date = httpdate::parse_http_date(field(&answer, "last-modified")).unwrap();
    assert!(date <= SystemTime::now(), "{}", answer.head);
    // The file may have changed since any date.
    let earlier = httpdate::fmt_http_date(date - Duration::from_secs(1));
    for (name, status) in [("If-Modified-Since", 200), ("If-Unmodified-Since", 412)] {
        let answer = send(&served, "GET", "/v1/files/f", &format!("{name}: {earlier}\r\n"), b"");
        assert_eq!(answer.status, status, "{name}");
    }
}

#[test]
fn a_body_of_http_1_0_needs_its_length() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"before");
    for line in ["PUT /v1/files/f", "PATCH /v1/files/f", "PATCH /v1/status/f", "POST /v1/renames"] {
        for kept in ["", "Connection: keep-alive\r\n"] {
            let head = format!("{line} HTTP/1.0\r\nHost: localhost\r\n{kept}\r\n");
            let mut stream = connect(&served);
            stream
                .write_all(&[head.as_bytes(), &request("DELETE", "/v1/files/f", "", b"")].concat())
                .unwrap();
            typed(&receive(&mut stream), 411, "InvalidArgument");
            assert_eq!(receive(&mut stream).status, 0, "the body is no request");
        }
    }
    assert_eq!(&get(&served, "/v1/files/f").body[..], b"before");
    let put = raw(&served, b"PUT /v1/files/f HTTP/1.0\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nafter");
    assert_eq!(put.status, 204, "{}", put.head);
    assert_eq!(&get(&served, "/v1/files/f").body[..], b"after");
    let made = raw(&served, b"PUT /v1/directories/d HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_eq!(made.status, 201, "a directory has no body");
}

#[test]
fn an_append_names_the_place_where_it_begins() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"0123");
    let append = |target: &str, body: &[u8]| send(&served, "PATCH", target, "", body);
    assert_eq!(append("/v1/files/f?offset=4", b"45").status, 204);
    let repeated = append("/v1/files/f?offset=4", b"45");
    typed(&repeated, 409, "InvalidArgument");
    assert!(String::from_utf8_lossy(&repeated.body).contains("offset 6"), "{:?}", repeated.body);
    let appended = append("/v1/files/f", b"6");
    assert_eq!(appended.status, 204);
    assert_eq!(field(&appended, "etag"), field(&get(&served, "/v1/files/f"), "etag"));
    // As curl resumes an upload.
    let go_on = |range: &str, body: &[u8]| {
        send(&served, "PUT", "/v1/files/f", &format!("Content-Range: bytes {range}\r\n"), body)
    };
    assert_eq!(go_on("7-8/9", b"78").status, 204);
    let begun = send(&served, "PUT", "/v1/files/begun", "Content-Range: bytes 0-1/4\r\n", b"01");
    assert_eq!((begun.status, &get(&served, "/v1/files/begun").body[..]), (201, &b"01"[..]));
    typed(&go_on("7-8/9", b"78"), 409, "InvalidArgument");
    typed(&go_on("9-9/10", b"xy"), 400, "InvalidArgument");
    typed(&go_on("nonsense", b"x"), 400, "InvalidArgument");
    assert_eq!(&get(&served, "/v1/files/f").body[..], b"012345678");
    typed(&append("/v1/files/missing", b"x"), 404, "NotFound");
    // The file has no writer left.
    assert_eq!(append("/v1/files/f?offset=9", b"9").status, 204);
}

#[test]
fn an_upload_that_is_cut_short_changes_nothing() {
    let served = serve();
    put_file(&served, "/v1/files/d/f", b"before");
    let mut stream = connect(&served);
    let head = "PUT /v1/files/d/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n";
    stream.write_all(&[head.as_bytes(), &[b'x'; 1_000_000]].concat()).unwrap();
    eventually("the upload has begun", || names(&served, "/d").len() == 2);
    drop(stream);
    eventually("its temporary file is gone", || names(&served, "/d") == ["f"]);
    assert_eq!(&get(&served, "/v1/files/d/f").body[..], b"before");
}

#[test]
fn a_json_body_that_is_cut_short_changes_nothing() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"");
    let head = "POST /v1/renames HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let body = r#"{"from":"/f","to":"/g"}"#;
    let mut stream = connect(&served);
    // The last chunk is missing.
    stream.write_all(format!("{head}{:x}\r\n{body}\r\n", body.len()).as_bytes()).unwrap();
    eventually("the gateway has read it", || is_all_read(&stream));
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    eventually("the connection has ended", || is_ended(&stream));
    assert_eq!(names(&served, "/"), ["f"]);
}

#[test]
fn an_append_that_is_cut_short_keeps_the_bytes_that_came() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"");
    let mut stream = connect(&served);
    let head = "PATCH /v1/files/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n";
    stream.write_all(&[head.as_bytes(), &[b'x'; 1_000_000]].concat()).unwrap();
    eventually("the gateway has read them", || is_all_read(&stream));
    drop(stream);
    let length =
        || field(&send(&served, "HEAD", "/v1/files/f", "", b""), "content-length").parse::<u64>().unwrap();
    eventually("they are in the file", || length() == 1_000_000);
    eventually("the file has no writer", || {
        send(&served, "PATCH", "/v1/files/f?offset=1000000", "", b"the rest").status == 204
    });
}

#[test]
fn an_append_that_comes_too_slowly_keeps_the_bytes_that_came() {
    let served = serve_with(|config| config.limits.stall = Duration::from_millis(300));
    put_file(&served, "/v1/files/f", b"");
    let mut stream = connect(&served);
    let head = "PATCH /v1/files/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc";
    stream.write_all(head.as_bytes()).unwrap();
    typed(&receive(&mut stream), 408, "TimedOut");
    eventually("they are in the file", || get(&served, "/v1/files/f").body == "abc");
}

#[test]
fn a_gateway_that_ends_leaves_no_temporary_files() {
    let store = Arc::new(MemoryStore::new("tester"));
    let mut served = serve_store(store.clone(), |config| config.limits.drain = Duration::from_millis(100));
    let begin = |n: usize| {
        let mut stream = connect(&served);
        let head =
            format!("PUT /v1/files/f{n} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\nx");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let begun: Vec<_> = (0..20).map(begin).collect();
    eventually("the uploads have begun", || names(&served, "").len() == begun.len());
    served.shut_down();
    let (who, root) = (Principal::new("tester"), StorePath::root());
    let left = store.list_all(&who, &root, 99);
    assert_eq!(futures::FutureExt::now_or_never(left).unwrap().unwrap().len(), 0);
}

#[test]
fn a_link_to_nothing_is_not_replaced_and_can_be_removed() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("link")).unwrap();
    let served = serve_store(Arc::new(FileStore::open(directory.path(), false).unwrap()), |_| {});
    let created = send(&served, "PUT", "/v1/files/link", "If-None-Match: *\r\n", b"x");
    typed(&created, 412, "AlreadyExists");
    assert_eq!(send(&served, "DELETE", "/v1/files/link", "", b"").status, 204);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_request_that_contradicts_itself_changes_nothing() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"0123");
    let range = "Content-Range: bytes 0-0/4\r\n";
    typed(&send(&served, "PATCH", "/v1/files/f", range, b"x"), 400, "InvalidArgument");
    let encoded = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    let mode = br#"{"permission":"0600"}"#;
    typed(&send(&served, "PATCH", "/v1/status/f", encoded, mode), 415, "InvalidArgument");
    let json = "Content-Type: application/json\r\n";
    typed(&send(&served, "PATCH", "/v1/status/f/", json, mode), 409, "NotADirectory");
    let rename = br#"{"from":"/f","to":"/g/"}"#;
    typed(&send(&served, "POST", "/v1/renames", json, rename), 409, "NotADirectory");
    let resumed = "If-None-Match: *\r\nContent-Range: bytes 0-0/1\r\n";
    typed(&send(&served, "PUT", "/v1/files/f", resumed, b"x"), 412, "AlreadyExists");
    assert_eq!(&get(&served, "/v1/files/f").body[..], b"0123");
    assert_eq!(value(&get(&served, "/v1/status/f"))["permission"], "0644");
}

#[test]
fn a_file_that_is_made_private_during_an_upload_stays_private() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"before");
    let mut stream = connect(&served);
    stream.write_all(b"PUT /v1/files/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nx").unwrap();
    eventually("the upload has begun", || names(&served, "").len() == 2);
    let private = json_body("PATCH", &served, "/v1/status/f", &json!({"permission": "0600"}));
    assert_eq!(private.status, 200);
    stream.write_all(b"yyyy").unwrap();
    assert_eq!(receive(&mut stream).status, 204);
    assert_eq!(value(&get(&served, "/v1/status/f"))["permission"], "0600");
}

#[test]
fn a_replaced_file_keeps_its_permission() {
    let served = serve();
    assert_eq!(send(&served, "PUT", "/v1/files/f?permission=600", "", b"x").status, 201);
    put_file(&served, "/v1/files/f", b"y");
    assert_eq!(value(&get(&served, "/v1/status/f"))["permission"], "0600");
    let wrong = send(&served, "PUT", "/v1/files/f?permission=9", "", b"x");
    typed(&wrong, 400, "InvalidArgument");
    typed(&send(&served, "PUT", "/v1/files/f?overwrite=true", "", b"x"), 400, "InvalidArgument");
}

#[test]
fn names_are_made_listed_changed_and_removed() {
    let served = serve();
    let make = || send(&served, "PUT", "/v1/directories/a/b?permission=750", "", b"");
    assert_eq!((make().status, make().status), (201, 204));
    put_file(&served, "/v1/files/a/b/f", b"12345");
    let status = value(&get(&served, "/v1/status/a/b"));
    assert_eq!((&status["type"], &status["permission"]), (&json!("directory"), &json!("0750")));
    let set =
        json_body("PATCH", &served, "/v1/status/a/b/f", &json!({"permission": "0640", "modified_ms": 5000}));
    let status = value(&set);
    assert_eq!((&status["permission"], &status["modified_ms"]), (&json!("0640"), &json!(5000)));
    assert_eq!(field(&get(&served, "/v1/files/a/b/f"), "last-modified"), "Thu, 01 Jan 1970 00:00:05 GMT");
    let cut = json_body("PATCH", &served, "/v1/status/a/b/f", &json!({"length": 2}));
    assert_eq!(value(&cut)["length"], 2);
    let rename = |body: Value| json_body("POST", &served, "/v1/renames", &body);
    assert_eq!(rename(json!({"from": "/a/b", "to": "/a/c"})).status, 204);
    typed(&rename(json!({"from": "/a/b", "to": "/a/d"})), 404, "NotFound");
    put_file(&served, "/v1/files/a/g", b"");
    typed(&rename(json!({"from": "/a/g", "to": "/a/c/f"})), 409, "AlreadyExists");
    assert_eq!(rename(json!({"from": "/a/g", "to": "/a/c/f", "replace": true})).status, 204);
    typed(&send(&served, "DELETE", "/v1/directories/a", "", b""), 409, "NotEmpty");
    typed(&send(&served, "DELETE", "/v1/files/a", "", b""), 409, "IsADirectory");
    typed(&send(&served, "DELETE", "/v1/directories/a/c/f", "", b""), 409, "NotADirectory");
    typed(&get(&served, "/v1/files/a"), 409, "IsADirectory");
    typed(&get(&served, "/v1/directories/a/c/f"), 409, "NotADirectory");
    assert_eq!(send(&served, "DELETE", "/v1/directories/a?recursive=true", "", b"").status, 204);
    assert!(names(&served, "").is_empty());
}

#[test]
fn head_tells_what_get_would_without_the_body() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"x");
    for target in ["/v1/status/f", "/v1/stores", "/v1/stores/main", "/openapi.json"] {
        let mut stream = connect(&served);
        stream.write_all(&request("HEAD", target, "", b"")).unwrap();
        let head = head_of(&mut stream);
        assert_eq!(head.status, 200, "{target}: {}", head.head);
        // Nothing of a body comes before the next answer.
        stream.write_all(&request("GET", target, "", b"")).unwrap();
        let get = receive(&mut stream);
        assert_eq!(get.status, 200, "{target}");
        for name in ["content-type", "content-length"] {
            assert_eq!(field(&head, name), field(&get, name), "{target}");
        }
    }
}

#[test]
fn the_stores_facts_are_told() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"123456789");
    let blocks = value(&get(&served, "/v1/locations/f"));
    assert_eq!(blocks["blocks"][0]["length"], 9);
    assert_eq!(value(&get(&served, "/v1/locations/f?offset=100"))["blocks"], json!([]));
    assert!(value(&get(&served, "/v1/checksums/f"))["value"].as_str().unwrap().len() >= 8);
    assert_eq!(value(&get(&served, "/v1/stores"))["stores"][0]["name"], "main");
    assert!(value(&get(&served, "/v1/stores/main"))["capabilities"].as_array().unwrap().len() > 3);
    typed(&get(&served, "/v1/stores/other"), 404, "NotFound");
    let described = value(&get(&served, "/openapi.json"));
    assert_eq!(described["openapi"], "3.0.3");
}

#[test]
fn a_path_names_its_store() {
    let lab = Arc::new(MemoryStore::new("tester"));
    let store = lab.clone();
    let served = serve_with(|config| {
        config.stores.push(ConfiguredStore { name: "lab".into(), uri: "memory:///lab".into(), fs: store });
    });
    put_file(&served, "/v1/files/@lab/f", b"in the lab");
    put_file(&served, "/v1/files/%40lab/g", b"");
    put_file(&served, "/v1/files/@@lab/f", b"in the default store");
    assert_eq!(names(&served, "/@lab"), ["f", "g"]);
    assert_eq!(names(&served, ""), ["@lab"]);
    typed(&get(&served, "/v1/files/@other/f"), 404, "NotFound");
    typed(&get(&served, "/v1/files/@/f"), 400, "InvalidArgument");
    let across = json_body("POST", &served, "/v1/renames", &json!({"from": "/@lab/f", "to": "/f"}));
    typed(&across, 400, "InvalidArgument");
    let within = json_body("POST", &served, "/v1/renames", &json!({"from": "/@lab/f", "to": "/@lab/h"}));
    assert_eq!(within.status, 204);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let path = StorePath::parse("/h").unwrap();
    assert!(runtime.block_on(lab.exists(&Principal::new("tester"), &path)).unwrap());
}

#[test]
fn each_request_is_its_tokens_users_or_nobodys() {
    let dir = tempfile::tempdir().unwrap();
    let served = with_users(dir.path());
    for (method, target) in [
        ("GET", "/v1/files/f"),
        ("HEAD", "/v1/files/f"),
        ("PUT", "/v1/files/f"),
        ("PATCH", "/v1/files/f"),
        ("DELETE", "/v1/files/f"),
        ("GET", "/v1/status/"),
        ("PATCH", "/v1/status/f"),
        ("GET", "/v1/directories/"),
        ("PUT", "/v1/directories/d"),
        ("DELETE", "/v1/directories/d"),
        ("POST", "/v1/renames"),
        ("GET", "/v1/checksums/f"),
        ("GET", "/v1/locations/f"),
        ("GET", "/v1/stores"),
        ("GET", "/v1/stores/main"),
        ("POST", "/v1/sessions"),
        ("GET", "/v1/sessions/current"),
        ("DELETE", "/v1/sessions/current"),
    ] {
        let answer = send(&served, method, target, "", b"");
        assert_eq!(answer.status, 401, "{method} {target}: {}", answer.head);
        assert_eq!(field(&answer, "www-authenticate"), "Bearer");
    }
    let log_in = |password| {
        json_body("POST", &served, "/v1/sessions", &json!({"user": "tester", "password": password}))
    };
    typed(&log_in("wrong"), 401, "Unauthenticated");
    let answer = log_in("secret");
    assert_eq!((answer.status, field(&answer, "cache-control")), (201, "no-store"));
    let bearer =
        |answer: &Answer| format!("Authorization: Bearer {}\r\n", value(answer)["token"].as_str().unwrap());
    let first = bearer(&answer);
    let mut stream = connect(&served);
    stream.write_all(&request("PUT", "/v1/files/f", &first, b"x")).unwrap();
    assert_eq!(receive(&mut stream).status, 201);
    stream.write_all(&request("GET", "/v1/files/f", "", b"")).unwrap();
    typed(&receive(&mut stream), 401, "Unauthenticated");
    let twice = format!("{first}{first}");
    typed(&send(&served, "GET", "/v1/files/f", &twice, b""), 401, "Unauthenticated");
    typed(&send(&served, "GET", "/v1/files/f", "Authorization: Basic dDpz\r\n", b""), 401, "Unauthenticated");
    assert_eq!(value(&send(&served, "GET", "/v1/sessions/current", &first, b""))["user"], "tester");
    let renewed = bearer(&send(&served, "POST", "/v1/sessions", &first, b""));
    assert_eq!(send(&served, "GET", "/v1/files/f", &renewed, b"").status, 200);
    let chunked = format!("Host: localhost\r\n{first}Transfer-Encoding: chunked\r\n");
    let chunked = |body: &str| format!("POST /v1/sessions HTTP/1.1\r\n{chunked}\r\n{body}0\r\n\r\n");
    assert_eq!(raw(&served, chunked("").as_bytes()).status, 201, "an empty body needs no type");
    typed(&raw(&served, chunked("2\r\n{}\r\n").as_bytes()), 415, "InvalidArgument");
    assert_eq!(send(&served, "DELETE", "/v1/sessions/current", &renewed, b"").status, 204);
    for ended in [&first, &renewed] {
        typed(&send(&served, "GET", "/v1/files/f", ended, b""), 401, "Unauthenticated");
    }
}

/// A gateway whose password file has one user, and a request's Authorization field with a token of
/// that user.
fn with_a_login(users: &Path, change: impl FnOnce(&mut Config)) -> (Served, String) {
    PasswordFile::set(users, "tester", "secret").unwrap();
    let served = serve_with(|config| {
        let passwords = Some(PasswordFile::load(users).unwrap());
        config.access = Access { passwords, ..Access::default() };
        change(config);
    });
    let login = json!({"user": "tester", "password": "secret"});
    let token = value(&json_body("POST", &served, "/v1/sessions", &login));
    let bearer = format!("Authorization: Bearer {}\r\n", token["token"].as_str().unwrap());
    (served, bearer)
}

#[test]
fn a_kept_connection_shows_its_token_anew_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("passwords");
    let check = Duration::from_millis(50);
    let (served, bearer) = with_a_login(&users, |config| config.limits.session_linger = check);
    let ask = |stream: &mut TcpStream, fields: &str| {
        stream.write_all(&request("GET", "/v1/sessions/current", fields, b"")).unwrap();
        receive(stream).status
    };
    let mut kept = connect(&served);
    assert_eq!((ask(&mut kept, &bearer), ask(&mut kept, &bearer)), (200, 200));
    let cut = bearer.replace("\r\n", "") + "0\r\n";
    assert_eq!(ask(&mut kept, &cut), 401);
    let mut other = connect(&served);
    assert_eq!(ask(&mut other, &bearer), 200);
    // Its session idles out, and the token brings it back.
    pause("longer than a session lingers", 4 * check);
    assert_eq!(ask(&mut other, &bearer), 200);
    let mut third = connect(&served);
    assert_eq!(ask(&mut third, &bearer), 200);
    assert_eq!(send(&served, "DELETE", "/v1/sessions/current", &bearer, b"").status, 204);
    assert_eq!(ask(&mut other, &bearer), 401, "the session was closed by another connection");
    let login = json!({"user": "tester", "password": "secret"});
    let token = value(&json_body("POST", &served, "/v1/sessions", &login));
    let renewed = format!("Authorization: Bearer {}\r\n", token["token"].as_str().unwrap());
    assert_eq!(ask(&mut third, &renewed), 200);
    PasswordFile::remove(&users, "tester").unwrap();
    eventually("the login has ended", || send(&served, "GET", "/v1/stores", &renewed, b"").status == 401);
    assert_eq!(ask(&mut third, &renewed), 401, "the user was removed");
}

#[test]
fn a_valid_token_without_a_place_is_not_called_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("passwords");
    // One session for each origin.
    let (served, bearer) = with_a_login(&users, |config| config.limits.sessions = 2);
    let mut other = served.client();
    let (user, password) = (Some("tester".into()), Some(Secret("secret".into())));
    let login = OpenSessionRequest { user, password, ..Default::default() };
    other.v2::<methods::OpenSession>(login).unwrap();
    typed(&send(&served, "GET", "/v1/stores", &bearer, b""), 503, "Busy");
    drop(other);
    eventually("it is free", || send(&served, "GET", "/v1/stores", &bearer, b"").status == 200);
}

#[test]
fn uploads_and_downloads_end_with_their_login() {
    const LENGTH: usize = 32 << 20;
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("passwords");
    // The gateway checks the password file as often.
    let check = Duration::from_millis(50);
    let (served, bearer) = with_a_login(&users, |config| config.limits.session_linger = check);
    assert_eq!(send(&served, "PUT", "/v1/files/old", &bearer, &vec![7; LENGTH]).status, 201);
    let mut download = connect(&served);
    download.write_all(&request("GET", "/v1/files/old", &bearer, b"")).unwrap();
    assert_eq!(head_of(&mut download).status, 200);
    let mut upload = connect(&served);
    let head =
        format!("PUT /v1/files/new HTTP/1.1\r\nHost: localhost\r\n{bearer}Content-Length: {LENGTH}\r\n\r\n");
    upload.write_all(head.as_bytes()).unwrap();
    upload.write_all(&vec![7; 512 << 10]).unwrap();
    PasswordFile::remove(&users, "tester").unwrap();
    eventually("the login has ended", || send(&served, "GET", "/v1/stores", &bearer, b"").status == 401);
    let _ = upload.write_all(&vec![7; 1 << 20]);
    typed(&receive(&mut upload), 401, "Unauthenticated");
    let mut got = Vec::new();
    let _ = download.read_to_end(&mut got);
    assert!(got.len() < LENGTH, "all of it");
    let (root, new) = (Principal::new("tester"), StorePath::parse("/new").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(served.store.stat(&root, &new)).is_err(), "no part of the upload has a name");
}

#[test]
fn pages_of_other_sites_are_refused_and_allowed_ones_served() {
    let served = serve_with(|config| {
        config.http = HttpAccess { hosts: Vec::new(), origins: vec!["https://app.example".into()] };
    });
    put_file(&served, "/v1/files/f", b"x");
    for (fields, status) in [
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\nOrigin: https://evil.example\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\nOrigin: https://app.example\r\n", 200),
        ("Sec-Fetch-Site: none\r\n", 200),
        ("Host: evil.example\r\n", 400),
    ] {
        let answer = send(&served, "GET", "/v1/files/f", fields, b"");
        assert_eq!(answer.status, status, "{fields}");
        let allows = answer.head.contains("access-control-allow-origin: https://app.example");
        assert_eq!(allows, status == 200 && fields.contains("app.example"), "{fields}");
    }
    let plain = get(&served, "/v1/files/f");
    assert_eq!(field(&plain, "cross-origin-resource-policy"), "same-origin");
    assert_eq!(field(&plain, "x-content-type-options"), "nosniff");
    assert!(field(&plain, "content-security-policy").contains("sandbox"));
    let preflight = |origin: &str| {
        let fields = format!("Origin: {origin}\r\nAccess-Control-Request-Method: PUT\r\n");
        send(&served, "OPTIONS", "/v1/files/f", &fields, b"")
    };
    let allowed = preflight("https://app.example");
    assert_eq!(allowed.status, 204);
    assert!(field(&allowed, "access-control-allow-methods").contains("PUT"));
    typed(&preflight("https://evil.example"), 403, "PermissionDenied");
    let own = send(&served, "OPTIONS", "/v1/files/f", "", b"");
    assert!(own.status == 204 && !own.head.contains("access-control"), "{}", own.head);
}

#[test]
fn hostile_requests_get_typed_4xx_and_others_are_served() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"x");
    let long = format!("/v1/files/{}", "a/".repeat(4_500));
    let deep = format!("/v1/files/{}", "a/".repeat(1_100));
    for target in [
        "/v1/files/../f",
        "/v1/files/%2e%2e/f",
        "/v1/files/%2E%2E%2Ff",
        "/v1/files/a%2ff",
        "/v1/files/f%00",
        "/v1/files/%",
        "/v1/files/%zz",
        "/v1/files/a/./f",
        "/v1/files/f/",
        "/v1/files/f?x=1",
        "/v1/files/f?%zz",
        "/v1/files//../../etc/passwd",
        "/v1/status/..",
        "/v1/directories/%2e%2e",
        &deep,
        &long,
    ] {
        typed(&get(&served, target), 400, "InvalidArgument");
    }
    let name = "x".repeat(256);
    typed(&send(&served, "PUT", &format!("/v1/files/{name}"), "", b"x"), 400, "InvalidArgument");
    typed(&send(&served, "POST", "/v1/files/f", "", b"x"), 405, "Unsupported");
    typed(&send(&served, "PROPFIND", "/v1/files/f", "", b"x"), 405, "Unsupported");
    typed(&get(&served, "/v1/nothing"), 404, "NotFound");
    typed(&send(&served, "PUT", "/v1/files/f", "Content-Encoding: gzip\r\n", b"x"), 415, "InvalidArgument");
    let form = "Content-Type: multipart/form-data; boundary=x\r\n";
    typed(&send(&served, "PUT", "/v1/files/f", form, b"--x--"), 415, "InvalidArgument");
    typed(
        &send(&served, "GET", "/v1/files/f", "Range: bytes=0-0\r\nRange: bytes=0-0\r\n", b""),
        400,
        "InvalidArgument",
    );
    let rename = |kind: &str, body: &[u8]| {
        send(&served, "POST", "/v1/renames", &format!("Content-Type: {kind}\r\n"), body)
    };
    let deep = [b"[".repeat(30_000), b"]".repeat(30_000)].concat();
    for body in [
        &b"{"[..],
        b"[]",
        b"{}",
        &deep,
        b"{\"from\":1,\"to\":2}",
        b"[\"/f\",\"/g\",true]",
        b"{\"from\":\"a\",\"to\":\"/b\"}",
        b"\xff",
    ] {
        typed(&rename("application/json", body), 400, "InvalidArgument");
    }
    typed(&rename("application/json", &vec![b' '; 70_000]), 413, "InvalidArgument");
    typed(&rename("text/plain", b"{\"from\":\"/f\",\"to\":\"/g\"}"), 415, "InvalidArgument");
    let huge = format!("/v1/files/f?{}", "a".repeat(1 << 20));
    typed(&get(&served, &huge), 414, "InvalidArgument");
    // A name with # that the client forgot to encode.
    typed(&send(&served, "DELETE", "/v1/files/f#1", "", b""), 400, "InvalidArgument");
    let head = |fields: &str| format!("PUT /v1/files/g HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    for (fields, rest) in [
        ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"),
        ("Content-Length: -1\r\n", ""),
        ("Transfer-Encoding: gzip\r\n", "hello"),
        ("Transfer-Encoding: gzip, chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"),
        ("Transfer-Encoding: chunked\r\n", "5\r\nhelloX\r\n"),
    ] {
        typed(&raw(&served, format!("{}{rest}", head(fields)).as_bytes()), 400, "InvalidArgument");
    }
    assert_eq!(names(&served, ""), ["f"], "none of them made a file");
    assert_eq!(get(&served, "/v1/files/f").status, 200);
}

#[test]
fn an_unread_body_is_no_request() {
    let served = serve();
    let mut stream = connect(&served);
    let smuggled = request("PUT", "/v1/files/smuggled", "", b"x");
    stream.write_all(&request("PUT", "/v1/files/f?wrong=1", "", &smuggled)).unwrap();
    let first = receive(&mut stream);
    assert_eq!(first.status, 400);
    assert!(first.head.contains("connection: close"), "{}", first.head);
    assert_eq!(receive(&mut stream).status, 0);
    assert!(names(&served, "").is_empty());
}

#[test]
fn a_refusal_reaches_a_client_that_still_sends() {
    let dir = tempfile::tempdir().unwrap();
    let served = with_users(dir.path());
    let refused = |fields: &str, length: usize| {
        let mut stream = connect(&served);
        let fields = format!("{fields}Content-Length: {length}\r\n");
        let head = format!("PUT /v1/files/f HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b'x'; length]).unwrap();
        typed(&receive(&mut stream), 401, "Unauthenticated");
    };
    for _ in 0..20 {
        refused("", 900_000);
    }
    // Far more than sockets buffer.
    refused("", 16 << 20);
    // As Java's client sends by default, and `curl --http2`.
    let upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n";
    refused(upgrade, 16 << 20);
}

#[test]
fn a_body_that_comes_too_slowly_times_out_and_changes_nothing() {
    let served = serve_with(|config| config.limits.stall = Duration::from_millis(300));
    let mut stream = connect(&served);
    let head = "PUT /v1/files/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc";
    stream.write_all(head.as_bytes()).unwrap();
    typed(&receive(&mut stream), 408, "TimedOut");
    eventually("no file is left", || names(&served, "").is_empty());
}

#[test]
fn names_that_are_not_utf8_have_a_target() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn FileSystem> = Arc::new(strait_store::FileStore::open(dir.path(), false).unwrap());
    let served = serve_store(store, |_| {});
    put_file(&served, "/v1/files/a%ffb%0a%22", b"odd");
    let entry = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap();
    assert_eq!(entry.file_name().as_encoded_bytes(), b"a\xffb\n\"");
    let page = value(&get(&served, "/v1/directories/"));
    let text = page["entries"][0]["path"].as_str().unwrap();
    // The text of the listing is a target, too.
    let target: String =
        text.bytes().map(|byte| if byte == b'/' { "/".into() } else { format!("%{byte:02x}") }).collect();
    assert_eq!(&get(&served, &format!("/v1/files{target}")).body[..], b"odd");
}

#[test]
fn a_client_that_takes_no_answers_is_cut_whatever_they_are() {
    let served = serve_with(|config| config.limits.stall = Duration::from_millis(300));
    let stream = connect(&served);
    // Together far more than sockets buffer.
    let asked = 2_000;
    let mut sending = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let last = request("GET", "/openapi.json", "Connection: close\r\n", b"");
        let _ = sending.write_all(&request("GET", "/openapi.json", "", b"").repeat(asked - 1));
        let _ = sending.write_all(&last);
    });
    eventually("the gateway ends the connection", || is_ended(&stream));
    let mut taken = Vec::new();
    let _ = (&stream).read_to_end(&mut taken);
    sender.join().unwrap();
    let all = asked * include_str!("../../../idl/openapi.json").len();
    assert!(taken.len() < all, "the gateway waited, and sent {} of {all} bytes", taken.len());
}

#[test]
fn slow_senders_of_json_hold_no_memory_that_others_need() {
    let served = serve_with(|config| config.limits.buffered_bytes = 1 << 20);
    let mut slow: Vec<_> = (0..8).map(|_| connect(&served)).collect();
    let head = "POST /v1/renames HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 65536\r\n\r\n{";
    for stream in &mut slow {
        stream.write_all(head.as_bytes()).unwrap();
    }
    served.await_waiting_for_memory(4);
    let begun = Instant::now();
    put_file(&served, "/v1/files/f", &[b'x'; 500 << 10]);
    assert!(begun.elapsed() < Duration::from_secs(8), "soon, not after {:?}", begun.elapsed());
}

#[test]
fn a_file_that_lends_rights_is_replaced_by_one_that_lends_none() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    std::fs::write(&file, b"before").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o6755)).unwrap();
    let store: Arc<dyn FileSystem> = Arc::new(strait_store::FileStore::open(dir.path(), false).unwrap());
    let served = serve_store(store, |_| {});
    put_file(&served, "/v1/files/f", b"after");
    assert_eq!(value(&get(&served, "/v1/status/f"))["permission"], "0755");
}

#[test]
fn a_chunked_body_is_no_part_of_a_known_length() {
    let served = serve();
    put_file(&served, "/v1/files/f", b"01234");
    let head = "PUT /v1/files/f HTTP/1.1\r\nHost: localhost\r\nContent-Range: bytes 5-9/10\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let answer = raw(&served, format!("{head}9\r\ntoo much.\r\n0\r\n\r\n").as_bytes());
    typed(&answer, 411, "InvalidArgument");
    assert_eq!(&get(&served, "/v1/files/f").body[..], b"01234");
}
