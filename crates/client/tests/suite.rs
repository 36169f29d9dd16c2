//! The tests of this crate from outside, as one program, which is linked once.

mod gateway;
mod hostile;
mod limits;
mod sequential;
mod streams;
