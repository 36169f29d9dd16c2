//! Systems of remote procedure calls beside each other: their programs, where
//! they run, and slices of calls in turn.

mod contest;
mod programs;

pub use contest::{Case, Contest, Entry, Slices};
pub use programs::{Client, OtherWork, Place, Programs, Server, Slice};

/// The limit's name: sockets that block, and nothing else.
pub const BARE: &str = "bare";
/// Ours.
pub const OURS: &str = "flexrpc";
/// Over UDP as well as TCP.
pub const LIBTIRPC: &str = "libtirpc";
/// Over TCP.
pub const TCP_PEERS: [&str; 5] = [LIBTIRPC, "thrift-threaded", "thrift-framed-pool", "tonic", "tarpc"];

/// A size as the tables print it.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KB", bytes >> 10),
        _ => format!("{} MB", bytes >> 20),
    }
}
