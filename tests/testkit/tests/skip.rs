//! A test that lacks a tool is skipped and counted. In CI it fails.

use std::process::{Command, Output};

/// If it is set, `a_claim` lacks a tool.
const LACKING: &str = "STRAIT_TEST_LACKS_A_TOOL";

#[test]
fn a_claim() {
    if std::env::var_os(LACKING).is_some() {
        strait_testkit::skip("a claim", "a tool");
    }
}

/// Runs `a_claim` without its tool, as cargo does: with its output captured.
fn without_the_tool(ci: Option<&str>) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_claim"]).env(LACKING, "1").env_remove("CI").envs(ci.map(|ci| ("CI", ci)));
    command.output().unwrap()
}

#[test]
fn a_test_without_its_tool_passes_with_a_line_that_is_counted() {
    for ci in [None, Some("false")] {
        let output = without_the_tool(ci);
        assert!(output.status.success(), "{output:?}");
        let lines = String::from_utf8(output.stderr).unwrap();
        assert_eq!(lines, "a claim: 0 passed, 1 skipped (it needs a tool)\n");
    }
}

#[test]
fn a_test_without_its_tool_fails_in_ci() {
    let output = without_the_tool(Some("true"));
    assert!(!output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("a claim: CI may skip nothing; it lacks a tool"), "{told}");
    assert!(!String::from_utf8(output.stderr).unwrap().contains("skipped"), "and isn't counted as skipped");
}
