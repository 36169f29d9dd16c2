//! A gateway with many clients: 1,000 idle ones, 20 that each read a large file, or 200 that repeatedly
//! request 4 MiB and never read the answers.

use crate::Result;
use crate::host::{Gateway, make_file, setting};
use crate::pairs::{Sample, interleave};
use crate::report::{Better, Row};
use bytes::Bytes;
use std::time::{Duration, Instant};
use strait_testkit::thrift::Client;
use strait_testkit::{MiniHdfs, Options};
use strait_wire::{OpenFileRequest, ReadRangeReply, ReadRangeRequest, Reply, methods};

const CHUNK: i32 = 4 << 20;
const IDLE: usize = 1_000;
const READERS: usize = 20;
const GREEDY: usize = 200;
/// Bound of the gateway's memory, in MiB.
const BOUND_MIB: f64 = 256.0;
/// Number of requests that a reader keeps in flight, as our clients do.
const IN_FLIGHT: usize = 4;
const RUNS: usize = 9;
/// Number of calls of the busy client in a run.
const CALLS: usize = 5_000;

pub fn run() -> Result<Vec<Row>> {
    raise_descriptor_limit();
    let mib = setting("STRAIT_BENCH_MIB", 1_024)?;
    let dir = tempfile::tempdir()?;
    make_file(&dir.path().join("large"), mib)?;
    let file =
        Target { name: "file", store: format!("file://{}", dir.path().display()), path: "/large".into() };
    let mut rows = vec![idle(&file)?, readers(&file, mib)?, greedy(&file)?];

    let hdfs = MiniHdfs::start_own(&Options::measured())?;
    let path = format!("{}/large", hdfs.scratch("crowd"));
    hdfs.shell(&["-mkdir", "-p", path.trim_end_matches("/large")])?;
    hdfs.shell(&["-put", "-f", &dir.path().join("large").display().to_string(), &path])?;
    let hdfs = Target { name: "HDFS", store: hdfs.uri().to_owned(), path };
    rows.extend([readers(&hdfs, mib)?, greedy(&hdfs)?]);
    Ok(rows)
}

/// A store, and the large file in it.
struct Target {
    name: &'static str,
    store: String,
    path: String,
}

/// Raises this process's limit of open files, for a thousand connections.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn open(client: &mut Client, target: &Target) -> Result<Option<i64>> {
    let request = OpenFileRequest { path: Some(target.path.clone()), ..Default::default() };
    Ok(client.v2::<methods::OpenFile>(request).map_err(|e| format!("{e:?}"))?.handle)
}

fn ask(client: &mut Client, handle: Option<i64>, offset: usize, length: i32) {
    let request =
        ReadRangeRequest { handle, offset: Some(offset as i64), length: Some(length), ..Default::default() };
    client.send::<methods::ReadRange>(&request.into());
}

fn take(client: &mut Client) -> Result<Bytes> {
    match client.receive::<methods::ReadRange>() {
        Reply::Success(ReadRangeReply { data: Some(data) }) => Ok(data),
        other => Err(format!("{other:?}").into()),
    }
}

/// Measures the calls a second of one busy client, with idle connections and without.
fn idle(target: &Target) -> Result<Row> {
    let gateway = Gateway::start(&target.store)?;
    let crowded = Gateway::start(&target.store)?;
    let _idle: Vec<Client> = (0..IDLE).map(|_| crowded.client()).collect();
    let rate = |gateway: &Gateway| -> Result<f64> {
        let mut client = gateway.client();
        let handle = open(&mut client, target)?;
        let start = Instant::now();
        for call in 0..CALLS {
            ask(&mut client, handle, call * 4096, 4096);
            take(&mut client)?;
        }
        Ok(CALLS as f64 / start.elapsed().as_secs_f64())
    };
    let pair = interleave(RUNS, || rate(&crowded), || rate(&gateway))?;
    Ok(Row::of_pair(
        format!("{}: 4 KiB reads beside {IDLE} idle clients", target.name),
        "calls/s",
        Better::Higher,
        RUNS,
        &pair,
    ))
}

/// Measures the gateway's peak memory while many clients read a large file each.
fn readers(target: &Target, mib: usize) -> Result<Row> {
    let gateway = Gateway::start(&target.store)?;
    let read = || -> std::result::Result<(), String> {
        let mut client = gateway.client();
        let handle = open(&mut client, target).map_err(|e| e.to_string())?;
        let (mut asked, mut done) = (0, 0);
        let total = mib << 20;
        let mut pending = std::collections::VecDeque::new();
        while done < total {
            while asked < total && pending.len() < IN_FLIGHT {
                ask(&mut client, handle, asked, CHUNK);
                pending.push_back((asked, CHUNK as usize));
                asked += CHUNK as usize;
            }
            let Some((offset, wanted)) = pending.pop_front() else { break };
            let wanted = wanted.min(total - offset);
            let got = take(&mut client).map_err(|e| e.to_string())?.len();
            done += got;
            if got < wanted {
                // After a short answer, request the rest behind the requests in flight.
                ask(&mut client, handle, offset + got, (wanted - got) as i32);
                pending.push_back((offset + got, wanted - got));
            }
        }
        Ok(())
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        readers.into_iter().map(|reader| reader.join()).collect()
    });
    for result in results {
        result.map_err(|_| "a reader panicked")??;
    }
    let (_, most) = gateway.resident_mib()?;
    let case = format!("{}: {READERS} clients read {mib} MiB each, memory", target.name);
    Ok(Row::new(case, "MiB", Better::Lower, 1, &Sample::new(vec![most])).with_limit(BOUND_MIB))
}

/// Measures the gateway's peak memory while many clients send requests and never read the answers.
fn greedy(target: &Target) -> Result<Row> {
    let gateway = Gateway::start(&target.store)?;
    let mut clients = Vec::new();
    for _ in 0..GREEDY {
        let mut client = gateway.client();
        let handle = open(&mut client, target)?;
        for request in 0..16 {
            ask(&mut client, handle, request * CHUNK as usize, CHUNK);
        }
        clients.push(client);
    }
    // Wait until the memory stops growing.
    let mut before = 0.0;
    loop {
        let (now, _) = gateway.resident_mib()?;
        if now <= before {
            break;
        }
        before = now;
        std::thread::sleep(Duration::from_secs(1));
    }
    let (_, most) = gateway.resident_mib()?;
    let case = format!("{}: {GREEDY} clients never read, memory", target.name);
    Ok(Row::new(case, "MiB", Better::Lower, 1, &Sample::new(vec![most])).with_limit(BOUND_MIB))
}
