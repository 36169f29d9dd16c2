//! Apache Thrift's own libraries of three languages (`tests/wires`) call one gateway on every wire: each
//! protocol, over TCP and HTTP, with and without TLS, by both services.

use crate::support::{Gateway, fresh};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use strait_testkit::Authority;

const PROTOCOLS: [&str; 3] = ["binary", "compact", "json"];
const TRANSPORTS: [&str; 3] = ["unframed", "framed", "http"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the C++ and Java programs.
fn built() -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wires");
    let mut make = Command::new("make");
    make.args(["-s", "-j2", "-C"]).arg(root().join("tests/wires")).arg(format!("OUT={}", out.display()));
    let made = make.env_remove("MAKEFLAGS").output().expect("make runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}\nscripts/setup.sh test installs what the build needs");
    out
}

fn gateway() -> Gateway {
    let ca = Authority::new().unwrap();
    Gateway::start(|dir| {
        let identity = ca.issue(dir).unwrap();
        ca.write(dir).unwrap();
        let store = format!("file://{}", fresh(dir, "data").display());
        let (certificate, key) =
            (identity.certificate.display().to_string(), identity.key.display().to_string());
        let flags = ["--store", &store, "--allow-anonymous", "--tls-cert", &certificate, "--tls-key", &key];
        flags.map(str::to_owned).to_vec()
    })
}

/// The cells that a program printed, and each one's outcome.
fn cells(output: &Output) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(&output.stdout);
    let cell = |line: &str| {
        let words: Vec<_> = line.splitn(6, ' ').collect();
        (words[..5].join(" "), words[5].to_owned())
    };
    text.lines().map(cell).collect()
}

#[test]
fn apaches_libraries_call_on_every_wire() {
    let (out, gateway) = (built(), gateway());
    let (host, port) = gateway.address.split_once(':').unwrap();
    let ca = gateway.dir.path().join("ca.pem");
    let classpath = std::fs::read_to_string(out.join("classpath")).unwrap();
    let mut python = Command::new(root().join(".venv/bin/python"));
    python.arg(root().join("tests/wires/wires.py")).env("PYTHONPATH", root().join("clients/python/src"));
    let mut java = Command::new("java");
    java.arg("-cp").arg(format!("{}:{}", out.join("classes").display(), classpath.trim())).arg("Wires");
    let mut found = BTreeMap::new();
    for (language, mut program) in
        [("python", python), ("cpp", Command::new(out.join("wires"))), ("java", java)]
    {
        let output = program.args([host, port]).arg(&ca).output().unwrap();
        assert!(output.status.success(), "{language}: {}", String::from_utf8_lossy(&output.stderr));
        found.extend(cells(&output));
    }
    let mut wrong = Vec::new();
    println!(
        "{:9}{:10}{:7}{:6}{:>8}{:>8}{:>8}",
        "protocol", "transport", "tls", "api", "python", "cpp", "java"
    );
    for protocol in PROTOCOLS {
        for transport in TRANSPORTS {
            for tls in ["plain", "tls"] {
                for generation in ["2009", "v2"] {
                    print!("{protocol:9}{transport:10}{tls:7}{generation:6}");
                    for language in ["python", "cpp", "java"] {
                        let cell = format!("{language} {protocol} {transport} {tls} {generation}");
                        let outcome = found.get(&cell).map_or("missing", String::as_str);
                        print!("{:>8}", outcome.split(' ').next().unwrap_or_default());
                        if outcome != "ok" {
                            wrong.push(format!("{cell}: {outcome}"));
                        }
                    }
                    println!();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
