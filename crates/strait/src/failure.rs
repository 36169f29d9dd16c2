//! A command's failures: one line on standard error, and an exit code.

use serde_json::{Value, json};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use strait_store::{Error, ErrorKind, StorePath};

/// Exit code of failures without a row in the table of errors.
const OTHER: u8 = 1;
/// Exit code of wrong command lines.
const USAGE: u8 = 2;
/// The exit code after a signal is this plus the signal's number, as in shells.
const BY_SIGNAL: u8 = 128;
/// Exit code if the reader of our output has closed it. Shells report the same after SIGPIPE.
const CLOSED_PIPE: u8 = BY_SIGNAL + 13;

/// The reason why a command ends without success.
#[derive(Debug)]
pub enum Failure {
    /// An error of a kind in the table of errors.
    Error(Error),
    /// A wrong command line.
    Usage(String),
    /// A failure that no kind of error describes.
    Other(String),
    /// A failure that was reported already; only its exit code is needed.
    Told(u8),
    /// Ends the command with this exit code and no message: after a signal, or after the reader of our output
    /// closed it.
    Ended(u8),
}

impl Failure {
    /// A failure that no kind of error describes.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    /// A wrong command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// A failure that the command itself detected, not a store.
    pub fn at(
        kind: ErrorKind,
        operation: &'static str,
        path: impl fmt::Display,
        why: impl Into<String>,
    ) -> Self {
        Self::Error(Error::new(kind, why.into()).at(operation, path.to_string()))
    }

    /// The failure of a command that this signal ended.
    pub fn signalled(signal: u8) -> Self {
        Self::Ended(BY_SIGNAL + signal)
    }

    /// A store's error, reported for the path that the user gave instead of the failed one.
    pub fn naming(error: Error, operation: &'static str, path: &StorePath) -> Self {
        let message = error.message().to_owned();
        Self::saying(message, error, operation, path)
    }

    /// As [`Failure::naming`], for an operation on a temporary file beside `path`. Replaces the temporary
    /// file's name in the store's message, too.
    pub fn of_temporary(
        error: Error,
        operation: &'static str,
        temporary: &StorePath,
        path: &StorePath,
    ) -> Self {
        let message = error.message().replace(temporary.name(), path.name());
        Self::saying(message, error, operation, path)
    }

    fn saying(message: String, error: Error, operation: &'static str, path: &StorePath) -> Self {
        let told = Error::new(error.kind(), message).at(operation, path);
        Self::Error(told.with_retry_safe(error.retry_safe()).caused_by(error))
    }

    /// A failed operation on a file of this host.
    pub fn local(error: io::Error, operation: &'static str, path: &Path) -> Self {
        let text = error.to_string();
        // Without "(os error 2)", which adds nothing to the text.
        let message = text.split(" (os error").next().unwrap_or_default().to_owned();
        Self::at(Error::from(error).kind(), operation, path.display(), message)
    }

    /// A server can't listen on `address`; the user can choose another address with `flag`.
    pub fn listening(error: io::Error, address: SocketAddr, flag: &str) -> Self {
        let (kind, why) = match error.kind() {
            io::ErrorKind::AddrInUse => (
                ErrorKind::Busy,
                format!(
                    "in use already; stop the program that uses it, or choose another address with {flag}"
                ),
            ),
            io::ErrorKind::AddrNotAvailable => {
                (ErrorKind::InvalidArgument, "this host has no such address".to_owned())
            }
            _ => (Error::from(io::Error::new(error.kind(), "")).kind(), error.to_string()),
        };
        Self::at(kind, "listen on", address, why)
    }

    /// A failed write to standard output.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Ended(CLOSED_PIPE),
            _ => Error::from(error).at("write to", "standard output").into(),
        }
    }

    /// The message; None if there is none, or if it was printed already.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Error(error) => Some(error.to_string()),
            Self::Usage(message) | Self::Other(message) => Some(message.clone()),
            Self::Told(_) | Self::Ended(_) => None,
        }
    }

    /// As [`Failure::message`], as JSON for programs.
    pub fn object(&self) -> Option<Value> {
        let mut object = match self {
            Self::Error(error) => json!({
                "error": error.kind().row().name,
                "message": error.message(),
                "retry_safe": error.retry_safe(),
            }),
            Self::Usage(message) => json!({"error": "Usage", "message": message, "retry_safe": false}),
            Self::Other(message) => json!({"error": "Other", "message": message, "retry_safe": false}),
            Self::Told(_) | Self::Ended(_) => return None,
        };
        object["exit_code"] = self.code().into();
        if let Self::Error(error) = self {
            for (name, value) in [("operation", error.operation()), ("path", error.path())] {
                if !value.is_empty() {
                    object[name] = value.into();
                }
            }
        }
        Some(object)
    }

    /// The exit code.
    pub fn exit_code(&self) -> ExitCode {
        self.code().into()
    }

    /// The exit code as a number.
    pub fn code(&self) -> u8 {
        match self {
            Self::Error(error) => error.kind().row().exit,
            Self::Usage(_) => USAGE,
            Self::Other(_) => OTHER,
            Self::Told(code) | Self::Ended(code) => *code,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
