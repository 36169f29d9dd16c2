//! The audit log: a line for each operation, with its user and outcome, in a file.

use crate::calls::Shown;
use crate::{Kind, Page, RequestId, Seldom, misleads};
use chrono::{DateTime, Utc};
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The writer gathers lines for this time and writes them together. A crash of the process can lose
/// the lines that it has gathered.
const GATHER: Duration = Duration::from_millis(50);
/// Buffer of lines to be written. If it is full, callers wait, so a flood of requests can't displace
/// records. It holds half a second's lines at 50,000 operations a second.
const BUFFER_BYTES: usize = 4 << 20;
/// With this many buffered bytes, the writer writes at once, without waiting for `GATHER`.
const MUCH_BYTES: usize = BUFFER_BYTES / 4;

/// One operation. It must hold no keys, tokens or contents.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The user.
    pub user: &'a str,
    /// The client's host.
    pub from: IpAddr,
    /// The client's protocol.
    pub protocol: &'a str,
    /// The operation.
    pub operation: &'a str,
    /// Its file or directory.
    pub path: &'a str,
    /// A second path, such as a rename's target.
    pub target: Option<&'a str>,
    /// Whether the user had the permission for it.
    pub allowed: bool,
    /// The error, if it failed.
    pub error: Option<&'a str>,
}

/// An audit log. A dedicated thread appends the records to the file. If the file is renamed, as
/// logrotate does, the thread makes a new one in its place.
///
/// A line has the same keys as HDFS's audit log, separated by tabs, so tools for that log can read
/// this one. `callerContext` is the request's number. `error`, at the end, is an addition to HDFS's keys.
#[derive(Debug)]
pub struct AuditLog {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Wakes the writer: there is a first line, or [`MUCH_BYTES`] to write.
    news: Condvar,
    /// Wakes callers that wait for room.
    room: Condvar,
    lines: AtomicU64,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    text: Vec<u8>,
    lines: u64,
    /// The writer sleeps until there is a first line.
    idle: bool,
    ended: bool,
}

impl AuditLog {
    /// Opens this file to append. A new file is readable by its owner only.
    ///
    /// # Errors
    /// The file can't be opened for writing, or the thread can't be started.
    pub fn open(path: &Path) -> io::Result<Self> {
        let output = Output::open(path)?;
        let shared = Arc::new(Shared::default());
        let this = Arc::clone(&shared);
        let writer =
            std::thread::Builder::new().name("audit-log".to_owned()).spawn(move || this.write(output))?;
        Ok(Self { shared, writer: Some(writer) })
    }

    /// Adds a record, with the number of the request that this thread works for. Waits only if the
    /// disk can't keep up.
    pub fn note(&self, record: &Record<'_>) {
        thread_local! {
            static LINE: RefCell<(String, Clock)> = const { RefCell::new((String::new(), Clock::new())) };
        }
        LINE.with_borrow_mut(|(line, clock)| {
            line.clear();
            // Writing to a String never fails.
            let _ = clock.write(Utc::now(), line);
            let _ = record.write(line);
            self.shared.push(line.as_bytes());
        });
    }

    /// Adds two counts to the page: all records, and those that couldn't be written to the file.
    pub fn write(&self, page: &mut Page, of: &[(&str, &str)]) {
        let lines = self.shared.lines.load(Ordering::Relaxed);
        page.number("strait_audit_records_total", Kind::Counter, "Audit records.", of, lines);
        let lost = self.shared.lost.load(Ordering::Relaxed);
        let help = "Audit records that couldn't be written to their file.";
        page.number("strait_audit_lost_total", Kind::Counter, help, of, lost);
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.shared.waiting().ended = true;
        self.shared.news.notify_all();
        if let Some(writer) = self.writer.take() {
            // The thread itself doesn't panic, so there is nothing to report.
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        // A line longer than the buffer waits until the buffer is empty.
        while !waiting.text.is_empty() && waiting.text.len() + line.len() > BUFFER_BYTES {
            waiting = self.room.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let before = waiting.text.len();
        waiting.text.extend_from_slice(line);
        waiting.lines += 1;
        let much = before < MUCH_BYTES && waiting.text.len() >= MUCH_BYTES;
        let wake = std::mem::take(&mut waiting.idle) || much;
        drop(waiting);
        if wake {
            self.news.notify_one();
        }
    }

    fn write(&self, mut output: Output) {
        let failures = Seldom::new();
        let mut text = Vec::new();
        loop {
            let mut waiting = self.waiting();
            while waiting.text.is_empty() && !waiting.ended {
                waiting.idle = true;
                waiting = self.news.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            if waiting.text.is_empty() {
                return;
            }
            let little = |waiting: &mut Waiting| waiting.text.len() < MUCH_BYTES && !waiting.ended;
            waiting = self
                .news
                .wait_timeout_while(waiting, GATHER, little)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            let lines = std::mem::take(&mut waiting.lines);
            std::mem::swap(&mut text, &mut waiting.text);
            drop(waiting);
            self.room.notify_all();
            self.lines.fetch_add(lines, Ordering::Relaxed);
            if let Err(error) = output.append(&text) {
                self.lost.fetch_add(lines, Ordering::Relaxed);
                if let Some(left_out) = failures.may_write() {
                    let path = output.path.display();
                    tracing::error!(%path, %error, lines, left_out, "audit records are lost");
                }
            }
            text.clear();
        }
    }
}

impl Record<'_> {
    fn write(&self, to: &mut String) -> fmt::Result {
        let Self { user, from, protocol, operation, path, target, allowed, error } = *self;
        write!(to, "allowed={allowed}\tugi={}\tip=/{}\tcmd={operation}", Escaped(user), from.to_canonical())?;
        write!(to, "\tsrc={}\tdst={}\tperm=null", Escaped(path), Escaped(target.unwrap_or("null")))?;
        write!(to, "\tproto={protocol}\tcallerContext={}", Shown(RequestId::current()))?;
        writeln!(to, "\terror={}", Escaped(error.unwrap_or("null")))
    }
}

/// Escapes characters that would end a line or a field. Users choose these names, and could forge
/// records otherwise.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strange = |c: char| misleads(c) || c == '\\';
        if !self.0.contains(strange) {
            return f.write_str(self.0);
        }
        self.0
            .chars()
            .try_for_each(|c| if strange(c) { write!(f, "{}", c.escape_default()) } else { f.write_char(c) })
    }
}

/// Formats times. It keeps the text of the current second, since formatting that takes longer than the
/// rest of a record.
#[derive(Debug)]
struct Clock {
    second: i64,
    spelt: String,
}

impl Clock {
    const fn new() -> Self {
        Self { second: i64::MIN, spelt: String::new() }
    }

    fn write(&mut self, now: DateTime<Utc>, to: &mut String) -> fmt::Result {
        if self.second != now.timestamp() {
            self.second = now.timestamp();
            self.spelt = now.format("%Y-%m-%dT%H:%M:%S").to_string();
        }
        write!(to, "{}.{:03}Z\t", self.spelt, now.timestamp_subsec_millis())
    }
}

/// The file. `torn` is true after a failed write, which may have left an incomplete line.
#[derive(Debug)]
struct Output {
    path: PathBuf,
    file: File,
    torn: bool,
}

impl Output {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        Ok(Self { path: path.to_owned(), file, torn: false })
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let (here, there) = (self.file.metadata()?, self.path.metadata());
        if there.map_or(true, |there| (there.dev(), there.ino()) != (here.dev(), here.ino())) {
            *self = Self::open(&self.path)?;
        }
        if std::mem::replace(&mut self.torn, true) {
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(text)?;
        self.torn = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const RECORD: Record<'static> = Record {
        user: "ada",
        from: IpAddr::V4(Ipv4Addr::LOCALHOST),
        protocol: "rpc",
        operation: "rename",
        path: "/a",
        target: Some("/b"),
        allowed: false,
        error: Some("permission denied"),
    };

    #[test]
    fn a_record_has_the_fields_of_hdfs_and_the_requests_number() {
        let request = RequestId([0xab; 16]);
        let _entered = RequestId::enter(Some(request));
        let mut line = String::new();
        Clock::new().write(DateTime::from_timestamp_millis(1_700_000_000_007).unwrap(), &mut line).unwrap();
        RECORD.write(&mut line).unwrap();
        assert_eq!(
            line,
            "2023-11-14T22:13:20.007Z\tallowed=false\tugi=ada\tip=/127.0.0.1\tcmd=rename\tsrc=/a\tdst=/b\
             \tperm=null\tproto=rpc\tcallerContext=abababababababababababababababab\terror=permission denied\n"
        );
    }

    #[test]
    fn no_name_can_end_a_line_or_a_field() {
        let mut line = String::new();
        let path = "/x\nallowed=true\tugi=root\r\\\u{1b}[2J\u{2028}\u{202e}é";
        Record { path, ..RECORD }.write(&mut line).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(line.matches('\t').count(), 9);
        assert!(line.contains(r"src=/x\nallowed=true\tugi=root\r\\\u{1b}[2J\u{2028}\u{202e}é"), "{line}");
    }

    #[test]
    fn all_records_of_all_threads_are_in_the_file_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let log = AuditLog::open(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let log = &log;
                // More than the buffer holds: threads that are too fast wait.
                scope.spawn(move || {
                    let name = format!("/{thread}{}", "x".repeat(1_000));
                    (0..3_000).for_each(|_| log.note(&Record { path: &name, ..RECORD }));
                });
            }
        });
        let mut page = Page::default();
        log.write(&mut page, &[]);
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 12_000);
        assert!(text.lines().all(|line| line.matches('\t').count() == 10));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(page.to_string().contains("strait_audit_lost_total 0"), "{page}");
    }

    #[test]
    fn a_log_that_was_given_another_name_goes_on_under_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = (directory.path().join("audit.log"), directory.path().join("audit.log.1"));
        let mut output = Output::open(&path).unwrap();
        output.append(b"first\n").unwrap();
        std::fs::rename(&path, &old).unwrap();
        output.append(b"second\n").unwrap();
        assert_eq!(std::fs::read(&old).unwrap(), b"first\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"second\n");
    }

    #[test]
    fn what_a_full_disk_refuses_is_counted_and_holds_nobody_up() {
        let log = AuditLog::open(Path::new("/dev/full")).unwrap();
        (0..10).for_each(|_| log.note(&RECORD));
        let shared = Arc::clone(&log.shared);
        drop(log);
        assert_eq!(shared.lost.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn a_line_that_was_cut_short_spoils_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut output = Output::open(&path).unwrap();
        output.append(b"half of a li").unwrap();
        output.torn = true;
        output.append(b"whole\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"half of a li\nwhole\n");
    }
}
