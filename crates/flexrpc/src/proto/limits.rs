//! Every limit of the protocol, with its reason. What a deployment may want to
//! change is a field of [`crate::ServerOptions`] or [`crate::ClientOptions`];
//! these are their defaults, and the bounds that the wire itself sets.

/// What one IPv4 datagram carries beside the IP (20 bytes) and UDP (8 bytes)
/// headers. The paper's 65,488 forgets the IP header (section IV.C).
pub const UDP_DATAGRAM_BYTES: usize = 65_507;

/// Largest argument or result over TCP. The paper's is unlimited (section IV.C);
/// here a claimed length is money spent, so it is bounded: a Kadoop chunk.
pub const MESSAGE_BYTES: usize = 64 << 20;

/// Of a large message so much must move in the time in which a small one must be
/// whole: who sends or takes byte by byte would keep memory from others for ever. A
/// thousandth of a gigabit link, in 30 seconds.
pub const STALL_BYTES: usize = 4 << 20;

/// Largest extension area of a head: a chain of the longest kind and the longest
/// AUTH_SYS body fit twice.
pub const EXTENSION_BYTES: usize = 16 << 10;

/// Callees of a delivery chain, by default (section IV.C).
pub const CHAIN_CALLEES: usize = 16;

/// Callees of a delivery chain that the wire can carry: their entries fill the
/// extension area.
pub const CHAIN_CALLEES_MAX: usize = 255;

/// Handles of one session. A caller thread uses one at a time, and ids of closed
/// handles are used again, so this is the number of concurrent calls of one
/// client to one callee.
pub const HANDLES_PER_SESSION: u32 = 65_536;

/// Handles over all sessions that a server remembers, some 150 bytes each.
pub const HANDLES: usize = 1 << 20;

/// Bytes of an error's message that go on the wire: a line for people.
pub const FAULT_MESSAGE_BYTES: usize = 1024;

/// Sessions that a server keeps: a thousand clients with ten callees' worth of
/// reconnecting each; 100 bytes a session.
pub const SESSIONS: usize = 65_536;

/// A session unused for this long may be forgotten; its calls are then refused,
/// never executed twice.
pub const SESSION_IDLE_MS: u64 = 30 * 60 * 1000;

/// A session in which no call was ever made is forgotten after this: handshakes
/// cost nothing, and mustn't fill the table.
pub const SESSION_UNUSED_MS: u64 = 60 * 1000;

/// Results kept for duplicated requests, in bytes over all sessions. Beyond it
/// the oldest are evicted, which their callers learn as an explicit error.
pub const CACHED_RESULT_BYTES: usize = 64 << 20;

/// How long a result is kept for a caller that may ask again. Above any sane
/// retransmission interval.
pub const CACHED_RESULT_MS: u64 = 120 * 1000;

/// Shards of the response cache: callers of different handles rarely meet.
pub const CACHE_SHARDS: usize = 64;

/// Largest payload of a call or result over UDP: what a datagram holds beside
/// our head, and the tag where a cluster key is set. Credentials take of it too.
pub const fn udp_payload_bytes(with_key: bool) -> usize {
    let tag = if with_key { crate::proto::frame::TAG_BYTES } else { 0 };
    UDP_DATAGRAM_BYTES - crate::proto::frame::HEAD_BYTES - tag
}
