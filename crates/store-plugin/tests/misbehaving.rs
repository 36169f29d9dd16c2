//! Plugins that misbehave, in this process.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use strait_store::foreign::Foreign;
use strait_store::{ErrorKind, FileSystem, Principal, Result, StorePath};
use strait_store_plugin::{Place, Plugin, Spec};

fn built(directory: &Path) -> PathBuf {
    built_of("misbehaving", directory)
}

fn built_of(name: &str, directory: &Path) -> PathBuf {
    let (sources, library) =
        (Path::new(env!("CARGO_MANIFEST_DIR")), directory.join(name).with_extension("so"));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Wno-cast-function-type", "-shared", "-fPIC", "-pthread", "-I"]);
    let source = sources.join("tests").join(name).with_extension("c");
    cc.arg(sources.join("include")).arg(source).arg("-o").arg(&library);
    assert!(cc.status().unwrap().success());
    library
}

#[test]
fn a_thread_outlives_a_plugin_that_left_a_destructor_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let library = built(directory.path());
    let opened = std::thread::spawn(move || Plugin::open(&library, "x://refuses", &[]).map(drop));
    // The thread's end calls the destructor.
    assert_eq!(opened.join().unwrap().unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn a_plugin_without_a_needed_function_closes_its_store() {
    let directory = tempfile::tempdir().unwrap();
    let closed = directory.path().join("closed");
    let options = [("closed".to_owned(), closed.to_str().unwrap().to_owned())];
    let refused = Plugin::open(&built(directory.path()), "x://lacks", &options).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    let why = "plugin x: the plugin declares STRAIT_APPEND, but lacks the function append";
    assert_eq!(refused.message(), why);
    assert!(closed.exists());
}

#[test]
fn bytes_that_a_plugin_didnt_write_are_zeros() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::open(&built(directory.path()), "x://reads", &[]).unwrap();
    let reader = plugin.open(&Principal::new("ada"), "/f").unwrap();
    // The allocator gives freed memory again.
    drop(vec![b'!'; 4096]);
    assert_eq!(reader.read(0, 4096).unwrap(), [0; 4096]);
}

/// Fails unless the call returned an impossible value.
#[track_caller]
fn is_nonsense<T: Debug>(result: Result<T>, why: &str) {
    let refused = result.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Internal, "{refused}");
    assert!(refused.to_string().contains(why), "{refused}");
}

#[test]
fn a_later_versions_plugin_works_and_its_nonsense_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::open(&built_of("nonsense", directory.path()), "x://", &[]).unwrap();
    let who = Principal::new("ada");
    assert!(plugin.capabilities().append && plugin.capabilities().per_user);
    assert_eq!(plugin.stat(&who, "/f").unwrap().length, 0);
    assert_eq!(plugin.truncate(&who, "/f", 0).unwrap_err().kind(), ErrorKind::Unsupported);
    is_nonsense(plugin.stat(&who, "/mode"), "an impossible permission 0o10000 for /mode");
    let block_size = "an impossible block size 18446744073709551615 for /block_size";
    is_nonsense(plugin.stat(&who, "/block_size"), block_size);
    is_nonsense(plugin.stat(&who, "/end"), "100, a result that strait_store.h doesn't allow");
    is_nonsense(plugin.open(&who, "/f").map(drop), "an impossible length");
    is_nonsense(plugin.append(&who, "/f").map(drop), "an impossible position");
    is_nonsense(plugin.block_locations(&who, "/f", 0..9), "impossible blocks");
    is_nonsense(plugin.checksum(&who, "/f"), "a checksum of an impossible size");
    assert_eq!(plugin.status(&who).unwrap().capacity, i64::MAX as u64, "without a limit");
    let checksum = plugin.checksum(&who, "/kind").unwrap();
    assert_eq!((checksum.algorithm.as_str(), checksum.value.len()), ("k".repeat(64).as_str(), 4));
}

#[test]
fn calls_that_dont_return_take_no_more_threads_than_the_limit_and_no_removal_is_endless() {
    let directory = tempfile::tempdir().unwrap();
    let spec = Spec {
        kind: "plugin".to_owned(),
        library: built_of("nonsense", directory.path()).to_str().unwrap().to_owned(),
        uri: "x://".to_owned(),
        options: Vec::new(),
    };
    let place = Place { apart: None, patience: Duration::from_secs(1) };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let opener = |spec: &Spec| -> Result<Arc<dyn Foreign>> {
            Ok(Arc::new(Plugin::open(Path::new(&spec.library), &spec.uri, &spec.options)?))
        };
        let store = strait_store_plugin::open(spec, place, opener).await.unwrap();
        let (who, hang) = (Principal::new("ada"), StorePath::parse("/hang").unwrap());
        let tree = StorePath::parse("/tree").unwrap();
        let endless = store.remove(&who, &tree, true).await.unwrap_err();
        assert_eq!(endless.kind(), ErrorKind::Busy, "{endless}");
        assert!(endless.to_string().contains("/tree/again: it is still listed"), "{endless}");
        let hung = (0..70).map(|_| store.stat(&who, &hang));
        let ended = futures::future::join_all(hung).await;
        let count = |kind| ended.iter().filter(|it| it.as_ref().is_err_and(|it| it.kind() == kind)).count();
        assert_eq!((count(ErrorKind::TimedOut), count(ErrorKind::Unavailable)), (64, 6), "{ended:?}");
        let refused = store.stat(&who, &StorePath::parse("/f").unwrap()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        assert!(refused.to_string().contains("64 calls of the library don't return"), "{refused}");
    });
    // The hung threads can't be joined.
    runtime.shutdown_background();
}
