//! Namenode, datanodes and clients as processes and threads, on real sockets and disks.

mod data;
mod hostile;
mod killed;
mod lending;
mod names;
mod processes;
mod short_circuit;
mod support;
