//! The answers of 2009 on which programs rely: docs/programs-of-2009.md, row by row, for programs
//! of both generations.

use crate::common::programs::{DenseRead, SparseWrite};
use crate::common::programs::{Generation, Program, READ, ReadDense, WRITE, WriteSparse};
use crate::common::*;
use std::io;
use std::sync::{Arc, Mutex};
use strait_gateway::{ConfiguredStore, LocalRoot, Service2009};
use strait_store::MemoryStore;
use strait_wire::*;
use tracing_subscriber::fmt::MakeWriter;

/// Calls `row` for each generation, each on a gateway of its own.
fn both(row: impl Fn(Program)) {
    for generation in [Generation::Early, Generation::Later] {
        let served = serve();
        row(Program::start(&served, generation));
    }
}

fn two_stores(store_2009: Option<&str>) -> Served {
    serve_with(|config| {
        let fs = Arc::new(MemoryStore::new("tester"));
        config.stores.push(ConfiguredStore { name: "lab".into(), uri: "memory:///lab".into(), fs });
        config.service_2009.store = store_2009.map(str::to_owned);
    })
}

fn names(list: Vec<FileStatus>) -> Vec<String> {
    list.into_iter().map(|status| status.path.unwrap()).collect()
}

/// URIs of programs of 2009, with characters that the log must escape.
const UNKNOWN: [&[u8]; 4] = [b"sector://master:6000", b"hdfs://nn:9000/x", b"a\x1b[2J\nb", b"\xff\xfe"];

#[test]
fn init_selects_the_only_store_for_any_uri() {
    both(|mut program| {
        for uri in UNKNOWN {
            assert!(program.init(Some(uri)) > 0, "{uri:?}");
            assert!(program.mkdir("/d").unwrap());
        }
        for uri in [None, Some(&b""[..]), Some(b"main"), Some(b"memory:///")] {
            assert!(program.init(uri) > 0, "{uri:?}");
        }
    });
}

#[test]
fn init_of_several_stores_needs_one_for_2009() {
    for generation in [Generation::Early, Generation::Later] {
        let served = two_stores(None);
        let mut program = Program::connect(&served, generation);
        for uri in UNKNOWN {
            assert_eq!(program.init(Some(uri)), -1, "{uri:?}");
            assert!(program.stat("/").is_err(), "no session");
        }
        assert!(program.init(None) > 0, "the default store");
        assert!(program.init(Some(b"lab")) > 0, "a store's own name");

        let served = two_stores(Some("lab"));
        let mut program = Program::connect(&served, generation);
        assert!(program.init(Some(b"lab")) > 0);
        program.put("/in-lab", b"x");
        for uri in [Some(UNKNOWN[0]), Some(UNKNOWN[2]), None] {
            assert!(program.init(uri) > 0);
            assert!(program.stat("/in-lab").is_ok(), "{uri:?} selects the store for 2009");
        }
        assert!(program.init(Some(b"main")) > 0);
        assert!(program.stat("/in-lab").is_err(), "a configured store's name selects that one");
    }
}

#[test]
fn a_store_for_2009_that_is_not_served_is_refused_at_the_start() {
    let mut config = config(Arc::new(MemoryStore::new("tester")));
    config.service_2009 = Service2009 { store: Some("lab".into()), ..Service2009::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bound = runtime.block_on(strait_gateway::Gateway::bind("127.0.0.1:0".parse().unwrap(), config));
    let error = bound.err().expect("refused").to_string();
    assert!(error.contains("lab") && error.contains("main"), "{error}");
}

/// The log's contents.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[test]
fn init_logs_which_store_it_selected_and_which_flag_is_missing() {
    let log = Log::default();
    // For every thread, since a gateway's threads belong to its runtime.
    tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).init();
    let (alone, several) = (serve(), two_stores(None));
    for served in [&alone, &several] {
        let mut program = Program::connect(served, Generation::Later);
        program.init(Some(b"sector://master:6000"));
        program.init(Some(b"a\x1b[2J\nb"));
    }
    let told = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines = |part: &str| told.lines().filter(|line| line.contains(part)).count();
    assert!(lines("sector://master:6000") >= 2, "{told}");
    assert!(told.lines().any(|line| line.contains("sector://") && line.contains("--store-2009")), "{told}");
    assert!(told.lines().any(|line| line.contains("sector://") && line.contains("main")), "{told}");
    assert!(!told.contains('\x1b') && told.contains(r"\u{1b}[2J\nb"), "{told}");
}

#[test]
fn relative_paths_begin_at_the_users_directory() {
    both(|mut program| {
        assert!(program.stat("x").is_err() && program.stat(".").is_err(), "there is no home yet");
        assert!(program.list(".").is_err());
        program.put("./input/from_local.dat", b"data");
        assert_eq!(program.get("/user/tester/input/from_local.dat").unwrap(), "data");
        assert!(program.mkdir("testdir").unwrap());
        assert!(program.stat("/user/tester/testdir").unwrap().isdir.unwrap());
        let mut listed = names(program.list(".").unwrap());
        listed.sort();
        assert_eq!(listed, ["input", "testdir"]);
        assert!(program.rename("input/from_local.dat", "./x").unwrap());
        assert!(program.stat("../tester/x").is_ok());
        assert!(program.remove("x").unwrap());
        assert!(program.stat("../../..").unwrap_err().contains("above the root"));
        assert!(program.stat("hdfs://nn:9000/x").unwrap_err().contains("URI"));
    });
}

#[test]
fn file_status_has_the_last_name() {
    both(|mut program| {
        program.put("/a/b/f", b"data");
        assert_eq!(program.stat("/a/b/f").unwrap().path.as_deref(), Some("f"));
        assert_eq!(program.stat("/a/b").unwrap().path.as_deref(), Some("b"));
        assert_eq!(program.stat("/").unwrap().path.as_deref(), Some(""));
        assert_eq!(names(program.list("/a").unwrap()), ["b"]);
        assert_eq!(names(program.list("/a/b").unwrap()), ["f"]);
        assert_eq!(names(program.list("/a/b/f").unwrap()), ["f"], "a file's list is itself");
        assert!(program.list("/a/none").is_err());
    });
    let served = serve();
    let mut program = Program::start(&served, Generation::Later);
    program.put("/a/f", b"data");
    let mut today = served.session();
    let request = GetFileInfoRequest { path: Some("/a/f".into()), ..Default::default() };
    let info = today.v2::<methods::GetFileInfo>(request).unwrap().info.unwrap();
    assert_eq!(info.path.as_deref(), Some("/a/f"), "DfsV2 has the whole path");
}

#[test]
fn close_of_a_handle_that_is_not_open_is_false() {
    both(|mut program| {
        let dh = program.open("/f", WRITE).unwrap();
        assert!(program.close(&dh).unwrap());
        assert!(!program.close(&dh).unwrap(), "closed before");
        assert!(!program.close(&DfsHandle { id: Some(-1) }).unwrap());
        assert!(!program.close(&DfsHandle { id: None }).unwrap());
    });
}

#[test]
fn write_to_a_handle_for_reading_is_false() {
    both(|mut program| {
        program.put("/f", b"data");
        let dh = program.open("/f", READ).unwrap();
        assert!(!program.write(&dh, b"more", -1).unwrap());
        assert!(!program.write(&dh, b"more", 4).unwrap());
        assert_eq!(program.read(&dh, 0, 100).unwrap(), "data", "and writes nothing");
    });
}

#[test]
fn remove_of_a_missing_file_is_false() {
    both(|mut program| {
        assert!(!program.remove("/none").unwrap());
        assert!(!program.remove("none/at/all").unwrap());
    });
}

#[test]
fn an_unknown_client_is_served_by_the_connections_session() {
    both(|mut program| {
        let known = program.ch.replace(ClientHandle { id: Some(4711) });
        assert!(program.mkdir("/d/e").unwrap());
        assert!(program.stat("/d").is_ok());
        assert_eq!(names(program.list("/d").unwrap()), ["e"]);
        assert!(program.rename("/d/e", "/d/f").unwrap());
        assert!(program.remove("/d/f").unwrap());
        assert!(!program.plain::<methods::Logout>() && !program.plain::<methods::CloseClient>());
        program.ch = known;
        assert!(program.plain::<methods::CloseClient>(), "the session itself is as it was");
    });
}

#[test]
fn each_client_of_a_connection_stays_on_its_store() {
    for generation in [Generation::Early, Generation::Later] {
        let served = two_stores(Some("main"));
        let mut program = Program::connect(&served, generation);
        program.init(Some(b"lab"));
        let lab = program.ch.clone();
        assert!(program.mkdir("/same").unwrap());
        let handle = program.open("/same/lab", WRITE).unwrap();
        program.init(Some(b"main"));
        assert!(program.mkdir("/same").unwrap());
        if generation == Generation::Later {
            let main = std::mem::replace(&mut program.ch, lab.clone());
            assert!(program.write(&handle, b"more", -1).unwrap() && program.close(&handle).unwrap());
            assert!(program.remove("/same").is_err(), "it isn't empty in the first store");
            assert!(program.plain::<methods::CloseClient>());
            assert!(
                program.stat("/same").is_err() && !program.remove("/same").unwrap(),
                "its client has ended"
            );
            program.ch = main;
        }
        assert!(program.stat("/same").is_ok(), "in the second store");
    }
}

#[test]
fn an_unknown_client_without_a_session_gets_false_or_an_exception() {
    for generation in [Generation::Early, Generation::Later] {
        let served = serve();
        let mut program = Program::connect(&served, generation);
        for ch in [Some(ClientHandle { id: Some(4711) }), Some(ClientHandle { id: Some(-1) }), None] {
            program.ch = ch;
            assert!(!program.mkdir("/d").unwrap());
            assert!(!program.rename("/d", "/e").unwrap() && !program.remove("/d").unwrap());
            assert!(program.stat("/").is_err() && program.list("/").is_err());
            assert!(program.open("/f", WRITE).is_err());
            let dh = DfsHandle { id: Some(1) };
            assert!(!program.close(&dh).unwrap());
            assert!(program.read(&dh, 0, 1).is_err());
            assert!(program.write(&dh, b"x", -1).is_err(), "not false, which programs don't look at");
            assert!(!program.plain::<methods::Logout>() && !program.plain::<methods::CloseClient>());
        }
    }
}

#[test]
fn an_unknown_client_of_a_stranger_stays_a_stranger() {
    let served = serve_with(|config| config.access.anonymous = None);
    let mut program = Program::start(&served, Generation::Later);
    program.ch = Some(ClientHandle { id: Some(4711) });
    assert!(program.mkdir("/d").unwrap_err().contains("requires a login"));
}

#[test]
fn close_dfs_after_close_client_is_true() {
    both(|mut program| {
        assert!(program.plain::<methods::CloseClient>());
        assert!(program.close_dfs(false) && program.close_dfs(true));
        assert!(program.stat("/").is_err(), "the session has ended");
        assert!(program.init(None) > 0, "the server goes on");
        assert!(program.close_dfs(true) && program.close_dfs(false));
    });
}

#[test]
fn move_onto_a_directory_moves_into_it() {
    both(|mut program| {
        program.put("/f", b"data");
        assert!(program.mkdir("/d/e").unwrap());
        assert!(program.rename("/f", "/d").unwrap());
        assert_eq!(program.get("/d/f").unwrap(), "data");
        assert!(program.rename("/d/e", "/").unwrap(), "a directory, onto the root");
        assert!(program.stat("/e").unwrap().isdir.unwrap());
        program.put("/f", b"another");
        assert!(program.rename("/f", "/d").is_err(), "there is one of that name");
        assert!(program.rename("/d", "/d").is_err(), "into itself");
        assert_eq!(program.get("/d/f").unwrap(), "data");
        assert!(program.rename("/f", "/g").unwrap(), "a new name is a new name");
    });
}

#[test]
fn a_write_elsewhere_than_at_the_end_is_refused() {
    both(|mut program| {
        let dh = program.open("/f", WRITE).unwrap();
        assert!(program.write(&dh, b"01234567", -1).unwrap());
        for offset in [0, 7, 9, -2, i64::MIN] {
            let error = program.write(&dh, b"xx", offset).unwrap_err();
            assert!(error.contains("8"), "names the position: {error}");
        }
        assert!(program.write(&dh, b"89", 8).unwrap());
        assert!(program.close(&dh).unwrap());
        assert_eq!(program.get("/f").unwrap(), "0123456789");
    });
}

#[test]
fn write_offsets_are_ignored_where_the_operator_says_so() {
    for generation in [Generation::Early, Generation::Later] {
        let served = serve_with(|config| config.service_2009.ignore_write_offsets = true);
        let mut program = Program::start(&served, generation);
        let dh = program.open("/f", WRITE).unwrap();
        for (offset, piece) in [(0, b"01"), (0, b"23"), (100, b"45"), (-1, b"67")] {
            assert!(program.write(&dh, piece, offset).unwrap());
        }
        assert!(program.close(&dh).unwrap());
        assert_eq!(program.get("/f").unwrap(), "01234567", "in the order of the calls");
    }
}

#[test]
fn the_reports_field_ids_are_understood_beside_the_released_ones() {
    let served = serve();
    let mut program = Program::start(&served, Generation::Early);
    let dh = Some(program.open("/f", WRITE).unwrap());
    let args = SparseWrite { dh: dh.clone(), buf: Some("0123456789".into()), offset: Some(0), len: Some(8) };
    assert!(program.client.old::<WriteSparse>(args).unwrap());
    assert!(program.close(dh.as_ref().unwrap()).unwrap());
    let dh = Some(program.open("/f", READ).unwrap());
    for (offset, len, data) in [(-1, 2, "01"), (3, 4, "3456"), (-1, 2, "7"), (0, 1, "0"), (-1, 9, "1234567")]
    {
        let args = DenseRead { dh: dh.clone(), offset: Some(offset), len: Some(len) };
        assert_eq!(program.client.old::<ReadDense>(args).unwrap().0, data, "{offset}, {len}");
    }
}

#[test]
fn programs_without_the_version_word_are_answered_without_it() {
    for framed in [true, false] {
        let served = serve();
        let wire = Wire { protocol: Protocol::Unversioned, framed };
        for generation in [Generation::Early, Generation::Later] {
            let mut program = Program::connect(&served, generation);
            program.client = served.client_on(wire);
            assert!(program.init(Some(b"sector://master:6000")) > 0);
            let name = format!("{generation:?}");
            program.put(&name, b"data");
            assert_eq!(program.get(&name).unwrap(), "data");
            assert!(program.stat("none").is_err());
            assert!(program.plain::<methods::CloseClient>() && program.close_dfs(false));
        }
    }
}

#[test]
fn copies_name_the_users_paths() {
    for generation in [Generation::Early, Generation::Later] {
        let served = serve_with(|config| {
            let fs = Arc::new(MemoryStore::new("tester"));
            config.local_root = Some(LocalRoot { path: "/srv/exchange".into(), fs, umask: 0o022 });
        });
        let mut program = Program::start(&served, generation);
        program.put("/f", b"data");
        program.put("/file/of", b"data");
        let copy = |src: &str, dest: &str| CopyArgs { src: Some(src.into()), dest: Some(dest.into()) };
        let mut to_local = |src, dest| program.client.old::<methods::CopyToLocalFile>(copy(src, dest));
        assert!(to_local("/f", "/srv/exchange/sub/f").unwrap());
        for (src, dest, named) in [
            ("/none", "/srv/exchange/x", "/none"),
            ("/f", "/srv/exchange/sub", "/srv/exchange/sub"),
            ("/f", "/srv/exchange", "/srv/exchange"),
            ("/f", "/srv/exchange/sub/f/x", "/srv/exchange/sub/f/x"),
            ("/f", "/srv/elsewhere/f", "/srv/elsewhere/f"),
        ] {
            let error = to_local(src, dest).unwrap_err();
            assert!(error.contains(&format!("{named}:")) && !error.contains(".strait-copy"), "{error}");
        }
        let mut from_local = |src, dest| program.client.old::<methods::CopyFromLocalFile>(copy(src, dest));
        assert!(from_local("/srv/exchange/sub/f", "./input/f").unwrap(), "parents are made");
        for (src, dest, named) in [
            ("/srv/exchange/none", "/x", "/srv/exchange/none"),
            ("/srv/exchange/sub/f", "/f/x", "/f/x"),
            ("/srv/exchange/sub/f", "/file", "/file"),
            ("/srv/exchange/sub/f", "/f/x/y", "/f/x/y"),
        ] {
            let error = from_local(src, dest).unwrap_err();
            assert!(error.contains(&format!("{named}:")) && !error.contains(".strait-copy"), "{error}");
        }
        assert_eq!(program.get("/user/tester/input/f").unwrap(), "data");
    }
    let served = serve();
    let mut program = Program::start(&served, Generation::Later);
    let args = CopyArgs { src: Some("/f".into()), dest: Some("/tmp/f".into()) };
    let error = program.client.old::<methods::CopyToLocalFile>(args).unwrap_err();
    assert!(error.contains("/tmp/f") && error.contains("--local-root"), "{error}");
}
