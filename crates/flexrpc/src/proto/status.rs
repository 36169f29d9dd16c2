//! Outcomes of a call at one callee: a value, an error, not executed, or not known. The paper
//! leaves partial success of a chain ambiguous (section III.B). Here every callee has one of these
//! four outcomes, and an outcome claims no more than is certain.

use crate::proto::limits::FAULT_MESSAGE_BYTES;
use bytes::Bytes;
use std::{fmt, io};

/// The outcome of a call at one callee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Executed once, with this result.
    Value(Bytes),
    /// Executed once; the procedure ended with this error.
    Error(Fault),
    /// Not executed, and never will be.
    NotExecuted(Refusal),
    /// Executed once or not at all.
    Unknown(Doubt),
}

impl Outcome {
    /// Whether the procedure was executed and returned a value.
    pub fn is_value(&self) -> bool {
        matches!(self, Self::Value(_))
    }

    /// The value, or the reason for its absence.
    ///
    /// # Errors
    /// Any outcome other than a value.
    pub fn into_result(self) -> Result<Bytes, CallError> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Error(fault) => Err(CallError::Fault(fault)),
            Self::NotExecuted(refusal) => Err(CallError::NotExecuted(refusal)),
            Self::Unknown(doubt) => Err(CallError::Unknown(doubt)),
        }
    }
}

/// Reasons why a call has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Executed; the procedure ended with an error.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// Not executed, and never will be. The caller can safely repeat the call.
    #[error("not executed: {0}")]
    NotExecuted(#[from] Refusal),
    /// Executed once or not at all.
    #[error("outcome unknown: {0}")]
    Unknown(#[from] Doubt),
}

impl CallError {
    /// Whether the caller may repeat the call without the risk of executing a procedure twice.
    pub fn is_retry_safe(&self) -> bool {
        matches!(self, Self::NotExecuted(_))
    }
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => Self::Error(fault),
            CallError::NotExecuted(refusal) => Self::NotExecuted(refusal),
            CallError::Unknown(doubt) => Self::Unknown(doubt),
        }
    }
}

/// The kind of error that a procedure ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The arguments couldn't be decoded (RFC 5531: GARBAGE_ARGS).
    GarbageArguments,
    /// The service failed (RFC 5531: SYSTEM_ERR).
    System,
    /// The service's own error number.
    Application(u32),
}

/// An error that a procedure ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of error.
    pub kind: FaultKind,
    /// A line for people; at most [`FAULT_MESSAGE_BYTES`] of it are sent.
    pub message: String,
}

impl Fault {
    const GARBAGE: u32 = 1;
    const SYSTEM: u32 = 2;
    const APPLICATION: u32 = 3;

    /// The arguments couldn't be decoded.
    pub fn garbage_arguments(message: impl Into<String>) -> Self {
        Self { kind: FaultKind::GarbageArguments, message: message.into() }
    }

    /// The service failed.
    pub fn system(message: impl Into<String>) -> Self {
        Self { kind: FaultKind::System, message: message.into() }
    }

    /// The service's own error `code`.
    pub fn application(code: u32, message: impl Into<String>) -> Self {
        Self { kind: FaultKind::Application(code), message: message.into() }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, code) = match self.kind {
            FaultKind::GarbageArguments => (Self::GARBAGE, 0),
            FaultKind::System => (Self::SYSTEM, 0),
            FaultKind::Application(code) => (Self::APPLICATION, code),
        };
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(&self.message.as_bytes()[..self.message.len().min(FAULT_MESSAGE_BYTES)]);
    }

    /// Decodes any bytes: a garbled fault is still a fault.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
        };
        let kind = match word(0) {
            Self::GARBAGE => FaultKind::GarbageArguments,
            Self::APPLICATION => FaultKind::Application(word(4)),
            _ => FaultKind::System,
        };
        let text = bytes.get(8..).unwrap_or_default();
        let text = &text[..text.len().min(FAULT_MESSAGE_BYTES)];
        Self { kind, message: String::from_utf8_lossy(text).into_owned() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FaultKind::GarbageArguments => write!(f, "can't decode the arguments: {}", self.message),
            FaultKind::System => write!(f, "service failed: {}", self.message),
            FaultKind::Application(code) => write!(f, "error {code}: {}", self.message),
        }
    }
}

impl std::error::Error for Fault {}

/// Reasons why a call was certainly not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The server has no such program.
    #[error("the callee has no such program")]
    ProgramUnavailable,
    /// The server has other versions of the program.
    #[error("the callee has versions {lowest} to {highest} of the program")]
    VersionMismatch {
        /// Lowest version that the server has.
        lowest: u32,
        /// Highest version that it has.
        highest: u32,
    },
    /// The program has no such procedure.
    #[error("the program has no such procedure")]
    ProcedureUnavailable,
    /// The deadline passed before execution began.
    #[error("the deadline passed before the call began")]
    DeadlinePassed,
    /// The session belongs to an earlier incarnation of the server or was
    /// forgotten, and this call can't have been executed in it.
    #[error("the callee doesn't know the session")]
    UnknownSession,
    /// The caller's key is missing, wrong or no longer valid, or the callee has none; or the caller
    /// isn't allowed to call this program.
    #[error("the callee rejects the caller: its key is missing, wrong or expired, or the callee has none")]
    Unauthenticated,
    /// A server of plain ONC RPC doesn't accept the caller's credentials.
    #[error("the server rejects the caller's credentials ({})", auth_status(*.0))]
    RejectedCredentials(u32),
    /// Larger than the callee or the transport accepts.
    #[error("the message is larger than the callee or the transport accepts; if it went over UDP, use TCP")]
    TooLarge,
    /// The callee is at one of its limits.
    #[error("the callee is overloaded: one of its limits is reached")]
    Overloaded,
    /// The callee is shutting down.
    #[error("the callee is shutting down")]
    ShuttingDown,
    /// The chain is empty, too long, not over TCP, or has a callee twice.
    #[error("the delivery chain is not valid: empty, too long, over UDP, or with a callee twice")]
    BadChain,
    /// The handle already has a later call.
    #[error("the caller has already begun a later call on this handle")]
    Superseded,
    /// The caller revoked the call before it was executed.
    #[error("the call was revoked")]
    Revoked,
    /// The message doesn't follow the protocol.
    #[error("the message doesn't follow the protocol")]
    Malformed,
    /// The callee couldn't be reached, so nothing was sent.
    #[error("the callee can't be reached{0}")]
    Unreachable(Obstacle),
    /// The last byte never left, so the callee can't have the whole payload.
    #[error("the call wasn't sent in full")]
    NotSent,
    /// The chain broke, or never began, so this callee never got the call. Another callee's outcome
    /// gives the reason.
    #[error("the chain broke at another callee")]
    NotForwarded,
    /// The callee doesn't pass calls on to the next one of the chain
    /// ([`crate::Forwarding`]).
    #[error("the callee isn't allowed to forward the call to the next callee of the chain")]
    ForwardingDenied,
    /// The callee or the client's own options require TLS, but the call isn't encrypted. Over UDP
    /// there is no TLS.
    #[error("TLS is required: call over TCP, from a client with TLS options")]
    TlsRequired,
    /// The client called by TLS, but the callee doesn't use it.
    #[error("the callee doesn't use TLS: give it a certificate, or call it without TLS")]
    TlsUnavailable,
    /// The client doesn't trust the callee's certificate.
    #[error(
        "the callee's certificate isn't trusted: it must be in date, for the callee's address or the name \
         expected, and from an authority of the client's file; or pinned there"
    )]
    Untrusted,
    /// The client showed no certificate, or one that the callee doesn't trust.
    #[error("the callee requires a certificate from an authority that it trusts: give the client one")]
    CertificateWanted,
}

impl Refusal {
    const CODES: [(Self, u16); 19] = [
        (Self::ProgramUnavailable, 1),
        (Self::ProcedureUnavailable, 3),
        (Self::DeadlinePassed, 4),
        (Self::UnknownSession, 5),
        (Self::Unauthenticated, 6),
        (Self::TooLarge, 7),
        (Self::Overloaded, 8),
        (Self::ShuttingDown, 9),
        (Self::BadChain, 10),
        (Self::Superseded, 11),
        (Self::Revoked, 12),
        (Self::Malformed, 13),
        (Self::NotSent, 15),
        (Self::NotForwarded, 16),
        (Self::ForwardingDenied, 17),
        (Self::TlsRequired, 18),
        (Self::TlsUnavailable, 19),
        (Self::Untrusted, 20),
        (Self::CertificateWanted, 21),
    ];
    const VERSION_MISMATCH: u16 = 2;
    const UNREACHABLE: u16 = 14;

    /// The wire's code; appends bytes of detail. Servers never send [`Self::RejectedCredentials`].
    pub(crate) fn encode(self, detail: &mut Vec<u8>) -> u16 {
        match self {
            Self::VersionMismatch { lowest, highest } => {
                detail.extend_from_slice(&lowest.to_be_bytes());
                detail.extend_from_slice(&highest.to_be_bytes());
                Self::VERSION_MISMATCH
            }
            Self::Unreachable(obstacle) => {
                detail.push(obstacle as u8);
                Self::UNREACHABLE
            }
            _ => Self::CODES.iter().find(|(refusal, _)| *refusal == self).map_or(0, |(_, code)| *code),
        }
    }

    pub(crate) fn decode(code: u16, detail: &[u8]) -> Option<Self> {
        if code == Self::VERSION_MISMATCH {
            let (lowest, rest) = detail.split_first_chunk()?;
            let (highest, _) = rest.split_first_chunk()?;
            return Some(Self::VersionMismatch {
                lowest: u32::from_be_bytes(*lowest),
                highest: u32::from_be_bytes(*highest),
            });
        }
        if code == Self::UNREACHABLE {
            let known = |byte: &u8| Obstacle::ALL.into_iter().find(|obstacle| *obstacle as u8 == *byte);
            // Callees of earlier versions send no obstacle.
            return Some(Self::Unreachable(detail.first().and_then(known).unwrap_or_default()));
        }
        Self::CODES.iter().find(|(_, known)| *known == code).map(|(refusal, _)| *refusal)
    }
}

/// Why a callee can't be reached, with its number on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Another obstacle, or an unknown one.
    #[default]
    Unknown = 0,
    /// No socket listens at the port.
    ConnectionRefused = 1,
    /// Nothing answered in time.
    TimedOut = 2,
    /// There is no route to the callee's host.
    NoRoute = 3,
    /// The callee closed the connection before it answered.
    HungUp = 4,
}

impl Obstacle {
    /// The obstacle of an attempt to connect.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::NoRoute,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Self::HungUp,
            _ => Self::Unknown,
        }
    }

    const ALL: [Self; 5] =
        [Self::Unknown, Self::ConnectionRefused, Self::TimedOut, Self::NoRoute, Self::HungUp];
}

impl fmt::Display for Obstacle {
    /// Continues [`Refusal::Unreachable`]'s message.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unknown => "",
            Self::ConnectionRefused => ": connection refused: nothing listens at the port",
            Self::TimedOut => {
                ": no answer in time: it hangs, packets don't reach it, or it speaks another protocol"
            }
            Self::NoRoute => ": no route to its host",
            Self::HungUp => ": it closed the connection before it answered, as servers of other protocols do",
        })
    }
}

/// Explains a value of RFC 5531's `auth_stat`, and what the caller can do.
fn auth_status(status: u32) -> String {
    match status {
        1 | 2 => format!("auth_stat {status}: it can't read them, or rejects them; give other credentials"),
        3 | 4 => format!("auth_stat {status}: it rejects the verifier"),
        5 => "AUTH_TOOWEAK: it requires AUTH_SYS, TLS, or a key".to_owned(),
        other => format!("auth_stat {other}"),
    }
}

/// Reasons why a call's outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// No answer before the deadline.
    #[error("no answer before the deadline")]
    TimedOut,
    /// The connection broke after the call was sent. Over UDP: the host repeatedly reported that no
    /// socket receives at the port.
    #[error("the connection broke after the call was sent")]
    ConnectionLost,
    /// The server restarted or forgot the session after the call was sent.
    #[error("the callee restarted or forgot the session after the call was sent")]
    SessionLost,
    /// Executed, but the callee no longer has the result.
    #[error("executed, but the callee no longer has the result")]
    AnswerEvicted,
    /// Enough other callees answered (`required`), so the caller stopped waiting for this one.
    #[error("the caller stopped waiting for the answer")]
    Abandoned,
    /// The answer doesn't follow the protocol.
    #[error("the answer doesn't follow the protocol")]
    BadAnswer,
    /// The answer is larger than the client accepts ([`crate::ClientOptions::payload_bytes`]).
    #[error("the result is larger than the client's limit for results")]
    AnswerTooLarge,
}

impl Doubt {
    const CODES: [(Self, u16); 7] = [
        (Self::TimedOut, 101),
        (Self::ConnectionLost, 102),
        (Self::SessionLost, 103),
        (Self::AnswerEvicted, 104),
        (Self::Abandoned, 105),
        (Self::BadAnswer, 106),
        (Self::AnswerTooLarge, 107),
    ];

    pub(crate) fn code(self) -> u16 {
        Self::CODES.iter().find(|(doubt, _)| *doubt == self).map_or(0, |(_, code)| *code)
    }

    pub(crate) fn from_code(code: u16) -> Option<Self> {
        Self::CODES.iter().find(|(_, known)| *known == code).map(|(doubt, _)| *doubt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_and_doubt_survives_the_wire() {
        let mismatch = Refusal::VersionMismatch { lowest: 2, highest: 7 };
        let unreachable = Obstacle::ALL.map(Refusal::Unreachable);
        let coded = Refusal::CODES.iter().map(|(refusal, _)| *refusal);
        for refusal in coded.chain([mismatch]).chain(unreachable) {
            let mut detail = Vec::new();
            let code = refusal.encode(&mut detail);
            assert_eq!(Refusal::decode(code, &detail), Some(refusal));
            assert_eq!(Doubt::from_code(code), None, "codes must not overlap");
        }
        for (doubt, _) in Doubt::CODES {
            assert_eq!(Doubt::from_code(doubt.code()), Some(doubt));
        }
        assert_eq!(Refusal::decode(Refusal::VERSION_MISMATCH, &[0; 7]), None);
        assert_eq!(Refusal::decode(0, &[]), None);
        for detail in [&[][..], &[200]] {
            let unknown = Some(Refusal::Unreachable(Obstacle::Unknown));
            assert_eq!(Refusal::decode(Refusal::UNREACHABLE, detail), unknown);
        }
    }

    #[test]
    fn faults_survive_the_wire_and_long_messages_are_cut() {
        for fault in [
            Fault::garbage_arguments("x"),
            Fault::system(""),
            Fault::application(70_000, "no space".repeat(1000)),
        ] {
            let mut bytes = Vec::new();
            fault.encode(&mut bytes);
            let back = Fault::decode(&bytes);
            assert_eq!(back.kind, fault.kind);
            assert!(fault.message.starts_with(&back.message));
            assert!(back.message.len() <= FAULT_MESSAGE_BYTES);
        }
        assert_eq!(Fault::decode(&[]).kind, FaultKind::System);
    }
}
