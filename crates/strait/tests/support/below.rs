//! Targets below a file, which no store can have.

use crate::support::Run;

const NOT_A_DIRECTORY: i32 = 12;

/// Fails unless each command that needs a directory names the file that stands in its place, and advises no `mkdir`.
/// `run` gets a command line and standard input, and `uri` makes a path of the empty directory `directory` a URI.
pub fn are_refused(run: impl Fn(&[&str], &[u8]) -> Run, uri: impl Fn(&str) -> String) {
    let (file, other) = (uri("/file"), uri("/other"));
    run(&["put", "-", &file], b"content").ok();
    run(&["put", "-", &other], b"").ok();
    for target in [uri("/file/below"), uri("/file/below/it")] {
        for (command, input) in [
            (&["put", "-f", "-", &target][..], &b"x"[..]),
            (&["put", "-", &format!("{target}/")], b"x"),
            (&["touch", &target], b""),
            (&["mkdir", &target], b""),
            (&["mkdir", "-p", &target], b""),
            (&["mv", &other, &target], b""),
        ] {
            let refused = run(command, input);
            refused.fails(NOT_A_DIRECTORY, "below");
            let advises = ["mkdir -p", "-p makes"].iter().any(|advice| refused.stderr.contains(advice));
            assert!(!advises, "{command:?}: {}", refused.stderr);
            let names = refused.stderr.contains("/file is a file");
            // The store's own message names the target alone.
            let is_by_store = command[0] == "mv" || command.contains(&"-p");
            assert!(names || is_by_store, "{command:?}: {}", refused.stderr);
        }
    }
    assert_eq!(run(&["cat", &file], b"").text(), "content");
}
