//! The cost of the adapters for foreign stores, compared with the library that each adapter wraps.
//!
//! - [`plugin`]: a call of a plugin that answers at once, in this process and in a separate one.
//! - [`library`]: a file of a real HDFS, read with Hadoop's libhdfs, alone and through the adapter.
//! - [`object`]: an object of an S3 server, written and read with the crate `object_store`, alone and through
//!   the adapter.
//!
//! `STRAIT_BENCH_MIB`: the files' size, 1,024 MiB by default. The S3 server is MinIO if `STRAIT_TEST_MINIO`
//! names its program, else moto. Since moto is in Python, it then limits both.

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
