//! `hdfs-native-write URI`: the HDFS library without Strait, which does what each line of its input
//! asks and answers with a line: the figure of it, and how many files or flushes the limit of time allowed.
//! The orders are those of writing in `HdfsOrders.java`.

use hdfs_native::{Client, ClientBuilder, WriteOptions};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PIECE_BYTES: usize = 1 << 20;
const FILE_BYTES: usize = 4_096;
const APPEND_BYTES: usize = 100;

fn main() -> Result<()> {
    let uri = std::env::args().nth(1).ok_or("usage: hdfs-native-write URI")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let client = runtime.block_on(async { ClientBuilder::new().with_url(uri).build() })?;
    for line in std::io::stdin().lines() {
        let (client, line) = (client.clone(), line?);
        // In a task, as the adapter's work.
        let followed = runtime.spawn(async move { follow(&client, &line).await });
        println!("{}", runtime.block_on(followed)??);
    }
    Ok(())
}

async fn follow(client: &Client, line: &str) -> Result<String> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["write", path, mib, replication, _] => {
            Ok(write(client, path, mib.parse()?, replication.parse()?).await?.to_string())
        }
        ["small-files", path, count] => small_files(client, path, count.parse()?).await,
        ["files", path, count, writers] => files(client, path, count.parse()?, writers.parse()?).await,
        // It has no hflush.
        ["flushes", path, count, _] => flushes(client, path, count.parse()?).await,
        _ => Err(format!("no order {line:?}").into()),
    }
}

fn options(replication: u32) -> WriteOptions {
    WriteOptions::default().replication(replication)
}

async fn write(client: &Client, path: &str, mib: usize, replication: u32) -> Result<f64> {
    let piece: Vec<u8> = (0..PIECE_BYTES).map(|at| ((at * 37) >> 3) as u8).collect();
    let piece = bytes::Bytes::from(piece);
    let begin = Instant::now();
    let mut writer = client.create(path, options(replication)).await?;
    for _ in 0..mib {
        writer.write_bytes(piece.clone()).await?;
    }
    writer.close().await?;
    Ok((mib * PIECE_BYTES) as f64 / 1e6 / begin.elapsed().as_secs_f64())
}

async fn create(client: &Client, path: &str, content: &'static [u8]) -> Result<()> {
    let mut writer = client.create(path, options(1)).await?;
    writer.write_bytes(bytes::Bytes::from_static(content)).await?;
    Ok(writer.close().await?)
}

async fn small_files(client: &Client, path: &str, count: usize) -> Result<String> {
    let (start, limit) = (Instant::now(), limit()?);
    let mut times = Vec::with_capacity(count);
    while times.len() < count && start.elapsed() < limit {
        let (at, begin) = (times.len(), Instant::now());
        create(client, &format!("{path}/{at}"), b"12345").await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(answer(times))
}

async fn files(client: &Client, path: &str, count: usize, writers: usize) -> Result<String> {
    static CONTENT: [u8; FILE_BYTES] = [7; FILE_BYTES];
    let (begin, limit) = (Instant::now(), limit()?);
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (client, path) = (client.clone(), path.to_owned());
        tasks.spawn(async move {
            let mut done = 0;
            for at in (writer..count).step_by(writers).take_while(|_| begin.elapsed() < limit) {
                create(&client, &format!("{path}/{at}"), &CONTENT).await?;
                done += 1;
            }
            Ok(done)
        });
    }
    let done = tasks.join_all().await.into_iter().sum::<Result<usize>>()?;
    Ok(format!("{} {done}", done as f64 / begin.elapsed().as_secs_f64()))
}

async fn flushes(client: &Client, path: &str, count: usize) -> Result<String> {
    static PIECE: [u8; APPEND_BYTES] = [7; APPEND_BYTES];
    let mut writer = client.create(path, options(3)).await?;
    let (start, limit) = (Instant::now(), limit()?);
    let mut times = Vec::with_capacity(count);
    while times.len() < count && start.elapsed() < limit {
        let begin = Instant::now();
        writer.write_bytes(bytes::Bytes::from_static(&PIECE)).await?;
        writer.hsync().await?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    writer.close().await?;
    Ok(answer(times))
}

/// Time for the files or flushes of one order.
fn limit() -> Result<Duration> {
    let seconds = std::env::var("BENCH_HDFS_LIMIT_S").map_or(Ok(3_600), |seconds| seconds.parse())?;
    Ok(Duration::from_secs(seconds))
}

/// The median, and how many were done.
fn answer(times: Vec<f64>) -> String {
    let done = times.len();
    format!("{} {done}", median(times))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
