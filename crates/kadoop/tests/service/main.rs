//! Namenode, datanodes and clients as processes and threads, on real sockets and disks.

mod data;
mod hostile;
mod names;
mod processes;
mod support;
