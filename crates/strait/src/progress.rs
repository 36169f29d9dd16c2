//! A progress bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Redrawn so often while nothing moves, to show that it lives.
const TICK: Duration = Duration::from_millis(200);

/// A bar over the bytes of all files together, and how many files are done;
/// cheap to clone.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
    files: Arc<Files>,
}

#[derive(Default)]
struct Files {
    found: AtomicU64,
    done: AtomicU64,
    /// They were counted before, and aren't while they are found.
    counted: AtomicBool,
}

impl Progress {
    /// Over what is counted beforehand or, without that, as files are found.
    pub fn new(wanted: bool) -> Self {
        let files = Arc::default();
        if !wanted || !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden(), files };
        }
        let bar = ProgressBar::new(0);
        let template =
            "{bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} {prefix} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self { bar, files }
    }

    /// Whether anybody sees it; else there is nothing to count for.
    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// There will be so many files, of so many bytes together.
    pub fn expect(&self, files: u64, bytes: u64) {
        self.files.counted.store(true, Ordering::Relaxed);
        self.files.found.store(files, Ordering::Relaxed);
        self.bar.set_length(bytes);
        self.tell_files();
    }

    /// A file of this many bytes has been found.
    pub fn found(&self, name: &str, bytes: u64) {
        if !self.files.counted.load(Ordering::Relaxed) {
            self.files.found.fetch_add(1, Ordering::Relaxed);
            self.bar.inc_length(bytes);
        }
        self.bar.set_message(crate::format::escaped(name).into_owned());
        self.tell_files();
    }

    /// So many bytes more have been copied.
    pub fn copied(&self, bytes: usize) {
        self.bar.inc(bytes as u64);
    }

    /// A file is there.
    pub fn done(&self) {
        self.files.done.fetch_add(1, Ordering::Relaxed);
        self.tell_files();
    }

    fn tell_files(&self) {
        let (done, found) =
            (self.files.done.load(Ordering::Relaxed), self.files.found.load(Ordering::Relaxed));
        if found > 1 {
            self.bar.set_prefix(format!("{done}/{found} files"));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
