//! `object-store URL BUCKET KEY SECRET`: an object of an S3 server, by crate object_store alone. Follows orders on
//! standard input, `write MIB` and `read MIB`, and answers each with `done`.

use bytes::Bytes;
use futures::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStoreExt, WriteMultipart};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PIECE_BYTES: usize = 1 << 20;
/// As Strait's parts, and as many at a time.
const PART_BYTES: usize = 8 << 20;
const PARTS_AT_ONCE: usize = 4;

#[tokio::main]
async fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [url, bucket, key, secret] = given.as_slice() else {
        return Err("usage: object-store URL BUCKET KEY SECRET".into());
    };
    let builder = AmazonS3Builder::new().with_bucket_name(bucket).with_region("us-east-1");
    let builder = builder.with_access_key_id(key).with_secret_access_key(secret);
    let store = builder.with_endpoint(url).with_allow_http(true).build()?;
    for order in std::io::stdin().lines() {
        let order = order?;
        let (verb, mib) = order.split_once(' ').ok_or("an order has two words")?;
        let mib = mib.parse()?;
        if verb == "write" {
            write(&store, mib).await?
        } else {
            read(&store, mib).await?
        }
        println!("done");
    }
    Ok(())
}

async fn write(store: &AmazonS3, mib: usize) -> Result<()> {
    let upload = store.put_multipart(&Path::from("bare")).await?;
    let mut writer = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
    let piece: Bytes = (0..PIECE_BYTES).map(|at| ((at * 37) >> 3) as u8).collect();
    for _ in 0..mib {
        writer.wait_for_capacity(PARTS_AT_ONCE).await?;
        writer.put(piece.clone());
    }
    writer.finish().await?;
    Ok(())
}

async fn read(store: &AmazonS3, mib: usize) -> Result<()> {
    let mut stream = store.get(&Path::from("bare")).await?.into_stream();
    let mut length = 0;
    while let Some(bytes) = stream.next().await {
        length += bytes?.len();
    }
    if length == mib << 20 { Ok(()) } else { Err(format!("{length} bytes were read of {mib} MiB").into()) }
}
