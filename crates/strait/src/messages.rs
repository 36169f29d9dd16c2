//! Standard error: one line for people, or one JSON object for programs.

use crate::failure::Failure;
use crate::format::escaped;
use serde_json::json;
use std::io::Write as _;

/// Prints messages to standard error.
#[derive(Debug, Clone, Copy)]
pub struct Messages {
    /// Print JSON objects instead of text.
    pub json: bool,
}

/// Prints a line to standard error. Ignores an error, such as a full disk: the exit code still reports the
/// failure.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

impl Messages {
    /// Prints a failure.
    pub fn tell(self, failure: &Failure) {
        match (self.json, failure.object(), failure.message()) {
            (true, Some(object), _) => say(&object.to_string()),
            // A name in the message may have control characters.
            (false, _, Some(message)) => say(&format!("strait: {}", escaped(&message))),
            _ => {}
        }
    }

    /// Prints a warning, which isn't a failure.
    pub fn warn(self, message: &str) {
        match self.json {
            true => say(&json!({"warning": message}).to_string()),
            false => say(&format!("strait: {}", escaped(message))),
        }
    }
}
