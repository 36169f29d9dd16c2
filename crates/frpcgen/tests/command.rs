//! The command, as `docs/flexrpc.md` shows it.

use std::fs;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/flexrpc.md");

#[test]
fn by_hand_comes_what_a_build_script_gets() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("by-hand");
    let _ = fs::remove_dir_all(&directory);
    for part in ["idl", "src"] {
        fs::create_dir_all(directory.join(part)).expect("a directory");
    }
    let interface = directory.join("idl/kv.x");
    fs::copy("../../tests/idl/idl/kv.x", &interface).expect("the interface");
    let line = PAGE.lines().find_map(|line| line.strip_prefix("frpcgen ")).expect("the page's command");
    let output = Command::new(env!("CARGO_BIN_EXE_frpcgen"))
        .args(line.split_whitespace())
        .current_dir(&directory)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = fs::read_to_string(directory.join("src/kv.rs")).expect("what it wrote");
    assert_eq!(written, frpcgen::Builder::default().generate(interface).expect("a sound interface").code);
}
