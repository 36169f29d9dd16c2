//! How a command fails: one line on standard error, and an exit code.

use std::io;
use std::process::ExitCode;
use strait_store::{Error, ErrorKind, StorePath};

/// What doesn't fit the table of errors.
const OTHER: u8 = 1;
/// A command line that can't be what was meant.
const USAGE: u8 = 2;
/// Interrupted by SIGINT, as shells count it: 128 and the signal's number.
const INTERRUPTED: u8 = 128 + 2;
/// The reader of our output has gone, as shells count SIGPIPE.
const CLOSED_PIPE: u8 = 128 + 13;

/// Why a command ends without success.
#[derive(Debug)]
pub struct Failure {
    /// None: there is nothing to say, or it has been said.
    message: Option<String>,
    code: u8,
}

impl Failure {
    /// Anything that no kind of error describes.
    pub fn other(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), code: OTHER }
    }

    /// A command line that can't be what was meant.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), code: USAGE }
    }

    /// A failure of this kind, in words of its own.
    pub fn of(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), code: kind.row().exit }
    }

    /// Ended by a signal.
    pub fn interrupted() -> Self {
        Self { message: None, code: INTERRUPTED }
    }

    /// A store's error, told of the path that the user named and not of the one
    /// it happened on.
    pub fn naming(error: Error, operation: &str, path: &StorePath) -> Self {
        Self::of(error.kind(), format!("{operation} {path}: {} ({})", error.message(), error.kind()))
    }

    /// A failed operation on a file of this host.
    pub fn local(error: io::Error, operation: &'static str, path: &std::path::Path) -> Self {
        Error::from(error).at(operation, path.to_string_lossy()).into()
    }

    /// A failed write to standard output.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { message: None, code: CLOSED_PIPE },
            _ => Error::from(error).at("write to", "standard output").into(),
        }
    }

    /// Whether the command is to stop at once, whatever else was asked.
    pub fn is_final(&self) -> bool {
        self.message.is_none()
    }

    /// Says it on standard error.
    pub fn print(&self) {
        if let Some(message) = &self.message {
            eprintln!("strait: {message}");
        }
    }

    /// For the shell.
    pub fn exit_code(&self) -> ExitCode {
        self.code.into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { code: error.kind().row().exit, message: Some(error.to_string()) }
    }
}

/// Goes on after failed operands, as `hdfs dfs` does: each is told, and the
/// first decides the exit code.
#[derive(Debug, Default)]
pub struct Tally {
    first: Option<u8>,
}

impl Tally {
    /// Counts one operand's result.
    ///
    /// # Errors
    /// A failure that ends everything.
    pub fn add(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(failure) if failure.is_final() => Err(failure),
            Err(failure) => {
                failure.print();
                self.first.get_or_insert(failure.code);
                Ok(())
            }
        }
    }

    /// The result of all.
    pub fn finish(self) -> Result<(), Failure> {
        match self.first {
            None => Ok(()),
            Some(code) => Err(Failure { message: None, code }),
        }
    }
}
