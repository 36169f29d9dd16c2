//! Errors in the form in which they cross the wire, and the failures of calls.

use std::{fmt, net::SocketAddr};
use strait_flexrpc::{
    CallError, Fault, FaultKind, Refusal,
    stub::{ServiceError, StubError},
};
use strait_kadoop_core::error::Error;

/// Placeholder for an error's text. The text itself arrives as the fault's message.
const AS_TOLD: &str = "as the peer says";

/// The peer lacks the program, its version, or the procedure. So it has executed nothing.
pub const OTHER_VERSION: Error = Error::Internal("a peer of another version");
/// The peer can't decode the arguments. So it has executed nothing.
pub const NOT_UNDERSTOOD: Error = Error::Internal("a request that the peer doesn't understand");

/// The reason why a call to the cluster failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of error. Each kind except [`Error::OutcomeUnknown`] means that nothing was changed.
    pub error: Error,
    /// More detail as a text; can be empty.
    pub why: String,
}

impl Failure {
    /// A failure with more detail as a text.
    pub fn new(error: Error, why: impl Into<String>) -> Self {
        Self { error, why: why.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.error.to_string();
        match self.why.as_str() {
            "" => f.write_str(&said),
            // The peer's text already includes the kind's text.
            why if matches!(self.error, Error::Invalid(AS_TOLD) | Error::Limit(AS_TOLD)) => f.write_str(why),
            why if why == said => f.write_str(why),
            why => write!(f, "{said}: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, why: String::new() }
    }
}

/// The number of each kind in `idl/kadoop.x`. A kind's text arrives as the fault's message.
const NUMBERS: [(u32, Error); 29] = [
    (1, Error::NotFound),
    (2, Error::AlreadyExists),
    (3, Error::NotADirectory),
    (4, Error::IsADirectory),
    (5, Error::NotEmpty),
    (6, Error::PermissionDenied),
    (7, Error::Invalid(AS_TOLD)),
    (8, Error::Busy),
    (9, Error::LeaseLost),
    (10, Error::NoDatanodes),
    (11, Error::UnknownClient),
    (12, Error::NotRegistered),
    (13, Error::ForeignData),
    (14, Error::NoReplica),
    (15, Error::StaleStamp),
    (16, Error::WrongIncarnation),
    (17, Error::NotOpen),
    (18, Error::BeyondEnd),
    (19, Error::Corrupt),
    (20, Error::Disk),
    (21, Error::Limit(AS_TOLD)),
    (22, Error::Unavailable),
    (23, Error::Unauthenticated),
    (24, Error::TokenExpired),
    (25, Error::NoSpace),
    (26, Error::OutcomeUnknown),
    (27, Error::BytesLost),
    (28, Error::LogBehind),
    (29, Error::OtherHistory),
];

/// The error as a service's answer.
pub fn refuse(error: Error) -> ServiceError {
    ServiceError::Fault(match known(error) {
        Some(number) => Fault::application(number, error.to_string()),
        None => Fault::system(error.to_string()),
    })
}

/// As [`refuse`], with `why` as the detail.
pub fn refuse_for(error: Error, why: String) -> ServiceError {
    ServiceError::Fault(match known(error) {
        Some(number) => Fault::application(number, why),
        None => Fault::system(why),
    })
}

/// The error's number, for answers that carry no text. It is never 0.
pub fn number_of(error: Error) -> u32 {
    known(error).unwrap_or(u32::MAX)
}

/// The error with this number; Internal for a number that this version doesn't know.
pub fn kind_of(number: u32) -> Error {
    let known = NUMBERS.iter().find(|(known, _)| *known == number);
    known.map_or(Error::Internal("the peer refused the call with a code of a newer version"), |(_, error)| {
        *error
    })
}

fn known(error: Error) -> Option<u32> {
    // Earlier versions know only the one number, and the receiver knows who sent it.
    let error = if error == Error::DatanodeBusy { Error::Busy } else { error };
    let alike = |known: &Error| std::mem::discriminant(known) == std::mem::discriminant(&error);
    NUMBERS.iter().find(|(_, known)| alike(known)).map(|(number, _)| *number)
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The peer refused it.
    Refused(Failure),
    /// The peer never executed it: the caller can retry, at the same peer or another.
    NotExecuted(Failure),
    /// It is unknown whether the peer executed it.
    Unknown(String),
}

impl Lost {
    /// The failure for a caller that doesn't retry.
    pub fn into_failure(self) -> Failure {
        match self {
            Self::Refused(failure) | Self::NotExecuted(failure) => failure,
            Self::Unknown(why) => Failure::new(Error::OutcomeUnknown, why),
        }
    }

    /// The failure of a call to the datanode at `address`, for a caller that can ask another one.
    /// Unavailable if the datanode gave no answer.
    pub fn at_datanode(self, address: SocketAddr) -> Failure {
        match self {
            // An answer has only the error's number, and these kinds have no text of their own.
            Self::Refused(Failure {
                error: error @ (Error::Invalid(AS_TOLD) | Error::Limit(AS_TOLD)),
                ..
            }) => Failure::new(
                error,
                format!("datanode {address} refuses the call: invalid, or beyond a limit"),
            ),
            Self::Refused(failure) => failure,
            Self::NotExecuted(Failure { why, .. }) | Self::Unknown(why) => {
                Failure::new(Error::Unavailable, format!("datanode {address}: {why}"))
            }
        }
    }
}

impl From<StubError> for Lost {
    fn from(error: StubError) -> Self {
        match error {
            StubError::Arguments(why) => {
                Self::Refused(Failure::new(Error::Invalid("larger than a call carries"), why.to_string()))
            }
            StubError::Result(why) => {
                Self::Refused(Failure::new(Error::Internal("an answer of another version"), why.to_string()))
            }
            StubError::Call(error) => error.into(),
        }
    }
}

impl From<CallError> for Lost {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => match from_fault(fault) {
                Failure { error: Error::OutcomeUnknown, why } => Self::Unknown(why),
                failure => Self::Refused(failure),
            },
            // Don't treat these as NotExecuted: a retry would get the same refusal.
            CallError::NotExecuted(
                refusal @ (Refusal::Unauthenticated
                | Refusal::RejectedCredentials(_)
                | Refusal::TlsRequired
                | Refusal::TlsUnavailable
                | Refusal::Untrusted
                | Refusal::CertificateWanted),
            ) => Self::Refused(Failure::new(Error::Unauthenticated, refusal.to_string())),
            CallError::NotExecuted(
                refusal @ (Refusal::ProgramUnavailable
                | Refusal::VersionMismatch { .. }
                | Refusal::ProcedureUnavailable),
            ) => Self::Refused(Failure::new(OTHER_VERSION, refusal.to_string())),
            CallError::NotExecuted(refusal @ Refusal::TooLarge) => {
                Self::Refused(Failure::new(Error::Invalid("larger than a call carries"), refusal.to_string()))
            }
            CallError::NotExecuted(refusal) => {
                Self::NotExecuted(Failure::new(Error::Unavailable, refusal.to_string()))
            }
            CallError::Unknown(doubt) => Self::Unknown(doubt.to_string()),
        }
    }
}

fn from_fault(fault: Fault) -> Failure {
    let error = match fault.kind {
        FaultKind::Application(number) => kind_of(number),
        FaultKind::GarbageArguments => NOT_UNDERSTOOD,
        FaultKind::System => Error::Internal("the peer failed"),
    };
    Failure::new(error, fault.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_arrives_as_the_kind_that_it_was() {
        for (_, error) in NUMBERS {
            let ServiceError::Fault(fault) = refuse(error) else { panic!("{error} isn't a fault") };
            assert_eq!(from_fault(fault).error, error);
        }
        assert_eq!(number_of(Error::DatanodeBusy), number_of(Error::Busy));
        let newer = from_fault(Fault::application(4_000, "no such moon"));
        assert_eq!(newer.error, Error::Internal("the peer refused the call with a code of a newer version"));
        assert!(newer.to_string().contains("no such moon"));
    }

    #[test]
    fn only_a_peer_that_lacks_the_procedure_has_surely_executed_nothing() {
        let refused: Lost = CallError::NotExecuted(Refusal::ProcedureUnavailable).into();
        assert!(matches!(refused, Lost::Refused(Failure { error, .. }) if error == OTHER_VERSION));
        for fault in [Fault::system("it panicked".to_owned()), Fault::application(4_000, "newer".to_owned())]
        {
            assert!(![OTHER_VERSION, NOT_UNDERSTOOD].contains(&from_fault(fault).error));
        }
    }

    #[test]
    fn what_the_peer_says_is_said_once() {
        for error in [Error::Invalid("too small"), Error::Limit("names"), Error::NotFound] {
            let ServiceError::Fault(fault) = refuse(error) else { panic!("{error} isn't a fault") };
            assert_eq!(from_fault(fault).to_string(), error.to_string());
        }
    }

    #[test]
    fn a_datanodes_failure_names_the_datanode_and_the_reason() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let told = |lost: Lost| lost.at_datanode(address).to_string();
        let unreachable = CallError::NotExecuted(Refusal::NotSent).into();
        assert_eq!(told(unreachable), "not available: datanode 127.0.0.1:9: the call wasn't sent in full");
        let unproven = Lost::Unknown("not authenticated".to_owned());
        assert_eq!(told(unproven), "not available: datanode 127.0.0.1:9: not authenticated");
        let refused = |error| told(Lost::Refused(Failure::new(error, "at 127.0.0.1:9")));
        assert_eq!(refused(Error::NoSpace), "no space left: at 127.0.0.1:9");
        for number in [number_of(Error::Invalid("")), number_of(Error::Limit(""))] {
            let told = refused(kind_of(number));
            assert!(told.starts_with("datanode 127.0.0.1:9 refuses the call"), "{told}");
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_interface() {
        let idl = include_str!("../../../idl/kadoop.x");
        let body = idl.split_once("enum refusal {").and_then(|(_, rest)| rest.split_once('}')).unwrap().0;
        assert_eq!(body.matches("REFUSED_").count(), NUMBERS.len());
        for (number, error) in NUMBERS {
            let debug = format!("{error:?}");
            let name = debug.split('(').next().unwrap().to_lowercase();
            let line = body.lines().find(|line| line.trim_end_matches(',').ends_with(&format!("= {number}")));
            let written = line.unwrap().trim().trim_start_matches("REFUSED_").replace('_', "").to_lowercase();
            assert!(written.starts_with(&name), "{number}: {written} isn't {name}");
        }
    }
}
