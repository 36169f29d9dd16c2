//! Counters of a namenode.

use super::Shared;
use std::sync::{Arc, PoisonError};
use strait_telemetry::{Kind, Page};

/// The counters of one namenode, readable at any time.
#[derive(Clone)]
pub struct NamenodeNumbers(pub(super) Arc<Shared>);

impl NamenodeNumbers {
    /// Writes the counters to a page of metrics.
    pub fn write(&self, page: &mut Page) {
        let Self(shared) = self;
        let of = [("role", "namenode")];
        shared.calls.write(page, &of);
        if let Some(audit) = &shared.audit {
            audit.write(page, &of);
        }
        let namenode = shared.read();
        let (safe_mode, state) = (namenode.in_safe_mode(), namenode.state());
        let (inodes, chunks) = (state.inodes.count() as u64, state.chunks.len() as u64);
        drop(namenode);
        let mut gauge = |name, help, value| page.number(name, Kind::Gauge, help, &[], value);
        gauge(
            "strait_kadoop_safe_mode",
            "1 in safe mode: the namenode waits for datanodes to report, or for an operator's decision about \
             lost records.",
            u64::from(safe_mode),
        );
        gauge("strait_kadoop_files_and_directories", "Files and directories.", inodes);
        gauge("strait_kadoop_chunks", "Chunks of all files.", chunks);
        let hosts = shared.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let now = shared.clock.now();
        let (alive, dead): (Vec<_>, Vec<_>) =
            hosts.iter().partition(|known| now.saturating_sub(known.heard) < shared.config.dead_ms);
        let capacity = alive.iter().map(|known| known.capacity_bytes).sum();
        let used = alive.iter().map(|known| known.used_bytes).sum();
        gauge("strait_kadoop_capacity_bytes", "Capacity of the datanodes that are alive.", capacity);
        gauge("strait_kadoop_used_bytes", "Used bytes of the datanodes that are alive.", used);
        for (state, nodes) in [("alive", alive.len()), ("dead", dead.len())] {
            let help = "Datanodes that have sent a heartbeat since the namenode started.";
            page.number("strait_kadoop_datanodes", Kind::Gauge, help, &[("state", state)], nodes as u64);
        }
    }
}
