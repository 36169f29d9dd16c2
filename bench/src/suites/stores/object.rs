//! Measures an object of an S3 server.

use crate::Result;
use crate::host::setting;
use crate::ordered::Ordered;
use crate::pairs::interleave;
use crate::programs::object_store_orders;
use crate::report::{Better, Row};
use bytes::Bytes;
use std::time::Instant;
use strait_store::{CreateOptions, FileSystem, MAX_CHUNK_BYTES, Principal, Scheme, StorePath};
use strait_store_object::{ObjectStore, Options};
use strait_testkit::{OBJECT_BUCKET, ObjectServer};
use tokio::runtime::Runtime;

const RUNS: usize = 5;
const PIECE_BYTES: usize = 1 << 20;
const KEY: (&str, &str) = ("strait", "strait-secret");

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("STRAIT_BENCH_MIB", 1_024)?;
    let (name, server) = match ObjectServer::minio()? {
        Some(server) => ("MinIO", server),
        None => ("moto", ObjectServer::moto()?.ok_or("neither MinIO nor moto: run scripts/setup.sh test")?),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ours = Adapter::connect(&runtime, &server)?;
    let mut bare = Bare::connect(&server)?;
    let rate = |seconds: f64| (mib << 20) as f64 / 1e6 / seconds;
    let timed = |work: &mut dyn FnMut() -> Result<()>| {
        let begin = Instant::now();
        work()?;
        Ok(rate(begin.elapsed().as_secs_f64()))
    };

    let case = |verb: &str| format!("{name}: {verb} {mib} MiB through the adapter; limit: object_store");
    let pair = interleave(
        RUNS,
        || timed(&mut || runtime.block_on(ours.write("/ours", mib))),
        || timed(&mut || bare.order("write", mib)),
    )?;
    let mut rows = vec![Row::of_pair(case("write"), "MB/s", Better::Higher, RUNS, &pair)];
    let pair = interleave(
        RUNS,
        || timed(&mut || runtime.block_on(ours.read("/ours", mib))),
        || timed(&mut || bare.order("read", mib)),
    )?;
    rows.push(Row::of_pair(case("read"), "MB/s", Better::Higher, RUNS, &pair));
    Ok(rows)
}

fn piece() -> Bytes {
    (0..PIECE_BYTES).map(|at| ((at * 37) >> 3) as u8).collect()
}

fn checked(length: u64, mib: usize) -> Result<()> {
    match length == (mib as u64) << 20 {
        true => Ok(()),
        false => Err(format!("{length} bytes were read of {mib} MiB").into()),
    }
}

/// Strait's store.
struct Adapter {
    store: ObjectStore,
    who: Principal,
}

impl Adapter {
    fn connect(runtime: &Runtime, server: &ObjectServer) -> Result<Self> {
        let variables = [("AWS_ACCESS_KEY_ID", KEY.0), ("AWS_SECRET_ACCESS_KEY", KEY.1)];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let options = Options { endpoint: Some(server.url()), variables, ..Options::default() };
        let root = StorePath::parse("/")?;
        let store = runtime.block_on(ObjectStore::connect(Scheme::S3, OBJECT_BUCKET, &root, &options))?;
        Ok(Self { store, who: Principal::new("ada") })
    }

    async fn write(&self, path: &str, mib: usize) -> Result<()> {
        let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
        let mut writer = self.store.create(&self.who, &StorePath::parse(path)?, &options).await?;
        let piece = piece();
        for _ in 0..mib {
            writer.append(piece.clone()).await?;
        }
        writer.close().await?;
        Ok(())
    }

    async fn read(&self, path: &str, mib: usize) -> Result<()> {
        let reader = self.store.open(&self.who, &StorePath::parse(path)?).await?;
        let mut offset = 0;
        loop {
            let bytes = reader.read_at(offset, MAX_CHUNK_BYTES).await?;
            if bytes.is_empty() {
                return checked(offset, mib);
            }
            offset += bytes.len() as u64;
        }
    }
}

/// The library alone, in a separate process: the product doesn't link with the library's HTTP client.
struct Bare(Ordered);

impl Bare {
    fn connect(server: &ObjectServer) -> Result<Self> {
        let mut command = object_store_orders()?;
        command.args([&server.url(), OBJECT_BUCKET, KEY.0, KEY.1]);
        Ok(Self(Ordered::start("object_store", command)?))
    }

    /// `write` or `read`.
    fn order(&mut self, order: &str, mib: usize) -> Result<()> {
        self.0.obey(&format!("{order} {mib}")).map(drop)
    }
}
