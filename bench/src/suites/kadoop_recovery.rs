//! The effects of a lost server on clients of Kadoop. A client, a namenode and six datanodes are processes on
//! separate hosts with links of 1 Gbit/s. The servers have the default settings, and their data is in memory.
//! Needs root.
//!
//! - A namenode with many files is killed, as by `kill -9`, and restarted at once. Three callers continue
//!   during that: one stats a file, one writes small files, one reads small files. Measures the longest time
//!   between two successful calls of each.
//! - A datanode is killed that has one of the two replicas of each chunk of a file; the other replicas are
//!   spread over the other five datanodes. Measures the time until the namenode counts the datanode as dead,
//!   and the rate of the copies after that.
//!
//! `BENCH_RECOVERY_FILES`: files of the first part, 200,000 by default, each with a chunk; 0 omits the part.
//! `BENCH_RECOVERY_MIB`: MiB on the lost datanode in the second part, 1,024 by default; 0 omits the part.
//! `BENCH_RECOVERY_ROUNDS`: 3 by default. `BENCH_KADOOP_DIR`: as in `kadoop-hdfs`.

use crate::Result;
use crate::host::setting;
use crate::kadoop::rack::Rack;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use bytes::Bytes;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use strait_kadoop_client::{CreateOptions, Location};
use strait_kadoop_wire::Failure;
use strait_testkit::wait_until;

const DATANODES: usize = 6;
const WRITERS: usize = 16;
const SMALL: &str = "12345";
const PIECE_BYTES: usize = 1 << 20;
const VICTIM: usize = 0;
const REPLICATION: u16 = 2;
/// How long callers run before the namenode is killed, and again after each has had an answer.
const CALM: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(120);
/// The goals, which the table shows as limits.
const LONGEST_GAP_S: f64 = 2.0;
const NOTICED_S: f64 = 11.0;
const COPIED_MB_S: f64 = 300.0;

pub fn run() -> Result<Vec<Row>> {
    let files = setting("BENCH_RECOVERY_FILES", 200_000)?;
    let mib = setting("BENCH_RECOVERY_MIB", 1_024)?;
    let rounds = setting("BENCH_RECOVERY_ROUNDS", 3)?;
    let mut rows = Vec::new();
    if files > 0 {
        rows.extend(lose_namenode(files, rounds)?);
    }
    if mib > 0 {
        rows.extend(lose_datanode(mib, rounds)?);
    }
    Ok(rows)
}

/// A caller's work: makes the calls with this number.
type Call = fn(&Rack, usize) -> std::result::Result<(), Failure>;

const CALLERS: [(&str, Call); 3] = [("stat", stat), ("create, 5 bytes, close", create), ("open, read", read)];

fn stat(rack: &Rack, _: usize) -> std::result::Result<(), Failure> {
    rack.client.stat(&rack.caller, &path(0)).map(drop)
}

fn create(rack: &Rack, number: usize) -> std::result::Result<(), Failure> {
    write_small(rack, &format!("/late/{}/{number}", std::process::id()))
}

fn read(rack: &Rack, number: usize) -> std::result::Result<(), Failure> {
    let reader = rack.client.open(&rack.caller, &path(number % 1_000))?;
    reader.read_at(0, SMALL.len()).map(drop)
}

fn path(number: usize) -> String {
    format!("/files/{}/{number}", number % WRITERS)
}

fn write_small(rack: &Rack, path: &str) -> std::result::Result<(), Failure> {
    let options = CreateOptions { replication: 1, overwrite: true, ..CreateOptions::default() };
    let mut writer = rack.client.create(&rack.caller, path, &options)?;
    writer.write(SMALL)?;
    writer.close().map(drop)
}

fn lose_namenode(files: usize, rounds: usize) -> Result<Vec<Row>> {
    let rack = Rack::start(DATANODES)?;
    let begin = Instant::now();
    let next = AtomicUsize::new(0);
    let fill = || loop {
        match next.fetch_add(1, Ordering::Relaxed) {
            number if number < files => {
                write_small(&rack, &path(number)).map_err(|failure| failure.to_string())?
            }
            _ => return Ok::<_, String>(()),
        }
    };
    rack.host().run(|| {
        thread::scope(|scope| {
            let all: Vec<_> = (0..WRITERS).map(|_| scope.spawn(fill)).collect();
            all.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a writer panicked")?)
        })
    })?;
    println!("{files} files written in {:.0} s", begin.elapsed().as_secs_f64());
    let mut gaps = vec![Vec::new(); CALLERS.len()];
    for round in 0..rounds {
        let longest = call_through_a_restart(&rack)?;
        println!("namenode killed, round {round}: longest gaps {longest:.2?} s");
        longest.into_iter().zip(&mut gaps).for_each(|(longest, gaps)| gaps.push(longest));
    }
    let row = |((what, _), gaps): (&(&str, Call), Vec<f64>)| {
        let case = format!("namenode killed, {files} files: longest gap of {what}");
        Row::new(case, "s", Better::Lower, rounds, &Sample::new(gaps)).with_limit(LONGEST_GAP_S)
    };
    Ok(CALLERS.iter().zip(gaps).map(row).collect())
}

/// Successes of one caller.
struct Successes {
    last: Instant,
    longest: Duration,
}

/// The longest time between two successes of each caller, in seconds.
fn call_through_a_restart(rack: &Rack) -> Result<Vec<f64>> {
    let stop = AtomicBool::new(false);
    let new = || Mutex::new(Successes { last: Instant::now(), longest: Duration::ZERO });
    let successes: Vec<Mutex<Successes>> = CALLERS.iter().map(|_| new()).collect();
    let go_on = |call: Call, of: &Mutex<Successes>| {
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if let Err(failure) = call(rack, number) {
                println!("a call failed: {failure}");
                continue;
            }
            let mut of = of.lock().expect("no caller panics");
            (of.longest, of.last) = (of.longest.max(of.last.elapsed()), Instant::now());
        }
    };
    let all_since = |since: Instant| successes.iter().all(|of| of.lock().is_ok_and(|of| of.last > since));
    let restarted = rack.host().run(|| {
        thread::scope(|scope| {
            for ((_, call), of) in CALLERS.iter().zip(&successes) {
                scope.spawn(move || go_on(*call, of));
            }
            thread::sleep(CALM);
            let restarted = rack.kill_and_start_namenode().map_err(|error| error.to_string());
            let started = Instant::now();
            let back = wait_until(DEADLINE, || all_since(started));
            thread::sleep(CALM);
            stop.store(true, Ordering::Relaxed);
            restarted.and(if back { Ok(()) } else { Err(format!("no answers after {DEADLINE:?}")) })
        })
    });
    restarted?;
    let longest =
        |of: Mutex<Successes>| Ok(of.into_inner().map_err(|_| "a caller panicked")?.longest.as_secs_f64());
    successes.into_iter().map(longest).collect()
}

fn lose_datanode(mib: usize, rounds: usize) -> Result<Vec<Row>> {
    let mut rack = Rack::start(DATANODES)?;
    let (mut noticed, mut rates) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let path = format!("/file-{round}");
        write_at_victim(&rack, &path, mib)?;
        let bytes = (mib * PIECE_BYTES) as u64;
        // For a moment, the namenode may still list the victim.
        let victim = rack.datanode_host(VICTIM).address();
        let is_whole = || {
            let found = rack.client.locations(&rack.caller, &path, 0, u64::MAX).unwrap_or_default();
            let left = |part: &Location| part.hosts.iter().filter(|at| at.address.ip() != victim).count();
            found.iter().map(|part| part.length).sum::<u64>() == bytes
                && found.iter().all(|part| left(part) >= usize::from(REPLICATION))
        };
        let (seen, whole) = rack.host().run(|| {
            let killed = Instant::now();
            rack.kill_datanode(VICTIM);
            let seen = wait_until(DEADLINE, || rack.alive() == Some(DATANODES - 1)).then(|| killed.elapsed());
            let whole = wait_until(DEADLINE, is_whole).then(|| killed.elapsed());
            (seen, whole)
        });
        let (seen, whole) = seen.zip(whole).ok_or(format!("{path} lacks replicas after {DEADLINE:?}"))?;
        let rate = bytes as f64 / 1e6 / (whole - seen).as_secs_f64();
        println!(
            "datanode killed, round {round}: dead after {seen:.2?}, whole after {whole:.2?}, {rate:.0} MB/s"
        );
        noticed.push(seen.as_secs_f64());
        rates.push(rate);
        rack.restart_datanode(VICTIM)?;
        rack.wait_for_all()?;
        rack.host()
            .run(|| rack.client.delete(&rack.caller, &path, false))
            .map_err(|failure| failure.to_string())?;
    }
    let noticed = Row::new("datanode killed: noticed", "s", Better::Lower, rounds, &Sample::new(noticed));
    let case = format!("{mib} MiB re-replicated over five datanodes");
    let rate = Row::new(case, "MB/s", Better::Higher, rounds, &Sample::new(rates));
    Ok(vec![noticed.with_limit(NOTICED_S), rate.with_limit(COPIED_MB_S)])
}

/// Writes a file on the victim's host, so that the victim has the first replica of each chunk.
fn write_at_victim(rack: &Rack, path: &str, mib: usize) -> Result<()> {
    let client = rack.client_at(VICTIM)?;
    let piece: Bytes = (0..PIECE_BYTES).map(|at| (at.wrapping_mul(37) >> 3) as u8).collect();
    let options = CreateOptions { replication: REPLICATION, ..CreateOptions::default() };
    let write = || {
        let mut writer = client.create(&rack.caller, path, &options)?;
        (0..mib).try_for_each(|_| writer.write(piece.clone()))?;
        writer.close()?;
        client.locations(&rack.caller, path, 0, u64::MAX)
    };
    let host = rack.datanode_host(VICTIM);
    let found = host.run(write).map_err(|failure| failure.to_string())?;
    let is_there = |address: std::net::SocketAddr| address.ip() == host.address();
    match found.iter().all(|part| part.hosts.iter().any(|at| is_there(at.address))) {
        true => Ok(()),
        false => Err("a chunk isn't on its writer's host".into()),
    }
}
