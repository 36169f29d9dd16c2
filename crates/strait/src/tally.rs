//! The failures of a command with many operands.

use crate::failure::Failure;
use crate::messages::Messages;

/// Collects failures, so that a command continues after failed operands, as `hdfs dfs` does. It reports each
/// failure, and the first one decides the exit code.
#[derive(Debug)]
pub struct Tally {
    messages: Messages,
    /// The exit code of the first failure.
    first: Option<u8>,
    failures: usize,
}

impl Tally {
    /// A tally without failures.
    pub fn new(messages: Messages) -> Self {
        Self { messages, first: None, failures: 0 }
    }

    /// Counts one operand's result. Reports a failure and returns Ok, so that the command continues.
    ///
    /// # Errors
    /// The command must end: a signal came, or the reader of the output closed it.
    pub fn add(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(failure @ Failure::Ended(_)) => Err(failure),
            Err(failure) => {
                self.messages.tell(&failure);
                self.first.get_or_insert(failure.code());
                self.failures += 1;
                Ok(())
            }
        }
    }

    /// Whether any operand has failed.
    pub fn has_failed(&self) -> bool {
        self.first.is_some()
    }

    /// Number of operands that have failed.
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// Ok if no operand failed, else the exit code of the first failure.
    pub fn finish(self) -> Result<(), Failure> {
        self.first.map_or(Ok(()), |code| Err(Failure::Told(code)))
    }
}
