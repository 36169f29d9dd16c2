//! Bytes a second through three datanodes, and small files: `files DIRECTORY [MEGABYTES]`.
//! All processes share this machine, as a benchmark's peer should, too.

use bytes::Bytes;
use std::{env, error::Error, path::PathBuf, time::Instant};
use strait_kadoop::{
    Client, ClientOptions, Config,
    messages::Caller,
    service::{CreateOptions, DatanodeOptions, DatanodeServer, Key, NamenodeOptions, NamenodeServer},
};

const NODES: usize = 3;
const PIECE: usize = 1 << 20;
const READS: usize = 5;
const SMALL_READS: usize = 5_000;
const SMALL_FILES: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("files DIRECTORY [MEGABYTES]")?);
    let megabytes = arguments.next().map_or(Ok(512), |megabytes| megabytes.parse())?;
    let key = Key::generate()?;
    let config = Config { safe_mode_extra_ms: 0, ..Config::default() };
    let options = NamenodeOptions { config, ..NamenodeOptions::new(directory.join("namenode"), key.clone()) };
    let namenode = NamenodeServer::start(options)?;
    let address = namenode.address().to_string();
    let datanode = |number| {
        let directories = vec![directory.join(format!("datanode-{number}"))];
        DatanodeServer::start(DatanodeOptions::new(directories, address.clone(), key.clone()))
    };
    let datanodes = (0..NODES).map(datanode).collect::<Result<Vec<_>, _>>()?;
    let client = Client::connect(ClientOptions::new(address.clone(), key.for_clients()))?;
    while client.status()?.nodes.len() < datanodes.len() || client.status()?.safe_mode {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    let me = Caller { user: "kadoop".into(), groups: Vec::new() };
    let piece =
        Bytes::from((0..PIECE as u64).map(|at| (at.wrapping_mul(37) >> 3) as u8).collect::<Vec<u8>>());
    let mut cpu = Cpu(0.0);
    cpu.lap();
    for replication in [1, 3] {
        let path = format!("/file-{replication}");
        let rate = write(&client, &me, &path, &piece, megabytes, replication)?;
        println!("write x{replication}   {rate:8.0} MB/s, {:.2} CPU s", cpu.lap());
    }
    for _ in 0..READS {
        println!("read       {:8.0} MB/s, {:.2} CPU s", read(&client, &me, "/file-1")?, cpu.lap());
    }
    println!("pread 4 KB {:8.0} us (p50)", small_reads(&client, &me, "/file-1")?);
    println!("small file {:8.2} ms (p50)", small_files(&client, &me)?);
    Ok(())
}

fn write(
    client: &Client,
    me: &Caller,
    path: &str,
    piece: &Bytes,
    megabytes: usize,
    replication: u16,
) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    let options = CreateOptions { replication, ..CreateOptions::default() };
    let mut writer = client.create(me, path, &options)?;
    for _ in 0..megabytes {
        writer.write(piece.clone())?;
    }
    let bytes = writer.close()?;
    Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64())
}

fn read(client: &Client, me: &Caller, path: &str) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    let mut reader = client.open(me, path)?;
    let mut bytes = 0;
    loop {
        let part = reader.read(PIECE)?;
        if part.is_empty() {
            return Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
        }
        bytes += part.len();
    }
}

fn small_reads(client: &Client, me: &Caller, path: &str) -> Result<f64, Box<dyn Error>> {
    let reader = client.open(me, path)?;
    let pages = reader.length() / 4096;
    let mut at = 1;
    let mut times = Vec::new();
    for _ in 0..SMALL_READS {
        at = (at * 1_103_515_245 + 12_345) % 0x8000_0000_u64;
        let start = Instant::now();
        reader.read_at(at % pages * 4096, 4096)?;
        times.push(start.elapsed());
    }
    Ok(median(times) * 1e6)
}

fn small_files(client: &Client, me: &Caller) -> Result<f64, Box<dyn Error>> {
    let mut times = Vec::new();
    for number in 0..SMALL_FILES {
        let start = Instant::now();
        let options = CreateOptions { replication: 1, ..CreateOptions::default() };
        let mut writer = client.create(me, &format!("/small/{number}"), &options)?;
        writer.write("12345")?;
        writer.close()?;
        times.push(start.elapsed());
    }
    Ok(median(times) * 1e3)
}

fn median(mut times: Vec<std::time::Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

/// Processor time of all parts together: it tells more than the clock on a busy machine.
struct Cpu(f64);

impl Cpu {
    fn lap(&mut self) -> f64 {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<f64> = text
            .rsplit(')')
            .next()
            .map(|rest| {
                rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect()
            })
            .unwrap_or_default();
        // Ticks of 10 ms, on every Linux there is.
        let now = fields.iter().sum::<f64>() / 100.0;
        now - std::mem::replace(&mut self.0, now)
    }
}
