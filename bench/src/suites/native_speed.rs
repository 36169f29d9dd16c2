//! One client reads from a gateway whose store is a directory; the file is in the page cache. The limits are
//! the same without Strait: a bare Thrift server that answers from memory, a bare TLS stream, and a bare
//! ping-pong with as many bytes.
//!
//! `STRAIT_BENCH_MIB`: the file's size, 1,024 MiB by default.

use crate::Result;
use crate::host::{Gateway, make_file, setting};
use crate::pairs::interleave;
use crate::programs::{Copying, Programs};
use crate::report::{Better, Row};
use crate::stages::staged;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use strait_testkit::{Authority, Process, free_port};

const RUNS: usize = 7;
const CALL_BYTES: usize = 4_096;
/// Bytes of a read request, and of an answer without its data, in the framed binary protocol.
const REQUEST_BYTES: usize = 68;
const ANSWER_HEADER_BYTES: usize = 48;
/// MiB that the case with blocking reads reads: less than the others, since each of its calls takes a round
/// trip.
const CALLS_FILE_MIB: usize = 128;

type Program = fn(&Programs, &str, &Copying) -> Command;
const LANGUAGES: [(&str, Program); 3] =
    [("C++", Programs::cpp), ("Java", Programs::java), ("Python", Programs::python)];

pub fn run() -> Result<Vec<Row>> {
    let programs = Programs::build()?;
    let mib = setting("STRAIT_BENCH_MIB", 1_024)?;
    let dir = tempfile::tempdir()?;
    make_file(&dir.path().join("large"), mib)?;
    make_file(&dir.path().join("small"), CALLS_FILE_MIB)?;
    let authority = Authority::new()?;
    let identity = authority.issue(dir.path())?;
    let ca = authority.write(dir.path())?.display().to_string();
    let (certificate, key) = (identity.certificate.display().to_string(), identity.key.display().to_string());
    let tls = ["--tls-cert", certificate.as_str(), "--tls-key", key.as_str()];
    let gateway = Gateway::start_with(&format!("file://{}", dir.path().display()), None, &tls)?;
    let gateway = gateway.address.to_string();
    let bare = Volo::start(&programs, mib)?;
    let volo = bare.address.to_string();

    let large = to_memory("/large", None, None);
    let secret = to_memory("/large", None, Some(ca));
    let mut rows = Vec::new();
    for (language, program) in LANGUAGES {
        let case = format!("{language}, 1 MiB reads; limit: the same of a bare volo server");
        let ours = || program(&programs, &gateway, &large);
        rows.push(streaming(&case, mib, ours, || program(&programs, &volo, &large))?);
    }
    for (language, program) in LANGUAGES {
        let case = format!("{language}, 1 MiB reads, TLS; limit: a bare rustls stream");
        let stream = || {
            let mut command = programs.peer("rustls-stream");
            command.arg((mib << 20).to_string());
            command
        };
        rows.push(streaming(&case, mib, || program(&programs, &gateway, &secret), stream)?);
    }
    let calls = to_memory("/small", Some(CALL_BYTES), None);
    for (language, program) in LANGUAGES {
        let count = (CALLS_FILE_MIB << 20) / CALL_BYTES;
        let ours = || Ok(count as f64 / staged(vec![program(&programs, &gateway, &calls)])?.work_s);
        let pair = interleave(RUNS, ours, || ping_pong(count))?;
        let case = format!("{language}, blocking reads of {CALL_BYTES} B; limit: a bare ping-pong");
        rows.push(Row::of_pair(case, "calls/s", Better::Higher, RUNS, &pair));
    }
    Ok(rows)
}

fn to_memory(remote: &str, blocking: Option<usize>, ca: Option<String>) -> Copying {
    Copying { action: "get", remote: remote.into(), local: "-".into(), blocking, ca }
}

/// Measures the MB/s of two commands in turn, each of which reads `mib` MiB.
fn streaming(case: &str, mib: usize, ours: impl Fn() -> Command, bare: impl Fn() -> Command) -> Result<Row> {
    let megabytes = (mib << 20) as f64 / 1e6;
    let rate = |command: Command| Ok(megabytes / staged(vec![command])?.work_s);
    let pair = interleave(RUNS, || rate(ours()), || rate(bare()))?;
    Ok(Row::of_pair(case, "MB/s", Better::Higher, RUNS, &pair))
}

/// The bare Thrift server. It serves every path as a file of the same length.
struct Volo {
    address: SocketAddr,
    _process: Process,
    _logs: tempfile::TempDir,
}

impl Volo {
    fn start(programs: &Programs, mib: usize) -> Result<Self> {
        let logs = tempfile::tempdir()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut command = programs.peer("volo-memory");
        command.args([address.to_string(), (mib << 20).to_string()]);
        let mut process = Process::spawn("volo-memory", command, logs.path())?;
        process.wait_ready(Duration::from_secs(30), || TcpStream::connect(address).is_ok())?;
        Ok(Self { address, _process: process, _logs: logs })
    }
}

/// Round trips a second between two threads over a socket, with as many bytes as a read has.
fn ping_pong(count: usize) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let mut far = listener.accept()?.0;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let answer = vec![7; ANSWER_HEADER_BYTES + CALL_BYTES];
    let mut received = answer.clone();
    let server = thread::spawn(move || -> std::io::Result<()> {
        let mut request = [0; REQUEST_BYTES];
        for _ in 0..count {
            far.read_exact(&mut request)?;
            far.write_all(&answer)?;
        }
        Ok(())
    });
    let start = Instant::now();
    for _ in 0..count {
        near.write_all(&[1; REQUEST_BYTES])?;
        near.read_exact(&mut received)?;
    }
    let took = start.elapsed().as_secs_f64();
    server.join().map_err(|_| "the other side panicked")??;
    Ok(count as f64 / took)
}
