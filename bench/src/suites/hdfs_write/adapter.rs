//! Strait's store for HDFS, or for a gateway, in this process.

use super::{Client, Measured, Work};
use crate::Result;
use crate::pairs::Sample;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_store::{CreateOptions, FileSystem, FileWriter, Principal, StorePath, StoreUri};
use strait_store_any::OpenOptions;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const PIECE_BYTES: usize = 1 << 20;
const SMALL: &[u8] = b"12345";
const FILE_BYTES: usize = 4_096;
const APPEND_BYTES: usize = 100;

/// An open store.
pub struct Adapter {
    runtime: Runtime,
    files: Files,
}

#[derive(Clone)]
struct Files {
    store: Arc<dyn FileSystem>,
    user: Principal,
    /// Time limit of one piece of work.
    limit: Duration,
}

impl Adapter {
    /// Opens the store at `uri`.
    pub fn connect(uri: &str, limit: Duration) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let store =
            runtime.block_on(strait_store_any::open(&StoreUri::parse(uri)?, &OpenOptions::default()))?;
        let user = Principal::new(&strait_testkit::current_user());
        Ok(Self { runtime, files: Files { store, user, limit } })
    }
}

impl Files {
    async fn create(&self, path: &str, content: Bytes, replication: u16) -> strait_store::Result<()> {
        let mut writer = self.open(path, replication).await?;
        writer.append(content).await?;
        writer.close().await?;
        Ok(())
    }

    async fn open(&self, path: &str, replication: u16) -> strait_store::Result<Box<dyn FileWriter>> {
        let options = CreateOptions { replication: Some(replication), ..CreateOptions::default() };
        self.store.create(&self.user, &StorePath::parse(path)?, &options).await
    }

    async fn write(&self, path: &str, mib: usize, replication: u16) -> strait_store::Result<Measured> {
        let piece: Bytes = (0..PIECE_BYTES).map(|at| ((at * 37) >> 3) as u8).collect();
        let begin = Instant::now();
        let mut writer = self.open(path, replication).await?;
        for _ in 0..mib {
            writer.append(piece.clone()).await?;
        }
        writer.close().await?;
        Ok(Measured { value: (mib * PIECE_BYTES) as f64 / 1e6 / begin.elapsed().as_secs_f64(), done: mib })
    }

    /// Writes a file, and returns the duration of the longest write of 1 MiB, in seconds. Half-way, prints
    /// the address of the second datanode of the current block.
    async fn write_and_tell(&self, path: &str, mib: usize, replication: u16) -> Result<f64> {
        let piece = Bytes::from(vec![7; PIECE_BYTES]);
        let mut writer = self.open(path, replication).await?;
        let mut longest = 0.0_f64;
        for count in 0..mib {
            if count == mib / 2 {
                let at = StorePath::parse(path)?;
                let blocks = self.store.block_locations(&self.user, &at, 0..u64::MAX).await?;
                let address = blocks.last().and_then(|block| block.addresses.get(1));
                let address = address.ok_or("the current block has no second datanode")?;
                println!("{}", address.split(':').next().unwrap_or_default());
            }
            let begin = Instant::now();
            writer.append(piece.clone()).await?;
            longest = longest.max(begin.elapsed().as_secs_f64());
        }
        writer.close().await?;
        Ok(longest)
    }

    async fn small_files(&self, path: &str, count: usize) -> strait_store::Result<Measured> {
        let end = Instant::now() + self.limit;
        let mut times = Vec::with_capacity(count);
        while times.len() < count && Instant::now() < end {
            let (at, begin) = (times.len(), Instant::now());
            self.create(&format!("{path}/{at}"), Bytes::from_static(SMALL), 1).await?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        Ok(Measured { done: times.len(), value: Sample::new(times).median() })
    }

    /// Writes files with concurrent writers, each of which is a task.
    async fn files(&self, path: &str, count: usize, writers: usize) -> strait_store::Result<Measured> {
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        for writer in 0..writers {
            let (files, path) = (self.clone(), path.to_owned());
            tasks.spawn(async move {
                let content = Bytes::from(vec![7; FILE_BYTES]);
                let mut done = 0;
                for at in (writer..count).step_by(writers).take_while(|_| begin.elapsed() < files.limit) {
                    files.create(&format!("{path}/{at}"), content.clone(), 1).await?;
                    done += 1;
                }
                Ok(done)
            });
        }
        let done = tasks.join_all().await.into_iter().sum::<strait_store::Result<usize>>()?;
        Ok(Measured { value: done as f64 / begin.elapsed().as_secs_f64(), done })
    }

    async fn flushes(&self, path: &str, count: usize, sync: bool) -> strait_store::Result<Measured> {
        let end = Instant::now() + self.limit;
        let piece = Bytes::from(vec![7; APPEND_BYTES]);
        let mut writer = self.open(path, 3).await?;
        let mut times = Vec::with_capacity(count);
        while times.len() < count && Instant::now() < end {
            let begin = Instant::now();
            writer.append(piece.clone()).await?;
            if sync {
                writer.sync().await?;
            } else {
                writer.flush().await?;
            }
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        writer.close().await?;
        Ok(Measured { done: times.len(), value: Sample::new(times).median() })
    }
}

/// The main function of a separate process. Follows orders on standard input, one a line: `write-and-tell
/// PATH MIB REPLICATION`. The answers are those of `HdfsOrders.java`.
pub fn follow_orders(uri: &str) -> Result<()> {
    let adapter = Adapter::connect(uri, Duration::MAX)?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let order: Vec<&str> = line.split(' ').collect();
        let ["write-and-tell", path, mib, replication] = order[..] else {
            return Err(format!("no order {line:?}").into());
        };
        let writing = adapter.files.write_and_tell(path, mib.parse()?, replication.parse()?);
        println!("{}", adapter.runtime.block_on(writing)?);
    }
    Ok(())
}

impl Client for Adapter {
    fn measure(&mut self, work: &Work, path: &str) -> Result<Measured> {
        let (files, work, path) = (self.files.clone(), work.clone(), path.to_owned());
        // Do the work in a task, as a gateway does. The thread that calls `block_on` isn't one of the
        // runtime's workers, and would have to be woken after each wait.
        let measured = self.runtime.spawn(async move {
            match work {
                Work::Write { mib, replication } => files.write(&path, mib, replication).await,
                Work::SmallFiles { count } => files.small_files(&path, count).await,
                Work::Files { count, writers } => files.files(&path, count, writers).await,
                Work::Flushes { count, sync } => files.flushes(&path, count, sync).await,
            }
        });
        Ok(self.runtime.block_on(measured)??)
    }

    fn processes(&self) -> Vec<u32> {
        vec![std::process::id()]
    }
}
