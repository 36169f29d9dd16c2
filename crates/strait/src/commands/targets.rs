//! Where the sources of one command go.

use crate::failure::Failure;
use std::collections::HashMap;
use std::fmt::Display;

/// Refuses two sources of one target: which of them stays would be chance.
pub struct Targets<'a> {
    operation: &'static str,
    sources: HashMap<String, &'a str>,
}

impl<'a> Targets<'a> {
    pub fn of(operation: &'static str) -> Self {
        Self { operation, sources: HashMap::new() }
    }

    /// # Errors
    /// A mistake of usage, if another source goes there.
    pub fn add(&mut self, source: &'a str, target: impl Display) -> Result<(), Failure> {
        let target = target.to_string();
        match self.sources.get(&target) {
            Some(other) => {
                let operation = self.operation;
                Err(Failure::usage(format!("{operation}: {other} and {source} would both become {target}")))
            }
            None => {
                self.sources.insert(target, source);
                Ok(())
            }
        }
    }
}
