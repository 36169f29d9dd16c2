//! The cost of the adapters for other people's stores, above the library that each one wraps.
//!
//! - [`plugin`]: a call of a plugin that answers at once, in this process and in one of its own.
//! - [`library`]: a file of a real HDFS, read by Hadoop's libhdfs, bare and behind the adapter.
//! - [`object`]: an object of an S3 server, written and read by crate `object_store`, bare and behind the
//!   adapter.
//!
//! `STRAIT_BENCH_MIB`: the files' size, 1,024 MiB by default. The S3 server is MinIO if `STRAIT_TEST_MINIO`
//! names its program, else moto, which is in Python: then the server is the limit of both.

pub mod library;
mod object;
pub mod plugin;

use crate::Result;
use crate::report::Row;

pub fn run() -> Result<Vec<Row>> {
    let mut rows = plugin::run()?;
    rows.extend(library::run()?);
    rows.extend(object::run()?);
    Ok(rows)
}
