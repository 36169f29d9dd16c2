//! The settings of writers: Hadoop's own properties, and the cluster's defaults.

use super::super::config::HadoopConfig;
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
/// In place of none.
const NO_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);
/// `dfs.client.datanode-restart.timeout`
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);
/// `dfs.client.block.write.retries`
const BLOCK_RETRIES: usize = 3;
/// `dfs.client.mark.slownode.as.badnode.threshold`
const SLOW_ACKS: u32 = 10;

/// Settings of all writers of a store.
#[derive(Debug, Clone)]
pub struct Settings {
    pub replacement: Replacement,
    /// Further tries of a new block after the first failed.
    pub block_retries: usize,
    /// Acknowledgements in a row after which a slow datanode counts as failed; 0: never.
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
        if !(1..=1 << 20).contains(&checksum.bytes_per_crc) {
            return fail(ErrorKind::InvalidArgument, "dfs.bytes-per-checksum is out of range");
        }
        let restart_timeout = config.duration("dfs.client.datanode-restart.timeout");
        Ok(Self {
            replacement: replacement(config)?,
            block_retries: config.number("dfs.client.block.write.retries")?.unwrap_or(BLOCK_RETRIES),
            slow_acks: config.number("dfs.client.mark.slownode.as.badnode.threshold")?.unwrap_or(SLOW_ACKS),
            restart_timeout: restart_timeout.unwrap_or(RESTART_TIMEOUT),
            checksum,
            replication: config.number("dfs.replication")?.unwrap_or(defaults.replication),
            block_size: config.bytes("dfs.blocksize").unwrap_or(defaults.block_size),
            read_timeout: milliseconds("dfs.client.socket-timeout")?.unwrap_or(READ_TIMEOUT),
            write_timeout: milliseconds("dfs.datanode.socket.write.timeout")?.unwrap_or(WRITE_TIMEOUT),
        })
    }

    /// Time in which a pipeline of `datanodes` has to answer.
    pub fn read_timeout(&self, datanodes: usize) -> Duration {
        extended(self.read_timeout, datanodes)
    }

    /// Time in which a pipeline has to accept a packet.
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

/// A timeout of 0 is none, as in `DFSClient.getDatanodeReadTimeout`.
fn extended(timeout: Duration, datanodes: usize) -> Duration {
    match timeout {
        Duration::ZERO => NO_TIMEOUT,
        limit => limit + EXTENSION * datanodes as u32,
    }
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
}
