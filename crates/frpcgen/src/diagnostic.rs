//! Errors in a source file, and warnings, as people read them.

use crate::source::Sources;
use std::fmt;
use std::path::PathBuf;

/// Most errors told at once; later ones are mostly consequences.
pub(crate) const MAX_SHOWN: usize = 20;

/// Longest part of a line that is shown, in characters.
const MAX_LINE: usize = 200;

/// How much is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// There is no code.
    Error,
    /// There is, and something about it is hard on its users.
    Warning,
}

/// One error or warning, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Which of them.
    pub severity: Severity,
    /// The file.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// How much of the line is meant, in characters.
    pub length: usize,
    /// The line.
    pub source_line: String,
    /// What is wrong.
    pub message: String,
}

impl Diagnostic {
    /// Where, and what, without the line.
    pub(crate) fn head(&self) -> String {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        format!("{}:{}:{}: {severity}: {}", self.path.display(), self.line, self.column, self.message)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let column = self.column - 1;
        // A tab stays a tab, so that the caret stands where the text does.
        let line: String = self.source_line.chars().take(MAX_LINE).collect();
        let lead: String = line.chars().take(column).map(|c| if c == '\t' { c } else { ' ' }).collect();
        writeln!(f, "{}", self.head())?;
        writeln!(f, "{margin} | ")?;
        writeln!(f, "{number} | {line}")?;
        let room = line.chars().count().saturating_sub(column).max(1);
        write!(f, "{margin} | {lead}{}", "^".repeat(self.length.min(room)))
    }
}

/// All that is wrong with a source file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// The first of these, in the order of the source.
    pub(crate) fn in_order(sources: &Sources, mut errors: Vec<Diagnostic>) -> Self {
        let file = |error: &Diagnostic| sources.paths().position(|path| path == error.path);
        errors.sort_by_key(|error| (file(error), error.line, error.column));
        errors.truncate(MAX_SHOWN);
        Self(errors)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().take(MAX_SHOWN).enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}
