//! Sizes, times and limits that all parts of a cluster agree on.

use crate::{Millis, faults::Faults};

/// Longest path, in bytes (HDFS: `HdfsConstants.MAX_PATH_LENGTH`).
pub const MAX_PATH_BYTES: usize = 8_000;
/// Most components of a path (HDFS: `MAX_PATH_DEPTH`).
pub const MAX_PATH_DEPTH: usize = 1_000;
/// Longest single name, in bytes: NAME_MAX of Linux, and HDFS's default.
pub const MAX_NAME_BYTES: usize = 255;
/// Largest chunk, in bytes: lengths within a chunk are 32 bits on disk.
pub const MAX_CHUNK_BYTES: u32 = 1 << 31;
/// Most chunks of a file. They are one item of a checkpoint, of 10 bytes each at most, and an
/// item has to stay below 16 MiB; 64 TiB in chunks of the usual size.
pub const MAX_FILE_CHUNKS: usize = 1 << 20;
/// Chunks of an open file that have no durable end: a writer has five at most, and they are one
/// item of a checkpoint together.
pub const MAX_UNENDED_CHUNKS: usize = 64;
/// Most replicas of a file (HDFS: `dfs.replication.max`).
pub const MAX_REPLICATION: u16 = 512;
/// Most entries in one page of a listing (HDFS: `dfs.ls.limit`).
pub const MAX_LIST_ENTRIES: usize = 1_000;
/// Requests of one client that are under way at a time, and so answers that are
/// kept for it.
pub const MAX_REQUESTS_IN_FLIGHT: usize = 64;
/// Clients whose answers are kept; the one silent longest that has no file open gives way. 100 bytes
/// each.
pub const MAX_CLIENTS: usize = 65_536;
/// Fences of chunks that a datanode doesn't hold, kept at a time; beyond it a
/// datanode draws a new incarnation, which makes them unnecessary.
pub const MAX_FENCES: usize = 65_536;

/// What may be set. The defaults are those of `docs/kadoop-protocol.md` and
/// `docs/kadoop-internals.md`; the simulation runs with small ones.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bytes under one checksum.
    pub unit_bytes: u32,
    /// Bytes of one write call, and the most of a read.
    pub write_bytes: u32,
    /// Bytes that a reader asks for with one call, unless it is asked for more at once: half as
    /// many as `write_bytes` stay in a core's cache from one copy to the next.
    pub read_bytes: u32,
    /// Bytes that a datanode holds of writes that came before their turn.
    pub hold_bytes: u32,
    /// Bytes that a writer holds beyond those under way, and so accepts ahead.
    pub stage_bytes: u32,
    /// How long a writer waits for more before it sends what doesn't fill a write.
    pub idle_ms: Millis,
    /// Bytes that a reader has under way or holds beyond those it was asked for.
    pub ahead_bytes: u32,
    /// Calls that a reader has under way before it reads more ahead: with eight that begin and
    /// end together a link of 1 Gbit/s stood still a tenth of the time. With six two readers get
    /// 0.93 of such a link, with four all of it.
    pub reads_at_once: usize,
    /// An append continues a last chunk shorter than this by copying it.
    pub continue_below_bytes: u32,
    /// Files of smaller chunks aren't made: each chunk costs the namenode memory and time,
    /// however short (HDFS: `dfs.namenode.fs-limits.min-block-size`).
    pub min_chunk_bytes: u32,
    /// Durable replicas without which nothing counts as durable.
    pub min_replicas: usize,
    /// From one heartbeat of a datanode to the next.
    pub heartbeat_ms: Millis,
    /// Silence after which a datanode isn't chosen.
    pub stale_ms: Millis,
    /// Silence after which a datanode's replicas don't count.
    pub dead_ms: Millis,
    /// Silence of a writer after which another may have the file.
    pub lease_soft_ms: Millis,
    /// Silence of a writer after which the namenode closes the file.
    pub lease_hard_ms: Millis,
    /// How long recovery waits for a member that might have run unbroken, since it was last heard.
    pub recovery_patience_ms: Millis,
    /// How long recovery waits for an order's answer before it begins anew.
    pub recovery_round_ms: Millis,
    /// How long safe mode stays on after enough was reported.
    pub safe_mode_extra_ms: Millis,
    /// How long after safe mode chunks that no file has are left alone.
    pub orphan_ms: Millis,
    /// How long a copy between datanodes may take.
    pub copy_ms: Millis,
    /// Copies that one datanode takes part in at a time.
    pub copies_per_node: usize,
    /// From one full report of a datanode to the next.
    pub report_ms: Millis,
    /// How long a datanode takes to compare all its replicas with their checksums.
    pub scrub_ms: Millis,
    /// Bytes a second that a datanode compares at most, however much it holds.
    pub scrub_bytes: u32,
    /// How long a write may take before its pipeline counts as broken.
    pub write_ms: Millis,
    /// How long a datanode may take to say that it is there.
    pub probe_ms: Millis,
    /// How long a datanode may take to put a chunk on disk, or to copy a short one.
    pub disk_ms: Millis,
    /// How long a read may take before the next replica is asked.
    pub read_ms: Millis,
    /// From a failure to the next try of the same.
    pub retry_ms: Millis,
    /// How long a client goes on trying without any progress.
    pub give_up_ms: Millis,
    /// Bytes of a log segment, preallocated.
    pub segment_bytes: u64,
    /// The name of the group whose members may do anything.
    pub supergroup: String,
    /// The user who may do anything.
    pub superuser: String,
    /// Other users who may do anything.
    pub admins: Vec<String>,
    /// Planted faults, in a simulation.
    pub faults: Faults,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            unit_bytes: 4 << 10,
            write_bytes: 1 << 20,
            read_bytes: 512 << 10,
            hold_bytes: 4 << 20,
            stage_bytes: 4 << 20,
            idle_ms: 1_000,
            ahead_bytes: 8 << 20,
            reads_at_once: 4,
            continue_below_bytes: 4 << 20,
            min_chunk_bytes: 1 << 20,
            min_replicas: 1,
            heartbeat_ms: 1_000,
            stale_ms: 3_000,
            dead_ms: 10_000,
            lease_soft_ms: 60_000,
            lease_hard_ms: 300_000,
            recovery_patience_ms: 60_000,
            recovery_round_ms: 5_000,
            safe_mode_extra_ms: 10_000,
            orphan_ms: 60_000,
            copy_ms: 120_000,
            copies_per_node: 2,
            report_ms: 3_600_000,
            scrub_ms: 7 * 24 * 3_600_000,
            scrub_bytes: 8 << 20,
            write_ms: 2_000,
            probe_ms: 500,
            disk_ms: 10_000,
            read_ms: 2_000,
            retry_ms: 200,
            give_up_ms: 45_000,
            segment_bytes: 64 << 20,
            supergroup: "supergroup".to_owned(),
            superuser: "kadoop".to_owned(),
            admins: Vec::new(),
            faults: Faults::NONE,
        }
    }
}
