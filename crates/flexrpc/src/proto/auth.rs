//! A caller's credentials, and the shared cluster key.
//!
//! Threat model of the key: an attacker may read, inject, alter, drop and replay packets, but
//! doesn't hold the key. Then only key holders can have a call executed or forge an answer. Every
//! frame, payload included, carries an HMAC-SHA256 under a key derived from the cluster key and the
//! session. A replayed call meets the response cache. If the server answers an unverified frame at
//! all, its answer has no tag. So an attacker can't obtain tags. Key holders trust each other.
//! Anybody on the path can read the frames: secrecy needs TLS or a private network. Without a key,
//! only the session id (128 random bits) protects. It stops only attackers that can't see the
//! packets. Servers without a key listen on loopback by default.

use crate::proto::frame::{FrameError, TAG_BYTES};
use crate::proto::ids::SessionId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Shortest cluster key, in bytes: the output of HMAC-SHA256. RFC 2104 §3 discourages shorter ones.
pub const KEY_BYTES_MIN: usize = 32;

/// The secret is too short for a key. Holds its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cluster key needs at least {KEY_BYTES_MIN} secret random bytes, but this one has {0}")]
pub struct KeyTooShort(pub usize);

/// A key that all members of a cluster share.
#[derive(Clone)]
pub struct ClusterKey(Hmac<Sha256>);

impl ClusterKey {
    /// A key of at least [`KEY_BYTES_MIN`] secret random bytes.
    ///
    /// # Errors
    /// The secret has fewer bytes. An empty secret is an error too: it mustn't turn off the key.
    pub fn new(secret: &[u8]) -> Result<Self, KeyTooShort> {
        if secret.len() < KEY_BYTES_MIN {
            return Err(KeyTooShort(secret.len()));
        }
        Ok(Self(hmac(secret)))
    }

    /// The session's key. The handshake's is that of [`SessionId::NONE`].
    pub fn of_session(&self, session: SessionId) -> SessionKey {
        let mut mac = self.0.clone();
        mac.update(b"flexrpc 1 session");
        mac.update(&session.0);
        SessionKey(hmac(&mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(secret)")
    }
}

/// Tags and verifies the frames of one session.
#[derive(Clone)]
pub struct SessionKey(Hmac<Sha256>);

impl SessionKey {
    /// The tag of a frame's slices: head, extension, payload.
    pub fn tag(&self, slices: &[&[u8]]) -> [u8; TAG_BYTES] {
        let mut mac = self.0.clone();
        slices.iter().for_each(|slice| mac.update(slice));
        mac.finalize().into_bytes().into()
    }

    /// Whether `tag` is the slices' tag. Takes the same time wherever the tags differ.
    pub fn verify(&self, slices: &[&[u8]], tag: &[u8]) -> bool {
        let mut mac = self.0.clone();
        slices.iter().for_each(|slice| mac.update(slice));
        mac.verify_slice(tag).is_ok()
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(secret)")
    }
}

fn hmac(key: &[u8]) -> Hmac<Sha256> {
    // HMAC accepts keys of any length; only the trait has an error type.
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of any length"),
    }
}

/// The identity that a caller claims. With a cluster key, all key holders vouch for it. Without
/// one, it proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Credentials {
    /// AUTH_NONE: no identity.
    #[default]
    None,
    /// AUTH_SYS: a user of a host.
    Sys(AuthSys),
}

/// AUTH_SYS (RFC 5531 appendix A).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AuthSys {
    /// Arbitrary.
    pub stamp: u32,
    /// The caller's host; at most [`AuthSys::MACHINE_BYTES`].
    pub machine: String,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Further groups; at most [`AuthSys::GROUPS`].
    pub gids: Vec<u32>,
}

impl AuthSys {
    /// RFC 5531: `string machinename<255>`.
    pub const MACHINE_BYTES: usize = 255;
    /// RFC 5531: `unsigned int gids<16>`.
    pub const GROUPS: usize = 16;

    /// The XDR body, cut to RFC 5531's bounds.
    pub fn encode(&self) -> Vec<u8> {
        let machine = &self.machine.as_bytes()[..self.machine.len().min(Self::MACHINE_BYTES)];
        let gids = &self.gids[..self.gids.len().min(Self::GROUPS)];
        let mut out = Vec::with_capacity(24 + machine.len() + 4 * gids.len());
        let put = |value: u32, out: &mut Vec<u8>| out.extend_from_slice(&value.to_be_bytes());
        put(self.stamp, &mut out);
        put(machine.len() as u32, &mut out);
        out.extend_from_slice(machine);
        out.resize(out.len().next_multiple_of(4), 0);
        put(self.uid, &mut out);
        put(self.gid, &mut out);
        put(gids.len() as u32, &mut out);
        gids.iter().for_each(|gid| put(*gid, &mut out));
        out
    }

    /// Reads an XDR body.
    ///
    /// # Errors
    /// [`FrameError::Malformed`] unless the body is exactly one AUTH_SYS.
    pub fn decode(body: &[u8]) -> Result<Self, FrameError> {
        let mut rest = body;
        let stamp = take_u32(&mut rest)?;
        let length = take_u32(&mut rest)? as usize;
        if length > Self::MACHINE_BYTES {
            return Err(FrameError::Malformed);
        }
        let padded = rest.split_off(..length.next_multiple_of(4)).ok_or(FrameError::Malformed)?;
        let machine = String::from_utf8_lossy(&padded[..length]).into_owned();
        let uid = take_u32(&mut rest)?;
        let gid = take_u32(&mut rest)?;
        let count = take_u32(&mut rest)? as usize;
        if count > Self::GROUPS || rest.len() != count * 4 {
            return Err(FrameError::Malformed);
        }
        let gids = (0..count).map(|_| take_u32(&mut rest)).collect::<Result<_, _>>()?;
        Ok(Self { stamp, machine, uid, gid, gids })
    }
}

fn take_u32(rest: &mut &[u8]) -> Result<u32, FrameError> {
    let (word, behind) = rest.split_first_chunk().ok_or(FrameError::Malformed)?;
    *rest = behind;
    Ok(u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auth_sys_survives_the_wire_and_nothing_else_does() {
        let sys = AuthSys { stamp: 5, machine: "host7".into(), uid: 1000, gid: 100, gids: vec![4, 24] };
        let body = sys.encode();
        // RFC 4506: length 5, padded to 8.
        assert_eq!(&body[4..16], b"\0\0\0\x05host7\0\0\0");
        assert_eq!(AuthSys::decode(&body), Ok(sys));
        for len in 0..body.len() {
            assert!(AuthSys::decode(&body[..len]).is_err());
        }
        assert!(AuthSys::decode(&[0xff; 64]).is_err());
    }

    #[test]
    fn a_tag_holds_for_its_session_key_and_bytes_only() {
        let key = ClusterKey::new(&[1; 32]).unwrap();
        let session = key.of_session(SessionId([2; 16]));
        let tag = session.tag(&[b"he", b"ad", b"payload"]);
        assert!(session.verify(&[b"head", b"payload"], &tag));
        assert!(!session.verify(&[b"head", b"Payload"], &tag));
        assert!(!key.of_session(SessionId([3; 16])).verify(&[b"head", b"payload"], &tag));
        let other = ClusterKey::new(&[4; 32]).unwrap();
        assert!(!other.of_session(SessionId([2; 16])).verify(&[b"head", b"payload"], &tag));
        assert_eq!(ClusterKey::new(&[1; 31]).unwrap_err(), KeyTooShort(31));
    }
}
