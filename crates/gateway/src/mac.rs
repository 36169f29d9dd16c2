//! Message authentication codes under keys of this gateway.

use hmac::{Hmac, KeyInit};
use sha2::Sha256;

/// HMAC-SHA256 with this key.
pub fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    // HMAC pads a key to the hash's block with zeros (RFC 2104, section 2).
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    Hmac::new(&block.into())
}
