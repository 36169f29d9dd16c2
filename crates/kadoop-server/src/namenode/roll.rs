//! Writes log lines when a datanode joins, is declared dead or comes back.

use super::hosts::Known;
use std::collections::BTreeMap;
use strait_kadoop_core::{Millis, NodeId};
use strait_kadoop_wire::Host;

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
        all: impl Iterator<Item = &'k Known> + Clone,
        now: Millis,
        dead_ms: Millis,
        safe_mode: bool,
    ) {
        for known in all.clone() {
            let silent_ms = now.saturating_sub(known.heard);
            let (node, address) = (known.host.node.0, known.host.address);
            match self.note(known.host.node, silent_ms < dead_ms) {
                Some(News::Joined) => match earlier(all.clone(), &known.host) {
                    None => tracing::info!(node, %address, "a datanode has joined"),
                    Some(earlier) => tracing::warn!(
                        node,
                        %address,
                        earlier = earlier.0,
                        "a new datanode has joined at the address of an earlier one, which may have lost its \
                         directories; if so, decommission the earlier one"
                    ),
                },
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

/// Another datanode that had this one's address.
fn earlier<'k>(mut all: impl Iterator<Item = &'k Known>, host: &Host) -> Option<NodeId> {
    let other = all.find(|known| known.host.address == host.address && known.host.node != host.node);
    other.map(|known| known.host.node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use strait_kadoop_core::Identity;

    #[test]
    fn a_datanode_is_news_when_it_joins_dies_and_comes_back_and_not_between() {
        let mut roll = Roll::new(true);
        let told = [true, true, false, false, true, true].map(|alive| roll.note(NodeId(1), alive));
        assert_eq!(told, [Some(News::Joined), None, Some(News::Dead), None, Some(News::Back), None]);
        assert_eq!(roll.note(NodeId(2), true), Some(News::Joined));
    }
    #[test]
    fn a_datanode_that_had_the_address_before_is_found() {
        let known = |node, port| {
            let (identity, address) = (Identity(node), SocketAddr::from(([127, 0, 0, 1], port)));
            let (name, rack) = (String::new(), String::new());
            let host = Host { node: NodeId(node as u32), identity, address, name, rack };
            let calls_from = address.ip();
            Known { host, calls_from, capacity_bytes: 0, used_bytes: 0, heard: 0 }
        };
        let all = [known(1, 9_093), known(2, 9_094), known(3, 9_093)];
        let before = |at: usize| earlier(all.iter(), &all[at].host);
        assert_eq!([before(1), before(2)], [None, Some(NodeId(1))]);
    }
}
