//! The failures of a command with many operands.

use crate::failure::Failure;
use crate::messages::Messages;

/// Continues after failed operands, as `hdfs dfs` does. It reports each failure, and the first one
/// decides the exit code.
#[derive(Debug)]
pub struct Tally {
    messages: Messages,
    first: Option<u8>,
}

impl Tally {
    /// Without failures so far.
    pub fn new(messages: Messages) -> Self {
        Self { messages, first: None }
    }

    /// Counts one operand's result.
    ///
    /// # Errors
    /// A failure that ends the command.
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

    /// The overall result.
    pub fn finish(self) -> Result<(), Failure> {
        self.first.map_or(Ok(()), |code| Err(Failure::Told(code)))
    }
}
