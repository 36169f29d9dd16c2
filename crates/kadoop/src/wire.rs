//! What frpcgen makes of `idl/kadoop.x`. Values that mean something are in
//! [`crate::messages`]; [`crate::service::convert`] leads from one to the other.

include!(concat!(env!("OUT_DIR"), "/kadoop.rs"));
