//! The flags of `strait serve` for programs of 2009.

use crate::support::{self, Gateway};
use bytes::Bytes;
use strait_testkit::thrift::Client;
use strait_wire::*;

const BINARY: Wire = Wire { protocol: Protocol::Binary, framed: false };

fn over_two(more: &[&str]) -> Gateway {
    Gateway::start(|dir| {
        let stores = ["one", "two"].map(|name| {
            std::fs::create_dir(dir.join(name)).unwrap();
            ["--store".to_owned(), format!("{name}=file://{}", dir.join(name).display())]
        });
        stores.into_iter().flatten().chain(more.iter().map(|flag| (*flag).to_owned())).collect()
    })
}

fn init(gateway: &Gateway) -> (Client, ClientHandle) {
    init_with(gateway, "sector://master:6000")
}

fn init_with(gateway: &Gateway, uri: &str) -> (Client, ClientHandle) {
    let mut client = Client::connect(gateway.address.parse().unwrap(), BINARY);
    let args = InitArgs { uri: Some(uri.into()) };
    let Reply::Success(handle) = client.call::<methods::Init>(args) else { panic!("init throws nothing") };
    (client, handle)
}

#[test]
fn with_several_stores_the_log_names_the_flag_and_the_flag_sets_the_store() {
    let gateway = over_two(&[]);
    assert_eq!(init(&gateway).1.id, Some(-1));
    let told = gateway.process.log_tail();
    assert!(told.contains("--store-2009") && told.contains("sector://master:6000"), "{told}");

    let gateway = over_two(&["--store-2009", "two"]);
    let (mut client, ch) = init(&gateway);
    let args = PathArgs { ch: Some(ch), path: Some("/here".into()) };
    assert!(client.old::<methods::Mkdir>(args).unwrap());
    assert!(gateway.dir.path().join("two/here").is_dir());
    assert!(gateway.process.log_tail().contains("sector://master:6000"));
}

#[test]
fn a_clients_uri_loads_no_library() {
    let dir = tempfile::tempdir().unwrap();
    let (library, mark) = (dir.path().join("loaded.so"), dir.path().join("mark"));
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", &format!("-DMARK=\"{}\"", mark.display()), "-o"]).arg(&library);
    cc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../store-any/tests/loaded.c"));
    assert!(cc.status().unwrap().success());
    let (gateway, uri) = (Gateway::over_files(), format!("libhdfs:{}!hdfs://nn/", library.display()));
    let (mut client, ch) = init_with(&gateway, &uri);
    // The handle is of the gateway's own store.
    let args = PathArgs { ch: Some(ch), path: Some("/here".into()) };
    assert!(client.old::<methods::Mkdir>(args).unwrap());
    assert!(gateway.data().join("here").is_dir() && !mark.exists());
    // The operator's own URI does load it.
    let mut ls = support::command(dir.path());
    ls.args(["ls", &uri]);
    assert!(support::Run::of(ls, b"").code != 0 && mark.exists());
}

#[test]
fn a_store_that_is_not_served_is_a_usage_error() {
    let home = tempfile::tempdir().unwrap();
    let mut command = support::command(home.path());
    let store = format!("one=file://{}", home.path().display());
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store, "--store-2009", "lab"]);
    let run = support::Run::of(command, b"");
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("--store-2009 lab") && run.stderr.contains("one"), "{}", run.stderr);
}

#[test]
fn write_offsets_are_ignored_by_the_flag() {
    let gateway = over_two(&["--store-2009", "one", "--ignore-write-offsets"]);
    let (mut client, ch) = init(&gateway);
    let ch = Some(ch);
    let args = OpenArgs { ch: ch.clone(), filename: Some("/f".into()), mode: Some(2) };
    let dh = Some(client.old::<methods::Open>(args).unwrap());
    for piece in ["ab", "cd"] {
        let buf = Some(Bytes::from(piece));
        let args = WriteArgs { ch: ch.clone(), dh: dh.clone(), buf, offset: Some(7), len: Some(2) };
        assert!(client.old::<methods::Write>(args).unwrap());
    }
    assert!(client.old::<methods::Close>(CloseArgs { ch, dh }).unwrap());
    assert_eq!(std::fs::read(gateway.dir.path().join("one/f")).unwrap(), b"abcd");
}
