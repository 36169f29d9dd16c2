//! The suites, one module each.

pub mod cli_start;
pub mod code_to_data;
pub mod crowd;
pub mod distance;
pub mod hdfs_faults;
pub mod hdfs_write;
pub mod kadoop_bandwidth;
pub mod kadoop_faults;
pub mod kadoop_hdfs;
pub mod kadoop_local;
pub mod kadoop_recovery;
pub mod ladder;
pub mod native_speed;
pub mod nfs;
pub mod python_get;
pub mod rpc_bandwidth;
pub mod rpc_c;
pub mod rpc_cache;
pub mod rpc_crosswise;
pub mod rpc_crowd;
pub mod rpc_latency;
pub mod rpc_multicast;
pub mod small_files;
pub mod strangers;
pub mod thrift_read;
