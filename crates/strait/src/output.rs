//! Standard output, buffered; JSON as one object a line.

use crate::failure::Failure;
use serde_json::{Map, Value};
use std::fmt;
use std::io::{BufWriter, Stdout, Write, stdout};
use strait_store::FileStatus;

/// What a command prints to.
pub struct Output {
    out: BufWriter<Stdout>,
}

impl Output {
    /// Nothing printed yet.
    pub fn new() -> Self {
        Self { out: BufWriter::with_capacity(64 << 10, stdout()) }
    }

    /// Prints one line.
    pub fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(Failure::output)
    }

    /// Prints one JSON object on a line.
    pub fn object<const N: usize>(&mut self, fields: [(&str, Value); N]) -> Result<(), Failure> {
        let object: Map<String, Value> =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self.line(Value::Object(object))
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

    /// Writes out what is buffered; to be called at the end.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::output)
    }
}
