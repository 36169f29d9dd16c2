//! Errors and warnings about a source file, with their texts for people.

use std::fmt;
use std::path::PathBuf;

/// Most errors that are shown at once. Later ones are mostly consequences of the first.
pub(crate) const MAX_SHOWN: usize = 20;

/// Longest part of a line that is shown, in characters.
const MAX_LINE: usize = 200;

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The source yields no code.
    Error,
    /// The source yields code, but something in it can surprise its users.
    Warning,
}

/// One error or warning, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The source file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Length of the marked part of the line, in characters.
    pub length: usize,
    /// The text of the line.
    pub source_line: String,
    /// Description of the problem.
    pub message: String,
}

impl Diagnostic {
    /// The place and the message, without the line's text.
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
        // A tab stays a tab, so that the caret stands below the text.
        let line: String = self.source_line.chars().take(MAX_LINE).collect();
        let lead: String = line.chars().take(column).map(|c| if c == '\t' { c } else { ' ' }).collect();
        writeln!(f, "{}", self.head())?;
        writeln!(f, "{margin} | ")?;
        writeln!(f, "{number} | {line}")?;
        let room = line.chars().count().saturating_sub(column).max(1);
        write!(f, "{margin} | {lead}{}", "^".repeat(self.length.min(room)))
    }
}

/// All errors in a source file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

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
