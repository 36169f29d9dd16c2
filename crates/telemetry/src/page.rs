//! Metrics for people and programs, in Prometheus' text format (version 0.0.4).

use crate::histogram::{BOUNDED, Counts};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

const CALLS: &str = "strait_call_seconds";
const ERRORS: &str = "strait_call_errors_total";

/// The meaning of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows, until the process ends.
    Counter,
    /// The present value.
    Gauge,
}

/// A page under construction. It keeps the lines of each metric together, whatever the order in which
/// they are added.
#[derive(Debug, Default)]
pub struct Page(BTreeMap<&'static str, Family>);

#[derive(Debug)]
struct Family {
    kind: &'static str,
    help: &'static str,
    lines: String,
}

impl Page {
    /// The content type of an HTTP answer.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Adds one value of the metric `name`.
    pub fn number(
        &mut self,
        name: &'static str,
        kind: Kind,
        help: &'static str,
        of: &[(&str, &str)],
        value: u64,
    ) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.line(name, kind, help, "", of, value);
    }

    /// Adds latencies and errors of one operation.
    pub(crate) fn calls(&mut self, of: &[(&str, &str)], counts: &Counts) {
        const HELP: &str = "Time that the answering server works on a call.";
        let mut line = |suffix, of: &[(&str, &str)], value: &dyn fmt::Display| {
            self.line(CALLS, "histogram", HELP, suffix, of, value);
        };
        let mut until = 0;
        for (power, count) in counts.buckets.iter().enumerate() {
            until += count;
            let bound = match power {
                BOUNDED.. => "+Inf".to_owned(),
                _ => seconds(1 << power),
            };
            line("_bucket", &[of, &[("le", &bound)]].concat(), &until);
        }
        line("_sum", of, &seconds(counts.sum_us));
        line("_count", of, &until);
        let help = "Calls that were refused, or failed.";
        self.number(ERRORS, Kind::Counter, help, of, counts.errors);
    }

    fn line(
        &mut self,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
        suffix: &str,
        of: &[(&str, &str)],
        value: impl fmt::Display,
    ) {
        let family = self.0.entry(name).or_insert_with(|| Family { kind, help, lines: String::new() });
        let labels: Vec<String> =
            of.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        // Writing to a String never fails.
        let _ = writeln!(family.lines, "{name}{suffix}{labels} {value}");
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, Family { kind, help, lines }) in &self.0 {
            write!(f, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}")?;
        }
        Ok(())
    }
}

/// Microseconds as seconds, exactly.
fn seconds(us: u64) -> String {
    let (whole, rest) = (us / 1_000_000, us % 1_000_000);
    let text = format!("{whole}.{rest:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_one_name_stay_together_below_what_they_mean() {
        let mut page = Page::default();
        let of = |server| [("server", server)];
        page.number("strait_b", Kind::Gauge, "Second.", &of("1"), 5);
        page.number("strait_a", Kind::Counter, "First.", &[], 1);
        page.number("strait_b", Kind::Gauge, "Second.", &of("a\"\\\nb"), 6);
        assert_eq!(
            page.to_string(),
            "# HELP strait_a First.\n# TYPE strait_a counter\nstrait_a 1\n\
             # HELP strait_b Second.\n# TYPE strait_b gauge\nstrait_b{server=\"1\"} 5\n\
             strait_b{server=\"a\\\"\\\\\\nb\"} 6\n"
        );
    }

    #[test]
    fn microseconds_are_told_in_seconds_without_loss() {
        for (us, expected) in [(0, "0"), (1, "0.000001"), (1_500_000, "1.5"), (64_000_000, "64")] {
            assert_eq!(seconds(us), expected);
        }
    }
}
