//! Detects a connection's wire by its first bytes.

use crate::{Protocol, Wire};

/// The protocol that a connection's first bytes reveal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sniff {
    /// Not enough bytes yet (at most five are needed).
    NeedMore,
    /// Thrift, on this wire.
    Thrift(Wire),
    /// A TLS handshake record (RFC 8446, section 5.1).
    Tls,
    /// An HTTP method's first letter, or an empty line, which a client may send before its request
    /// (RFC 9112, section 2.2). As the first bytes of a frame's length, they would announce 218 MB or more.
    Http,
    /// An unknown protocol.
    Unknown,
}

/// First byte of a strict binary message: the version word's sign bit.
pub(crate) const BINARY_FIRST: u8 = 0x80;
/// First byte of a compact message: the protocol id.
pub(crate) const COMPACT_FIRST: u8 = 0x82;
/// First byte of a JSON message, an array.
const JSON_FIRST: u8 = b'[';

/// Distinguishes the wires. A framed wire begins with a frame's length. Messages are far shorter than
/// 352 MiB (0x16 << 24 bytes), so the length's first byte never equals another protocol's first byte.
/// Byte five then shows the encoding inside. An unversioned message begins with the length of its
/// method's name, whose high bytes are 0. So byte five is the name's first letter if the wire is
/// unframed, and 0 if it is framed.
pub fn sniff(first: &[u8]) -> Sniff {
    let thrift = |protocol, framed| Sniff::Thrift(Wire { protocol, framed });
    match first {
        [] => Sniff::NeedMore,
        [BINARY_FIRST, ..] => thrift(Protocol::Binary, false),
        [COMPACT_FIRST, ..] => thrift(Protocol::Compact, false),
        [0x16, ..] => Sniff::Tls,
        [b'A'..=b'Z', ..] | [b'\r', b'\n', ..] => Sniff::Http,
        [JSON_FIRST, ..] => thrift(Protocol::Json, false),
        [_, _, _, _, BINARY_FIRST, ..] => thrift(Protocol::Binary, true),
        [_, _, _, _, COMPACT_FIRST, ..] => thrift(Protocol::Compact, true),
        [0 | 1, _, _, _, JSON_FIRST, ..] => thrift(Protocol::Json, true),
        [0, 0, 0, _, b'a'..=b'z' | b'A'..=b'Z', ..] => thrift(Protocol::Unversioned, false),
        [0 | 1, _, _, _, 0, ..] => thrift(Protocol::Unversioned, true),
        [_, _, _, _, _, ..] => Sniff::Unknown,
        _ => Sniff::NeedMore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wire_is_known_by_its_first_bytes() {
        let wire = |protocol, framed| Sniff::Thrift(Wire { protocol, framed });
        assert_eq!(sniff(&[]), Sniff::NeedMore);
        assert_eq!(sniff(&[0x80]), wire(Protocol::Binary, false));
        assert_eq!(sniff(&[0x82]), wire(Protocol::Compact, false));
        assert_eq!(sniff(&[0, 0, 0, 9]), Sniff::NeedMore);
        assert_eq!(sniff(&[0, 0, 0, 9, 0x80]), wire(Protocol::Binary, true));
        assert_eq!(sniff(&[0, 0, 0, 9, 0x82]), wire(Protocol::Compact, true));
        assert_eq!(sniff(b"\0\0\0\x04stat"), wire(Protocol::Unversioned, false));
        assert_eq!(sniff(b"\0\0\x01\x10\0\0\0\x04stat"), wire(Protocol::Unversioned, true));
        assert_eq!(sniff(b"\0\x10\0\0stat"), Sniff::Unknown, "no method has so long a name");
        assert_eq!(sniff(&[0x16, 3, 1]), Sniff::Tls);
        assert_eq!(sniff(b"GET / HTTP/1.1"), Sniff::Http);
        assert_eq!(sniff(b"\r"), Sniff::NeedMore);
        assert_eq!(sniff(b"\r\nGET / HTTP/1.1"), Sniff::Http);
        assert_eq!(sniff(b"[1,\"stat\""), wire(Protocol::Json, false));
        assert_eq!(sniff(b"\0\0\x01\x10[1,"), wire(Protocol::Json, true));
        assert_eq!(sniff(b"hello"), Sniff::Unknown);
    }
}
