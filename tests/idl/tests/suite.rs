//! The tests of this crate from outside, as one program, which is linked once.

mod acceptance;
mod arbitrary;
mod c;
mod calls;
mod documented;
mod faults;
mod first_steps;
mod foreign;
mod libtirpc;
mod nesting;
mod onc_client;
mod rpcbind;
mod sunrpc;
mod unused;
