//! The tests of this crate from outside, as one program, which is linked once.

mod container;
mod costs;
mod finalize;
mod index;
mod kills;
mod merged;
mod plfs_2_5;
mod sealed;
