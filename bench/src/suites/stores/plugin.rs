//! Measures a plugin's calls.

use crate::Result;
use crate::host::seconds;
use crate::pairs::{Sample, interleave};
use crate::report::{Better, Row};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_store::foreign::Foreign;
use strait_store::{FileSystem, Principal, StorePath};
use strait_store_plugin::{ForeignStore, Launch, Plugin, Remote, Spec};
use strait_testkit::spawn_bound;

/// Argument that makes this program a plugin's process.
pub const HELPER: &str = "plugin-helper";
/// Argument that makes this program answer each [`PING`] with a [`PONG`].
pub const ANSWERER: &str = "answer-pings";
/// Bytes of a request for the status of a path, and of the answer, between the gateway and the plugin's
/// process.
const PING: usize = 24;
const PONG: usize = 64;
const RUNS: usize = 7;
const CALLS_HERE: u32 = 1_000_000;
const CALLS_APART: u32 = 50_000;
const PATIENCE: Duration = Duration::from_secs(30);
/// Bound of the cost of a call in this process, in microseconds.
const BOUND_HERE: f64 = 1.0;

pub fn run() -> Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let library = built(dir.path())?;
    let here: Arc<dyn Foreign> = Arc::new(Plugin::open(&library, "null://", &[])?);
    let bare: Vec<f64> = (0..RUNS).map(|_| stats(&*here, CALLS_HERE)).collect::<Result<_>>()?;
    let row = Row::new("a plugin's call, in this process", "µs", Better::Lower, RUNS, &Sample::new(bare));
    let mut rows = vec![row.with_limit(BOUND_HERE).with_peer("as a store, with its thread", of_store(here)?)];

    let launch = Launch { program: std::env::current_exe()?, arguments: vec![HELPER.into()] };
    let library = library.display().to_string();
    let spec = Spec { kind: "plugin".into(), library, uri: "null://".into(), options: Vec::new() };
    let apart = Remote::start(launch, spec, PATIENCE)?;
    let mut pings = Pings::start()?;
    let pair = interleave(RUNS, || stats(&apart, CALLS_APART), || pings.exchange(CALLS_APART))?;
    let case = "a plugin's call, in its own process; limit: a bare ping-pong";
    rows.push(Row::of_pair(case, "µs", Better::Lower, RUNS, &pair));
    Ok(rows)
}

fn built(dir: &Path) -> Result<PathBuf> {
    let library = dir.join("null_plugin.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-I", "crates/store-plugin/include", "bench/clients/null_plugin.c"]);
    seconds(cc.arg("-o").arg(&library))?;
    Ok(library)
}

/// Microseconds of a call.
fn stats(plugin: &dyn Foreign, calls: u32) -> Result<f64> {
    let who = Principal::new("ada");
    let begin = Instant::now();
    for _ in 0..calls {
        plugin.stat(&who, "/a/file")?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
}

/// Microseconds of a call as the gateway makes it: on a thread that may block, and with a time limit.
fn of_store(plugin: Arc<dyn Foreign>) -> Result<f64> {
    let store = ForeignStore::new(plugin);
    let (who, path) = (Principal::new("ada"), StorePath::parse("/a/file")?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let begin = Instant::now();
    runtime.block_on(async {
        for _ in 0..CALLS_APART {
            store.stat(&who, &path).await?;
        }
        Ok::<_, strait_store::Error>(())
    })?;
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS_APART))
}

/// The socket to a process that answers pings.
struct Pings(UnixStream);

impl Pings {
    fn start() -> Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ANSWERER).stdin(Stdio::from(OwnedFd::from(theirs)));
        // The process ends when the socket is closed.
        spawn_bound(command)?;
        Ok(Self(ours))
    }

    /// Microseconds of an exchange.
    fn exchange(&mut self, count: u32) -> Result<f64> {
        let mut answer = [0; PONG];
        let begin = Instant::now();
        for _ in 0..count {
            self.0.write_all(&[0; PING])?;
            self.0.read_exact(&mut answer)?;
        }
        Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(count))
    }
}

/// Answers pings at the socket that is standard input, until it is closed.
pub fn answer_pings() -> Result<()> {
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut ping = [0; PING];
    while socket.read_exact(&mut ping).is_ok() {
        socket.write_all(&[0; PONG])?;
    }
    Ok(())
}
