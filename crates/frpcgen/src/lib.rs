//! Floor 0: the compiler from the RPC language to code, `rpcgen`'s successor.
//!
//! ```text
//!   foo.x ─ preprocess ─→ tokens ─ parse ─→ Specification ─ check ─→ Model ─ rust ─→ foo.rs
//!           #include, #define, #if        ↑  as written         checked, named for Rust
//!                                      library: what foo.x takes from elsewhere
//! ```
//!
//! The language is that of RFC 5531 and RFC 4506, and what rpcgen takes beyond
//! them: `unsigned` alone, `char` and `short`, enums that count by themselves,
//! string constants, procedures of several arguments. The preprocessor is its
//! own, as there isn't a C compiler wherever Rust is built; the symbols
//! `RPC_HDR`, `RPC_XDR`, `RPC_SVC`, `RPC_CLNT` and `RPC_TBL` are known, and for
//! Rust `RPC_HDR` is the one defined, since the header is what holds the types.
//! Lines that begin with `%` go into C output only, but `library` reads numbers and headers from
//! them.
//!
//! rpcgen leaves each name that a source doesn't define to the C compiler. frpcgen takes its
//! definition from a file given by `--types`, a line `%#define NAME NUMBER`, the `foo.x` behind
//! `%#include "foo.h"`, or the table of C's names (`c_types.x`), in this order. If none of them has
//! it, the name is an error in a source without lines for the C compiler. In a source with such
//! lines, frpcgen warns: a type becomes an enum without values, a limit isn't checked.
//!
//! A crate that calls or serves what `idl/foo.x` says depends on the packages `strait-flexrpc`
//! and, to build, `strait-frpcgen`, whose library is named `frpcgen`:
//!
//! ```toml
//! [dependencies]
//! strait-flexrpc = { path = "…/crates/flexrpc" }
//! [build-dependencies]
//! strait-frpcgen = { path = "…/crates/frpcgen" }
//! ```
//!
//! Of a file without a program, which has types or constants alone, the code stands on
//! `strait-xdr` (`crates/xdr`), to be named in place of `strait-flexrpc`. The crate's edition is
//! 2018 or later: before that, paths like `::std` mean something else.
//!
//! In its build script, with `include!(concat!(env!("OUT_DIR"), "/foo.rs"))` in a
//! module of its own:
//!
//! ```no_run
//! fn main() -> Result<(), frpcgen::Error> {
//!     frpcgen::compile("idl/foo.x")
//! }
//! ```
//!
//! Or by hand: `cargo run -p strait-frpcgen -- idl/foo.x -o foo.rs`.
//!
//! Of version 1 of `program FOO_PROGRAM` (or `FOO_PROG`, or `FOO`) come `FooV1Service`, the trait
//! that a callee implements; `FooV1Server`, which makes of it what a server registers;
//! `FooV1Client`, to call one callee; and `FooV1Callees`, to call several in parallel or along a
//! chain. `tests/idl/tests/first_steps.rs` has all of them in one page. An `Arc` of a service is
//! one as well: with `FooV1Server(Arc::clone(&state))` several versions, or servers, share a state.
//!
//! | in the `.x` | in Rust |
//! | --- | --- |
//! | `int`, `hyper`, `double`, `bool`; `typedef`, `struct` | `i32`, `i64`, `f64`, `bool`; an alias; a struct with the same fields. Scalars are passed by value, all else by reference |
//! | `FOO_ADD`, `fooAdd`; keywords | `foo_add`, for types `FooAdd`; `r#type`, and `self_` where Rust has no `r#self`. Two names that are one in Rust are an error |
//! | procedures `NEW`, `INTO`, `TRY_INTO` | `new_`, `into_`, `try_into_`, since `FooV1Client::new` is there already, and any type has the others; arguments `to` and `call` are `to_` and `call_` |
//! | types `result`, `option`, `vec`, `String`, `box`, `some`, `none`, `ok`, `err` | `Result` and so on, with a warning: `use foo::*` hides the standard library's behind them. `use foo` doesn't, and what frpcgen writes doesn't mind; `Builder::quiet` takes the warning away |
//! | `enum unit { UNIT_METRE = 1 }` | `enum Unit { Metre = 1 }`: a beginning that is the type's name goes |
//! | `string`, `opaque<>` | `xdr::Text` (bytes, `as_str` where they are UTF-8), `xdr::Opaque`; both borrow or share |
//! | `opaque[n]`, `t a[n]`, `t a<>` | `[u8; n]`, `[t; n]`, `Vec<t>`; `Opaque` and `Vec` for large `n`, too |
//! | `t *a` | `Option<t>`, in a `Box` where `t` is large or contains itself |
//! | a list, `struct t { …; t *next; }` | `Vec<t>` without `next`, of any length, if the source uses `t` as `t *` alone and `next` comes last; else as it stands, nested 128 deep at most, or 64 KiB of structs, with 16 bytes for each field at least |
//! | `union` | an enum with a variant for each case; `Default` carries the discriminant, and one that has a case of its own isn't sent; where each value has a case there is no `Default` |
//!
//! This crate must never: panic, hang or take unbounded memory over any input;
//! write code that doesn't compile; write two different outputs for one input.
#![forbid(unsafe_code)]

mod build;
mod check;
mod cycles;
mod diagnostic;
mod lex;
mod library;
mod model;
mod parse;
mod preprocess;
mod rust;
mod scope;
mod source;
mod syntax;

pub use build::{Builder, Error, Generated, compile};
pub use diagnostic::{Diagnostic, Diagnostics, Severity};

/// Largest source file. The largest known protocols (NFS 4.2) have 200 KB.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Most tokens after preprocessing; macros could otherwise grow without end.
pub const MAX_TOKENS: usize = 1 << 20;

/// Deepest `#include`, and deepest `#if`.
pub const MAX_INCLUDE_DEPTH: usize = 16;

/// Deepest nesting of definitions inside each other.
pub const MAX_NESTING: usize = 32;
