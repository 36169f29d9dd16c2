//! Hadoop's configuration files for a small, quick cluster.

use super::Options;
use crate::failure::Result;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The users for whom tests act, and their groups. Without this setting, the namenode would ask the operating
/// system, which doesn't know them.
const TEST_USERS: &str = "alice=staff;bob=staff;carol=guests";

/// The nameservice of two namenodes.
pub(super) const NAMESERVICE: &str = "minihdfs";

/// Ports of a namenode.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamenodePorts {
    pub rpc: u16,
    pub http: u16,
}

/// Settings that differ between clusters.
pub(super) struct Settings<'a> {
    /// The namenodes' address.
    pub address: Ipv4Addr,
    /// The ports of one namenode, or of the two of a nameservice.
    pub namenodes: &'a [NamenodePorts],
    pub user: &'a str,
    pub options: &'a Options,
}

/// Writes `conf` within `dir`, and the empty web applications that the daemons need to start.
pub(super) fn write(dir: &Path, settings: &Settings<'_>) -> Result<()> {
    let conf = dir.join("conf");
    for webapp in ["hdfs", "datanode"] {
        fs::create_dir_all(conf.join("webapps").join(webapp))?;
    }
    let Settings { address, namenodes, user, options } = settings;
    let proxy_hosts = format!("hadoop.proxyuser.{user}.hosts");
    let proxy_groups = format!("hadoop.proxyuser.{user}.groups");
    let groups = format!("{user}=supergroup;{TEST_USERS}");
    let uri = match namenodes {
        [one] => format!("hdfs://{address}:{}", one.rpc),
        _ => format!("hdfs://{NAMESERVICE}"),
    };
    let namenodes = namenode_properties(dir, settings);
    let core = [
        ("fs.defaultFS", uri.as_str()),
        (&proxy_hosts, "*"),
        (&proxy_groups, "*"),
        ("hadoop.user.group.static.mapping.overrides", &groups),
    ];
    let replication = options.replication.to_string();
    let hdfs = [
        ("dfs.replication", replication.as_str()),
        ("dfs.namenode.datanode.registration.ip-hostname-check", "false"),
        ("dfs.namenode.safemode.extension", "0"),
        // Small blocks, so that a small file can have many.
        ("dfs.namenode.fs-limits.min-block-size", "512"),
        // Short intervals (in seconds, milliseconds and seconds), so that the loss of a datanode and the
        // recovery fit in a test's time.
        ("dfs.heartbeat.interval", "1"),
        ("dfs.namenode.heartbeat.recheck-interval", "1000"),
        ("dfs.namenode.redundancy.interval.seconds", "1s"),
        // All datanodes share this machine, so their load doesn't differ.
        ("dfs.namenode.redundancy.considerLoad", "false"),
        // A test's data needn't survive a power cut.
        ("dfs.namenode.edits.noeditlogchannelflush", "true"),
        // Tests set and check access times.
        ("dfs.namenode.accesstime.precision", "1"),
    ];
    fs::write(conf.join("core-site.xml"), xml(&core))?;
    // If a property occurs twice, the later value counts.
    let namenodes: Vec<_> = namenodes.iter().map(|(name, value)| (&**name, &**value)).collect();
    let hdfs = [&namenodes[..], &hdfs, &options.properties].concat();
    fs::write(conf.join("hdfs-site.xml"), xml(&hdfs))?;
    fs::write(conf.join("log4j.properties"), LOGGING)?;
    Ok(())
}

/// The directory of a namenode's data.
pub(super) fn name_dir(dir: &Path, namenode: usize) -> PathBuf {
    dir.join(format!("name-{namenode}"))
}

/// The id of a namenode in its nameservice.
pub(super) fn namenode_id(namenode: usize) -> String {
    format!("nn{namenode}")
}

/// Arguments that tell a namenode which of the `namenodes` it is. It usually finds that out by its address,
/// but they share one.
pub(super) fn generic(namenodes: usize, namenode: usize) -> Vec<String> {
    match namenodes {
        1 => Vec::new(),
        _ => vec![format!("-Ddfs.ha.namenode.id={}", namenode_id(namenode))],
    }
}

fn namenode_properties(dir: &Path, settings: &Settings<'_>) -> Vec<(String, String)> {
    let Settings { address, namenodes, .. } = settings;
    let is_pair = namenodes.len() > 1;
    let mut properties = Vec::new();
    for (index, ports) in namenodes.iter().enumerate() {
        let suffix = if is_pair { format!(".{NAMESERVICE}.{}", namenode_id(index)) } else { String::new() };
        let mut add = |name: &str, value: String| properties.push((format!("{name}{suffix}"), value));
        add("dfs.namenode.name.dir", format!("file://{}", name_dir(dir, index).display()));
        add("dfs.namenode.rpc-address", format!("{address}:{}", ports.rpc));
        add("dfs.namenode.http-address", format!("{address}:{}", ports.http));
    }
    if is_pair {
        let ids: Vec<String> = (0..namenodes.len()).map(namenode_id).collect();
        let mut add = |name: &str, value: String| properties.push((name.to_owned(), value));
        add("dfs.nameservices", NAMESERVICE.to_owned());
        add(&format!("dfs.ha.namenodes.{NAMESERVICE}"), ids.join(","));
        add(&format!("dfs.client.failover.proxy.provider.{NAMESERVICE}"), PROXY_PROVIDER.to_owned());
        add("dfs.namenode.shared.edits.dir", format!("file://{}", dir.join("edits").display()));
        // The standby reads new edits every second.
        add("dfs.ha.tail-edits.period", "1s".to_owned());
        add("dfs.ha.fencing.methods", "shell(/bin/true)".to_owned());
    }
    properties
}

/// The way in which Java's clients find the active namenode.
const PROXY_PROVIDER: &str = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider";

const LOGGING: &str = "\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
";

fn xml(properties: &[(&str, &str)]) -> String {
    let mut text = String::from("<?xml version=\"1.0\"?>\n<configuration>\n");
    for (name, value) in properties {
        text.push_str(&format!("  <property><name>{name}</name><value>{value}</value></property>\n"));
    }
    text.push_str("</configuration>\n");
    text
}
