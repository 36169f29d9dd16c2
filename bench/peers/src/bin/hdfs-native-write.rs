//! `hdfs-native-write URI`: the HDFS library without Strait, which does what each line of its input
//! asks and answers with a line: the figure of it. The orders are those of writing in
//! `HdfsOrders.java`.

use hdfs_native::{Client, ClientBuilder, WriteOptions};
use std::time::Instant;
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

async fn follow(client: &Client, line: &str) -> Result<f64> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["write", path, mib, replication, _] => write(client, path, mib.parse()?, replication.parse()?).await,
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

async fn small_files(client: &Client, path: &str, count: usize) -> Result<f64> {
    let mut times = Vec::with_capacity(count);
    for at in 0..count {
        let begin = Instant::now();
        create(client, &format!("{path}/{at}"), b"12345").await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

async fn files(client: &Client, path: &str, count: usize, writers: usize) -> Result<f64> {
    static CONTENT: [u8; FILE_BYTES] = [7; FILE_BYTES];
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (client, path) = (client.clone(), path.to_owned());
        tasks.spawn(async move {
            for at in (writer..count).step_by(writers) {
                create(&client, &format!("{path}/{at}"), &CONTENT).await?;
            }
            Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect::<Result<()>>()?;
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

async fn flushes(client: &Client, path: &str, count: usize) -> Result<f64> {
    static PIECE: [u8; APPEND_BYTES] = [7; APPEND_BYTES];
    let mut writer = client.create(path, options(3)).await?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begin = Instant::now();
        writer.write_bytes(bytes::Bytes::from_static(&PIECE)).await?;
        writer.hsync().await?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    writer.close().await?;
    Ok(median(times))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
