//! Kadoop's cores on simulated disks and datanodes, by seeds.

mod cluster;
mod datanode;
mod disk;
mod log;
mod namespace;
mod random;
mod recovery;
