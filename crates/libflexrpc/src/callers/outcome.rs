//! The outcomes of calls for C programs, with the numbers of `enum frpc_stat`.

use nix::libc::c_int;
use strait_flexrpc::{CallError, Doubt, FaultKind, Refusal};

const CANT_ENCODE_ARGS: c_int = 1;
const CANT_DECODE_RESULT: c_int = 2;
const TIMED_OUT: c_int = 5;
const AUTH_ERROR: c_int = 7;
const PROGRAM_UNAVAILABLE: c_int = 8;
const VERSION_MISMATCH: c_int = 9;
const PROCEDURE_UNAVAILABLE: c_int = 10;
const CANT_DECODE_ARGS: c_int = 11;
const SYSTEM_ERROR: c_int = 12;
/// A function got an invalid argument, or the handle was busy.
pub const FAILED: c_int = 16;
const APPLICATION: c_int = 101;
const NOT_EXECUTED: c_int = 102;
/// The call was perhaps executed.
pub const UNKNOWN: c_int = 103;

/// See flexrpc.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frpc_outcome {
    pub stat: c_int,
    code: u32,
    retry_safe: c_int,
    pub text: [u8; 256],
}

impl frpc_outcome {
    pub const SUCCESS: Self = Self { stat: 0, code: 0, retry_safe: 0, text: [0; 256] };

    pub(super) fn new(stat: c_int, retry_safe: bool, why: &str) -> Self {
        let mut made = Self { stat, retry_safe: retry_safe.into(), ..Self::SUCCESS };
        // The callee's text must not end early, start a new line in a log, or contain terminal commands.
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let end = why.floor_char_boundary(made.text.len() - 1);
        made.text[..end].copy_from_slice(&why.as_bytes()[..end]);
        made
    }

    /// Sets the outcome to success. Clears only the text's first byte, which ends the text: calls must be
    /// fast.
    pub fn succeed(&mut self) {
        (self.stat, self.code, self.retry_safe, self.text[0]) = (0, 0, 0, 0);
    }

    pub fn of(failure: &Failure) -> Self {
        let error = match failure {
            Failure::Arguments => {
                return Self::new(CANT_ENCODE_ARGS, true, "the arguments don't follow the interface");
            }
            Failure::Result => {
                let why = "executed, but the result doesn't follow the interface";
                return Self::new(CANT_DECODE_RESULT, false, why);
            }
            Failure::Call(error) => error,
        };
        let (stat, code) = match error {
            CallError::Fault(fault) => match fault.kind {
                FaultKind::GarbageArguments => (CANT_DECODE_ARGS, 0),
                FaultKind::System => (SYSTEM_ERROR, 0),
                FaultKind::Application(code) => (APPLICATION, code),
            },
            CallError::NotExecuted(refusal) => match refusal {
                Refusal::Unauthenticated | Refusal::RejectedCredentials(_) => (AUTH_ERROR, 0),
                Refusal::ProgramUnavailable => (PROGRAM_UNAVAILABLE, 0),
                Refusal::VersionMismatch { .. } => (VERSION_MISMATCH, 0),
                Refusal::ProcedureUnavailable => (PROCEDURE_UNAVAILABLE, 0),
                _ => (NOT_EXECUTED, 0),
            },
            CallError::Unknown(Doubt::TimedOut) => (TIMED_OUT, 0),
            CallError::Unknown(_) => (UNKNOWN, 0),
        };
        let option = option_about(error).map_or(String::new(), |option| format!("; see {option}"));
        Self { code, ..Self::new(stat, error.is_retry_safe(), &format!("{error}{option}")) }
    }
}

/// The option by which a C program can avoid this error.
fn option_about(error: &CallError) -> Option<&'static str> {
    match error {
        CallError::NotExecuted(Refusal::TooLarge) => Some("FRPC_SVC_SET_CALL_BYTES"),
        CallError::NotExecuted(Refusal::RejectedCredentials(_)) => Some("FRPC_SET_AUTH_SYS, FRPC_SET_TLS"),
        CallError::NotExecuted(Refusal::Unauthenticated) => Some("FRPC_SET_KEY"),
        CallError::NotExecuted(
            Refusal::TlsRequired | Refusal::TlsUnavailable | Refusal::Untrusted | Refusal::CertificateWanted,
        ) => Some("FRPC_SET_TLS"),
        CallError::Unknown(Doubt::AnswerTooLarge) => Some("FRPC_SET_RESULT_BYTES"),
        _ => None,
    }
}

/// The reason why a call has no result.
pub enum Failure {
    /// The arguments don't follow the interface.
    Arguments,
    /// The result doesn't follow the interface.
    Result,
    Call(CallError),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}
