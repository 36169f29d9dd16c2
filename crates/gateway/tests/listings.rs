//! REST: directories as pages.

use crate::common::http::*;
use crate::common::*;
use serde_json::{Value, json};

#[test]
fn a_listing_comes_in_pages_that_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let users = with_users(dir.path());
    let token =
        value(&json_body("POST", &users, "/v1/sessions", &json!({"user": "tester", "password": "secret"})));
    let bearer = format!("Authorization: Bearer {}\r\n", token["token"].as_str().unwrap());
    for (served, fields) in [(&serve(), ""), (&users, bearer.as_str())] {
        for number in 0..25 {
            let made = send(served, "PUT", &format!("/v1/files/d/{number}"), fields, b"");
            assert_eq!(made.status, 201, "{:?}", made.body);
        }
        let mut found = Vec::new();
        let mut target = "/v1/directories/d?limit=10".to_owned();
        loop {
            let answer = send(served, "GET", &target, fields, b"");
            let page = value(&answer);
            found.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["path"].clone()));
            let Some(next) = page["next"].as_str() else { break };
            assert!(answer.head.contains("rel=\"next\""), "{}", answer.head);
            // Clients repeat a GET by themselves if its answer is lost. They must not miss a page by it.
            if target.contains("after=") {
                typed(&send(served, "GET", &target, fields, b""), 400, "InvalidArgument");
            }
            target = format!("/v1/directories/d?limit=10&after={next}");
        }
        found.sort_by_key(Value::to_string);
        found.dedup();
        assert_eq!(found.len(), 25);
        typed(&send(served, "GET", &target, fields, b""), 400, "InvalidArgument");
        typed(&send(served, "GET", "/v1/directories/d?limit=0", fields, b""), 400, "InvalidArgument");
        typed(&send(served, "GET", "/v1/directories/d?after=x", fields, b""), 400, "InvalidArgument");
    }
}

#[test]
fn a_listing_that_has_ended_leaves_no_session() {
    let served = serve_with(|config| config.limits.sessions = 8);
    for number in 0..3 {
        put_file(&served, &format!("/v1/files/d/{number}"), b"");
    }
    for _ in 0..20 {
        assert_eq!(names(&served, "/d").len(), 3);
        let page = value(&get(&served, "/v1/directories/d?limit=2"));
        let next = page["next"].as_str().unwrap();
        let rest = value(&get(&served, &format!("/v1/directories/d?limit=2&after={next}")));
        assert_eq!((rest["entries"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    }
}

#[test]
fn head_of_a_page_leaves_the_page_to_the_get() {
    let served = serve_with(|config| config.limits.sessions = 8);
    for number in 0..3 {
        put_file(&served, &format!("/v1/files/d/{number}"), b"");
    }
    let head = |target: &str| send(&served, "HEAD", target, "", b"");
    // Each unfinished listing would hold a session.
    for _ in 0..20 {
        assert_eq!(head("/v1/directories/d?limit=2").status, 200);
    }
    assert_eq!((head("/v1/directories/d/0").status, head("/v1/directories/e").status), (409, 404));
    let first = value(&get(&served, "/v1/directories/d?limit=2"));
    let second = format!("/v1/directories/d?limit=2&after={}", first["next"].as_str().unwrap());
    let looked = head(&second);
    assert_eq!((looked.status, field(&looked, "content-type")), (200, "application/json"));
    assert!(!looked.head.contains("content-length"), "{}", looked.head);
    assert_eq!(value(&get(&served, &second))["entries"].as_array().unwrap().len(), 1);
    assert_eq!(head(&second).status, 400, "the listing has ended");
}

#[test]
fn a_cursor_leads_to_pages_of_its_own_directory_only() {
    let served = serve();
    for path in ["a/1", "a/2", "b/1"] {
        put_file(&served, &format!("/v1/files/{path}"), b"");
    }
    let page = value(&get(&served, "/v1/directories/a?limit=1"));
    let next = page["next"].as_str().unwrap();
    for other in ["b", "", "none"] {
        let answer = get(&served, &format!("/v1/directories/{other}?limit=1&after={next}"));
        typed(&answer, 400, "InvalidArgument");
    }
    let rest = value(&get(&served, &format!("/v1/directories/a/?limit=1&after={next}")));
    assert_eq!(rest["entries"][0]["path"], "/a/2");
}
