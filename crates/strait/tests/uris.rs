//! The stores of a gateway have a place in the URI.

use crate::support::{Gateway, Run, command, fresh};
use std::path::PathBuf;
use strait_testkit::free_port;

const USAGE: i32 = 2;
const NOT_FOUND: i32 = 10;
const INVALID_ARGUMENT: i32 = 17;

/// A gateway over two directories: `data`, its default, and `lab`.
fn two_stores() -> Gateway {
    Gateway::start(|dir| {
        let store = |name: &str| format!("{name}=file://{}", fresh(dir, name).display());
        ["data", "lab"].into_iter().flat_map(|name| ["--store".to_owned(), store(name)]).collect()
    })
}

fn lab(gateway: &Gateway) -> PathBuf {
    gateway.dir.path().join("lab")
}

#[test]
fn every_command_works_in_a_store_that_the_uri_names() {
    let gateway = two_stores();
    let at = |path: &str| gateway.uri(&format!("/@lab{path}"));
    std::fs::write(gateway.dir.path().join("local"), "content").unwrap();
    gateway.run(["mkdir", "-p", &at("/d/e")]).ok();
    gateway.run(["put", "local", &at("/d/")]).ok();
    gateway.run_with(["put", "-", &at("/d/f")], b"other", &[]).ok();
    assert_eq!(std::fs::read_to_string(lab(&gateway).join("d/f")).unwrap(), "other");
    assert_eq!(gateway.run(["cat", &at("/d/*f"), &at("/d/loca?")]).text(), "othercontent");
    assert_eq!(gateway.run(["ls", "-C", &at("/d")]).text(), "/d/e\n/d/f\n/d/local\n");
    assert_eq!(gateway.run(["ls", "-C", &at("")]).text(), "/d\n");
    for args in [
        vec!["stat", "/d/f"],
        vec!["touch", "/d/g"],
        vec!["chmod", "600", "/d/g"],
        vec!["checksum", "/d/f"],
        vec!["locate", "/d/f"],
        vec!["df", "/"],
        vec!["fsck", "/"],
        vec!["rm", "/d/[g]"],
    ] {
        let (path, rest) = args.split_last().unwrap();
        let run = gateway.run(rest.iter().map(|arg| (*arg).to_owned()).chain([at(path)]));
        assert!(run.code == 0, "{args:?}: {run:?}");
    }
    gateway.run(["mv", &at("/d/f"), &at("/d/e/")]).ok();
    gateway.run(["mv", &at("/d/e/f"), "/d/f2"]).ok();
    assert!(lab(&gateway).join("d/f2").exists());
    gateway.run(["get", &at("/d"), "copy"]).ok();
    assert_eq!(std::fs::read_to_string(gateway.dir.path().join("copy/f2")).unwrap(), "other");
    gateway.run(["put", "copy", &at("/again")]).ok();
    assert!(lab(&gateway).join("again/local").exists());
    gateway.run(["get", &at(""), "whole"]).ok();
    assert!(gateway.dir.path().join("whole/d/local").exists());
    gateway.run(["rm", "-r", &at("/d")]).ok();
    assert_eq!(gateway.run(["ls", "-C", &gateway.uri("/")]).text(), "", "the other store is untouched");
    gateway.run(["ls", &gateway.uri("/@nope/")]).fails(NOT_FOUND, "data, lab");
    gateway.run(["ls", &gateway.uri("/@/")]).fails(INVALID_ARGUMENT, "/@@");
}

#[test]
fn a_directory_whose_name_begins_so_is_within_reach() {
    let gateway = two_stores();
    gateway.run(["mkdir", &gateway.uri("/@@lab")]).ok();
    gateway.run_with(["put", "-", &gateway.uri("/@@lab/f")], b"x", &[]).ok();
    assert_eq!(std::fs::read_to_string(gateway.data().join("@lab/f")).unwrap(), "x");
    assert_eq!(gateway.run(["ls", "-C", &gateway.uri("/")]).text(), "/@lab\n", "it is a path, not a URI");
    // Paths that a pattern finds can be used again.
    assert_eq!(gateway.run(["cat", &gateway.uri("/@@l*/[f]")]).text(), "x");
    assert_eq!(gateway.run(["cat", &gateway.uri("/?lab/f")]).text(), "x");
    gateway.run(["mkdir", &gateway.uri("/@lab/@lab")]).ok();
    assert!(lab(&gateway).join("@lab").is_dir(), "the first component alone names a store");
}

#[test]
fn nothing_moves_between_two_stores() {
    let gateway = two_stores();
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"x", &[]).ok();
    let run = gateway.run(["mv", &gateway.uri("/f"), &gateway.uri("/@lab/f")]);
    run.fails(USAGE, "are different stores; copy with get and put");
    assert!(run.stderr.contains("/@lab"), "{}", run.stderr);
    assert!(gateway.data().join("f").exists());
}

#[test]
fn the_flag_is_an_alias_and_contradicts_no_uri() {
    let gateway = two_stores();
    let put = ["put", "-", &gateway.uri("/f"), "--gateway-store", "lab"];
    gateway.run_with(put, b"x", &[]).ok();
    assert!(lab(&gateway).join("f").exists());
    let cat =
        |uri: &str| gateway.run_with(["cat", &gateway.uri(uri)], b"", &[("STRAIT_GATEWAY_STORE", "lab")]);
    assert_eq!(cat("/f").text(), "x");
    assert_eq!(cat("/[f]").text(), "x");
    assert_eq!(cat("/@lab/f").text(), "x");
    cat("/@data/f").fails(INVALID_ARGUMENT, "--gateway-store lab");
}

#[test]
fn a_gateway_serves_no_store_that_a_uri_cannot_name() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["", "a/b", "@lab"] {
        let mut strait = command(dir.path());
        let address = format!("127.0.0.1:{}", free_port());
        strait.args(["serve", "--listen", &address, "--store", &format!("{name}=memory:/")]);
        Run::of(strait, b"").fails(USAGE, "invalid store name");
    }
}

#[test]
fn a_store_of_another_gateway_is_served_by_its_uri() {
    let near = two_stores();
    std::fs::write(lab(&near).join("f"), "x").unwrap();
    let far = Gateway::start(|_| vec!["--store".to_owned(), near.uri("/@lab")]);
    assert_eq!(far.run(["cat", &far.uri("/f")]).text(), "x");
}
