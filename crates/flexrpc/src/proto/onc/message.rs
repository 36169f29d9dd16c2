//! Calls and replies (RFC 5531, section 9).

use crate::proto::auth::{AuthSys, Credentials};
use crate::proto::ids::Procedure;

/// The only version of the protocol that is in use.
pub const RPC_VERSION: u32 = 2;

/// Largest body of credentials or a verifier (section 8.2).
pub const AUTH_BYTES: usize = 400;

/// A call's bytes before its arguments, at most: six words, credentials, verifier.
pub const CALL_HEAD_BYTES: usize = 24 + 2 * (8 + AUTH_BYTES);

/// A reply's bytes before its result.
pub const REPLY_HEAD_BYTES: usize = 24;

const CALL: u32 = 0;
const REPLY: u32 = 1;
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;
const RPC_MISMATCH: u32 = 0;
const AUTH_ERROR: u32 = 1;
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;
const AUTH_TLS: u32 = 7;
const STARTTLS: &[u8] = b"STARTTLS";

/// A call, without its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The caller's transaction id, which the reply carries. All transmissions of a call have the
    /// same.
    pub xid: u32,
    /// The called procedure.
    pub procedure: Procedure,
    /// The caller's credentials.
    pub credentials: Credentials,
}

/// Reasons not to execute a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Not a call, so there is no caller to answer.
    NotACall,
    /// A call that the server must deny.
    Denied {
        /// The call's transaction id.
        xid: u32,
        /// The reason.
        why: Denial,
    },
}

/// Reasons to deny a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Another version than [`RPC_VERSION`].
    RpcMismatch,
    /// The caller isn't allowed to call.
    Auth(AuthStatus),
}

/// An error in credentials (section 9, `auth_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthStatus(pub u32);

impl AuthStatus {
    /// The server can't read them.
    pub const BAD_CREDENTIALS: Self = Self(1);
    /// The server doesn't accept this flavour; the client may retry with another one.
    pub const REJECTED_CREDENTIALS: Self = Self(2);
    /// The server can't read the verifier.
    pub const BAD_VERIFIER: Self = Self(3);
    /// These credentials aren't secure enough.
    pub const TOO_WEAK: Self = Self(5);
}

/// An answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Executed; the result follows.
    Success,
    /// The server doesn't have such a program.
    ProgramUnavailable,
    /// The server has other versions of the program.
    ProgramMismatch {
        /// Lowest version that it has.
        low: u32,
        /// Highest version that it has.
        high: u32,
    },
    /// The program has no such procedure.
    ProcedureUnavailable,
    /// The service can't decode the arguments.
    GarbageArguments,
    /// The service failed.
    SystemError,
    /// Denied; the server didn't read the arguments.
    Denied(Denial),
}

impl Call {
    /// Reads a whole message. Returns the call, and the rest as its arguments.
    ///
    /// # Errors
    /// It isn't a call, or the server must deny the call.
    pub fn decode(message: &[u8]) -> Result<(Self, &[u8]), Unfit> {
        let mut rest = message;
        let xid = word(&mut rest)?;
        if word(&mut rest)? != CALL {
            return Err(Unfit::NotACall);
        }
        let denied = |why| Unfit::Denied { xid, why };
        // Check this first: a message of another version may have another format from here on.
        if word(&mut rest)? != RPC_VERSION {
            return Err(denied(Denial::RpcMismatch));
        }
        let procedure = Procedure::new(word(&mut rest)?, word(&mut rest)?, word(&mut rest)?);
        let wrong = |status| denied(Denial::Auth(status));
        let (flavour, body) = auth(&mut rest, wrong(AuthStatus::BAD_CREDENTIALS))?;
        let credentials = match flavour {
            AUTH_NONE => Credentials::None,
            AUTH_SYS => {
                Credentials::Sys(AuthSys::decode(body).map_err(|_| wrong(AuthStatus::BAD_CREDENTIALS))?)
            }
            _ => return Err(wrong(AuthStatus::REJECTED_CREDENTIALS)),
        };
        // With both flavours the verifier proves nothing (section 8.2, appendix A).
        auth(&mut rest, wrong(AuthStatus::BAD_VERIFIER))?;
        Ok((Self { xid, procedure, credentials }, rest))
    }

    /// The bytes before the arguments.
    pub fn encode(&self) -> Vec<u8> {
        let Procedure { program, version, number } = self.procedure;
        let mut out = Vec::with_capacity(CALL_HEAD_BYTES);
        put(&mut out, &[self.xid, CALL, RPC_VERSION, program, version, number]);
        match &self.credentials {
            Credentials::None => put(&mut out, &[AUTH_NONE, 0]),
            Credentials::Sys(sys) => {
                let body = sys.encode();
                put(&mut out, &[AUTH_SYS, body.len() as u32]);
                out.extend_from_slice(&body);
            }
        }
        put(&mut out, &[AUTH_NONE, 0]);
        out
    }
}

impl Answer {
    /// The reply to call `xid`, without the result that follows it.
    pub fn encode(self, xid: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(REPLY_HEAD_BYTES + 8);
        let status = match self {
            Self::Denied(why) => {
                put(&mut out, &[xid, REPLY, DENIED]);
                match why {
                    Denial::RpcMismatch => put(&mut out, &[RPC_MISMATCH, RPC_VERSION, RPC_VERSION]),
                    Denial::Auth(status) => put(&mut out, &[AUTH_ERROR, status.0]),
                }
                return out;
            }
            Self::Success => 0,
            Self::ProgramUnavailable => 1,
            Self::ProgramMismatch { .. } => 2,
            Self::ProcedureUnavailable => 3,
            Self::GarbageArguments => 4,
            Self::SystemError => 5,
        };
        put(&mut out, &[xid, REPLY, ACCEPTED, AUTH_NONE, 0, status]);
        if let Self::ProgramMismatch { low, high } = self {
            put(&mut out, &[low, high]);
        }
        out
    }

    /// Reads a reply: the transaction id, the answer, and the bytes after it. `None` if it isn't a
    /// reply.
    pub fn decode(message: &[u8]) -> Option<(u32, Self, &[u8])> {
        let mut rest = message;
        let mut next = || word(&mut rest).ok();
        let xid = next()?;
        let (kind, status) = (next()?, next()?);
        let answer = match (kind, status) {
            (REPLY, ACCEPTED) => {
                auth(&mut rest, Unfit::NotACall).ok()?;
                let mut next = || word(&mut rest).ok();
                match next()? {
                    0 => Self::Success,
                    1 => Self::ProgramUnavailable,
                    2 => Self::ProgramMismatch { low: next()?, high: next()? },
                    3 => Self::ProcedureUnavailable,
                    4 => Self::GarbageArguments,
                    5 => Self::SystemError,
                    _ => return None,
                }
            }
            (REPLY, DENIED) => match next()? {
                RPC_MISMATCH => {
                    next()?;
                    next()?;
                    Self::Denied(Denial::RpcMismatch)
                }
                AUTH_ERROR => {
                    // Whatever the status is, the call wasn't executed.
                    Self::Denied(Denial::Auth(AuthStatus(next()?)))
                }
                _ => return None,
            },
            _ => return None,
        };
        Some((xid, answer, rest))
    }
}

/// The call by which a client asks to begin TLS (RFC 9289, section 4.1): the null procedure, with
/// AUTH_TLS.
pub fn tls_request(xid: u32, procedure: Procedure) -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    let Procedure { program, version, .. } = procedure;
    put(&mut out, &[xid, CALL, RPC_VERSION, program, version, 0, AUTH_TLS, 0, AUTH_NONE, 0]);
    out
}

/// The transaction id, if a message is a request to begin TLS.
pub fn asks_for_tls(message: &[u8]) -> Option<u32> {
    let mut rest = message;
    let xid = word(&mut rest).ok()?;
    let mut next = || word(&mut rest).ok();
    let begins = [next()?, next()?] == [CALL, RPC_VERSION];
    let (_program, _version) = (next()?, next()?);
    (begins && [next()?, next()?, next()?] == [0, AUTH_TLS, 0]).then_some(xid)
}

/// The server's reply that it will begin TLS.
pub fn tls_offer(xid: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    put(&mut out, &[xid, REPLY, ACCEPTED, AUTH_NONE, STARTTLS.len() as u32]);
    out.extend_from_slice(STARTTLS);
    put(&mut out, &[0]);
    out
}

/// Whether a message is that reply, for the request `xid`.
pub fn is_tls_offer(xid: u32, message: &[u8]) -> bool {
    message == tls_offer(xid)
}

/// Flavour and body of credentials or a verifier; `too_long` if the claimed size exceeds the limit.
fn auth<'m>(rest: &mut &'m [u8], too_long: Unfit) -> Result<(u32, &'m [u8]), Unfit> {
    let flavour = word(rest)?;
    let length = word(rest)? as usize;
    if length > AUTH_BYTES {
        return Err(too_long);
    }
    let body = rest.split_off(..length.next_multiple_of(4)).ok_or(Unfit::NotACall)?;
    Ok((flavour, &body[..length]))
}

fn word(rest: &mut &[u8]) -> Result<u32, Unfit> {
    let (word, behind) = rest.split_first_chunk().ok_or(Unfit::NotACall)?;
    *rest = behind;
    Ok(u32::from_be_bytes(*word))
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(credentials: Credentials) -> Call {
        Call { xid: 0x0102_0304, procedure: Procedure::new(100_003, 3, 7), credentials }
    }

    fn sys() -> Credentials {
        let machine = "host7".to_owned();
        Credentials::Sys(AuthSys { stamp: 9, machine, uid: 1000, gid: 100, gids: vec![4, 24] })
    }

    #[test]
    fn a_call_survives_the_wire_and_keeps_its_arguments() {
        for credentials in [Credentials::None, sys()] {
            let mut bytes = call(credentials.clone()).encode();
            bytes.extend_from_slice(b"arguments");
            assert_eq!(Call::decode(&bytes), Ok((call(credentials), &b"arguments"[..])));
        }
        // Computed by hand from RFC 5531, section 9: xid, CALL, 2, program, version, procedure,
        // none, none.
        let words = [0x0102_0304, 0, 2, 100_003, 3, 7, 0, 0, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        assert_eq!(call(Credentials::None).encode(), bytes);
    }

    #[test]
    fn tls_is_asked_for_and_offered_as_rfc_9289_has_it() {
        let request = tls_request(9, Procedure::new(100_003, 3, 7));
        assert_eq!(asks_for_tls(&request), Some(9));
        assert_eq!(asks_for_tls(&call(sys()).encode()), None);
        // Servers without TLS reject the flavour.
        let why = Denial::Auth(AuthStatus::REJECTED_CREDENTIALS);
        assert_eq!(Call::decode(&request), Err(Unfit::Denied { xid: 9, why }));
        let offer = tls_offer(9);
        assert!(is_tls_offer(9, &offer) && !is_tls_offer(8, &offer));
        assert_eq!(Answer::decode(&offer), Some((9, Answer::Success, &[][..])));
        for len in 0..offer.len() {
            assert!(!is_tls_offer(9, &offer[..len]) && asks_for_tls(&request[..len]).is_none());
        }
    }

    #[test]
    fn a_call_cut_short_is_none() {
        let bytes = call(sys()).encode();
        for len in 0..bytes.len() {
            assert_eq!(Call::decode(&bytes[..len]), Err(Unfit::NotACall), "{len} bytes");
        }
    }

    #[test]
    fn another_rpc_version_is_a_mismatch_whatever_follows() {
        let mut bytes = call(sys()).encode();
        bytes[11] = 3;
        let denied = Unfit::Denied { xid: 0x0102_0304, why: Denial::RpcMismatch };
        assert_eq!(Call::decode(&bytes), Err(denied));
        assert_eq!(Call::decode(&bytes[..12]), Err(denied));
    }

    #[test]
    fn credentials_that_are_no_good_are_told_apart() {
        let denied = |status| Err(Unfit::Denied { xid: 0x0102_0304, why: Denial::Auth(status) });
        let change = |at: usize, word: u32| {
            let mut bytes = call(sys()).encode();
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            bytes
        };
        // The changes: flavour, length, the length of the host name in it, the length of the
        // verifier.
        assert_eq!(Call::decode(&change(24, 6)), denied(AuthStatus::REJECTED_CREDENTIALS));
        assert_eq!(Call::decode(&change(28, 401)), denied(AuthStatus::BAD_CREDENTIALS));
        assert_eq!(Call::decode(&change(28, u32::MAX)), denied(AuthStatus::BAD_CREDENTIALS));
        assert_eq!(Call::decode(&change(36, 256)), denied(AuthStatus::BAD_CREDENTIALS));
        let verifier = call(sys()).encode().len() - 4;
        assert_eq!(Call::decode(&change(verifier, 401)), denied(AuthStatus::BAD_VERIFIER));
    }

    #[test]
    fn every_answer_survives_the_wire() {
        let auth = [1, 5, 13].map(AuthStatus).map(|status| Answer::Denied(Denial::Auth(status)));
        let others = [
            Answer::Success,
            Answer::ProgramUnavailable,
            Answer::ProgramMismatch { low: 2, high: 4 },
            Answer::ProcedureUnavailable,
            Answer::GarbageArguments,
            Answer::SystemError,
            Answer::Denied(Denial::RpcMismatch),
        ];
        for answer in others.into_iter().chain(auth) {
            let mut bytes = answer.encode(77);
            for len in 0..bytes.len() {
                assert_eq!(Answer::decode(&bytes[..len]), None, "{answer:?}, {len} bytes");
            }
            bytes.extend_from_slice(b"rest");
            assert_eq!(Answer::decode(&bytes), Some((77, answer, &b"rest"[..])));
        }
        assert_eq!(Answer::Success.encode(1).len(), REPLY_HEAD_BYTES);
    }

    #[test]
    fn a_denial_for_any_reason_is_one() {
        let rejected = Answer::Denied(Denial::Auth(AuthStatus::REJECTED_CREDENTIALS));
        let mut bytes = rejected.encode(77);
        // AUTH_REJECTEDVERF, AUTH_FAILED, RPCSEC_GSS_CTXPROBLEM, and an unassigned number.
        for status in [4, 7, 14, u32::MAX] {
            bytes[16..].copy_from_slice(&status.to_be_bytes());
            let denied = Answer::Denied(Denial::Auth(AuthStatus(status)));
            assert_eq!(Answer::decode(&bytes), Some((77, denied, &[][..])), "{status}");
        }
    }
}
