//! The messages, which frpcgen generates from `idl/nfs3.x`.
#![allow(missing_docs, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/nfs3.rs"));
