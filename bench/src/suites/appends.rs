//! The appends of one client through a gateway: their time, and how often a thread of the gateway sleeps for
//! each: the hand-offs from one thread to another, and the waits for servers. `BENCH_APPENDS`: the number of
//! appends in a round, 1,000 by default.

use super::strangers::kadoop;
use crate::Result;
use crate::host::{Gateway, setting};
use crate::kadoop::data_directory;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use crate::rpc::size;
use bytes::Bytes;
use std::fs;
use std::time::Instant;
use strait_testkit::thrift::Client;
use strait_testkit::{MiniHdfs, Options};
use strait_wire::{AppendDataRequest, CloseFileRequest, CreateFileRequest, methods};

const ROUNDS: usize = 5;
const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Most bytes in a round.
const MOST_BYTES: usize = 256 << 20;

pub fn run() -> Result<Vec<Row>> {
    let directory = tempfile::tempdir_in(data_directory())?;
    let files = directory.path().join("files");
    fs::create_dir(&files)?;
    let (_kadoop, kadoop, key) = kadoop(directory.path())?;
    let hdfs = MiniHdfs::start_own(&Options { parent: Some(data_directory()), ..Options::measured() })?;
    let stores = [
        ("directory", Gateway::start(&format!("file://{}", files.display()))?, String::new()),
        ("Kadoop", Gateway::start_with(&kadoop, None, &["--kadoop-key", &key])?, "/shared".to_owned()),
        ("HDFS", Gateway::start(hdfs.uri())?, String::new()),
    ];
    let mut rows = Vec::new();
    for (name, gateway, root) in &stores {
        for bytes in SIZES {
            let count = setting("BENCH_APPENDS", 1_000)?.min(MOST_BYTES / bytes);
            let (mut times, mut sleeps) = (Vec::new(), Vec::new());
            let mut client = gateway.client();
            for _ in 0..ROUNDS {
                let before = slept(gateway.id())?;
                times.push(append(&mut client, &format!("{root}/appended"), bytes, count)?);
                sleeps.push((slept(gateway.id())? - before) / count as f64);
            }
            let case = |what| format!("{name}: appends of {}, {what}", size(bytes));
            rows.push(Row::new(case("median"), "µs", Better::Lower, ROUNDS, &Sample::new(times)));
            rows.push(Row::new(
                case("sleeps of threads"),
                "an append",
                Better::Lower,
                ROUNDS,
                &Sample::new(sleeps),
            ));
        }
    }
    Ok(rows)
}

/// Writes a file, and returns its appends' median time in microseconds.
fn append(client: &mut Client, path: &str, bytes: usize, count: usize) -> Result<f64> {
    let create =
        CreateFileRequest { path: Some(path.to_owned()), overwrite: Some(true), ..Default::default() };
    let handle = client.v2::<methods::CreateFile>(create).map_err(|error| format!("{error:?}"))?.handle;
    let data = Bytes::from(vec![7; bytes]);
    let mut times = Vec::new();
    for index in 0..count {
        let expected_offset = Some((index * bytes) as i64);
        let data = Some(data.clone());
        let request = AppendDataRequest { handle, expected_offset, data, ..Default::default() };
        let begin = Instant::now();
        client.v2::<methods::AppendData>(request).map_err(|error| format!("{error:?}"))?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    let close = CloseFileRequest { handle, ..Default::default() };
    client.v2::<methods::CloseFile>(close).map_err(|error| format!("{error:?}"))?;
    Ok(Sample::new(times).median())
}

/// How often the threads of a process have gone to sleep so far.
fn slept(pid: u32) -> Result<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that has just ended has no status.
        let Ok(status) = fs::read_to_string(thread?.path().join("status")) else { continue };
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.and_then(|count| count.trim().parse::<f64>().ok()).unwrap_or_default();
    }
    Ok(sum)
}
