//! `hdfs-native-get URI REMOTE LOCAL`: the HDFS library that Strait is built on,
//! without Strait: a stream of the whole file, written as it comes. Prints
//! "ready" when it is connected, waits for a line, copies, prints "done".

use futures::StreamExt;
use hdfs_native::ClientBuilder;
use std::fs::File;
use std::io::Write;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [uri, remote, local] = given.as_slice() else {
        return Err("usage: hdfs-native-get URI REMOTE LOCAL".into());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = ClientBuilder::new().with_url(uri).build()?;
        // Connects: start-up is reported apart.
        client.get_file_info("/").await?;
        println!("ready");
        std::io::stdin().read_line(&mut String::new())?;
        let file = client.read(remote).await?;
        let mut stream = Box::pin(file.read_range_stream(0, file.file_length()));
        let mut local = File::create(local)?;
        while let Some(piece) = stream.next().await {
            local.write_all(&piece?)?;
        }
        drop(local);
        println!("done");
        Ok(())
    })
}
