//! Every limit of the protocol, with its reason. Limits that a deployment may want to change are
//! fields of [`crate::ServerOptions`] or [`crate::ClientOptions`], with their defaults here. The
//! others are bounds of the wire itself.

/// Bytes that one IPv4 datagram carries beside the IP (20 bytes) and UDP (8 bytes) headers. The
/// paper's 65,488 forgets the IP header (section IV.C).
pub const UDP_DATAGRAM_BYTES: usize = 65_507;

/// Largest argument or result over TCP. The paper sets no limit (section IV.C). FlexRPC bounds it,
/// since a message takes its memory. The largest message is a chunk of Kadoop.
pub const MESSAGE_BYTES: usize = 64 << 20;

/// Bytes of a large message for which its sender or receiver gets one more
/// `ServerOptions::message_stall`. Without this limit, a peer that sends or receives byte by byte
/// would hold memory for ever. 4 MiB in 30 seconds is a thousandth of a gigabit link.
pub const STALL_BYTES: usize = 4 << 20;

/// Bytes of a head without its extension ([`frame`](crate::proto::frame) has its fields).
pub const HEAD_BYTES: usize = 68;

/// Bytes of a frame's tag.
pub const TAG_BYTES: usize = 32;

/// Largest extension of a head, in bytes. A longest chain (12 KB) and the other fields fit.
pub const EXTENSION_BYTES: usize = 16 << 10;

/// Default limit for the callees of a delivery chain (section IV.C).
pub const CHAIN_CALLEES: usize = 16;

/// Most callees of a delivery chain on the wire: a byte counts them.
pub const CHAIN_CALLEES_MAX: usize = 255;

/// Handles of one session. A calling thread uses one at a time, and the client reuses the ids of
/// closed handles. So this is the most concurrent calls of one client to one callee.
pub const HANDLES_PER_SESSION: u32 = 65_536;

/// Handles that a server remembers, over all sessions. Each takes some 150 bytes.
pub const HANDLES: usize = 1 << 20;

/// Bytes of an error's message on the wire: one line for people.
pub const FAULT_MESSAGE_BYTES: usize = 1024;

/// Sessions that a server keeps. Each takes 100 bytes. A thousand clients can open 65 each.
pub const SESSIONS: usize = 65_536;

/// A server may forget a session that is unused for this long. It then refuses the session's calls,
/// and never executes one twice.
pub const SESSION_IDLE_MS: u64 = 30 * 60 * 1000;

/// A server forgets a session in which no call was made after this time. A handshake costs its
/// sender nothing, so handshakes mustn't fill the table.
pub const SESSION_UNUSED_MS: u64 = 60 * 1000;

/// Results that a server keeps for duplicates of requests, in bytes over all sessions. Beyond it
/// the server evicts the oldest, and their callers get an explicit error if they ask again.
pub const CACHED_RESULT_BYTES: usize = 64 << 20;

/// How long a server keeps a result for a caller that may ask again: longer than any sensible
/// interval between retransmissions.
pub const CACHED_RESULT_MS: u64 = 120 * 1000;

/// Shards of the response cache: calls on different handles rarely share one.
pub const CACHE_SHARDS: usize = 64;

/// Largest payload of a call or result over UDP: a datagram without the head, and without the tag
/// if there is a cluster key. Credentials reduce it further.
pub const fn udp_payload_bytes(with_key: bool) -> usize {
    let tag = if with_key { TAG_BYTES } else { 0 };
    UDP_DATAGRAM_BYTES - HEAD_BYTES - tag
}
