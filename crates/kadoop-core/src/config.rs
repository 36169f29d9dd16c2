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
/// Most chunks of a file: 64 TiB in chunks of the usual size. A checkpoint stores a file's chunks in
/// one item, with at most 10 bytes each, and an item has to stay below 16 MiB.
pub const MAX_FILE_CHUNKS: usize = 1 << 20;
/// Most source files of one concat. One record of the log holds their names, and a record has at most
/// 16 MiB.
pub const MAX_SOURCES: usize = 1_000;
/// Most chunks of an open file without an end; a claimed end doesn't count. A writer has at most five. A
/// checkpoint stores them in one item.
pub const MAX_UNENDED_CHUNKS: usize = 64;
/// Most replicas of a file (HDFS: `dfs.replication.max`).
pub const MAX_REPLICATION: u16 = 512;
/// Most entries in one page of a listing (HDFS: `dfs.ls.limit`).
pub const MAX_LIST_ENTRIES: usize = 1_000;
/// Most requests of one client under way, and so most answers kept for it.
pub const MAX_REQUESTS_IN_FLIGHT: usize = 64;
/// Most clients whose answers the namenode keeps, at 100 bytes each. Beyond that, it evicts those
/// that have been silent longest and write no file.
pub const MAX_CLIENTS: usize = 65_536;
/// Most fences that a datanode keeps for chunks that it doesn't hold. Beyond that, the datanode draws
/// a new incarnation, which makes these fences unnecessary.
pub const MAX_FENCES: usize = 65_536;

/// Settings. The defaults are those of `docs/kadoop-protocol.md` and `docs/kadoop-internals.md`;
/// the simulation runs with small ones.
#[derive(Debug, Clone)]
pub struct Config {
    /// Number of bytes that one checksum covers.
    pub unit_bytes: u32,
    /// Most bytes of one write call, and of one read.
    pub write_bytes: u32,
    /// Most bytes of a reader's call, unless the program asks for more at once. Half of
    /// `write_bytes` stays in a core's cache from one copy to the next.
    pub read_bytes: u32,
    /// Most bytes of one replica that a datanode holds because they arrived out of order. So a writer
    /// has at most this many under way.
    pub hold_bytes: u32,
    /// Most bytes that a writer accepts from its program and buffers, besides those under way.
    pub stage_bytes: u32,
    /// How long a writer waits for more bytes before it sends a partly filled write.
    pub idle_ms: Millis,
    /// Most bytes that a reader has under way or holds, beyond the requested ones.
    pub ahead_bytes: u32,
    /// Number of calls under way at which a reader stops reading ahead. With eight calls, which begin
    /// and end together, a link of 1 Gbit/s was idle a tenth of the time. With six, two readers get
    /// 0.93 of such a link; with four, all of it.
    pub reads_at_once: usize,
    /// If a file's last chunk is shorter than this, an append copies it into its own first chunk.
    pub continue_below_bytes: u32,
    /// Smallest chunk size of a file: each chunk costs the namenode memory and time, however short
    /// (HDFS: `dfs.namenode.fs-limits.min-block-size`).
    pub min_chunk_bytes: u32,
    /// Most chunks of a file: [`MAX_FILE_CHUNKS`], or fewer in tests.
    pub max_file_chunks: usize,
    /// Most chunks of an open file without an end: [`MAX_UNENDED_CHUNKS`], or fewer in tests.
    pub max_unended_chunks: usize,
    /// Most replicas whose files a datanode keeps open: this many for writing, with two files each, and
    /// this many more for reading.
    pub open_replicas: usize,
    /// Most inodes of a removed tree that the namenode frees in one step. Requests wait during a step.
    pub sweep_inodes: u32,
    /// Most replicas of a full report that the namenode processes in one step. Requests wait during a
    /// step.
    pub report_replicas: usize,
    /// A chunk is durable once this number of replicas is on disk.
    pub min_replicas: usize,
    /// Interval between a datanode's heartbeats.
    pub heartbeat_ms: Millis,
    /// Silence of a datanode after which the namenode doesn't choose it, for example for a new chunk.
    pub stale_ms: Millis,
    /// Silence of a datanode after which its replicas don't count.
    pub dead_ms: Millis,
    /// Silence of a writer after which another writer may take the file.
    pub lease_soft_ms: Millis,
    /// Silence of a writer after which the namenode closes the file.
    pub lease_hard_ms: Millis,
    /// Silence of a writer after which the namenode closes a file that can't be read because every
    /// member of a pipeline has restarted or is dead.
    pub lease_lost_ms: Millis,
    /// How long recovery waits for a member that might have run unbroken. The time counts from the
    /// member's last heartbeat.
    pub recovery_patience_ms: Millis,
    /// How long recovery waits for the answer to an order before it begins a new round.
    pub recovery_round_ms: Millis,
    /// How long safe mode stays on after enough datanodes or chunks are reported.
    pub safe_mode_extra_ms: Millis,
    /// How long after safe mode the namenode keeps replicas of chunks that no file has.
    pub orphan_ms: Millis,
    /// How long a copy between datanodes may take.
    pub copy_ms: Millis,
    /// Most copies that a datanode makes at a time (HDFS: `dfs.namenode.replication.max-streams-hard-limit`).
    pub copies_per_node: usize,
    /// Most copies under order at a time from one datanode, and to one. More than a datanode makes at a
    /// time: further orders may have to wait for its next heartbeat, and it needs work until then.
    pub copies_ordered: usize,
    /// Interval between a datanode's full reports.
    pub report_ms: Millis,
    /// The time in which a datanode compares all its replicas with their checksums.
    pub scrub_ms: Millis,
    /// Most bytes a second that a datanode compares. If it holds too much for that, it needs longer
    /// than `scrub_ms`.
    pub scrub_bytes: u32,
    /// How long a write may take before its pipeline counts as broken.
    pub write_ms: Millis,
    /// How long a datanode may take to answer a probe.
    pub probe_ms: Millis,
    /// How long a datanode may take to put a chunk on disk, or to copy a short one.
    pub disk_ms: Millis,
    /// How long a read may take before the client asks the next replica.
    pub read_ms: Millis,
    /// Pause between a failure and the next attempt.
    pub retry_ms: Millis,
    /// How long a client retries without any progress.
    pub give_up_ms: Millis,
    /// How long a client retries without any progress if each attempt fails for lack of space. Longer
    /// than the longest pause between two attempts (3.2 s), so that each call makes an attempt.
    pub full_ms: Millis,
    /// Size of a log segment, which is preallocated. A start rewrites the last segment.
    pub segment_bytes: u64,
    /// Name of the group whose members may do anything.
    pub supergroup: String,
    /// User with all rights.
    pub superuser: String,
    /// Other users with all rights.
    pub admins: Vec<String>,
    /// Faults that a simulation plants.
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
            max_file_chunks: MAX_FILE_CHUNKS,
            max_unended_chunks: MAX_UNENDED_CHUNKS,
            open_replicas: 256,
            sweep_inodes: 1_000,
            report_replicas: 10_000,
            min_replicas: 1,
            heartbeat_ms: 1_000,
            stale_ms: 3_000,
            dead_ms: 10_000,
            lease_soft_ms: 60_000,
            lease_hard_ms: 300_000,
            lease_lost_ms: 4_000,
            recovery_patience_ms: 60_000,
            recovery_round_ms: 5_000,
            safe_mode_extra_ms: 10_000,
            orphan_ms: 60_000,
            copy_ms: 120_000,
            copies_per_node: 4,
            copies_ordered: 8,
            report_ms: 3_600_000,
            scrub_ms: 7 * 24 * 3_600_000,
            scrub_bytes: 8 << 20,
            write_ms: 2_000,
            probe_ms: 500,
            disk_ms: 10_000,
            read_ms: 2_000,
            retry_ms: 200,
            give_up_ms: 45_000,
            full_ms: 5_000,
            segment_bytes: 16 << 20,
            supergroup: "supergroup".to_owned(),
            superuser: "kadoop".to_owned(),
            admins: Vec::new(),
            faults: Faults::NONE,
        }
    }
}
