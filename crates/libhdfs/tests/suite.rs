//! The tests of this crate from outside, as one program, which is linked once.

mod answers;
mod common;
mod contract;
mod installed;
mod interface;
mod libraries;
mod processes;
