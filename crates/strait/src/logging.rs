//! The log on standard error: one line per event, whatever text clients send.

use crate::format::escaped;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;

/// Begins to log events of this level or above.
pub fn to_stderr(level: LevelFilter) {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        // Reporting an internal error would panic if standard error is closed.
        .log_internal_errors(false)
        .with_target(false)
        .fmt_fields(fields())
        .init();
}

/// Writes each field of every event with its misleading characters escaped. Paths, names of users and
/// methods, and errors that quote them come from clients. A newline in one would forge a line of
/// the log, and an ESC would control the reader's terminal.
fn fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    let one = debug_fn(|writer, field, value| {
        let value = format!("{value:?}");
        match field.name() {
            "message" => write!(writer, "{}", escaped(&value)),
            name => write!(writer, "{name}={}", escaped(&value)),
        }
    });
    one.delimited(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_field_of_an_event_breaks_its_line_or_commands_a_terminal() {
        const EVIL: &str = "a\nFORGED\r\x1b[2J\u{9b}\u{202e}\u{2028}b";
        let written = Written::default();
        let into = written.clone();
        let log = tracing_subscriber::fmt().with_writer(move || into.clone()).fmt_fields(fields()).finish();
        tracing::subscriber::with_default(log, || {
            tracing::warn!(shown = %EVIL, debug = ?EVIL, plain = EVIL, "message {EVIL}");
            tracing::warn!(error = %io::Error::other(EVIL), count = 7, "second");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(lines.len(), 3, "two events and the end: {text:?}");
        assert!(!text.contains(|c: char| strait_telemetry::misleads(c) && c != '\n'), "{text:?}");
        assert!(lines[0].contains(r"message a\nFORGED\r\u{1b}[2J\u{9b}\u{202e}\u{2028}b"), "{text}");
        assert!(lines[0].contains(r"shown=a\nFORGED\r\u{1b}[2J\u{9b}\u{202e}\u{2028}b"), "{text}");
        assert!(lines[1].contains("count=7"), "{text}");
    }
}
