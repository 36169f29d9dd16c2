//! How a command fails: one line on standard error, and an exit code.

use crate::messages::Messages;
use serde_json::{Value, json};
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use strait_store::{Error, ErrorKind, StorePath};

/// What doesn't fit the table of errors.
const OTHER: u8 = 1;
/// A command line that can't be what was meant.
const USAGE: u8 = 2;
/// Shells count an end by a signal so: this and the signal's number.
const BY_SIGNAL: u8 = 128;
/// The reader of our output has gone, as shells count SIGPIPE.
const CLOSED_PIPE: u8 = BY_SIGNAL + 13;

/// Why a command ends without success.
#[derive(Debug)]
pub enum Failure {
    /// An error of the table.
    Error(Error),
    /// A command line that can't be what was meant.
    Usage(String),
    /// Anything that no kind of error describes.
    Other(String),
    /// It has been told already; the exit code is left to be given.
    Told(u8),
    /// Everything ends here, with this exit code and without a word: after a
    /// signal, or when nobody reads our output any more.
    Ended(u8),
}

impl Failure {
    /// Anything that no kind of error describes.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    /// A command line that can't be what was meant.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// A failure of this kind, found on our side.
    pub fn at(
        kind: ErrorKind,
        operation: &'static str,
        path: impl fmt::Display,
        why: impl Into<String>,
    ) -> Self {
        Self::Error(Error::new(kind, why.into()).at(operation, path.to_string()))
    }

    /// Ended by the signal of this number.
    pub fn signalled(signal: u8) -> Self {
        Self::Ended(BY_SIGNAL + signal)
    }

    /// A store's error, told of the path that the user named and not of the one
    /// it happened on.
    pub fn naming(error: Error, operation: &'static str, path: &StorePath) -> Self {
        let retry_safe = error.retry_safe();
        let told = Error::new(error.kind(), error.message().to_owned()).at(operation, path);
        Self::Error(told.with_retry_safe(retry_safe).caused_by(error))
    }

    /// A failed operation on a file of this host.
    pub fn local(error: io::Error, operation: &'static str, path: &Path) -> Self {
        let text = error.to_string();
        // Without "(os error 2)", which says nothing beyond the kind.
        let message = text.split(" (os error").next().unwrap_or_default().to_owned();
        Self::at(Error::from(error).kind(), operation, path.display(), message)
    }

    /// A failed write to standard output.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Ended(CLOSED_PIPE),
            _ => Error::from(error).at("write to", "standard output").into(),
        }
    }

    /// What is to be said; none where there is nothing, or it has been said.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Error(error) => Some(error.to_string()),
            Self::Usage(message) | Self::Other(message) => Some(message.clone()),
            Self::Told(_) | Self::Ended(_) => None,
        }
    }

    /// As [`Failure::message`], for programs.
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

    /// For the shell.
    pub fn exit_code(&self) -> ExitCode {
        self.code().into()
    }

    fn code(&self) -> u8 {
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

/// Goes on after failed operands, as `hdfs dfs` does: each is told, and the
/// first decides the exit code.
#[derive(Debug)]
pub struct Tally {
    messages: Messages,
    first: Option<u8>,
}

impl Tally {
    /// Nothing has failed yet.
    pub fn new(messages: Messages) -> Self {
        Self { messages, first: None }
    }

    /// Counts one operand's result.
    ///
    /// # Errors
    /// A failure that ends everything.
    pub fn add(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(failure @ Failure::Ended(_)) => Err(failure),
            Err(failure) => {
                self.messages.tell(&failure);
                self.first.get_or_insert(failure.code());
                Ok(())
            }
        }
    }

    /// Whether any has failed.
    pub fn has_failed(&self) -> bool {
        self.first.is_some()
    }

    /// The result of all.
    pub fn finish(self) -> Result<(), Failure> {
        self.first.map_or(Ok(()), |code| Err(Failure::Told(code)))
    }
}
