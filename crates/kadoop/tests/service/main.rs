//! Namenode, datanodes and clients as processes and threads, on real sockets and disks.

mod data;
mod hostile;
mod killed;
mod names;
mod processes;
mod support;
