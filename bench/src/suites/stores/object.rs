//! An object of an S3 server.

use crate::Result;
use crate::host::setting;
use crate::pairs::interleave;
use crate::report::{Better, Row};
use bytes::Bytes;
use futures::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use std::time::Instant;
use strait_store::{CreateOptions, FileSystem, MAX_CHUNK_BYTES, Principal, Scheme, StorePath};
use strait_store_object::{ObjectStore, Options};
use strait_testkit::{OBJECT_BUCKET, ObjectServer};
use tokio::runtime::Runtime;

const RUNS: usize = 5;
const PIECE_BYTES: usize = 1 << 20;
/// As the adapter's parts, and as many at a time.
const PART_BYTES: usize = 8 << 20;
const PARTS_AT_ONCE: usize = 4;
const KEY: (&str, &str) = ("strait", "strait-secret");

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("STRAIT_BENCH_MIB", 1_024)?;
    let (name, server) = match ObjectServer::minio()? {
        Some(server) => ("MinIO", server),
        None => ("moto", ObjectServer::moto()?.ok_or("neither MinIO nor moto: run scripts/setup.sh test")?),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ours = Adapter::connect(&runtime, &server)?;
    let bare = Bare::connect(&server)?;
    let rate = |seconds: f64| (mib << 20) as f64 / 1e6 / seconds;
    let timed = |work: &dyn Fn() -> Result<()>| {
        let begin = Instant::now();
        work()?;
        Ok(rate(begin.elapsed().as_secs_f64()))
    };

    let case = |verb: &str| format!("{name}: {verb} {mib} MiB through the adapter; limit: object_store");
    let pair = interleave(
        RUNS,
        || timed(&|| runtime.block_on(ours.write("/ours", mib))),
        || timed(&|| runtime.block_on(bare.write("bare", mib))),
    )?;
    let mut rows = vec![Row::of_pair(case("write"), "MB/s", Better::Higher, RUNS, &pair)];
    let pair = interleave(
        RUNS,
        || timed(&|| runtime.block_on(ours.read("/ours", mib))),
        || timed(&|| runtime.block_on(bare.read("bare", mib))),
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

/// The library alone.
struct Bare(AmazonS3);

impl Bare {
    fn connect(server: &ObjectServer) -> Result<Self> {
        let builder = AmazonS3Builder::new().with_bucket_name(OBJECT_BUCKET).with_region("us-east-1");
        let builder = builder.with_access_key_id(KEY.0).with_secret_access_key(KEY.1);
        Ok(Self(builder.with_endpoint(server.url()).with_allow_http(true).build()?))
    }

    async fn write(&self, key: &str, mib: usize) -> Result<()> {
        let upload = self.0.put_multipart(&Path::from(key)).await?;
        let mut writer = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let piece = piece();
        for _ in 0..mib {
            writer.wait_for_capacity(PARTS_AT_ONCE).await?;
            writer.put(piece.clone());
        }
        writer.finish().await?;
        Ok(())
    }

    async fn read(&self, key: &str, mib: usize) -> Result<()> {
        let mut stream = self.0.get(&Path::from(key)).await?.into_stream();
        let mut length = 0;
        while let Some(bytes) = stream.next().await {
            length += bytes?.len() as u64;
        }
        checked(length, mib)
    }
}
