//! Code that frpcgen generates from `idl/kadoop.x`. Its typed counterparts are in
//! [`crate::messages`]; [`crate::service::convert`] converts between them.

include!(concat!(env!("OUT_DIR"), "/kadoop.rs"));
