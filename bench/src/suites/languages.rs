//! Each client reads and writes one file from its beginning to its end, by pieces of 1 MiB that stay in memory. One
//! gateway serves a directory in memory (`/dev/shm`), so that no disk hides the clients' own work. The limits:
//!
//! - clients that keep several requests in flight: the speed of the C++ client;
//! - clients with one request in flight: the same calls without the client, one after the other, by Thrift's runtime
//!   for the language, or over the language's plain sockets;
//! - reads over TLS: a bare stream of as many bytes from a rustls server, by the TLS library that the client uses.
//!
//! `bench/languages` has the programs. Both programs of a pair connect before they are measured. So the start of a
//! process doesn't count, nor does a login. The compilation of hot code by a virtual machine counts for both.
//!
//! - `STRAIT_BENCH_MIB`: the file's size, 1,024 MiB by default. Then each run takes some seconds at most.
//! - `STRAIT_BENCH_RUNS`: 7 by default.
//! - `STRAIT_BENCH_LANGUAGES`: names of the table below, with commas between; by default all whose toolchains are
//!   installed.
//! - `STRAIT_BENCH_DIR`: where the store's directory lies, instead of `/dev/shm`.

use crate::Result;
use crate::bare_tls;
use crate::host::{Gateway, make_file, setting};
use crate::pairs::interleave;
use crate::report::{Better, Compared, Row};
use crate::stages::staged;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use strait_testkit::Authority;

/// Exit code of `build.sh` if a toolchain is missing.
const NO_TOOLCHAIN: i32 = 3;
/// The files in the store.
const TO_READ: &str = "read";
const WRITTEN: &str = "written";
const BARE_WANTED: f64 = 0.9;
const TLS_WANTED: f64 = 0.8;

struct Language {
    name: &'static str,
    /// Its name for `build.sh`.
    directory: &'static str,
    limit: Limit,
    /// The client's TLS library, if reads over TLS are measured.
    tls: Option<&'static str>,
}

enum Limit {
    /// None beside TLS: it is the limit of others.
    None,
    /// The C++ client; the wanted ratio, if there is one.
    Cpp(Option<f64>),
    /// Bare calls, in words.
    Bare(&'static str),
}

const THRIFT: &str = "bare calls by Thrift's runtime";
const SOCKETS: &str = "bare calls over a socket";

#[rustfmt::skip] // a table
const LANGUAGES: [Language; 17] = [
    Language { name: "C++", directory: "cpp", limit: Limit::None, tls: Some("OpenSSL") },
    Language { name: "Go", directory: "go", limit: Limit::Cpp(Some(0.95)), tls: Some("crypto/tls") },
    Language { name: "Rust", directory: "rust", limit: Limit::Cpp(Some(0.95)), tls: Some("rustls") },
    Language { name: "C", directory: "c", limit: Limit::Cpp(Some(0.95)), tls: Some("rustls") },
    Language { name: "Node", directory: "node", limit: Limit::Cpp(Some(0.7)), tls: Some("node:tls") },
    Language { name: "Java", directory: "java", limit: Limit::Cpp(None), tls: Some("SSLSocket") },
    Language { name: "Python", directory: "python", limit: Limit::Cpp(None), tls: Some("ssl") },
    Language { name: "Kotlin", directory: "kotlin", limit: Limit::Bare(THRIFT), tls: None },
    Language { name: "C#", directory: "csharp", limit: Limit::Bare(SOCKETS), tls: None },
    Language { name: "Ruby", directory: "ruby", limit: Limit::Bare(THRIFT), tls: None },
    Language { name: "Perl", directory: "perl", limit: Limit::Bare(THRIFT), tls: None },
    Language { name: "PHP", directory: "php", limit: Limit::Bare(THRIFT), tls: None },
    Language { name: "Erlang", directory: "erlang", limit: Limit::Bare(THRIFT), tls: None },
    Language { name: "OCaml", directory: "ocaml", limit: Limit::Bare(SOCKETS), tls: None },
    Language { name: "Haskell", directory: "haskell", limit: Limit::Bare(SOCKETS), tls: None },
    Language { name: "Objective-C", directory: "objc", limit: Limit::Bare(SOCKETS), tls: None },
    Language { name: "Smalltalk", directory: "smalltalk", limit: Limit::Bare(SOCKETS), tls: None },
];
const CPP: &Language = &LANGUAGES[0];

pub fn run() -> Result<Vec<Row>> {
    let runs = setting("STRAIT_BENCH_RUNS", 7)?;
    let site = Site::start(setting("STRAIT_BENCH_MIB", 1_024)?)?;
    let mut languages = Vec::new();
    for language in chosen()? {
        if build(language)? {
            languages.push(language);
        }
    }
    if languages.iter().any(|language| matches!(language.limit, Limit::Cpp(_))) && !build(CPP)? {
        return Err("the clients' limit is the C++ client, and CMake is missing".into());
    }
    let mut rows = Vec::new();
    for language in &languages {
        for action in ["read", "write"] {
            rows.extend(site.against_limit(language, action, runs)?);
        }
    }
    for language in &languages {
        rows.extend(site.against_stream(language, runs)?);
    }
    Ok(rows)
}

/// The languages that the environment asks for.
fn chosen() -> Result<Vec<&'static Language>> {
    let Ok(names) = std::env::var("STRAIT_BENCH_LANGUAGES") else { return Ok(LANGUAGES.iter().collect()) };
    let named = |name: &str| LANGUAGES.iter().find(|language| language.name == name);
    names.split(',').map(|name| named(name).ok_or_else(|| format!("no language {name:?}").into())).collect()
}

/// Where a language's programs are.
fn directory(language: &Language) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("").join("../bench/languages").join(language.directory))
}

/// Builds a language's programs; false if its toolchain isn't installed.
fn build(language: &Language) -> Result<bool> {
    eprintln!("building the programs in {}", language.name);
    let mut command = Command::new("bench/languages/build.sh");
    command
        .arg(language.directory)
        .arg(directory(language)?)
        .arg(std::env::current_exe()?.with_file_name(""));
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    match status.code() {
        Some(0) => Ok(true),
        Some(NO_TOOLCHAIN) => {
            eprintln!("languages: no rows of {}: its toolchain isn't installed", language.name);
            Ok(false)
        }
        _ => Err(format!("{command:?} failed: {status}").into()),
    }
}

/// A language's program of this name.
fn program(language: &Language, name: &str) -> Result<Command> {
    Ok(Command::new(directory(language)?.join(name)))
}

/// One gateway, its directory, and a server of bare TLS.
struct Site {
    mib: usize,
    gateway: Gateway,
    /// The address of the server of bare TLS.
    bare_tls: SocketAddr,
    /// The file with the certificate to trust.
    authority: PathBuf,
    store: tempfile::TempDir,
    _certificates: tempfile::TempDir,
}

impl Site {
    fn start(mib: usize) -> Result<Self> {
        let parent = std::env::var("STRAIT_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".to_owned());
        let (store, certificates) = (tempfile::tempdir_in(parent)?, tempfile::tempdir()?);
        make_file(&store.path().join(TO_READ), mib)?;
        let issuer = Authority::new()?;
        let authority = issuer.write(certificates.path())?;
        let identity = issuer.issue(certificates.path())?;
        let (certificate, key) =
            (identity.certificate.display().to_string(), identity.key.display().to_string());
        let tls = ["--tls-cert", certificate.as_str(), "--tls-key", key.as_str()];
        let gateway = Gateway::start_with(&format!("file://{}", store.path().display()), None, &tls)?;
        let bare_tls = bare_tls::start(mib << 20, &identity)?;
        Ok(Self { mib, gateway, bare_tls, authority, store, _certificates: certificates })
    }

    /// The row of a client beside its limit, over plain TCP.
    fn against_limit(&self, language: &Language, action: &str, runs: usize) -> Result<Option<Row>> {
        let (other, other_program, against, wanted) = match language.limit {
            Limit::None => return Ok(None),
            Limit::Cpp(wanted) => (CPP, "stream_file", "the C++ client", wanted),
            Limit::Bare(by) => (language, "bare_calls", by, Some(BARE_WANTED)),
        };
        let ours = || self.transfer(program(language, "stream_file")?, action, None);
        let bare = || self.transfer(program(other, other_program)?, action, None);
        let case = format!("{}, {action} of {} MiB", language.name, self.mib);
        row(case, runs, ours, bare, against, wanted).map(Some)
    }

    /// The row of a client that reads over TLS.
    fn against_stream(&self, language: &Language, runs: usize) -> Result<Option<Row>> {
        let Some(library) = language.tls else { return Ok(None) };
        let ours = || self.transfer(program(language, "stream_file")?, "read", Some(&self.authority));
        let bare = || {
            let mut command = program(language, "tls_stream")?;
            command.args([self.bare_tls.to_string(), self.mib.to_string()]).arg(&self.authority);
            self.rate(command)
        };
        let case = format!("{} over TLS, read of {} MiB", language.name, self.mib);
        row(case, runs, ours, bare, &format!("a bare stream by {library}"), Some(TLS_WANTED)).map(Some)
    }

    /// MB/s at which a program reads or writes a file through the gateway.
    fn transfer(&self, mut program: Command, action: &str, authority: Option<&Path>) -> Result<f64> {
        let name = if action == "read" { TO_READ } else { WRITTEN };
        let gateway = self.gateway.address.to_string();
        program.args([action, &gateway, &format!("/{name}"), &self.mib.to_string()]).args(authority);
        let rate = self.rate(program)?;
        if action == "write" {
            let written = self.store.path().join(name);
            if std::fs::metadata(&written)?.len() != (self.mib << 20) as u64 {
                return Err("a program wrote another length".into());
            }
            std::fs::remove_file(written)?;
        }
        Ok(rate)
    }

    /// MB/s of a staged program that moves a file's bytes.
    fn rate(&self, program: Command) -> Result<f64> {
        Ok((self.mib << 20) as f64 / 1e6 / staged(vec![program])?.work_s)
    }
}

fn row(
    case: String,
    runs: usize,
    ours: impl FnMut() -> Result<f64>,
    other: impl FnMut() -> Result<f64>,
    against: &str,
    wanted: Option<f64>,
) -> Result<Row> {
    let pair = interleave(runs, ours, other)?;
    eprintln!("{case}: {:.0} % of {against}", 100.0 * pair.ratio.median());
    let compared = Compared { against: against.to_owned(), measure: "share", wanted };
    let row = Row::of_pair(case, "MB/s", Better::Higher, runs, &pair);
    // Whole MB/s say enough on the page.
    Ok(Row { ours: row.ours.round(), limit: row.limit.map(f64::round), compared: Some(compared), ..row })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_builds_each_language() {
        let script = include_str!("../../languages/build.sh");
        for language in &LANGUAGES {
            let function = format!("\nbuild_{}() {{\n", language.directory);
            assert!(script.contains(&function), "build.sh has no {}", function.trim());
        }
    }
}
