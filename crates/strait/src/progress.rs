//! A progress bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Redrawn so often while nothing moves, to show that it lives.
const TICK: Duration = Duration::from_millis(200);

/// A bar over the bytes of all files together; cheap to clone.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Over bytes that are counted as files are found.
    pub fn new(wanted: bool) -> Self {
        if !wanted || !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::new(0);
        let template = "{bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// A file of this many bytes has been found.
    pub fn found(&self, name: &str, bytes: u64) {
        self.bar.inc_length(bytes);
        self.bar.set_message(crate::format::escaped(name).into_owned());
    }

    /// So many bytes more have been copied.
    pub fn copied(&self, bytes: usize) {
        self.bar.inc(bytes as u64);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
