//! The variable part of a head: fields of type, length and bytes.
//!
//! Types below 128 change the meaning of a frame, so receivers refuse unknown ones. Types from 128
//! on are hints, and receivers ignore unknown ones. So later versions can add hints.

use crate::RequestId;
use crate::proto::auth::{AuthSys, Credentials};
use crate::proto::bond::KeyId;
use crate::proto::chain::Chain;
use crate::proto::frame::FrameError;

const AUTH_SYS: u8 = 1;
const CHAIN: u8 = 2;
const NONCE: u8 = 3;
const KEY_ID: u8 = 4;
const FIRST_HINT: u8 = 128;
const TERMS: u8 = 128;
const REQUEST: u8 = 129;

/// A random value that the answer to a handshake repeats, as proof that the answer is fresh.
pub type Nonce = [u8; 16];

/// The server's terms, sent in its Welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Largest payload that the server accepts over TCP, in bytes.
    pub payload_bytes: u32,
    /// Time after which the server forgets an unused session, in milliseconds.
    pub session_idle_ms: u32,
}

/// A head's extension, parsed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Extension {
    /// The caller's credentials.
    pub credentials: Credentials,
    /// The callees after this one.
    pub chain: Option<Chain>,
    /// Handshake: the nonce.
    pub nonce: Option<Nonce>,
    /// Handshake: the id of the key that made the tag, if it isn't the cluster's.
    pub key_id: Option<KeyId>,
    /// Handshake: the server's terms.
    pub terms: Option<Terms>,
    /// The request that the caller works for; for logs.
    pub request: Option<RequestId>,
}

/// The caller, and the request that it works for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Caller {
    /// The identity that it claims.
    pub credentials: Credentials,
    /// The request that it works for; for logs.
    pub request: Option<RequestId>,
}

impl From<Caller> for Extension {
    fn from(Caller { credentials, request }: Caller) -> Self {
        Self { credentials, request, ..Self::default() }
    }
}

impl Extension {
    /// The caller, and the request that it works for.
    pub fn into_caller(self) -> Caller {
        Caller { credentials: self.credentials, request: self.request }
    }

    /// Encodes the extension.
    #[inline(never)]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Credentials::Sys(sys) = &self.credentials {
            put(&mut out, AUTH_SYS, &sys.encode());
        }
        if let Some(chain) = &self.chain {
            put(&mut out, CHAIN, &chain.encode());
        }
        if let Some(nonce) = &self.nonce {
            put(&mut out, NONCE, nonce);
        }
        if let Some(id) = &self.key_id {
            put(&mut out, KEY_ID, id.bytes());
        }
        if let Some(terms) = &self.terms {
            let mut bytes = terms.payload_bytes.to_be_bytes().to_vec();
            bytes.extend_from_slice(&terms.session_idle_ms.to_be_bytes());
            put(&mut out, TERMS, &bytes);
        }
        if let Some(request) = &self.request {
            put(&mut out, REQUEST, &request.0);
        }
        out
    }

    /// Decodes an extension.
    ///
    /// # Errors
    /// [`FrameError::Malformed`]: a field is cut off, repeated, or of an unknown type below 128.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, FrameError> {
        let mut parsed = Self::default();
        while !bytes.is_empty() {
            let (kind, value) = take(&mut bytes).ok_or(FrameError::Malformed)?;
            match kind {
                AUTH_SYS if parsed.credentials == Credentials::None => {
                    parsed.credentials = Credentials::Sys(AuthSys::decode(value)?);
                }
                CHAIN if parsed.chain.is_none() => parsed.chain = Some(Chain::decode(value)?),
                NONCE if parsed.nonce.is_none() => {
                    parsed.nonce = Some(value.try_into().map_err(|_| FrameError::Malformed)?);
                }
                KEY_ID if parsed.key_id.is_none() => {
                    parsed.key_id = Some(KeyId::new(value).ok_or(FrameError::Malformed)?);
                }
                TERMS if value.len() >= 8 => {
                    let word = |at: usize| {
                        u32::from_be_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]])
                    };
                    parsed.terms = Some(Terms { payload_bytes: word(0), session_idle_ms: word(4) });
                }
                REQUEST if value.len() >= 16 && parsed.request.is_none() => {
                    parsed.request = value.first_chunk().copied().map(RequestId);
                }
                hint if hint >= FIRST_HINT => {}
                _ => return Err(FrameError::Malformed),
            }
        }
        Ok(parsed)
    }
}

fn put(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(value.len() as u16).to_be_bytes());
    out.extend_from_slice(value);
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let ([kind, high, low], rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
    *bytes = rest;
    Some((*kind, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ids::{CallId, SessionId};

    fn sample() -> Extension {
        let hop = |port| crate::proto::chain::Hop {
            callee: ([127, 0, 0, 1], port).into(),
            id: CallId { session: SessionId([port as u8; 16]), handle: 1, transaction: 2 },
        };
        Extension {
            credentials: Credentials::Sys(AuthSys { machine: "h".into(), ..AuthSys::default() }),
            chain: Some(Chain { hops: vec![hop(1), hop(2)] }),
            nonce: Some([5; 16]),
            key_id: KeyId::new(b"ada"),
            terms: Some(Terms { payload_bytes: 9, session_idle_ms: 8 }),
            request: Some(RequestId([3; 16])),
        }
    }

    #[test]
    fn an_extension_survives_the_wire() {
        for extension in [sample(), Extension::default()] {
            assert_eq!(Extension::decode(&extension.encode()), Ok(extension));
        }
    }

    #[test]
    fn truncated_repeated_and_unknown_parts_are_refused_hints_are_not() {
        let bytes = sample().encode();
        let whole_parts = (0..bytes.len()).filter(|len| Extension::decode(&bytes[..*len]).is_ok()).count();
        assert_eq!(whole_parts, 6, "only cuts between parts are well-formed");
        let twice = [bytes.clone(), bytes].concat();
        assert!(Extension::decode(&twice).is_err());
        assert!(Extension::decode(&[77, 0, 1, 0]).is_err());
        assert_eq!(Extension::decode(&[200, 0, 1, 0]), Ok(Extension::default()));
    }
}
