//! Compares systems for remote procedure calls: starts their programs, places them on CPUs, and makes
//! slices of calls in turn.

mod contest;
mod programs;

pub use contest::{Case, Contest, Entry, Slices};
pub use programs::{Client, OtherWork, Place, Programs, Server, Slice};

/// The limit's name: a program with only blocking sockets.
pub const BARE: &str = "bare";
/// FlexRPC's name.
pub const OURS: &str = "flexrpc";
/// FlexRPC's C library, with frpcgen's stubs.
pub const OURS_IN_C: &str = "flexrpc-c";
/// A peer over UDP and TCP.
pub const LIBTIRPC: &str = "libtirpc";
/// Peers over TCP.
pub const TCP_PEERS: [&str; 5] = [LIBTIRPC, "thrift-threaded", "thrift-framed-pool", "tonic", "tarpc"];

/// A size in the tables' format.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KB", bytes >> 10),
        _ => format!("{} MB", bytes >> 20),
    }
}
