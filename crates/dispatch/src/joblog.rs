//! The log of jobs, in GNU parallel's format: a header, and a line for each job that ended.

use crate::split::Slice;
use std::collections::HashSet;
use std::fmt;

/// The first line of the log.
pub const HEADER: &str = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand";

/// A line of the log, about one job that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<'a> {
    /// The input's place in the order of inputs, from 1.
    pub sequence: usize,
    /// The host that ran the command.
    pub host: &'a str,
    /// Start time, in seconds since 1970.
    pub start: f64,
    /// Run time, in seconds.
    pub runtime: f64,
    /// Bytes of input that the command received.
    pub sent: u64,
    /// Bytes that the command wrote to its standard output.
    pub received: u64,
    /// Its exit code.
    pub exit: i32,
    /// The signal that ended it; 0 means none.
    pub signal: i32,
    /// The command and its input, as [`title`] writes them.
    pub command: &'a str,
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequence, host, start, runtime, sent, received, exit, signal, command } = self;
        write!(
            f,
            "{sequence}\t{host}\t{start:.3}\t{runtime:10.3}\t{sent}\t{received}\t{exit}\t{signal}\t{command}"
        )
    }
}

/// A job on one line: the command, the input's URI, and the byte range if the input is a part of the file.
/// Different jobs have different titles.
pub fn title(command: &[String], uri: &str, slice: Option<&Slice>) -> String {
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let part = slice.map_or_else(String::new, |slice| format!(" # bytes {}-{}", slice.start, slice.end));
    format!("{} < {}{part}", words.join(" "), quoted(uri))
}

/// Quotes a word for a POSIX shell, on one line. Control characters are escaped for bash (`$'…'`).
pub fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "%+,-./:=@_{}".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if word.chars().any(char::is_control) {
        let escaped: String = word.chars().flat_map(char::escape_default).collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The titles of the jobs that succeeded, according to this log. Lines that can't be parsed are ignored.
pub fn finished(log: &str) -> HashSet<&str> {
    // A last line without a newline may be incomplete.
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole.lines().filter_map(successful).collect()
}

fn successful(line: &str) -> Option<&str> {
    let fields: Vec<&str> = line.splitn(9, '\t').collect();
    let [_, _, _, _, _, _, "0", "0", command] = fields[..] else { return None };
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tells_what_succeeded() {
        let entry = Entry {
            sequence: 1,
            host: "a",
            start: 1.5,
            runtime: 0.25,
            sent: 3,
            received: 4,
            exit: 0,
            signal: 0,
            command: "md5sum < x",
        };
        let failed = Entry { exit: 1, command: "md5sum < y", ..entry.clone() };
        let killed = Entry { signal: 9, command: "md5sum < z", ..entry.clone() };
        assert_eq!(entry.to_string(), "1\ta\t1.500\t     0.250\t3\t4\t0\t0\tmd5sum < x");
        let torn = Entry { command: "md5sum < torn", ..entry.clone() };
        let log = format!("{HEADER}\n{entry}\n{failed}\nrubbish\n{killed}\n{torn}");
        assert_eq!(finished(&log), HashSet::from(["md5sum < x"]));
        assert!(finished("").is_empty());
    }

    #[test]
    fn titles_are_one_line_and_differ() {
        let title_of = |words: &[&str], uri| {
            title(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), uri, None)
        };
        assert_eq!(title_of(&["wc", "-l"], "file:///a"), "wc -l < file:///a");
        assert_eq!(title_of(&["wc -l", ""], "file:///it's"), r"'wc -l' '' < 'file:///it'\''s'");
        assert_eq!(title_of(&["a\nb"], "x"), r"$'a\nb' < x");
        assert_ne!(title_of(&["a", "b"], "x"), title_of(&["a b"], "x"));
        let slice = Slice { start: 10, end: 20, ..Slice::default() };
        assert_eq!(title(&["wc".to_owned()], "x", Some(&slice)), "wc < x # bytes 10-20");
    }
}
