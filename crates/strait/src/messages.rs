//! Standard error: one line for people, or one JSON object for programs.

use crate::failure::Failure;
use crate::format::escaped;
use serde_json::json;

/// How to say what isn't output.
#[derive(Debug, Clone, Copy)]
pub struct Messages {
    /// As JSON.
    pub json: bool,
}

impl Messages {
    /// Says why something failed.
    pub fn tell(self, failure: &Failure) {
        match (self.json, failure.object(), failure.message()) {
            (true, Some(object), _) => eprintln!("{object}"),
            // A name in it may have control characters.
            (false, _, Some(message)) => eprintln!("strait: {}", escaped(&message)),
            _ => {}
        }
    }

    /// Says what should be known although nothing failed by it.
    pub fn warn(self, message: &str) {
        match self.json {
            true => eprintln!("{}", json!({"warning": message})),
            false => eprintln!("strait: {}", escaped(message)),
        }
    }
}
