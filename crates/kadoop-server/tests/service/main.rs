//! Namenode, datanodes and clients as processes and threads, on real sockets and disks.

mod data;
mod descriptors;
mod digests;
mod faults;
mod hostile;
mod impostors;
mod journal;
mod killed;
mod lending;
mod load;
mod logins;
mod lost_log;
mod minimum;
mod names;
mod observing;
mod operators;
mod power;
mod processes;
mod rack;
mod restarted;
mod sessions;
mod short_circuit;
mod strangers;
mod stuck;
mod support;
mod witness;
