//! Compiles interfaces in the RPC language to Rust or C code. It is `rpcgen`'s successor.
//!
//! ```text
//!   foo.x ─ preprocess ─→ tokens ─ parse ─→ Specification ─ check ─→ Model ─ rust ─→ foo.rs
//!           #include, #define, #if        ↑  as written │       checked, named for Rust
//!                                         │             └─ c ─→ foo.h, foo_xdr.c, foo_clnt.c, foo_svc.c
//!                                      library: definitions that foo.x uses but lacks
//! ```
//!
//! The language is that of RFC 5531 and RFC 4506, with rpcgen's extensions: `unsigned` alone, `char` and
//! `short`, enum members without values, string constants, procedures with several arguments. frpcgen has its
//! own preprocessor, since not every machine that builds Rust has a C compiler. As in rpcgen, a source can
//! test the symbols `RPC_HDR`, `RPC_XDR`, `RPC_SVC`, `RPC_CLNT` and `RPC_TBL`. For Rust, frpcgen defines only
//! `RPC_HDR`, since headers have the types. For C, it defines the symbol of the output, and the C compiler
//! resolves names (`docs/flexrpc-c.md`). Lines that begin with `%` go only to C output, but `library` reads
//! numbers and headers from them.
//!
//! If a source doesn't define a name, rpcgen leaves it to the C compiler. frpcgen searches for the name's
//! definition in this order: a file given by `--types`; a line `%#define NAME NUMBER`; the `foo.x` that
//! belongs to `%#include "foo.h"`; the table of C's names (`c_types.x`). If none of them defines the name, it
//! is an error in a source without lines for the C compiler. In a source with such lines, it is a warning: an
//! unknown type becomes an enum without values, and an unknown limit isn't checked.
//!
//! A crate that calls or serves the interface of `idl/foo.x` depends on the package
//! `strait-flexrpc`. Its build dependency is `strait-frpcgen`, whose library is named `frpcgen`:
//!
//! ```toml
//! [dependencies]
//! strait-flexrpc = { path = "…/crates/flexrpc" }
//! [build-dependencies]
//! strait-frpcgen = { path = "…/crates/frpcgen" }
//! ```
//!
//! If a file has only types and constants, and no program, its code needs `strait-xdr` (`crates/xdr`) instead
//! of `strait-flexrpc`. The crate's edition must be 2018 or later, since paths like `::std` mean something
//! else in earlier editions.
//!
//! Call the compiler in the build script, and put `include!(concat!(env!("OUT_DIR"), "/foo.rs"))`
//! into a separate module:
//!
//! ```no_run
//! fn main() -> Result<(), frpcgen::Error> {
//!     frpcgen::compile("idl/foo.x")
//! }
//! ```
//!
//! Or run it by hand: `cargo run -p strait-frpcgen -- idl/foo.x -o foo.rs`.
//!
//! Version 1 of `program FOO_PROGRAM` (or `FOO_PROG`, or `FOO`) yields four items. A callee implements the
//! trait `FooV1Service`. `FooV1Server` turns it into a service that a server registers. `FooV1Client` calls
//! one callee, and `FooV1Callees` calls several in parallel or along a chain.
//! `tests/idl/tests/first_steps.rs` shows all of them on one page. An `Arc` of a service is a service, too:
//! with `FooV1Server(Arc::clone(&state))`, several versions or servers share one state.
//!
//! | in the `.x` | in Rust |
//! | --- | --- |
//! | `int`, `hyper`, `double`, `bool`; `typedef`, `struct` | `i32`, `i64`, `f64`, `bool`; an alias; a struct with the same fields. Scalars are passed by value, other types by reference |
//! | `FOO_ADD`, `fooAdd`; keywords | `foo_add` (`FooAdd` for types); `r#type`; `self` becomes `self_`, since Rust doesn't allow `r#self`. It is an error if two names become the same name in Rust |
//! | procedures `NEW`, `INTO`, `TRY_INTO` | `new_`, `into_`, `try_into_`, since `FooV1Client` has its own `new`, and each type has the other two; arguments `to` and `call` become `to_` and `call_` |
//! | types `result`, `option`, `vec`, `String`, `box`, `some`, `none`, `ok`, `err` | `Result` and so on, with a warning: with `use foo::*` they hide the standard library's. `use foo` hides nothing, and the generated code works either way; `Builder::quiet` suppresses the warning |
//! | `enum unit { UNIT_METRE = 1 }` | `enum Unit { Metre = 1 }`: a prefix equal to the type's name is dropped |
//! | `string`, `opaque<>` | `xdr::Text` (bytes, `as_str` where they are UTF-8), `xdr::Opaque`; both borrow or share |
//! | `opaque[n]`, `t a[n]`, `t a<>` | `[u8; n]`, `[t; n]`, `Vec<t>`; `Opaque` and `Vec` for large `n`, too |
//! | `t *a` | `Option<t>`, in a `Box` where `t` is large or contains itself |
//! | a list, `struct t { …; t *next; }` | `Vec<t>` without `next`, of any length, if the source uses `t` only as `t *` and `next` comes last. Otherwise, the struct stays as it is: values nest at most 128 deep, and have at most 64 KiB of nested structs, where each field counts at least 16 bytes |
//! | `union` | an enum with a variant for each case. `Default` has the discriminant; it can't be sent with a discriminant that has another case. If each value has a case, there is no `Default` |
//!
//! This crate must never: panic, hang or take unbounded memory on any input; write code that doesn't compile;
//! write different outputs for the same input.
#![forbid(unsafe_code)]

mod build;
mod c;
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
pub use c::{Output, Style};
pub use diagnostic::{Diagnostic, Diagnostics, Severity};

/// Largest source file. The largest known protocols (NFS 4.2) have 200 KB.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Most tokens that preprocessing handles. Without a limit, macros could expand without end.
pub const MAX_TOKENS: usize = 1 << 20;

/// Deepest nesting of `#include`, and of `#if`.
pub const MAX_INCLUDE_DEPTH: usize = 16;

/// Deepest nesting of definitions inside each other.
pub const MAX_NESTING: usize = 32;
