//! Kadoop's cores on simulated disks and datanodes, by seeds.

mod bounded;
mod client;
mod cluster;
mod datanode;
mod disk;
mod log;
mod namespace;
mod one_file;
mod placement;
mod random;
mod recovery;
