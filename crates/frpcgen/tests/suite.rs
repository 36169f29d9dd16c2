//! The tests of this crate from outside, as one program, which is linked once.

mod c;
mod command;
mod errors;
mod foreign;
