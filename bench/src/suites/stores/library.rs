//! Hadoop's libhdfs, used through the adapter for libraries with the interface hdfs.h.

use crate::Result;
use crate::host::{seconds, setting};
use crate::kadoop::data_directory;
use crate::pairs::interleave;
use crate::programs::{libhdfs_get, library_get};
use crate::report::{Better, Row};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use strait_store::{FileSystem, MAX_CHUNK_BYTES, Principal, StorePath};
use strait_store_abi::HdfsLibrary;
use strait_store_plugin::ForeignStore;
use strait_testkit::{HadoopLibhdfs, MiniHdfs, Options, spawn_bound};

const RUNS: usize = 7;
const PATH: &str = "/large";

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("STRAIT_BENCH_MIB", 1_024)?;
    let hdfs = MiniHdfs::start_own(&Options { parent: Some(data_directory()), ..Options::measured() })?;
    let strait = crate::host::strait()?;
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let local = dir.path().join("large");
    crate::host::make_file(&local, mib)?;
    seconds(Command::new(strait).arg("put").arg(&local).arg(format!("{}{PATH}", hdfs.uri())))?;
    std::fs::remove_file(&local)?;

    let library = HadoopLibhdfs::find()?.build_in(dir.path())?.join("libhdfs.so.0.0.0");
    let read = |command: Command| Ok((mib << 20) as f64 / 1e6 / transfer(command)?);
    let pair = interleave(
        RUNS,
        || read(library_get(&hdfs, &library, PATH)?),
        || read(libhdfs_get(&hdfs, PATH, MAX_CHUNK_BYTES)?),
    )?;
    let case = format!("libhdfs reads {mib} MiB through the adapter; limit: libhdfs");
    Ok(vec![Row::of_pair(case, "MB/s", Better::Higher, RUNS, &pair)])
}

/// Runs a program, and returns the seconds from its line "ready" to its line "done".
fn transfer(mut command: Command) -> Result<f64> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn_bound(command)?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let (mut input, output) = input.zip(output).ok_or("the program has no pipes")?;
    let mut lines = BufReader::new(output).lines();
    let mut expect = |word: &str| match lines.next() {
        Some(Ok(line)) if line == word => Ok(()),
        other => Err(format!("libhdfs: {other:?} in place of {word:?}")),
    };
    expect("ready")?;
    let begin = Instant::now();
    input.write_all(b"\n")?;
    expect("done")?;
    let took = begin.elapsed().as_secs_f64();
    child.wait()?;
    Ok(took)
}

/// Waits for a line on standard input, and then reads the file as the gateway does.
pub fn get(library: &str, uri: &str, path: &str) -> Result<()> {
    let store = ForeignStore::new(Arc::new(HdfsLibrary::open(library.as_ref(), uri, &[])?));
    let (who, path) = (Principal::new(&strait_testkit::current_user()), StorePath::parse(path)?);
    let mut local = std::fs::File::create("/dev/null")?;
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let reader = store.open(&who, &path).await?;
        let mut offset = 0;
        loop {
            let bytes = reader.read_at(offset, MAX_CHUNK_BYTES).await?;
            if bytes.is_empty() {
                return Ok::<_, Box<dyn std::error::Error>>(());
            }
            local.write_all(&bytes)?;
            offset += bytes.len() as u64;
        }
    })?;
    println!("done");
    Ok(())
}
