//! The tests of this crate from outside, as one program, which is linked once.

mod batched;
mod c_programs;
mod common;
mod edges;
mod forked;
mod generated;
mod header;
mod packages;
mod secured;
