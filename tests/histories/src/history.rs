//! The record of operations and faults, one JSON object a line.

use crate::Outcome;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use strait_store::{Error, ErrorKind};

/// The writer of a history, shared by all clients.
pub struct History {
    begun: Instant,
    file: Mutex<BufWriter<File>>,
}

/// An operation of a client, or a fault.
#[derive(Serialize, Default)]
pub struct Line<'a> {
    /// The client.
    pub client: u64,
    /// The operation; `fault` for a fault.
    pub op: &'static str,
    /// The path, or what the fault strikes.
    pub path: &'a str,
    /// The new name, of a `move`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub to: &'a str,
    /// The number of the file that a `put` brings to the name: its length.
    pub id: u64,
    /// A `put` or `move` may replace a file.
    pub replace: bool,
    /// The file's length after the call: of a writer, with its accepted bytes.
    pub length: u64,
    /// A read found other bytes than were written there.
    pub damaged: bool,
    /// Microseconds from the beginning of the history to the call.
    pub called: u64,
    /// And to the answer.
    pub answered: u64,
    /// `ok`, a kind of error that tells what the store found, or `unknown`.
    pub outcome: &'static str,
    /// An unknown outcome's message.
    pub message: String,
}

impl<'a> Line<'a> {
    /// An operation that is called now.
    pub fn called(history: &History, client: u64, op: &'static str, path: &'a str) -> Self {
        Self { client, op, path, called: history.now(), ..Self::default() }
    }

    /// Records the answer, which comes now, and returns whether it is a success.
    pub fn answered<T>(mut self, history: &History, answer: &Result<T, Error>) -> bool {
        self.answered = history.now();
        self.outcome = match answer {
            Ok(_) => "ok",
            Err(error) if error.kind() == ErrorKind::NotFound => "NotFound",
            Err(error) if error.kind() == ErrorKind::AlreadyExists => "AlreadyExists",
            Err(error) => {
                self.message = error.to_string();
                "unknown"
            }
        };
        history.write(&self);
        answer.is_ok()
    }
}

/// Whether the error tells what the store found, so that nothing has changed.
pub fn is_told(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists)
}

impl History {
    /// Into a new file.
    pub fn create(file: &Path) -> Outcome<Self> {
        Ok(Self { begun: Instant::now(), file: BufWriter::new(File::create(file)?).into() })
    }

    /// Microseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    /// Adds a line.
    ///
    /// # Panics
    /// If the file can't be written: a history with gaps proves nothing.
    pub fn write(&self, line: &Line<'_>) {
        let mut text = serde_json::to_vec(line).expect("a line is plain data");
        text.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&text).expect("the history can be written");
    }

    /// Completes the file.
    pub fn finish(&self) -> Outcome<()> {
        Ok(self.file.lock().unwrap_or_else(PoisonError::into_inner).flush()?)
    }
}
