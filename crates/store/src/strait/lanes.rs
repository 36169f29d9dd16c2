//! The connections of one session, side by side.
//!
//! A gateway executes what comes on one connection in its order, positional
//! reads excepted. So calls that don't depend on each other go on different
//! connections, which are opened as they are needed and all attached to the
//! same session: its handles are good on each. Who asks one thing at a time has
//! one connection.

use super::session::Attached;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Connections of one session. More calls than that at once take turns. As
/// many as each other client keeps.
const MAX_LANES: usize = 8;
/// After a further connection was refused (the gateway may have as many as it
/// may), none is asked for so long.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// A session's connections.
#[derive(Default)]
pub(super) struct Lanes {
    open: Vec<Attached>,
    /// How many are being opened.
    opening: usize,
    /// No further one is opened before this.
    not_before: Option<Instant>,
}

/// How a call shares its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It runs beside others: a read at an offset.
    Beside,
    /// It waits for those before it.
    InOrder,
}

/// A connection for a call.
pub(super) struct Lane {
    pub(super) attached: Attached,
    /// Others use it, and a further one may be opened: [`Lanes::opened`] is to
    /// be told how it went, and [`Lanes::opening_done`] in any case.
    pub(super) open_another: bool,
}

/// Calls and writers that use it now: each has a clone, beside the table's.
fn users(lane: &Attached) -> usize {
    Arc::strong_count(&lane.connection)
}

impl Lanes {
    /// The connection that is used least; none where all are lost.
    pub(super) fn pick(&mut self, turn: Turn) -> Option<Lane> {
        self.open.retain(|lane| lane.connection.is_alive());
        let least = self.open.iter().min_by_key(|lane| users(lane))?;
        let in_use = users(least) > 1;
        let attached = least.clone();
        let may_open = self.open.len() + self.opening < MAX_LANES
            && self.not_before.is_none_or(|instant| Instant::now() >= instant);
        let open_another = turn == Turn::InOrder && in_use && may_open;
        self.opening += usize::from(open_another);
        Some(Lane { attached, open_another })
    }

    /// The first connection, or the first again after all were lost.
    pub(super) fn start(&mut self, first: Attached) {
        self.open = vec![first];
        self.not_before = None;
    }

    /// What came of opening a further one.
    pub(super) fn opened(&mut self, further: Option<Attached>) {
        match further {
            None => self.not_before = Some(Instant::now() + REFUSED_PAUSE),
            // One that was asked for before all were lost is of no use to
            // others: its session may be gone.
            Some(lane) if self.open.iter().any(|other| other.is_beside(&lane)) => self.open.push(lane),
            Some(_) => {}
        }
    }

    /// Nobody opens it any more.
    pub(super) fn opening_done(&mut self) {
        self.opening = self.opening.saturating_sub(1);
    }

    /// Gives up the connections of a session that has ended, if they are still
    /// the ones in use.
    pub(super) fn give_up(&mut self, of: &Attached) {
        if self.open.iter().any(|lane| Arc::ptr_eq(&lane.connection, &of.connection)) {
            self.open.clear();
        }
    }

    /// Gives up all.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }
}
