//! The tests of this crate from outside, as one program, which is linked once.

mod hdfs;
mod hdfs_faults;
mod hdfs_files;
mod hdfs_journal;
mod hdfs_leases;
mod hdfs_replicas;
mod hdfs_write;
