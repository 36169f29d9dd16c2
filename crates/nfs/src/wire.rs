//! The messages, as frpcgen writes them from `idl/nfs3.x`.
#![allow(missing_docs, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/nfs3.rs"));
