//! Resources for tests: processes that never outlive their test, free ports, waits with a deadline, and a
//! real HDFS.
//!
//! ```no_run
//! let hdfs = strait_testkit::MiniHdfs::start().unwrap();
//! println!("{}", hdfs.uri());
//! ```
//!
//! The functions block their thread, so that every crate's tests can use them with any runtime, or without
//! one. This crate is only for tests; the product mustn't depend on it.

pub mod attacks;
mod ballast;
mod certificates;
mod disturbance;
mod failure;
mod forked;
mod hdfs;
mod http;
mod libhdfs;
mod network;
mod object_server;
mod port;
mod power;
mod process;
mod skip;
mod small_disk;
pub mod sockets;
pub mod thrift;
pub mod wait;

pub use certificates::{Authority, Identity};
pub use disturbance::Disturbance;
pub use failure::{Failure, Result};
pub use forked::Forked;
pub use hdfs::{MiniHdfs, Options, current_user};
pub use http::{HttpAnswer, http_request};
pub use libhdfs::HadoopLibhdfs;
pub use network::{Host, LinkRate, Network};
pub use object_server::{AZURE_ACCOUNT, AZURE_KEY, OBJECT_BUCKET, ObjectServer};
pub use port::free_port;
pub use power::{Format, ImageStore, PowerDisk, Remains};
pub use process::{Process, signal_child, spawn_bound};
pub use skip::skip;
pub use small_disk::SmallDisk;
pub use wait::wait_until;
