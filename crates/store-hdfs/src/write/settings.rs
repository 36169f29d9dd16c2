//! The settings of writers: Hadoop's own properties, and the cluster's defaults.

use super::super::config::HadoopConfig;
use super::super::retry::PATIENCE;
use super::super::wire::{ChecksumKind, ServerDefaults, crc_type};
use super::policy::{Policy, Replacement};
use std::time::Duration;
use strait_store::{ErrorKind, Result, fail};

/// `dfs.client.socket-timeout`, and its extension for each datanode of a pipeline
/// (`HdfsConstants.READ_TIMEOUT_EXTENSION`).
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const EXTENSION: Duration = Duration::from_secs(5);
/// `dfs.datanode.socket.write.timeout`
const WRITE_TIMEOUT: Duration = Duration::from_secs(480);
/// Replaces a timeout that is switched off.
const NO_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);
/// `dfs.client.datanode-restart.timeout`
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);
/// `dfs.client.block.write.retries`
const BLOCK_RETRIES: usize = 3;
/// `dfs.client.pipeline.recovery.max-retries`
const RECOVERY_RETRIES: usize = 5;
/// `dfs.client.write.exclude.nodes.cache.expiry.interval.millis`
const EXCLUSION: Duration = Duration::from_secs(600);
/// `dfs.client.mark.slownode.as.badnode.threshold`
const SLOW_ACKS: u32 = 10;
/// Limit of `dfs.bytes-per-checksum`. A packet has one chunk at least, and a datanode takes packets of up to
/// 16 MiB (`PacketReceiver.MAX_PACKET_SIZE`).
const MOST_CHUNK_BYTES: u32 = 1 << 20;

/// Settings of all writers of a store.
#[derive(Debug, Clone)]
pub struct Settings {
    pub replacement: Replacement,
    /// Further attempts to write a new block after the first failed.
    pub block_retries: usize,
    /// Most recoveries of a block in a row, without an acknowledgement between them.
    pub recovery_retries: usize,
    /// Time for which a datanode that failed gets no new block of the same file.
    pub exclusion: Duration,
    /// Longest wait of a writer until datanodes have reported a block to the namenode.
    pub report_patience: Duration,
    /// Number of slow acknowledgements in a row after which a datanode counts as failed. 0: never.
    pub slow_acks: u32,
    pub restart_timeout: Duration,
    pub checksum: ChecksumKind,
    pub replication: u32,
    pub block_size: u64,
    read_timeout: Duration,
    write_timeout: Duration,
}

impl Settings {
    /// The settings of `config`; else the defaults of the cluster or of Hadoop's own client.
    ///
    /// # Errors
    /// InvalidArgument for a value that Hadoop doesn't know.
    pub fn new(config: &HadoopConfig, defaults: &ServerDefaults) -> Result<Self> {
        let milliseconds = |name| config.number(name).map(|set| set.map(Duration::from_millis));
        let checksum = ChecksumKind {
            crc_type: checksum_type(config, defaults)?,
            bytes_per_crc: config.number("dfs.bytes-per-checksum")?.unwrap_or(defaults.bytes_per_checksum),
        };
        if !(1..=MOST_CHUNK_BYTES).contains(&checksum.bytes_per_crc) {
            let set = checksum.bytes_per_crc;
            let message = format!("dfs.bytes-per-checksum is {set}; it can be 1 to {MOST_CHUNK_BYTES}");
            return fail(ErrorKind::InvalidArgument, message);
        }
        let restart_timeout = config.duration("dfs.client.datanode-restart.timeout");
        Ok(Self {
            replacement: replacement(config)?,
            block_retries: config.number("dfs.client.block.write.retries")?.unwrap_or(BLOCK_RETRIES),
            recovery_retries: config
                .number("dfs.client.pipeline.recovery.max-retries")?
                .unwrap_or(RECOVERY_RETRIES),
            exclusion: milliseconds("dfs.client.write.exclude.nodes.cache.expiry.interval.millis")?
                .unwrap_or(EXCLUSION),
            report_patience: report_patience(config)?,
            slow_acks: config.number("dfs.client.mark.slownode.as.badnode.threshold")?.unwrap_or(SLOW_ACKS),
            restart_timeout: restart_timeout.unwrap_or(RESTART_TIMEOUT),
            checksum,
            replication: config.number("dfs.replication")?.unwrap_or(defaults.replication),
            block_size: config.bytes("dfs.blocksize").unwrap_or(defaults.block_size),
            read_timeout: milliseconds("dfs.client.socket-timeout")?.unwrap_or(READ_TIMEOUT),
            write_timeout: milliseconds("dfs.datanode.socket.write.timeout")?.unwrap_or(WRITE_TIMEOUT),
        })
    }

    /// Time limit for an answer from a pipeline of `datanodes`.
    pub fn read_timeout(&self, datanodes: usize) -> Duration {
        extended(self.read_timeout, datanodes)
    }

    /// Time limit for connecting to a pipeline's only datanode.
    pub fn connect_timeout(&self) -> Duration {
        extended(self.read_timeout, 0)
    }

    /// Time limit for a pipeline to accept a packet.
    pub fn write_timeout(&self, datanodes: usize) -> Duration {
        extended(self.write_timeout, datanodes)
    }

    /// Time without packets after which a heartbeat is sent.
    pub fn heartbeat(&self) -> Duration {
        match self.read_timeout {
            Duration::ZERO => READ_TIMEOUT / 2,
            limit => limit / 2,
        }
    }
}

/// A timeout of 0 means no timeout, as in `DFSClient.getDatanodeReadTimeout`.
fn extended(timeout: Duration, datanodes: usize) -> Duration {
    match timeout {
        Duration::ZERO => NO_TIMEOUT,
        limit => limit + EXTENSION * datanodes as u32,
    }
}

/// Java's defaults of `dfs.client.block.write.locateFollowingBlock.max.delay.ms`, `.initial.delay.ms` and `.retries`.
const MAX_REPORT_DELAY_MS: u32 = 60_000;
const FIRST_REPORT_DELAY_MS: u32 = 400;
const REPORT_RETRIES: u32 = 5;

/// The sum of the pauses of Java's client (`DFSOutputStream.completeFile`), or [`PATIENCE`] if that is longer.
fn report_patience(config: &HadoopConfig) -> Result<Duration> {
    let set = |rest| config.number::<u32>(&format!("dfs.client.block.write.locateFollowingBlock.{rest}"));
    let longest_ms = set("max.delay.ms")?.unwrap_or(MAX_REPORT_DELAY_MS);
    let mut pause_ms = set("initial.delay.ms")?.unwrap_or(FIRST_REPORT_DELAY_MS);
    let mut sum = Duration::ZERO;
    for _ in 0..set("retries")?.unwrap_or(REPORT_RETRIES) {
        sum += Duration::from_millis(pause_ms.into());
        if sum >= NO_TIMEOUT {
            break;
        }
        pause_ms = pause_ms.saturating_mul(2).min(longest_ms);
    }
    Ok(sum.max(PATIENCE))
}

fn checksum_type(config: &HadoopConfig, defaults: &ServerDefaults) -> Result<i32> {
    match config.get("dfs.checksum.type") {
        None => Ok(defaults.checksum_type.unwrap_or(crc_type::CRC32C)),
        Some("CRC32C") => Ok(crc_type::CRC32C),
        Some("CRC32") => Ok(crc_type::CRC32),
        Some("NULL") => Ok(crc_type::NULL),
        Some(other) => fail(
            ErrorKind::InvalidArgument,
            format!("dfs.checksum.type is {other:?}; it can be CRC32C, CRC32 or NULL"),
        ),
    }
}

fn replacement(config: &HadoopConfig) -> Result<Replacement> {
    let name = |rest: &str| format!("dfs.client.block.write.replace-datanode-on-failure.{rest}");
    let is = |rest, value: &str| config.get(&name(rest)).is_some_and(|set| set.eq_ignore_ascii_case(value));
    let policy = match config.get(&name("policy")).map(str::to_ascii_uppercase).as_deref() {
        _ if is("enable", "false") => Policy::Never,
        None | Some("DEFAULT") => Policy::Default,
        Some("NEVER") => Policy::Never,
        Some("ALWAYS") => Policy::Always,
        Some(other) => {
            let message = format!("{} is {other:?}; it can be DEFAULT, NEVER or ALWAYS", name("policy"));
            return fail(ErrorKind::InvalidArgument, message);
        }
    };
    let min_replication = config.number::<i32>(&name("min-replication"))?.unwrap_or(0).max(0) as usize;
    Ok(Replacement { policy, best_effort: is("best-effort", "true"), min_replication })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_0_is_no_timeout_as_in_hadoop() {
        let mut config = HadoopConfig::default();
        for name in ["dfs.client.socket-timeout", "dfs.datanode.socket.write.timeout"] {
            config.set(name, "0");
        }
        let defaults = ServerDefaults { bytes_per_checksum: 512, ..ServerDefaults::default() };
        let settings = Settings::new(&config, &defaults).unwrap();
        // Longer than any pause of a datanode.
        assert!(settings.read_timeout(3) > Duration::from_secs(3_600));
        assert!(settings.write_timeout(3) > Duration::from_secs(3_600));
        // Datanodes have a timeout of 60 s by default, and mustn't be flooded.
        assert_eq!(settings.heartbeat(), Duration::from_secs(30));
    }

    #[test]
    fn retries_and_waits_are_those_of_the_configuration() {
        let settings = |properties: &[(&str, &str)]| {
            let mut config = HadoopConfig::default();
            properties.iter().for_each(|(name, value)| config.set(*name, *value));
            let defaults = ServerDefaults { bytes_per_checksum: 512, ..ServerDefaults::default() };
            Settings::new(&config, &defaults).unwrap()
        };
        let javas = settings(&[]);
        assert_eq!((javas.recovery_retries, javas.exclusion), (5, Duration::from_secs(600)));
        // Java's 0.4, 0.8, 1.6, 3.2 and 6.4 s are shorter than the adapter's own.
        assert_eq!(javas.report_patience, PATIENCE);
        let set = settings(&[
            ("dfs.client.pipeline.recovery.max-retries", "9"),
            ("dfs.client.write.exclude.nodes.cache.expiry.interval.millis", "1000"),
            ("dfs.client.block.write.locateFollowingBlock.retries", "10"),
            ("dfs.client.block.write.locateFollowingBlock.max.delay.ms", "30000"),
        ]);
        assert_eq!((set.recovery_retries, set.exclusion), (9, Duration::from_secs(1)));
        // 0.4 · (1 + 2 + … + 64) s, and three times the longest.
        assert_eq!(set.report_patience, Duration::from_millis(400 * 127 + 3 * 30_000));
        let endless = [("dfs.client.block.write.locateFollowingBlock.retries", "4000000000")];
        assert!(settings(&endless).report_patience >= NO_TIMEOUT);
    }
}
