//! Plugins in the test's process, and in the helper process of the real binary: the contract suite in both,
//! and plugins that misbehave.

use crate::support::plugins::{HADOOP, HADOOP_OPTIONS, built, hadoop_environment};
use crate::support::{self, Gateway, Run, binary, command};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_store::contract::{self, Fixture};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, Principal, StorePath, StoreUri};
use strait_store_any::{ByUri, ForeignOptions, Launch, Library, OpenOptions};
use strait_testkit::HadoopLibhdfs;
use strait_testkit::wait::eventually;

const UNAVAILABLE: i32 = 22;
const TIMED_OUT: i32 = 21;
const INVALID_ARGUMENT: i32 = 17;
const BUSY: i32 = 19;
const UNAUTHENTICATED: i32 = 16;
const INTERNAL: i32 = 25;
const OUTCOME_UNKNOWN: i32 = 24;

/// Builds a plugin of `plugins` by CMake, against this installation.
fn built_at(plugin: &str, home: &Path, dir: &Path) -> std::process::Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").join(plugin);
    let build = dir.join("build");
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(source).arg("-B").arg(&build);
    cmake.arg(format!("-D{}_HOME={}", plugin.to_uppercase(), home.display()));
    let configured = cmake.output().unwrap();
    if !configured.status.success() {
        return configured;
    }
    Command::new("cmake").arg("--build").arg(&build).output().unwrap()
}

/// A plugin on a stand-in for its file system: a directory, behind interface stubs of this project.
fn on_a_stand_in(plugin: &str, library: &str, dir: &Path, data: &Path) -> PathBuf {
    let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").join(plugin).join("standin");
    let home = support::fresh(dir, "home");
    std::os::unix::fs::symlink(stand_in.join("include").canonicalize().unwrap(), home.join("include"))
        .unwrap();
    let source = ["standin.c", "standin.cc"].map(|name| stand_in.join(name));
    let source = source.into_iter().find(|source| source.exists()).unwrap();
    let compiler = if source.extension().unwrap() == "c" { "cc" } else { "c++" };
    let mut cc = Command::new(compiler);
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread"]);
    cc.arg("-I").arg(home.join("include")).arg(format!("-DSTANDIN_ROOT=\"{}\"", data.display()));
    cc.arg(source).arg("-o").arg(support::fresh(&home, "lib").join(library));
    assert!(cc.status().unwrap().success(), "the stand-in of {plugin} doesn't build");
    let built = built_at(plugin, &home, dir);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    dir.join("build").join(format!("libstrait_{plugin}.so"))
}

/// The store of a URI whose libraries run in helpers of the binary under test.
async fn opened(uri: &str, name: &str, library: Library) -> Arc<dyn FileSystem> {
    opened_with(&[], uri, name, library).await
}

/// As [`opened`], with these variables in the library's process.
async fn opened_with(variables: &[String], uri: &str, name: &str, library: Library) -> Arc<dyn FileSystem> {
    let mut arguments: Vec<OsString> = variables.iter().map(Into::into).collect();
    arguments.extend([binary().into(), "plugin-helper".into()]);
    let launch = Launch { program: "env".into(), arguments };
    let libraries = [(name.to_owned(), library)].into();
    let foreign = ForeignOptions { libraries, by_uri: ByUri::Any, helper: Some(launch) };
    let options = OpenOptions { foreign, ..OpenOptions::default() };
    strait_store_any::open(&StoreUri::parse(uri).unwrap(), &options).await.unwrap()
}

async fn keeps_the_contract(name: &str, store: Arc<dyn FileSystem>, who: &str) {
    let root = StorePath::parse("/contract").unwrap();
    let report = contract::run(name, &Fixture::new(store.clone(), root.clone(), Principal::new(who))).await;
    // Straight to standard error, which the test harness doesn't capture.
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{report}");
    store.remove(&Principal::new(who), &root, true).await.unwrap();
}

async fn reference_keeps_the_contract(name: &str, inside: bool) {
    let dir = tempfile::tempdir().unwrap();
    let library = Library {
        path: built("plugins/reference/reference.c", dir.path()),
        options: vec![("root".to_owned(), support::fresh(dir.path(), "data").display().to_string())],
        inside,
    };
    keeps_the_contract(name, opened("plugin:dir://here/", "dir", library).await, "root").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_under_a_files_name_stops_no_writer_of_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let data = support::fresh(dir.path(), "data");
    assert!(Command::new("mkfifo").arg(data.join("pipe")).status().unwrap().success());
    let library = Library {
        path: built("plugins/reference/reference.c", dir.path()),
        options: vec![("root".to_owned(), data.display().to_string())],
        inside: true,
    };
    let store = opened("plugin:dir://here/", "dir", library).await;
    let (who, pipe) = (Principal::new("root"), StorePath::parse("/pipe").unwrap());
    let overwrite = CreateOptions { overwrite: true, ..CreateOptions::default() };
    let created = tokio::time::timeout(Duration::from_secs(10), store.create(&who, &pipe, &overwrite)).await;
    assert_eq!(created.expect("it returns").map(drop).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

/// This includes names that the plugin doesn't list. It removes links, but not their targets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_is_removed_by_a_call_for_each_entry() {
    let dir = tempfile::tempdir().unwrap();
    let data = support::fresh(dir.path(), "data");
    let (tree, kept) = (data.join("tree"), data.join("kept"));
    std::fs::create_dir_all(tree.join("a/b")).unwrap();
    std::fs::create_dir_all(tree.join("empty")).unwrap();
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("file"), "").unwrap();
    // More than the store looks at at once.
    for name in 0..2_500 {
        std::fs::write(tree.join("a").join(name.to_string()), "").unwrap();
    }
    for link in [tree.join("link"), tree.join("a/b/link"), data.join("to-kept")] {
        std::os::unix::fs::symlink(&kept, link).unwrap();
    }
    let library = Library {
        path: built("plugins/reference/reference.c", dir.path()),
        options: vec![("root".to_owned(), data.display().to_string())],
        inside: true,
    };
    let (store, who) = (opened("plugin:dir://here/", "dir", library).await, Principal::new("root"));
    for path in ["/tree", "/to-kept"] {
        store.remove(&who, &StorePath::parse(path).unwrap(), true).await.unwrap();
    }
    let left: Vec<_> = data.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["kept"]);
    assert!(kept.join("file").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_in_this_process_keeps_the_contract() {
    reference_keeps_the_contract("plugin (reference, inside)", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_in_its_own_process_keeps_the_contract() {
    reference_keeps_the_contract("plugin (reference, apart)", false).await;
}

async fn stand_in_keeps_the_contract(plugin: &str, file: &str, options: &[(&str, &str)], inside: bool) {
    let dir = tempfile::tempdir().unwrap();
    let path = on_a_stand_in(plugin, file, dir.path(), &support::fresh(dir.path(), "data"));
    let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let library = Library { path, options, inside };
    let store = opened(&format!("plugin:{plugin}://127.0.0.1/"), plugin, library).await;
    let name = format!("plugin ({plugin} on a stand-in, NOT the real system; inside: {inside})");
    keeps_the_contract(&name, store, "root").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn qfs_keeps_the_contract_on_a_stand_in() {
    for inside in [false, true] {
        stand_in_keeps_the_contract("qfs", "libqfsc.so", &[], inside).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sector_keeps_the_contract_on_a_stand_in() {
    for inside in [false, true] {
        stand_in_keeps_the_contract("sector", "libclient.so", &[("user", "root")], inside).await;
    }
}

/// FACTS of Sector's client, each as its stand-in plays it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peculiarities_of_sector_stay_in_its_plugin() {
    let dir = tempfile::tempdir().unwrap();
    let data = support::fresh(dir.path(), "data");
    let path = on_a_stand_in("sector", "libclient.so", dir.path(), &data);
    let (who, library) = (Principal::new("root"), Library { path, ..Library::default() });
    let fs = opened("plugin:sector://127.0.0.1/", "sector", library.clone()).await;
    let at = |path: &str| StorePath::parse(path).unwrap();
    let overwrite = CreateOptions { overwrite: true, ..CreateOptions::default() };
    // Connections are lost meanwhile, some for good.
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    fs.write_all(&who, &at("/d/f"), &overwrite, content.clone().into()).await.unwrap();
    assert!(fs.read_all(&who, &at("/d/f"), usize::MAX - 1).await.unwrap() == content);
    // The first open after a move fails, of the name and of names beneath it.
    fs.rename(&who, &at("/d/f"), &at("/d/g"), false).await.unwrap();
    assert!(fs.read_all(&who, &at("/d/g"), usize::MAX - 1).await.unwrap() == content);
    fs.rename(&who, &at("/d"), &at("/e"), false).await.unwrap();
    assert!(fs.read_all(&who, &at("/e/g"), usize::MAX - 1).await.unwrap() == content);
    // move goes into a directory that is there.
    fs.mkdirs(&who, &at("/there"), None).await.unwrap();
    let taken = fs.rename(&who, &at("/e"), &at("/there"), false).await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    // A writer's file is busy; refused opens leave dead objects, and the next ones work.
    let mut writer = fs.create(&who, &at("/e/g"), &overwrite).await.unwrap();
    assert_eq!(fs.open(&who, &at("/e/g")).await.map(drop).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(fs.append(&who, &at("/e/g")).await.map(drop).unwrap_err().kind(), ErrorKind::Busy);
    writer.append(b"short".to_vec().into()).await.unwrap();
    writer.close().await.unwrap();
    // Opening for writing creates, and doesn't truncate.
    assert_eq!(fs.read_all(&who, &at("/e/g"), usize::MAX - 1).await.unwrap(), b"short"[..]);
    assert_eq!(fs.append(&who, &at("/none")).await.map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!data.join("none").exists());
    // Files aren't split.
    let blocks = fs.block_locations(&who, &at("/e/g"), 1..2).await.unwrap();
    assert_eq!(blocks.len(), 1);
    assert_eq!((blocks[0].length, blocks[0].hosts.len()), (5, 2));
    let refused = fs.remove(&who, &at("/e"), false).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotEmpty);
    fs.remove(&who, &at("/e"), true).await.unwrap();
    assert!(!data.join("e").exists());
    // A refused login has Sector's number, and names the master.
    let uri = format!("--plugin=sector={}", library.path.display());
    let mut ls = command(dir.path());
    ls.args([&uri, "--plugin-option=sector.user=nobody", "ls", "plugin:sector://127.0.0.1/"]);
    let refused = Run::of(ls, b"");
    assert_eq!(refused.code, UNAUTHENTICATED, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("can't log in as nobody at the master 127.0.0.1:6000"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_plugin_without_its_installation_says_what_to_name() {
    let dir = tempfile::tempdir().unwrap();
    for (plugin, name) in [("qfs", "QFS"), ("sector", "Sector")] {
        let refused = built_at(plugin, Path::new("/no/such/home"), &support::fresh(dir.path(), plugin));
        assert!(!refused.status.success());
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(told.contains(&format!("/no/such/home is no {name} installation")), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a GlusterFS volume: scripts/with-gluster.sh"]
async fn glusterfs_keeps_the_contract() {
    let volume =
        std::env::var("STRAIT_TEST_GLUSTER").expect("STRAIT_TEST_GLUSTER names a volume of this host");
    let dir = tempfile::tempdir().unwrap();
    let path = built("plugins/gluster/gluster.c", dir.path());
    for inside in [false, true] {
        let options = vec![("volume".to_owned(), volume.clone())];
        let library = Library { path: path.clone(), options, inside };
        let store = opened("plugin:gluster://localhost/", "gluster", library).await;
        keeps_the_contract(&format!("plugin (GlusterFS, inside: {inside})"), store, "root").await;
    }
}

/// For authors of plugins: see docs/add-a-store.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a plugin: STRAIT_TEST_PLUGIN=/path/mine.so"]
async fn a_named_plugin_keeps_the_contract() {
    let path =
        PathBuf::from(std::env::var_os("STRAIT_TEST_PLUGIN").expect("STRAIT_TEST_PLUGIN is a plugin's path"));
    assert!(path.is_absolute(), "STRAIT_TEST_PLUGIN={} isn't an absolute path", path.display());
    let uri = std::env::var("STRAIT_TEST_PLUGIN_URI").unwrap_or_else(|_| "plugin:mine://here/".to_owned());
    let parsed = StoreUri::parse(&uri).unwrap();
    let (name, _) = parsed.foreign().expect("STRAIT_TEST_PLUGIN_URI is plugin:NAME://AUTHORITY/");
    let options = std::env::var("STRAIT_TEST_PLUGIN_OPTIONS").unwrap_or_default();
    let options = options.split(',').filter(|option| !option.is_empty()).map(|option| {
        let (key, value) = option.split_once('=').expect("STRAIT_TEST_PLUGIN_OPTIONS is KEY=VALUE,KEY=VALUE");
        (key.to_owned(), value.to_owned())
    });
    let options: Vec<_> = options.collect();
    for inside in [false, true] {
        let library = Library { path: path.clone(), options: options.clone(), inside };
        let store = opened(&uri, name, library).await;
        let who = strait_testkit::current_user();
        keeps_the_contract(&format!("plugin ({name}, inside: {inside})"), store, &who).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hadoops_libhdfs_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let library = HadoopLibhdfs::find().unwrap().build_in(dir.path()).unwrap().join("libhdfs.so.0.0.0");
    let hdfs = strait_testkit::MiniHdfs::start().unwrap();
    let uri = format!("libhdfs:{}!{}/", library.display(), hdfs.uri().trim_end_matches('/'));
    let options = HADOOP_OPTIONS.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let variables = hadoop_environment(&hdfs).map(|(name, value)| format!("{name}={value}"));
    let store = opened_with(&variables, &uri, "libhdfs", Library { options, ..Library::default() }).await;
    let (root, who) =
        (StorePath::parse("/contract").unwrap(), Principal::new(&strait_testkit::current_user()));
    let fixture = Fixture { known: HADOOP, ..Fixture::new(store, root, who) };
    let report = contract::run("libhdfs (apart)", &fixture).await;
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{report}");
}

#[test]
fn the_reference_refuses_an_option_that_it_doesnt_know() {
    let dir = tempfile::tempdir().unwrap();
    let library = built("plugins/reference/reference.c", dir.path());
    let mut ls = command(dir.path());
    ls.arg(format!("--plugin=dir={}", library.display()));
    ls.args(["--plugin-option=dir.roof=/", "ls", "plugin:dir://here/"]);
    Run::of(ls, b"").fails(INVALID_ARGUMENT, "plugin dir: unknown option roof");
}

#[test]
fn a_gateway_over_a_plugin_serves_commands() {
    let gateway = Gateway::start(|dir| {
        let data = support::fresh(dir, "data");
        let library = built("plugins/reference/reference.c", dir);
        vec![
            "--plugin".to_owned(),
            format!("dir={}", library.display()),
            "--plugin-option".to_owned(),
            format!("dir.root={}", data.display()),
            "--store".to_owned(),
            "plugin:dir://here/".to_owned(),
        ]
    });
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"content", &[]).ok();
    assert_eq!(gateway.run(["cat", &gateway.uri("/f")]).text(), "content");
    assert_eq!(std::fs::read(gateway.data().join("f")).unwrap(), b"content");
}

/// A command line on the plugin that misbehaves in this way.
fn bad(dir: &Path, library: &Path, how: &str, args: &[&str]) -> Run {
    let mut command = command(dir);
    command.arg("--plugin").arg(format!("bad={}", library.display()));
    // Short only where it passes: on a busy machine a process may take seconds to start.
    let hangs = how == "hang" || args.iter().any(|arg| arg.ends_with("hang"));
    let timeout = format!("bad.timeout={}", if hangs { 1 } else { 20 });
    command.args(["--plugin-option", &timeout]).args(args).env("STRAIT_BAD_PLUGIN", how);
    Run::of(command, b"")
}

#[test]
fn a_bad_plugin_is_a_typed_error_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let library = built("crates/strait/tests/plugins/bad.c", dir.path());
    let ran = |how: &str, args: &[&str]| bad(dir.path(), &library, how, args);
    let began = Instant::now();
    ran("abi", &["ls", "plugin:bad://x/"]).fails(INVALID_ARGUMENT, "version 7 of strait_store.h, not 1");
    ran("size", &["ls", "plugin:bad://x/"]).fails(INVALID_ARGUMENT, "its table has 64 bytes");
    ran("function", &["ls", "plugin:bad://x/"]).fails(INVALID_ARGUMENT, "lacks the function stat");
    ran("null", &["ls", "plugin:bad://x/"]).fails(INVALID_ARGUMENT, "returns no table");
    ran("hang", &["ls", "plugin:bad://x/"]).fails(TIMED_OUT, "doesn't open within 2 s");
    ran("crash", &["ls", "plugin:bad://x/"]).fails(UNAVAILABLE, "by signal 6");
    ran("", &["ls", "plugin:other://x/"]).fails(INVALID_ARGUMENT, "no plugin other (known: bad)");
    ran("", &["stat", "plugin:bad://x/kind"]).fails(INTERNAL, "4711");
    ran("", &["stat", "plugin:bad://x/text"]).fails(BUSY, "xxx");
    ran("", &["stat", "plugin:bad://x/long"])
        .fails(INTERNAL, "an impossible length 18446744073709551615 for /long");
    ran("", &["stat", "plugin:bad://x/hang"]).fails(TIMED_OUT, "doesn't return within 1 s");
    ran("", &["stat", "plugin:bad://x/input"]).ok();
    ran("", &["stat", "plugin:bad://x/crash"]).fails(UNAVAILABLE, "by signal 6");
    ran("", &["cat", "plugin:bad://x/f"]).fails(INTERNAL, "were requested");
    ran("", &["ls", "plugin:bad://x/"]).fails(INTERNAL, "an invalid name: \"../../etc/passwd\"");
    ran("", &["mv", "plugin:bad://x/a", "plugin:bad://x/"]).fails(OUTCOME_UNKNOWN, "by signal 6");
    let missing = bad(dir.path(), Path::new("/no/such.so"), "", &["ls", "plugin:bad://x/"]);
    missing.fails(INVALID_ARGUMENT, "can't be loaded: /no/such.so: cannot open shared object file");
    let none = bad(dir.path(), Path::new("/lib/x86_64-linux-gnu/libm.so.6"), "", &["ls", "plugin:bad://x/"]);
    none.fails(INVALID_ARGUMENT, "isn't a plugin");
    for (library, why) in [
        ("/no/such.so", "can't be loaded: /no/such.so: cannot open"),
        ("/lib/x86_64-linux-gnu/libm.so.6", "isn't a libhdfs"),
    ] {
        ran("", &["ls", &format!("libhdfs:{library}!hdfs://x/")]).fails(INVALID_ARGUMENT, why);
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn a_gateway_outlives_the_crash_of_a_plugin() {
    let gateway = Gateway::start(|dir| {
        let library = built("crates/strait/tests/plugins/bad.c", dir);
        let data = support::fresh(dir, "data");
        vec![
            "--plugin".to_owned(),
            format!("bad={}", library.display()),
            "--plugin-option".to_owned(),
            "bad.timeout=1".to_owned(),
            "--store".to_owned(),
            format!("files=file://{}", data.display()),
            "--store".to_owned(),
            "bad=plugin:bad://x/".to_owned(),
        ]
    });
    gateway.run_with(["put", "-", &gateway.uri("/f")], b"content", &[]).ok();
    for _ in 0..2 {
        let crashed = gateway.run(["stat", &gateway.uri("/@bad/crash")]);
        assert_eq!(crashed.code, UNAVAILABLE, "{}", crashed.stderr);
        assert_eq!(gateway.run(["cat", &gateway.uri("/f")]).text(), "content");
        eventually("another process takes the crashed one's place", || {
            gateway.run(["stat", &gateway.uri("/@bad/fine")]).code == 0
        });
        gateway.run(["stat", &gateway.uri("/@bad/hang")]).fails(TIMED_OUT, "doesn't return");
        assert_eq!(gateway.run(["cat", &gateway.uri("/f")]).text(), "content");
        gateway.run(["stat", &gateway.uri("/@bad/fine")]).ok();
    }
}
