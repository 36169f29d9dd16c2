//! Tokens, which give access to a chunk at its datanodes, and with which the datanodes prove their answers.
//!
//! A token has a grant, which its holder sends, and a secret, which the holder never sends. The secret is an
//! HMAC over the chunk, its stamp and the grant, with a key that the namenode and the datanodes have. With
//! the secret, a client tags its calls, and a datanode its answers. So a process that took a datanode's
//! address, or forwards its packets, learns nothing that gives access to a chunk elsewhere, and can't forge
//! an answer. It can't replay an answer, since a proof covers one call's tag. It can't use another
//! datanode's answer, since a proof covers the datanode's identity ([`super::proofs`]).

use crate::random::random;
use crate::wire::{KdGrant, KdToken};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use strait_kadoop_core::{
    ChunkId, Millis, Stamp,
    error::{Error, Result},
};

/// Default lifetime of a token. It is long in comparison with the error of a datanode's clock, which each
/// heartbeat corrects, and short enough that a withdrawn right ends soon.
pub const TOKEN_MS: Millis = 10 * 60 * 1000;
/// Size of a tag: half an HMAC-SHA256. An attacker would need about 2^127 attempts to guess one.
pub const TAG_BYTES: usize = 16;
/// The tag of a call or an answer.
pub type Tag = [u8; TAG_BYTES];

/// The right that a token gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read the chunk.
    Read = 1,
    /// Write, sync and seal the chunk.
    Write = 2,
}

/// Makes tokens, and recomputes their secrets.
#[derive(Clone)]
pub struct TokenKey {
    mac: Hmac<Sha256>,
    /// The next token's serial number. It starts at a random number, so that tokens of different processes
    /// differ, too, and no two clients share a secret.
    serial: Arc<AtomicU64>,
}

impl TokenKey {
    /// From the tokens' key of the cluster.
    ///
    /// # Errors
    /// The system can't produce random numbers.
    pub fn new(key: &[u8]) -> io::Result<Self> {
        Ok(Self { mac: hmac(key), serial: Arc::new(AtomicU64::new(random()?)) })
    }

    /// A new token for one chunk under one stamp, valid until `until_ms` by the namenode's clock.
    pub fn token(&self, chunk: ChunkId, stamp: Stamp, right: Right, until_ms: Millis) -> KdToken {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let grant = KdGrant { right: right as u32, until_ms, serial };
        KdToken { secret: self.secret(chunk, stamp, &grant), grant }
    }

    /// The secret of a token with this grant for this chunk.
    pub fn secret_of(&self, chunk: ChunkId, stamp: Stamp, grant: &KdGrant) -> Secret {
        Secret(hmac(&self.secret(chunk, stamp, grant)))
    }

    fn secret(&self, chunk: ChunkId, stamp: Stamp, grant: &KdGrant) -> [u8; 32] {
        let KdGrant { right, until_ms, serial } = *grant;
        let numbers = [chunk.0, stamp.0, right.into(), until_ms, serial];
        mac(&self.mac, &numbers).finalize().into_bytes().into()
    }
}

/// Checks that a grant gives `right` now.
///
/// # Errors
/// Unauthenticated: it gives another right; TokenExpired.
pub fn demand(grant: &KdGrant, right: Right, now_ms: Millis) -> Result<()> {
    match grant {
        of if of.right != right as u32 => Err(Error::Unauthenticated),
        of if now_ms >= of.until_ms => Err(Error::TokenExpired),
        _ => Ok(()),
    }
}

/// A token's secret, which only the token's holder, the namenode and the datanodes know.
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

impl Secret {
    /// The tag of these numbers.
    pub fn tag(&self, numbers: &[u64]) -> Tag {
        let whole: [u8; 32] = mac(&self.0, numbers).finalize().into_bytes().into();
        let [tag @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = whole;
        tag
    }

    /// Whether `tag` is the tag of these numbers. Compares in constant time.
    pub fn is_tag(&self, numbers: &[u64], tag: &Tag) -> bool {
        mac(&self.0, numbers).verify_truncated_left(tag).is_ok()
    }
}

/// A token, as its holder uses it.
pub struct Token {
    /// The part that its holder sends.
    pub grant: KdGrant,
    /// The part that its holder never sends.
    pub secret: Secret,
    nonce: AtomicU64,
}

impl Token {
    /// From the namenode's answer. The namenode issues no token twice.
    pub fn new(told: &KdToken) -> Self {
        Self { grant: told.grant, secret: Secret(hmac(&told.secret)), nonce: AtomicU64::new(0) }
    }

    /// A nonce that no earlier call with this token had.
    pub fn next_nonce(&self) -> u64 {
        self.nonce.fetch_add(1, Ordering::Relaxed)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("grant", &self.grant).finish_non_exhaustive()
    }
}

fn mac(of: &Hmac<Sha256>, numbers: &[u64]) -> Hmac<Sha256> {
    let mut mac = of.clone();
    for number in numbers {
        mac.update(&number.to_be_bytes());
    }
    mac
}

/// An HMAC-SHA256 with `key`.
pub fn hmac(key: &[u8]) -> Hmac<Sha256> {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of any length"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_of_its_key_chunk_stamp_and_grant_alone() {
        let key = TokenKey::new(&[7; 32]).unwrap();
        let (chunk, stamp) = (ChunkId(5), Stamp(9));
        let told = key.token(chunk, stamp, Right::Write, 1_000);
        let (numbers, grant) = ([1, 2, 3], told.grant);
        let tag = Token::new(&told).secret.tag(&numbers);
        let agrees = |key: &TokenKey, chunk, stamp, grant: &KdGrant| {
            key.secret_of(chunk, stamp, grant).is_tag(&numbers, &tag)
        };
        assert!(agrees(&key, chunk, stamp, &grant));
        assert!(agrees(&TokenKey::new(&[7; 32]).unwrap(), chunk, stamp, &grant), "another datanode's");
        assert!(!agrees(&TokenKey::new(&[8; 32]).unwrap(), chunk, stamp, &grant));
        assert!(!agrees(&key, ChunkId(6), stamp, &grant));
        assert!(!agrees(&key, chunk, Stamp(8), &grant));
        for forged in [
            KdGrant { right: Right::Read as u32, ..grant },
            KdGrant { until_ms: 1_001, ..grant },
            KdGrant { serial: grant.serial ^ 1, ..grant },
        ] {
            assert!(!agrees(&key, chunk, stamp, &forged));
        }
        assert_ne!(key.token(chunk, stamp, Right::Write, 1_000).secret, told.secret, "none is told twice");
    }

    #[test]
    fn a_grant_gives_one_right_for_its_time() {
        let grant = KdGrant { right: Right::Write as u32, until_ms: 1_000, serial: 3 };
        assert_eq!(demand(&grant, Right::Write, 999), Ok(()));
        assert_eq!(demand(&grant, Right::Write, 1_000), Err(Error::TokenExpired));
        assert_eq!(demand(&grant, Right::Read, 0), Err(Error::Unauthenticated));
    }
}
