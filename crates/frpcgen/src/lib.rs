//! Floor 0: the compiler from the RPC language to code, `rpcgen`'s successor.
//!
//! ```text
//!   foo.x ─ preprocess ─→ tokens ─ parse ─→ Specification ─ check ─→ Model ─ rust ─→ foo.rs
//!           #include, #define, #if           as written                checked, named for Rust
//! ```
//!
//! The language is that of RFC 5531 and RFC 4506, and what rpcgen takes beyond
//! them: `unsigned` alone, `char` and `short`, enums that count by themselves,
//! string constants, procedures of several arguments. The preprocessor is its
//! own, as there isn't a C compiler wherever Rust is built; the symbols
//! `RPC_HDR`, `RPC_XDR`, `RPC_SVC`, `RPC_CLNT` and `RPC_TBL` are known, and for
//! Rust `RPC_HDR` is the one defined, since the header is what holds the types.
//! Lines that begin with `%` go into C output only; a type that only a C header
//! defines is therefore an error, and wants a definition in the source.
//!
//! In a build script, with `include!(concat!(env!("OUT_DIR"), "/foo.rs"))` in a
//! module of its own:
//!
//! ```no_run
//! frpcgen::compile("idl/foo.x").unwrap();
//! ```
//!
//! This crate must never: panic, hang or take unbounded memory over any input;
//! write code that doesn't compile; write two different outputs for one input.
#![forbid(unsafe_code)]

mod build;
mod check;
mod cycles;
mod diagnostic;
mod lex;
mod model;
mod parse;
mod preprocess;
mod rust;
mod scope;
mod source;
mod syntax;

pub use build::{Builder, Error, compile};
pub use diagnostic::{Diagnostic, Diagnostics};

/// Largest source file. The largest known protocols (NFS 4.2) have 200 KB.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Most tokens after preprocessing; macros could otherwise grow without end.
pub const MAX_TOKENS: usize = 1 << 20;

/// Deepest `#include`, and deepest `#if`.
pub const MAX_INCLUDE_DEPTH: usize = 16;

/// Deepest nesting of definitions inside each other.
pub const MAX_NESTING: usize = 32;
