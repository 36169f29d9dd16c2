//! Walks down a tree don't leave it by a symbolic link.

use crate::support::{Gateway, Run, command, fresh};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

const INVALID_ARGUMENT: i32 = 17;

/// Makes a tree with a file, a circle, and links to a file and a directory beside it. Returns the
/// tree.
fn planted(data: &Path) -> PathBuf {
    let (tree, beside) = (fresh(data, "tree"), fresh(data, "beside"));
    std::fs::write(tree.join("file"), "content").unwrap();
    std::fs::write(beside.join("secret"), "secret").unwrap();
    symlink(".", tree.join("loop")).unwrap();
    symlink("../beside", tree.join("away")).unwrap();
    symlink("../beside/secret", tree.join("alias")).unwrap();
    tree
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

/// Runs `check` with the URI of the store's directory `data`: directly, and through a gateway.
fn both_ways(check: impl Fn(&dyn Fn(&[&str]) -> Run, &Path, &str)) {
    let gateway = Gateway::over_files();
    check(&|args| gateway.run(args), &gateway.data(), &gateway.uri(""));
    let dir = tempfile::tempdir().unwrap();
    let data = fresh(dir.path(), "data");
    let run = |args: &[&str]| {
        let mut strait = command(dir.path());
        strait.args(args);
        Run::of(strait, b"")
    };
    check(&run, &data, &format!("file://{}", data.display()));
}

#[test]
fn chmod_of_a_tree_passes_links_over() {
    both_ways(|run, data, root| {
        let tree = planted(data);
        let before = (mode(&data.join("beside")), mode(&data.join("beside/secret")));
        run(&["chmod", "-R", "700", &format!("{root}/tree")]).ok();
        assert_eq!(mode(&tree.join("file")), 0o700);
        assert_eq!((mode(&data.join("beside")), mode(&data.join("beside/secret"))), before);
        // A link that the user names is followed.
        run(&["chmod", "711", &format!("{root}/tree/alias")]).ok();
        assert_eq!(mode(&data.join("beside/secret")), 0o711);
    });
}

#[test]
fn a_listing_shows_links_to_directories_and_stays_out_of_them() {
    both_ways(|run, data, root| {
        planted(data);
        for flags in ["-RC", "-RCU"] {
            let listed = run(&["ls", flags, &format!("{root}/tree")]);
            let mut names: Vec<_> = listed
                .text()
                .lines()
                .filter_map(|line| line.split_once("/tree/"))
                .map(|(_, name)| name)
                .collect();
            names.sort_unstable();
            assert_eq!(names, ["alias", "away", "file", "loop"]);
        }
    });
}

#[test]
fn put_of_a_tree_says_which_links_it_left_out_and_why() {
    both_ways(|run, data, root| {
        let tree = planted(data.parent().unwrap());
        symlink("nowhere", tree.join("dangling")).unwrap();
        let put = run(&["put", tree.to_str().unwrap(), &format!("{root}/copy")]);
        assert_eq!(put.code, INVALID_ARGUMENT, "{}", put.stderr);
        assert_eq!(put.stderr.matches("skipped: a link to a directory").count(), 2, "{}", put.stderr);
        assert_eq!(put.stderr.matches("skipped: a link that leads to no file").count(), 1, "{}", put.stderr);
        assert_eq!(std::fs::read(data.join("copy/alias")).unwrap(), b"secret");
        assert_eq!(data.join("copy").read_dir().unwrap().count(), 2);
    });
}

#[test]
fn get_of_a_tree_says_which_links_it_left_out() {
    both_ways(|run, data, root| {
        planted(data);
        let copy = data.parent().unwrap().join("copy");
        let got = run(&["get", &format!("{root}/tree"), copy.to_str().unwrap()]);
        assert_eq!(got.code, INVALID_ARGUMENT, "{}", got.stderr);
        assert_eq!(got.stderr.matches("skipped: a link to a directory").count(), 2, "{}", got.stderr);
        assert_eq!(std::fs::read(copy.join("alias")).unwrap(), b"secret");
        assert_eq!(std::fs::read(copy.join("file")).unwrap(), b"content");
        assert_eq!(copy.read_dir().unwrap().count(), 2);
    });
}
