//! The REST face under programs that others wrote (`tests/rest`): curl, wget, aria2c, Python's HTTP
//! clients, schemathesis, and pages in a browser.

use crate::support::{Gateway, Run, command, fresh};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use strait_testkit::wait::eventually;
use strait_testkit::{Authority, free_port, http_request};

/// Inputs of schemathesis for each request. A hundred found no more.
const EXAMPLES: &str = "15";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn python(script: &str) -> Command {
    let mut python = Command::new(root().join(".venv/bin/python"));
    python.arg(root().join("tests/rest").join(script));
    python
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Adds a user whose password is secret.
fn add_user(dir: &Path, user: &str) {
    let mut passwd = command(dir);
    passwd.current_dir(dir).args(["passwd", "--file", "passwords", user]);
    Run::of(passwd, b"secret\n").ok();
}

/// A gateway with the user ann, whose password is secret.
fn with_login() -> Gateway {
    Gateway::start(|dir| {
        add_user(dir, "ann");
        let store = format!("file://{}", fresh(dir, "data").display());
        let passwords = dir.join("passwords").display().to_string();
        ["--store", &store, "--passwords", &passwords].map(str::to_owned).to_vec()
    })
}

#[test]
fn programs_of_others_write_read_resume_and_list() {
    let gateway = with_login();
    let output =
        python("foreign.py").args([&format!("http://{}", gateway.address), "ann", "secret"]).output();
    let output = output.unwrap();
    let told = text(&output);
    println!("{told}");
    assert!(output.status.success(), "{told}\nscripts/setup.sh test installs what it needs");
    assert!(told.lines().count() >= 10 && !told.contains("WRONG"), "{told}");
}

#[test]
fn a_client_generated_from_the_description_reaches_all_paths() {
    let gateway = with_login();
    let url = format!("http://{}", gateway.address);
    let output = python("generated.py").args([&url, "ann", "secret"]).output().unwrap();
    let told = text(&output);
    println!("{told}");
    assert!(output.status.success(), "{told}\nscripts/setup.sh test installs what it needs");
    assert!(told.lines().count() >= 7 && !told.contains("WRONG"), "{told}");
}

#[test]
fn curl_uses_tls_and_a_new_certificate_is_taken_up_while_serving() {
    let (first, second) = (Authority::new().unwrap(), Authority::new().unwrap());
    let gateway = Gateway::start(|dir| {
        let identity = first.issue(dir).unwrap();
        let store = format!("file://{}", fresh(dir, "data").display());
        let files = [&identity.certificate, &identity.key].map(|file| file.display().to_string());
        ["--store", &store, "--allow-anonymous", "--tls-cert", &files[0], "--tls-key", &files[1]]
            .map(str::to_owned)
            .to_vec()
    });
    let trusting = |authority: &Authority, arguments: &[&str]| {
        let ca = authority.write(&fresh(gateway.dir.path(), "trusted")).unwrap();
        let url = format!("https://{}/v1/files/f", gateway.address);
        let mut curl = Command::new("curl");
        curl.args(["-sSf", "--cacert"]).arg(ca).args(arguments).arg(url).output().unwrap()
    };
    assert!(trusting(&first, &["-X", "PUT", "-d", "by TLS"]).status.success());
    assert_eq!(trusting(&first, &[]).stdout, b"by TLS");
    second.issue(gateway.dir.path()).unwrap();
    eventually("the second certificate is shown", || trusting(&second, &[]).stdout == b"by TLS");
    assert!(!trusting(&first, &[]).status.success(), "and the first no longer");
}

/// The token of a login, by the same face.
fn token(gateway: &Gateway) -> String {
    let mut curl = Command::new("curl");
    let login = r#"{"user":"ann","password":"secret"}"#;
    curl.args(["-sSf", "--json", login, &format!("http://{}/v1/sessions", gateway.address)]);
    let answer: serde_json::Value = serde_json::from_slice(&curl.output().unwrap().stdout).unwrap();
    answer["token"].as_str().unwrap().to_owned()
}

#[test]
fn the_server_is_as_its_description_says() {
    let gateway = with_login();
    let mut schemathesis = Command::new(root().join(".venv/bin/schemathesis"));
    schemathesis.current_dir(gateway.dir.path());
    schemathesis.arg("run").arg(format!("http://{}/openapi.json", gateway.address));
    schemathesis.args(["--header", &format!("Authorization: Bearer {}", token(&gateway))]);
    schemathesis.args(["--max-examples", EXAMPLES, "--seed", "1", "--no-color"]);
    // Paths come at random, so most of them lead nowhere; and a logout would end the login.
    schemathesis.args(["--exclude-checks", "positive_data_acceptance"]);
    schemathesis.args(["--exclude-operation-id", "closeSession"]);
    let output = schemathesis.output().unwrap();
    assert!(output.status.success(), "{}\nscripts/setup.sh test installs it", text(&output));
}

#[test]
#[ignore = "takes two browsers: make test-heavy"]
fn pages_of_other_sites_can_do_nothing_and_an_allowed_one_all() {
    for browser in ["chromium", "firefox"] {
        pages_of_other_sites_in(browser);
    }
}

fn pages_of_other_sites_in(browser: &str) {
    let (pages, rebound, metrics) = (free_port(), free_port(), free_port());
    let metrics = format!("127.0.0.1:{metrics}");
    let gateway = Gateway::start(|dir| {
        let data = fresh(dir, "data");
        std::fs::write(data.join("secret"), "alert('run')").unwrap();
        let (store, origin) = (format!("file://{}", data.display()), format!("http://app.example:{pages}"));
        ["--store", &store, "--allow-anonymous", "--http-origin", &origin, "--metrics", &metrics]
            .map(str::to_owned)
            .to_vec()
    });
    let port = gateway.address.rsplit_once(':').unwrap().1;
    let mut script = python("browser.py");
    script.args([browser, port]).args([pages, rebound].map(|port| port.to_string()));
    let output = script.output().unwrap();
    assert!(output.status.success(), "{}\nscripts/setup.sh browser installs what it needs", text(&output));
    let told = String::from_utf8_lossy(&output.stdout);
    println!("{browser}:\n{told}");
    let outcomes: BTreeMap<&str, &str> = told.lines().filter_map(|line| line.rsplit_once(": ")).collect();
    for (attempt, outcome) in &outcomes {
        let expected = match attempt.split_once(": ").unwrap() {
            ("stranger", _) => ["failed", "opaque"].contains(outcome),
            ("rebinder", _) => *outcome == "status 403",
            ("allowed", "put") => *outcome == "201",
            ("allowed", "get") => *outcome == "by a page",
            ("allowed", "range") => *outcome == "page",
            ("allowed", "tag") => *outcome == "34",
            ("allowed", "list") => *outcome == "2",
            ("allowed", "remove") => *outcome == "204",
            _ => false,
        };
        assert!(expected, "{browser}: {attempt}: {outcome}");
    }
    assert!(outcomes.len() > 25, "{told}");
    let data = gateway.dir.path().join("data");
    let left: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["secret"], "a page has changed something");
    // A refused request is no call. The pages of the allowed origin made these.
    let page = http_request("GET", &metrics, "/metrics").unwrap().body;
    let calls = |operation: &str| {
        let of = format!("operation=\"{operation}\"");
        let line =
            page.lines().find(|line| line.starts_with("strait_call_seconds_count") && line.contains(&of));
        line.and_then(|line| line.rsplit_once(' ')).map_or("0", |(_, count)| count).to_owned()
    };
    for (operation, count) in [
        ("GET files", "3"),
        ("HEAD files", "0"),
        ("PUT files", "1"),
        ("PATCH files", "0"),
        ("DELETE files", "1"),
        ("GET directories", "1"),
        ("POST renames", "0"),
        ("init", "0"),
    ] {
        assert_eq!(calls(operation), count, "{operation}\n{page}");
    }
}
