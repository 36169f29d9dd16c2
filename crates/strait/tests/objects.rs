//! `strait` on an object store that nobody here wrote, directly and through a gateway; `stores` and `doctor`.

use crate::support::{self, Gateway, Run, command};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_client::StraitStore;
use strait_plfs::Container;
use strait_store::{Principal, StorePath};
use strait_testkit::{OBJECT_BUCKET, ObjectServer, free_port, skip};

const NOT_FOUND: i32 = 10;
const ALREADY_EXISTS: i32 = 11;
const INVALID_ARGUMENT: i32 = 17;
const TIMED_OUT: i32 = 21;
const UNAVAILABLE: i32 = 22;

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "strait"), ("AWS_SECRET_ACCESS_KEY", "strait-secret")];

fn ran(dir: &std::path::Path, url: &str, args: &[&str], input: &[u8]) -> Run {
    let mut command = command(dir);
    command.args(args).envs(KEYS).env("AWS_ENDPOINT_URL", url);
    Run::of(command, input)
}

#[test]
fn files_go_to_a_bucket_and_come_back() {
    let Some(server) = ObjectServer::moto().unwrap() else {
        return skip("files_go_to_a_bucket_and_come_back", "moto in .venv-s3");
    };
    let dir = tempfile::tempdir().unwrap();
    let strait = |args: &[&str], input: &[u8]| ran(dir.path(), &server.url(), args, input);
    let uri = |path: &str| format!("s3://{OBJECT_BUCKET}{path}");
    // Three parts.
    let content: Vec<u8> = (0..20_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    std::fs::write(dir.path().join("local"), &content).unwrap();
    strait(&["mkdir", &uri("/d")], b"").ok();
    strait(&["put", "local", &uri("/d/f")], b"").ok();
    strait(&["put", "-", &uri("/d/f")], b"other").fails(ALREADY_EXISTS, "-f replaces it");
    strait(&["get", &uri("/d/f"), "back"], b"").ok();
    assert!(std::fs::read(dir.path().join("back")).unwrap() == content);
    strait(&["put", "-f", "-", &uri("/d/f")], b"other").ok();
    assert_eq!(strait(&["cat", &uri("/d/f")], b"").text(), "other");
    strait(&["mv", &uri("/d/f"), &uri("/d/g")], b"").ok();
    assert_eq!(strait(&["ls", "-C", &uri("/d")], b"").text(), "/d/g\n");
    strait(&["rm", "-r", &uri("/d")], b"").ok();
    strait(&["stat", &uri("/d")], b"").fails(NOT_FOUND, "/d");
    strait(&["ls", "s3://missing-bucket/"], b"").fails(NOT_FOUND, "no such bucket");
    let doctor = strait(&["doctor", &uri("/")], b"");
    let told = doctor.text();
    assert!(told.lines().any(|line| line.starts_with("version") && line.contains("Werkzeug")), "{told}");
    for check in ["resolve", "connect", "open", "list", "write", "clock", "read", "rename", "remove"] {
        assert!(told.lines().any(|line| line.starts_with(check) && line.contains(" ok")), "{check}: {told}");
    }
}

#[test]
fn a_gateway_serves_a_directory_of_a_bucket() {
    let Some(server) = ObjectServer::moto().unwrap() else {
        return skip("a_gateway_serves_a_directory_of_a_bucket", "moto in .venv-s3");
    };
    // Flags alone: a server's environment has no keys here, and moto checks none.
    let gateway = Gateway::start(|dir| {
        std::fs::create_dir(dir.join(".aws")).unwrap();
        let keys = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n";
        std::fs::write(dir.join(".aws/credentials"), keys).unwrap();
        let store = format!("lake=s3://{OBJECT_BUCKET}/some/root");
        vec!["--endpoint-url".to_owned(), server.url(), "--store".to_owned(), store]
    });
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"content", &[]).ok();
    assert_eq!(gateway.run(["cat", &gateway.uri("/f")]).text(), "content");
    let direct =
        ran(gateway.dir.path(), &server.url(), &["cat", &format!("s3://{OBJECT_BUCKET}/some/root/f")], b"");
    assert_eq!(direct.text(), "content");
}

/// Three ranks write strided pieces through a gateway, and sync after each round. The last rank crashes with an
/// unsynced piece. Returns the synced content.
#[tokio::main(flavor = "current_thread")]
async fn write_logical_file(address: &str) -> Vec<u8> {
    const ROUNDS: usize = 4;
    const PIECE: usize = 100_000;
    let store = StraitStore::connect(address, strait_client::Options::default()).await.unwrap();
    let (who, path) = (Principal::new("the session decides"), StorePath::parse("/ckpt").unwrap());
    let container = Container::create(Arc::new(store), &who, &path, &Default::default()).await.unwrap();
    let mut writers = [0, 1, 2].map(|rank| container.writer(rank));
    let mut content = vec![0; 3 * ROUNDS * PIECE];
    for round in 0..ROUNDS {
        for (rank, writer) in writers.iter_mut().enumerate() {
            let at = (3 * round + rank) * PIECE;
            content[at..at + PIECE].fill(b'a' + (3 * round + rank) as u8);
            writer.write_at(at as u64, content[at..at + PIECE].to_vec().into()).await.unwrap();
            writer.sync().await.unwrap();
            assert_eq!(container.length().await.unwrap(), (at + PIECE) as u64, "a sync is visible at once");
        }
    }
    let [mut first, mut second, mut crashes] = writers;
    crashes.write_at(content.len() as u64, "lost".into()).await.unwrap();
    drop(crashes);
    first.close().await.unwrap();
    second.close().await.unwrap();
    let reader = container.reader().await.unwrap();
    assert!(reader.read_at(PIECE as u64 / 2, content.len()).await.unwrap() == content[PIECE / 2..]);
    content
}

#[test]
fn ranks_write_one_logical_file_in_a_bucket() {
    let Some(server) = ObjectServer::moto().unwrap() else {
        return skip("ranks_write_one_logical_file_in_a_bucket", "moto in .venv-s3");
    };
    let store = format!("s3://{OBJECT_BUCKET}/some/root");
    let flags = ["--endpoint-url", &server.url(), "--store", &store].map(str::to_owned);
    let gateway =
        Gateway::start_with(&KEYS.map(|(name, value)| (name, value.to_owned())), |_| flags.to_vec());
    let content = write_logical_file(&gateway.address);
    let uri = format!("{store}/ckpt");
    let strait = |args: &[&str]| ran(gateway.dir.path(), &server.url(), args, b"");
    let objects = strait(&["ls", "-C", &format!("{uri}/logs")]);
    assert_eq!(objects.text().lines().filter(|path| path.ends_with(".data.00000003")).count(), 3);
    strait(&["ckpt", "check", &uri]).ok();
    let recovered = strait(&["ckpt", "recover", &uri]);
    assert!(recovered.text().ends_with("\tended\n"), "{recovered:?}");
    assert_eq!(strait(&["ckpt", "ls", &uri]).text().lines().count(), 3);
    assert_eq!(strait(&["ckpt", "flatten", &uri, "/plain"]).code, 0);
    assert!(strait(&["cat", &format!("s3://{OBJECT_BUCKET}/plain")]).stdout == content);
    strait(&["stat", &uri]).fails(NOT_FOUND, "/ckpt");
}

#[test]
fn a_bucket_that_falls_silent_leaves_a_gateways_other_store_alone() {
    use rustix::process::Signal;
    let Some(server) = ObjectServer::moto().unwrap() else {
        return skip("a_bucket_that_falls_silent_leaves_a_gateways_other_store_alone", "moto in .venv-s3");
    };
    let keys = KEYS.map(|(name, value)| (name, value.to_owned()));
    let gateway = Gateway::start_with(&keys, |dir| {
        let files = format!("files=file://{}", support::fresh(dir, "data").display());
        let lake = format!("lake=s3://{OBJECT_BUCKET}/");
        ["--endpoint-url", &server.url(), "--store", &files, "--store", &lake].map(str::to_owned).to_vec()
    });
    let (file, lake) = (gateway.uri("/@files/f"), gateway.uri("/@lake/f"));
    for uri in [&file, &lake] {
        gateway.run_with(["put", "-", uri], b"content", &[]).ok();
    }
    server.process.signal(Signal::STOP);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let gateway = &gateway;
        let silent = [["cat", &lake], ["ls", &lake]].map(|args| scope.spawn(move || gateway.run(args)));
        for _ in 0..3 {
            assert_eq!(gateway.run(["cat", &file]).text(), "content");
        }
        for run in silent {
            run.join().unwrap().fails(TIMED_OUT, "doesn't answer within 15 s");
        }
    });
    assert!(began.elapsed() < Duration::from_secs(100), "{:?}", began.elapsed());
    server.process.signal(Signal::CONT);
    gateway.run_with(["put", "-f", "-", &lake], b"again", &[]).ok();
    assert_eq!(gateway.run(["cat", &lake]).text(), "again");
}

#[test]
fn an_endpoint_that_is_away_or_hangs_is_a_typed_error_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let away = format!("http://127.0.0.1:{}", free_port());
    let began = Instant::now();
    ran(dir.path(), &away, &["ls", "s3://b/"], b"").fails(UNAVAILABLE, "doctor");
    assert!(began.elapsed() < Duration::from_secs(40));
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", hanging.local_addr().unwrap());
    let began = Instant::now();
    ran(dir.path(), &url, &["ls", "s3://b/"], b"").fails(TIMED_OUT, "doesn't answer within 15 s");
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
}

#[test]
fn stores_lists_what_there_is_and_a_wrong_uri_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let told = Run::of(
        {
            let mut it = command(dir.path());
            it.arg("stores");
            it
        },
        b"",
    )
    .text()
    .to_owned();
    let wrong = Run::of(
        {
            let mut it = command(dir.path());
            it.args(["ls", "gopher://x/"]);
            it
        },
        b"",
    );
    for (scheme, form) in
        [("s3", "s3://bucket/path"), ("hdfs", "hdfs://host:port/path"), ("plugin", "plugin:NAME://")]
    {
        assert!(told.lines().any(|line| line.starts_with(scheme) && line.contains(form)), "{scheme}: {told}");
        assert!(wrong.stderr.contains(form), "{}", wrong.stderr);
    }
    assert_eq!(wrong.code, INVALID_ARGUMENT);
    // Without a server, and the same as the suite finds with one.
    for (scheme, can) in [("file", "truncate"), ("hdfs", "block_locations"), ("kadoop", "concat")] {
        let told = told.lines().find(|line| line.starts_with(&format!("{scheme}\t"))).unwrap();
        assert!(told.contains(can) && !told.contains("they depend"), "{told}");
    }
    let doctor = Run::of(
        {
            let mut it = command(dir.path());
            it.args(["doctor", "kadoop://127.0.0.1:1/"]);
            it
        },
        b"",
    );
    assert_eq!(doctor.code, 1, "{}", doctor.stderr);
    let told = String::from_utf8(doctor.stdout).unwrap();
    assert!(told.contains("connect  FAILED") && told.contains("fix: start the server"), "{told}");
}
