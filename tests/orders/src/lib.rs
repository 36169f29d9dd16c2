//! FlexRPC's sources once more, with `cfg(shuttle)`: its module `orders` then tries the orders in which threads may
//! run. A crate of its own, since a flag for the compiler would build all dependencies a second time.
