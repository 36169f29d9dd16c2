//! The mount's errors in the form that programs get.

use strait_store::{Error, ErrorKind};
use strait_telemetry::seldom;

/// An error for the calling program: its errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault(pub i32);

/// The outcome of a request.
pub type Answer<T> = Result<T, Fault>;

impl Fault {
    /// Whether it is the errno of this kind of error.
    pub fn is(self, kind: ErrorKind) -> bool {
        self.0 == kind.row().errno
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::NotEmpty => {
                tracing::debug!(%error, "request refused");
            }
            ErrorKind::Internal
            | ErrorKind::Corrupt
            | ErrorKind::OutcomeUnknown
            | ErrorKind::Unavailable
            | ErrorKind::TimedOut => seldom!(warn, "{error}"),
            _ => seldom!(info, "{error}"),
        }
        Self(error.kind().row().errno)
    }
}
