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

/// Whether two secrets are the same, in a time that depends only on their lengths.
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::equal;

    #[test]
    fn only_the_same_secret_is_equal() {
        assert!(equal(b"", b"") && equal(b"abc", b"abc"));
        assert!(
            !equal(b"abc", b"abd") && !equal(b"bbc", b"abc") && !equal(b"abc", b"ab") && !equal(b"", b"a")
        );
    }
}
