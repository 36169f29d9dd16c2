//! The tests of this crate from outside, as one program, which is linked once.

mod common;
mod contract;
mod contract_catches;
mod file_and_memory_agree;
mod file_confinement;
mod file_store;
mod network;
mod uri_cases;
