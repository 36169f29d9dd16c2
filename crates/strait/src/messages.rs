//! Standard error: one line for people, or one JSON object for programs.

use crate::failure::Failure;
use crate::format::escaped;
use serde_json::json;

/// Printer of messages other than output.
#[derive(Debug, Clone, Copy)]
pub struct Messages {
    /// As JSON.
    pub json: bool,
}

impl Messages {
    /// Prints a failure.
    pub fn tell(self, failure: &Failure) {
        match (self.json, failure.object(), failure.message()) {
            (true, Some(object), _) => eprintln!("{object}"),
            // A name in the message may have control characters.
            (false, _, Some(message)) => eprintln!("strait: {}", escaped(&message)),
            _ => {}
        }
    }

    /// Prints a warning, which isn't a failure.
    pub fn warn(self, message: &str) {
        match self.json {
            true => eprintln!("{}", json!({"warning": message})),
            false => eprintln!("strait: {}", escaped(message)),
        }
    }
}
