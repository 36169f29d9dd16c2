//! Delivery chains of serial multicasting (sections III.B and IV.C): the callees in order, and the
//! outcomes of the call at each.

use crate::proto::frame::FrameError;
use crate::proto::ids::{CallId, SessionId};
use crate::proto::limits::CHAIN_CALLEES_MAX;
use crate::proto::status::{Doubt, Fault, Outcome, Refusal};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};

/// One callee of a chain, and the call's identifier there. The caller opens a session with each
/// callee, so the call has another identifier at each of them. The caller can later ask each callee
/// directly for the call's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The callee's address.
    pub callee: SocketAddr,
    /// The call's identifier at this callee.
    pub id: CallId,
}

/// The callees that must still get the payload.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Chain {
    /// The next one first.
    pub hops: Vec<Hop>,
}

const IPV4: u8 = 4;
const IPV6: u8 = 6;

impl Chain {
    /// Encodes the chain.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.hops.len() as u8];
        for Hop { callee, id } in &self.hops {
            match callee.ip() {
                IpAddr::V4(ip) => {
                    out.push(IPV4);
                    out.extend_from_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    out.push(IPV6);
                    out.extend_from_slice(&ip.octets());
                }
            }
            out.extend_from_slice(&callee.port().to_be_bytes());
            out.extend_from_slice(&id.session.0);
            out.extend_from_slice(&id.handle.to_be_bytes());
            out.extend_from_slice(&id.transaction.to_be_bytes());
        }
        out
    }

    /// Decodes a chain.
    ///
    /// # Errors
    /// [`FrameError::Malformed`] unless the bytes are exactly one chain.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let (count, mut rest) = bytes.split_first().ok_or(FrameError::Malformed)?;
        let hops = (0..*count).map(|_| take_hop(&mut rest)).collect::<Option<Vec<_>>>();
        match hops {
            Some(hops) if rest.is_empty() => Ok(Self { hops }),
            _ => Err(FrameError::Malformed),
        }
    }

    /// Checks the chain that a callee received: together with this callee it has at most `longest`
    /// callees, and none twice. `is_own` recognises this callee's own sessions. One in the chain
    /// reveals a loop, whichever address the chain names.
    ///
    /// # Errors
    /// [`Refusal::BadChain`]: the chain is too long, has a callee twice, or leads back here.
    pub fn check(&self, longest: usize, is_own: impl Fn(SessionId) -> bool) -> Result<(), Refusal> {
        let repeats = |index: usize, hop: &Hop| {
            self.hops[..index]
                .iter()
                .any(|other| other.callee == hop.callee || other.id.session == hop.id.session)
        };
        let bad = self.hops.len() >= longest.min(CHAIN_CALLEES_MAX + 1)
            || self.hops.iter().enumerate().any(|(index, hop)| repeats(index, hop) || is_own(hop.id.session));
        if bad { Err(Refusal::BadChain) } else { Ok(()) }
    }

    /// Splits off the next callee. Returns it, with the rest of the chain, which it gets. `None` if
    /// the chain is empty.
    pub fn split(self) -> Option<(Hop, Self)> {
        let mut hops = self.hops.into_iter();
        let next = hops.next()?;
        Some((next, Self { hops: hops.collect() }))
    }
}

fn take_hop(rest: &mut &[u8]) -> Option<Hop> {
    let ip: IpAddr = match take::<1>(rest)? {
        [IPV4] => take::<4>(rest)?.into(),
        [IPV6] => take::<16>(rest)?.into(),
        _ => return None,
    };
    let port = u16::from_be_bytes(take(rest)?);
    let session = SessionId(take(rest)?);
    let handle = u32::from_be_bytes(take(rest)?);
    let transaction = u64::from_be_bytes(take(rest)?);
    Some(Hop { callee: (ip, port).into(), id: CallId { session, handle, transaction } })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

/// Encodes outcomes. Each is a code, a length, and the value or error.
pub fn encode_outcomes(outcomes: &[Outcome]) -> Vec<u8> {
    let mut out = Vec::new();
    for outcome in outcomes {
        let mut body = Vec::new();
        let code = match outcome {
            Outcome::Value(value) => {
                out.extend_from_slice(&VALUE.to_be_bytes());
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(value);
                continue;
            }
            Outcome::Error(fault) => {
                fault.encode(&mut body);
                FAULT
            }
            Outcome::NotExecuted(refusal) => refusal.encode(&mut body),
            Outcome::Unknown(doubt) => doubt.code(),
        };
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        out.extend_from_slice(&body);
    }
    out
}

const VALUE: u16 = 200;
const FAULT: u16 = 201;

/// Decodes exactly `count` outcomes; values are slices of `bytes`.
///
/// # Errors
/// [`FrameError::Malformed`]: the bytes aren't exactly `count` outcomes.
pub fn decode_outcomes(bytes: &Bytes, count: usize) -> Result<Vec<Outcome>, FrameError> {
    let mut outcomes = Vec::with_capacity(count.min(CHAIN_CALLEES_MAX + 1));
    let mut rest: &[u8] = bytes;
    for _ in 0..count {
        let code = u16::from_be_bytes(take(&mut rest).ok_or(FrameError::Malformed)?);
        let len = u32::from_be_bytes(take(&mut rest).ok_or(FrameError::Malformed)?) as usize;
        let (body, behind) = rest.split_at_checked(len).ok_or(FrameError::Malformed)?;
        rest = behind;
        outcomes.push(match code {
            VALUE => Outcome::Value(bytes.slice_ref(body)),
            FAULT => Outcome::Error(Fault::decode(body)),
            code => match (Refusal::decode(code, body), Doubt::from_code(code)) {
                (Some(refusal), _) => Outcome::NotExecuted(refusal),
                (_, Some(doubt)) => Outcome::Unknown(doubt),
                _ => return Err(FrameError::Malformed),
            },
        });
    }
    if rest.is_empty() { Ok(outcomes) } else { Err(FrameError::Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(port: u16) -> Hop {
        let id = CallId { session: SessionId([port as u8; 16]), handle: port.into(), transaction: 9 };
        Hop { callee: ([127, 0, 0, 1], port).into(), id }
    }

    #[test]
    fn chains_survive_the_wire_and_nothing_else_does() {
        let six = Hop { callee: "[fe80::1]:70".parse().unwrap(), ..hop(3) };
        let chain = Chain { hops: vec![hop(1), six, hop(2)] };
        let bytes = chain.encode();
        assert_eq!(Chain::decode(&bytes), Ok(chain));
        for len in 0..bytes.len() {
            assert!(Chain::decode(&bytes[..len]).is_err());
        }
        assert!(Chain::decode(&[bytes, vec![0]].concat()).is_err());
    }

    #[test]
    fn loops_and_overlong_chains_are_refused() {
        let chain = |ports: &[u16]| Chain { hops: ports.iter().map(|port| hop(*port)).collect() };
        let nobody = |_| false;
        assert_eq!(chain(&[1, 2, 3]).check(4, nobody), Ok(()));
        assert_eq!(chain(&[1, 2, 3]).check(3, nobody), Err(Refusal::BadChain));
        assert_eq!(chain(&[1, 2, 1]).check(16, nobody), Err(Refusal::BadChain));
        let own = |session| session == SessionId([3; 16]);
        assert_eq!(chain(&[1, 2, 3]).check(16, own), Err(Refusal::BadChain));
    }

    #[test]
    fn outcomes_survive_the_wire_and_nothing_else_does() {
        let outcomes = vec![
            Outcome::Value(Bytes::from_static(b"result")),
            Outcome::Value(Bytes::new()),
            Outcome::Error(Fault::application(7, "no")),
            Outcome::NotExecuted(Refusal::VersionMismatch { lowest: 1, highest: 2 }),
            Outcome::Unknown(Doubt::ConnectionLost),
        ];
        let bytes = Bytes::from(encode_outcomes(&outcomes));
        assert_eq!(decode_outcomes(&bytes, 5), Ok(outcomes));
        assert!(decode_outcomes(&bytes, 4).is_err());
        assert!(decode_outcomes(&bytes, 6).is_err());
        for len in 0..bytes.len() {
            assert!(decode_outcomes(&bytes.slice(..len), 5).is_err());
        }
    }
}
