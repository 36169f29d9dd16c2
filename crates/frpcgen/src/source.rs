//! The source files that were read, and positions in them.

use crate::MAX_FILE_BYTES;
use crate::diagnostic::{Diagnostic, Diagnostics, MAX_SHOWN, Severity};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A range of bytes in a line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub file: usize,
    /// From 0.
    pub line: usize,
    /// In bytes, from 0.
    pub column: usize,
    pub length: usize,
}

/// The files read so far; a span's `file` is an index into them.
#[derive(Debug, Default)]
pub struct Sources {
    files: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    path: PathBuf,
    text: String,
    /// Offset of each line's start, since errors and directives often look up lines.
    line_starts: Vec<usize>,
}

impl Sources {
    pub fn add(&mut self, path: PathBuf, text: String) -> usize {
        let line_starts = [0].into_iter().chain(text.match_indices('\n').map(|(end, _)| end + 1)).collect();
        self.files.push(Source { path, text, line_starts });
        self.files.len() - 1
    }

    pub fn text(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |source| &source.text)
    }

    /// The line at a position, without its end.
    pub fn line(&self, span: Span) -> &str {
        let start = self.files.get(span.file).and_then(|source| source.line_starts.get(span.line));
        let rest = start.and_then(|start| self.text(span.file).get(*start..)).unwrap_or_default();
        rest.lines().next().unwrap_or_default()
    }

    pub fn path(&self, file: usize) -> &Path {
        self.files.get(file).map_or(Path::new(""), |source| &source.path)
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|source| source.path.as_path())
    }

    pub fn error(&self, span: Span, message: impl Into<String>) -> Diagnostic {
        let line = self.line(span);
        Diagnostic {
            severity: Severity::Error,
            path: self.path(span.file).to_path_buf(),
            line: span.line + 1,
            column: line.get(..span.column).map_or(span.column, |before| before.chars().count()) + 1,
            length: span.length.max(1),
            source_line: line.to_owned(),
            message: message.into(),
        }
    }

    /// The first errors, in the order of the source.
    pub fn in_order(&self, mut errors: Vec<Diagnostic>) -> Diagnostics {
        let file = |error: &Diagnostic| self.paths().position(|path| path == error.path);
        errors.sort_by_key(|error| (file(error), error.line, error.column));
        errors.truncate(MAX_SHOWN);
        Diagnostics(errors)
    }

    pub fn warning(&self, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..self.error(span, message) }
    }
}

/// Reads a file's text.
pub fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    check_size(bytes.len())?;
    // Comments in Latin-1 are common in old files, and only comments can contain it.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

pub fn check_size(bytes: usize) -> Result<(), String> {
    if bytes > MAX_FILE_BYTES {
        return Err(format!("the file is larger than {MAX_FILE_BYTES} bytes"));
    }
    Ok(())
}
