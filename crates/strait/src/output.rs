//! Standard output, buffered; JSON as one object per line.

use crate::failure::Failure;
use crate::format::escaped;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::io::{BufWriter, IsTerminal, Stdout, Write, stdout};
use strait_store::{FileStatus, StorePath};

/// The cells of a line.
pub type Row<const N: usize> = [String; N];

/// The output of a command.
pub struct Output {
    out: BufWriter<Stdout>,
    json: bool,
    to_terminal: bool,
}

impl Output {
    /// Buffered standard output.
    pub fn new(json: bool) -> Self {
        let out = stdout();
        let to_terminal = out.is_terminal();
        Self { out: BufWriter::with_capacity(64 << 10, out), json, to_terminal }
    }

    /// Prints one line.
    pub fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(Failure::output)
    }

    /// Prints rows: on a terminal in columns, elsewhere with tabs between the cells, as cut(1)
    /// expects.
    pub fn table<const N: usize>(&mut self, rows: &[Row<N>]) -> Result<(), Failure> {
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; N] = match self.to_terminal {
            true => std::array::from_fn(width),
            false => [0; N],
        };
        let between = if self.to_terminal { "  " } else { "\t" };
        for row in rows {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            self.line(cells.join(between).trim_end())?;
        }
        Ok(())
    }

    /// A name for printing. On a terminal it has no control characters, which could manipulate the
    /// terminal; elsewhere it is unchanged, as with ls(1).
    pub fn name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.to_terminal { escaped(name) } else { name.into() }
    }

    /// Prints one JSON object on a line.
    pub fn object<const N: usize>(&mut self, fields: [(&str, Value); N]) -> Result<(), Failure> {
        let object: Map<String, Value> =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self.line(Value::Object(object))
    }

    /// With --json, prints an object about the change of `path`, with further fields. Without it, prints
    /// nothing.
    pub fn done<const N: usize>(
        &mut self,
        operation: &str,
        path: &StorePath,
        more: [(&str, Value); N],
    ) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        let mut object = Map::new();
        object.insert("operation".to_owned(), operation.into());
        object.insert("path".to_owned(), path.as_str().into());
        object.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self.line(Value::Object(object))?;
        // Flush at once, so that a program that reads the output sees the progress.
        self.out.flush().map_err(Failure::output)
    }

    /// Prints a file's status as JSON.
    pub fn status(&mut self, status: &FileStatus) -> Result<(), Failure> {
        self.object([
            ("path", status.path.as_str().into()),
            ("type", if status.is_directory() { "directory" } else { "file" }.into()),
            ("length", status.length.into()),
            ("block_size", status.block_size.into()),
            ("replication", status.replication.into()),
            ("modified_ms", status.modified_ms.into()),
            ("accessed_ms", status.accessed_ms.into()),
            ("permission", format!("{:04o}", status.permission).into()),
            ("owner", status.owner.as_str().into()),
            ("group", status.group.as_str().into()),
        ])
    }

    /// Flushes the buffer; call it at the end.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::output)
    }
}
