//! Kadoop's cores on simulated disks and datanodes, by seeds.

mod balance;
mod bounded;
mod client;
mod closed_files;
mod cluster;
mod concat;
mod datanode;
mod decommission;
mod disk;
mod history;
mod locating;
mod log;
mod memory;
mod namespace;
mod one_file;
mod placement;
mod purse;
mod random;
mod recovery;
mod seals;
mod sessions;
mod small_files;
mod strangers;
mod surveys;
mod syncs;
mod told;
