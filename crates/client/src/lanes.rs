//! The connections of one session, side by side.
//!
//! A gateway executes the calls of one connection in order, except positional reads. So calls that
//! don't depend on each other use different connections. They are opened as needed and all attached
//! to the same session, whose handles are valid on each. A caller with one call at a time has one
//! connection.
//!
//! Answers arrive in the order of the calls, also those to calls that were given up, as after a seek. A
//! connection that owes such answers counts as used, and further calls take another.

use super::attached::Attached;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Most connections of one session, as in our other clients. Further concurrent calls share them.
const MAX_LANES: usize = 8;
/// If a further connection couldn't be opened, the session doesn't try again for this long. Perhaps the
/// gateway has reached its maximum of connections.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// A session's connections.
#[derive(Default)]
pub(super) struct Lanes {
    open: Vec<Attached>,
    /// Number of connections being opened.
    opening: usize,
    /// No further connection is opened before this.
    not_before: Option<Instant>,
}

/// The way in which a call shares its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The gateway runs it concurrently with other calls: a read at an offset. It takes a further connection
    /// only in place of one that owes answers to calls that were given up.
    Beside,
    /// The gateway runs it after the earlier calls on the connection.
    InOrder,
}

/// A connection for a call.
pub(super) struct Lane {
    pub(super) attached: Attached,
    /// Other calls use this connection, so the caller should open a further one. It reports the outcome
    /// to [`Lanes::opened`], and calls [`Lanes::opening_done`] in any case.
    pub(super) open_another: bool,
}

/// Number of references to the connection, one of [`Lanes`] and one of each call and writer that uses it now,
/// and of the answers that it owes to calls that were given up.
fn users(lane: &Attached) -> usize {
    Arc::strong_count(&lane.connection) + lane.connection.given_up()
}

impl Lanes {
    /// The least used connection; none if all are lost.
    pub(super) fn least_used(&mut self) -> Option<Attached> {
        self.open.retain(|lane| lane.connection.is_alive());
        self.open.iter().min_by_key(|lane| users(lane)).cloned()
    }

    /// The least used connection for a call; none if all are lost.
    pub(super) fn pick(&mut self, turn: Turn) -> Option<Lane> {
        let attached = self.least_used()?;
        let would_wait = match turn {
            Turn::Beside => attached.connection.given_up() > 0,
            // Besides the references of `Lanes` and of `attached`.
            Turn::InOrder => users(&attached) > 2,
        };
        let may_open = self.open.len() + self.opening < MAX_LANES
            && self.not_before.is_none_or(|instant| Instant::now() >= instant);
        let open_another = would_wait && may_open;
        self.opening += usize::from(open_another);
        Some(Lane { attached, open_another })
    }

    /// Records the first connection, or the new first one after all were lost.
    pub(super) fn start(&mut self, first: Attached) {
        self.open = vec![first];
        self.not_before = None;
    }

    /// Records the outcome of opening a further connection.
    pub(super) fn opened(&mut self, further: Option<Attached>) {
        match further {
            None => self.not_before = Some(Instant::now() + REFUSED_PAUSE),
            // If all connections were lost while this one was being opened, its session may be gone.
            // Then further calls must not use it.
            Some(lane) if self.open.iter().any(|other| other.is_beside(&lane)) => self.open.push(lane),
            Some(_) => {}
        }
    }

    /// Records that an attempt to open a further connection has ended.
    pub(super) fn opening_done(&mut self) {
        self.opening = self.opening.saturating_sub(1);
    }

    /// Drops all connections if `of` is one of them: their session has ended.
    pub(super) fn give_up(&mut self, of: &Attached) {
        if self.open.iter().any(|lane| Arc::ptr_eq(&lane.connection, &of.connection)) {
            self.open.clear();
        }
    }

    /// Drops all connections.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }
}
