//! Parses the parts of HTTP requests that the gateway's HTTP interfaces need.
//!
//! ```text
//!   GET … Content-Length: 5          Framing         ─→ where heads and bodies end
//!   Host: localhost:9090             Host
//!   GET /v1/files/a%20b?limit=9      target::path, Query
//!   Range: bytes=0-99                Range          ─→ bytes of the file
//!   Content-Range: bytes 0-99/100    ContentRange   ─→ the place of an upload
//!   If-Match: "…", If-Range: …       Conditions     ─→ go, not modified, failed
//! ```
//!
//! Pure: text in, values out. A fuzz target feeds it any bytes.
//!
//! This room must never: touch a socket, a clock or a store; panic; allocate more than its input's
//! length; decode a text twice.

mod conditions;
mod head;
mod host;
mod range;
mod target;

pub use conditions::{Conditions, EntityTag, Fields, State, Verdict};
pub use head::{BadHead, Framing, MAX_FIELDS};
pub use host::Host;
pub use range::{ContentRange, Part, Range};
pub use target::{Query, encode_path, path};

/// The reason why a text is malformed, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// An error with this text.
fn malformed<T>(why: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(why.into()))
}

/// A decimal number without sign or blanks, as RFC 9110 writes lengths and positions.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
