//! Writes log lines when a datanode joins, is declared dead or comes back.

use super::hosts::Known;
use std::collections::BTreeMap;
use strait_kadoop_core::{Millis, NodeId};

/// The latest logged state of each datanode.
#[derive(Debug)]
pub(super) struct Roll {
    alive: BTreeMap<NodeId, bool>,
    safe_mode: bool,
}

/// A change of a datanode's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Joined,
    Dead,
    Back,
}

impl Roll {
    pub(super) fn new(safe_mode: bool) -> Self {
        Self { alive: BTreeMap::new(), safe_mode }
    }

    /// Logs what has changed since the last call.
    pub(super) fn call<'k>(
        &mut self,
        known: impl Iterator<Item = &'k Known>,
        now: Millis,
        dead_ms: Millis,
        safe_mode: bool,
    ) {
        for known in known {
            let silent_ms = now.saturating_sub(known.heard);
            let (node, address) = (known.host.node.0, known.host.address);
            match self.note(known.host.node, silent_ms < dead_ms) {
                Some(News::Joined) => tracing::info!(node, %address, "a datanode has joined"),
                Some(News::Dead) => {
                    tracing::info!(node, %address, silent_ms, "declared a datanode dead");
                }
                Some(News::Back) => tracing::info!(node, %address, "a datanode is back"),
                None => {}
            }
        }
        if std::mem::replace(&mut self.safe_mode, safe_mode) && !safe_mode {
            tracing::info!("safe mode has ended");
        }
    }

    fn note(&mut self, node: NodeId, alive: bool) -> Option<News> {
        match (self.alive.insert(node, alive), alive) {
            (None, true) => Some(News::Joined),
            (Some(false), true) => Some(News::Back),
            (None | Some(true), false) => Some(News::Dead),
            (Some(false), false) | (Some(true), true) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datanode_is_news_when_it_joins_dies_and_comes_back_and_not_between() {
        let mut roll = Roll::new(true);
        let told = [true, true, false, false, true, true].map(|alive| roll.note(NodeId(1), alive));
        assert_eq!(told, [Some(News::Joined), None, Some(News::Dead), None, Some(News::Back), None]);
        assert_eq!(roll.note(NodeId(2), true), Some(News::Joined));
    }
}
