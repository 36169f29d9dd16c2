//! A progress bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Interval between redraws while no bytes are copied, to show that the command is alive.
const TICK: Duration = Duration::from_millis(200);

/// A bar over the bytes of all files together, with the number of finished files. Cheap to clone.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
    files: Arc<Files>,
}

#[derive(Default)]
struct Files {
    found: AtomicU64,
    done: AtomicU64,
    /// [`Progress::expect`] gave the number of files, so files that are found don't add to it.
    counted: AtomicBool,
}

impl Progress {
    /// A bar, if it is `wanted` and standard error is a terminal; else a hidden one.
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

    /// Whether the bar is visible. If not, callers needn't count files.
    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Announces the number of files and their total bytes.
    pub fn expect(&self, files: u64, bytes: u64) {
        self.files.counted.store(true, Ordering::Relaxed);
        self.files.found.store(files, Ordering::Relaxed);
        self.bar.set_length(bytes);
        self.tell_files();
    }

    /// Records a found file and its bytes.
    pub fn found(&self, name: &str, bytes: u64) {
        if !self.files.counted.load(Ordering::Relaxed) {
            self.files.found.fetch_add(1, Ordering::Relaxed);
            self.bar.inc_length(bytes);
        }
        self.bar.set_message(crate::format::escaped(name).into_owned());
        self.tell_files();
    }

    /// Records further copied bytes.
    pub fn copied(&self, bytes: usize) {
        self.bar.inc(bytes as u64);
    }

    /// Records a finished file.
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

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
