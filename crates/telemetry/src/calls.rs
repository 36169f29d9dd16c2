//! The calls that a server answers: their number, their latencies, and the slow ones.

use crate::histogram::Histogram;
use crate::{Page, RequestId, Seldom};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Counts the calls of one server by operation, with 2 KiB of memory per operation.
#[derive(Debug)]
pub struct Calls {
    operations: Vec<(&'static str, Histogram)>,
    /// All calls of operations that aren't in `operations`, such as those that only newer callers know.
    others: Histogram,
    slow_from: Duration,
    slow: Seldom,
}

impl Calls {
    /// Counters for operations with these names, numbered by position. A call that takes `slow_from`
    /// or longer is slow.
    pub fn new(operations: &[&'static str], slow_from: Duration) -> Self {
        let operations = operations.iter().map(|name| (*name, Histogram::default())).collect();
        Self { operations, others: Histogram::default(), slow_from, slow: Seldom::new() }
    }

    /// Counts a call. Logs a slow call with the text of `about`, which is evaluated only then. If many
    /// calls are slow in the same second, the log omits some of them.
    pub fn note(
        &self,
        operation: usize,
        took: Duration,
        failed: bool,
        from: SocketAddr,
        about: impl FnOnce() -> String,
    ) {
        let (name, histogram) = match self.operations.get(operation) {
            Some((name, histogram)) => (*name, histogram),
            None => ("other", &self.others),
        };
        histogram.add(took, failed);
        if took >= self.slow_from
            && let Some(left_out) = self.slow.may_write()
        {
            let took_ms = took.as_millis();
            let (about, request) = (about(), Shown(RequestId::current()));
            tracing::warn!(operation = name, took_ms, %from, %about, %request, left_out, "slow call");
        }
    }

    /// Writes the counts of all operations that were called. `of` has labels, with their values,
    /// that identify the server.
    pub fn write(&self, page: &mut Page, of: &[(&str, &str)]) {
        let others = ("other", &self.others);
        for (name, histogram) in self.operations.iter().map(|(name, h)| (*name, h)).chain([others]) {
            let counts = histogram.counts();
            if counts.buckets.iter().any(|count| *count > 0) {
                page.calls(&[of, &[("operation", name)]].concat(), &counts);
            }
        }
    }
}

/// Shows a request's number, or `-` if there is none.
pub(crate) struct Shown(pub(crate) Option<RequestId>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(request) => request.fmt(f),
            None => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7);

    #[test]
    fn only_slow_calls_are_asked_what_they_were_about() {
        let calls = Calls::new(&["stat", "sync"], Duration::from_millis(300));
        calls.note(0, Duration::from_millis(299), false, FROM, || unreachable!("it wasn't slow"));
        let mut asked = 0;
        for _ in 0..100 {
            calls.note(1, Duration::from_millis(300), false, FROM, || {
                asked += 1;
                "/f".to_owned()
            });
        }
        assert_eq!(asked, 10, "and no more than a few in a second");
    }

    #[test]
    fn a_page_has_the_operations_that_were_asked_for_and_those_without_a_name_together() {
        let calls = Calls::new(&["stat", "sync"], Duration::MAX);
        calls.note(0, Duration::from_micros(3), true, FROM, String::new);
        calls.note(77, Duration::from_micros(3), false, FROM, String::new);
        calls.note(78, Duration::from_micros(3), false, FROM, String::new);
        let mut page = Page::default();
        calls.write(&mut page, &[("role", "namenode")]);
        let text = page.to_string();
        let has = |line: &str| assert!(text.lines().any(|there| there == line), "no {line} in\n{text}");
        has(r#"strait_call_seconds_count{role="namenode",operation="stat"} 1"#);
        has(r#"strait_call_seconds_count{role="namenode",operation="other"} 2"#);
        has(r#"strait_call_seconds_bucket{role="namenode",operation="stat",le="0.000002"} 0"#);
        has(r#"strait_call_seconds_bucket{role="namenode",operation="stat",le="0.000004"} 1"#);
        has(r#"strait_call_errors_total{role="namenode",operation="stat"} 1"#);
        assert!(!text.contains("sync"), "{text}");
    }
}
