//! Every limit of the protocol, with its reason. Limits that a deployment may want to change are
//! fields of [`crate::ServerOptions`] or [`crate::ClientOptions`], with their defaults here. The
//! others are bounds of the wire itself.

/// Bytes that one IPv4 datagram carries beside the IP (20 bytes) and UDP (8 bytes) headers. The
/// paper's 65,488 forgets the IP header (section IV.C).
pub const UDP_DATAGRAM_BYTES: usize = 65_507;

/// Largest argument or result over TCP. The paper sets no limit (section IV.C). Here a claimed
/// length reserves memory, so it is bounded: a Kadoop chunk.
pub const MESSAGE_BYTES: usize = 64 << 20;

/// Bytes of a large message that must move in the time that a small one has to become whole. A peer
/// that sends or takes byte by byte would otherwise hold memory for ever. A thousandth of a gigabit
/// link, in 30 seconds.
pub const STALL_BYTES: usize = 4 << 20;

/// Bytes of a head without its extension ([`frame`](crate::proto::frame) has its fields).
pub const HEAD_BYTES: usize = 68;

/// Bytes of a frame's tag.
pub const TAG_BYTES: usize = 32;

/// Largest extension area of a head: twice a longest chain and a longest AUTH_SYS body.
pub const EXTENSION_BYTES: usize = 16 << 10;

/// Callees of a delivery chain, by default (section IV.C).
pub const CHAIN_CALLEES: usize = 16;

/// Callees of a delivery chain that the wire can carry: their entries fill the extension area.
pub const CHAIN_CALLEES_MAX: usize = 255;

/// Handles of one session. A caller thread uses one at a time, and ids of closed handles are
/// reused. So this is the number of concurrent calls of one client to one callee.
pub const HANDLES_PER_SESSION: u32 = 65_536;

/// Handles over all sessions that a server remembers, some 150 bytes each.
pub const HANDLES: usize = 1 << 20;

/// Bytes of an error's message on the wire: one line for people.
pub const FAULT_MESSAGE_BYTES: usize = 1024;

/// Sessions that a server keeps: a thousand clients with ten callees' worth of
/// reconnecting each; 100 bytes a session.
pub const SESSIONS: usize = 65_536;

/// A server may forget a session that is unused for this long. It then refuses the session's calls,
/// and never executes one twice.
pub const SESSION_IDLE_MS: u64 = 30 * 60 * 1000;

/// A server forgets a session without any call after this time: handshakes cost nothing, and
/// mustn't fill the table.
pub const SESSION_UNUSED_MS: u64 = 60 * 1000;

/// Results kept for duplicated requests, in bytes over all sessions. Beyond it the server evicts
/// the oldest; their callers get an explicit error.
pub const CACHED_RESULT_BYTES: usize = 64 << 20;

/// How long the server keeps a result for a caller that may ask again: longer than any sane
/// retransmission interval.
pub const CACHED_RESULT_MS: u64 = 120 * 1000;

/// Shards of the response cache: calls on different handles rarely share one.
pub const CACHE_SHARDS: usize = 64;

/// Largest payload of a call or result over UDP: a datagram less the head, and less the tag if
/// there is a cluster key. Credentials take some of it too.
pub const fn udp_payload_bytes(with_key: bool) -> usize {
    let tag = if with_key { TAG_BYTES } else { 0 };
    UDP_DATAGRAM_BYTES - HEAD_BYTES - tag
}
