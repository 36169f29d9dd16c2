//! Tests the limit on log lines that clients cause.

use crate::fault::Fault;
use crate::wire::N3Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use strait_store::{Error, ErrorKind};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Counts lines.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicU64>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_flood_of_refused_calls_is_logged_in_a_few_lines() {
    const CALLS: u64 = 1_000;
    let (lines, start) = (Lines::default(), std::time::Instant::now());
    tracing::subscriber::with_default(lines.clone(), || {
        for _ in 0..CALLS {
            assert_eq!(
                Fault::from(Error::new(ErrorKind::PermissionDenied, "not yours")),
                Fault(N3Status::Acces)
            );
        }
    });
    let most = 10 * (start.elapsed().as_secs() + 2);
    let written = lines.0.load(Ordering::Relaxed);
    assert!((1..=most).contains(&written), "{written} lines of {CALLS} calls");
}
