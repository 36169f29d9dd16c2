//! Code that frpcgen generates from `idl/kadoop.x`. Its typed counterparts are in
//! [`strait_kadoop_core::messages`]; [`crate::convert`] converts between them.

include!(concat!(env!("OUT_DIR"), "/kadoop.rs"));
