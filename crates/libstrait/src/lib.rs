//! Strait's C library. `include/strait.h` is the manual.
//!
//! ```text
//!   C program ─┬─ c_files.rs ─┬─ streams.rs (an open file)    ─── strait-client's streams ─┬─ a store
//!              │              └─ paths.rs, copies.rs           ────────────────────────────┤
//!              └─ c_plfs.rs ──── plfs.rs (a logical file)     ─── strait-plfs ─────────────┘
//!                 arguments.rs, failure.rs                    process.rs (state of one process)
//! ```
//!
//! `mpi/` is a library in C on top of this one: MPI-IO for programs that weren't written for Strait.
//!
//! Only the files in the second column and `failure.rs` handle C pointers and errno; the others are plain Rust.

#![allow(non_camel_case_types)]

mod arguments;
mod c_files;
mod c_plfs;
mod copies;
mod failure;
mod paths;
mod plfs;
mod process;
mod streams;
